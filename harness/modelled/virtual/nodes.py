"""Processes of a simulated cluster's nodes: they run, stand still, die and come back.

A node handles the requests of one connection one after the other, as Kafka does (the next one waits until
the one before is answered). What a node or a client asks of nodes goes over one connection for each purpose.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec

from core.capabilities import Listener
from harness.modelled.shared.channels import HELD, listener_of
from harness.modelled.virtual.network import Message, Network, VirtualConnection
from harness.modelled.virtual.scheduler import Scheduler
from history.evidence_tables import KILLED, LOST_POWER
from model.broker import TICK_MS, Broker, Durable
from model.protocol.messages import Produce
from model.protocol.share_messages import ShareFetch
from model.replication.node import Ask, Reply
from model.settings import Settings
from model.zookeeper.ensemble import Ensemble

NodeProcess = Broker | Ensemble
"""What runs on a node."""
REFUSED_US = 300
"""After which a dead node's host refuses a connection."""


class Caller:
    """Asks nodes, for the node `client` or for the client with number `process`."""

    def __init__(self, network: Network, scheduler: Scheduler, client: int, process: int = -1) -> None:
        self._network = network
        self._scheduler = scheduler
        self._client = client
        self._process = process
        self._connections: dict[tuple[int, str], VirtualConnection] = {}

    def ask(
        self,
        node: "SimNode",
        purpose: str,
        listener: Listener,
        request: object,
        wait_ms: int,
        answered: Callable[[Message | None], None],
    ) -> None:
        """Send a request; `answered` is called once, with None where no answer came in time."""
        connection = self._connections.get((node.me, purpose))
        if connection is None or connection.closed or connection.broken:
            connection = self._network.connect(self._client, node.me, listener, self._process)
            self._connections[node.me, purpose] = connection
        call = _Call(self._network, connection, answered)
        self._scheduler.expire(wait_ms * 1000, call)
        if node.me != self._client:
            if not node.up:
                if not self._network.is_cut(self._client, node.me):
                    self._scheduler.after(REFUSED_US, call.give_up)
                return
            call.number = connection.awaits(call.give_up)
        self._network.send(connection, request, node.request, call.answer)

    def hang_up(self) -> None:
        """All connections end with their client."""
        for connection in self._connections.values():
            if not connection.ended:
                self._network.close(connection)


class _Call(msgspec.Struct, eq=False):
    """A request that waits for its answer. answered: called once, with None where no answer came in time.
    number: among those that learn of a break of the connection, -1 = it is not."""

    network: Network
    connection: VirtualConnection
    answered: Callable[[Message | None], None]
    waits: bool = True
    number: int = -1

    def answer(self, message: Message | None) -> None:
        """The answer, unless the caller has given up."""
        if self.waits:
            self.waits = False
            self.connection.on_break.pop(self.number, None)
            self.answered(message)

    def give_up(self) -> None:
        """Wait no longer."""
        if self.waits:
            self.network.close(self.connection)
            self.answer(None)


@dataclass(slots=True, eq=False)
class Incoming:
    """A connection as its server sees it: the request in hand, and those behind it."""

    handled: Message | None = None
    queue: list[Message] = field(default_factory=list)


class SimNode:
    """One node. peers: all nodes. begin: starts its process. `up`, `paused`: of its process. `crashed`: how
    its process ended without a shutdown (KILLED, LOST_POWER), "" = it did not. `broker`: the process, where
    it is one and runs."""

    def __init__(
        self,
        me: int,
        settings: Settings,
        scheduler: Scheduler,
        network: Network,
        rng: random.Random,
        peers: Mapping[int, "SimNode"],
        begin: Callable[["SimNode"], NodeProcess],
    ) -> None:
        self.me = me
        self.rng = rng
        self.up = self.paused = False
        self.crashed = ""
        self.durable = Durable()
        self.broker: Broker | None = None
        self.incarnation = 0
        self._settings = settings
        self._peers = peers
        self._begin = begin
        self._process: NodeProcess | None = None
        self._scheduler = scheduler
        self._network = network
        self._incoming: dict[int, Incoming] = {}
        self._caller = Caller(network, scheduler, me)
        self._backlog: list[Callable[[], None]] = []
        self.after: Callable[[SimNode], None] = lambda _: None
        """Called after every event that the node handled (invariants, trace)."""
        self.lived: Callable[[SimNode], None] = lambda _: None
        """Called when its process died, stood still or continued (trace)."""
        self.cause = -1
        """Number of the message that it handles; -1 = none."""

    @property
    def now_ms(self) -> int:
        """Virtual time as the model counts it."""
        return self._scheduler.now // 1000

    # ---- its process

    def start(self) -> None:
        """Start the process, with what survived. No-op where it runs."""
        if self.up:
            return
        self.up, self.paused, self.crashed = True, False, ""
        self.incarnation += 1
        self._process = process = self._begin(self)
        self.broker = process if isinstance(process, Broker) else None
        self._run(-1, process.start, self.now_ms)
        self._scheduler.after(self.rng.randint(0, TICK_MS * 1000), self._tick, self.incarnation)

    def kill(self) -> None:
        """SIGKILL: only what is durable is left."""
        if not self.up:
            return
        self.up, self.paused, self.crashed = False, False, KILLED
        self.broker = self._process = None
        self._incoming.clear()
        self._backlog.clear()
        self._network.reset(self.me)
        self._network.abandon(self.me)
        self.lived(self)

    def lose_power(self) -> int:
        """The process ends, and with it what was not flushed to disk; how many batches."""
        self.kill()
        self.crashed = LOST_POWER
        return sum(log.lose_power() for log in self.durable.logs.values())

    def shut_down(self) -> None:
        """SIGTERM: hand over, then end. A paused process does so once it is resumed."""
        if self.up:
            self._when_running(lambda: self._run(-1, self._running.shut_down, self.now_ms))

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
            self._when_running(call)

    def _tick(self, incarnation: int) -> None:
        if not self.up or incarnation != self.incarnation:
            return
        self._when_running(self._ticked)
        self._scheduler.after(TICK_MS * 1000, self._tick, incarnation)

    def _ticked(self) -> None:
        self._run(-1, self._running.tick, self.now_ms)
        if self.broker is not None and self.broker.may_end:
            self.durable = self.broker.end()
            self.kill()
            self.crashed = ""

    def _when_running(self, call: Callable[[], None]) -> None:
        """Now, or when the process is resumed."""
        if self.paused:
            self._backlog.append(call)
        elif self.up:
            call()

    @property
    def _running(self) -> NodeProcess:
        """Its process."""
        assert self._process is not None
        return self._process

    def _run(self, cause: int, event: Callable[..., None], *arguments: object) -> None:
        """Let the process handle an event, and do what it wants done. cause: number of the message."""
        self.cause = cause
        try:
            event(*arguments)
        except Exception as error:
            # A fault of the model: the caller of this event might take it for one of the cluster.
            self._scheduler.failed = self._scheduler.failed or error
            raise
        process = self._process
        assert process is not None
        for wanted in process.take_out():
            if isinstance(wanted, Reply):
                self._reply(wanted)
            else:
                self._ask(wanted)
        self.after(self)

    # ---- requests that come in

    def request(self, message: Message) -> None:
        """A request arrived (called by the network)."""
        if self.paused:
            self._backlog.append(partial(self._take, message))
        elif self.up:
            self._take(message)

    def _take(self, message: Message) -> None:
        number = message.connection.number
        incoming = self._incoming.get(number)
        if incoming is None:
            incoming = self._incoming[number] = Incoming()
        if incoming.handled is not None:
            incoming.queue.append(message)
        else:
            self._handle(incoming, message)

    def _handle(self, incoming: Incoming, message: Message) -> None:
        if not isinstance(message.content, Produce) or message.content.acks != 0:
            incoming.handled = message
        if isinstance(message.content, ShareFetch):
            message.connection.learns = partial(self._disconnected, message.connection.number)
        connection, number, process = message.connection.number, message.number, self._process
        assert process is not None
        self._run(number, process.receive, self._scheduler.now // 1000, connection, number, message.content)

    def _disconnected(self, connection: int) -> None:
        """A client has closed its connection."""
        broker = self.broker
        if broker is not None:
            self._when_running(lambda: self._run(-1, broker.disconnected, self.now_ms, connection))

    def _reply(self, reply: Reply) -> None:
        incoming = self._incoming.get(reply.connection)
        if incoming is None:
            return
        message = incoming.handled
        assert message is not None
        assert message.number == reply.correlation
        self._network.answer(message, reply.answer)
        incoming.handled = None
        if incoming.queue:
            # After what is being handled now: the next request of this connection.
            self._scheduler.at(self._scheduler.now, self._when_running, lambda: self._next(incoming))

    def _next(self, incoming: Incoming) -> None:
        if incoming.queue and incoming.handled is None:
            self._handle(incoming, incoming.queue.pop(0))

    # ---- requests that go out

    def _ask(self, wanted: Ask) -> None:
        incarnation = self.incarnation

        def answered(message: "Message | None") -> None:
            if not self.up or incarnation != self.incarnation:
                return
            if self.paused:
                self._backlog.append(partial(self._answered, wanted, message))
            else:
                self._answered(wanted, message)

        wait_ms = self._settings.request_timeout_ms
        if isinstance(wanted.request, HELD):
            wait_ms += self._settings.fetch_wait_ms
        peer, channel = self._peers[wanted.node], wanted.channel
        self._caller.ask(peer, channel, listener_of(channel), wanted.request, wait_ms, answered)

    def _answered(self, wanted: Ask, message: Message | None) -> None:
        answer, cause = (message.content, message.number) if message is not None else (None, -1)
        self._run(cause, self._running.answered, self._scheduler.now // 1000, wanted, answer)
