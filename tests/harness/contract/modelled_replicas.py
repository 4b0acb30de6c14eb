"""The model in the place of the cluster on which scenarios about replicas are played: its messages lie on
lanes, and the stage of real brokers drives them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Final

import msgspec

from core.wire import Seen, WireRule
from harness.brokers.admin.connection import AdminError
from harness.contract.lanes import ANSWERED, CAUGHT, DELIVERED, Lane
from harness.contract.leader_broker import PRODUCER_MS
from harness.contract.replica_settings import FETCH_WAIT_MS
from harness.contract.replicas import FUTURE, Known
from model.broker import TICK_MS
from model.errors import KafkaError
from model.protocol.controller_messages import AlterPartition, QuorumFetch
from model.protocol.messages import (
    Fetch,
    FetchedPartition,
    FetchResponse,
    OffsetForLeaderEpoch,
    PartitionState,
    Produce,
)
from model.protocol.requests import AnyRequest
from model.settings import Settings
from scenarios.drivers.cluster import CONTROLLER_NODE
from scenarios.drivers.messages import MessageInFlight
from scenarios.drivers.partition import TP, PartitionStage

WITNESS: Final = 8
RAFT: Final = "raft-client-"
NS_OF_MS: Final = FETCH_WAIT_MS * 1_000_000 // Settings().fetch_wait_ms
"""Real time of a millisecond of the story: a fetch waits as long as at a real broker."""


def alone(method: Callable[..., Any]) -> Callable[..., Any]:
    """One caller at a time: a producer's answer is waited for in a thread."""

    @wraps(method)
    def locked(self: "ModelledReplicas", *values: Any, **named: Any) -> Any:
        with self.lock:
            return method(self, *values, **named)

    return locked


class ModelledReplicas:
    """`ReplicaPlace`. bug: a planted one of its brokers."""

    witness = WITNESS
    delays_again = False

    def __init__(self, stage: PartitionStage, bug: str = "") -> None:
        self.lock = threading.RLock()
        bugs = frozenset({bug} if bug else ())
        self.inner = stage.again(replace(stage.settings, bugs=bugs))
        self.brokers: Sequence[int] = sorted(self.inner.running)
        self.unnoticed: set[int] = set()
        self.rules: dict[int, WireRule] = {}
        self.events: list[Seen] = []
        self.forgets: dict[int, int] = {}
        """Rule -> what was let go of the fetch by which a follower takes a partition out of its session after
        an error: 0 nothing, 1 the request."""
        self.forgotten = 0
        self.closed = False
        self.keep: list[MessageInFlight] = []
        """Messages that have events: their identity tells them apart."""

    # ---- what brokers say

    def ask(self, request: AnyRequest, node: int) -> Any:
        found: list[Any] = []
        with self.lock:
            if node not in self.inner.nodes:
                raise AdminError("down")
            if isinstance(request, Fetch) and request.replica == FUTURE:
                return FetchResponse({TP: self._replica(node)})
            if isinstance(request, Produce) and request.timeout_ms == PRODUCER_MS:
                # in the story it has the time of a producer
                request = msgspec.structs.replace(request, timeout_ms=2000)
            self.inner.deliver("", request, node, found.append)
        while not found:
            if not isinstance(request, Produce) or self.closed:
                raise AdminError("no answer")
            threading.Event().wait(0.005)
        if found[0] is None:
            raise AdminError("the connection broke")
        return found[0]

    def tell(self, request: Produce, node: int) -> None:
        with self.lock:
            self.inner.deliver("", request, node, lambda _: None)

    def _replica(self, node: int) -> FetchedPartition:
        one = self.inner.replica(TP, node)
        if one is None:
            return FetchedPartition(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        return FetchedPartition(
            KafkaError.NONE,
            high_watermark=one.high_watermark,
            batches=tuple(one.log.batches),
            start=one.log.start,
        )

    @alone
    def epoch_end(self, node: int, epoch: int) -> tuple[int, int] | None:
        one = self.inner.replica(TP, node)
        if one is None:
            raise AdminError("no replica")
        known, end = one.log.end_of(epoch)
        return (known, end) if known >= 0 else None

    def _image(self, node: int) -> Any:
        if node != WITNESS and node not in self.inner.nodes:
            raise AdminError("down")
        return self.inner.nodes[CONTROLLER_NODE if node == WITNESS else node].node.image

    @alone
    def known(self, node: int) -> Known | None:
        image = self._image(node)
        one = image.partitions[TP]
        return Known(self._unfenced(image), one.leader, one.leader_epoch, one.isr, one.replicas)

    @staticmethod
    def _unfenced(image: Any) -> frozenset[int]:
        return frozenset(n for n, broker in image.brokers.items() if not broker.fenced)

    @alone
    def alive(self, node: int) -> frozenset[int]:
        """The session of whoever sends no heartbeats ends as soon as that is looked for."""
        silent = self.unnoticed | {
            int(r.client_id) for r in self.rules.values() if r.api == "broker_heartbeat"
        }
        if node == WITNESS:
            self.inner.fence(*(silent & self._unfenced(self._image(WITNESS))))
        return self._unfenced(self._image(node))

    @alone
    def state(self) -> PartitionState:
        return self.inner.state

    def must_be_current(self) -> None: ...

    # ---- what an operator does

    def begin(self) -> None: ...

    def create(self, places: Sequence[int], settings: Mapping[str, str]) -> None:
        assert tuple(places) == self.inner.state.replicas
        assert settings["min.insync.replicas"] == str(self.inner.settings.min_isr)

    @alone
    def elect(self, *, unclean: bool) -> None:
        self.inner.elect(unclean=unclean)

    @alone
    def reassign(self, places: Sequence[int]) -> None:
        self.inner.reassign(*places)

    @alone
    def kill(self, node: int) -> None:
        self.inner.crash(node)
        self.unnoticed.add(node)

    @alone
    def revive(self, node: int) -> None:
        self.unnoticed.discard(node)
        self.inner.restart(node)

    @alone
    def wait(self, milliseconds: int) -> None:
        """What brokers ask meanwhile is seen when they ask."""
        for _ in range(milliseconds // TICK_MS):
            self.inner.wait(TICK_MS)
            for number in self.rules:
                self.seen(number)

    @alone
    def clock_ns(self) -> int:
        return self.inner.now * NS_OF_MS

    # ---- lanes

    @alone
    def lane(self, api: str, client_id: str, *, to: int = 0, answers: bool) -> Lane:
        between: Any = self
        return Lane(between, len(self.rules) + 1, api, to or CONTROLLER_NODE, client_id, answers=answers)

    @alone
    def add(self, rule: WireRule) -> None:
        self.rules[rule.number] = rule
        if rule.api == "broker_heartbeat":
            self.inner.isolate(int(rule.client_id))

    @alone
    def lift(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            rule = self.rules[number]
            self.rules[number] = WireRule(number=number, api="", action=rule.action)
            if rule.api == "broker_heartbeat":
                self.inner.isolated.discard(int(rule.client_id))
                self.inner.wait(500)

    @alone
    def seen(self, number: int) -> list[Seen]:
        for message in self._of(number):
            self._note(number, message, ANSWERED if message.answering else CAUGHT)
        return [one for one in self.events if one.rule == number]

    @alone
    def release(self, number: int) -> None:
        if number in self.forgets:
            self._forget(number)
            return
        for message in self._of(number):
            leader = message.sender
            assert isinstance(leader, int)
            if not message.answering:
                self._note(number, message, DELIVERED)
            if isinstance(message.ask.request, QuorumFetch):
                end = self.inner.controller.quorum.end
                self.inner._tell(leader, end)
            elif isinstance(message.ask.request, AlterPartition) and not message.answering:
                self.inner.alter(leader)
            else:
                wrong = message.answering and self._error(message)
                self.inner.arrive(message)
                if wrong and self.rules[number].api == "fetch" and not self._of(number):
                    self._forget(number)

    def _forget(self, number: int) -> None:
        let = self.forgets[number] = self.forgets.get(number, -1) + 1
        self.forgotten += not let
        for what in ((CAUGHT,), (DELIVERED, ANSWERED), ())[let]:
            self._saw(number, self.rules[number].nodes[0], -self.forgotten, what)
        if let == 2:
            del self.forgets[number]

    @alone
    def lose(self, number: int) -> None:
        """Also what the node has and keeps: its connection breaks."""
        for message in self._of(number):
            self.inner.held.remove(message)
            self.inner._hear(message, None)
        kept = self.inner._waiting
        for connection in [n for n, one in kept.items() if self._kind(one) == self._lies_on(number)]:
            self.inner._hear(kept.pop(connection), None)

    def _of(self, number: int) -> list[MessageInFlight]:
        return [one for one in self.inner.held if self._kind(one) == self._lies_on(number)]

    def _lies_on(self, number: int) -> tuple[object, ...]:
        rule = self.rules[number]
        return rule.api, rule.client_id, *rule.nodes

    @staticmethod
    def _kind(message: MessageInFlight) -> tuple[object, ...]:
        sender, node = message.sender, message.ask.node
        match message.ask.request:
            case Fetch() | OffsetForLeaderEpoch():
                return "fetch", f"broker-{sender}-fetcher-0", node
            case AlterPartition():
                return "alter_partition", str(sender), node
            case QuorumFetch():
                return "fetch", f"{RAFT}{sender}", node
        return ("",)

    def _note(self, number: int, message: MessageInFlight, what: str) -> None:
        key = id(message) % 2**31
        last = [one.what for one in self.events if (one.rule, one.connection) == (number, key)][-1:]
        if last != [what]:
            error = self._error(message) if what == ANSWERED else None
            at_ms = message.answered_ms if what == ANSWERED else self.inner.now
            self.keep.append(message)
            self._saw(number, message.ask.node, key, what, error, at_ms)

    @staticmethod
    def _error(message: MessageInFlight) -> int | None:
        answer: Any = message.answer
        match message.ask.request:
            case AlterPartition():
                return int(answer.parts[TP][0] if answer.parts else answer.error)
            case Fetch():
                return int(answer.parts[TP].error if answer.parts else KafkaError.NONE)
            case OffsetForLeaderEpoch():
                return int(answer.parts[TP][0])
        return None

    def _saw(
        self, number: int, node: int, key: int, what: str, error: int | None = None, at_ms: int | None = None
    ) -> None:
        self.events.append(
            Seen(
                ns=(self.inner.now if at_ms is None else at_ms) * NS_OF_MS + len(self.events),
                rule=number,
                what=what,
                node=node,
                connection=key,
                api="",
                version=0,
                correlation_id=0,
                client_id="",
                error=error,
            )
        )
