"""The ways in: a recorded run, portable histories, and tables in memory."""

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NotRequired, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.allowed import Ground
from checkers.catalogue import ANOMALIES, INFORMATIONAL
from checkers.checks import CHECKS
from checkers.checks.consistency import REUSE
from checkers.checks.cycles import G0, G0_REALTIME, G1C, G1C_WW
from checkers.engine import pipeline
from checkers.engine.check import Tally
from checkers.engine.findings import CAP
from checkers.engine.pipeline import Runner, in_process, spark_runner
from checkers.engine.spark import spark
from checkers.judged_logs import JudgedLogs
from checkers.logs import engine as log_engine
from checkers.portable.tables import PortableTables, cases
from checkers.verdict import JudgedFinding, JudgedRun, judge
from core.config import recorded_config
from core.errors import HistoryError, SparkError
from history.events import Event
from history.evidence import Evidence
from history.reader import History, load
from history.run_folder import Run, write_atomically
from history.verdict import Verdict


def check(run: Run, *, master: str | None = None, without_spark: bool = False) -> Verdict:
    """Judge a sealed run; write `checked/anomalies.parquet` and `verdict.json`.

    master: Spark master (None: all processors of this machine). without_spark: use the same kernels
    in this process, as also where Spark cannot be started; the verdict's stats say which it was.

    Raises: HistoryError (damaged, incomplete or newer folder), OSError (cannot write).
    """
    begin = time.perf_counter()
    sealed, evidence = load(run), Evidence.load(run.evidence)
    config = recorded_config(run.config)
    tally, logs, by_spark = _run(sealed, evidence, master, without_spark=without_spark)
    seconds = time.perf_counter() - begin
    judged = JudgedRun(history=sealed, config=config, tally=tally, seconds=seconds, spark=by_spark, logs=logs)
    verdict = judge(judged)
    run.checked.mkdir(exist_ok=True)
    write_atomically(run.anomalies, _parquet(judged.findings))
    write_atomically(run.verdict, msgspec.json.format(msgspec.json.encode(verdict), indent=1))
    return verdict


def _run(
    sealed: History, evidence: Evidence, master: str | None, *, without_spark: bool
) -> tuple[Tally, JudgedLogs, bool]:
    """The tally, what the brokers' logs say, and whether Spark made both."""
    if not without_spark:
        try:
            with spark(master) as session:
                tally = _guarded(sealed, spark_runner(session))
                runner = log_engine.spark_runner(session, sealed.run.evidence)
                return tally, judged_logs(evidence, sealed, runner), True
        except SparkError as error:
            print(f"inquest: {error}; checking in this process instead", file=sys.stderr)
    return _guarded(sealed, in_process), judged_logs(evidence, sealed), False


def judged_logs(
    evidence: Evidence, history: History | None, runner: log_engine.Runner | None = None
) -> JudgedLogs:
    """What the brokers' logs say. runner: None = this process.

    Raises: HistoryError, where a file proves damaged.
    """
    begin = time.perf_counter()
    judgement = log_engine.judge_all(evidence, history, runner=runner)
    return JudgedLogs(evidence=evidence, judgement=judgement, seconds=time.perf_counter() - begin)


def _guarded(sealed: History, runner: Runner) -> Tally:
    """A run of the kernels that crashed as a whole crashed every check."""
    try:
        return check_history(sealed, runner)
    except HistoryError:
        raise
    except Exception:  # noqa: BLE001 (every check is named as crashed; none passes)
        how = traceback.format_exc(limit=-3)
        return Tally(crashed=dict.fromkeys(CHECKS, how))


COLUMNS: Final[dict[str, tuple[pa.DataType, Callable[[JudgedFinding], object]]]] = {
    "anomaly": (pa.string(), lambda judged: judged.finding.name),
    "variant": (pa.string(), lambda judged: judged.finding.variant),
    "allowed": (pa.bool_(), lambda judged: judged.allowed),
    "why": (pa.string(), lambda judged: judged.why),
    "known_bug": (pa.string(), lambda judged: judged.bug),
    "tp": (pa.int32(), lambda judged: judged.finding.tp),
    "process": (pa.int32(), lambda judged: judged.finding.process),
    "at_ns": (pa.int64(), lambda judged: judged.finding.at_ns),
    "ops": (pa.list_(pa.int32()), lambda judged: judged.finding.ops),
    "key": (pa.list_(pa.int64()), lambda judged: judged.finding.key),
}
"""Columns of `checked/anomalies.parquet`: one row a finding that was kept (counts: verdict.json)."""


def _parquet(judged: Sequence[JudgedFinding]) -> bytes:
    columns = {name: pa.array(map(of, judged), kind) for name, (kind, of) in COLUMNS.items()}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return bytes(sink.getvalue())


class PortableVerdict(TypedDict):
    """What one configuration makes of a case. crashed: names of checks."""

    valid: bool | Literal["unknown"]
    anomalies: list[str]
    crashed: NotRequired[list[str]]


class PortableAnswer(TypedDict):
    """The verdicts of one case, by configuration: `assign+ww`, `assign-ww`, `subscribe+ww` …"""

    name: str
    by_config: dict[str, PortableVerdict]
    error: NotRequired[str]


CONFIGS: Final = tuple(by + ww for by in ("assign", "subscribe") for ww in ("+ww", "-ww"))


def check_portable(path: Path) -> list[PortableAnswer]:
    """Judge every case of a file of portable histories, in this process.

    One answer a case: {"name", "by_config": {"assign+ww" …: {"valid", "anomalies": [classes]}}}. A case
    that cannot be judged has an `error` with its place, and is unknown. Such cases, and those of kind `unit`,
    which hold no history, are named on stderr; the latter have no answer.

    Raises: HistoryError (the file cannot be read, or no case of it can be judged).
    """
    answers: list[PortableAnswer] = []
    for case in cases(path):
        if case.error:
            unknown: PortableVerdict = {"valid": "unknown", "anomalies": []}
            by_config = {name: unknown.copy() for name in CONFIGS}
            answers.append({"name": case.name, "by_config": by_config, "error": case.error})
        elif case.kind == "unit":
            print(f"inquest: {case.name}: skipped, it holds no history", file=sys.stderr)
        else:
            answers.append({"name": case.name, "by_config": _by_config(case)})
    errors = [answer["error"] for answer in answers if "error" in answer]
    if errors and len(errors) == len(answers):
        raise HistoryError(errors[0])
    for error in errors:
        print(f"inquest: not judged: {error}", file=sys.stderr)
    return answers


def _by_config(case: PortableTables) -> dict[str, PortableVerdict]:
    tally = check_tables(case.tables, recorded=False)
    tried = any(op.f in ("send", "poll", "txn") and op.completed is not None for op in case.ops)
    found = {name for name, _ in tally.counts} - {REUSE}
    answers: dict[str, PortableVerdict] = {}
    for by, subscribe in (("assign", False), ("subscribe", True)):
        for suffix, ww in (("+ww", True), ("-ww", False)):
            names = found if ww else found - {G0, G0_REALTIME, G1C_WW}
            here = Ground(subscribe=subscribe)
            bad = {
                name
                for name, variant in tally.counts
                if name in names and not ANOMALIES[name].rule(here, variant)[0]
            }
            assert not bad & INFORMATIONAL
            shown = {G1C if name == G1C_WW else name for name in names}
            valid: bool | Literal["unknown"] = not bad
            if valid and (not tried or tally.crashed):
                valid = "unknown"
            answers[by + suffix] = {"valid": valid, "anomalies": sorted(shown)}
            if tally.crashed:
                answers[by + suffix]["crashed"] = sorted(tally.crashed)
    return answers


def check_history(history: History, runner: Runner = in_process) -> Tally:
    """Check a sealed history; the tally, without a verdict.

    Raises: HistoryError, where a file proves damaged.
    """
    return pipeline.check_sealed(history, CHECKS, runner)


def check_tables(
    tables: Mapping[str, pa.Table], *, recorded: bool, events: Sequence[Event] = (), cap: int = CAP
) -> Tally:
    """Check a whole history that is in memory, in this process. recorded: else it is a portable one."""
    return pipeline.check_tables(tables, CHECKS, recorded=recorded, events=events, cap=cap)
