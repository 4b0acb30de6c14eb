"""Packets of a network → rows of frames: whole, out of order, twice, and with packets missing."""

import random
import struct
import sys
import threading
import time
from collections import deque
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pyarrow.parquet as pq
import pytest
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest

from core.errors import ClusterError
from core.programs import program
from harness.processes.child import start
from harness.processes.clocks import boot
from harness.protocol.encoding import request_frame, response_frame
from harness.protocol.frames import frame, request_header
from harness.protocol.payloads import request_type, response_type
from harness.protocol.topics import in_topics
from harness.wire import capture_main
from harness.wire.capture import Capture
from harness.wire.capture_main import CaptureLine, Eye, PacketClock, Watch
from harness.wire.capture_main import __name__ as PROGRAM
from harness.wire.packets import ACK, FIN, HELD, RST, SYN, packet
from harness.wire.recorded import READ, FrameRecorder, When
from harness.wire.subjects import subjects
from history.evidence_tables import (
    ALL,
    CLIENT,
    FETCH,
    FRAME_PARTS,
    LEADER_AND_ISR,
    PER_RUN,
    PRODUCE,
    STOP_REPLICA,
    UPDATE_METADATA,
    WRITE_TXN_MARKERS,
    table,
)

BROKERS, CLIENTS = 9092, 9094
SERVER, PEER, OUTSIDE = bytes([10, 0, 0, 11]), bytes([10, 0, 0, 12]), bytes([10, 0, 0, 1])
NODES = {SERVER: 1, PEER: 2}
PORT = 40_000
SECOND = timedelta(seconds=1)
FIRST = 2**32 - 20
"""Sequence numbers begin again soon after it."""


class Wire:
    """Makes the packets of one connection, in both directions, in the order in which they are sent."""

    def __init__(self, client: bytes = OUTSIDE, port: int = CLIENTS) -> None:
        self.ends = ((client, PORT), (SERVER, port))
        self.sequence = [FIRST, FIRST + 5]
        self.packets: list[bytes] = []
        for way in (0, 1):
            self.send(way, b"", SYN)
            self.sequence[way] += 1

    def send(self, way: int, data: bytes, flags: int = ACK) -> None:
        (source, source_port), (target, target_port) = self.ends[way], self.ends[1 - way]
        ip = struct.pack(">BxHxxxxxBxx4s4s", 0x45, 40 + len(data), 6, source, target)
        acknowledged = self.sequence[1 - way] % 2**32 if flags & ACK else 0
        tcp = struct.pack(
            ">HHIIBBHHH",
            source_port,
            target_port,
            self.sequence[way] % 2**32,
            acknowledged,
            0x50,
            flags,
            0,
            0,
            0,
        )
        self.packets.append(ip + tcp + data + b"\0" * 6)  # Ethernet fills up short packets
        self.sequence[way] += len(data)

    def pieces(self, way: int, data: bytes, size: int) -> None:
        for begin in range(0, len(data), size):
            self.send(way, data[begin : begin + size])


def batch(producer_id: int, sequence: int, records: int) -> bytes:
    content = struct.pack(">iBIhiqqqhii", -1, 2, 0, 0, records - 1, 0, 0, producer_id, 3, sequence, records)
    return struct.pack(">qi", 0, len(content) + 9) + content + b"records.."


def request(correlation: int, records: bytes, acks: int = -1) -> bytes:
    topics = in_topics([(("q", 4), {"index": 4, "records": records})], "partition_data")
    values = {"acks": acks, "timeout": SECOND, "topic_data": topics}
    return request_frame(ProduceRequest, values, correlation, "test")


def response(correlation: int, offset: int) -> bytes:
    topics = in_topics([(("q", 4), {"index": 4, "base_offset": offset})], "partition_responses")
    return response_frame(ProduceResponse, {"responses": topics}, correlation)


def recorded(*wires: Wire) -> Any:
    found = FrameRecorder(NODES, BROKERS, (CLIENTS,))
    for ns, one in enumerate(each for wire in wires for each in wire.packets):
        seen = packet(one)
        assert seen is not None
        found.packet(seen, When(ns, ns + 1000))
    return found


def parts(found: Any) -> list[dict[str, Any]]:
    rows = [dict(zip(FRAME_PARTS.names, row, strict=True)) for row in found.rows.parts]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def conversation(size: int = 1000) -> Wire:
    wire = Wire()
    wire.pieces(0, request(7, batch(9, 20, 5) + batch(9, 25, 1)), size)
    wire.pieces(1, response(7, 100), size)
    wire.pieces(0, request(8, batch(9, 26, 1)), size)
    wire.pieces(1, response(8, 106), size)
    return wire


def test_a_conversation() -> None:
    found = recorded(conversation())
    assert not found.rows.gaps
    asked, told = len(request(7, batch(9, 20, 5) + batch(9, 25, 1))), len(response(7, 100))
    place = 0, CLIENT, PORT, 1, CLIENTS
    assert found.rows.frames[:2] == [
        (0, 2, 1002, *place, False, PRODUCE, 9, 7, asked),
        (1, 3, 1003, *place, True, PRODUCE, 9, 7, told),
    ]
    said = {"topic": "q", "partition": 4}
    of = {"producer_id": 9, "producer_epoch": 3, "acks": -1}
    assert parts(found)[:3] == [
        {"number": 0, **said, **of, "sequence": 20, "records": 5},
        {"number": 0, **said, **of, "sequence": 25, "records": 1},
        {"number": 1, **said, "offset": 100, "error": 0},
    ]


@pytest.mark.parametrize("seed", range(20))
def test_packets_out_of_order_and_twice_make_no_difference(seed: int) -> None:
    whole, drawn = recorded(conversation()), random.Random(seed)
    wire = conversation(size=drawn.randint(1, 60))
    for number in range(2, len(wire.packets) - 1):
        ours, next_ = (one[12:16] for one in wire.packets[number : number + 2])
        if ours == next_ and drawn.random() < 0.5:  # of one direction: no acknowledgement overtakes its bytes
            wire.packets[number : number + 2] = reversed(wire.packets[number : number + 2])
        if drawn.random() < 0.3:
            wire.packets.insert(number, wire.packets[drawn.randint(2, number)])
    found = recorded(wire)
    assert [row[8:] for row in found.rows.frames] == [row[8:] for row in whole.rows.frames]
    assert found.rows.parts == whole.rows.parts
    assert not found.rows.gaps


def test_a_packet_that_was_not_seen_is_a_gap_from_which_on_nothing_is_told() -> None:
    wire = conversation()
    del wire.packets[2]
    found = recorded(wire, Wire(PEER, BROKERS))
    assert [row[1:] for row in found.rows.gaps] == [
        (0, CLIENT, PORT, 1, CLIENTS, "bytes were confirmed that were not seen")
    ]
    assert not found.rows.frames


@pytest.mark.parametrize(
    ("unseen", "since", "why"), [(2, 0, "were confirmed"), (4, 2, "were confirmed"), (5, 3, "not seen")]
)
def test_a_gap_begins_with_what_was_seen_last_of_its_connection(unseen: int, since: int, why: str) -> None:
    """Packets 0 and 1 open it, 2 and 3 are its first exchange, 4 and 5 its second one. What is missing may
    be as old as the last byte before it, however late it is missed."""
    wire = conversation()
    if unseen == 5:  # nothing confirms it, and much that is behind it is held
        wire.pieces(1, bytes(HELD + 60_000), 60_000)
    del wire.packets[unseen]
    found = recorded(wire)
    assert [row[0] for row in found.rows.gaps] == [since]
    assert why in found.rows.gaps[0][-1]


def test_a_connection_whose_beginning_was_not_seen_is_a_gap_of_the_whole_capture() -> None:
    wire = conversation()
    del wire.packets[:2]
    found = recorded(Wire(PEER, BROKERS), wire)
    assert [(row[0], row[-1]) for row in found.rows.gaps] == [(0, "its beginning was not seen")]
    assert not found.rows.frames


def test_a_port_that_is_used_again_is_another_connection() -> None:
    first, second = conversation(), conversation()
    first.send(0, b"", FIN | ACK)
    found = recorded(first, second)
    assert [row[-2] for row in found.rows.frames] == [7, 7, 8, 8] * 2
    assert [row[3] for row in found.rows.frames] == [0] * 4 + [1] * 4
    assert not found.rows.gaps
    first.send(1, b"", RST)
    first.send(0, b"what is sent again after the end")
    assert not recorded(first).rows.gaps


def test_bytes_that_are_not_kafkas_protocol_are_a_gap() -> None:
    wire = Wire()
    wire.send(0, b"GET / HTTP/1.1\r\n\r\n")
    assert "a frame of" in recorded(wire).rows.gaps[0][-1]
    short = Wire()
    short.send(0, frame(b"no"))
    assert "a request of 2 bytes" in recorded(short).rows.gaps[0][-1]
    damaged = Wire()
    damaged.send(0, request(1, batch(1, 0, 1)[:30]))
    damaged.send(0, request(2, batch(1, 0, 1)))
    found = recorded(damaged)
    assert [row[-1] for row in found.rows.gaps] == ["a batch is shorter than its header"]
    assert [row["number"] for row in parts(found)] == [1]


def test_memory_is_bounded() -> None:
    """By a large frame, which is not held, and by bytes that wait for one that never comes."""
    wire = Wire()
    wire.pieces(0, request(1, bytes(READ)), 60_000)
    wire.pieces(0, request(2, batch(1, 0, 1)), 60_000)
    found = recorded(wire)
    assert [row[-2] for row in found.rows.frames] == [1, 2]
    assert found.rows.frames[0][-1] > READ
    assert "was not read" in found.rows.gaps[0][-1]
    wire = Wire()
    wire.pieces(0, frame(bytes(HELD + 200_000)), 60_000)
    del wire.packets[2]
    found = recorded(wire)
    assert [row[-1] for row in found.rows.gaps] == ["bytes were not seen"]


def test_an_answer_without_a_request_and_one_that_comes_twice() -> None:
    wire = conversation()
    wire.send(1, response(8, 1))
    last = recorded(wire).rows.frames[-1]
    assert last[8:12] == (True, -1, -1, 8)


def fetched(replica: int) -> bytes:
    part = {"partition": 1, "current_leader_epoch": 6, "fetch_offset": 50, "partition_max_bytes": 1}
    topic = {"topic_id": UUID(int=1), "partitions": [part]}
    values = {"replica_state": {"replica_id": replica}, "max_wait": SECOND, "topics": [topic]}
    return request_frame(FetchRequest, values, 1, "follower")


def test_what_nodes_say_to_each_other() -> None:
    wire = Wire(PEER, BROKERS)
    wire.send(0, fetched(2))
    wire.send(0, fetched(-1))
    marker = {
        "producer_id": 9,
        "producer_epoch": 1,
        "transaction_result": True,
        "topics": [{"name": "q", "partition_indexes": [0, 3]}],
        "coordinator_epoch": 8,
        "transaction_version": 2,
    }
    sent = request_frame(WriteTxnMarkersRequest, {"markers": [marker]}, 2, "coordinator")
    assert str(subjects(sent, request_header(sent))) == "producer 9/1, q-0, q-3"
    wire.send(0, sent)
    found = recorded(wire)
    assert [row[4] for row in found.rows.frames] == [2, 2, 2]
    assert [row[9] for row in found.rows.frames] == [FETCH, FETCH, WRITE_TXN_MARKERS]
    said = {"topic": "q", "producer_id": 9, "producer_epoch": 1, "commit": True, "coordinator_epoch": 8}
    rows = parts(found)
    assert [row.pop("topic_id", "") for row in rows[:1]] == ["A" * 21 + "Q"]
    assert rows == [
        {"number": 0, "partition": 1, "offset": 50, "leader_epoch": 6},
        {"number": 2, "partition": 0, **said},
        {"number": 2, "partition": 3, **said},
    ]
    assert not found.rows.gaps


@pytest.mark.parametrize("version", range(8))
def test_what_a_controller_tells_a_broker(version: int) -> None:
    """LeaderAndIsr in all its versions, and what it is answered."""
    state = {"name": "q", "partition_index": 3, "leader": 1, "leader_epoch": 6, "isr": [1, 2]}
    topic = {"name": "q", "topic_id": UUID(int=1), "partitions": [state]}
    ruler = {"controller_id": 2, "controller_epoch": 5, "broker_epoch": 77}
    errors = [{"name": "q", "partition_index": 3, "error_code": 9}]
    told = {"error_code": 11, "ungrouped": errors, "topics": [topic | {"partitions": errors}]}
    wire = Wire(PEER, BROKERS)
    wire.pieces(0, ruling(LEADER_AND_ISR, version, ruler | {"ungrouped": [state], "topics": [topic]}), 30)
    wire.pieces(1, answering(LEADER_AND_ISR, version, told), 9)
    found = recorded(wire)
    assert (found.rows.gaps, found.rows.parts) == ([], [])
    whole = ruler if version >= 2 else ruler | {"broker_epoch": None}
    by_id = version >= 5
    of_answer = {"topic_id": "A" * 21 + "Q"} if by_id else {"topic": "q"}
    assert ordered(found) == [
        {"number": 0, "partition": -1, **said(whole)},
        {"number": 0, "topic": "q", "partition": 3, "leader": 1, "leader_epoch": 6, "isr": (1, 2)},
        {"number": 1, "partition": -1, "error": 11},
        {"number": 1, **of_answer, "partition": 3, "error": 9},
    ]


def said(ruler: dict[str, Any]) -> dict[str, Any]:
    names = {"controller_id": "controller"}
    return {names.get(name, name): value for name, value in ruler.items() if value is not None}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_controller_stops_replicas(version: int) -> None:
    part = {"name": "q", "partition_index": 3, "leader_epoch": 6}
    topics = [{"name": "q", "numbers": [3], "partitions": [part]}]
    ruler = {"controller_id": 2, "controller_epoch": 5, "broker_epoch": 77}
    wire = Wire(PEER, BROKERS)
    wire.send(0, ruling(STOP_REPLICA, version, ruler | {"ungrouped": [part], "topics": topics}))
    wire.send(1, answering(STOP_REPLICA, version, {"error_code": 0, "ungrouped": [part | {"error_code": 0}]}))
    found = recorded(wire)
    assert found.rows.gaps == []
    epoch = {"leader_epoch": 6} if version >= 3 else {}
    assert ordered(found) == [
        {"number": 0, "partition": -1, **said(ruler if version else ruler | {"broker_epoch": None})},
        {"number": 0, "topic": "q", "partition": 3, **epoch},
        {"number": 1, "partition": -1, "error": 0},
        {"number": 1, "topic": "q", "partition": 3, "error": 0},
    ]


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7, 8])
def test_a_controller_tells_brokers_of_each_other(version: int) -> None:
    state = {"name": "q", "partition_index": 3, "leader": -2, "leader_epoch": 6, "isr": []}
    topics = [{"name": "q", "partitions": [state]}]
    broker = {"broker_id": 1, "endpoints": [{"port": 9, "host": "h", "listener": "L"}], "rack": None}
    values = {"controller_id": 2, "controller_epoch": 5, "type": 2, "brokers": [broker]}
    wire = Wire(PEER, BROKERS)
    wire.send(0, ruling(UPDATE_METADATA, version, values | {"ungrouped": [state], "topics": topics}))
    wire.send(1, answering(UPDATE_METADATA, version, {"error_code": 11}))
    found = recorded(wire, Wire())
    assert found.rows.gaps == []
    epoch = {"broker_epoch": -1} if version >= 5 else {}
    assert ordered(found) == [
        {"number": 0, "partition": -1, "controller": 2, "controller_epoch": 5, **epoch},
        {"number": 0, "topic": "q", "partition": 3, "leader": -2, "leader_epoch": 6, "isr": ()},
        {"number": 1, "partition": -1, "error": 11},
    ]
    made = table(PER_RUN["orders"], found.rows.orders).to_pylist()
    assert [row["isr"] for row in made] == [None, [], None]


def ruling(api: int, version: int, values: dict[str, Any]) -> bytes:
    kind = request_type(api, version)
    assert kind is not None
    return request_frame(kind, values, 7, "controller")


def answering(api: int, version: int, values: dict[str, Any]) -> bytes:
    kind = response_type(api, version)
    assert kind is not None
    return response_frame(kind, values, 7)


def ordered(found: Any) -> list[dict[str, Any]]:
    rows = [dict(zip(PER_RUN["orders"].names, row, strict=True)) for row in found.rows.orders]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_what_is_no_packet_of_tcp_is_passed_over() -> None:
    whole = conversation().packets[2]
    assert packet(whole) is not None
    for end in range(40):
        assert packet(whole[:end]) is None
    assert packet(b"\x60" + whole[1:]) is None
    assert all(packet(one) for one, _ in pairwise(conversation().packets))


class FakeSocket:
    """Gives packets as they are listed; None = nothing comes for a while, a number = so many were dropped,
    and something comes."""

    def __init__(self, steps: list[bytes | int | None], ended: threading.Event) -> None:
        self.steps, self.ended, self.dropped = deque(steps), ended, 0

    def settimeout(self, seconds: float) -> None:
        pass

    def recvmsg_into(self, buffers: list[bytearray], _: int) -> tuple[int, list[Any], int, None]:
        step = self.steps.popleft() if self.steps else None
        if not self.steps:
            self.ended.set()
        if isinstance(step, int):
            self.dropped += step
            step = b"no packet of TCP"
        if step is None:
            raise TimeoutError
        buffers[0][: len(step)] = step
        return len(step), [], 0, None

    def getsockopt(self, *_: int) -> bytes:
        dropped, self.dropped = self.dropped, 0
        return struct.pack("@II", 0, dropped)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("busy", [False, True])
def test_what_the_kernel_dropped_may_be_missing_since_it_was_asked_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    """Between two looks an act may rest on what was dropped. busy: the network is never silent."""
    ended = threading.Event()
    monkeypatch.setattr(capture_main, "COUNT_EVERY_NS", 0 if busy else 10**15)
    opening, answer, asked, acted, rest = (conversation().packets[at] for at in (0, 1, 2, 3, 4))
    quiet: list[bytes | int | None] = [] if busy else [None]
    steps = [opening, answer, asked, *quiet, 17, acted, *quiet, rest, *quiet]
    fake = FakeSocket(steps, ended)
    monkeypatch.setattr(capture_main, "opened", lambda _: fake)
    nodes = {".".join(map(str, address)): node for address, node in NODES.items()}
    into = str(tmp_path / "captured")
    eye = Eye(Watch(interface="x", nodes=nodes, brokers=BROKERS, others=(CLIENTS,), into=into, boot=boot()))
    eye.look(ended)
    frames, gaps = (pq.read_table(f"{into}/{name}.parquet").to_pylist() for name in ("frames", "gaps"))
    before, act, after = (row["at_ns"] for row in frames)
    ((since, why),) = ((row["at_ns"], row["why"]) for row in gaps)
    assert before <= since <= act <= after
    assert (eye.lost, why) == (17, "17 packets were lost within 0.0 s")
    assert {row["connection"] for row in gaps} == {ALL}


def test_times_of_packets_never_go_back() -> None:
    """Two cores queue packets in another order than that of their times."""
    clock, wall = PacketClock(), time.time_ns() - 10**9
    first, earlier, later = (clock.when(wall + ahead) for ahead in (5_000, 4_000, 7_000))
    assert earlier == first
    assert later.ns == first.ns + 2_000
    assert later.ms == (wall + 7_000) // 1_000_000
    assert abs(time.monotonic_ns() - 10**9 - first.ns) < 10**9


def test_no_time_of_a_packet_is_later_than_now() -> None:
    clock = PacketClock()
    assert clock.when(time.time_ns() + 3600 * 10**9).ns <= time.monotonic_ns()
    before = time.monotonic_ns()
    assert before <= clock.when(None).ns <= time.monotonic_ns()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("its", "says"), [(boot(), "No such device|no interface"), ("another", "runs on another machine")]
)
def test_where_it_cannot_look_an_error_says_why(tmp_path: Path, its: str, says: str) -> None:
    into = tmp_path / "captured"
    watch = Watch(interface="br-none", nodes={}, brokers=BROKERS, others=(), into=str(into), boot=its)
    child = start(program(PROGRAM))
    with pytest.raises(ClusterError, match=f"messages cannot be captured: .*({says})"):
        Capture(watch, child, lambda _: None)
    assert child.wait() == 0
    assert not into.exists()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("copied", [[*PER_RUN], [*PER_RUN][:2]])
def test_tables_that_cannot_all_be_brought_are_not_brought_at_all(tmp_path: Path, copied: list[str]) -> None:
    """The logs are judged without them then; with a part of them nothing would be."""
    told = [CaptureLine(done=1), CaptureLine(done=1, whole=True)]
    first, last = (msgspec.json.encode(line).decode() for line in told)
    code = f"import sys; input(); print({first!r}, flush=True); sys.stdin.read(); print({last!r})"
    watch = Watch(interface="x", nodes={}, brokers=BROKERS, others=(), into="", boot=boot())
    evidence, copies = tmp_path / "evidence", tmp_path / "copies"
    evidence.mkdir()

    def copy(into: Path) -> None:
        into.mkdir()
        for name in copied:
            (into / f"{name}.parquet").touch()

    why = Capture(watch, start([sys.executable, "-c", code]), copy).finish(evidence, copies)
    whole = len(copied) == len(PER_RUN)
    assert bool(why) is not whole
    assert {path.stem for path in evidence.iterdir()} == ({*PER_RUN} if whole else set())
    assert not copies.exists()
