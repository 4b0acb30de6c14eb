"""What Kafka's own DumpLogSegments prints of a file, compared with what `harness.evidence` reads."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from harness.evidence import control, coordinator_records, metadata_records, producer_state, segments
from harness.evidence.damage import Damages
from harness.evidence.records import LogRecord, walk
from harness.protocol.cursor import Cursor
from harness.protocol.messages import NO_UUID, Value, decode
from history.evidence_tables import NO_PRODUCER

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEFAULTS: tuple[Value, ...] = (None, False, 0, -1, -2, "", NO_UUID, [])
"""Of tagged fields: Kafka's JSON leaves a field out that has its default."""
PAIR = re.compile(r"(\w+): (\S+)")
EMBEDDED = ("subscription", "assignment")
"""Bytes of the consumer protocol inside of GroupMetadata, which DumpLogSegments decodes one level further."""


class Comparison:
    """Counts what agrees and lists what does not.

    fields: compared, and equal. differences: one sentence each.
    """

    def __init__(self) -> None:
        self.files = self.fields = 0
        self.differences: list[str] = []

    def equal(self, where: str, ours: object, theirs: object) -> None:
        if isinstance(theirs, bool) or isinstance(ours, bool):
            same = str(ours).lower() == str(theirs).lower()
        else:
            same = str(ours) == str(theirs)
        if same:
            self.fields += 1
        else:
            self.differences.append(f"{where}: {ours!r}, and Kafka reads {theirs!r}")

    def message(self, where: str, ours: Value, theirs: Value) -> None:
        """Values of two JSON texts; ours has default values that theirs leaves out."""
        if isinstance(theirs, dict) and isinstance(ours, dict):
            for name, value in theirs.items():
                if not (name in EMBEDDED and isinstance(ours.get(name), str)):
                    self.message(f"{where}.{name}", ours.get(name, "missing"), value)
            for name in ours.keys() - theirs.keys():
                if ours[name] not in DEFAULTS:
                    self.differences.append(f"{where}.{name}: {ours[name]!r}, and Kafka reads nothing")
        elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
            for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                self.message(f"{where}[{number}]", one, other)
        else:
            self.equal(where, ours, theirs)


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Name (`<folder>/<file>`) and lines of each file in the output."""
    for part in re.split(r"^Dumping ", text, flags=re.MULTILINE)[1:]:
        name, *lines = part.splitlines()
        yield "/".join(name.split("/")[-2:]), lines


def compare(path: Path, lines: list[str], found: Comparison) -> None:
    """All fields of a file's section with the file as this package reads it."""
    found.files += 1
    damages = Damages()
    if path.suffix == ".snapshot":
        _producers(producer_state.producers(path, damages), lines, found)
    elif path.suffix == ".txnindex":
        _aborted(producer_state.aborted(path, damages), lines, found)
    else:
        segment = segments.read(path)
        assert segment.damage is None, segment.damage
        _batches(segment.table(), lines, found, path.parent.name)
        _records(segment, lines, found)
    assert not list(damages)


def _pairs(line: str) -> dict[str, str]:
    return dict(PAIR.findall(line))


def _producers(table: pa.Table, lines: list[str], found: Comparison) -> None:
    rows = [row for row in table.to_pylist() if row["producer_id"] != NO_PRODUCER]
    found.equal("producers", len(rows), len(lines))
    for ours, line in zip(rows, lines, strict=False):
        theirs = _pairs(
            line.replace("OptionalLong[", "").replace("OptionalLong.empty", "-1").replace("]", "")
        )
        theirs = {
            name: re.sub(r"^Some\((.*)\)$|^None$", lambda found: found[1] or "-1", value)
            for name, value in theirs.items()
        }
        where = f"producer {ours['producer_id']}"
        names = {
            "producerId": "producer_id",
            "producerEpoch": "producer_epoch",
            "coordinatorEpoch": "coordinator_epoch",
            "currentTxnFirstOffset": "first_offset_of_transaction",
            "lastTimestamp": "timestamp",
        }
        batch = {"lastSequence": "last_sequence", "lastOffset": "last_offset", "offsetDelta": "offset_delta"}
        if "lastSequence" in theirs:  # one that has written a batch
            names |= batch
        for name, column in names.items():
            found.equal(f"{where} {name}", ours[column], theirs[name])


def _aborted(table: pa.Table, lines: list[str], found: Comparison) -> None:
    rows = table.to_pylist()
    found.equal("aborted", len(rows), len(lines))
    names = {"producerId": "producer_id", "firstOffset": "first", "lastOffset": "last",
             "lastStableOffset": "last_stable"}  # fmt: skip
    for ours, line in zip(rows, lines, strict=False):
        theirs = _pairs(line)
        for name, column in names.items():
            found.equal(f"aborted {name}", ours[column], theirs[name])


def _batches(table: pa.Table, lines: list[str], found: Comparison, where: str) -> None:
    dumped = [line for line in lines if line.startswith("baseOffset:")]
    rows = table.to_pylist()
    found.equal(f"{where} batches", len(rows), len(dumped))
    for ours, line in zip(rows, dumped, strict=False):
        theirs = _pairs(line)
        expected = {
            "baseOffset": ours["base"],
            "lastOffset": ours["last"],
            "count": ours["records"],
            "baseSequence": ours["base_sequence"],
            "lastSequence": -1
            if ours["base_sequence"] < 0
            else ours["base_sequence"] + ours["last"] - ours["base"],
            "producerId": ours["producer_id"],
            "producerEpoch": ours["producer_epoch"],
            "partitionLeaderEpoch": ours["leader_epoch"],
            "isTransactional": ours["transactional"],
            "isControl": ours["control"],
            "position": ours["position"],
            "LogAppendTime" if ours["log_append_time"] else "CreateTime": ours["max_timestamp"],
            "size": ours["size"],
            "magic": 2,
            "compresscodec": CODECS[ours["compression"]],
            "crc": ours["crc"],
            "isvalid": ours["intact"],
        }
        if "deleteHorizonMs" in theirs:
            horizon = (
                f"OptionalLong[{ours['base_timestamp']}]" if ours["delete_horizon"] else "OptionalLong.empty"
            )
            expected["deleteHorizonMs"] = horizon
        found.equal(f"{where} fields of a batch", sorted(expected), sorted(theirs))
        for name, value in expected.items():
            found.equal(f"{where} {ours['base']} {name}", value, theirs.get(name))


def _records(segment: segments.Segment, lines: list[str], found: Comparison) -> None:
    """Records of the batches that are not compressed, with keys and values where a decoder was asked for."""
    topic = segment.path.parent.name.rpartition("-")[0]
    dumped: list[str] = []
    compressed = False
    for line in lines:
        if line.startswith("baseOffset:"):
            compressed = _pairs(line)["compresscodec"].lower() != "none"
        elif line.startswith("| ") and not compressed:
            dumped.append(line)
    ours = list(walk(segment, Damages()))
    found.equal(f"{topic} records", len(ours), len(dumped))
    for record, line in zip(ours, dumped, strict=False):
        where = f"{topic} {record.offset}"
        theirs = _pairs(line.partition(" headerKeys:")[0])
        found.equal(f"{where} offset", record.offset, theirs["offset"])
        found.equal(f"{where} time", record.timestamp, theirs.get("CreateTime", theirs.get("LogAppendTime")))
        found.equal(f"{where} key", -1 if record.key is None else len(record.key), theirs["keySize"])
        found.equal(f"{where} value", -1 if record.value is None else len(record.value), theirs["valueSize"])
        found.equal(f"{where} sequence", record.sequence, theirs["sequence"])
    controls = {row["offset"]: row for row in control.read(segment, Damages()).to_pylist()}
    for record, line in zip(ours, dumped, strict=False):
        rest = line.partition(" headerKeys: ")[2].partition("] ")[2]
        if record.control:
            _control(f"{topic} {record.offset}", controls[record.offset], rest, found)
        elif topic == metadata_records.TOPIC:
            _metadata(record, rest, found)
        elif topic in (TRANSACTION_TOPIC, GROUP_TOPIC):
            _coordinator(topic, record, rest, found)


def _control(where: str, ours: dict[str, Value], rest: str, found: Comparison) -> None:
    kind, _, value = rest.partition(": ")
    name = str(ours["name"])
    if kind == "endTxnMarker":
        found.equal(where, f"{name} coordinatorEpoch: {ours['coordinator_epoch']}", value)
    elif kind == "controlType":  # before 4.0 nothing but the type
        found.equal(where, f"{name}({ours['type']})", value)
    else:
        kind, _, value = rest.partition(" ")
        found.equal(where, name.replace("_", "").lower(), kind.rstrip(":").lower())
        found.message(where, json.loads(str(ours["body"])), json.loads(value))


def _metadata(record: LogRecord, rest: str, found: Comparison) -> None:
    theirs = json.loads(rest.partition("payload: ")[2])
    cursor = Cursor(record.value or b"")
    _, kind, version = (cursor.unsigned_varint() for _ in range(3))
    name = metadata_records.types()[kind]
    where = f"metadata {record.offset} {name}"
    found.equal(where, re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(), theirs["type"])
    found.equal(where, version, theirs["version"])
    found.message(where, decode(name, version, cursor), theirs["data"])


def _coordinator(topic: str, record: LogRecord, rest: str, found: Comparison) -> None:
    where = f"{topic} {record.offset}"
    key, _, payload = rest.removeprefix("key: ").partition(" payload: ")
    if topic == TRANSACTION_TOPIC and not key.startswith("{"):
        _old_transaction(where, record, key, payload, found)
        return
    cursor = Cursor(record.key or b"")
    kind = cursor.integer(2)
    name = coordinator_records.group_types()[kind]
    if topic == TRANSACTION_TOPIC:
        name = "TransactionLog"
    if not key.startswith("{"):
        _old_group(where, record, name, key, payload, found)
        return
    theirs = json.loads(key)
    found.equal(where, kind, theirs["type"])
    found.message(f"{where} key", decode(f"{name}Key", 0, cursor), theirs["data"])
    if record.value is None:
        found.equal(where, "<DELETE>", payload)
        return
    value = Cursor(record.value)
    version = value.integer(2)
    theirs = json.loads(payload)
    found.equal(where, version, theirs["version"])
    ours = decode(f"{name}Value", version, value)
    if isinstance(theirs["data"].get("transactionStatus"), str):  # since 4.4: its name
        ours["transactionStatus"] = coordinator_records.TRANSACTION_STATES[
            int(str(ours["transactionStatus"]))
        ]
    found.message(f"{where} value", ours, theirs["data"])


def _old_transaction(where: str, record: LogRecord, key: str, payload: str, found: Comparison) -> None:
    """The text that Kafka before 4.0 prints of a transaction."""
    identity = coordinator_records.transactional_id(record.key or b"")
    found.equal(where, f"transaction_metadata::transactionalId={identity}", key)
    if record.value is None:
        found.equal(where, "<DELETE>", payload)
        return
    value = coordinator_records.transaction_value(record.value)
    theirs = re.fullmatch(
        r"producerId:(.*),producerEpoch:(.*),state=(.*),partitions=\[(.*)\],"
        r"txnLastUpdateTimestamp=(.*),txnTimeoutMs=(.*)",
        payload,
    )
    assert theirs, payload
    partitions = sorted(f"{topic}-{number}" for topic, number in value.partitions)
    ours = (
        value.producer_id,
        value.producer_epoch,
        value.state,
        partitions,
        value.last_update_ms,
        value.timeout_ms,
    )
    for number, one in enumerate(ours, 1):
        other = theirs[number]
        found.equal(where, one, sorted(filter(None, other.split(","))) if number == 4 else other)


def _old_group(where: str, record: LogRecord, name: str, key: str, payload: str, found: Comparison) -> None:
    """The text that Kafka before 3.5 prints of an offset or a group."""
    fields = decode(f"{name}Key", 0, Cursor(record.key or b"", 2))
    body = Cursor(record.value or b"")
    value = decode(f"{name}Value", body.integer(2), body) if record.value is not None else {}
    if name == "OffsetCommit":
        found.equal(
            where,
            f"offset_commit::group={fields['group']},partition={fields['topic']}-{fields['partition']}",
            key,
        )
        found.equal(where, f"offset={value['offset']}" if value else "<DELETE>", payload)
        return
    found.equal(where, f"group_metadata::group={fields['group']}", key)
    theirs = json.loads(payload)
    for ours, other in (
        ("protocolType", "protocolType"),
        ("protocol", "protocol"),
        ("generation", "generationId"),
    ):
        found.equal(f"{where} {ours}", value[ours], theirs.get(other))
