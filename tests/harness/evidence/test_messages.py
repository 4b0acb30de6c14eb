"""Messages by Kafka's definitions: what the golden files do not show, and damaged bytes."""

from base64 import b64encode
from collections.abc import Iterator

import pytest

from core.secrets import HIDDEN
from harness.evidence import control, coordinator_records, metadata_records, segments
from harness.evidence.coordinator_records import transaction_value, transactional_id
from harness.evidence.damage import Damages
from harness.evidence.records import LogRecord, walk
from harness.protocol.cursor import Cursor, Malformed
from harness.protocol.definitions import definitions, includes
from harness.protocol.messages import UnknownMessage, decode
from tests.histories.broker_files import NODE


def real_records(topic: str) -> Iterator[LogRecord]:
    for path in sorted(NODE.glob(f"{topic}-*/*.log")):
        yield from walk(segments.read(path), Damages())


def damaged(value: bytes) -> Iterator[bytes]:
    """A value cut at every byte, and with every byte flipped."""
    for at in range(len(value)):
        yield value[:at]
        for flip in (0x01, 0x7F, 0x80, 0xFF):
            yield value[:at] + bytes([value[at] ^ flip]) + value[at + 1 :]


def test_every_message_can_be_read_in_every_version() -> None:
    """The definitions hold no type that the reader does not know; zeros are a message of most of them."""
    for name, definition in definitions().items():
        versions = [number for number in range(32) if includes(definition.valid_versions, number)]
        assert versions, name
        for version in versions:
            with pytest.raises(Malformed):
                decode(name, version, Cursor(b"\x00" * 4096))


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_damaged_values_of_coordinators_are_malformed_or_unknown(topic: str) -> None:
    for record in list(real_records(topic))[:12]:
        if record.control or record.key is None or record.value is None:
            continue
        kind = int.from_bytes(record.key[:2], "big")
        name = coordinator_records.group_types()[kind] if topic == "__consumer_offsets" else "TransactionLog"
        for value in damaged(record.value):
            cursor = Cursor(value)
            try:
                decode(f"{name}Value", cursor.integer(2), cursor)
            except (Malformed, UnknownMessage):
                continue


def test_damaged_metadata_records_are_malformed_or_unknown() -> None:
    names = metadata_records.types()
    seen: set[int] = set()
    for record in real_records("__cluster_metadata"):
        value = record.value or b""
        if record.control or value[1] in seen:
            continue
        seen.add(value[1])
        for changed in damaged(value):
            cursor = Cursor(changed)
            try:
                _, kind, version = (cursor.unsigned_varint() for _ in range(3))
                decode(names.get(kind, "unknown"), version, cursor)
            except (Malformed, UnknownMessage):
                continue
    assert len(seen) > 8


NAME, PASSWORD = b"ssl.keystore.password", b"open sesame"
BROKER = 4


def compact(value: bytes) -> bytes:
    """Text or bytes with its length."""
    return bytes([len(value) + 1]) + value


def setting(name: bytes, value: bytes, version: int = 0) -> bytes:
    """A ConfigRecord of a broker."""
    kind = types_by_name()["ConfigRecord"]
    return bytes([1, kind, version, BROKER]) + compact(b"1") + compact(name) + compact(value) + b"\x00"


def credential(version: int = 0) -> bytes:
    kind = types_by_name()["UserScramCredentialRecord"]
    secrets = compact(PASSWORD) * 3
    return bytes([1, kind, version]) + compact(b"user") + b"\x01" + secrets + bytes(4) + b"\x00"


def types_by_name() -> dict[str, int]:
    return {name: number for number, name in metadata_records.types().items()}


def evidence_of(value: bytes) -> tuple[str, str | None, bytes | None]:
    """The name, body and opaque bytes of a row."""
    record = LogRecord(0, 7, 1, 0, -1, -1, -1, False, False, key=None, value=value)
    row = metadata_records._row(record, metadata_records.types())
    name, body, opaque = row[4], row[-2], row[-1]
    assert isinstance(name, str)
    assert body is None or isinstance(body, str)
    assert opaque is None or isinstance(opaque, bytes)
    return name, body, opaque


@pytest.mark.parametrize(
    "value",
    [
        setting(NAME, PASSWORD),
        setting(NAME, PASSWORD, version=31),
        setting(b"listener.name.sasl_ssl.plain.sasl.jaas.config", PASSWORD),
        credential(),
        credential(version=31),
        bytes([1, 125, 0]) + PASSWORD,  # a record of a later Kafka
    ],
    ids=["setting", "newer setting", "jaas", "credential", "newer credential", "unknown"],
)
def test_no_secret_of_the_metadata_log_comes_into_the_evidence(value: bytes) -> None:
    name, body, opaque = evidence_of(value)
    assert PASSWORD.decode() not in (body or "")
    assert b64encode(PASSWORD).decode() not in (body or "")
    assert PASSWORD not in (opaque or b"")
    # one that no definition reads still says so
    assert (opaque is not None) == (value[2] == 31 or name == "unknown")


def test_other_settings_are_read_as_they_are() -> None:
    name, body, opaque = evidence_of(setting(b"min.insync.replicas", b"2"))
    assert (name, opaque) == ("ConfigRecord", None)
    assert '"min.insync.replicas", "value": "2"' in (body or "")
    assert HIDDEN in (evidence_of(setting(NAME, PASSWORD))[1] or "")


def test_a_length_without_its_bytes_costs_no_memory() -> None:
    huge = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(Malformed, match="a length of 2147483647 is announced and 0 bytes are left"):
        decode("TransactionLogValue", 0, Cursor(b"\x00" * 15 + huge))


def test_tagged_fields_that_are_not_there_have_their_defaults() -> None:
    record = next(one for one in real_records("__transaction_state"))
    cursor = Cursor(record.value or b"")
    fields = decode("TransactionLogValue", cursor.integer(2), cursor)
    assert fields["nextProducerId"] == fields["nextProducerEpoch"] == -1
    assert fields["clientTransactionVersion"] == 0
    change = decode("PartitionChangeRecord", 2, Cursor(bytes(4) + bytes(16) + b"\x00"))
    assert change["leader"] == -2
    assert change["isr"] is None
    assert change["leaderRecoveryState"] == -1


def test_tagged_fields_that_no_definition_knows_are_passed_over() -> None:
    change = decode("PartitionChangeRecord", 2, Cursor(bytes(20) + b"\x02\x01\x04\x00\x00\x00\x03\x63\x02ab"))
    assert change["leader"] == 3
    with pytest.raises(Malformed, match="tagged field leader announces 3 bytes and has 4"):
        decode("PartitionChangeRecord", 2, Cursor(bytes(20) + b"\x01\x01\x03\x00\x00\x00\x03"))


def test_a_field_is_tagged_from_its_version_on_only() -> None:
    """OffsetCommitValue has a topic id from version 4 on, and an expiry in version 1 alone."""
    old = decode("OffsetCommitValue", 1, Cursor(bytes(7) + b"\x05\x00\x00" + bytes(8) + bytes(7) + b"\x09"))
    assert old == {"offset": 5, "metadata": "", "commitTimestamp": 0, "expireTimestamp": 9}


def test_newer_versions_are_unknown() -> None:
    with pytest.raises(UnknownMessage, match="TransactionLogValue version 9"):
        transaction_value(b"\x00\x09" + bytes(40))
    with pytest.raises(UnknownMessage, match="key of type 4"):
        transactional_id(b"\x00\x04\x00\x01a")


def test_a_transaction_state_without_a_name_is_malformed() -> None:
    record = next(one for one in real_records("__transaction_state"))
    value = bytearray(record.value or b"")
    value[2 + 8 + 2 + 4] = 8
    with pytest.raises(Malformed, match="no transaction state has the number 8"):
        transaction_value(bytes(value))


def test_names_of_control_records_have_definitions() -> None:
    assert {message for _, message in control.TYPES.values()} <= definitions().keys()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0),
        (b"\x01", -1),
        (b"\x02", 1),
        (b"\xfe\xff\xff\xff\x0f", 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f", -(2**31)),
    ],
)
def test_signed_variable_length_numbers(data: bytes, value: int) -> None:
    assert Cursor(data).varint() == value


@pytest.mark.parametrize(
    ("data", "why"), [(b"", "cut off"), (b"\x80", "cut off"), (b"\xff" * 9, "more than 32 bits")]
)
def test_variable_length_numbers_that_are_none(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        Cursor(data).varint()
