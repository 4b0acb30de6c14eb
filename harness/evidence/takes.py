"""The takes of one run: what was found at kills and at the end, gathered and written as its evidence."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from history import evidence


class Takes:
    """Takes in the order of time. Evidence that is missing never breaks a run: it is noted."""

    def __init__(self) -> None:
        self._count = 0
        self._found: list[Mapping[str, pa.Table]] = []
        self._missed: list[str] = []

    def begin(self) -> int:
        """The number of a new take."""
        self._count += 1
        return self._count - 1

    @property
    def last(self) -> int:
        """The number of the newest take."""
        return self._count - 1

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """What a take found on a node: tables with the columns of `evidence_tables.schema`."""
        self._found.append(tables)

    def miss(self, why: str) -> None:
        """Something could not be taken; a sentence."""
        self._missed.append(why)

    def write(self, into: Path) -> list[str]:
        """Write the tables; no folder where nothing was found. Returns what is missing; never raises."""
        missed = list(self._missed)
        if self._found:
            try:
                evidence.write(into, evidence.merged(self._found))
            except (OSError, pa.ArrowException) as error:
                missed.append(f"{into}: {error}")
        return missed
