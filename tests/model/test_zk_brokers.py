"""Brokers on ZooKeeper: controllers are elected and fenced, failures found, in-sync sets written and told."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import AlterPartitionReassignments, ElectLeaders, Fetch, Produce
from model.protocol.zookeeper_messages import (
    Children,
    GetData,
    LeaderAndIsr,
    SetData,
    StopReplica,
    UpdateMetadata,
    ZkOps,
    ZkPoll,
)
from model.replication.node import Ask
from model.zookeeper.zk_data import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    IDS,
    ISR_CHANGES,
    TOPICS,
    broker_path,
    state_path,
)
from model.zookeeper.zk_isr_manager import BLACK_OUT_MS, INTERVAL_MS, LOOK_MS
from tests.model.zookeeper_world import ENSEMBLE, World, run

TP = ("t", 0)


# ---- the controller


def test_one_broker_is_controller_and_another_one_after_its_session() -> None:
    world = World()
    assert world.controllers() == [1]
    assert (world.zk.nodes[CONTROLLER].data, world.zk.nodes[CONTROLLER_EPOCH].data) == (1, 1)
    world.run(1000)
    world.kill(1)
    world.run(world.settings.session_ms - 500)
    assert world.controllers() == []
    world.run(1000)
    assert len(world.controllers()) == 1
    assert world.zk.nodes[CONTROLLER_EPOCH].data == 2
    assert world.controller().context.epoch == 2
    assert set(world.brokers[2].node.image.alive()) == {2, 3}


def test_a_controller_that_stood_still_is_not_obeyed_and_resigns_when_it_hears() -> None:
    world = World()
    world.create("t", (2, 3, 1))
    world.hold = lambda n, ask: n == 1 and ask.channel.startswith("control ") and ask.node == 3
    world.kill(2)
    world.until(lambda: world.data(TP).leader == 3)
    assert world.led(3, TP).leader == 2  # broker 3 was not told yet
    world.paused.add(1)
    world.until(lambda: world.controllers() == [1, 3])  # split brain
    before = world.led(3, TP)
    assert before.leader == 3
    mark = len(world.log)
    world.resume(1)
    late = [r for n, r in world.log[mark:] if isinstance(r, LeaderAndIsr | UpdateMetadata)]
    assert [r.controller_epoch for r in late if r.controller == 1] != []
    assert world.led(3, TP) == before
    assert world.side(3).controller_id == 3
    world.until(lambda: world.controllers() == [3])


@pytest.mark.parametrize("fenced", [True, False])
def test_the_controller_epoch_keeps_a_replica_that_an_old_controller_deletes(fenced: bool) -> None:
    """StopReplica carries no leader epoch: nothing else would stop it."""
    bugs = frozenset[str]() if fenced else frozenset({"controller-epoch-ignored"})
    world = World(bugs=bugs)
    world.create("t", (2, 3, 1))
    world.kill(1)
    world.until(lambda: len(world.controllers()) == 1)
    answer = world.say(3, StopReplica(1, 1, 99, [TP], delete=True))
    expected = KafkaError.STALE_CONTROLLER_EPOCH if fenced else KafkaError.NONE
    assert answer.error is expected
    assert (TP in world.brokers[3].node.replicas) is fenced


def test_a_controller_that_finds_the_work_of_a_newer_one_gives_up() -> None:
    world = World()
    world.create("t", (2, 3, 1))
    zk = world.zk
    other = zk.connect(world.now, 10_000)
    data = world.data(TP)._replace(controller_epoch=7)
    run(zk, other, SetData(state_path(TP), data))
    old = world.controller()
    world.kill(2)
    world.until(lambda: old.deposed)
    # Nobody else is there: it is elected again until its epoch is no older than what it found.
    assert world.controller().context.epoch == world.data(TP).controller_epoch == 7


def test_a_failure_is_found_and_repaired_step_by_step() -> None:
    world = World(brokers=4)
    world.create("t", (2, 3, 4), (3, 2, 4), (3, 4, 1))
    world.run(1000)
    before = {n: world.data(("t", n)) for n in range(3)}
    assert [d.leader for d in before.values()] == [2, 3, 3]
    world.kill(2)
    notified, writes = world.zk.counts.notifications, world.zk.counts.writes
    mark = len(world.log)
    world.until(lambda: broker_path(2) not in world.zk.nodes)
    world.run(0)
    steps = [s for s in world.asked(1, since=mark) if not isinstance(s, ZkPoll | Fetch)]
    assert steps[0] == Children(IDS, watch=True)
    assert steps[1:4] == [GetData(broker_path(n)) for n in (1, 3, 4)]
    assert steps[4:6] == [GetData(state_path(("t", n))) for n in (0, 1)]
    assert [(type(s), s.path, s.version) for s in steps[6:8]] == [
        (SetData, state_path(("t", 0)), 0),
        (SetData, state_path(("t", 1)), 0),
    ]
    told = steps[8:]
    assert {type(s) for s in told} == {LeaderAndIsr, UpdateMetadata}
    assert all(s.controller_epoch == 1 for s in told)
    assert world.zk.counts.notifications - notified == 1
    assert world.zk.counts.writes - writes == 2
    after = {n: world.data(("t", n)) for n in range(3)}
    assert (after[0].leader, after[0].isr, after[0].leader_epoch) == (3, (3, 4), 1)
    assert (after[1].leader, after[1].isr, after[1].leader_epoch) == (3, (3, 4), 1)
    assert after[2] == before[2]
    assert world.led(3, ("t", 0)).leader == 3
    assert all(world.known(n, ("t", 0)).leader == 3 for n in (1, 3, 4))
    assert all(world.brokers[n].node.image.alive() == {1, 3, 4} for n in (1, 3, 4))


def test_a_state_that_changed_between_reading_and_writing_is_decided_anew() -> None:
    world = World()
    world.create("t", (2, 3, 1))
    world.hold = lambda n, ask: (
        n == 1 and isinstance(ask.request, ZkOps) and isinstance(ask.request.ops[0], SetData)
    )
    world.kill(3)
    world.until(lambda: broker_path(3) not in world.zk.nodes)
    zk = world.zk
    other = zk.connect(world.now, 10_000)
    data = world.data(TP)
    assert data.isr == (1, 2, 3)
    run(zk, other, SetData(state_path(TP), data))  # as a leader does, with another set
    mark = len(world.log)
    world.release()
    assert (world.data(TP).isr, zk.nodes[state_path(TP)].version) == ((1, 2), 2)
    steps = [s for n, r in world.log[mark:] if isinstance(r, ZkOps) for s in r.ops]
    states = [s for s in steps if isinstance(s, GetData | SetData)]
    assert [(type(s), getattr(s, "version", -1)) for s in states] == [
        (SetData, 0),
        (GetData, -1),
        (SetData, 1),
    ]


def test_a_broker_that_came_back_between_two_looks_is_told_everything_again() -> None:
    world = World()
    world.create("t", (2, 3, 1))
    world.run(1000)
    watching = world.hold
    world.hold = lambda n, ask: n == 1 and isinstance(ask.request, ZkOps)
    world.kill(2)
    world.until(lambda: broker_path(2) not in world.zk.nodes)
    world.hold, held = watching, world.hold
    world.hold = held
    world.start(2)
    world.until(lambda: broker_path(2) in world.zk.nodes)
    world.release()
    world.run(200)
    assert world.data(TP).leader == 3
    assert world.led(2, TP).leader == 3
    assert world.brokers[2].node.image.alive() == {1, 2, 3}
    world.until(lambda: world.data(TP).isr == (1, 2, 3))


def test_a_log_is_cut_back_only_for_a_leader_that_lives() -> None:
    """Before KIP-101 a follower cuts its log back to the high watermark that it wrote down."""
    world = World(era="0.10")
    world.create("t", (2, 3, 1))
    produce(world, 2)
    world.run(200)
    world.kill(3)
    world.kill(2)
    world.until(lambda: world.data(TP).leader == 1)
    assert world.durable[3].checkpoint.get(TP, 0) == 0
    epoch = world.data(TP).leader_epoch
    world.hold = lambda n, ask: n == 3 and isinstance(ask.request, Fetch)
    world.start(3)
    world.run(100)
    log = world.durable[3].logs[TP]
    dead = replace(world.data(TP).state((2, 3, 1), 0), leader=2, leader_epoch=epoch + 1)
    assert log.end == 0  # broker 1 lives: cut back to what was written down
    assert world.say(3, LeaderAndIsr(1, 1, 999, {TP: dead})).error is KafkaError.NONE
    assert world.led(3, TP).leader == 1


@pytest.mark.parametrize(("era", "left"), [("0.10", 0), ("0.11", 1), ("2.0", 1), ("2.4", 1)])
def test_two_leaders_that_die_take_a_committed_record_along_before_leader_epochs(era: str, left: int) -> None:
    """KIP-101: a follower that does not know yet that the record is committed drops it for the first
    new leader, and is the second one before it has it again."""
    world = World(era=era)
    world.create("t", (2, 3, 1))
    world.run(500)
    produce(world, 2, lambda n, ask: isinstance(ask.request, Fetch) and fetches(ask) > 0)
    replicas = {n: world.brokers[n].node.replicas[TP] for n in (1, 2, 3)}
    assert replicas[2].high_watermark == 1  # committed, and producers were told
    assert [(replicas[n].log.end, replicas[n].high_watermark) for n in (1, 3)] == [(1, 0), (1, 0)]
    world.hold = lambda n, ask: n == 1 and isinstance(ask.request, Fetch)
    world.kill(2)
    world.until(lambda: world.led(1, TP).leader == 3)
    world.lose = lambda *_: False
    assert world.data(TP).isr == (1, 3)
    world.kill(3)
    world.until(lambda: world.led(1, TP).leader == 1)
    assert replicas[1].log.end == left


def fetches(ask: Ask) -> int:
    """The offset from which a follower fetches."""
    assert isinstance(ask.request, Fetch)
    return ask.request.parts[TP].offset


def test_a_broker_that_lost_only_its_session_registers_again() -> None:
    world = World()
    world.create("t", (2, 3, 1))
    world.run(500)
    session = world.side(2).client.session
    world.hold = lambda n, ask: n == 2 and ask.node == ENSEMBLE
    world.until(lambda: world.data(TP).leader == 3)
    assert world.led(2, TP).leader == 2  # who does not live is told nothing
    world.release()
    world.until(lambda: not world.brokers[2].fenced)
    assert world.side(2).client.session != session
    assert world.led(2, TP).leader == 3
    world.until(lambda: world.data(TP).isr == (1, 2, 3))


def test_a_broker_that_goes_hands_its_leaderships_over_first() -> None:
    world = World()
    world.create("t", (1, 2, 3), (2, 3, 1))
    world.run(500)
    world.brokers[1].shut_down(world.now)  # the controller itself
    world.until(lambda: world.brokers[1].may_end, 1000)
    assert (world.data(TP).leader, world.data(TP).isr) == (2, (2, 3))
    assert CONTROLLER not in world.zk.nodes or world.zk.nodes[CONTROLLER].data != 1
    assert broker_path(1) not in world.zk.nodes
    world.kill(1)
    world.run(200)
    assert len(world.controllers()) == 1


@pytest.mark.parametrize(("replicas", "leader", "isr"), [((3, 2, 1), 1, (1,)), ((3, 2), -1, (2,))])
def test_a_broker_that_goes_leaves_the_set_as_a_leader_is_chosen(
    replicas: tuple[int, ...], leader: int, isr: tuple[int, ...]
) -> None:
    """It is not online for the choice (isReplicaOnline); it may come into sync again."""
    world = World()
    world.create("t", replicas)
    world.controller().context.leaving.add(2)
    world.kill(3)
    world.until(lambda: world.data(TP).leader != 3)
    states = [one.data for one in world.zk.log if one.path == state_path(TP) and one.data.leader != 3]
    assert (states[0].leader, states[0].isr) == (leader, isr)


def test_preferred_leaders_and_reassignment_go_through_znodes() -> None:
    world = World(brokers=4)
    world.create("t", (2, 3, 1))
    world.kill(2)
    world.until(lambda: world.data(TP).leader == 3)
    world.start(2)
    world.until(lambda: world.data(TP).isr == (1, 2, 3))
    assert world.data(TP).leader == 3
    assert world.say(4, ElectLeaders([TP])).error is KafkaError.NONE
    world.run(100)
    assert world.data(TP).leader == 2
    assert world.say(4, ElectLeaders([TP], unclean=True)).error is KafkaError.UNSUPPORTED_VERSION
    assert world.say(1, AlterPartitionReassignments({TP: (4, 3)})).error is KafkaError.NONE
    world.until(lambda: world.zk.nodes[f"{TOPICS}/t"].data == ((4, 3),))
    world.run(200)
    assert (world.data(TP).leader in (3, 4), world.data(TP).isr) == (True, (3, 4))
    assert TP not in world.brokers[1].node.replicas
    assert TP not in world.brokers[2].node.replicas
    assert TP in world.brokers[4].node.replicas


# ---- in-sync sets


def stuck(world: World) -> int:
    """Broker 3 stops to fetch and the leader, 1, writes it out of the set; when that was."""
    world.create("t", (1, 2, 3))
    world.run(1000)
    world.hold = lambda n, ask: n == 3 and isinstance(ask.request, Fetch)
    produce(world)
    world.until(lambda: world.data(TP).isr == (1, 2))
    return world.now


def produce(world: World, leader: int = 1, lose: Callable[[int, Ask], bool] = lambda *_: False) -> None:
    """lose: answers that are lost from now on."""
    world.lose = lose
    world.brokers[leader].receive(world.now, -1, 0, Produce(1, {TP: RecordBatch(-1, -1, ("m",))}))
    world.pump()


def test_a_leader_writes_the_set_itself_and_tells_of_it_later() -> None:
    world = World()
    shrunk = stuck(world)
    assert world.led(1, TP).isr == (1, 2)
    assert world.led(1, TP).leader_epoch == 0  # the leader's own change gives no new epoch
    assert world.led(1, TP).partition_epoch == world.zk.nodes[state_path(TP)].version == 1
    assert world.known(2, TP).isr == (1, 2, 3)
    world.until(lambda: world.known(2, TP).isr == (1, 2))
    assert BLACK_OUT_MS < world.now - shrunk <= BLACK_OUT_MS + LOOK_MS
    assert world.zk.nodes[ISR_CHANGES].children == {}


def test_changes_that_go_on_are_told_after_a_minute() -> None:
    world = World()
    world.create("t", (1, 2, 3))
    isr = world.side(1).isr
    begin = isr.told_ms
    told: list[int] = []
    while len(told) < 2 and world.now < 3 * INTERVAL_MS:
        isr.changed[TP] = None
        isr.changed_ms = world.now
        before = world.zk.nodes[ISR_CHANGES].sequence
        world.run(1000)
        if world.zk.nodes[ISR_CHANGES].sequence > before:
            told.append(world.now)
    assert INTERVAL_MS < told[0] - begin <= INTERVAL_MS + LOOK_MS + 1000
    assert INTERVAL_MS < told[1] - told[0] <= INTERVAL_MS + LOOK_MS + 1000


@pytest.mark.parametrize("session_ends", [False, True])
def test_a_write_that_is_not_answered_leaves_both_sets_in_force(session_ends: bool) -> None:
    world = World()
    world.create("t", (1, 2, 3))
    world.run(1000)
    world.hold = lambda n, ask: n == 3 and isinstance(ask.request, Fetch)
    produce(world)

    def altering(n: int, ask: Ask) -> bool:
        request = ask.request
        return n == 1 and isinstance(request, ZkOps) and request.ops[0][0] == state_path(TP)

    world.lose = altering
    world.until(lambda: world.data(TP).isr == (1, 2))
    replica = world.brokers[1].node.replicas[TP]
    world.run(500)
    assert (replica.isr, replica.proposed) == ((1, 2, 3), (1, 2))
    assert replica.high_watermark == 0
    if session_ends:
        world.zk.close(world.side(1).client.session)
        world.run(100)
        assert replica.maximal_isr == {1, 2, 3}
    world.lose = lambda *_: False
    world.until(lambda: world.led(1, TP).isr == (1, 2) or world.led(1, TP).leader != 1)
    leader = world.data(TP).leader
    world.until(lambda: world.brokers[leader].node.replicas[TP].high_watermark == 1)
