"""Links of a node that are cut: what it sends over them waits, and what comes over them it does not read.

A cut of the network drops packets, and TCP sends them again until the link is whole: to both sides the
connection stands still, and what was sent arrives late. A node does the same to its own connections while a
cut is in force, so no rule of a firewall is needed.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from core.capabilities import Cut, Direction, Listener

CLIENTS: Final = 0
"""Stands for all clients as the other end of a link."""
LINGER_S: Final = 15.0
"""How long what is left of a closed connection may still arrive."""


class PeerConnection:
    """One connection of this node: to or from `peer`, over the `listener` of the side that was dialled.

    deaf: it receives nothing now. hears: called when it receives again."""

    def __init__(
        self,
        transport: asyncio.Transport,
        peer: int,
        listener: Listener,
        hears: Callable[[], None] = lambda: None,
    ) -> None:
        self.peer = peer
        self.listener = listener
        self.transport = transport
        self.deaf = False
        self._hears = hears
        self._held: list[bytes] = []
        self._silent = self._muted = self._closing = False

    def write(self, data: bytes) -> None:
        """Send, now or when the link is whole."""
        if self._silent:
            self._held.append(data)
        else:
            self.transport.write(data)

    def close(self) -> None:
        """Close it; what was sent over a cut link still arrives if that is mended soon."""
        self._closing = True
        if self._silent and self._held:
            asyncio.get_running_loop().call_later(LINGER_S, self.transport.abort)
        else:
            self.transport.close()

    def mute(self, *, muted: bool) -> None:
        """Read nothing more, or continue."""
        if muted != self._muted:
            self._muted = muted
            self._read()

    def gate(self, *, silent: bool, deaf: bool) -> None:
        """Whether it sends nothing, and receives nothing."""
        before, self._silent, self.deaf = self.deaf, silent, deaf
        self._read()
        if not silent and self._held:
            self.transport.write(b"".join(self._held))
            self._held.clear()
            if self._closing:
                self.transport.close()
        if before and not deaf:
            self._hears()

    def stay_deaf(self) -> None:
        """Read nothing, where it is deaf: a transport of Python before 3.11.4 begins to read after
        `connection_made`, even where that paused it, and then takes no second pause without a pause's end."""
        if self.deaf and not self.transport.is_closing():
            self.transport.resume_reading()
            self.transport.pause_reading()

    def _read(self) -> None:
        if self.transport.is_closing():
            return
        if self.deaf or self._muted:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


class Gates:
    """All connections of node `me`, and the cuts in force there."""

    def __init__(self, me: int) -> None:
        self._me = me
        self._links: set[PeerConnection] = set()
        self._cuts: tuple[Cut, ...] = ()

    def add(self, link: PeerConnection) -> None:
        """A new connection."""
        self._links.add(link)
        if self._cuts:
            self._gate(link)
        if link.deaf:
            asyncio.get_running_loop().call_soon(link.stay_deaf)

    def remove(self, link: PeerConnection) -> None:
        """A connection has ended."""
        self._links.discard(link)

    def set(self, cuts: Sequence[Cut]) -> None:
        """These cuts are in force, and no others. Those of other nodes concern this one not."""
        self._cuts = tuple(cut for cut in cuts if cut.node == self._me)
        for link in self._links:
            self._gate(link)

    def _gate(self, link: PeerConnection) -> None:
        cut = {one.direction for one in self._cuts if _concerns(one, link)}
        link.gate(silent=Direction.OUT in cut, deaf=Direction.IN in cut)


def _concerns(cut: Cut, link: PeerConnection) -> bool:
    if cut.peer is None:
        return link.peer == CLIENTS and link.listener is Listener.CLIENT
    return cut.peer == link.peer and cut.listener in (None, link.listener)
