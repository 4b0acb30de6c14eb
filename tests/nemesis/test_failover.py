"""The second death: whom it hits, in which order, and what it waits for."""

from typing import Any

import pytest

from core.config import RunConfig, run_config
from core.errors import ConfigError
from core.internal_topics import TRANSACTION_TOPIC
from core.java_hash import java_hash
from core.load_clients import ClientSlot
from core.op import TopicPartition
from core.runtime import run_blocking
from nemesis.execute import heal, inject
from nemesis.families.failover import LAG, WHOLE_S
from nemesis.registry import NEMESES
from nemesis.schedule import plan
from nemesis.types import AimedFault, Environment, NoTarget, PlannedFault
from tests.nemesis.stage import CLIENTS, NAMES, Recording, RecordingClients, stage_of

LAGGING = "failover:lagging@txn-coordinator"


def hit(
    cluster: Recording,
    name: str,
    clients: RecordingClients | None = None,
    seed: int = 0,
    stage: Environment | None = None,
) -> AimedFault:
    head, _, target = name.partition("@")
    family, _, kind = head.partition(":")
    step = PlannedFault(
        fault=0, name=name, family=family, kind=kind, target=target, at_s=1, hold_s=6, seed=seed
    )
    stage = stage or stage_of(cluster, clients)
    return run_blocking(inject(stage, step, run_blocking(cluster.roles()), NAMES))


def killed(cluster: Recording) -> list[tuple[int, ...]]:
    return [nodes for verb, nodes in cluster.calls if verb == "kill"]


def test_the_coordinators_die_in_turn_while_the_last_replica_lags() -> None:
    cluster = Recording()
    stage = stage_of(cluster)
    injected = hit(cluster, LAGGING, stage=stage)
    assert [verb for verb, _ in cluster.calls] == ["cut", "kill", "kill"]
    assert killed(cluster) == [(1,), (2,)]
    assert {(cut.node, cut.peer) for cut in cluster.cuts} == {(1, 3), (2, 3)}
    assert injected.text.startswith("node 3, an in-sync follower of __transaction_state-")
    run_blocking(heal(stage, injected))
    assert cluster.whole


def test_a_coordinator_lives_until_a_client_of_it_is_served() -> None:
    clients = RecordingClients()
    cluster = Recording()
    began = cluster.clock.now_s
    hit(cluster, LAGGING, clients)
    served = cluster.clock.now_s - began
    cluster = Recording()
    id_of = {one.slot: one.transactional_id for one in CLIENTS if one.transactional_id}
    begin_ns = cluster.clock.now_ns()
    clients.acked = dict.fromkeys(id_of, begin_ns)  # at work when the fault begins, and not served again
    hit(cluster, LAGGING, clients)
    assert killed(cluster) == [(1,), (2,)]
    assert cluster.clock.now_s - 100.0 > served


@pytest.mark.parametrize("slots", [(), (0, 3)])
def test_nothing_begins_where_no_client_of_the_coordinator_is_at_work(slots: tuple[int, ...]) -> None:
    clients, cluster = RecordingClients(), Recording()
    clients.acked = {one.slot: 0 for one in CLIENTS if one.slot not in slots}
    with pytest.raises(NoTarget, match="no record of clients"):
        hit(cluster, LAGGING, clients)
    assert cluster.whole
    assert killed(cluster) == []


def test_nothing_begins_where_a_replica_is_not_in_sync() -> None:
    cluster = Recording()
    run_blocking(cluster.kill([3]))
    with pytest.raises(NoTarget, match=r"replicas \[3\] of __transaction_state-\d are not in sync"):
        hit(cluster, LAGGING)
    assert cluster.clock.now_s >= 100 + WHOLE_S
    assert killed(cluster) == [(3,)]
    assert "mend" not in [verb for verb, _ in cluster.calls]  # another fault may have the same cuts


def test_clients_belong_to_the_coordinator_of_their_id() -> None:
    number = java_hash("tx-0") % 5
    others = [f"other-{n}" for n in range(50) if java_hash(f"other-{n}") % 5 != number]
    clients = RecordingClients(
        (ClientSlot(slot=0, transactional_id="tx-0"), ClientSlot(slot=1, transactional_id=others[0]))
    )
    clients.acked = {0: 0}
    log = TopicPartition(TRANSACTION_TOPIC, number)
    cluster = Recording()
    seed = next(seed for seed in range(50) if log in hit(Recording(), LAGGING, RecordingClients(), seed).tps)
    with pytest.raises(NoTarget, match=r"no record of clients \[0\]"):
        hit(cluster, LAGGING, clients, seed)


def test_the_successor_dies_as_soon_as_it_leads() -> None:
    cluster = Recording()
    injected = hit(cluster, "failover:successor@txn-coordinator")
    assert cluster.calls == [("kill", (1,)), ("kill", (2,))]
    assert "as soon as it led __transaction_state-" in injected.text


def test_a_broker_is_killed_again_while_it_recovers() -> None:
    waits = set()
    for seed in range(20):
        cluster = Recording()
        injected = hit(cluster, "failover:recovering@leader", seed=seed)
        (node,) = injected.nodes
        assert cluster.calls == [("kill", (node,)), ("revive", (node,)), ("kill", (node,))]
        assert cluster.dead == {node}
        waits.add(cluster.clock.now_s > 101)
        run_blocking(heal(stage_of(cluster), injected))
        assert cluster.whole
    assert waits == {True, False}


def test_a_lagging_follower_needs_a_long_lag_time() -> None:
    settings = {"seed": 1, "workload": "transactions", "brokers": 5}
    with pytest.raises(ConfigError, match=r"set replica.lag.time.max.ms of broker_settings to 30000"):
        plan("failover:lagging", RunConfig.model_validate(settings))
    wide = RunConfig.model_validate(settings | {"broker_settings": {LAG: "30000"}})
    with pytest.raises(ConfigError, match="it takes txn-coordinator"):
        plan("failover:lagging@leader", wide, NAMES)
    assert plan("failover:lagging", wide, NAMES)
    kinds = {step.kind for step in plan("failover", RunConfig.model_validate(settings), NAMES)}
    assert kinds == {"successor", "recovering"}


@pytest.mark.parametrize(("deployment", "refused"), [("zookeeper", True), ("kraft", False)])
def test_no_leader_is_cut_off_from_its_followers_alone_with_zookeeper(deployment: str, refused: bool) -> None:
    settings = {"seed": 1, "kafka": "3.9.1", "metadata": deployment, "unclean_leader_election": True}
    config = run_config({**settings, "broker_settings": {"replica.lag.time.max.ms": "30000"}})
    whys = NEMESES["unclean"].refuses(config), NEMESES["failover"].kinds["lagging"].refuses(config)
    assert [why.startswith("with ZooKeeper the controller") for why in whys] == [refused] * 2
    assert NEMESES["failover"].kinds["successor"].refuses(config) == ""


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"kafka": "3.8.1"},
            "Kafka 3.8.1: KRaft's controller looks at unclean.leader.election.enable since 3.9",
        ),
        ({"kafka": "3.9.0"}, ""),
        ({"kafka": "3.7.1", "upgrade": "4.0.0"}, ""),
        ({"sut": "simulated", "era": "3.3"}, "era 3.3: KRaft's controller looks at"),
        ({"sut": "simulated", "era": "3.9"}, ""),
    ],
)
def test_no_unclean_election_is_planned_where_controllers_make_none(
    settings: dict[str, Any], why: str
) -> None:
    refused = NEMESES["unclean"].refuses(run_config({"seed": 1, "unclean_leader_election": True, **settings}))
    assert refused.startswith(why)
    assert bool(refused) is bool(why)
