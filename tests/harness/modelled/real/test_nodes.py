"""Nodes of the model as processes: bytes from outside, kills, pauses, cuts, power losses."""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from core.capabilities import Cut, Direction
from core.internal_topics import GROUP_TOPIC
from core.java_hash import java_hash
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.modelled.real.cluster import ModelCluster
from harness.modelled.real.encoded.disk import load
from harness.modelled.real.node import DISK
from harness.protocol.cursor import Cursor
from harness.protocol.frames import frame
from harness.protocol.messages import decode
from model.settings import Settings
from tests.waiting import until

WAIT_S = 30.0
TP = TopicPartition("kept", 0)


@pytest.fixture(scope="module")
def topic(cluster: ModelCluster) -> TopicPartition:
    run_blocking(cluster.create_topic(TP.topic, 1, 3, {}))
    return TP


@pytest.fixture
def whole(cluster: ModelCluster, topic: TopicPartition) -> Iterator[None]:
    """Afterwards all nodes run, and all replicas are in sync."""
    yield
    run_blocking(cluster.revive(cluster.nodes))
    until(lambda: full(cluster), "all replicas in sync")


def full(cluster: ModelCluster) -> bool:
    roles = run_blocking(cluster.roles())
    return roles.agreed and set(roles.isr.get(TP, ())) == {1, 2, 3}


def servers(cluster: ModelCluster) -> dict[int, str]:
    return dict(zip(cluster.brokers, cluster.endpoint().args["bootstrap.servers"].split(","), strict=True))


def producer(cluster: ModelCluster, *but: int) -> Producer:
    """It asks all brokers but these for metadata."""
    asked = ",".join(address for node, address in servers(cluster).items() if node not in but)
    return Producer({"bootstrap.servers": asked, "enable.idempotence": True, "linger.ms": 0})


def sent(made: Producer, count: int) -> Callable[[], list[int]]:
    """Send records; gives the offsets of those that were acknowledged so far."""
    offsets: list[Any] = []
    for number in range(count):
        made.produce(
            TP.topic, f"{number}", partition=0, on_delivery=lambda e, m: offsets.append(e or m.offset())
        )

    def so_far() -> list[int]:
        made.poll(0)
        return offsets

    return so_far


def end(cluster: ModelCluster) -> int:
    known: list[int] = []

    def led() -> bool:
        found = run_blocking(cluster.offsets([TP], Isolation.READ_COMMITTED))
        known[:] = [found[TP][1]] if TP in found else []
        return bool(known)

    until(led, "a leader of the partition")
    return known[0]


def leader(cluster: ModelCluster) -> int:
    return run_blocking(cluster.roles()).leaders[TP]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n" + bytes(200), "a frame of"),
        (frame(b"\0\1"), "shorter than its header"),
        (frame(b"\0\3\0\1\0\0\0\1\xff\xff" + b"\x7f\xff\xff\xff"), "is not served"),
        (frame(b"\0\3\0\5\0\0\0\1\xff\xff" + b"\x7f\xff\xff\xff"), "an array of"),
        (frame(b"\x03\xe7\0\0\0\0\0\1\xff\xff"), "is not served"),
    ],
    ids=["http", "short", "old-version", "huge-array", "unknown-api"],
)
def test_what_is_not_kafkas_protocol_closes_its_connection_only(
    cluster: ModelCluster, tmp_path: Path, data: bytes, why: str
) -> None:
    place = run_blocking(cluster.roles()).answering[0]
    host, _, port = servers(cluster)[place].partition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as opened:
        opened.sendall(data)
        with suppress(ConnectionResetError):
            assert opened.recv(100) == b""
    run_blocking(cluster.collect(tmp_path))
    lines = (tmp_path / str(place) / "server.log").read_text().splitlines()
    assert why in lines[-1]
    assert lines[-1].partition("INFO ")[2].startswith("a connection of a client is closed")
    assert not run_blocking(cluster.ended())
    assert run_blocking(cluster.roles()).agreed


@pytest.mark.sampled(8)
@pytest.mark.usefixtures("whole")
def test_an_end_from_outside_is_seen_once_and_no_new_start_hides_it(cluster: ModelCluster) -> None:
    assert not run_blocking(cluster.ended())
    victim = cluster.nodes[1]
    run_blocking(cluster.kill([victim]))  # what its log says last is how it starts
    run_blocking(cluster.revive([victim]))
    until(lambda: victim in run_blocking(cluster.roles()).answering, "that it listens for clients")
    assert not run_blocking(cluster.ended())
    pid = cluster.pids[1]
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in cluster.pids, "its end")
    run_blocking(cluster.revive(cluster.nodes))
    (end,) = run_blocking(cluster.ended())
    assert (end.node, end.signal, end.own_program) == (victim, signal.SIGKILL, True)
    assert end.outside == "something sent it SIGKILL"
    assert any("listens for clients" in line for line in end.log)
    assert not run_blocking(cluster.ended())
    until(lambda: full(cluster), "all replicas in sync")
    run_blocking(cluster.shut_down([victim]))
    assert not run_blocking(cluster.ended())
    run_blocking(cluster.revive([victim]))
    until(lambda: full(cluster), "all replicas in sync")


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("whole")
def test_what_was_acknowledged_survives_a_kill_of_all(cluster: ModelCluster, topic: TopicPartition) -> None:
    made = producer(cluster)
    acked, before = sent(made, 20), end(cluster)
    until(lambda: len(acked()) == 20, "acknowledgements")
    run_blocking(cluster.kill(cluster.nodes))
    assert not run_blocking(cluster.ended())
    run_blocking(cluster.revive(cluster.nodes))
    until(lambda: full(cluster), "all replicas in sync")
    assert end(cluster) >= before + 20
    more = sent(made, 1)
    until(lambda: len(more()) == 1, "an acknowledgement after the kill")
    assert more() == [end(cluster) - 1]


@pytest.mark.usefixtures("whole")
def test_deleted_records_are_deleted_on_all_disks(cluster: ModelCluster) -> None:
    topic = TopicPartition("deleted", 0)
    run_blocking(cluster.create_topic(topic.topic, 1, 3, {}))
    made = producer(cluster)
    for number in range(6):
        made.produce(topic.topic, f"{number}", partition=0)
        made.flush(WAIT_S)
    admin = AdminClient({"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]})
    (deleted,) = admin.delete_records([Place(topic.topic, 0, 4)]).values()
    assert deleted.result(WAIT_S).low_watermark == 4
    (refused,) = admin.delete_records([Place(topic.topic, 0, 7)]).values()
    with pytest.raises(KafkaException) as raised:
        refused.result(WAIT_S)
    assert raised.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE

    found = run_blocking(cluster.offsets([topic], Isolation.READ_COMMITTED))
    assert found[topic] == (4, 6)
    disks = [load(cluster._processes[node].folder / DISK, Settings(), 0) for node in cluster.brokers]
    assert [disk.logs[topic.topic, 0].start for disk in disks] == [4, 4, 4]


def test_clients_read_the_log_of_the_group_coordinator(cluster: ModelCluster, topic: TopicPartition) -> None:
    servers = {"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]}
    group = Consumer({**servers, "group.id": "logged"})
    group.commit(offsets=[Place(topic.topic, 0, 3)], asynchronous=False)
    group.close()
    reader = Consumer({**servers, "group.id": "reader"})
    reader.assign([Place(GROUP_TOPIC, java_hash("logged") % 3, 0)])
    keys: list[bytes] = []  # groups of other tests are in this log, too

    def read() -> bool:
        keys.extend(record.key() or b"" for record in reader.consume(100, 0.1))
        return any(b"logged" in key for key in keys)

    until(read, "the commit is read")
    reader.close()
    (mine,) = [key for key in keys if b"logged" in key]
    key = decode("OffsetCommitKey", 0, Cursor(mine, 2))
    assert key == {"group": "logged", "topic": topic.topic, "partition": 0}


@pytest.mark.sampled(48)
@pytest.mark.usefixtures("whole")
def test_a_power_loss_of_all_takes_what_was_not_flushed(cluster: ModelCluster, topic: TopicPartition) -> None:
    acked = sent(producer(cluster), 5)
    until(lambda: len(acked()) == 5, "acknowledgements")
    assert run_blocking(cluster.lose_power(cluster.nodes, 1)) > 0
    run_blocking(cluster.revive(cluster.nodes))
    until(lambda: full(cluster), "all replicas in sync")
    assert end(cluster) <= min(acked())


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("whole")
def test_a_clean_shutdown_hands_over_and_flushes(cluster: ModelCluster, topic: TopicPartition) -> None:
    before, down = end(cluster), leader(cluster)
    run_blocking(cluster.shut_down([down]))
    until(lambda: leader(cluster) not in (-1, down), "another leader")
    assert end(cluster) == before
    run_blocking(cluster.revive([down]))
    until(lambda: full(cluster), "all replicas in sync")


@pytest.mark.sampled(10)
@pytest.mark.usefixtures("whole")
def test_a_paused_leader_is_replaced_and_comes_back(cluster: ModelCluster, topic: TopicPartition) -> None:
    paused = leader(cluster)
    run_blocking(cluster.pause([paused]))
    try:
        until(lambda: leader(cluster) not in (-1, paused), "another leader")
    finally:
        run_blocking(cluster.resume([paused]))
    until(lambda: full(cluster), "all replicas in sync")


def cuts(node: int, peers: Sequence[int | None]) -> list[Cut]:
    return [Cut(node=node, direction=way, peer=peer) for peer in peers for way in Direction]


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("whole")
def test_a_leader_that_is_cut_off_from_the_others_is_replaced(
    cluster: ModelCluster, topic: TopicPartition
) -> None:
    alone = leader(cluster)
    cut = cuts(alone, [node for node in cluster.nodes if node != alone])
    run_blocking(cluster.cut(cut))
    try:
        until(lambda: leader(cluster) not in (-1, alone), "another leader")
        acked = sent(producer(cluster, alone), 1)
        until(lambda: len(acked()) == 1, "an acknowledgement of the new leader")
    finally:
        run_blocking(cluster.mend(cut))
    until(lambda: full(cluster), "all replicas in sync")


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("way", Direction)
def test_what_a_cut_link_of_clients_holds_comes_late(
    cluster: ModelCluster, topic: TopicPartition, way: Direction
) -> None:
    made = producer(cluster)
    first = sent(made, 1)
    until(lambda: len(first()) == 1, "an acknowledgement")
    before = end(cluster)
    cut = [Cut(node=node, direction=way) for node in cluster.brokers]
    run_blocking(cluster.cut(cut))
    try:
        acked = sent(made, 1)
        if way is Direction.OUT:  # the request arrives, its answer does not
            until(lambda: end(cluster) == before + 1, "the record in the log")
        else:
            made.flush(0.5)
            assert end(cluster) == before
        assert acked() == []
    finally:
        run_blocking(cluster.mend(cut))
    until(lambda: acked() == [before], "the acknowledgement")
    assert end(cluster) == before + 1
