"""Long lists in messages: the first few, and how many more there are."""

from collections.abc import Sequence


def first_few(things: Sequence[object], most: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(things) - most} more" if len(things) > most else ""
    return ", ".join(map(str, things[:most])) + more


def few_of(words: Sequence[str], most: int) -> list[str]:
    """These words, or the first of them and `and 3 more`."""
    return [*words[:most], *([f"and {len(words) - most} more"] if len(words) > most else [])]
