"""The client loop: op → session verbs → outcome, journaled. The same for every system under test.

`Client` is one process: one session, one journal. It executes the micro-ops of an op in order,
journals each result as it comes, ends the transaction if the op is one, and decides the outcome:

- non-transactional: the records decide. All acknowledged: OK; none sent: FAIL; else INFO.
- transaction: a deliberate abort, a definite error, or an error that asks for an abort → abort; FAIL
  if the abort is confirmed (then the consumer goes back to where the op began). Otherwise commit.
- anything indefinite → INFO. The process is over: the slot goes on with a new process and new
  clients. Its transactional id stays, so that the successor fences it.

No verb is ever repeated: a second attempt would forge the history.

Not here: which ops (`workloads`), when, and replacing processes (`harness.worker`).
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from harness import journal as j
from harness.journal import Journal
from harness.op import (
    Assign,
    AssignmentKind,
    CommitKind,
    CommitOffsets,
    End,
    Isolation,
    Mop,
    Op,
    Outcome,
    Phase,
    Poll,
    Send,
    SendOffsets,
    Subscribe,
    TopicPartition,
)
from harness.record import Foreign, decode, encode
from harness.session import (
    Acked,
    AssignmentEvent,
    ClientError,
    Clock,
    CommittedSeen,
    Definite,
    Delivery,
    EndReached,
    Failed,
    Fetched,
    Indefinite,
    ProducerEvent,
    Record,
    Session,
    SessionEvent,
)

CommitVerb = Callable[[Mapping[TopicPartition, int]], Coroutine[Any, Any, int]]

BEGINNING = -2
"""Position of a partition that was never read: the beginning of its log."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What came of an op. `replace`: the process must not go on. `error`: the deciding code."""

    outcome: Outcome
    error: str = ""
    replace: bool = False


@dataclass(slots=True)
class Counters:
    """What a worker tells about its progress."""

    ok: int = 0
    fail: int = 0
    info: int = 0
    sent: int = 0
    acked: int = 0
    read: int = 0
    ok_invoked_ns: int = 0
    """When the newest op that went as meant was invoked."""


@dataclass(slots=True, kw_only=True)
class Client:
    """One process. `phase` tells the phase of the run at any moment."""

    run: str
    process: int
    session: Session
    journal: Journal
    clock: Clock
    phase: Callable[[], Phase]
    record_size: int
    isolation: Isolation
    counters: Counters = field(default_factory=Counters)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Highest end of each partition that the consumer reported to have reached."""
    _positions: dict[TopicPartition, int] = field(default_factory=dict)
    _assigned: tuple[TopicPartition, ...] | None = None
    """Partitions assigned by hand; None where the group decides."""
    _op: int = 0

    async def invoke(self, op: Op) -> Completion:
        """Execute one op and journal it whole."""
        self._op += 1
        invoked = self.clock.now_ns()
        self.journal.write(
            j.Invoked(self._op, invoked, self.phase(), op.f, op.txn, op.abort, op.mops)
        )
        done = await (self._transaction(op) if op.txn else self._plain(op))
        if self.session.fatal is not None and not done.replace:
            done = Completion(done.outcome, done.error, replace=True)
        self._journal_events()
        self.journal.write(j.Completed(self._op, self.clock.now_ns(), done.outcome, done.error))
        self._count(op, done, invoked)
        return done

    async def close(self, end: End) -> None:
        """Close the session and the journal."""
        await self.session.close()
        self._journal_events()
        self.journal.write(j.Closed(self.clock.now_ns(), end))
        self.journal.close()

    def _count(self, op: Op, done: Completion, invoked: int) -> None:
        counters = self.counters
        if done.outcome is Outcome.OK or (op.abort and done.outcome is Outcome.FAIL):
            counters.ok_invoked_ns = max(counters.ok_invoked_ns, invoked)
        match done.outcome:
            case Outcome.OK:
                counters.ok += 1
            case Outcome.FAIL:
                counters.fail += 1
            case Outcome.INFO:
                counters.info += 1

    async def _plain(self, op: Op) -> Completion:
        try:
            deliveries = await self._mops(op.mops)
        except Definite as error:
            return Completion(Outcome.FAIL, error.code, replace=error.fatal)
        except Indefinite as error:
            return Completion(Outcome.INFO, error.code, replace=True)
        bad = [d for d in deliveries if not isinstance(d, Acked)]
        if not bad:
            return Completion(Outcome.OK)
        if len(bad) == len(deliveries) and all(isinstance(d, Failed) for d in bad):
            return Completion(Outcome.FAIL, bad[0].code)
        unknown = next((d for d in bad if not isinstance(d, Failed)), bad[0])
        return Completion(Outcome.INFO, unknown.code, replace=True)

    async def _transaction(self, op: Op) -> Completion:
        begin = dict(self._positions)
        try:
            await self.session.begin()
        except (Definite, Indefinite) as error:
            # Nothing was sent yet, and nothing will be: the op did not happen.
            return Completion(Outcome.FAIL, error.code, replace=True)
        try:
            await self._mops(op.mops)
            if not op.abort:
                await self.session.commit()
        except Definite as error:
            return await self._abort(error.code, begin)
        except Indefinite as error:
            if not error.wants_abort:
                return Completion(Outcome.INFO, error.code, replace=True)
            return await self._abort(error.code, begin)
        return await self._abort("", begin) if op.abort else Completion(Outcome.OK)

    async def _abort(self, cause: str, begin: dict[TopicPartition, int]) -> Completion:
        try:
            await self.session.abort()
        except (Definite, Indefinite) as error:
            return Completion(Outcome.INFO, error.code, replace=True)
        if not self._assigned or not any(begin.get(tp) != p for tp, p in self._positions.items()):
            return Completion(Outcome.FAIL, cause)
        self._positions = begin
        positions = {tp: begin.get(tp, BEGINNING) for tp in self._assigned}
        try:
            # The client does not rewind by itself (KAFKA-17582: by design).
            await self.session.seek(positions)
        except (Definite, Indefinite):
            return Completion(Outcome.FAIL, cause, replace=True)
        self._journal_assignment(AssignmentKind.REWIND, self._assigned)
        return Completion(Outcome.FAIL, cause)

    async def _mops(self, mops: Sequence[Mop]) -> list[Delivery]:
        """Execute micro-ops in order, consecutive sends pipelined as one verb."""
        deliveries: list[Delivery] = []
        at = 0
        while at < len(mops):
            mop = mops[at]
            if isinstance(mop, Send):
                upto = at
                while upto < len(mops) and isinstance(mops[upto], Send):
                    upto += 1
                sends = [m for m in mops[at:upto] if isinstance(m, Send)]
                deliveries += await self._send(at, sends)
                at = upto
                continue
            await self._read_mop(at, mop)
            at += 1
        return deliveries

    async def _send(self, at: int, sends: list[Send]) -> list[Delivery]:
        records = [
            Record(s.tp, s.value, encode(self.run, s.tp, s.value, self.record_size)) for s in sends
        ]
        begin = self.clock.now_ns()
        deliveries = await self.session.send(records)
        assert len(deliveries) == len(records), "a session must answer for each record"
        ns = self.clock.now_ns()
        results = [
            (0, d.offset, d.ns, "")
            if isinstance(d, Acked)
            else (1 if isinstance(d, Failed) else 2, -1, ns, d.code)
            for d in deliveries
        ]
        self.journal.write(j.Sent(self._op, at, begin, ns, results))
        self.counters.sent += len(records)
        self.counters.acked += sum(result[0] == 0 for result in results)
        return deliveries

    async def _read_mop(self, at: int, mop: Mop) -> None:
        match mop:
            case Poll(max_records=most, wait_ms=wait_ms):
                begin = self.clock.now_ns()
                fetched = await self.session.poll(most, wait_ms)
                self._journal_poll(at, begin, fetched)
            case Assign(tps=tps):
                positions = {tp: self._positions.get(tp, BEGINNING) for tp in tps}
                await self.session.assign(positions)
                self._assigned = tuple(tps)
                self._positions = {tp: p for tp, p in self._positions.items() if tp in positions}
                self._journal_assignment(AssignmentKind.MANUAL, tps)
            case Subscribe(topics=topics):
                await self.session.subscribe(topics)
                self._assigned, self._positions = None, {}
                self._journal_assignment(AssignmentKind.MANUAL, ())  # positions are not kept
                self._journal_events()
            case CommitOffsets():
                await self._commit_offsets(at, CommitKind.SYNC, self.session.commit_offsets)
            case SendOffsets():
                await self._commit_offsets(at, CommitKind.TXN, self.session.send_offsets)
            case _:
                raise AssertionError(f"unknown micro-op {mop!r}")

    def _journal_poll(self, at: int, begin: int, fetched: list[Fetched]) -> None:
        """Journal what a poll returned, and around it what happened meanwhile, in an order that
        stays true wherever the journal is cut off.

        An end is told after the records below it: an end without them would make them lost. A reset
        stands in the client's queue between the records before it and those after it.
        """
        events = self.session.events()
        ends = [event for event in events if isinstance(event, EndReached)]
        resets = [event for event in events if _is_reset(event)]
        self._journal([e for e in events if not isinstance(e, EndReached) and not _is_reset(e)])
        if resets:
            tps = {tp for event in resets for tp in event.tps}
            before, fetched = _parted(fetched, tps, self._positions)
            self._polled(at, begin, before)
            self._journal(resets)
        if fetched or not resets:
            self._polled(at, begin, fetched)
        self._journal(ends)

    def _polled(self, at: int, begin: int, fetched: list[Fetched]) -> None:
        runs: list[tuple[str, int, list[int], list[int], list[int]]] = []
        foreign: list[tuple[str, int, int, int, bytes]] = []
        last: TopicPartition | None = None
        for record in fetched:
            tp = record.tp
            self._positions[tp] = record.offset + 1
            value = decode(self.run, tp, record.payload)
            if isinstance(value, Foreign):
                payload = record.payload[:1024]
                foreign.append((tp.topic, tp.partition, record.offset, int(value), payload))
                continue
            if tp != last:
                runs.append((tp.topic, tp.partition, [], [], []))
                last = tp
            run = runs[-1]
            run[2].append(record.offset)
            run[3].append(value)
            run[4].append(record.leader_epoch)
        self.counters.read += len(fetched)
        ns = self.clock.now_ns()
        self.journal.write(j.Polled(self._op, at, begin, ns, runs, foreign))

    async def _commit_offsets(self, at: int, kind: CommitKind, verb: CommitVerb) -> None:
        positions = {tp: p for tp, p in (await self.session.position()).items() if p >= 0}
        if not positions:
            return
        begin = self.clock.now_ns()
        generation, outcome = -1, Outcome.INFO
        try:
            generation = await verb(positions)
            outcome = Outcome.OK
        except Definite:
            outcome = Outcome.FAIL
            raise
        finally:
            offsets = [(tp.topic, tp.partition, p) for tp, p in positions.items()]
            line = (self._op, at, begin, self.clock.now_ns(), kind, generation, outcome, offsets)
            self.journal.write(j.OffsetsCommitted(*line))

    def _journal_assignment(self, kind: AssignmentKind, tps: Sequence[TopicPartition]) -> None:
        names = [(tp.topic, tp.partition) for tp in tps]
        ns = self.clock.now_ns()
        self.journal.write(j.AssignmentChanged(self._op, ns, kind, -1, names))

    def _journal_events(self) -> None:
        self._journal(self.session.events())

    def _journal(self, events: Sequence[SessionEvent]) -> None:
        for event in events:
            match event:
                case AssignmentEvent():
                    names = [(tp.topic, tp.partition) for tp in event.tps]
                    self.journal.write(
                        j.AssignmentChanged(self._op, event.ns, event.kind, event.generation, names)
                    )
                case CommittedSeen():
                    offsets = [(tp.topic, tp.partition, p) for tp, p in event.offsets.items()]
                    self.journal.write(
                        j.OffsetsCommitted(
                            self._op,
                            -1,
                            event.begin_ns,
                            event.ns,
                            CommitKind.FETCHED,
                            event.generation,
                            Outcome.OK,
                            offsets,
                        )
                    )
                case ProducerEvent():
                    self.journal.write(
                        j.ProducerChanged(
                            event.ns, event.producer_id, event.producer_epoch, event.epoch_cnt
                        )
                    )
                case EndReached(tp=tp):
                    self.ends[tp] = max(event.offset, self.ends.get(tp, -1))
                    line = j.EndSeen(event.ns, tp.topic, tp.partition, event.offset)
                    self.journal.write(line)
                case ClientError():
                    self.journal.write(j.ErrorSeen(event.ns, event.code, event.message))


def _is_reset(event: SessionEvent) -> TypeGuard[AssignmentEvent]:
    return isinstance(event, AssignmentEvent) and event.kind is AssignmentKind.RESET


def _parted(
    fetched: list[Fetched], reset: set[TopicPartition], positions: Mapping[TopicPartition, int]
) -> tuple[list[Fetched], list[Fetched]]:
    """Records of one poll before and after the resets of some partitions in it.

    The client does not say where in a poll a reset happened. A truncated log sends its reader back, so
    from the first record that goes back on come those after it. Where none does, all came before.
    """
    before: list[Fetched] = []
    after: list[Fetched] = []
    next_: dict[TopicPartition, int] = {tp: positions.get(tp, -1) for tp in reset}
    gone_back: set[TopicPartition] = set()
    for record in fetched:
        tp = record.tp
        if tp in reset:
            if record.offset < next_[tp]:
                gone_back.add(tp)
            next_[tp] = record.offset + 1
        (after if tp in gone_back else before).append(record)
    return before, after
