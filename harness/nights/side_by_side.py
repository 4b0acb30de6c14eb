"""Systems side by side: a row is a nemesis, a column a system in one version with the clients that loaded it;
a cell says how many of its drawn runs have a forbidden finding, with the Wilson interval of 95 %."""

from dataclasses import dataclass
from typing import Final

import pandas as pd

from harness.nights.shares import SIDE, SUMS, records

CONFIDENCE: Final = 0.95
ALL: Final = "all"
"""The row of all nemeses together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCell:
    """Runs with a verdict, those of them with a forbidden finding, and with one that no known bug explains.

    rate, low, high: of forbidden ones. available: mean share of the phase of faults; recovery_s: mean; both
    None = not known.
    """

    judged: int
    forbidden: int
    open: int
    rate: float
    low: float
    high: float
    available: float | None
    recovery_s: float | None


Column = tuple[str, str, str]
"""System, version, clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """rows: nemesis -> a cell for each column, None = no run; the first row is of all nemeses."""

    columns: list[Column]
    rows: dict[str, list[SideCell | None]]

    @property
    def compares(self) -> bool:
        """There is more than one system."""
        return len(self.columns) > 1

    @classmethod
    def of(cls, side: pd.DataFrame) -> "SideBySide":
        """Of the sums of all shares (`shares.SIDE`)."""
        every = side.assign(nemesis=ALL)
        sums = pd.concat([every, side]).groupby(SIDE)[SUMS].sum()
        cells = dict(zip(sums.index, map(_cell, records(sums)), strict=True))
        columns = sorted({key[:3] for key in cells})
        names = [ALL, *sorted(set(side["nemesis"]))] if columns else []
        rows = {name: [cells.get((*column, name)) for column in columns] for name in names}
        return cls(columns=columns, rows=rows)


def _cell(sums: dict[str, float]) -> SideCell:
    judged, forbidden = int(sums["judged"]), int(sums["forbidden"])
    return SideCell(
        judged=judged,
        forbidden=forbidden,
        open=int(sums["open"]),
        **rate(forbidden, judged),
        available=sums["available"] / sums["known"] if sums["known"] else None,
        recovery_s=sums["recovery_s"] / sums["recovered"] if sums["recovered"] else None,
    )


def rate(many: int, of: int) -> dict[str, float]:
    """Share with its Wilson interval (E. B. Wilson, JASA 22, 1927)."""
    from scipy.stats import binomtest

    if not of:
        return dict.fromkeys(("rate", "low", "high"), float("nan"))
    interval = binomtest(many, of).proportion_ci(CONFIDENCE, method="wilson")
    return {"rate": many / of, "low": float(interval.low), "high": float(interval.high)}
