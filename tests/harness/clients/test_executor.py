"""The client loop: which verbs an op becomes, and what outcome they give it."""

from pathlib import Path
from typing import Any

import pytest

from core.generator import Values
from core.load_clients import CrashPoint
from core.op import (
    DATABASE,
    Assign,
    AssignmentKind,
    CommitOffsets,
    Copy,
    CreateTopic,
    End,
    Mop,
    Op,
    Outcome,
    Poll,
    ReadDatabase,
    SendOffsets,
    Subscribe,
    TopicPartition,
    process_of,
    value_of,
)
from core.payload import encode
from core.runtime import Suspended, run_blocking
from core.session import (
    UNAWAITED,
    Acked,
    AssignmentEvent,
    Definite,
    Delivery,
    EndReached,
    Failed,
    Fetched,
    Indefinite,
    Unknown,
)
from harness.clients.consumer_state import BEGINNING
from harness.clients.database import IN_MEMORY, Database
from harness.clients.executor import DATABASE_ERROR, ROW_THERE, Client, Completion
from history import journal as j
from tests.histories.script import OTHER, TP, Script, fetched, invoke, journaled, lines, scripted, sends


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return scripted(tmp_path)


@pytest.mark.parametrize(
    ("deliveries", "outcome", "replace"),
    [
        ([Acked(0, 1), Acked(-1, 1)], Outcome.OK, False),
        ([Failed("_QUEUE_FULL"), Failed("_QUEUE_FULL")], Outcome.FAIL, False),
        ([Acked(0, 1), Failed("_QUEUE_FULL")], Outcome.INFO, True),
        ([Acked(0, 1), Unknown("_MSG_TIMED_OUT")], Outcome.INFO, True),
        ([Failed("_QUEUE_FULL"), Unknown("_MSG_TIMED_OUT")], Outcome.INFO, True),
    ],
)
def test_records_decide_a_plain_op(
    client: Client, deliveries: list[Delivery], outcome: Outcome, replace: bool
) -> None:
    done, calls = invoke(client, Op(f="send", mops=sends(2)), send=deliveries)
    assert (done.outcome, done.replace) == (outcome, replace)
    assert calls == ["send"]


def test_consecutive_sends_are_one_verb_and_polls_part_them(client: Client) -> None:
    a, b, c = sends(3)
    _, calls = invoke(client, Op(f="txn", mops=(a, b, Poll(), c), txn=True))
    assert calls == ["begin", "send", "poll", "send", "commit"]


@pytest.mark.parametrize(
    ("answers", "abort", "outcome", "replace", "verbs"),
    [
        ({}, False, Outcome.OK, False, ["begin", "send", "commit"]),
        ({}, True, Outcome.FAIL, False, ["begin", "send", "abort"]),
        ({"begin": Indefinite("_TIMED_OUT")}, False, Outcome.FAIL, True, ["begin"]),
        ({"begin": Definite("X")}, True, Outcome.FAIL, True, ["begin"]),
        ({"commit": Indefinite("_TIMED_OUT")}, False, Outcome.INFO, True, ["begin", "send", "commit"]),
        (
            {"commit": Indefinite("X", wants_abort=True)},
            False,
            Outcome.FAIL,
            False,
            ["begin", "send", "commit", "abort"],
        ),
        ({"commit": Definite("X")}, False, Outcome.FAIL, False, ["begin", "send", "commit", "abort"]),
        (
            {"commit": Indefinite("X", wants_abort=True), "abort": Indefinite("Y")},
            False,
            Outcome.INFO,
            True,
            ["begin", "send", "commit", "abort"],
        ),
        ({"abort": Definite("INVALID_TXN_STATE")}, True, Outcome.INFO, True, ["begin", "send", "abort"]),
        (
            {"send": [Unknown("_MSG_TIMED_OUT"), Unknown("_MSG_TIMED_OUT")]},
            False,
            Outcome.OK,
            False,
            ["begin", "send", "commit"],
        ),
    ],
)
def test_the_end_decides_a_transaction(
    client: Client, answers: dict[str, Any], abort: bool, outcome: Outcome, replace: bool, verbs: list[str]
) -> None:
    op = Op(f="txn", mops=sends(2), txn=True, abort=abort)
    done, calls = invoke(client, op, **answers)
    assert (done.outcome, done.replace) == (outcome, replace)
    assert calls == verbs


def test_a_poll_that_fails_in_a_transaction_aborts_it_only_where_that_is_definite(client: Client) -> None:
    op = Op(f="txn", mops=(*sends(1), Poll()), txn=True)
    done, calls = invoke(client, op, poll=Definite("X"))
    assert (done.outcome, calls[-1]) == (Outcome.FAIL, "abort")
    done, calls = invoke(client, op, poll=Indefinite("X"))
    assert (done.outcome, done.replace, calls[-1]) == (Outcome.INFO, True, "poll")


def test_an_aborted_transaction_rewinds_its_reader(client: Client, tmp_path: Path) -> None:
    payload = encode("run", TP, 7, 100)
    invoke(client, Op(f="assign", mops=(Assign((TP, OTHER)),)))
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=[Fetched(TP, 4, payload, 0)])
    session = Script(
        poll=[Fetched(TP, 5, payload, 0), Fetched(OTHER, 9, payload, 0), Fetched(TP, 6, payload, 0)]
    )
    client.session = session
    run_blocking(client.invoke(Op(f="txn", mops=(*sends(1), Poll()), txn=True, abort=True)))
    assert session.calls[-1] == ("seek", {TP: 5, OTHER: 9})
    run_blocking(client.close(End.CLOSED))
    rewinds = [
        line
        for line in lines(client, tmp_path)
        if isinstance(line, j.AssignmentChanged) and line.kind is AssignmentKind.REWIND
    ]
    assert [line.tps for line in rewinds] == [[("t", 0), ("t", 1)]]


def test_a_transaction_that_read_nothing_rewinds_nothing(client: Client) -> None:
    invoke(client, Op(f="assign", mops=(Assign((TP,)),)))
    _, calls = invoke(client, Op(f="txn", mops=(*sends(1), Poll()), txn=True, abort=True))
    assert "seek" not in calls


def test_assigning_keeps_the_position_of_partitions_that_stay(client: Client) -> None:
    payload = encode("run", TP, 7, 100)
    invoke(client, Op(f="assign", mops=(Assign((TP,)),)))
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=[Fetched(TP, 4, payload, 0)])
    session = Script()
    client.session = session
    run_blocking(client.invoke(Op(f="assign", mops=(Assign((TP, OTHER)),))))
    assert session.calls == [("assign", {TP: 5, OTHER: BEGINNING})]


def test_the_invocation_is_journaled_before_the_client_is_called(client: Client, tmp_path: Path) -> None:
    seen: list[j.Line] = []

    def send(values: list[int]) -> list[Delivery]:
        seen.extend(lines(client, tmp_path))
        return [Acked(0, 1) for _ in values]

    invoke(client, Op(f="send", mops=sends(1)), send=send)
    assert isinstance(seen[-1], j.Invoked)
    assert seen[-1].mops == sends(1)


def test_foreign_payloads_are_kept_apart(client: Client, tmp_path: Path) -> None:
    mine, misdirected = encode("run", TP, 7, 100), encode("run", OTHER, 8, 100)
    corrupt = mine[:-1] + bytes([mine[-1] ^ 1])
    found = [Fetched(TP, n, p, 0) for n, p in enumerate((mine, misdirected, corrupt, b"x"))]
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=found)
    polled = next(line for line in lines(client, tmp_path) if isinstance(line, j.Polled))
    assert polled.runs == [("t", 0, [0], [7], [0])]
    assert [(offset, reason) for _, _, offset, reason, _ in polled.foreign] == [(1, 2), (2, 1), (3, 0)]


def test_an_end_is_journaled_after_the_records_below_it(client: Client, tmp_path: Path) -> None:
    end = EndReached(tp=TP, offset=2, ns=5)
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched(0, 1), events=[end])
    found = journaled(client, tmp_path, j.Polled, j.EndSeen)
    assert [type(line) for line in found] == [j.Polled, j.EndSeen]
    assert client.ends == {TP: 2}


def test_a_rebalance_is_journaled_before_the_records_that_follow_it(client: Client, tmp_path: Path) -> None:
    given = AssignmentEvent(kind=AssignmentKind.ASSIGNED, tps=(TP,), generation=1, ns=5)
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched(0), events=[given])
    found = journaled(client, tmp_path, j.Polled, j.AssignmentChanged)
    assert [type(line) for line in found] == [j.AssignmentChanged, j.Polled]


def test_subscribing_drops_all_positions_and_says_so(client: Client, tmp_path: Path) -> None:
    invoke(client, Op(f="assign", mops=(Assign((TP,)),)))
    invoke(client, Op(f="subscribe", mops=(Subscribe(("t",)),)))
    found = journaled(client, tmp_path, j.AssignmentChanged)
    assert [(line.kind, line.tps) for line in found] == [
        (AssignmentKind.MANUAL, [("t", 0)]),
        (AssignmentKind.BEGINNING, [("t", 0)]),
        (AssignmentKind.MANUAL, []),
    ]


def test_only_a_partition_without_an_own_position_is_assigned_at_its_beginning(
    client: Client, tmp_path: Path
) -> None:
    invoke(client, Op(f="assign", mops=(Assign((TP,)),)))
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched(0))
    invoke(client, Op(f="assign", mops=(Assign((TP, OTHER)),)))
    found = journaled(client, tmp_path, j.AssignmentChanged)
    begun = [(line.op, line.tps) for line in found if line.kind is AssignmentKind.BEGINNING]
    assert begun == [(1, [("t", 0)]), (3, [(OTHER.topic, OTHER.partition)])]


def test_offset_commits_are_journaled_with_their_outcome(client: Client, tmp_path: Path) -> None:
    op = Op(f="commit", mops=(CommitOffsets(),))
    assert invoke(client, op)[0].outcome is Outcome.OK
    assert invoke(client, op, commit_offsets=Definite("ILLEGAL_GENERATION"))[0].error
    assert invoke(client, op, commit_offsets=Indefinite("_TIMED_OUT"))[0].replace
    commits = [x for x in lines(client, tmp_path) if isinstance(x, j.OffsetsCommitted)]
    assert [c.outcome for c in commits] == [Outcome.OK, Outcome.FAIL, Outcome.INFO]
    assert commits[0].offsets == [("t", 0, 3)]


def test_a_fatal_session_ends_the_process(client: Client) -> None:
    session = Script()
    session.fatal = "_FENCED"
    client.session = session
    assert run_blocking(client.invoke(Op(f="send", mops=sends(1)))).replace


def test_a_verb_that_suspends_is_a_fault_of_the_harness() -> None:
    class Pause:
        def __await__(self) -> Any:
            yield

    async def verb() -> None:
        await Pause()

    with pytest.raises(Suspended):
        run_blocking(verb())


def test_an_error_after_records_were_sent_leaves_a_plain_op_in_doubt(client: Client) -> None:
    op = Op(f="send-poll", mops=(*sends(1), Poll()))
    done, _ = invoke(client, op, poll=Definite("X"))
    assert (done.outcome, done.replace) == (Outcome.INFO, True)
    done, _ = invoke(client, op, poll=Definite("X"), send=[Failed("_QUEUE_FULL")])
    assert (done.outcome, done.replace) == (Outcome.FAIL, False)


@pytest.mark.parametrize(
    ("delivery", "committed"),
    [(Acked(0, 1), True), (Failed("_QUEUE_FULL"), False), (Unknown("_MSG_TIMED_OUT"), False)],
)
def test_offsets_are_not_committed_over_records_that_were_not_acknowledged(
    client: Client, delivery: Delivery, committed: bool
) -> None:
    a, b = sends(2)
    op = Op(f="x", mops=(a, CommitOffsets(), b))
    _, calls = invoke(client, op, send=lambda values: [delivery])
    assert calls == (["send", "position", "commit_offsets", "send"] if committed else ["send"])


def test_nobody_waits_for_forgotten_records_and_the_process_goes_on(client: Client, tmp_path: Path) -> None:
    session = Script(send=lambda values: [Unknown(UNAWAITED) for _ in values])
    client.session = session
    done = run_blocking(client.invoke(Op(f="send", mops=sends(2), forget=True)))
    assert done == Completion(Outcome.INFO, UNAWAITED, replace=False)
    assert session.waited == [False]
    assert client.progress.info == 1
    assert client.progress.ok_invoked_ns > 0
    (invoked,) = journaled(client, tmp_path, j.Invoked)
    assert invoked.forget
    session.answers["send"] = [Failed("_QUEUE_FULL"), Unknown(UNAWAITED)]
    assert run_blocking(client.invoke(Op(f="send", mops=sends(2), forget=True))).error == UNAWAITED
    session.answers["send"] = [Failed("_QUEUE_FULL")]
    assert run_blocking(client.invoke(Op(f="send", mops=sends(1), forget=True))).outcome is Outcome.FAIL
    session.fatal = "_FENCED"
    worked = client.progress.ok_invoked_ns
    session.answers["send"] = [Unknown(UNAWAITED)]
    assert run_blocking(client.invoke(Op(f="send", mops=sends(1), forget=True))).replace
    assert client.progress.ok_invoked_ns == worked


@pytest.mark.parametrize(
    ("answer", "outcome", "replace"),
    [
        (None, Outcome.OK, False),
        (Definite("INVALID_PARTITIONS"), Outcome.FAIL, False),
        (Indefinite("TOPIC_ALREADY_EXISTS"), Outcome.INFO, True),
    ],
)
def test_a_topic_is_created_with_the_settings_of_the_run(
    client: Client, answer: Any, outcome: Outcome, replace: bool
) -> None:
    session = Script(create_topic=answer)
    client.session = session
    done = run_blocking(client.invoke(Op(f="create", mops=(CreateTopic("new", 4),))))
    assert (done.outcome, done.replace) == (outcome, replace)
    assert session.calls == [("create_topic", "new", 4, 3, client.config.settings_of_topics())]


def test_a_crash_is_offered_at_each_point_of_the_work(client: Client, tmp_path: Path) -> None:
    seen: list[tuple[CrashPoint, str]] = []

    def at(point: CrashPoint) -> None:
        seen.append((point, type(lines(client, tmp_path)[-1]).__name__))

    client.at = at
    mops: tuple[Mop, ...] = (Poll(), CommitOffsets(), *sends(1), Poll(), CommitOffsets())
    invoke(client, Op(f="x", mops=mops), poll=fetched(0))
    assert seen == [
        (CrashPoint.ANYWHERE, "JournalHeader"),
        (CrashPoint.BEFORE_COMMIT, "Polled"),
        (CrashPoint.AFTER_COMMIT, "OffsetsCommitted"),
        (CrashPoint.BEFORE_COMMIT, "Polled"),
    ]
    seen.clear()
    invoke(client, Op(f="x", mops=(Poll(), CommitOffsets(), Poll())), position={})
    assert [point for point, _ in seen] == [CrashPoint.ANYWHERE]
    seen.clear()
    for abort in (True, False):
        op = Op(f="x", mops=sends(1), txn=True, abort=abort)
        _, calls = invoke(client, op)
        assert calls[-1] == ("abort" if abort else "commit")
    at_the_end = (CrashPoint.IN_TRANSACTION, "SendResults")
    assert seen[1] == seen[3] == at_the_end


def points(client: Client, *mops: Mop, txn: bool = False, **answers: Any) -> list[CrashPoint]:
    """The crash points that an op of these micro-ops comes to."""
    seen: list[CrashPoint] = []
    client.at = seen.append
    invoke(client, Op(f="x", mops=mops, txn=txn), **answers)
    assert seen[0] is CrashPoint.ANYWHERE
    return seen[1:]


@pytest.mark.parametrize(
    ("answers", "met"),
    [
        ({"poll": fetched(0)}, [CrashPoint.BEFORE_COMMIT, CrashPoint.IN_TRANSACTION]),
        ({}, []),
        ({"poll": Definite("X")}, []),
        ({"poll": fetched(0), "send": [Failed("_QUEUE_FULL")]}, []),
        (
            {"poll": fetched(0), "send": [Unknown("_MSG_TIMED_OUT")]},
            [CrashPoint.BEFORE_COMMIT, CrashPoint.IN_TRANSACTION],
        ),
    ],
)
def test_a_transaction_that_holds_nothing_comes_to_no_crash_point(
    client: Client, answers: dict[str, Any], met: list[CrashPoint]
) -> None:
    mops = (Poll(), Copy("out", value_of(5, 1), 9), SendOffsets())
    assert points(client, *mops, txn=True, **answers) == met


def test_a_commit_without_news_comes_to_no_crash_point(client: Client) -> None:
    commit, copy = CommitOffsets(), Copy("out", value_of(5, 1), 9)
    around = [CrashPoint.BEFORE_COMMIT, CrashPoint.AFTER_COMMIT]
    assert points(client, Poll(), commit, copy) == []
    assert points(client, Poll(), commit, copy, poll=fetched(0)) == around
    assert points(client, Poll(), commit, copy) == []
    # A member may commit in another op than the one that polled; what failed is to be done again.
    assert points(client, Poll(), poll=fetched(1)) == []
    assert points(client, commit, commit_offsets=Definite("X")) == around[:1]
    assert points(client, commit) == around[:1]
    assert points(client, commit) == []
    # What was taken away is the next owner's to commit.
    points(client, Poll(), poll=fetched(2))
    lost = AssignmentEvent(kind=AssignmentKind.REVOKED, tps=(TP,), generation=1, ns=1)
    assert points(client, Poll(), commit, events=[lost], position={OTHER: 7}) == []


def stored(client: Client, offsets: list[int], *commits: Mop, **answers: Any) -> Completion:
    rows = Copy(DATABASE, value_of(5, 1 + 9 * client.progress.ok), 9)
    op = Op(f="store", mops=(Poll(), rows, *commits))
    return invoke(client, op, poll=fetched(*offsets), **answers)[0]


def test_rows_go_to_the_database_and_a_refused_one_is_no_failure(client: Client, tmp_path: Path) -> None:
    client.database = Database(IN_MEMORY, "unique-id")
    assert stored(client, [0, 1], CommitOffsets()) == Completion(Outcome.OK)
    assert stored(client, [1, 2], CommitOffsets()) == Completion(Outcome.OK)
    results = [line.results for line in lines(client, tmp_path) if isinstance(line, j.SendResults)]
    assert [[(one[0], one[1], one[3]) for one in some] for some in results] == [
        [(0, 0, ""), (0, 1, "")],
        [(1, -1, ROW_THERE), (0, 2, "")],
    ]
    assert client.progress.acked == 0  # by no broker


def test_a_crash_before_the_commit_comes_after_the_rows(client: Client) -> None:
    client.database = Database(IN_MEMORY, "plain")
    met: list[tuple[CrashPoint, int]] = []

    def at(point: CrashPoint) -> None:
        met.append((point, sum(client.database.ends([0]).values()) if client.database else -1))

    client.at = at
    stored(client, [0, 1], CommitOffsets())
    assert met == [(CrashPoint.ANYWHERE, 0), (CrashPoint.BEFORE_COMMIT, 2)]


def test_rows_that_the_database_may_not_have_end_the_process_before_its_commit(client: Client) -> None:
    client.database = Database(IN_MEMORY, "plain")
    client.database.close()
    session = Script(poll=fetched(0))
    client.session = session
    op = Op(f="store", mops=(Poll(), Copy(DATABASE, value_of(5, 1), 9), CommitOffsets()))
    done = run_blocking(client.invoke(op))
    assert (done.outcome, done.error, done.replace) == (Outcome.INFO, DATABASE_ERROR, True)
    assert [call[0] for call in session.calls] == ["poll"]


def test_a_final_reader_reads_the_rows_of_each_partition(client: Client, tmp_path: Path) -> None:
    client.database = Database(IN_MEMORY, "plain")
    stored(client, [4, 5])
    tps = TopicPartition(DATABASE, 0), TopicPartition(DATABASE, 1)
    invoke(client, Op(f="read-database", mops=(ReadDatabase(tps),)))
    *_, first, _, empty, _, _ = lines(client, tmp_path)
    assert isinstance(first, j.Polled)
    assert first.runs == [(DATABASE, 0, [0, 1], [value_of(5, 1), value_of(5, 2)], [-1, -1])]
    assert isinstance(empty, j.Polled)
    assert empty.runs == []
    assert client.ends == {tps[0]: 2, tps[1]: 0}


def test_work_is_counted_where_records_were_given(client: Client) -> None:
    """A group of which nobody is given anything goes as meant, and does not work."""

    def worked(*mops: Mop, **answers: Any) -> bool:
        before = client.progress.worked_ns
        op = Op(f="x", mops=mops, txn=answers.pop("txn", False), abort=answers.pop("abort", False))
        invoke(client, op, **answers)
        return client.progress.worked_ns > before

    copy = (Poll(), Copy("out", value_of(5, 1), 9), SendOffsets())
    assert not worked(Poll())
    assert not worked(*sends(1))
    assert not worked(*copy, txn=True)
    assert client.progress.ok == 3
    assert worked(Poll(), poll=fetched(0))
    assert worked(*copy, txn=True, poll=fetched(1))
    assert worked(*copy, txn=True, abort=True, poll=fetched(2))
    assert not worked(*copy, txn=True, poll=fetched(2), commit=Indefinite("_TIMED_OUT"))
    assert client.progress.worked_ns < client.clock.now_ns()


@pytest.mark.parametrize(
    ("answers", "meant"),
    [
        ({}, True),
        ({"send": [Acked(0, 1), Unknown("_MSG_TIMED_OUT")]}, False),
        ({"send": [Failed("_QUEUE_FULL")] * 2}, False),
        ({"begin": Indefinite("_TIMED_OUT")}, False),
        ({"abort": Indefinite("_TIMED_OUT")}, False),
        ({"poll": Definite("_STATE")}, False),
    ],
)
def test_an_abort_went_as_meant_where_all_before_it_did(
    client: Client, answers: dict[str, Any], meant: bool
) -> None:
    """A coordinator confirms the abort of records that their leader never took."""
    done, _ = invoke(client, Op(f="x", mops=(*sends(2), Poll()), txn=True, abort=True), **answers)
    assert done.outcome is (Outcome.INFO if "abort" in answers else Outcome.FAIL)
    assert (client.progress.ok_invoked_ns > 0) is meant


def test_records_of_compacted_topics_have_the_key_that_their_value_says(client: Client) -> None:
    values = Values(3)
    mops = tuple(values.keyed(TP, key, tombstone=key == 5) for key in (4, 5))
    client.config = client.config.model_copy(update={"topic_settings": {"cleanup.policy": "compact"}})
    invoke(client, Op(f="send", mops=mops))
    assert isinstance(client.session, Script)
    sent = client.session.sent
    assert [(record.key, record.tombstone) for record in sent] == [(b"key-4", False), (b"key-5", True)]
    assert [process_of(record.value) for record in sent] == [3, 3]


def test_records_of_other_topics_have_no_key(client: Client) -> None:
    invoke(client, Op(f="send", mops=sends(2)))
    assert isinstance(client.session, Script)
    assert {(record.key, record.tombstone) for record in client.session.sent} == {(b"", False)}
