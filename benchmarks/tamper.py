"""How many tampered logs the rules find: `python -m benchmarks.tamper RUN… [--places 40] [--kind NAME]`.

Each kind of tampering changes one place of the evidence of a run that the rules accept: in one copy, as a
disk or a follower would, or in all copies alike, as a leader or a coordinator would. It is found if rules
refuse something that they did not refuse before; at its place, if that is in the tampered partition, at the
tampered offset or at one that it decides (the next batch, the marker of the transaction). Exit code 1: a kind
is missed.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from checkers.logs.engine import in_process
from checkers.logs.judgement import Judgement, LogFinding, joined
from checkers.logs.registry import LOCAL, WHOLE
from core.cluster import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.evidence import PER_NODE, PER_PARTITION, Evidence

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
        if finding.tp == self.tp:
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
        first = next(
            number
            for number, (topic, partition) in enumerate(
                zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
            )
            if (topic, partition) == tp
        )
        made = pa.Table.from_pylist(list(rows), schema=table.schema)
        parts = [table.slice(0, first), made, table.slice(first + old.num_rows)]
        self.tables[name] = pa.concat_tables(parts).unify_dictionaries()
        self.whole = Evidence(self.tables)


Kind = Callable[[Tampered, random.Random], Place | None]
"""Tampers with one place, drawn; None: the evidence has none of that kind."""
KINDS: Final[dict[str, Kind]] = {}


def kind(made: Kind) -> Kind:
    """Enter a kind by the name of its function."""
    KINDS[made.__name__.replace("_", "-")] = made
    return made


def data_partitions(found: Tampered, rng: random.Random) -> list[TopicPartition]:
    """Partitions with data of clients, drawn."""
    tps = [tp for tp in found.whole.partitions() if not tp.topic.startswith("__")]
    return rng.sample(tps, len(tps))


def last_take(found: Tampered) -> int:
    """The take of all nodes."""
    return int(max(found.tables["takes"]["take"].to_pylist()))


def copy_of(rows: Sequence[Row], take: int, node: int) -> list[int]:
    """Positions of the rows of one copy."""
    return [at for at, row in enumerate(rows) if (row["take"], row["node"]) == (take, node)]


def drawn(
    found: Tampered, rng: random.Random, fits: Callable[[list[Row], int], bool], tps: Sequence[TopicPartition]
) -> tuple[TopicPartition, list[Row], list[Row], int] | None:
    """A partition, its batches, the batches of a copy at the end, and a position in these that fits."""
    for tp in tps:
        rows = found.rows("batches", tp)
        last = last_take(found)
        nodes = sorted({row["node"] for row in rows if row["take"] == last})
        if not nodes:
            continue
        mine = [rows[at] for at in copy_of(rows, last, rng.choice(nodes))]
        places = [at for at in range(3, len(mine) - 3) if fits(mine, at)]
        if places:
            return tp, rows, mine, rng.choice(places)
    return None


def same(batch: Row) -> Callable[[Row], bool]:
    """Whether a row is this batch, in any copy."""
    return lambda row: all(row[name] == batch[name] for name in ("base", "last", "leader_epoch", "crc"))


def everywhere(
    found: Tampered, tp: TopicPartition, rows: Sequence[Row], batch: Row, change: Mapping[str, Any]
) -> None:
    """Change a batch in all copies, with another checksum."""
    is_it = same(batch)
    made = [{**row, "crc": row["crc"] ^ 1, **change} if is_it(row) else row for row in rows]
    found.put("batches", tp, made)


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


def one_copy(found: Tampered, rng: random.Random, fits: Callable[[list[Row], int], bool]) -> Any:
    return drawn(found, rng, fits, data_partitions(found, rng))


def _changed_copy(
    found: Tampered, rng: random.Random, change: Callable[[Row], Mapping[str, Any]]
) -> Place | None:
    choice = one_copy(found, rng, is_data)
    if choice is None:
        return None
    tp, rows, mine, at = choice
    found.put("batches", tp, [{**row, **change(row)} if row is mine[at] else row for row in rows])
    return Place(tp, around(mine, at))


@kind
def flipped_byte_in_a_copy(found: Tampered, rng: random.Random) -> Place | None:
    return _changed_copy(found, rng, lambda row: {"intact": False})


@kind
def other_content_in_a_copy(found: Tampered, rng: random.Random) -> Place | None:
    return _changed_copy(found, rng, lambda row: {"crc": row["crc"] ^ 0xFFFF})


@kind
def other_leader_epoch_in_a_copy(found: Tampered, rng: random.Random) -> Place | None:
    return _changed_copy(found, rng, lambda row: {"leader_epoch": row["leader_epoch"] + 1})


@kind
def lost_batch_in_a_copy(found: Tampered, rng: random.Random) -> Place | None:
    choice = one_copy(found, rng, is_data)
    if choice is None:
        return None
    tp, rows, mine, at = choice
    found.put("batches", tp, [row for row in rows if row is not mine[at]])
    return Place(tp, around(mine, at))


@kind
def swapped_batches_in_a_copy(found: Tampered, rng: random.Random) -> Place | None:
    choice = one_copy(found, rng, lambda rows, at: is_data(rows, at) and is_data(rows, at + 1))
    if choice is None:
        return None
    tp, rows, mine, at = choice
    one, other = rows.index(mine[at]), rows.index(mine[at + 1])
    rows[one], rows[other] = rows[other], rows[one]
    found.put("batches", tp, rows)
    return Place(tp, around(mine, at))


@kind
def lost_tail_in_a_copy(found: Tampered, rng: random.Random) -> Place | None:
    for tp in data_partitions(found, rng):
        rows, last = found.rows("batches", tp), last_take(found)
        node = rng.choice(sorted({row["node"] for row in rows if row["take"] == last} or {0}))
        mine = [rows[at] for at in copy_of(rows, last, node)]
        if len(mine) > 9:
            cut = mine[-rng.randint(1, 6)]["base"]
            kept = [row for row in rows if (row["take"], row["node"]) != (last, node) or row["base"] < cut]
            found.put("batches", tp, kept)
            return Place(tp, tuple(range(cut - 1, mine[-1]["last"] + 2)))
    return None


# ---- files beside the log


def _file_row(
    found: Tampered, rng: random.Random, name: str, change: Callable[[Row], Mapping[str, Any]], **of: Any
) -> Place | None:
    for tp in data_partitions(found, rng):
        rows = found.rows(name, tp)
        fit = [row for row in rows if all(row[key] == value for key, value in of.items())]
        if fit:
            chosen = rng.choice(fit)
            found.put(name, tp, [{**row, **change(row)} if row is chosen else row for row in rows])
            return Place(tp)
    return None


@kind
def moved_epoch_in_a_checkpoint(found: Tampered, rng: random.Random) -> Place | None:
    return _file_row(found, rng, "epochs", lambda row: {"start": row["start"] + 1})


@kind
def high_watermark_beyond_the_log(found: Tampered, rng: random.Random) -> Place | None:
    """At the end: a broker that was killed may have cut its log a moment before, and not its checkpoint."""
    of = {"file": "replication", "take": last_take(found)}
    return _file_row(found, rng, "ends", lambda row: {"value": row["value"] + 10**6}, **of)


@kind
def other_sequence_in_a_producer_snapshot(found: Tampered, rng: random.Random) -> Place | None:
    return _file_row(found, rng, "producers", lambda row: {"last_sequence": row["last_sequence"] + 3})


@kind
def other_epoch_in_a_producer_snapshot(found: Tampered, rng: random.Random) -> Place | None:
    return _file_row(found, rng, "producers", lambda row: {"producer_epoch": row["producer_epoch"] + 1})


@kind
def moved_entry_of_the_aborted_index(found: Tampered, rng: random.Random) -> Place | None:
    return _file_row(found, rng, "aborted", lambda row: {"first": row["first"] + 1})


@kind
def lost_entry_of_the_aborted_index(found: Tampered, rng: random.Random) -> Place | None:
    for tp in data_partitions(found, rng):
        if rows := found.rows("aborted", tp):
            rows.pop(rng.randrange(len(rows)))
            found.put("aborted", tp, rows)
            return Place(tp)
    return None


# ---- all copies of a data partition


def _all_copies(
    found: Tampered,
    rng: random.Random,
    fits: Callable[[list[Row], int], bool],
    change: Callable[[list[Row], int], Mapping[str, Any]],
) -> Place | None:
    choice = drawn(found, rng, fits, data_partitions(found, rng))
    if choice is None:
        return None
    tp, rows, mine, at = choice
    everywhere(found, tp, rows, mine[at], change(mine, at))
    return Place(tp, until_marker(mine, at), mine[at]["producer_id"])


def previous(rows: list[Row], at: int) -> Row:
    """The batch before of the same producer."""
    return next(
        row
        for row in reversed(rows[:at])
        if row["producer_id"] == rows[at]["producer_id"] and not row["control"]
    )


@kind
def repeated_sequence(found: Tampered, rng: random.Random) -> Place | None:
    return _all_copies(
        found, rng, sequenced, lambda rows, at: {"base_sequence": previous(rows, at)["base_sequence"]}
    )


@kind
def skipped_sequence(found: Tampered, rng: random.Random) -> Place | None:
    return _all_copies(
        found, rng, sequenced, lambda rows, at: {"base_sequence": rows[at]["base_sequence"] + 7}
    )


@kind
def lowered_producer_epoch(found: Tampered, rng: random.Random) -> Place | None:
    return _all_copies(
        found,
        rng,
        lambda rows, at: sequenced(rows, at) and rows[at]["producer_epoch"] > 0,
        lambda rows, at: {"producer_epoch": rows[at]["producer_epoch"] - 1},
    )


@kind
def raised_producer_epoch_in_mid_sequence(found: Tampered, rng: random.Random) -> Place | None:
    return _all_copies(
        found, rng, sequenced, lambda rows, at: {"producer_epoch": rows[at]["producer_epoch"] + 1}
    )


def in_mid_transaction(rows: list[Row], at: int) -> bool:
    """A batch in a transaction that began before it in this partition."""
    mine = [row for row in rows[:at] if row["producer_id"] == rows[at]["producer_id"]]
    return sequenced(rows, at) and rows[at]["transactional"] and not mine[-1]["control"]


@kind
def plain_batch_in_mid_transaction(found: Tampered, rng: random.Random) -> Place | None:
    return _all_copies(found, rng, in_mid_transaction, lambda rows, at: {"transactional": False})


@kind
def wrong_number_of_records(found: Tampered, rng: random.Random) -> Place | None:
    return _all_copies(found, rng, is_data, lambda rows, at: {"records": rows[at]["records"] + 1})


@kind
def leader_epoch_falls(found: Tampered, rng: random.Random) -> Place | None:
    return _all_copies(
        found,
        rng,
        lambda rows, at: rows[at]["leader_epoch"] > 0,
        lambda rows, at: {"leader_epoch": rows[at]["leader_epoch"] - 1},
    ) or _all_copies(found, rng, is_data, lambda rows, at: {"leader_epoch": -1})


@kind
def lost_batch(found: Tampered, rng: random.Random) -> Place | None:
    choice = drawn(found, rng, is_data, data_partitions(found, rng))
    if choice is None:
        return None
    tp, rows, mine, at = choice
    is_it = same(mine[at])
    found.put("batches", tp, [row for row in rows if not is_it(row)])
    return Place(tp, around(mine, at), mine[at]["producer_id"])


# ---- markers


def _marker(
    found: Tampered, rng: random.Random, change: Callable[[Row], Mapping[str, Any] | None], epoch: int = 0
) -> Place | None:
    """A marker changed in all copies; lost where `change` says None. epoch: least coordinator epoch."""
    for tp in data_partitions(found, rng):
        control = found.rows("control", tp)
        markers = sorted({row["offset"] for row in control if (row["coordinator_epoch"] or 0) >= epoch})
        choice = drawn(found, rng, lambda rows, at: rows[at]["base"] in markers, [tp])  # noqa: B023
        if choice is None:
            continue
        _, rows, mine, at = choice
        batch, changed, is_it = mine[at], [], same(mine[at])
        for row in control:
            made = change(row) if row["offset"] == batch["base"] else {}
            changed += [{**row, **made}] if made is not None else []
        found.put("control", tp, changed)
        if len(changed) < len(control):
            found.put("batches", tp, [row for row in rows if not is_it(row)])
        else:
            made = change({**control[0], **batch}) or {}
            kept = {key: value for key, value in made.items() if key in batch}
            everywhere(found, tp, rows, batch, kept)
        return Place(tp, until_marker(mine, at), batch["producer_id"])
    return None


@kind
def swapped_marker(found: Tampered, rng: random.Random) -> Place | None:
    other = {"COMMIT": {"name": "ABORT", "type": 0}, "ABORT": {"name": "COMMIT", "type": 1}}
    return _marker(found, rng, lambda row: other[row["name"]])


@kind
def lost_marker(found: Tampered, rng: random.Random) -> Place | None:
    return _marker(found, rng, lambda row: None)


@kind
def doubled_marker(found: Tampered, rng: random.Random) -> Place | None:
    """The next batch, of one record, becomes the marker again."""
    for tp in data_partitions(found, rng):
        control = found.rows("control", tp)
        markers = {row["offset"] for row in control}
        choice = drawn(
            found,
            rng,
            lambda rows, at: (
                rows[at]["base"] in markers  # noqa: B023
                and rows[at + 1]["records"] == 1
                and not rows[at + 1]["control"]
            ),
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


@kind
def lowered_epoch_of_a_marker(found: Tampered, rng: random.Random) -> Place | None:
    return _marker(found, rng, lambda row: {"producer_epoch": row["producer_epoch"] - 1})


@kind
def raised_coordinator_epoch_of_a_marker(found: Tampered, rng: random.Random) -> Place | None:
    return _marker(found, rng, lambda row: {"coordinator_epoch": (row["coordinator_epoch"] or 0) + 50})


# ---- coordinators' logs and the metadata log


def _log_record(
    found: Tampered,
    rng: random.Random,
    name: str,
    topic: str,
    fits: Callable[[Row], bool],
    change: Callable[[Row], Mapping[str, Any] | None],
) -> Place | None:
    """A record changed in all copies; None: lost, with its batch where it is the only one there."""
    tps = [tp for tp in found.whole.partitions() if tp.topic == topic]
    for tp in rng.sample(tps, len(tps)):
        rows = found.rows(name, tp)
        offsets = sorted({row["offset"] for row in rows if fits(row)})
        if not offsets:
            continue
        offset = rng.choice(offsets)
        made = _with(rows, offset, change)
        found.put(name, tp, made)
        batches = found.rows("batches", tp)
        (batch, *_) = [row for row in batches if row["base"] <= offset <= row["last"]]
        if len(made) < len(rows) and batch["records"] == 1:
            found.put("batches", tp, [row for row in batches if not row["base"] <= offset <= row["last"]])
        one = next(row for row in rows if row["offset"] == offset)
        later = sorted(
            {row["offset"] for row in rows if row["offset"] > offset and _about(row) == _about(one)}
        )
        reach = max([offset + 1, *later[:2]])
        return Place(tp, tuple(range(offset - 1, reach + 1)), one.get("producer_id") or -1)
    return None


def _with(rows: Sequence[Row], offset: int, change: Callable[[Row], Mapping[str, Any] | None]) -> list[Row]:
    made = []
    for row in rows:
        new = change(row) if row["offset"] == offset else {}
        if new is not None:
            made.append({**row, **new})
    return made


def _about(row: Row) -> Any:
    return row.get("transactional_id") or row.get("group")


def _decision(row: Row) -> bool:
    return str(row["state"]).startswith("Prepare")


@kind
def dropped_prepare(found: Tampered, rng: random.Random) -> Place | None:
    return _log_record(found, rng, "transaction_log", TRANSACTION_TOPIC, _decision, lambda row: None)


@kind
def reversed_decision(found: Tampered, rng: random.Random) -> Place | None:
    other = {"PrepareCommit": "PrepareAbort", "PrepareAbort": "PrepareCommit"}
    return _log_record(
        found,
        rng,
        "transaction_log",
        TRANSACTION_TOPIC,
        _decision,
        lambda row: {"state": other[row["state"]]},
    )


@kind
def dropped_completion(found: Tampered, rng: random.Random) -> Place | None:
    return _log_record(
        found,
        rng,
        "transaction_log",
        TRANSACTION_TOPIC,
        lambda row: str(row["state"]).startswith("Complete"),
        lambda row: None,
    )


@kind
def partition_left_out_of_a_decision(found: Tampered, rng: random.Random) -> Place | None:
    return _log_record(
        found,
        rng,
        "transaction_log",
        TRANSACTION_TOPIC,
        lambda row: _decision(row) and bool(row["partitions"]),
        lambda row: {"partitions": row["partitions"][1:]},
    )


@kind
def lowered_epoch_in_the_transaction_log(found: Tampered, rng: random.Random) -> Place | None:
    return _log_record(
        found,
        rng,
        "transaction_log",
        TRANSACTION_TOPIC,
        lambda row: (row["producer_epoch"] or 0) > 0 and row["state"] in ("Ongoing", "PrepareCommit"),
        lambda row: {"producer_epoch": row["producer_epoch"] - 1},
    )


@kind
def other_producer_in_the_transaction_log(found: Tampered, rng: random.Random) -> Place | None:
    return _log_record(
        found, rng, "transaction_log", TRANSACTION_TOPIC, _decision, lambda row: {"producer_id": 777_777}
    )


def _three_back(row: Row) -> Row:
    body = json.loads(row["body"])
    return {"epoch": row["epoch"] - 3, "body": json.dumps({**body, "generation": body["generation"] - 3})}


@kind
def moved_generation(found: Tampered, rng: random.Random) -> Place | None:
    return _log_record(
        found,
        rng,
        "group_log",
        GROUPS,
        lambda row: row["name"] == "GroupMetadata" and (row["epoch"] or 0) > 3 and row["body"] is not None,
        _three_back,
    )


def _metadata(
    found: Tampered,
    rng: random.Random,
    fits: Callable[[Row], bool],
    change: Callable[[Row], Mapping[str, Any]],
) -> Place | None:
    rows = found.tables["metadata"].to_pylist()
    offsets = sorted({row["offset"] for row in rows if row["snapshot"] < 0 and fits(row)})
    if not offsets:
        return None
    offset = rng.choice(offsets)
    made = [{**row, **change(row)} if row["offset"] == offset and fits(row) else row for row in rows]
    found.tables["metadata"] = pa.Table.from_pylist(made, schema=found.tables["metadata"].schema)
    found.whole = Evidence(found.tables)
    return Place(METADATA_LOG)


@kind
def leader_that_is_no_replica(found: Tampered, rng: random.Random) -> Place | None:
    return _metadata(
        found,
        rng,
        lambda row: row["name"] == "PartitionChangeRecord" and (row["leader"] or -2) >= 0,
        lambda row: {"leader": 99},
    )


@kind
def stranger_in_the_in_sync_replicas(found: Tampered, rng: random.Random) -> Place | None:
    return _metadata(
        found,
        rng,
        lambda row: row["name"] == "PartitionChangeRecord" and bool(row["isr"]),
        lambda row: {"isr": [*row["isr"], 99]},
    )


@kind
def broker_epoch_falls(found: Tampered, rng: random.Random) -> Place | None:
    return _metadata(
        found,
        rng,
        lambda row: (
            row["name"] in ("RegisterBrokerRecord", "BrokerRegistrationChangeRecord")
            and (row["broker_epoch"] or 0) > 1
        ),
        lambda row: {"broker_epoch": 0},
    )


# ---- the measure


@dataclass(slots=True)
class Judge:
    """Judges evidence of one run, and knows what the rules refuse in it as it is."""

    tables: dict[str, pa.Table]
    local: dict[TopicPartition, set[LogFinding]] = field(default_factory=dict)
    whole: set[LogFinding] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.whole = set(_over_all(Evidence(self.tables)))

    def new(self, found: Tampered, place: Place) -> list[LogFinding]:
        """What rules refuse that they did not refuse before. Rules over all partitions are asked only where
        those of the partition say nothing at the place."""
        if place.tp not in self.local:
            self.local[place.tp] = set(_in_partition(Evidence(self.tables), place.tp))
        new = [one for one in _in_partition(found.whole, place.tp) if one not in self.local[place.tp]]
        if not any(map(place.is_of, new)):
            new += [one for one in _over_all(found.whole) if one not in self.whole]
        return new


def _in_partition(evidence: Evidence, tp: TopicPartition) -> list[LogFinding]:
    return _findings(joined(in_process(evidence)([(tp,)], LOCAL)))


def _over_all(evidence: Evidence) -> list[LogFinding]:
    return _findings(joined(rules.judge(evidence, None) for rules in WHOLE.values()))


def _findings(judgement: Judgement) -> list[LogFinding]:
    if judgement.crashed:
        raise SystemExit(f"crashed: {judgement.crashed}")
    return judgement.findings


@dataclass(slots=True)
class Score:
    """Of one kind. rules: that found it at its place. missed: places."""

    tried: int = 0
    found: int = 0
    at_place: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


def measure(name: str, runs: Mapping[str, Judge], places: int) -> Score:
    """Tamper with places of all runs in turn; of those runs that have one."""
    score, names = Score(), list(runs)
    for number in range(places):
        for shift in range(len(names)):
            run = names[(number + shift) % len(names)]
            found = Tampered(dict(runs[run].tables))
            place = KINDS[name](found, random.Random(f"{name} {number}"))
            if place is not None:
                _score(score, run, place, runs[run].new(found, place))
                break
    return score


def _score(score: Score, run: str, place: Place, new: Sequence[LogFinding]) -> None:
    there = [one for one in new if place.is_of(one)]
    score.tried += 1
    score.found += bool(new)
    score.at_place += bool(there)
    score.rules.update({one.rule for one in there})
    if not there:
        where = f"{place.tp} {place.offsets[:1]}..{place.offsets[-1:]}"
        score.missed.append(f"{run} {where}: {[(one.rule, str(one.tp), one.offset) for one in new[:2]]}")


def loaded(folders: Sequence[Path]) -> dict[str, dict[str, pa.Table]]:
    """The tables of runs by name."""
    names = (*PER_PARTITION, *PER_NODE)
    runs = {}
    for folder in folders:
        evidence = Evidence.load(folder / "evidence")
        runs[folder.name] = {name: evidence.table(name) for name in names}
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--places", type=int, default=40)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    options = parser.parse_args()
    runs, missed = {name: Judge(tables) for name, tables in loaded(options.runs).items()}, False
    for name in options.kind or KINDS:
        score = measure(name, runs, options.places)
        missed |= score.at_place < score.tried
        rules = ", ".join(f"{rule} {many}" for rule, many in score.rules.most_common(3))
        print(
            f"{name:42} {score.at_place:3} at place, {score.found:3} found of {score.tried:3}  {rules}",
            flush=True,
        )
        for why in score.missed[:4]:
            print(f"    missed: {why}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
