"""Verdicts of run folders: what is decided, unknown, expected, and how it is told."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.catalogue import ANOMALIES
from checkers.checks import CHECKS
from checkers.engine import pipeline
from checkers.engine.kernel_input import kernel_input
from checkers.verdict import judged_run
from checkers.verdict.repeat import repro
from core.cluster import OpenTransaction
from core.config import run_config
from core.op import CommitKind, Isolation, Outcome, Phase, value_of
from core.payload import Uncommitted
from harness.report.wording import faults_line
from history.events import (
    Event,
    FaultFailed,
    Interrupted,
    Note,
    PhaseStarted,
    Recovered,
    RolesSeen,
    TransactionsOpen,
    WrongClusterSeen,
)
from history.run_folder import Run
from history.tables import TABLES
from history.verdict import Example, Liveness, ResultWord, Verdict
from tests.histories.built import Assign, Bound, Built, Commit, Foreign, Op, Process, Read, Send, final_reads
from tests.histories.fault_events import begun, both
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run
from tests.histories.notation import stories
from tests.histories.planted import random_history

S = 1_000_000_000
NOWHERE = Run(Path("nowhere"))


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
    folder: Path, tables: Mapping[str, pa.Table], settings: dict[str, Any] | None = None, *events: Event
) -> Verdict:
    run = write_run(folder, tables, settings=settings, events=events or (STARTED, RECOVERED))
    verdict = check_run(run)
    assert msgspec.json.decode(run.verdict.read_bytes(), type=Verdict) == verdict
    return verdict


def test_a_clean_run_is_valid_and_every_check_says_so(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", history().tables())
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == (True, 0, {})
    idle = {name: c.why for name, c in verdict.checks.items() if c.status == "unasked"}
    assert idle == {
        "share-groups": "nothing to judge: no share group delivered a record",
        "dead-letters": "nothing to judge: no dead-letter queue of a share group was read",
        "compaction": "nothing to judge: compaction removed no committed record",
        "atomicity": "nothing to judge: no transaction sent a record",
        "poll-order": "nothing to judge: no client was given a record before the final reads",
        "group-offsets": "nothing to judge: no offset was committed or asked for",
        "exactly-once": "nothing to judge: no member of a group produces",
        "copy-order": "nothing to judge: no application copied several records of one partition to one",
        "group-delivery": "nothing to judge: no member of a group was given a record",
        "fencing": "nothing to judge: no two processes had one transactional id",
    }
    assert {c.status for name, c in verdict.checks.items() if name not in idle} == {"valid"}
    assert verdict.recovery_s == 2.5
    assert "no forbidden anomaly" in verdict.summary


def test_the_numbers_of_a_run(tmp_path: Path) -> None:
    built = history()
    for at, outcome in ((3, Outcome.FAIL), (4, Outcome.INFO), (5, Outcome.INFO)):
        complete = None if at == 5 else at * S + 1
        op = Op(process=1, f="send", invoke=at * S, complete=complete, outcome=outcome)
        op.mops = [Send(tp=0, value=value_of(1, at))]
        built.ops.append(op)
    fault = begun("kill:one", 7, number=1, nodes=(4,))
    failed = FaultFailed(ns=8 * S, fault=2, name="kill:one", why="…")
    stats = judged(tmp_path / "run", built.tables(), None, STARTED, fault, failed, RECOVERED).stats
    assert stats.pop("seconds to check") > 0
    assert stats == {
        "ops": 6,
        "ok": 3,
        "fail": 1,
        "info": 2,
        "records sent": 7,
        "records acknowledged": 4,
        "records read": 8,
        "partitions": 1,
        "faults": 1,
        "idle faults": 1,
        "faults that were not made": 1,
        "seconds recorded": 9,
    }


def test_examples_are_of_each_partition_in_turn(tmp_path: Path) -> None:
    built = Built(tps=["orders", "bills"])
    for at, (tp, count) in enumerate(((0, 30), (1, 3)), 1):
        send = Op(process=1, f="send", invoke=at * S, complete=at * S + 1)
        send.mops = [Send(tp=tp, value=value_of(1, 100 * tp + n), offset=n) for n in range(count)]
        built.ops.append(send)
        built.bounds += [Bound(tp=tp, isolation=Isolation(level), end=0, read_to=0) for level in (0, 1)]
    built.processes[1] = Process(slot=3)
    lost = judged(tmp_path / "run", built.tables()).anomalies["lost-write"]
    assert lost.count == 33
    partitions = [one.partition for one in lost.examples]
    assert partitions == ["orders-0"] * 13 + ["bills-0"] * 3


def test_a_loss_is_told_with_client_offset_time_and_faults_in_force(tmp_path: Path) -> None:
    fault, over = both(begun("partition:isolate", 0.5, 1, number=4, nodes=(2,)), 3)
    later = begun("kill", 5, 6, number=5, nodes=(1,))
    verdict = judged(tmp_path / "run", history(read=3).tables(), None, STARTED, fault, later, over, RECOVERED)
    assert verdict.exit_code == 2  # the reads stopped one short of the end
    verdict = judged(
        tmp_path / "run", history(read=3, end=3).tables(), None, STARTED, fault, over, later, RECOVERED
    )
    assert (verdict.valid, verdict.exit_code) == (False, 1)
    lost = verdict.anomalies["lost-write"]
    assert (lost.count, lost.disallowed, lost.allowed) == (1, 1, False)
    (example,) = lost.examples
    assert (example.partition, example.values, example.offsets) == ("orders-0", [value_of(1, 3)], [3])
    for part in ("Record 1/3 of orders-0", "client 3", "offset 3", "at 2.000 s", "ends at 3"):
        assert part in example.sentence
    assert example.faults == [4]
    (op,) = example.ops
    assert (op.process, op.slot, op.begin_s, op.end_s) == (1, 3, 1.0, 2.0)
    assert op.records == ["send orders-0 1/3 -> offset 3"]
    assert verdict.checks["durability"].status == "invalid"
    assert [f.end_s for f in verdict.faults] == [3.0, None]


@pytest.mark.parametrize(("healed", "faults"), [(False, [5]), (True, [])])
def test_a_fault_that_was_never_healed_is_in_force_at_the_final_reads(
    tmp_path: Path, healed: bool, faults: list[int]
) -> None:
    built, value = history(), value_of(1, 9)
    for final, bound in zip(built.ops[1:], built.bounds, strict=True):
        final.mops.append(Read(tp=0, offset=4, value=value))
        bound.end = bound.read_to = 5
    kill = both(begun("kill", 5, 6, number=5, nodes=(1,)), 7 if healed else None)
    events: list[Event] = [STARTED, *kill, RECOVERED]
    (example, *_) = judged(tmp_path, built.tables(), None, *events).anomalies["phantom-read"].examples
    assert example.faults == faults


def test_a_final_read_that_stopped_short_leaves_the_checks_of_content_unknown(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", history(read=3).tables())
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    unknown = {name for name, c in verdict.checks.items() if c.status == "unknown"}
    assert unknown == {
        *("atomicity", "compaction", "consistency", "durability", "exactly-once", "group-delivery"),
        *("copy-order", "integrity", "isolation", "uniqueness"),
    }
    assert "1 of the committed records may be lost or not" in verdict.checks["durability"].why
    assert "orders-0" in verdict.checks["uniqueness"].why


def test_a_control_that_loses_is_valid_and_one_that_does_not_is_silent(tmp_path: Path) -> None:
    fired = judged(tmp_path / "a", history(read=3, end=3, acks=1).tables(), {"preset": "acks1"})
    assert (fired.valid, fired.exit_code, fired.expect) == (True, 0, {"lost-write": True})
    assert fired.anomalies["lost-write"].allowed
    durability = fired.checks["durability"]
    assert (durability.status, "acks=1" in durability.why) == ("permitted", True)  # it does not hold
    assert "acks=1" in fired.anomalies["lost-write"].why
    silent = judged(tmp_path / "b", history(acks=1).tables(), {"preset": "acks1"})
    assert (silent.exit_code, silent.expect) == (4, {"lost-write": False})
    assert "had to find lost-write" in silent.summary


def test_what_is_permitted_is_called_no_known_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def every(_history: object, _evidence: object, findings: Sequence[object]) -> list[str]:
        return ["KAFKA-15591"] * len(findings)

    monkeypatch.setattr(judged_run, "labels", every)
    fired = judged(tmp_path / "a", history(read=3, end=3, acks=1).tables(), {"preset": "acks1"})
    assert [one.known_bug for one in fired.anomalies["lost-write"].examples] == [""]
    lost = judged(tmp_path / "b", history(read=3, end=3).tables())
    assert [one.known_bug for one in lost.anomalies["lost-write"].examples] == ["KAFKA-15591"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("compared", "bugs", "shown", "known"),
    [
        (2, ["KAFKA-15591", "KAFKA-15591"], ["KAFKA-15591", "KAFKA-15591", "", ""], ""),
        (2, ["KAFKA-15591", ""], ["", "KAFKA-15591", "", ""], ""),
        (4, ["KAFKA-15591", "", "", "KAFKA-15591"], ["", "", "KAFKA-15591", "KAFKA-15591"], ""),
        (4, ["KAFKA-15591"] * 4, ["KAFKA-15591"] * 4, "KAFKA-15591"),
        (
            4,
            ["KAFKA-20734"] * 2 + ["KAFKA-15591"] * 2,
            ["KAFKA-20734"] * 2 + ["KAFKA-15591"] * 2,
            "KAFKA-15591, KAFKA-20734",
        ),
    ],
)
def test_what_was_not_compared_with_known_bugs_stands_behind_what_was(
    compared: int,
    bugs: list[str],
    shown: list[str],
    known: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judged_run, "LABELLED", compared)
    monkeypatch.setattr(judged_run, "labels", lambda _history, _evidence, findings: bugs[: len(findings)])
    verdict = judged(tmp_path, history(read=0, end=0).tables())
    lost = verdict.anomalies["lost-write"]
    assert [one.known_bug for one in lost.examples] == shown
    assert lost.known_bug == known
    assert verdict.result is (ResultWord.KNOWN_BUGS if known else ResultWord.ANOMALY)
    assert (f"all match known bug{'s' * (',' in known)} {known}" in verdict.summary) is bool(known)


@pytest.mark.parametrize(("cap", "known"), [(2, ""), (4, "KAFKA-15591")])
def test_a_class_with_findings_that_were_not_kept_matches_no_known_bug(
    cap: int, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "kernel_input", partial(kernel_input, cap=cap))
    monkeypatch.setattr(
        judged_run, "labels", lambda _history, _evidence, findings: ["KAFKA-15591"] * len(findings)
    )
    verdict = judged(tmp_path, history(read=0, end=0).tables())
    lost = verdict.anomalies["lost-write"]
    assert (lost.disallowed, len(lost.examples)) == (4, cap)
    assert {one.known_bug for one in lost.examples} == {"KAFKA-15591"}
    assert lost.known_bug == known
    assert verdict.result is (ResultWord.KNOWN_BUGS if known else ResultWord.ANOMALY)


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
    usual = judged(tmp_path / "b", built.tables())
    assert usual.anomalies["aborted-read"].allowed
    assert "allowed here" not in usual.summary  # that is what such a reader is there to see
    committed.mops.append(read)
    bad = judged(tmp_path / "c", built.tables()).anomalies["aborted-read"]
    assert (bad.count, bad.disallowed) == (2, 1)
    assert not bad.examples[0].allowed


KILL, IN_TRANSACTION = "kill:one", "client:crash-in-transaction@member"
CALM, BUSY = 3, 5
"""Seconds at which nothing is under way, and an op that fails."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({KILL: CALM}, "1 fault, 1 without effect"),
        ({KILL: BUSY}, "1 fault"),
        ({IN_TRANSACTION: BUSY}, "1 fault, and none reached open-transaction"),
        ({KILL: CALM, IN_TRANSACTION: BUSY}, "2 faults, 1 without effect, and none reached open-transaction"),
        ({KILL: BUSY, IN_TRANSACTION: CALM}, "2 faults, 1 without effect"),
        ({KILL: BUSY, IN_TRANSACTION: BUSY}, "2 faults, 1 did not reach what it is for"),
    ],
)
def test_the_summary_counts_the_faults_that_took_no_effect_and_those_that_missed(
    faults: dict[str, int], words: str, tmp_path: Path
) -> None:
    built = history()
    failed = Op(process=1, f="send", invoke=BUSY * S, complete=(BUSY + 1) * S, outcome=Outcome.FAIL)
    failed.mops = [Send(tp=0, value=value_of(1, 5))]
    built.ops.append(failed)
    events: list[Event] = []
    for number, (name, at) in enumerate(faults.items()):
        events += both(begun(name, at, number=number, nodes=(4,), slots=(3,)), at + 1)
    summary = judged(tmp_path / "run", built.tables(), None, STARTED, *events, RECOVERED).summary
    assert summary.endswith(f" read under {words}"), summary


def test_what_is_legal_everywhere_is_not_told_in_the_summary(tmp_path: Path) -> None:
    built = history()
    between = Op(process=2, f="send", invoke=3 * S, complete=4 * S)
    between.mops = [Send(tp=0, value=value_of(2, 0), offset=5)]
    around = Op(process=3, f="txn", invoke=3 * S, complete=5 * S, txn=True)
    around.mops = [Send(tp=0, value=value_of(3, n), offset=4 + 2 * n) for n in (0, 1)]
    built.ops += [between, around]
    for final in built.ops[1:3]:
        of_op = ((4, value_of(3, 0)), (5, value_of(2, 0)), (6, value_of(3, 1)))
        final.mops += [Read(tp=0, offset=offset, value=value) for offset, value in of_op]
    for bound in built.bounds:
        bound.end = bound.read_to = 8
    verdict = judged(tmp_path / "run", built.tables())
    assert (verdict.valid, set(verdict.anomalies)) == (True, {"int-send-skip", "G0"})
    assert "allowed here" not in verdict.summary


def test_of_several_torn_transactions_each_is_told_with_its_own_record(tmp_path: Path) -> None:
    built = Built(tps=["orders", "bills"], processes={1: Process(txn_id=0)})
    for n in (0, 1):
        op = Op(process=1, f="txn", invoke=(2 * n + 1) * S, complete=(2 * n + 2) * S, txn=True)
        op.mops = [Send(tp=tp, value=value_of(1, 2 * n + tp), offset=2 * n) for tp in (0, 1)]
        built.ops.append(op)
    final_reads(built, {0: [(2 * n, value_of(1, 2 * n)) for n in (0, 1)], 1: []}, end=4)
    torn = judged(tmp_path / "run", built.tables()).anomalies["torn-txn"]
    missing = [example.sentence.partition("first of them: ")[2] for example in torn.examples]
    assert missing == [f"record 1/{value} of bills-0)." for value in (1, 3)]


def test_a_cluster_that_did_not_recover_is_exit_code_3(tmp_path: Path) -> None:
    failed = Recovered(ns=5 * S, recovered=False, seconds=60, why="orders-0 has no leader")
    verdict = judged(tmp_path / "run", history().tables(), None, STARTED, failed)
    assert (verdict.valid, verdict.exit_code, verdict.recovered) == (False, 3, False)
    assert verdict.recovery_s is None


def test_a_client_that_stands_still_is_an_anomaly_of_its_own_and_the_cluster_has_recovered(
    tmp_path: Path,
) -> None:
    why = "clients [1] have completed nothing since"
    failed = Recovered(ns=5 * S, recovered=False, seconds=60, why=why, stalled=(1,))
    verdict = judged(tmp_path / "run", history().tables(), None, STARTED, failed)
    assert (verdict.valid, verdict.exit_code, verdict.recovered) == (False, 1, True)
    assert {name: one.count for name, one in verdict.anomalies.items()} == {"stalled-client": 1}
    (example,) = verdict.anomalies["stalled-client"].examples
    assert example.sentence.startswith("Client 1 stood still (at 5.000 s): 60 s after all faults were healed")


@pytest.mark.parametrize(
    ("events", "codes"),
    [
        ([Interrupted(ns=1)], (130, 130)),
        ([Note(ns=1, text="interrupted", incomplete=True)], (2, 1)),  # before there was the event
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


@pytest.mark.parametrize(
    ("phase", "open_"),
    [
        (Phase.FAULTS, ", in the phase faults, before the final reads: lost records cannot be ruled out"),
        (Phase.FINAL, ", in the phase final, during the final reads: lost records cannot be ruled out"),
        (Phase.COLLECT, ", in the phase collect"),
    ],
)
def test_an_interrupted_run_says_when_it_was_and_what_that_leaves_open(
    tmp_path: Path, phase: Phase, open_: str
) -> None:
    began, cut = PhaseStarted(ns=2 * S, phase=phase), Interrupted(ns=3 * S)
    verdict = judged(tmp_path / "run", history().tables(), None, STARTED, began, cut, RECOVERED)
    told = f"interrupted at 3.0 s{open_}"
    assert verdict.summary == f"{told}; no forbidden anomaly until then"
    assert f"durability: the recording is not whole: {told}" in verdict.unknown


def test_a_run_in_which_every_planned_fault_failed_proves_nothing_clean(tmp_path: Path) -> None:
    failed = FaultFailed(ns=3 * S, fault=0, name="kill:one@leader", why="NoTarget: no leader")
    started = begun("kill:one", 4, 5, number=1, nodes=(1,))
    none = judged(tmp_path / "a", history().tables(), None, STARTED, failed, RECOVERED)
    assert (none.valid, none.exit_code) == ("unknown", 2)
    assert "none of the planned faults came into force" in none.summary
    assert faults_line(none) == "none, 1 planned fault was not made"
    assert "kill:one@leader: NoTarget: no leader" in none.summary
    assert {check.status for check in none.checks.values()} == {"unknown"}
    one = judged(tmp_path / "b", history().tables(), None, STARTED, failed, started, RECOVERED)
    assert (one.valid, one.exit_code) == (True, 0)
    assert "1 planned fault was not made" in faults_line(one)
    lossy = history(read=3, end=3).tables()
    bad = judged(tmp_path / "c", lossy, None, STARTED, failed, RECOVERED)
    assert (bad.valid, bad.exit_code) == (False, 1)


def test_a_loss_of_power_that_failed_half_way_permits_what_it_cut_off_and_makes_no_run_valid(
    tmp_path: Path,
) -> None:
    power = both(begun("power:all", 0, 5, nodes=(1, 2, 3)), 5)
    failed = FaultFailed(begin_ns=0, ns=5 * S, fault=0, name="power:all", why="ClusterError: no power loss")
    events = (STARTED, *power, failed, RECOVERED)
    lost = judged(tmp_path / "a", history(read=3, end=3).tables(), None, *events)
    assert lost.anomalies["lost-write"].allowed
    whole = judged(tmp_path / "b", history().tables(), None, *events)
    assert (lost.valid, whole.valid, whole.exit_code) == ("unknown", "unknown", 2)
    assert "none of the planned faults came into force" in whole.summary


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
    cut = Interrupted(ns=1)
    early = judged(tmp_path / "b", built.tables(), None, STARTED, cut, RECOVERED)
    assert early.anomalies == {}
    assert early.checks["stability"].status == "unknown"


def final(built: Built, *reads: Read) -> Built:
    """Final reads at both levels that return these records, complete up to offset 9 everywhere."""
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        op = Op(process=80 + level, f="final", invoke=90 * S, complete=91 * S, phase=Phase.FINAL)
        op.mops = list(reads)
        built.processes[80 + level] = Process(isolation=level, acks=-2, slot=80 + level)
        built.ops.append(op)
        built.bounds += [Bound(tp=tp, isolation=level, end=9, read_to=9) for tp in range(len(built.tps))]
    return built


def copying() -> Built:
    """Process 1 sends three records to `in`; processes 2 and 3, a group, both copy the first one, nobody
    copies the second one (its only copy is aborted), and offset 2 is committed."""
    built = Built(tps=["in", "out"])
    built.processes = {
        1: Process(slot=1),
        2: Process(slot=2, group=0, txn_id=0),
        3: Process(slot=3, group=0, txn_id=1),
    }
    sent = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    sent.mops = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(3)]
    built.ops = [sent]
    for process, at, source, outcome in (
        (2, 3, 0, Outcome.OK),
        (3, 5, 0, Outcome.OK),
        (3, 7, 1, Outcome.FAIL),
    ):
        op = Op(process=process, f="txn", invoke=at * S, complete=(at + 1) * S, txn=True)
        op.outcome = outcome
        op.mops = [Read(tp=0, offset=source, value=value_of(1, source))]
        op.mops.append(Send(tp=1, value=value_of(process, at), offset=at, source=(0, source)))
        built.ops.append(op)
    built.ops[2].mops.append(Commit(tp=0, offset=2, kind=CommitKind.TXN))
    reads = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(3)]
    return final(
        built, *reads, Read(tp=1, offset=3, value=value_of(2, 3)), Read(tp=1, offset=5, value=value_of(3, 5))
    )


def only_example(verdict: Verdict, name: str) -> Example:
    anomaly = verdict.anomalies[name]
    (example,) = anomaly.examples
    assert (anomaly.count, anomaly.disallowed) == (1, 1)
    return example


def sentence(folder: Path, name: str, text: str) -> str:
    """What is told of the only finding of a class in a story."""
    (one,) = stories(f"== case\n{text}")
    (example,) = judged(folder, one.built.tables()).anomalies[name].examples
    return example.sentence


def test_a_loss_out_of_a_transaction_in_doubt_is_told_with_what_proves_it(tmp_path: Path) -> None:
    ends = "p9 final x[] y[2@0]\nend x rc 1\nend y rc 2"
    doubted = sentence(
        tmp_path / "doubted", "lost-write", f"p0? txn x:1@0 y:2@0\np1 poll x[1@0] y[2@0]\n{ends}"
    )
    assert "counts as committed (op 0 has no known outcome; consumers saw part of it)" in doubted
    sure = sentence(tmp_path / "sure", "lost-write", f"p0 txn x:1@0 y:2@0\np1 poll y[2@0]\n{ends}")
    assert "was committed in the transaction op 0 (acknowledged at offset 0)" in sure


def test_which_findings_rest_on_what_a_recording_does_not_show() -> None:
    """Lines of an incomplete import may have held it: a read, a send, a commit, a rewind."""
    assert {name for name, one in ANOMALIES.items() if one.absence} == {
        *("lost-write", "resurrected-key", "unseen", "torn-txn", "phantom-read", "phantom-commit"),
        *("poll-skip", "int-poll-skip", "nonmonotonic-poll", "offset-commit-regression"),
        *("eos-loss", "eos-uncommitted", "group-duplicate", "group-skip", "share-two-holders", "share-skip"),
        *("dead-letter-lost", "dead-letter-unearned", "dead-letter-of-nothing"),
    }


def test_a_poll_that_went_back_is_told_with_the_one_before(tmp_path: Path) -> None:
    ends = "p9 final x[1@0,2@1]\nend x rc 2"
    sends = "p0 send x:1@0 x:2@1"
    apart = f"{sends}\np1 poll x[1@0,2@1]\np1 poll x[1@0]\n{ends}"
    assert "in op 2, after op 1," in sentence(tmp_path / "apart", "nonmonotonic-poll", apart)
    within = f"{sends}\np1 poll x[2@1,1@0]\n{ends}"
    assert "within op 1" in sentence(tmp_path / "within", "int-nonmonotonic-poll", within)


def test_a_circle_is_told_with_the_records_that_make_it(tmp_path: Path) -> None:
    story = "| p0 txn x:1@0 … y:2@1\n| p1 txn y:3@0 … x:4@1\n"
    (one,) = stories(f"== case\n{story}")
    (example,) = judged(tmp_path / "run", one.built.tables()).anomalies["G0"].examples
    assert (len(example.values), example.offsets) == (4, [0, 1])


@pytest.mark.parametrize(("epoch", "told"), [(-1, False), (0, True), (3, True)])
def test_the_leader_epoch_of_a_read_is_told_where_it_is_known(tmp_path: Path, epoch: int, told: bool) -> None:
    built = history()
    other = Op(process=7, f="poll", invoke=5 * S, complete=6 * S)
    other.mops = [Read(tp=0, offset=0, value=value_of(1, 1), leader_epoch=epoch)]
    built.ops.insert(1, other)
    (example,) = judged(tmp_path / "run", built.tables()).anomalies["inconsistent-offsets"].examples
    assert (f"leader epoch {epoch})" in example.sentence) is told
    assert ("leader epoch" in example.sentence) is told


def test_inputs_that_were_copied_twice_or_never_are_told(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", copying().tables())
    assert set(verdict.anomalies) == {"eos-duplicate", "eos-loss"}
    twice = only_example(verdict, "eos-duplicate")
    assert twice.sentence == (
        "Group group-0 copied the record at offset 0 of in-0 into committed output 2 times, to out-0:"
        " as record 2/3 at offset 3 (op 1), and as record 3/5 at offset 5 (op 2)."
    )
    assert [op.op for op in twice.ops] == [1, 2]
    assert [op.transactional_id for op in twice.ops] == ["txn-0", "txn-1"]
    assert twice.ops[0].records == ["send out-0 2/3 -> offset 3 (copy of in-0 offset 0)"]
    never = only_example(verdict, "eos-loss")
    assert never.sentence == (
        "Record 1/1 at offset 1 of in-0 was never copied: group group-0 committed offset 2 there at"
        " 6.000 s (op 2 of process 3 (client 3, txn-1)), and committed output holds no copy of it"
        " (3/7 of op 3 was aborted)."
    )
    assert [op.op for op in never.ops] == [2, 0, 3]
    assert "commit in-0 -> offset 2" in never.ops[0].records
    assert verdict.checks["exactly-once"].status == "invalid"
    after = judged(tmp_path / "after", copying().tables(), {"commit": "after"})
    assert (after.anomalies["eos-duplicate"].allowed, after.anomalies["eos-loss"].allowed) == (True, False)


def test_a_copy_in_doubt_that_was_not_read_for_makes_exactly_once_unknown(tmp_path: Path) -> None:
    built = copying()
    built.ops[2].mops[1] = Send(tp=1, value=value_of(3, 5), offset=5, source=(0, 2))
    built.ops[3].outcome = Outcome.INFO
    for bound in built.bounds:
        bound.read_to = 9 if bound.tp == 0 else 6
    verdict = judged(tmp_path / "run", built.tables())
    assert verdict.anomalies == {}
    check = verdict.checks["exactly-once"]
    assert check.status == "unknown"
    assert "1 of the inputs may have been copied or not" in check.why


def applied(committed: int) -> Built:
    """Process 1 sends three records to `in`; an application, process 2, has made a copy of the first one, and
    its group has committed an offset. What it read is not on record."""
    built = Built(tps=["in", "out"])
    built.processes = {1: Process(slot=1), 2: Process(slot=2, group=0, idempotent=False)}
    sent = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    sent.mops = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(3)]
    made = Op(process=2, f="txn", invoke=1 * S, complete=9 * S)
    made.mops = [Send(tp=1, value=value_of(2, 1), offset=0, source=(0, 0)), Commit(tp=0, offset=committed)]
    built.ops = [sent, made]
    reads = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(3)]
    return final(built, *reads, Read(tp=1, offset=0, value=value_of(2, 1)))


APP: Final[dict[str, Any]] = {"workload": "application", "app": {}}


def test_an_application_is_judged_by_its_copies_and_its_commits(tmp_path: Path) -> None:
    lost = judged(tmp_path / "lost", applied(3).tables(), APP)
    assert {name: found.count for name, found in lost.anomalies.items()} == {"eos-loss": 2}
    behind = judged(tmp_path / "behind", applied(1).tables(), APP)
    assert behind.anomalies == {}
    assert behind.checks["exactly-once"].status == "unknown"
    assert (
        "2 inputs lie behind the offsets that the application committed" in behind.checks["exactly-once"].why
    )
    filters = APP | {"app": {"shape": "filter"}}
    kept = judged(tmp_path / "filter", applied(3).tables(), filters)
    assert (kept.anomalies["eos-loss"].allowed, kept.valid) == (True, True)


def test_an_application_cannot_copy_what_kafka_does_not_show(tmp_path: Path) -> None:
    """The record at offset 1 is acknowledged and in the log, and read_committed does not show it."""
    built = applied(3)
    finals = [op for op in built.ops if op.phase is Phase.FINAL]
    (committed,) = [op for op in finals if built.processes[op.process].isolation is Isolation.READ_COMMITTED]
    committed.mops = [mop for mop in committed.mops if getattr(mop, "offset", -1) != 1]
    hidden = judged(tmp_path / "hidden", built.tables(), APP).anomalies
    assert hidden["eos-loss"].count == 1
    (lost,) = hidden["eos-loss"].examples
    assert "at offset 2 of in-0 was never copied" in lost.sentence
    assert "lost-write" in hidden


def test_the_group_of_another_workload_has_to_have_read_what_it_passed(tmp_path: Path) -> None:
    """The same rows, of members whose reads are on record."""
    verdict = judged(tmp_path / "run", applied(3).tables())
    assert {"eos-loss", "group-skip"} <= set(verdict.anomalies)
    verdict = judged(tmp_path / "behind", applied(1).tables())
    assert verdict.checks["exactly-once"].status == "valid"


def test_what_a_group_was_given_again_or_never_is_told(tmp_path: Path) -> None:
    built = Built(tps=["x"])
    built.processes = {n: Process(slot=n, group=0 if n > 1 else -1) for n in (1, 2, 3)}
    sent = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    sent.mops = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(3)]
    first = Op(process=2, f="poll", invoke=3 * S, complete=4 * S)
    first.mops = [Assign(tp=0), *(Read(tp=0, offset=n, value=value_of(1, n)) for n in (0, 2))]
    first.mops.append(Commit(tp=0, offset=3))
    second = Op(process=3, f="poll", invoke=5 * S, complete=6 * S)
    second.mops = [Assign(tp=0), Read(tp=0, offset=2, value=value_of(1, 2))]
    built.ops = [sent, first, second]
    tables = final(built, *(Read(tp=0, offset=n, value=value_of(1, n)) for n in range(3))).tables()
    verdict = judged(tmp_path / "run", tables)
    again, never = (only_example(verdict, f"group-{what}") for what in ("duplicate", "skip"))
    assert again.sentence == (
        "Group group-0 had committed offset 3 of x-0 at 4.000 s (op 1); then process 3 (client 3),"
        " reading at read_committed, was assigned the partition and given offset 2 (record 1/2, op 2)"
        " at 6.000 s."
    )
    assert never.sentence.startswith(
        "Record 1/1 of x-0, at offset 1, was never given to group group-0, which committed offset 3"
        " there at 4.000 s (op 1 of process 2 (client 2));"
    )
    assert verdict.checks["group-delivery"].status == "invalid"


@pytest.mark.parametrize(
    ("copies", "committed", "unknown"),
    [
        (False, Outcome.INFO, {"group-delivery"}),
        (False, Outcome.FAIL, {"group-delivery"}),
        (True, Outcome.INFO, {"group-delivery", "exactly-once"}),
        (False, Outcome.OK, set()),
        (True, Outcome.OK, set()),
    ],
)
def test_a_group_that_is_not_known_to_have_committed_anything_is_not_judged(
    tmp_path: Path, copies: bool, committed: Outcome, unknown: set[str]
) -> None:
    built = Built(tps=["x", "y"])
    built.processes[2] = Process(slot=2, group=1, acks=-1 if copies else -2)
    sent = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    sent.mops = [Send(tp=0, value=value_of(1, 0), offset=0)]
    poll = Op(process=2, f="poll", invoke=3 * S, complete=4 * S)
    poll.mops = [Assign(tp=0), Read(tp=0, offset=0, value=value_of(1, 0))]
    poll.mops.append(Commit(tp=0, offset=1, outcome=committed))
    built.ops, reads = [sent, poll], [Read(tp=0, offset=0, value=value_of(1, 0))]
    if copies:
        poll.mops.insert(2, Send(tp=1, value=value_of(2, 0), offset=0, source=(0, 0)))
        reads.append(Read(tp=1, offset=0, value=value_of(2, 0)))
    verdict = judged(tmp_path / "run", final(built, *reads).tables())
    assert {name for name, each in verdict.checks.items() if each.status == "unknown"} == unknown
    assert (verdict.anomalies, verdict.exit_code) == ({}, 2 if unknown else 0)
    if unknown:
        assert "no commit of group group-1 is known to have succeeded" in verdict.summary


def test_what_a_fenced_producer_wrote_and_committed_is_told(tmp_path: Path) -> None:
    built = Built(tps=["x"])
    built.processes = {n: Process(slot=n, txn_id=0) for n in (1, 2)}
    for process, at, offset in ((1, 1, 0), (2, 3, 2), (1, 5, 4)):
        op = Op(process=process, f="txn", invoke=at * S, complete=(at + 1) * S, txn=True)
        op.mops = [Send(tp=0, value=value_of(process, at), offset=offset)]
        built.ops.append(op)
    reads = [Read(tp=0, offset=o, value=value_of(p, n)) for o, p, n in ((0, 1, 1), (2, 2, 3), (4, 1, 5))]
    verdict = judged(tmp_path / "run", final(built, *reads).tables())
    zombie = verdict.anomalies["zombie-write"]
    assert (zombie.count, zombie.disallowed) == (2, 2)
    told = {example.sentence for example in zombie.examples}
    assert told == {
        "Record 1/5 of x-0, by process 1 (client 1, txn-0), stands at offset 4, behind record 2/3 at"
        " offset 2 by process 2 (client 2, txn-0), which had taken its transactional id over; it is"
        " committed.",
        "Process 1 (client 1, txn-0) committed the transaction op 2 at 6.000 s, and had written a part"
        " of it after process 2 (client 2, txn-0) had taken its transactional id over, at 4.000 s at the"
        " latest.",
    }
    assert verdict.checks["fencing"].status == "invalid"
    allowed = judged(tmp_path / "unclean", built.tables(), {"unclean_leader_election": True})
    assert allowed.anomalies["zombie-write"].allowed


def test_who_holds_a_last_stable_offset_is_told(tmp_path: Path) -> None:
    built = history()
    built.bounds[0].end = built.bounds[0].read_to = 6
    row = OpenTransaction(
        topic="orders",
        partition=0,
        producer_id=77,
        producer_epoch=3,
        start=4,
        coordinator=2,
        transactional_id="txn-1",
    )
    opened = TransactionsOpen(ns=1, rows=(row,))
    verdict = judged(tmp_path / "run", built.tables(), None, STARTED, opened, RECOVERED)
    held = "producer id 77, epoch 3, since offset 4, transactional id txn-1, coordinated by node 2"
    assert only_example(verdict, "stuck-lso").sentence.endswith(f"its high watermark at 6: {held}.")
    assert only_example(verdict, "hanging-txn").sentence == (
        "With all clients gone and all transactions past their time-out, orders-0 holds a transaction"
        f" open: {held}."
    )
    tables = built.tables()
    own = {"process": 1, "producer_id": 77, "producer_epoch": 3, "epoch_cnt": 1, "ns": 1}
    tables["producers"] = pa.Table.from_pylist([own], schema=TABLES["producers"])
    named = judged(tmp_path / "named", tables, None, STARTED, opened, RECOVERED)
    assert "transaction of process" not in only_example(named, "hanging-txn").sentence
    built.ops[0].txn, built.ops[0].outcome = True, Outcome.INFO
    tables = {**built.tables(), "producers": tables["producers"]}
    unclaimed = TransactionsOpen(ns=1, rows=(msgspec.structs.replace(row, transactional_id=""),))
    example = only_example(
        judged(tmp_path / "op", tables, None, STARTED, opened, unclaimed, RECOVERED), "hanging-txn"
    )
    assert "since offset 4; no coordinator claims it; the last transaction of" in example.sentence
    assert example.ops[0].op == 0


def test_a_crash_of_what_tells_liveness_is_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("checkers.verdict.judged_run.liveness", broken)
    verdict = judged(tmp_path / "run", history().tables())
    assert (verdict.valid, verdict.exit_code, verdict.liveness) == ("unknown", 2, Liveness())
    assert verdict.checks["recovery"].status == "crashed"


def test_nothing_recorded_is_unknown(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", Built(tps=[]).tables())
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)


def test_a_crashed_check_is_named_and_the_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(CHECKS, "uniqueness", replace(CHECKS["uniqueness"], kernel=broken))
    verdict = judged(tmp_path / "run", history().tables())
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    crashed = verdict.checks["uniqueness"]
    assert crashed.status == "crashed"
    assert "planted" in crashed.why
    assert verdict.checks["durability"].status == "valid"


@pytest.mark.parametrize(
    ("crashes", "read", "code", "expect"),
    [
        ("durability", 4, 2, {}),
        ("uniqueness", 4, 4, {"lost-write": False}),
        ("uniqueness", 3, 2, {"lost-write": True}),
    ],
)
def test_a_control_whose_check_crashed_is_unknown_not_silent(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    crashes: str,
    read: int,
    code: int,
    expect: dict[str, bool],
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(CHECKS, crashes, replace(CHECKS[crashes], kernel=broken))
    tables = history(read=read, end=read, acks=1).tables()
    verdict = judged(tmp_path / "run", tables, {"expect": ["lost-write"], "preset": "acks1"})
    assert (verdict.exit_code, verdict.expect) == (code, expect)


@pytest.mark.parametrize(("whole", "code"), [(True, 4), (False, 2)])
def test_a_control_whose_check_could_not_decide_is_unknown_not_silent(
    tmp_path: Path, whole: bool, code: int
) -> None:
    built = history(acks=1)
    if not whole:
        built.bounds.clear()
    verdict = judged(tmp_path / "run", built.tables(), {"expect": ["lost-write"], "preset": "acks1"})
    assert (verdict.exit_code, verdict.expect) == (code, {"lost-write": False} if whole else {})
    assert verdict.result is (ResultWord.CONTROL_SILENT if whole else ResultWord.UNKNOWN)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", [n for n in range(60) if n % 3])
def test_every_finding_of_a_random_run_can_be_told(tmp_path: Path, seed: int) -> None:
    built, _, _ = random_history(seed)
    run = write_run(tmp_path / "run", built.tables())
    verdict = check_run(run)
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


@pytest.mark.parametrize(
    ("require", "told"),
    [
        ({}, []),
        ({"require": ""}, ["--require", ""]),
        ({"require": "exercised"}, ["--require", "exercised"]),
        ({"require": "", "preset": "safe"}, []),
    ],
)
def test_the_command_that_repeats_a_run_requires_what_it_required(
    require: dict[str, Any], told: list[str]
) -> None:
    """Its preset may require something else."""
    words = shlex.split(repro(run_config({"seed": 5, "preset": "no-retries", **require}), NOWHERE))
    assert words[2:][words[2:].index("--duration") + 2 :] == told


def test_the_command_that_repeats_a_run_says_all_that_is_not_usual() -> None:
    usual = run_config({"seed": 5})
    assert repro(usual, NOWHERE) == (
        "inquest run --workload queue --nemesis partition --preset safe --seed 5 --duration 60"
    )
    both = repro(run_config({"seed": 5, "kafka": "4.1.2", "upgrade": "4.4.0"}), NOWHERE)
    assert both.endswith(" --kafka 4.1.2 --upgrade 4.4.0")
    given = {
        "seed": 9,
        "preset": "acks1",
        "nemesis": "kill@leader",
        "brokers": 5,
        "duration_s": 20.5,
        "isolation": "read_uncommitted",
        "client_settings": {"a": "b c"},
        "partitions": 3,
    }
    words = shlex.split(repro(run_config(given), NOWHERE))
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--preset"] == "acks1"
    assert options["--brokers"] == "5"
    assert options["--duration"] == "20.5"
    sets = [value for name, value in zip(words[2::2], words[3::2], strict=True) if name == "--set"]
    assert sets == ["partitions=3", "isolation=read_uncommitted", 'client_settings={"a":"b c"}']


def test_the_verdict_replaces_an_older_one(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", history(read=3, end=3).tables())
    assert not check_run(run).valid
    write_run(tmp_path / "run", history().tables())
    assert check_run(Run(run.folder)).valid is True
    assert b'"valid": true' in run.verdict.read_bytes()


@pytest.mark.parametrize("read", [0, 1])
def test_a_run_in_which_nothing_was_acknowledged_decides_nothing(tmp_path: Path, read: int) -> None:
    built = Built(tps=["x"])
    built.processes[1] = Process()
    op = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    op.outcome = Outcome.INFO
    op.mops = [Send(tp=0, value=value_of(1, 0), outcome=Outcome.INFO)]
    built.ops.append(op)
    verdict = judged(
        tmp_path / "run", final(built, *[Read(tp=0, offset=0, value=value_of(1, 0))][:read]).tables()
    )
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    assert "no record was acknowledged" in verdict.summary
    why = {name: check.why for name, check in verdict.checks.items()}
    assert {name for name in CHECKS if "no record was acknowledged" in why[name]} == {
        "durability",
        "real-time",
    }


def test_what_a_run_could_not_decide_stands_beside_what_it_found(tmp_path: Path) -> None:
    halved = Note(ns=S, text="the disk is full", incomplete=True)
    verdict = judged(tmp_path / "run", history(read=3, end=3).tables(), None, STARTED, halved, RECOVERED)
    assert (verdict.valid, verdict.exit_code) == (False, 1)
    assert "not decided: durability: the recording is not whole: the disk is full (and " in verdict.summary


SERIAL = Process(idempotent=False, in_flight=1)


@pytest.mark.parametrize(
    ("first", "client", "allowed", "code"),
    [
        (Outcome.INFO, SERIAL, True, 0),
        (Outcome.INFO, Process(idempotent=False, in_flight=1, retries=0), True, 0),
        (Outcome.INFO, Process(), False, 1),
        (Outcome.OK, SERIAL, False, 1),
        (Outcome.OK, Process(idempotent=False), True, 0),  # a retry may be overtaken
    ],
)
def test_a_request_that_its_client_gave_up_may_arrive_behind_the_next_record(
    tmp_path: Path, first: Outcome, client: Process, allowed: bool, code: int
) -> None:
    built = Built(tps=["x", "y"])
    built.processes[1] = client
    for n, outcome in enumerate((first, Outcome.INFO)):
        op = Op(process=1, f="send", invoke=(1 + 20 * n) * S, complete=(2 + 20 * n) * S)
        op.outcome = Outcome.INFO
        op.mops = [Send(tp=0, value=value_of(1, n), outcome=outcome, ns=(op.invoke, 30 * S))]
        built.ops.append(op)
    other = Op(process=2, f="send", invoke=1 * S, complete=2 * S)  # without an acknowledgement: unknown
    other.mops = [Send(tp=1, value=value_of(2, 0), offset=0)]
    built.processes[2] = Process(slot=2)
    built.ops.append(other)
    reads = [Read(tp=0, offset=n, value=value_of(1, 1 - n)) for n in (0, 1)]
    reads.append(Read(tp=1, offset=0, value=value_of(2, 0)))
    verdict = judged(tmp_path / "run", final(built, *reads).tables())
    order = verdict.anomalies["nonmonotonic-send"]
    assert (order.allowed, verdict.exit_code) == (allowed, code)


@pytest.mark.parametrize(
    ("acks", "read", "why"),
    [
        (-1, False, "acks=all and clean elections keep every acknowledged record"),
        (1, False, "acks=1 keeps a record while the partition keeps its leader, and nothing replaced it"),
        (1, True, "a consumer had read it, so every in-sync replica had it, and elections were clean"),
    ],
)
def test_why_a_record_may_not_be_lost_is_told(tmp_path: Path, acks: int, read: bool, why: str) -> None:
    built = history(read=3, end=3, acks=acks)
    if read:
        poll = Op(process=5, f="poll", invoke=3 * S, complete=4 * S)
        poll.mops = [Read(tp=0, offset=3, value=value_of(1, 3))]
        built.ops.append(poll)
    leads: dict[str, Any] = {"leaders": {"orders-0": 1}, "isr": {"orders-0": (1, 2)}}
    roles = RolesSeen(ns=0, **leads, controller=1, answering=(1, 2), agreed=True)
    found = judged(tmp_path / "run", built.tables(), None, STARTED, roles, RECOVERED).anomalies["lost-write"]
    assert (found.disallowed, found.why) == (1, why)


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (Process(), "an idempotent producer writes each record once"),
        (Process(idempotent=False, retries=0), "the producer does not retry"),
    ],
)
def test_why_a_record_may_not_stand_twice_is_told(tmp_path: Path, client: Process, why: str) -> None:
    built = Built(tps=["x"], processes={1: client})
    op = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    op.mops = [Send(tp=0, value=value_of(1, 0), offset=0)]
    built.ops.append(op)
    twice = [Read(tp=0, offset=n, value=value_of(1, 0)) for n in (0, 1)]
    found = judged(tmp_path / "run", final(built, *twice).tables()).anomalies["duplicate"]
    assert (found.disallowed, found.why) == (1, why)


WRONG = WrongClusterSeen(
    ns=5 * S, slot=2, text="client 2: 127.0.0.1:20002/2 is a broker of cluster B, and not of A"
)


@pytest.mark.parametrize("expect", [[], ["lost-write"], ["duplicate"]])
def test_where_another_cluster_answered_nothing_is_kafkas_doing(tmp_path: Path, expect: list[str]) -> None:
    tables = history(read=3, end=3).tables()
    lost = judged(tmp_path / "alone", tables, {"expect": expect})
    assert lost.anomalies["lost-write"].disallowed == 1
    mixed = judged(tmp_path / "mixed", tables, {"expect": expect}, STARTED, WRONG, RECOVERED)
    assert (mixed.valid, mixed.exit_code) == ("unknown", 2)
    assert mixed.anomalies["lost-write"].count == 1
    assert mixed.anomalies["lost-write"].allowed
    assert {one.why for one in mixed.anomalies["lost-write"].examples} == {WRONG.text}
    first = f"durability: not only this run's own: {WRONG.text}"
    assert mixed.summary.startswith(
        f"no forbidden anomaly found, but not everything could be decided: {first} (and "
    )
    assert {check.status for check in mixed.checks.values()} <= {"unknown", "unasked"}
    assert mixed.logs is not None
    assert mixed.logs.why == WRONG.text


@pytest.mark.parametrize(
    ("reasons", "unclean", "code"),
    [
        (["uncommitted"], False, 1),
        (["uncommitted"], True, 0),  # the input record may have been lost since it was copied
        (["corrupt"], True, 1),
        (["misdirected"], True, 1),
        (["uncommitted", "other-run"], True, 2),
    ],
)
def test_output_without_input_is_permitted_where_a_log_may_have_lost_the_input(
    tmp_path: Path, reasons: list[str], code: int, *, unclean: bool
) -> None:
    built = history(read=3, end=3)
    lost = Uncommitted(value_of(1, 3)).name
    built.ops[-1].mops += [Foreign(tp=0, offset=4, reason=reason, payload=lost) for reason in reasons]
    settings = {"unclean_leader_election": unclean}
    verdict = judged(tmp_path / "run", built.tables(), settings)
    assert verdict.exit_code == code
    if "uncommitted" in reasons:
        assert verdict.anomalies["phantom-read"].count == 1


def test_output_that_names_a_record_which_is_there_is_invented(tmp_path: Path) -> None:
    """No loss of another record explains it."""
    built = history(read=3, end=3)
    there = Uncommitted(value_of(1, 2)).name
    built.ops[-1].mops += [Foreign(tp=0, offset=4, reason="uncommitted", payload=there)]
    verdict = judged(tmp_path / "run", built.tables(), {"unclean_leader_election": True})
    assert verdict.exit_code == 1


@pytest.mark.parametrize("foreign", [True, False])
def test_whether_another_cluster_recovered_says_nothing_of_this_one(tmp_path: Path, *, foreign: bool) -> None:
    """Result and exit code say the same."""
    late = Recovered(ns=6 * S, recovered=False, seconds=60.0, why="no node leads orders-0")
    built = history()
    if foreign:
        built.ops[-1].mops.append(Foreign(tp=0, offset=4, reason="other-run", payload=b"?"))
    events = (STARTED, late) if foreign else (STARTED, late, WRONG)
    mixed = judged(tmp_path / "mixed", built.tables(), None, *events)
    assert (mixed.exit_code, mixed.result, mixed.recovered) == (2, ResultWord.UNKNOWN, None)
    alone = judged(tmp_path / "alone", history().tables(), None, STARTED, late)
    assert (alone.exit_code, alone.result, alone.recovered) == (3, ResultWord.NOT_RECOVERED, False)


def test_a_clean_run_that_another_cluster_answered_in_is_unknown(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", history().tables(), None, STARTED, WRONG, RECOVERED)
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)


@pytest.mark.parametrize(
    ("reason", "code", "name"),
    [
        ("other-run", 2, "phantom-read"),
        ("misdirected", 1, "misdirected-record"),
        ("corrupt", 1, "corrupt-record"),
    ],
)
def test_records_of_another_run_make_a_run_unknown_and_other_foreign_ones_do_not(
    reason: str, code: int, name: str, tmp_path: Path
) -> None:
    built = history()
    built.ops[-1].mops.append(Foreign(tp=0, offset=4, reason=reason, payload=b"?"))
    verdict = judged(tmp_path / "run", built.tables())
    assert verdict.exit_code == code
    assert verdict.anomalies[name].count == 1
    if code == 2:
        told = "1 records of another run were read, the first of them in orders-0"
        assert f"not only this run's own: {told}" in verdict.unknown[0]
