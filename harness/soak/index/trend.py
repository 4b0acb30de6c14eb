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
    """The trend of `tables.by_session`; None without sessions."""
    shown = sessions.tail(SESSIONS_MAX)
    if shown.empty:
        return None
    slots = max(len(shown), SLOTS_LEAST)
    rows = [_runs(shown, slots)]
    for label, column, style, digits, unit in (
        ("open", "open", "t-open", 0, ""),
        ("known bugs", "known", "t-known", 0, ""),
        ("available", "available", "t-good", 0, " %"),
        ("recovery", "recovery_s", "t-plain", 1, " s"),
    ):
        rows.append(_single(shown, slots, label, column, style, digits, unit))
    return Trend(
        rows=rows,
        first=str(shown["session"].iloc[0]),
        last=str(shown["session"].iloc[-1]),
        width=100 * len(shown) / slots,
        left_out=len(sessions) - len(shown),
    )


def _place(number: int, slots: int) -> tuple[float, float]:
    step = WIDTH / slots
    return round(number * step + step * 0.12, 1), round(step * 0.76, 1)


def _runs(sessions: pd.DataFrame, slots: int) -> TrendRow:
    """Columns of two parts: failing runs below, the others above."""
    most = max(int(sessions["runs"].max()), int(sessions["failing"].max()), 1)
    columns = []
    for number, (session, runs, failing) in enumerate(
        zip(sessions["session"], sessions["runs"], sessions["failing"], strict=True)
    ):
        x, width = _place(number, slots)
        low = (HEIGHT - 2) * failing / most
        high = (HEIGHT - 2) * max(runs - failing, 0) / most
        title = f"{session}: {wording.count(runs, 'run')}, {wording.number(failing)} failing"
        columns += [
            TrendColumn(
                x=x,
                y=round(HEIGHT - bottom - high_of, 1),
                width=width,
                height=round(high_of, 1),
                style=style,
                title=title,
            )
            for style, bottom, high_of in (("t-bad", 0.0, low), ("t-plain", low, high))
            if high_of > 0
        ]
    last = sessions.iloc[-1]
    note = f"{wording.count(int(last['runs']), 'run')}, {wording.number(int(last['failing']))} failing"
    return TrendRow(label="runs", note=note, columns=columns)


def _single(
    sessions: pd.DataFrame, slots: int, label: str, column: str, style: str, digits: int, unit: str
) -> TrendRow:
    scale = 100.0 if unit == " %" else 1.0
    values = [float(value) * scale for value in sessions[column]]
    known = [value for value in values if not math.isnan(value)]
    most = 100.0 if unit == " %" else max([*known, 1.0])
    columns = []
    for number, (session, value) in enumerate(zip(sessions["session"], values, strict=True)):
        if math.isnan(value) or value <= 0:
            continue
        x, width = _place(number, slots)
        height = max((HEIGHT - 2) * value / most, 1.5)
        told = f"{wording.number(value, digits)}{unit}"
        columns.append(
            TrendColumn(
                x=x,
                y=round(HEIGHT - height, 1),
                width=width,
                height=round(height, 1),
                style=style,
                title=f"{session}: {label} {told}",
            )
        )
    last = values[-1]
    told = "unknown" if math.isnan(last) else f"{wording.number(last, digits)}{unit}"
    return TrendRow(label=label, note=told, columns=columns)
