"""Keys of records in compacted topics. A value says which key its record has, and whether the record is a
tombstone, which deletes that key: so everything that knows a value knows both.

    process 32 bits | count 24 | tombstone 1 | key 7
"""

from typing import Final

KEYS: Final = 128
"""Keys of one partition: 0 to KEYS - 1."""
EACH: Final = 2 * KEYS
"""Distance between two neighbouring values that have one key and are both tombstones, or both none."""


def key_of(value: int) -> int:
    """The key of a record."""
    return value % KEYS


def is_tombstone(value: int) -> bool:
    """Whether a record deletes its key."""
    return value // KEYS % 2 == 1


def key_bytes(value: int) -> bytes:
    """The key as it stands in the log."""
    return b"key-%d" % key_of(value)
