"""The log of the share coordinators: `__share_group_state` (KIP-932). Keys and values are as in
`coordinator_records`."""

from typing import Final

import pyarrow as pa

from harness.evidence.coordinator_records import number, value_of
from harness.evidence.damage import Damages
from harness.evidence.records import LogRecord, decoded
from harness.evidence.segments import Segment
from harness.protocol.cursor import Cursor
from harness.protocol.messages import Message, UnknownMessage, decode
from history.evidence_tables import SHARE_LOG, Row, table

TYPES: Final = {0: "ShareSnapshot", 1: "ShareUpdate"}
"""Names of the types by their number: of Kafka's keys without `Key`."""
NOTHING: Final[Row] = (None,) * 5
"""Of a record without a value, or whose value no definition reads."""


def states(segment: Segment, damages: Damages) -> pa.Table:
    """A segment of `__share_group_state` as rows of `SHARE_LOG`. damages: gets what is malformed."""
    return table(SHARE_LOG, [*decoded(segment, damages, share_row)])


def share_row(record: LogRecord) -> Row:
    """A record as a row of `SHARE_LOG`. Raises: Malformed; UnknownMessage, of the key."""
    cursor = Cursor(record.key or b"")
    kind = cursor.integer(2)
    if kind not in TYPES:
        raise UnknownMessage(f"key of type {kind}")
    name = TYPES[kind]
    key = decode(f"{name}Key", 0, cursor)
    place: Row = (record.offset, record.leader_epoch, record.timestamp, name)
    shared: Row = (str(key["groupId"]), str(key["topicId"]), number(key["partition"]))
    _, message, opaque = value_of(record, name)
    return *place, *shared, *(_state(message) if message else NOTHING), opaque


def _state(message: Message) -> Row:
    batches = message["stateBatches"]
    assert isinstance(batches, list)
    runs: list[dict[str, str | int]] = []
    for one in batches:
        assert isinstance(one, dict)
        runs.append(
            {
                "first": number(one["firstOffset"]),
                "last": number(one["lastOffset"]),
                "state": number(one["deliveryState"]),
                "times": number(one["deliveryCount"]),
            }
        )
    state_epoch = number(message["stateEpoch"]) if "stateEpoch" in message else None
    epochs = number(message["snapshotEpoch"]), state_epoch, number(message["leaderEpoch"])
    return *epochs, number(message["startOffset"]), runs
