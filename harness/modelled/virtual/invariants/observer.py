"""Safety invariants of a simulated cluster, looked at after every event of a node.

    watched = Invariants(cluster)      # before the cluster starts
    watched.broken                     # what did not hold, in the order of time
    watched.weak                       # what did not hold because of a known weakness (`weaknesses`)

log-matching          Below the high watermarks of two replicas their logs hold the same batches. (KIP-101)
leader-completeness   A leader elected cleanly holds every record that was exposed. (KIP-101, KIP-966)
high-watermark-falls  The high watermark of a leader falls not within its epoch and incarnation. (KIP-207)
one-leader            An epoch of a partition has one leader, and rises with every change of it. (KIP-101)
one-quorum-leader     An epoch of the metadata quorum has one leader. (KIP-595; Raft, 5.2)
quorum-logs           Metadata logs agree as far as they are committed, and every new leader of the quorum
                      holds all that is. (KIP-595; Raft, 5.4)
producer-state        What a replica knows of producers is what its log says. (KIP-98, KIP-360)
transaction-states    States, producer ids and epochs of a transactional id follow each other legally in the
                      transaction log. (KIP-98, KIP-360, KIP-890)
batches               The model's leader would have appended each committed batch of a producer in the state
                      that the log before makes: sequences, producer epochs. (KIP-98, KIP-360)
markers               A committed marker was decided before, in what is committed of the transaction log or
                      in what its coordinator has read; producer epochs and coordinator epochs of a producer
                      id do not fall in a partition. (KIP-98, KIP-890)
decisions-agree       A transaction is not committed in one partition and aborted in another. (KIP-98)
own-marker            A transaction that is open in a partition ends there by its own marker. (KIP-890)
offsets-in-order      Last stable offset ≤ high watermark ≤ log end. (KIP-98)
stable-offset-falls   The last stable offset of a leader falls not within its epoch and incarnation.
                      (KIP-98)
in-sync-set           In-sync replicas are replicas, and the leader is one of them. (KIP-497)
clean-election        Who is elected was in sync or eligible, unless unclean elections are allowed. (KIP-966)

decisions-agree and own-marker need clients of transaction version 2 and 4.2 or later: only there each
transaction has an epoch of its own, by which its records and its marker are known.

Exposed is what lies below the high watermark of a leader of the newest epoch that the metadata quorum
has committed (with ZooKeeper: that any replica has heard of). An unclean election takes of it what the new
leader does not have: that is the loss which it is allowed. So does a leader whose node lost power with
records that were not flushed, where it is the last known one (KIP-966), or before there were eligible
replicas; a last known leader that lost nothing has to hold everything.

Nothing here changes the run: the nodes are only read. Each event costs a look at the few numbers of each
replica of its node; work is done where they changed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from core.internal_topics import TRANSACTION_TOPIC
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.invariants.partition import Guarded, Watched
from harness.modelled.virtual.invariants.transactions import Decisions
from harness.modelled.virtual.invariants.weaknesses import START_FELL, Marker, Mechanisms, Weakness
from harness.modelled.virtual.nodes import SimNode
from model.broker import Broker
from model.kraft.kafka_raft_client import LEADER, KafkaRaftClient
from model.kraft.kraft_metadata import KRaftMetadata
from model.log.unified_log import RecordBatch
from model.metadata.image import PartitionRecord, RemoveTopicRecord
from model.protocol.messages import Partition
from model.replication.replica import Replica

MOST: Final = 20
"""Breaks that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """An invariant that did not hold. `time_us`: virtual time. `name`: see the module."""

    time_us: int
    name: str
    text: str


@dataclass(slots=True)
class _View:
    """A node as it was after its last event. `quorum`: its part of the metadata quorum, None = there is none
    in this era. `committed`: metadata that were compared; `led`: the quorum epoch in which it was seen to
    lead. replicas: of the node; looks: `watched` in the same order, with what each look needs. `cut`:
    partitions whose records it lost with the power. loaded: coordinator epochs of the transaction log that it
    had loaded; lines: of its log; fell: start offsets of share partitions that it set back."""

    incarnation: int = 0
    quorum: KafkaRaftClient | None = None
    committed: int = 0
    led: int = -1
    watched: dict[Partition, Watched] = field(default_factory=dict)
    replicas: list[Replica] = field(default_factory=list)
    looks: list[tuple[Replica, list[RecordBatch], Watched]] = field(default_factory=list)
    cut: set[Partition] = field(default_factory=set)
    loaded: dict[int, int] = field(default_factory=dict)
    lines: int = 0
    fell: int = 0


class Invariants:
    """See the module. `broken`: the first of each name and partition, at most 20. `weak`: all."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.broken: list[Broken] = []
        self.weak: list[Weakness] = []
        self._settings = cluster.settings
        self._scheduler = cluster.scheduler
        self._told: set[tuple[str, object]] = set()
        self._views = {me: _View() for me in cluster.sim}
        self._committed: list[tuple[int, object]] = []
        self._quorum_leaders: dict[int, int] = {}
        self._partitions: dict[tuple[Partition, int], Guarded] = {}
        self._topic_ids: dict[str, int] = {}
        self._mechanisms = Mechanisms(cluster.settings.era)
        self._decisions = Decisions(cluster.settings, self._report, self._blame, self._mechanisms)
        for node in cluster.sim.values():
            node.after = self._after

    def _report(self, name: str, where: object, text: Callable[[], str]) -> None:
        if len(self.broken) < MOST and (name, where) not in self._told:
            self._told.add((name, where))
            self.broken.append(Broken(time_us=self._scheduler.now, name=name, text=text()))

    def _blame(
        self,
        invariant: str,
        weakness: str,
        producer_id: int,
        ended: Mapping[Partition, bool],
        text: Callable[[], str],
    ) -> None:
        if not weakness:
            self._report(invariant, (producer_id, *ended), text)
            return
        self.weak.append(
            Weakness(
                time_us=self._scheduler.now,
                name=weakness,
                text=f"{invariant}: {text()}",
                transactional_id=self._mechanisms.ids[producer_id],
                tps=frozenset(ended),
            )
        )

    @property
    def left_out(self) -> Collection[Marker]:
        """Markers that coordinators left out."""
        return self._mechanisms.left_out

    def explained(self, tp: Partition, producer_id: int, epoch: int) -> bool:
        """Whether a transaction that is open at the end of the run is so by a known weakness."""
        name = self._mechanisms.unmarked(tp, producer_id, epoch)
        if name:
            self._decisions.no_marker(tp, producer_id, epoch, "is open at the end")
        return bool(name)

    def _after(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        view = self._views[node.me]
        if node.incarnation != view.incarnation:
            self._started(view, node, broker)
        server_log = node.durable.server_log
        if len(server_log) > view.lines:
            self._mechanisms.log_lines(server_log[view.lines :])
            view.lines = len(server_log)
        if broker.coordinators.transactions.log.epochs != view.loaded:
            self._coordinates(view, broker)
        if len(broker.share_groups.state.fell) > view.fell:
            self._fell(view, broker)
        quorum = view.quorum
        if quorum is not None:
            if quorum.high_watermark > view.committed:
                self._commit(view, node.me, quorum)
            if quorum.role == LEADER and quorum.epoch != view.led:
                self._leads_quorum(view, node.me, quorum)
        replicas = broker.node.replicas
        if [*replicas.values()] != view.replicas:
            self._watch(view, node.me, replicas)
        for replica, batches, seen in view.looks:
            if (
                replica.high_watermark != seen.high
                or replica.state is not seen.state
                or (batches[-1] if batches else None) is not seen.tail
            ):
                seen.guarded.changed(seen, view.cut)

    def _fell(self, view: _View, broker: Broker) -> None:
        """A share coordinator has set start offsets back."""
        for ms, (group, tp) in broker.share_groups.state.fell[view.fell :]:
            self.weak.append(
                Weakness(
                    time_us=ms * 1000,
                    name=START_FELL,
                    text=f"the start offset of {tp[0]}-{tp[1]} in {group} fell",
                    transactional_id="",
                    tps=frozenset([tp]),
                )
            )
        view.fell = len(broker.share_groups.state.fell)

    # ---- nodes

    def _watch(self, view: _View, me: int, replicas: Mapping[Partition, Replica]) -> None:
        """The node has other replicas than before."""
        told = view.quorum is None
        for tp, replica in replicas.items():
            seen = view.watched.get(tp)
            if seen is None or seen.replica is not replica:
                guarded = self._of(tp, replica.topic_id)
                view.watched[tp] = Watched(tp=tp, node=me, replica=replica, guarded=guarded, told=told)
        view.replicas = [*replicas.values()]
        view.looks = [(seen.replica, seen.batches, seen) for seen in map(view.watched.__getitem__, replicas)]

    def _started(self, view: _View, node: SimNode, broker: Broker) -> None:
        """A new process: its logs are looked at from the beginning."""
        logs = broker.durable.logs
        for seen in view.watched.values():
            log = logs.get(seen.tp)
            if log is not None and log.end < seen.end:
                view.cut.add(seen.tp)
        metadata = broker.metadata
        view.quorum = metadata.quorum if isinstance(metadata, KRaftMetadata) else None
        view.incarnation, view.committed, view.led = node.incarnation, 0, -1
        view.watched.clear()
        view.replicas, view.looks = [], []
        view.loaded = {}
        view.fell = 0

    def _coordinates(self, view: _View, broker: Broker) -> None:
        """It has loaded partitions of the transaction log, or coordinates some no more."""
        epochs = broker.coordinators.transactions.log.epochs
        for number, epoch in epochs.items():
            tp = (TRANSACTION_TOPIC, number)
            replica = broker.node.leader_of(tp)
            if view.loaded.get(number) != epoch and replica is not None:
                self._decisions.loaded(tp, replica.log, replica.high_watermark)
        view.loaded = dict(epochs)

    def _of(self, tp: Partition, topic_id: int) -> Guarded:
        found = self._partitions.get((tp, topic_id))
        if found is None:
            committed = self._decisions.of(tp, log=tp[0] == TRANSACTION_TOPIC)
            found = self._partitions[tp, topic_id] = Guarded(
                tp=tp, settings=self._settings, report=self._report, decisions=committed
            )
        return found

    # ---- the metadata quorum

    def _commit(self, view: _View, node: int, quorum: KafkaRaftClient) -> None:
        """Metadata that this node takes for committed."""
        committed, entries = self._committed, quorum.entries
        for offset in range(view.committed, min(quorum.high_watermark, len(entries))):
            entry = entries[offset]
            if offset < len(committed):
                if committed[offset] != entry:
                    self._differs(node, offset, entry, committed[offset])
                    break
                continue
            committed.append(entry)
            change = entry[1]
            if isinstance(change, PartitionRecord):
                number = self._topic_ids.setdefault(change.partition[0], 0)
                self._of(change.partition, number).decided(change.state)
            elif isinstance(change, RemoveTopicRecord):
                self._topic_ids[change.topic] += 1
        view.committed = quorum.high_watermark

    def _differs(self, node: int, offset: int, mine: object, committed: object) -> None:
        self._report(
            "quorum-logs",
            "",
            lambda: (
                f"node {node} has {mine} at offset {offset} of the metadata log, "
                f"where {committed} is committed"
            ),
        )

    def _leads_quorum(self, view: _View, me: int, quorum: KafkaRaftClient) -> None:
        epoch = quorum.epoch
        view.led = epoch
        other = self._quorum_leaders.setdefault(epoch, me)
        if other != me:
            self._report("one-quorum-leader", epoch, lambda: f"nodes {other} and {me} lead epoch {epoch}")
        committed, entries = self._committed, quorum.entries
        if entries[: len(committed)] == committed:
            return
        for offset, entry in enumerate(committed):
            mine = entries[offset] if offset < len(entries) else None
            if mine != entry:
                self._differs(me, offset, mine, entry)
                return
