"""What a results folder holds, as pandas tables: its runs, their findings, and what these come to.

The runs of a session come from its log, which suffices when run folders are gone; runs made by hand from
their verdict.json. Rates count sessions only: what a person tries by hand is not a sample. Repetitions and
explicit runs with settings or a seed of their own are not either: they are chosen for what they show.
"""

import math
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from core.errors import HistoryError
from harness.report.inputs import VERDICT_FORMAT
from harness.soak import session_log as sessions
from harness.soak.session_log import STATES, Attempt, PlannedRun, RunResult, SoakSession
from history.recorded_files import regular
from history.run_folder import Run
from history.verdict import NOT_RECOVERED, Verdict

Row = dict[str, Any]
"""A row of a pandas table, by column."""
COMBINATION = ["workload", "nemesis", "preset"]
GROUP = ["name", *COMBINATION, "known_bug"]
NO_RUN: Row = {
    "session": "",
    "number": 0,
    "why": "",
    **dict.fromkeys(COMBINATION, ""),
    "seed": -1,
    "state": "under way",
    "judged": False,
    "fair": False,
    "at": "",
    "seconds": None,
    "folder": "",
    "report": "",
    "log": "",
    "told": "",
    "available": None,
    "recovery_s": None,
}
"""The columns of `runs`, each with what it holds where nothing is known. session "": made by hand. folder,
report, log: paths from the results folder, "" = missing. `told`: the summary, or why it is an error. state
`under way`: not finished. fair: it counts for a rate."""
FOUND_COLUMNS = ["row", "name", "count", "disallowed", "known_bug"]
CONFIDENCE = 0.95


def runs_and_findings(results: Path, found: list[SoakSession]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All runs, newest first, and one row for each anomaly class of a run (`row`: its index)."""
    rows: list[Row] = []
    findings: list[Row] = []
    known = set()

    def add(row: Row, outcome: RunResult | None) -> None:
        anomalies = outcome.anomalies if outcome else ()
        findings.extend({"row": len(rows), **msgspec.structs.asdict(found)} for found in anomalies)
        rows.append(NO_RUN | row)

    for session in found:
        known |= {attempt.outcome.folder for attempt in session.attempts if attempt.outcome}
        for attempt in session.runs:
            add(_session_row(results, session, attempt), attempt.outcome)
    for verdict in sorted(results.glob("*/verdict.json")):
        folder = verdict.parent
        if folder.name not in known and not folder.is_symlink() and verdict.is_file():
            add(*_hand_row(results, folder))
    runs = pd.DataFrame(rows, columns=list(NO_RUN))
    order = runs.sort_values(["at", "number"], ascending=False, kind="stable")
    return order, pd.DataFrame(findings, columns=FOUND_COLUMNS)


def _session_row(results: Path, session: SoakSession, attempt: Attempt) -> Row:
    begun, outcome = attempt.begun, attempt.outcome
    row: Row = {
        "session": session.name,
        "number": begun.number,
        "at": begun.at,
        "log": _there(results, f"{sessions.FOLDER}/{session.name}", f"{begun.number:04}.log"),
        **{name: getattr(begun.task, name) for name in ("why", *COMBINATION, "seed")},
    }
    if outcome is None:
        return row
    fair = outcome.state != "interrupted" and not _is_chosen(session, begun.task)
    return row | _result(outcome) | _paths(results, outcome.folder) | {"fair": fair}


def _result(outcome: RunResult) -> Row:
    names = ("state", "judged", "seconds", "available", "recovery_s")
    return {"told": outcome.error or outcome.summary, **{name: getattr(outcome, name) for name in names}}


def _is_chosen(session: SoakSession, task: PlannedRun) -> bool:
    """Whether a run was chosen for what it shows, and so is not a sample of its combination."""
    if task.why != "explicit":
        return task.why == "repeat"
    entries = session.started.matrix.get("runs")
    return any(
        [entry.get(name) for name in COMBINATION] == [getattr(task, name) for name in COMBINATION]
        and (entry.get("settings") or entry.get("seed") is not None)
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    )


def _paths(results: Path, folder: str) -> Row:
    if not folder:
        return {}
    return {
        "folder": _there(results, folder, "verdict.json"),
        "report": _there(results, folder, "report.html"),
    }


def _there(results: Path, folder: str, name: str) -> str:
    """The path of a file from the results folder, "" = missing."""
    with suppress(OSError, ValueError):  # of a damaged log: a name that no folder can have
        if (results / folder / name).is_file():
            return f"{folder}/{name}"
    return ""


def _hand_row(results: Path, folder: Path) -> tuple[Row, RunResult | None]:
    row: Row = {"at": _begun(folder), "state": "error", **_paths(results, folder.name)}
    try:
        verdict = msgspec.json.decode(regular(Run(folder).verdict).read_bytes(), type=Verdict)
    except (OSError, HistoryError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return row | {"told": f"{folder.name}: verdict.json cannot be read: {error}"}, None
    if verdict.format > VERDICT_FORMAT:
        return row | {"told": f"{folder.name}: a newer version wrote verdict.json"}, None
    code, seconds = verdict.exit_code, verdict.stats.get("seconds recorded", math.nan)
    state = STATES.get(code, "error")
    outcome = RunResult.of(verdict, state, code=code, seconds=seconds, folder=folder.name)
    row |= {"seed": verdict.seed, **{name: str(verdict.config.get(name, "")) for name in COMBINATION}}
    return row | _result(outcome), outcome


def _begun(folder: Path) -> str:
    """When a run made by hand started, by its name, else by the time of its verdict."""
    if (when := stamp(folder.name)) is not None:
        return when.isoformat(timespec="milliseconds")
    seconds = Run(folder).verdict.stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def stamp(name: str) -> datetime | None:
    """The time at the beginning of the name of a run or session, in UTC."""
    try:
        return datetime.strptime(name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def groups(runs: pd.DataFrame, findings: pd.DataFrame, newest: str) -> pd.DataFrame:
    """Forbidden findings of sessions, by class, combination and known bug; open ones first.

    Columns: those of the group; `newest`, `newest_of`: runs of the newest session with it, and of that
    combination; `all`, `all_of`: of all sessions; `fresh`, `fresh_of`: the same of runs that are a fair
    sample; `rate`, `low`, `high`: of the fresh ones, with the Wilson
    interval of 95 % (NaN without any); `first`, `last`: sessions; `report`, `folder`: of the newest run;
    `open`: of no known bug, and more than a cluster that did not recover.
    """
    judged = runs[(runs["session"] != "") & runs["judged"].astype(bool)]
    forbidden = findings[findings["disallowed"] > 0]
    joined = forbidden.merge(judged, left_on="row", right_index=True, how="inner")
    rows: list[Row] = []
    for key, part in joined.groupby(GROUP, sort=True):
        group = dict(zip(GROUP, key, strict=True))
        alike = judged[(judged[COMBINATION] == [group[c] for c in COMBINATION]).all(axis=1)]
        last = part.sort_values(["at", "number"]).iloc[-1]
        fresh = _counts("fresh", part[part["fair"].astype(bool)], alike[alike["fair"].astype(bool)])
        rows.append(
            group
            | _counts("newest", part[part["session"] == newest], alike[alike["session"] == newest])
            | _counts("all", part, alike)
            | fresh
            | _rate(fresh["fresh"], fresh["fresh_of"])
            | {
                "first": part["session"].min(),
                "last": part["session"].max(),
                "report": last["report"],
                "folder": last["folder"],
                "open": group["known_bug"] == "" and group["name"] != NOT_RECOVERED,
            }
        )
    order = ["open", "last", "newest", "all", *GROUP]
    table = pd.DataFrame(rows, columns=None if rows else order)
    return table.sort_values(order, ascending=[False] * 4 + [True] * len(GROUP)).reset_index(drop=True)


def _counts(name: str, part: pd.DataFrame, alike: pd.DataFrame) -> dict[str, int]:
    """Runs with the finding, and runs. A run is one row of `alike`."""
    return {name: int(part["row"].nunique()), f"{name}_of": len(alike)}


def _rate(many: int, of: int) -> dict[str, float]:
    """Share with its Wilson interval (E. B. Wilson, JASA 22, 1927)."""
    from scipy.stats import binomtest

    if not of:
        return dict.fromkeys(("rate", "low", "high"), float("nan"))
    interval = binomtest(many, of).proportion_ci(CONFIDENCE, method="wilson")
    return {"rate": many / of, "low": float(interval.low), "high": float(interval.high)}


def allowed(runs: pd.DataFrame, findings: pd.DataFrame) -> pd.DataFrame:
    """Classes that sessions found where they are allowed: `name`, `runs`, `findings`."""
    judged = runs[runs["session"] != ""]
    permitted = findings.assign(permitted=findings["count"] - findings["disallowed"])
    permitted = permitted[permitted["permitted"] > 0]
    joined = permitted.merge(judged, left_on="row", right_index=True, how="inner")
    found = joined.groupby("name").agg(runs=("row", "nunique"), findings=("permitted", "sum"))
    return found.sort_values("findings", ascending=False).reset_index()


def by_session(runs: pd.DataFrame, findings: pd.DataFrame, found: list[SoakSession]) -> pd.DataFrame:
    """One row a session, oldest first: `session`, `runs` (judged), `failing`, `errors`, `open`, `known`
    (groups of findings; `not-recovered` is in neither), medians `available` and `recovery_s` (NaN = not
    known)."""
    forbidden = findings[findings["disallowed"] > 0].merge(runs, left_on="row", right_index=True, how="inner")
    rows = []
    for session in found:
        mine = runs[runs["session"] == session.name]
        seen = forbidden[forbidden["session"] == session.name]
        failing = mine["state"].isin(sessions.FAILING) | mine.index.isin(seen["row"])
        seen = seen[seen["name"] != NOT_RECOVERED].drop_duplicates(GROUP)
        rows.append(
            {
                "session": session.name,
                "runs": int(mine["judged"].sum()),
                "failing": int(failing.sum()),
                "errors": int((mine["state"] == "error").sum()),
                "open": int((seen["known_bug"] == "").sum()),
                "known": int((seen["known_bug"] != "").sum()),
                **{
                    name: float(mine[name].dropna().astype(float).median())
                    for name in ("available", "recovery_s")
                },
            }
        )
    return pd.DataFrame(rows, columns=None if rows else ["session"])


def records(table: pd.DataFrame) -> list[Row]:
    """The rows, by column name."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
