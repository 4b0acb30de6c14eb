"""A session over a client's program: each verb is one command of docs/client-protocol.md.

The program never commits offsets on its own: where a workload has automatic commits, the session asks for
them before a poll, at their interval, as Java's consumer makes them.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from time import monotonic_ns
from typing import Any, Final

import msgspec

from core.client_settings import SessionSpec, effective
from core.errors import ConfigError
from core.op import AssignmentKind, Outcome, TopicPartition
from core.session import (
    UNAWAITED,
    AssignmentEvent,
    AutoCommitted,
    ClientError,
    CommittedSeen,
    Definite,
    Delivery,
    Fetched,
    Indefinite,
    Record,
    Session,
    SessionEvent,
    Unknown,
)
from harness.clients.command import named
from harness.clients.command import protocol as p
from harness.clients.command.settings import COMMAND
from harness.clients.command.speaker import ClientLost, Speaker
from harness.processes import guard

EXPIRED: Final = "_TIMED_OUT"
LOST: Final = "_CLIENT_LOST"
COMMITTED_WAIT_S: Final = 1.0
"""How long a newly assigned consumer waits for its committed offsets."""

COMMITS: Final = (p.CommitPositions, p.OffsetsToTransaction)
"""Commands that say how far a group is."""

_tp = cache(TopicPartition)


def connect(args: dict[str, str], spec: SessionSpec) -> Session:
    """Open a session in a worker process, as `core.cluster.Endpoint.factory` says. Final readers are
    librdkafka's: what a log holds is then known without the client that is tried.

    Raises: ConfigError, where no command is named, or its program cannot be started, refuses the settings, or
    opens no client; ClientLost.
    """
    from harness.clients.librdkafka.session import connect as library  # most sessions do without it

    if spec.report_end:
        return library(args, spec)
    end_with_worker()
    words = named.PROGRAM.words()
    try:
        return CommandSession(args, spec, Speaker(words), library)
    except OSError as error:
        raise ConfigError(f"--client {words[0]}: {error.strerror}") from None
    except Definite as error:
        raise ConfigError(f"--client {words[0]} refuses its settings: {error}") from None
    except Indefinite as error:
        raise ConfigError(f"--client {words[0]} could not open a client: {error}") from None


@cache
def end_with_worker() -> guard.Guard:
    """SIGKILL to what is left of this worker's group once the worker has ended, by whatever death."""
    return guard.kill(os.getpgrp())


class CommandSession:
    """See `core.session.Session`. Verbs and `events` raise `ClientLost` where the program is lost: that is
    the end of the session, and of its worker.

    library: opens a session of librdkafka, for the topics that a workload makes.
    """

    def __init__(self, args: dict[str, str], spec: SessionSpec, speaker: Speaker, library: Any) -> None:
        self.client = effective(spec, COMMAND)
        self._args, self._spec, self._speaker, self._library = args, spec, speaker, library
        self._fatal: str | None = None
        self._lost: ClientLost | None = None
        self._initialised = False
        self._events: list[SessionEvent] = []
        self._polled = False
        """Something was returned since offsets were last committed."""
        self._committed_ns = monotonic_ns()
        self._untold_ns = monotonic_ns()
        """What the next answer tells happened after this moment: the last answer had come, or a commit had
        begun. Its own moment may be much later than what it tells of: faults stop programs in between."""
        try:
            self._ended(speaker.open(args, spec, self.client))
        except BaseException:
            speaker.end()
            raise

    @property
    def fatal(self) -> str | None:
        """Code of the error that made this session unusable, or None."""
        return self._fatal

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        """Send all records pipelined; one delivery each, in order. Does not raise."""
        lines = [p.RecordToSend(r.tp.topic, r.tp.partition, r.payload) for r in records]
        results = self._speaker.send(lines, self._spec.deadline_s)
        if not wait:
            return [Unknown(UNAWAITED)] * len(records)
        code = EXPIRED
        try:
            self._call(p.Flush)
        except ClientLost as lost:
            self._lost, self._fatal, code = lost, LOST, LOST
        except (Definite, Indefinite) as error:
            code = error.code
        return [result or Unknown(code) for result in results]

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        """The next records, at most `max_records`, waiting at most `wait_ms` for the first."""
        self._commit_automatically()
        seconds = min(wait_ms / 1000, self._spec.deadline_s)
        answer = self._call(p.PollRecords, seconds, max_records=max_records)
        if len(answer.records) > max_records:
            raise self._speaker.refused(f"the client returns more records than a poll may: {max_records}")
        self._polled = self._polled or bool(answer.records)
        return [Fetched(_tp(r.topic, r.partition), r.offset, r.value, r.leader_epoch) for r in answer.records]

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets (-2: beginning of the log)."""
        self._call(p.AssignPartitions, positions=_positions(positions))

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics; partitions come with later polls."""
        self._call(p.SubscribeTopics, topics=list(topics))

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move the positions of assigned partitions."""
        self._call(p.Seek, positions=_positions(positions))

    async def position(self) -> dict[TopicPartition, int]:
        """Next offset to read of each assigned partition; -1 where nothing was read yet."""
        return _offsets(self._call(p.AskPosition))

    async def begin(self) -> None:
        """Begin a transaction (the first call also initialises the transactional id)."""
        if not self._initialised:
            self._call(p.Init)
            self._initialised = True
        self._call(p.Begin)

    async def commit(self) -> None:
        """Commit the open transaction. Called at most once for it."""
        self._call(p.Commit)

    async def abort(self) -> None:
        """Abort the open transaction. A normal return means: confirmed aborted."""
        self._call(p.Abort)

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Add consumer positions to the open transaction; the generation used (-1 unknown)."""
        return self._call(p.OffsetsToTransaction, positions=_positions(positions)).generation

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Commit consumer positions to the group; the generation used (-1 unknown)."""
        return self._call(p.CommitPositions, positions=_positions(positions)).generation

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic, by librdkafka; returns when the controller has."""
        own = self._spec
        spec = SessionSpec(slot=own.slot, process=own.process, deadline_s=own.deadline_s)
        maker: Session = self._library(self._args, spec)
        try:
            await maker.create_topic(topic, partitions, replication, settings)
        finally:
            await maker.close()

    async def close(self) -> None:
        """Close the client and end its program; never raises, bounded by the deadline."""
        if self._lost is None:
            try:
                with suppress(Definite, Indefinite):
                    self._call(p.Close)
            except ClientLost as lost:
                self._lost = lost
        self._speaker.end()

    def events(self) -> list[SessionEvent]:
        """What happened outside of verbs since the last call, oldest first."""
        if self._lost is not None:
            raise self._lost
        events, self._events = self._events, []
        return events

    def _call(self, verb: type[p.Command], seconds: float | None = None, **fields: object) -> p.Answer:
        """One command. Raises: Definite, Indefinite, ClientLost."""
        if self._lost is not None:
            raise self._lost
        if verb in COMMITS:  # it was made with what the client knew before
            self._untold_ns = monotonic_ns()
        answer = self._speaker.call(verb, self._spec.deadline_s if seconds is None else seconds, **fields)
        return self._ended(answer, closes=verb is p.Close)

    def _ended(self, answer: p.Answer, *, closes: bool = False) -> p.Answer:
        """Take an answer in. A client that closes, or can do no more, is asked nothing about its events.
        Raises: Definite, Indefinite."""
        came_ns = monotonic_ns()
        self._note_end(answer)
        later = [one for event in answer.events for one in self._take(event, asks=not closes)]
        self._untold_ns = came_ns
        for event in later:  # they happened after this answer; to them no further question is asked
            self._take(msgspec.structs.replace(event, after=len(answer.records)), asks=False)
        self._untold_ns = monotonic_ns()
        code = answer.code or "UNKNOWN"
        match answer.outcome:
            case p.CommandOutcome.FAILED:
                raise Definite(code, answer.message, fatal=answer.fatal)
            case p.CommandOutcome.UNKNOWN:
                raise Indefinite(code, answer.message, wants_abort=answer.wants_abort and not answer.fatal)
        return answer

    def _note_end(self, answer: p.Answer) -> None:
        if answer.fatal:
            self._fatal = answer.code or "_FATAL"

    def _take(self, event: p.Event, *, asks: bool = True) -> Sequence[p.Event]:
        """One event; those that happened after all events of its answer."""
        ns = self._untold_ns
        if event.event is p.Happened.ERROR:
            self._events.append(ClientError(code=event.code or "UNKNOWN", message=event.message, ns=ns))
            return ()
        kind = AssignmentKind[event.event.name]
        tps = tuple(_tp(at.topic, at.partition) for at in event.partitions)
        made = AssignmentEvent(kind=kind, tps=tps, generation=event.generation, ns=ns, after=event.after)
        self._events.append(made)
        if asks and self._fatal is None and kind is AssignmentKind.ASSIGNED and tps:
            return self._see_committed(event.partitions, event.generation)
        return ()

    def _see_committed(self, partitions: list[p.PartitionOfTopic], generation: int) -> Sequence[p.Event]:
        """Ask for the committed offsets, too; the events that the answer brings. Evidence only: without an
        answer in time there is no event."""
        begin = monotonic_ns()
        answer = self._speaker.call(p.Committed, COMMITTED_WAIT_S, partitions=partitions)
        offsets = {tp: at for tp, at in _offsets(answer).items() if at >= 0}
        if answer.outcome is p.CommandOutcome.OK and offsets:
            now = monotonic_ns()
            self._events.append(CommittedSeen(offsets=offsets, generation=generation, begin_ns=begin, ns=now))
        self._note_end(answer)
        return answer.events

    def _commit_automatically(self) -> None:
        """Commit what polls have returned, where that is due."""
        consumer, now = self.client.consumer, monotonic_ns()
        if consumer is None or not consumer.auto_commit or not self._polled:
            return
        if now - self._committed_ns < consumer.auto_commit_interval_ms * 1_000_000:
            return
        with suppress(Definite, Indefinite):
            offsets = {tp: at for tp, at in _offsets(self._call(p.AskPosition)).items() if at >= 0}
            begin, outcome, generation = monotonic_ns(), Outcome.INFO, -1
            try:
                generation = self._call(p.CommitPositions, positions=_positions(offsets)).generation
                outcome, self._polled, self._committed_ns = Outcome.OK, False, now
            except Definite:
                outcome = Outcome.FAIL
                raise
            finally:
                made = AutoCommitted(
                    offsets=offsets, generation=generation, outcome=outcome, begin_ns=begin, ns=monotonic_ns()
                )
                self._events.append(made)


def _positions(positions: Mapping[TopicPartition, int]) -> list[p.Position]:
    return [p.Position(tp.topic, tp.partition, offset) for tp, offset in positions.items()]


def _offsets(answer: p.Answer) -> dict[TopicPartition, int]:
    found: Iterable[p.Position] = answer.positions
    return {_tp(at.topic, at.partition): at.offset for at in found}
