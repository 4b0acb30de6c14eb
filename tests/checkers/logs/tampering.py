"""Kinds of tampering with the evidence of a run, for `tests.checkers.logs.tamper`.

A kind changes one place, drawn: in one copy of a log, as a disk or a follower would, or in all copies alike,
as a leader or a coordinator would. It says where the rules have to find it.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from checkers.engine.findings import LogFinding
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.evidence import Evidence

Row = dict[str, Any]
GROUPS: Final = "__consumer_offsets"
METADATA: Final = "__cluster_metadata"
METADATA_LOG: Final = TopicPartition(METADATA, 0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where evidence was tampered with. offsets: where a finding is at the place; empty = anywhere there.
    producer: id that a finding of another partition has to be about, -1 = none will do."""

    tp: TopicPartition
    offsets: tuple[int, ...] = ()
    producer: int = -1

    def is_of(self, finding: LogFinding) -> bool:
        """Whether a finding is at the place."""
        if finding.log == self.tp:
            return not self.offsets or finding.offset in self.offsets or finding.offset == -1
        return 0 <= self.producer == finding.producer_id


@dataclass(slots=True)
class Tampered:
    """Evidence that may be changed, partition by partition."""

    tables: dict[str, pa.Table]
    whole: Evidence = field(init=False)

    def __post_init__(self) -> None:
        self.whole = Evidence(self.tables)

    def rows(self, name: str, tp: TopicPartition) -> list[Row]:
        """Rows of a partition."""
        return list(self.whole.of(name, tp).to_pylist())

    def put(self, name: str, tp: TopicPartition, rows: Sequence[Row]) -> None:
        """Other rows in the place of a partition's."""
        table, old = self.tables[name], self.whole.of(name, tp)
        mine = pc.and_(pc.equal(table["topic"], tp.topic), pc.equal(table["partition"], tp.partition))
        first = pc.index(mine, True).as_py()
        made = pa.Table.from_pylist(list(rows), schema=table.schema)
        parts = [table.slice(0, first), made, table.slice(first + old.num_rows)]
        self.tables[name] = pa.concat_tables(parts).unify_dictionaries()
        self.whole = Evidence(self.tables)


Kind = Callable[[Tampered, random.Random], Place | None]
"""Tampers with one place, drawn; None: the evidence has none of that kind."""
Change = Callable[[Row], Mapping[str, Any] | None]
"""The columns of a row that change; None: the row is gone."""
Fits = Callable[[list[Row], int], bool]
"""Whether the batch at a position of a copy will do."""


def data_partitions(found: Tampered, rng: random.Random) -> list[TopicPartition]:
    """Partitions with data of clients, drawn."""
    tps = [tp for tp in found.whole.partitions() if not tp.topic.startswith("__")]
    return rng.sample(tps, len(tps))


def last_take(found: Tampered) -> int:
    """The take of all nodes."""
    return int(max(found.tables["takes"]["take"].to_pylist()))


def copy_of(rows: Sequence[Row], take: int, node: int) -> list[Row]:
    """The rows of one copy."""
    return [row for row in rows if (row["take"], row["node"]) == (take, node)]


def changed(rows: Sequence[Row], chosen: Callable[[Row], bool], change: Change) -> list[Row]:
    """The rows, with the change made to the chosen ones."""
    made = [(row, change(row) if chosen(row) else {}) for row in rows]
    return [{**row, **new} for row, new in made if new is not None]


def drawn(
    found: Tampered, rng: random.Random, fits: Fits, tps: Sequence[TopicPartition]
) -> tuple[TopicPartition, list[Row], list[Row], int] | None:
    """A partition, its batches, the batches of a copy at the end, and a position in these that fits."""
    for tp in tps:
        rows = found.rows("batches", tp)
        last = last_take(found)
        nodes = sorted({row["node"] for row in rows if row["take"] == last})
        if not nodes:
            continue
        mine = copy_of(rows, last, rng.choice(nodes))
        places = [at for at in range(3, len(mine) - 3) if fits(mine, at)]
        if places:
            return tp, rows, mine, rng.choice(places)
    return None


def same(batch: Row) -> Callable[[Row], bool]:
    """Whether a row is this batch, in any copy."""
    return lambda row: all(row[name] == batch[name] for name in ("base", "last", "leader_epoch", "crc"))


def everywhere(
    found: Tampered, tp: TopicPartition, rows: Sequence[Row], batch: Row, made: Mapping[str, Any] | None
) -> None:
    """Change a batch in all copies, with another checksum; None: it is gone."""
    new = None if made is None else {"crc": batch["crc"] ^ 1, **made}
    found.put("batches", tp, changed(rows, same(batch), lambda row: new))


def around(mine: Sequence[Row], at: int) -> tuple[int, ...]:
    """Offsets of a batch, of its neighbours, and between."""
    return tuple(range(mine[at - 1]["base"], mine[at + 1]["last"] + 1))


def until_marker(mine: Sequence[Row], at: int) -> tuple[int, ...]:
    """Offsets from the batch before to the second next one of its producer, whatever stands between."""
    later = [row["last"] for row in mine[at + 1 :] if row["producer_id"] == mine[at]["producer_id"]][:2]
    return tuple(range(mine[at - 1]["base"], max([mine[at + 1]["last"], *later]) + 1))


def is_data(rows: list[Row], at: int) -> bool:
    """A batch with records of a client."""
    return not rows[at]["control"]


def sequenced(rows: list[Row], at: int) -> bool:
    """A batch of a producer that has one of the same epoch before it, close by."""
    batch = rows[at]
    before = [row for row in rows[:at] if row["producer_id"] == batch["producer_id"] and not row["control"]]
    return (
        batch["base_sequence"] > 0
        and not batch["control"]
        and bool(before)
        and before[-1]["producer_epoch"] == batch["producer_epoch"]
    )


# ---- one copy


def in_a_copy(change: Change, fits: Fits = is_data) -> Kind:
    """A batch of one copy changes, or is gone."""

    def tamper(found: Tampered, rng: random.Random) -> Place | None:
        choice = drawn(found, rng, fits, data_partitions(found, rng))
        if choice is None:
            return None
        tp, rows, mine, at = choice
        found.put("batches", tp, changed(rows, lambda row: row is mine[at], change))
        return Place(tp, around(mine, at))

    return tamper


def swapped_batches(found: Tampered, rng: random.Random) -> Place | None:
    """A batch of one copy and its successor stand in the wrong order."""
    choice = drawn(
        found, rng, lambda rows, at: is_data(rows, at) and is_data(rows, at + 1), data_partitions(found, rng)
    )
    if choice is None:
        return None
    tp, rows, mine, at = choice
    one, other = rows.index(mine[at]), rows.index(mine[at + 1])
    rows[one], rows[other] = rows[other], rows[one]
    found.put("batches", tp, rows)
    return Place(tp, around(mine, at))


def lost_tail(found: Tampered, rng: random.Random) -> Place | None:
    """The last batches of one copy are gone."""
    for tp in data_partitions(found, rng):
        rows, last = found.rows("batches", tp), last_take(found)
        node = rng.choice(sorted({row["node"] for row in rows if row["take"] == last} or {0}))
        mine = copy_of(rows, last, node)
        if len(mine) > 9:
            cut = mine[-rng.randint(1, 6)]["base"]
            kept = [row for row in rows if (row["take"], row["node"]) != (last, node) or row["base"] < cut]
            found.put("batches", tp, kept)
            return Place(tp, tuple(range(cut - 1, mine[-1]["last"] + 2)))
    return None


def in_a_file(name: str, change: Change, at_the_end: Mapping[str, Any] | None = None) -> Kind:
    """A row of a file beside the log changes, or is gone. at_the_end: only rows of the last take with these
    values."""

    def tamper(found: Tampered, rng: random.Random) -> Place | None:
        of = {} if at_the_end is None else {**at_the_end, "take": last_take(found)}
        for tp in data_partitions(found, rng):
            rows = found.rows(name, tp)
            fit = [row for row in rows if all(row[key] == value for key, value in of.items())]
            if fit:
                chosen = rng.choice(fit)
                found.put(name, tp, changed(rows, lambda row: row is chosen, change))  # noqa: B023
                return Place(tp)
        return None

    return tamper


# ---- all copies of a data partition


def in_all_copies(fits: Fits, change: Callable[[list[Row], int], Mapping[str, Any] | None]) -> Kind:
    """A batch changes in every copy, or is gone there. change: of the batches of a copy, and the position."""

    def tamper(found: Tampered, rng: random.Random) -> Place | None:
        choice = drawn(found, rng, fits, data_partitions(found, rng))
        if choice is None:
            return None
        tp, rows, mine, at = choice
        made = change(mine, at)
        everywhere(found, tp, rows, mine[at], made)
        reach = around(mine, at) if made is None else until_marker(mine, at)
        return Place(tp, reach, mine[at]["producer_id"])

    return tamper


def previous(rows: list[Row], at: int) -> Row:
    """The batch before of the same producer."""
    return next(
        row
        for row in reversed(rows[:at])
        if row["producer_id"] == rows[at]["producer_id"] and not row["control"]
    )


def in_mid_transaction(rows: list[Row], at: int) -> bool:
    """A batch in a transaction that began before it in this partition."""
    mine = [row for row in rows[:at] if row["producer_id"] == rows[at]["producer_id"]]
    return sequenced(rows, at) and rows[at]["transactional"] and not mine[-1]["control"]


def epoch_falls(found: Tampered, rng: random.Random) -> Place | None:
    """The leader epoch of a batch is below the one before it."""
    risen = in_all_copies(
        lambda rows, at: rows[at]["leader_epoch"] > 0,
        lambda rows, at: {"leader_epoch": rows[at]["leader_epoch"] - 1},
    )
    return risen(found, rng) or in_all_copies(is_data, lambda rows, at: {"leader_epoch": -1})(found, rng)


# ---- markers


def of_a_marker(change: Change) -> Kind:
    """A marker changes in all copies, or is gone."""

    def tamper(found: Tampered, rng: random.Random) -> Place | None:
        for tp in data_partitions(found, rng):
            control = found.rows("control", tp)
            markers = {row["offset"] for row in control}
            choice = drawn(found, rng, lambda rows, at: rows[at]["base"] in markers, [tp])  # noqa: B023
            if choice is None:
                continue
            _, rows, mine, at = choice
            batch = mine[at]
            found.put("control", tp, changed(control, lambda row: row["offset"] == batch["base"], change))  # noqa: B023
            made = change({**control[0], **batch})
            in_batch = None if made is None else {key: new for key, new in made.items() if key in batch}
            everywhere(found, tp, rows, batch, in_batch)
            return Place(tp, until_marker(mine, at), batch["producer_id"])
        return None

    return tamper


def amid_its_transaction(rows: list[Row], at: int) -> bool:
    """A batch of one record, after which its producer has another one under the same epoch."""
    batch = rows[at]
    who = batch["producer_id"], batch["producer_epoch"]
    later = [row for row in rows[at + 1 :] if (row["producer_id"], row["producer_epoch"]) == who]
    return is_data(rows, at) and batch["records"] == 1 and any(not row["control"] for row in later)


def doubled_marker(found: Tampered, rng: random.Random) -> Place | None:
    """The next batch becomes the marker again. Not the only batch of a transaction: a coordinator may send a
    marker again, and a partition of a transaction may have no records, so that nothing would be wrong."""
    for tp in data_partitions(found, rng):
        control = found.rows("control", tp)
        markers = {row["offset"] for row in control}
        choice = drawn(
            found,
            rng,
            lambda rows, at: rows[at]["base"] in markers and amid_its_transaction(rows, at + 1),  # noqa: B023
            [tp],
        )
        if choice is None:
            continue
        _, rows, mine, at = choice
        kept = ("segment", "position", "base", "last", "take", "node", "leader_epoch")
        again = {key: value for key, value in mine[at].items() if key not in kept}
        everywhere(found, tp, rows, mine[at + 1], again)
        more = [
            {**row, "offset": mine[at + 1]["base"]} for row in control if row["offset"] == mine[at]["base"]
        ]
        order = sorted([*control, *more], key=lambda row: (row["take"], row["node"], row["offset"]))
        found.put("control", tp, order)
        return Place(tp, until_marker(mine, at + 1), mine[at]["producer_id"])
    return None


# ---- coordinators' logs and the metadata log


def in_a_log(name: str, topic: str, fits: Callable[[Row], bool], change: Change) -> Kind:
    """A record changes in all copies, or is gone, with its batch where it is the only one there."""

    def tamper(found: Tampered, rng: random.Random) -> Place | None:
        tps = [tp for tp in found.whole.partitions() if tp.topic == topic]
        for tp in rng.sample(tps, len(tps)):
            rows = found.rows(name, tp)
            offsets = sorted({row["offset"] for row in rows if fits(row)})
            if not offsets:
                continue
            offset = rng.choice(offsets)
            made = changed(rows, lambda row: row["offset"] == offset, change)  # noqa: B023
            found.put(name, tp, made)
            batches = found.rows("batches", tp)
            (batch, *_) = [row for row in batches if row["base"] <= offset <= row["last"]]
            if len(made) < len(rows) and batch["records"] == 1:
                found.put("batches", tp, [row for row in batches if not row["base"] <= offset <= row["last"]])
            one = next(row for row in rows if row["offset"] == offset)
            later = {row["offset"] for row in rows if row["offset"] > offset and _about(row) == _about(one)}
            reach = max([offset + 1, *sorted(later)[:2]])
            return Place(tp, tuple(range(offset - 1, reach + 1)), one.get("producer_id") or -1)
        return None

    return tamper


def _about(row: Row) -> Any:
    return row.get("transactional_id") or row.get("group")


def decision(row: Row) -> bool:
    """A record of `__transaction_state` that decides."""
    return str(row["state"]).startswith("Prepare")


def three_back(row: Row) -> Row:
    """A classic group's record, three generations before."""
    body = json.loads(row["body"])
    return {"epoch": row["epoch"] - 3, "body": json.dumps({**body, "generation": body["generation"] - 3})}


def of_transactions(fits: Callable[[Row], bool], change: Change) -> Kind:
    """A record of `__transaction_state` changes, or is gone."""
    return in_a_log("transaction_log", TRANSACTION_TOPIC, fits, change)


def of_metadata(fits: Callable[[Row], bool], change: Callable[[Row], Mapping[str, Any]]) -> Kind:
    """A record of the metadata log changes in all copies."""

    def tamper(found: Tampered, rng: random.Random) -> Place | None:
        rows = found.tables["metadata"].to_pylist()
        offsets = sorted({row["offset"] for row in rows if row["snapshot"] < 0 and fits(row)})
        if not offsets:
            return None
        offset = rng.choice(offsets)
        made = changed(rows, lambda row: row["offset"] == offset and fits(row), change)
        found.tables["metadata"] = pa.Table.from_pylist(made, schema=found.tables["metadata"].schema)
        found.whole = Evidence(found.tables)
        return Place(METADATA_LOG)

    return tamper


OTHER_END: Final = {"COMMIT": {"name": "ABORT", "type": 0}, "ABORT": {"name": "COMMIT", "type": 1}}
OTHER_DECISION: Final = {"PrepareCommit": "PrepareAbort", "PrepareAbort": "PrepareCommit"}

KINDS: Final[dict[str, Kind]] = {
    "flipped-byte-in-a-copy": in_a_copy(lambda row: {"intact": False}),
    "other-content-in-a-copy": in_a_copy(lambda row: {"crc": row["crc"] ^ 0xFFFF}),
    "other-leader-epoch-in-a-copy": in_a_copy(lambda row: {"leader_epoch": row["leader_epoch"] + 1}),
    "lost-batch-in-a-copy": in_a_copy(lambda row: None),
    "swapped-batches-in-a-copy": swapped_batches,
    "lost-tail-in-a-copy": lost_tail,
    "moved-epoch-in-a-checkpoint": in_a_file("epochs", lambda row: {"start": row["start"] + 1}),
    # at the end: a broker that was killed may have cut its log a moment before, and not its checkpoint
    "high-watermark-beyond-the-log": in_a_file(
        "ends", lambda row: {"value": row["value"] + 10**6}, {"file": "replication"}
    ),
    "other-sequence-in-a-producer-snapshot": in_a_file(
        "producers", lambda row: {"last_sequence": row["last_sequence"] + 3}
    ),
    "other-epoch-in-a-producer-snapshot": in_a_file(
        "producers", lambda row: {"producer_epoch": row["producer_epoch"] + 1}
    ),
    "moved-entry-of-the-aborted-index": in_a_file("aborted", lambda row: {"first": row["first"] + 1}),
    "lost-entry-of-the-aborted-index": in_a_file("aborted", lambda row: None),
    "repeated-sequence": in_all_copies(
        sequenced, lambda rows, at: {"base_sequence": previous(rows, at)["base_sequence"]}
    ),
    "skipped-sequence": in_all_copies(
        sequenced, lambda rows, at: {"base_sequence": rows[at]["base_sequence"] + 7}
    ),
    "lowered-producer-epoch": in_all_copies(
        lambda rows, at: sequenced(rows, at) and rows[at]["producer_epoch"] > 0,
        lambda rows, at: {"producer_epoch": rows[at]["producer_epoch"] - 1},
    ),
    "raised-producer-epoch-in-mid-sequence": in_all_copies(
        sequenced, lambda rows, at: {"producer_epoch": rows[at]["producer_epoch"] + 1}
    ),
    "plain-batch-in-mid-transaction": in_all_copies(
        in_mid_transaction, lambda rows, at: {"transactional": False}
    ),
    "wrong-number-of-records": in_all_copies(is_data, lambda rows, at: {"records": rows[at]["records"] + 1}),
    "leader-epoch-falls": epoch_falls,
    "lost-batch": in_all_copies(is_data, lambda rows, at: None),
    "swapped-marker": of_a_marker(lambda row: OTHER_END[row["name"]]),
    "lost-marker": of_a_marker(lambda row: None),
    "doubled-marker": doubled_marker,
    "lowered-epoch-of-a-marker": of_a_marker(lambda row: {"producer_epoch": row["producer_epoch"] - 1}),
    "raised-coordinator-epoch-of-a-marker": of_a_marker(
        lambda row: {"coordinator_epoch": (row["coordinator_epoch"] or 0) + 50}
    ),
    "dropped-prepare": of_transactions(decision, lambda row: None),
    "reversed-decision": of_transactions(decision, lambda row: {"state": OTHER_DECISION[row["state"]]}),
    "dropped-completion": of_transactions(
        lambda row: str(row["state"]).startswith("Complete"), lambda row: None
    ),
    "partition-left-out-of-a-decision": of_transactions(
        lambda row: decision(row) and bool(row["partitions"]),
        lambda row: {"partitions": row["partitions"][1:]},
    ),
    # not Ongoing: a coordinator that did not hear of the new epoch may begin under the old one, and fence it
    "lowered-epoch-in-the-transaction-log": of_transactions(
        lambda row: (row["producer_epoch"] or 0) > 0 and row["state"] == "PrepareCommit",
        lambda row: {"producer_epoch": row["producer_epoch"] - 1},
    ),
    "other-producer-in-the-transaction-log": of_transactions(decision, lambda row: {"producer_id": 777_777}),
    "moved-generation": in_a_log(
        "group_log",
        GROUPS,
        lambda row: row["name"] == "GroupMetadata" and (row["epoch"] or 0) > 3 and row["body"] is not None,
        three_back,
    ),
    "leader-that-is-no-replica": of_metadata(
        lambda row: row["name"] == "PartitionChangeRecord" and (row["leader"] or -2) >= 0,
        lambda row: {"leader": 99},
    ),
    "stranger-in-the-in-sync-replicas": of_metadata(
        lambda row: row["name"] == "PartitionChangeRecord" and bool(row["isr"]),
        lambda row: {"isr": [*row["isr"], 99]},
    ),
    "broker-epoch-falls": of_metadata(
        lambda row: (
            row["name"] in ("RegisterBrokerRecord", "BrokerRegistrationChangeRecord")
            and (row["broker_epoch"] or 0) > 1
        ),
        lambda row: {"broker_epoch": 0},
    ),
}
"""By name."""
