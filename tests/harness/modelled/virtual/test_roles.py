"""What a simulated cluster says of itself: brokers that lag behind do not agree."""

from typing import Any

import pytest
from msgspec import structs

from core.cluster import Roles
from core.config import run_config
from harness.modelled.virtual.run import Simulated, simulate

TP = ("queue", 0)


@pytest.fixture
def done() -> Simulated:
    settings = {"sut": "simulated", "workload": "queue", "nemesis": "none", "duration_s": 1}
    return simulate(run_config({**settings, "rate": 5, "seed": 1}))


def roles(done: Simulated) -> Roles:
    scheduler = done.cluster.scheduler
    answer = scheduler.spawn(done.cluster.roles())
    assert scheduler.run(answer)
    found: Any = answer.value
    assert isinstance(found, Roles)
    return found


def partitions(done: Simulated, node: int) -> Any:
    broker = done.cluster.sim[node].broker
    assert broker is not None
    return broker.node.image.partitions


def test_the_brokers_of_a_healthy_cluster_agree(done: Simulated) -> None:
    assert roles(done).agreed
    assert roles(done).answering == (1, 2, 3)


def test_a_broker_that_has_not_heard_of_a_topic_disagrees(done: Simulated) -> None:
    del partitions(done, 2)[TP]
    assert not roles(done).agreed


def test_a_broker_that_has_not_heard_of_a_new_leader_disagrees(done: Simulated) -> None:
    state = partitions(done, 1)[TP]
    other = next(node for node in state.replicas if node != state.leader)
    for node in (1, 2):
        partitions(done, node)[TP] = structs.replace(state, leader=other, leader_epoch=state.leader_epoch + 1)
    assert not roles(done).agreed


def test_a_broker_that_is_down_does_not_answer(done: Simulated) -> None:
    done.cluster.sim[3].kill()
    assert (roles(done).answering, roles(done).agreed) == ((1, 2), False)
