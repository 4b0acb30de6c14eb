"""What a lost log of the coordinators of transactions excuses: a decision that is gone hides records, shows
them too early, or lets readers depend on each other.

Not here: the windows themselves, and the other classes that they excuse (`tests/checkers/test_windows.py`).
"""

from collections.abc import Mapping
from typing import Any

import pytest

from checkers.engine.findings import Finding
from checkers.windows import Excuse
from core.config import run_config
from core.op import Isolation, value_of
from history.events import Event, RolesSeen
from tests.checkers.found import check_tables
from tests.histories.built import Built, Delivery, Op, Process, Read, Send, final_reads
from tests.histories.fault_events import begun, both

S = 1_000_000_000
NODES = {"x-0": 1, "y-0": 2, "__transaction_state-0": 3, "__consumer_offsets-0": 4}
"""Each lies on a node of its own, and has a minimum of one."""
DECISIONS = "__transaction_state-0"


def found(built: Built, name: str, lost: str, at: float, **settings: Any) -> list[Finding]:
    """Findings of a class. lost: the partition whose node lost its power at `at` seconds."""
    look = RolesSeen(
        ns=0,
        leaders=NODES,
        isr={partition: (node,) for partition, node in NODES.items()},
        controller=1,
        answering=(1, 2, 3, 4),
        agreed=True,
    )
    events: list[Event] = [look, *both(begun("power:one", at, nodes=(NODES[lost],)), at + 8)]
    brokers = {"transaction.state.log.min.isr": "1"}
    config = run_config({"seed": 1, "min_insync_replicas": 1, "broker_settings": brokers, **settings})
    tally = check_tables(built.tables(), portable=False, events=events, config=config)
    return [one for one in tally.findings if one.name == name]


def excuses(built: Built, name: str, lost: str, at: float, **settings: Any) -> set[Excuse]:
    return {one.excuse for one in found(built, name, lost, at, **settings)}


def committed(shown: Mapping[str, list[int]]) -> Built:
    """A transaction sends the records 0 and 1 to x at 40 and 44 s, and its client sees it committed at 46 s;
    a plain record behind it is acknowledged at 48 s. shown: what the final reads at each level return."""
    built = Built(tps=["x"], processes={1: Process(txn_id=0, slot=1), 2: Process(slot=2)})
    txn = Op(process=1, f="txn", invoke=40 * S, complete=46 * S, txn=True)
    for n, at in enumerate((40, 44)):
        span = (at * S, (at + 1) * S)
        txn.mops.append(Send(tp=0, value=value_of(1, n), offset=n, ns=span))
    behind = Op(process=2, f="send", invoke=47 * S, complete=48 * S)
    behind.mops = [Send(tp=0, value=value_of(2, 0), offset=3)]
    built.ops = [txn, behind]
    rows = {level: [(n, value_of(1, n)) for n in some] for level, some in shown.items()}
    end = [(3, value_of(2, 0))]
    return final_reads(built, {0: rows["rc"] + end}, {0: rows["ru"]}, end=4, at_s=190)


HIDDEN = committed({"rc": [], "ru": [0, 1]})
GONE = committed({"rc": [], "ru": []})


@pytest.mark.parametrize(
    ("built", "lost", "at", "excuse"),
    [
        (HIDDEN, DECISIONS, 45, Excuse.POWER),
        (HIDDEN, DECISIONS, 42, Excuse.POWER),  # before the record 1 was sent: an older decision came again
        (HIDDEN, DECISIONS, 60, Excuse.POWER),  # a decision may be lost as long as no marker stands there
        (HIDDEN, DECISIONS, 38, Excuse.NONE),
        (HIDDEN, "x-0", 45, Excuse.POWER),
        (HIDDEN, "x-0", 60, Excuse.POWER),  # the marker stood behind the plain record
        (HIDDEN, "x-0", 38, Excuse.NONE),
        (HIDDEN, "y-0", 45, Excuse.NONE),
        (HIDDEN, "__consumer_offsets-0", 45, Excuse.NONE),
        (GONE, DECISIONS, 45, Excuse.NONE),  # no decision takes a record off a log
        (GONE, "x-0", 46, Excuse.POWER),
        (GONE, "x-0", 60, Excuse.NONE),  # the plain record behind them is still there
    ],
)
def test_a_committed_record_that_the_log_has_is_hidden_by_a_lost_decision(
    built: Built, lost: str, at: float, excuse: Excuse
) -> None:
    losses = found(built, "lost-write", lost, at)
    assert [(one.key[1], one.excuse) for one in losses] == [(value_of(1, n), excuse) for n in (0, 1)]


@pytest.mark.parametrize(("built", "excuse"), [(HIDDEN, Excuse.POWER), (GONE, Excuse.NONE)])
def test_flushed_records_keep_no_decision(built: Built, excuse: Excuse) -> None:
    flushed = {"topic_settings": {"flush.messages": "1"}}
    assert excuses(built, "lost-write", DECISIONS, 45, **flushed) == {excuse}
    assert excuses(built, "lost-write", "x-0", 45, **flushed) == {Excuse.NONE}


def test_where_the_log_was_not_read_a_decision_may_hide_the_record() -> None:
    """Without the final read at read_uncommitted nothing tells whether it is there. The one that went past it
    and has it not does."""
    built = committed({"rc": [], "ru": []})
    (uncommitted,) = (one for one in built.bounds if one.isolation == Isolation.READ_UNCOMMITTED)
    uncommitted.read_to = 1
    losses = found(built, "lost-write", DECISIONS, 45)
    assert {one.key[1]: one.excuse for one in losses} == {
        value_of(1, 0): Excuse.NONE,
        value_of(1, 1): Excuse.POWER,
    }


def test_the_cleaner_takes_what_a_decision_hid() -> None:
    compacted = {"topic_settings": {"cleanup.policy": "compact"}}
    assert excuses(GONE, "lost-write", DECISIONS, 45, **compacted) == {Excuse.POWER}
    assert excuses(GONE, "lost-write", DECISIONS, 38, **compacted) == {Excuse.NONE}


def shown_early() -> Built:
    """A transaction sends the records 0 and 1 to x at 40 and 44 s, and asks for its commit at 60 s. Readers
    at read_committed and at read_uncommitted have both at 50 s, a member of a share group has 1 at 52 s; the
    transaction itself had 0 at 48 s."""
    built = Built(tps=["x"], processes={1: Process(txn_id=0, slot=1)})
    txn = Op(process=1, f="txn", invoke=39 * S, complete=61 * S, txn=True)
    for n, at in enumerate((40, 44)):
        span = (at * S, (at + 1) * S)
        txn.mops.append(Send(tp=0, value=value_of(1, n), offset=n, ns=span))
    txn.mops.append(Read(tp=0, offset=0, value=value_of(1, 0), ns=(47 * S, 48 * S)))
    txn.mops.append(Send(tp=0, value=value_of(1, 2), offset=2, ns=(60 * S, 61 * S)))
    built.ops = [txn]
    for process, level in ((2, Isolation.READ_COMMITTED), (3, Isolation.READ_UNCOMMITTED)):
        built.processes[process] = Process(acks=-2, slot=process, isolation=level)
        poll = Op(process=process, f="poll", invoke=49 * S, complete=50 * S)
        poll.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in (0, 1)]
        built.ops.append(poll)
    built.processes[4] = Process(acks=-2, slot=4, group=0)
    given = Op(process=4, f="poll", invoke=51 * S, complete=52 * S)
    given.mops = [Delivery(tp=0, offset=1, value=value_of(1, 1))]
    built.ops.append(given)
    return final_reads(built, {0: [(n, value_of(1, n)) for n in range(3)]}, end=4, at_s=190)


@pytest.mark.parametrize(
    ("lost", "at", "excused"),
    [
        (DECISIONS, 39.5, set()),  # nothing of the transaction was there to lose
        (DECISIONS, 42, {48, 50, 52}),  # the record 1 came later, under the same epoch
        (DECISIONS, 49, {50, 52}),
        (DECISIONS, 51, {52}),
        (DECISIONS, 53, set()),
        ("x-0", 42, set()),  # it decides nothing
        ("__consumer_offsets-0", 42, set()),
    ],
)
def test_markers_that_are_written_again_show_the_next_transaction_early(
    lost: str, at: float, excused: set[int]
) -> None:
    early = found(shown_early(), "precommitted-read", lost, at)
    committed = [one for one in early if one.kind.variant == "rc"]
    keys = [(value_of(1, n), second) for n, second in ((0, 48), (0, 50), (1, 50), (1, 52))]
    assert sorted((one.key[1], one.at_ns // S) for one in committed) == keys
    assert {one.at_ns // S for one in committed if one.excuse == Excuse.POWER} == excused
    assert {one.at_ns // S for one in committed if one.excuse == Excuse.NONE} == {48, 50, 52} - excused


def circle(*, realtime: bool) -> Built:
    """Transactions of the processes 1 and 2, from 40 and 42 s to 60 s, read each other's records at 50 s; or
    (realtime) that of 1 reads one of a plain producer that began when the record of 1 had been read."""
    built = Built(tps=["x", "y"], processes={n: Process(txn_id=n, slot=n) for n in (1, 2)})
    first = Op(process=1, f="txn", invoke=40 * S, complete=60 * S, txn=True)
    first.mops = [Send(tp=0, value=value_of(1, 0), offset=0, ns=(41 * S, 42 * S))]
    first.mops.append(Read(tp=1, offset=0, value=value_of(2, 0), ns=(57 * S, 58 * S)))
    second = Op(process=2, f="txn", invoke=42 * S, complete=59 * S, txn=True)
    if realtime:
        second = Op(process=2, f="send", invoke=54 * S, complete=55 * S)
        built.processes[2] = Process(slot=2)
        reader = Op(process=3, f="poll", invoke=50 * S, complete=51 * S)
        built.processes[3] = Process(acks=-2, slot=3)
        built.ops.append(reader)
    else:
        reader = second
    second.mops.append(Send(tp=1, value=value_of(2, 0), offset=0))
    reader.mops.append(Read(tp=0, offset=0, value=value_of(1, 0), ns=(50 * S, 51 * S)))
    built.ops += [first, second]
    return final_reads(built, {0: [(0, value_of(1, 0))], 1: [(0, value_of(2, 0))]}, end=1, at_s=190)


@pytest.mark.parametrize(
    ("lost", "at", "excuse"),
    [
        (DECISIONS, 45, Excuse.POWER),
        (DECISIONS, 39, Excuse.NONE),
        (DECISIONS, 61, Excuse.NONE),
        ("x-0", 45, Excuse.NONE),
    ],
)
def test_what_is_shown_early_closes_circles(lost: str, at: float, excuse: Excuse) -> None:
    for name, built in (("G1c", circle(realtime=False)), ("G1c-realtime", circle(realtime=True))):
        (one,) = found(built, name, lost, at)
        assert (one.key[0], one.excuse) == (-1, excuse)
