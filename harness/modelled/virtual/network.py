"""Connections between nodes and clients: delay, order, cuts, resets.

Messages of one connection keep their order in each direction; connections do not wait for each other. What
is sent over a cut link waits in the sender's kernel and continues when the link is mended, also when the
sender has given up meanwhile and closed its side: that is how a request comes late (KAFKA-17754). A
connection to a process that died is reset.
"""

import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from core.capabilities import Cut, Direction, Listener
from harness.modelled.virtual.scheduler import Scheduler

CLIENTS = 0
"""Stands for all clients as the end of a link."""
DELAY_US = (150, 900)
"""Of a message on its way: at least, and at most."""
DELAYS = DELAY_US[1] - DELAY_US[0] + 1
DELAY_BITS = DELAYS.bit_length()
RETRANSMIT_US = (1_000, 200_000)
"""How much longer a message waits after the link is mended: at least, and at most. A message may
also wait as long again as it did, because TCP doubles the distance of its attempts."""
GIVE_UP_US = 15_000_000
"""How long the kernel still sends what is left of a closed connection."""
NEVER = -1


class Message(msgspec.Struct, eq=False):
    """A request, or the answer to `request`. number: in the order in which they are sent. way: the direction
    in which it goes. sent, arrived: in µs. arrive: called when it arrives. answered: of a request, called
    when its answer arrives."""

    number: int
    connection: "VirtualConnection"
    way: "Way"
    content: Any
    sent: int
    arrive: "Arrive"
    answered: "Arrive | None" = None
    request: "Message | None" = None
    arrived: int = NEVER


Arrive = Callable[[Message], None]


class Way(msgspec.Struct, eq=False):
    """One direction of a connection. link: sender, receiver, and the server's listener. newest: arrival of
    the newest message on its way. under_way: those that a cut does not hold, in their order. waiting: what
    a cut holds, behind those."""

    link: tuple[int, int, Listener]
    newest: int = 0
    under_way: deque[Message] = msgspec.field(default_factory=deque)
    waiting: list[Message] = []


@dataclass(slots=True, eq=False)
class VirtualConnection:
    """One TCP connection from `client` (a node's number, or CLIENTS) to node `server`; `there` and `back`
    are its directions.

    process: number of the client's process, -1 = the harness itself, or a node. closed: the client's side is;
    answers are dropped. broken: the server's process died. severed: a proxy has closed it, and the client is
    about to learn it. unopened: the packets that open it are dropped. stuck_since: when the oldest message
    that waits began to, of the newest cut. requests: that were sent; on_break: what to call, by the number of
    a request that has no answer yet. learns: called when the server learns that the client has closed it.
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
    unopened: bool = False
    there: Way = field(init=False)
    back: Way = field(init=False)
    stuck_since: int = 0
    requests: int = 0
    on_break: dict[int, Callable[[], None]] = field(default_factory=dict)
    learns: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.there = Way((self.client, self.server, self.listener))
        self.back = Way((self.server, self.client, self.listener))

    def awaits(self, call: Callable[[], None]) -> int:
        """Call when the connection breaks; the number by which `on_break` has it."""
        number = self.requests
        self.requests = number + 1
        self.on_break[number] = call
        return number

    @property
    def ended(self) -> bool:
        """It carries no new requests."""
        return self.closed or self.broken


class Network:
    """All connections. cuts: in force. messages: all so far, None = not kept. proxies: asked
    in this order whether they take a message, to lose it or to `carry` it on. watchers: they learn of
    each answer that a node gives, also where its client has gone."""

    def __init__(self, scheduler: Scheduler, rng: random.Random) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._bits = rng.getrandbits
        self._blocked: set[tuple[int, int, Listener]] = set()
        self._shut: set[tuple[int, int, Listener]] = set()
        self.stopped: Counter[int] = Counter()
        """Attempts to open a connection that a cut stopped, by the server's node."""
        self._connections: list[VirtualConnection] = []
        self._number = 0
        self._sent = 0
        self.cuts: list[Cut] = []
        self.messages: list[Message] | None = None
        self.proxies: list[Callable[[Message], bool]] = []
        self.watchers: list[Callable[[Message], None]] = []

    def connect(self, client: int, server: int, listener: Listener, process: int = -1) -> VirtualConnection:
        """A new connection; its first message shows whether the server answers."""
        self._number += 1
        made = VirtualConnection(self._number, client, server, listener, process)
        if made.there.link in self._shut:
            made.unopened = True
            self.stopped[server] += 1
        self._connections.append(made)
        return made

    def to(self, server: int) -> list[VirtualConnection]:
        """The connections to a node that carry messages."""
        return [c for c in self._connections if c.server == server and not (c.ended or c.severed)]

    # ---- messages

    def send(self, connection: VirtualConnection, content: object, arrive: Arrive, answered: Arrive) -> None:
        """Carry a request to the server, or leave it with a node that asks itself."""
        if connection.closed or connection.broken:
            return
        now = self._scheduler.now
        message = Message(self._sent, connection, connection.there, content, now, arrive, answered)
        self._sent += 1
        if self.messages is not None:
            self.messages.append(message)
        if connection.client == connection.server:
            self._scheduler.at(now, self._deliver, message)
        elif not connection.severed:
            (self._give if self.proxies else self.carry)(message)

    def answer(self, request: Message, content: object) -> None:
        """Carry an answer to the client."""
        connection = request.connection
        if connection.broken:
            return
        assert request.answered is not None
        now = self._scheduler.now
        message = Message(
            self._sent, connection, connection.back, content, now, request.answered, None, request
        )
        self._sent += 1
        if self.messages is not None:
            self.messages.append(message)
        for learns in self.watchers:
            learns(message)
        if not (connection.closed or connection.severed):
            (self._give if self.proxies else self.carry)(message)

    def _give(self, message: Message) -> None:
        """To whatever stands between, else on its way."""
        for takes in self.proxies:
            if takes(message):
                return
        self.carry(message)

    def carry(self, message: Message) -> None:
        """Send a message on its way."""
        way = message.way
        if way.waiting or message.connection.unopened or (self._blocked and way.link in self._blocked):
            self._wait(message)
        else:
            self._launch(message, 0)

    def _launch(self, message: Message, more: int) -> None:
        """`more`: µs beyond the usual delay, which is drawn as `randint(*DELAY_US)` draws it, in one call
        instead of four."""
        least, draw = DELAY_US[0], self._bits(DELAY_BITS)
        while draw >= DELAYS:
            draw = self._bits(DELAY_BITS)
        way, at = message.way, self._scheduler.now + least + draw + more
        if at > way.newest:
            way.newest = at
        way.under_way.append(message)
        self._scheduler.at(way.newest, self._arrive, message)

    def _arrive(self, message: Message) -> None:
        connection, way = message.connection, message.way
        if connection.broken or not way.under_way or way.under_way[0] is not message:
            return  # or it was lost behind an earlier one, and arrives later
        if self._blocked and way.link in self._blocked:
            self._lose(way)
            return
        way.under_way.popleft()
        self._forget_spent(connection)
        if message.request is None or not connection.closed:
            self._deliver(message)

    def _deliver(self, message: Message) -> None:
        message.arrived = self._scheduler.now
        message.arrive(message)

    def _wait(self, message: Message) -> None:
        self._stick(message.connection)
        message.way.waiting.append(message)

    def _lose(self, way: Way) -> None:
        """What is on its way there is sent again later, before what was sent since: TCP hands over nothing
        that is behind a gap."""
        self._stick(way.under_way[0].connection)
        way.waiting[:0] = way.under_way
        way.under_way.clear()

    def _stick(self, connection: VirtualConnection) -> None:
        if not (connection.there.waiting or connection.back.waiting):
            connection.stuck_since = self._scheduler.now

    # ---- ends

    def close(self, connection: VirtualConnection) -> None:
        """The client gives the connection up. What it had sent is still on its way."""
        if connection.learns is not None and not connection.ended:
            self._scheduler.after(self._rng.randint(*DELAY_US), self._tell_end, connection)
        connection.closed = True
        connection.closed_at = self._scheduler.now
        connection.on_break.clear()
        connection.requests = 0
        if connection.unopened:
            connection.there.waiting.clear()  # nothing was ever sent over it
        self._forget_spent(connection)

    def _tell_end(self, connection: VirtualConnection) -> None:
        """The server learns that the client has gone, after all that it had sent, and not over a cut link."""
        if connection.broken or connection.learns is None:
            return
        way = connection.there
        if way.waiting or way.link in self._blocked:
            self._scheduler.after(RETRANSMIT_US[1], self._tell_end, connection)
        elif way.newest > self._scheduler.now:
            self._scheduler.at(way.newest, self._tell_end, connection)
        else:
            connection.learns()

    def reset(self, server: int) -> None:
        """The server's process died: its clients learn it, once the link lets them."""
        open_ones = [c for c in self._connections if c.server == server and not (c.broken or c.unopened)]
        for connection in open_ones:
            connection.broken = True
            connection.there.waiting.clear()
            connection.back.waiting.clear()
            self._forget(connection)
            calls, connection.on_break = connection.on_break, {}
            if connection.back.link not in self._blocked:
                for number in range(connection.requests):
                    delay = self._rng.randint(*DELAY_US)  # also for what was answered: seeds keep their runs
                    if number in calls:
                        self._scheduler.after(delay, calls[number])

    def sever(self, connection: VirtualConnection, wait: int) -> None:
        """What stands between closes the connection: from now on it takes nothing, but what is on its way
        arrives. The client learns it after this many microseconds, and after all answers that are on
        their way to it."""
        connection.severed = True
        self._scheduler.after(wait, self._learn, connection)

    def _learn(self, connection: VirtualConnection) -> None:
        if connection.ended:
            return
        if connection.back.newest > self._scheduler.now:
            self._scheduler.at(connection.back.newest, self._learn, connection)
            return
        calls = list(connection.on_break.values())
        self.close(connection)
        for call in calls:
            call()

    def abandon(self, client: int) -> None:
        """A node's process died: its own connections are closed."""
        for connection in [c for c in self._connections if c.client == client and not c.closed]:
            self.close(connection)

    def _forget_spent(self, connection: VirtualConnection) -> None:
        """Forget a closed connection, unless some request of it is still to arrive."""
        if connection.closed and not (connection.there.waiting or connection.there.under_way):
            self._forget(connection)

    def _forget(self, connection: VirtualConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)

    # ---- cuts

    def cut(self, cuts: Sequence[Cut]) -> None:
        """Add cuts."""
        for node in {cut.node for cut in cuts}:
            self.stopped.pop(node, None)
        self.cuts += cuts
        self._block()

    def mend(self, cuts: Sequence[Cut]) -> None:
        """Take cuts back, each as often as it is named; waiting messages continue."""
        for cut in cuts:
            if cut in self.cuts:
                self.cuts.remove(cut)
        self._block()
        for connection in list(self._connections):
            connection.unopened = connection.unopened and connection.there.link in self._shut
            if connection.unopened:
                continue
            for way in (connection.there, connection.back):
                if way.waiting and way.link not in self._blocked:
                    self._resume(connection, way)

    def _resume(self, connection: VirtualConnection, way: Way) -> None:
        late = self._scheduler.now - connection.closed_at > GIVE_UP_US
        messages, way.waiting = way.waiting, []
        if connection.closed and (late or way is connection.back):
            self._forget_spent(connection)
            return
        least, most = RETRANSMIT_US
        stuck = self._scheduler.now - connection.stuck_since
        more = self._rng.randint(least, max(most, stuck))
        for message in messages:
            self._launch(message, more)

    def _block(self) -> None:
        """From the cuts: directed links (from, to, listener of the server's side) that carry nothing.

        A packet belongs to a connection to the listener of one of the two; both its directions name it.
        """
        self._blocked, self._shut = set(), set()
        for cut in self.cuts:
            peer = CLIENTS if cut.peer is None else cut.peer
            ends = (cut.node, peer) if cut.direction is Direction.OUT else (peer, cut.node)
            if cut.peer is None:
                listeners = [Listener.CLIENT]
            elif cut.listener is not None:
                listeners = [cut.listener]
            else:
                listeners = [Listener.BROKER, Listener.CONTROLLER]
            held = self._shut if cut.opening else self._blocked
            held.update((*ends, listener) for listener in listeners)

    def is_cut(self, node: int, peer: int) -> bool:
        """Whether packets from `node` to `peer` are dropped on any listener."""
        return any(pair[:2] == (node, peer) for pair in self._blocked)


def cuts_from(cuts: Collection[Cut], brokers: Sequence[int], ensemble: int) -> list[Cut]:
    """Cuts between brokers and the ZooKeeper ensemble that go with the cuts in force.

    Links to the ensemble carry what the links between brokers and isolated controllers carry elsewhere, and
    are cut with a broker's other links: the ensemble sits with the majority, so that who neither hears nor
    is heard by a majority of brokers, itself included, is cut off from it, each direction for itself.
    """
    made = []
    for node in brokers:
        for direction in Direction:
            linked = [p for p in brokers if p == node or not _is_cut(cuts, node, p, direction)]
            if 2 * len(linked) <= len(brokers):
                made.append(Cut(node=node, direction=direction, peer=ensemble))
    return made


def _is_cut(cuts: Collection[Cut], node: int, peer: int, direction: Direction) -> bool:
    """Whether `node` gets nothing from (IN) or to (OUT) a peer, on any listener."""
    other = Direction.OUT if direction is Direction.IN else Direction.IN
    same = Cut(node=node, direction=direction, peer=peer)
    return same in cuts or Cut(node=peer, direction=other, peer=node) in cuts
