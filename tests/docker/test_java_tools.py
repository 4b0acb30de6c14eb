"""What Kafka's own tools say of a real cluster is what the harness reads of it."""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from kio.schema.describe_producers.v0.response import DescribeProducersResponse

from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection
from harness.containers.cluster import ContainerCluster
from harness.protocol.topics import numbers_in_topics
from tests.docker.conftest import whole
from tests.docker.test_java_clients import LINES, consumed, java
from tests.waiting import until


@pytest.mark.sampled(20)
def test_tools_send_read_and_list_what_the_harness_sees(cluster: ContainerCluster) -> None:
    """Ends of partitions by GetOffsetShell, members and offsets of a group by ConsumerGroupCommand."""
    topic = f"tools-{time.time_ns()}"
    tps = [TopicPartition(topic, number) for number in range(3)]
    run_blocking(cluster.create_topic(topic, len(tps), 3, {}))
    java(cluster, "ConsoleProducer", ["--topic", topic], LINES)
    assert sorted(consumed(cluster, topic, len(LINES), "--group", topic)) == sorted(LINES)

    ends = run_blocking(cluster.offsets(tps, Isolation.READ_COMMITTED))
    assert sum(end for _, end in ends.values()) == len(LINES)
    shown = java(cluster, "GetOffsetShell", ["--topic", topic]).split()
    assert shown == [f"{tp.topic}:{tp.partition}:{ends[tp][1]}" for tp in tps]

    assert topic in java(cluster, "consumer.group.ConsumerGroupCommand", ["--list"]).split()
    described = java(cluster, "consumer.group.ConsumerGroupCommand", ["--describe", "--group", topic])
    rows = [line.split() for line in described.splitlines() if line.startswith(topic)]
    found = {TopicPartition(row[1], int(row[2])): (row[3], int(row[4])) for row in rows}
    stored = committed(cluster, topic, tps)
    assert found == {tp: (stored[tp], ends[tp][1]) for tp in tps if stored[tp] != "-"}
    assert sum(int(offset) for offset in stored.values() if offset != "-") == len(LINES)


@pytest.mark.sampled(20)
def test_tools_describe_topics_and_members_as_the_harness_sees_them(cluster: ContainerCluster) -> None:
    """Leaders and replicas by TopicCommand; members and what they own, while they live."""
    topic = f"described-{time.time_ns()}"
    tps = [TopicPartition(topic, number) for number in range(3)]
    run_blocking(cluster.create_topic(topic, len(tps), 3, {"min.insync.replicas": "2"}))
    roles = whole(cluster, topic)
    described = java(cluster, "TopicCommand", ["--describe", "--topic", topic]).splitlines()
    rows = [fields(line) for line in described if "Partition:" in line]
    assert "min.insync.replicas=2" in described[0]
    assert [int(row["Partition"]) for row in rows] == [tp.partition for tp in tps]
    for tp, row in zip(tps, rows, strict=True):
        assert int(row["Leader"]) == roles.leaders[tp]
        assert tuple(map(int, row["Replicas"].split(","))) == roles.replicas[tp]
        assert tuple(sorted(map(int, row["Isr"].split(",")))) == roles.isr[tp]

    members = ["--describe", "--group", topic, "--members", "--verbose"]
    with ExitStack() as living:
        both = [Consumer(of_group(cluster, topic)) for _ in range(2)]
        for one in both:
            living.callback(one.close)
            one.subscribe([topic])
        until(lambda: shared(both) == [1, 2], "both members own partitions", 60)
        own = {one.memberid(): sorted(it.partition for it in one.assignment()) for one in both}
        table = java(cluster, "consumer.group.ConsumerGroupCommand", members)
        assert members_in(table, topic) == own, table
    assert not members_in(java(cluster, "consumer.group.ConsumerGroupCommand", members), topic)


@pytest.mark.sampled(20)
def test_a_java_producer_is_idempotent_by_default_and_keeps_to_one_partition_or_goes_round(
    cluster: ContainerCluster,
) -> None:
    """Records without a key: RoundRobinPartitioner takes each partition in turn, the default one does not."""
    default, told = f"default-{time.time_ns()}", f"told-{time.time_ns()}"
    for topic in (default, told):
        run_blocking(cluster.create_topic(topic, 3, 3, {}))
        whole(cluster, topic)
    java(cluster, "ConsoleProducer", ["--topic", default], LINES)
    chosen = "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"
    words = ["--command-property", "enable.idempotence=false", "--command-property", chosen]
    java(cluster, "ConsoleProducer", ["--topic", told, *words], LINES)
    assert len({producer for producer, _ in producers(cluster, default)}) == 1
    assert not producers(cluster, told)
    counts = {topic: ends(cluster, topic) for topic in (default, told)}
    assert {topic: sum(each) for topic, each in counts.items()} == {topic: len(LINES) for topic in counts}
    assert max(counts[told]) - min(counts[told]) <= 1
    assert max(counts[default]) - min(counts[default]) > 1


def fields(line: str) -> Mapping[str, str]:
    """A line of TopicCommand: "Topic: x<tab>Partition: 0<tab>…"."""
    named = (one.partition(":") for one in line.strip().split("\t"))
    return {name.strip(): value.strip() for name, _, value in named}


def of_group(cluster: ContainerCluster, group: str) -> dict[str, Any]:
    """Settings of a member."""
    return {
        "bootstrap.servers": cluster.endpoint().args["bootstrap.servers"],
        "group.id": group,
        "auto.offset.reset": "earliest",
    }


def shared(members: Sequence[Consumer]) -> list[int]:
    """How many partitions each member has, after a poll."""
    for one in members:
        one.poll(0.1)
    return sorted(len(one.assignment()) for one in members)


def members_in(table: str, group: str) -> dict[str, list[int]]:
    """Which partitions of the topic of its name each member of a group has now, by ConsumerGroupCommand."""
    rows = [line for line in table.splitlines() if line.startswith(group)]
    now = {row.split()[1]: re.search(rf"{group}[:(]([\d,]+)", row) for row in rows}
    return {member: sorted(map(int, some[1].split(","))) if some else [] for member, some in now.items()}


def producers(cluster: ContainerCluster, topic: str) -> set[tuple[int, int]]:
    """Ids and epochs of the producers that the leaders of a topic know (DescribeProducers)."""
    asked = numbers_in_topics([TopicPartition(topic, number) for number in range(3)], "partition_indexes")

    def known(connection: BrokerConnection) -> set[tuple[int, int]]:
        parts = connection.call(DescribeProducersResponse, topics=asked).topics[0].partitions
        return {(int(one.producer_id), one.producer_epoch) for part in parts for one in part.active_producers}

    answers = broker_views.ask_all(cluster.admin, known)
    assert set(answers) == set(cluster.admin.nodes)
    return set().union(*answers.values())


def ends(cluster: ContainerCluster, topic: str) -> list[int]:
    """The ends of three partitions."""
    tps = [TopicPartition(topic, number) for number in range(3)]
    of = run_blocking(cluster.offsets(tps, Isolation.READ_COMMITTED))
    return [of[tp][1] for tp in tps]


def committed(cluster: ContainerCluster, group: str, tps: list[TopicPartition]) -> dict[TopicPartition, str]:
    """The offsets of a group by OffsetFetch, "-" = none."""
    admin = AdminClient({"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]})
    asked = ConsumerGroupTopicPartitions(group, [ClientPartition(tp.topic, tp.partition) for tp in tps])
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    of = {one.partition: one.offset for one in answer.result(30).topic_partitions}
    return {tp: str(of[tp.partition]) if of[tp.partition] >= 0 else "-" for tp in tps}
