"""A cluster that is upgraded: whether its quorum is whole, and the levels of its features (KIP-584).

Synchronous; safe from any thread.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.update_features.v1.response import UpdateFeaturesResponse

from core.errors import ClusterError, ConfigError
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.brokers.admin.protocol import quorum
from harness.processes.waiting import NotYet, until

RAISED: Final = ("metadata.version", "transaction.version")
"""In this order: transactions of version 2 need the metadata of their time."""
RAISE_S: Final = 10.0
"""How long brokers may take until all of them know the levels."""
LAG_MS: Final = 1500
"""A voter that has caught up so long before its leader's present time at most follows it; it fetches twice a
second at least, and a node that was restarted was away for longer."""


class Levels(NamedTuple):
    """The level of each feature: what a broker supports at most, and what the cluster has, 0 = none."""

    supported: Mapping[str, int]
    finalized: Mapping[str, int]


def lagging_voters(brokers: Brokers) -> tuple[int, ...]:
    """Voters that do not follow the newest leader of the quorum that answers; every broker, where none does.
    Never raises."""
    answers = broker_views.ask_all(brokers, _lagging)
    return max(answers.values(), default=(-1, brokers.nodes))[1]


def _lagging(connection: BrokerConnection) -> tuple[int, tuple[int, ...]]:
    """The epoch of the leader, and who does not follow it: all voters, where it is unknown. Raises:
    AdminError."""
    partition = quorum(connection, DescribeQuorumResponse)
    caught_up = {int(one.replica_id): one.last_caught_up_timestamp for one in partition.current_voters}
    now_ms = caught_up.get(int(partition.leader_id))
    lagging = tuple(sorted(node for node, ms in caught_up.items() if now_ms is None or ms < now_ms - LAG_MS))
    return int(partition.leader_epoch), lagging


def raise_features(brokers: Brokers) -> dict[str, tuple[int, int]]:
    """Raise each feature to what all brokers support: level before and now, of those that rose.

    Raises: ClusterError: refused, or late, or a broker does not answer.
    """
    known = levels(brokers)
    if silent := sorted(set(brokers.nodes) - set(known)):
        raise ClusterError(f"brokers {silent} do not say which features they support")
    risen: dict[str, tuple[int, int]] = {}
    for feature in RAISED:
        before = _least(known, feature, finalized=True)
        if (level := _least(known, feature)) > before:
            _raise(brokers, feature, level)
            risen[feature] = (before, level)
    return risen


def enable(brokers: Brokers, feature: str, level: int) -> None:
    """Raise a feature to a level, where it is lower.

    Raises: ConfigError, where a broker does not support it; ClusterError: refused, or late.
    """
    known = levels(brokers)
    if (most := _least(known, feature)) < level:
        raise ConfigError(f"these brokers support {feature} {most} at most, and {level} is needed")
    if _least(known, feature, finalized=True) < level:
        _raise(brokers, feature, level)


def levels(brokers: Brokers) -> dict[int, Levels]:
    """What each broker that answers says."""
    return broker_views.ask_all(brokers, _levels)


def _least(known: Mapping[int, Levels], feature: str, *, finalized: bool = False) -> int:
    return min((one.finalized if finalized else one.supported).get(feature, 0) for one in known.values())


def _levels(connection: BrokerConnection) -> Levels:
    named = {"client_software_name": "inquest", "client_software_version": "1"}
    answer = connection.call(ApiVersionsResponse, **named)
    check("ApiVersions", answer.error_code)
    return Levels(
        supported={one.name: int(one.max_version) for one in answer.supported_features},
        finalized={one.name: int(one.max_version_level) for one in answer.finalized_features},
    )


def _raise(brokers: Brokers, feature: str, level: int) -> None:
    """Returns when all brokers know it."""
    updates = [{"feature": feature, "max_version_level": level}]

    def ask(connection: BrokerConnection) -> None:
        answer = connection.call(
            UpdateFeaturesResponse, timeout=broker_views.TIMEOUT, feature_updates=updates
        )
        check("UpdateFeatures", answer.error_code, answer.error_message)
        for one in answer.results:
            check(f"UpdateFeatures of {one.feature}", one.error_code, one.error_message)

    def known() -> None:
        if late := sorted(_without(levels(brokers), brokers.nodes, feature, level)):
            raise NotYet(f"brokers {late} do not know {feature} {level} after {RAISE_S:.0f} s")

    broker_views.anywhere(brokers, ask, RAISE_S)
    until(RAISE_S, broker_views.POLL_S, known)


def _without(known: Mapping[int, Levels], nodes: Iterable[int], feature: str, level: int) -> Iterable[int]:
    return (node for node in nodes if node not in known or known[node].finalized.get(feature, 0) < level)
