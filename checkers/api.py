"""The ways in: a recorded run, portable histories, and tables in memory."""

import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NotRequired, TypedDict, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.allowed import Ground
from checkers.caller_tables import Tables, run_of
from checkers.catalogue import ALL_CHECKS, INFORMATIONAL, check_of, permission
from checkers.checks.consistency import REUSE
from checkers.checks.cycles import G0, G0_REALTIME, G1C, G1C_WW
from checkers.engine import pipeline
from checkers.engine.check import Tally
from checkers.engine.engines import Chosen, chosen
from checkers.engine.findings import CAP, NOWHERE, Finding, LogFinding
from checkers.engine.masters import refuse_unknown
from checkers.engine.memory import keep_freed, refuse_too_large
from checkers.engine.spark import spark_runs
from checkers.logs.registry import LOG_CHECKS
from checkers.recordings.portable import PollMop, PortableOp
from checkers.recordings.portable_tables import PortableTables, cases
from checkers.verdict.judged_run import JudgedFinding, JudgedRun, judge
from checkers.verdict.requirements import refuse
from core.config import RunConfig, recorded_config
from core.errors import HistoryError, UsageError
from core.op import Outcome
from core.progress import Watch, unwatched
from core.terminal import say
from history.columns import arrow_array
from history.events import Event
from history.evidence import Evidence
from history.reader import History, load
from history.run_folder import Run, write_atomically
from history.seal import recorded, seal
from history.storage import location, make_folder, reaching
from history.tasks import Here, Workers
from history.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

EngineName = Literal["spark", "process"]
Source = str | os.PathLike[str] | Run | Tables
"""What can be judged: a run folder, or a history as tables (`checkers.caller_tables`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a check found. Nothing in it depends on files any more.

    verdict: everything that the report says about it, as `verdict.json` has it.
    findings: one row a finding that was kept, the worst first; columns: `FINDINGS`. Of each class, variant
    and partition at most 4096 are kept; `counts` is exact.
    spark_failed: why Spark could not be started, so that this process checked; "" = it was not asked, or ran.
    """

    verdict: Verdict
    findings: pa.Table
    spark_failed: str = ""

    @property
    def valid(self) -> bool | Literal["unknown"]:
        """True only where every check decided, and found nothing that is forbidden."""
        return self.verdict.valid

    @property
    def counts(self) -> dict[str, int]:
        """Anomaly class -> number of findings, allowed ones included."""
        return {name: anomaly.count for name, anomaly in self.verdict.anomalies.items()}

    @property
    def forbidden(self) -> dict[str, int]:
        """Anomaly class -> number of findings that nothing in configuration or faults permits."""
        return {
            name: anomaly.disallowed
            for name, anomaly in self.verdict.anomalies.items()
            if not anomaly.allowed
        }

    @property
    def witnesses(self) -> dict[str, list[str]]:
        """Anomaly class -> examples of its findings, one sentence each."""
        return {
            name: [one.sentence for one in anomaly.examples]
            for name, anomaly in self.verdict.anomalies.items()
        }

    def findings_frame(self) -> "pd.DataFrame":
        """`findings` as pandas has it."""
        return _frame(self.findings.to_pylist(), self.findings.column_names)

    def checks_frame(self) -> "pd.DataFrame":
        """One row a check: name, claim, status, why, rows, seconds."""
        return _frame(
            {"check": name, **msgspec.to_builtins(one)} for name, one in self.verdict.checks.items()
        )

    def faults_frame(self) -> "pd.DataFrame":
        """One row a fault: when it was in force, whom it hit."""
        return _frame(msgspec.to_builtins(one) for one in self.verdict.faults)

    def write(self, run: Run) -> None:
        """Write `checked/anomalies.parquet` and `verdict.json`. Raises: OSError."""
        make_folder(run.checked)
        write_atomically(run.anomalies, _parquet(self.findings))
        write_atomically(run.verdict, msgspec.json.format(msgspec.json.encode(self.verdict), indent=1))


def _frame(rows: Iterable[Mapping[str, object]], columns: list[str] | None = None) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame.from_records([dict(row) for row in rows], columns=columns)


def check(
    source: Source,
    *,
    config: RunConfig | None = None,
    events: Sequence[Event] = (),
    names: Mapping[str, Sequence[str]] | None = None,
    master: str | None = None,
    engine: EngineName = "spark",
    require: str | None = None,
    watch: Watch = unwatched,
) -> Result:
    """Judge a recorded history.

    source: a run folder or its URL (it is sealed first, if nothing has yet; nothing else in it changes), or
    tables by the schemas of `history.tables`: Arrow tables or Spark DataFrames. config, events, names: of
    tables only; see `caller_tables.run_of`. Spark seals and judges a run folder: on `master` (None: all
    processors of this machine), or with the active session. Tables are judged in this process, unless there
    is such a master or session on this machine. engine: "process" = all in this process, as also where Spark
    cannot be started on this machine (`Result.spark_failed`). require: of a run folder, what it has to show
    beside a valid verdict (`checkers.verdict.requirements`), "" = nothing; None = what its config says.
    watch: receives how far the work has come.

    Raises: HistoryError (damaged, incomplete or newer folder, tables of other columns), UsageError (not a run
    folder, or one that is still being recorded; an argument that says nothing, also words of `require`),
    StorageError (the URL's store cannot be used), SparkError (a cluster that cannot be used, a job that
    failed), InquestError (a partition for which this machine has too little memory), OSError (a folder or
    temporary files cannot be written).
    """
    if engine not in (known := get_args(EngineName)):
        raise UsageError(f"engine {engine!r}: {' or '.join(known)}")
    if master is not None:
        refuse_unknown(master)
    if isinstance(source, Mapping):
        if require is not None:
            raise UsageError("require belongs to a run folder: tables have no facts of faults and recovery")
        wanted = engine == "spark" and (master is not None or spark_runs())
        with (
            run_of(source, config=config, events=events, names=names) as run,
            chosen(run.folder, watch, spark=wanted, master=master) as choice,
        ):
            # executors elsewhere have no file of this machine
            return _checked(run, choice if choice.here else Chosen(Here(watch)))
    refuse(require or "")
    if config is not None or events or names is not None:
        raise UsageError("config, events and names belong to tables; a run folder has its own")
    folder = source.folder if isinstance(source, Run) else location(os.fspath(source))
    with reaching(folder):
        run = source if isinstance(source, Run) else recorded(folder)
        with chosen(run.folder, watch, spark=engine == "spark", master=master) as choice:
            seal(run, choice.workers)
            return _checked(run, choice, require)


def _checked(run: Run, choice: Chosen, require: str | None = None) -> Result:
    begin, workers, history = time.perf_counter(), choice.workers, load(run)
    evidence = Evidence.recorded(run.evidence, history.events)
    config = recorded_config(run.config)
    if require is not None:
        config = config.model_copy(update={"require": require})
    if choice.here:  # else executors elsewhere read the units
        refuse_too_large(max((unit.sends + unit.reads for unit in history.names.units), default=0))
    if not workers.apart:
        keep_freed()
    tally = _guarded(history, workers, evidence)
    seconds = time.perf_counter() - begin
    judged = JudgedRun(
        history=history, config=config, tally=tally, seconds=seconds, evidence=evidence, engine=choice.title
    )
    verdict = judge(judged)
    return Result(verdict=verdict, findings=_table(history, judged.findings), spark_failed=choice.why)


def _guarded(sealed: History, workers: Workers, evidence: Evidence) -> Tally:
    """A run of the kernels that crashed as a whole crashed every check."""
    try:
        return check_history(sealed, workers, evidence=evidence)
    except (HistoryError, OSError):
        raise
    except Exception:  # noqa: BLE001 (every check is named as crashed; none passes)
        how = traceback.format_exc(limit=-3)
        return Tally(crashed=dict.fromkeys(ALL_CHECKS, how))


FINDINGS: Final[dict[str, tuple[pa.DataType, Callable[[History, JudgedFinding], object]]]] = {
    "anomaly": (pa.string(), lambda _, judged: judged.finding.name),
    "found_by": (pa.string(), lambda _, judged: check_of(judged.finding)),
    "variant": (pa.string(), lambda _, judged: judged.finding.variant),
    "excuse": (pa.string(), lambda _, judged: judged.finding.excuse),
    "allowed": (pa.bool_(), lambda _, judged: judged.allowed),
    "why": (pa.string(), lambda _, judged: judged.why),
    "known_bug": (pa.string(), lambda _, judged: judged.bug),
    "tp": (pa.int32(), lambda _, judged: judged.finding.tp),
    "partition": (pa.string(), lambda history, judged: _partition(history, judged.finding)),
    "process": (pa.int32(), lambda _, judged: judged.finding.process),
    "at_ns": (pa.int64(), lambda _, judged: judged.finding.at_ns),
    "ops": (pa.list_(pa.int32()), lambda _, judged: judged.finding.ops),
    "key": (pa.list_(pa.int64()), lambda _, judged: judged.finding.key),
}
"""Columns of `Result.findings` and `checked/anomalies.parquet`: one row a finding that was kept.

anomaly, variant, key: docs/checks.md, section 2; found_by: the check; excuse: section 6, "" = none. allowed,
why: whether configuration or faults permit it. known_bug: id of the bug whose signature it bears, "" = none,
or not compared: what is allowed, and what is beyond the first 32,768 of a class and check. tp, partition: row
of `tps`, `topic-partition` (-1, "" = none; findings in brokers' logs have no row). process: whose promise was
broken; at_ns: when it came to light (-1 = none, unknown). ops: rows of `ops`."""


def _partition(history: History, finding: Finding) -> str:
    if isinstance(finding, LogFinding):
        return "" if finding.log == NOWHERE else str(finding.log)
    return history.tp(finding.tp) if finding.tp >= 0 else ""


def _table(history: History, judged: Sequence[JudgedFinding]) -> pa.Table:
    columns = {
        name: arrow_array([of(history, one) for one in judged], kind) for name, (kind, of) in FINDINGS.items()
    }
    return pa.Table.from_arrays([*columns.values()], names=[*columns])


def _parquet(findings: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(findings, sink, compression="zstd")
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

    Raises: HistoryError (the file cannot be read, or holds no case that can be judged).
    """
    answers: list[PortableAnswer] = []
    for case in cases(path):
        if case.error:
            unknown: PortableVerdict = {"valid": "unknown", "anomalies": []}
            by_config = {name: unknown.copy() for name in CONFIGS}
            answers.append({"name": case.name, "by_config": by_config, "error": case.error})
        elif case.kind == "unit":
            say(f"{case.name}: skipped, it holds no history")
        else:
            answers.append({"name": case.name, "by_config": _by_config(case)})
    errors = [answer["error"] for answer in answers if "error" in answer]
    if len(errors) == len(answers):
        raise HistoryError(errors[0] if errors else f"{path}: it holds no case that can be judged")
    for error in errors:
        say(f"not judged: {error}")
    return answers


def _by_config(case: PortableTables) -> dict[str, PortableVerdict]:
    tally = check_tables(case.tables, recorded=False, f=case.f)
    tried = any(map(_showed, case.ops))
    found = {kind.name for kind in tally.counts} - {REUSE}
    answers: dict[str, PortableVerdict] = {}
    for by, subscribe in (("assign", False), ("subscribe", True)):
        for suffix, ww in (("+ww", True), ("-ww", False)):
            names = found if ww else found - {G0, G0_REALTIME, G1C_WW}
            here = Ground(subscribe=subscribe)
            bad = {kind.name for kind in tally.counts if kind.name in names and not permission(here, kind)[0]}
            assert not bad & INFORMATIONAL
            shown = {G1C if name == G1C_WW else name for name in names}
            valid: bool | Literal["unknown"] = not bad
            if valid and (not tried or tally.crashed):
                valid = "unknown"
            answers[by + suffix] = {"valid": valid, "anomalies": sorted(shown)}
            if tally.crashed:
                answers[by + suffix]["crashed"] = sorted(tally.crashed)
    return answers


def _showed(op: PortableOp) -> bool:
    """Whether the op shows something of the cluster: a record that was written, or read."""
    read = any(isinstance(mop, PollMop) and any(mop.records.values()) for mop in op.mops)
    return read or (op.outcome is Outcome.OK and bool(op.sends))


def check_history(
    history: History, workers: Workers | None = None, evidence: Evidence | None = None
) -> Tally:
    """Check a sealed history; the tally, without a verdict. workers: None = this process. evidence: of its
    brokers, None = there is none.

    Raises: HistoryError, where a file proves damaged.
    """
    own = recorded_config(history.run.config)
    return pipeline.check_sealed(history, own, ALL_CHECKS, workers or Here(), evidence)


def check_evidence(
    evidence: Evidence, history: History | None = None, workers: Workers | None = None
) -> Tally:
    """Check what brokers left behind; the tally, without a verdict. history: what clients saw, None =
    unknown. workers: None = this process.

    Raises: HistoryError, where a file proves damaged.
    """
    return pipeline.check_evidence(evidence, LOG_CHECKS, history, workers)


def check_tables(
    tables: Mapping[str, pa.Table],
    *,
    recorded: bool,
    events: Sequence[Event] = (),
    config: RunConfig | None = None,
    cap: int = CAP,
    evidence: Evidence | None = None,
    f: Sequence[str] = (),
) -> Tally:
    """Check a whole history that is in memory, in this process. recorded: else it is a portable one. config:
    None = that of a run with all defaults. evidence: of its brokers, None = there is none. f: the names of
    kinds of ops, which tell polls of portable ones."""
    return pipeline.check_tables(
        tables, ALL_CHECKS, recorded=recorded, events=events, config=config, cap=cap, evidence=evidence, f=f
    )
