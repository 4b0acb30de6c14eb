"""Keys of records in compacted topics. A value says which key its record has, and whether the record is a
tombstone, which deletes that key: so everything that knows a value knows both.

    process 32 bits | count 24 | tombstone 1 | key 7

Records of the input of an application have fewer keys, and no tombstones: `input_key_of`.
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


INPUT_KEYS: Final = 16
"""Keys of one partition of the input of an application: 0 to INPUT_KEYS - 1."""


def input_key_of(value: int) -> int:
    """The key, within its partition, of an input record of an application."""
    return value % INPUT_KEYS


def input_key_bytes(partition: int, value: int) -> bytes:
    """The same as it stands in the log: all records of a key are in one partition."""
    return b"key-%d-%d" % (partition, input_key_of(value))
