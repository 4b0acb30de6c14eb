"""The two ways in: a recorded run, and portable histories.

Not here: the steps that these join.
"""

import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from checkers.case import Case, Judged
from checkers.catalogue import ANOMALIES, CHECKS, INFORMATIONAL
from checkers.pipeline import check_sealed, check_tables, in_process, spark_runner
from checkers.portable import Case as PortableCase
from checkers.portable import cases
from checkers.portable_format import PortableError
from checkers.rules import Ground
from checkers.sealed import HistoryError, Sealed, load
from checkers.spark import SparkError, spark
from checkers.verdict import judge
from checkers.whole import Tally
from harness.config import RunConfig
from harness.store import Run, write_atomically
from harness.verdict import Verdict


def check(run: Run, *, master: str | None = None, without_spark: bool = False) -> Verdict:
    """Judge a sealed run; write `checked/anomalies.parquet` and `verdict.json`.

    master: Spark master (None: all processors of this machine). without_spark: use the same kernels
    in this process, as also where Spark cannot be started; the verdict's stats say which it was.

    Raises: HistoryError (damaged, incomplete or newer folder), OSError (cannot write).
    """
    begin = time.perf_counter()
    sealed = load(run)
    try:
        config = RunConfig(**sealed.config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise HistoryError(f"{run.config}: {where}: {first['msg']}") from None
    tally, by_spark = _run(sealed, master, without_spark=without_spark)
    seconds = time.perf_counter() - begin
    case = Case(sealed=sealed, config=config, tally=tally, seconds=seconds, spark=by_spark)
    verdict = judge(case)
    run.checked.mkdir(exist_ok=True)
    write_atomically(run.anomalies, _parquet(case.judged))
    write_atomically(run.verdict, msgspec.json.format(msgspec.json.encode(verdict), indent=1))
    return verdict


def _run(sealed: Sealed, master: str | None, *, without_spark: bool) -> tuple[Tally, bool]:
    """The tally, and whether Spark made it."""
    if not without_spark:
        try:
            with spark(master) as session:
                return _guarded(sealed, spark_runner(session)), True
        except SparkError as error:
            print(f"inquest: {error}; checking in this process instead", file=sys.stderr)
    return _guarded(sealed, in_process), False


def _guarded(sealed: Sealed, runner: Any) -> Tally:
    """A run of the kernels that crashed as a whole crashed every check."""
    try:
        return check_sealed(sealed, runner)
    except HistoryError:
        raise
    except Exception:  # noqa: BLE001 (every check is named as crashed; nothing passes)
        how = traceback.format_exc(limit=-3)
        subjects = {subject for each in CHECKS.values() for subject in each.subjects}
        return Tally(crashed=dict.fromkeys(sorted(subjects), how))


SCHEMA: Final = pa.schema(
    [
        ("anomaly", pa.string()), ("variant", pa.string()), ("allowed", pa.bool_()),
        ("why", pa.string()), ("known_bug", pa.string()), ("tp", pa.int32()),
        ("process", pa.int32()), ("at_ns", pa.int64()), ("ops", pa.list_(pa.int32())),
        ("key", pa.list_(pa.int64())),
    ]
)  # fmt: skip
"""Columns of `checked/anomalies.parquet`: one row a finding that was kept (counts: verdict.json)."""


def _parquet(judged: Sequence[Judged]) -> bytes:
    rows = [
        {
            "anomaly": j.finding.name, "variant": j.finding.variant, "allowed": j.allowed,
            "why": j.why, "known_bug": j.bug, "tp": j.finding.tp, "process": j.finding.process,
            "at_ns": j.finding.at_ns, "ops": j.finding.ops, "key": j.finding.key,
        }
        for j in judged
    ]  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, compression="zstd")
    return bytes(sink.getvalue())


def check_portable(path: Path) -> list[dict[str, Any]]:
    """Judge every case of a file of portable histories, in this process.

    One answer a case: {"name", "by_config": {"assign+ww" …: {"valid", "anomalies": [classes]}}}.
    Cases of kind `unit` hold no history: they are named on stderr and left out.

    Raises: HistoryError (not the format), OSError (cannot be read).
    """
    answers = []
    try:
        for case in cases(path):
            if case.kind == "unit":
                print(f"inquest: {case.name}: skipped, it holds no history", file=sys.stderr)
            else:
                answers.append({"name": case.name, "by_config": _by_config(case)})
    except PortableError as error:
        raise HistoryError(str(error)) from None
    return answers


def _by_config(case: PortableCase) -> dict[str, Any]:
    tally = check_tables(case.tables, portable=True)
    tried = any(op.f in ("send", "poll", "txn") and op.completed is not None for op in case.ops)
    found = {name for name, _ in tally.counts} - {"offset-reuse"}
    answers: dict[str, Any] = {}
    for by, subscribe in (("assign", False), ("subscribe", True)):
        for suffix, ww in (("+ww", True), ("-ww", False)):
            names = found if ww else found - {"G0", "G0-realtime", "G1c-ww"}
            here = Ground(subscribe=subscribe)
            bad = {
                name
                for name, variant in tally.counts
                if name in names and not ANOMALIES[name].rule(here, variant)[0]
            }
            assert not bad & INFORMATIONAL
            shown = {"G1c" if name == "G1c-ww" else name for name in names}
            valid: bool | str = not bad
            if valid and (not tried or tally.crashed):
                valid = "unknown"
            answers[by + suffix] = {"valid": valid, "anomalies": sorted(shown)}
            if tally.crashed:
                answers[by + suffix]["crashed"] = sorted(tally.crashed)
    return answers
