"""Each invariant of the simulation is silent where nothing is wrong, and speaks where its bug is planted."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from core.config import RunConfig, run_config
from core.internal_topics import TRANSACTION_TOPIC
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.invariants.end import unfinished
from harness.modelled.virtual.invariants.observer import MOST, Invariants
from harness.modelled.virtual.invariants.partition import Guarded, producers_of
from harness.modelled.virtual.nodes import SimNode
from harness.modelled.virtual.run import Simulated, simulate
from harness.modelled.virtual.scheduler import Scheduler
from history import journal as j
from model.coordinator.transaction_metadata import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
)
from model.kraft.kafka_raft_client import LEADER, KafkaRaftClient
from model.kraft.kraft_metadata import KRaftMetadata
from model.log.unified_log import RecordBatch
from model.protocol.messages import Partition, PartitionState
from model.replication.replica import Replica
from workloads.registry import modelled

TP = ("t", 0)


def config(seed: int, **settings: object) -> RunConfig:
    return run_config(
        {
            "sut": "simulated",
            "seed": seed,
            "duration_s": 4,
            "rate": 30,
            "verb_deadline_s": 5,
            "fault_s": 1.5,
            "transaction_timeout_s": 4,
            "calm_s": 1,
            "workload": "transactions",
            **settings,
        }
    )


def names(run: Simulated) -> set[str]:
    return {broken.name for broken in run.broken}


# ---- whole runs

FAULTS = ("none", "partition", "kill", "pause", "restart", "random", "client")
CLEAN = [(w, FAULTS[(n + shift) % len(FAULTS)]) for shift in (1, 5) for n, w in enumerate(modelled())]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("workload", "nemesis"), CLEAN)
def test_nothing_breaks_without_a_planted_bug(workload: str, nemesis: str) -> None:
    long = 6 if nemesis == "restart" else 4  # a restart takes 4 s
    preset = {"preset": workload} if workload == "share" else {}
    run = simulate(config(5, workload=workload, nemesis=nemesis, duration_s=long, **preset))
    assert (run.broken, run.unfinished) == ([], [])


@pytest.mark.sampled(8)
def test_looking_changes_nothing() -> None:
    def lines(*, invariants: bool) -> list[tuple[str, list[j.Line]]]:
        return simulate(config(3, nemesis="kill,partition"), invariants=invariants).journals

    assert lines(invariants=True) == lines(invariants=False)


SEEDS = range(4)
PLANTED = [
    ("elects-any-replica", "clean-election", {"nemesis": "kill:all", "workload": "queue"}),
    ("epoch-not-bumped", "one-leader", {"nemesis": "kill:one@leader"}),
    ("coordinator-forgets-on-load", "transaction-states", {"nemesis": "kill:one@leader"}),
    ("zombie-not-fenced", "transaction-states", {"nemesis": "client", "workload": "fencing"}),
    ("commit-writes-abort", "markers", {"nemesis": "none"}),
    ("abort-answers-commit", "markers", {"nemesis": "none"}),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("mutant", "name", "settings"), PLANTED)
def test_a_planted_bug_breaks_its_invariant(mutant: str, name: str, settings: dict[str, object]) -> None:
    """In one of the first seeds: which one follows from everything that the model draws."""
    for seed in SEEDS:
        run = simulate(config(seed, mutant=mutant, **settings))
        assert len(run.broken) <= MOST
        assert run.broken == sorted(run.broken, key=lambda broken: broken.time_us)
        if name in names(run):
            return
    pytest.fail(f"{mutant} never broke {name}")


@pytest.mark.sampled(11)
def test_what_a_run_leaves_undone_is_told() -> None:
    run = simulate(config(0, mutant="marker-skips-a-partition", nemesis="none"))
    assert any("has a transaction open since" in text for text in run.unfinished)


# ---- states made by hand


class World:
    """A cluster of three brokers with one topic, watched."""

    def __init__(self, seed: int = 0, mutant: str = "", **settings: object) -> None:
        self.scheduler = Scheduler()
        self.cluster = SimulatedCluster(config(seed, mutant=mutant, **settings), self.scheduler)
        self.invariants = Invariants(self.cluster)

    def run(self, microseconds: int) -> None:
        async def live() -> None:
            await self.cluster.start()
            await self.cluster.create_topic(TP[0], 1, 3, {})
            await self.scheduler.sleep(microseconds)

        assert self.scheduler.run(self.scheduler.spawn(live()))

    def settle(self, microseconds: int = 1_000_000) -> None:
        self.scheduler.run(self.scheduler.sleep(microseconds))

    def node(self, tp: Partition = TP, *, leads: bool = True, which: int = 0) -> SimNode:
        nodes = [
            n
            for n in self.cluster.sim.values()
            if n.broker is not None
            and tp in n.broker.node.replicas
            and n.broker.node.replicas[tp].leads == leads
        ]
        return nodes[which]

    def replica(self, node: SimNode, tp: Partition = TP) -> Replica:
        assert node.broker is not None
        return node.broker.node.replicas[tp]

    def look(self, node: SimNode) -> list[str]:
        """Names of what is broken once the node was looked at."""
        node.after(node)
        return [broken.name for broken in self.invariants.broken]

    def append(self, *records: object, **fields: Any) -> None:
        """Append at the leader, until all replicas have it."""
        replica = self.replica(self.node())
        replica.append(RecordBatch(-1, -1, records, **fields), -1)
        assert self.node().broker is not None
        self.settle(2_000_000)


# ---- schedules


def in_order(world: World) -> tuple[SimNode, SimNode, SimNode]:
    """The leader, who leads after it, and the third replica."""
    leader = world.node()
    order = [n for n in world.replica(leader).state.replicas if n != leader.me]
    return leader, world.cluster.sim[order[0]], world.cluster.sim[order[1]]


def write(world: World, *holders: SimNode) -> None:
    """The leader appends; these followers fetch the record, and once more, so that the leader knows."""
    leader = world.node()
    replica, now = world.replica(leader), world.scheduler.now // 1000
    placed = replica.append(RecordBatch(-1, -1, ("new",)), -1)
    for node in holders:
        world.replica(node).log.copy(placed)
        replica.fetched_by(node.me, placed.last + 1, now)
    replica.advance(now)
    for node in (leader, *holders):
        node.after(node)


def the_leader_dies_at_once(world: World) -> None:
    write(world)
    world.node().kill()


def the_one_follower_that_has_it_does_not_lead(world: World) -> None:
    leader, _, third = in_order(world)
    write(world, third)
    leader.kill()


def two_leaders_die_one_after_the_other(world: World) -> None:
    """KIP-101, scenario 1: the second one dies as soon as the third replica has heard of it."""
    leader, second, third = in_order(world)
    write(world, second, third)
    looked = third.after

    def after(node: SimNode) -> None:
        looked(node)
        if world.replica(third).state.leader == second.me:
            second.kill()

    third.after = after
    leader.kill()


def the_old_leader_returns_with_a_record_of_its_own(world: World) -> None:
    leader, _, _ = in_order(world)
    write(world)
    leader.kill()
    world.settle(10_000_000)
    world.append("other")
    leader.start()


SCHEDULES: list[tuple[str, str, Callable[[World], None]]] = [
    ("hw-is-leader-end", "leader-completeness", the_leader_dies_at_once),
    ("hw-by-majority", "leader-completeness", the_one_follower_that_has_it_does_not_lead),
    ("truncate-to-hw", "leader-completeness", two_leaders_die_one_after_the_other),
    ("keep-tail", "log-matching", the_old_leader_returns_with_a_record_of_its_own),
]


@pytest.mark.parametrize("planted", [True, False])
@pytest.mark.parametrize(("mutant", "name", "schedule"), SCHEDULES)
def test_a_schedule_in_which_a_planted_bug_loses_what_was_committed(
    mutant: str, name: str, schedule: Callable[[World], None], planted: bool
) -> None:
    world = World(mutant=mutant if planted else "", brokers=5)
    world.run(1_000_000)
    world.append("a", "b")
    schedule(world)
    world.settle(15_000_000)
    assert {broken.name for broken in world.invariants.broken} == ({name} if planted else set())


@pytest.fixture
def world() -> World:
    made = World()
    made.run(1_000_000)
    made.append("a", "b")
    made.append("c", producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    assert made.replica(made.node()).high_watermark == 3
    assert all(made.look(node) == [] for node in made.cluster.sim.values())
    assert [text for text in unfinished(made.cluster) if "open" not in text] == []
    return made


def another_batch(world: World) -> SimNode:
    node = world.node(leads=False)
    log = world.replica(node).log
    log.truncate(2)
    log.copy(RecordBatch(2, 0, ("other",)))
    return node


def a_short_leader(world: World) -> SimNode:
    node = world.node(leads=False)
    replica = world.replica(node)
    replica.log.truncate(2)
    replica.high_watermark = 2
    _guarded(world).decided(state_of(world, leader=node.me, leader_epoch=1))
    replica.become(state_of(world, leader=node.me, leader_epoch=1), 0)
    return node


def _guarded(world: World) -> Guarded:
    return world.invariants._of(TP, world.invariants._topic_ids[TP[0]])


def state_of(world: World, **changes: Any) -> PartitionState:
    return structs.replace(world.replica(world.node()).state, **changes)


def a_watermark_that_falls(world: World) -> SimNode:
    node = world.node()
    world.replica(node).high_watermark = 2
    return node


def a_second_leader(world: World) -> SimNode:
    node = world.node(leads=False)
    replica = world.replica(node)
    replica.become(structs.replace(replica.state, leader=node.me), 0)
    return node


def a_second_leader_of_the_quorum(world: World) -> SimNode:
    node = next(n for n in world.cluster.sim.values() if quorum_of(n).role != LEADER)
    quorum_of(node).role = LEADER
    return node


def quorum_of(node: SimNode) -> KafkaRaftClient:
    assert node.broker is not None
    assert isinstance(node.broker.metadata, KRaftMetadata)
    return node.broker.metadata.quorum


def other_metadata(world: World) -> SimNode:
    """As a leader that commits records of an older epoch has it, once they are replaced."""
    node = next(n for n in world.cluster.sim.values() if quorum_of(n).role != LEADER)
    quorum = quorum_of(node)
    quorum.entries.append((quorum.epoch, "x"))
    quorum.high_watermark = quorum.end
    node.after(node)
    leader = next(n for n in world.cluster.sim.values() if quorum_of(n).role == LEADER)
    mine = quorum_of(leader)
    mine.entries.append((mine.epoch, "y"))
    mine.high_watermark = mine.end
    return leader


def a_quorum_leader_that_misses_records(world: World) -> SimNode:
    node = next(n for n in world.cluster.sim.values() if quorum_of(n).role != LEADER)
    quorum = quorum_of(node)
    del quorum.entries[-1:]
    quorum.role, quorum.epoch = LEADER, quorum.epoch + 1
    return node


def a_forgotten_producer(world: World) -> SimNode:
    node = world.node(leads=False)
    log = world.replica(node).log
    log.truncate(2)
    log.copy(RecordBatch(2, 0, ("c",), 7, 0, 0, True))
    log.producers.clear()
    return node


def a_watermark_above_the_end(world: World) -> SimNode:
    node = world.node(leads=False)
    replica = world.replica(node)
    replica.high_watermark = replica.log.end + 1
    return node


def a_stable_offset_that_falls(world: World) -> SimNode:
    node = world.node()
    world.replica(node).log.producer_states.ongoing[7] = 1
    world.replica(node).high_watermark += 0
    world.replica(node).state = structs.replace(world.replica(node).state, partition_epoch=9)
    return node


def a_stranger_in_sync(world: World) -> SimNode:
    _guarded(world).decided(state_of(world, isr=(1, 2, 3, 9)))
    return world.node()


def a_leader_out_of_sync(world: World) -> SimNode:
    leader = world.node().me
    isr = tuple(n for n in (1, 2, 3) if n != leader)
    _guarded(world).decided(state_of(world, isr=isr))
    return world.node()


def an_unclean_leader(world: World) -> SimNode:
    leader, other = world.node().me, world.node(leads=False).me
    guarded = _guarded(world)
    guarded.decided(state_of(world, isr=(leader,)))
    guarded.decided(state_of(world, isr=(other,), leader=other, leader_epoch=1))
    return world.node()


def a_marker_that_nobody_decided(world: World) -> SimNode:
    world.append(producer_id=7, producer_epoch=1, control="commit", coordinator_epoch=0)
    return world.node()


MADE: list[tuple[Callable[[World], SimNode], str]] = [
    (another_batch, "log-matching"),
    (a_short_leader, "leader-completeness"),
    (a_watermark_that_falls, "high-watermark-falls"),
    (a_second_leader, "one-leader"),
    (a_second_leader_of_the_quorum, "one-quorum-leader"),
    (other_metadata, "quorum-logs"),
    (a_quorum_leader_that_misses_records, "quorum-logs"),
    (a_forgotten_producer, "producer-state"),
    (a_watermark_above_the_end, "offsets-in-order"),
    (a_stable_offset_that_falls, "stable-offset-falls"),
    (a_stranger_in_sync, "in-sync-set"),
    (a_leader_out_of_sync, "in-sync-set"),
    (an_unclean_leader, "clean-election"),
    (a_marker_that_nobody_decided, "markers"),
]


@pytest.mark.parametrize(("make", "name"), MADE)
def test_a_state_that_may_not_be(world: World, make: Callable[[World], SimNode], name: str) -> None:
    assert set(world.look(make(world))) == {name}


def test_the_first_break_of_each_partition_is_kept(world: World) -> None:
    node = a_watermark_above_the_end(world)
    assert world.look(node) == ["offsets-in-order"]
    world.replica(node).high_watermark += 1
    assert world.look(node) == ["offsets-in-order"]


def test_the_last_known_leader_has_to_hold_everything(world: World) -> None:
    node = world.node(leads=False)
    replica = world.replica(node)
    replica.log.truncate(2)
    replica.high_watermark = 2
    guarded = _guarded(world)
    guarded.decided(state_of(world, isr=(), leader=-1, leader_epoch=1, last_elr=(node.me,)))
    after = state_of(world, isr=(node.me,), leader=node.me, leader_epoch=2)
    guarded.decided(after)
    replica.become(after, 0)
    assert world.look(node) == ["leader-completeness"]


@pytest.mark.parametrize(("stays", "broken"), [(False, []), (True, ["clean-election"])])
def test_the_last_known_leader_leads_where_nobody_is_eligible_afterwards(
    world: World, stays: bool, broken: list[str]
) -> None:
    """One change takes the last one from the eligible set and elects (KIP-966)."""
    node, eligible = world.node(leads=False).me, (world.node().me,)
    guarded = _guarded(world)
    guarded.decided(state_of(world, isr=(), leader=-1, leader_epoch=1, elr=eligible, last_elr=(node,)))
    left = eligible if stays else ()
    guarded.decided(state_of(world, isr=(node,), leader=node, leader_epoch=2, elr=left))
    assert world.look(world.node(leads=False)) == broken


@pytest.mark.parametrize("era", ["4.2", "4.0"])
def test_what_was_not_flushed_may_be_lost_with_the_power(era: str) -> None:
    world = World(era=era)
    world.run(1_000_000)
    world.append("a", "b")
    for node in world.cluster.sim.values():
        node.lose_power()
    assert _guarded(world).exposed == 2
    for node in world.cluster.sim.values():
        node.start()
    world.settle(20_000_000)
    assert world.replica(world.node()).log.end == 0
    assert world.invariants.broken == []
    assert _guarded(world).exposed == 0


@pytest.mark.parametrize("unclean", [False, True])
def test_an_unclean_leader_may_lose_what_it_does_not_have(unclean: bool) -> None:
    world = World(unclean_leader_election=unclean)
    world.run(1_000_000)
    world.append("a", "b")
    node = world.node(leads=False)
    replica, leader = world.replica(node), world.node().me
    replica.log.truncate(0)
    replica.high_watermark = 0
    guarded = _guarded(world)
    guarded.decided(state_of(world, isr=(leader,)))
    after = state_of(world, isr=(node.me,), leader=node.me, leader_epoch=1)
    guarded.decided(after)
    replica.become(after, 0)
    assert world.look(node) == ([] if unclean else ["clean-election"])
    assert guarded.exposed == 0


# ---- transactional ids


def record(state: TransactionState, epoch: int, **fields: Any) -> TransactionRecord:
    made = TransactionRecord("t", 5, 1000, epoch, state=state)
    return made._replace(**fields)


def test_a_record_may_follow_what_the_coordinator_still_had_in_memory() -> None:
    invariants = World().invariants
    log = invariants._of((TRANSACTION_TOPIC, 0), 0).decisions

    def add(epoch: int, *records: TransactionRecord | TransactionTombstone) -> list[str]:
        log.add(RecordBatch(0, epoch, records))
        return [broken.name for broken in invariants.broken]

    # The answer to the prepared commit was lost to the coordinator, which then aborts.
    assert add(0, record(EMPTY, 0), record(ONGOING, 0), record(PREPARE_COMMIT, 0)) == []
    assert add(0, record(PREPARE_ABORT, 1)) == []
    # The next coordinator has read the whole log.
    assert add(1, record(COMPLETE_ABORT, 1)) == []
    assert add(1, TransactionTombstone("t"), record(EMPTY, 0)) == []
    assert add(2, record(COMPLETE_COMMIT, 0)) == ["transaction-states"]


@pytest.mark.parametrize(
    ("state", "age_ms", "told"),
    [(ONGOING, 0, False), (ONGOING, 60_000, True), (PREPARE_COMMIT, 0, True), (COMPLETE_COMMIT, 0, False)],
)
def test_a_transaction_may_be_open_at_the_end_while_its_time_runs(
    state: TransactionState, age_ms: int, told: bool
) -> None:
    """Its producer may have named a partition, and ended before it wrote there."""
    world = World()
    world.run(1_000_000)
    broker = next(iter(world.cluster.running))
    log, began = broker.coordinators.transactions.log, broker.node.now - age_ms
    log.epochs[0] = 0
    log.known[0] = {"t": TransactionMetadata(record(state, 0, started=began), 32767)}
    text = f"t: {state}, with its coordinator, node {broker.me}"
    assert unfinished(world.cluster) == ([text] if told else [])


@pytest.mark.parametrize("leads", [True, False])
def test_a_decision_counts_once_a_coordinator_has_read_it(leads: bool) -> None:
    """That one sends markers, whether the decision is committed or not."""
    world, tp = World(), (TRANSACTION_TOPIC, 0)
    world.run(1_000_000)
    world.scheduler.run(world.scheduler.spawn(world.cluster.create_topic(tp[0], 1, 3, {})))
    world.settle()
    node = world.node(tp, leads=False)
    replica = world.replica(node, tp)
    replica.log.copy(RecordBatch(0, 0, (record(PREPARE_COMMIT, 3),)))
    if leads:
        led = structs.replace(replica.state, leader=node.me, leader_epoch=1, partition_epoch=1)
        world.invariants._of(tp, replica.topic_id).decided(led)
        replica.become(led, 0)
        assert node.broker is not None
        node.broker.coordinators.transactions.log.epochs[0] = 1  # it has loaded the log
    assert world.look(node) == []
    assert replica.high_watermark == 0
    _guarded(world).decisions.add(RecordBatch(0, 0, (), 5, 3, control="commit"))
    assert world.look(node) == ([] if leads else ["markers"])


def test_what_a_log_says_of_its_producers() -> None:
    batches = [
        RecordBatch(0, 0, ("a",)),
        RecordBatch(1, 0, ("b", "c"), 5, 0, 0, True),
        RecordBatch(3, 0, ("d",), 5, 0, 2, True),
        RecordBatch(4, 0, (), 5, 0, control="commit", coordinator_epoch=3),
        RecordBatch(5, 0, ("e",), 6, 1, 0, True),
        RecordBatch(6, 1, ("f",), 5, 1, 0, True),
    ]
    assert producers_of(batches, 5) == {5: (1, 6, 3, [(0, 0, 6)]), 6: (1, 5, -1, [(0, 0, 5)])}
    assert producers_of(batches[:4], 1) == {5: (0, -1, 3, [(2, 2, 3)])}
