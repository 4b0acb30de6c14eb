"""The trend over nights: a few rows of columns, one column a night, as shapes that need no script.

Drawn in a box of `WIDTH` x `HEIGHT` that the page stretches, as `static` does; words stand beside it.

Not here: the numbers (`tables`), markup (the template).
"""

import math
from dataclasses import dataclass

import pandas as pd

from harness.report import words

WIDTH, HEIGHT = 1000, 40
NIGHTS_MAX = 90
SLOTS_LEAST = 12
"""A few nights do not make columns as wide as the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A part of a column. style: a class of the style sheet."""

    x: float
    y: float
    width: float
    height: float
    style: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: its name, its columns, and what the newest night has."""

    label: str
    note: str
    columns: list[Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """All rows; first, last: names of the outermost nights; width: part of the box in use, per cent."""

    rows: list[Row]
    first: str
    last: str
    width: float
    left_out: int


def build(nights: pd.DataFrame) -> Trend | None:
    """The trend of `tables.by_night`; None without nights."""
    shown = nights.tail(NIGHTS_MAX)
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
        first=str(shown["night"].iloc[0]),
        last=str(shown["night"].iloc[-1]),
        width=100 * len(shown) / slots,
        left_out=len(nights) - len(shown),
    )


def _place(number: int, slots: int) -> tuple[float, float]:
    step = WIDTH / slots
    return round(number * step + step * 0.12, 1), round(step * 0.76, 1)


def _runs(nights: pd.DataFrame, slots: int) -> Row:
    """Columns of two parts: failing runs below, the others above."""
    most = max(int(nights["runs"].max()), int(nights["failing"].max()), 1)
    columns = []
    for number, (night, runs, failing) in enumerate(
        zip(nights["night"], nights["runs"], nights["failing"], strict=True)
    ):
        x, width = _place(number, slots)
        low = (HEIGHT - 2) * failing / most
        high = (HEIGHT - 2) * max(runs - failing, 0) / most
        title = f"{night}: {words.count(runs, 'run')}, {words.number(failing)} failing"
        columns += [
            Column(x=x, y=round(HEIGHT - bottom - high_of, 1), width=width,
                   height=round(high_of, 1), style=style, title=title)
            for style, bottom, high_of in (("t-bad", 0.0, low), ("t-plain", low, high))
            if high_of > 0
        ]  # fmt: skip
    last = nights.iloc[-1]
    note = f"{words.count(int(last['runs']), 'run')}, {words.number(int(last['failing']))} failing"
    return Row(label="runs", note=note, columns=columns)


def _single(
    nights: pd.DataFrame, slots: int, label: str, column: str, style: str, digits: int, unit: str
) -> Row:
    scale = 100.0 if unit == " %" else 1.0
    values = [float(value) * scale for value in nights[column]]
    known = [value for value in values if not math.isnan(value)]
    most = 100.0 if unit == " %" else max([*known, 1.0])
    columns = []
    for number, (night, value) in enumerate(zip(nights["night"], values, strict=True)):
        if math.isnan(value) or value <= 0:
            continue
        x, width = _place(number, slots)
        height = max((HEIGHT - 2) * value / most, 1.5)
        told = f"{words.number(value, digits)}{unit}"
        columns.append(
            Column(x=x, y=round(HEIGHT - height, 1), width=width, height=round(height, 1),
                   style=style, title=f"{night}: {label} {told}")
        )  # fmt: skip
    last = values[-1]
    told = "not known" if math.isnan(last) else f"{words.number(last, digits)}{unit}"
    return Row(label=label, note=told, columns=columns)
