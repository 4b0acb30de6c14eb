"""The format of records in `__transaction_state`: TransactionLogKey and TransactionLogValue. Pure.

Versions of the value: 0 (KIP-98), and 1 (since Kafka 3.8, with transaction.version 1 and later, KIP-890). The
latter is flexible: a length is a varint of one more, and tagged fields follow, which are skipped here.

Not here: reading the topic (`harness.kafka.admin.transaction_log`).
"""

import struct
from dataclasses import dataclass
from typing import Final

from core.errors import ClusterError

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By TransactionStatus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """TransactionLogValue. status: an index of `STATES`. partitions: `topic-partition`. Times in ms."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: tuple[str, ...]
    updated_ms: int
    started_ms: int

    @property
    def state(self) -> str:
        """The status by Kafka's name."""
        return STATES[self.status]


class _Bytes:
    """Takes fields off the front. Raises: ClusterError, where there are not enough bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ClusterError(f"a field of {size} bytes at {self._at} of {len(self._data)}")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, code: str) -> int:
        """A signed number: b, h, i or q of `struct`."""
        (value,) = struct.unpack(f">{code}", self.take(struct.calcsize(f">{code}")))
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def count(self, flexible: bool) -> int:
        """Of an array; none for null."""
        return max(0, self.varint() - 1 if flexible else self.number("i"))

    def string(self, flexible: bool) -> str:
        size = self.varint() - 1 if flexible else self.number("h")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise ClusterError(f"a string is damaged: {error}") from None

    def tags(self, flexible: bool) -> None:
        """Skip tagged fields."""
        for _ in range(self.varint() if flexible else 0):
            self.varint()
            self.take(self.varint())


def transactional_id(key: bytes) -> str | None:
    """Which id a record is about; None = it is of a version with another meaning.

    Raises: ClusterError, for a damaged key.
    """
    fields = _Bytes(key)
    return fields.string(flexible=False) if fields.number("h") == 0 else None


def transaction_value(value: bytes) -> TransactionValue:
    """A value of version 0 or 1. Raises: ClusterError: it is damaged, or of another version or status."""
    fields = _Bytes(value)
    version = fields.number("h")
    if version not in (0, 1):
        raise ClusterError(f"TransactionLogValue of version {version}")
    flexible = version > 0
    producer_id, producer_epoch, timeout_ms, status = map(fields.number, "qhib")
    if not 0 <= status < len(STATES):
        raise ClusterError(f"transaction status {status}")
    partitions: list[str] = []
    for _ in range(fields.count(flexible)):
        topic = fields.string(flexible)
        partitions += [f"{topic}-{fields.number('i')}" for _ in range(fields.count(flexible))]
        fields.tags(flexible)
    updated_ms, started_ms = fields.number("q"), fields.number("q")
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        status=status,
        partitions=tuple(partitions),
        updated_ms=updated_ms,
        started_ms=started_ms,
    )
