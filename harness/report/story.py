"""The story of a failing run: what broke, which records, under which leader, next to which fault, what now.

It is about the most severe class with a forbidden finding. Its findings are grouped: those of one partition
whose records were acknowledged one after the other under one leader are one range.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import HistoryError
from harness.report import causes, headlines, next_steps, wording
from harness.report.causes import OF_GROUPS, OF_POLLS, Cause, Traces
from harness.report.drawing import around
from harness.report.drawing.strips import Drawing
from harness.report.evidence import group_offsets
from harness.report.evidence.side_by_side import SideBySide
from harness.report.inputs import Inputs
from harness.report.next_steps import Bug
from harness.report.records import Records
from harness.report.timeline.numbers import Timeline
from harness.report.timeline.partitions import natural
from history.reader import History, SendRow
from history.recorded_files import regular
from history.unit_files import EVERYWHERE
from history.verdict import Anomaly, Example, Fault, Verdict

OF_VALUES = {
    **dict.fromkeys(("lost-write", "unseen", "duplicate", "aborted-read", "precommitted-read"), (0, 1)),
    **dict.fromkeys(("offset-realtime-inversion", "zombie-write"), (0, 1)),
}
OF_OFFSETS = {
    **dict.fromkeys(("phantom-read", "corrupt-record", "misdirected-record"), (0, 1)),
    **dict.fromkeys(("inconsistent-offsets", "offset-reuse"), (0, 1)),
    **dict.fromkeys(("eos-loss", "group-skip"), (0, 2)),
    **dict.fromkeys(("phantom-commit", "offset-commit-regression"), (0, 3)),
    "eos-duplicate": (2, 3),
}
"""Classes whose findings name a record by its value or by its offset: where its partition and that stand in
their keys (docs/checks.md, section 2)."""
EVIDENCE = (
    *("zombie-write", "unclean-election", "torn-decision", "lost-decision", "replica-divergence"),
    *("model-violation", "damaged-log", "hanging-partition"),
)
"""Classes whose findings say what a broker did; the first is quoted first."""
RANGES_MAX = 4
FAULTS_MAX = 3
APART_S = 3.0
"""Records of one range were acknowledged with less time between them."""
Moments = tuple[str, str]
"""The first and the last moment of a finding, in words."""
OF_OPS: Moments = ("its first op began", "its last op ended")
NEAR_S = 30.0
"""A fault that began or ended within this time of a finding is next to it."""


@dataclass(frozen=True, slots=True)
class NearFault:
    """A fault and how it stands to the findings in time."""

    fault: Fault
    when: str


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
    path)."""

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
    epochs: list[int]
    faults: list[NearFault]
    faults_more: int
    bug: Bug | None
    drawing: Drawing | None
    side: SideBySide | None
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
    ranges, kept = _ranges(inputs, timeline, name, shown)
    partial = not kept
    example = next((one for one in shown if ranges and _within(one, ranges[0])), shown[0])
    ranges.sort(key=lambda one: not _within(example, one))  # its row comes first
    many = headlines.many(inputs.verdict, name, anomaly)
    leaders = _leaders(timeline, example.partition)
    traces = causes.traces(inputs, name, example, leaders)
    acked = [at for one in ranges[: name not in OF_POLLS] for at in (one.begin, one.end) if at is not None]
    row = "of these records" if len(ranges) == 1 else "record of row 1"
    acknowledged = (f"the first {row} was acknowledged", f"the last {row} was acknowledged")
    times, moments = (acked, acknowledged) if acked else _moments(traces)
    near_faults = near(inputs.verdict.faults, times, moments)
    near_faults.sort(key=lambda one: _apart(one.fault, min(times)))
    listed = ranges[:RANGES_MAX]
    shown_faults = [one.fault for one in near_faults]
    drawing = around.seconds(
        example, listed, shown_faults, timeline, traces.ends, traces.decided, traces.offsets
    )
    bug = _bug(anomaly)
    first_step, *steps = next_steps.commands(name, bug, traces)
    return Story(
        name=name,
        anomaly=anomaly,
        headline=headlines.headline(name, anomaly.title, many, acknowledged=partial or bool(acked)),
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
        bug=bug,
        drawing=drawing,
        side=traces.side,
        seen_with=seen_with(inputs.verdict, name, example, group_offsets.group_of(inputs, example)),
        cause=causes.build(name, anomaly, traces),
        first_step=first_step,
        steps=steps,
        paths=next_steps.paths(traces),
    )


def seen_with(verdict: Verdict, name: str, example: Example, group: str = "") -> Quotation | None:
    """The finding that says what a broker did: of the same op, else of the same partition; there one that
    names the group, if there is one."""
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
    ]
    for same, is_alike in alike:
        found = [
            (other, one)
            for other in others
            for one in verdict.anomalies[other].examples
            if not one.allowed and is_alike(one)
        ]
        if found:
            other, one = next((told for told in found if group and group in told[1].sentence), found[0])
            return Quotation(name=other, same=same, example=one, link=links[other])
    return None


def _within(example: Example, records: Records) -> bool:
    """Whether an example is about some of these records."""
    if example.partition != records.partition:
        return False
    if records.offsets:
        first, last = records.offsets
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


def _ranges(
    inputs: Inputs, timeline: Timeline, name: str, examples: Sequence[Example]
) -> tuple[list[Records], int]:
    """The records of all findings of a class that were kept, else of the examples; the largest range first.
    And how many findings were kept; 0 = they are the records of the examples."""
    found: list[Records] = []
    kept = 0
    if inputs.history is not None:
        try:
            keys, kept = _keys(inputs, name, allowed=inputs.verdict.anomalies[name].allowed)
            column = "value" if name in OF_VALUES else "offset"
            if name in OF_GROUPS:
                found = [one for tp, some in keys.items() for one in _runs(inputs.history.tp(tp), some)]
            elif keys:
                found = _of_keys(inputs, inputs.history, timeline, column, keys)
            else:
                found = _around(inputs, inputs.history, timeline, examples)
        except HistoryError as error:
            inputs.gaps.append(f"{error}: the records of {name} are those of the examples.")
    ranges = found or _of_examples(examples)
    return sorted(ranges, key=lambda one: (-one.count, natural(one.partition))), kept if found else 0


def _around(
    inputs: Inputs, history: History, timeline: Timeline, examples: Sequence[Example]
) -> list[Records]:
    """The records at the offsets of examples; else all that the transaction of the first example sent.
    Raises: HistoryError."""
    keys: dict[int, set[int]] = defaultdict(set)
    for example in examples:
        tp = history.tp_numbers.get(example.partition)
        if tp is not None:
            keys[tp] |= {offset for offset in example.offsets if offset >= 0}
    if any(keys.values()):
        return _of_keys(inputs, history, timeline, "offset", keys)
    op = next((op.op for op in examples[0].ops if op.txn), None)
    sends = history.sends({EVERYWHERE: {"op": {op}}}) if op is not None else []
    return _of_sends(inputs, history, timeline, sends)


def _keys(inputs: Inputs, name: str, *, allowed: bool) -> tuple[dict[int, set[int]], int]:
    """Values or offsets in the keys of a class's forbidden (or allowed) findings, by partition; none of
    classes whose keys do not name records. And the number of findings that were kept."""
    found: dict[int, set[int]] = defaultdict(set)
    kept = 0
    path = inputs.run.anomalies
    places = (OF_VALUES | OF_OFFSETS).get(name)
    if places is None or not path.is_file():
        return found, kept
    of_tp, of_record = places
    try:
        with pq.ParquetFile(pa.BufferReader(regular(path).read_bytes())) as file:
            rows = file.read(["anomaly", "allowed", "key"]).to_pylist()
        for row in rows:
            key = row["key"]
            mine = (row["anomaly"], row["allowed"]) == (name, allowed) and len(key) > max(places)
            if mine and key[of_tp] >= 0:
                found[key[of_tp]].add(key[of_record])
                kept += 1
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HistoryError(f"checked/anomalies.parquet cannot be read ({type(error).__name__})") from None
    return found, kept


def _runs(partition: str, offsets: set[int]) -> Iterator[Records]:
    """Offsets that follow each other are one range."""
    ordered = sorted(offsets)
    for _, run in itertools.groupby(enumerate(ordered), lambda place: place[1] - place[0]):
        mine = [offset for _, offset in run]
        yield Records(partition=partition, count=len(mine), offsets=(mine[0], mine[-1]))


def _of_keys(
    inputs: Inputs, history: History, timeline: Timeline, column: str, keys: dict[int, set[int]]
) -> list[Records]:
    """The records with these values, or at these offsets; those that no client sent have but a count."""
    sends = history.sends({tp: {column: some} for tp, some in keys.items() if some})
    sent_by = {tp: {getattr(sent, column) for sent in sends if sent.tp == tp} for tp in keys}
    unsent = {tp: len(some - sent_by[tp]) for tp, some in keys.items()}
    found = _of_sends(inputs, history, timeline, sends)
    return found + [Records(partition=history.tp(tp), count=many) for tp, many in unsent.items() if many]


def _of_sends(
    inputs: Inputs, history: History, timeline: Timeline, sends: Sequence[SendRow]
) -> list[Records]:
    by: dict[int, list[SendRow]] = defaultdict(list)
    for sent in sends:
        by[sent.tp].append(sent)
    found = []
    for tp, mine in by.items():
        leaders = _leaders(timeline, history.tp(tp))
        groups = _one_after_the_other(inputs, mine, leaders)
        found += [_range(inputs, history.tp(tp), group, leaders) for group in groups]
    return found


Leaders = list[tuple[float, str]]
"""(since when, node), in order of time."""


def _leaders(timeline: Timeline, partition: str) -> Leaders:
    of = next((one for one in timeline.cluster.partitions if one.name == partition), None)
    return [(span.begin, span.label) for span in of.leaders] if of else []


def _led(leaders: Leaders, at: float) -> str:
    """The node that brokers named as leader at a time, "" = none is on record."""
    return next((node for since, node in reversed(leaders) if since <= at), "")


def _acked(inputs: Inputs, sent: SendRow) -> float:
    return inputs.seconds(sent.ack_ns if sent.ack_ns >= 0 else sent.invoke_ns)


def _one_after_the_other(
    inputs: Inputs, sends: Iterable[SendRow], leaders: Leaders
) -> Iterator[list[SendRow]]:
    """Records in groups: acknowledged by one leader, with little time between them."""
    group: list[SendRow] = []
    for sent in sorted(sends, key=lambda sent: _acked(inputs, sent)):
        if group:
            before, at = _acked(inputs, group[-1]), _acked(inputs, sent)
            if at - before > APART_S or _led(leaders, at) != _led(leaders, before):
                yield group
                group = []
        group.append(sent)
    if group:
        yield group


def _range(inputs: Inputs, partition: str, group: list[SendRow], leaders: Leaders) -> Records:
    offsets = [offset for sent in group if (offset := max(sent.offset, sent.place)) >= 0]
    acks = [inputs.seconds(sent.ack_ns) for sent in group if sent.ack_ns >= 0]
    begin, end = (min(acks), max(acks)) if acks else (None, None)
    later = [] if end is None else [(since, node) for since, node in leaders if since > end]
    return Records(
        partition=partition,
        count=len({sent.value for sent in group}),
        offsets=(min(offsets), max(offsets)) if offsets else (),
        values=(group[0].value, group[-1].value),
        begin=begin,
        end=end,
        leader="" if begin is None else _led(leaders, begin),
        next_leader=later[0][1] if later else "",
        next_at=later[0][0] if later else None,
    )


def _of_examples(examples: Sequence[Example]) -> list[Records]:
    """The records that examples name, by partition."""
    by: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        if example.partition:
            by[example.partition].append(example)
    found = []
    for partition, some in by.items():
        offsets = [offset for one in some for offset in one.offsets if offset >= 0]
        values = [value for one in some for value in one.values]
        found.append(
            Records(
                partition=partition,
                count=len(some),
                offsets=(min(offsets), max(offsets)) if offsets else (),
                values=(values[0], values[-1]) if values else (),
            )
        )
    return found


def near(faults: Sequence[Fault], times: list[float], moments: Moments) -> list[NearFault]:
    """The faults in force then, the one that ended last before, the one that began next."""
    if not times:
        return []
    first, last = min(times), max(times)
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
