"""ZooKeeper itself: the ensemble, its clients, the herd; and clusters of its era in the simulation."""

from typing import Any

import pytest

from core.capabilities import Cut, Direction, Listener
from core.config import run_config
from harness.modelled.virtual.network import cuts_from
from harness.modelled.virtual.run import simulate
from harness.modelled.virtual.run_folder import refusal
from history.events import Recovered
from model.protocol.requests import Response
from model.protocol.zookeeper_messages import (
    Children,
    Create,
    Delete,
    GetData,
    SetData,
    WatchedEvent,
    ZkConnect,
    ZkConnectResponse,
    ZkError,
    ZkOps,
    ZkPoll,
    ZkResponse,
    ZkResult,
)
from model.replication.node import Ask, NodeState, Reply
from model.settings import Settings
from model.zookeeper.ensemble import Ensemble
from model.zookeeper.herd import SelfElecting
from model.zookeeper.kafka_zk_client import KafkaZkClient
from model.zookeeper.zk_data import CONTROLLER_EPOCH
from model.zookeeper.zookeeper import ZooKeeper
from tests.model.zookeeper_world import ENSEMBLE, World, run

TP = ("t", 0)


# ---- the ensemble


def test_an_update_is_done_only_at_the_version_it_names() -> None:
    zk = ZooKeeper()
    one = zk.connect(0, 1000)
    assert run(zk, one, Create("/a/b", "x")).error is ZkError.OK
    assert run(zk, one, Create("/a/b", "y")).error is ZkError.NODE_EXISTS
    assert run(zk, one, SetData("/a/b", "y", 0)).version == 1
    assert run(zk, one, SetData("/a/b", "z", 0)).error is ZkError.BAD_VERSION
    assert run(zk, one, Delete("/a/b", 0)).error is ZkError.BAD_VERSION
    assert run(zk, one, GetData("/a/b"))[:3] == (ZkError.OK, "y", 1)
    assert run(zk, one, SetData("/a/b", "z")).version == 2
    assert run(zk, one, Delete("/a")).error is ZkError.NOT_EMPTY
    assert run(zk, one, Delete("/a/b", 2)).error is ZkError.OK
    assert run(zk, one, GetData("/a/b")).error is ZkError.NO_NODE


def test_ephemeral_znodes_go_with_their_session_and_others_stay() -> None:
    zk = ZooKeeper()
    one, two = zk.connect(0, 1000), zk.connect(0, 1000)
    run(zk, one, Create("/e", ephemeral=True))
    run(zk, one, Create("/p"))
    zk.tick(1000)
    assert run(zk, two, GetData("/e")).owner == one
    zk.heard(900, two)
    zk.tick(1001)
    assert zk.run(1001, one, []) is None
    assert run(zk, two, GetData("/e")).error is ZkError.NO_NODE
    assert run(zk, two, GetData("/p")).error is ZkError.OK


def test_a_watch_fires_once_and_for_the_change_that_it_waits_for() -> None:
    zk = ZooKeeper([("/a", 0)])
    one, two = zk.connect(0, 1000), zk.connect(0, 1000)
    run(zk, one, GetData("/a", watch=True))
    run(zk, one, Children("/a", watch=True))
    run(zk, one, GetData("/missing", watch=True))
    run(zk, two, GetData("/a"))
    assert zk.sessions[one].events == []
    run(zk, two, SetData("/a", 1))
    run(zk, two, SetData("/a", 2))
    run(zk, two, Create("/a/b"))
    run(zk, two, Delete("/a/b"))
    run(zk, two, Create("/missing"))
    assert zk.sessions[one].events == [
        WatchedEvent(1, "/a"),
        WatchedEvent(2, "/a"),
        WatchedEvent(3, "/missing"),
    ]
    assert zk.sessions[two].events == []
    assert (zk.counts.watches, zk.counts.notifications) == (3, 3)
    zk.heard(0, one, 2)
    assert zk.sessions[one].events == [WatchedEvent(3, "/missing")]


def test_sequential_znodes_are_numbered() -> None:
    zk = ZooKeeper([("/q", None)])
    one = zk.connect(0, 1000)
    made = [run(zk, one, Create("/q/n_", sequential=True)).path for _ in range(2)]
    run(zk, one, Delete(made[0]))
    made.append(run(zk, one, Create("/q/n_", sequential=True)).path)
    assert made == ["/q/n_0000000000", "/q/n_0000000001", "/q/n_0000000002"]


def test_a_client_hears_of_a_change_before_it_sees_it() -> None:
    ensemble = Ensemble(ZooKeeper([("/a", 0)]))
    answers: dict[int, Any] = {}

    def ask(connection: int, request: Any) -> Any:
        ensemble.receive(0, connection, 0, request)
        answers.update({r.connection: r.answer for r in ensemble.take_out()})  # type: ignore[union-attr]
        return answers.pop(connection, None)

    one, two = ask(1, ZkConnect(1000)).session, ask(2, ZkConnect(1000)).session
    ask(1, ZkOps(one, 0, [GetData("/a", watch=True)], 0))
    assert ask(3, ZkPoll(one, 0)) is None
    ask(2, ZkOps(two, 0, [SetData("/a", 1)], 0))
    assert answers.pop(3).events == (WatchedEvent(1, "/a"),)
    seen: ZkResponse = ask(1, ZkOps(one, 0, [GetData("/a")], 0))
    assert (seen.events, seen.results[0].data) == ((WatchedEvent(1, "/a"),), 1)
    assert ask(1, ZkOps(one, 0, [GetData("/a")], 1)).events == ()


def test_what_an_old_connection_brings_late_is_not_done() -> None:
    ensemble = Ensemble(ZooKeeper([("/a", 0)]))
    session = ensemble.zookeeper.connect(0, 1000)
    ensemble.receive(0, 1, 0, ZkOps(session, 1, [SetData("/a", "new")], 0))
    ensemble.receive(0, 2, 0, ZkOps(session, 0, [SetData("/a", "old")], 0))
    reply = ensemble.take_out()[1]
    assert isinstance(reply, Reply)
    assert isinstance(reply.answer, ZkResponse)
    assert reply.answer.moved
    assert ensemble.zookeeper.nodes["/a"].data == "new"


def test_a_client_that_asks_because_of_an_event_still_gets_every_answer_once() -> None:
    node = NodeState(1, Settings())
    results: list[Any] = []

    def notified(path: str) -> None:
        client.send([GetData(path)], lambda found: results.append(("event", found)))

    def answer(channel: str, response: Response | None) -> None:
        """The newest question of a channel is answered."""
        next(a for a in reversed(asked()) if a.channel == channel).then(response)

    def asked() -> list[Ask]:
        return [effect for effect in node.out if isinstance(effect, Ask)]

    client = KafkaZkClient(
        node, ENSEMBLE, opened=lambda: None, expired=lambda: results.append("over"), notified=notified
    )
    client.pump()
    answer("zookeeper", ZkConnectResponse(5))
    client.send([GetData("/a")], lambda found: results.append(("asked", found)))
    answer("zookeeper", ZkResponse([ZkResult(ZkError.OK, "old")], (WatchedEvent(1, "/b"),)))
    assert asked()[-1].request == ZkOps(5, 0, [GetData("/b")], 1)
    answer("zookeeper", ZkResponse([ZkResult(ZkError.OK, "new")], (WatchedEvent(1, "/b"),)))
    assert [(name, found[0].data) for name, found in results] == [("asked", "old"), ("event", "new")]
    client.send([GetData("/a")], lambda found: results.append(("asked", found)))
    answer("zookeeper", None)  # not answered: asked again on the next connection
    node.now += 100
    client.pump()
    assert asked()[-1].request == ZkOps(5, 1, [GetData("/a")], 1)
    answer("watch", ZkResponse(expired=True))
    assert (results[2:], client.session) == (["over", ("asked", None)], -1)


# ---- the herd


def test_replicas_that_elect_among_themselves_are_a_herd() -> None:
    partitions = 30
    tps = [("t", n) for n in range(partitions)]
    zk = ZooKeeper()
    sessions = {n: zk.connect(0, 1000) for n in (1, 2, 3)}
    brokers = {n: SelfElecting(n, zk, s, tuple(tps)) for n, s in sessions.items()}
    for broker in brokers.values():
        broker.elect(0, tps)
    assert len(brokers[1].leads) == partitions
    before = (zk.counts.notifications, zk.counts.writes)
    zk.close(sessions[1])
    for n in (2, 3):
        brokers[n].wake(0)
    assert brokers[2].leads == set(tps)
    herd = zk.counts.notifications - before[0], zk.counts.writes - before[1]
    assert herd == (2 * partitions, 2 * partitions)

    world = World(brokers=4)
    world.create("t", *[(2, 3, 4)] * partitions)
    world.run(1000)
    world.kill(2)
    before = (world.zk.counts.notifications, world.zk.counts.writes)
    world.until(lambda: world.data(("t", 29)).leader == 3)
    one = world.zk.counts.notifications - before[0], world.zk.counts.writes - before[1]
    assert one == (1, partitions)


# ---- in the simulation


def test_the_ensemble_is_on_the_side_of_the_majority() -> None:
    brokers = (1, 2, 3)
    isolated = {Cut(node=1, direction=Direction.IN, peer=p) for p in (2, 3)}
    isolated |= {Cut(node=p, direction=Direction.IN, peer=1) for p in (2, 3)}
    assert set(cuts_from(isolated, brokers, 9)) == {Cut(node=1, direction=d, peer=9) for d in Direction}
    deaf = [Cut(node=1, direction=Direction.IN, peer=p) for p in (2, 3)]
    assert cuts_from(deaf, brokers, 9) == [Cut(node=1, direction=Direction.IN, peer=9)]
    assert cuts_from(deaf[:1], brokers, 9) == []
    unfed = [Cut(node=1, direction=Direction.IN, peer=p, listener=Listener.BROKER) for p in (2, 3)]
    assert cuts_from(unfed, brokers, 9) == []


def test_an_old_era_has_no_isolated_controllers() -> None:
    config = run_config({"sut": "simulated", "era": "2.4", "controllers": 3, "seed": 1})
    assert "isolated controllers" in refusal(config)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("era", "nemesis"), [("0.11", "kill:one@controller"), ("2.4", "partition:isolate@controller")]
)
def test_a_simulated_cluster_lives_on_zookeeper_and_recovers(era: str, nemesis: str) -> None:
    config = run_config(
        {
            "sut": "simulated",
            "era": era,
            "workload": "transactions",
            "nemesis": nemesis,
            "duration_s": 6,
            "rate": 3,
            "verb_deadline_s": 5,
            "transaction_timeout_s": 4,
            "fault_s": 4,
            "calm_s": 1,
            "seed": 3,
        }
    )
    done = simulate(config)
    assert done.cluster.zookeeper is not None
    assert done.cluster.zookeeper.nodes[CONTROLLER_EPOCH].data > 1  # another one was elected meanwhile
    assert done.broken == []
    assert done.unfinished == []
    assert [e.recovered for e in done.events if isinstance(e, Recovered)] == [True]


@pytest.mark.sampled(2)
def test_the_same_seed_is_the_same_run_on_zookeeper() -> None:
    config = run_config(
        {
            "sut": "simulated",
            "era": "2.0",
            "workload": "queue",
            "nemesis": "kill",
            "duration_s": 4,
            "rate": 3,
            "seed": 3,
        }
    )
    assert simulate(config).journals == simulate(config).journals
