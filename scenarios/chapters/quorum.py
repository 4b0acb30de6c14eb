"""The metadata quorum.

In KRaft the controllers are a quorum: a log that a majority has is the truth, and its
leader is the controller. Brokers follow the same log. (Records in brackets: what a leader writes first,
with its epoch. Where a table does not say so, a node stands for election without asking first, as before
4.0.)"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Self

from model.kraft.kafka_raft_client import KafkaRaftClient
from model.protocol.controller_messages import BeginQuorumEpoch, BrokerHeartbeat, QuorumFetch, Vote
from model.settings import Settings
from scenarios.drivers.cluster import CONTROLLER_NODE
from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import Steps, look, scenario

UNASKED: Final = without("pre_vote")
"""A node stands for election without asking first."""


class QuorumStage:
    """Three voters, driven by hand. What they send lies in their `out` until a step delivers it."""

    not_played: ClassVar[str] = "it is about the controllers' quorum, and here is one controller"

    def __init__(self, settings: Settings = UNASKED) -> None:
        self.now = 0
        self.nodes = {n: KafkaRaftClient(n, (1, 2, 3), settings, lambda low, _: low) for n in (1, 2, 3)}
        self.down: set[int] = set()
        for node in self.nodes.values():
            node.start(0)

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(QUORUM_COLUMNS, self, column)

    def stand(self, n: int) -> Self:
        """Node n heard of no leader for its time-out: it stands for election, or asks who would vote."""
        self.now = max(self.now, self.nodes[n].due)
        self.nodes[n].tick(self.now)
        return self

    def votes(self, voter: int, *, of: int) -> Self:
        """A candidate's request reaches a voter, and the answer the candidate."""
        request = self._take(of, Vote, voter)
        answer = self.nodes[voter].vote(request, self.now)
        self.nodes[of].voted_by(voter, answer, self.now)
        return self

    def announce(self, n: int, *, to: int) -> Self:
        """A new leader tells a voter of itself."""
        self.nodes[to].begin(self._take(n, BeginQuorumEpoch, to), self.now)
        return self

    def write(self, n: int, *records: str) -> Self:
        """The leader appends."""
        self.nodes[n].append(records)
        return self

    def fetch(self, n: int, *, at: int) -> Self:
        """A voter's fetch reaches the leader, and the answer the voter."""
        request = self._take(n, QuorumFetch, at)
        node = self.nodes[at]
        answer = node.serve(request, self.now) or node.held(request)
        self.nodes[n].fetched(at, answer, self.now)
        return self

    def crash(self, n: int) -> Self:
        """Its log and its vote survive."""
        self.down.add(n)
        self.nodes[n].out.clear()
        return self

    def restart(self, n: int) -> Self:
        """It comes up as a follower that knows no leader."""
        self.down.discard(n)
        self.nodes[n].start(self.now)
        return self

    def _take(self, n: int, kind: type, to: int) -> Any:
        out = self.nodes[n].out
        found = [entry for entry in out if entry[0] == to and isinstance(entry[1], kind)]
        out[:] = [entry for entry in out if entry not in found]
        return found[-1][1]


def _of(show: Callable[[KafkaRaftClient], object]) -> Callable[[QuorumStage, str], object]:
    """Of the node that the column names."""
    return lambda s, n: "down" if int(n) in s.down else show(s.nodes[int(n)])


QUORUM_COLUMNS: Mapping[str, Callable[[QuorumStage, str], object]] = {
    r"node (\d)": _of(lambda node: f"{node.role}, epoch {node.epoch}"),
    # Each leader's own first record is shown as its epoch in brackets.
    r"log (\d)": _of(lambda node: [f"[{e}]" if r is None else r for e, r in node.entries]),
    r"(?:committed, )?as (\d) knows": _of(lambda node: node.high_watermark),
}


def _elected(s: QuorumStage) -> QuorumStage:
    return s.stand(1).votes(2, of=1).announce(1, to=2).announce(1, to=3)


@scenario(
    "A leader is elected, a record is committed",
    source="KIP-595; Ongaro and Ousterhout, *In Search of an Understandable Consensus Algorithm*",
    stage=QuorumStage,
    columns="node 1 | node 2 | node 3 | log 1 | log 2 | committed = as 1 knows",
)
def quorum_election(s: QuorumStage) -> Steps:
    """As in Raft, except that voters fetch, as Kafka's followers do: the leader learns
    from the next fetch what a voter has."""
    yield "No node leads. | follower, epoch 0 | follower, epoch 0 | follower, epoch 0 | – | – | 0"
    s.stand(1)
    yield """Node 1 hears of no leader for a while: it stands for epoch 1, and votes for itself.
        | candidate, epoch 1 | follower, epoch 0 | follower, epoch 0 | – | – | 0"""
    s.votes(2, of=1)
    yield """Node 2 votes for it: two of three. It leads, and writes a record of its own epoch.
        | leader, epoch 1 | follower, epoch 1 | follower, epoch 0 | [1] | – | 0"""
    s.announce(1, to=2).announce(1, to=3).fetch(2, at=1)
    yield """It tells the others. Node 2 fetches from 0 and gets the record.
        | leader, epoch 1 | follower, epoch 1 | follower, epoch 1 | [1] | [1] | 0"""
    s.write(1, "a").fetch(2, at=1)
    yield """It writes a; node 2 fetches from 1: the first record is on two of three, and committed.
        | leader, epoch 1 | follower, epoch 1 | follower, epoch 1 | [1] a | [1] a | 1"""
    s.fetch(2, at=1)
    yield """Node 2 fetches from 2: a is committed. Node 3 is not waited for.
        | leader, epoch 1 | follower, epoch 1 | follower, epoch 1 | [1] a | [1] a | 2"""


@scenario(
    "A leader dies and comes back",
    source="KIP-595; Raft, 5.4.1 and 5.4.2",
    stage=QuorumStage,
    columns="node 1 | log 1 | log 2 | log 3 | committed, as 1 knows | as 2 knows",
)
def quorum_succession(s: QuorumStage) -> Steps:
    """Who lacks a committed record finds no majority. What an old leader has alone is cut
    off."""
    _elected(s).write(1, "a").fetch(2, at=1).fetch(2, at=1).write(1, "b")
    yield """a is committed by nodes 1 and 2; b is on node 1 only; node 3 has nothing.
        | leader, epoch 1 | [1] a b | [1] a | – | 2 | 2"""
    s.crash(1).stand(3).votes(2, of=3)
    yield """Node 1 dies. Node 3 stands for epoch 2; node 2 refuses, as its own log goes further.
        | down | down | [1] a | – | down | 2"""
    s.stand(2).votes(3, of=2).announce(2, to=3)
    yield """Node 2 stands for epoch 3 and gets node 3's vote: the committed a cannot get lost.
        | down | down | [1] a [3] | – | down | 2"""
    s.fetch(3, at=2).fetch(3, at=2)
    yield """Node 3 fetches. Once a record of its own epoch is on two of three, node 2 knows that all before
        it is committed.
        | down | down | [1] a [3] | [1] a [3] | down | 3"""
    s.restart(1)
    yield "Node 1 comes back, with b. | follower, epoch 1 | [1] a b | [1] a [3] | [1] a [3] | 0 | 3"
    s.fetch(1, at=3).fetch(1, at=2)
    yield """It asks any voter, and so learns of the leader. There it says that it ends at 3 with epoch 1; the
        leader's epoch 1 ends at 2: it cuts b off.
        | follower, epoch 3 | [1] a | [1] a [3] | [1] a [3] | 0 | 3"""
    s.fetch(1, at=2)
    yield "It fetches on. | follower, epoch 3 | [1] a [3] | [1] a [3] | [1] a [3] | 3 | 3"


@scenario(
    "Who was cut off asks before it stands",
    source="KIP-996",
    stage=lambda: QuorumStage(Settings()),
    columns="node 1 | node 2 | node 3",
)
def quorum_pre_vote(s: QuorumStage) -> Steps:
    """A node that hears of no leader asks, in the epoch that it knows, who would vote for it, and
    stands when a majority would. Who fetches from a leader would not. Before 4.0 it stood for a later epoch
    with each time-out, and deposed the leader when it came back."""
    s.stand(1).votes(2, of=1)
    yield """Node 1 hears of no leader, and asks. Node 2 would vote for it: it stands for epoch 1.
        | candidate, epoch 1 | follower, epoch 0 | follower, epoch 0"""
    s.votes(2, of=1).announce(1, to=2).announce(1, to=3).fetch(2, at=1).fetch(3, at=1)
    yield """Node 2 votes for it. It leads, and both others fetch from it.
        | leader, epoch 1 | follower, epoch 1 | follower, epoch 1"""
    s.stand(3)
    yield """Node 3 is cut off: it hears nothing more for its time-out, and asks.
        | leader, epoch 1 | follower, epoch 1 | prospective, epoch 1"""
    s.votes(1, of=3).votes(2, of=3)
    yield """Its questions arrive. The leader refuses, and so does node 2, which follows it. Node 3 follows.
        | leader, epoch 1 | follower, epoch 1 | follower, epoch 1"""
    s.crash(1).stand(2).votes(3, of=2)
    yield """Node 1 dies. Node 2 asks; node 3, which has not fetched since, would vote for it: it stands for
        epoch 2. | down | candidate, epoch 2 | follower, epoch 1"""
    s.votes(3, of=2).announce(2, to=3)
    yield "Node 3 votes for it: it leads. | down | leader, epoch 2 | follower, epoch 2"


class QuorumBesideReplicas:
    """A quorum of three, and a partition with two replicas: each bears one failure."""

    not_played: ClassVar[str] = QuorumStage.not_played

    def __init__(self) -> None:
        self.quorum = _elected(QuorumStage())
        self.isr = PartitionStage((1, 2), without("eligible_replicas", min_isr=1))

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(SIDES, self, column)


SIDES: Mapping[str, Callable[[QuorumBesideReplicas, str], object]] = {
    "quorum: log ends": lambda s, _: [
        "down" if n in s.quorum.down else q.end for n, q in s.quorum.nodes.items()
    ],
    "committed": lambda s, _: s.quorum.nodes[1].high_watermark,
    "ISR: (LEO 1)|(LEO 2|ISR)": lambda s, column: s.isr.look(column),
    "HW": lambda s, _: s.isr.look("HW 1"),
}


@scenario(
    "Quorum and in-sync set side by side",
    source="Kafka documentation, *Replicated logs: quorums, ISRs, and state machines*",
    stage=QuorumBesideReplicas,
    columns="quorum: log ends | committed | ISR: LEO 1 | LEO 2 | ISR | HW",
)
def quorum_and_isr(s: QuorumBesideReplicas) -> Steps:
    """To bear f failures a quorum needs 2f + 1 copies, an in-sync set f + 1: with f = 1
    three and two. The quorum does not wait for the slowest; the ISR does, until it takes it out. But the
    ISR needs a controller that says who is in it: that is what the quorum is for."""
    quorum, partition = s.quorum, s.isr
    quorum.write(1, "a")
    for n in (2, 3):
        quorum.fetch(n, at=1).fetch(n, at=1)
    partition.produce("a", "b", to=1).settle()
    yield "Two records, everywhere. | 2 2 2 | 2 | 2 | 2 | 1 2 | 2"
    quorum.write(1, "b").fetch(2, at=1).fetch(2, at=1)
    partition.wait(3000).produce("c", to=1)
    yield """Node 3 and broker 2 are slow. The quorum commits by the two fastest; the ISR waits for all.
        | 3 3 2 | 3 | 3 | 2 | 1 2 | 2"""
    partition.wait(100).alter(1).altered(1)
    yield "replica.lag.time.max.ms later the ISR continues without broker 2. | 3 3 2 | 3 | 3 | 2 | 1 | 3"
    quorum.crash(3)
    partition.crash(2).fence(2).tell(1).produce("d", to=1)
    quorum.write(1, "c").fetch(2, at=1).fetch(2, at=1)
    yield """Now they die. Both continue: the quorum with two of three copies, the partition with one of two.
        | 4 4 down | 4 | 4 | down | 1 | 4"""
    quorum.crash(2).write(1, "d")
    partition.crash(1).fence(1)
    yield """A second failure stops both: the quorum commits nothing with one of three, the partition is
        offline.
        | 5 down down | 4 | down | down | 1 | down"""


@scenario(
    "Fencing by heartbeats, broker epochs",
    source="KIP-631",
    stage=lambda: PartitionStage(settings=without("eligible_replicas")),
    columns="broker epoch of 1 | fenced = 1 is fenced | ISR | leader | late heartbeat = controller's answer",
    not_played="no client sends a heartbeat of a broker",
)
def broker_fencing(s: PartitionStage) -> Steps:
    """A broker registers, and from then on its heartbeats carry the epoch of that
    registration. Without heartbeats for a session it is fenced."""
    yield "Broker epochs are offsets in the metadata log. | 1 | no | 1 2 3 | 1 | –"
    s.isolate(1).wait(3500)
    yield """Broker 1's heartbeats do not arrive for 3 s: it is fenced. It leads nothing and is in no ISR.
        | 1 | yes | 2 3 | 2 | –"""
    s.heal()
    yield """They arrive again, with the same broker epoch: it is unfenced, and has to get in sync.
        | 1 | no | 2 3 | 2 | –"""
    s.crash(1).fence(1).restart(1)
    yield "It dies, restarts and registers: a new broker epoch. | 12 | no | 2 3 | 2 | –"
    s.decision = s.ask(BrokerHeartbeat(1, 1, 0), to=CONTROLLER_NODE).error
    yield """A heartbeat of its former life arrives late. It says nothing of the present one.
        | 12 | no | 2 3 | 2 | STALE_BROKER_EPOCH"""
