"""Committed offsets by hand: one request at a time, to a chosen broker, as a group without members."""

import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v7.response import OffsetCommitResponse
from kio.schema.offset_fetch.v5.response import OffsetFetchResponse

from core.op import TopicPartition
from harness.brokers.admin.connection import AdminError, Brokers, check
from harness.processes.waiting import NotYet, until
from harness.protocol.encoding import Values, request_frame
from harness.protocol.payloads import request_type
from harness.protocol.topics import Place, in_topics, numbers_in_topics

ANSWER_S: Final = 40.0
READERS: Final = 40
WIDTH: Final = 150_000
"""Partitions of one slow read: a coordinator of the size of the stage takes about 0.1 s for it."""
BUSY_S: Final = 2.5
"""A coordinator is busy when a read of one offset takes so long."""
WATCH_S: Final = 20.0


def commit(brokers: Brokers, node: int, group: str, tp: TopicPartition, offset: int) -> ErrorCode:
    """OffsetCommit. Raises: AdminError."""
    part = {"partition_index": tp.partition, "committed_offset": offset, "committed_metadata": ""}
    with brokers.connect(node, ANSWER_S) as connection:
        answer = connection.call(
            OffsetCommitResponse, group_id=group, member_id="", topics=in_topics([(tp, part)])
        )
    return answer.topics[0].partitions[0].error_code


def fill(brokers: Brokers, node: int, group: str, tps: Sequence[TopicPartition], times: int) -> None:
    """Commit an offset of each partition, `times` times: the next coordinator of the group has that to load.

    Raises: AdminError.
    """
    part = {"committed_offset": 0, "committed_metadata": ""}
    topics = in_topics((tp, {"partition_index": tp.partition, **part}) for tp in tps)
    with brokers.connect(node, ANSWER_S) as connection:
        for _ in range(times):
            answer = connection.call(OffsetCommitResponse, group_id=group, member_id="", topics=topics)
            check("OffsetCommit", answer.topics[0].partitions[0].error_code)


def committed(brokers: Brokers, node: int, group: str, tp: TopicPartition) -> int:
    """OffsetFetch; -1 = none. Raises: AdminError."""
    with brokers.connect(node, ANSWER_S) as connection:
        answer = connection.call(OffsetFetchResponse, **_read(group, [tp]))
    check("OffsetFetch", answer.error_code)
    found = answer.topics[0].partitions[0]
    check("OffsetFetch", found.error_code)
    return int(found.committed_offset)


@contextmanager
def busy(brokers: Brokers, node: int, group: str) -> Iterator[None]:
    """Inside the block the coordinator of a group has slow reads to do, one after the other: what comes later
    in that partition of `__consumer_offsets` waits for seconds.

    Raises: AdminError, where the coordinator cannot be reached; NotYet, where it does not become busy.
    """
    kind = request_type(OffsetFetchResponse.__api_key__, OffsetFetchResponse.__version__)
    assert kind is not None
    slow = _read(group, (("unknown", number) for number in range(WIDTH)))
    frame = request_frame(kind, slow, 1, "inquest")
    address = brokers.addresses[node]
    over = threading.Event()

    def reader(connection: socket.socket) -> None:
        try:
            while not over.is_set():
                connection.sendall(frame)
                left = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
                while left:
                    left -= len(connection.recv(min(left, 1 << 16))) or left
        except (OSError, struct.error):
            return  # the broker hung up, or the block has ended

    with ExitStack() as opened:
        opened.callback(over.set)
        for _ in range(READERS):
            try:
                connection = socket.create_connection((address.host, address.port), ANSWER_S)
            except OSError as error:
                raise AdminError(f"{address}: {error}") from error
            opened.enter_context(closing(connection))
            threading.Thread(target=reader, args=(connection,), daemon=True).start()

        def waits() -> None:
            began = time.monotonic()
            committed(brokers, node, group, TopicPartition("unknown", 0))
            if time.monotonic() - began < BUSY_S:
                raise NotYet(f"broker {node} does not become busy")

        until(WATCH_S, 0.0, waits)
        yield


def _read(group: str, places: Iterable[Place]) -> Values:
    """The values of OffsetFetch."""
    return {"group_id": group, "topics": numbers_in_topics(places, "partition_indexes")}
