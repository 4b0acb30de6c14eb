"""The list of differences that are known and explained: differences.toml."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from core.errors import ClusterError
from harness.contract.examples import Difference, errors

FILE: Final = Path(__file__).with_name("differences.toml")


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the file. reason: why it stays. source: file and line of Kafka."""

    name: str
    request: str
    kafka: str
    model: str
    reason: str
    source: str
    from_: str = msgspec.field(name="from", default="0")
    before: str = "99"

    def explains(self, difference: Difference, kafka: str) -> bool:
        """Whether this is the difference, for this version of Kafka."""
        return (
            type(difference.request).__name__ == self.request
            and self.kafka in errors(difference.real)
            and self.model in errors(difference.modelled)
            and _number(self.from_) <= _number(kafka) < _number(self.before)
        )


class KnownCell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the file: a word that only Kafka shows in a column of scenarios' tables. The rest as with
    `Known`."""

    name: str
    column: str
    word: str
    reason: str
    source: str
    from_: str = msgspec.field(name="from", default="0")
    before: str = "99"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


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
    known = {
        one.word
        for one in listed
        if one.column == column and _number(one.from_) <= _number(kafka) < _number(one.before)
    }
    if not known & set(cell.split()):
        return cell
    return " ".join(word for word in cell.split() if word not in known) or "–"


def explanation(difference: Difference, kafka: str, listed: tuple[Known, ...]) -> Known | None:
    """The entry that explains a difference; None where none does."""
    return next((one for one in listed if one.explains(difference, kafka)), None)
