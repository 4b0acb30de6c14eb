"""Verdicts where a log may lose its end: what a truncation explains is allowed there, and only there.

Not here: the rules themselves (`tests/harness/cli/test_catalogue.py`).
"""

from pathlib import Path
from typing import Any

import pytest

from core.cluster import OpenTransaction
from core.op import Isolation, Outcome, value_of
from history.events import Event, FaultStarted, RolesSeen, TransactionsOpen
from tests.histories.built import Built, Op, Process, Read, Rows, Send, final_reads
from tests.histories.fault_events import begun, both
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run

S = 1_000_000_000
UNCLEAN = {"nemesis": "unclean", "unclean_leader_election": True}
POWER = begun("power:all", 5, 6, nodes=(1, 2, 3))
OPENED = TransactionsOpen(
    ns=3 * S, rows=(OpenTransaction(topic="y", partition=0, producer_id=7, producer_epoch=0, start=5),)
)


def transaction(at: int, offset: int, *, outcome: Outcome = Outcome.OK) -> Op:
    """Process 1 sends a record to x and one to y, in one transaction."""
    op = Op(process=1, f="txn", invoke=at * S, complete=(at + 1) * S, txn=True, outcome=outcome)
    op.mops = [Send(tp=tp, value=value_of(1, 2 * at + tp), offset=offset) for tp in (0, 1)]
    return op


def torn() -> Built:
    """A committed transaction whose record in y is gone."""
    return finals([transaction(2, 0)], {0: [(0, value_of(1, 4))], 1: []})


def ended_by_the_next() -> Built:
    """The marker that aborted the first transaction in y is gone: the next one's commits it too."""
    first, second = transaction(2, 0, outcome=Outcome.FAIL), transaction(4, 2)
    y = [(0, value_of(1, 5)), (2, value_of(1, 9))]
    return finals([first, second], {0: [(2, value_of(1, 8))], 1: y})


def never_ended() -> Built:
    """The marker that committed it in y is gone, and the coordinator has no more to do."""
    built = finals([transaction(2, 5)], {0: [(5, value_of(1, 4))], 1: []})
    for bound in built.bounds:
        if bound.tp == 1 and bound.isolation == Isolation.READ_COMMITTED:
            bound.end = bound.read_to = 5
    built.ops[1].mops.append(Read(tp=1, offset=5, value=value_of(1, 5)))
    return built


def finals(ops: list[Op], shown: Rows) -> Built:
    """Complete final reads at both levels."""
    return final_reads(Built(tps=["x", "y"], ops=ops, processes={1: Process(txn_id=0)}), shown, end=9)


@pytest.mark.parametrize(
    ("built", "classes"),
    [
        (torn(), {"torn-txn", "lost-write"}),
        (ended_by_the_next(), {"aborted-read"}),
        (never_ended(), {"stuck-lso", "hanging-txn"}),  # which hides whether it is torn
    ],
    ids=["torn", "ended by the next", "never ended"],
)
@pytest.mark.parametrize(
    ("settings", "faults", "allowed"),
    [
        ({}, (), False),
        ({"min_insync_replicas": 1}, (), False),
        (UNCLEAN, (), True),
        ({"topic_settings": {"unclean.leader.election.enable": "TRUE"}}, (), True),
        ({}, (POWER,), True),
    ],
)
def test_a_truncated_log_may_lose_parts_and_ends_of_transactions(
    tmp_path: Path,
    built: Built,
    classes: set[str],
    settings: dict[str, Any],
    faults: tuple[FaultStarted, ...],
    allowed: bool,
) -> None:
    events: list[Event] = [STARTED, *faults, OPENED, RECOVERED]
    run = write_run(tmp_path / "run", built.tables(), settings=settings, events=events)
    verdict = check_run(run)
    assert set(verdict.anomalies) == classes
    assert {name for name, a in verdict.anomalies.items() if a.allowed} == (classes if allowed else set())
    assert verdict.exit_code in ((0, 2) if allowed else (1,))
    for anomaly in verdict.anomalies.values():
        assert ("unclean" in anomaly.why or "power loss" in anomaly.why) is allowed


def sent(at: int, process: int, *offsets: int) -> Op:
    op = Op(process=process, f="send", invoke=at * S, complete=at * S + S // 2)
    op.mops = [Send(tp=0, value=value_of(process, offset), offset=offset) for offset in offsets]
    return op


def looked(at: int, leader: int) -> RolesSeen:
    return RolesSeen(
        ns=at * S, leaders={"x-0": leader}, isr={"x-0": (1, 2)}, controller=3, answering=(1, 2), agreed=True
    )


ISOLATED = both(begun("partition", 20, nodes=(1,)), 40)


@pytest.mark.parametrize(
    ("other", "events", "allowed"),
    [
        (
            30,
            [looked(1, 1), looked(31, 2), *ISOLATED],
            True,
        ),  # the new leader's record came before the lost one
        (34, [looked(1, 1), looked(31, 2), *ISOLATED], True),  # after it, while the old leader may answer
        (30, [looked(1, 1), looked(50, 1)], False),  # nothing replaced the leader
        (34, [looked(1, 1), looked(45, 1), looked(60, 2)], False),  # it was replaced when the log had another
    ],
    ids=["before", "after", "never", "too late"],
)
def test_with_acks_1_a_replaced_leader_may_lose_what_it_acknowledges(
    tmp_path: Path, other: int, events: list[Event], allowed: bool
) -> None:
    """The lost record has offset 5 of the log of node 1; in that of node 2 others have 5 and 7."""
    built = finals([sent(other, 2, 5, 7), sent(32, 1, 5)], {0: [(at, value_of(2, at)) for at in (5, 7)]})
    built.processes |= {1: Process(acks=1, idempotent=False), 2: Process(acks=1, idempotent=False)}
    run = write_run(
        tmp_path / "run",
        built.tables(),
        settings={"acks": 1, "idempotent": False, "expect": ()},
        events=sorted([STARTED, *events, RECOVERED], key=lambda event: event.ns),
    )
    found = check_run(run).anomalies["lost-write"]
    assert (found.count, found.disallowed) == (1, not allowed)
