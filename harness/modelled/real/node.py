"""One broker or controller of the model in real time: its events, its answers, what it asks other nodes.

The broker of the model is the one that the simulation runs. Here its clock is the machine's, its disk a file,
and its requests come from sockets. Everything happens in one thread: the event loop of the process.
"""

import asyncio
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from core.capabilities import Cut, Listener
from harness.modelled.real.encoded.disk import Disk
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.channels import HELD, listener_of
from harness.modelled.shared.server_log import text
from model.broker import TICK_MS, Broker
from model.eras import ERAS
from model.protocol.requests import Answered, AnyRequest, Response
from model.replication.node import Ask, LogLine, MarkersSentAfterLoading, Reply
from model.settings import Settings

Carry = Callable[[int, str, Listener, AnyRequest, int, Answered], None]
"""Carries a request to another node: node, channel, listener, request, how long to wait in ms, and what to
call with the answer, None = none came."""


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node is reached.

    host: of its own listeners, as other nodes dial it. nodes: port for other nodes; controllers: for what
    they ask controllers, 0 = the same. clients, harness: ports of its client listener and of the harness's
    own. advertised: what it tells clients, host and port, and what it tells the harness."""

    host: str
    nodes: int
    controllers: int = 0
    clients: int = 0
    harness: int = 0
    advertised: Mapping[str, tuple[str, int]] = {}

    def port(self, listener: Listener) -> int:
        """Where other nodes reach a listener."""
        return self.controllers or self.nodes if listener is Listener.CONTROLLER else self.nodes


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is started with.

    me: its number. brokers, voters: nodes in these roles. era, mutant: `model.eras`, `model.mutants`. model:
    fields of `model.settings.Settings`. folder: of its disk. bind: address that its listeners bind to.
    wall_ms: what its clock lacks to the wall clock. powerless: its last process ended by a power loss.
    cuts: in force when it starts.
    """

    me: int
    brokers: tuple[int, ...]
    voters: tuple[int, ...]
    addresses: Mapping[int, NodeAddress]
    cluster: str
    folder: str
    era: str
    mutant: str = ""
    model: Mapping[str, int | float | bool | str] = {}
    bind: str = "127.0.0.1"
    wall_ms: int = 0
    powerless: bool = False
    cuts: tuple[Cut, ...] = ()

    @staticmethod
    def values(settings: Settings) -> dict[str, int | float | bool | str]:
        """What `model` holds of settings."""
        return {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in ("era", "bugs")}

    def settings(self) -> Settings:
        """Those of its broker."""
        bugs = frozenset(filter(None, [self.mutant]))
        return replace(Settings(era=ERAS[self.era], bugs=bugs), **self.model)  # type: ignore[arg-type]


AT_ONCE: Final = 32
"""Requests of a node to itself, and answers to them, that are handled one after the other."""
ITSELF, OTHERS = 0, 1
"""Connections, as the model counts them: of what a node asks itself, and of other nodes, which are one.
Those of clients have the numbers after."""
DISK: Final = "disk"
"""Name of a node's file in its folder."""
LOST_POWER: Final = "lost-power"
"""Name of an empty file in its folder: its last process ended by a power loss."""


def later(line: LogLine, ms: int) -> LogLine:
    """A line of the server log with times of another clock."""
    return line._replace(updated=line.updated + ms) if isinstance(line, MarkersSentAfterLoading) else line


def now_ms() -> int:
    """The time as the model counts it: of one clock for all processes of the machine."""
    return time.monotonic_ns() // 1_000_000


class Node:
    """See the module. carry: to other nodes. ended: called when a clean shutdown has ended. note: writes a
    line into the node's log."""

    def __init__(
        self, given: NodeSettings, carry: Carry, ended: Callable[[], None], note: Callable[[str], None]
    ) -> None:
        """Raises: OSError, where its disk cannot be read."""
        self.given = given
        self.settings = given.settings()
        Path(given.folder).mkdir(parents=True, exist_ok=True)
        self.disk = Disk(Path(given.folder) / DISK, self.settings)
        lost_power = Path(given.folder) / LOST_POWER
        if given.powerless or lost_power.exists():
            for log in self.disk.durable.logs.values():
                log.lose_power()
            self.disk.save()
            lost_power.unlink(missing_ok=True)
        self.broker = Broker(
            given.me,
            voters=given.voters,
            settings=self.settings,
            durable=self.disk.durable,
            incarnation=time.time_ns(),
            draw=random.Random().randint,
            broker=given.me in given.brokers,
        )
        self._carry = carry
        self._ended = ended
        self._note = note
        self._numbers = itertools.count()
        self._connections = itertools.count(OTHERS + 1)
        self._waiting: dict[int, Answered] = {}
        self._asked: dict[int, Ask] = {}
        self._own: deque[tuple[Ask, Response | None]] = deque()
        self._asks_itself = self._is_over = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Its process comes up."""
        self._do(self.broker.start, now_ms())
        self._loop.call_later(TICK_MS / 1000, self._tick)

    def shut_down(self) -> None:
        """SIGTERM: hand over, then end."""
        self._do(self.broker.shut_down, now_ms())

    def connected(self) -> int:
        """A client has a new connection: its number, as the broker counts them."""
        return next(self._connections)

    def disconnected(self, connection: int) -> None:
        """It is closed: sessions over it end."""
        self._do(self.broker.disconnected, now_ms(), connection)

    def submit(self, request: AnyRequest, answered: Answered, connection: int = OTHERS) -> None:
        """A request came; `answered` is called once with the answer, or never. connection: of a client, see
        `connected`."""
        number = next(self._numbers)
        self._waiting[number] = answered
        self._do(self.broker.receive, now_ms(), connection, number, request)

    def submit_unanswered(self, request: AnyRequest) -> None:
        """A request came whose sender does not wait for an answer."""
        self._do(self.broker.receive, now_ms(), -1, -1, request)

    def _tick(self) -> None:
        if self._is_over:
            return
        self._loop.call_later(TICK_MS / 1000, self._tick)
        self._do(self.broker.tick, now_ms())
        if self.broker.may_end:
            self.broker.end()
            self.disk.save()
            self._is_over = True
            self._ended()

    def _do(self, event: Callable[..., None], *arguments: object) -> None:
        """Let the broker handle an event, write what is durable, and then do what it wants done.

        What it asks itself comes after that, so that a client has its answer first. An event that wants
        nothing of others cannot be seen: it is written together with what the node asks itself. After a clean
        shutdown nothing happens to the broker any more, though connections may still close.
        """
        if self._is_over:
            return
        event(*arguments)
        wanted = self._of_others()
        if wanted or not self._own:
            self._carry_out(wanted)
        if self._own and not self._asks_itself:
            self._ask_itself()

    def _of_others(self) -> list[Reply | Ask]:
        """What the broker wants done by others now; what it wants of itself is queued, answers first."""
        others: list[Reply | Ask] = []
        answers: list[tuple[Ask, Response]] = []
        for one in self.broker.take_out():
            if isinstance(one, Reply):
                if one.connection == ITSELF:
                    answers.append((self._asked.pop(one.correlation), one.answer))
                else:
                    others.append(one)
            elif one.node == self.given.me:
                self._own.append((one, None))
            else:
                others.append(one)
        self._own.extendleft(reversed(answers))
        return others

    def _carry_out(self, wanted: list[Reply | Ask]) -> None:
        """Write what is durable; then answer and ask others."""
        self.disk.save()
        lines = self.disk.durable.server_log
        if lines:
            for line in lines:
                self._note(text(later(line, self.given.wall_ms - BASE_MS)))
            lines.clear()
        for one in wanted:
            if isinstance(one, Ask):
                self._ask(one)
            elif (answered := self._waiting.pop(one.correlation, None)) is not None:
                answered(one.answer)

    def _ask_itself(self) -> None:
        """Handle what the node asked itself, and the answers; after `AT_ONCE` of them others come first."""
        if self._is_over:
            return
        self._asks_itself = True
        wanted: list[Reply | Ask] = []
        for _ in range(AT_ONCE):
            if not self._own:
                break
            asked, answer = self._own.popleft()
            if answer is None:
                number = next(self._numbers)
                self._asked[number] = asked
                self.broker.receive(now_ms(), ITSELF, number, asked.request)
            else:
                self.broker.answered(now_ms(), asked, answer)
            wanted += self._of_others()
        self._asks_itself = False
        self._carry_out(wanted)
        if self._own:
            self._loop.call_soon(self._ask_itself)

    def _ask(self, wanted: Ask) -> None:
        answered = partial(self._answered, wanted)
        wait_ms = self.settings.request_timeout_ms
        if isinstance(wanted.request, HELD):
            wait_ms += self.settings.fetch_wait_ms
        channel = wanted.channel
        self._carry(wanted.node, channel, listener_of(channel), wanted.request, wait_ms, answered)

    def _answered(self, wanted: Ask, answer: Response | None) -> None:
        self._do(self.broker.answered, now_ms(), wanted, answer)
