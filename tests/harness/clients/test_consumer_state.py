"""What an op may copy, commit and undo of what it polled, with partitions that come and go meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from core.op import (
    Assign,
    AssignmentKind,
    CommitKind,
    CommitOffsets,
    Copy,
    Mop,
    Op,
    Outcome,
    Poll,
    SendOffsets,
    Subscribe,
    TopicPartition,
)
from core.runtime import run_blocking
from core.session import (
    Acked,
    AssignmentEvent,
    AutoCommitted,
    Definite,
    Failed,
    Fetched,
    Indefinite,
    SessionEvent,
    Unknown,
)
from harness.clients.executor import TAKEN_AWAY, Client
from history import journal as j
from tests.histories.script import OTHER, TP, Script, fetched, invoke, journaled, scripted, sends

ASSIGNED, REVOKED, LOST = AssignmentKind.ASSIGNED, AssignmentKind.REVOKED, AssignmentKind.LOST
COPY = Copy("out", 100, 10)


class Polls(Script):
    """A session that gives these polls, each with the events that it brings."""

    def __init__(self, *polls: tuple[list[Fetched], list[SessionEvent]], **answers: Any) -> None:
        super().__init__(**answers)
        self.polls = list(polls)
        self.pending: list[SessionEvent] = []

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        self.calls.append(("poll",))
        records, self.pending = self.polls.pop(0)
        return records

    def events(self) -> list[SessionEvent]:
        found, self.pending = self.pending, []
        return found


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return scripted(tmp_path)


def change(kind: AssignmentKind, *tps: TopicPartition, after: int = 0) -> AssignmentEvent:
    return AssignmentEvent(kind=kind, tps=tps, generation=1, ns=5, after=after)


def copying(*mops: Mop, abort: bool = False) -> Op:
    return Op(f="copy", mops=mops, txn=True, abort=abort)


def run(client: Client, session: Script, op: Op) -> tuple[Outcome, str, bool]:
    client.session = session
    done = run_blocking(client.invoke(op))
    return done.outcome, done.error, done.replace


def sent(session: Script) -> list[tuple[str, int, int]]:
    return [(r.tp.topic, r.tp.partition, r.value) for r in session.sent]


OK = (Outcome.OK, "", False)


def test_each_record_is_copied_to_the_same_partition_and_told_before_it_is_sent(
    client: Client, tmp_path: Path
) -> None:
    order: list[str] = []

    def send(values: list[int]) -> list[Acked]:
        order.extend(type(line).__name__ for line in journaled(client, tmp_path, j.Polled, j.Copying))
        return [Acked(9, 1) for _ in values]

    foreign = Fetched(TP, 4, b"x", 0)
    records = [*fetched(3), foreign, *fetched(5), *fetched(8, tp=OTHER)]
    session = Polls((records, []), send=send)
    assert run(client, session, copying(*sends(1), Poll(), COPY)) == OK
    assert sent(session)[1:] == [("out", 0, 100), ("out", 0, 101), ("out", 1, 102)]
    assert order[-2:] == ["Polled", "Copying"]
    (line,) = journaled(client, tmp_path, j.Copying)
    assert line.records == [
        ("out", 0, 100, "t", 0, 3),
        ("out", 0, 101, "t", 0, 5),
        ("out", 1, 102, "t", 1, 8),
    ]
    results = journaled(client, tmp_path, j.SendResults)[-1]
    assert (line.mop, results.mop, len(results.results)) == (2, 2, 3)
    assert client.progress.sent == 4


def test_where_nothing_was_polled_nothing_is_copied_or_offered(client: Client, tmp_path: Path) -> None:
    session = Polls(([], []), position={TP: 7})
    assert run(client, session, copying(Poll(), COPY, SendOffsets())) == OK
    assert [call[0] for call in session.calls] == ["begin", "poll", "position", "commit"]
    assert not journaled(client, tmp_path, j.Copying, j.SendResults, j.OffsetsCommitted)


def test_a_transaction_in_which_a_copy_is_refused_is_aborted(client: Client) -> None:
    session = Polls((fetched(2, 3), []), position={TP: 4}, send=[Acked(9, 1), Failed("_QUEUE_FULL")])
    done = run(client, session, copying(Poll(), COPY, SendOffsets()))
    assert done == (Outcome.FAIL, "_QUEUE_FULL", False)
    assert [call[0] for call in session.calls] == ["begin", "poll", "send", "abort", "seek"]


def test_an_op_copies_what_it_polled_itself(client: Client) -> None:
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched(0, 1))
    session = Polls((fetched(2), []), position={TP: 3})
    assert run(client, session, copying(Poll(), COPY, SendOffsets())) == OK
    assert len(session.sent) == 1


def test_more_records_than_there_are_values_for_are_a_fault_of_the_harness(client: Client) -> None:
    session = Polls((fetched(0, 1), []))
    with pytest.raises(AssertionError, match="values"):
        run(client, session, copying(Poll(), Copy("out", 100, 1)))


@pytest.mark.parametrize(
    ("positions", "offered"),
    [
        ({TP: 5, OTHER: 9}, {TP: 5}),  # OTHER was polled by no op
        ({TP: 7}, {TP: 7}),  # past a control record
        ({TP: -1}, {TP: 5}),
        ({TP: 2}, {TP: 5}),
        ({}, {}),
    ],
)
def test_positions_are_offered_of_what_the_op_polled(
    client: Client, positions: dict[TopicPartition, int], offered: dict[TopicPartition, int]
) -> None:
    session = Polls((fetched(3, 4), []), position=positions)
    assert run(client, session, copying(Poll(), SendOffsets())) == OK
    assert [call[1:] for call in session.calls if call[0] == "send_offsets"] == (
        [(offered,)] if offered else []
    )


@pytest.mark.parametrize("kind", [REVOKED, LOST, ASSIGNED])
def test_a_partition_that_changes_hands_takes_its_records_with_it(
    client: Client, kind: AssignmentKind
) -> None:
    session = Polls(
        ([*fetched(3), *fetched(8, tp=OTHER)], []),
        (fetched(9, tp=OTHER), [change(kind, TP)]),
        position={TP: 4, OTHER: 10},
    )
    assert run(client, session, copying(Poll(), Poll(), COPY, SendOffsets())) == OK
    assert sent(session) == [("out", 1, 100), ("out", 1, 101)]
    assert ("send_offsets", {OTHER: 10}) in session.calls


def test_records_after_the_rebalance_in_the_same_poll_are_the_new_owner_s(
    client: Client, tmp_path: Path
) -> None:
    events: list[SessionEvent] = [change(REVOKED, TP, after=1), change(ASSIGNED, TP, after=1)]
    session = Polls((fetched(5, 3, 4), events), position={TP: 5})
    assert run(client, session, copying(Poll(), COPY, SendOffsets())) == OK
    assert len(session.sent) == 2
    found = journaled(client, tmp_path, j.Polled, j.AssignmentChanged)
    assert [x.runs[0][2] if isinstance(x, j.Polled) else x.kind for x in found] == [
        [5],
        REVOKED,
        ASSIGNED,
        [3, 4],
    ]


def test_a_last_rebalance_of_a_poll_is_followed_by_no_empty_line(client: Client, tmp_path: Path) -> None:
    run(client, Polls((fetched(5), [change(REVOKED, TP, after=1)])), Op(f="poll", mops=(Poll(),)))
    found = journaled(client, tmp_path, j.Polled, j.AssignmentChanged)
    assert [type(line) for line in found] == [j.Polled, j.AssignmentChanged]


def test_records_that_come_after_their_partition_was_taken_away_are_not_copied(client: Client) -> None:
    session = Polls((fetched(5), [change(REVOKED, TP)]), position={})
    assert run(client, session, copying(Poll(), COPY, SendOffsets())) == OK
    assert session.sent == []


@pytest.mark.parametrize("again", [True, False])
def test_copies_without_their_offsets_are_aborted(client: Client, again: bool) -> None:
    events: list[SessionEvent] = [change(REVOKED, TP)]
    if again:
        events.append(change(ASSIGNED, TP))
    session = Polls((fetched(3), []), (fetched(3) if again else [], events), position={TP: 4})
    outcome = run(client, session, copying(Poll(), COPY, Poll(), SendOffsets()))
    assert outcome == (Outcome.FAIL, TAKEN_AWAY, False)
    assert not any(call[0] in ("send_offsets", "commit") for call in session.calls)


@pytest.mark.parametrize("commit", [SendOffsets(), CommitOffsets()])
def test_copies_of_a_partition_that_the_client_no_longer_has_are_aborted(
    client: Client, commit: SendOffsets | CommitOffsets
) -> None:
    """Also where the offsets are committed beside the transaction: it would copy again what they lack."""
    session = Polls((fetched(3), []), position={})
    assert run(client, session, copying(Poll(), COPY, commit))[1] == TAKEN_AWAY
    assert not any(call[0] in ("send_offsets", "commit_offsets", "commit") for call in session.calls)


# undoing


def test_an_abort_takes_a_member_of_a_group_back(client: Client, tmp_path: Path) -> None:
    client.session = Script()
    run_blocking(client.invoke(Op(f="subscribe", mops=(Subscribe(("t",)),))))
    session = Polls(
        (fetched(2, 3), [change(ASSIGNED, TP, OTHER)]), (fetched(8, tp=OTHER), []), (fetched(4), [])
    )
    outcome = run(client, session, copying(Poll(), Poll(), Poll(), COPY, abort=True))
    assert outcome == (Outcome.FAIL, "", False)
    assert session.calls[-1] == ("seek", {TP: 2, OTHER: 8})
    (rewind,) = [
        line
        for line in journaled(client, tmp_path, j.AssignmentChanged)
        if line.kind is AssignmentKind.REWIND
    ]
    assert rewind.tps == [("t", 0), ("t", 1)]


def test_an_abort_leaves_alone_what_was_taken_away_or_not_polled(client: Client, tmp_path: Path) -> None:
    session = Polls(
        ([*fetched(2), *fetched(8, tp=OTHER)], []),
        (fetched(1), [change(REVOKED, TP, OTHER), change(ASSIGNED, TP)]),
        ([], []),
    )
    run(client, session, copying(Poll(), Poll(), abort=True))
    assert session.calls[-1] == ("seek", {TP: 1})
    run(client, session, copying(Poll(), abort=True))
    assert [call[0] for call in session.calls[-3:]] == ["begin", "poll", "abort"]


def test_a_reader_that_was_reset_goes_back_to_its_lowest_record(client: Client) -> None:
    reset = AssignmentEvent(kind=AssignmentKind.RESET, tps=(TP,), generation=-1, ns=5)
    session = Polls((fetched(8, 9, 5, 6), [reset]))
    run(client, session, copying(Poll(), abort=True))
    assert session.calls[-1] == ("seek", {TP: 5})


def test_a_reader_that_cannot_go_back_is_replaced(client: Client, tmp_path: Path) -> None:
    session = Polls((fetched(2), []), seek=Indefinite("_TIMED_OUT"))
    assert run(client, session, copying(Poll(), abort=True)) == (Outcome.FAIL, "", True)
    assert not journaled(client, tmp_path, j.AssignmentChanged)


def test_after_going_back_an_assignment_by_hand_goes_on_from_there(client: Client) -> None:
    invoke(client, Op(f="assign", mops=(Assign((TP,)),)))
    run(client, Polls((fetched(2, 3), [])), copying(Poll(), abort=True))
    session = Script()
    run(client, session, Op(f="assign", mops=(Assign((TP,)),)))
    assert session.calls == [("assign", {TP: 2})]


@pytest.mark.parametrize("mode", ["without-rewind", "beside", "automatic-beside"])
def test_some_copiers_read_on_after_an_abort(client: Client, mode: str, tmp_path: Path) -> None:
    client.config = client.config.model_copy(update={"commit": mode})
    session = Polls((fetched(2), []), position={TP: 3})
    assert run(client, session, copying(Poll(), COPY, abort=True)) == (Outcome.FAIL, "", False)
    assert session.calls[-1][0] == "abort"
    assert not journaled(client, tmp_path, j.AssignmentChanged)


def test_offsets_committed_beside_a_transaction_outlive_its_abort(client: Client, tmp_path: Path) -> None:
    session = Polls((fetched(2), []), position={TP: 3})
    outcome = run(client, session, copying(Poll(), COPY, CommitOffsets(), abort=True))
    assert outcome == (Outcome.FAIL, "", False)
    (line,) = journaled(client, tmp_path, j.OffsetsCommitted)
    assert (line.kind, line.outcome, line.offsets) == (CommitKind.SYNC, Outcome.OK, [("t", 0, 3)])


def test_a_transaction_whose_offsets_are_refused_beside_it_is_aborted(client: Client) -> None:
    refused = Definite("ILLEGAL_GENERATION")
    session = Polls((fetched(2), []), position={TP: 3}, commit_offsets=refused)
    outcome = run(client, session, copying(Poll(), COPY, CommitOffsets()))
    assert outcome == (Outcome.FAIL, "ILLEGAL_GENERATION", False)
    assert "commit" not in [call[0] for call in session.calls]


# without a transaction


@pytest.mark.parametrize(
    ("delivery", "outcome", "replace"),
    [
        (Acked(0, 1), Outcome.OK, False),
        (Failed("_QUEUE_FULL"), Outcome.FAIL, True),
        (Unknown("_MSG_TIMED_OUT"), Outcome.INFO, True),
    ],
)
def test_copies_that_are_not_acknowledged_end_the_process(
    client: Client, delivery: Any, outcome: Outcome, replace: bool
) -> None:
    session = Polls((fetched(2), []), send=[delivery], position={TP: 3})
    op = Op(f="copy", mops=(Poll(), COPY, CommitOffsets()))
    assert run(client, session, op)[::2] == (outcome, replace)
    assert any(call[0] == "commit_offsets" for call in session.calls) is (outcome is Outcome.OK)


def test_offsets_committed_before_the_copies_are_committed_whatever_becomes_of_them(client: Client) -> None:
    session = Polls((fetched(2), []), send=[Unknown("_MSG_TIMED_OUT")], position={TP: 3})
    op = Op(f="copy", mops=(Poll(), CommitOffsets(), COPY))
    assert run(client, session, op)[::2] == (Outcome.INFO, True)
    assert [call[0] for call in session.calls] == ["poll", "position", "commit_offsets", "send"]


def test_a_copier_that_did_not_come_to_its_copies_is_replaced(client: Client) -> None:
    session = Polls((fetched(2), []), commit_offsets=Definite("_NO_OFFSET"), position={TP: 3})
    op = Op(f="copy", mops=(Poll(), CommitOffsets(), COPY))
    assert run(client, session, op) == (Outcome.FAIL, "_NO_OFFSET", True)


def test_what_the_client_commits_by_itself_is_journaled(client: Client, tmp_path: Path) -> None:
    by_itself = AutoCommitted(offsets={TP: 6}, generation=3, outcome=Outcome.INFO, begin_ns=20, ns=30)
    run(client, Polls(([], [by_itself])), Op(f="poll", mops=(Poll(),)))
    (line,) = journaled(client, tmp_path, j.OffsetsCommitted)
    head = (1, -1, 20, 30, CommitKind.AUTO, 3, Outcome.INFO, [("t", 0, 6)])
    assert line == j.OffsetsCommitted(*head)
