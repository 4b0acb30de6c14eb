"""What excuses that a compacted topic lacks a record, or has one again (docs/checks.md, sections 1 and 6)."""

from collections.abc import Sequence
from typing import Any

import pytest

from core.cluster import OpenTransaction
from core.op import Isolation, Outcome, value_of
from history.events import Event, TransactionsOpen
from tests.adversary.excused import Said, said
from tests.checkers.test_windows import START, S, fault, roles
from tests.histories.built import Bound, Built, Op, Process, Read, Send, final_reads

COMPACTED: dict[str, Any] = {
    "workload": "compacted",
    "topic_settings": {"cleanup.policy": "compact", "delete.retention.ms": "20000"},
}
KEY, TOMBSTONE, LATER, NEXT = 1, 129, 385, 513
"""Values of one key, the second and the third delete it; other values are of others."""


def sent(process: int, at: float, n: int, offset: int = -1, *, txn: bool = False, **more: Any) -> Op:
    outcome = Outcome.OK if offset >= 0 else more.pop("outcome", Outcome.INFO)
    op = Op(process=process, f="send", invoke=round(at * S), complete=round(at * S) + S // 100)
    op.outcome, op.txn = outcome, txn
    op.mops = [Send(tp=0, value=value_of(process, n), offset=offset)]
    return op


def compacted(*ops: Op, shown: Sequence[int], end: int) -> Built:
    """The final reads, at 90 s, show the records at these offsets."""
    built = Built(tps=["x"], processes={1: Process(), 2: Process(slot=2)})
    built.ops = [*ops]
    sends = [(op, mop) for op in ops for mop in op.mops if isinstance(mop, Send) and mop.offset in shown]
    return final_reads(built, {0: [(mop.offset, mop.value) for _, mop in sends]}, end=end)


@pytest.mark.parametrize(
    ("at", "lost"),
    [
        (85, True),  # above it, the tombstone would be kept until 105 s
        (70.1, True),
        (69.9, False),
        (0.5, False),
    ],
)
def test_a_tombstone_in_doubt_explains_the_loss_of_what_it_may_have_outlived(at: float, lost: bool) -> None:
    doubtful = sent(1, 0.9, TOMBSTONE)
    built = compacted(doubtful, sent(2, at, KEY, 5), sent(2, at + 1, 2, 6), shown=[6], end=7)
    found = said(built, START, **COMPACTED)
    assert found.get("lost-write", set()) == ({Said("all", "", permitted=False)} if lost else set())


@pytest.mark.parametrize("read_to", [5, 6])
def test_a_tombstone_in_doubt_may_stand_where_no_final_read_went(read_to: int) -> None:
    ops = (sent(1, 1, TOMBSTONE), sent(2, 85, KEY, 4), sent(2, 86, 2, 5))
    built = compacted(*ops, shown=[5] if read_to > 5 else [], end=6)
    for bound in built.bounds:
        bound.read_to = read_to
    assert ("lost-write" in said(built, START, **COMPACTED)) is (read_to == 6)


def test_a_committed_record_without_a_place_explains_a_loss_at_any_time() -> None:
    later = sent(1, 84.99, NEXT, outcome=Outcome.OK)
    built = compacted(later, sent(2, 84, KEY, 4), sent(2, 86, 2, 5), shown=[5], end=6)
    found = said(built, START, **COMPACTED)
    assert found["lost-write"] == {Said("all", "", permitted=False)}  # the later one's own


@pytest.mark.parametrize(
    ("between", "back"),
    [
        (sent(1, 1, LATER), True),  # a tombstone in doubt
        (sent(1, 1, NEXT), True),  # any other record in doubt would be there
        (sent(1, 2.5, LATER, 2), True),  # asked in its place
        (sent(1, 1.999, LATER, outcome=Outcome.OK), True),  # committed, and its place unknown
        (sent(1, 1.999, NEXT, outcome=Outcome.OK), False),  # that one is lost, and it was not deleted
    ],
)
def test_a_key_stays_deleted_whatever_became_of_a_later_tombstone(between: Op, back: bool) -> None:
    ops = (sent(2, 1, KEY, 0), sent(2, 2, TOMBSTONE, 1), between, sent(2, 80, 2, 3))
    built = compacted(ops[0], ops[1], ops[2], ops[3], shown=[3], end=4)
    for op in built.ops[-2:]:
        op.mops.insert(0, Read(tp=0, offset=0, value=value_of(2, KEY)))
    found = said(built, START, **COMPACTED)
    expected = {Said("all", "", permitted=False)} if back else set()
    assert found.get("resurrected-key", set()) == expected


AWAY: list[Event] = [roles(50, 1, 1, 2), roles(76, 1, 1, 2, 3)]
"""A replica was out of sync from 40 s at the earliest until 76 s."""
EARLY: list[Event] = [roles(1.6, 1, 1, 2), roles(45, 1, 1, 2, 3)]


def resurrected(
    events: Sequence[Event], at: float = 2, acks: int = -1, *, read: bool = False, txn: bool = False
) -> Said:
    """What is said of a tombstone, sent at this time."""
    ops = [sent(2, 1, KEY, 0), sent(1, at, TOMBSTONE, 1, txn=txn), sent(2, 80, 2, 3)]
    if read:
        poll = Op(process=3, f="poll", invoke=4 * S, complete=5 * S)
        poll.mops = [Read(tp=0, offset=1, value=value_of(1, TOMBSTONE))]
        ops.append(poll)
    built = compacted(*ops, shown=[0, 3], end=4)
    built.processes[1] = Process(acks=acks, idempotent=acks == -1, txn_id=0 if txn else -1)
    (found,) = said(built, START, *events, **COMPACTED)["resurrected-key"]
    return found


@pytest.mark.parametrize(
    ("events", "at", "excuse"),
    [
        ([], 2, ""),
        (AWAY, 2, ""),  # it had it for 48 s when it left
        (AWAY, 39, ""),
        (AWAY, 41, "away"),
        (EARLY, 2, "away"),
        ([*AWAY, *fault("power:one", 30, 3, until=31)], 2, "away"),  # it lost what it had
        ([*AWAY, *fault("power:one", 79, 3, until=80)], 2, "away"),
        ([*AWAY, *fault("power:one", 1, 3, until=1.9)], 20, ""),
    ],
)
def test_a_replica_missed_no_tombstone_that_it_had_when_it_left(
    events: Sequence[Event], at: float, excuse: str
) -> None:
    found = resurrected(events, at)
    assert found == Said("all", excuse, permitted=bool(excuse))


@pytest.mark.parametrize("acks", [0, 1])
def test_a_replica_may_miss_at_any_time_what_its_leader_alone_acknowledged(acks: int) -> None:
    assert resurrected(AWAY, acks=acks).excuse == "away"


def test_a_replica_may_miss_at_any_time_what_decides_a_transaction() -> None:
    assert resurrected(AWAY, txn=True) == Said("all", "away", permitted=True)


@pytest.mark.parametrize("read", [True, False])
def test_what_a_strong_promise_is_excused_for_a_weak_one_is_as_well(read: bool) -> None:
    """The kill of a replica is a leader window, too."""
    killed = fault("kill:one", 1.5, 3, until=30)
    found = resurrected([*EARLY, *killed], acks=1, read=read)
    assert found == Said("read" if read else "1", "away", permitted=True)
    found = resurrected([*killed, roles(1.6, 1, 1, 2), roles(10, 1, 1, 2, 3)], acks=1, read=read)
    assert found == Said("read" if read else "1", "leader", permitted=not read)


def held(at: float, *, offset: int = 2, other: float | None = None) -> Built:
    """A transaction of this time stays open from offset 2 on. other: of one that has a record there."""
    built = Built(tps=["x"])
    built.processes = {n: Process(txn_id=n) for n in (1, 2)}
    early = Op(process=2, f="txn", invoke=S, complete=2 * S, txn=True)
    early.mops = [Send(tp=0, value=value_of(2, 1), offset=0)]
    open_ = Op(process=1, f="txn", invoke=round(at * S), complete=round(at * S) + 2 * S, txn=True)
    open_.mops = [Send(tp=0, value=value_of(1, 2), offset=offset)]
    built.ops = [early, open_]
    if other is not None:
        more = Op(process=2, f="txn", invoke=round(other * S), complete=round(other * S) + S, txn=True)
        more.mops = [Send(tp=0, value=value_of(2, 3), offset=offset)]
        built.ops.append(more)
    for level, end in ((Isolation.READ_UNCOMMITTED, 3), (Isolation.READ_COMMITTED, 2)):
        built.bounds.append(Bound(tp=0, isolation=level, end=end, read_to=end))
    return built


BACK: list[Event] = [roles(10, 1, 1, 2), roles(36, 1, 1, 2, 3)]


@pytest.mark.parametrize(
    ("built", "start", "stuck", "hanging"),
    [
        (held(80), 2, "", ""),  # the replica was back for 44 s when it began
        (held(35), 2, "away", "away"),
        (held(80, offset=-1), 2, "away", "away"),  # which transaction it is, is not known
        (held(80), 1, "", None),  # the listing shows one that has ended since
        (held(80, other=30), 2, "away", "away"),  # either may hold it
        (held(80), 3, "", "away"),
    ],
)
def test_a_replica_that_was_back_misses_no_marker_of_a_later_transaction(
    built: Built, start: int, stuck: str, hanging: str | None
) -> None:
    row = OpenTransaction(topic="x", partition=0, producer_id=7, producer_epoch=0, start=start)
    found = said(built, START, *BACK, TransactionsOpen(ns=100 * S, rows=(row,)), **COMPACTED)
    assert found["stuck-lso"] == {Said("", stuck, permitted=bool(stuck))}
    expected = set() if hanging is None else {Said("", hanging, permitted=bool(hanging))}
    assert found.get("hanging-txn", set()) == expected
