"""What is said of a name that is not among the known ones."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`unknown workload 'queu'; did you mean 'queue'? known: …`."""
    names = list(known)
    return f"{what} {name!r}; {meant(name, names)}known: {', '.join(names)}"


def unlisted(what: str, name: str, known: Iterable[str], where: str) -> str:
    """The same of names that are too many for a line: `unknown mutant 'foo'; all of them: inquest list …`."""
    return f"{what} {name!r}; {meant(name, known)}all of them: inquest list {where}"


def meant(name: str, known: Iterable[str]) -> str:
    """`did you mean 'queue'? `; "" where no known name is near."""
    return "".join(f"did you mean {near!r}? " for near in get_close_matches(name, list(known), 1))
