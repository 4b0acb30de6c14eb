"""Voters of the metadata quorum that are removed, and added again."""

import pytest

from core.config import run_config
from core.errors import ClusterError, ConfigError
from core.runtime import run_blocking
from harness.compose import plan
from nemesis.execute import heal, heal_all
from nemesis.types import NoTarget
from tests.nemesis.stage import Recording, stage_of
from tests.nemesis.test_restart import hit

NAME = "quorum:remove@controller"


@pytest.mark.parametrize("controllers", [0, 3])
@pytest.mark.parametrize("target", ["controller", "random"])
def test_a_voter_is_away_until_it_is_healed(controllers: int, target: str) -> None:
    cluster = Recording(3, replication=3, controllers=controllers)
    stage = stage_of(cluster)
    injected = hit(cluster, f"quorum:remove@{target}", stage=stage)
    (node,) = injected.nodes
    assert node in (cluster.nodes[3:] or cluster.brokers)
    assert cluster.voteless == {node}
    assert injected.text.endswith("was removed from the voters of the metadata quorum")
    run_blocking(heal(stage, injected))
    run_blocking(heal(stage, injected))
    assert cluster.whole
    assert cluster.calls == [("remove_voter", (node,)), ("add_voters", (node,)), ("add_voters", ())]


def test_one_voter_at_a_time_is_away() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    (first,) = hit(cluster, NAME, stage=stage).nodes
    cluster.frozen = {first}  # another one is controller
    with pytest.raises(NoTarget, match=f"node {first} is away"):
        hit(cluster, NAME, stage=stage)
    assert cluster.voteless == {first}


def test_a_voter_that_may_have_gone_is_added_again() -> None:
    cluster = Recording(3, replication=3)
    cluster.broken |= {("remove_voter", node) for node in cluster.nodes}
    with pytest.raises(ClusterError, match="remove_voter"):
        hit(cluster, NAME)
    assert cluster.whole


@pytest.mark.parametrize("revived", [True, False])
def test_a_voter_that_another_fault_holds_down_stays_away_and_its_healing_says_so(revived: bool) -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    removed, killed = hit(cluster, NAME, stage=stage), hit(cluster, "kill:one@controller", stage=stage)
    assert killed.nodes == removed.nodes
    if revived:
        run_blocking(heal(stage, killed))
        run_blocking(heal(stage, removed))
    else:
        with pytest.raises(ClusterError, match=f"another fault holds node {removed.nodes[0]} down"):
            run_blocking(heal(stage, removed))
        assert cluster.voteless == {*removed.nodes}
        run_blocking(heal_all(stage))
    assert cluster.whole


def test_healing_all_adds_voters_once_their_nodes_run() -> None:
    cluster = Recording(3, replication=3)
    stage = stage_of(cluster)
    node = hit(cluster, NAME, stage=stage).nodes[0]
    run_blocking(cluster.kill([node]))
    run_blocking(heal_all(stage))
    assert cluster.whole


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "set quorum to dynamic"),
        ({"quorum": "dynamic", "controllers": 1}, "number of voters: 1; 3 are needed"),
        ({"quorum": "dynamic", "kafka": "3.8.1"}, "Kafka 3.8.1 cannot change its voters; 3.9 and later can"),
        ({"quorum": "dynamic", "kafka": "3.9.1", "metadata": "zookeeper"}, "has no metadata quorum"),
        ({"sut": "model"}, "VotersChangeable"),
        ({"sut": "simulated"}, "VotersChangeable"),
    ],
)
def test_who_cannot_change_voters_is_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plan(run_config({"seed": 1, "nemesis": NAME, **settings}))
