"""Random payloads of any schema of Kafka's protocol, and damage to their frames."""

import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from harness.protocol.schemas import SchemaField, schema

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def payload(rng: random.Random, kind: type[Entity]) -> Any:
    """An instance with random values; arrays have at most two elements."""
    return kind(**{field.name: _value(rng, field) for field in schema(kind)})


def _value(rng: random.Random, field: SchemaField) -> Any:
    if field.array:
        return tuple(_one(rng, field.kind) for _ in range(rng.randint(0, 2)))
    return _one(rng, field.kind)


def _one(rng: random.Random, kind: str | type[Entity]) -> Any:
    return _primitive(rng, kind) if isinstance(kind, str) else payload(rng, kind)


def _primitive(rng: random.Random, name: str) -> Any:
    if name in _BITS:
        half = 1 << (_BITS[name] - 1)
        return rng.choice((0, 1, -1, half - 1, -half, rng.randrange(-half, half)))
    if name.startswith("uint"):
        return rng.randrange(1 << int(name.removeprefix("uint")))
    match name:
        case "string":
            return "".join(rng.choices("aä-", k=rng.choice((0, 3, 200))))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 3, 300)))
        case "bool":
            return rng.random() < 0.5
        case "uuid":
            return uuid.UUID(bytes=rng.randbytes(16), version=4)
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "float64":
            return rng.random()
        case "datetime_i64":
            return datetime.fromtimestamp(rng.randrange(1 << 31), UTC)
        case _:
            assert name.startswith("timedelta"), name
            return timedelta(milliseconds=rng.randrange(1 << 31))


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some changed, with large numbers among them, or cut."""
    made = bytearray(data)
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(made))
        new = rng.choice((b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", rng.randbytes(1)))
        made[at : at + len(new)] = new
    return bytes(made[: rng.randint(1, len(made))]) if rng.random() < 0.2 else bytes(made)
