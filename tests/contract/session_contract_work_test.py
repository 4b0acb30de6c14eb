"""What every session keeps when whole clients work with it: copying, undoing, forgetting, committing.

A test class for an implementation inherits from `WorkContract` and has a fixture `sessions`, as for
`tests.contract.session_contract_test`. The client loop is `harness.clients.executor`'s own.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.op import (
    AssignmentKind,
    CommitKind,
    Copy,
    End,
    Isolation,
    Op,
    Outcome,
    Phase,
    Poll,
    SendOffsets,
    Subscribe,
    TopicPartition,
)
from core.runtime import run_blocking
from core.session import (
    UNAWAITED,
    Acked,
    AssignmentEvent,
    AutoCommitted,
    CommittedSeen,
    Definite,
    Indefinite,
    Session,
    Unknown,
)
from harness.clients.executor import Client
from history import journal as j
from tests.contract.session_contract_test import (
    FIRST,
    NUMBERS,
    PATIENCE_S,
    RUN,
    Sessions,
    acked,
    eventually,
    record,
    send,
    settled,
    take_over,
    value,
    values_seen,
)

RC = Isolation.READ_COMMITTED


class WorkClock:
    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the client loop does not sleep")


def client(session: Session, folder: Path) -> Client:
    """A client of the run of these tests over a session."""
    number = next(NUMBERS)
    spec = SessionSpec(slot=0, process=number)
    return Client(
        run=RUN,
        process=number,
        session=session,
        journal=j.Journal(folder / f"{number}.jsonl", j.JournalHeader(1, RUN, number, 0, 0, spec)),
        clock=WorkClock(),
        phase=lambda: Phase.FAULTS,
        config=RunConfig(seed=1),
    )


def lines(client: Client, folder: Path, *kinds: type[Any]) -> list[Any]:
    found = j.read(folder / f"{client.process}.jsonl")
    return [line for line in found if isinstance(line, kinds)]


def copier(sessions: Sessions, folder: Path, topic: str, group: str) -> Client:
    """A client that is subscribed to the topic, and copies in transactions."""
    session = sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}", isolation=RC, group=group)
    made = client(session, folder)
    assert run_blocking(made.invoke(Op(f="subscribe", mops=(Subscribe((topic,)),)))).outcome is Outcome.OK
    return made


def committed_of(sessions: Sessions, group: str, topic: str) -> dict[TopicPartition, int]:
    """What a new member of the group is told to be committed, once it is assigned something."""
    member = sessions.connect(isolation=RC, group=group)
    run_blocking(member.subscribe([topic]))
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        run_blocking(member.poll(1, 50))
        for event in member.events():
            if isinstance(event, CommittedSeen):
                sessions.drop(member)
                return dict(event.offsets)
    raise AssertionError(f"{group} has no offsets")


def _transaction(session: Session, tp: TopicPartition, value: int) -> None:
    run_blocking(session.begin())
    send(session, tp, value)
    run_blocking(session.commit())


class WorkContract:
    """The tests. commits_as_it_leaves: a member that commits automatically does so, too, when it leaves."""

    commits_as_it_leaves = True

    def test_each_record_is_copied_once_though_half_of_the_transactions_abort(
        self, sessions: Sessions, tmp_path: Path
    ) -> None:
        ins, outs = sessions.topic(2), sessions.topic(2)
        producer = sessions.connect(acks=-1, idempotent=True)
        for tp in ins:
            acked(send(producer, tp, *range(1, 20)))
        group = f"g{next(NUMBERS)}"
        worker = copier(sessions, tmp_path, ins[0].topic, group)
        until = time.monotonic() + PATIENCE_S
        done, number = 0, 0
        while done < 40:  # the warm-up's records are copied too
            assert time.monotonic() < until, f"{done} copied"
            number += 1
            # An op that got no records would still take its turn: each second one aborts.
            mops = (Poll(7, 1000), Copy(outs[0].topic, 1000 * number, 7), SendOffsets())
            abort = number % 2 == 0
            ended = run_blocking(worker.invoke(Op(f="copy", mops=mops, txn=True, abort=abort)))
            assert ended.outcome is (Outcome.FAIL if abort else Outcome.OK), ended
            if not abort:
                copied = [c for c in lines(worker, tmp_path, j.Copying) if c.op == number + 1]
                done += sum(len(line.records) for line in copied)
        sources = {c[2]: c[3:] for x in lines(worker, tmp_path, j.Copying) for c in x.records}
        assert len(sources) > 40, "nothing was copied and aborted"
        for source, out in zip(ins, outs, strict=True):
            # The markers of the last transaction may be late.
            end = 21
            seen = settled(sessions, RC, out, end)
            assert sorted(sources[v] for v in seen) == [(*source, n) for n in range(20)]
        sessions.drop(worker.session)
        assert committed_of(sessions, group, ins[0].topic) == dict.fromkeys(ins, 20)

    def test_an_abort_gives_a_member_its_records_again(self, sessions: Sessions, tmp_path: Path) -> None:
        tps = sessions.topic(2)
        producer = sessions.connect(acks=-1, idempotent=True)
        for tp in tps:
            acked(send(producer, tp, *range(1, 5)))
        worker = copier(sessions, tmp_path, tps[0].topic, f"g{next(NUMBERS)}")

        def polled(*, abort: bool) -> list[tuple[str, int, int]]:
            """What transactions read up to the first that reads something."""
            until = time.monotonic() + PATIENCE_S
            found: list[tuple[str, int, int]] = []
            while not found:
                assert time.monotonic() < until, "nothing to read"
                op = Op(f="poll", mops=(Poll(2, 100), Poll(2, 100)), txn=True, abort=abort)
                ended = run_blocking(worker.invoke(op))
                assert not ended.replace
                last = [x for x in lines(worker, tmp_path, j.Polled) if x.op == worker_op()]
                found = [(r[0], r[1], at) for x in last for r in x.runs for at in r[2]]
            return found

        def worker_op() -> int:
            op: int = lines(worker, tmp_path, j.Invoked)[-1].op
            return op

        read: list[tuple[str, int, int]] = []
        for _ in range(2):
            undone = polled(abort=True)
            rewind = lines(worker, tmp_path, j.AssignmentChanged)[-1]
            assert (rewind.op, rewind.kind) == (worker_op(), AssignmentKind.REWIND)
            assert {tuple(tp) for tp in rewind.tps} == {at[:2] for at in undone}
            read += polled(abort=False)
        while len(read) < 10:
            read += polled(abort=False)
        assert sorted(read) == [(*tp, n) for tp in tps for n in range(5)]

    def test_the_offsets_of_a_fenced_transaction_are_not_committed(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        group, name = f"g{next(NUMBERS)}", f"x{next(NUMBERS)}"
        spec: dict[str, Any] = {"acks": -1, "transactional_id": name}
        zombie = sessions.connect(**spec, isolation=RC, group=group)
        run_blocking(zombie.subscribe([tp.topic]))
        take_over(zombie, {tp})
        for offset in (1, 5):  # the first is committed, the second fenced
            run_blocking(zombie.begin())
            acked(send(zombie, tp, offset))
            run_blocking(zombie.send_offsets({tp: offset}))
            if offset == 1:
                run_blocking(zombie.commit())
        run_blocking(sessions.connect(**spec).begin())
        with pytest.raises(Indefinite):
            run_blocking(zombie.commit())
        assert zombie.fatal is not None
        sessions.drop(zombie)
        assert committed_of(sessions, group, tp.topic) == {tp: 1}
        assert settled(sessions, RC, tp, 5) == [1]

    def test_twins_take_one_id_from_each_other(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        name = f"x{next(NUMBERS)}"
        before: Session | None = None
        for n in range(1, 5):
            session = sessions.connect(acks=-1, transactional_id=name)
            _transaction(session, tp, n)
            if before is not None:
                with pytest.raises((Definite, Indefinite)):
                    _transaction(before, tp, 100 + n)
            before = session
        assert settled(sessions, RC, tp, 9) == [1, 2, 3, 4]

    def test_a_topic_is_created_once_and_can_be_written_to(self, sessions: Sessions) -> None:
        name = f"t{next(NUMBERS)}"
        session = sessions.connect(acks=-1)
        run_blocking(session.create_topic(name, 2, 3, {"min.insync.replicas": "2"}))
        tps = [TopicPartition(name, partition) for partition in range(2)]
        assert acked(run_blocking(session.send([record(tp, 7) for tp in tps]))) == [0, 0]
        assert values_seen(sessions, RC, *tps) == [7, 7]
        with pytest.raises(Indefinite, match="TOPIC_ALREADY_EXISTS"):
            run_blocking(session.create_topic(name, 2, 3, {}))
        with pytest.raises(Definite):
            run_blocking(session.create_topic(f"t{next(NUMBERS)}", 0, 3, {}))
        assert session.fatal is None

    def test_forgotten_records_arrive_and_tell_nobody(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        session = sessions.connect(acks=-1, idempotent=True)
        forgotten = run_blocking(session.send([record(tp, n) for n in range(50)], wait=False))
        assert forgotten == [Unknown(UNAWAITED)] * 50
        assert acked(send(session, tp, 50)) == [51]
        for delivery in run_blocking(session.send([record(tp, 51)])):
            assert isinstance(delivery, Acked)
        assert values_seen(sessions, RC, tp) == list(range(52))

    def test_what_a_member_commits_by_itself_is_told(self, sessions: Sessions, tmp_path: Path) -> None:
        tps = set(sessions.topic(2))
        topic, group = next(iter(tps)).topic, f"g{next(NUMBERS)}"
        producer = sessions.connect(acks=-1, idempotent=True)
        for tp in tps:
            acked(send(producer, tp, *range(1, 10)))
        begin = time.monotonic_ns()
        member = sessions.connect(isolation=RC, group=group, auto_commit=True)
        run_blocking(member.subscribe([topic]))
        eventually(member, lambda fetched: len(fetched) >= 20)
        told: list[AutoCommitted] = []
        until = time.monotonic() + PATIENCE_S
        while not told or {tp: at for e in told for tp, at in e.offsets.items()} != dict.fromkeys(tps, 10):
            assert time.monotonic() < until, told
            run_blocking(member.poll(10, 100))
            told += [event for event in member.events() if isinstance(event, AutoCommitted)]
        assert all(begin < e.begin_ns < e.ns and e.generation > 0 for e in told), told
        assert {event.outcome for event in told} == {Outcome.OK}
        # An explicit commit is no automatic one, though the client tells of both alike.
        run_blocking(member.commit_offsets(dict.fromkeys(tps, 10)))
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            run_blocking(member.poll(10, 50))
        assert not [event for event in member.events() if isinstance(event, AutoCommitted)]
        sessions.drop(member)
        assert committed_of(sessions, group, topic) == dict.fromkeys(tps, 10)

    def test_what_a_member_commits_as_it_leaves_is_told(self, sessions: Sessions, tmp_path: Path) -> None:
        (tp,) = sessions.topic()
        group = f"g{next(NUMBERS)}"
        acked(send(sessions.connect(acks=-1, idempotent=True), tp, *range(1, 10)))
        settings = {"consumer.auto.commit.interval.ms": "60000"}
        session = sessions.connect(isolation=RC, group=group, auto_commit=True, settings=settings)
        worker = client(session, tmp_path)
        run_blocking(worker.invoke(Op(f="subscribe", mops=(Subscribe((tp.topic,)),))))
        until = time.monotonic() + PATIENCE_S
        while worker.progress.read < 10:
            assert time.monotonic() < until
            run_blocking(worker.invoke(Op(f="poll", mops=(Poll(),))))
        sessions.opened.remove(session)
        run_blocking(session.close())
        run_blocking(worker.close(End.CLOSED))
        commits = lines(worker, tmp_path, j.OffsetsCommitted)
        if self.commits_as_it_leaves:
            assert [(c.kind, c.offsets) for c in commits] == [(CommitKind.AUTO, [(*tp, 10)])]
            assert committed_of(sessions, group, tp.topic) == {tp: 10}
        else:
            assert commits == []

    def test_a_member_that_is_given_its_partition_again_stands_where_the_group_does(
        self, sessions: Sessions
    ) -> None:
        """Not where it once sought to: to commit that would set the group back."""
        (tp,) = sessions.topic()
        group = f"g{next(NUMBERS)}"
        acked(send(sessions.connect(acks=-1, idempotent=True), tp, *range(1, 10)))
        member = sessions.connect(isolation=RC, group=group)
        run_blocking(member.subscribe([tp.topic]))
        fetched = eventually(member, lambda fetched: any(f.offset == 9 for f in fetched))
        assert [value(f) for f in fetched] == [FIRST, *range(1, 10)]
        run_blocking(member.commit_offsets({tp: 10}))
        run_blocking(member.seek({tp: 2}))
        member.events()
        run_blocking(sessions.connect(isolation=RC, group=group).subscribe([tp.topic]))
        other = sessions.opened[-1]
        until = time.monotonic() + PATIENCE_S
        given = False
        while not given:
            assert time.monotonic() < until, "no rebalance"
            run_blocking(other.poll(1, 10))
            run_blocking(member.poll(1, 10))
            given = any(isinstance(event, AssignmentEvent) for event in member.events())
        sessions.drop(other)
        take_over(member, {tp})
        assert run_blocking(member.position()).get(tp, -1) in (-1, 10)
