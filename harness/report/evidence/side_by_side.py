"""Logs side by side, with what differs: the copies of a partition around a record, or the partitions that a
transaction wrote to.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import HistoryError
from core.first_few import first_few
from core.op import TopicPartition
from harness.report import wording
from harness.report.evidence.decisions import CoordinatorDecisions
from harness.report.evidence.replica_logs import IDENTITY, Copy, batches_near, named
from harness.report.inputs import Inputs
from history.evidence import Evidence
from history.reader import value_text
from history.tables import TableRow

AROUND: Final = 3
"""Batches on either side of the record."""
COPIES_MAX: Final = 6
VALUES_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRow:
    """What each log has there. acknowledged: records that clients got an acknowledgement of, "" = none.
    differing: cells that differ from what most copies have. here: it has the record of the finding."""

    place: str
    acknowledged: str = ""
    cells: list[str]
    differing: frozenset[int] = frozenset()
    here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSideBySide:
    """Logs side by side. title: what they are of. columns: their names."""

    title: str
    columns: list[str]
    rows: list[SideRow]

    @property
    def differs(self) -> bool:
        """Whether anything does."""
        return any(row.differing for row in self.rows)


def copies(inputs: Inputs, partition: str, offset: int) -> LogsSideBySide | None:
    """The copies of a partition around an offset: of every node at the end, and as they were before where
    they had something else; those that are alike in one column. None where all are, or not on record."""
    topic, _, number = partition.rpartition("-")
    if inputs.evidence is None or offset < 0 or not number.isdecimal():
        return None
    try:
        found = _copies(inputs.evidence, TopicPartition(topic, int(number)), offset)
        acked = _acknowledged(inputs, partition, {row for mine in found.values() for row in _offsets(mine)})
    except HistoryError as error:
        inputs.gaps.append(f"{error}; the copies of {partition} are not shown side by side.")
        return None
    moments = inputs.evidence.moments()
    alike: dict[tuple[tuple[object, ...], ...], list[Copy]] = defaultdict(list)
    for copy, batches in found.items():
        alike[tuple(map(_identity, batches))].append(copy)
    names = [f"node{'s' * (len(some) > 1)} {named(some, moments)}" for some in alike.values()]
    rows = list(
        _rows(
            [found[some[0]] for some in alike.values()], [len(some) for some in alike.values()], acked, offset
        )
    )
    table = LogsSideBySide(title=f"copies of {partition}", columns=names, rows=rows)
    return table if table.differs else None


def _copies(evidence: Evidence, tp: TopicPartition, offset: int) -> dict[Copy, list[TableRow]]:
    """Batches near an offset, by copy: those of the last take, and earlier ones that have others there."""
    every: dict[Copy, list[TableRow]] = defaultdict(list)
    for row in (
        evidence.of("batches", tp).select(["take", "node", *IDENTITY, "records", "control"]).to_pylist()
    ):
        every[row["take"], row["node"]].append(row)
    last = max((take for take, _ in every), default=-1)
    near = {copy: batches_near(batches, offset, AROUND) for copy, batches in every.items()}
    final = {copy: near[copy] for copy in sorted(near) if copy[0] == last}
    known = {_identity(batch) for mine in final.values() for batch in mine}
    earlier = [
        copy
        for copy in sorted(near, reverse=True)
        if copy[0] != last and any(_identity(batch) not in known for batch in near[copy])
    ]
    shown = [*sorted(earlier[: max(0, COPIES_MAX - len(final))]), *final]
    return {copy: near[copy] for copy in shown}


def _identity(batch: TableRow) -> tuple[object, ...]:
    return tuple(batch[name] for name in IDENTITY)


def _offsets(batches: Iterable[TableRow]) -> Iterator[int]:
    for batch in batches:
        yield from range(batch["base"], batch["last"] + 1)


def _acknowledged(inputs: Inputs, partition: str, offsets: set[int]) -> dict[int, list[str]]:
    """Which records were acknowledged at these offsets, in words. Raises: HistoryError."""
    tp = inputs.history.tp_numbers.get(partition) if inputs.history is not None else None
    found: dict[int, list[str]] = defaultdict(list)
    if tp is not None and inputs.history is not None and offsets:
        for sent in inputs.history.sends({tp: {"offset": offsets}}):
            if sent.ack_ns >= 0:
                found[sent.offset].append(value_text(sent.value))
    return found


def differing(cells: Sequence[Hashable], copies_of: Sequence[int]) -> frozenset[int]:
    """Positions of the cells that are not what most copies have; where no cell is of most, all that differ.
    copies_of: how many copies each cell stands for."""
    votes: Counter[Hashable] = Counter()
    for cell, many in zip(cells, copies_of, strict=True):
        votes[cell] += many
    (first, most), *rest = votes.most_common(2)
    if rest and rest[0][1] == most:
        return frozenset(range(len(cells)))
    return frozenset(position for position, cell in enumerate(cells) if cell != first)


def _rows(
    logs: list[list[TableRow]], copies_of: list[int], acked: dict[int, list[str]], offset: int
) -> Iterator[SideRow]:
    """A row for each offset at which a batch of some log begins, within what all logs show."""
    by_base = [{batch["base"]: batch for batch in mine} for mine in logs]
    first = max((mine[0]["base"] for mine in logs if mine), default=0)
    bases = sorted({base for mine in by_base for base in mine if base >= min(first, offset)})
    for base, end in zip(bases, [*bases[1:], None], strict=False):
        batches = [mine.get(base) for mine in by_base]
        cells = [_cell(batch, mine, base) for batch, mine in zip(batches, logs, strict=True)]
        last = max(batch["last"] for batch in batches if batch)
        stop = last if end is None else min(last, end - 1)
        values = [value for at in range(base, stop + 1) for value in acked.get(at, [])]
        identities = [_identity(batch) if batch else None for batch in batches]
        if len(set(cells)) < len(set(identities)):
            cells = [
                f"{cell}, checksum {b['crc']:08x}" if b else cell
                for cell, b in zip(cells, batches, strict=True)
            ]
        yield SideRow(
            place=f"{base}" if stop == base else f"{base}–{stop}",
            acknowledged=first_few(values, VALUES_MAX),
            cells=cells,
            differing=differing(identities, copies_of),
            here=base <= offset <= stop,
        )


def _cell(batch: TableRow | None, mine: list[TableRow], base: int) -> str:
    if batch is None:
        inside = any(one["base"] < base <= one["last"] for one in mine)
        return "inside the batch before" if inside else "nothing"
    what = "marker" if batch["control"] else wording.count(batch["records"], "record")
    by = ""
    if batch["producer_id"] >= 0:
        sequence = f", sequence {batch['base_sequence']}" if batch["base_sequence"] >= 0 else ""
        by = f", producer {batch['producer_id']}/{batch['producer_epoch']}{sequence}"
    return f"epoch {batch['leader_epoch']}: {what}{by}"


def partitions(found: CoordinatorDecisions) -> LogsSideBySide | None:
    """The partitions of a transaction: what it wrote to each, and which marker ended it there. None where all
    have the same marker."""
    written = {name: some[0] for name, some in found.partitions.items()}
    markers = [one.marker.words if one.marker else "no marker" for one in written.values()]
    kinds = {one.marker.commit if one.marker else None for one in written.values()}
    if len(kinds) < 2:
        return None
    records = [
        f"offset {one.first}" if one.first == one.last else f"offsets {one.first}–{one.last}"
        for one in written.values()
    ]
    commits = [one.marker.commit if one.marker else None for one in written.values()]
    odd = differing(commits, [1] * len(commits))
    rows = [
        SideRow(place="records", cells=records),
        SideRow(place="ended by", cells=markers, differing=odd, here=True),
    ]
    title = f"partitions of the transaction of {found.transactional_id}"
    title += f" ({len(written)} of {len(written) + found.more})" * bool(found.more)
    return LogsSideBySide(title=title, columns=list(written), rows=rows)
