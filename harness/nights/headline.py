"""A session as the index shows it: what it came to, in words, the most severe first."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.nights.session_log import FILE, FOLDER, RunResult, SoakSession
from harness.report import wording
from harness.report.wording import VerdictState
from history.jsonl import being_written
from history.tables import TableRow
from history.verdict import ResultWord

UNDER_WAY = "under way"
UNDECIDED: Final = ("unknown",)
"""What a run is beside what it found, where something in it was not decided."""
UNMET: Final = ("unmet",)
"""The same, where it does not show what was required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session, without its runs.

    at: when it began. canary: its name; fired: its result in words. parts: its results, the most severe
    first. progress: "" = it has ended. code: None = it has not. numbers: its row of the trend.
    """

    name: str
    at: str
    seed: int
    budget_s: float
    spent_s: float
    canary: str
    fired: str
    code: int | None
    damaged: int
    parts: list[VerdictState]
    progress: str
    numbers: TableRow

    @classmethod
    def of(cls, results: Path, session: SoakSession, numbers: TableRow) -> "SessionView":
        """The session of a results folder, with its row of the trend."""
        started = session.started
        return cls(
            name=session.name,
            at=started.at,
            seed=started.seed,
            budget_s=started.budget_s,
            spent_s=session.spent_s,
            canary=started.canary,
            fired=canary_words(session),
            code=session.ended.code if session.ended is not None else None,
            damaged=session.damaged,
            parts=headline(session, numbers),
            progress=_progress(results, session),
            numbers=numbers,
        )


def _progress(results: Path, session: SoakSession) -> str:
    if session.ended is not None:
        return ""
    if being_written(results / FOLDER / session.name / FILE):
        return UNDER_WAY
    return "interrupted" if session.paused else "unfinished"


def canary_words(session: SoakSession) -> str:
    """The result of the canary, as words after its name."""
    if session.canary is None:
        return "did not run" if session.ended is not None else "has not run yet"
    if session.fired is None:
        if session.canary.judged:
            return "left open whether it fires"
        return "interrupted" if session.canary.state == "interrupted" else "reached no verdict"
    return "fired" if session.fired else "did not fire"


def _void(session: SoakSession) -> VerdictState:
    """Why a session is void."""
    if session.fired is not None:
        what = "did not find what it has to find: other runs without findings prove nothing."
    elif session.canary is None:
        what = "did not run: nothing shows that the checks would have found anything."
    elif session.canary.judged:
        what = "left open whether it finds what it has to find: nothing shows that the checks would have."
    else:
        what = "reached no verdict: nothing shows that the checks would have found anything."
    return VerdictState("silent", "○", "Void", f"The canary {session.started.canary} {what}")


def _found(result: RunResult) -> set[str]:
    return {result.state, *(found.name for found in result.forbidden)}


def headline(session: SoakSession, numbers: TableRow) -> list[VerdictState]:
    """The results of a session: void first, as it qualifies all others, then the most severe."""
    results = session.results

    def runs(state: str) -> int:
        found = [result for _, result in results if state in _found(result)]
        beside = (one for one in session.last if state in (*UNDECIDED[: one.undecided], *UNMET[: one.unmet]))
        return len(found) + sum(state not in _found(one) for one in beside)

    bugs = "Forbidden findings, each with the signature of a known bug."
    if session.accepted:
        bugs += f" The matrix accepts {', '.join(session.accepted)}."
    planted = "Forbidden, and expected: this system has a planted bug."
    unseen = "A control misbehaves in a known way; here the checks did not see it."
    lacks = "It does not show what was required of it."
    late = "The cluster did not recover in time."
    idle = sum(result.word == ResultWord.NOT_EXERCISED for _, result in results)
    untried = "It tested little or nothing: no fault reached what it is for, or no record was acknowledged."
    found = [
        (numbers["open"], "anomaly", "✕", "open finding", "", "Forbidden, and not of a known bug."),
        (numbers["known"], "known", "✕", "known bug", "", bugs),
        (numbers["planted"], "silent", "✕", "finding", " of planted bugs", planted),
        (session.silent, "silent", "○", "control", " did not fire", unseen),
        (runs("unmet"), "silent", "○", "run", " that does not meet what was required", lacks),
        (runs("not-recovered"), "not-recovered", "!", "run", " did not recover", late),
        (runs("unknown"), "unknown", "!", "run", " unknown", "A check of it could not decide."),
        (runs("error"), "unknown", "!", "error", " of the harness", "Nothing can be concluded from it."),
        (idle, "silent", "○", "run", " not exercised", untried),
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
