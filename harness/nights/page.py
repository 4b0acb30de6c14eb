"""The index of a results folder: one self-contained page with its sessions, findings and runs.

The page loads nothing, and its policy names the digest of its only script. Without the script filters and the
choice of a theme are missing, and nothing else.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from harness.nights import cards, runs, trend
from harness.nights.headline import UNDER_WAY
from harness.nights.runs import COMBINATION
from harness.nights.shares import records
from harness.nights.side_by_side import ALL
from harness.nights.totals import Totals, totals
from harness.report import wording
from harness.report.page import clip, environment_of, policy, scripts, source
from harness.report.wording import VerdictState
from history.run_folder import write_atomically
from history.tasks import Here, Workers

NAME, COMPARED = "index.html", "compared.html"
NONE = VerdictState("neutral", "–", "No session yet", "This folder holds only runs made by hand.")
RUN_STATES: dict[str, VerdictState] = {
    **{str(result): state for result, state in wording.STATES.items()},
    "error": VerdictState("unknown", "!", "Harness error", "The harness failed; nothing can be concluded."),
    "interrupted": VerdictState("neutral", "–", "Interrupted", "A person ended it."),
    UNDER_WAY: VerdictState("neutral", "…", "Not finished", "It is under way, or a crash ended it."),
}
"""What a run came to: the words of reports, and those of runs without a verdict."""


SYSTEM_WORDS = {"kafka": "Kafka"}


def build(results: Path, workers: Workers | None = None) -> Path:
    """Write `index.html` of a results folder, and `compared.html` where sessions compare systems; the path of
    the former. workers: read the nights; None = this process.

    Raises: OSError, HistoryError; SparkError, where jobs of the workers cannot be done.
    """
    for name, page in pages(results, workers).items():
        write_atomically(results / name, page)
    return results / NAME


def pages(results: Path, workers: Workers | None = None) -> dict[str, str]:
    """The pages of a results folder by the names of their files: the index, and where sessions compare
    systems the page of these, which the index links to. workers, errors: see `build`."""
    every = totals(results, workers or Here())
    return {NAME: _index(results, every)} | ({COMPARED: compared(every)} if every.side.compares else {})


def compared(every: Totals) -> str:
    """The page of systems side by side."""
    return (
        _environment()
        .get_template("compared.html.j2")
        .render(
            side=every.side,
            runs=sum(cell.judged for cell in every.side.rows[ALL] if cell is not None),
            views=every.views,
            style=Markup(source("report.css") + source("index.css", __package__)),
            policy=policy(""),
        )
    )


def render(results: Path, workers: Workers | None = None) -> str:
    """The whole index. workers, errors: see `build`."""
    return pages(results, workers)[NAME]


def _index(results: Path, every: Totals) -> str:
    style = source("report.css") + source("index.css", __package__)
    script = scripts(source("page.js"), source("index.js", __package__))
    page = (
        _environment()
        .get_template("index.html.j2")
        .render(
            results=results.resolve().name,
            newest=every.views[-1] if every.views else None,
            no_session=NONE,
            views=every.views[::-1],
            findings=every.findings,
            cards=cards.build(results, every),
            cards_most=cards.CARDS_MAX,
            groups=every.groups,
            allowed=every.allowed,
            lived=every.lived,
            side=every.side,
            compared=COMPARED,
            runs=records(every.shown),
            runs_left_out=every.many - len(every.shown),
            choices=_choices(every.shown),
            trend=trend.build(pd.DataFrame([view.numbers for view in every.views])),
            trend_box=(trend.WIDTH, trend.HEIGHT),
            state_of=RUN_STATES,
            style=Markup(style),
            script=Markup(script),
            policy=policy(script),
        )
    )
    return page.encode("utf-8", "replace").decode()  # the name of a folder may not be text


def _environment() -> Environment:
    environment = environment_of(__package__)
    environment.filters.update(
        session_name=session_name,
        href=href,
        known=known,
        lasted=lasted,
        system_name=system_name,
        commas=commas,
    )
    return environment


def href(path: str) -> str:
    """A path below the results folder as a relative address, whatever its characters."""
    return "./" + quote(os.fsencode(path))


def session_name(name: str) -> str:
    """`2026-03-01 22:00` from the name of a session; the name itself, where it holds no time."""
    stamp = runs.stamp(name)
    return name if stamp is None else f"{stamp:%Y-%m-%d %H:%M}"


def system_name(system: str, version: str) -> str:
    """A system with its version; "" = not on record."""
    return f"{SYSTEM_WORDS.get(system, system)} {version}".strip()


def commas(text: str) -> Markup:
    """A list that may be broken after its commas, and nowhere else."""
    return Markup(",<wbr>").join(text.split(","))


def known(value: float | str | None) -> bool:
    """Whether there is a number."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def lasted(seconds: float) -> str:
    """`1 h 5 min`, `12 min`, `40 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _choices(shown: pd.DataFrame) -> list[tuple[str, str, Sequence[tuple[str, str]]]]:
    """Filters: name of the column, heading, and the choices as (value, text)."""
    found: list[tuple[str, str, Sequence[tuple[str, str]]]] = []
    for column in COMBINATION:
        values = sorted(set(shown[column]) - {""})
        found.append((column, column.capitalize(), [(value, clip(value, 60)) for value in values]))
    systems = sorted({*map(system_name, shown["system"], shown["version"])} - {""})
    found.append(("system", "System", [(name, clip(name, 60)) for name in systems]))
    words = [(str(key), state.word) for key, state in RUN_STATES.items() if key in set(shown["word"])]
    found.append(("word", "Result", words))
    names = sorted(set(shown["session"]) - {""}, reverse=True)
    by_hand = [("-", "by hand")] if "" in set(shown["session"]) else []
    found.append(("session", "Session", [*((name, session_name(name)) for name in names), *by_hand]))
    return found
