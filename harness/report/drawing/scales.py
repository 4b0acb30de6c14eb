"""Scales of panels: round numbers beside an axis, and values as SVG paths on it.

Paths are in the box of a strip: seconds across, `height` units down. A value without a neighbour is a dot.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.report.wording import number

Floats = npt.NDArray[np.float64]
TICKS = 4
DECADES = 5


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values stand. y: units from the top. ticks: (per cent from the top, text)."""

    y: Callable[[Floats], Floats]
    ticks: list[tuple[float, str]]


def step(length: float, most: int) -> float:
    """The least of 1, 2, 5, 10, 20 … that divides a length into at most `most` parts."""
    least = length / most
    decade = 10.0 ** math.floor(math.log10(least))
    return next(factor * decade for factor in (1, 2, 5, 10) if factor * decade >= least * (1 - 1e-9))


def decimals(step: float) -> int:
    """Decimals that multiples of a step need."""
    return max(0, -math.floor(math.log10(step) + 1e-9))


def linear(top: float, height: float) -> Scale:
    """From zero at the bottom to `top`, or to 1 where that is less."""
    top = max(top, 1.0)
    each = step(top, TICKS)
    marks = [place * each for place in range(math.floor(top / each + 1e-9) + 1)]
    return Scale(
        lambda values: height * (1 - values / top),
        [(round(100 * (1 - mark / top), 2), _text(mark)) for mark in marks],
    )


def logarithmic(least: float, most: float, height: float) -> Scale:
    """From the power of ten below `least` to the one above `most`."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    high = max(high, low + 1)
    powers = range(low, high + 1, math.ceil((high - low + 1) / (DECADES + 1)))
    return Scale(
        lambda values: height * (high - np.log10(np.maximum(values, 10.0**low))) / (high - low),
        [(round(100 * (high - power) / (high - low), 2), _text(10.0**power)) for power in powers],
    )


def line(x: Floats, y: Floats, digits: int) -> str:
    """A line through values, broken where one is not a number."""
    known = np.concatenate([[False], ~np.isnan(y), [False]])
    parts = []
    for place in np.flatnonzero(known[1:-1]):
        before, after = known[place], known[place + 2]
        point = f"{'L' if before else 'M'}{x[place]:.{digits}f} {y[place]:.1f}"
        parts.append(point if before or after else f"{point}h0")
    return "".join(parts)


def columns(left: Floats, right: Floats, low: Floats, high: Floats, digits: int) -> str:
    """A column from `low` to `high` for each bin in which they differ."""
    return "".join(
        f"M{a:.{digits}f} {below:.1f}V{above:.1f}H{b:.{digits}f}V{below:.1f}Z"
        for a, b, below, above in zip(left, right, low, high, strict=True)
        if below - above > 1e-6
    )


def texts(values: Floats) -> str:
    """Values with as many digits as a reader wants, one for each time, empty where there is none."""
    return ",".join("" if np.isnan(each) else _plain(float(each)) for each in values)


def text(value: float) -> str:
    """A value for people, with as many digits as in `texts`."""
    return number(value) if value >= 1e3 else _plain(value)


def _plain(value: float) -> str:
    return f"{value:.{4 if value < 1e3 else 15}g}"


def _text(mark: float) -> str:
    return number(mark) if mark >= 1 and mark == int(mark) else f"{mark:g}"
