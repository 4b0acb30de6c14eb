"""A journal without its last line, in a run that came to its end: something on record ended the client, or
lines of it are gone."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from checkers.api import check
from checkers.checks import CHECKS
from core.config import run_config
from core.op import CommitKind, End, Isolation, Outcome, Phase, value_of
from harness.compose import record
from harness.report.wording import incident_lines
from harness.run.progress import silent
from history import events as ev
from history.events import Event
from history.reader import load
from history.run_folder import Run
from history.verdict import Verdict
from tests.histories.built import Assign, Built, Commit, Op, Process, Read, Send, final_reads
from tests.histories.fault_events import begun
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run

S = 1_000_000_000
FAULTS = ev.PhaseStarted(ns=0, phase=Phase.FAULTS)
COLLECT = ev.PhaseStarted(ns=90 * S, phase=Phase.COLLECT)
OF_CLIENTS = set(CHECKS) - {"recovery", "stability"}
NONE = -2
"""The acks of a process that produces nothing."""
RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def fault(name: str, begin_s: int, ns_s: int, *slots: int) -> Event:
    return begun(name, begin_s, ns_s, slots=slots)


def failed(name: str, ns_s: int, begin_ns: int = -1) -> Event:
    return ev.FaultFailed(begin_ns=begin_ns, ns=ns_s * S, fault=1, name=name, why="x")


def lost(slot: int) -> Event:
    return ev.WorkerLost(ns=50 * S, slot=slot, why="ended by SIGKILL", status=-9)


def written(phantom: int = -1) -> Built:
    """Process 1 of slot 4 wrote from 10 s on and ended without a last line; process 2 continued its slot.

    phantom: the process of a record that was read, too, and that no line shows.
    """
    built = Built(tps=["x"], processes={1: Process(slot=4, end=End.CRASHED), 2: Process(slot=4)})
    values = [value_of(1, 1), value_of(2, 1)]
    for number, at in ((1, 10), (2, 30)):
        sent = Send(tp=0, value=values[number - 1], offset=number - 1)
        built.ops.append(Op(process=number, f="send", invoke=at * S, complete=(at + 1) * S, mops=[sent]))
    if phantom >= 0:
        values.append(value_of(phantom, 9))
    return final_reads(built, {0: list(enumerate(values))}, end=len(values), at_s=80)


def judged(folder: Path, built: Built, *events: Event) -> Verdict:
    recorded = (STARTED, FAULTS, *events, fault("kill:one@leader", 70, 71), RECOVERED, COLLECT)
    return check_run(write_run(folder, built.tables(), events=recorded))


def unknowns(verdict: Verdict) -> set[str]:
    return {name for name, one in verdict.checks.items() if one.status == "unknown"}


ACCOUNTS = [
    fault("client:crash@random", 11, 12, 4),
    fault("client:crash-in-transaction@random", 10, 29, 4, 7),
    fault("client:crash", 29, 31, 4),  # the next process began while the fault did
    fault("half-open:clients@leader", 12, 33, 4),
    fault("half-open:clients@leader", 12, 33),  # recorded without its client
    failed("half-open:clients@leader", 20, 12 * S),
    fault("wire:init-producer-id", 12, 33, 4),
    failed("wire:init-producer-id", 20, 12 * S),
    failed("client:crash", 20),
    ev.Note(ns=60 * S, text="the disk is full", incomplete=True),
    ev.Interrupted(ns=60 * S),
]
DOES_NOT = [
    fault("client:pause@random", 11, 12, 4),
    fault("wire:init-producer-id", 11, 12, 5),
    fault("wire:endtxn", 11, 12, 4),
    fault("client:crash", 11, 12, 5),  # another client
    fault("client:crash", 31, 32, 4),  # its next process
    fault("client:crash", 8, 9, 4),  # before it began
    fault("kill:one@leader", 11, 12, 4),
    failed("kill:one@leader", 20, 12 * S),
    failed("half-open:clients@leader", 40, 32 * S),
    lost(4),  # that was the next process
    lost(5),
    ev.Note(ns=60 * S, text="a remark"),
    ev.HealFailed(ns=60 * S, fault=3, name="kill:one", why="slow"),
]


@pytest.mark.parametrize("event", ACCOUNTS, ids=str)
def test_a_client_that_was_killed_stays_judged(tmp_path: Path, event: Event) -> None:
    verdict = judged(tmp_path / "run", written(), event)
    assert not any("without a last line" in one.text for one in verdict.incidents)
    assert (verdict.valid is True) == isinstance(event, ev.FaultStarted | ev.FaultFailed)
    found = judged(tmp_path / "phantom", written(phantom=1), event)
    assert found.anomalies["phantom-read"].disallowed == 1


@pytest.mark.parametrize("event", [None, *DOES_NOT], ids=str)
def test_a_journal_that_ends_too_early_leaves_unknown_what_needs_it(
    tmp_path: Path, event: Event | None
) -> None:
    events = [event] if event else []
    verdict = judged(tmp_path / "run", written(), *events)
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    assert unknowns(verdict) == OF_CLIENTS
    text = "the recording is not whole: the journal of process 1 (client 4) ends without a last line"
    assert any(line.startswith(f"at 11.0 s {text}") for line in incident_lines(verdict))
    phantom = judged(tmp_path / "phantom", written(phantom=1), *events)
    assert (phantom.valid, phantom.anomalies) == ("unknown", {})
    assert any("the newest lines of journals may be gone" in why for why in phantom.unknown)


@pytest.mark.parametrize("more", [(), (3,), (3, 5)])
def test_a_journal_that_is_gone_leaves_unknown_what_needs_it(tmp_path: Path, more: tuple[int, ...]) -> None:
    listed = ev.JournalsListed(ns=91 * S, processes=(1, 2, 80, 81, *more))
    events = [fault("client:crash@random", 11, 12, 4), listed]
    verdict = judged(tmp_path / "run", written(), *events)
    phantom = judged(tmp_path / "phantom", written(phantom=3), *events)
    lines = [line for line in incident_lines(verdict) if "is gone" in line]
    if not more:
        assert (verdict.valid, lines) == (True, [])
        assert phantom.anomalies["phantom-read"].disallowed == 1
        return
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    assert unknowns(verdict) == OF_CLIENTS
    which = "process 3" if len(more) == 1 else "2 processes (3, 5)"
    assert lines == [f"at 91.0 s the recording is not whole: the journal of {which} is gone"]
    assert (phantom.valid, phantom.anomalies) == ("unknown", {})
    other = judged(tmp_path / "other", written(phantom=7), *events)
    assert other.anomalies["phantom-read"].disallowed == 1


@pytest.mark.parametrize("writer", [2, 3, 80])
def test_what_another_process_must_have_written_is_a_phantom(tmp_path: Path, writer: int) -> None:
    verdict = judged(tmp_path / "run", written(phantom=writer))
    assert verdict.anomalies["phantom-read"].disallowed == 1
    assert verdict.exit_code == 1


@pytest.mark.parametrize("slot", [4, 5])
def test_a_lost_client_accounts_for_the_last_process_of_its_slot(tmp_path: Path, slot: int) -> None:
    built = written()
    built.processes[1].end, built.processes[2].end = End.REPLACED, End.CRASHED
    verdict = judged(tmp_path / "run", built, lost(slot))
    assert verdict.valid == (True if slot == 4 else "unknown")


def test_without_phases_nobody_says_that_the_run_came_to_its_end(tmp_path: Path) -> None:
    """As of tables that a caller made."""
    verdict = check_run(write_run(tmp_path / "run", written().tables(), events=(STARTED, RECOVERED)))
    assert verdict.valid is True


@pytest.mark.parametrize(
    ("until", "which"),
    [
        (21, "2 processes (1, 20)"),
        (23, "4 processes (1, 20, 21, 22)"),
        (24, "5 processes (1, 20, 21, 22, …)"),
    ],
)
def test_many_journals_are_one_line(tmp_path: Path, until: int, which: str) -> None:
    built = written()
    for number in range(20, until):
        built.processes[number] = Process(slot=number, end=End.CRASHED)
        built.ops.append(Op(process=number, f="poll", invoke=5 * S, complete=6 * S))
    (one,) = judged(tmp_path / "run", built).incidents
    assert f"the journal of {which} end without a last line" in one.text


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_copy_of_a_record_whose_line_is_gone_is_judged_by_the_settings_of_its_process(
    tmp_path: Path, idempotent: bool
) -> None:
    built = written(phantom=1)
    built.processes[1].idempotent = idempotent
    for op, bound in zip(built.ops[2:], built.bounds, strict=True):
        op.mops.append(Read(tp=0, offset=3, value=value_of(1, 9)))
        bound.end = bound.read_to = 4
    found = judged(tmp_path / "run", built).anomalies
    assert {name: one.disallowed for name, one in found.items()} == {"duplicate": int(idempotent)}


# What rests on lines that may be missing ---------------------------------------------------------


def grouped(*, killed: bool) -> Built:
    """Two members of a group; the first was given offset 0, or so it seems, the second commits behind it.

    killed: the first one's fate; else it ended in order.
    """
    built = Built(tps=["x"])
    built.processes = {
        1: Process(acks=-2, slot=1, group=0, end=End.CRASHED if killed else End.CLOSED),
        2: Process(acks=-2, slot=2, group=0),
        5: Process(slot=5),
    }
    sent = [Send(tp=0, value=value_of(5, n), offset=n) for n in range(2)]
    built.ops = [Op(process=5, f="send", invoke=S, complete=2 * S, mops=[*sent])]
    reads = [Read(tp=0, offset=n, value=value_of(5, n)) for n in range(2)]
    built.ops += [
        Op(process=1, f="poll", invoke=3 * S, complete=4 * S, mops=[Assign(tp=0, generation=1)]),
        Op(
            process=2,
            f="poll",
            invoke=10 * S,
            complete=12 * S,
            mops=[Assign(tp=0, generation=2), Commit(tp=0, offset=1, kind=CommitKind.FETCHED), reads[1]],
        ),
        Op(process=2, f="poll", invoke=13 * S, complete=14 * S, mops=[Commit(tp=0, offset=2, generation=2)]),
    ]
    return final_reads(built, {0: [(n, value_of(5, n)) for n in range(2)]}, end=2, at_s=80)


def test_a_group_whose_member_lost_lines_is_not_said_to_have_skipped(tmp_path: Path) -> None:
    """The first member may have been given the record, and its line is gone."""
    whole = judged(tmp_path / "closed", grouped(killed=False))
    assert whole.anomalies["group-skip"].disallowed == 1
    killed = judged(tmp_path / "killed", grouped(killed=True), fault("client:crash", 5, 6, 1))
    assert killed.anomalies["group-skip"].disallowed == 1
    cut = judged(tmp_path / "cut", grouped(killed=True))
    assert (cut.valid, cut.anomalies) == ("unknown", {})


@pytest.mark.parametrize("gone", [False, True])
def test_a_group_that_only_a_producer_names_is_cut_by_a_journal_that_is_gone(
    tmp_path: Path, gone: bool
) -> None:
    """Process 5, in no group, committed offsets for group 0; the members have no rows."""
    built = grouped(killed=False)
    for number in (1, 2):
        del built.processes[number]
    built.ops = [op for op in built.ops if op.process not in (1, 2)]
    built.ops[0].mops.append(Commit(tp=0, offset=2, kind=CommitKind.TXN, generation=1))
    tables = built.tables()
    group = tables["commits"].schema.get_field_index("group")
    tables["commits"] = tables["commits"].set_column(group, "group", pa.array([0], pa.int32()))
    listed = ev.JournalsListed(ns=91 * S, processes=(5, 80, 81, *((1,) if gone else ())))
    events = (STARTED, FAULTS, listed, RECOVERED, COLLECT)
    verdict = check_run(write_run(tmp_path / "run", tables, events=events))
    assert ("group-skip" in verdict.anomalies) is not gone
    assert (verdict.valid == "unknown") is gone


def test_a_commit_that_no_line_shows_may_account_for_one_that_went_back(tmp_path: Path) -> None:
    def gone_back(*, killed: bool) -> Built:
        built = grouped(killed=killed)
        first = built.ops[1]
        first.mops += [Read(tp=0, offset=n, value=value_of(5, n)) for n in range(2)]
        first.mops.append(Commit(tp=0, offset=2, generation=1))
        return built

    names = {"offset-commit-regression", "group-duplicate"}
    assert names <= judged(tmp_path / "closed", gone_back(killed=False)).anomalies.keys()
    killed = judged(tmp_path / "killed", gone_back(killed=True), fault("client:crash", 5, 6, 1))
    assert names <= killed.anomalies.keys()
    assert judged(tmp_path / "cut", gone_back(killed=True)).anomalies == {}


@pytest.mark.parametrize(("accounted", "left"), [(True, True), (False, True), (False, False)])
def test_a_record_of_an_open_transaction_may_never_have_been_written(
    tmp_path: Path, accounted: bool, left: bool
) -> None:
    """One of its two records is visible; the line that the other one was refused may be gone."""
    built = Built(tps=["x"], processes={1: Process(slot=4, txn_id=0, end=End.CRASHED)})
    sent = [Send(tp=0, value=value_of(1, n), offset=-1 if left else n) for n in range(2)]
    done = None if left else 11 * S
    outcome = Outcome.INFO if left else Outcome.OK
    built.ops = [
        Op(process=1, f="txn", invoke=10 * S, complete=done, txn=True, outcome=outcome, mops=[*sent]),
        Op(process=3, f="send", invoke=S, complete=2 * S, mops=[Send(tp=0, value=value_of(3, 0), offset=3)]),
    ]
    final_reads(built, {0: [(0, value_of(1, 0)), (3, value_of(3, 0))]}, end=4, at_s=80)
    verdict = judged(tmp_path / "run", built, *[fault("client:crash", 12, 13, 4)] * accounted)
    assert ("torn-txn" in verdict.anomalies) == (accounted or not left)
    if not accounted:
        assert verdict.checks["atomicity"].status == ("unknown" if left else "invalid")


@pytest.mark.parametrize(
    ("acks", "accounted", "lost"),
    [(-1, True, True), (-1, False, False), (NONE, False, True)],  # a consumer has sent nothing
)
def test_a_later_record_of_a_key_may_be_one_that_no_line_shows(
    tmp_path: Path, acks: int, accounted: bool, lost: bool
) -> None:
    """In a compacted topic it may have replaced the record that is missing."""
    killed = Process(slot=4, acks=acks, end=End.CRASHED)
    built = Built(tps=["x"], processes={1: killed, 3: Process()})
    values = [value_of(3, 2), value_of(3, 1)]
    for at, value in enumerate(values):
        sent = Send(tp=0, value=value, offset=at)
        built.ops.append(Op(process=3, f="send", invoke=(at + 1) * S, complete=(at + 2) * S, mops=[sent]))
    final_reads(built, {0: [(1, values[1])]}, end=2, at_s=80)
    events = [fault("client:crash", 12, 13, 4)] * accounted
    recorded = (STARTED, FAULTS, *events, fault("kill:one@leader", 70, 71), RECOVERED, COLLECT)
    settings = {"topic_settings": {"cleanup.policy": "compact"}}
    verdict = check_run(write_run(tmp_path / "run", built.tables(), events=recorded, settings=settings))
    assert ("lost-write" in verdict.anomalies) == lost
    assert accounted or verdict.valid is not True


# Whole runs --------------------------------------------------------------------------------------


def simulated(results: Path, **settings: object) -> Run:
    base = {"sut": "simulated", "seed": 5, "duration_s": 8, "rate": 40, "nemesis": "none"}
    return record(run_config(base | settings), results=results, display=silent()).run


@pytest.mark.sampled(48)
@pytest.mark.parametrize("workload", ["queue", "groups", "transactions", "copier"])
def test_a_journal_that_is_cut_or_gone_makes_a_run_unknown_and_never_invalid(
    tmp_path: Path, workload: str
) -> None:
    run = simulated(tmp_path, workload=workload)
    assert check(run, engine="process").verdict.valid is True

    def judged_anew(path: Path) -> list[str]:
        shutil.rmtree(run.history)
        verdict = check(run, engine="process").verdict
        assert verdict.exit_code == 2, (path, verdict.summary)
        return incident_lines(verdict)

    for path in sorted(run.journal.iterdir())[::2]:
        whole = path.read_bytes()
        lines = whole.splitlines(keepends=True)
        if len(lines) >= 8:
            path.write_bytes(b"".join(lines[: len(lines) // 2]))
            assert any("without a last line" in line for line in judged_anew(path))
        path.unlink()
        gone = f"the journal of process {path.stem} is gone"
        assert any(gone in line for line in judged_anew(path))
        path.write_bytes(whole)


@pytest.mark.sampled(48)
def test_a_run_in_which_clients_are_killed_stays_valid(tmp_path: Path) -> None:
    run = simulated(tmp_path, workload="copier", nemesis="client:crash", duration_s=25)
    verdict = check(run, engine="process").verdict
    ends = [one.end for one in load(run).processes.values()]
    assert ends.count(End.CRASHED) >= 2
    assert (verdict.valid, verdict.incidents) == (True, [])
