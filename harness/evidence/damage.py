"""What is wrong with files that could not be read as a whole: one clear error a file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Damage:
    """The first thing in a file that could not be read, or that contradicts the rest of it.

    position: in bytes from the beginning of the file. why: one clause.
    """

    file: Path
    position: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}, byte {self.position}: {self.why}"


class Damages:
    """The damage of each file that has some; of several in one file the one nearest to its beginning."""

    def __init__(self) -> None:
        self._first: dict[Path, Damage] = {}

    def note(self, file: Path, position: int, why: str) -> None:
        """Something is wrong at this place."""
        known = self._first.get(file)
        if known is None or position < known.position:
            self._first[file] = Damage(file, position, why)

    def __iter__(self) -> Iterator[Damage]:
        return iter(self._first.values())

    def __len__(self) -> int:
        return len(self._first)
