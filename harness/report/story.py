"""The story of a failing run: what broke, which records, under which leader, next to which fault, what now.

It is about the most severe class with a forbidden finding. Its findings are grouped: those of one partition
whose records were acknowledged one after the other under one leader are one range.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.report import causes, headlines, next_steps, wording
from harness.report.causes import OF_POLLS, OF_SEQUENCES, Cause, Traces
from harness.report.drawing import around
from harness.report.drawing.strips import Drawing
from harness.report.evidence import group_offsets
from harness.report.evidence.side_by_side import LogsSideBySide
from harness.report.inputs import Inputs
from harness.report.next_steps import Bug
from harness.report.records import STUCK, Records, leaders_of, ranges_of
from harness.report.timeline.numbers import Timeline
from history.verdict import Anomaly, Example, Fault, Verdict

EVIDENCE = (
    *("zombie-write", "unclean-election", "torn-decision", "lost-decision", "replica-divergence"),
    *("model-violation", "damaged-log", "hanging-partition"),
)
"""Classes whose findings say what a broker did; the first is quoted first."""
RANGES_MAX = 4
FAULTS_MAX = 3
Moments = tuple[str, str]
"""The first and the last moment of a finding, in words."""
OF_OPS: Moments = ("its first op began", "its last op ended")
TEXT_MOST = 200
"""A longer text of a fault is shortened."""
NEAR_S = 30.0
"""A fault that began or ended within this time of a finding is next to it."""


@dataclass(frozen=True, slots=True)
class NearFault:
    """A fault and how it stands to the findings in time. text: what was done."""

    fault: Fault
    when: str
    text: str = ""


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
    """What the first screen says. place: of the example. ranges_more, records_more: how many ranges are not
    listed, and their records. partial: ranges are those that examples name, not those of all findings.
    in_logs: findings in brokers' logs that the headline does not count. not_kept: findings that the checker
    counted, and ranges do not have. epochs: of the example's reads. side: logs side by side, where they
    differ. seen_with: what is quoted beside it. first_step, steps: (what for, command). paths: (what,
    path). counted: what ranges count. many: findings of the headline; about: how many records all of them
    name, 0 = not known. others: further transactions, where the records are those of the first. timed: when
    it came about is on record."""

    name: str
    anomaly: Anomaly
    headline: str
    example: Example
    place: wording.Key
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
    epochs: list[int]
    faults: list[NearFault]
    faults_more: int
    timed: bool
    bug: Bug | None
    drawing: Drawing | None
    side: LogsSideBySide | None
    seen_with: Quotation | None
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
    traces = causes.traces(inputs, name, example, leaders)
    acked = [at for one in ranges[: name not in OF_POLLS] for at in (one.begin, one.end) if at is not None]
    row = "of these records" if len(ranges) == 1 else "record of row 1"
    acknowledged = (f"the first {row} was acknowledged", f"the last {row} was acknowledged")
    times, moments = (acked, acknowledged) if acked else _moments(traces)
    near_faults = near(inputs.verdict.faults, times, moments)
    if name in OF_SEQUENCES | OF_POLLS:  # what began afterwards explains neither
        near_faults = [one for one in near_faults if one.fault.begin_s <= max(times, default=0.0)]
    near_faults.sort(key=lambda one: _apart(one.fault, min(times)))
    listed = ranges[:RANGES_MAX]
    near_faults = [replace(one, text=shortened(one.fault.text)) for one in near_faults]
    shown_faults = [one.fault for one in near_faults]
    drawing = around.seconds(
        example, listed, shown_faults, timeline, traces.ends, traces.decided, traces.offsets
    )
    counted = _counted(name, ranges, partial=partial)
    whole = kept == many or (len(shown) == many and counted == "Records" and not others)
    bug = _bug(anomaly)
    first_step, *steps = next_steps.commands(name, bug, traces)
    return Story(
        name=name,
        anomaly=anomaly,
        headline=headlines.headline(
            name,
            anomaly.title,
            many,
            acknowledged=partial or bool(acked),
            in_logs=headlines.in_logs_alone(inputs.verdict, name, anomaly),
        ),
        example=example,
        place=(name, anomaly.examples.index(example)),
        ranges=listed,
        ranges_more=len(ranges) - len(listed),
        records_more=sum(one.count for one in ranges[RANGES_MAX:]),
        partial=partial,
        in_logs=max(anomaly.disallowed - many, 0),
        not_kept=0 if partial else max(many - kept, 0),
        epochs=sorted(set(example.leader_epochs)),
        faults=near_faults[:FAULTS_MAX],
        faults_more=max(len(near_faults) - FAULTS_MAX, 0),
        timed=bool(times),
        bug=bug,
        drawing=drawing,
        side=traces.side,
        counted=counted,
        others=others,
        about=sum(one.count for one in ranges) if whole else 0,
        many=many,
        seen_with=seen_with(inputs.verdict, name, example, _owner(inputs, traces)),
        cause=causes.build(name, anomaly, traces),
        first_step=first_step,
        steps=steps,
        paths=next_steps.paths(traces),
    )


def _counted(name: str, ranges: Sequence[Records], *, partial: bool) -> str:
    """What the rows of the table count."""
    if name == STUCK:
        return "Hidden records"
    timed = any(one.begin is not None for one in ranges)
    return "Findings" if partial and not timed else "Records"


def _owner(inputs: Inputs, traces: Traces) -> str:
    """The transactional id of a finding, else its group; "" = neither is on record."""
    return (
        traces.decided.transactional_id if traces.decided else group_offsets.group_of(inputs, traces.example)
    )


def seen_with(verdict: Verdict, name: str, example: Example, owner: str = "") -> Quotation | None:
    """The finding that says what a broker did: of the same op, else of the same partition, there one that
    names the group or transactional id, if there is one; else of the same transactional id."""
    links = {other: f"#anomaly-{number}" for number, (other, _) in enumerate(wording.ranked(verdict), 1)}
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


def _moments(traces: Traces) -> tuple[list[float], Moments]:
    """When a finding came about, as a group's commits, its ops or brokers' files tell; and that in words."""
    example, found, decided = traces.example, traces.offsets, traces.decided
    past = found.past(example.offsets) if found else 0
    if found and past < len(found.commits):
        return [found.commits[past].at], ("the group committed past the record",) * 2
    times = times_of(example)
    if not times and decided and decided.states:
        return [decided.states[0][0]], ("the transaction began",) * 2
    if not times and traces.written is not None:
        return [traces.written], ("it was written",) * 2
    return times, moments_of(example)


def moments_of(example: Example) -> Moments:
    """What the times of an example are (`times_of`)."""
    return ("this was seen", "this was seen") if example.at_s is not None else OF_OPS


def times_of(example: Example) -> list[float]:
    """When the finding was made: at its own time, else during its ops."""
    if example.at_s is not None:
        return [example.at_s]
    return [at for op in example.ops for at in (op.begin_s, op.end_s) if at is not None]


def near(faults: Sequence[Fault], times: list[float], moments: Moments) -> list[NearFault]:
    """The faults in force then, the one that ended last before, the one that began next."""
    if not times:
        return []
    first, last = min(times), max(times, default=0.0)
    by_time = sorted(faults, key=lambda fault: fault.begin_s)
    found = [
        NearFault(fault, _meanwhile(fault, first, moments[0]))
        for fault in by_time
        if fault.begin_s <= last and (fault.end_s is None or fault.end_s >= first)
    ]
    before = [fault for fault in by_time if fault.end_s is not None and first - NEAR_S < fault.end_s < first]
    after = [fault for fault in by_time if last < fault.begin_s < last + NEAR_S]
    if before:
        ended = max(before, key=lambda fault: fault.end_s or 0)
        found.insert(0, NearFault(ended, f"ended {_span(first - (ended.end_s or 0))} before {moments[0]}"))
    if after:
        found.append(NearFault(after[0], f"began {_span(after[0].begin_s - last)} after {moments[1]}"))
    return found


def shortened(text: str) -> str:
    """What a fault did, without most of what its nodes were."""
    if len(text) <= TEXT_MOST:
        return text
    return re.sub(r"(node \d+ \([^()]{24})[^()]+\)", lambda found: f"{found[1].rstrip(' ,;')}…)", text)


def _apart(fault: Fault, at: float) -> float:
    """Seconds between a fault and a time; 0 = it was in force."""
    return max(fault.begin_s - at, at - (fault.end_s if fault.end_s is not None else at), 0.0)


def _meanwhile(fault: Fault, first: float, moment: str) -> str:
    if fault.begin_s > first:
        return f"began {_span(fault.begin_s - first)} after {moment}"
    return f"in force when {moment}"


def beside(example: Example, faults: Sequence[Fault]) -> list[NearFault]:
    """The faults next to an example that its witness does not name as in force."""
    return [
        one
        for one in near(faults, times_of(example), moments_of(example))
        if one.fault.fault not in example.faults
    ]


def _span(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _bug(anomaly: Anomaly) -> Bug | None:
    """The known bug that the class is labelled with."""
    if not anomaly.known_bug:
        return None
    from harness.reproduce import rates, schedules  # few reports need what they import

    name = anomaly.known_bug
    shows = [one for one, reproduction in schedules.REPRODUCTIONS.items() if reproduction.label == name]
    rows = [row for row in rates.measured() if row.name in shows[:1] and not row.good]
    met = ", ".join(f"{row.shown} of {row.runs} runs with Kafka {row.kafka}" for row in rows)
    command = f"inquest bugs reproduce {shows[0]}" if shows else ""
    return Bug(name=name, url=anomaly.known_bug_url, met=met, reproduce=command)
