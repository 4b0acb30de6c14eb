"""What an application made of a record that its committed input lacks: a permission names that record, its
partition, and the time since it was sent."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.windows import Excuse
from core.config import run_config
from core.op import End, Isolation, Outcome, Phase, value_of
from history.events import Event, PhaseStarted, RecordsDeleted
from tests.checkers.found import check_tables
from tests.checkers.test_windows import START, S, fault
from tests.histories.built import Bound, Built, Foreign, Op, Process, Read, Send
from tests.oracle import anomalies

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
LOST, STANDS, NO_ONES = value_of(0, 1), value_of(0, 2), value_of(0, 99)
POWER: list[Event] = [START, *fault("power:all", 40, 1, 2, 3, until=45)]
DELETED: list[Event] = [START, RecordsDeleted(ns=60 * S, fault=0, offsets={"x-0": 1})]


def named(
    payload: bytes,
    events: Iterable[Event] = (),
    *,
    sent_s: float = 10,
    outcome: Outcome = OK,
    txn: Outcome | None = None,
    offset: int = 0,
    start: int = 0,
    end: End = End.CLOSED,
    tp: int = 0,
    earlier: bool = False,
) -> tuple[list[Excuse], bool]:
    """Output names a record. x has one that stands, at offset 1, and one at 0 that is not there any more.

    sent_s, outcome, offset: of that one. txn: how the transaction ended that has it. tp: where it was sent
    to. start: of the log. end: of the producer. earlier: the final reader at read_uncommitted
    had returned it. The excuse of each phantom; whether integrity is in doubt.
    """
    built = Built(tps=["x", "y", "w"])
    built.processes = {0: Process(end=end), 1: Process(slot=1, isolation=Isolation.READ_COMMITTED, acks=-2)}
    at = round(sent_s * S)
    lost = Op(process=0, f="send", invoke=at, complete=at + S, outcome=outcome if txn is None else txn)
    lost.txn = txn is not None
    lost.mops.append(Send(tp=tp, value=LOST, offset=offset if outcome is OK else -1, outcome=outcome))
    stands = Op(process=0, f="send", invoke=70 * S, complete=71 * S, outcome=OK)
    stands.mops.append(Send(tp=0, value=STANDS, offset=1))
    final = Op(process=1, f="final", invoke=80 * S, complete=81 * S, outcome=OK, phase=Phase.FINAL)
    final.mops += [Read(tp=0, offset=1, value=STANDS)]
    final.mops += [Foreign(tp=1, offset=0, reason="uncommitted", payload=payload)]
    built.ops = [lost, stands, final]
    if earlier:
        built.processes[2] = Process(slot=2, isolation=Isolation.READ_UNCOMMITTED, acks=-2)
        first = Op(process=2, f="final", invoke=78 * S, complete=79 * S, outcome=OK, phase=Phase.FINAL)
        first.mops += [Read(tp=0, offset=0, value=LOST)]
        built.ops.append(first)
    ends = {0: (start, 2), 1: (0, 1), 2: (0, 1)}
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        built.bounds += [
            Bound(tp=one, isolation=level, start=begin, end=last, read_to=last)
            for one, (begin, last) in ends.items()
        ]
    settings: dict[str, Any] = {"seed": 0, "workload": "application", "app": {"input": "x", "output": "y"}}
    tables, events, config = built.tables(), list(events), run_config(settings)
    tally = check_tables(tables, portable=False, events=events, config=config)
    assert not tally.crashed, tally.crashed
    found = [one for one in tally.findings if one.name == "phantom-read"]
    slow = anomalies.findings(tables, portable=False, events=events, config=config)
    assert {one.canonical for one in found} == {key for key in slow if key[0] == "phantom-read"}
    may = anomalies.variants(tables, portable=False, events=events, config=config)
    assert all((one.variant, one.excuse) in may[one.canonical] for one in found)
    doubts = [one for one in tally.doubts if one.check == "integrity"]
    unsure = anomalies.undecided(tables, portable=False, events=events, config=config)
    assert bool(doubts) is ("phantom-read" in unsure)
    return [one.excuse for one in found], bool(doubts)


def of(value: int) -> bytes:
    return b"%d" % value


def test_a_loss_of_power_permits_the_record_that_it_may_have_taken() -> None:
    assert named(of(LOST), POWER) == ([Excuse.POWER], False)
    assert named(of(LOST), POWER, outcome=INFO) == ([Excuse.POWER], False)
    assert named(of(LOST), POWER, txn=FAIL) == ([Excuse.POWER], False)  # the marker may be gone


@pytest.mark.parametrize(
    ("payload", "more"),
    [
        (of(LOST), {"events": []}),
        (of(NO_ONES), {}),  # no producer sent it
        (of(STANDS), {}),  # the input has it: it is of another key
        (b"?", {}),  # it names none
        (of(LOST), {"sent_s": 42}),  # it was sent later
        (of(LOST), {"outcome": FAIL}),  # it was never written
    ],
)
def test_a_loss_permits_no_other_number(payload: bytes, more: dict[str, Any]) -> None:
    assert named(payload, **{"events": POWER, **more}) == ([Excuse.NONE], False)


def test_a_loss_in_another_partition_permits_nothing() -> None:
    """Two of the replicas of x lost their power; those of w and of the transaction log are others."""
    leaders = {"x-0": 1, "w-0": 3, "__transaction_state-0": 3}
    isr = {"x-0": (1, 2), "w-0": (3,), "__transaction_state-0": (3,)}
    looks: list[Event] = [
        replace(START, leaders=leaders, isr=isr),
        *fault("power:majority", 40, 1, 2, until=45),
    ]
    assert named(of(LOST), looks) == ([Excuse.POWER], False)
    assert named(of(LOST), looks, tp=2) == ([Excuse.NONE], False)


def test_input_that_was_removed_was_there() -> None:
    assert named(of(LOST), DELETED, start=1) == ([], False)
    assert named(of(LOST), DELETED, start=1, txn=OK) == ([], False)
    assert named(of(LOST), DELETED, start=1, txn=FAIL) == ([Excuse.NONE], False)  # it was never to be read
    assert named(of(NO_ONES), DELETED, start=1) == ([Excuse.NONE], False)
    assert named(of(LOST), DELETED, start=1, outcome=INFO) == ([], True)  # it may have been
    assert named(of(LOST), DELETED) == ([Excuse.NONE], False)  # the log begins below it


@pytest.mark.parametrize("txn", [None, OK])
def test_input_that_one_final_reader_returned_may_be_removed_before_the_other_comes(
    txn: Outcome | None,
) -> None:
    """The other one, at read_committed, is that by which output is judged."""
    assert named(of(LOST), DELETED, start=1, txn=txn, earlier=True) == ([], False)
    assert named(of(LOST), start=1, txn=txn, earlier=True) == ([Excuse.NONE], False)  # nothing removed it
    assert named(of(LOST), DELETED, txn=txn, earlier=True) == ([Excuse.NONE], False)


def test_what_a_producer_that_died_may_have_sent_is_in_doubt() -> None:
    phases: list[Event] = [
        PhaseStarted(ns=1, phase=Phase.FAULTS),
        PhaseStarted(ns=90 * S, phase=Phase.COLLECT),
    ]
    assert named(of(NO_ONES), phases, end=End.CRASHED) == ([], True)
    assert named(of(value_of(5, 1)), phases, end=End.CRASHED) == ([Excuse.NONE], False)
