"""Secrets among settings: never left in a file of a run, never shown.

What a client needs to reach a secured cluster is in its endpoint (`core.cluster.Security`), which goes from
process to process through memory. A configuration has none; where one has all the same, its value is hidden.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

HIDDEN: Final = "(hidden)"
SECRET: Final = frozenset({"sasl.password", "ssl.key.password"})
"""Settings of clients whose value is a secret, by librdkafka's names."""
SHOWN_MOST: Final = 200
"""Characters of a value that a message repeats."""

_SECRET: Final = re.compile(r"password|passwd|secret|credential|jaas|oauthbearer|token|\.pem\b|\bkey\b", re.I)


def is_secret(name: str) -> bool:
    """Whether the setting of this name, Kafka's or librdkafka's, holds a secret."""
    return _SECRET.search(name) is not None


def masked(settings: Mapping[str, object]) -> dict[str, object]:
    """These settings, and those in them, with every secret hidden."""
    return {name: _masked(name, value) for name, value in settings.items()}


def _masked(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        return masked(value)
    return HIDDEN if is_secret(name) else value


def secrets_of(settings: Mapping[str, str]) -> frozenset[str]:
    """The secrets among settings of clients."""
    return frozenset(settings[name] for name in SECRET & settings.keys() if settings[name])


def without(text: str, secrets: Iterable[str]) -> str:
    """A text with these hidden, also as JSON has them."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another one
        for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            text = text.replace(form, HIDDEN)
    return text


def hide(path: Path, hidden: Callable[[str], str]) -> None:
    """Put a text with its secrets hidden in the place of the text. Its other bytes stay. Raises: OSError."""
    beside = path.with_name(f".{path.name}")
    opened = functools.partial(open, encoding="utf-8", errors="surrogateescape", newline="")
    try:
        with opened(path) as given, opened(beside, "w") as made:
            made.writelines(map(hidden, given))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def shown(value: object) -> str:
    """A given value in a message: on one line, cut, and hidden where it names a secret."""
    text = repr(value)
    if is_secret(text):
        return HIDDEN
    return text if len(text) <= SHOWN_MOST else f"{text[:SHOWN_MOST]}…"
