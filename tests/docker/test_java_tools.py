"""What Kafka's own tools say of a real cluster is what the harness reads of it."""

import time

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.containers.cluster import ContainerCluster
from tests.docker.test_java_clients import LINES, consumed, java


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


def committed(cluster: ContainerCluster, group: str, tps: list[TopicPartition]) -> dict[TopicPartition, str]:
    """The offsets of a group by OffsetFetch, "-" = none."""
    admin = AdminClient({"bootstrap.servers": cluster.endpoint().args["bootstrap.servers"]})
    asked = ConsumerGroupTopicPartitions(group, [ClientPartition(tp.topic, tp.partition) for tp in tps])
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    of = {one.partition: one.offset for one in answer.result(30).topic_partitions}
    return {tp: str(of[tp.partition]) if of[tp.partition] >= 0 else "-" for tp in tps}
