"""The hash by which Kafka places coordinators.

A transactional id belongs to partition `java_hash(id) % n` of `__transaction_state`, a group to that of
`__consumer_offsets`; the partition's leader coordinates it.

Not here: who leads the partition (`coordinating`, `core.cluster.Roles`), the hash of record keys
(murmur2).
"""

from functools import lru_cache


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """Kafka's `Utils.abs(String.hashCode())`, 0 to 2^31 - 1: of UTF-16 units, in 32 bits, signed.

    Not `hashCode & 0x7fffffff`, which is another number for every text whose code is negative. The
    absolute value of -2^31 does not fit an int; Kafka takes 0 for it.
    """
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return min(code, 2**32 - code) % 2**31
