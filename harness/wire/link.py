"""One connection of a client through the proxy, and the connection to the broker that carries it on.

Requests and responses keep their order, as TCP keeps it. The broker's side outlives the client's while a
request is held or unanswered: that is how a request comes late (KAFKA-17754).
"""

import asyncio
import itertools
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.wire import Action, Seen, WireRule
from harness.protocol.frames import FrameError, RequestHeader, Splitter, correlation_id, request_header
from harness.protocol.payloads import api_name
from harness.wire.responses import Rewrite, error_of, refusal
from harness.wire.rules import Named, RuleBook, once, releases
from harness.wire.subjects import Subjects

QUEUED: Final = 64 << 20
"""Bytes that wait behind a held request at most; then the client is read no further."""
UNANSWERED_S: Final = 5.0
"""How long the broker's side stays open for responses once the client's is gone."""
_ids = itertools.count(1)

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that makes a close a reset."""


@dataclass(slots=True)
class SentRequest:
    """A request without its response. answer: of one that the proxy answers itself."""

    header: RequestHeader
    rule: WireRule | None
    answer: bytes | None = None


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request that waits."""

    frame: bytes
    header: RequestHeader
    rule: WireRule
    named: Subjects


class Desk:
    """What all links of a proxy share: the rules in force, the links that hold a request, and where to tell
    what was seen."""

    def __init__(self, tell: Callable[[Seen], None], rewrite: Rewrite) -> None:
        self.book = RuleBook()
        self.rewrite = rewrite
        self.links: set[Link] = set()
        self.holding: set[Link] = set()
        self._tell = tell

    def saw(
        self,
        what: str,
        link: "Link",
        header: RequestHeader,
        rule: WireRule,
        *,
        named: str = "",
        error: int | None = None,
        skipped: int = 0,
    ) -> None:
        """Tell what happened to a request that a rule took."""
        self._tell(
            Seen(
                ns=time.monotonic_ns(),
                rule=rule.number,
                what=what,
                node=link.node,
                connection=link.number,
                api=api_name(header.api_key),
                version=header.version,
                correlation_id=header.correlation_id,
                client_id=header.client_id or "",
                named=named,
                error=error,
                skipped=skipped,
            )
        )

    def release(self, number: int) -> None:
        """Let go what a rule holds, on all links."""
        for link in sorted(self.links, key=lambda one: one.number):
            link.release(number)

    def lose(self, number: int) -> None:
        """What a rule holds never arrives, on all links: their connections break."""
        for link in sorted(self.links, key=lambda one: one.number):
            link.lose(number)

    def passes(self, header: RequestHeader, named: Named) -> None:
        """A request comes: let go what it releases."""
        for link in sorted(self.holding, key=lambda one: one.number):
            held = link.held
            if held is not None and releases(held.rule, held.named, header, named):
                link.release(held.rule.number)


class LinkEnd(asyncio.Protocol):
    """One end of a link: bytes to frames, and back-pressure from the other end."""

    def __init__(
        self, take: Callable[[bytes], None], began: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self._take = take
        self._began = began
        self._ended = ended
        self._splitter = Splitter()
        self._unsent: list[bytes] | None = None
        self.transport: asyncio.Transport | None = None
        self.other: LinkEnd | None = None

    @property
    def open(self) -> bool:
        """Whether bytes can be written to it."""
        return self.transport is not None and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._began()

    def data_received(self, data: bytes) -> None:
        """See asyncio. What comes together is sent on together."""
        assert self.other is not None
        self.other.gather()
        try:
            for frame in self._splitter.feed(data):
                self._take(frame)
        except FrameError:
            self.reset()
        finally:
            self.other.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._ended()

    def pause_writing(self) -> None:
        """See asyncio."""
        if self.other is not None:
            self.other.read(False)

    def resume_writing(self) -> None:
        """See asyncio."""
        if self.other is not None:
            self.other.read(True)

    def write(self, data: bytes) -> None:
        """Send bytes, if it is open; after `gather`, once `flush` is called."""
        if self._unsent is not None:
            self._unsent.append(data)
        elif self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def gather(self) -> None:
        """Keep what is written from now on."""
        self._unsent = []

    def flush(self) -> None:
        """Send what was kept."""
        unsent, self._unsent = self._unsent, None
        if unsent:
            self.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    def read(self, wanted: bool) -> None:
        """Read on, or pause."""
        if self.open:
            assert self.transport is not None
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    def reset(self) -> None:
        """Close it by a reset: what was not sent is lost."""
        if self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.transport.abort()

    def close(self) -> None:
        """Close it in order."""
        if self.transport is not None:
            self.transport.close()


class Link:
    """See the module. node: the broker. number: counts up through all links of the process. held: the request
    that waits, and all behind it."""

    def __init__(self, desk: Desk, node: int, accepted: Callable[[], None], exempt: str = "") -> None:
        """accepted: called when the client is connected; it has the broker's side connected. exempt: requests
        from this address pass by all rules."""
        self.node = node
        self._exempt = exempt
        self._accepted = accepted
        self.number = next(_ids)
        self._desk = desk
        self.client = LinkEnd(self._request, self._client_began, self._close_if_done)
        self.broker = LinkEnd(self._response, lambda: None, self._broker_ended)
        self.client.other, self.broker.other = self.broker, self.client
        self._asked: deque[SentRequest] = deque()
        self.held: HeldRequest | None = None
        self._queue: deque[tuple[bytes, RequestHeader]] = deque()
        self._queued = 0
        self._mute = self._lost = self._ruled = False
        self._waiting: tuple[WireRule, list[bytes]] | None = None
        desk.links.add(self)

    def _client_began(self) -> None:
        assert self.client.transport is not None
        self._ruled = self.client.transport.get_extra_info("peername")[0] != self._exempt
        # A transport of Python before 3.11.4 begins to read after this call, even where it is paused here.
        asyncio.get_running_loop().call_soon(self._wait)
        self._accepted()

    def _wait(self) -> None:
        """Read nothing until the broker's side is there."""
        if not self.broker.open:
            self.client.read(False)

    def begin(self) -> None:
        """Both sides are connected."""
        if self.client.open:
            self.client.read(True)
        else:
            self.broker.close()

    def abandon(self) -> None:
        """The broker does not take connections."""
        self.client.reset()
        self._desk.links.discard(self)

    # ---- requests

    def _request(self, frame: bytes) -> None:
        if self._lost:
            return
        header = request_header(frame)
        if self._desk.holding:
            self._desk.passes(header, once(frame, header))
        if self.held is not None:
            self._queue.append((frame, header))
            self._queued += len(frame)
            if self._queued > QUEUED:
                self.client.read(False)
        else:
            self._apply(frame, header)

    def _apply(self, frame: bytes, header: RequestHeader) -> None:
        book = self._desk.book
        named = once(frame, header)
        rule = book.takes(self.node, header, named) if book.rules and self._ruled else None
        if rule is None:
            self._forward(frame, SentRequest(header, None))
            return
        skipped = book.skipped(rule.number)
        self._desk.saw("caught", self, header, rule, named=str(named()), skipped=skipped)
        match rule.action:
            case Action.HOLD | Action.DETACH:
                self._hold(HeldRequest(frame, header, rule, named()))
                self._release_in_time(rule)
                if rule.action is Action.DETACH:
                    self.client.reset()
            case Action.DROP_REQUEST:
                self._lose()
            case Action.REFUSE:
                self._asked.append(SentRequest(header, rule, refusal(frame, header, rule.error)))
                self._answer_own()
            case Action.CUT:
                self._forward(frame, SentRequest(header, rule))
                self._lose()
            case Action.DROP_RESPONSE | Action.DELAY_RESPONSE:
                self._forward(frame, SentRequest(header, rule))

    def _hold(self, held: HeldRequest | None) -> None:
        self.held = held
        if held is not None:
            self._desk.holding.add(self)
        else:
            self._desk.holding.discard(self)

    def _lose(self) -> None:
        """The connection of the client breaks: what it has sent from now on is lost, no TCP brings it."""
        self._lost = True
        self._queue.clear()
        self._queued = 0
        self.client.reset()

    def _forward(self, frame: bytes, asked: SentRequest) -> None:
        self._asked.append(asked)
        self.broker.write(frame)

    def _release_in_time(self, rule: WireRule) -> None:
        if rule.seconds:
            asyncio.get_running_loop().call_later(rule.seconds, self.release, rule.number)

    def release(self, number: int) -> None:
        """Let go what a rule holds here."""
        if self._waiting is not None and self._waiting[0].number == number:
            (_, frames), self._waiting = self._waiting, None
            for frame in frames:
                self._to_client(frame)
        held = self.held
        if held is None or held.rule.number != number:
            return
        self._hold(None)
        self._desk.saw("delivered" if self.broker.open else "lost", self, held.header, held.rule)
        self._forward(held.frame, SentRequest(held.header, held.rule))
        while self._queue and self.held is None:
            frame, header = self._queue.popleft()
            self._queued -= len(frame)
            self._apply(frame, header)
        if self._queued <= QUEUED:
            self.client.read(True)
        self._close_if_done()

    def lose(self, number: int) -> None:
        """What a rule holds here never arrives: the connection breaks."""
        waiting, held = self._waiting, self.held
        if waiting is not None and waiting[0].number == number:
            self._waiting, self._mute = None, True
        elif held is not None and held.rule.number == number:
            self._hold(None)
            self._desk.saw("lost", self, held.header, held.rule)
        else:
            return
        self._lose()
        self._close_if_done()

    # ---- responses

    def _response(self, frame: bytes) -> None:
        number = correlation_id(frame)
        asked = None
        # Brokers answer in order. What came before has no response (a produce request with acks=0).
        while self._asked and asked is None:
            first = self._asked.popleft()
            asked = first if first.header.correlation_id == number else None
        if asked is not None:
            frame = self._desk.rewrite(frame, asked.header)
        if asked is not None and asked.rule is not None:
            self._told(frame, asked.header, asked.rule)
        if self._waiting is not None:
            self._waiting[1].append(frame)
        else:
            self._to_client(frame)
        self._answer_own()
        self._close_if_done()

    def _told(self, frame: bytes, header: RequestHeader, rule: WireRule) -> None:
        self._desk.saw("answered", self, header, rule, error=error_of(frame, header))
        if rule.action is Action.DROP_RESPONSE:
            self._mute = True
        elif (
            self._waiting is None
            and (rule.action is Action.DELAY_RESPONSE or rule.answers)
            and rule.number in self._desk.book.rules  # of one that was taken back, nothing lets go any more
        ):
            self._waiting = (rule, [])
            self._release_in_time(rule)

    def _answer_own(self) -> None:
        """Send the proxy's own answers, once those before them were sent."""
        while self._asked and self._asked[0].answer is not None:
            self._to_client(self._asked.popleft().answer or b"")

    def _to_client(self, frame: bytes) -> None:
        if not self._mute:
            self.client.write(frame)

    # ---- ends

    def _close_if_done(self) -> None:
        """Close the broker's side when the client's is gone, and nothing is held or unanswered any more."""
        if self.client.open or self.held is not None or self._queue:
            return
        if self._asked:
            asyncio.get_running_loop().call_later(UNANSWERED_S, self.broker.close)
        else:
            self.broker.close()

    def _broker_ended(self) -> None:
        if self.held is not None:
            self._desk.saw("lost", self, self.held.header, self.held.rule)
            self._hold(None)
        for asked in self._asked:
            if asked.rule is not None:
                self._desk.saw("lost", self, asked.header, asked.rule)
        self._asked.clear()
        self._queue.clear()
        self.client.close()
        self._desk.links.discard(self)
