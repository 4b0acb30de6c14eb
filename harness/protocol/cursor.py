"""Kafka's primitive types read from bytes.

Numbers are big-endian. Variable-length numbers are those of protocol buffers; records use the signed
(zigzag) form, messages the unsigned one.
"""

from typing import Final

VARINT_BITS: Final = 32
VARLONG_BITS: Final = 64


class Malformed(ValueError):
    """Bytes are not what their format requires.

    at: index of the first byte that could not be read, from the beginning of the cursor's data. why: one
    clause, without the place.
    """

    def __init__(self, at: int, why: str) -> None:
        super().__init__(f"{why} (byte {at})")
        self.at = at
        self.why = why


class Cursor:
    """A place in bytes that moves forward only. Its methods raise Malformed and never read past the end."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes | memoryview, at: int = 0, end: int | None = None) -> None:
        """Stand at `at`; `end`: index of the first byte that does not belong (default: all of `data`)."""
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return self.end - self.at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if not 0 <= size <= self.left:
            raise Malformed(self.at, f"{size} bytes are announced and {self.left} are left")
        begin, self.at = self.at, self.at + size
        return bytes(self.data[begin : self.at])

    def integer(self, size: int, *, signed: bool = True) -> int:
        """The next number of `size` bytes."""
        begin, after = self.at, self.at + size
        if after > self.end:
            raise Malformed(begin, f"{size} bytes are announced and {self.left} are left")
        self.at = after
        return int.from_bytes(self.data[begin:after], "big", signed=signed)

    def unsigned_varint(self, bits: int = VARINT_BITS) -> int:
        """The next unsigned variable-length number of at most `bits` bits."""
        begin = at = self.at
        if at < self.end and (value := self.data[at]) < 0x80:  # most lengths
            self.at = at + 1
            return value
        value = shift = 0
        while True:
            if at >= self.end:
                raise Malformed(begin, "a variable-length number is cut off")
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise Malformed(begin, f"a variable-length number has more than {bits} bits")
        self.at = at
        return value & ((1 << bits) - 1)

    def varint(self, bits: int = VARINT_BITS) -> int:
        """The next signed (zigzag) variable-length number of at most `bits` bits."""
        value = self.unsigned_varint(bits)
        return (value >> 1) ^ -(value & 1)

    def nullable(self) -> bytes | None:
        """The next bytes, after their length as a signed variable-length number; -1 = None."""
        size = self.varint()
        return None if size == -1 else self.take(size)
