"""The index of a results folder: one self-contained page with its sessions, findings and runs.

The page loads nothing, and its policy names the digest of its only script. Without the script filters and the
choice of a theme are missing, and nothing else.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from harness.report import wording
from harness.report.page import clip, environment_of, policy, scripts, source
from harness.report.wording import VerdictState
from harness.soak import session_log as sessions
from harness.soak.index import tables, trend
from harness.soak.session_log import SoakSession
from history.jsonl import being_written
from history.run_folder import write_atomically

NAME = "index.html"
RUNS_MAX = 2000
NONE = VerdictState("neutral", "–", "No session yet", "This folder holds only runs made by hand.")
UNDER_WAY = "under way"
RUN_STATES: dict[str, VerdictState] = {
    "valid": VerdictState("valid", "✓", "valid", "The checks found nothing forbidden."),
    "anomaly": VerdictState("anomaly", "✕", "anomaly", "The checks found something forbidden."),
    "not-recovered": VerdictState(
        "not-recovered", "!", "not recovered", "The cluster did not recover in time."
    ),
    "silent": VerdictState("silent", "○", "did not fire", "A control did not find what it has to find."),
    "unknown": VerdictState("unknown", "?", "unknown", "A check could not decide."),
    "error": VerdictState("unknown", "!", "harness error", "The harness failed; nothing can be concluded."),
    "interrupted": VerdictState("neutral", "–", "interrupted", "A person ended it."),
    UNDER_WAY: VerdictState("neutral", "…", "not finished", "It is under way, or a crash ended it."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session for the page. parts: its results, the most severe first. progress: "" = it has ended."""

    session: SoakSession
    parts: list[VerdictState]
    progress: str
    numbers: tables.Row


def build(results: Path) -> Path:
    """Write `index.html` of a results folder; its path. Raises: OSError."""
    page = render(results)
    write_atomically(results / NAME, page)
    return results / NAME


def render(results: Path) -> str:
    """The whole page."""
    found = sessions.sessions(results)
    runs, findings = tables.runs_and_findings(results, found)
    newest = found[-1].name if found else ""
    numbers = tables.by_session(runs, findings, found)
    views = [
        SessionView(session=one, parts=headline(one, row), progress=_progress(results, one), numbers=row)
        for one, row in zip(found, tables.records(numbers), strict=True)
    ]
    shown = runs.head(RUNS_MAX)
    forbidden = findings[findings["disallowed"] > 0]
    classes = {index: tables.records(part) for index, part in forbidden.groupby("row")}
    style = source("report.css") + source("index.css", __package__)
    script = scripts(source("page.js"), source("index.js", __package__))
    page = (
        _environment()
        .get_template("index.html.j2")
        .render(
            results=results.resolve().name,
            newest=views[-1] if views else None,
            no_session=NONE,
            views=views[::-1],
            groups=tables.records(tables.groups(runs, findings, newest)),
            allowed=tables.records(tables.allowed(runs, findings)),
            runs=[
                row | {"classes": classes.get(index, [])}
                for index, row in zip(shown.index, tables.records(shown), strict=True)
            ],
            runs_left_out=len(runs) - len(shown),
            choices=_choices(shown),
            trend=trend.build(numbers),
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
        number=wording.number,
        clip=clip,
        moment=wording.moment,
        sentence=wording.sentence,
        session_name=session_name,
        href=href,
        known=known,
        share=share,
        lasted=lasted,
        canary=canary_words,
    )
    environment.globals.update(count=wording.count)
    return environment


def href(path: str) -> str:
    """A path below the results folder as a relative address, whatever its characters."""
    return "./" + quote(os.fsencode(path))


def session_name(name: str) -> str:
    """`2026-03-01 22:00` from the name of a session; the name itself, where it holds no time."""
    stamp = tables.stamp(name)
    return name if stamp is None else f"{stamp:%Y-%m-%d %H:%M}"


def known(value: Any) -> bool:
    """Whether there is a number."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def share(value: float) -> str:
    """A share in per cent; one decimal near 0 and near 100."""
    percent = 100 * value
    return wording.number(percent, 1 if 0 < percent < 10 or 90 < percent < 100 else 0)


def lasted(seconds: float) -> str:
    """`1 h 5 min`, `12 min`, `40 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _progress(results: Path, session: SoakSession) -> str:
    if session.ended is not None:
        return ""
    if being_written(results / sessions.FOLDER / session.name / sessions.FILE):
        return UNDER_WAY
    return "interrupted" if session.paused else "unfinished"


def canary_words(session: SoakSession) -> str:
    """The result of the canary, as words after its name."""
    if session.canary is None:
        return "did not run" if session.ended is not None else "has not run yet"
    if session.fired is None:
        return "interrupted" if session.canary.state == "interrupted" else "reached no verdict"
    return "fired" if session.fired else "did not fire"


def _void(session: SoakSession) -> VerdictState:
    """Why a session is void."""
    if session.fired is not None:
        what = "did not find what it has to find: other runs without findings prove nothing."
    elif session.canary is None:
        what = "did not run: nothing shows that the checks would have found anything."
    else:
        what = "reached no verdict: nothing shows that the checks would have found anything."
    return VerdictState("silent", "○", "Void", f"The canary {session.started.canary} {what}")


UNDECIDED: Final = ("unknown",)
"""What a run is beside what it found, where something in it was not decided."""


def headline(session: SoakSession, numbers: tables.Row) -> list[VerdictState]:
    """The results of a session: void first, as it qualifies all others, then the most severe."""
    results = session.results

    def runs(state: str) -> int:
        return sum(
            state in {result.state, *(f.name for f in result.forbidden), *UNDECIDED[: result.undecided]}
            for _, result in results
        )

    silent = sum(result.state == "silent" and task.why != "canary" for task, result in results)
    bugs = "Forbidden; all of them have the signature of a known bug."
    if session.accepted:
        bugs += f" The matrix accepts {', '.join(session.accepted)}."
    unseen = "A control misbehaves in a known way; here the checks did not see it."
    late = "The cluster did not recover in time."
    found = [
        (numbers["open"], "anomaly", "✕", "open finding", "", "Forbidden, and not of a known bug."),
        (numbers["known"], "known", "✕", "finding", " of known bugs", bugs),
        (silent, "silent", "○", "control", " did not fire", unseen),
        (runs("not-recovered"), "not-recovered", "!", "run", " did not recover", late),
        (runs("unknown"), "unknown", "!", "run", " unknown", "A check of it could not decide."),
        (runs("error"), "unknown", "!", "error", " of the harness", "Nothing can be concluded from it."),
    ]
    parts = [_void(session)] if session.void else []
    parts += [
        VerdictState(key, symbol, wording.count(many, one) + more, told)
        for many, key, symbol, one, more, told in found
        if many
    ]
    if parts:
        return parts
    if not session.tested:
        told = "No run except the canary has reached a verdict."
        return [VerdictState("neutral", "–", "Nothing tested yet", told)]
    if session.fired is None:
        told = f"The canary {session.started.canary} has not run. Until it finds what it has to find, "
        told += "other runs without findings prove nothing."
        return [VerdictState("neutral", "–", "Not yet valid", told)]
    return [
        VerdictState("valid", "✓", "Valid", "Every run was valid, and the canary found what it has to find.")
    ]


def _choices(runs: pd.DataFrame) -> list[tuple[str, str, Sequence[tuple[str, str]]]]:
    """Filters: name of the column, heading, and the choices as (value, text)."""
    found: list[tuple[str, str, Sequence[tuple[str, str]]]] = []
    for column in tables.COMBINATION:
        values = sorted(set(runs[column]) - {""})
        found.append((column, column.capitalize(), [(value, clip(value, 60)) for value in values]))
    states = [(key, state.word) for key, state in RUN_STATES.items() if key in set(runs["state"])]
    found.append(("state", "Verdict", states))
    names = sorted(set(runs["session"]) - {""}, reverse=True)
    by_hand = [("-", "by hand")] if "" in set(runs["session"]) else []
    found.append(("session", "Session", [*((name, session_name(name)) for name in names), *by_hand]))
    return found
