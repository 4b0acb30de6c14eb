"""When a simulated cluster has recovered: every broker knows the same leaders."""

import pytest

from harness.config import run_config
from harness.simulate import Simulated, simulate
from harness.simulation.recovery import unrecovered_cluster

TP = ("queue", 0)


@pytest.fixture
def done() -> Simulated:
    settings = {
        "sut": "simulated",
        "workload": "queue",
        "nemesis": "none",
        "duration_s": 1,
        "rate": 5,
    }
    return simulate(run_config({**settings, "seed": 1}))


def test_a_healthy_cluster_has_recovered(done: Simulated) -> None:
    assert unrecovered_cluster(done.cluster) == ""


def test_a_broker_that_has_not_heard_of_a_topic_is_waited_for(done: Simulated) -> None:
    broker = done.cluster.sim[2].broker
    assert broker is not None
    del broker.node.image.partitions[TP]
    assert unrecovered_cluster(done.cluster) == f"node 2 has not heard what became of {TP}"


def test_a_broker_that_has_not_heard_of_a_leader_is_waited_for(done: Simulated) -> None:
    for node in (1, 2):
        broker = done.cluster.sim[node].broker
        assert broker is not None
        partitions = broker.node.image.partitions
        partitions[TP] = partitions[TP]._replace(leader_epoch=partitions[TP].leader_epoch + 1)
    assert unrecovered_cluster(done.cluster) == f"node 3 has not heard what became of {TP}"


def test_a_broker_that_is_down_is_waited_for(done: Simulated) -> None:
    done.cluster.sim[3].kill()
    assert unrecovered_cluster(done.cluster) == "nodes [3] are down"
