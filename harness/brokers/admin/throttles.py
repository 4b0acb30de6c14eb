"""Replication throttled on request (KIP-73): rates of brokers, and which replicas of a topic they are for.

The settings are dynamic. A rate is asked of the broker that it is for, a topic's settings of any broker.
Synchronous; safe from any thread.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from core.errors import ClusterError
from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers
from harness.brokers.admin.settings import BROKER, TOPIC, Wanted, alter
from harness.protocol.topics import numbers_by_topic

SIDES: Final = ("leader", "follower")
DEADLINE_S: Final = 10.0


def throttle(brokers: Brokers, node: int, tps: Sequence[TopicPartition], rate: int) -> None:
    """See `Throttleable`. A leader that does not answer now serves without a rate when it returns.

    Raises: ClusterError: refused, late, or `node` does not answer.
    """
    if node not in _rates(brokers, str(rate)):
        raise ClusterError(f"node {node} did not take a rate of replication")
    others = [other for other in brokers.nodes if other != node]
    wanted: dict[str, Wanted] = {
        topic: {
            _replicas("follower"): ",".join(f"{number}:{node}" for number in numbers),
            _replicas("leader"): ",".join(f"{number}:{n}" for number in numbers for n in others),
        }
        for topic, numbers in numbers_by_topic(dict.fromkeys(tps)).items()
    }
    broker_views.anywhere(brokers, partial(alter, TOPIC, wanted), DEADLINE_S)


def unthrottle(brokers: Brokers, tps: Sequence[TopicPartition]) -> None:
    """Lift throttles; a rate that a silent broker keeps is then one for no replica. Raises: ClusterError."""
    usual: dict[str, Wanted] = {tp.topic: {_replicas(side): None for side in SIDES} for tp in tps}
    broker_views.anywhere(brokers, partial(alter, TOPIC, usual), DEADLINE_S)
    _rates(brokers, None)


def _replicas(side: str) -> str:
    return f"{side}.replication.throttled.replicas"


def _rates(brokers: Brokers, rate: str | None) -> set[int]:
    """Give each broker its rates; which took them."""
    its = {f"{side}.replication.throttled.rate": rate for side in SIDES}

    def taken(node: int, connection: BrokerConnection) -> bool:
        alter(BROKER, {str(node): its}, connection)
        return True

    return set(broker_views.ask(brokers, {node: (node, partial(taken, node)) for node in brokers.nodes}))
