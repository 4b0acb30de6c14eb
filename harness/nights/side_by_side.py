"""Systems side by side: a column is a system in one version with the clients that loaded it. Of a nemesis a
cell says how many of its drawn runs have a forbidden finding, with the Wilson interval of 95 %; of a known
bug, or a class that none explains, how many runs met it, and how soon.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from harness.nights.shares import SIDE, SUMS, records

CONFIDENCE: Final = 0.95
ALL: Final = "all"
"""The row of all nemeses together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCell:
    """Runs with a verdict, those of them with a forbidden finding, and with one that no known bug explains.

    rate, low, high: of forbidden ones. available: mean share of the phase of faults; recovery_s: mean of
    those that recovered; both None = not known.
    """

    judged: int
    forbidden: int
    open: int
    rate: float
    low: float
    high: float
    available: float | None
    recovery_s: float | None
    recovered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetCell:
    """Runs of a system that met a bug, and of all; first_s: for how long the system ran until the first of
    them had ended, or, where none met it, in all."""

    runs: int
    judged: int
    first_s: float


Column = tuple[str, str, str]
"""System, version, clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """rows: nemesis -> a cell for each column, None = no run; the first row is of all nemeses. met: finding
    and known bug ("" = none) -> a cell for each column; what no known bug explains comes first. sessions:
    that made these runs, oldest first. drawn: how many runs were drawn; everywhere: of these, performed on
    every column."""

    columns: list[Column]
    rows: dict[str, list[SideCell | None]]
    met: dict[tuple[str, str], list[MetCell]]
    sessions: list[str]
    drawn: int
    everywhere: int

    @property
    def compares(self) -> bool:
        """There is more than one system."""
        return len(self.columns) > 1

    @classmethod
    def of(
        cls, side: pd.DataFrame, met: pd.DataFrame, ran: pd.DataFrame, performed: Mapping[object, int]
    ) -> "SideBySide":
        """Of the sums of all shares (`shares.SIDE`, `MET`, `RAN`, `Share.performed`)."""
        every = side.assign(nemesis=ALL)
        sums = pd.concat([every, side]).groupby(SIDE)[SUMS].sum()
        cells = dict(zip(sums.index, map(_cell, records(sums)), strict=True))
        columns = sorted({key[:3] for key in cells})
        names = [ALL, *sorted(set(side["nemesis"]))] if columns else []
        rows = {name: [cells.get((*column, name)) for column in columns] for name in names}
        sessions = sorted(set(ran["session"]))
        return cls(
            columns=columns,
            rows=rows,
            met=_met(columns, met, ran),
            sessions=sessions,
            drawn=sum(performed.values()),
            everywhere=performed.get(tuple(columns), 0),
        )


def _met(columns: list[Column], met: pd.DataFrame, ran: pd.DataFrame) -> dict[tuple[str, str], list[MetCell]]:
    judged, ran_s, before = Counter[Column](), defaultdict[Column, float](float), {}
    for row in records(ran.sort_values("session", kind="stable")):
        column = _column(row)
        before[row["session"], column] = ran_s[column]
        judged[column] += row["judged"]
        ran_s[column] += row["seconds"]
    none = {each: MetCell(runs=0, judged=judged[each], first_s=ran_s[each]) for each in columns}
    found = defaultdict[tuple[str, str], dict[Column, MetCell]](none.copy)
    for row in records(met.sort_values("session", kind="stable")):
        column, cells = _column(row), found[row["known_bug"], row["finding"]]
        cell = cells[column]
        first_s = cell.first_s if cell.runs else before[row["session"], column] + row["first_s"]
        cells[column] = replace(cell, runs=cell.runs + row["runs"], first_s=first_s)
    return {(finding, bug): [*cells.values()] for (bug, finding), cells in sorted(found.items())}


def _column(row: dict[str, str]) -> Column:
    return row["system"], row["version"], row["client"]


def _cell(sums: dict[str, float]) -> SideCell:
    judged, forbidden = int(sums["judged"]), int(sums["forbidden"])
    return SideCell(
        judged=judged,
        forbidden=forbidden,
        open=int(sums["open"]),
        **rate(forbidden, judged),
        available=sums["available"] / sums["known"] if sums["known"] else None,
        recovery_s=sums["recovery_s"] / sums["recovered"] if sums["recovered"] else None,
        recovered=int(sums["recovered"]),
    )


def rate(many: int, of: int) -> dict[str, float]:
    """Share with its Wilson interval (E. B. Wilson, JASA 22, 1927)."""
    from scipy.stats import binomtest

    if not of:
        return dict.fromkeys(("rate", "low", "high"), float("nan"))
    interval = binomtest(many, of).proportion_ci(CONFIDENCE, method="wilson")
    return {"rate": many / of, "low": float(interval.low), "high": float(interval.high)}
