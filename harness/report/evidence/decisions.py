"""The transaction of a finding as brokers' files have it: what was decided, and which marker each partition
got.

Times are those that brokers and clients wrote into their records.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow.compute as pc

from core.errors import HistoryError
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from harness.report.evidence import replicas
from harness.report.evidence.choice import open_at_end
from harness.report.inputs import Inputs
from history.evidence import Evidence
from history.tables import TableRow
from history.verdict import Example

AROUND_S: Final = 0.2
"""What is written after an op ended comes within this time."""
CLOCKS_S: Final = 0.02
"""Clocks of clients and of brokers may differ by this."""
SENT: Final = re.compile(r"send (\S+) \S+ -> offset (\d+)")
"""A record of an op that has an offset (`checkers` words it so)."""
LONG_S: Final = 60.0
PARTITIONS_MAX: Final = 8
"""Partitions of a transaction that are shown."""
PARTITIONS_READ: Final = 64
"""Partitions from which those are chosen."""
DONE: Final = ("CompleteCommit", "CompleteAbort", "Dead", "Empty")


@dataclass(frozen=True, slots=True)
class DrawnMarker:
    """A marker in a partition's log. commit: else it aborts. producer_epoch: as the marker has it."""

    at: float
    offset: int
    commit: bool
    producer_epoch: int = -1

    @property
    def words(self) -> str:
        """Of it."""
        return f"{'COMMIT' if self.commit else 'ABORT'} at offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """What a transaction wrote to a partition. begin: of its first batch. first, last: offsets. marker: what
    ended it there; None = the log has none. after: the marker of its producer before it."""

    begin: float
    first: int
    last: int
    producer: str
    marker: DrawnMarker | None
    after: DrawnMarker | None = None

    @property
    def own(self) -> bool:
        """Whether the marker can be that of this transaction: it has its epoch, or the next one."""
        epoch = int(self.producer.rpartition("/")[2])
        return self.marker is not None and self.marker.producer_epoch in (-1, epoch, epoch + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorDecisions:
    """Of one transactional id: states of its coordinator's log, as (time, Kafka's name), and what each
    partition got meanwhile. more: how many of its partitions are left out. producers: its producer ids.
    coordinators: leaders of that log, as (since when, node). succeeded: when that log first has another
    producer id after these states, and that id; None = never."""

    transactional_id: str
    producers: frozenset[int]
    states: list[tuple[float, str]]
    partitions: dict[str, list[WrittenPart]]
    more: int = 0
    coordinators: list[tuple[float, int]] = field(default_factory=list)
    succeeded: tuple[float, int] | None = None

    @property
    def times(self) -> list[float]:
        """When something was decided or marked."""
        markers = [one.marker for some in self.partitions.values() for one in some if one.marker]
        return [*(at for at, state in self.states if state not in DONE), *(one.at for one in markers)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedTransaction:
    """The transaction of a finding. producer: its id, None = not on record. epoch: of it, None = any; where
    each transaction takes a new one, its end has that already. begin, end: of its op, or of its records where
    it is placed by these.
    touched: partitions that are known without the coordinator. place: partition and offset of the finding."""

    transactional_id: str
    producer: int | None
    epoch: int | None
    begin: float
    end: float
    touched: frozenset[TopicPartition]
    placed: bool = False
    place: tuple[TopicPartition | None, int] = (None, -1)


def build(inputs: Inputs, example: Example) -> CoordinatorDecisions | None:
    """Those of the first transaction that a finding names; None where none is on record."""
    evidence = inputs.evidence
    if evidence is None:
        return None
    try:
        named = _of_op(evidence, example) or _of_place(inputs, evidence, example)
        place = parsed(example.partition), min((one for one in example.offsets if one >= 0), default=-1)
        return _decisions(inputs, evidence, replace(named, place=place)) if named else None
    except HistoryError as error:
        inputs.gaps.append(f"{error}; the decisions about the transaction are not shown.")
        return None


def _of_op(evidence: Evidence, example: Example) -> _NamedTransaction | None:
    """Of the first op that is one. Raises: HistoryError."""
    op = next((op for op in example.ops if op.txn and op.transactional_id), None)
    if op is None:
        return None
    sent = [(parsed(match[1]), int(match[2])) for text in op.records if (match := SENT.match(text))]
    mine = {row["producer_id"] for row in _states(evidence) if row["transactional_id"] == op.transactional_id}
    wrote = (batch_at(evidence, tp, offset) for tp, offset in sent if tp is not None and offset >= 0)
    batch = next((row for row in wrote if row is not None and row["producer_id"] in mine), {})
    return _NamedTransaction(
        transactional_id=op.transactional_id,
        producer=batch.get("producer_id"),
        epoch=batch.get("producer_epoch"),
        begin=op.begin_s,
        end=op.end_s if op.end_s is not None else op.begin_s,
        touched=frozenset(tp for tp, _ in sent if tp is not None),
    )


def _of_place(inputs: Inputs, evidence: Evidence, example: Example) -> _NamedTransaction | None:
    """Of the producer that a finding in logs names, else of the one that the partition waits for in the end.
    Raises: HistoryError."""
    tp = parsed(example.partition)
    if tp is None:
        return None
    producer, epoch = example.producer.get("producer_id", -1), example.producer.get("epoch", -1)
    offset = max(example.offsets, default=-1)
    if example.log is None:
        opened = [row for row in open_at_end(inputs, example.partition) if row.producer_id >= 0]
        if example.ops or not opened:
            return None
        producer, epoch, offset = opened[0].producer_id, opened[0].producer_epoch, opened[0].start
    rows = evidence.of("batches", tp).to_pylist()
    mine = [
        row
        for row in rows
        if (row["producer_id"], row["producer_epoch"]) == (producer, epoch)
        and not row["control"]
        and row["base"] <= offset
    ]
    names = {row["producer_id"]: row["transactional_id"] for row in _states(evidence)}
    if not mine or producer not in names:
        return None
    at = inputs.seconds_of_clock(max(mine, key=lambda row: int(row["base"]))["base_timestamp"])
    return _NamedTransaction(
        transactional_id=names[producer],
        producer=producer,
        epoch=epoch,
        begin=at,
        end=at,
        touched=frozenset({tp}),
        placed=True,
    )


def parsed(partition: str) -> TopicPartition | None:
    """`topic-number`; None where it is none."""
    topic, _, number = partition.rpartition("-")
    return TopicPartition(topic, int(number)) if number.isdecimal() else None


def batch_at(evidence: Evidence, tp: TopicPartition, offset: int) -> TableRow | None:
    """The batch with an offset, of any copy. Raises: HistoryError."""
    rows = evidence.of("batches", tp)
    rows = rows.filter((pc.field("base") <= offset) & (pc.field("last") >= offset))
    return next(iter(rows.slice(0, 1).to_pylist()), None)


def _states(evidence: Evidence) -> list[TableRow]:
    """States in coordinators' logs, each once. Raises: HistoryError."""
    rows = [row for row in evidence.table("transaction_log").to_pylist() if row["state"]]
    return of_last_take(rows, ("partition", "offset"))


def _decisions(inputs: Inputs, evidence: Evidence, named: _NamedTransaction) -> CoordinatorDecisions | None:
    """Raises: HistoryError."""
    every = [row for row in _states(evidence) if row["transactional_id"] == named.transactional_id]
    rows = [
        row
        for row in every
        if named.producer in (None, row["producer_id"])
        and (named.epoch is None or row["producer_epoch"] in (named.epoch, named.epoch + 1))
    ]
    timed = [(inputs.seconds_of_clock(row["timestamp"]), row) for row in rows]
    begin, end = named.begin - CLOCKS_S, named.end + AROUND_S
    shown = _meanwhile(timed, named)
    producers = {row["producer_id"] for row in rows}
    if named.producer is not None:
        producers.add(named.producer)
    touched = named.touched | {
        TopicPartition(tp["topic"], tp["partition"]) for _, row in shown for tp in row["partitions"] or ()
    }
    place, offset = named.place
    touched |= {place} if place is not None else set()
    order = sorted(touched, key=lambda tp: (tp != place, tp))
    found = {
        str(tp): [
            one
            for one in _written(inputs, evidence, tp, producers, named.epoch)
            if begin <= one.begin <= end or (tp == place and one.first <= offset <= one.last)
        ]
        for tp in order[:PARTITIONS_READ]
    }
    ended = {partition: some for partition, some in found.items() if some}
    written = _chosen(ended)
    if not shown and not written:
        return None
    return CoordinatorDecisions(
        transactional_id=named.transactional_id,
        producers=frozenset({row["producer_id"] for _, row in shown} or producers),
        coordinators=replicas.leaders(inputs, f"{TRANSACTION_TOPIC}-{rows[0]['partition']}") if rows else [],
        states=[(at, row["state"]) for at, row in shown],
        partitions=written,
        more=len(ended) - len(written) + len(order[PARTITIONS_READ:]),
        succeeded=_succeeded(inputs, every, shown[-1][1]) if shown else None,
    )


def _chosen(every: Mapping[str, list[WrittenPart]]) -> dict[str, list[WrittenPart]]:
    """The partitions that are shown, in their order: the first, one of each way in which a transaction ended
    there, then others."""
    ways: dict[object, str] = {}
    for partition, parts in every.items():
        marker = parts[0].marker
        ways.setdefault(marker and (marker.commit, parts[0].own), partition)
    chosen = set([*dict.fromkeys([*ways.values(), *every])][:PARTITIONS_MAX])
    return {partition: parts for partition, parts in every.items() if partition in chosen}


def _succeeded(inputs: Inputs, every: Sequence[TableRow], last: TableRow) -> tuple[float, int] | None:
    """The first state of another producer id behind a state. every: of one transactional id, by offset."""
    later = (
        (inputs.seconds_of_clock(row["timestamp"]), row["producer_id"])
        for row in every
        if row["offset"] > last["offset"] and row["producer_id"] != last["producer_id"]
    )
    return next(later, None)


def _meanwhile(
    timed: Sequence[tuple[float, TableRow]], named: _NamedTransaction
) -> list[tuple[float, TableRow]]:
    """The states of a transaction: from the one that opened it, if that is on record, until the one that
    ended it."""
    early, late = named.begin - CLOCKS_S, named.begin + CLOCKS_S
    opened = [
        at
        for (_, before), (at, row) in itertools.pairwise([(0.0, {"state": ""}), *timed])
        if row["state"] == "Ongoing" != before["state"] and named.epoch in (None, row["producer_epoch"])
    ]
    mine = [at for at in opened if (at <= late if named.placed else early <= at <= named.end)]
    first = (mine[-1] if named.placed else mine[0]) if mine else early
    found: list[tuple[float, TableRow]] = []
    for at, row in timed:
        if at >= first:
            found.append((at, row))
            if (at > named.end - AROUND_S and row["state"] in DONE) or at > named.end + LONG_S:
                break
    return found


def _written(
    inputs: Inputs, evidence: Evidence, tp: TopicPartition, producers: set[int], epoch: int | None
) -> list[WrittenPart]:
    """What these producers wrote to a partition, by transaction: batches up to the next marker that the last
    take has."""
    batches = [
        row
        for row in evidence.of("batches", tp).to_pylist()
        if row["transactional"]
        and not row["control"]
        and row["producer_id"] in producers
        and epoch in (None, row["producer_epoch"])
    ]
    markers = [
        row
        for row in evidence.of("control", tp).to_pylist()
        if row["producer_id"] in producers and row["coordinator_epoch"] is not None
    ]
    events: dict[int, list[tuple[int, TableRow]]] = defaultdict(list)
    for row in of_last_take(batches, ("base",)):
        events[row["producer_id"]].append((row["base"], row))
    last = max((row["take"] for row in batches + markers), default=-1)
    markers = [row for row in markers if row["take"] == last]  # what was cut off since ends nothing
    for row in of_last_take(markers, ("offset",)):
        events[row["producer_id"]].append((row["offset"], row))
    return [one for mine in events.values() for one in _by_marker(inputs, sorted(mine, key=lambda e: e[0]))]


def _by_marker(inputs: Inputs, events: Sequence[tuple[int, TableRow]]) -> list[WrittenPart]:
    found: list[WrittenPart] = []
    open_batches: list[TableRow] = []
    before: DrawnMarker | None = None
    for offset, row in [*events, (-1, {})]:
        if "base" in row:
            open_batches.append(row)
            continue
        marker = None
        if row:
            at = inputs.seconds_of_clock(row["timestamp"])
            marker = DrawnMarker(at, offset, row["name"] == "COMMIT", row["producer_epoch"])
        if open_batches:
            first = open_batches[0]
            found.append(
                WrittenPart(
                    begin=inputs.seconds_of_clock(first["base_timestamp"]),
                    first=first["base"],
                    last=open_batches[-1]["last"],
                    producer=f"{first['producer_id']}/{first['producer_epoch']}",
                    marker=marker,
                    after=before,
                )
            )
        open_batches, before = [], marker
    return found


def standing(batches: Sequence[TableRow]) -> list[TableRow]:
    """Of the batches of a partition, those that were not cut off: each once, as the last take has it, and
    older ones before its first, which were deleted there."""
    last = max((row["take"] for row in batches), default=-1)
    first = min((row["base"] for row in batches if row["take"] == last), default=0)
    return of_last_take([row for row in batches if row["take"] == last or row["last"] < first], ("base",))


def of_last_take(rows: Iterable[TableRow], key: Sequence[str]) -> list[TableRow]:
    """Each record once: copies of nodes agree, or a rule refuses them; the last take has the most."""
    found: dict[tuple[object, ...], TableRow] = {}
    for row in sorted(rows, key=lambda row: (-row["take"], row["node"])):
        found.setdefault(tuple(row[name] for name in key), row)
    return [found[place] for place in sorted(found)]
