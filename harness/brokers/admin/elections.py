"""Leaders moved on request: preferred elections, and the order of replicas that decides who is preferred.

Requests go to any broker, which forwards them to the controller (KRaft). Synchronous; safe from any
thread.
"""

import time
from collections.abc import Sequence

from kio.schema.elect_leaders.v1.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode

from core import replica_order
from core.op import TopicPartition
from harness.brokers.admin import broker_views, reassignments
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.brokers.admin.protocol import view
from harness.processes.waiting import NotYet, until
from harness.protocol.topics import numbers_in_topics

PREFERRED = 0
SERVED = (ErrorCode.none, ErrorCode.election_not_needed)


def elect_preferred(brokers: Brokers, tps: Sequence[TopicPartition]) -> None:
    """Make the preferred replica of each partition its leader; no-op where it leads already.

    Raises: ClusterError, where one cannot (it is not in sync) or no broker answers; other partitions
    may have been served.
    """
    if tps:
        broker_views.anywhere(brokers, lambda c: elect(c, tps), replica_order.DEADLINE_S)


def replicas(brokers: Brokers) -> dict[TopicPartition, tuple[int, ...]]:
    """Replicas of each partition, the preferred leader first, as most brokers report them; empty where
    no broker answers."""
    views = broker_views.ask_all(brokers, view).values()
    return replica_order.as_most_tell({tp: p.replica_nodes for tp, p in v.partitions.items()} for v in views)


def reorder(brokers: Brokers, wanted: replica_order.Order) -> None:
    """Put the replicas of partitions into another order; returns when most brokers report it.

    This moves no data and changes no leader. Raises: ClusterError: not a permutation of the replicas,
    refused, or too late.
    """
    if not wanted:
        return
    replica_order.check(wanted, replicas(brokers))
    ends = time.monotonic() + replica_order.DEADLINE_S

    def ordered() -> None:
        if not replica_order.holds(wanted, replicas(brokers)):
            raise NotYet(str(replica_order.late()))

    reassignments.reassign(brokers, wanted, replica_order.DEADLINE_S)
    until(ends - time.monotonic(), broker_views.POLL_S, ordered)


def elect(connection: BrokerConnection, tps: Sequence[TopicPartition]) -> None:
    """Likewise, by one broker. Raises: AdminError."""
    answer = connection.call(
        ElectLeadersResponse,
        election_type=PREFERRED,
        topic_partitions=numbers_in_topics(dict.fromkeys(tps), name="topic"),
        timeout=broker_views.TIMEOUT,
    )
    check("ElectLeaders", answer.error_code)
    for topic in answer.replica_election_results:
        for one in topic.partition_result:
            if one.error_code not in SERVED:
                what = f"{topic.topic}-{one.partition_id}"
                check(what, one.error_code, one.error_message)
