"""The findings of all nights: a row is a known bug, or a class of anomalies that none explains; a column is a
system in one version, with the clients that loaded it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from harness.nights.runs import SYSTEM
from harness.nights.shares import BUG, records
from history.verdict import NOT_RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemColumn:
    """A system, and how many runs of it have a verdict. planted: the bug in it, "" = none."""

    system: str
    version: str
    client: str
    planted: str
    judged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """A known bug, or a class of anomalies. planted: the bug in the systems that showed it, "" = none.

    names: of the classes that it showed itself in. runs: with it, by column; newest: of the newest session.
    first, last: sessions. report, folder: of the newest run, "" = gone. new: no earlier session has it.
    """

    finding: str
    known_bug: str
    planted: str
    names: tuple[str, ...]
    runs: tuple[int, ...]
    newest: int
    first: str
    last: str
    report: str
    folder: str
    new: bool

    @property
    def open(self) -> bool:
        """Of no known bug, of none that was planted, and more than a cluster that did not recover."""
        return not self.known_bug and not self.planted and self.finding != NOT_RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Rows: new ones first, then open ones, then those that the newest sessions have. compared: there is a
    session before the newest one."""

    columns: list[SystemColumn]
    rows: list[FindingRow]
    compared: bool

    @property
    def new(self) -> list[FindingRow]:
        """What the newest session found and no earlier one."""
        return [row for row in self.rows if row.new]

    @classmethod
    def of(cls, bugs: pd.DataFrame, tested: pd.DataFrame, newest: str, *, compared: bool) -> "Findings":
        """Of the sums of all shares (`shares.BUGS`, `shares.TESTED`)."""
        systems = tested.groupby(SYSTEM, as_index=False).agg({"judged": "sum"}).sort_values(SYSTEM)
        columns = [SystemColumn(**row) for row in records(systems)]
        keys = [tuple(getattr(one, name) for name in SYSTEM) for one in columns]
        rows = [_row(mine, keys, newest) for _, mine in bugs.groupby(BUG)]
        rows.sort(key=lambda row: (row.finding, row.known_bug, row.planted))
        rows.sort(key=lambda row: (row.new, row.open, row.last, sum(row.runs)), reverse=True)
        return cls(columns=columns, rows=rows, compared=compared)


def _row(mine: pd.DataFrame, columns: Sequence[tuple[str, ...]], newest: str) -> FindingRow:
    last = mine.sort_values(["at", "number"], kind="stable").iloc[-1]
    runs = mine.groupby(SYSTEM)["runs"].sum()
    first = str(mine["session"].min())
    return FindingRow(
        names=tuple(sorted(set().union(*mine["names"]))),
        runs=tuple(int(runs.get(column, 0)) for column in columns),
        newest=int(mine.loc[mine["session"] == newest, "runs"].sum()),
        first=first,
        last=str(mine["session"].max()),
        new=first == newest,
        **{name: str(last[name]) for name in (*BUG, "report", "folder")},
    )
