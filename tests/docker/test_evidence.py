"""The data directory of a frozen broker, read without it, against Kafka's own DumpLogSegments."""

import io
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kio.schema.alter_replica_log_dirs.v1.response import AlterReplicaLogDirsResponse

from checkers.engine.pipeline import check_evidence
from checkers.logs.coordinator_log import coordinator_log
from checkers.logs.registry import LOG_CHECKS
from core.cluster import Roles
from core.config import run_config
from core.errors import ClusterError
from core.internal_topics import TRANSACTION_TOPIC
from core.op import Isolation
from core.op import TopicPartition as Place
from core.runtime import run_blocking
from core.systems import KAFKA_VERSION
from harness.brokers.admin import log_directories
from harness.containers.cluster import ContainerCluster
from harness.containers.data import DATA, SECOND
from harness.containers.engine import RUN_LABEL, connect
from harness.evidence.directory import read
from harness.kafka.cluster import KafkaCluster
from harness.kafka.images import image_tag
from harness.kafka.jars import jars
from harness.kafka.system import kafka_cluster
from harness.protocol.definitions import FILE, condensed
from history.evidence import Evidence
from history.evidence_tables import CLIENT, END, KILLED, LOST_POWER
from tests.docker.conftest import TOPIC, roles_when, whole
from tests.harness.evidence.dumped import Comparison, compare, sections
from tests.waiting import until

if TYPE_CHECKING:
    from docker.models.containers import Container

TOOL = "java -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' org.apache.kafka.tools.DumpLogSegments"
DECODERS = {
    "__transaction_state": "--transaction-log-decoder",
    "__consumer_offsets": "--offsets-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
INTERNAL_PARTITIONS = 5
"""Of `__transaction_state`, as the harness sets its brokers."""
READ = (".log", ".snapshot", ".txnindex")


def work(cluster: ContainerCluster) -> None:
    """Three transactions, the second aborted, with offsets of a group; and batches of each codec."""
    servers = cluster.endpoint().args["bootstrap.servers"]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        plain = Producer(
            {"bootstrap.servers": servers, "compression.type": codec, "enable.idempotence": True}
        )
        for number in range(30):
            plain.produce(TOPIC, f"{codec} {number}", partition=number % 2)
        assert plain.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "read", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    assert consumer.consume(1, 30)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "evidence"})
    producer.init_transactions(30)
    for number in range(3):
        producer.begin_transaction()
        producer.produce(TOPIC, "in a transaction", partition=number)
        offsets = [TopicPartition(TOPIC, 0, number + 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if number == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    consumer.close()


@contextmanager
def started(cluster: ContainerCluster, data: Path, script: str) -> Iterator["Container"]:
    """A container with a copy of the data in /data, which runs the script."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(data, "data")
    client = connect()
    container = client.containers.create(
        image_tag(KAFKA_VERSION), entrypoint=["sh", "-c", script], labels={RUN_LABEL: cluster.run}
    )
    try:
        container.put_archive("/", packed.getvalue())
        container.start()
        yield container
    finally:
        container.remove(force=True)
        client.close()


def dumped(cluster: ContainerCluster, data: Path) -> tuple[int, str]:
    """What DumpLogSegments prints of all files: their number, the text."""
    calls: dict[str, list[str]] = {}
    files = [path for path in sorted(data.glob("*/*")) if path.suffix in READ and path.stat().st_size]
    for path in files:
        decoder = DECODERS.get(path.parent.name.rpartition("-")[0], "") if path.suffix == ".log" else ""
        calls.setdefault(decoder, []).append(f"/data/{path.relative_to(data)}")
    script = "; ".join(
        f"{TOOL} {decoder} --deep-iteration --files {','.join(names)}" for decoder, names in calls.items()
    )
    with started(cluster, data, script) as container:
        assert container.wait(timeout=120)["StatusCode"] == 0
        return len(files), container.logs(stderr=False).decode()


def test_every_file_of_a_node_is_read_as_kafka_reads_it(cluster: ContainerCluster, tmp_path: Path) -> None:
    work(cluster)
    run_blocking(cluster.pause([3]))
    data = tmp_path / "data"
    cluster.copy_data(3, data)
    found = read(data, 3)
    assert found["damage"].to_pylist() == []
    assert found["nodes"].to_pylist()[0]["clean_shutdown"] is False
    assert {"evidence"} <= set(found["transaction_log"]["transactional_id"].to_pylist())
    assert {"COMMIT", "ABORT"} <= set(found["control"]["name"].to_pylist())
    assert {1, 3} <= set(found["offset_log"]["committed"].to_pylist())
    files, text = dumped(cluster, data)
    compared = Comparison()
    for name, lines in sections(text):
        compare(data / name, lines, compared)
    assert compared.differences == []
    assert compared.files == files
    assert compared.fields > 1000


def moved(cluster: ContainerCluster, node: int, tp: Place, to: str) -> None:
    """A replica of this node is moved to its other log directory (KIP-113)."""
    dirs = [{"path": to, "topics": [{"name": tp.topic, "partitions": [tp.partition]}]}]
    with cluster.admin.connect(node, 10) as connection:
        connection.call(AlterReplicaLogDirsResponse, dirs=dirs)
    until(lambda: tp in (directories(cluster, node)[to] or ()), f"{tp} is in {to} of node {node}", 30)


def directories(cluster: ContainerCluster, node: int) -> Mapping[str, tuple[Place, ...] | None]:
    return log_directories.replicas(cluster.admin, node)


def written(cluster: ContainerCluster) -> None:
    """Each partition has acknowledged a record.

    A leader waits for a replica that was in sync a moment ago, also where the controller has taken it out of
    the in-sync set with its directory, and counts again when it appends
    (`Partition.maybeIncrementLeaderHW`): a record that no other follows may wait for its request to end.
    """
    servers = cluster.endpoint().args["bootstrap.servers"]
    producer, acknowledged = Producer({"bootstrap.servers": servers}), set[int | None]()

    def told(error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
        if error is None:
            acknowledged.add(message.partition())

    def once_more() -> bool:
        for number in range(6):
            producer.produce(TOPIC, "one directory", partition=number, on_delivery=told)
        producer.flush(1)
        return len(acknowledged) == 6

    until(once_more, "each partition acknowledges", 60)
    assert producer.flush(30) == 0


@pytest.mark.sampled(16)
def test_a_broker_loses_one_of_two_directories_and_has_both_read_again(tmp_path: Path) -> None:
    """It goes on with the other one; others lead what was there. Each replica is read once."""
    config = run_config({"seed": 1, "log_dirs": 2})
    cluster = cast("KafkaCluster", kafka_cluster(config, tmp_path / f"directories-{time.time_ns()}"))
    try:
        run_blocking(cluster.start())
        run_blocking(cluster.create_topic(TOPIC, 6, 3, {}))
        work(cluster)
        victim = run_blocking(cluster.roles()).controller
        had = directories(cluster, victim)
        gone = run_blocking(cluster.fail_directory(victim, 20))
        assert directories(cluster, victim) == {**had, SECOND: None}
        assert set(gone) == set(had[SECOND] or ())

        def left(roles: Roles) -> bool:
            return victim in roles.answering and not any(victim in roles.isr[tp] for tp in gone)

        roles = roles_when(cluster, left, 30, "its replicas there leave, and it answers")
        assert all(victim in roles.isr[tp] for tp in had[DATA] or () if tp.topic == TOPIC)
        assert all(roles.leaders[tp] not in (victim, -1) for tp in gone)
        with pytest.raises(ClusterError, match="would not see its directory again"):
            run_blocking(cluster.mend_directories([victim]))
        written(cluster)
        run_blocking(cluster.shut_down([victim]))
        run_blocking(cluster.mend_directories(cluster.nodes))
        run_blocking(cluster.revive([victim]))
        whole(cluster)
        assert directories(cluster, victim) == had
        moved(cluster, victim, next(tp for tp in gone if tp.topic == TOPIC), DATA)
        moved(cluster, victim, next(tp for tp in had[DATA] or () if tp.topic == TOPIC), SECOND)
        work(cluster)
        assert run_blocking(cluster.take_evidence(tmp_path / "evidence")) == []
    finally:
        run_blocking(cluster.stop())
    found = Evidence.load(tmp_path / "evidence")
    assert found.table("damage").to_pylist() == []
    for number in range(6):
        log = Place(TOPIC, number)
        rows = found.of("partitions", log).to_pylist()
        assert sorted(row["node"] for row in rows) == [1, 2, 3]
        checksums = found.of("batches", log).select(["node", "base", "crc"]).to_pylist()
        copies = [[(row["base"], row["crc"]) for row in checksums if row["node"] == n] for n in (1, 2, 3)]
        assert copies[0] == copies[1] == copies[2]
        assert (number > 2) or copies[0]


@pytest.mark.sampled(11)
def test_takes_at_a_kill_and_at_the_end(tmp_path: Path) -> None:
    """Nodes that were killed are taken before they start again, others at the end alone; of one that is down
    by then a second row says how it ended."""
    cluster = kafka_cluster(run_config({"seed": 1, "capture": True}), tmp_path / f"takes-{time.time_ns()}")
    try:
        run_blocking(cluster.start())
        run_blocking(cluster.create_topic(TOPIC, 6, 3, {}))
        work(cluster)
        run_blocking(cluster.kill([2]))
        run_blocking(cluster.shut_down([1]))
        for _ in range(2):
            run_blocking(cluster.revive(cluster.nodes))
        whole(cluster)
        work(cluster)
        no_client_writes_decisions(cluster)
        run_blocking(cluster.kill([2]))
        run_blocking(cluster.lose_power([3], seed=4))
        assert run_blocking(cluster.take_evidence(tmp_path / "evidence")) == []
    finally:
        run_blocking(cluster.stop())
    found = Evidence.load(tmp_path / "evidence")
    takes = [(row["take"], row["node"], row["why"]) for row in found.table("takes").to_pylist()]
    ended = [(1, 1, END), (1, 2, END), (1, 2, KILLED), (1, 3, END), (1, 3, LOST_POWER)]
    assert sorted(takes) == [(0, 2, KILLED), *ended]
    torn = {row["node"] for row in found.table("damage").to_pylist()}
    assert torn <= {3}  # by the loss of power
    assert {row["clean_shutdown"] for row in found.table("nodes").to_pylist()} == {False}
    held = 0
    for tp in found.partitions():
        if tp.topic != TOPIC:
            continue
        early, late = (
            {
                (row["base"], row["leader_epoch"], row["crc"])
                for row in of_take(found.of("batches", tp), take)
                if row["node"] == 2 and not row["control"]
            }
            for take in (0, 1)
        )
        # Their transactions were committed before the kill; markers may have been its newest batches, not
        # replicated yet, as a coordinator's note that it has completed one.
        assert early <= late, tp
        held += len(early)
    assert held
    log = coordinator_log(found)
    assert log.missing == ""
    kept = [row for one in log.kept.values() if one is not None for row in one.rows]
    states = [row["state"] for row in kept if row["transactional_id"] == "evidence" and row["state"]]
    # Decisions are on every replica in sync before the client has its answer; that they are carried out is
    # noted later. The newest one may be beyond what is known as committed: node 3 had not flushed it.
    decisions = [state for state in states if state.startswith("Prepare")]
    assert decisions == 2 * ["PrepareCommit", "PrepareAbort", "PrepareCommit"]
    captured_whole(found)
    judged = check_evidence(found, LOG_CHECKS)
    assert judged.in_logs == []
    assert judged.asked["transaction-log-closed"] == INTERNAL_PARTITIONS


def no_client_writes_decisions(cluster: ContainerCluster) -> None:
    """Who is no coordinator is refused by each leader of the log of transactions, and nothing is appended."""
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]})
    log = [Place(TRANSACTION_TOPIC, number) for number in range(INTERNAL_PARTITIONS)]
    for tp in log:
        producer.produce(
            *(tp.topic, b"forged", b"evidence", tp.partition),
            on_delivery=lambda error, _: refused.append(error.name() if error is not None else "taken"),
        )
    assert producer.flush(30) == 0
    assert refused == ["TOPIC_EXCEPTION"] * INTERNAL_PARTITIONS
    # The one transactional id has its partition, which its coordinator may still complete a transaction in.
    ends = run_blocking(cluster.offsets(log, Isolation.READ_UNCOMMITTED))
    assert sorted(end for _, end in ends.values())[:-1] == [0] * (INTERNAL_PARTITIONS - 1)


def captured_whole(found: Evidence) -> None:
    """All connections were seen from their beginning, over a kill and restarts; and both kinds of markers."""
    assert found.table("gaps").to_pylist() == []
    frames = found.table("frames")
    assert set(frames["server"].to_pylist()) == {1, 2, 3}
    assert set(frames["client"].to_pylist()) == {CLIENT, 1, 2, 3}
    assert frames["at_ns"].to_pylist() == sorted(frames["at_ns"].to_pylist())
    assert -1 not in frames["api"].to_pylist()
    parts = found.table("frame_parts")
    assert {row["commit"] for row in parts.to_pylist()} == {True, False, None}
    topics = {row["topic"] for row in parts.to_pylist() if row["producer_id"] is not None}
    assert TOPIC in topics


def of_take(rows: pa.Table, take: int) -> list[dict[str, int]]:
    chosen: list[dict[str, int]] = rows.filter(pc.equal(rows["take"], take)).to_pylist()
    return chosen


def test_the_definitions_are_those_of_this_kafka() -> None:
    assert FILE.read_text().splitlines() == condensed(jars(KAFKA_VERSION))
