"""What a results folder holds, as pandas tables: its runs, their findings, and what these come to.

The runs of a session come from its log, which suffices when run folders are gone; runs made by hand from
their verdict.json. Rates count sessions only: what a person tries by hand is not a sample. Repetitions and
explicit runs with settings or a seed of their own are not either: they are chosen for what they show.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from harness.report.inputs import VERDICT_FORMAT
from harness.soak import session_log as sessions
from harness.soak.session_log import NOT_RECOVERED, STATES, AnomalyCount, Attempt, PlannedRun, SoakSession
from history.jsonl import being_written
from history.run_folder import Run
from history.verdict import Verdict

Row = dict[str, Any]
"""A row of a pandas table, by column."""
COMBINATION = ["workload", "nemesis", "preset"]
GROUP = ["name", *COMBINATION, "known_bug"]
RUN_COLUMNS = [
    "session",
    "number",
    "why",
    *COMBINATION,
    "seed",
    "state",
    "judged",
    "fair",
    "at",
    "seconds",
    "folder",
    "report",
    "log",
    "told",
    "available",
    "recovery_s",
]
"""Of `runs`. session "": made by hand. folder, report, log: paths from the results folder, "" = missing.
`told`: the summary, or why it is an error. state `under way`: not finished. fair: it counts for a rate."""
FOUND_COLUMNS = ["row", "name", "count", "disallowed", "known_bug"]
_STAMP = re.compile(r"\d{8}T\d{6}Z")
CONFIDENCE = 0.95


def runs_and_findings(results: Path, found: list[SoakSession]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All runs, newest first, and one row for each anomaly class of a run (`row`: its index)."""
    rows: list[Row] = []
    findings: list[Row] = []
    known = set()
    for session in found:
        known |= {attempt.outcome.folder for attempt in session.attempts if attempt.outcome}
        for attempt in session.runs:
            rows.append(_session_row(results, session, attempt))
            _add(findings, len(rows) - 1, attempt.outcome.anomalies if attempt.outcome else [])
    for folder in _by_hand(results, known):
        row, anomalies = _hand_row(results, folder)
        rows.append(row)
        _add(findings, len(rows) - 1, anomalies)
    runs = pd.DataFrame(rows, columns=RUN_COLUMNS)
    order = runs.sort_values(["at", "number"], ascending=False, kind="stable")
    return order, pd.DataFrame(findings, columns=FOUND_COLUMNS)


def _add(findings: list[Row], row: int, anomalies: list[AnomalyCount]) -> None:
    findings += [{"row": row, **msgspec.structs.asdict(found)} for found in anomalies]


def _session_row(results: Path, session: SoakSession, attempt: Attempt) -> Row:
    begun, outcome = attempt.begun, attempt.outcome
    log = f"{sessions.FOLDER}/{session.name}/{begun.number:04}.log"
    row: Row = {
        "session": session.name,
        "number": begun.number,
        "why": begun.task.why,
        "workload": begun.task.workload,
        "nemesis": begun.task.nemesis,
        "preset": begun.task.preset,
        "seed": begun.task.seed,
        "at": begun.at,
        "log": log if (results / log).is_file() else "",
        "state": "under way",
        "judged": False,
        "fair": False,
        "seconds": None,
        "told": "",
        "available": None,
        "recovery_s": None,
    }
    if outcome is None:
        return row | {"folder": "", "report": ""}
    row |= {name: getattr(outcome, name) for name in ("state", "judged", "seconds")}
    row |= {"available": outcome.available, "recovery_s": outcome.recovery_s}
    row["told"] = outcome.error or outcome.summary
    row["fair"] = outcome.state != "interrupted" and not _is_chosen(session, begun.task)
    return row | _paths(results, outcome.folder)


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


def _paths(results: Path, folder: str) -> dict[str, str]:
    there = report = False
    with suppress(OSError, ValueError):  # of a damaged file: a name that no folder can have
        there = bool(folder) and (results / folder / "verdict.json").is_file()
        report = bool(folder) and (results / folder / "report.html").is_file()
    return {
        "folder": f"{folder}/verdict.json" if there else "",
        "report": f"{folder}/report.html" if report else "",
    }


def _by_hand(results: Path, known: set[str]) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        for path in sorted(results.iterdir()):
            if path.name in known or path.is_symlink() or not Run(path).verdict.is_file():
                continue
            yield path


def _hand_row(results: Path, folder: Path) -> tuple[Row, list[AnomalyCount]]:
    row: Row = {
        "session": "",
        "number": 0,
        "why": "",
        "workload": "",
        "nemesis": "",
        "preset": "",
        "seed": -1,
        "state": "error",
        "judged": False,
        "fair": False,
        "seconds": None,
        "log": "",
        "at": _begun(folder),
        "available": None,
        "recovery_s": None,
        **_paths(results, folder.name),
    }
    try:
        verdict = msgspec.json.decode(Run(folder).verdict.read_bytes(), type=Verdict)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        return row | {"told": f"{folder.name}: verdict.json cannot be read: {error}"}, []
    if verdict.format > VERDICT_FORMAT:
        return row | {"told": f"{folder.name}: a newer version wrote verdict.json"}, []
    row |= {name: str(verdict.config.get(name, "")) for name in COMBINATION}
    row |= {
        "seed": verdict.seed,
        "state": STATES.get(verdict.exit_code, "error"),
        "judged": True,
        "seconds": verdict.stats.get("seconds recorded"),
        "told": verdict.summary,
        "available": verdict.liveness.available,
        "recovery_s": verdict.recovery_s,
    }
    anomalies = [
        AnomalyCount(name=name, count=a.count, disallowed=a.disallowed, known_bug=a.known_bug)
        for name, a in verdict.anomalies.items()
    ]
    return row, anomalies


def _begun(folder: Path) -> str:
    """When a run made by hand started, by its name, else by the time of its verdict."""
    if (when := stamp(folder.name)) is not None:
        return when.isoformat(timespec="milliseconds")
    seconds = Run(folder).verdict.stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def stamp(name: str) -> datetime | None:
    """The time at the beginning of the name of a run or session, in UTC."""
    if (match := _STAMP.match(name)) is None:
        return None
    try:
        return datetime.strptime(match.group(), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
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
    rows = []
    for key, part in joined.groupby(GROUP, sort=True):
        group = dict(zip(GROUP, key, strict=True))
        alike = judged[(judged[COMBINATION] == [group[c] for c in COMBINATION]).all(axis=1)]
        last = part.sort_values(["at", "number"]).iloc[-1]
        rows.append(
            group
            | _counts("newest", part[part["session"] == newest], alike[alike["session"] == newest])
            | _counts("all", part, alike)
            | _counts("fresh", part[part["fair"].astype(bool)], alike[alike["fair"].astype(bool)])
            | {
                "first": part["session"].min(),
                "last": part["session"].max(),
                "report": last["report"],
                "folder": last["folder"],
            }
        )
    table = pd.DataFrame(
        [row | _rate(row["fresh"], row["fresh_of"]) for row in rows],
        columns=[
            *GROUP,
            "newest",
            "newest_of",
            "all",
            "all_of",
            "fresh",
            "fresh_of",
            "rate",
            "low",
            "high",
            "first",
            "last",
            "report",
            "folder",
        ],
    )
    table = table.assign(open=(table["known_bug"] == "") & (table["name"] != NOT_RECOVERED))
    return table.sort_values(
        ["open", "last", "newest", "all", *GROUP],
        ascending=[False, False, False, False, *[True] * len(GROUP)],
    ).reset_index(drop=True)


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
        seen = forbidden[forbidden["session"] == session.name].drop_duplicates(GROUP)
        seen = seen[seen["name"] != NOT_RECOVERED]
        failing = mine["state"].isin(sessions.FAILING) | mine.index.isin(
            forbidden[forbidden["session"] == session.name]["row"]
        )
        rows.append(
            {
                "session": session.name,
                "runs": int(mine["judged"].sum()),
                "failing": int(failing.sum()),
                "errors": int((mine["state"] == "error").sum()),
                "open": int((seen["known_bug"] == "").sum()),
                "known": int((seen["known_bug"] != "").sum()),
                "available": _median(mine["available"]),
                "recovery_s": _median(mine["recovery_s"]),
            }
        )
    columns = ["session", "runs", "failing", "errors", "open", "known", "available", "recovery_s"]
    return pd.DataFrame(rows, columns=columns)


def _median(values: pd.Series) -> float:
    known = pd.to_numeric(values).dropna()
    return float(known.median()) if len(known) else float("nan")


def under_way(folder: Path) -> bool:
    """Whether the process of a soak writes to this session."""
    return being_written(folder / sessions.FILE)


def records(table: pd.DataFrame) -> list[Row]:
    """The rows, by column name."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
