"""Leaders moved and brokers restarted on request, in simulated runs: what was asked for comes about.

That nothing is lost by it is told by the checks; here it is looked at how the cluster did it.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from msgspec import structs

from core.capabilities import Electable
from core.cluster import Roles
from core.config import RunConfig, run_config
from core.errors import ClusterError
from core.op import TopicPartition
from harness.brokers.admin import elections
from harness.explore.trial import checked, judged
from harness.modelled.virtual.admin import RETRIABLE, SERVED
from harness.modelled.virtual.cluster import SimulatedCluster, capabilities
from harness.modelled.virtual.run import Simulated, simulate
from harness.modelled.virtual.scheduler import Scheduler
from history import events as ev
from history import trace as tr
from model.errors import KafkaError
from model.metadata import election
from model.protocol.messages import PartitionState
from model.settings import Settings
from nemesis.execute import missing
from nemesis.schedule import plan

ERAS = ("4.2", "2.4")
LONG: dict[str, object] = {"duration_s": 36, "rate": 5}
"""As long as a rolling restart may take on real brokers."""
SOON_NS = 300_000_000
"""A new leader knows by then that it is one."""
TPS = tuple(TopicPartition("t", number) for number in range(3))


def config(nemesis: str, era: str, **settings: object) -> RunConfig:
    given = {
        "sut": "simulated",
        "workload": "queue",
        "nemesis": nemesis,
        "seed": 1,
        "duration_s": 10,
        "rate": 20,
        "partitions": 3,
        "producers": 3,
        "home_producers": 0,
        "consumers": 2,
        "verb_deadline_s": 5,
        "transaction_timeout_s": 4,
        "fault_s": 2.5,
        "calm_s": 1.5,
        "era": era,
    }
    return run_config(given | settings)


def started(done: Simulated) -> list[ev.FaultStarted]:
    return [event for event in done.events if isinstance(event, ev.FaultStarted)]


def failed(done: Simulated) -> list[str]:
    return [event.why for event in done.events if isinstance(event, ev.FaultFailed)]


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "nemesis", ["kill:one,elections:preferred", "elections:shuffle", "restart:graceful", "restart:rolling"]
)
def test_a_run_with_moves_on_request_is_clean(nemesis: str, era: str) -> None:
    done = simulate(config(nemesis, era, **(LONG if nemesis == "restart:rolling" else {})))
    assert judged(done).failures == []
    assert {one.name.partition("@")[0] for one in started(done)} == {*nemesis.split(",")}


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "nemesis", ["reassign:move@leader", "reassign:cancel", "reassign,kill:one@random", "reassign:shrink"]
)
def test_a_run_in_which_replicas_move_is_clean(nemesis: str) -> None:
    done = simulate(config(nemesis, "4.3", brokers=4))
    assert judged(done).failures == []
    assert started(done)


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_a_move_that_ends_before_its_replicas_have_the_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: what a reassignment adds counts as in sync at once, and what it removes goes."""

    def at_once(state: PartitionState, settings: Settings) -> PartitionState:
        rest = tuple(n for n in state.replicas if n not in state.removing)
        if not state.removing:
            return state
        return structs.replace(state, replicas=rest, isr=tuple(sorted(rest)), adding=(), removing=())

    made = config("reassign:move@leader", "4.3", brokers=4, replication_factor=1, min_insync_replicas=1)
    assert checked(simulate(made)).findings == []
    monkeypatch.setattr(election, "_reassigned", at_once)
    assert "lost-write" in {finding.name for finding in checked(simulate(made)).findings}


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("workload", ["queue", "transactions"])
@pytest.mark.parametrize("nemesis", ["slow-follower", "slow-follower:leads", "slow-follower,kill:one@leader"])
def test_a_run_with_a_slow_follower_is_clean(nemesis: str, workload: str) -> None:
    done = simulate(config(nemesis, "4.3", workload=workload))
    assert judged(done).failures == []
    assert started(done)


@pytest.mark.sampled(14)
@pytest.mark.slow
def test_records_that_only_a_majority_has_are_lost_with_a_slow_follower_that_leads() -> None:
    """A planted bug: the high watermark does not wait for each replica in sync."""
    made = config("slow-follower:leads", "4.3")
    assert checked(simulate(made)).findings == []
    bad = checked(simulate(config("slow-follower:leads", "4.3", mutant="hw-by-majority"), invariants=False))
    assert "lost-write" in {finding.name for finding in bad.findings}


@pytest.mark.slow
@pytest.mark.sampled(16)
@pytest.mark.parametrize("workload", ["queue", "transactions", "groups"])
@pytest.mark.parametrize("nemesis", ["delete-records", "delete-records:all,client:pause,kill:one@leader"])
def test_a_run_in_which_records_are_deleted_is_clean(nemesis: str, workload: str) -> None:
    done = simulate(config(nemesis, "4.3", workload=workload))
    assert judged(done, logs=True).failures == []
    assert any(isinstance(event, ev.RecordsDeleted) for event in done.events)


@pytest.mark.sampled(13)
@pytest.mark.slow
def test_a_deletion_permits_the_loss_of_no_record_at_its_offset() -> None:
    """A planted bug deletes that one as well."""
    made = config("delete-records:half", "4.3")
    assert checked(simulate(made)).findings == []
    bad = simulate(config("delete-records:half", "4.3", mutant="deletes-one-too-many"))
    assert "lost-write" in {finding.name for finding in checked(bad).findings}


@pytest.mark.sampled(5)
def test_the_new_replicas_have_the_log_and_the_old_ones_delete_it() -> None:
    """And back, as healing has it."""
    done = simulate(config("reassign:move@leader", "4.3", brokers=4, rate=5), trace=True)
    assert started(done)
    assert failed(done) == []
    assert done.trace is not None
    places: dict[str, set[int]] = {}
    for state in done.trace.states:
        if isinstance(state, tr.TracedReplica) and state.partition.startswith("queue-"):
            places.setdefault(state.partition, set()).add(state.node)
    assert any(len(nodes) == 4 for nodes in places.values()), places


def test_what_is_cancelled_has_not_moved() -> None:
    async def task(cluster: SimulatedCluster) -> None:
        before = await cluster.replicas()
        assert await cluster.cancel_reassignments(TPS, 5) == ()
        await cluster.reassign({TPS[0]: before[TPS[0]][:2]}, 5)
        while (await cluster.roles()).replicas[TPS[0]] != before[TPS[0]][:2]:
            await cluster.scheduler.sleep(100_000)
        await cluster.pause([before[TPS[0]][2]])
        await cluster.reassign({TPS[0]: before[TPS[0]]}, 5)
        assert await cluster.cancel_reassignments(TPS, 5) == TPS[:1]
        assert (await cluster.roles()).replicas[TPS[0]] == before[TPS[0]][:2]
        await cluster.resume([before[TPS[0]][2]])
        with pytest.raises(ClusterError, match="nothing-0: UNKNOWN_TOPIC_OR_PARTITION"):
            await cluster.reassign({TopicPartition("nothing", 0): (1, 2)}, 1)

    play("4.2", task)


def test_what_alone_is_in_sync_is_not_cancelled_and_another_reassignment_replaces_it() -> None:
    async def task(cluster: SimulatedCluster) -> None:
        async def until(done: Callable[[Roles], bool]) -> None:
            while not done(await cluster.roles()):
                await cluster.scheduler.sleep(100_000)

        tp, (first, second, third) = TPS[0], (await cluster.replicas())[TPS[0]]
        await cluster.reassign({tp: (first,)}, 5)
        await until(lambda roles: roles.replicas[tp] == (first,))
        await cluster.pause([third])
        await cluster.reassign({tp: (second, third)}, 5)
        await until(lambda roles: set(roles.isr[tp]) == {first, second})
        await cluster.pause([first])
        await until(lambda roles: set(roles.isr[tp]) == {second})
        assert await cluster.cancel_reassignments([tp], 5) == ()
        await cluster.reassign({tp: (first,)}, 5)
        await cluster.resume([first, third])
        await until(lambda roles: roles.replicas[tp] == (first,))

    play("4.2", task, controllers=3)


def test_where_no_reassignment_could_be_cancelled_none_is_offered() -> None:
    steps = plan("reassign", config("reassign", "4.2", brokers=4))
    assert missing(steps, capabilities(config("reassign", "4.2"))) == []
    assert missing(steps, capabilities(config("reassign", "2.4"))) == ["Reassignable"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("era", ERAS)
def test_a_shuffle_moves_every_leader_at_once_and_nobody_goes_down(era: str) -> None:
    done = simulate(config("elections:shuffle", era), trace=True)
    assert started(done)
    assert failed(done) == []
    assert done.trace is not None
    for fault in started(done):
        before, after = (led(done.trace, ns) for ns in (fault.begin_ns, fault.ns + SOON_NS))
        moved = {tp for tp in before if before[tp] != after[tp]}
        assert {tp for tp in before if tp.startswith("queue-")} == moved, fault.text
    assert not any(isinstance(s, tr.TracedNode) and s.state == tr.DOWN for s in done.trace.states)


def led(trace: tr.Trace, ns: int) -> dict[str, int]:
    """Who leads what at a time: nodes that believe to be leaders, in the newest epoch."""
    found: dict[str, tuple[int, int]] = {}
    for state in trace.states:
        if isinstance(state, tr.TracedReplica) and state.ns <= ns and state.role == tr.LEADER:
            found[state.partition] = max(found.get(state.partition, (-1, -1)), (state.epoch, state.node))
    return {tp: node for tp, (_, node) in found.items()}


@pytest.mark.parametrize("era", ERAS)
def test_the_preferred_replica_leads_again_when_it_is_asked_for(era: str) -> None:
    async def task(cluster: SimulatedCluster) -> None:
        await cluster.kill([1])
        await until(cluster, lambda leaders: 1 not in leaders.values())
        await cluster.revive([1])
        await whole(cluster)
        assert (await cluster.roles()).leaders[TPS[0]] != 1
        await cluster.elect_preferred(TPS)
        await until(cluster, lambda leaders: leaders[TPS[0]] == 1)
        assert [(await cluster.roles()).leaders[tp] for tp in TPS] == [1, 2, 3]
        epochs = dict((await cluster.roles()).leader_epochs)
        await cluster.elect_preferred(TPS)  # not needed
        assert (await cluster.roles()).leader_epochs == epochs

    play(era, task)


@pytest.mark.parametrize("era", ERAS)
def test_another_order_of_replicas_moves_no_leader(era: str) -> None:
    async def task(cluster: SimulatedCluster) -> None:
        before = await cluster.replicas()
        leaders = dict((await cluster.roles()).leaders)
        await cluster.reorder({tp: before[tp][::-1] for tp in TPS})
        after = await cluster.replicas()
        assert [after[tp] for tp in TPS] == [before[tp][::-1] for tp in TPS]
        assert (await cluster.roles()).leaders == leaders

    play(era, task)


@pytest.mark.parametrize("era", ERAS)
def test_what_cannot_be_elected_or_ordered_is_refused(era: str) -> None:
    async def task(cluster: SimulatedCluster) -> None:
        await cluster.kill([1])
        await until(cluster, lambda leaders: 1 not in leaders.values())
        told = "PREFERRED_LEADER_NOT_AVAILABLE|preferred replica of t-0 does not lead"
        with pytest.raises(ClusterError, match=told):
            await cluster.elect_preferred(TPS)
        with pytest.raises(ClusterError, match="not a permutation"):
            await cluster.reorder({TPS[0]: (1, 2)})
        with pytest.raises(ClusterError, match="not a permutation"):
            await cluster.reorder({TopicPartition("nothing", 0): (1, 2, 3)})
        await cluster.elect_preferred([])
        await cluster.reorder({})

    play(era, task)


@pytest.mark.parametrize("era", ERAS)
def test_nobody_who_answers_is_told_within_the_deadline(era: str) -> None:
    async def task(cluster: SimulatedCluster) -> None:
        order = {tp: nodes[::-1] for tp, nodes in (await cluster.replicas()).items() if tp in TPS}
        await cluster.pause([2, 3])
        before = cluster.scheduler.now
        await cluster.pause([1])
        with pytest.raises(ClusterError, match="no broker served the request in time: no answer"):
            await cluster.elect_preferred(TPS)
        with pytest.raises(ClusterError, match="not a permutation"):
            await cluster.reorder(order)
        assert cluster.scheduler.now - before <= 7_000_000
        await cluster.resume([1, 2, 3])

    play(era, task)


# ---- brokers that go in order


@pytest.mark.sampled(8)
@pytest.mark.parametrize("era", ERAS)
def test_leaders_have_moved_when_a_broker_that_was_shut_down_ends(era: str) -> None:
    for nemesis, moved in (("restart:graceful@leader", True), ("kill:one@leader", False)):
        done = simulate(config(nemesis, era), trace=True)
        assert done.trace is not None
        ends = {fault.nodes[0]: fault.begin_ns for fault in started(done)[:1]}
        ((node, begin),) = ends.items()
        end = ended(done.trace, node, begin)
        assert node in led(done.trace, begin).values()
        others = [s for s in done.trace.states if isinstance(s, tr.TracedReplica) and s.node != node]
        known: dict[tuple[int, str], int] = {}
        for state in others:
            if state.ns < end:
                known[state.node, state.partition] = state.leader
        assert (node not in known.values()) is moved, nemesis
        if era == "2.4":
            assert granted(done.trace, node, begin, end) is moved, nemesis


def granted(trace: tr.Trace, node: int, since: int, end: int) -> bool:
    """A controller answered the broker's request to go, which nothing but the end of its session has shown
    otherwise (on ZooKeeper)."""
    return any(
        message.name == "ControlledShutdown"
        and message.answers >= 0
        and message.receiver == tr.node_lane(node)
        and since <= message.sent <= message.arrived <= end
        for message in trace.messages
    )


def ended(trace: tr.Trace, node: int, since: int) -> int:
    """When the process of a node ended next."""
    return next(
        state.ns
        for state in trace.states
        if isinstance(state, tr.TracedNode)
        and (state.node, state.state) == (node, tr.DOWN)
        and state.ns >= since
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("era", ERAS)
def test_a_rolling_restart_waits_for_all_replicas(era: str) -> None:
    done = simulate(config("restart:rolling", era, **LONG), trace=True)
    assert done.trace is not None
    fault = started(done)[0]
    between = [s for s in done.trace.states if fault.begin_ns <= s.ns <= fault.ns]
    downs = [s for s in between if isinstance(s, tr.TracedNode) and s.state == tr.DOWN]
    assert tuple(s.node for s in downs) == fault.nodes
    assert sorted(fault.nodes) == [1, 2, 3]
    sets = in_sync(done.trace, [*(s.ns for s in downs), fault.ns])
    for at, (isr_at_end, most) in enumerate(sets):
        assert all(len(isr) >= 2 for isr in isr_at_end.values())
        assert at == 0 or set(most.values()) == {3}, f"before step {at} not all were in sync"


def in_sync(trace: tr.Trace, times: list[int]) -> list[tuple[dict[str, tuple[int, ...]], dict[str, int]]]:
    """At each time the in-sync sets, as leaders know them, and how large each was at most since the time
    before."""
    found = []
    sets: dict[str, tuple[int, tuple[int, ...]]] = {}
    most: dict[str, int] = {}
    left = list(times)
    for state in trace.states:
        while left and state.ns >= left[0]:
            found.append(({tp: isr for tp, (_, isr) in sets.items()}, dict(most)))
            most = {tp: len(isr) for tp, (_, isr) in sets.items()}
            # What the one that ends now has been a member of is over.
            left.pop(0)
            most = dict.fromkeys(most, 0)
        if not isinstance(state, tr.TracedReplica) or state.role != tr.LEADER:
            continue
        if state.epoch >= sets.get(state.partition, (-1, ()))[0]:
            sets[state.partition] = (state.epoch, state.isr)
            most[state.partition] = max(most.get(state.partition, 0), len(state.isr))
    return found


@pytest.mark.parametrize("era", ERAS)
def test_a_broker_that_stands_still_goes_in_order_when_it_goes_on(era: str) -> None:
    async def task(cluster: SimulatedCluster) -> None:
        await cluster.pause([1])
        stopping = cluster.scheduler.spawn(cluster.shut_down([1]))
        await cluster.scheduler.sleep(1_000_000)
        assert up(cluster) == {1, 2, 3}
        await cluster.resume([1])
        begin = cluster.scheduler.now
        await stopping
        assert up(cluster) == {2, 3}
        assert cluster.scheduler.now - begin < 10_000_000
        assert 1 not in (await cluster.roles()).leaders.values()

    play(era, task)


# ---- elections that lose records


@pytest.mark.sampled(27)
@pytest.mark.parametrize("era", ERAS)
def test_an_unclean_election_loses_records_where_it_may(era: str) -> None:
    settings = {"unclean_leader_election": True, "min_insync_replicas": 1, "duration_s": 20}
    done = simulate(config("unclean", era, **settings))
    assert failed(done) == []
    assert "lost-write" in {finding.name for finding in checked(done).findings}
    assert judged(done).failures == []  # allowed


# ---- driving a cluster


def play(era: str, task: Callable[[SimulatedCluster], Coroutine[Any, Any, None]], **settings: object) -> None:
    """Three brokers with a topic `t` of three partitions, led by 1, 2, 3."""
    scheduler = Scheduler()
    cluster = SimulatedCluster(config("none", era, **settings), scheduler)
    assert isinstance(cluster, Electable)

    async def whole_task() -> None:
        await cluster.start()
        await cluster.create_topic("t", 3, 3, {})
        await whole(cluster)
        assert [(await cluster.roles()).leaders[tp] for tp in TPS] == [1, 2, 3]
        await task(cluster)

    assert scheduler.run(scheduler.spawn(whole_task()), limit=100_000_000)


def up(cluster: SimulatedCluster) -> set[int]:
    return {node for node, sim in cluster.sim.items() if sim.up}


async def until(cluster: SimulatedCluster, wanted: Callable[[Mapping[TopicPartition, int]], bool]) -> None:
    """Wait, at most 20 s of the simulated clock."""
    end = cluster.scheduler.now + 20_000_000
    while not wanted((await cluster.roles()).leaders):
        assert cluster.scheduler.now < end, "it does not come about"
        await cluster.scheduler.sleep(50_000)


async def whole(cluster: SimulatedCluster) -> None:
    """All replicas of the topic are in sync."""
    end = cluster.scheduler.now + 20_000_000
    while True:
        isr = (await cluster.roles()).isr
        if all(len(isr.get(tp, ())) == 3 for tp in TPS):
            return
        assert cluster.scheduler.now < end, "replicas do not catch up"
        await cluster.scheduler.sleep(50_000)


def test_what_passes_is_what_kafka_says_does() -> None:
    """`ErrorCode.retriable`, of the errors that the model has for these requests."""
    for error in (*RETRIABLE, KafkaError.UNSUPPORTED_VERSION, KafkaError.REASSIGNMENT_IN_PROGRESS):
        assert ErrorCode(error.value).retriable is (error in RETRIABLE), error
    assert {ErrorCode(error.value) for error in SERVED} == set(elections.SERVED)
