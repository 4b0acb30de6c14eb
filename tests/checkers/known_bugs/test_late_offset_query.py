"""The label outdated-offset-query: two assignments, or two steps of a rebalance, nothing between them, and
half a second."""

from pathlib import Path
from typing import Any

import pytest

from core.op import AssignmentKind, CommitKind
from tests.histories.built import Assign, Built, Commit, Op, Process, Read, Send, final_reads
from tests.histories.folders import check_run, write_run

MS = 1_000_000
MANUAL, BEGINNING = AssignmentKind.MANUAL, AssignmentKind.BEGINNING
ASSIGNED, REVOKED = AssignmentKind.ASSIGNED, AssignmentKind.REVOKED

IMPORTED = {
    "sut": "imported",
    "imported": {"format": "jsonl", "on_record": ["final_reads", "from_start", "positions", "commits"]},
}
"""Which client it was is not on record."""


def story(*, between: bool = False, begins: bool = True, again_ms: int = 1500, back: int = 0) -> Built:
    """Three records; a consumer assigns x at 1 s, and at `again_ms`, is given all of them at 2 s, and from
    offset `back` on at 2.2 s. between: it was given the first one before it assigned x again. begins: it
    asked for the beginning."""
    built = Built(tps=["x"])
    built.processes[1] = Process(acks=-2, slot=1)
    send = Op(process=0, f="send", invoke=100 * MS, complete=200 * MS)
    send.mops = [Send(tp=0, value=10 + at, offset=at) for at in range(3)]
    at_the_beginning = [Assign(tp=0, kind=BEGINNING)] if begins else []
    first = Op(process=1, f="assign", invoke=1000 * MS, complete=1001 * MS)
    first.mops = [Assign(tp=0, kind=MANUAL), *at_the_beginning]
    second = Op(process=1, f="assign", invoke=again_ms * MS, complete=(again_ms + 1) * MS)
    second.mops = [Assign(tp=0, kind=MANUAL, kept=True), *at_the_beginning]
    built.ops = [send, first, second]
    if between:
        built.ops.append(poll(again_ms - 100, 0))
    built.ops += [poll(2000, *range(between, 3)), poll(2200, back)]
    return final_reads(built, {0: [(at, 10 + at) for at in range(3)]}, end=3)


def poll(at_ms: int, *offsets: int) -> Op:
    op = Op(process=1, f="poll", invoke=(at_ms - 5) * MS, complete=at_ms * MS)
    op.mops = [Read(tp=0, offset=at, value=10 + at) for at in offsets]
    return op


def label(folder: Path, built: Built, settings: dict[str, Any]) -> str:
    """The label of the only class that is found."""
    found = check_run(write_run(folder, built.tables(), settings=settings)).anomalies
    assert {name for name, each in found.items() if each.disallowed} == {"nonmonotonic-poll"}
    return found["nonmonotonic-poll"].examples[0].known_bug


@pytest.mark.parametrize(
    ("built", "settings", "labelled"),
    [
        (story(), {}, True),
        (story(again_ms=1699), {}, True),
        (story(again_ms=1701), {}, False),  # sooner than the timer
        (story(between=True), {}, False),  # the first one was answered
        (story(begins=False), {}, False),
        (story(back=1), {}, False),  # not the first record
        (story(), {"clients": "command"}, False),
        (story(), {"clients": "librdkafka"}, True),
        (story(), IMPORTED, False),
    ],
)
def test_the_label_needs_an_answer_that_a_new_assignment_made_outdated(
    tmp_path: Path, built: Built, settings: dict[str, Any], *, labelled: bool
) -> None:
    assert label(tmp_path, built, settings) == ("outdated-offset-query" if labelled else "")


def rebalanced(
    *, between: bool = False, committed_ms: int = 1900, again_ms: int = 1500, kind: AssignmentKind = REVOKED
) -> Built:
    """A group gives a member x and y at 1 s, and takes y back at `again_ms`; all of x comes at 2 s, and
    the first one again at 2.2 s. committed_ms: when it commits its offset of x. kind: what
    happens to y then."""
    built = Built(tps=["x", "y"])
    built.processes[1] = Process(acks=-2, slot=1, group=0)
    send = Op(process=0, f="send", invoke=100 * MS, complete=200 * MS)
    send.mops = [Send(tp=0, value=10 + at, offset=at) for at in range(3)]
    given = Op(process=1, f="poll", invoke=1000 * MS, complete=1001 * MS)
    given.mops = [Assign(tp=0, kind=ASSIGNED), Assign(tp=1, kind=ASSIGNED)]
    taken = Op(process=1, f="poll", invoke=again_ms * MS, complete=(again_ms + 1) * MS)
    taken.mops = [Assign(tp=1, kind=kind, kept=True)]
    commit = Op(process=1, f="poll", invoke=committed_ms * MS, complete=(committed_ms + 1) * MS)
    commit.mops = [Commit(tp=0, offset=0)]
    built.ops = [send, given, taken, commit, poll(2000, *range(between, 3)), poll(2200, 0)]
    if between:
        built.ops.append(poll(again_ms - 100, 0))
    built.ops.sort(key=lambda op: op.invoke)
    return final_reads(built, {0: [(at, 10 + at) for at in range(3)], 1: []}, end=3)


@pytest.mark.parametrize(
    ("built", "settings", "labelled"),
    [
        (rebalanced(), {}, True),
        (rebalanced(kind=ASSIGNED), {}, True),
        (rebalanced(kind=AssignmentKind.LOST), {}, True),
        (rebalanced(kind=AssignmentKind.RESET), {}, False),  # no step: x is not paused
        (rebalanced(kind=AssignmentKind.REWIND), {}, False),
        (rebalanced(again_ms=1699), {}, True),
        (rebalanced(again_ms=1701), {}, False),  # sooner than the timer
        (rebalanced(between=True), {}, False),  # the question was answered
        (rebalanced(committed_ms=500), {}, False),  # it began where the group stood
        (rebalanced(again_ms=900), {}, False),  # before it had the partition
        (rebalanced(), {"clients": "command"}, False),
        (rebalanced(), IMPORTED, False),
    ],
)
def test_the_label_needs_a_step_of_a_rebalance_that_made_an_answer_outdated(
    tmp_path: Path, built: Built, settings: dict[str, Any], *, labelled: bool
) -> None:
    assert label(tmp_path, built, settings) == ("outdated-offset-query" if labelled else "")


def more_backs(built: Built, *backs_ms: int) -> Built:
    """Further steps back: the consumer is given the records behind the first one, and that one again."""
    for at_ms in backs_ms:
        built.ops += [poll(at_ms - 100, 1, 2), poll(at_ms, 0)]
    built.ops.sort(key=lambda op: (op.f == "final", op.invoke))
    return built


def assigned_thrice() -> Built:
    """The consumer of `story` assigns x once more, at 1.6 s."""
    built = story()
    third = Op(process=1, f="assign", invoke=1600 * MS, complete=1601 * MS)
    third.mops = [Assign(tp=0, kind=MANUAL, kept=True), Assign(tp=0, kind=BEGINNING)]
    built.ops.append(third)
    return built


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (more_backs(story(), 2900, 9000), (1, 3)),
        (more_backs(rebalanced(), 2900, 9000), (1, 3)),
        (more_backs(assigned_thrice(), 2900), (2, 2)),
        (more_backs(assigned_thrice(), 2900, 9000), (2, 3)),
    ],
)
def test_an_outdated_answer_explains_one_step_back(
    tmp_path: Path, built: Built, expected: tuple[int, int]
) -> None:
    """The first ones, in the order of the answers; how many have the label, of how many."""
    found = check_run(write_run(tmp_path, built.tables())).anomalies["nonmonotonic-poll"]
    labels = [one.known_bug for one in sorted(found.examples, key=lambda one: one.at_s or 0)]
    assert (labels.count("outdated-offset-query"), len(labels)) == expected
    assert labels[: expected[0]] == ["outdated-offset-query"] * expected[0]


def copier(*, again_ms: int = 1500, heir: bool = False, thrice: bool = False) -> Built:
    """The member of `rebalanced` copies x to z: all of it at 2 s, and the first two records again at 2.2 s.
    heir: then it is another process that copies them, after it was thrown back likewise. thrice: the
    application moves its position there, and copies them once more."""
    built = Built(tps=["x", "y", "z"])
    send = Op(process=0, f="send", invoke=100 * MS, complete=200 * MS)
    send.mops = [Send(tp=0, value=10 + at, offset=at) for at in range(3)]
    built.ops, made = [send], list[tuple[int, int]]()
    for process in (1, 2) if heir else (1,):
        built.processes[process] = Process(slot=process, group=0)
        given = Op(process=process, f="poll", invoke=1000 * MS, complete=1001 * MS)
        given.mops = [Assign(tp=0, kind=ASSIGNED), Assign(tp=1, kind=ASSIGNED)]
        taken = Op(process=process, f="poll", invoke=again_ms * MS, complete=(again_ms + 1) * MS)
        taken.mops = [Assign(tp=1, kind=REVOKED, kept=True)]
        built.ops += [given, taken]
    copying = [(1, 2000, (0, 1, 2)), (2 if heir else 1, 2200, (0, 1))]
    for process, at_ms, offsets in [*copying, (1, 2300, (0, 1))][: 3 if thrice else 2]:
        op = Op(process=process, f="txn", invoke=(at_ms - 5) * MS, complete=at_ms * MS, txn=True)
        if at_ms == 2300:
            op.mops.append(Assign(tp=0, kind=MANUAL))
        op.mops += [Read(tp=0, offset=at, value=10 + at) for at in offsets]
        for at in offsets:
            made.append((len(made), 1000 * process + len(made)))
            op.mops.append(Send(tp=2, value=made[-1][1], offset=made[-1][0], source=(0, at)))
        op.mops.append(Commit(tp=0, offset=offsets[-1] + 1, kind=CommitKind.TXN, generation=1))
        built.ops.append(op)
    final_reads(built, {0: [(at, 10 + at) for at in range(3)], 1: []}, end=3)
    return final_reads(built, {2: made}, end=len(made), at_s=92)


def test_what_a_member_copies_again_and_commits_again_follows_from_its_step_back(tmp_path: Path) -> None:
    found = check_run(write_run(tmp_path, copier().tables())).anomalies
    labels = {name: (one.disallowed, one.known_bug) for name, one in found.items() if one.disallowed}
    bug = "outdated-offset-query"
    assert labels == {
        "nonmonotonic-poll": (1, bug), "eos-duplicate": (2, bug), "offset-commit-regression": (1, bug)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("built", "duplicates"),
    [
        (copier(again_ms=1701), 2),  # sooner than the timer
        (copier(heir=True), 2),  # it did not make both copies
        (copier(thrice=True), 2),  # once more, after another step back
    ],
)
def test_what_was_copied_again_without_such_a_step_has_another_cause(
    tmp_path: Path, built: Built, duplicates: int
) -> None:
    found = check_run(write_run(tmp_path, built.tables())).anomalies["eos-duplicate"]
    assert (found.disallowed, found.known_bug) == (duplicates, "")


def test_a_row_that_the_database_should_have_refused_is_no_work_of_the_client(tmp_path: Path) -> None:
    """The member of a sink offers its rows again after its step back; what keeps them out is the database."""
    settings = {"workload": "sink", "sink": "unique-id"}
    found = check_run(write_run(tmp_path, copier().tables(), settings=settings)).anomalies
    assert (found["eos-duplicate"].disallowed, found["eos-duplicate"].known_bug) == (2, "")
    assert found["nonmonotonic-poll"].known_bug == "outdated-offset-query"


def test_what_a_coordinator_forgot_is_no_work_of_the_client(tmp_path: Path) -> None:
    """The member commits nothing after its step back, and a coordinator answers an offset that nothing had
    committed."""
    built = copier()
    again = [op for op in built.ops if op.f == "txn"][-1]
    again.mops = [mop for mop in again.mops if not isinstance(mop, Commit)]
    asked = Op(process=1, f="poll", invoke=2400 * MS, complete=2401 * MS)
    asked.mops = [Commit(tp=0, offset=1, kind=CommitKind.FETCHED)]
    built.ops.append(asked)
    found = check_run(write_run(tmp_path, built.tables())).anomalies["offset-commit-regression"]
    assert [("was given offset 1" in one.sentence, one.known_bug) for one in found.examples] == [(True, "")]
