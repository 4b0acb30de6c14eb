"""Ring 4: what a controller of the time of ZooKeeper tells brokers, and what they answer, with the log of
ZooKeeper.

A controller writes its decision into ZooKeeper first, and then tells the brokers by LeaderAndIsr, StopReplica
and UpdateMetadata (`history.evidence_tables.ORDERS`), each with the epoch of the controller. A broker refuses
what has a smaller epoch than it has seen. What a controller tells the broker of its own process is on no
network, and is judged nowhere here; nor are topics whose name several had, one after the other.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow.compute as pc

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import NOWHERE, LogFinding
from checkers.logs.captured_messages import CLOCK_NS, joined
from checkers.logs.clocks import seen_apart_ms
from checkers.logs.rule import Rule, checks_of
from checkers.logs.zookeeper_log import (
    FOREVER,
    NOT_WHOLE,
    EphemeralZnode,
    StateZnode,
    ZooKeeperLog,
    zookeeper_log,
)
from checkers.logs.zookeeper_time import ZooKeeperTime, late_ms
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import ALL, CLIENT, LEADER_AND_ISR
from history.tables import TableRow
from model.accepting import partition_state

FENCED: Final = "order-fenced"
WRITTEN: Final = "order-from-state"
TOLD: Final = "leaders-learn-it"
TOLD_MS: Final = 30_000
STALE: Final = 11
"""Kafka's STALE_CONTROLLER_EPOCH."""
SILENT_MS: Final = 5_000
"""A network between two brokers that carries no answer so long may be cut."""
RULES: Final = {
    FENCED: Rule(
        "A broker that did what a controller of one epoch ordered obeys none of a smaller epoch, as long as"
        " its process lasts.",
        "KAFKA-1460; ReplicaManager.controllerEpoch, STALE_CONTROLLER_EPOCH",
    ),
    WRITTEN: Rule(
        "Leader, leader epoch and in-sync replicas that a LeaderAndIsr names for a partition stood in its"
        " znode before: a controller writes first, and tells then.",
        "PartitionStateMachine.doElectLeaderForPartitions, ControllerBrokerRequestBatch",
    ),
    TOLD: Rule(
        "A leader that is elected in ZooKeeper gets a LeaderAndIsr with this leader epoch, or a later one,"
        f" within {TOLD_MS // 1000} s, where it, the controller and the network between them last.",
        "ControllerChannelManager, RequestSendThread",
    ),
}


def join(run: WholeRun, result: Tally) -> None:
    """The rules of this module; nothing without messages of a controller."""
    orders = run.evidence.once(orders_of)
    if not orders:
        return
    judge = _Orders(run, orders, result)
    judge.fenced()
    log = run.evidence.once(zookeeper_log)
    if log is None:
        for rule in (WRITTEN, TOLD):
            result.leave_open(rule, NOWHERE, NOT_WHOLE)
        return
    judge.written(log)
    judge.told(log)


CHECKS: Final = checks_of(RULES, ring=4, join=join)


class OrderedState(NamedTuple):
    """What an order says of a partition."""

    tp: TopicPartition
    leader: int | None
    leader_epoch: int | None
    isr: frozenset[int]

    @property
    def text(self) -> str:
        """In words."""
        return f"leader {self.leader}, leader epoch {self.leader_epoch}, in sync {sorted(self.isr)}"


@dataclass(slots=True, kw_only=True)
class ControllerOrder:
    """A request of a controller to a broker. epoch: of the controller. broker_epoch: of the broker's
    registration, -1 = the request does not say it. error, answered_ns, answered_ms: of the answer; -1 = none
    was seen."""

    number: int
    ns: int
    ms: int
    connection: int
    controller: int
    broker: int
    api: int
    epoch: int
    broker_epoch: int
    states: list[OrderedState] = field(default_factory=list)
    error: int = -1
    answered_ns: int = -1
    answered_ms: int = -1


def orders_of(evidence: Evidence) -> list[ControllerOrder]:
    """In the order in which they were seen."""
    rows = evidence.table("orders")
    found: list[ControllerOrder] = []
    open_: dict[tuple[int, int], ControllerOrder] = {}
    of_frame: dict[int, ControllerOrder] = {}
    for row in joined(evidence.table("frames"), rows).to_pylist() if rows.num_rows else ():
        exchange = row["connection"], row["correlation"]
        if row["partition"] >= 0:
            if not row["answer"]:
                tp = TopicPartition(row["topic"], row["partition"])
                its = OrderedState(tp, row["leader"], row["leader_epoch"], frozenset(row["isr"] or ()))
                of_frame[row["number"]].states.append(its)
        elif not row["answer"]:
            made = _order(row)
            found.append(made)
            open_[exchange] = of_frame[row["number"]] = made
        elif (order := open_.pop(exchange, None)) is not None:
            order.error, order.answered_ns, order.answered_ms = row["error"], row["at_ns"], row["ms"]
    return found


def refused_at(evidence: Evidence) -> list[int]:
    """When brokers refused an order, since its controller was a former one: times of the run, in ns."""
    return [one.answered_ns for one in evidence.once(orders_of) if one.error == STALE]


def _order(row: TableRow) -> ControllerOrder:
    return ControllerOrder(
        number=row["number"],
        ns=row["at_ns"],
        ms=row["ms"],
        connection=row["connection"],
        controller=row["client"],
        broker=row["server"],
        api=row["api"],
        epoch=row["controller_epoch"],
        broker_epoch=-1 if row["broker_epoch"] is None else row["broker_epoch"],
    )


class ToldElection(NamedTuple):
    """A new leader in the log of ZooKeeper. session: of the controller that wrote it."""

    tp: TopicPartition
    znode: StateZnode
    until_ms: int
    """Until when the new leader has to learn it."""
    whole: bool
    """The log lasts until then."""


class _Orders:
    def __init__(self, run: WholeRun, orders: Sequence[ControllerOrder], result: Tally) -> None:
        self.run = run
        self.orders = orders
        self.result = result
        self.frames = run.evidence.table("frames")
        self.apart_ms = seen_apart_ms(self.frames)
        self.gaps = run.evidence.table("gaps").to_pylist()
        self.told_ms = TOLD_MS + late_ms(run.history)

    # ---- epochs

    def fenced(self) -> None:
        """Each answer to an order of a former controller, to a broker that had done what a newer one ordered.
        What may have been under way at once is in no order."""
        done: dict[int, list[ControllerOrder]] = defaultdict(list)
        for order in sorted(self.orders, key=lambda one: one.ns):
            if order.error < 0:
                continue
            before = [
                one for one in done[order.broker] if one.epoch > order.epoch and self._seen_before(one, order)
            ]
            self.result.asked[FENCED] += bool(before)
            if order.error == 0:
                if before:
                    self._obeyed(before[-1], order)
                done[order.broker].append(order)

    def _seen_before(self, one: ControllerOrder, order: ControllerOrder) -> bool:
        """Whether a broker had answered one order when another came to it, and was the same process."""
        if one.answered_ns + CLOCK_NS >= order.ns:
            return False
        if one.broker_epoch == order.broker_epoch >= 0:
            return True
        return self._opened.get(order.connection, order.ns) <= one.answered_ns

    @cached_property
    def _opened(self) -> dict[int, int]:
        """When a connection had its first frame."""
        found = self.frames.group_by(["connection"]).aggregate([("at_ns", "min")])
        return dict(zip(found["connection"].to_pylist(), found["at_ns_min"].to_pylist(), strict=True))

    def _obeyed(self, before: ControllerOrder, order: ControllerOrder) -> None:
        text = (
            f"node {order.broker} did {self._when(order.ns)} what node {order.controller} ordered as the"
            f" controller of epoch {order.epoch}, and had answered one of epoch {before.epoch} (node"
            f" {before.controller}) {self._when(before.answered_ns)}"
        )
        self._refuse(FENCED, NOWHERE, (order.broker,), text, order.ms)

    # ---- states

    def written(self, log: ZooKeeperLog) -> None:
        """Each partition of each LeaderAndIsr."""
        for order in self.orders:
            if order.api == LEADER_AND_ISR:
                for its in order.states:
                    self._written(order, its, log)

    def _written(self, order: ControllerOrder, its: OrderedState, log: ZooKeeperLog) -> None:
        until = order.ms + self.apart_ms
        if its.tp in log.unread:
            self.result.leave_open(WRITTEN, its.tp, "a state in ZooKeeper cannot be read")
            return
        if log.topics.get(its.tp.topic, 0) > 1 or its.leader == DURING_DELETE:
            return
        states = log.states.get(its.tp, ())
        same = [one for one in states if _same(one, its)]
        if not same and log.end_ms <= until:
            return  # the log may lack it
        self.result.asked[WRITTEN] += 1
        if any(one.ms <= until for one in same):
            return
        if same:
            late = (same[0].ms - order.ms) / 1000
            why = f"that was written {late:.1f} s later"
        else:
            newest = next((one for one in reversed(states) if one.ms <= until), None)
            has = f"has {partition_state.described(newest.state)}" if newest else "has no state of it"
            why = f"that never was written: ZooKeeper {has}"
        text = (
            f"{its.tp}: node {order.controller}, controller of epoch {order.epoch}, ordered node"
            f" {order.broker} {self._when(order.ns)}: {its.text}; {why}"
        )
        self._refuse(WRITTEN, its.tp, (order.controller,), text, order.ms)

    # ---- elections

    def told(self, log: ZooKeeperLog) -> None:
        """Each election in the log of ZooKeeper."""
        told: dict[tuple[TopicPartition, int], list[tuple[int, int]]] = defaultdict(list)
        for order in self.orders:
            for its in order.states if order.api == LEADER_AND_ISR else ():
                told[its.tp, order.broker].append((order.ms, its.leader_epoch or 0))
        for one in _elections(log, ZooKeeperTime(log, self.run.events), self.told_ms):
            state = one.znode.state
            controller = log.broker_of(one.znode.session)
            until = one.until_ms + self.apart_ms
            learned = any(
                ms <= until and epoch >= state.leader_epoch for ms, epoch in told[one.tp, state.leader]
            )
            if not learned and (controller is None or not self._had_to(one, controller, log)):
                continue
            self.result.asked[TOLD] += 1
            if not learned and controller is not None:
                text = (
                    f"{one.tp}: at zxid {one.znode.zxid:#x} of ZooKeeper node {controller}, the controller,"
                    f" made node {state.leader} the leader, with leader epoch {state.leader_epoch}, and did"
                    f" not tell it so within {self.told_ms / 1000:g} s"
                )
                self._refuse(TOLD, one.tp, (controller,), text, one.znode.ms)

    def _had_to(self, one: ToldElection, controller: int, log: ZooKeeperLog) -> bool:
        """Whether a controller could tell the new leader, and this would have been seen."""
        leader, seen = one.znode.state.leader, self.frames["ms"]
        if (
            not one.whole
            or leader == controller
            or not seen[0].as_py() <= one.znode.ms <= one.until_ms <= seen[-1].as_py()
        ):
            return False
        lasts = all(
            any(_covers(each, node, one) for each in held)
            for held, node in (
                (log.controllers, controller),
                (log.brokers, controller),
                (log.brokers, leader),
            )
        )
        return lasts and not (
            self._missed(controller, leader, one.until_ms)
            or self._behind(controller, leader, one.until_ms)
            or self._cut(controller, leader, one)
        )

    def _missed(self, controller: int, leader: int, until_ms: int) -> bool:
        """Whether an order may have been missed."""
        ahead_ms = self.frames["ms"][0].as_py() - self.frames["at_ns"][0].as_py() // 1_000_000
        for gap in self.gaps:
            ends = gap["client"], gap["server"]
            early = gap["at_ns"] // 1_000_000 + ahead_ms <= until_ms + self.apart_ms
            if early and (gap["connection"] == ALL or ends == (controller, leader)):
                return True
        return False

    def _behind(self, controller: int, leader: int, until_ms: int) -> bool:
        """Whether the leader had left the newest earlier order unanswered: a controller waits for each
        answer. Without an answer it gives an order up when the leader has gone, and sends later ones."""
        late = until_ms - SILENT_MS
        ends = controller, leader
        mine = [one for one in self.orders if (one.controller, one.broker) == ends and one.ms <= late]
        return bool(mine) and not 0 <= mine[-1].answered_ms <= late

    def _cut(self, controller: int, leader: int, one: ToldElection) -> bool:
        """Whether the two may have been cut off from each other: before that, too, since packets are sent
        again more and more seldom."""
        silences = self._silences.get(frozenset((controller, leader)), [(-FOREVER, FOREVER)])
        first_ms = silences[0][1]
        begin = max(one.znode.ms - self.told_ms, min(first_ms, one.znode.ms))
        return any(min(after, one.until_ms) - max(before, begin) > SILENT_MS for before, after in silences)

    @cached_property
    def _silences(self) -> dict[frozenset[int], list[tuple[int, int]]]:
        """Long times in which none of two nodes answered the other; before the first answer, and after the
        last one, in any case."""
        rows = self.frames.filter(pc.and_(self.frames["answer"], pc.not_equal(self.frames["client"], CLIENT)))
        times: dict[frozenset[int], list[int]] = defaultdict(list)
        columns = (rows[name].to_pylist() for name in ("client", "server", "ms"))
        for client, server, ms in zip(*columns, strict=True):
            times[frozenset((client, server))].append(ms)
        return {ends: list(_long(sorted(some))) for ends, some in times.items()}

    # ---- findings

    def _when(self, ns: int) -> str:
        history = self.run.history
        return f"at {history.seconds(ns) if history else ns / 1e9:.4f} s"

    def _refuse(self, rule: str, tp: TopicPartition, nodes: tuple[int, ...], text: str, ms: int) -> None:
        self.result.refuse(
            LogFinding(check=rule, log=tp, offset=-1, take=-1, nodes=nodes, text=f"{text}.", ms=ms)
        )


DURING_DELETE: Final = -2
"""Stands for the leader of a partition whose topic is being deleted."""


def _same(znode: StateZnode, its: OrderedState) -> bool:
    state = znode.state
    return (state.leader, state.leader_epoch) == (its.leader, its.leader_epoch) and set(state.isr) == its.isr


def _elections(log: ZooKeeperLog, time: ZooKeeperTime, told_ms: int) -> Iterator[ToldElection]:
    """Elections whose leader was not replaced before it had to learn it."""
    for tp, states in sorted(log.states.items()):
        gone = tp.topic in log.leaving | log.removed or log.topics.get(tp.topic, 0) > 1
        if gone or tp in log.unread:
            continue
        own = [one for one in states if one.own]
        epochs = [-1, *(one.state.leader_epoch for one in own)]
        new = [one for one, epoch in zip(own, epochs, strict=False) if one.state.leader_epoch > epoch]
        for one, after in itertools.zip_longest(new, new[1:]):
            known = time.after(one.ms, told_ms)
            until = one.ms + told_ms if known is None else known
            if one.state.leader >= 0 and (after is None or after.ms > until):
                yield ToldElection(tp, one, until, known is not None)


def _long(times: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Silences between times, and those at both ends."""
    yield -FOREVER, times[0]
    yield from (one for one in itertools.pairwise(times) if one[1] - one[0] > SILENT_MS)
    yield times[-1], FOREVER


def _covers(held: EphemeralZnode, node: int, one: ToldElection) -> bool:
    """Whether a node had a znode from an election on until the new leader had to learn it."""
    return held.broker == node and held.since <= one.znode.zxid and one.until_ms <= held.until_ms
