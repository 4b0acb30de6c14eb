"""The client loop: which verbs an op becomes, and what outcome they give it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import journal as j
from harness.client import TAKEN_AWAY, Client, Completion
from harness.journal import Journal, Opened
from harness.op import (
    Assign,
    AssignmentKind,
    CommitOffsets,
    End,
    Isolation,
    Op,
    Outcome,
    Phase,
    Poll,
    Send,
    Subscribe,
    TopicPartition,
    value_of,
)
from harness.reading import BEGINNING
from harness.record import encode
from harness.session import (
    Acked,
    AssignmentEvent,
    Definite,
    Delivery,
    EndReached,
    Failed,
    Fetched,
    Indefinite,
    Record,
    SessionEvent,
    SessionSpec,
    Suspended,
    Unknown,
    drive,
)

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


class Script:
    """A session that answers as told: verb → what it returns or raises."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []
        self.sent: list[Record] = []
        self.waited: list[bool] = []
        self.fatal: str | None = None

    def _answer(self, verb: str, *args: Any, default: Any = None) -> Any:
        self.calls.append((verb, *args))
        answer = self.answers.get(verb, default)
        if isinstance(answer, Exception):
            raise answer
        return answer(*args) if callable(answer) else answer

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        values = [r.value for r in records]
        self.sent += records
        self.waited.append(wait)
        acked = [Acked(n, 1) for n in range(len(values))]
        found: list[Delivery] = self._answer("send", values, default=acked)
        return found

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        found: list[Fetched] = self._answer("poll", default=[])
        return found

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._answer("assign", dict(positions))

    async def subscribe(self, topics: Sequence[str]) -> None:
        self._answer("subscribe", tuple(topics))

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        self._answer("seek", dict(positions))

    async def position(self) -> dict[TopicPartition, int]:
        at: dict[TopicPartition, int] = self._answer("position", default={TP: 3})
        return at

    async def begin(self) -> None:
        self._answer("begin")

    async def commit(self) -> None:
        self._answer("commit")

    async def abort(self) -> None:
        self._answer("abort")

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        return int(self._answer("send_offsets", dict(positions), default=1))

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        return int(self._answer("commit_offsets", dict(positions), default=1))

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        self._answer("create_topic", topic, partitions, replication, dict(settings))

    async def close(self) -> None:
        self.calls.append(("close",))

    def events(self) -> list[SessionEvent]:
        found: list[SessionEvent] = self.answers.pop("events", [])
        return found


class Ticks:
    """A clock that moves by one at each look."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        self.now += 1
        return self.now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the client loop does not sleep")


@pytest.fixture
def client(tmp_path: Path) -> Client:
    spec = SessionSpec(slot=0, process=5)
    header = Opened(1, "run", 5, 0, 0, spec.as_json())
    return Client(
        run="run",
        process=5,
        session=Script(),
        journal=Journal(tmp_path / "5.jsonl", header),
        clock=Ticks(),
        phase=lambda: Phase.FAULTS,
        record_size=100,
        isolation=Isolation.READ_COMMITTED,
    )


def sends(count: int) -> tuple[Send, ...]:
    return tuple(Send(TP, value_of(5, n)) for n in range(count))


def invoke(client: Client, op: Op, **answers: Any) -> tuple[Completion, list[str]]:
    session = Script(**answers)
    client.session = session
    done = drive(client.invoke(op))
    return done, [call[0] for call in session.calls]


def lines(client: Client, tmp_path: Path) -> list[j.Line]:
    return j.read(tmp_path / "5.jsonl")


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
        ({"commit": Indefinite("_TIMED_OUT")}, False, Outcome.INFO, True,
         ["begin", "send", "commit"]),
        ({"commit": Indefinite("X", wants_abort=True)}, False, Outcome.FAIL, False,
         ["begin", "send", "commit", "abort"]),
        ({"commit": Definite("X")}, False, Outcome.FAIL, False,
         ["begin", "send", "commit", "abort"]),
        ({"commit": Indefinite("X", wants_abort=True), "abort": Indefinite("Y")}, False,
         Outcome.INFO, True, ["begin", "send", "commit", "abort"]),
        ({"abort": Definite("INVALID_TXN_STATE")}, True, Outcome.INFO, True,
         ["begin", "send", "abort"]),
        ({"send": [Unknown("_MSG_TIMED_OUT"), Unknown("_MSG_TIMED_OUT")]}, False, Outcome.OK,
         False, ["begin", "send", "commit"]),
    ],
)  # fmt: skip
def test_the_end_decides_a_transaction(
    client: Client,
    answers: dict[str, Any],
    abort: bool,
    outcome: Outcome,
    replace: bool,
    verbs: list[str],
) -> None:
    op = Op(f="txn", mops=sends(2), txn=True, abort=abort)
    done, calls = invoke(client, op, **answers)
    assert (done.outcome, done.replace) == (outcome, replace)
    assert calls == verbs


def test_a_poll_that_fails_in_a_transaction_aborts_it_only_where_that_is_definite(
    client: Client,
) -> None:
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
    drive(client.invoke(Op(f="txn", mops=(*sends(1), Poll()), txn=True, abort=True)))
    assert session.calls[-1] == ("seek", {TP: 5, OTHER: 9})
    drive(client.close(End.CLOSED))
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
    drive(client.invoke(Op(f="assign", mops=(Assign((TP, OTHER)),))))
    assert session.calls == [("assign", {TP: 5, OTHER: BEGINNING})]


def test_the_invocation_is_journaled_before_the_client_is_called(
    client: Client, tmp_path: Path
) -> None:
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
    fetched = [Fetched(TP, n, p, 0) for n, p in enumerate((mine, misdirected, corrupt, b"x"))]
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched)
    polled = next(line for line in lines(client, tmp_path) if isinstance(line, j.Polled))
    assert polled.runs == [("t", 0, [0], [7], [0])]
    assert [(offset, reason) for _, _, offset, reason, _ in polled.foreign] == [
        (1, 2),
        (2, 1),
        (3, 0),
    ]


def fetched(*offsets: int, tp: TopicPartition = TP) -> list[Fetched]:
    return [Fetched(tp, offset, encode("run", tp, offset, 100), 0) for offset in offsets]


def journaled(client: Client, tmp_path: Path, *kinds: type[Any]) -> list[Any]:
    return [line for line in lines(client, tmp_path) if isinstance(line, kinds)]


def test_an_end_is_journaled_after_the_records_below_it(client: Client, tmp_path: Path) -> None:
    end = EndReached(tp=TP, offset=2, ns=5)
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched(0, 1), events=[end])
    found = journaled(client, tmp_path, j.Polled, j.EndSeen)
    assert [type(line) for line in found] == [j.Polled, j.EndSeen]
    assert client.ends == {TP: 2}


def test_a_reset_is_journaled_where_its_partition_goes_back(client: Client, tmp_path: Path) -> None:
    records = [*fetched(8, 9), *fetched(3, tp=OTHER), *fetched(5, 6), *fetched(4, tp=OTHER)]
    reset = AssignmentEvent(kind=AssignmentKind.RESET, tps=(TP,), generation=-1, ns=5)
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=records, events=[reset])
    before, change, after = journaled(client, tmp_path, j.Polled, j.AssignmentChanged)
    assert [(run[1], run[2]) for run in before.runs] == [(0, [8, 9]), (1, [3, 4])]
    assert change.kind is AssignmentKind.RESET
    assert [(run[1], run[2]) for run in after.runs] == [(0, [5, 6])]


def test_a_reset_that_no_record_of_the_poll_follows_comes_last(
    client: Client, tmp_path: Path
) -> None:
    reset = AssignmentEvent(kind=AssignmentKind.RESET, tps=(TP,), generation=-1, ns=5)
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched(8, 9), events=[reset])
    invoke(client, Op(f="poll", mops=(Poll(),)), poll=fetched(5), events=[reset])
    found = journaled(client, tmp_path, j.Polled, j.AssignmentChanged)
    offsets = [
        line.runs[0][2] if isinstance(line, j.Polled) and line.runs else [] for line in found
    ]
    assert offsets == [[8, 9], [], [], [], [5]]


def test_a_rebalance_is_journaled_before_the_records_that_follow_it(
    client: Client, tmp_path: Path
) -> None:
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
        (AssignmentKind.MANUAL, []),
    ]


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
    assert drive(client.invoke(Op(f="send", mops=sends(1)))).replace


def test_a_verb_that_suspends_is_a_fault_of_the_harness() -> None:
    class Pause:
        def __await__(self) -> Any:
            yield

    async def verb() -> None:
        await Pause()

    with pytest.raises(Suspended):
        drive(verb())
