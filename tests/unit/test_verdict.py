"""Verdicts of run folders: what is decided, unknown, expected, and how it is told."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers import check
from checkers.catalogue import CHECKS
from checkers.kernel import KERNELS
from checkers.repeat import repro
from harness.config import run_config
from harness.events import Event, FaultHealed, FaultStarted, Note, Recovered
from harness.op import Isolation, Outcome, Phase, value_of
from harness.store import Run
from harness.verdict import Verdict
from tests.built import Bound, Built, Op, Process, Read, Send
from tests.folders import RECOVERED, STARTED, write_run
from tests.planted import random_history

S = 1_000_000_000


def history(*, read: int = 4, end: int = 4, acks: int = -1) -> Built:
    """Four acknowledged records of one partition; the final reads show the first `read` of them."""
    built = Built(tps=["orders"])
    send = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    send.mops = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(4)]
    built.ops = [send]
    built.processes[1] = Process(acks=acks, idempotent=acks == -1, slot=3)
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        final = Op(process=8 + level, f="final", invoke=9 * S, complete=10 * S, phase=Phase.FINAL)
        final.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(read)]
        built.processes[8 + level] = Process(isolation=level, acks=-2, slot=8 + level)
        built.ops.append(final)
        built.bounds.append(Bound(tp=0, isolation=level, end=end, read_to=read))
    return built


def judged(
    folder: Path,
    tables: Mapping[str, pa.Table],
    settings: dict[str, Any] | None = None,
    *events: Event,
) -> Verdict:
    run = write_run(folder, tables, settings=settings, events=events or (STARTED, RECOVERED))
    verdict = check(run, without_spark=True)
    assert msgspec.json.decode(run.verdict.read_bytes(), type=Verdict) == verdict
    return verdict


def test_a_clean_run_is_valid_and_every_check_says_so(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", history().tables())
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == (True, 0, {})
    assert {name: c.status for name, c in verdict.checks.items()} == dict.fromkeys(CHECKS, "valid")
    assert verdict.recovery_s == 2.5
    assert verdict.stats["records acknowledged"] == 4
    assert verdict.stats["records read"] == 8
    assert "no forbidden anomaly" in verdict.summary


def test_a_loss_is_told_with_client_offset_time_and_faults_in_force(tmp_path: Path) -> None:
    fault = FaultStarted(
        begin_ns=S // 2, ns=S, fault=4, name="partition:isolate", nodes=(2,), text="x", colour="red"
    )
    later = FaultStarted(
        begin_ns=5 * S, ns=6 * S, fault=5, name="kill", nodes=(1,), text="y", colour="red"
    )
    healed = FaultHealed(begin_ns=3 * S, ns=3 * S, fault=4)
    verdict = judged(
        tmp_path / "run", history(read=3).tables(), None, STARTED, fault, later, healed, RECOVERED
    )
    assert verdict.exit_code == 2  # the reads stopped one short of the end
    verdict = judged(
        tmp_path / "run", history(read=3, end=3).tables(), None,
        STARTED, fault, healed, later, RECOVERED,
    )  # fmt: skip
    assert (verdict.valid, verdict.exit_code) == (False, 1)
    lost = verdict.anomalies["lost-write"]
    assert (lost.count, lost.disallowed, lost.allowed) == (1, 1, False)
    (example,) = lost.examples
    assert (example.partition, example.values, example.offsets) == (
        "orders-0", [value_of(1, 3)], [3]
    )  # fmt: skip
    for part in ("Record 1/3 of orders-0", "client 3", "offset 3", "at 2.000 s", "ends at 3"):
        assert part in example.sentence
    assert example.faults == [4]
    (op,) = example.ops
    assert (op.process, op.slot, op.begin_s, op.end_s) == (1, 3, 1.0, 2.0)
    assert op.records == ["send orders-0 1/3 -> offset 3"]
    assert verdict.checks["durability"].status == "invalid"
    assert [f.end_s for f in verdict.faults] == [3.0, None]


def test_a_final_read_that_stopped_short_leaves_the_checks_of_content_unknown(
    tmp_path: Path,
) -> None:
    verdict = judged(tmp_path / "run", history(read=3).tables())
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    unknown = {name for name, c in verdict.checks.items() if c.status == "unknown"}
    assert unknown == {name for name, c in CHECKS.items() if c.content}
    assert "1 committed records may be lost or not" in verdict.checks["durability"].why
    assert "orders-0" in verdict.checks["uniqueness"].why


def test_a_control_that_loses_is_valid_and_one_that_does_not_is_silent(tmp_path: Path) -> None:
    fired = judged(tmp_path / "a", history(read=3, end=3, acks=1).tables(), {"preset": "acks1"})
    assert (fired.valid, fired.exit_code, fired.expect) == (True, 0, {"lost-write": True})
    assert fired.anomalies["lost-write"].allowed
    assert "acks=1" in fired.anomalies["lost-write"].why
    silent = judged(tmp_path / "b", history(acks=1).tables(), {"preset": "acks1"})
    assert (silent.exit_code, silent.expect) == (4, {"lost-write": False})
    assert "had to find lost-write" in silent.summary


def test_what_the_final_reads_show_of_aborted_records_is_no_anomaly(tmp_path: Path) -> None:
    built = history()
    aborted = Op(process=2, f="txn", invoke=3 * S, complete=4 * S, txn=True, outcome=Outcome.FAIL)
    aborted.mops = [Send(tp=0, value=value_of(2, 0), offset=4)]
    built.ops.append(aborted)
    uncommitted, committed = built.ops[1], built.ops[2]
    read = Read(tp=0, offset=4, value=value_of(2, 0))
    uncommitted.mops.append(read)
    for bound in built.bounds:
        bound.end = bound.read_to = 6
    clean = judged(tmp_path / "a", built.tables(), {"preset": "read-uncommitted"})
    assert clean.anomalies == {}
    assert clean.expect == {"aborted-read": False}
    uncommitted.phase = Phase.FAULTS
    assert judged(tmp_path / "b", built.tables()).anomalies["aborted-read"].allowed
    committed.mops.append(read)
    bad = judged(tmp_path / "c", built.tables()).anomalies["aborted-read"]
    assert (bad.count, bad.disallowed) == (2, 1)
    assert not bad.examples[0].allowed


def test_a_cluster_that_did_not_recover_is_exit_code_3(tmp_path: Path) -> None:
    failed = Recovered(ns=5 * S, recovered=False, seconds=60, why="orders-0 has no leader")
    verdict = judged(tmp_path / "run", history().tables(), None, STARTED, failed)
    assert (verdict.valid, verdict.exit_code, verdict.recovered) == (False, 3, False)
    assert verdict.recovery_s is None


@pytest.mark.parametrize(
    ("events", "codes"),
    [
        ([Note(ns=1, text="interrupted", incomplete=True)], (130, 130)),
        ([Note(ns=1, text="disk full", incomplete=True)], (2, 1)),
    ],
)
def test_a_recording_that_is_not_whole_proves_nothing_clean(
    tmp_path: Path, events: list[Event], codes: tuple[int, int]
) -> None:
    clean = judged(tmp_path / "a", history().tables(), None, STARTED, *events, RECOVERED)
    assert (clean.valid, clean.exit_code) == ("unknown", codes[0])
    bad = judged(tmp_path / "b", history(read=3, end=3).tables(), None, STARTED, *events, RECOVERED)
    assert (bad.valid, bad.exit_code) == (False, codes[1])


def test_a_run_cut_short_before_its_final_reads_is_unknown_not_portable(tmp_path: Path) -> None:
    built = history()
    built.bounds, built.ops = [], built.ops[:1]
    verdict = judged(tmp_path / "run", built.tables(), None, STARTED)
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    assert verdict.checks["recovery"].status == "unknown"
    assert verdict.checks["stability"].status == "unknown"


def test_a_last_stable_offset_is_stuck_only_after_all_had_its_time(tmp_path: Path) -> None:
    built = history()
    built.bounds[0].end = built.bounds[0].read_to = 6
    stuck = judged(tmp_path / "a", built.tables())
    assert stuck.anomalies["stuck-lso"].disallowed == 1
    cut = Note(ns=1, text="interrupted", incomplete=True)
    early = judged(tmp_path / "b", built.tables(), None, STARTED, cut, RECOVERED)
    assert early.anomalies == {}
    assert early.checks["stability"].status == "unknown"


def test_nothing_recorded_is_unknown(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", Built(tps=[]).tables())
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)


def test_a_crashed_check_is_named_and_the_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(KERNELS, "duplicates", broken)
    verdict = judged(tmp_path / "run", history().tables())
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    crashed = verdict.checks["uniqueness"]
    assert crashed.status == "crashed"
    assert "planted" in crashed.why
    assert verdict.checks["durability"].status == "valid"


@pytest.mark.parametrize("seed", [n for n in range(60) if n % 3])
def test_every_finding_of_a_random_run_can_be_told(tmp_path: Path, seed: int) -> None:
    built, _, _ = random_history(seed)
    run = write_run(tmp_path / "run", built.tables())
    verdict = check(run, without_spark=True)
    for anomaly in verdict.anomalies.values():
        assert anomaly.count >= anomaly.disallowed >= 0
        assert anomaly.why
        assert anomaly.examples
        for example in anomaly.examples:
            assert example.sentence[0].isupper()
            assert example.sentence.endswith(".")
            assert "{" not in example.sentence
    rows = pq.ParquetFile(run.anomalies).read().to_pylist()
    shown = {row["anomaly"] for row in rows}
    assert shown == set(verdict.anomalies)


def test_the_command_that_repeats_a_run_says_all_that_is_not_usual() -> None:
    usual = run_config({"seed": 5})
    assert repro(usual) == (
        "inquest run --workload queue --nemesis partition --preset safe --seed 5 --duration 60"
    )
    given = {
        "seed": 9, "preset": "acks1", "nemesis": "kill@leader", "brokers": 5, "duration_s": 20.5,
        "isolation": "read_uncommitted", "client_settings": {"a": "b c"}, "partitions": 3,
    }  # fmt: skip
    words = shlex.split(repro(run_config(given)))
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--preset"] == "acks1"
    assert options["--brokers"] == "5"
    assert options["--duration"] == "20.5"
    sets = [value for name, value in zip(words[2::2], words[3::2], strict=True) if name == "--set"]
    assert sets == [
        "partitions=3", "isolation=read_uncommitted", 'client_settings={"a":"b c"}',
    ]  # fmt: skip


def test_the_verdict_replaces_an_older_one(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", history(read=3, end=3).tables())
    assert not check(run, without_spark=True).valid
    write_run(tmp_path / "run", history().tables())
    assert check(Run(run.folder), without_spark=True).valid is True
    assert b'"valid": true' in run.verdict.read_bytes()
