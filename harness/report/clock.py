"""Times in the page: seconds since the start of the run, which a script may show by the wall clock.

Sentences of the verdict name times as they stand in their source: the checks in seconds of the run, the rules
about brokers' logs in milliseconds of the brokers' clock. The page shows both in seconds of the run.
"""

import re

from markupsafe import Markup, escape

SECONDS = re.compile(r"\b(at|until after) (\d+\.\d+) s\b")
DAY_MS = 86_400_000
CLOCK = re.compile(r"\b(from|of|at) (\d{1,15})(?: to (\d{1,15}))? ms\b")


def passes_midnight(start_ms: float | None, end_s: float) -> bool:
    """Whether a run of this length, which began then by the wall clock in UTC, has more than one day: times
    of the day alone would name several moments. start_ms None: not on record."""
    return start_ms is not None and start_ms // DAY_MS != (start_ms + end_s * 1e3) // DAY_MS


def at(seconds: float | None, digits: int = 3) -> Markup:
    """A time, with its unit; a dash where it is not known."""
    return _time(seconds, digits, " s") if seconds is not None else Markup("–")


def cell(seconds: float | None, digits: int = 3) -> Markup:
    """A time in a column whose heading has the unit."""
    return _time(seconds, digits, "") if seconds is not None else Markup("–")


def _time(seconds: float, digits: int, unit: str) -> Markup:
    more = Markup("") if unit else Markup(" data-cell")
    shown = f"{seconds:.{digits}f}{unit}"
    return Markup('<time data-s="{}" data-digits="{}"{}>{}</time>').format(
        f"{seconds:.6f}", digits, more, shown
    )


def timed(text: str, start_ms: float) -> Markup:
    """A sentence with its times in seconds of the run. start_ms: start of the run by the brokers' clock."""

    def of_run(found: re.Match[str]) -> str:
        return f"{found[1]} {at(float(found[2]))}"

    def of_brokers(found: re.Match[str]) -> str:
        first, *more = (at((int(ms) - start_ms) / 1e3) for ms in found.groups()[1:] if ms)
        return f"{found[1]} {first}" + (f" to {more[0]}" if more and more[0] != first else "")

    return Markup(CLOCK.sub(of_brokers, SECONDS.sub(of_run, str(escape(text)))))
