"""Small text files: what a broker notes of its logs every second or so, and of itself when it ends.

A checkpoint file is three parts: a version (0), the number of entries, one entry a line.
`leader-epoch-checkpoint` has `epoch start`, the others have `topic partition offset`. A broker replaces a
checkpoint as a whole, so a cut one was damaged.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from harness.evidence.damage import Damages
from history.evidence_tables import EPOCHS, Row, table

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEANER: Final = "cleaner-offset-checkpoint"
OFFSETS: Final = {
    "recovery-point-offset-checkpoint": "recovery-point",
    "replication-offset-checkpoint": "replication",
    "log-start-offset-checkpoint": "log-start",
    CLEANER: "cleaner",
}
"""Files at the top of a log directory, and the value of `ends.file` for each."""
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
TOPIC_ID: Final = re.compile(rb"version: 0\ntopic_id: ([\w-]{22})\s*")
VERSION: Final = b"0"


def leader_epochs(path: Path, damages: Damages) -> pa.Table:
    """A `leader-epoch-checkpoint` as rows of `tables.EPOCHS`. Raises: OSError."""
    rows: list[Row] = []
    for position, words in _entries(path, damages):
        if len(words) == 2 and _is_number(words[0], bits=31) and _is_number(words[1]):
            rows.append((int(words[0]), int(words[1])))
        else:
            damages.note(path, position, "the line is not `epoch start`")
    return table(EPOCHS, rows)


def offsets(path: Path, damages: Damages) -> dict[tuple[str, int], int]:
    """One of the files OFFSETS: the offset by topic and partition. Raises: OSError."""
    found: dict[tuple[str, int], int] = {}
    for position, words in _entries(path, damages):
        if len(words) == 3 and _is_number(words[1], bits=31) and _is_number(words[2]):
            place = words[0].decode(errors="replace"), int(words[1])
            found[place] = int(words[2])
        else:
            damages.note(path, position, "the line is not `topic partition offset`")
    return found


def topic_id(path: Path, damages: Damages) -> str | None:
    """The topic id in a `partition.metadata`. Raises: OSError."""
    if found := TOPIC_ID.fullmatch(path.read_bytes()):
        return found[1].decode()
    damages.note(path, 0, "no `version: 0` and `topic_id: …`")
    return None


def broker_epoch(path: Path, damages: Damages) -> int | None:
    """The broker epoch in a `.kafka_cleanshutdown`; older brokers left the file empty. Raises: OSError."""
    content = path.read_bytes()
    if not content.strip():
        return None
    try:
        found = json.loads(content)["brokerEpoch"]
    except (ValueError, TypeError, KeyError, RecursionError):
        found = None
    if type(found) is int and _is_number(b"%d" % found):  # not `true`
        return found
    damages.note(path, 0, "no JSON object with a number `brokerEpoch`")
    return None


def _is_number(word: bytes, bits: int = 63) -> bool:
    """bits: without the sign, of the column that has to hold it."""
    return re.fullmatch(rb"-?[0-9]{1,19}", word) is not None and -(1 << bits) <= int(word) < 1 << bits


def _entries(path: Path, damages: Damages) -> Iterator[tuple[int, list[bytes]]]:
    """Position and words of each entry. An empty file has none: a log directory that was just made."""
    content = path.read_bytes()
    if not content:
        return
    lines = content.splitlines(keepends=True)
    if lines[0].strip() != VERSION:
        damages.note(path, 0, "no checkpoint of version 0")
        return
    if len(lines) < 2 or not _is_number(lines[1].strip()):
        damages.note(path, len(lines[0]), "the number of entries is missing")
        return
    position = len(lines[0]) + len(lines[1])
    entries = lines[2:]
    for line in entries:
        yield position, line.split()
        position += len(line)
    announced = int(lines[1])
    if len(entries) != announced or not content.endswith(b"\n"):
        damages.note(path, position, f"{announced} entries are announced and {len(entries)} are whole")
