"""Features and the quorum of a cluster that is upgraded: what is asked, and what the answers mean."""

import datetime
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from kio.schema.api_versions.v4.response import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey
from kio.schema.describe_quorum.v1.response import (
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.schema.update_features.v1.response import UpdatableFeatureResult, UpdateFeaturesResponse
from kio.static.primitive import i16, i32, i32Timedelta, i64

from core.cluster import Address
from core.errors import ClusterError, ConfigError
from harness.brokers.admin import broker_views, features
from harness.brokers.admin.connection import AdminError, BrokerConnection, Brokers

NOW_MS = 1_800_000_000_000
NO_TIME = i32Timedelta.parse(datetime.timedelta())
VERSION = "metadata.version"


@dataclass
class Quorum:
    """What a broker says of it: caught_up: by voter, how many ms ago; None = it never was."""

    leader: int
    epoch: int
    caught_up: Mapping[int, int | None]

    def answer(self) -> DescribeQuorumResponse:
        voters = tuple(
            ReplicaState(
                replica_id=BrokerId(node),
                log_end_offset=i64(9),
                last_caught_up_timestamp=i64(-1 if ago is None else NOW_MS - ago),
            )
            for node, ago in self.caught_up.items()
        )
        partition = PartitionData(
            partition_index=i32(0),
            error_code=ErrorCode.none,
            leader_id=BrokerId(self.leader),
            leader_epoch=i32(self.epoch),
            high_watermark=i64(9),
            current_voters=voters,
            observers=(),
        )
        topic = TopicData(topic_name=TopicName("__cluster_metadata"), partitions=(partition,))
        return DescribeQuorumResponse(error_code=ErrorCode.none, topics=(topic,))


@dataclass
class Cluster:
    """Brokers that answer. quorums: what they say of the quorum. supported, finalized: levels of features;
    late: a broker knows a new level only after it was asked so often. refused: features that are not raised,
    and how. sent: what was asked to be raised."""

    nodes: tuple[int, ...] = (1, 2, 3)
    quorums: Mapping[int, Quorum] = field(default_factory=dict)
    supported: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    finalized: dict[str, int] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    refused: Mapping[str, ErrorCode] = field(default_factory=dict)
    sent: list[Any] = field(default_factory=list)
    _before: dict[str, int] = field(default_factory=dict)

    def call(self, node: int, response: type[Any], given: Mapping[str, Any]) -> Any:
        if response is DescribeQuorumResponse:
            if node not in self.quorums:
                raise AdminError("silent")
            return self.quorums[node].answer()
        if response is ApiVersionsResponse:
            return self._versions(node)
        assert response is UpdateFeaturesResponse
        return self._update(given["feature_updates"])

    def _versions(self, node: int) -> ApiVersionsResponse:
        levels = self.finalized
        if self._before and self.late.get(node, 0) > 0:
            self.late[node] -= 1
            levels = self._before
        return ApiVersionsResponse(
            error_code=ErrorCode.none,
            api_keys=(),
            throttle_time=NO_TIME,
            supported_features=tuple(
                SupportedFeatureKey(name=name, min_version=i16(1), max_version=i16(level))
                for name, level in self.supported[node].items()
            ),
            finalized_features=tuple(
                FinalizedFeatureKey(name=name, max_version_level=i16(level), min_version_level=i16(1))
                for name, level in levels.items()
            ),
        )

    def _update(self, updates: list[Mapping[str, Any]]) -> UpdateFeaturesResponse:
        self.sent.append(updates)
        self._before = dict(self.finalized)
        results = []
        for one in updates:
            code = self.refused.get(one["feature"], ErrorCode.none)
            if code is ErrorCode.none:
                self.finalized[one["feature"]] = one["max_version_level"]
            results.append(
                UpdatableFeatureResult(feature=one["feature"], error_code=code, error_message="too high")
            )
        return UpdateFeaturesResponse(
            throttle_time=NO_TIME, error_code=ErrorCode.none, error_message=None, results=tuple(results)
        )


class Asked(Brokers):
    """The brokers of such a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__({node: Address("nowhere", node) for node in cluster.nodes})
        self.of = cluster

    @contextmanager
    def connect(self, node: int, deadline_s: float) -> Iterator[BrokerConnection]:
        del deadline_s
        yield cast("BrokerConnection", Connection(self.of, node))


@dataclass
class Connection:
    """To one of them."""

    cluster: Cluster
    node: int

    def call(self, response: type[Any], **given: Any) -> Any:
        return self.cluster.call(self.node, response, given)


# ---- the quorum


@pytest.mark.parametrize(
    ("caught_up", "lagging"),
    [
        ({1: 0, 2: 0, 3: 0}, ()),
        ({1: 0, 2: 1499, 3: 1500}, ()),
        ({1: 0, 2: 1501, 3: 0}, (2,)),
        ({1: 0, 2: 90_000, 3: None}, (2, 3)),
    ],
)
def test_a_voter_lags_that_was_behind_for_longer_than_between_its_fetches(
    caught_up: dict[int, int | None], lagging: tuple[int, ...]
) -> None:
    quorums = dict.fromkeys((1, 2, 3), Quorum(1, 4, caught_up))
    assert features.lagging_voters(Asked(Cluster(quorums=quorums))) == lagging


def test_the_newest_leader_says_who_lags() -> None:
    deposed = Quorum(3, 4, {1: 60_000, 2: 60_000, 3: 0})
    newest = Quorum(1, 5, {1: 0, 2: 0, 3: 60_000})
    for quorums in ({1: newest, 3: deposed}, {3: newest, 1: deposed}):
        assert features.lagging_voters(Asked(Cluster(quorums=quorums))) == (3,)


def test_without_a_leader_every_voter_may_lag() -> None:
    assert features.lagging_voters(Asked(Cluster())) == (1, 2, 3)
    leaderless = Quorum(-1, 5, {1: 0, 2: 0, 3: 0})
    assert features.lagging_voters(Asked(Cluster(quorums={2: leaderless}))) == (1, 2, 3)


# ---- features


def of_levels(before: int, *supported: int) -> Cluster:
    each = {node: {VERSION: level} for node, level in enumerate(supported, start=1)}
    return Cluster(supported=each, finalized={VERSION: before})


def test_a_feature_is_raised_to_what_the_oldest_broker_supports() -> None:
    cluster = of_levels(25, 31, 30, 31)
    assert features.raise_features(Asked(cluster)) == {VERSION: (25, 30)}
    assert cluster.sent == [[{"feature": VERSION, "max_version_level": 30}]]
    assert features.raise_features(Asked(cluster)) == {}
    assert len(cluster.sent) == 1


def test_the_levels_of_a_broker_are_what_it_supports_and_what_the_cluster_has() -> None:
    found = features.levels(Asked(of_levels(25, 31, 30, 31)))
    assert found[2] == features.Levels({VERSION: 30}, {VERSION: 25})


def test_a_feature_has_risen_once_every_broker_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_views, "POLL_S", 0.0)
    cluster = of_levels(25, 31, 31, 31)
    cluster.late = {2: 3}
    assert features.raise_features(Asked(cluster)) == {VERSION: (25, 31)}
    assert cluster.late == {2: 0}, "it did not wait for broker 2"


def test_a_broker_that_does_not_hear_of_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_views, "POLL_S", 0.0)
    monkeypatch.setattr(features, "RAISE_S", 0.0)
    cluster = of_levels(25, 31, 31, 31)
    cluster.late = {2: 10**9}
    with pytest.raises(ClusterError, match=rf"brokers \[2\] do not know {VERSION} 31"):
        features.raise_features(Asked(cluster))


def test_a_refusal_of_one_feature_is_an_error() -> None:
    cluster = of_levels(25, 31, 31, 31)
    cluster.refused = {VERSION: ErrorCode.feature_update_failed}
    with pytest.raises(ClusterError, match=f"UpdateFeatures of {VERSION}: FEATURE_UPDATE_FAILED too high"):
        features.raise_features(Asked(cluster))
    assert cluster.finalized == {VERSION: 25}


def test_a_feature_is_enabled_where_all_brokers_support_it() -> None:
    cluster = of_levels(25, 31, 30, 31)
    features.enable(Asked(cluster), VERSION, 25)
    assert cluster.sent == []
    features.enable(Asked(cluster), VERSION, 30)
    assert cluster.finalized == {VERSION: 30}
    with pytest.raises(ConfigError, match=f"support {VERSION} 30 at most, and 31 is needed"):
        features.enable(Asked(cluster), VERSION, 31)
