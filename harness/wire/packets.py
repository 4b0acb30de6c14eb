"""TCP packets that were seen on a network, put together again as the streams of bytes that they carried.

A capture sees what is sent: packets out of order, packets sent twice, and packets that their receiver never
gets. The receiver's acknowledgements tell it what it has missed: they confirm bytes that it has not seen.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

HELD: Final = 8 << 20
"""Most bytes that one direction of a connection holds while earlier ones are missing."""
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
_IP: Final = struct.Struct(">BxHxxxxxBxx4s4s")
_TCP: Final = struct.Struct(">HHIIBB")
_TCP_PROTOCOL: Final = 6
_HEADER: Final = 20
"""Bytes of the shortest header of TCP."""
_TURN: Final = 1 << 32
_HALF: Final = 1 << 31


class Packet(NamedTuple):
    """A TCP packet over IPv4. source, target: addresses of four bytes. flags: of TCP."""

    source: bytes
    source_port: int
    target: bytes
    target_port: int
    sequence: int
    acknowledged: int
    flags: int
    data: bytes


def packet(seen: bytes | memoryview) -> Packet | None:
    """A packet from its IP header on; None = it is not TCP over IPv4, or not whole."""
    if len(seen) < _IP.size or seen[0] >> 4 != 4:
        return None
    first, length, protocol, source, target = _IP.unpack_from(seen)
    at = (first & 0x0F) * 4
    if protocol != _TCP_PROTOCOL or len(seen) < at + _HEADER:
        return None
    source_port, target_port, sequence, acknowledged, offset, flags = _TCP.unpack_from(seen, at)
    end = length or len(seen)  # 0: more than 64 KiB, between containers of one machine
    data = bytes(seen[at + (offset >> 4) * 4 : end])
    return Packet(source, source_port, target, target_port, sequence, acknowledged, flags, data)


@dataclass(slots=True)
class Stream:
    """One direction of a connection. next: number of the byte that is awaited. lost: bytes were missed; the
    bytes after them are not given out."""

    next: int
    lost: bool = False
    _held: dict[int, bytes] = field(default_factory=dict)
    _bytes: int = 0

    def feed(self, sequence: int, data: bytes) -> bytes:
        """The bytes that are whole up to now, with these, in their order."""
        ahead = _distance(self.next, sequence)
        if self.lost or not data or ahead + len(data) <= 0:
            return b""
        if ahead > 0:
            self._hold(sequence, data)
            return b""
        whole = data[-ahead:] if ahead else data
        self.next = (self.next + len(whole)) % _TURN
        return whole + self._followers() if self._held else whole

    def confirmed(self, acknowledged: int) -> bool:
        """Whether the receiver has bytes that were not seen here: these are lost."""
        if self.lost or _distance(self.next, acknowledged) <= 1:  # the end of a stream counts as one byte
            return False
        self._lose()
        return True

    def _hold(self, sequence: int, data: bytes) -> None:
        if len(self._held.get(sequence, b"")) < len(data):
            self._bytes += len(data) - len(self._held.get(sequence, b""))
            self._held[sequence] = data
        if self._bytes > HELD:
            self._lose()

    def _followers(self) -> bytes:
        """What was held and is next."""
        found = []
        for sequence in sorted(self._held, key=lambda one: _distance(self.next, one)):
            ahead = _distance(self.next, sequence)
            if ahead > 0:
                break
            data = self._held.pop(sequence)
            self._bytes -= len(data)
            if ahead + len(data) > 0:
                found.append(data[-ahead:] if ahead else data)
                self.next = (self.next + len(found[-1])) % _TURN
        return b"".join(found)

    def _lose(self) -> None:
        self.lost = True
        self._held.clear()
        self._bytes = 0


def _distance(before: int, after: int) -> int:
    """How far a sequence number is ahead of another one; they begin again after 2^32."""
    return (after - before + _HALF) % _TURN - _HALF


def server_first(one: Packet, ports: Collection[int]) -> bool | None:
    """Whether the sender is the server of the connection, by the port; None = neither side is."""
    if one.target_port in ports:
        return False
    return True if one.source_port in ports else None
