"""The records that the findings of a class are about, as ranges: a table of a story, and its drawing."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import HistoryError
from core.op import Outcome, TopicPartition
from harness.report.classes import OF_GROUPS, OF_POLLS, OF_SHARES
from harness.report.evidence import replicas
from harness.report.inputs import Inputs
from harness.report.timeline.numbers import Timeline
from harness.report.timeline.partitions import natural
from history.events import RolesSeen
from history.reader import History, SendRow
from history.recorded_files import regular
from history.tables import TableRow
from history.unit_files import EVERYWHERE
from history.verdict import Example

OF_VALUES = {
    **dict.fromkeys(("lost-write", "unseen", "duplicate", "aborted-read", "precommitted-read"), (0, 1)),
    **dict.fromkeys(("offset-realtime-inversion", "zombie-write"), (0, 1)),
}
OF_OFFSETS = {
    **dict.fromkeys(("phantom-read", "corrupt-record", "misdirected-record"), (0, 1)),
    **dict.fromkeys(("inconsistent-offsets", "offset-reuse"), (0, 1)),
    **dict.fromkeys(("eos-loss", "eos-uncommitted", "group-skip", *OF_SHARES), (0, 2)),
    "phantom-commit": (0, 3),
    **dict.fromkeys(("eos-duplicate", "nonmonotonic-copy"), (2, 3)),
}
"""Classes whose findings name a record by its value or by its offset: where its partition and that stand in
their keys (docs/checks.md, section 2)."""
OF_STEPS = OF_POLLS | {"offset-commit-regression", "group-duplicate"}
"""Classes whose findings lead from one offset to another."""
STUCK = "stuck-lso"
APART_S = 3.0
"""Records of one range were acknowledged with less time between them."""
IN_TURN_S = 0.2
"""Answers of one leader to several clients are read out of turn within less time."""
NEAR = 500
"""Where a leader loses all that it acknowledges, its offsets follow each other: fewer are left out."""
Leaders = list[tuple[float, str]]
"""(since when, node), in order of time."""
Terms = list[tuple[float, str, bool]]
"""(since when, node, whether that is only when brokers named it), in order of time."""
Begins = list[tuple[float, int]]
"""(since when, offset of the first record) of the leader epochs of a partition, in order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of one partition that findings are about.

    offsets: of the first and the last, () = on record for none. values: of the first and the last. begin,
    end: when they were acknowledged, in seconds; None = not on record. leader: the node that brokers
    named when the first was, "" = not on record. next_leader, next_at: who was elected next, and when;
    next_seen: when brokers answered so, which may be later. step: as many findings; each leads from the first
    of the offsets to the last.
    """

    partition: str
    count: int
    offsets: tuple[int, int] | tuple[()] = ()
    values: tuple[int, int] | tuple[()] = ()
    begin: float | None = None
    end: float | None = None
    leader: str = ""
    next_leader: str = ""
    next_at: float | None = None
    next_seen: bool = False
    step: bool = False


def ranges_of(
    inputs: Inputs, timeline: Timeline, name: str, examples: Sequence[Example]
) -> tuple[list[Records], int, list[str]]:
    """The records of all findings of a class that were kept, else of the examples; the largest range first.
    How many findings were kept; 0 = they are the records of the examples. Further transactions, where they
    are those of one."""
    found: list[Records] = []
    others: list[str] = []
    kept = 0
    if inputs.history is not None:
        try:
            rows = _kept(inputs, name, allowed=inputs.verdict.anomalies[name].allowed)
            keys, kept = _keys(rows, name)
            column = "value" if name in OF_VALUES else "offset"
            if name in OF_STEPS:
                found = list(_steps(examples))
            elif name == STUCK:
                found = list(_hidden(inputs.history, examples))
            elif name in OF_GROUPS | OF_SHARES:
                found = [one for tp, some in keys.items() for one in _runs(inputs.history.tp(tp), some)]
            elif keys:
                found = _of_keys(inputs, inputs.history, timeline, column, keys)
            else:
                found = _around(inputs, inputs.history, timeline, examples)
                others = _others(inputs.history, rows, examples[0])
        except HistoryError as error:
            inputs.gaps.append(f"{error}: the records of {name} are those of the examples.")
    ranges = found or _of_examples(examples)
    ranges = sorted(ranges, key=_rank)
    return ranges, kept if found else 0, others


def _rank(one: Records) -> tuple[bool, int, tuple[str, int]]:
    """Kafka's own topics last; the largest first."""
    return one.partition.startswith("__"), -one.count, natural(one.partition)


def _steps(examples: Sequence[Example]) -> Iterator[Records]:
    """Each step that examples name: between two offsets of a partition."""
    named = [one for one in examples if len(one.offsets) > 1]
    steps = Counter((one.partition, one.offsets[0], one.offsets[-1]) for one in named)
    for (partition, before, after), many in steps.items():
        yield Records(partition=partition, count=many, offsets=(before, after), step=True)


def _hidden(history: History, examples: Sequence[Example]) -> Iterator[Records]:
    """Records above a last stable offset that stays where it is."""
    for partition in dict.fromkeys(one.partition for one in examples):
        ends = [bound.end for bound in history.bounds.get(history.tp_numbers.get(partition, -1), {}).values()]
        if ends and -1 < min(ends) < max(ends):
            offsets = min(ends), max(ends) - 1
            yield Records(partition=partition, count=max(ends) - min(ends), offsets=offsets)


def _others(history: History, rows: Sequence[TableRow], example: Example) -> list[str]:
    """Transactions that the rows name beside the example's."""
    mine = {op.op for op in example.ops}
    ops = dict.fromkeys(row["ops"][0] for row in rows if row["ops"] and not mine & set(row["ops"]))
    return [f"op {op} of {history.client(history.op(op).process)}" for op in ops if history.op(op).txn]


def _around(
    inputs: Inputs, history: History, timeline: Timeline, examples: Sequence[Example]
) -> list[Records]:
    """The records at the offsets of examples; else what the transaction of the first example sent, without
    what was refused. Raises: HistoryError."""
    keys: dict[int, set[int]] = defaultdict(set)
    for example in examples:
        tp = history.tp_numbers.get(example.partition)
        if tp is not None:
            keys[tp] |= {offset for offset in example.offsets if offset >= 0}
    if any(keys.values()):
        internal = [one for one in examples if one.partition not in history.tp_numbers]
        return _of_keys(inputs, history, timeline, "offset", keys) + _of_examples(internal)
    op = next((op.op for op in examples[0].ops if op.txn), None)
    sends = history.sends({EVERYWHERE: {"op": {op}}}) if op is not None else []
    return _of_sends(inputs, history, timeline, [sent for sent in sends if sent.outcome != Outcome.FAIL])


def _kept(inputs: Inputs, name: str, *, allowed: bool) -> list[TableRow]:
    """Forbidden (or allowed) findings of a class that were kept. Raises: HistoryError."""
    path = inputs.run.anomalies
    if not path.is_file():
        return []
    try:
        with pq.ParquetFile(pa.BufferReader(regular(path).read_bytes())) as file:
            rows = file.read(["anomaly", "allowed", "key", "ops"]).to_pylist()
        return [row for row in rows if (row["anomaly"], row["allowed"]) == (name, allowed)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HistoryError(f"checked/anomalies.parquet cannot be read ({type(error).__name__})") from None


def _keys(rows: Sequence[TableRow], name: str) -> tuple[dict[int, set[int]], int]:
    """Values or offsets in the keys of a class's findings, by partition; none of classes whose keys do not
    name records. And the number of those findings."""
    found: dict[int, set[int]] = defaultdict(set)
    of_tp, of_record = (OF_VALUES | OF_OFFSETS).get(name, (0, 0))
    keys = [row["key"] for row in rows if len(row["key"]) > max(of_tp, of_record) > 0]
    placed = [key for key in keys if key[of_tp] >= 0]
    for key in placed:
        found[key[of_tp]].add(key[of_record])
    return found, len(placed)


def _runs(partition: str, offsets: set[int]) -> Iterator[Records]:
    """Offsets that follow each other are one range."""
    ordered = sorted(offsets)
    for _, run in itertools.groupby(enumerate(ordered), lambda place: place[1] - place[0]):
        mine = [offset for _, offset in run]
        yield Records(partition=partition, count=len(mine), offsets=(mine[0], mine[-1]))


def _of_keys(
    inputs: Inputs, history: History, timeline: Timeline, column: str, keys: dict[int, set[int]]
) -> list[Records]:
    """The records with these values, or at these offsets; those that no client sent have no times."""
    sends = history.sends({tp: {column: some} for tp, some in keys.items() if some})
    sent_by = {tp: {getattr(sent, column) for sent in sends if sent.tp == tp} for tp in keys}
    unsent = {history.tp(tp): some - sent_by[tp] for tp, some in keys.items()}
    found = _of_sends(inputs, history, timeline, sends)
    if column == "offset":
        return found + [one for partition, some in unsent.items() for one in _runs(partition, some)]
    return found + [Records(partition=one, count=len(some)) for one, some in unsent.items() if some]


def _of_sends(
    inputs: Inputs, history: History, timeline: Timeline, sends: Sequence[SendRow]
) -> list[Records]:
    by: dict[int, list[SendRow]] = defaultdict(list)
    for sent in sends:
        by[sent.tp].append(sent)
    found = []
    for tp, mine in by.items():
        leaders = leaders_of(timeline, history.tp(tp))
        groups = _one_after_the_other(inputs, mine, leaders, _begins(inputs, history.tp(tp)))
        terms = dated(leaders, replicas.elected(inputs, history.tp(tp)))
        found += [_range(inputs, history.tp(tp), group, terms) for group in groups]
    return found


def leaders_of(timeline: Timeline, partition: str) -> Leaders:
    """Who led a partition, as brokers answered when they were asked."""
    of = next((one for one in timeline.cluster.partitions if one.name == partition), None)
    return [(span.begin, span.label) for span in of.leaders] if of else []


def dated(leaders: Leaders, elected: Sequence[tuple[float, int]]) -> Terms:
    """Each leader that brokers named, since when it led: as logs or metadata have it, where they do."""
    terms = []
    befores, afters = [-inf, *(at for at, _ in leaders)], [*(at for at, _ in leaders[1:]), inf]
    for (at, node), before, after in zip(leaders, befores, afters, strict=False):
        near = [since for since, leader in elected if str(leader) == node and before < since < after]
        since = max((one for one in near if one <= at), default=min(near, default=None))
        terms.append((at if since is None else since, node, since is None))
    return terms


def _begins(inputs: Inputs, partition: str) -> Begins:
    """Those epochs that brokers named, and whose first offset a disk has."""
    if inputs.evidence is None:
        return []
    topic, _, number = partition.rpartition("-")
    rows = inputs.evidence.of("epochs", TopicPartition(topic, int(number))).to_pylist()
    first = {row["epoch"]: row["start"] for row in rows}
    roles = [event for event in inputs.events if isinstance(event, RolesSeen)]
    seen = [(inputs.seconds(event.ns), event.epochs.get(partition)) for event in roles]
    return [(at, first[epoch]) for at, epoch in seen if epoch in first]


def _led(leaders: Leaders, at: float) -> str:
    """The node that brokers named as leader at a time, "" = none is on record."""
    return next((node for since, node in reversed(leaders) if since <= at), "")


def _placed(sent: SendRow) -> int:
    """Its offset, -1 unknown."""
    return max(sent.offset, sent.place)


def _acked(inputs: Inputs, sent: SendRow) -> float:
    return inputs.seconds(sent.ack_ns if sent.ack_ns >= 0 else sent.invoke_ns)


@dataclass(slots=True)
class OneLog:
    """Records that one log held, as far as their offsets tell, in the order of their acknowledgements. last:
    when the newest one came; highest, highest_at: the highest offset (-1 = none is known), and when."""

    last: float
    sends: list[SendRow] = field(default_factory=list)
    offsets: set[int] = field(default_factory=set)
    highest: int = -1
    highest_at: float = 0.0

    def may_hold(self, offset: int, at: float) -> bool:
        """Whether it continues with a record. Answers of one leader may come a little out of turn."""
        if at - self.last > APART_S:
            return False
        if min(offset, self.highest) < 0 or offset > self.highest:
            return True
        return offset not in self.offsets and at - self.highest_at <= IN_TURN_S

    def take(self, sent: SendRow, at: float) -> None:
        """It continues with this one."""
        self.sends.append(sent)
        self.offsets.add(_placed(sent))
        self.last = at
        if _placed(sent) > self.highest:
            self.highest, self.highest_at = _placed(sent), at


def _one_after_the_other(
    inputs: Inputs, sends: Iterable[SendRow], leaders: Leaders, begins: Begins
) -> list[list[SendRow]]:
    """Records in groups, each of one log. A leader that was replaced and does not know it acknowledges what
    its successor lacks: the offsets of its records continue, those of the other one begin again below. So a
    group does not end where brokers name another leader, but where that one's records begin."""
    logs: list[OneLog] = []
    for sent in sorted(sends, key=lambda sent: (_acked(inputs, sent), _placed(sent))):
        at, offset = _acked(inputs, sent), _placed(sent)
        mine = [
            log
            for log in logs
            if log.may_hold(offset, at) and not _handed_over(log, leaders, begins, offset, at)
        ]
        log = min(mine, key=lambda log: abs(offset - log.highest), default=None)
        if log is None:
            logs.append(log := OneLog(at))
        log.take(sent, at)
    return [log.sends for log in logs]


def _handed_over(log: OneLog, leaders: Leaders, begins: Begins, offset: int, at: float) -> bool:
    """Another leader was named since the newest record of a log, and what comes then is its own: it had all
    these records, or the offset does not follow theirs."""
    led = _led(leaders, log.last)
    if log.highest < 0 or _led(leaders, at) == led:
        return False
    new = [first for since, first in begins if log.last < since <= at and _led(leaders, since) != led]
    return offset > log.highest + NEAR or any(first > log.highest for first in new)


def _range(inputs: Inputs, partition: str, group: list[SendRow], terms: Terms) -> Records:
    placed = sorted((offset, sent.value) for sent in group if (offset := _placed(sent)) >= 0)
    ends = (placed[0], placed[-1]) if placed else ((-1, group[0].value), (-1, group[-1].value))
    acks = [inputs.seconds(sent.ack_ns) for sent in group if sent.ack_ns >= 0]
    begin, end = (min(acks), max(acks)) if acks else (None, None)
    leader = "" if begin is None else _led([(since, node) for since, node, _ in terms], begin)
    later = [] if begin is None else [one for one in terms if one[0] > begin and one[1] != leader]
    return Records(
        partition=partition,
        count=len({sent.value for sent in group}),
        offsets=(ends[0][0], ends[1][0]) if placed else (),
        values=(ends[0][1], ends[1][1]),
        begin=begin,
        end=end,
        leader=leader,
        next_leader=later[0][1] if later else "",
        next_at=later[0][0] if later else None,
        next_seen=bool(later) and later[0][2],
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
                count=len(set(offsets)) or len(some),
                offsets=(min(offsets), max(offsets)) if offsets else (),
                values=(values[0], values[-1]) if values else (),
            )
        )
    return found
