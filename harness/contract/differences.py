"""The list of differences that are known and explained: differences.toml."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from core.errors import ClusterError
from core.systems import numbers_of

FILE: Final = Path(__file__).with_name("differences.toml")


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the file. bug: with this planted bug the model answers as Kafka does. reason: why the model does
    not have it otherwise. source: file and line of Kafka. from, before: versions of Kafka, the second one not
    included."""

    bug: str
    reason: str
    source: str
    from_: str = msgspec.field(name="from", default="0")
    before: str = "99"


class KnownCell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the file: a word that only Kafka shows in a column of scenarios' tables, for this reason. The
    rest as with `Known`."""

    name: str
    column: str
    word: str
    reason: str
    source: str
    from_: str = msgspec.field(name="from", default="0")
    before: str = "99"


def _concerns(one: Known | KnownCell, kafka: str) -> bool:
    return numbers_of(one.from_) <= numbers_of(kafka) < numbers_of(one.before)


T = TypeVar("T")


def _read(path: Path, table: str, kind: type[T]) -> tuple[T, ...]:
    try:
        rows = tomllib.loads(path.read_text()).get(table, [])
        return msgspec.convert(tuple(rows), tuple[kind, ...])  # type: ignore[valid-type]
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path}: {error}") from error


@cache
def known(path: Path = FILE) -> tuple[Known, ...]:
    """All answers of the file, in its order. Raises: ClusterError, where it cannot be read."""
    return _read(path, "difference", Known)


@cache
def known_cells(path: Path = FILE) -> tuple[KnownCell, ...]:
    """All words of the file, in its order. Raises: ClusterError, where it cannot be read."""
    return _read(path, "cell", KnownCell)


def without_known(column: str, cell: str, kafka: str, listed: tuple[KnownCell, ...]) -> str:
    """A cell of a broker of this version without the words that only Kafka shows."""
    known = {one.word for one in listed if one.column == column and _concerns(one, kafka)}
    if not known & set(cell.split()):
        return cell
    return " ".join(word for word in cell.split() if word not in known) or "–"


def bugs_of(kafka: str, listed: tuple[Known, ...]) -> tuple[str, ...]:
    """Planted bugs with which the model answers as this version of Kafka does."""
    return tuple(one.bug for one in listed if _concerns(one, kafka))
