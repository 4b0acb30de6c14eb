"""Fills the trace of a simulated run: it looks on, and changes nothing.

    tracing = Tracing(cluster)     # before the cluster starts, after every other observer of its nodes
    tracing.trace()                # when the run has ended: `history.trace.Trace`

Every message is kept as it is and put into words at the end (`message_text`): messages of the model never
change. After each event of a node its state is compared with the one before, and kept where it differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.message_text import Summaries, partition
from harness.modelled.virtual.network import CLIENTS, NEVER, Message
from harness.modelled.virtual.nodes import SimNode
from history import trace as tr
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState
from model.protocol.messages import Partition, PartitionState
from model.replication.replica import Replica


@dataclass(slots=True)
class _Told:
    """A node as it was last traced. replicas: with log end, high watermark and state."""

    process: tuple[str, bool, int, bool] | None = None
    replicas: dict[Partition, tuple[Replica, int, int, PartitionState]] = field(default_factory=dict)
    transactions: dict[str, tuple[object, object]] = field(default_factory=dict)
    groups: dict[str, tuple[str, int, int]] = field(default_factory=dict)


class Tracing:
    """See the module."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._scheduler = cluster.scheduler
        self._cluster = cluster
        self._states: list[tr.TracedState] = []
        self._told = {me: _Told() for me in cluster.sim}
        self._messages: list[Message] = []
        cluster.network.messages = self._messages
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
            messages=[_in_words(message, summaries) for message in self._messages],
            states=list(self._states),
        )

    # ---- states

    def _after(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        told = self._told[node.me]
        self._process(node)
        for tp, replica in broker.node.replicas.items():
            now = (replica, replica.log.end, replica.high_watermark, replica.state)
            before = told.replicas.get(tp)
            if (
                before is None
                or now[1:3] != before[1:3]
                or now[0] is not before[0]
                or now[3] is not before[3]
            ):
                told.replicas[tp] = now
                self._replica(node, tp, replica)
        coordinating = broker.coordinators
        for known in coordinating.transactions.log.known.values():
            for tid, transaction in known.items():
                pair = (transaction.record, transaction.pending)
                if told.transactions.get(tid) != pair:
                    told.transactions[tid] = pair
                    self._transaction(node, tid, transaction.record, transaction.pending)
        for loaded in coordinating.group_log.loaded.values():
            for name, group in loaded.groups.items():
                state = (group.state.value, group.generation, len(group.members))
                if told.groups.get(name) != state:
                    told.groups[name] = state
                    self._states.append(tr.TracedGroup(self._scheduler.ns, node.me, name, *state, node.cause))

    def _process(self, node: SimNode) -> None:
        """The process of a node, where something is new of it."""
        broker, told = node.broker, self._told[node.me]
        if broker is None:
            now, cause = (tr.DOWN, False, -1, True), -1
            told.transactions.clear()
            told.groups.clear()
        else:
            metadata = broker.metadata
            state = tr.PAUSED if node.paused else tr.UP
            now = (state, metadata.controls, metadata.controller_id, metadata.fenced)
            cause = node.cause
        if now != told.process:
            told.process = now
            self._states.append(tr.TracedNode(self._scheduler.ns, node.me, *now, cause))

    def _replica(self, node: SimNode, tp: Partition, replica: Replica) -> None:
        high, state = replica.high_watermark, replica.state
        role = tr.LEADER if replica.leads else tr.FOLLOWER if state.leader >= 0 else tr.IDLE
        self._states.append(
            tr.TracedReplica(
                self._scheduler.ns,
                node.me,
                partition(tp),
                replica.log.end,
                high,
                replica.log.stable(high),
                role,
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                node.cause,
            )
        )

    def _transaction(
        self, node: SimNode, tid: str, record: TransactionRecord, pending: TransactionState | None
    ) -> None:
        self._states.append(
            tr.TracedTransaction(
                self._scheduler.ns,
                node.me,
                tid,
                record.state.value,
                pending.value if pending else "",
                record.producer_id,
                record.epoch,
                tuple(map(partition, record.partitions)),
                node.cause,
            )
        )


def _in_words(message: Message, summaries: Summaries) -> tr.TracedMessage:
    connection, asked = message.connection, message.request or message
    sender, receiver = tr.node_lane(connection.client), tr.node_lane(connection.server)
    if connection.client == CLIENTS:
        sender = tr.client_lane(connection.process)
    if asked is not message:
        sender, receiver = receiver, sender
    parts, text = summaries.of(sender, receiver, message.content, asked.content)
    name = type(asked.content).__name__
    answers = asked.number if asked is not message else -1
    sent = BASE_NS + message.sent * 1000
    arrived = tr.LOST if message.arrived == NEVER else BASE_NS + message.arrived * 1000
    return tr.TracedMessage(sent, arrived, sender, receiver, name, answers, parts, text)
