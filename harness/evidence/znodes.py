"""The transaction log of ZooKeeper: changes of the znodes in which Kafka keeps its metadata.

Each node of an ensemble writes every change before it answers, in files `version-2/log.<first zxid>`: a
header, then entries of a checksum, a length, a transaction and the byte 'B'; zeros follow, which were set
aside. One request may change several znodes (`multi`). Before 3.6 the end of a session names no znodes; its
ephemeral ones go with it, which the rows say one by one. What Kafka keeps elsewhere (passwords are among
that) is left out. A node that was away for long gets a snapshot in place of what it missed: what its log has
before that gap is left out. ZooKeeper: FileTxnLog, zookeeper.jute, SerializeUtils, LearnerHandler.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final
from zlib import adler32

import pyarrow as pa

from harness.evidence.damage import Damage, Damages
from harness.protocol.cursor import Cursor, Malformed
from history.evidence_tables import ZNODES, Row, table

FOLDER: Final = "version-2"
MAGIC: Final = b"ZKLG"
HEADER: Final = 16
CREATED, DELETED, SET = "create", "delete", "set"
KEPT: Final = (
    "/admin/delete_topics",
    "/admin/reassign_partitions",
    "/brokers",
    "/config/topics",
    "/controller",
    "/controller_epoch",
    "/isr_change_notification",
)
"""Znodes that are read, with those below."""
CREATE, DELETE, SET_DATA, MULTI, CREATE_2, CREATE_CONTAINER = 1, 2, 5, 14, 15, 19
DELETE_CONTAINER, CREATE_TTL, CLOSE_SESSION, ERROR = 20, 21, -11, -1
CREATES: Final = (CREATE, CREATE_2, CREATE_TTL, CREATE_CONTAINER)
EPOCH_BITS: Final = 32
COUNTED: Final = (1 << EPOCH_BITS) - 1
PERSISTENT: Final = 0
"""Stands for the session that an ephemeral znode belongs to."""


def read(folder: Path, damages: Damages) -> pa.Table:
    """A node's data directory as the rows of `history.evidence_tables.ZNODES`. Raises: OSError."""
    entries: dict[int, Cursor] = {}
    cuts: list[tuple[int, Damage]] = []
    for path in sorted((folder / FOLDER).glob("log.*"), key=lambda one: int(one.suffix[1:], 16)):
        found = Damages()
        entries |= dict(_entries(path, found))  # a later file has what stands after a cut
        cuts += [(max(entries, default=0), one) for one in found]
    zxids = sorted(entries)
    for last, cut in cuts:
        if not _written_on(last, zxids):
            damages.note(cut.file, cut.position, cut.why)
    owners: dict[str, int] = {}
    rows: list[Row] = []
    for zxid in _behind_gaps(zxids):
        try:
            rows += list(_rows(zxid, entries[zxid], owners))
        except Malformed as error:
            damages.note(folder / FOLDER, error.at, f"transaction {zxid:#x} cannot be read: {error.why}")
            break
    return table(ZNODES, rows)


def _behind_gaps(zxids: Sequence[int]) -> Sequence[int]:
    """The last ones without a gap."""
    begin = max((at for at, pair in enumerate(pairwise(zxids), 1) if not _follows(*pair)), default=0)
    return zxids[begin:]


def _follows(before: int, after: int) -> bool:
    """Whether no change is missing. The leader of ZooKeeper numbers every change, those that fail among them;
    each leader of an ensemble counts from 1 on, below its own number."""
    elected = after >> EPOCH_BITS > before >> EPOCH_BITS and after & COUNTED == 1
    return after == before + 1 or elected


def _written_on(last: int, zxids: Sequence[int]) -> bool:
    """Whether the next change after a cut is known: ZooKeeper was killed as it wrote one, before it
    answered, and gave its number to another. last: zxid before the cut."""
    after = next((one for one in zxids if one > last), None)
    return after is not None and _follows(last, after)


def _entries(path: Path, damages: Damages) -> Iterator[tuple[int, Cursor]]:
    """The transactions of a file by zxid, up to the first that is not whole. Each stands behind its header's
    session and number."""
    data = path.read_bytes()
    if data[: len(MAGIC)] != MAGIC:
        damages.note(path, 0, "it is not a log of ZooKeeper")
        return
    cursor = Cursor(data, HEADER)
    while cursor.left >= 12:
        begin = cursor.at
        checksum, size = cursor.integer(8), cursor.integer(4)
        if not size:
            return
        try:
            entry = cursor.take(size)
            whole = cursor.take(1) == b"B" and adler32(entry) == checksum
            zxid = int.from_bytes(entry[12:20], "big", signed=True)
        except Malformed:
            whole = False
        if not whole or size < 32:
            damages.note(path, begin, "a transaction of ZooKeeper is cut or damaged")
            return
        yield zxid, Cursor(entry)


def _rows(zxid: int, cursor: Cursor, owners: dict[str, int]) -> Iterator[Row]:
    """What a transaction changes. owners: sessions by ephemeral znode; kept up."""
    session = cursor.integer(8)
    cursor.take(12)
    ms, kind = cursor.integer(8), cursor.integer(4)
    for path, op, version, owner, data in _changes(kind, cursor, session, owners):
        if op == CREATED and owner:
            owners[path] = owner
        elif op == DELETED:
            owners.pop(path, None)
        if any(path == one or path.startswith(f"{one}/") for one in KEPT):
            text = None if data is None else data.decode(errors="replace")
            yield zxid, ms, session, op, path, version, owner, text


Change = tuple[str, str, int | None, int | None, bytes | None]
"""Path, what is done, version that a set makes, session that a created znode belongs to, data."""


def _changes(kind: int, cursor: Cursor, session: int, owners: dict[str, int]) -> Iterator[Change]:
    if kind in CREATES:
        path, data = _text(cursor), _buffer(cursor)
        for _ in range(cursor.integer(4)):
            cursor.take(4)
            for _ in ("scheme", "id"):
                _text(cursor)
        ephemeral = kind in (CREATE, CREATE_2) and cursor.integer(1) != 0
        yield path, CREATED, 0, session if ephemeral else PERSISTENT, data
    elif kind in (DELETE, DELETE_CONTAINER):
        yield _text(cursor), DELETED, None, None, None
    elif kind == SET_DATA:
        path, data = _text(cursor), _buffer(cursor)
        yield path, SET, cursor.integer(4), None, data
    elif kind == CLOSE_SESSION:
        for path in [path for path, owner in owners.items() if owner == session]:
            yield path, DELETED, None, None, None
    elif kind == MULTI:
        parts = [(cursor.integer(4), _buffer(cursor) or b"") for _ in range(cursor.integer(4))]
        if all(of != ERROR for of, _ in parts):
            for of, part in parts:
                yield from _changes(of, Cursor(part), session, owners)


def _buffer(cursor: Cursor) -> bytes | None:
    size = cursor.integer(4)
    return None if size < 0 else cursor.take(size)


def _text(cursor: Cursor) -> str:
    return (_buffer(cursor) or b"").decode(errors="replace")
