"""Brokers' copies of a log around a place that a rule refuses: which batch stands where on which node.

Batches that several copies have alike are one row, so a row with few nodes is a difference.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from core.errors import HistoryError
from core.first_few import few_of
from core.op import TopicPartition
from harness.report.inputs import Inputs
from history.evidence import Evidence
from history.evidence_tables import END, WHEN
from history.tables import TableRow
from history.verdict import Example

AROUND: Final = 5
"""Batches shown of each copy on either side of the place."""
TABLES_MAX: Final = 24
WORDS_MAX: Final = 8
"""Records of one batch that the table has in words."""
IDENTITY: Final = ("base", "last", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "crc")

Copy = tuple[int, int]
"""Take and node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch as some copies have it. copies: in words. what: what it is, and what its records say. here: it
    is at the place, or the first one behind it. producer: id, epoch and first sequence, "" = none."""

    base: int
    last: int
    leader_epoch: int
    producer: str
    what: list[str]
    copies: str
    missing: str
    here: bool


@dataclass(frozen=True, slots=True)
class RefusedPlace:
    """A finding in logs, with the logs around its place. rows: none where the evidence has none, or others
    came first."""

    place: Example
    rows: list[BatchRow]


def build(inputs: Inputs) -> list[RefusedPlace]:
    """All places of the verdict, those that nothing permits first."""
    evidence = inputs.evidence
    found = []
    for number, place in enumerate(inputs.verdict.log_examples):
        rows: list[BatchRow] = []
        if evidence is not None and number < TABLES_MAX:
            try:
                rows = list(_rows(evidence, place))
            except HistoryError as error:
                inputs.gaps.append(f"{error}; the logs around {place.partition} are not shown.")
        found.append(RefusedPlace(place, rows))
    return found


def _rows(evidence: Evidence, found: Example) -> Iterator[BatchRow]:
    topic, _, partition = found.partition.rpartition("-")
    tp, place = TopicPartition(topic, int(partition)) if partition.isdecimal() else None, found.log
    copies = _copies(evidence, tp, place.take) if tp and place else {}
    if tp is None or place is None or not copies:
        return
    words = _words(evidence, tp)
    holders: dict[tuple[int, ...], list[Copy]] = defaultdict(list)
    sample: dict[tuple[int, ...], tuple[Copy, TableRow]] = {}
    for copy, batches in copies.items():
        for batch in batches_near(batches, place.offset, AROUND):
            key = tuple(batch[name] for name in IDENTITY)
            holders[key].append(copy)
            sample.setdefault(key, (copy, batch))
    behind = min((key[0] for key in holders if key[1] >= place.offset), default=-1)
    moments = evidence.moments()
    bases = Counter(key[0] for key in holders)
    for key in sorted(holders):
        copy, batch = sample[key]
        differs = [f"checksum {batch['crc']:08x}"] if bases[key[0]] > 1 else []
        yield BatchRow(
            base=batch["base"],
            last=batch["last"],
            leader_epoch=batch["leader_epoch"],
            producer=_producer(batch),
            what=_what(batch, words, copy) + differs,
            copies=named(holders[key], moments),
            missing=named([other for other in copies if other not in holders[key]], moments),
            here=place.offset >= 0 and key[0] == behind,
        )


def _copies(evidence: Evidence, tp: TopicPartition, take: int) -> dict[Copy, list[TableRow]]:
    """The batches of each copy in a take, and in the last one."""
    rows = evidence.of("batches", tp).select(
        ["take", "node", *IDENTITY, "records", "transactional", "control"]
    )
    takes = evidence.table("takes")["take"].to_pylist()
    found: dict[Copy, list[TableRow]] = defaultdict(list)
    for row in rows.to_pylist():
        if row["take"] in (take, max(takes, default=take)):
            found[row["take"], row["node"]].append(row)
    return dict(found)


def batches_near(batches: list[TableRow], offset: int, around: int) -> list[TableRow]:
    """`around` batches on either side of an offset; the first ones of a partition as a whole."""
    at = next((n for n, batch in enumerate(batches) if batch["last"] >= offset), len(batches))
    return batches[max(0, at - around) : at + around + 1]


def _producer(batch: TableRow) -> str:
    if batch["producer_id"] < 0:
        return ""
    sequence = f", sequence {batch['base_sequence']}" if batch["base_sequence"] >= 0 else ""
    return f"{batch['producer_id']}/{batch['producer_epoch']}{sequence}"


def _what(batch: TableRow, words: dict[tuple[int, int, int], str], copy: Copy) -> list[str]:
    """A batch in words: its kind, then what its records say."""
    offsets = range(batch["base"], batch["last"] + 1)
    told = [words[(*copy, offset)] for offset in offsets if (*copy, offset) in words]
    if told:
        return few_of(told, WORDS_MAX)
    kind = "control record" if batch["control"] else "transactional" if batch["transactional"] else "data"
    many = "1 record" if batch["records"] == 1 else f"{batch['records']} records"
    return [kind if batch["control"] else f"{kind}, {many}"]


def _words(evidence: Evidence, tp: TopicPartition) -> dict[tuple[int, int, int], str]:
    """(take, node, offset) -> what the record there says, of records that a codec reads."""
    found: dict[tuple[int, int, int], str] = {}
    for row in evidence.of("control", tp).to_pylist():
        epoch = row["coordinator_epoch"]
        by = f", coordinator epoch {epoch}" if epoch is not None else ""
        found[row["take"], row["node"], row["offset"]] = f"{row['name']} marker{by}" if by else row["name"]
    for name, tell in (("transaction_log", _transaction), ("offset_log", _offset), ("group_log", _group)):
        for row in evidence.of(name, tp).to_pylist():
            found[row["take"], row["node"], row["offset"]] = tell(row)
    if tp.topic == "__cluster_metadata":
        for row in evidence.table("metadata").to_pylist():
            if row["snapshot"] < 0:
                found[row["take"], row["node"], row["offset"]] = _metadata(row)
    return found


def _transaction(row: TableRow) -> str:
    if row["state"] is None:
        return f"{row['transactional_id']}: removed" if row["opaque"] is None else row["transactional_id"]
    into = ", ".join(f"{tp['topic']}-{tp['partition']}" for tp in row["partitions"] or ())
    return (
        f"{row['transactional_id']}: {row['state']}, producer {row['producer_id']}/{row['producer_epoch']}"
        + (f", partitions {into}" if into else "")
    )


def _offset(row: TableRow) -> str:
    of = f"{row['group']}: {row['committed_topic']}-{row['committed_partition']}"
    return f"{of} removed" if row["committed"] is None else f"{of} at {row['committed']}"


def _group(row: TableRow) -> str:
    epoch = "" if row["epoch"] is None else f", epoch {row['epoch']}"
    return f"{row['name']} of {row['group']}{epoch}"


def _metadata(row: TableRow) -> str:
    """A metadata record with the fields that it sets."""
    names = (
        "topic",
        "partition",
        "broker",
        "leader",
        "partition_leader_epoch",
        "isr",
        "elr",
        "feature",
        "level",
    )
    fields = [f"{name} {row[name]}" for name in names if row[name] is not None]
    return f"{row['name']}: {', '.join(fields)}" if fields else str(row["name"])


def named(copies: Iterable[Copy], moments: Mapping[Copy, str]) -> str:
    """`1, 2, 3; 2 (when it was killed)`. moments: `Evidence.moments`."""
    parts: list[str] = []
    for when, some in groupby(
        sorted(copies, key=lambda copy: (-copy[0], copy[1])), key=lambda copy: moments.get(copy, "")
    ):
        nodes = ", ".join(str(node) for _, node in some)
        parts.append(nodes if when == WHEN[END] else f"{nodes} ({when or 'before'})")
    return "; ".join(parts)
