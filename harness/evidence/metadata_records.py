"""The metadata log of KRaft (`__cluster_metadata-0`) and its snapshots.

A record's value is three unsigned variable-length numbers, of the frame (1), the type and the version, and
then the message (`MetadataRecordSerde`). A record has no key.

A run folder is passed on, so no secret of the cluster comes into it: what credentials and delegation tokens
are made of, and values of settings such as `ssl.keystore.password`, are left out.
"""

import json
from typing import Final

import pyarrow as pa

from core.secrets import HIDDEN, is_secret
from harness.evidence.damage import Damages
from harness.evidence.records import LogRecord, walk
from harness.evidence.segments import Segment
from harness.protocol.cursor import Cursor, Malformed
from harness.protocol.definitions import definitions
from harness.protocol.messages import Message, UnknownMessage, decode
from history.evidence_tables import METADATA, Cell, Row, table

TOPIC: Final = "__cluster_metadata"
FRAME: Final = 1
UNKNOWN: Final = "unknown"

FIELDS: Final = {
    "broker": ("brokerId", "id"),
    "broker_epoch": ("brokerEpoch", "epoch"),
    "topic": ("topicName",),
    "topic_id": ("topicId",),
    "partition": ("partitionId",),
    "leader": ("leader",),
    "partition_leader_epoch": ("leaderEpoch",),
    "partition_epoch": ("partitionEpoch",),
    "replicas": ("replicas",),
    "isr": ("isr",),
    "elr": ("eligibleLeaderReplicas",),
    "last_known_elr": ("lastKnownElr",),
    "removing": ("removingReplicas",),
    "adding": ("addingReplicas",),
    "recovery": ("leaderRecoveryState",),
    "fenced": ("fenced",),
    "feature": (),
    "level": ("featureLevel",),
}
"""Columns of `tables.METADATA` and the fields of Kafka's records that they hold."""
NAMED: Final = {"TopicRecord": "topic", "FeatureLevelRecord": "feature"}
"""Records whose field `name` is the name of something, and the column that holds it."""
CREDENTIALS: Final = frozenset({"UserScramCredentialRecord", "DelegationTokenRecord"})
"""Records that are secrets as a whole: no rule reads them."""
SETTING: Final = "ConfigRecord"


def types() -> dict[int, str]:
    """Names of the types of metadata records by their number."""
    found = [one for one in definitions().values() if one.type == "metadata"]
    return {one.api_key: one.name for one in found if one.api_key is not None}


def read(segment: Segment, damages: Damages, snapshot: int = -1) -> pa.Table:
    """A segment, or a snapshot, as rows of `tables.METADATA`; `damages` gets what is malformed.

    snapshot: the offset that it ends at, -1 = a segment.
    """
    rows: list[Row] = []
    names = types()
    for record in walk(segment, damages):
        if record.control:
            continue
        try:
            rows.append((snapshot, *_row(record, names)))
        except Malformed as error:
            damages.note(segment.path, record.position, f"record at offset {record.offset}: {error}")
    return table(METADATA, rows)


def _row(record: LogRecord, names: dict[int, str]) -> Row:
    """Raises: Malformed."""
    cursor = Cursor(record.value or b"")
    frame = cursor.unsigned_varint()
    if frame != FRAME:
        raise Malformed(0, f"no frame of metadata records has the version {frame}")
    kind, version = cursor.unsigned_varint(), cursor.unsigned_varint()
    name = names.get(kind, UNKNOWN)
    begin: Row = (record.offset, record.leader_epoch, record.timestamp, kind, name, version)
    try:
        fields = decode(name, version, cursor)
    except UnknownMessage:
        kept = b"" if name in {*CREDENTIALS, SETTING, UNKNOWN} else record.value
        return *begin, *([None] * len(FIELDS)), None, kept
    return *begin, *columns(name, fields), _body(name, fields), None


def _body(name: str, fields: Message) -> str | None:
    """All fields as JSON, without secrets; None = they are secrets as a whole."""
    if name in CREDENTIALS:
        return None
    if name == SETTING and fields["value"] is not None and is_secret(str(fields["name"])):
        return json.dumps({**fields, "value": HIDDEN})
    return json.dumps(fields)


def columns(name: str, fields: Message) -> list[Cell]:
    """The columns FIELDS of a record with these fields."""
    found: dict[str, Cell] = {}
    for column, sources in FIELDS.items():
        value = next((fields[source] for source in sources if source in fields), None)
        found[column] = int(value) if isinstance(value, bool) else value  # type: ignore[assignment]
    if named := NAMED.get(name):
        found[named] = str(fields["name"])
    return list(found.values())
