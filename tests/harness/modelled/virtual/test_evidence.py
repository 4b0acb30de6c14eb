"""The evidence of simulated runs: what disks had and have, in the form of a real broker's files."""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kio.schema.consumer_protocol_assignment.v0 import ConsumerProtocolAssignment
from kio.serial import entity_reader
from msgspec import structs

from core.config import RunConfig, run_config
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.op import TopicPartition
from harness.evidence.coordinator_records import transaction_row
from harness.explore.profile import BASE
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.coordinator_records import log_records
from harness.modelled.shared.evidence import _placed
from harness.modelled.shared.metadata_log import records
from harness.modelled.virtual.evidence import evidence, tables_of_run
from harness.modelled.virtual.run import Simulated, simulate
from harness.modelled.virtual.run_folder import record
from harness.run.planning import planned
from history.evidence import Evidence
from history.evidence_tables import (
    BATCHES,
    END,
    KILLED,
    LOST_POWER,
    NO_PRODUCER,
    PER_NODE,
    PER_PARTITION,
    TRANSACTION_LOG,
    schema,
    table,
)
from history.run_folder import Run
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState, TransactionTombstone
from model.eras import ERAS
from model.log.unified_log import RecordBatch
from model.metadata.image import MetadataImage, PartitionRecord
from model.settings import Settings

Rows = list[dict[str, Any]]


def config(workload: str = "transactions", nemesis: str = "kill:one@leader", **settings: object) -> RunConfig:
    given = {"workload": workload, "preset": "safe", "nemesis": nemesis, "seed": 3, "duration_s": 6}
    return run_config({**BASE, **given, **settings})


def test_what_the_cleaner_made_of_a_batch_is_no_time_of_a_broker() -> None:
    """Columns of a batch: a delete horizon is one of its own."""
    batches = [RecordBatch(0, 1, ("a",)), RecordBatch(1, 1, ("b",), delete_horizon_ms=7)]
    for batch, row in zip(batches, _placed(0, batches, [(70, 1), (70, 2)]), strict=True):
        named = dict(zip(BATCHES.names, row, strict=True))
        assert (named["log_append_time"], named["delete_horizon"]) == (False, batch.delete_horizon_ms >= 0)
        assert (named["base"], named["records"], named["compression"], named["intact"]) == (
            batch.base,
            1,
            0,
            True,
        )


@pytest.fixture(scope="module")
def done() -> Simulated:
    return simulate(config())


@pytest.fixture(scope="module")
def found(done: Simulated) -> Evidence:
    return evidence(done.cluster)


def rows(found: Evidence, name: str, **where: object) -> Rows:
    every: Rows = found.table(name).to_pylist()
    return [row for row in every if all(row[key] == value for key, value in where.items())]


def test_tables_have_the_columns_of_the_contract(found: Evidence) -> None:
    for name in (*PER_PARTITION, *PER_NODE):
        assert found.table(name).schema.equals(schema(name))
    empty = {name for name in (*PER_PARTITION, *PER_NODE) if not found.table(name).num_rows}
    assert empty == {"offset_log", "group_log", "share_log", "damage", "unread_losses", "znodes"}


def test_killed_nodes_are_looked_at_before_they_come_back_and_all_at_the_end(
    done: Simulated, found: Evidence
) -> None:
    takes = rows(found, "takes")
    last = max(row["take"] for row in takes)
    assert [row["node"] for row in takes if row["take"] == last] == list(done.cluster.nodes)
    assert {row["why"] for row in takes if row["take"] < last} == {KILLED}
    assert {row["why"] for row in takes if row["take"] == last} == {END}
    assert last == len(done.cluster.takes) > 0
    times = [row["at_ns"] for row in takes]
    assert times == sorted(times)


@pytest.mark.sampled(6)
def test_a_clean_restart_is_no_kill() -> None:
    restarted = simulate(config(nemesis="restart:graceful"))
    assert restarted.cluster.takes == []


def test_batches_are_those_of_the_log(done: Simulated, found: Evidence) -> None:
    last = len(done.cluster.takes)
    compared = 0
    for node, sim in done.cluster.sim.items():
        for tp, log in sim.durable.logs.items():
            told = [
                row
                for row in found.of("batches", TopicPartition(*tp)).to_pylist()
                if (row["take"], row["node"]) == (last, node)
            ]
            assert [(row["base"], row["last"], row["leader_epoch"]) for row in told] == [
                (batch.base, batch.last, batch.epoch) for batch in log.batches
            ]
            assert [row["position"] for row in told] == [
                sum(row["size"] for row in told[:at]) for at in range(len(told))
            ]
            compared += len(told)
    assert compared > 100


def test_replicas_of_a_batch_have_its_checksum_and_others_have_not(found: Evidence) -> None:
    by_place: dict[tuple[object, ...], set[int]] = {}
    for row in rows(found, "batches"):
        place = row["topic"], row["partition"], row["base"], row["leader_epoch"]
        by_place.setdefault(place, set()).add(row["crc"])
    assert {len(crcs) for crcs in by_place.values()} == {1}
    assert len({crc for crcs in by_place.values() for crc in crcs}) > 0.9 * len(by_place)


def test_a_power_loss_leaves_what_was_flushed() -> None:
    cluster = simulate(config("queue", "none", duration_s=2)).cluster
    node = cluster.sim[1]
    node.durable.logs["queue", 0].flushed = flushed = node.durable.logs["queue", 0].batches[2].base
    node.lose_power()
    found = evidence(cluster)
    mine = rows(found, "batches", node=1, topic="queue", partition=0)
    assert mine[-1]["last"] == flushed - 1
    others = rows(found, "batches", node=2, topic="queue", partition=0)
    assert others[-1]["last"] >= flushed
    ends = {(row["node"], row["why"]) for row in rows(found, "takes")}
    assert ends == {*((node, END) for node in cluster.nodes), (1, LOST_POWER)}


@pytest.mark.parametrize(("nemesis", "why"), [("kill:all", KILLED), ("power:all", LOST_POWER)])
def test_a_take_says_how_a_node_died(nemesis: str, why: str) -> None:
    takes = rows(evidence(simulate(config("queue", nemesis)).cluster), "takes")
    assert {row["why"] for row in takes} == {why, END}


def test_later_life_does_not_change_a_take() -> None:
    cluster = simulate(config("queue", "none", duration_s=2)).cluster
    before = cluster.disks()[-1][0].durable
    log = cluster.sim[1].durable.logs["queue", 0]
    end, producers = log.end, dict(before.logs["queue", 0].producers)
    log.truncate(1)
    log.producers.clear()
    assert before.logs["queue", 0].batches[-1].last == end - 1
    assert before.logs["queue", 0].producers == producers != {}


@pytest.mark.sampled(8)
def test_markers_and_decisions(done: Simulated, found: Evidence) -> None:
    markers = rows(found, "control", topic="transactions")
    assert {row["name"] for row in markers} == {"ABORT", "COMMIT"}
    decided = {
        (row["producer_id"], row["producer_epoch"], row["state"]) for row in rows(found, "transaction_log")
    }
    for row in markers:
        state = "PrepareCommit" if row["name"] == "COMMIT" else "PrepareAbort"
        assert (row["producer_id"], row["producer_epoch"], state) in decided
        assert json.loads(row["body"])["coordinatorEpoch"] == row["coordinator_epoch"]
    ended = {row["last"] for row in rows(found, "aborted", topic="transactions", partition=0)}
    assert ended <= {row["offset"] for row in markers if row["name"] == "ABORT" and row["partition"] == 0}


def test_a_forgotten_id_is_a_tombstone() -> None:
    def logged(era: str) -> Rows:
        rows: Rows = table(
            TRANSACTION_LOG, [*map(transaction_row, log_records(batch, ERAS[era], BASE_MS))]
        ).to_pylist()
        return rows

    known = TransactionRecord("t", 7, 1000, 3, state=TransactionState.EMPTY, updated=5, previous_id=6)
    batch = RecordBatch(0, 2, (known, TransactionTombstone("t")), appended_ms=9)
    written, gone = logged("4.3")
    assert (written["offset"], written["timestamp"], written["last_update_ms"]) == (0, 1009, 1005)
    assert (written["state"], written["previous_producer_id"], written["start_ms"]) == ("Empty", 6, -1)
    told = {name: value for name, value in gone.items() if value is not None}
    assert told == {"offset": 1, "leader_epoch": 2, "timestamp": 1009, "transactional_id": "t"}
    older, _ = logged("3.9")
    assert older["previous_producer_id"] == -1  # its records have no such field


@pytest.mark.sampled(5)
def test_states_of_producers_and_ends_are_those_of_the_node(done: Simulated, found: Evidence) -> None:
    last = len(done.cluster.takes)
    log = done.cluster.sim[2].durable.logs["transactions", 0]
    told = rows(found, "producers", take=last, node=2, topic="transactions", partition=0)
    assert {row["producer_id"]: (row["producer_epoch"], row["last_sequence"]) for row in told} == {
        number: (known.epoch, known.last_sequence) for number, known in log.producers.items()
    }
    ends = rows(found, "ends", take=last, node=2, topic="transactions", partition=0)
    checkpoint = done.cluster.sim[2].durable.checkpoint["transactions", 0]
    assert {row["file"]: row["value"] for row in ends} == {
        "recovery-point": 0,
        "log-start": 0,
        "replication": checkpoint,
    }


@pytest.mark.sampled(5)
def test_a_log_without_producers_has_a_snapshot_that_says_so(done: Simulated, found: Evidence) -> None:
    """As real nodes have one; but none of a log to which nothing came."""
    last = len(done.cluster.takes)
    none = {(TRANSACTION_TOPIC, partition): {NO_PRODUCER} for partition in range(50)}
    for node, simulated in done.cluster.sim.items():
        logs = simulated.durable.logs
        told: dict[tuple[str, int], set[int]] = {}
        for row in rows(found, "producers", take=last, node=node):
            told.setdefault((row["topic"], row["partition"]), set()).add(row["producer_id"])
        assert told == {tp: {*log.producers} or {NO_PRODUCER} for tp, log in logs.items() if log.end}
        assert any(told.get(tp) == kept for tp, kept in none.items())


@pytest.mark.sampled(5)
def test_offsets_and_generations_of_groups() -> None:
    era = "4.3-tv1"  # epochs stay, and with them what is remembered
    cluster = simulate(config("copier", "none", preset="exactly-once", duration_s=2, era=era)).cluster
    found = evidence(cluster)
    offsets = rows(found, "offset_log", take=0)
    assert {row["transactional"] for row in offsets} >= {True}
    assert all(row["producer_id"] >= 0 for row in offsets if row["transactional"])
    groups = rows(found, "group_log", take=0)
    assert {row["name"] for row in groups} == {"GroupMetadata"}
    assert all(json.loads(row["body"])["generation"] == row["epoch"] for row in groups)
    members = next(filter(None, (json.loads(row["body"])["members"] for row in reversed(groups))))
    read = entity_reader(ConsumerProtocolAssignment)
    given = [read(base64.b64decode(member["assignment"]), 2)[0] for member in members]
    numbers = [number for one in given for topic in one.assigned_partitions for number in topic.partitions]
    assert sorted(numbers) == [0, 1, 2]
    kept = rows(found, "producers", take=0, topic=GROUP_TOPIC)
    written = {(row["node"], row["offset"]) for row in offsets if row["transactional"]}
    # a group coordinator writes without sequence numbers, and Kafka remembers where
    assert all(row["last_sequence"] == -1 for row in kept)
    assert {(row["node"], row["last_offset"]) for row in kept if row["last_offset"] >= 0} <= written
    assert any(row["last_offset"] >= 0 for row in kept)


def replayed(metadata: Rows) -> dict[tuple[str, int], tuple[int, int, tuple[int, ...]]]:
    """Leader, leader epoch and in-sync set by partition, as Kafka replays its records."""
    topics = {row["topic_id"]: row["topic"] for row in metadata if row["name"] == "TopicRecord"}
    state: dict[tuple[str, int], tuple[int, int, tuple[int, ...]]] = {}
    for row in metadata:
        place = topics.get(row["topic_id"], ""), row["partition"]
        if row["name"] == "PartitionRecord":
            state[place] = row["leader"], row["partition_leader_epoch"], tuple(row["isr"])
        elif row["name"] == "PartitionChangeRecord":
            leader, epoch, isr = state[place]
            if row["leader"] != -2:
                leader, epoch = row["leader"], epoch + 1
            state[place] = leader, epoch, isr if row["isr"] is None else tuple(row["isr"])
    return state


@pytest.mark.sampled(5)
@pytest.mark.parametrize("era", ["3.3", "4.3"])
def test_metadata_records_make_the_image_of_the_model(era: str) -> None:
    done = simulate(config(nemesis="kill:one@leader", era=era))
    metadata = rows(evidence(done.cluster), "metadata", take=len(done.cluster.takes), node=1)
    image = MetadataImage()
    for _, entry in done.cluster.sim[1].durable.entries:
        image.apply(entry)
    assert replayed(metadata) == {
        tp: (state.leader, state.leader_epoch, state.isr) for tp, state in image.partitions.items()
    }
    names = Counter(row["name"] for row in metadata)
    assert names["PartitionChangeRecord"] > names["PartitionRecord"] == len(image.partitions)
    registered = [row for row in metadata if row["name"] == "RegisterBrokerRecord"]
    assert all(row["broker_epoch"] == row["offset"] for row in registered)
    changed = [row for row in metadata if row["name"] == "BrokerRegistrationChangeRecord"]
    assert {row["broker_epoch"] for row in changed} <= {row["offset"] for row in registered}


def test_a_leader_epoch_that_did_not_rise_is_no_partition_change() -> None:
    entries = done_entries = simulate(config("queue", "none", duration_s=1)).cluster.sim[1].durable.entries
    first = next(entry for _, entry in done_entries if isinstance(entry, PartitionRecord))
    moved = structs.replace(first.state, leader=first.state.replicas[1], partition_epoch=1)
    entries = [*done_entries, (1, PartitionRecord(first.partition, moved))]
    last = records(entries, Settings(), "4.3")[-1]
    assert (last.name, last.fields["leaderEpoch"]) == ("PartitionRecord", 0)


@pytest.mark.sampled(19)
def test_an_era_of_zookeeper_has_no_metadata_log() -> None:
    found = evidence(simulate(config(era="2.4")).cluster)
    assert rows(found, "metadata") == []
    paths = {row["path"] for row in rows(found, "znodes")}
    assert {"/brokers", "/controller", "/brokers/topics/transactions/partitions/0/state"} <= paths
    assert {row["topic"] for row in rows(found, "partitions")} == {"transactions", TRANSACTION_TOPIC}
    assert rows(found, "transaction_log") != []


@pytest.mark.sampled(6)
def test_a_recorded_run_has_the_tables(tmp_path: Path) -> None:
    wanted = config(duration_s=3)
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    made = record(wanted, planned(wanted).steps, run)
    loaded = Evidence.load(run.evidence)
    for name, rows_of_it in tables_of_run(made.cluster).items():
        assert loaded.table(name).to_pylist() == rows_of_it.to_pylist()
    assert TopicPartition("transactions", 0) in loaded.partitions()
