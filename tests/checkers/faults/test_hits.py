"""What each fault is told to have hit: in histories of known ops, leaders and faults; in simulated runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.config import run_config
from core.java_hash import java_hash
from core.op import End, Outcome, Phase, value_of
from harness.compose import record
from harness.report.wording import faults_line
from harness.run.progress import silent
from history.events import Event, PhaseStarted, RolesSeen
from history.verdict import Fault, FaultHits, Verdict
from tests.histories.built import Built, Op, Process, Send
from tests.histories.fault_events import begun, both
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run
from tests.histories.report_runs import IDLE

S = 1_000_000_000
LEADERS = {"x-0": 1, "y-0": 2, "z-0": 2, "__transaction_state-0": 2, "__transaction_state-1": 3}
PHASES = [PhaseStarted(ns=n * 5 * S, phase=phase) for n, phase in ((1, Phase.FAULTS), (6, Phase.QUIESCE))]


def seen(at: float, controller: int = 3, **leaders: int) -> RolesSeen:
    names = {name.replace("_0", "-0") if name[0] != "_" else name: node for name, node in leaders.items()}
    return RolesSeen(
        ns=int(at * S), leaders=LEADERS | names, isr={}, controller=controller, answering=(1,), agreed=True
    )


def fault(
    begin: float = 10,
    end: float = 14,
    *,
    number: int = 0,
    nodes: tuple[int, ...] = (),
    slots: tuple[int, ...] = (),
) -> list[Event]:
    return both(begun("f", begin, begin + 1e-6, number=number, nodes=nodes, slots=slots), end)


def send(
    n: int, tp: int, begin: float, end: float | None, *, process: int = 1, txn: bool = False, acked: float = 0
) -> Op:
    """An op of one record. acked: of a transaction, when its record was acknowledged."""
    done = None if end is None else int(end * S)
    op = Op(process=process, f="txn" if txn else "send", invoke=int(begin * S), complete=done, txn=txn)
    op.outcome = Outcome.INFO if end is None else Outcome.OK
    record = Send(tp=tp, value=value_of(process, n))
    if end is not None:
        record.offset, record.ns = n, (int(begin * S), int((acked or end) * S))
    op.mops = [record]
    return op


def told(
    folder: Path,
    ops: Sequence[Op],
    *events: Event,
    processes: dict[int, Process] | None = None,
    tps: tuple[str, ...] = ("x", "y"),
) -> list[FaultHits]:
    built = Built(tps=[*tps], processes=processes or {1: Process(), 2: Process(slot=1)}, ops=list(ops))
    order = sorted((STARTED, *PHASES, *events), key=lambda event: event.ns)
    run = write_run(folder, built.tables(), events=(*order, RECOVERED))
    verdict = check_run(run)
    assert not any(one.status == "crashed" for one in verdict.checks.values())
    return [fault.hits for fault in verdict.faults if fault.hits]


def test_a_fault_on_an_idle_cluster_hits_nothing_and_its_twin_under_load_does(tmp_path: Path) -> None:
    before = [send(1, 0, 9.0, 9.1), send(2, 0, 15.0, 15.1)]
    events = [seen(1), *fault(nodes=(1,))]
    assert told(tmp_path / "idle", before, *events) == [IDLE]
    (hit,) = told(tmp_path / "load", [*before, send(3, 0, 9.9, 10.2)], *events)
    assert hit == msgspec.structs.replace(IDLE, records=1, records_hit=1, nothing=False)


def test_a_record_to_another_leader_is_not_hit(tmp_path: Path) -> None:
    ops = [send(1, 1, 9.9, 10.2)]
    (hit,) = told(tmp_path / "run", ops, seen(1), *fault(nodes=(1,)))
    assert hit == msgspec.structs.replace(IDLE, records=1)
    (moved,) = told(tmp_path / "moved", ops, seen(1), seen(9, y_0=1), *fault(nodes=(1,)))
    assert (moved.records_hit, moved.nothing) == (1, False)


def test_a_record_to_a_topic_that_was_deleted_later_is_hit_at_its_leader_of_then(tmp_path: Path) -> None:
    ops, events = [send(1, 0, 9.9, 10.2)], [seen(1), *fault(nodes=(1,))]
    for name, hits in (("x~1", 1), ("y~1", 0)):
        (hit,) = told(tmp_path / name, ops, *events, tps=(name,))
        assert (hit.records, hit.records_hit) == (1, hits)


def test_what_a_client_never_took_or_got_after_the_fault_had_begun_is_not_in_flight(tmp_path: Path) -> None:
    op = send(1, 0, 9.9, 10.5)
    taken, later, refused = (Send(tp=0, value=value_of(1, n), offset=n) for n in (1, 2, 3))
    for sent, begin in ((taken, 9.9), (later, 10.2), (refused, 9.9)):
        sent.ns = (int(begin * S), int(10.5 * S))
    refused.outcome, refused.offset = Outcome.FAIL, -1
    op.mops = [taken, later, refused]
    (hit,) = told(tmp_path / "run", [op], seen(1), *fault(nodes=(1,)))
    assert (hit.records, hit.records_hit) == (1, 1)


def test_where_no_leader_is_known_what_was_hit_is_not_known(tmp_path: Path) -> None:
    ops = [send(1, 0, 9.9, 10.2)]
    (hit,) = told(tmp_path / "run", ops, *fault(nodes=(1,)))
    assert (hit.records, hit.records_hit, hit.nothing) == (1, None, None)
    (some,) = told(tmp_path / "moved", ops, *fault(nodes=(1,)), seen(20))
    assert some.nothing is None  # a look after the fault says nothing of the time before it
    (idle,) = told(tmp_path / "idle", [send(1, 0, 5, 5.1)], *fault(nodes=(1,)))
    assert idle.nothing is True


def test_a_leader_that_moves_under_a_fault_or_shortly_after_counts(tmp_path: Path) -> None:
    ops = [send(1, 0, 9, 9.1)]
    for at, moved in ((11, 1), (15.9, 1), (16.1, 0)):
        (hit,) = told(tmp_path / f"{at}", ops, seen(1), *fault(nodes=(1,)), seen(at, x_0=2))
        assert (hit.leaders, hit.nothing) == (moved, not moved)
    first, second = told(
        tmp_path / "next", ops, seen(1), *fault(), *fault(15, 16, number=1), seen(15.5, x_0=2, controller=1)
    )
    assert (first.leaders, second.leaders, first.controller, second.controller) == (0, 1, False, True)
    (lost,) = told(tmp_path / "lost", ops, seen(1), *fault(), seen(11, x_0=-1), seen(12))
    assert lost.leaders == 0  # nobody else led it


def test_a_partition_that_a_topic_was_given_counts_and_one_of_a_new_topic_does_not(tmp_path: Path) -> None:
    ops = [send(1, 0, 9, 9.1)]
    for name, given in (("x-1", 1), ("new-0", 0)):
        (hit,) = told(tmp_path / name, ops, seen(1), *fault(), seen(11, **{name: 2}))
        assert (hit.leaders, hit.nothing) == (given, not given)


def test_an_open_transaction_is_hit_at_its_coordinator_and_at_its_client(tmp_path: Path) -> None:
    processes = {1: Process(txn_id=0), 2: Process(slot=1, txn_id=1)}
    where = [java_hash(f"txn-{n}") % 2 for n in (0, 1)]
    nodes = [LEADERS[f"__transaction_state-{n}"] for n in where]
    assert nodes[0] != nodes[1]
    ops = [send(1, 0, 9, 10.5, txn=True, acked=9.5), send(1, 0, 9, 10.5, process=2, txn=True, acked=10.2)]

    def hit(
        name: str, nodes: tuple[int, ...] = (), slots: tuple[int, ...] = ()
    ) -> tuple[int, int | None, int, int, int]:
        events = (seen(1), *fault(nodes=nodes, slots=slots))
        (found,) = told(tmp_path / name, ops, *events, processes=processes)
        return found.transactions, found.transactions_hit, found.sending, found.ending, found.ops_hit

    assert hit("first", nodes=(nodes[0],)) == (2, 1, 0, 1, 0)
    assert hit("second", nodes=(nodes[1],)) == (2, 1, 1, 0, 0)
    assert hit("client", slots=(1,)) == (2, 1, 1, 0, 1)
    assert hit("none", nodes=(1,)) == (2, 0, 0, 0, 0)
    moved = seen(12, **{f"__transaction_state-{where[0]}": 1})
    (found,) = told(tmp_path / "moved", ops, seen(1), *fault(), moved, processes=processes)
    assert (found.coordinators, found.leaders) == (1, 0)


def test_ops_that_end_badly_within_a_fault_count_and_meant_aborts_do_not(tmp_path: Path) -> None:
    ops = [send(n, 0, 10 + n, 10.1 + n) for n in range(1, 5)]
    for op in ops:
        op.outcome = Outcome.FAIL
        op.mops = []
    ops[0].txn = ops[0].deliberate = True
    ops[3].complete = 20 * S
    (hit,) = told(tmp_path / "run", ops, seen(1), *fault())
    assert hit == msgspec.structs.replace(IDLE, failed=2, nothing=False)


def test_the_op_in_which_a_client_was_killed_ends_in_doubt_under_that_fault(tmp_path: Path) -> None:
    processes = {1: Process(end=End.CRASHED), 2: Process(slot=1)}
    ops = [send(1, 0, 9.9, None)]
    killed, other = told(
        tmp_path / "run", ops, seen(1), *fault(slots=(0,)), *fault(20, 21, number=1), processes=processes
    )
    assert (killed.records_hit, killed.ops_hit, killed.in_doubt) == (1, 1, 1)
    assert other.in_doubt == 0


def test_a_member_of_a_group_is_hit_also_between_two_polls(tmp_path: Path) -> None:
    for group in (-1, 0):
        processes = {1: Process(), 2: Process(slot=1, group=group)}
        events = (seen(1), *fault(slots=(1,)))
        (hit,) = told(tmp_path / str(group), [send(1, 0, 9, 9.1)], *events, processes=processes)
        assert (hit.members, hit.nothing) == (group + 1, group < 0)


def test_who_made_a_record_wait_was_hit(tmp_path: Path) -> None:
    quick, slow = (
        told(tmp_path / f"{end}", [send(1, 0, 10.1, end)], seen(1), *fault()) for end in (10.3, 12)
    )
    assert (quick[0].nothing, slow[0].nothing) == (True, False)


def test_a_verdict_counts_the_faults_that_hit_nothing_apart(tmp_path: Path) -> None:
    known = Fault(fault=0, name="f", text="", nodes=[1], begin_s=1, end_s=2, colour="red", hits=IDLE)
    busy = msgspec.structs.replace(known, hits=msgspec.structs.replace(IDLE, failed=1, nothing=False))
    run = write_run(tmp_path / "run", Built(tps=["x"], ops=[send(1, 0, 9, 9.1)]).tables(), events=(STARTED,))
    verdict = check_run(run)

    def line(*faults: Fault) -> str:
        return faults_line(msgspec.structs.replace(verdict, faults=list(faults)))

    assert line(known, busy, busy) == "3 faults injected, 1 took no effect"
    aside = msgspec.structs.replace(busy, wanted=["leader-moved"], reached=["in-doubt"])
    assert line(aside, busy) == "2 faults injected, 1 did not reach what it is for"
    assert line(aside, aside) == "2 faults injected, 2 did not reach what they are for"
    nowhere = msgspec.structs.replace(aside, hits=IDLE, reached=[])
    assert (
        line(known, nowhere, aside) == "3 faults injected, 2 took no effect, 1 did not reach what it is for"
    )
    assert (
        line(msgspec.structs.replace(aside, reached=["leader-moved"])) == "1 fault injected, it took effect"
    )
    assert line() == "none"
    assert line(msgspec.structs.replace(known, hits=None)) == "1 fault injected"  # an older verdict
    doubt = msgspec.structs.replace(known, hits=msgspec.structs.replace(IDLE, nothing=None))
    assert line(doubt).endswith("the effect of 1 is not known")


def simulated(folder: Path, **settings: Any) -> Verdict:
    config = run_config({"sut": "simulated", "seed": 3, "producers": 2, "duration_s": 12} | settings)
    made = record(config, results=folder, display=silent())
    return check_run(made.run)


@pytest.mark.sampled(48)
@pytest.mark.parametrize(("rate", "nothing"), [(0.3, True), (100, False)])
def test_a_short_pause_hits_a_simulated_cluster_under_load_and_not_an_idle_one(
    tmp_path: Path, rate: float, nothing: bool
) -> None:
    verdict = simulated(tmp_path, nemesis="pause:short@leader", rate=rate, faults_begin="planned")
    first = verdict.faults[0]
    assert first.hits is not None
    assert (first.hits.nothing, verdict.stats["idle faults"] > 0) == (nothing, nothing)


@pytest.mark.sampled(5)
def test_a_simulated_kill_of_all_brokers_hits_transactions_and_stops_all_service(tmp_path: Path) -> None:
    verdict = simulated(tmp_path, workload="transactions", nemesis="kill:all")
    first = verdict.faults[0]
    assert first.hits is not None
    assert first.hits.transactions_hit
    assert first.hits.transactions_hit == first.hits.transactions == first.hits.sending + first.hits.ending
    assert first.hits.records_hit == first.hits.records > 0
    assert verdict.liveness.under_faults is not None
    assert verdict.liveness.under_faults < 0.5
