"""Secrets among settings: never written into a file of a run, never shown.

What a client needs to reach a secured cluster is in its endpoint (`core.cluster.Security`), which goes from
process to process through memory. A configuration has none; where one has all the same, its value is hidden.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "(hidden)"
SHOWN_MOST: Final = 200
"""Characters of a value that a message repeats."""

_SECRET: Final = re.compile(r"password|passwd|secret|credential|jaas|oauthbearer|token|\.pem\b|\bkey\b", re.I)


def is_secret(name: str) -> bool:
    """Whether the setting of this name, Kafka's or librdkafka's, holds a secret."""
    return _SECRET.search(name) is not None


def masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """These settings, and those in them, with every secret hidden."""
    return {name: _masked(name, value) for name, value in settings.items()}


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return masked(value)
    return HIDDEN if is_secret(name) else value


def shown(value: object) -> str:
    """A given value in a message: on one line, cut, and hidden where it names a secret."""
    text = repr(value)
    if is_secret(text):
        return HIDDEN
    return text if len(text) <= SHOWN_MOST else f"{text[:SHOWN_MOST]}…"
