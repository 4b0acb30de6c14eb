"""The index of a results folder: one self-contained page with its nights, findings and runs.

The file loads nothing; only the script with the listed hash runs. It works without it: filters and the
choice of a theme are all that it adds.

Not here: the numbers (`tables`), the trend (`trend`), the report of one run (`page`).
"""

import base64
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness import night as nights
from harness.night import Night
from harness.report import tables, trend, words
from harness.report.page import clip
from harness.report.words import State
from harness.store import write_atomically

NAME = "index.html"
RUNS_MAX = 2000
NONE = State("neutral", "–", "No night yet", "This folder holds runs that were made by hand.")
UNDER_WAY = "under way"
RUN_STATES: dict[str, State] = {
    "valid": State("valid", "✓", "valid", "Nothing forbidden was found."),
    "anomaly": State("anomaly", "✕", "anomaly", "Something forbidden was found."),
    "not-recovered": State("not-recovered", "!", "not recovered", "The cluster did not come back."),
    "silent": State("silent", "○", "did not fire", "A control did not find what it has to find."),
    "unknown": State("unknown", "?", "unknown", "Something could not be decided."),
    "error": State(
        "unknown", "!", "harness error", "The harness failed; nothing can be concluded."
    ),
    "interrupted": State("neutral", "–", "interrupted", "A person ended it."),
    UNDER_WAY: State("neutral", "…", "not over", "It is under way, or was broken off."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NightView:
    """A night for the page. parts: what came of it, the gravest first; progress: "" = it is over."""

    night: Night
    parts: list[State]
    progress: str
    numbers: dict[str, Any]

    @property
    def key(self) -> str:
        """Class of the style sheet."""
        return self.parts[0].key

    @property
    def canary(self) -> str:
        """What came of the canary."""
        return canary_told(self.night)


def build(results: Path) -> Path:
    """Write `index.html` of a results folder; its path. Raises: OSError."""
    page = render(results)
    write_atomically(results / NAME, page)
    return results / NAME


def render(results: Path) -> str:
    """The whole page."""
    found = nights.nights(results)
    runs, findings = tables.runs_and_findings(results, found)
    newest = found[-1].name if found else ""
    numbers = tables.by_night(runs, findings, found)
    views = [
        _view(results, night, row)
        for night, row in zip(found, tables.records(numbers), strict=True)
    ]
    shown = runs.head(RUNS_MAX)
    style = "".join(_source(name) for name in ("report.css", "index.css"))
    script = _source("index.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = _environment().get_template("index.html.j2").render(
        results=results.resolve().name,
        newest=views[-1] if views else None,
        no_night=NONE,
        views=views[::-1],
        groups=tables.records(tables.groups(runs, findings, newest)),
        allowed=tables.records(tables.allowed(runs, findings)),
        runs=_run_rows(shown, findings),
        runs_left_out=len(runs) - len(shown),
        choices=_choices(shown),
        trend=trend.build(numbers),
        trend_box=(trend.WIDTH, trend.HEIGHT),
        state_of=RUN_STATES,
        style=Markup(style),
        script=Markup(script),
        policy="default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )  # fmt: skip
    return page.encode("utf-8", "replace").decode()  # a name of a folder may be no text


def _source(name: str) -> str:
    return files("harness.report").joinpath(name).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=words.number, clip=clip, moment=words.moment, sentence=words.sentence,
        night_name=night_name, href=href, known=known, share=share, lasted=lasted,
    )  # fmt: skip
    environment.globals.update(count=words.count)
    return environment


def href(path: str) -> str:
    """A path below the results folder as an address; never anything else, whatever its characters."""
    return "./" + quote(os.fsencode(path))


def night_name(name: str) -> str:
    """`2026-03-01 22:00` of a night's name; the name where it is none."""
    stamp = tables.stamp(name)
    return name if stamp is None else f"{stamp:%Y-%m-%d %H:%M}"


def known(value: Any) -> bool:
    """Whether a number is there."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def share(value: float) -> str:
    """A share in per cent, with the digits that it deserves."""
    percent = 100 * value
    return words.number(percent, 1 if 0 < percent < 10 or 90 < percent < 100 else 0)


def lasted(seconds: float) -> str:
    """`1 h 5 min`, `12 min`, `40 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _view(results: Path, night: Night, numbers: dict[str, Any]) -> NightView:
    progress = ""
    if night.over is None:
        progress = "interrupted" if night.paused else "broken off"
        if tables.under_way(results / nights.FOLDER / night.name):
            progress = UNDER_WAY
    return NightView(
        night=night, parts=headline(night, numbers), progress=progress, numbers=numbers
    )


def canary_told(night: Night) -> str:
    """What came of the canary, as words after its name."""
    if night.canary is None:
        return "was not run" if night.over is not None else "not run yet"
    if night.fired is None:
        return "interrupted" if night.canary.state == "interrupted" else "came to no verdict"
    return "fired" if night.fired else "did not fire"


def _void(night: Night) -> State:
    """Why a night is void."""
    if night.fired is not None:
        what = "did not find what it has to find: that nothing was found elsewhere proves nothing."
    elif night.canary is None:
        what = "was not run: nothing shows that the checks would have found anything."
    else:
        what = "did not come to a verdict: nothing shows that the checks would have found anything."
    return State("silent", "○", "Void", f"The canary {night.started.canary} {what}")


def headline(night: Night, numbers: dict[str, Any]) -> list[State]:
    """What came of a night, in the order in which it is told: void first, it colours all else."""
    parts: list[State] = []
    outcomes = [attempt.outcome for attempt in night.runs if attempt.outcome is not None]
    if night.void:
        parts.append(_void(night))
    if numbers["open"]:
        parts.append(
            State("anomaly", "✕", words.count(numbers["open"], "open finding"),
                  "Forbidden, and of no known bug.")
        )  # fmt: skip
    if numbers["known"]:
        parts.append(
            State("known", "✕", words.count(numbers["known"], "finding") + " of known bugs",
                  "Forbidden, and every one bears the signature of a known bug.")
        )  # fmt: skip
    silent = sum(
        attempt.outcome is not None
        and attempt.outcome.state == "silent"
        and attempt.begun.task.why != "canary"
        for attempt in night.runs
    )
    if silent:
        parts.append(
            State("silent", "○", words.count(silent, "control") + " did not fire",
                  "It had to misbehave in a known way, and the checks did not see it.")
        )  # fmt: skip
    for key, one, told in (
        ("not-recovered", "run did not recover", "The cluster did not come back in time."),
        ("unknown", "run unknown", "Something in it could not be decided."),
        ("error", "error of the harness", "Nothing can be concluded from it."),
    ):
        many = sum(o.state == key or key in {f.name for f in o.forbidden} for o in outcomes)
        if many:
            more = one.replace("run ", "runs ").replace("error ", "errors ")
            parts.append(State(RUN_STATES[key].key, "!", words.count(many, one, more), told))
    if not parts and not night.tested:
        told = "No run besides the canary came to a verdict."
        parts.append(State("neutral", "–", "Nothing tested yet", told))
    if not parts and night.fired is None:
        told = f"The canary {night.started.canary} has not been run: until it has found what it has to "
        told += "find, that nothing was found elsewhere proves nothing."
        parts.append(State("neutral", "–", "Not yet valid", told))
    return parts or [
        State(
            "valid", "✓", "Valid", "Every run was valid, and the canary found what it has to find."
        )
    ]


def _classes(findings: pd.DataFrame) -> dict[int, list[dict[str, Any]]]:
    """Anomalies of each run that are forbidden, by the run's index."""
    forbidden = findings[findings["disallowed"] > 0]
    found: dict[int, list[dict[str, Any]]] = {}
    for record in tables.records(forbidden):
        found.setdefault(record["row"], []).append(record)
    return found


def _run_rows(runs: pd.DataFrame, findings: pd.DataFrame) -> list[dict[str, Any]]:
    classes = _classes(findings)
    return [
        {**row, "classes": classes.get(index, [])}
        for index, row in zip(runs.index, tables.records(runs), strict=True)
    ]


def _choices(runs: pd.DataFrame) -> list[tuple[str, str, Sequence[tuple[str, str]]]]:
    """Filters: name of the column, heading, and what can be chosen as (value, text)."""
    found: list[tuple[str, str, Sequence[tuple[str, str]]]] = []
    for column in tables.COMBINATION:
        values = sorted(set(runs[column]) - {""})
        found.append((column, column.capitalize(), [(value, clip(value, 60)) for value in values]))
    states = [(key, state.word) for key, state in RUN_STATES.items() if key in set(runs["state"])]
    found.append(("state", "Verdict", states))
    names = sorted(set(runs["night"]) - {""}, reverse=True)
    by_hand = [("-", "by hand")] if "" in set(runs["night"]) else []
    found.append(("night", "Night", [*((name, night_name(name)) for name in names), *by_hand]))
    return found
