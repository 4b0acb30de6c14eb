"""The transaction of a finding as brokers' files have it: what was decided, and which marker each partition
got.

Times are those that brokers and clients wrote into their records.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.errors import HistoryError
from core.op import TopicPartition
from harness.report.inputs import Inputs
from history.evidence import Evidence
from history.verdict import Example

AROUND_S: Final = 0.2
"""Clocks of clients and brokers, and what is written after an op ended, may differ by this."""
LONG_S: Final = 60.0
PARTITIONS_MAX: Final = 8
DONE: Final = ("CompleteCommit", "CompleteAbort", "Dead", "Empty")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DrawnMarker:
    """A marker in a partition's log. commit: else it aborts."""

    at: float
    offset: int
    commit: bool
    coordinator_epoch: int

    @property
    def words(self) -> str:
        """Of it."""
        return f"{'COMMIT' if self.commit else 'ABORT'} at offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """What a transaction wrote to a partition. begin: of its first batch. first, last: offsets. marker: what
    ended it there; None = the log has none."""

    begin: float
    first: int
    last: int
    producer: str
    marker: DrawnMarker | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorDecisions:
    """Of one transactional id: states of its coordinator's log, as (time, Kafka's name), and what each
    partition got meanwhile."""

    transactional_id: str
    states: list[tuple[float, str]]
    partitions: dict[str, list[WrittenPart]]

    @property
    def times(self) -> list[float]:
        """When something was decided or marked."""
        markers = [one.marker for some in self.partitions.values() for one in some if one.marker]
        return [*(at for at, state in self.states if state not in DONE), *(one.at for one in markers)]


def build(inputs: Inputs, example: Example) -> CoordinatorDecisions | None:
    """Those of the first transactional id that a finding names; None where none is on record."""
    evidence = inputs.evidence
    if evidence is None:
        return None
    found = _named(example)
    if found is None:
        return None
    transactional_id, begin, end = found
    try:
        return _decisions(inputs, evidence, transactional_id, begin - AROUND_S, end + AROUND_S)
    except HistoryError as error:
        inputs.gaps.append(f"{error}; the decisions about {transactional_id} are not shown.")
        return None


def _named(example: Example) -> tuple[str, float, float] | None:
    """A transactional id, and when: of the first op with one, else of the place in brokers' logs."""
    for op in example.ops:
        if op.txn and op.transactional_id:
            return op.transactional_id, op.begin_s, op.end_s if op.end_s is not None else op.begin_s
    place = example.log
    if place is not None and place.transactional_id and example.at_s is not None:
        return place.transactional_id, example.at_s, example.at_s
    return None


def _decisions(
    inputs: Inputs, evidence: Evidence, transactional_id: str, begin: float, end: float
) -> CoordinatorDecisions | None:
    """Raises: HistoryError."""
    log = evidence.table("transaction_log")
    rows = [row for row in log.to_pylist() if row["transactional_id"] == transactional_id and row["state"]]
    rows = _of_last_take(rows, ("partition", "offset"))
    timed = [(inputs.seconds_of_clock(row["timestamp"]), row) for row in rows]
    shown = _of_op(timed, begin, end)
    if not shown:
        return None
    producers = {row["producer_id"] for _, row in shown}
    touched = {
        TopicPartition(tp["topic"], tp["partition"]) for _, row in shown for tp in row["partitions"] or ()
    }
    written = {
        str(tp): found
        for tp in sorted(touched)[:PARTITIONS_MAX]
        if (found := _written(inputs, evidence, tp, producers, begin, end))
    }
    states = [(at, row["state"]) for at, row in shown]
    return CoordinatorDecisions(transactional_id=transactional_id, states=states, partitions=written)


def _of_op(timed: Sequence[tuple[float, Row]], begin: float, end: float) -> list[tuple[float, Row]]:
    """The states from an op's begin on, until one after its end that ended it."""
    found: list[tuple[float, Row]] = []
    for at, row in timed:
        if at >= begin:
            found.append((at, row))
            if at > end - 2 * AROUND_S and row["state"] in DONE:
                break
            if at > end + LONG_S:
                break
    return found


def _written(
    inputs: Inputs, evidence: Evidence, tp: TopicPartition, producers: set[int], begin: float, end: float
) -> list[WrittenPart]:
    """What these producers wrote to a partition in a time, by transaction: batches up to the next marker."""
    batches = [
        row
        for row in evidence.of("batches", tp).to_pylist()
        if row["transactional"] and not row["control"] and row["producer_id"] in producers
    ]
    markers = [
        row
        for row in evidence.of("control", tp).to_pylist()
        if row["producer_id"] in producers and row["coordinator_epoch"] is not None
    ]
    events: dict[int, list[tuple[int, Row]]] = defaultdict(list)
    for row in _of_last_take(batches, ("base",)):
        events[row["producer_id"]].append((row["base"], row))
    for row in _of_last_take(markers, ("offset",)):
        events[row["producer_id"]].append((row["offset"], row))
    found = [one for mine in events.values() for one in _by_marker(inputs, sorted(mine, key=lambda e: e[0]))]
    return [one for one in found if begin <= one.begin <= end]


def _by_marker(inputs: Inputs, events: Sequence[tuple[int, Row]]) -> list[WrittenPart]:
    found: list[WrittenPart] = []
    open_batches: list[Row] = []
    for offset, row in [*events, (-1, {})]:
        if "base" in row:
            open_batches.append(row)
            continue
        if open_batches:
            first = open_batches[0]
            marker = None
            if row:
                at = inputs.seconds_of_clock(row["timestamp"])
                marker = DrawnMarker(at, offset, row["name"] == "COMMIT", row["coordinator_epoch"])
            found.append(
                WrittenPart(
                    begin=inputs.seconds_of_clock(first["base_timestamp"]),
                    first=first["base"],
                    last=open_batches[-1]["last"],
                    producer=f"{first['producer_id']}/{first['producer_epoch']}",
                    marker=marker,
                )
            )
        open_batches = []
    return found


def _of_last_take(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """Each record once: copies of nodes agree, or a rule refuses them; the last take has the most."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: (-row["take"], row["node"])):
        found.setdefault(tuple(row[name] for name in key), row)
    return [found[place] for place in sorted(found)]
