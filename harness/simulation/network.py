"""Connections between nodes and clients: delay, order, cuts, resets.

Messages of one connection keep their order in each direction; connections do not wait for each other. What
is sent over a cut link waits in the sender's kernel and continues when the link is mended, also when the
sender has given up meanwhile and closed its side: that is how a request comes late (KAFKA-17754). A
connection to a process that died is reset.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.cluster import Cut, Direction, Listener
from harness.simulation.scheduler import Scheduler

CLIENTS = 0
"""Stands for all clients as the end of a link."""
DELAY_US = (150, 900)
RETRANSMIT_US = (1_000, 200_000)
"""How much longer a message waits after the link is mended: at least, and at most. A message may
also wait as long again as it did, because TCP doubles the distance of its attempts."""
GIVE_UP_US = 15_000_000
"""How long the kernel still sends what is left of a closed connection."""


class Tracer(Protocol):
    """Sees every message, and returns what the network delivers in its place."""

    def asked(
        self, connection: "Connection", deliver: Callable[..., None], arguments: tuple[Any, ...]
    ) -> Callable[[], None]:
        """A request is sent; `arguments` are those of `SimNode.request`."""

    def answered(
        self, connection: "Connection", deliver: Callable[..., None], answer: Any
    ) -> Callable[[], None]:
        """An answer is sent."""


class Between(Protocol):
    """Stands between clients and nodes."""

    def takes(self, connection: "Connection", there: bool, message: Any, forward: Callable[[], None]) -> bool:
        """A message comes along: whether it is taken, to be lost or to continue by `forward()`."""


@dataclass(slots=True, eq=False)
class Connection:
    """One TCP connection from `client` (a node's number, or CLIENTS) to node `server`.

    process: number of the client's process, -1 = the harness itself, or a node. closed: the client's side is;
    answers are dropped. broken: the server's process died. severed: a proxy has closed it, and the client is
    about to learn it.
    """

    number: int
    client: int
    server: int
    listener: Listener
    process: int = -1
    closed: bool = False
    closed_at: int = 0
    broken: bool = False
    severed: bool = False
    there: int = 0
    """Arrival of the newest message on its way to the server."""
    back: int = 0
    waiting_there: list[Callable[[], None]] = field(default_factory=list)
    waiting_back: list[Callable[[], None]] = field(default_factory=list)
    stuck_since: int = 0
    """When the oldest message that waits began to, of the newest cut."""
    on_break: list[Callable[[], None]] = field(default_factory=list)


class Network:
    """All connections."""

    def __init__(self, scheduler: Scheduler, rng: random.Random) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._cuts: list[Cut] = []
        self._blocked: set[tuple[int, int, Listener]] = set()
        self._connections: list[Connection] = []
        self._number = 0
        self.nodes: tuple[int, ...] = ()
        self.tracer: Tracer | None = None
        self.proxies: Between | None = None
        self.arriving = -1
        """Number of the answer that is being delivered, where a tracer numbers them."""

    def connect(self, client: int, server: int, listener: Listener, process: int = -1) -> Connection:
        """A new connection; its first message shows whether the server answers."""
        self._number += 1
        made = Connection(self._number, client, server, listener, process)
        self._connections.append(made)
        return made

    def to(self, server: int) -> list[Connection]:
        """The connections to a node that carry messages."""
        return [
            c for c in self._connections if c.server == server and not (c.closed or c.broken or c.severed)
        ]

    # ---- messages

    def send(self, connection: Connection, deliver: Callable[..., None], *arguments: Any) -> None:
        """Carry a message to the server."""
        if connection.broken or connection.closed:
            return
        delivery = self._delivery(connection, deliver, arguments)
        if not connection.severed:
            self._give(connection, True, arguments[2], delivery)

    def keep(self, connection: Connection, deliver: Callable[..., None], *arguments: Any) -> None:
        """Carry a message of a node to itself: it is there at once."""
        now = self._scheduler.now
        self._scheduler.at(now, self._delivery(connection, deliver, arguments))

    def _delivery(
        self, connection: Connection, deliver: Callable[..., None], arguments: tuple[Any, ...]
    ) -> Callable[[], None]:
        if self.tracer is not None:
            return self.tracer.asked(connection, deliver, arguments)
        return lambda: deliver(*arguments)

    def send_back(self, connection: Connection, deliver: Callable[..., None], *arguments: Any) -> None:
        """Carry an answer to the client."""
        if connection.broken:
            return
        if self.tracer is not None:
            told = self.tracer.answered(connection, deliver, *arguments)
        else:
            told = lambda: deliver(*arguments)  # noqa: E731
        if connection.closed or connection.severed:
            return

        def arrive() -> None:
            if not connection.closed:
                told()

        self._give(connection, False, arguments[0], arrive)

    def _give(self, connection: Connection, there: bool, message: Any, deliver: Callable[[], None]) -> None:
        """To whatever stands between, else on its way."""
        if connection.client == CLIENTS and self.proxies is not None:
            forward = lambda: self._carry(connection, there, deliver)  # noqa: E731
            if self.proxies.takes(connection, there, message, forward):
                return
        self._carry(connection, there, deliver)

    def _carry(self, connection: Connection, there: bool, deliver: Callable[[], None]) -> None:
        waiting = connection.waiting_there if there else connection.waiting_back
        if waiting or self._is_cut(connection, there):
            self._wait(connection, waiting, deliver)
            return
        self._launch(connection, there, deliver, 0)

    def _launch(self, connection: Connection, there: bool, deliver: Callable[[], None], more: int) -> None:
        delay = self._rng.randint(*DELAY_US) + more
        now = self._scheduler.now
        if there:
            connection.there = arrival = max(connection.there, now + delay)
        else:
            connection.back = arrival = max(connection.back, now + delay)
        self._scheduler.at(arrival, self._arrive, connection, there, deliver)

    def _arrive(self, connection: Connection, there: bool, deliver: Callable[[], None]) -> None:
        if connection.broken:
            return
        waiting = connection.waiting_there if there else connection.waiting_back
        if self._is_cut(connection, there):
            self._wait(connection, waiting, deliver)  # lost on the way, and sent again later
            return
        deliver()

    def _wait(
        self, connection: Connection, waiting: list[Callable[[], None]], deliver: Callable[[], None]
    ) -> None:
        if not (connection.waiting_there or connection.waiting_back):
            connection.stuck_since = self._scheduler.now
        waiting.append(deliver)

    # ---- ends

    def close(self, connection: Connection) -> None:
        """The client gives the connection up. What it had sent is still on its way."""
        connection.closed = True
        connection.closed_at = self._scheduler.now
        connection.on_break.clear()
        if not connection.waiting_there:
            self._forget(connection)

    def reset(self, server: int) -> None:
        """The server's process died: its clients learn it, once the link lets them."""
        for connection in [c for c in self._connections if c.server == server and not c.broken]:
            connection.broken = True
            connection.waiting_there.clear()
            connection.waiting_back.clear()
            self._forget(connection)
            calls, connection.on_break = connection.on_break, []
            if not self._is_cut(connection, False):
                for call in calls:
                    self._scheduler.after(self._rng.randint(*DELAY_US), call)

    def sever(self, connection: Connection, wait: int) -> None:
        """What stands between closes the connection: from now on it takes nothing, but what is on its way
        arrives. The client learns it after this many microseconds, and after all answers that are on
        their way to it."""
        connection.severed = True
        self._scheduler.after(wait, self._learn, connection)

    def _learn(self, connection: Connection) -> None:
        if connection.closed or connection.broken:
            return
        if connection.back > self._scheduler.now:
            self._scheduler.at(connection.back, self._learn, connection)
            return
        calls = list(connection.on_break)
        self.close(connection)
        for call in calls:
            call()

    def abandon(self, client: int) -> None:
        """A node's process died: its own connections are closed."""
        for connection in [c for c in self._connections if c.client == client]:
            self.close(connection)

    def _forget(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)

    # ---- cuts

    def cut(self, cuts: list[Cut]) -> None:
        """Add cuts."""
        self._cuts += cuts
        self._block()

    def mend(self, cuts: list[Cut]) -> None:
        """Take cuts back, each as often as it is named; waiting messages continue."""
        for cut in cuts:
            if cut in self._cuts:
                self._cuts.remove(cut)
        self._block()
        for connection in list(self._connections):
            for there in (True, False):
                waiting = connection.waiting_there if there else connection.waiting_back
                if waiting and not self._is_cut(connection, there):
                    self._resume(connection, there, waiting)

    def _resume(self, connection: Connection, there: bool, waiting: list[Callable[[], None]]) -> None:
        late = self._scheduler.now - connection.closed_at > GIVE_UP_US
        messages = list(waiting)
        waiting.clear()
        if connection.closed and (late or not there):
            self._forget(connection)
            return
        least, most = RETRANSMIT_US
        stuck = self._scheduler.now - connection.stuck_since
        more = self._rng.randint(least, max(most, stuck))
        for deliver in messages:
            self._launch(connection, there, deliver, more)

    def _block(self) -> None:
        """From the cuts: directed links (from, to, listener of the server's side) that carry nothing.

        A packet belongs to a connection to the listener of one of the two; both its directions name it.
        """
        self._blocked = set()
        for cut in self._cuts:
            peer = CLIENTS if cut.peer is None else cut.peer
            ends = (cut.node, peer) if cut.direction is Direction.OUT else (peer, cut.node)
            if cut.peer is None:
                listeners = [Listener.CLIENT]
            elif cut.listener is not None:
                listeners = [cut.listener]
            else:
                listeners = [Listener.BROKER, Listener.CONTROLLER]
            self._blocked.update((*ends, listener) for listener in listeners)

    def _is_cut(self, connection: Connection, there: bool) -> bool:
        if not self._blocked:
            return False
        ends = (connection.client, connection.server)
        if not there:
            ends = (connection.server, connection.client)
        return (*ends, connection.listener) in self._blocked

    def is_cut(self, node: int, peer: int) -> bool:
        """Whether packets from `node` to `peer` are dropped on any listener."""
        return any(pair[:2] == (node, peer) for pair in self._blocked)
