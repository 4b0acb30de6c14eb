"""The records inside of uncompressed batches: keys and values of the logs that Kafka keeps for itself.

Kafka writes `__transaction_state`,
`__cluster_metadata` and control batches without compression, and `__consumer_offsets` too unless
`offsets.topic.compression.codec` says otherwise. A compressed batch is passed
over, and that is noted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from harness.evidence import old_messages
from harness.evidence.damage import Damages
from harness.evidence.segments import Segment
from harness.protocol.batches import (
    COMPRESSION,
    CONTROL,
    FIELDS,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX,
    TRANSACTIONAL,
)
from harness.protocol.cursor import VARLONG_BITS, Cursor, Malformed
from harness.protocol.messages import UnknownMessage

Decoded = TypeVar("Decoded")

LONG: Final = range(-(2**63), 2**63)
SHORTEST: Final = 7
"""Bytes of a record with null key and value and without headers."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record and what its batch says of it.

    position: of its batch in the file. sequence: -1 = none. control: written by a broker, not a client.
    """

    position: int
    offset: int
    leader_epoch: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    control: bool
    transactional: bool
    key: bytes | None
    value: bytes | None


def walk(segment: Segment, damages: Damages, *, control_only: bool = False) -> Iterator[LogRecord]:
    """The records of intact batches, in the order of the file.

    damages: gets compressed batches and malformed ones; the records of the latter from there on are left out.
    """
    wanted = segment.intact
    if control_only:
        wanted = wanted & (segment.headers["attributes"] & CONTROL != 0)
    rows = wanted.nonzero()[0]
    with memoryview(segment.data) as data:
        for position, values in zip(
            segment.positions[rows].tolist(), segment.headers[rows].tolist(), strict=True
        ):
            header = dict(zip(FIELDS, values, strict=True))
            if header["attributes"] & COMPRESSION:
                damages.note(segment.path, position, "the batch is compressed: its records are not read")
                continue
            if header["magic"] != MAGIC:
                yield from _old_message(data, position, header, segment, damages)
                continue
            cursor = Cursor(data, position + HEADER.size, position + PREFIX + header["length"])
            try:
                yield from records_of(cursor, position, header)
            except Malformed as error:
                damages.note(segment.path, error.at, error.why)


def _old_message(
    data: memoryview, position: int, header: dict[str, int], segment: Segment, damages: Damages
) -> Iterator[LogRecord]:
    """The record that a message of an old format is."""
    try:
        key, value = old_messages.key_and_value(data, position, header)
    except Malformed as error:
        damages.note(segment.path, error.at, error.why)
        return
    yield LogRecord(
        position=position,
        offset=header["base"],
        leader_epoch=header["leader_epoch"],
        timestamp=header["max_timestamp"],
        producer_id=header["producer_id"],
        producer_epoch=header["producer_epoch"],
        sequence=-1,
        control=False,
        transactional=False,
        key=key,
        value=value,
    )


def decoded(segment: Segment, damages: Damages, decode: Callable[[LogRecord], Decoded]) -> Iterator[Decoded]:
    """What records of data mean, in the order of the file. damages: gets those that `decode` refuses."""
    for record in walk(segment, damages):
        if record.control:
            continue
        try:
            yield decode(record)
        except (Malformed, UnknownMessage) as error:
            damages.note(segment.path, record.position, f"record at offset {record.offset}: {error}")


def records_of(cursor: Cursor, position: int, header: dict[str, int]) -> Iterator[LogRecord]:
    """The records of one batch. cursor: over its bytes behind the header. header: by the names of `FIELDS`.

    Raises: Malformed.
    """
    if header["records"] * SHORTEST > cursor.left:
        raise Malformed(cursor.at, f"{header['records']} records do not fit into the batch")
    append_time = header["attributes"] & LOG_APPEND_TIME
    for _ in range(header["records"]):
        size = cursor.varint()
        begin = cursor.at
        if size > cursor.left:
            raise Malformed(begin, f"a record of {size} bytes does not fit into the batch")
        cursor.take(1)
        timestamp = header["base_timestamp"] + cursor.varint(VARLONG_BITS)
        delta = cursor.varint()
        if timestamp not in LONG or header["base"] + delta not in LONG:
            raise Malformed(begin, "an offset or a time of the record has more than 64 bits")
        key, value = cursor.nullable(), cursor.nullable()
        for _ in range(cursor.varint()):
            cursor.nullable()
            cursor.nullable()
        if cursor.at != begin + size:
            raise Malformed(begin, f"a record announces {size} bytes and has {cursor.at - begin}")
        yield LogRecord(
            position=position,
            offset=header["base"] + delta,
            leader_epoch=header["leader_epoch"],
            timestamp=header["max_timestamp"] if append_time else timestamp,
            producer_id=header["producer_id"],
            producer_epoch=header["producer_epoch"],
            sequence=header["base_sequence"] + delta if header["base_sequence"] >= 0 else -1,
            control=bool(header["attributes"] & CONTROL),
            transactional=bool(header["attributes"] & TRANSACTIONAL),
            key=key,
            value=value,
        )
    if cursor.left:
        raise Malformed(cursor.at, f"{cursor.left} bytes are left after the last record of the batch")
