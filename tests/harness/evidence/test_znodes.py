"""The log of ZooKeeper, byte by byte: changes of Kafka's znodes, and what is left out."""

import struct
from collections.abc import Sequence
from pathlib import Path
from zlib import adler32

import pytest

from harness.evidence.damage import Damages
from harness.evidence.znodes import read

CREATE, DELETE, SET, MULTI, CREATE_SESSION, CLOSE_SESSION, ERROR = 1, 2, 5, 14, -10, -11, -1
Txn = tuple[int, bytes]
"""Its type, and what follows the header."""


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def create(path: str, data: str = "", *, ephemeral: bool = False) -> Txn:
    acl = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    return CREATE, text(path) + text(data) + acl + struct.pack(">?i", ephemeral, 1)


def put(path: str, data: str, version: int) -> Txn:
    return SET, text(path) + text(data) + struct.pack(">i", version)


def delete(path: str) -> Txn:
    return DELETE, text(path)


def multi(*parts: Txn) -> Txn:
    packed = b"".join(struct.pack(">ii", kind, len(body)) + body for kind, body in parts)
    return MULTI, struct.pack(">i", len(parts)) + packed


def entry(zxid: int, session: int, txn: Txn) -> bytes:
    kind, body = txn
    whole = struct.pack(">qiqqi", session, 0, zxid, 1000 + zxid, kind) + body
    return struct.pack(">qi", adler32(whole), len(whole)) + whole + b"B"


def written(folder: Path, first: int, entries: Sequence[bytes], name: str = "") -> Path:
    path = folder / "version-2" / (name or f"log.{first:x}")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"ZKLG" + struct.pack(">iq", 2, 0) + b"".join(entries) + bytes(100))
    return path


def rows(folder: Path) -> list[tuple[object, ...]]:
    damages = Damages()
    found = read(folder, damages)
    assert not len(damages)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_changes_have_their_session_version_and_data(tmp_path: Path) -> None:
    state = "/brokers/topics/t/partitions/0/state"
    txns = [create("/brokers"), create(state, "{}"), put(state, '{"leader":2}', 1), delete(state)]
    written(tmp_path, 1, [entry(at, 7, txn) for at, txn in enumerate(txns, 1)])
    assert rows(tmp_path) == [
        (1, 1001, 7, "create", "/brokers", 0, 0, ""),
        (2, 1002, 7, "create", state, 0, 0, "{}"),
        (3, 1003, 7, "set", state, 1, None, '{"leader":2}'),
        (4, 1004, 7, "delete", state, None, None, None),
    ]


def test_a_request_of_several_changes_is_one_and_one_that_failed_is_none(tmp_path: Path) -> None:
    both = multi(create("/controller", "{}", ephemeral=True), put("/controller_epoch", "4", 3))
    failed = multi((ERROR, struct.pack(">i", -2)), (ERROR, struct.pack(">i", 0)))
    written(tmp_path, 1, [entry(1, 7, both), entry(2, 8, failed)])
    assert [row[:5] for row in rows(tmp_path)] == [
        (1, 1001, 7, "create", "/controller"),
        (1, 1001, 7, "set", "/controller_epoch"),
    ]


@pytest.mark.parametrize("names", [b"", struct.pack(">i", 1) + text("/brokers/ids/1")])
def test_ephemeral_znodes_go_with_their_session(tmp_path: Path, names: bytes) -> None:
    """From 3.6 on the end of a session names them."""
    txns = [
        (7, (CREATE_SESSION, struct.pack(">i", 3000))),
        (7, create("/brokers/ids/1", "{}", ephemeral=True)),
        (7, create("/brokers/ids/2", "{}", ephemeral=True)),
        (8, delete("/brokers/ids/2")),
        (8, create("/brokers/ids/3", "{}", ephemeral=True)),
        (7, (CLOSE_SESSION, names)),
    ]
    written(tmp_path, 1, [entry(at, session, txn) for at, (session, txn) in enumerate(txns, 1)])
    assert [(row[0], row[2], row[3], row[4], row[6]) for row in rows(tmp_path)] == [
        (2, 7, "create", "/brokers/ids/1", 7),
        (3, 7, "create", "/brokers/ids/2", 7),
        (4, 8, "delete", "/brokers/ids/2", None),
        (5, 8, "create", "/brokers/ids/3", 8),
        (6, 7, "delete", "/brokers/ids/1", None),
    ]


def test_what_may_be_secret_and_what_is_not_kafkas_is_left_out(tmp_path: Path) -> None:
    paths = ["/config/users/alice", "/config/topics/t", "/brokersandmore", "/zookeeper/quota"]
    written(tmp_path, 1, [entry(at, 7, create(path, "x")) for at, path in enumerate(paths, 1)])
    assert [row[4] for row in rows(tmp_path)] == ["/config/topics/t"]


def test_a_later_file_says_what_stands_behind_a_cut(tmp_path: Path) -> None:
    written(tmp_path, 1, [entry(1, 7, create("/brokers")), entry(2, 7, create("/controller", "1"))])
    written(tmp_path, 2, [entry(2, 8, create("/controller", "2"))], name="log.10")
    assert [(row[0], row[2], row[7]) for row in rows(tmp_path)] == [(1, 7, ""), (2, 8, "2")]


@pytest.mark.parametrize("cut", ["bytes", "checksum", "magic", "inside"])
def test_damage_is_one_sentence_and_what_stands_before_is_read(tmp_path: Path, cut: str) -> None:
    path = written(tmp_path, 1, [entry(1, 7, create("/brokers")), entry(2, 7, create("/controller"))])
    data = path.read_bytes()
    if cut == "inside":  # the entry is whole, and its path is longer than it
        path = written(tmp_path, 1, [entry(1, 7, create("/brokers")), entry(2, 7, (CREATE, b"\0\0\0\x99ab"))])
    else:
        changed = {"bytes": data[:-120], "checksum": data[:-104] + b"?" + data[-103:], "magic": b"no" + data}
        path.write_bytes(changed[cut])
    damages = Damages()
    found = read(tmp_path, damages)
    assert found["path"].to_pylist() == ([] if cut == "magic" else ["/brokers"])
    (one,) = damages
    assert one.why


@pytest.mark.parametrize("later", [((3, 2),), (), ((4, 2),)])
def test_a_cut_that_a_later_file_follows_without_a_gap_is_no_damage(
    tmp_path: Path, later: tuple[tuple[int, int], ...]
) -> None:
    """ZooKeeper was killed as it wrote, started again, and gave the same number to another change."""
    whole = [entry(1, 7, create("/brokers")), entry(2, 7, create("/controller"))]
    path = written(tmp_path, 1, [*whole, entry(3, 7, create("/brokers/a"))])
    path.write_bytes(path.read_bytes()[:-110] + bytes(500))
    for zxid, session in later:
        written(tmp_path, zxid, [entry(zxid, session, create("/brokers/b"))])
    damages = Damages()
    found = read(tmp_path, damages)["zxid"].to_pylist()
    assert found == {(): [1, 2], ((3, 2),): [1, 2, 3], ((4, 2),): [4]}[later]
    assert len(damages) == (later != ((3, 2),))


ELECTED = 1 << 32
"""The first leader of an ensemble; its changes are numbered from 1 on, as those of each later one."""


@pytest.mark.parametrize(
    ("zxids", "read_on"),
    [
        ((1, 2, 4), 4),  # the node got a snapshot in place of what it had missed
        ((ELECTED + 1, ELECTED + 2, 2 * ELECTED + 2), 2 * ELECTED + 2),
        ((ELECTED + 1, ELECTED + 3, ELECTED + 4), ELECTED + 3),
        ((2, 3, 4), 2),
        ((1, 2, ELECTED + 1), 1),
        ((ELECTED + 1, ELECTED + 2, 4 * ELECTED + 1), ELECTED + 1),  # two leaders changed nothing
    ],
)
def test_what_stands_before_a_gap_is_left_out(tmp_path: Path, zxids: tuple[int, ...], read_on: int) -> None:
    """Each change has the number after the one before, those that failed among them."""
    written(tmp_path, zxids[0], [entry(at, 7, create(f"/brokers/{at}")) for at in zxids[:2]])
    written(tmp_path, zxids[2], [entry(zxids[2], 7, create(f"/brokers/{zxids[2]}"))])
    assert [row[0] for row in rows(tmp_path)] == [at for at in zxids if at >= read_on]


def test_a_node_without_a_log_has_no_rows(tmp_path: Path) -> None:
    assert rows(tmp_path) == []
