"""The trend over sessions: a few rows of columns, one column a session, as shapes that need no script.

The shapes lie in a box of `WIDTH` x `HEIGHT` that the page stretches; words stand beside it.
"""

import math
from dataclasses import dataclass

import pandas as pd

from harness.report import wording

WIDTH, HEIGHT = 1000, 40
SESSIONS_MAX = 90
SLOTS_LEAST = 12
"""Columns are never wider than with this number of sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendColumn:
    """A rectangle of a column. style: a class of the style sheet."""

    x: float
    y: float
    width: float
    height: float
    style: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendRow:
    """One row. note: the number of the newest session, in words."""

    label: str
    note: str
    columns: list[TrendColumn]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """All rows; first, last: names of the outermost sessions; width: part of the box in use, per cent."""

    rows: list[TrendRow]
    first: str
    last: str
    width: float
    left_out: int


def build(sessions: pd.DataFrame) -> Trend | None:
    """The trend of the numbers of sessions, oldest first; None without sessions."""
    shown = sessions.tail(SESSIONS_MAX)
    if shown.empty:
        return None
    names, runs, failing = (list(shown[column]) for column in ("session", "runs", "failing"))
    passing = [max(many - bad, 0) for many, bad in zip(runs, failing, strict=True)]
    told = [
        f"{wording.count(many, 'run')}, {wording.number(bad)} failing"
        for many, bad in zip(runs, failing, strict=True)
    ]
    parts = [("t-bad", failing), ("t-plain", passing)]
    titles = [f"{name}: {text}" for name, text in zip(names, told, strict=True)]
    rows = [TrendRow(label="runs", note=told[-1], columns=_columns(titles, parts, max(*runs, *failing, 1)))]
    for label, column, style, digits, unit in (
        ("open", "open", "t-open", 0, ""),
        ("known bugs", "known", "t-known", 0, ""),
        ("available", "available", "t-good", 0, " %"),
        ("recovery", "recovery_s", "t-plain", 1, " s"),
    ):
        values = [float(value) for value in shown[column]]
        most = 1.0 if unit == " %" else max([1.0, *(v for v in values if v > 1)])
        known = [wording.share(v) if unit == " %" else wording.number(v, digits) for v in values]
        told = ["unknown" if math.isnan(v) else f"{w}{unit}" for v, w in zip(values, known, strict=True)]
        titles = [f"{name}: {label} {text}" for name, text in zip(names, told, strict=True)]
        columns = _columns(titles, [(style, values)], most, least=1.5)
        rows.append(TrendRow(label=label, note=told[-1], columns=columns))
    return Trend(
        rows=rows,
        first=str(names[0]),
        last=str(names[-1]),
        width=100 * len(shown) / max(len(shown), SLOTS_LEAST),
        left_out=len(sessions) - len(shown),
    )


def _columns(
    titles: list[str], parts: list[tuple[str, list[float]]], most: float, least: float = 0.0
) -> list[TrendColumn]:
    """A column a session, made of parts that stand on each other: a style, and a value a session.

    least: height of the smallest value above 0.
    """
    columns = []
    step = WIDTH / max(len(titles), SLOTS_LEAST)
    for number, title in enumerate(titles):
        bottom = float(HEIGHT)
        for style, values in parts:
            if not values[number] > 0:  # NaN too
                continue
            height = max((HEIGHT - 2) * values[number] / most, least)
            bottom -= height
            columns.append(
                TrendColumn(
                    x=round(number * step + step * 0.12, 1),
                    y=round(bottom, 1),
                    width=round(step * 0.76, 1),
                    height=round(height, 1),
                    style=style,
                    title=title,
                )
            )
    return columns
