"""Broker processes of a simulated cluster: they run, stand still, die and come back.

A node handles the requests of one connection one after the other, as Kafka does (the next one waits until
the one before is answered). What a node asks of others goes over one connection for each purpose.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.cluster import Listener
from harness.simulation.network import Connection, Network
from harness.simulation.scheduler import Scheduler
from model.broker import TICK_MS, Broker, Durable
from model.protocol.controller_messages import QuorumFetch
from model.protocol.messages import Fetch
from model.replication.node import Ask, Reply
from model.settings import Settings

Answered = Callable[[Any], None]
CONTROLLER_CHANNELS = (
    "quorum",
    "vote",
    "begin",
    "heartbeat",
    "register",
    "alter",
    "ids",
    "forward",
    "zookeeper",
    "watch",
)


class NodeProcess(Protocol):
    """What runs on a node: a broker, or something else that handles the same events (`model.broker`)."""

    def start(self, now: int) -> None:
        """It comes up."""

    def receive(self, now: int, connection: int, correlation: int, request: Any) -> None:
        """A request came."""

    def answered(self, now: int, node: int, channel: str, answer: Any) -> None:
        """The answer to a request of its own."""

    def tick(self, now: int) -> None:
        """100 ms passed."""

    def shut_down(self, now: int) -> None:
        """Begin to end."""

    def take_out(self) -> list[Reply | Ask]:
        """What it wants done."""


@dataclass(slots=True, eq=False)
class Incoming:
    """A connection as its server sees it: the request in hand, and those behind it."""

    connection: Connection
    busy: bool = False
    queue: list[tuple[int, Any, Answered]] = field(default_factory=list)
    answer: dict[int, Answered] = field(default_factory=dict)


class SimNode:
    """One node. `up`, `paused`: of its process. ensemble: node of the ZooKeeper ensemble, -1 = there is none.
    `broker`: the process, where it is one and runs."""

    def __init__(
        self,
        me: int,
        voters: tuple[int, ...],
        settings: Settings,
        scheduler: Scheduler,
        network: Network,
        rng: random.Random,
        *,
        broker: bool,
        ensemble: int = -1,
    ) -> None:
        self.me = me
        self.settings = settings
        self.up = self.paused = False
        self.durable = Durable()
        self.broker: Broker | None = None
        self._process: NodeProcess | None = None
        self.incarnation = 0
        self._voters = voters
        self._is_broker = broker
        self._ensemble = ensemble
        self._scheduler = scheduler
        self._network = network
        self._rng = rng
        self._peers: dict[int, SimNode] = {}
        self._incoming: dict[int, Incoming] = {}
        self._outgoing: dict[tuple[int, str], Connection] = {}
        self._backlog: list[Callable[[], None]] = []
        self.after: Callable[[SimNode], None] = lambda _: None
        """Called after every event that the node handled (invariants, trace)."""
        self.lived: Callable[[SimNode], None] = lambda _: None
        """Called when its process died, stood still or continued (trace)."""
        self.cause = -1
        """Number of the message that it handles; -1 = none, or messages are not numbered."""

    def meet(self, peers: dict[int, "SimNode"]) -> None:
        """Know the other nodes."""
        self._peers = peers

    @property
    def now_ms(self) -> int:
        """Virtual time as the model counts it."""
        return self._scheduler.now // 1000

    # ---- its process

    def start(self) -> None:
        """Start the process, with what survived. No-op where it runs."""
        if self.up:
            return
        self.up, self.paused = True, False
        self.incarnation += 1
        self._process = self._begin()
        self._run(lambda process: process.start(self.now_ms))
        self._scheduler.after(self._rng.randint(0, TICK_MS * 1000), self._tick, self.incarnation)

    def _begin(self) -> NodeProcess:
        self.broker = Broker(
            self.me,
            voters=self._voters,
            settings=self.settings,
            durable=self.durable,
            incarnation=self.incarnation,
            draw=self._rng.randint,
            broker=self._is_broker,
            ensemble=self._ensemble,
        )
        return self.broker

    def kill(self) -> None:
        """SIGKILL: only what is durable is left."""
        if not self.up:
            return
        self.up = self.paused = False
        self.broker = self._process = None
        self._incoming.clear()
        self._outgoing.clear()
        self._backlog.clear()
        self._network.reset(self.me)
        self._network.abandon(self.me)
        self.lived(self)

    def lose_power(self) -> None:
        """The process ends, and with it what was not flushed to disk."""
        self.kill()
        for log in self.durable.logs.values():
            log.lose_power()

    def shut_down(self) -> None:
        """SIGTERM: hand over, then end. A paused process does so once it is resumed."""
        if self.up:
            self._when_running(lambda: self._run(lambda process: process.shut_down(self.now_ms)))

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = self.up
        self.lived(self)

    def resume(self) -> None:
        """SIGCONT: everything that came meanwhile is handled now."""
        if not self.paused:
            return
        self.paused = False
        self.lived(self)
        backlog, self._backlog = self._backlog, []
        for call in backlog:
            call()

    def _tick(self, incarnation: int) -> None:
        if not self.up or incarnation != self.incarnation:
            return
        self._when_running(self._ticked)
        self._scheduler.after(TICK_MS * 1000, self._tick, incarnation)

    def _ticked(self) -> None:
        self._run(lambda process: process.tick(self.now_ms))
        if self.broker is not None and self.broker.may_end:
            self.durable = self.broker.end()
            self.kill()

    def _when_running(self, call: Callable[[], None]) -> None:
        """Now, or when the process is resumed."""
        if self.paused:
            self._backlog.append(call)
        elif self.up:
            call()

    def _run(self, event: Callable[[NodeProcess], None], cause: int = -1) -> None:
        process = self._process
        assert process is not None
        self.cause = cause
        try:
            event(process)
        except Exception as error:
            # A fault of the model: the caller of this event might take it for one of the cluster.
            self._scheduler.failed = self._scheduler.failed or error
            raise
        for wanted in process.take_out():
            if isinstance(wanted, Reply):
                self._reply(wanted)
            else:
                self._ask(wanted)
        self.after(self)

    # ---- requests that come in

    def request(self, connection: Connection, correlation: int, request: Any, answered: Answered) -> None:
        """A request arrived (called by the network)."""
        if self.paused:
            self._backlog.append(lambda: self.request(connection, correlation, request, answered))
            return
        if not self.up:
            return
        incoming = self._incoming.get(connection.number)
        if incoming is None:
            incoming = self._incoming[connection.number] = Incoming(connection)
        if incoming.busy:
            incoming.queue.append((correlation, request, answered))
            return
        self._handle(incoming, correlation, request, answered)

    def _handle(self, incoming: Incoming, correlation: int, request: Any, answered: Answered) -> None:
        incoming.answer[correlation] = answered
        incoming.busy = getattr(request, "acks", 1) != 0
        number = incoming.connection.number
        cause = getattr(answered, "number", -1)
        self._run(lambda b: b.receive(self.now_ms, number, correlation, request), cause)

    def _reply(self, reply: Reply) -> None:
        incoming = self._incoming.get(reply.connection)
        if incoming is None:
            return
        answered = incoming.answer.pop(reply.correlation)
        self._network.send_back(incoming.connection, answered, reply.answer)
        incoming.busy = False
        if incoming.queue:
            # After what is being handled now: the next request of this connection.
            self._scheduler.at(self._scheduler.now, self._next, incoming)

    def _next(self, incoming: Incoming) -> None:
        if self.paused:
            self._backlog.append(lambda: self._next(incoming))
        elif self.up and incoming.queue and not incoming.busy:
            self._handle(incoming, *incoming.queue.pop(0))

    # ---- requests that go out

    def _ask(self, wanted: Ask) -> None:
        peer = self._peers[wanted.node]
        incarnation = self.incarnation
        kind = wanted.channel.split(" ")[0].split("-")[0]
        key = (wanted.node, wanted.channel)
        connection = self._outgoing.get(key)
        if connection is None or connection.closed or connection.broken:
            listener = Listener.CONTROLLER if kind in CONTROLLER_CHANNELS else Listener.BROKER
            connection = self._network.connect(self.me, wanted.node, listener)
            self._outgoing[key] = connection
        open_ = [True]

        def answered(answer: Any) -> None:
            if open_[0] and self.up and incarnation == self.incarnation:
                open_[0] = False
                cause = self._network.arriving
                self._when_running(
                    lambda: self._run(
                        lambda b: b.answered(self.now_ms, wanted.node, wanted.channel, answer), cause
                    )
                )

        def given_up() -> None:
            if open_[0]:
                self._network.close(connection)
                answered(None)

        wait = self.settings.request_timeout_ms
        if isinstance(wanted.request, Fetch | QuorumFetch):
            wait += self.settings.fetch_wait_ms
        self._scheduler.after(wait * 1000, given_up)
        if wanted.node == self.me:
            self._network.keep(connection, self.request, connection, 0, wanted.request, answered)
        elif not peer.up:
            if not self._network.is_cut(self.me, wanted.node):
                self._scheduler.after(300, given_up)  # connection refused
        else:
            connection.on_break.append(given_up)
            self._network.send(connection, peer.request, connection, 0, wanted.request, answered)
