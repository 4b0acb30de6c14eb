"""Leaders moved on request: preferred elections, and the order of replicas that says who is preferred.

Requests go to any broker, which forwards them to the controller (KRaft). Synchronous; safe from any
thread.

Not here: the connection (`admin`), asking many nodes (`survey`), elections that faults cause.
"""

import datetime
import time
from collections.abc import Mapping, Sequence

from kio.schema.alter_partition_reassignments.v0 import request as reassignments
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.elect_leaders.v1 import request as elect_leaders
from kio.schema.elect_leaders.v1.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta

from harness.cluster import admin, order, survey
from harness.op import TopicPartition

PREFERRED = 0
SERVED = (ErrorCode.none, ErrorCode.election_not_needed)
_TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=survey.CALL_S - 1))


def elect_preferred(ports: Mapping[int, int], tps: Sequence[TopicPartition]) -> None:
    """Make the preferred replica of each partition its leader; no-op where it leads already.

    Raises: ClusterError, where one cannot (it is not in sync) or nobody answers; other partitions
    may have been served.
    """
    if tps:
        survey.anywhere(ports, lambda c: _elect(c, tps), time.monotonic() + order.DEADLINE_S)


def replicas(ports: Mapping[int, int]) -> dict[TopicPartition, tuple[int, ...]]:
    """Replicas of each partition, the preferred leader first, as most nodes that answer tell them.

    Nobody answers: empty.
    """
    views = survey.views(ports).values()
    return order.as_most_tell({tp: p.replicas for tp, p in v.partitions.items()} for v in views)


def reorder(ports: Mapping[int, int], wanted: order.Order) -> None:
    """Put the replicas of partitions into another order; returns when most nodes tell it so.

    No data move and no leader changes by it. Raises: ClusterError: other replicas than there are,
    refused, or too late.
    """
    if not wanted:
        return
    order.check(wanted, replicas(ports))
    deadline = time.monotonic() + order.DEADLINE_S
    survey.anywhere(ports, lambda c: _reassign(c, wanted), deadline)
    while not order.holds(wanted, replicas(ports)):
        if time.monotonic() >= deadline:
            raise order.late()
        time.sleep(survey.POLL_S)


def _elect(connection: admin.Connection, tps: Sequence[TopicPartition]) -> None:
    request = elect_leaders.ElectLeadersRequest(
        election_type=i8(PREFERRED),
        topic_partitions=tuple(
            elect_leaders.TopicPartitions(topic=TopicName(topic), partitions=numbers)
            for topic, numbers in by_topic(tps).items()
        ),
        timeout=_TIMEOUT,
    )
    answer: ElectLeadersResponse = connection.call(request, ElectLeadersResponse)
    admin.check("ElectLeaders", answer.error_code)
    for topic in answer.replica_election_results:
        for one in topic.partition_result:
            if one.error_code not in SERVED:
                what = f"{topic.topic}-{one.partition_id}"
                admin.check(what, one.error_code, one.error_message or "")


def _reassign(connection: admin.Connection, wanted: order.Order) -> None:
    topics = tuple(
        reassignments.ReassignableTopic(
            name=TopicName(topic),
            partitions=tuple(
                reassignments.ReassignablePartition(
                    partition_index=number,
                    replicas=tuple(
                        BrokerId(node) for node in wanted[TopicPartition(topic, number)]
                    ),
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(wanted).items()
    )
    request = reassignments.AlterPartitionReassignmentsRequest(timeout=_TIMEOUT, topics=topics)
    answer: AlterPartitionReassignmentsResponse = connection.call(
        request, AlterPartitionReassignmentsResponse
    )
    admin.check("AlterPartitionReassignments", answer.error_code, answer.error_message or "")
    for topic in answer.responses:
        for one in topic.partitions:
            what = f"{topic.name}-{one.partition_index}"
            admin.check(what, one.error_code, one.error_message or "")


def by_topic(tps: Sequence[TopicPartition] | order.Order) -> dict[str, tuple[i32, ...]]:
    """Partition numbers by topic, each once."""
    found: dict[str, dict[i32, None]] = {}
    for tp in tps:
        found.setdefault(tp.topic, {})[i32(tp.partition)] = None
    return {topic: tuple(numbers) for topic, numbers in found.items()}
