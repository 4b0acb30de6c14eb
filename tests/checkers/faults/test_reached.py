"""The facts that a run reached: each on a made history that has it, and not on its twin without."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from checkers.faults.reached import FACTS, wanted
from checkers.logs.orders import STALE
from core.java_hash import java_hash
from core.op import AssignmentKind, Outcome, Phase, value_of
from history.events import Event, FaultStarted, PhaseStarted, RecordsDeleted
from history.evidence import write
from history.verdict import Fault, ResultWord, Verdict
from nemesis.registry import NEMESES
from tests.checkers.faults.test_hits import LEADERS, PHASES, S, fault, seen, send, simulated
from tests.checkers.logs.made import tables
from tests.histories.built import Assign, Built, Op, Process, Send, final_reads
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run
from tests.histories.report_runs import IDLE

BEFORE, AFTER = send(1, 0, 9.0, 9.1), send(2, 0, 15.0, 15.1)
UNDER = send(3, 0, 9.9, 10.2)
OPEN = send(3, 0, 9.9, 10.5, txn=True, acked=10.2)
ENDING = send(3, 0, 9.8, 10.5, txn=True, acked=9.9)


COORDINATING = f"__transaction_state-{java_hash('txn-0') % 2}"
STALE_BROKER_EPOCH: Final = 77
TIMED_OUT, FENCED = 0, 2
"""Errors in the names of a made run."""


def refused(error: int) -> Op:
    """An op that ended in the fault, with this error."""
    sent = Send(tp=0, value=value_of(1, 3), outcome=Outcome.INFO)
    return Op(
        process=1, f="send", invoke=11 * S, complete=12 * S, outcome=Outcome.INFO, error=error, mops=[sent]
    )


def aborted() -> Op:
    """A transaction that its application aborted, in the fault."""
    sent = Send(tp=0, value=value_of(1, 4), outcome=Outcome.FAIL)
    return Op(
        process=1,
        f="txn",
        invoke=11 * S,
        complete=12 * S,
        outcome=Outcome.FAIL,
        txn=True,
        deliberate=True,
        mops=[sent],
    )


class Case(NamedTuple):
    """Ops and events of a history beside those that each has, and the name of its fault, "" = any. answered:
    what brokers answered a controller at 11 s, in captured messages."""

    ops: Sequence[Op] = ()
    events: Sequence[Event] = ()
    fault: str = ""
    answered: Sequence[int] = ()


def isr(at: float, nodes: tuple[int, ...], answering: tuple[int, ...] = (1,)) -> Event:
    return msgspec.structs.replace(seen(at), isr={"x-0": nodes}, answering=answering)


def taken(at: int) -> Op:
    """A poll, before which a group took a partition away."""
    lost = Assign(tp=0, kind=AssignmentKind.REVOKED, ns=at * S)
    return Op(process=2, f="poll", invoke=at * S, complete=at * S + 1, mops=[lost])


IN_SYNC = isr(1, (1, 2, 3))
CASES: dict[str, tuple[Case, Case]] = {
    "in-flight": (Case([UNDER]), Case([send(3, 0, 10.1, 10.2)])),
    "open-transaction": (Case([OPEN]), Case([send(3, 0, 10.1, 10.5, txn=True, acked=10.2)])),
    "ending-transaction": (Case([ENDING]), Case([OPEN])),
    "leader-moved": (Case(events=[seen(11, x_0=2)]), Case(events=[seen(11, **{COORDINATING: 1})])),
    "leader-moved-in-flight": (Case([UNDER], [seen(11, x_0=2)]), Case(events=[seen(11, x_0=2)])),
    "coordinator-moved": (Case([OPEN], [seen(11, **{COORDINATING: 1})]), Case([OPEN], [seen(11, x_0=2)])),
    "controller-moved": (Case(events=[seen(11, controller=1)]), Case(events=[seen(11)])),
    "isr-shrank": (Case(events=[IN_SYNC, isr(11, (1, 2))]), Case(events=[IN_SYNC, isr(11, (2, 1, 3))])),
    "follower-lagged": (
        Case(events=[IN_SYNC, isr(11, (1, 2), (1, 2, 3))]),
        Case(events=[IN_SYNC, isr(11, (1, 2), (1, 2))]),
    ),
    "in-doubt": (Case([refused(TIMED_OUT)]), Case([UNDER])),
    "given-up": (Case([refused(TIMED_OUT)]), Case([aborted()])),
    "fenced": (Case([refused(FENCED)]), Case([refused(TIMED_OUT)])),
    "rebalanced": (Case([taken(11)]), Case([taken(8)])),
    "order-refused": (Case(answered=[0, STALE]), Case(answered=[0, STALE_BROKER_EPOCH])),
    "records-deleted": (
        Case(events=[RecordsDeleted(ns=11 * S, fault=0, offsets={"x-0": 1})]),
        Case(events=[RecordsDeleted(ns=11 * S, fault=1, offsets={"x-0": 1})]),
    ),
    "voter-removed": (Case(fault="quorum:remove@random"), Case(fault="kill:one@controller")),
}


def answers(errors: Sequence[int]) -> dict[str, pa.Table]:
    """Evidence with messages: a controller's requests and their answers."""
    frames = [
        {"number": 2 * number + answer, "at_ns": 11 * S, "answer": bool(answer), "correlation": number}
        for number in range(len(errors))
        for answer in (0, 1)
    ]
    orders = [
        {"number": 2 * number + answer, "partition": -1, "controller_epoch": 1, "error": error}
        for number, error in enumerate(errors)
        for answer in (0, 1)
    ]
    return tables({"frames": frames, "frame_parts": [], "orders": orders, "gaps": []})


def judged(folder: Path, case: Case) -> Verdict:
    """The verdict of a history with one fault, from 10 s to 14 s: on the leader of x and the coordinator."""
    processes = {1: Process(txn_id=0), 2: Process(slot=1, group=0)}
    ops = sorted([BEFORE, *case.ops, AFTER], key=lambda op: op.invoke)
    built = Built(tps=["x", "y"], processes=processes, ops=deepcopy(ops))
    started, healed = fault(nodes=(1, LEADERS[COORDINATING]))
    assert isinstance(started, FaultStarted)
    started = msgspec.structs.replace(started, name=case.fault or started.name)
    events = (STARTED, *PHASES, seen(1), started, healed, *case.events)
    order = sorted(events, key=lambda event: event.ns)
    run = write_run(folder, built.tables(), events=(*order, RECOVERED))
    if case.answered:
        write(run.evidence, answers(case.answered))
    verdict = check_run(run)
    assert not any(one.status == "crashed" for one in verdict.checks.values())
    return verdict


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", FACTS)
def test_a_fact_is_seen_where_it_is_and_not_on_its_twin(tmp_path: Path, name: str) -> None:
    has, lacks = CASES[name]
    (with_it,) = judged(tmp_path / "has", has).faults
    assert name in with_it.reached
    verdict = judged(tmp_path / "lacks", lacks)
    assert name not in verdict.faults[0].reached
    assert name not in (verdict.reached or [])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("at", "reached"), [(14, True), (15, False)])
def test_members_that_close_at_the_end_of_the_load_are_no_rebalance(
    tmp_path: Path, at: int, *, reached: bool
) -> None:
    ends = PhaseStarted(phase=Phase.QUIESCE, ns=15 * S)
    verdict = judged(tmp_path, Case([taken(at)], [ends], "client:pause@member"))
    assert ("rebalanced" in verdict.faults[0].reached) is reached


def test_a_topic_that_is_remade_has_leaders_of_its_own_and_none_of_it_moved(tmp_path: Path) -> None:
    for name in ("recreate-topics:all", "reassign:all"):
        built = Built(tps=["x"], processes={1: Process()}, ops=deepcopy([BEFORE, AFTER]))
        (started, healed) = fault()
        started = msgspec.structs.replace(started, name=name)
        events = (STARTED, *PHASES, seen(1), started, seen(11, x_0=2), healed)
        order = sorted(events, key=lambda event: event.ns)
        verdict = check_run(write_run(tmp_path / name, built.tables(), events=(*order, RECOVERED)))
        assert ("leader-moved" in verdict.faults[0].reached) is (name == "reassign:all")


@pytest.mark.sampled(11)
@pytest.mark.parametrize(("after", "fewer"), [((2, 3), True), ((2, 3, 4), False), ((2, 1, 3, 4), False)])
def test_a_partition_that_moved_to_other_nodes_has_as_many_in_sync(
    tmp_path: Path, after: tuple[int, ...], *, fewer: bool
) -> None:
    moved = judged(tmp_path, Case(events=[IN_SYNC, isr(11, after, (1, 2, 3, 4))])).faults[0].reached
    assert {"isr-shrank", "follower-lagged"} & {*moved} == (
        {"isr-shrank", "follower-lagged"} if fewer else set()
    )


@pytest.mark.parametrize(
    ("looks", "name", "left"),
    [
        ([isr(1, (1, 2, 3)), isr(2, (1, 2))], "kill:one", True),
        ([isr(2, (1, 2))], "kill:one", False),  # 3 is new there: the partition moved
        ([isr(1, (1, 2, 3)), isr(2, (1, 2))], "reassign:all", False),
        ([isr(1, (1, 2, 3)), isr(2, (1, 3))], "kill:one", False),  # none left
    ],
)
def test_one_replica_leaves_while_another_comes_back(
    tmp_path: Path, looks: list[Event], name: str, *, left: bool
) -> None:
    """The look in the fault names nodes 1 and 3; node 2 answers."""
    built = Built(tps=["x"], processes={1: Process()}, ops=deepcopy([BEFORE, AFTER]))
    (started, healed) = fault()
    started = msgspec.structs.replace(started, name=name)
    events = (STARTED, *PHASES, seen(1), *looks, started, isr(11, (1, 3), (1, 2, 3)), healed)
    order = sorted(events, key=lambda event: event.ns)
    reached = check_run(write_run(tmp_path, built.tables(), events=(*order, RECOVERED))).faults[0].reached
    assert {"isr-shrank", "follower-lagged"} & {*reached} == (
        {"isr-shrank", "follower-lagged"} if left else set()
    )


def test_a_client_that_is_fenced_without_a_fault_counts_for_the_run(tmp_path: Path) -> None:
    built = Built(tps=["x"], processes={1: Process(txn_id=0)}, ops=[deepcopy(refused(FENCED))])
    verdict = check_run(write_run(tmp_path, built.tables(), events=(STARTED, *PHASES, RECOVERED)))
    assert (verdict.faults, verdict.reached) == ([], ["given-up", "fenced"])


@pytest.mark.parametrize(
    ("outcome", "complete", "error", "given_up"),
    [
        (Outcome.INFO, 12 * S, TIMED_OUT, True),
        (Outcome.FAIL, 12 * S, TIMED_OUT, True),
        (Outcome.OK, 12 * S, -1, False),
        (Outcome.INFO, None, -1, False),  # its client died
    ],
)
def test_a_send_that_is_given_up_counts_without_a_fault_too(
    tmp_path: Path, outcome: Outcome, complete: int | None, error: int, *, given_up: bool
) -> None:
    sent = Send(tp=0, value=value_of(1, 3), offset=1 if outcome is Outcome.OK else -1, outcome=outcome)
    op = Op(process=1, f="send", invoke=11 * S, complete=complete, outcome=outcome, error=error, mops=[sent])
    built = Built(tps=["x"], processes={1: Process()}, ops=[op])
    verdict = check_run(write_run(tmp_path, built.tables(), events=(STARTED, *PHASES, RECOVERED)))
    assert ("given-up" in (verdict.reached or [])) is given_up


@pytest.mark.parametrize("written", [False, True])
def test_a_record_that_its_client_refused_is_in_no_log(tmp_path: Path, *, written: bool) -> None:
    values = [value_of(1, 1), value_of(1, 2)]
    ops = []
    for number, outcome in enumerate((Outcome.OK, Outcome.FAIL)):
        sent = Send(tp=0, value=values[number], offset=0 if outcome is Outcome.OK else -1)
        at = (number + 10) * S
        ops.append(Op(process=1, f="send", invoke=at, complete=at + 1, outcome=outcome, mops=[sent]))
        ops[-1].error = -1 if outcome is Outcome.OK else TIMED_OUT
    built = Built(tps=["x"], processes={1: Process()}, ops=ops)
    log = list(enumerate(values[: 1 + written]))
    tables = final_reads(built, {0: log}, end=len(log), at_s=80).tables()
    verdict = check_run(write_run(tmp_path, tables, events=(STARTED, *PHASES, RECOVERED)))
    found = {name for name, one in verdict.anomalies.items() if one.disallowed}
    assert found == ({"aborted-read"} if written else set())
    assert verdict.reached == ["given-up"]


def test_a_client_that_died_in_a_transaction_was_hit_in_it_also_where_its_fault_began_before(
    tmp_path: Path,
) -> None:
    for txn in (True, False):
        cut = Op(process=3, f="txn", invoke=int(10.1 * S), complete=None, outcome=Outcome.INFO, txn=txn)
        cut.mops = [Send(tp=1, value=value_of(3, 1), outcome=Outcome.INFO)]
        processes = {1: Process(), 3: Process(slot=1, txn_id=0)}
        built = Built(tps=["x", "y"], processes=processes, ops=[deepcopy(BEFORE), cut, deepcopy(AFTER)])
        (started, healed) = fault(slots=(1,))
        started = msgspec.structs.replace(started, ns=int(10.6 * S))
        order = sorted((STARTED, *PHASES, seen(1), started, healed), key=lambda event: event.ns)
        verdict = check_run(write_run(tmp_path / str(txn), built.tables(), events=(*order, RECOVERED)))
        assert ("open-transaction" in verdict.faults[0].reached) is txn


@pytest.mark.sampled(11)
def test_what_a_nemesis_is_for_are_facts() -> None:
    reaches = {
        f"{name}:{kind}": one.reaches
        for name, nemesis in NEMESES.items()
        for kind, one in nemesis.kinds.items()
    }
    assert {fact for some in reaches.values() for fact in some} <= FACTS.keys()
    assert wanted("client:crash-in-transaction@member") == ["open-transaction"]
    assert wanted("quorum:remove@controller") == ["voter-removed", "controller-moved"]
    assert wanted("kill:one@leader") == wanted("spider:eight@home") == []


def test_a_fault_that_hit_something_and_missed_what_it_is_for_exercised_nothing() -> None:
    hit = msgspec.structs.replace(IDLE, failed=1, nothing=False)
    one = Fault(fault=0, name="f", text="", nodes=[], begin_s=1, end_s=2, colour="red", hits=hit)
    assert not one.idle
    assert msgspec.structs.replace(one, wanted=["leader-moved"], reached=["in-doubt"]).idle
    reached = msgspec.structs.replace(one, hits=IDLE, wanted=["records-deleted"], reached=["records-deleted"])
    assert not reached.idle


@pytest.mark.sampled(22)
def test_deleted_records_are_what_their_nemesis_is_for(tmp_path: Path) -> None:
    verdict = simulated(tmp_path, nemesis="delete-records", rate=20)
    assert verdict.result is ResultWord.VALID
    assert "records-deleted" in (verdict.reached or [])
