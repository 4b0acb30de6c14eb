"""The runs of a results folder, as rows.

The runs of a session come from its log, which suffices when run folders are gone; runs made by hand from
their verdict.json. What brokers lived through stands in verdicts alone (`faults_of`). Rates count sessions
only: what a person tries by hand is not a sample. Repetitions and explicit runs with settings or a seed of
their own are not either: they are chosen for what they show.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import pandas as pd

from core.errors import HistoryError
from core.presets import NamedSettings
from core.systems import UNRECORDED, versions
from harness.nights import session_log as sessions
from harness.nights.session_log import STATES, Attempt, PlannedRun, RunResult, SoakSession, Tested
from history.recorded_files import regular
from history.run_folder import Run
from history.tables import TableRow
from history.verdict import VERDICT_FORMAT, Fault, Liveness, Verdict

COMBINATION = ["workload", "nemesis", "preset"]
SYSTEM = ["system", "version", "client", "planted"]
NO_RUN: TableRow = {
    "session": "",
    "number": 0,
    "why": "",
    **dict.fromkeys([*COMBINATION, *SYSTEM], ""),
    "seed": -1,
    "state": "under way",
    "word": "under way",
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
report, log: paths from the results folder, "" = missing. `told`: the summary, or why it is an error. state,
word `under way`: not finished (word: `RunResult.word`). fair: it counts for a rate."""
TEXTS: Final = {name for name, value in NO_RUN.items() if isinstance(value, str)} | {"name", "known_bug"}
"""Columns of texts."""
FOUND_COLUMNS = ["row", "name", "count", "disallowed", "known_bug"]
NUMBERS: Final = ("seconds", "available", "recovery_s")
FAULT_COLUMNS: Final = (
    "row", "failing", "system", "version", "fault", "served", "recovered_s", "stalled_s",
)  # fmt: skip


class _Lived(msgspec.Struct, frozen=True, kw_only=True):
    """Of a verdict, what brokers lived through."""

    config: NamedSettings
    faults: list[Fault]
    liveness: Liveness = msgspec.field(default_factory=Liveness)


_LIVED: Final = msgspec.json.Decoder(_Lived)


def of_sessions(results: Path, found: Sequence[SoakSession]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs of sessions, and one row for each anomaly class of a run (`row`: its index)."""
    return _tables(
        (_session_row(results, session, attempt), attempt.outcome)
        for session in found
        for attempt in session.runs
    )


def of_hand(results: Path, names: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same of runs that people made, in these folders."""
    return _tables(_hand_row(results, results / name) for name in names)


def _tables(made: Iterable[tuple[TableRow, RunResult | None]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows: list[TableRow] = []
    findings: list[TableRow] = []
    for row, outcome in made:
        anomalies = outcome.anomalies if outcome else ()
        findings.extend({"row": len(rows), **msgspec.structs.asdict(found)} for found in anomalies)
        rows.append(NO_RUN | row)
    runs = _table(rows, list(NO_RUN)).astype(dict.fromkeys(NUMBERS, float))
    return runs, _table(findings, FOUND_COLUMNS)


def _table(rows: Sequence[TableRow], columns: Sequence[str]) -> pd.DataFrame:
    """Texts are objects, with pandas 3 too: its own type has no place for a folder's name that is not
    text, and a join on two such columns without rows fails."""
    kinds = {name: object if name in TEXTS else None for name in columns}
    return pd.DataFrame({n: pd.Series([row[n] for row in rows], dtype=kind) for n, kind in kinds.items()})


def newest_first(runs: pd.DataFrame) -> pd.DataFrame:
    """As the index lists them."""
    return runs.sort_values(["at", "number"], ascending=False, kind="stable")


def _session_row(results: Path, session: SoakSession, attempt: Attempt) -> TableRow:
    begun, outcome = attempt.begun, attempt.outcome
    row: TableRow = {
        "session": session.name,
        "number": begun.number,
        "at": begun.at,
        "log": _there(results, f"{sessions.FOLDER}/{session.name}", f"{begun.number:04}.log"),
        **{name: getattr(begun.task, name) for name in ("why", *COMBINATION, "seed")},
        **msgspec.structs.asdict(outcome.tested if outcome and outcome.tested else _asked(begun.task)),
    }
    if outcome is None:
        return row
    fair = outcome.state != "interrupted" and not _is_chosen(session, begun.task)
    return row | _result(outcome) | _paths(results, outcome.folder) | {"fair": fair}


def _asked(task: PlannedRun) -> Tested:
    """What a run was to be made on, where its result does not say it."""
    words = {name: str(task.settings.get(name, "")) for name in ("kafka", "upgrade", "era", "mutant")}
    return Tested(
        system=str(task.settings.get("sut", "kafka")),
        version=versions(words["kafka"] or words["era"], words["upgrade"]),
        planted=words["mutant"],
    )


def _result(outcome: RunResult) -> TableRow:
    names = ("state", "word", "judged", "seconds", "available", "recovery_s")
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


def _paths(results: Path, folder: str) -> TableRow:
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


def _hand_row(results: Path, folder: Path) -> tuple[TableRow, RunResult | None]:
    row: TableRow = {"at": _begun(folder), "state": "error", "word": "error", **_paths(results, folder.name)}
    try:
        verdict = msgspec.json.decode(regular(Run(folder).verdict).read_bytes(), type=Verdict)
    except (OSError, HistoryError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return row | {"told": f"{folder.name}: verdict.json cannot be read: {error}"}, None
    if verdict.format > VERDICT_FORMAT:
        return row | {"told": f"{folder.name}: a newer version wrote verdict.json"}, None
    code, seconds = verdict.exit_code, verdict.stats.get("seconds recorded", math.nan)
    state = STATES.get(code, "error")
    outcome = RunResult.of(verdict, state, code=code, seconds=seconds, folder=folder.name)
    row |= {"seed": -1 if verdict.config.get("imported") is not None else verdict.seed}
    row |= combination(verdict.config)
    row |= msgspec.structs.asdict(Tested.of(verdict.config))
    return row | _result(outcome), outcome


def combination(config: NamedSettings) -> dict[str, str]:
    """The combination of a run; "" = it has none of these: an import has the default of a setting."""
    unknown = UNRECORDED if config.get("imported") is not None else ()
    return {name: "" if name in unknown else str(config.get(name, "")) for name in COMBINATION}


def _begun(folder: Path) -> str:
    """When a run made by hand started, by its name, else by the time of its verdict."""
    if (when := stamp(folder.name)) is not None:
        return when.isoformat(timespec="milliseconds")
    seconds = Run(folder).verdict.stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def faults_of(verdict: Path) -> list[TableRow]:
    """The faults of a run, as its verdict has them, by `FAULT_COLUMNS`. One row `none` of a run without
    faults; nothing, where the verdict cannot be read."""
    try:
        lived = _LIVED.decode(regular(verdict).read_bytes())
    except (OSError, ValueError, HistoryError, msgspec.MsgspecError, RecursionError):
        return []  # a run without them: the log of its session says what it came to
    tested = Tested.of(lived.config)
    made_on: TableRow = {"system": tested.system, "version": tested.version}
    cost = {one.fault: one for one in lived.liveness.faults}
    rows: list[TableRow] = []
    for fault in lived.faults:
        row = made_on | {"fault": fault.name.partition("@")[0]}
        if (of := cost.get(fault.fault)) is not None:
            recovered_s = of.back_s if of.recovered_s is None else of.recovered_s
            row |= {"served": of.served, "recovered_s": recovered_s, "stalled_s": of.stalled_s}
        rows.append(row)
    return rows or [made_on | {"fault": "none"}]


def stamp(name: str) -> datetime | None:
    """The time at the beginning of the name of a run or session, in UTC."""
    try:
        return datetime.strptime(name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
