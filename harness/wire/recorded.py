"""Frames that were seen on a network, as rows of evidence (`history.evidence`: `FRAMES`, `FRAME_PARTS`,
`ORDERS`, `GAPS`).

Memory is bounded: of a frame that no row describes further only the header is kept while it passes.
"""

import base64
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from harness.protocol.batches import HEADER, MAGIC, PREFIX
from harness.protocol.frames import LIMIT, SIZE, FrameError, correlation_id, fetching_replica, request_header
from harness.protocol.payloads import Message, decode_request, decode_response, request_type, response_type
from harness.wire import packets
from harness.wire.packets import Packet, Stream
from history.evidence_tables import (
    ALL,
    CLIENT,
    END_TXN,
    FETCH,
    LEADER_AND_ISR,
    PRODUCE,
    STOP_REPLICA,
    UPDATE_METADATA,
    WRITE_TXN_MARKERS,
    Row,
    frame_part,
    order,
)

READ: Final = 4 << 20
"""Most bytes of a frame whose content is read."""
ORDERING: Final = frozenset({LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA})
"""APIs by which a controller rules brokers."""
ANSWERED: Final = ORDERING | {PRODUCE, END_TXN}
"""APIs whose answers are read."""
HEAD: Final = SIZE + 8
"""Bytes by which a frame tells what it is."""
UNANSWERED: Final = 4096
"""Requests of one connection that wait for an answer; a client has five in flight, or a few more."""
_HEAD: Final = struct.Struct(">ihhi")


class When(NamedTuple):
    """When a packet was seen: time of the run, and ms since 1970."""

    ns: int
    ms: int


class AwaitedAnswer(NamedTuple):
    """A request that waits for its answer."""

    correlation_id: int
    api: int
    version: int


class Whole(NamedTuple):
    """A frame that has passed. content: with its size; its first HEAD bytes alone, where it was not read."""

    size: int
    content: bytes


class Passing:
    """Cuts one direction of a connection into frames.

    reads: whether a frame is to be read, by its first HEAD bytes.
    """

    def __init__(self, reads: Callable[[bytes], bool]) -> None:
        self._reads = reads
        self._held = bytearray()
        self._skipped = self._left = 0
        self._head = b""

    def feed(self, data: bytes) -> Iterator[Whole]:
        """The frames that these bytes complete. Raises: FrameError."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                if not self._left:
                    yield Whole(self._skipped, self._head)
                continue
            wanted = self._wanted()
            step = min(wanted - len(self._held), len(data) - at)
            self._held += data[at : at + step]
            at += step
            yield from self._completed()

    def _wanted(self) -> int:
        """How many bytes to hold next: the size, the head, or the frame."""
        held = self._held
        if len(held) < SIZE:
            return SIZE
        size = SIZE + int.from_bytes(held[:SIZE], signed=True)
        if not SIZE <= size <= SIZE + LIMIT:
            raise FrameError(f"a frame of {size - SIZE} bytes")
        return min(HEAD, size) if len(held) < HEAD else size

    def _completed(self) -> Iterator[Whole]:
        held = self._held
        if len(held) < SIZE:
            return
        size = SIZE + int.from_bytes(held[:SIZE], signed=True)
        if len(held) == size:
            yield Whole(size, bytes(held))
            held.clear()
        elif len(held) == HEAD and (size > READ or not self._reads(bytes(held))):
            self._head, self._skipped, self._left = bytes(held), size, size - HEAD
            held.clear()


@dataclass(slots=True)
class CapturedConnection:
    """A connection between a client and a node. number: in the run. whole: of each direction, until when
    nothing of it is missing. asked: requests without an answer, the oldest first."""

    number: int
    client: int
    client_port: int
    server: int
    server_port: int
    streams: list[Stream | None]
    passing: list[Passing]
    whole: list[int]
    asked: deque[AwaitedAnswer] = field(default_factory=lambda: deque(maxlen=UNANSWERED))
    ended: bool = False

    @property
    def place(self) -> tuple[int, int, int, int, int]:
        """The columns that describe it."""
        return self.number, self.client, self.client_port, self.server, self.server_port


@dataclass(slots=True, kw_only=True)
class FrameRows:
    """Rows of the tables that were not written yet."""

    frames: list[Row] = field(default_factory=list)
    parts: list[Row] = field(default_factory=list)
    orders: list[Row] = field(default_factory=list)
    gaps: list[Row] = field(default_factory=list)


class FrameRecorder:
    """Takes packets in the order in which they were seen; `rows` grows."""

    def __init__(self, nodes: Mapping[bytes, int], brokers: int, others: tuple[int, ...]) -> None:
        """nodes: by their IPv4 addresses. brokers: port where brokers listen for each other; others: further
        ports of nodes."""
        self._nodes = dict(nodes)
        self._brokers = brokers
        self._ports = frozenset({brokers, *others})
        self._connections: dict[tuple[bytes, int, bytes, int], CapturedConnection] = {}
        self._number = self._opened_ones = 0
        self._began: int | None = None
        self.rows = FrameRows()

    def packet(self, one: Packet, when: When) -> None:
        """A packet that was seen."""
        self._began = when.ns if self._began is None else self._began
        from_server = packets.server_first(one, self._ports)
        if from_server is None:
            return
        if from_server:
            key = (one.target, one.target_port, one.source, one.source_port)
        else:
            key = (one.source, one.source_port, one.target, one.target_port)
        connection = self._connections.get(key)
        if connection is None or (one.flags & packets.SYN and not from_server):
            if key[2] not in self._nodes or not (one.data or one.flags & packets.SYN):
                return
            connection = self._opened(connection, key, one, when.ns)
        way = int(from_server)
        if one.flags & packets.SYN:
            if connection.streams[way] is None:
                connection.streams[way] = Stream((one.sequence + 1) % (1 << 32))
        elif not connection.ended:
            self._passed(connection, way, one, when)
        if one.flags & packets.RST:
            connection.ended = True

    def missed(self, since: int, why: str) -> None:
        """From this time on anything may be missing."""
        self.rows.gaps.append((since, ALL, CLIENT, 0, CLIENT, 0, why))

    def _opened(
        self, before: CapturedConnection | None, key: tuple[bytes, int, bytes, int], one: Packet, ns: int
    ) -> CapturedConnection:
        """The new connection of a key; the packet may be the same one as before, sent again."""
        opening = bool(one.flags & packets.SYN)
        first = (one.sequence + 1) % (1 << 32)
        if before is not None and (known := before.streams[0]) and known.next == first:
            return before
        reads, number = self._reads_of(key[3]), self._opened_ones
        self._opened_ones += 1
        place = number, self._nodes.get(key[0], CLIENT), key[1], self._nodes[key[2]], key[3]
        # What was sent before it was seen may be as old as what was seen first.
        since = ns if opening or self._began is None else self._began
        made = CapturedConnection(*place, [None, None], [], [since, since])
        made.passing = [Passing(reads), Passing(lambda head: self._reads_answer(made, head))]
        self._connections[key] = made
        if not opening:
            self._lose(made, "its beginning was not seen")
        return made

    def _passed(self, connection: CapturedConnection, way: int, one: Packet, when: When) -> None:
        """Bytes of one direction, and what they confirm of the other."""
        stream, other = connection.streams[way], connection.streams[1 - way]
        if one.flags & packets.ACK and other is not None and other.confirmed(one.acknowledged):
            self._lose(connection, "bytes were confirmed that were not seen")
            return
        if stream is None:
            if one.data:
                self._lose(connection, "its beginning was not seen")
            return
        data = stream.feed(one.sequence, one.data)
        if stream.lost:
            self._lose(connection, "bytes were not seen")
            return
        try:
            for whole in connection.passing[way].feed(data):
                (self._answer if way else self._request)(connection, whole, when)
        except FrameError as error:
            self._lose(connection, str(error))
        else:
            if data:
                connection.whole[way] = when.ns

    def _lose(self, connection: CapturedConnection, why: str) -> None:
        """Nothing more is known of a connection, and nothing of what came after its last bytes."""
        connection.ended = True
        connection.streams, connection.passing = [None, None], []
        self.rows.gaps.append((min(connection.whole), *connection.place, why))

    # ---- frames

    def _reads_of(self, port: int) -> Callable[[bytes], bool]:
        wanted = {PRODUCE, END_TXN} if port != self._brokers else {FETCH, WRITE_TXN_MARKERS} | ORDERING

        def reads(head: bytes) -> bool:
            return _HEAD.unpack_from(head)[1] in wanted

        return reads

    @staticmethod
    def _reads_answer(connection: CapturedConnection, head: bytes) -> bool:
        asked = _asked(connection, correlation_id(head))
        return asked is not None and asked.api in ANSWERED

    def _request(self, connection: CapturedConnection, whole: Whole, when: When) -> None:
        if len(whole.content) < HEAD:
            raise FrameError(f"a request of {whole.size - SIZE} bytes")
        _, api, version, correlation = _HEAD.unpack_from(whole.content)
        connection.asked.append(AwaitedAnswer(correlation, api, version))
        number = self._frame(connection, when, (False, api, version, correlation, whole.size))
        if self._reads_of(connection.server_port)(whole.content[:HEAD]):
            self._read(connection, when.ns, whole, api, partial(_parts_of_request, number, api, version))

    def _answer(self, connection: CapturedConnection, whole: Whole, when: When) -> None:
        correlation = correlation_id(whole.content)
        asked = _asked(connection, correlation)
        if asked is None:
            self._frame(connection, when, (True, -1, -1, correlation, whole.size))
            return
        connection.asked.remove(asked)
        _, api, version = asked
        number = self._frame(connection, when, (True, api, version, correlation, whole.size))
        if api in ANSWERED:
            self._read(connection, when.ns, whole, api, partial(_parts_of_answer, number, api, version))

    def _frame(
        self, connection: CapturedConnection, when: When, said: tuple[bool, int, int, int, int]
    ) -> int:
        number = self._number
        self._number += 1
        self.rows.frames.append((number, *when, *connection.place, *said))
        return number

    def _read(
        self,
        connection: CapturedConnection,
        ns: int,
        whole: Whole,
        api: int,
        read: Callable[[bytes], Iterator[Row]],
    ) -> None:
        """The parts of a frame; what cannot be read is a gap."""
        try:
            if len(whole.content) < whole.size:
                raise FrameError(f"a frame of {whole.size} bytes was not read")
            (self.rows.orders if api in ORDERING else self.rows.parts).extend(read(whole.content))
        except FrameError as error:
            self.rows.gaps.append((ns, *connection.place, str(error)))


def _asked(connection: CapturedConnection, correlation: int) -> AwaitedAnswer | None:
    return next((one for one in connection.asked if one.correlation_id == correlation), None)


def _parts_of_request(number: int, api: int, version: int, content: bytes) -> Iterator[Row]:
    """Raises: FrameError."""
    kind = request_type(api, version)
    if kind is None:
        raise FrameError(f"API {api} has no version {version} here")
    if api == FETCH and version < 15 and fetching_replica(content, request_header(content)) < 0:
        return iter(())
    request: object = decode_request(content, kind)
    return _READERS[api](number, request)


def _topic(topic: object) -> tuple[str | None, str | None]:
    """Name, or id as Kafka writes it."""
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    found = getattr(topic, "topic_id", None)
    if name or found is None:
        return name, None
    return None, base64.urlsafe_b64encode(found.bytes).decode().rstrip("=")


def _fetched(number: int, request: Message) -> Iterator[Row]:
    state = getattr(request, "replica_state", None)
    if (state.replica_id if state is not None else request.replica_id) < 0:
        return
    for topic in request.topics:
        name = _topic(topic)
        for part in topic.partitions:
            epoch = getattr(part, "current_leader_epoch", -1)
            yield frame_part(number, name, part.partition, offset=part.fetch_offset, leader_epoch=epoch)


def _produced(number: int, request: Message) -> Iterator[Row]:
    for topic in request.topic_data:
        name = _topic(topic)
        for part in topic.partition_data:
            for producer_id, epoch, sequence, records in _batches(part.records or b""):
                yield frame_part(
                    number,
                    name,
                    part.index,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    sequence=sequence,
                    records=records,
                    acks=request.acks,
                )


def _batches(records: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Producer id, producer epoch, base sequence, number of records of each batch. Raises: FrameError."""
    at = 0
    while at < len(records):
        if len(records) - at < HEADER.size:
            raise FrameError("a batch is shorter than its header")
        header = HEADER.unpack_from(records, at)
        if header[3] != MAGIC or header[1] < HEADER.size - PREFIX:
            raise FrameError(f"a batch of version {header[3]} and {header[1]} bytes")
        yield header[9], header[10], header[11], header[12]
        at += PREFIX + header[1]


def _marked(number: int, request: Message) -> Iterator[Row]:
    for marker in request.markers:
        for topic in marker.topics:
            for partition in topic.partition_indexes:
                yield frame_part(
                    number,
                    _topic(topic),
                    partition,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    commit=marker.transaction_result,
                    coordinator_epoch=marker.coordinator_epoch,
                )


def _ended(number: int, request: Message) -> Iterator[Row]:
    yield frame_part(
        number,
        (None, None),
        -1,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        commit=request.committed,
    )


def _ordered(number: int, request: Message) -> Iterator[Row]:
    yield order(
        number,
        controller=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=getattr(request, "broker_epoch", None),
    )
    for (name, topic_id), partition, part in _ordered_partitions(request):
        said = {one: getattr(part, one, None) for one in ("leader", "leader_epoch", "isr")}
        yield order(number, partition, topic=name, topic_id=topic_id, **said)


def _ordered_partitions(message: Message) -> Iterator[tuple[tuple[str | None, str | None], int, Message]]:
    """Topic, number, and what is said of each partition: first they stood one by one, later by topic."""
    for part in getattr(message, "ungrouped", ()):
        yield _topic(part), part.partition_index, part
    for topic in getattr(message, "topics", ()):
        for number in getattr(topic, "numbers", ()):
            yield _topic(topic), number, None
        for part in getattr(topic, "partitions", ()):
            yield _topic(topic), part.partition_index, part


def _parts_of_answer(number: int, api: int, version: int, content: bytes) -> Iterator[Row]:
    """Of an answer to one of `ANSWERED`. Raises: FrameError."""
    kind = response_type(api, version)
    if kind is None:
        raise FrameError(f"API {api} has no version {version} here")
    response: Message = decode_response(content, kind)
    if api in ORDERING:
        yield order(number, error=int(response.error_code))
        for topic, partition, part in _ordered_partitions(response):
            name, topic_id = topic
            yield order(number, partition, topic=name, topic_id=topic_id, error=int(part.error_code))
        return
    if api == END_TXN:
        yield frame_part(number, (None, None), -1, error=int(response.error_code))
        return
    for topic in response.responses:
        for part in topic.partition_responses:
            error, offset = int(part.error_code), part.base_offset
            yield frame_part(number, _topic(topic), part.index, error=error, offset=offset)


_READERS: Final[dict[int, Callable[[int, object], Iterator[Row]]]] = {
    PRODUCE: _produced,
    FETCH: _fetched,
    END_TXN: _ended,
    WRITE_TXN_MARKERS: _marked,
    LEADER_AND_ISR: _ordered,
    STOP_REPLICA: _ordered,
    UPDATE_METADATA: _ordered,
}
