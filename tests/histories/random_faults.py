"""Random faults, roles and settings for random histories: what may have taken records off their logs."""

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from core.cluster import NodeEnd
from core.config import RunConfig, run_config
from core.op import Outcome, Phase
from history.events import Event, FaultHealed, FaultStarted, NodeEnded, RecordsDeleted, RolesSeen
from history.tables import GONE, OPEN
from tests.histories.built import Built, Process

DELETIONS = 0.2
"""Share of histories with a deletion."""
REMADE = 0.15
"""Share of histories in which topics were deleted and made again."""
TICK_NS = 500_000_000
"""What a tick of a random history lasts here: 20 of them are as long as a leader may answer too late."""
NAMES = (
    "power:one",
    "power:all",
    "power:all",
    "kill:one",
    "pause:short",
    "client:crash",
    "partition:isolate",
)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"unclean_leader_election": True, "kafka": "3.8.1"},  # whose controller does not look at it
    {"min_insync_replicas": 1, "kafka": "2.4.1"},  # which does not fence the offsets of transactions
    {"topic_settings": {"min.insync.replicas": "1"}},
    {"topic_settings": {"min.insync.replicas": "3", "flush.messages": "2"}},
    {"topic_settings": {"flush.messages": "3"}},
    {"topic_settings": {"flush.messages": "1"}},
    {"unclean_leader_election": True},
    {"unclean_leader_election": True, "topic_settings": {"unclean.leader.election.enable": "false"}},
    {"topic_settings": {"unclean.leader.election.enable": "TRUE"}},
    {"topic_settings": {"retention.ms": "60000"}},
    {"topic_settings": {"retention.ms": "-1"}, "broker_settings": {"log.retention.ms": "60000"}},
    {"topic_settings": {"cleanup.policy": "compact", "retention.ms": "60000"}},
    {"topic_settings": {"cleanup.policy": "compact", "delete.retention.ms": "9000"}},
    {"topic_settings": {"cleanup.policy": "compact", "delete.retention.ms": "1000"}},
    {
        "topic_settings": {"cleanup.policy": "compact,delete"},
        "broker_settings": {"log.cleaner.delete.retention.ms": "2000"},
    },
    {
        "broker_settings": {
            "log.flush.scheduler.interval.ms": "4000",
            "log.initial.task.delay.ms": "0",
            "log.flush.interval.ms": "2000",
        }
    },
    {
        "topic_settings": {"flush.messages": "2"},
        "broker_settings": {
            "log.flush.scheduler.interval.ms": "500",
            "log.initial.task.delay.ms": "0",
            "log.flush.interval.messages": "1",
        },
    },
    {"broker_settings": {"log.flush.interval.messages": "1", "transaction.state.log.min.isr": "1"}},
)


def deletion(seed: int, built: Built) -> dict[int, int]:
    """Below which offsets a fault asks for the deletion of records, by partition; mostly nothing."""
    rng = Random(f"deletion/{seed}")
    some = built.tps if rng.random() < DELETIONS else ()
    return {tp: rng.randint(1, 8) for tp in range(len(some)) if rng.random() < 0.6}


def begin_later(seed: int, built: Built) -> None:
    """Listings say that logs begin where a deletion has led, or, where it was forgotten, earlier."""
    rng, deleted = Random(f"begin/{seed}"), deletion(seed, built)
    for bound in built.bounds:
        if bound.tp in deleted and rng.random() < 0.7:
            bound.start = max(0, min(deleted[bound.tp], bound.end))


def random_config(seed: int) -> RunConfig:
    """Settings that decide what a log may lose; in some runs there are two replicas of each partition."""
    settings, rng = Random(f"settings/{seed}").choice(SETTINGS), Random(f"replicas/{seed}")
    if rng.random() < 0.2:
        kafka = settings.get("kafka", rng.choice(("4.0.0", "3.7.0", "3.6.2")))
        copies = {f"{topic}.replication.factor": "1" for topic in ("offsets.topic", "transaction.state.log")}
        brokers = settings.get("broker_settings", {}) | (copies if rng.random() < 0.3 else {})
        settings = settings | {"replication_factor": 2, "kafka": kafka, "broker_settings": brokers}
    return run_config({"seed": 0, **settings})


def keyed(seed: int, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The same history with values of records that have one of few keys, every second one a tombstone. Of
    some keys the final reads do not show the last record, where that is a tombstone."""
    made = dict(tables)
    for name in ("sends", "reads"):
        at = tables[name].column_names.index("value")
        values = [
            (v >> 32 << 32) | (v & 0xFFFFFFFF) << 7 | v * 7 % 3 for v in tables[name]["value"].to_pylist()
        ]
        made[name] = tables[name].set_column(at, tables[name].schema.field(at), pa.array(values, pa.int64()))
    rng = Random(f"keys/{seed}")
    last = {
        (row["tp"], row["value"] & 0x7F): (row["tp"], row["value"])
        for row in sorted(made["sends"].to_pylist(), key=lambda row: row["place"])
        if row["outcome"] != Outcome.FAIL
    }
    gone = {(tp, value) for tp, value in last.values() if value & 0x80 and rng.random() < 0.9}
    shown = [
        row["phase"] != Phase.FINAL or (row["tp"], row["value"]) not in gone
        for row in made["reads"].to_pylist()
    ]
    made["reads"] = made["reads"].filter(pa.array(shown, pa.bool_()))
    made["sends"] = _placed(made["sends"], made["reads"])
    return made


def remade(seed: int, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The same history, in which some topics were deleted; mostly none. No final reader saw them."""
    made, rng = dict(tables), Random(f"remade/{seed}")
    if rng.random() >= REMADE:
        return made
    gone = [row["tp"] for row in tables["tps"].to_pylist() if rng.random() < 0.6]
    names = [row | {"topic": row["topic"] + "~1" * (row["tp"] in gone)} for row in tables["tps"].to_pylist()]
    made["tps"] = pa.Table.from_pylist(names, tables["tps"].schema)
    bounds = [
        row | ({"start": GONE, "end": -1, "read_to": -1, "complete": False} if row["tp"] in gone else {})
        for row in tables["bounds"].to_pylist()
    ]
    made["bounds"] = pa.Table.from_pylist(bounds, tables["bounds"].schema)
    kept = [row["phase"] != Phase.FINAL or row["tp"] not in gone for row in tables["reads"].to_pylist()]
    made["reads"] = tables["reads"].filter(pa.array(kept, pa.bool_()))
    made["sends"] = _placed(tables["sends"], made["reads"])
    return made


def _placed(sends: pa.Table, reads: pa.Table) -> pa.Table:
    """The sends; of those without an offset, `place` is where these reads show them."""
    lowest: dict[tuple[int, int], int] = {}
    for read in reads.to_pylist():
        key = (read["tp"], read["value"])
        lowest[key] = min(read["offset"], lowest.get(key, read["offset"]))
    places = [
        row["offset"] if row["offset"] >= 0 else lowest.get((row["tp"], row["value"]), -1)
        for row in sends.to_pylist()
    ]
    at = sends.column_names.index("place")
    return sends.set_column(at, sends.schema.field(at), pa.array(places, sends.schema.field(at).type))


def vary_producers(seed: int, built: Built) -> None:
    """Producers of other settings; in some histories none has a transactional id, whatever its ops say."""
    rng = Random(f"producers/{seed}")
    plain = rng.random() < 0.4
    for number in {op.process for op in built.ops}:
        process = built.processes.setdefault(number, Process())
        process.retries, process.in_flight = rng.choice((0, 5)), rng.choice((1, 1, 5))
        if plain:
            process.txn_id = -1
        if process.acks == -1 and plain and rng.random() < 0.5:
            process.acks, process.idempotent = rng.choice((0, 1, 1)), False


def slowed(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The same history with seconds instead of ticks."""
    made = dict(tables)
    for name, table in tables.items():
        for at, column in enumerate(table.column_names):
            if column == "ns" or column.endswith("_ns"):
                times = table[column]
                real = pc.and_(pc.greater(times, 0), pc.less(times, OPEN))
                slow = pc.multiply(pc.if_else(real, times, 0), TICK_NS)
                made[name] = made[name].set_column(
                    at, table.schema.field(column), pc.if_else(real, slow, times)
                )
    return made


def random_faults(seed: int, built: Built) -> list[Event]:
    """Faults and looks at the roles, in the time of `slowed`."""
    rng = Random(f"faults/{seed}")
    last = max((op.complete or op.invoke for op in built.ops), default=1)
    events: list[Event] = []
    for number in range(rng.choice((0, 1, 2, 4, 8))):
        name = rng.choice(NAMES)
        begin = rng.randint(0, last) * TICK_NS
        nodes = tuple(rng.sample((1, 2, 3), 3 if name.endswith("all") else rng.choice((1, 1, 2))))
        events.append(
            FaultStarted(
                begin_ns=begin,
                ns=begin + rng.choice((0, TICK_NS, 9 * TICK_NS)),
                fault=number,
                name=name,
                nodes=() if name.startswith("client") else nodes,
                slots=(1,) if name.startswith("client") else (),
                text="",
                colour="",
            )
        )
        if rng.random() < 0.8:
            healed = begin + rng.randint(1, 30) * TICK_NS
            events.append(FaultHealed(begin_ns=healed, ns=healed, fault=number))
    if rng.random() < 0.2:
        ended = NodeEnd(node=rng.randint(1, 3), exit_code=1)
        events.append(NodeEnded(ns=rng.randint(0, last) * TICK_NS, end=ended))
    if rng.random() < 0.8:
        events += _with_epochs(seed, _roles(rng, built, last))
    events += _shrunk(seed, last)
    if asked := deletion(seed, built):
        at = Random(f"asked/{seed}").randint(0, last) * TICK_NS
        offsets = {f"{built.tps[tp]}-0": offset for tp, offset in asked.items()}
        events.append(RecordsDeleted(ns=at, fault=9, offsets=offsets))
    return events


def _shrunk(seed: int, last: int) -> list[Event]:
    """A fault that takes a replica from partitions; mostly none."""
    rng = Random(f"shrunk/{seed}")
    if rng.random() >= 0.2:
        return []
    begin, node, number = rng.randint(0, last) * TICK_NS, rng.randint(1, 3), 30
    taken = FaultStarted(
        begin_ns=begin,
        ns=begin + TICK_NS,
        fault=number,
        name="reassign:shrink",
        nodes=(node,),
        text="",
        colour="",
    )
    healed = begin + rng.randint(1, 30) * TICK_NS
    return [taken, *([FaultHealed(begin_ns=healed, ns=healed, fault=number)] if rng.random() < 0.7 else [])]


def _with_epochs(seed: int, looks: list[RolesSeen]) -> list[RolesSeen]:
    """In some histories looks name leader epochs, of most partitions."""
    rng, epoch = Random(f"epochs/{seed}"), 0
    if rng.random() >= 0.25:
        return looks
    found = []
    for look in looks:
        epoch += rng.choice((0, 1, 1, 2, 3))
        epochs = {name: epoch for name in look.isr if rng.random() < 0.9}
        found.append(msgspec.structs.replace(look, epochs=epochs))
    return found


def _roles(rng: Random, built: Built, last: int) -> list[RolesSeen]:
    names = [f"{topic}-0" for topic in built.tps]
    if rng.random() < 0.7:
        names += ["__transaction_state-0", "__consumer_offsets-1"]
    moving = rng.random() < 0.5
    times = sorted({0, *(rng.randint(0, last) for _ in range(rng.randint(0, 8)))})
    return [
        RolesSeen(
            ns=(at + 1) * TICK_NS,
            leaders={name: rng.choice((1, 2, -1)) if moving else 1 for name in names if rng.random() < 0.95},
            isr={name: tuple(rng.sample((1, 2, 3), rng.choice((1, 2, 3, 3)))) for name in names},
            controller=1,
            answering=(1, 2, 3),
            agreed=True,
        )
        for at in times
    ]
