"""Messages of formats 0 and 1, as brokers before 0.11 write them."""

import struct
from zlib import crc32


def message(
    offset: int, key: bytes | None, value: bytes | None, magic: int = 1, attributes: int = 0
) -> bytes:
    """By the protocol guide, "Message sets"."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", 1000 + offset) if magic else b""
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body
