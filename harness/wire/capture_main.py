"""The process that looks at a run's network: `python -m harness.wire.capture_main`.

Standard input brings one line, `Watch`, and its end ends the process: a harness that dies leaves none behind.
Standard output has two lines: when it looks, and when it has written everything. It needs the right to
open packet sockets (CAP_NET_RAW, CAP_NET_ADMIN), and the interface in its network. It sends nothing.

While it is busy the kernel holds up to `BUFFER` bytes for it. What the kernel drops beyond that is counted,
and stands in `gaps`.
"""

import contextlib
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from harness.processes.child import ChildLine
from harness.processes.clocks import ELSEWHERE, boot
from harness.processes.parent import ignore_ctrl_c, tell, until_gone
from harness.wire.packets import packet
from harness.wire.recorded import FrameRecorder, When
from history.evidence_tables import PER_RUN, Row, table

BUFFER: Final = 64 << 20
WRITTEN: Final = 20_000
"""Rows that are written at once."""
LONGEST: Final = 1 << 20
"""Of a packet. One machine's own may be longer than 64 KiB."""
CLOCK_EVERY_NS: Final = 1_000_000_000
COUNT_EVERY_NS: Final = 1_000_000_000
"""How often it is asked what was dropped, where the network is never silent."""
WAIT_S: Final = 0.1
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_STATISTICS, PACKET_MR_PROMISC = 263, 1, 6, 1
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
ETH_P_ALL: Final = 3
_TIME: Final = struct.Struct("@ll")


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at. interface: of its network. nodes: by their IPv4 addresses. brokers: port where
    brokers listen for each other; others: further ports of nodes. into: folder for the tables, made where it
    is missing. boot: of the machine whose clock the times are of.
    """

    interface: str
    nodes: dict[str, int]
    brokers: int
    others: tuple[int, ...]
    into: str
    boot: str


class CaptureLine(ChildLine, frozen=True, kw_only=True):
    """One line of standard output."""

    packets: int = 0
    """Seen so far."""
    lost: int = 0
    """Not seen, for want of time."""
    whole: bool = False
    """Everything that it saw is written."""


class Tables:
    """The files of the tables, written row group by row group."""

    def __init__(self, into: Path) -> None:
        self._writers = {
            name: pq.ParquetWriter(into / f"{name}.parquet", schema, compression="zstd")
            for name, schema in PER_RUN.items()
        }

    def write(self, name: str, rows: list[Row]) -> None:
        """Append rows, and empty the list."""
        if rows:
            self._writers[name].write_table(table(PER_RUN[name], rows))
            rows.clear()

    def close(self) -> None:
        """Finish the files."""
        for writer in self._writers.values():
            writer.close()


class PacketClock:
    """Times of packets as times of the run, in the order in which the packets are seen.

    A core takes a packet's time before it queues the packet, so two cores may queue in another order than
    that of the times. The clocks are compared again each second, and an interruption between the two looks
    makes the difference too small. Either way a time could be before the last one.
    No time is later than now, even where someone sets the clock of the machine.
    """

    def __init__(self) -> None:
        self._behind = self._last = 0
        self._compared = -CLOCK_EVERY_NS

    def when(self, wall_ns: int | None) -> When:
        """Of the next packet. wall_ns: when the kernel had it, since 1970; None = now."""
        now = time.monotonic_ns()
        if now - self._compared >= CLOCK_EVERY_NS:
            self._compared = now
            self._behind = max(time.time_ns() - time.monotonic_ns() for _ in range(3))
        if wall_ns is None:
            wall_ns = now + self._behind
        self._last = max(self._last, min(wall_ns - self._behind, now))
        return When(self._last, (self._last + self._behind) // 1_000_000)


class Eye:
    """Looks until its time has come."""

    def __init__(self, watch: Watch) -> None:
        """Raises: OSError."""
        if watch.boot != boot():
            raise OSError(ELSEWHERE)
        self._counted = time.monotonic_ns()
        self._socket = opened(watch.interface)
        Path(watch.into).mkdir(parents=True, exist_ok=True)
        nodes = {socket.inet_aton(address): node for address, node in watch.nodes.items()}
        self._recorded = FrameRecorder(nodes, watch.brokers, watch.others)
        self._tables = Tables(Path(watch.into))
        self._buffer = bytearray(LONGEST)
        self._clock = PacketClock()
        self.packets = self.lost = 0

    def look(self, ended: threading.Event) -> None:
        """Record until `ended` is set, and what the kernel holds by then."""
        view, recorded = memoryview(self._buffer), self._recorded
        self._socket.settimeout(WAIT_S)
        while True:
            over = ended.is_set()
            try:
                size, ancillary, _, _ = self._socket.recvmsg_into([self._buffer], 64)
            except TimeoutError:
                if over:
                    break
                self._count()
                continue
            self.packets += 1
            seen = packet(view[:size])
            if seen is not None:
                recorded.packet(seen, self._time(ancillary))
            if max(map(len, (recorded.rows.frames, recorded.rows.parts, recorded.rows.orders))) >= WRITTEN:
                self._write()
            elif time.monotonic_ns() - self._counted >= COUNT_EVERY_NS:
                self._count()
        self._count()
        self._write()
        self._tables.close()
        self._socket.close()

    def _time(self, ancillary: list[tuple[int, int, bytes]]) -> When:
        """When the kernel had a packet."""
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIME.unpack(data)
                return self._clock.when(int(seconds) * 1_000_000_000 + int(nanoseconds))
        return self._clock.when(None)

    def _write(self) -> None:
        self._count()
        rows = self._recorded.rows
        self._tables.write("frames", rows.frames)
        self._tables.write("frame_parts", rows.parts)
        self._tables.write("orders", rows.orders)
        self._tables.write("gaps", rows.gaps)

    def _count(self) -> None:
        """What the kernel has dropped since it was asked last: that is when packets may be missing first."""
        since, self._counted = self._counted, time.monotonic_ns()
        counted = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        _, dropped = struct.unpack("@II", counted)
        if dropped:
            self.lost += dropped
            seconds = (self._counted - since) / 1e9
            self._recorded.missed(since, f"{dropped} packets were lost within {seconds:.1f} s")


def opened(interface: str) -> socket.socket:
    """A socket that gets all packets of an interface. Raises: OSError."""
    index = socket.if_nametoindex(interface)
    made = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    try:
        made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        made.bind((interface, ETH_P_ALL))
        wanted = struct.pack("@iHH8s", index, PACKET_MR_PROMISC, 0, b"")
        made.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, wanted)
    except OSError:
        made.close()
        raise
    return made


def _await_end(ended: threading.Event) -> None:
    until_gone()
    ended.set()


def main() -> None:
    """See the module."""
    ignore_ctrl_c()
    watch = msgspec.json.decode(sys.stdin.buffer.readline(), type=Watch)
    with contextlib.suppress(BrokenPipeError):
        try:
            eye = Eye(watch)
        except OSError as error:
            tell(CaptureLine(error=str(error)))
            return
        ended = threading.Event()
        threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
        tell(CaptureLine(done=1))
        eye.look(ended)
        tell(CaptureLine(done=1, packets=eye.packets, lost=eye.lost, whole=True))


if __name__ == "__main__":
    main()
