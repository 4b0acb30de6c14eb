"""The client loop: op → session verbs → outcome, journaled. The same for every system under test.

`Client` is one process: one session, one journal. It executes the micro-ops of an op in order,
journals each result as it comes, ends the transaction if the op is one, and decides the outcome:

- non-transactional: the records decide. All acknowledged: OK; none sent: FAIL; else INFO. Offsets are
  committed only where all records before them were acknowledged: otherwise the op ends there.
- transaction: a deliberate abort, a definite error, or an error that asks for an abort → abort; FAIL
  if the abort is confirmed (then the consumer goes back to where the op began, unless the config is of those
  that do not). Otherwise commit.
- anything indefinite → INFO. The process ends there: the slot continues with a new process and new
  clients. Its transactional id stays, so that the successor fences it. An op that does not wait for its
  records (`forget`) leaves them in doubt without that.

No verb is ever repeated: a second attempt would forge the history.
"""

import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from core.config import RunConfig
from core.keys import input_key_bytes, is_tombstone, key_bytes
from core.load_clients import CrashPoint
from core.op import (
    DATABASE,
    Acknowledge,
    Acquire,
    Assign,
    CommitKind,
    CommitOffsets,
    Copy,
    CreateTopic,
    End,
    Op,
    Outcome,
    Phase,
    Poll,
    ReadDatabase,
    Send,
    SendOffsets,
    Subscribe,
    TopicPartition,
)
from core.payload import Foreign, Uncommitted, encode
from core.runtime import Clock
from core.session import Acked, Definite, Delivery, EndReached, Failed, Indefinite, Record, Session, Sharing
from harness.clients.consumer_state import ConsumerProcess
from harness.clients.database import REFUSED, Database, DatabaseRow, Store
from harness.clients.share_state import ShareProcess
from harness.clients.worker_protocol import ClientProgress
from history import journal as j
from history.journal import JournalWriter

CommitVerb = Callable[[Mapping[TopicPartition, int]], Coroutine[object, None, int]]

VERBS: Final = 4
"""Most calls that an op outside of a transaction makes, one after the other: poll, send copies, position,
commit; each may take its whole deadline."""
TXN_VERBS: Final = 8
"""The same of a transaction: begin, poll, send, position, send offsets, commit, abort, seek."""

TAKEN_AWAY = "_ASSIGNMENT_LOST"
"""Code of a transaction that is aborted because a partition that it copied from was taken away."""
DATABASE_ERROR = "DATABASE"
"""Code of an op whose rows the database may not have taken."""
ROW_THERE = "ROW_THERE"
"""Code of a row that the database refused, because of what it has already."""


def _anywhere(_: CrashPoint) -> None:
    """No crash is planned."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The outcome of an op. `replace`: the process must end after it. `error`: the deciding code."""

    outcome: Outcome
    error: str = ""
    replace: bool = False


@dataclass(slots=True, kw_only=True)
class Client:
    """One process. `phase` tells the phase of the run at any moment.

    at: called when the process gets to a point at which it may be made to crash. database: of the run, where
    its workload has one.
    """

    run: str
    process: int
    session: Session
    journal: JournalWriter
    clock: Clock
    phase: Callable[[], Phase]
    config: RunConfig
    progress: ClientProgress = field(default_factory=ClientProgress)
    at: Callable[[CrashPoint], None] = _anywhere
    database: Store | None = None
    _reading: ConsumerProcess = field(init=False)
    _sharing: ShareProcess = field(init=False)
    _refused: str = ""
    """Code of an acknowledgement of the op under way that has not certainly happened."""

    def __post_init__(self) -> None:
        self._reading = ConsumerProcess(run=self.run, journal=self.journal, now_ns=self.clock.now_ns)
        self._sharing = ShareProcess(run=self.run, journal=self.journal, now_ns=self.clock.now_ns)

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Highest end of each partition that the consumer reported to have reached."""
        return self._reading.ends

    def read_values(self, value: Callable[[TopicPartition, int, bytes], int | Foreign | Uncommitted]) -> None:
        """What says the value of each record that is read from now on, by its place and payload."""
        self._reading.value = value

    async def invoke(self, op: Op) -> Completion:
        """Execute one op and journal it whole."""
        assert not (op.txn and op.forget), "the end of a transaction waits for its records"
        self.at(CrashPoint.ANYWHERE)
        self._reading.begin()
        self._refused = ""
        number, invoked, read = self._reading.op, self.clock.now_ns(), self.progress.read
        head = (number, invoked, self.phase(), op.f, op.txn, op.abort)
        self.journal.write(j.Invoked(*head, op.mops, op.forget))
        deliveries: list[Delivery] = []
        done = await (self._transaction if op.txn else self._plain)(op, deliveries)
        if self.session.fatal is not None and not done.replace:
            done = Completion(done.outcome, done.error, replace=True)
        self._reading.note(self.session.events())
        self.journal.write(j.OpCompleted(number, self.clock.now_ns(), done.outcome, done.error))
        taken = all(isinstance(one, Acked) for one in deliveries)
        self._count(op, done, invoked, given=self.progress.read > read, taken=taken)
        return done

    async def close(self, end: End) -> None:
        """Close the session and the journal."""
        await self.session.close()
        self._reading.note(self.session.events())
        self.journal.write(j.Closed(self.clock.now_ns(), end))
        self.journal.close()

    def _count(self, op: Op, done: Completion, invoked: int, *, given: bool, taken: bool) -> None:
        """given: its polls returned something. taken: all that it sent was acknowledged."""
        progress = self.progress
        # The abort of a transaction is confirmed, too, where no broker took what it sent.
        aborted = op.abort and done.outcome is Outcome.FAIL and not done.error and taken
        forgotten = op.forget and done.outcome is Outcome.INFO and not done.replace
        if done.outcome is Outcome.OK or aborted or forgotten:
            progress.ok_invoked_ns = max(progress.ok_invoked_ns, invoked)
            if given:
                progress.worked_ns = max(progress.worked_ns, invoked)
        match done.outcome:
            case Outcome.OK:
                progress.ok += 1
            case Outcome.FAIL:
                progress.fail += 1
            case Outcome.INFO:
                progress.info += 1

    async def _plain(self, op: Op, deliveries: list[Delivery]) -> Completion:
        try:
            await self._mops(op, deliveries)
        except Definite as error:
            none_sent = all(isinstance(d, Failed) for d in deliveries)
            outcome = Outcome.FAIL if none_sent else Outcome.INFO
            done = Completion(outcome, error.code, replace=error.fatal or not none_sent)
        except Indefinite as error:
            done = Completion(Outcome.INFO, error.code, replace=True)
        else:
            done = _judged(deliveries, op.forget)
            if self._refused:
                done = Completion(Outcome.INFO, self._refused)
        if done.outcome is not Outcome.OK and any(isinstance(mop, Copy) for mop in op.mops):
            # The consumer has moved past records that may not have been copied.
            return Completion(done.outcome, done.error, replace=True)
        return done

    async def _transaction(self, op: Op, deliveries: list[Delivery]) -> Completion:
        try:
            await self.session.begin()
        except (Definite, Indefinite) as error:
            # Nothing was sent yet, and nothing will be: the op did not happen.
            return Completion(Outcome.FAIL, error.code, replace=True)
        try:
            await self._mops(op, deliveries)
            if not all(isinstance(d, Failed) for d in deliveries):  # else nothing is open there
                self.at(CrashPoint.IN_TRANSACTION)
            if not op.abort:
                await self.session.commit()
        except Definite as error:
            return await self._abort(error.code)
        except Indefinite as error:
            if not error.wants_abort:
                return Completion(Outcome.INFO, error.code, replace=True)
            return await self._abort(error.code)
        return await self._abort("") if op.abort else Completion(Outcome.OK)

    async def _abort(self, cause: str) -> Completion:
        try:
            await self.session.abort()
        except (Definite, Indefinite) as error:
            return Completion(Outcome.INFO, error.code, replace=True)
        positions = self._reading.to_rewind() if self.config.rewinds else {}
        if not positions:
            return Completion(Outcome.FAIL, cause)
        try:
            # The client does not rewind (KAFKA-17582: by design).
            await self.session.seek(positions)
        except (Definite, Indefinite):
            return Completion(Outcome.FAIL, cause, replace=True)
        self._reading.rewound(positions)
        return Completion(Outcome.FAIL, cause)

    async def _mops(self, op: Op, deliveries: list[Delivery]) -> None:
        """Execute micro-ops in order, consecutive sends pipelined as one verb; appends the
        results of the records to `deliveries`."""
        mops, at = op.mops, 0
        while at < len(mops):
            match mop := mops[at]:
                case Send():
                    upto = at
                    while upto < len(mops) and isinstance(mops[upto], Send):
                        upto += 1
                    sends = [(m.tp, m.value) for m in mops[at:upto] if isinstance(m, Send)]
                    deliveries += await self._send(op, at, sends)
                    at = upto
                    continue
                case Copy():
                    copies = await self._copy(op, at, mop)
                    deliveries += copies
                    refused = next((d for d in copies if isinstance(d, Failed)), None)
                    if op.txn and refused is not None:
                        # The transaction would commit offsets behind a record that was not copied.
                        raise Definite(refused.code, "a copy was not taken")
                case ReadDatabase(tps=tps):
                    self._read_database(at, tps)
                case CommitOffsets():
                    if not op.txn and any(not isinstance(d, Acked) for d in deliveries):
                        return  # a commit says that the work before it is done, and it is not
                    news = await self._commit_offsets(at, txn=op.txn)
                    if news and not op.txn and at + 1 < len(mops):
                        self.at(CrashPoint.AFTER_COMMIT)
                case SendOffsets():
                    await self._send_offsets(at)
                case Poll(max_records=most, wait_ms=wait_ms):
                    begin = self.clock.now_ns()
                    fetched = await self.session.poll(most, wait_ms)
                    self._reading.polled(at, begin, fetched, self.session.events())
                    self.progress.read += len(fetched)
                case Assign(tps=tps):
                    await self.session.assign(self._reading.to_assign(tps))
                    self._reading.assigned(tps)
                case Subscribe(topics=topics):
                    await self.session.subscribe(topics)
                    self._reading.subscribed()
                    self._reading.note(self.session.events())
                case Acquire(wait_ms=wait_ms):
                    begin = self.clock.now_ns()
                    got = await self._member().acquire(wait_ms)
                    self.progress.read += self._sharing.acquired(self._reading.op, at, begin, got)
                case Acknowledge():
                    await self._acknowledge(at, mop)
                case CreateTopic(topic=topic, partitions=partitions):
                    factor, settings = self.config.replication_factor, self.config.settings_of_topics()
                    await self.session.create_topic(topic, partitions, factor, settings)
                case _:
                    raise AssertionError(f"unknown micro-op {mop!r}")
            at += 1

    async def _send(self, op: Op, at: int, values: Sequence[tuple[TopicPartition, int]]) -> list[Delivery]:
        records = [
            Record(tp, value, encode(self.run, tp, value, self.config.record_size)) for tp, value in values
        ]
        if self.config.compacted:
            records = [
                replace(record, key=key_bytes(record.value), tombstone=is_tombstone(record.value))
                for record in records
            ]
        elif self.config.app is not None:
            records = [replace(each, key=input_key_bytes(each.tp.partition, each.value)) for each in records]
        begin = self.clock.now_ns()
        deliveries = await self.session.send(records, wait=not op.forget)
        assert len(deliveries) == len(records), "a session must answer for each record"
        ns = self.clock.now_ns()
        results = [
            (0, d.offset, d.ns, "")
            if isinstance(d, Acked)
            else (1 if isinstance(d, Failed) else 2, -1, ns, d.code)
            for d in deliveries
        ]
        self.journal.write(j.SendResults(self._reading.op, at, begin, ns, results))
        self.progress.sent += len(records)
        if acked := sum(result[0] == 0 for result in results):
            self.progress.acked += acked
            self.progress.acked_ns = self.clock.now_ns()
        return deliveries

    async def _copy(self, op: Op, at: int, mop: Copy) -> list[Delivery]:
        inputs = self._reading.to_copy()
        assert len(inputs) <= mop.most, "the op polled more than it has values for"
        if not inputs:
            return []
        values = [
            (TopicPartition(mop.topic, tp.partition), mop.first + n) for n, (tp, _, _) in enumerate(inputs)
        ]
        copies = [
            (out.topic, out.partition, value, tp.topic, tp.partition, offset)
            for (out, value), (tp, offset, _) in zip(values, inputs, strict=True)
        ]
        self.journal.write(j.Copying(self._reading.op, at, self.clock.now_ns(), copies))
        if mop.topic == DATABASE:
            self._write_rows(at, [DatabaseRow(*each, mop.first + n) for n, each in enumerate(inputs)])
            return []  # the op does not fail where the database refuses a row
        return await self._send(op, at, values)

    def _write_rows(self, at: int, rows: Sequence[DatabaseRow]) -> None:
        """Write rows in one transaction of the database. Raises: Indefinite."""
        assert isinstance(self.database, Database), "the workload has no database (`SETTINGS`)"
        begin, numbers, error = self.clock.now_ns(), list[int](), ""
        try:
            numbers = self.database.write(rows)
        except sqlite3.Error as failed:
            error = f"{failed}"
        ns = self.clock.now_ns()
        refused, unknown = (1, -1, ns, ROW_THERE), (2, -1, ns, DATABASE_ERROR)
        results = [refused if number == REFUSED else (0, number, ns, "") for number in numbers]
        results = results or [unknown] * len(rows)
        self.journal.write(j.SendResults(self._reading.op, at, begin, ns, results))
        if error:
            raise Indefinite(DATABASE_ERROR, error)

    def _read_database(self, at: int, tps: Iterable[TopicPartition]) -> None:
        """Read all rows of these partitions. Raises: Indefinite."""
        assert self.database is not None, "the workload has no database (`SETTINGS`)"
        if not isinstance(self.database, Database):
            now, effects = self.clock.now_ns(), self.database.read()
            ends = [EndReached(tp=tp, offset=sum(one.tp == tp for one in effects), ns=now) for tp in tps]
            self._reading.polled(at, now, effects, ends)
            return
        for tp in tps:
            begin = self.clock.now_ns()
            try:
                numbers, values = self.database.read(tp)
            except sqlite3.Error as error:
                raise Indefinite(DATABASE_ERROR, f"{error}") from None
            self._reading.rows_read(at, begin, tp, numbers, values)

    async def _send_offsets(self, at: int) -> None:
        if offered := self._offered(await self.session.position()):
            await self._commit(at, CommitKind.TXN, self.session.send_offsets, offered)

    def _offered(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What this op may commit of what it polled. Raises: Definite, where it copied more."""
        offered = self._reading.to_offer(positions)
        if offered is None:
            raise Definite(TAKEN_AWAY, "a partition that was copied from is another member's now")
        return offered

    def _member(self) -> Sharing:
        assert isinstance(self.session, Sharing), "the session is of no share group"
        return self.session

    async def _acknowledge(self, at: int, mop: Acknowledge) -> None:
        """Acknowledge records of the share group. The answers need not decide all of them."""
        if self._sharing.holds:
            self.at(CrashPoint.BEFORE_COMMIT)
        op, asked = self._reading.op, self._sharing.to_acknowledge(self._reading.op, at, mop)
        if not asked:
            return
        begin = self.clock.now_ns()
        answers = await self._member().acknowledge(asked)
        self._refused = self._sharing.acknowledged(op, at, begin, asked, answers)

    async def _commit_offsets(self, at: int, *, txn: bool) -> bool:
        """Commit all positions; whether that was news: something was polled since the last time.

        txn: the copies are in a transaction. It would commit those whose offsets are not among the positions.
        """
        news, known = self._reading.uncommitted, await self.session.position()
        if txn:
            known = {**known, **self._offered(known)}
        positions = {tp: p for tp, p in known.items() if p >= 0}
        if positions:
            await self._commit(at, CommitKind.SYNC, self.session.commit_offsets, positions)
        return news and bool(positions)

    async def _commit(
        self, at: int, kind: CommitKind, verb: CommitVerb, positions: Mapping[TopicPartition, int]
    ) -> None:
        if self._reading.uncommitted:
            self.at(CrashPoint.BEFORE_COMMIT)
        begin = self.clock.now_ns()
        generation, outcome = -1, Outcome.INFO
        try:
            generation = await verb(positions)
            outcome = Outcome.OK
            self._reading.committed(positions)
        except Definite:
            outcome = Outcome.FAIL
            raise
        finally:
            offsets = [(tp.topic, tp.partition, p) for tp, p in positions.items()]
            head = (self._reading.op, at, begin, self.clock.now_ns())
            self.journal.write(j.OffsetsCommitted(*head, kind, generation, outcome, offsets))


def _judged(deliveries: Sequence[Delivery], forgotten: bool) -> Completion:
    """What the records make of an op without a transaction."""
    bad = [d for d in deliveries if not isinstance(d, Acked)]
    if not bad:
        return Completion(Outcome.OK)
    if len(bad) == len(deliveries) and all(isinstance(d, Failed) for d in bad):
        return Completion(Outcome.FAIL, bad[0].code)
    unknown = next((d for d in bad if not isinstance(d, Failed)), bad[0])
    return Completion(Outcome.INFO, unknown.code, replace=not forgotten)
