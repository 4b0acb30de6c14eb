"""The story of a failing run: what broke, which records, under which leader, next to which fault, what now.

It is about the most severe class with a forbidden finding. Its findings are grouped: those of one partition
whose records were acknowledged one after the other under one leader are one range.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.report import causes, headlines, near_faults, next_steps, wording
from harness.report.causes import Cause
from harness.report.drawing import around
from harness.report.drawing.strips import Drawing
from harness.report.evidence import group_offsets
from harness.report.evidence.side_by_side import LogsSideBySide
from harness.report.inputs import Inputs
from harness.report.near_faults import NearFault
from harness.report.next_steps import Bug
from harness.report.records import STUCK, Records, leaders_of, ranges_of
from harness.report.timeline.numbers import Timeline
from harness.report.traces import Traces, of_finding
from history.verdict import Anomaly, Example, Fault, Verdict

EVIDENCE = (
    *("zombie-write", "unclean-election", "torn-decision", "lost-decision", "replica-divergence"),
    *("model-violation", "damaged-log", "hanging-partition"),
)
"""Classes whose findings say what a broker did; the first is quoted first."""
FOLLOWS_LOSS = frozenset(
    {"inconsistent-offsets", "offset-reuse", "offset-realtime-inversion", "nonmonotonic-send"}
)
"""Classes that a cut log brings with it: it gives the offsets of lost records to later ones."""
RANGES_MAX = 4
FAULTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """A finding of another class about the same op, or the same partition, in its own words. It claims no
    cause. link: to its class."""

    name: str
    same: str
    example: Example
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What the first screen says. place: of the example; link: to its class. ranges_more, records_more: how
    many ranges are not listed, and their records. partial: ranges are those that examples name, not those of
    all findings. in_logs: findings in brokers' logs that the headline does not count. not_kept: findings
    that the checker counted, and ranges do not have. epoch: of the example's reads, where all have one.
    side: logs side by side, where they differ. seen_with: what is quoted beside it. first_step, steps: (what
    for, command). follows: classes that the loss brought with it: name, findings, link. paths: (what, path).
    counted: what ranges count. many: findings of the headline; about: how many records all of them name, 0 =
    not known. others: further transactions, where the records are those of the first. first_fault: when the
    run's first fault began, if it began only then, else 0. timed: when it came about is on record."""

    name: str
    anomaly: Anomaly
    headline: str
    example: Example
    place: wording.Key
    link: str
    ranges: list[Records]
    ranges_more: int
    records_more: int
    partial: bool
    in_logs: int
    not_kept: int
    counted: str
    many: int
    about: int
    others: list[str]
    epoch: int | None
    faults: list[NearFault]
    faults_more: int
    first_fault: float
    timed: bool
    bug: Bug | None
    drawing: Drawing | None
    side: LogsSideBySide | None
    seen_with: Quotation | None
    follows: list[tuple[str, int, str]]
    cause: Cause
    first_step: tuple[str, str]
    steps: list[tuple[str, str]]
    paths: list[tuple[str, str]]


def build(inputs: Inputs, timeline: Timeline) -> Story | None:
    """The story of the class that the run is about (`wording.told`); None where there is none."""
    about = wording.told(inputs.verdict)
    if about is None:
        return None
    name, anomaly = about
    shown = wording.shown_examples(anomaly)
    if not shown:
        return None
    ranges, kept, others = ranges_of(inputs, timeline, name, shown)
    partial = not kept
    of_users = [one for one in shown if not one.partition.startswith("__")] or shown
    by_clients = [one for one in of_users if one.log is None] or of_users
    rows = ((one, row) for row in ranges for one in by_clients if _within(one, row))
    example, first = next(rows, (by_clients[0], None))
    ranges.sort(key=lambda one: one is not first)
    many = headlines.many(inputs.verdict, name, anomaly)
    leaders = leaders_of(timeline, example.partition)
    traces = of_finding(inputs, name, example, leaders)
    times, moments = near_faults.when(name, traces, ranges)
    faults = near_faults.of_story(name, inputs.verdict.faults, times, moments)
    listed = ranges[:RANGES_MAX]
    shown_faults = [one.fault for one in faults]
    drawing = around.seconds(
        example, listed, shown_faults, timeline, traces.ends, traces.decided, traces.offsets
    )
    counted = _counted(name, ranges, partial=partial)
    whole = kept == many or (len(shown) == many and counted == "Records" and not others)
    bug = _bug(anomaly, example, traces)
    first_step, *steps = next_steps.commands(name, bug, traces)
    return Story(
        name=name,
        anomaly=anomaly,
        headline=headlines.headline(
            name,
            anomaly.title,
            many,
            acknowledged=partial or any(one.begin is not None for one in ranges),
            in_logs=headlines.in_logs_alone(inputs.verdict, name, anomaly),
            withheld=headlines.withheld(shown),
        ),
        example=example,
        place=(name, anomaly.examples.index(example)),
        link=links_of(inputs.verdict)[name],
        ranges=listed,
        ranges_more=len(ranges) - len(listed),
        records_more=sum(one.count for one in ranges[RANGES_MAX:]),
        partial=partial,
        in_logs=max(anomaly.disallowed - many, 0),
        not_kept=0 if partial else max(many - kept, 0),
        epoch=example.leader_epochs[0] if len(set(example.leader_epochs)) == 1 else None,
        faults=faults[:FAULTS_MAX],
        faults_more=max(len(faults) - FAULTS_MAX, 0),
        first_fault=_first_fault(inputs.verdict.faults, times),
        timed=bool(times),
        bug=bug,
        drawing=drawing,
        side=traces.side,
        counted=counted,
        others=others,
        about=sum(one.count for one in ranges) if whole else 0,
        many=many,
        seen_with=seen_with(inputs.verdict, name, example, _owner(inputs, traces)),
        follows=follows(inputs.verdict, name, ranges),
        cause=causes.build(name, anomaly, traces),
        first_step=first_step,
        steps=steps,
        paths=next_steps.paths(traces),
    )


def _first_fault(faults: Sequence[Fault], times: Sequence[float]) -> float:
    first = min((fault.begin_s for fault in faults), default=0.0)
    return first if times and first > max(times) else 0.0


def _counted(name: str, ranges: Sequence[Records], *, partial: bool) -> str:
    """What the rows of the table count."""
    if name == STUCK:
        return "Hidden records"
    placed = any(one.begin is not None or one.offsets for one in ranges)
    return "Findings" if partial and not placed else "Records"


def _owner(inputs: Inputs, traces: Traces) -> str:
    """The transactional id of a finding, else its group; "" = neither is on record."""
    return (
        traces.decided.transactional_id if traces.decided else group_offsets.group_of(inputs, traces.example)
    )


def links_of(verdict: Verdict) -> dict[str, str]:
    """Class -> its place in the page."""
    return {name: f"#anomaly-{number}" for number, (name, _) in enumerate(wording.ranked(verdict), 1)}


def seen_with(verdict: Verdict, name: str, example: Example, owner: str = "") -> Quotation | None:
    """The finding that says what a broker did: of the same op, else of the same partition, there one that
    names the group or transactional id, if there is one; else of the same transactional id."""
    links = links_of(verdict)
    others = [other for other in EVIDENCE if other != name and other in verdict.anomalies]
    ops = {op.op for op in example.ops}
    named = re.compile(rf"(?<![\w.-]){re.escape(example.partition)}(?![\w-])") if example.partition else None
    alike: list[tuple[str, Callable[[Example], bool]]] = [
        ("op", lambda one: any(op.op in ops for op in one.ops)),
        (
            "partition",
            lambda one: named is not None and bool(named.search(f"{one.partition} {one.sentence}")),
        ),
        (
            "transactional id",
            lambda one: not ops and one.log is not None and one.log.transactional_id == owner != "",
        ),
    ]
    for same, is_alike in alike:
        found = [
            (other, one)
            for other in others
            for one in verdict.anomalies[other].examples
            if not one.allowed and is_alike(one)
        ]
        if found:
            other, one = next((told for told in found if owner and owner in told[1].sentence), found[0])
            return Quotation(name=other, same=same, example=one, link=links[other])
    return None


def follows(verdict: Verdict, name: str, ranges: Sequence[Records]) -> list[tuple[str, int, str]]:
    """Classes all of whose examples are at offsets of lost records."""
    if name != "lost-write":
        return []
    links = links_of(verdict)
    return [
        (other, anomaly.disallowed or anomaly.count, links[other])
        for other, anomaly in wording.ranked(verdict)
        if other in FOLLOWS_LOSS
        and anomaly.examples
        and all(any(_within(one, row) for row in ranges if row.offsets) for one in anomaly.examples)
    ]


def _within(example: Example, records: Records) -> bool:
    """Whether an example is about some of these records."""
    if example.partition != records.partition:
        return False
    if records.offsets:
        first, last = sorted(records.offsets)
        return any(first <= offset <= last for offset in example.offsets)
    if records.begin is None or records.end is None or example.at_s is None:
        return False
    return records.begin <= example.at_s <= records.end


def _bug(anomaly: Anomaly, example: Example, traces: Traces) -> Bug | None:
    """The known bug that the class is labelled with, of several that of the example; of several reproductions
    the one that ends transactions as the example's was ended."""
    if not anomaly.known_bug:
        return None
    from harness.reproduce import rates, registry  # few reports need what they import

    name = example.known_bug or anomaly.known_bug
    url = anomaly.known_bug_url if name == anomaly.known_bug else ""
    shows = [one for one, reproduction in registry.REPRODUCTIONS.items() if reproduction.label == name]
    prepared = {state for _, state in traces.decided.states} if traces.decided else set()
    ended = "-commit" if "PrepareCommit" in prepared else "-abort"
    shows.sort(key=lambda one: (not one.endswith(ended), one != name))
    rows = [row for row in rates.measured() if row.name in shows[:1] and not row.good]
    met = ", ".join(f"{row.shown} of {row.runs} runs with Kafka {row.kafka}" for row in rows)
    command = f"inquest bugs reproduce {shows[0]}" if shows else ""
    return Bug(name=name, url=url, met=met, reproduce=command)
