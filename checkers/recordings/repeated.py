"""JSON objects that say a key twice: a decoder takes one of the two values and drops the other in silence,
so such text has no one meaning."""

import json
from collections import Counter

import msgspec


class RepeatedKey(ValueError):
    """A key that stands twice in one object; the message names it."""


def refuse_repeated(text: bytes | msgspec.Raw, *, deep: bool = True) -> None:
    """Check text that a decoder has taken. deep: with what its values hold. Raises: RepeatedKey."""
    # Decoding and encoding loses what is repeated. Where nothing is lost, nothing is repeated; where the text
    # is only spelled in another way, the slow way tells.
    plain = bytes(msgspec.json.format(bytes(text), indent=-1))
    read = msgspec.json.decode(plain) if deep else msgspec.json.decode(plain, type=dict[str, msgspec.Raw])
    if msgspec.json.encode(read) != plain:
        json.loads(plain, object_pairs_hook=_distinct, parse_int=str, parse_float=str)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        key, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise RepeatedKey(f"the key {key[:40]!r} stands twice in one object")
    return made
