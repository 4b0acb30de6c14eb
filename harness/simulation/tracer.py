"""Fills the trace of a simulated run: it looks on, and changes nothing.

    tracing = Tracing(cluster)     # before the cluster starts, after every other observer of its nodes
    tracing.trace()                # when the run has ended: `history.trace.Trace`

Every message is kept as it is and put into words at the end (`message_text`): messages of the model never
change. After each event of a node its state is compared with the one before, and kept where it differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.simulation.cluster import SimulatedCluster
from harness.simulation.message_text import Summaries, name_of, partition
from harness.simulation.network import CLIENTS, Connection, Network
from harness.simulation.nodes import SimNode
from harness.simulation.scheduler import Scheduler
from history import trace as tr
from model.broker import Broker
from model.protocol.messages import Partition, PartitionState
from model.replication.replica import Replica


@dataclass(slots=True)
class _Sent:
    """A message as it was sent; see `history.trace.TracedMessage`."""

    sent: int
    sender: str
    receiver: str
    content: Any
    answers: int
    arrived: int = tr.LOST


class _Numbered(NamedTuple):
    """Takes the answer to the request with this number."""

    number: int
    answered: Callable[[Any], None]

    def __call__(self, answer: Any) -> None:
        self.answered(answer)


@dataclass(slots=True)
class _Watched:
    """A replica as it was last traced."""

    name: str
    replica: Replica
    end: int = -1
    high: int = -1
    state: PartitionState | None = None


@dataclass(slots=True)
class _Told:
    """A node as it was last traced. `watched`: of the process `broker` with metadata up to `image`."""

    process: tuple[str, bool, int, bool] | None = None
    broker: Broker | None = None
    image: int = -1
    watched: list[_Watched] = field(default_factory=list)
    transactions: dict[str, tuple[object, object]] = field(default_factory=dict)
    groups: dict[str, tuple[str, int, int]] = field(default_factory=dict)


class Tracing:
    """See the module. Is a `network.Tracer`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._scheduler: Scheduler = cluster.scheduler
        self._network: Network = cluster.network
        self._cluster = cluster
        self._messages: list[_Sent] = []
        self._states: list[tr.TracedState] = []
        self._views = {me: _Told() for me in cluster.sim}
        self._network.tracer = self
        for node in cluster.sim.values():
            node.after = self._then(node.after)
            node.lived = self._process

    def _then(self, before: Callable[[SimNode], None]) -> Callable[[SimNode], None]:
        def after(node: SimNode) -> None:
            before(node)
            self._after(node)

        return after

    def trace(self) -> tr.Trace:
        """Everything so far."""
        last = self._cluster.config.brokers
        voters = tuple(n for n in self._cluster.nodes if n > last) or self._cluster.brokers
        summaries = Summaries()
        return tr.Trace(
            header=tr.TraceHeader(tr.VERSION, self._cluster.brokers, voters),
            messages=[self._told(message, summaries) for message in self._messages],
            states=list(self._states),
        )

    def _told(self, sent: _Sent, summaries: Summaries) -> tr.TracedMessage:
        asked = sent if sent.answers < 0 else self._messages[sent.answers]
        parts, text = summaries.of(sent.sender, sent.receiver, sent.content, asked.content)
        return tr.TracedMessage(
            sent.sent,
            sent.arrived,
            sent.sender,
            sent.receiver,
            name_of(asked.content),
            sent.answers,
            parts,
            text,
        )

    # ---- messages

    def asked(
        self, connection: Connection, deliver: Callable[..., None], arguments: tuple[Any, ...]
    ) -> Callable[[], None]:
        """See `network.Tracer`."""
        same, correlation, request, answered = arguments
        server = tr.node_lane(connection.server)
        number = len(self._messages)
        sent = _Sent(self._scheduler.ns, _client(connection), server, request, -1)
        self._messages.append(sent)

        def arrive() -> None:
            sent.arrived = self._scheduler.ns
            deliver(same, correlation, request, _Numbered(number, answered))

        return arrive

    def answered(
        self, connection: Connection, deliver: Callable[..., None], answer: Any
    ) -> Callable[[], None]:
        """See `network.Tracer`."""
        number = len(self._messages)
        server = tr.node_lane(connection.server)
        asked = getattr(deliver, "number", -1)
        sent = _Sent(self._scheduler.ns, server, _client(connection), answer, asked)
        self._messages.append(sent)

        def arrive() -> None:
            sent.arrived = self._scheduler.ns
            self._network.arriving = number
            try:
                deliver(answer)
            finally:
                self._network.arriving = -1

        return arrive

    # ---- states

    def _after(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        view = self._views[node.me]
        self._process(node)
        image, replicas = broker.node.image, broker.node.replicas
        if image.offset != view.image or len(replicas) != len(view.watched) or broker is not view.broker:
            self._watch(view, broker)
        for seen in view.watched:
            replica = seen.replica
            if (
                replica.log.end != seen.end
                or replica.high_watermark != seen.high
                or replica.state is not seen.state
            ):
                self._replica(node, seen)
        coordinating = broker.coordinators
        for known in coordinating.transactions.log.known.values():
            for tid, transaction in known.items():
                now = (transaction.record, transaction.pending)
                if view.transactions.get(tid) != now:
                    view.transactions[tid] = now
                    self._transaction(node, tid, transaction.record, transaction.pending)
        for loaded in coordinating.group_log.loaded.values():
            for name, group in loaded.groups.items():
                told = (group.state.value, group.generation, len(group.members))
                if view.groups.get(name) != told:
                    view.groups[name] = told
                    self._states.append(tr.TracedGroup(self._scheduler.ns, node.me, name, *told, node.cause))

    def _watch(self, view: _Told, broker: Broker) -> None:
        """Metadata changed: so may have the replicas that this node has."""
        known = {seen.name: seen for seen in view.watched}
        view.broker, view.image = broker, broker.node.image.offset
        view.watched = []
        for tp, replica in broker.node.replicas.items():
            name = partition(tp)
            seen = known.get(name) or _Watched(name, replica)
            if seen.replica is not replica:
                seen.replica, seen.state = replica, None
            view.watched.append(seen)

    def _process(self, node: SimNode) -> None:
        """The process of a node, where something is new of it."""
        broker, view = node.broker, self._views[node.me]
        if broker is None:
            now, cause = (tr.DOWN, False, -1, True), -1
            view.transactions.clear()
            view.groups.clear()
        else:
            metadata = broker.metadata
            state = tr.PAUSED if node.paused else tr.UP
            now = (state, metadata.controls, metadata.controller_id, metadata.fenced)
            cause = node.cause
        if now != view.process:
            view.process = now
            self._states.append(tr.TracedNode(self._scheduler.ns, node.me, *now, cause))

    def _replica(self, node: SimNode, seen: _Watched) -> None:
        replica = seen.replica
        high, state = replica.high_watermark, replica.state
        seen.end, seen.high, seen.state = replica.log.end, high, state
        role = tr.LEADER if replica.leads else tr.FOLLOWER if state.leader >= 0 else tr.IDLE
        self._states.append(
            tr.TracedReplica(
                self._scheduler.ns,
                node.me,
                seen.name,
                seen.end,
                high,
                replica.log.stable(high),
                role,
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                node.cause,
            )
        )

    def _transaction(self, node: SimNode, tid: str, record: Any, pending: Any) -> None:
        self._states.append(
            tr.TracedTransaction(
                self._scheduler.ns,
                node.me,
                tid,
                record.state.value,
                pending.value if pending else "",
                record.producer_id,
                record.epoch,
                _names(record.partitions),
                node.cause,
            )
        )


def _client(connection: Connection) -> str:
    if connection.client == CLIENTS:
        return tr.client_lane(connection.process)
    return tr.node_lane(connection.client)


def _names(tps: tuple[Partition, ...]) -> tuple[str, ...]:
    return tuple(partition(tp) for tp in tps)
