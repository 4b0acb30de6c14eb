"""The controller of the ZooKeeper era: what it does when a watch of its fires, step by step.

One broker holds the ephemeral /controller and has counted /controller_epoch up; nothing but ZooKeeper tells
it that it is controller no more. It handles one event after the other, as Kafka's does since 1.1
(ControllerEventManager). An event is a generator: it yields the ops that it needs and continues with their
results, so that everything between two yields is one step, and what happens between two steps is seen as it
happened. A failure of a broker, for instance:

    1. its session ends, /brokers/ids/N goes, the watch on /brokers/ids fires (one notification)
    2. read /brokers/ids, and watch it again: who is gone?
    3. read the state of every partition that it led or was in sync for
    4. write each with the version that was read: the first live replica of the assignment that is in the
       in-sync set leads, the dead one is in no set, the leader epoch is one higher. Where the version moved
       (a leader changed the set meanwhile) read and decide again
    5. LeaderAndIsr to the replicas, UpdateMetadata to all brokers, with controller epoch and leader epochs

A state that was written by a newer controller deposes this one.

Left out: broker epochs (KIP-380, 2.2) as a fence. A broker that was restarted between two looks is known by
the creation of its znode, in all these eras (before 2.2 the controller could miss it: KAFKA-1120). Deleting
topics, adding partitions. Members of an in-sync set that all die at once stay in it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from model.protocol.messages import Partition, PartitionState
from model.protocol.zookeeper_messages import Children, Delete, GetData, SetData, ZkError, ZkOp, ZkResult
from model.zookeeper.controller_context import ControllerContext, Deposed
from model.zookeeper.kafka_zk_client import Steps
from model.zookeeper.zk_data import (
    IDS,
    ISR_CHANGES,
    PREFERRED,
    REASSIGNED,
    TOPICS,
    partition_of,
    state_path,
    topic_path,
)


@dataclass(slots=True)
class KafkaController:
    """See the module. `moving`: replicas that partitions under reassignment are to have. `deposed`: a newer
    controller was at work."""

    context: ControllerContext
    moving: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    deposed: bool = False
    _events: deque[Steps[None]] = field(default_factory=deque)
    _running: Steps[None] | None = None
    _ops: list[ZkOp] = field(default_factory=list)

    # ---- events

    def start(self) -> None:
        """It was elected (onControllerFailover)."""
        self._add(self._failover())

    def notified(self, path: str) -> None:
        """A watch fired."""
        tp = partition_of(path)
        if path == IDS:
            self._add(self._brokers_changed())
        elif path == TOPICS:
            self._add(self._topics_changed())
        elif path == ISR_CHANGES:
            self._add(self._isr_changed())
        elif path == PREFERRED:
            self._add(self._elect_preferred())
        elif path == REASSIGNED:
            self._add(self._reassign())
        elif tp is not None:
            self._add(self._reassigned([tp]))

    def shut_down(self, broker: int, done: Callable[[list[Partition]], None]) -> None:
        """A broker wants to go: take leaderships from it; `done` gets those that no other broker can take."""
        self._add(self._controlled_shutdown(broker, done))

    def balance(self) -> None:
        """Give leaderships back to preferred replicas (auto.leader.rebalance.enable)."""
        self._add(self._prefer(tuple(sorted(self.context.states))))

    def wanted(self) -> list[ZkOp]:
        """Ops that it waits for, returned once; `results` brings their results."""
        ops, self._ops = self._ops, []
        return ops

    def results(self, results: Sequence[ZkResult]) -> None:
        """Continue the event in hand."""
        self._advance(results)

    def _add(self, event: Steps[None]) -> None:
        self._events.append(event)
        if self._running is None:
            self._advance(())

    def _advance(self, results: Sequence[ZkResult]) -> None:
        """On to the next ops, or to the end of all events."""
        try:
            while not self._ops and (self._running is not None or self._events):
                try:
                    if self._running is None:
                        self._running = self._events.popleft()
                        self._ops = next(self._running)
                    else:
                        self._ops = self._running.send(results)
                except StopIteration:
                    self._running = None
                results = ()
        except Deposed:
            self.deposed = True

    def _failover(self) -> Steps[None]:
        """Read everything, then repair what happened while there was no controller."""
        context = self.context
        yield from context.read_brokers()
        yield from context.read_topics()
        for broker in context.live:
            context.channels.add(broker)
        context.update(context.live, context.states)
        context.lead(context.states, context.live)
        yield from self._mend()
        yield from self._isr_changed()
        yield from self._elect_preferred()
        yield from self._reassign()

    # ---- brokers

    def _brokers_changed(self) -> Steps[None]:
        """Brokers came or went; one that is another one than before did both."""
        context = self.context
        before = context.live
        yield from context.read_brokers()
        now = context.live
        gone = [n for n in before if now.get(n) != before[n]]
        come = [n for n in now if before.get(n) != now[n]]
        context.leaving.difference_update(gone)
        for broker in gone:
            context.channels.drop(broker)
        for broker in come:
            context.channels.add(broker)
        if gone:
            context.live = {n: created for n, created in now.items() if n not in come}
            hit = [
                tp for tp, s in context.states.items() if s.leader in gone or not set(gone).isdisjoint(s.isr)
            ]
            yield from context.change(hit, self._alive)
            if not hit:
                context.update(context.live, ())
            context.live = now
        if come:
            context.update([n for n in now if n not in come], ())
            context.update(come, context.states)
            context.lead(context.states, come)
            yield from self._mend()
            yield from self._reassigned(list(self.moving))

    def _mend(self) -> Steps[None]:
        """Partitions without a leader, or with dead members; partitions that have no state yet."""
        context = self.context
        broken = [
            tp
            for tp, s in context.states.items()
            if s.leader not in context.live or not set(s.isr) <= set(context.live)
        ]
        yield from context.change(broken, self._alive)
        yield from context.make(context.missing())

    def _alive(self, tp: Partition, state: PartitionState) -> PartitionState:
        """Without the dead; and as a leader is chosen, without those that want to go."""
        context = self.context
        isr = [n for n in state.isr if n in context.live]
        if state.leader not in context.live:
            isr = [n for n in isr if n in context.electable()] or isr
        return context.changed(tp, state, isr=isr)

    def _controlled_shutdown(self, broker: int, done: Callable[[list[Partition]], None]) -> Steps[None]:
        """Leaderships go to other members of the in-sync sets, and what the broker followed it follows no
        more. What it led it follows until it is gone, and may be in sync again (before KIP-841)."""
        context = self.context
        context.leaving.add(broker)

        def away(tp: Partition, state: PartitionState) -> PartitionState:
            isr = [n for n in state.isr if n != broker and n in context.live]
            if not isr or (state.leader == broker and context.electable().isdisjoint(isr)):
                return state  # no other replica is in sync
            return context.changed(tp, state, isr=isr)

        hit = [tp for tp, s in context.states.items() if broker in s.isr and len(s.replicas) > 1]
        stopped = [tp for tp in hit if context.states[tp].leader != broker]
        yield from context.change(hit, away)
        led = [tp for tp, s in context.states.items() if s.leader == broker and len(s.replicas) > 1]
        if stopped:
            context.stop(broker, stopped, delete=False)
        done(led)

    # ---- partitions

    def _topics_changed(self) -> Steps[None]:
        """Topics were created."""
        context = self.context
        yield from context.read_topics()
        yield from context.make(context.missing())

    def _isr_changed(self) -> Steps[None]:
        """Leaders changed in-sync sets: learn them, and tell all brokers."""
        context = self.context
        (found,) = yield [Children(ISR_CHANGES, watch=True)]
        paths = [f"{ISR_CHANGES}/{name}" for name in found.children]
        if not paths:
            return
        told = yield [GetData(path) for path in paths]
        changed = dict.fromkeys(tp for note in told for tp in note.data or ())
        tps = [tp for tp in changed if tp[0] in context.topics]
        yield from context.read_states(tps)
        context.update(context.live, tps)
        yield [Delete(path) for path in paths]

    def _elect_preferred(self) -> Steps[None]:
        """An operator asked for the preferred leaders."""
        (asked,) = yield [GetData(PREFERRED, watch=True)]
        if asked.error is ZkError.OK:
            yield from self._prefer(asked.data)
            yield [Delete(PREFERRED)]

    def _prefer(self, tps: Sequence[Partition]) -> Steps[None]:
        context = self.context

        def preferred(tp: Partition, state: PartitionState) -> PartitionState:
            return context.changed(tp, state, preferred=True)

        away = [tp for tp in tps if tp in context.states and self._away(tp)]
        yield from context.change(away, preferred)

    def _away(self, tp: Partition) -> bool:
        context = self.context
        state = context.states[tp]
        return state.leader != state.replicas[0] and state.replicas[0] in context.electable()

    # ---- reassignment

    def _reassign(self) -> Steps[None]:
        """An operator asked for other replicas. First the old and the new ones together have it."""
        context = self.context
        (asked,) = yield [GetData(REASSIGNED, watch=True)]
        if asked.error is not ZkError.OK:
            return
        for tp, replicas in asked.data.items():
            if tp not in context.states or tp in self.moving:
                continue
            self.moving[tp] = tuple(replicas)
            rest = tuple(n for n in context.replicas(tp) if n not in replicas)
            yield from self._assign(tp, (*replicas, *rest))
        yield from self._reassigned(list(self.moving))

    def _assign(self, tp: Partition, replicas: tuple[int, ...]) -> Steps[None]:
        context = self.context
        topic = list(context.topics[tp[0]])
        topic[tp[1]] = replicas
        context.topics[tp[0]] = tuple(topic)

        def among(tp: Partition, state: PartitionState) -> PartitionState:
            isr = [n for n in state.isr if n in replicas and n in context.live]
            return context.changed(tp, state, isr=isr, replicas=replicas)

        yield [SetData(topic_path(tp[0]), context.topics[tp[0]])]
        yield from context.change([tp], among, always=True)

    def _reassigned(self, tps: Iterable[Partition]) -> Steps[None]:
        """Are all new replicas in sync? Then the old ones go; else look again when that may be so."""
        context = self.context
        for tp in tps:
            wanted = self.moving.get(tp)
            if wanted is None:
                continue
            (read,) = yield [GetData(state_path(tp), watch=True)]
            if not set(wanted) <= set(read.data.isr):
                continue
            old = [n for n in context.replicas(tp) if n not in wanted]
            del self.moving[tp]
            yield from self._assign(tp, wanted)
            for broker in old:
                context.stop(broker, [tp], delete=True)
            rest: ZkOp = SetData(REASSIGNED, dict(self.moving)) if self.moving else Delete(REASSIGNED)
            yield [rest]
