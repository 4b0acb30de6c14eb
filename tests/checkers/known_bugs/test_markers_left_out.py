"""KAFKA-20734: the label needs the line of the coordinator's log, of the right time and partitions."""

from collections.abc import Sequence, Set
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from core.cluster import OpenTransaction
from core.op import Isolation, Outcome, value_of
from history.broker_logs import broker_logs
from history.events import Event, TransactionsOpen
from history.run_folder import Run
from history.tables import TABLES
from history.verdict import Verdict
from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.histories.built import Built, Commit, Mop, Op, Process, Read, Send, final_reads
from tests.histories.folders import NAMES, RECOVERED, STARTED, check_run, write_run

S = 1_000_000_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ID = NAMES["txn_id"][0]


def line(at_s: float, *partitions: str, transactional_id: str = ID) -> str:
    wall = (BEGAN + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    kind = "Set" if len(partitions) < 5 else "HashSet"
    return (
        f"{wall} INFO kafka.coordinator.transaction.TransactionMarkerChannelManager - [Transaction Marker"
        f" Channel Manager 2]: Couldn't find leader endpoint for partitions {kind}({', '.join(partitions)})"
        f" while trying to send transaction markers for {transactional_id}, these partitions are likely"
        " deleted already and hence can be skipped\n"
    )


def torn(outcome: Outcome, visible: Set[int], *, next_at_s: int = 60, gone: Set[int] = frozenset()) -> Built:
    """A transaction from 10 s to 14 s with a record in each of x, y, z; consumers see those in `visible`. The
    others are hidden; the log has not those in `gone`. The next one of the same id commits at `next_at_s`."""
    built = Built(tps=["x", "y", "z"])
    built.processes[1] = Process(txn_id=0)
    op = Op(process=1, f="txn", invoke=10 * S, complete=14 * S, txn=True, outcome=outcome)
    op.mops = [Send(tp=tp, value=value_of(1, tp), offset=0, ns=(10 * S, 11 * S)) for tp in range(3)]
    after = Op(process=1, f="txn", invoke=(next_at_s - 1) * S, complete=next_at_s * S, txn=True)
    built.ops = [op, after]
    shown = {tp: [(0, value_of(1, tp))] if tp in visible - gone else [] for tp in range(3)}
    hidden = {tp: [(0, value_of(1, tp))] for tp in {0, 1, 2} - visible - gone}
    return final_reads(built, shown, hidden, end=20)


def judged(
    folder: Path, built: Built, *lines: str, events: Sequence[Event] = (STARTED, RECOVERED), **settings: Any
) -> Verdict:
    run = write_run(folder, built.tables(), settings=settings, events=events)
    log = run.cluster / "2" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-01-01T00:00:00.000Z INFO something else\n" + "".join(lines))
    return check_run(run)


OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


def beside(built: Built, *, visible: bool = True) -> Built:
    """The transaction has a second record in z."""
    (mine, *_) = built.ops
    value = value_of(1, 9)
    mine.mops.append(Send(tp=2, value=value, offset=1, ns=(10 * S, 11 * S)))
    for op in built.ops:
        if op.f == "final" and (
            visible or built.processes[op.process].isolation == Isolation.READ_UNCOMMITTED
        ):
            op.mops.append(Read(tp=2, offset=1, value=value))
    return built


def followed(built: Built) -> Built:
    """The next transaction of the same id is aborted; its record in x was acknowledged at 31 s."""
    after = Op(process=1, f="txn", invoke=30 * S, complete=32 * S, txn=True, outcome=FAIL, deliberate=True)
    after.mops = [Send(tp=0, value=value_of(1, 20), offset=7, ns=(30 * S, 31 * S))]
    built.ops.append(after)
    for op in built.ops:
        if op.f == "final" and built.processes[op.process].isolation == Isolation.READ_UNCOMMITTED:
            last = max(at for at, mop in enumerate(op.mops) if isinstance(mop, Read) and mop.tp == 0)
            op.mops.insert(last + 1, Read(tp=0, offset=7, value=value_of(1, 20)))
    return built


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("built", "lines", "labelled"),
    [
        (torn(OK, {0, 1}), [line(12, "z-0")], True),
        (torn(OK, {0, 1}), [line(40, "z-0")], True),  # much later, but before the next one committed
        (torn(OK, {0}), [line(12, "y-0", "z-0")], True),
        (torn(OK, {0}), [line(12, "y-0"), line(13, "z-0")], True),
        (torn(OK, {0, 1}), [line(12, "z-0", "a-0", "b-0", "c-0", "d-0")], True),
        (torn(INFO, {2}), [line(12, "z-0")], True),  # aborted, but for what the next commit decided
        (torn(FAIL, {2}), [line(12, "z-0")], True),
        (torn(OK, {0, 1}), [], False),
        (torn(OK, {0, 1}), [line(9, "z-0")], False),  # before the transaction began
        (torn(OK, {0, 1}), [line(11, "z-0")], True),  # it had an acknowledgement, so the last one was over
        (torn(OK, {0, 1}), [line(10.9, "z-0")], False),  # perhaps the last one's, of a deleted partition
        (torn(OK, {0, 1}), [line(61, "z-0")], False),  # the next one had committed
        (torn(OK, {0, 1}), [line(12, "z-0", transactional_id="another")], False),
        (torn(OK, {0, 1}), [line(12, "y-0")], False),  # another partition
        (torn(OK, {0}), [line(12, "z-0")], False),  # y got its marker, and is not visible
        (torn(FAIL, {0, 2}), [line(12, "z-0")], False),
        (torn(INFO, {0, 2}), [line(12, "z-0")], False),  # x and y got their markers, and differ
        # answered OK, and aborted wherever it had markers
        (torn(OK, {2}), [line(12, "z-0")], False),
        (torn(FAIL, {0, 1}), [line(12, "z-0")], False),
        # the log lacks a record: that of z, or one beside it
        (torn(OK, {0, 1}, gone={2}), [line(12, "z-0")], False),
        (torn(OK, {0}, gone={2}), [line(12, "y-0", "z-0")], False),
        (torn(OK, {0, 1}, gone={0}), [line(12, "z-0")], False),
        # two records in z, of which one can be read: one marker decides both
        (beside(torn(OK, {0, 1})), [line(12, "z-0")], False),
        (beside(torn(OK, {0, 1}), visible=False), [line(12, "z-0")], True),
        (beside(torn(OK, {0, 1}, gone={2})), [line(12, "z-0")], False),
        # the next one had an acknowledgement at 31 s, and is aborted: the first one is over by then
        (followed(torn(OK, {0, 1})), [line(30.5, "z-0")], True),
        (followed(torn(OK, {0, 1})), [line(40, "z-0")], False),
    ],
)
def test_only_partitions_without_a_marker_may_differ(
    tmp_path: Path, built: Built, lines: list[str], labelled: bool
) -> None:
    verdict = judged(tmp_path / "run", built, *lines)
    found = {name: each.known_bug for name, each in verdict.anomalies.items() if each.disallowed}
    assert found
    assert verdict.exit_code == 1
    assert set(found.values()) == ({"KAFKA-20734"} if labelled else {""})


@pytest.mark.parametrize(
    ("version", "upgraded_s", "bug"),
    [
        ("4.2.1", None, ""),
        ("4.3.0", None, "KAFKA-20734"),
        ("4.2.1", 12.5, "KAFKA-20734"),  # from 11.5 s on
        ("4.2.1", 14, ""),
    ],
)
def test_earlier_brokers_write_the_same_line_of_partitions_that_were_deleted(
    tmp_path: Path, version: str, upgraded_s: float | None, bug: str
) -> None:
    settings, events = upgrade_of(version, upgraded_s)
    built, left_out = torn(OK, {0, 1}), line(12, "z-0")
    lost = judged(tmp_path / "run", built, left_out, events=events, **settings).anomalies["lost-write"]
    assert (lost.known_bug, lost.disallowed) == (bug, 1)


def passed(built: Built, *tps: int, given: bool = False) -> Built:
    """A copying group commits behind the first record of these partitions, and copies nothing. given: it has
    read it."""
    built.processes[5] = Process(group=0, slot=5)
    op = Op(process=5, f="txn", invoke=30 * S, complete=31 * S)
    op.mops = [Commit(tp=tp, offset=1) for tp in tps]
    if given:
        op.mops += [Read(tp=tp, offset=0, value=value_of(1, tp)) for tp in tps]
    built.ops.append(op)
    return built


@pytest.mark.parametrize(
    ("built", "lines", "classes", "labelled"),
    [
        (passed(torn(OK, {0, 1}), 2), [line(12, "z-0")], {"eos-loss", "group-skip"}, True),
        (passed(torn(OK, {0, 1}), 2), [], {"eos-loss", "group-skip"}, False),
        (passed(torn(OK, {0, 1}), 2), [line(12, "y-0")], {"eos-loss", "group-skip"}, False),
        # x has its marker, and was shown to everyone
        (passed(torn(OK, {0, 1}), 0), [line(12, "z-0")], {"eos-loss", "group-skip"}, False),
        (passed(torn(OK, {0, 1, 2}), 2), [line(12, "z-0")], {"eos-loss", "group-skip"}, False),
        (passed(torn(OK, {0, 1, 2}), 2, given=True), [line(12, "z-0")], {"eos-loss"}, False),
    ],
)
def test_a_group_that_passed_what_was_hidden_so_has_the_label(
    tmp_path: Path, built: Built, lines: list[str], classes: set[str], *, labelled: bool
) -> None:
    found = judged(tmp_path / "run", built, *lines).anomalies
    groups = {name: each.known_bug for name, each in found.items() if name in ("eos-loss", "group-skip")}
    assert groups == dict.fromkeys(classes, "KAFKA-20734" if labelled else "")


def hanging(folder: Path, claimed: str, coordinator: int) -> Run:
    """The transaction's record in x stays open; `claimed`: the id under which this node claims it."""
    built = torn(OK, {1, 2})
    for bound in built.bounds:
        if bound.tp == 0 and bound.isolation == Isolation.READ_COMMITTED:
            bound.end = bound.read_to = 0
    tables = built.tables()
    known = {"process": 1, "producer_id": 7, "producer_epoch": 0, "epoch_cnt": 1, "ns": S}
    tables["producers"] = pa.Table.from_pylist([known], schema=TABLES["producers"])
    row = OpenTransaction(
        topic="x",
        partition=0,
        producer_id=7,
        producer_epoch=0,
        start=0,
        coordinator=coordinator,
        transactional_id=claimed,
    )
    opened = TransactionsOpen(ns=92 * S, rows=(row,))
    run = write_run(folder, tables, events=(STARTED, opened, RECOVERED))
    (run.cluster / "2").mkdir(parents=True)
    return run


@pytest.mark.parametrize(
    ("lines", "claimed", "coordinator", "labelled"),
    [
        ([line(12, "x-0")], "", 2, True),
        ([line(12, "x-0")], ID, 2, False),  # its coordinator will still end it
        ([line(12, "x-0")], "", -1, False),  # it did not answer, and may claim it
        ([line(12, "y-0")], "", 2, False),
        ([line(12, "x-0", transactional_id="another")], "", 2, False),
        ([line(9, "x-0")], "", 2, False),  # of a transaction before
        ([line(61, "x-0")], "", 2, False),  # of a later one
        ([], "", 2, False),
    ],
)
def test_a_partition_that_waits_for_its_marker_for_ever(
    tmp_path: Path, lines: list[str], claimed: str, coordinator: int, labelled: bool
) -> None:
    run = hanging(tmp_path / "run", claimed, coordinator)
    (run.cluster / "2" / "server.log").write_text("".join(lines))
    verdict = check_run(run)
    label = "KAFKA-20734" if labelled else ""
    assert {verdict.anomalies[name].known_bug for name in ("stuck-lso", "hanging-txn")} == {label}


RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


@pytest.mark.parametrize(("levels", "label"), [([RC, RC], "KAFKA-20734"), ([RC, RU], ""), ([RU, RU], "")])
def test_nothing_is_hidden_from_a_group_with_a_member_at_read_uncommitted(
    tmp_path: Path, levels: list[Isolation], label: str
) -> None:
    built = passed(torn(OK, {0, 1}), 2)
    for number, level in enumerate(levels, 5):
        built.processes[number] = Process(group=0, slot=number, isolation=level)
    found = judged(tmp_path / "run", built, line(12, "z-0")).anomalies
    assert [found[name].known_bug for name in ("eos-loss", "group-skip")] == [label, label]


@pytest.mark.parametrize(("level", "label"), [(RC, "KAFKA-20734"), (RU, "")])
def test_nothing_is_hidden_from_a_consumer_at_read_uncommitted(
    tmp_path: Path, level: Isolation, label: str
) -> None:
    built = skipping()
    built.processes[3].isolation = level
    skip = judged(tmp_path / "run", built, line(12, "x-0")).anomalies["int-poll-skip"]
    assert skip.disallowed
    assert skip.known_bug == label


def test_a_run_without_brokers_logs_has_none(tmp_path: Path) -> None:
    assert broker_logs(Run(tmp_path)).left_out == []


def skipping(*others: Outcome) -> Built:
    """A consumer polls offsets 0 and 8 of x. Between them are the committed record of the transaction whose
    marker was left out, and records of other transactions."""
    built = torn(OK, {1, 2})
    built.processes[2], built.processes[3] = Process(txn_id=1), Process(slot=3, acks=-2)
    for number, (offset, outcome) in enumerate([(0, OK), (8, OK), *enumerate(others, 2)]):
        begin = (20 + 2 * number) * S
        op = Op(process=2, f="txn", invoke=begin, complete=begin + S, txn=True, outcome=outcome)
        op.mops = [Send(tp=0, value=value_of(2, number), offset=offset, ns=(begin, begin + S))]
        built.ops.append(op)
    (mine, *_) = built.ops
    mine.mops[0] = Send(tp=0, value=value_of(1, 0), offset=1, ns=(10 * S, 11 * S))
    seen: list[Mop] = [Read(tp=0, offset=offset, value=value_of(2, n)) for n, offset in enumerate((0, 8))]
    built.ops.append(Op(process=3, f="poll", invoke=70 * S, complete=71 * S, mops=seen))
    for op in built.ops:
        if op.f == "final":
            logged: list[Mop] = []
            if built.processes[op.process].isolation == Isolation.READ_UNCOMMITTED:
                logged.append(Read(tp=0, offset=1, value=value_of(1, 0)))
                logged += [Read(tp=0, offset=n, value=value_of(2, n)) for n in range(2, 2 + len(others))]
            shown = [mop for mop in op.mops if isinstance(mop, Read) and mop.tp]
            op.mops = [seen[0], *logged, seen[1], *shown]
    return built


@pytest.mark.parametrize(
    ("others", "lines", "labelled"),
    [
        ((), [line(12, "x-0")], True),
        ((FAIL,), [line(12, "x-0")], True),
        ((OK,), [line(12, "x-0")], False),  # another committed record was left out too
        ((), [line(12, "y-0")], False),
        ((), [], False),
    ],
)
def test_a_skip_is_explained_where_each_committed_record_between_is(
    tmp_path: Path, others: tuple[Outcome, ...], lines: list[str], labelled: bool
) -> None:
    skip = judged(tmp_path / "run", skipping(*others), *lines).anomalies["int-poll-skip"]
    assert (skip.allowed, skip.known_bug) == (False, "KAFKA-20734" if labelled else "")


@pytest.mark.parametrize(("left_out", "labelled"), [("z-0", True), ("x-0", False)])
def test_a_record_in_doubt_proves_that_its_transaction_took_effect(
    tmp_path: Path, left_out: str, labelled: bool
) -> None:
    """The transaction is aborted in x and y, and its record in z, which nobody acknowledged, is visible."""
    built = skipping()
    (mine, *_) = built.ops
    mine.outcome = INFO
    mine.mops[2] = Send(tp=2, value=value_of(1, 2), outcome=INFO)
    for op in built.ops:
        if op.f == "final" and built.processes[op.process].isolation == Isolation.READ_COMMITTED:
            op.mops = [mop for mop in op.mops if isinstance(mop, Read) and mop.tp != 1]
    skip = judged(tmp_path / "run", built, line(12, left_out)).anomalies["int-poll-skip"]
    assert (skip.allowed, skip.known_bug) == (False, "KAFKA-20734" if labelled else "")


def test_a_record_that_was_seen_once_and_is_gone_is_not_in_the_log(tmp_path: Path) -> None:
    """A consumer at read_uncommitted had it; the final reads have not."""
    built = torn(OK, {0, 1}, gone={2})
    built.processes[5] = Process(isolation=Isolation.READ_UNCOMMITTED, slot=5, acks=-2)
    poll = Op(process=5, f="poll", invoke=30 * S, complete=31 * S)
    poll.mops = [Read(tp=2, offset=0, value=value_of(1, 2))]
    built.ops.append(poll)
    found = judged(tmp_path / "run", built, line(12, "z-0")).anomalies
    assert {each.known_bug for each in found.values() if each.disallowed} == {""}


@pytest.mark.parametrize("outcome", [OK, INFO])
@pytest.mark.parametrize("hidden", [{2}, set[int]()])
def test_a_skip_of_what_others_can_read_is_another_bug(
    tmp_path: Path, outcome: Outcome, hidden: set[int]
) -> None:
    """The consumer skips the record in x, which everybody else gets, also where that of z is hidden."""
    built = skipping()
    built.ops[0].outcome = outcome
    shown = Read(tp=0, offset=1, value=value_of(1, 0))
    for op in built.ops:
        if op.f == "final" and built.processes[op.process].isolation == Isolation.READ_COMMITTED:
            op.mops = [mop for mop in op.mops if isinstance(mop, Read) and mop.tp not in hidden]
            op.mops.insert(1, shown)
    lines = [line(12, "x-0"), line(12, "z-0")] if not hidden else [line(12, "z-0")]
    skip = judged(tmp_path / "run", built, *lines).anomalies["int-poll-skip"]
    assert (skip.allowed, skip.known_bug) == (False, "")


@pytest.mark.parametrize(("lines", "labelled"), [(["x-0"], False), (["x-0", "y-0"], True)])
def test_where_all_that_is_visible_was_marked_nothing_was_led_astray(
    tmp_path: Path, lines: list[str], labelled: bool
) -> None:
    """The transaction is in doubt; its record in z, which no broker acknowledged, is not in the log. The
    others are visible: committed, or aborted and left out."""
    built = torn(INFO, {0, 1}, gone={2})
    built.ops[0].mops[2] = Send(tp=2, value=value_of(1, 2), outcome=INFO, ns=(10 * S, 11 * S))
    found = judged(tmp_path / "run", built, line(12, *lines)).anomalies["torn-txn"]
    assert found.known_bug == ("KAFKA-20734" if labelled else "")
