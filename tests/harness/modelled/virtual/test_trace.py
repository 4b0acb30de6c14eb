"""The trace of a simulated run: complete, true, and without any effect on the run."""

import copy
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from core.capabilities import Cut, Direction
from core.errors import HistoryError
from harness.modelled.virtual import network
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.message_text import Summaries
from harness.modelled.virtual.network import DELAY_US, Message, Network, VirtualConnection
from harness.modelled.virtual.run import Simulated, simulate
from harness.modelled.virtual.scheduler import Scheduler
from harness.modelled.virtual.tracer import Tracing
from history import trace as tr
from tests.histories.traced import CLEAN, config, losing

WORKLOADS = ("queue", "transactions", "copier")


@pytest.fixture(scope="module")
def done() -> Simulated:
    return simulate(losing(), trace=True)


@pytest.fixture(scope="module")
def trace(done: Simulated) -> tr.Trace:
    assert done.trace is not None
    return done.trace


@pytest.mark.sampled(6)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_run_is_the_same_with_and_without(workload: str) -> None:
    made = config(**CLEAN | {"workload": workload})
    plain, traced = simulate(made), simulate(made, trace=True)
    assert plain.trace is None
    assert plain.journals == traced.journals
    assert plain.events == traced.events
    assert plain.calls == traced.calls


PROGRAM = """
from harness.modelled.virtual.run import simulate
from history.trace import encode
from tests.histories.traced import CLEAN, config
import hashlib
print(hashlib.sha256(encode(simulate(config(**CLEAN), trace=True).trace)).hexdigest())
"""


@pytest.mark.sampled(48)
def test_the_trace_is_the_same_to_the_byte() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_every_message_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted where messages are handed to the network, and where they are delivered."""
    counted: Counter[str] = Counter()
    send, answer = Network.send, Network.answer

    def count(what: str, deliver: Any) -> Any:
        def counting(message: Message | None) -> None:
            counted[what] += message is not None
            deliver(message)

        return counting

    def sent(self: Network, connection: VirtualConnection, content: Any, arrive: Any, answered: Any) -> None:
        counted["asked"] += not (connection.broken or connection.closed)
        arrive, answered = count("asked delivered", arrive), count("answered delivered", answered)
        send(self, connection, content, arrive, answered)

    def sent_back(self: Network, request: Message, content: Any) -> None:
        counted["answered"] += not request.connection.broken
        answer(self, request, content)

    monkeypatch.setattr(Network, "send", sent)
    monkeypatch.setattr(Network, "answer", sent_back)
    trace = simulate(config(**CLEAN), trace=True).trace
    assert trace is not None
    answers = [message for message in trace.messages if message.answers >= 0]
    asked = [message for message in trace.messages if message.answers < 0]
    assert len(asked) == counted["asked"] > 1000
    assert len(answers) == counted["answered"] > 1000
    for kind, told in (("asked", asked), ("answered", answers)):
        arrived = [message for message in told if message.arrived != tr.LOST]
        assert len(arrived) == counted[f"{kind} delivered"]


@pytest.mark.sampled(30)
def test_answers_answer_what_arrived(trace: tr.Trace) -> None:
    least = DELAY_US[0] * 1000
    for message in trace.messages:
        home = message.sender == message.receiver and message.answers < 0
        assert message.arrived == tr.LOST or message.arrived - message.sent >= (0 if home else least)
        if message.answers >= 0:
            asked = trace.messages[message.answers]
            assert (asked.sender, asked.receiver) == (message.receiver, message.sender)
            assert asked.arrived != tr.LOST
            assert asked.arrived <= message.sent
            assert asked.name == message.name
    clients = {m.sender for m in trace.messages if m.sender[0] == "c"}
    assert clients >= {"c0", "c1", "c2"}, "clients have lanes of their own"


def started() -> tuple[SimulatedCluster, Tracing]:
    """Three brokers that know each other, with a topic."""
    scheduler = Scheduler()
    cluster = SimulatedCluster(config(**CLEAN), scheduler)
    tracing = Tracing(cluster)
    assert scheduler.run(scheduler.spawn(cluster.start()), limit=60_000_000)
    made = scheduler.spawn(cluster.create_topic("queue", 3, 3, {}))
    assert scheduler.run(made, limit=120_000_000)
    return cluster, tracing


@pytest.mark.sampled(42)
def test_messages_of_a_process_that_dies_never_arrive() -> None:
    cluster, tracing = started()
    scheduler = cluster.scheduler
    before = len(tracing.trace().messages)
    assert all(m.arrived != tr.LOST for m in tracing.trace().messages if m.sent < scheduler.ns - 10**6)
    node = cluster.sim[2]
    while not any(
        "n2" in (m.sender, m.receiver) and m.arrived == tr.LOST for m in tracing.trace().messages[before:]
    ):
        scheduler.run(scheduler.sleep(100))  # until something is on its way
    at = scheduler.ns
    node.kill()
    scheduler.run(limit=scheduler.now + 200_000)
    told = tracing.trace()
    lost = [m for m in told.messages if m.arrived == tr.LOST and m.sent <= at]
    assert lost
    assert all("n2" in (m.sender, m.receiver) for m in lost)
    assert all(m.arrived <= at for m in told.messages if m.receiver == "n2")
    downs = [s for s in told.states if isinstance(s, tr.TracedNode) and s.state == tr.DOWN]
    assert [(s.node, s.ns) for s in downs] == [(2, at)]


def test_a_message_that_a_cut_holds_arrives_late() -> None:
    cluster, tracing = started()
    scheduler = cluster.scheduler
    cuts = [Cut(node=2, peer=peer, direction=way) for peer in (1, 3) for way in Direction]
    cluster.network.cut(cuts)
    scheduler.run(limit=scheduler.now + 1_000_000)
    cut_at = scheduler.ns
    held = [
        n
        for n, m in enumerate(tracing.trace().messages)
        if m.arrived == tr.LOST and "n2" in (m.sender, m.receiver)
    ]
    assert held
    cluster.network.mend(cuts)
    scheduler.run(limit=scheduler.now + 2_000_000)
    messages = tracing.trace().messages
    assert any(messages[n].arrived > cut_at for n in held)


def test_processes_are_told_as_they_are() -> None:
    cluster, tracing = started()
    node = cluster.sim[3]
    node.pause()
    node.resume()
    node.kill()
    node.start()
    told = [s for s in tracing.trace().states if isinstance(s, tr.TracedNode) and s.node == 3]
    assert [s.state for s in told][-4:] == [tr.PAUSED, tr.UP, tr.DOWN, tr.UP]
    assert sum(s.controls for n in (1, 2, 3) for s in _last(tracing, n)) == 1


def _last(tracing: Tracing, node: int) -> list[tr.TracedNode]:
    told = [s for s in tracing.trace().states if isinstance(s, tr.TracedNode) and s.node == node]
    return told[-1:]


def test_the_newest_states_are_those_of_the_nodes(done: Simulated, trace: tr.Trace) -> None:
    newest = {(s.node, s.partition): s for s in trace.states if isinstance(s, tr.TracedReplica)}
    seen = 0
    for node in done.cluster.sim.values():
        assert node.broker is not None
        for (topic, number), replica in node.broker.node.replicas.items():
            told = newest[node.me, f"{topic}-{number}"]
            high = replica.high_watermark
            assert (told.end, told.high, told.stable) == (replica.log.end, high, replica.log.stable(high))
            assert (told.leader, told.epoch, told.isr) == (
                replica.state.leader,
                replica.state.leader_epoch,
                replica.state.isr,
            )
            assert (told.role == tr.LEADER) == replica.leads
            seen += 1
    assert seen == len(newest)


def test_what_is_appended_was_caused_by_what_brought_it(trace: tr.Trace) -> None:
    last: dict[tuple[int, str], tr.TracedReplica] = {}
    causes: Counter[tuple[str, str, bool]] = Counter()
    for state in trace.states:
        if not isinstance(state, tr.TracedReplica) or state.partition != "queue-0":
            continue
        before = last.get((state.node, state.partition))
        last[state.node, state.partition] = state
        if before and state.end > before.end:
            message = trace.messages[state.cause]
            assert state.cause >= 0
            assert message.receiver == tr.node_lane(state.node)
            assert message.arrived <= state.ns
            causes[state.role, message.name, message.answers >= 0] += 1
    assert set(causes) == {(tr.LEADER, "Produce", False), (tr.FOLLOWER, "Fetch", True)}
    cut = [
        s
        for s in trace.states
        if isinstance(s, tr.TracedReplica) and trace.messages[s.cause].name == "OffsetForLeaderEpoch"
    ]
    assert cut, "followers cut their logs when the leader has told where"


@pytest.mark.sampled(5)
def test_transactions_and_groups_are_told() -> None:
    made = config(**CLEAN | {"workload": "copier", "nemesis": "kill:one@txn-coordinator"})
    trace = simulate(made, trace=True).trace
    assert trace is not None
    states = [s.state for s in trace.states if isinstance(s, tr.TracedTransaction)]
    assert {"Empty", "Ongoing", "CompleteCommit"} <= set(states)
    groups = [s for s in trace.states if isinstance(s, tr.TracedGroup)]
    assert any(s.state == "Stable" and s.members for s in groups)
    subjects = {name.split(":")[0] for m in trace.messages for name in m.parts if ":" in name}
    assert subjects == {"txn", "group"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_messages_do_not_change_after_they_were_sent(workload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told in words at the end of the run: it must be the same as when they were sent."""
    then: list[str] = []

    class Told(Message):
        def __post_init__(self) -> None:
            then.append(repr(self.content))

    monkeypatch.setattr(network, "Message", Told)
    now: list[str] = []
    of = Summaries.of

    def summed(self: Summaries, sender: str, receiver: str, content: Any, request: Any) -> Any:
        now.append(repr(content))
        return of(self, sender, receiver, content, request)

    monkeypatch.setattr(Summaries, "of", summed)
    simulate(config(**CLEAN | {"workload": workload, "duration_s": 3}), trace=True)
    assert len(then) > 1000
    assert then == now


def test_a_trace_survives_its_file(trace: tr.Trace) -> None:
    assert tr.decode(tr.encode(trace)) == trace


def test_a_damaged_trace_is_refused(trace: tr.Trace) -> None:
    data = tr.encode(trace).splitlines()
    for damaged, why in (
        (b"", "cut off"),
        (b"\n".join([*data[1:], b""]), "does not begin"),
        (b"\n".join([data[0], data[1][:-3], b""]), "line 2"),
        (b"\n".join([data[0], data[1][:-3]]), "cut off"),
        (b'["trace",99,[1],[1]]\n', "version 99"),
    ):
        with pytest.raises(HistoryError, match=why):
            tr.decode(damaged)


def test_a_fetch_tells_only_what_is_new() -> None:
    from model.protocol.messages import Fetch, FetchPartition

    summaries = Summaries()
    request = Fetch(2, {("q", 0): FetchPartition(5, 1), ("q", 1): FetchPartition(0, 0)})
    first, _ = summaries.of("n2", "n1", request, request)
    assert first == {"q-0": "from 5, epoch 1", "q-1": "from 0, epoch 0"}
    assert summaries.of("n2", "n1", copy.deepcopy(request), request)[0] == {}
    assert summaries.of("n3", "n1", request, request)[0] == first
    moved = Fetch(2, {("q", 0): FetchPartition(6, 1), ("q", 1): FetchPartition(0, 0)})
    assert summaries.of("n2", "n1", moved, moved)[0] == {"q-0": "from 6, epoch 1"}
