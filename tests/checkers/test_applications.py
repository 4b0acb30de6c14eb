"""What an application made of its input: kernel and oracle say the same of random histories.

`INQUEST_SEEDS=5000 pytest tests/checkers/test_applications.py` compares more.
"""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.allowed import Ground
from checkers.catalogue import ANOMALIES
from checkers.windows import Excuse
from core.config import RunConfig, run_config
from core.keys import INPUT_KEYS
from core.op import End, Isolation, Outcome, Phase, value_of
from history.events import PhaseStarted, RecordsDeleted
from tests.checkers.found import check_tables
from tests.checkers.test_windows import START, S, fault
from tests.checkers.undecided import undecided
from tests.histories.built import Built, Commit, Op, Process, Read, Send, final_reads
from tests.histories.folders import check_run, write_run
from tests.histories.random_applications import application
from tests.oracle import anomalies

SEEDS = int(os.environ.get("INQUEST_SEEDS", "300"))
CHUNK = 50
APPS: tuple[dict[str, Any], ...] = ({}, {}, {"shape": "filter"}, {"effects": True, "output": ""})


def config(seed: int) -> RunConfig:
    return run_config({"seed": 0, "workload": "application", "app": APPS[seed % len(APPS)]})


def difference(seed: int) -> str:
    """What the two say differently of one seed; empty if nothing."""
    tables = application(seed)[0].tables()
    tally = check_tables(tables, portable=False, config=config(seed), cap=2**31)
    assert not tally.crashed, tally.crashed
    fast = {each.canonical for each in tally.findings if each.name != "not-recovered"}
    fast |= {("undecided", name) for name in undecided(tally)}
    slow = anomalies.findings(tables, portable=False, config=config(seed))
    slow |= {("undecided", name) for name in anomalies.undecided(tables, portable=False, config=config(seed))}
    only = f"only the kernel: {sorted(fast - slow)}; only the oracle: {sorted(slow - fast)}"
    return "" if fast == slow else f"seed {seed}: {only}"


@pytest.mark.sampled(13)
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_kernel_and_oracle_agree_about_applications(first: int) -> None:
    wrong = [found for seed in range(first, first + CHUNK) if (found := difference(seed))]
    assert wrong == []


@pytest.mark.sampled(16)
def test_each_wrong_is_found_often_and_a_right_application_is_clean() -> None:
    counts: Counter[str] = Counter()
    for seed in range(300):
        built, wrongs = application(seed)
        found = anomalies.findings(built.tables(), portable=False, config=config(seed))
        if not wrongs:
            assert found == set(), seed
        counts.update({str(key[0]) for key in found})
    assert {name: counts[name] for name in ("eos-loss", "eos-duplicate", *anomalies.APPLIED)} == {
        name: counts[name] for name in ("eos-loss", "eos-duplicate", *anomalies.APPLIED) if counts[name] >= 10
    }


def copied(*copies: tuple[int, int, bool], apart: int = 1) -> Built:
    """Two inputs of x, and copies: in which of y and z, of which input, whether its transaction committed.
    apart: how far the values of the inputs are."""
    built = Built(tps=["x", "y", "z"])
    built.processes = {0: Process(), 9: Process(slot=1, group=0, idempotent=False)}
    for offset in (0, 1):
        op = Op(process=0, f="send", invoke=offset * S, complete=offset * S + 1)
        op.mops.append(Send(tp=0, value=value_of(0, offset * apart), offset=offset))
        built.ops.append(op)
    shown: dict[int, list[tuple[int, int]]] = {0: [(at, value_of(0, at * apart)) for at in (0, 1)]}
    shown |= {1: [], 2: []}
    ends = dict.fromkeys(shown, 0)
    for number, (tp, source, committed) in enumerate(copies, 1):
        outcome = Outcome.OK if committed else Outcome.FAIL
        op = Op(process=9, f="send", invoke=5 * S, complete=(5 + number) * S, txn=True, outcome=outcome)
        op.mops.append(Send(tp=tp, value=value_of(9, number), offset=ends[tp], source=(0, source)))
        shown[tp] += [(ends[tp], value_of(9, number))] if committed else []
        ends[tp] += 1
        built.ops.append(op)
    op = Op(process=9, f="send", invoke=30 * S, complete=31 * S)
    op.mops.append(Commit(tp=0, offset=2))
    built.ops.append(op)
    return final_reads(built, shown, end=3)


@pytest.mark.parametrize(
    ("copies", "found"),
    [
        ([(1, 0, True), (2, 1, True)], []),
        ([(1, 0, True), (2, 1, True), (2, 0, True)], [2]),
        ([(2, 0, True), (2, 1, True), (1, 0, True)], [2]),  # of several partitions the higher one
        ([(1, 0, True), (2, 1, True), (2, 0, False)], []),
        ([(1, 0, True), (2, 1, True), (1, 0, True)], [1]),
        (
            [(1, 0, True), (2, 1, True), (2, 0, True), (2, 0, True)],
            [2],
        ),  # once, though it is twice there, too
    ],
)
@pytest.mark.parametrize("power", [False, True])
def test_copies_of_one_input_in_several_partitions_are_one_too_many(
    copies: list[tuple[int, int, bool]], found: list[int], *, power: bool
) -> None:
    tables, its = copied(*copies).tables(), config(0)
    events = [START, *fault("power:all", 20, 1, 2, 3, until=25)] if power else []
    tally = check_tables(tables, portable=False, events=events, config=its)
    twice = [one for one in tally.findings if one.name == "eos-duplicate"]
    assert [one.tp for one in twice] == found
    assert {one.excuse for one in twice} <= {Excuse.POWER if power else Excuse.NONE}
    may = anomalies.variants(tables, portable=False, events=events, config=its)
    assert all((one.variant, one.excuse) in may[one.canonical] for one in twice)
    own = run_config({"seed": 0, "workload": "copier"})  # its copies go where their inputs are
    elsewhere = [
        one
        for one in check_tables(tables, portable=False, config=own).findings
        if one.name == "eos-duplicate"
    ]
    assert len(elsewhere) == sum(copies.count(one) > 1 for one in {*copies})


@pytest.mark.parametrize(
    ("copies", "committed", "found"),
    [
        ([(1, 0, True), (1, 1, True)], 1, [1]),
        ([(1, 0, True), (1, 1, True)], 0, [0, 1]),
        ([(1, 0, True)], 0, []),  # it stood still before the second one: it may have meant to commit both
        ([(1, 0, True), (1, 1, False)], 0, []),
    ],
)
def test_an_application_that_left_input_behind_may_have_meant_to_commit(
    copies: list[tuple[int, int, bool]], committed: int, found: list[int]
) -> None:
    built, settings = copied(*copies), config(0)
    built.processes[10] = Process(slot=1, group=0, idempotent=False)
    built.ops.append(Op(process=10, f="instance", invoke=40 * S, complete=41 * S))
    (commit,) = (mop for op in built.ops for mop in op.mops if isinstance(mop, Commit))
    commit.offset = committed
    tables = built.tables()
    tally = check_tables(tables, portable=False, config=settings)
    assert [one.key[2] for one in tally.findings if one.name == "eos-uncommitted"] == found
    assert ("eos-loss" in undecided(tally)) is not bool(found)
    slow = anomalies.findings(tables, portable=False, config=settings)
    assert sorted(key[3] for key in slow if key[0] == "eos-uncommitted") == found


@pytest.mark.parametrize("workload", ["application", "copier"])
def test_output_was_read_not_sent_in_the_order_of_its_ops(workload: str) -> None:
    """Of a flat-map the copies are one op, and all other records that it wrote the next one."""
    built = copied((1, 0, True), (1, 1, True))
    first, second = (op for op in built.ops if op.process == 9 and op.txn)
    for op, offset in ((first, 1), (second, 0)):
        (send,) = (mop for mop in op.mops if isinstance(mop, Send))
        send.offset = offset
    shown = {0: [(0, value_of(0, 0)), (1, value_of(0, 1))], 1: [(0, value_of(9, 2)), (1, value_of(9, 1))]}
    built.ops = [op for op in built.ops if op.phase is not Phase.FINAL]
    built.bounds, tables = [], final_reads(built, {**shown, 2: []}, end=3).tables()
    settings: dict[str, Any] = {"seed": 0, "workload": workload}
    its = run_config(settings | ({"app": {}} if workload == "application" else {}))
    found = [one.name for one in check_tables(tables, portable=False, config=its).findings]
    slow = [key[0] for key in anomalies.findings(tables, portable=False, config=its)]
    assert ("nonmonotonic-send" in found) is ("nonmonotonic-send" in slow) is (workload == "copier")


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(
    ("copies", "found"), [([(1, 1, True), (1, 0, True)], [(1, 0, 0, 0)]), ([(1, 0, True), (1, 1, True)], [])]
)
def test_of_a_cut_application_no_order_is_asked(
    copies: list[tuple[int, int, bool]], found: list[tuple[int, ...]], *, cut: bool
) -> None:
    """A copy that would keep the order may be in the lines that are missing."""
    built = copied(*copies, apart=INPUT_KEYS)
    built.processes[9].end = End.CRASHED if cut else End.CLOSED
    tables, its = built.tables(), config(0)
    events = [PhaseStarted(ns=1, phase=Phase.FAULTS), PhaseStarted(ns=90 * S, phase=Phase.COLLECT)]
    tally = check_tables(tables, portable=False, events=events, config=its)
    wanted = [] if cut else found
    assert [one.key for one in tally.findings if one.name == "nonmonotonic-copy"] == wanted
    slow = anomalies.findings(tables, portable=False, events=events, config=its)
    assert [key[1:] for key in slow if key[0] == "nonmonotonic-copy"] == wanted


@pytest.mark.parametrize(
    ("topic", "start", "settings", "lost", "deleted_ns", "copy"),
    [
        ("none", 0, {}, True, 20 * S, 1),
        ("y", 1, {}, False, 20 * S, 1),  # the copy may have been there
        ("y", 1, {}, False, 0, 1),  # the input had just been sent
        ("y", 1, {}, False, S, 0),
        ("y", 1, {}, True, S - 1, 0),  # the input was sent later than what was deleted
        ("z", 0, {}, True, 20 * S, 1),  # of another topic
        # without retention nothing else removes records: the log lost its beginning
        ("none", 1, {}, True, 20 * S, 1),
        ("none", 1, {"topic_settings": {"retention.ms": "1000"}}, False, 20 * S, 1),
        ("y", 1, {"topic_settings": {"retention.ms": "1000"}}, False, 0, 0),
        ("none", 0, {"topic_settings": {"retention.ms": "1000"}}, True, 20 * S, 1),
    ],
)
def test_a_copy_that_may_have_been_removed_is_not_lost(
    topic: str, start: int, settings: dict[str, Any], *, lost: bool, deleted_ns: int, copy: int
) -> None:
    """Of two inputs, sent at 0 s and 1 s, one has a copy, in a partition of the output that begins there."""
    built = copied((1, copy, True))
    built.bounds = [replace(one, start=start if one.tp == 1 else 0) for one in built.bounds]
    app = {"input": "x", "output": "y"}
    its = run_config({"seed": 0, "workload": "application", "app": app, **settings})
    tables, events = built.tables(), [RecordsDeleted(ns=deleted_ns, fault=0, offsets={f"{topic}-0": 1})]
    tally = check_tables(tables, portable=False, events=events, config=its)
    key = (0, 0, 1 - copy)
    assert [one.key for one in tally.findings if one.name == "eos-loss"] == [key] * lost
    assert any(doubt.check == "exactly-once" for doubt in tally.doubts) is not lost
    slow = anomalies.findings(tables, portable=False, events=events, config=its)
    assert [one[1:] for one in slow if one[0] == "eos-loss"] == [key] * lost
    unsure = anomalies.undecided(tables, portable=False, events=events, config=its)
    assert ("eos-loss" in unsure) is not lost


@pytest.mark.parametrize(("again_ns", "lost"), [(S // 2, False), (3 * S // 2, True)])
def test_of_two_records_at_one_offset_the_earlier_one_may_have_had_the_removed_copy(
    again_ns: int, *, lost: bool
) -> None:
    """The input at offset 1 was sent at 1 s, after what was removed; another record is acknowledged there."""
    built = copied((1, 0, True))
    built.bounds = [replace(one, start=int(one.tp == 1)) for one in built.bounds]
    op = Op(process=0, f="send", invoke=again_ns, complete=again_ns + 1)
    op.mops.append(Send(tp=0, value=value_of(0, 7), offset=1))
    built.ops.append(op)
    its = run_config({"seed": 0, "workload": "application", "app": {"input": "x", "output": "y"}})
    tables, events = built.tables(), [RecordsDeleted(ns=S - 1, fault=0, offsets={"y-0": 1})]
    tally = check_tables(tables, portable=False, events=events, config=its)
    assert ("eos-loss" in {one.name for one in tally.findings}) is lost
    assert ("eos-loss" in undecided(tally)) is not lost
    slow = anomalies.findings(tables, portable=False, events=events, config=its)
    assert ("eos-loss" in {str(key[0]) for key in slow}) is lost
    unsure = anomalies.undecided(tables, portable=False, events=events, config=its)
    assert ("eos-loss" in unsure) is not lost


@pytest.mark.parametrize(
    ("topic", "start", "settings", "found", "deleted_ns"),
    [
        ("none", 0, {}, True, 20 * S),
        (
            "y",
            1,
            {},
            False,
            20 * S,
        ),  # a copy of the first input may have been there, before that of the second
        ("y", 1, {}, False, 0),  # the first input had just been sent
        ("y", 1, {}, True, -1),
        ("z", 0, {}, True, 20 * S),  # of another topic
        ("none", 1, {}, True, 20 * S),  # without retention nothing else removes records
        ("none", 1, {"topic_settings": {"retention.ms": "1000"}}, False, 0),
        ("none", 0, {"topic_settings": {"retention.ms": "1000"}}, True, 0),
    ],
)
def test_a_copy_that_may_have_been_removed_kept_the_order(
    topic: str, start: int, settings: dict[str, Any], *, found: bool, deleted_ns: int
) -> None:
    """Of two inputs of one key, sent at 0 s and 1 s, the copies stand the other way round."""
    built = copied((1, 1, True), (1, 0, True), apart=INPUT_KEYS)
    built.bounds = [replace(one, start=start if one.tp == 1 else 0) for one in built.bounds]
    app = {"input": "x", "output": "y"}
    its = run_config({"seed": 0, "workload": "application", "app": app, **settings})
    tables, events = built.tables(), [RecordsDeleted(ns=deleted_ns, fault=0, offsets={f"{topic}-0": 1})]
    tally = check_tables(tables, portable=False, events=events, config=its)
    assert ("nonmonotonic-copy" in {one.name for one in tally.findings}) is found
    assert ("nonmonotonic-copy" in undecided(tally)) is not found
    slow = anomalies.findings(tables, portable=False, events=events, config=its)
    assert ("nonmonotonic-copy" in {str(key[0]) for key in slow}) is found
    unsure = anomalies.undecided(tables, portable=False, events=events, config=its)
    assert ("nonmonotonic-copy" in unsure) is not found


@pytest.mark.parametrize(("hiding", "found"), [(None, True), (0, True), (1, False), (2, True)])
def test_behind_an_open_transaction_there_may_be_copies(hiding: int | None, *, found: bool) -> None:
    """Of three inputs of one key the last is not copied, and the others are in the wrong order. In one
    partition, of the input, the output or another topic (a changelog, which is not read), the last stable
    offset is below the end."""
    built = copied((1, 1, True), (1, 0, True), apart=INPUT_KEYS)
    its = run_config({"seed": 0, "workload": "application", "app": {"input": "x", "output": "y"}})
    op = Op(process=0, f="send", invoke=2 * S, complete=2 * S + 1)
    op.mops.append(Send(tp=0, value=value_of(0, 2 * INPUT_KEYS), offset=2))
    built.ops.append(op)
    (commit,) = (mop for op in built.ops for mop in op.mops if isinstance(mop, Commit))
    commit.offset = 3
    for op in built.ops:
        if op.phase is Phase.FINAL:
            op.mops.append(Read(tp=0, offset=2, value=value_of(0, 2 * INPUT_KEYS)))
    of = [(hiding, Isolation.READ_UNCOMMITTED)]
    built.bounds = [replace(one, end=4) if (one.tp, one.isolation) in of else one for one in built.bounds]
    tables = built.tables()
    tally = check_tables(tables, portable=False, config=its)
    names = {"eos-loss", "nonmonotonic-copy"}
    assert {one.name for one in tally.findings} & names == (names if found else set())
    slow = anomalies.findings(tables, portable=False, config=its)
    assert {str(one[0]) for one in slow} & names == (names if found else set())
    open_ = ({"eos-loss"} if hiding in (0, 1) else set()) | (set() if found else names)
    assert undecided(tally) & names == open_
    assert anomalies.undecided(tables, portable=False, config=its) & names == open_


@pytest.mark.parametrize(
    ("app", "copies", "decided"),
    [
        ({"shape": "filter"}, [], False),
        ({"shape": "filter"}, [(1, 0, False)], False),  # its transaction was aborted
        ({"shape": "filter"}, [(1, 0, True)], True),
        ({"shape": "flat-map"}, [], False),
        ({"shape": "flat-map", "outputs": 2}, [], True),  # each input record is lost
        ({}, [], True),
    ],
)
def test_an_application_that_may_omit_records_has_to_make_something_of_one(
    app: dict[str, Any], copies: list[tuple[int, int, bool]], *, decided: bool
) -> None:
    tables, its = copied(*copies).tables(), run_config({"seed": 0, "workload": "application", "app": app})
    tally = check_tables(tables, portable=False, config=its)
    assert ("eos-loss" not in undecided(tally)) is decided
    assert ("eos-loss" not in anomalies.undecided(tables, portable=False, config=its)) is decided
    lost = [one.key[2] for one in tally.findings if one.name == "eos-loss"]
    assert lost == [0, 1][any(committed for *_, committed in copies) :]


def test_copies_in_several_partitions_are_shown(tmp_path: Path) -> None:
    built = copied((1, 0, True), (2, 1, True), (2, 0, True))
    settings = {"workload": "application", "app": {}}
    verdict = check_run(write_run(tmp_path / "run", built.tables(), settings=settings))
    found = verdict.anomalies["eos-duplicate"]
    assert "offset 0 of x-0 into committed output of several partitions" in str(found)
    assert "offset 0 of y-0, offset 1 of z-0" in str(found)


@pytest.mark.parametrize(
    ("name", "commit", "excuse", "allowed"),
    [
        ("nonmonotonic-copy", "transaction", Excuse.NONE, False),
        ("nonmonotonic-copy", "after", Excuse.NONE, False),
        ("nonmonotonic-copy", "before", Excuse.NONE, True),
        ("nonmonotonic-copy", "beside", Excuse.NONE, True),
        ("nonmonotonic-copy", "automatic-beside", Excuse.NONE, True),
        ("nonmonotonic-copy", "without-rewind", Excuse.NONE, False),
        ("nonmonotonic-copy", "after", Excuse.POWER, True),
        ("eos-uncommitted", "transaction", Excuse.NONE, False),
        ("eos-uncommitted", "before", Excuse.NONE, False),
        ("eos-uncommitted", "after", Excuse.NONE, True),
        ("eos-uncommitted", "beside", Excuse.NONE, False),
        ("eos-uncommitted", "automatic-beside", Excuse.NONE, True),
        ("eos-uncommitted", "transaction", Excuse.POWER, True),
    ],
)
def test_where_it_is_permitted(name: str, commit: str, excuse: Excuse, allowed: bool) -> None:
    assert ANOMALIES[name].rule(Ground(commit=commit, excuse=excuse), "")[0] is allowed
