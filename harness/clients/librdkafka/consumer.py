"""The consuming half of a session, over confluent-kafka's Consumer.

Positions are librdkafka's own (next offset after the last record handed out, control records
included) because that is what an application would commit; where it knows none yet, the offset that
this session asked for.
"""

import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from time import monotonic, monotonic_ns
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from core.client_settings import Properties
from core.op import AssignmentKind, Outcome, TopicPartition
from core.session import (
    AssignmentEvent,
    AutoCommitted,
    CommittedSeen,
    Definite,
    EndReached,
    Fetched,
    Indefinite,
)
from harness.clients.librdkafka.client_part import ClientEvents, MemberPart, failure_of
from harness.clients.librdkafka.error_table import EXPIRED, Verb, outcome
from harness.clients.librdkafka.producer import TOMBSTONE

_tp = cache(TopicPartition)

NOTHING = KafkaError._NO_OFFSET
"""Code of a commit that had nothing to commit: not an event."""

SEEK_WAIT_S: Final = 0.01
"""Pause between two tries of a seek that came before its partition was started."""

COMMITTED_WAIT_S: Final = 1.0
"""How long a newly assigned consumer waits for its committed offsets."""

_METADATA_MAGIC: Final = b"CGMDv2:"
_DEAD: Final = frozenset({KafkaError._MAX_POLL_EXCEEDED, KafkaError._FATAL})
"""Errors in a polled message after which nothing more will be fetched."""


class AutoCommits:
    """What one consumer commits automatically (`enable.auto.commit`), by librdkafka's callback.

    The callback says when a commit was answered, not when it was sent. An offset can be committed only
    after a poll returned the record before it, so the begin of that poll is the earliest moment; several
    commits may be under way when one is answered. Used by the thread that polls, then by the one that
    closes.
    """

    def __init__(self, events: ClientEvents) -> None:
        self._events = events
        self._generation = -1
        self._since = monotonic_ns()
        self._handed: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """For each partition: (offset after the last record of a poll, begin of that poll). Its
        assignment counts as a poll without records."""
        self._own: list[dict[TopicPartition, int]] = []

    def assigned(self, tps: Iterable[TopicPartition], generation: int) -> None:
        """The consumer got these partitions; commits from now on are of this generation.
        (librdkafka gives a partition up only after its commits were answered.)"""
        self._generation = generation
        now = monotonic_ns()
        for tp in tps:
            self._handed[tp] = deque([(0, now)])

    def handed(self, positions: Mapping[TopicPartition, int], begin_ns: int) -> None:
        """A poll that began at `begin_ns` left these positions."""
        for tp, position in positions.items():
            self._handed.setdefault(tp, deque()).append((position, begin_ns))

    def asked(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The session itself commits these offsets: the same callback reports that too."""
        self._own.append(dict(offsets))

    def answered(self, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> None:
        """librdkafka's callback (`on_commit`)."""
        if error is not None and error.code() == NOTHING:
            return
        offsets = {_tp(at.topic, at.partition): at.offset for at in partitions if at.offset >= 0}
        if offsets in self._own:
            self._own.remove(offsets)
            return
        errors = {_tp(at.topic, at.partition): at.error or error for at in partitions}
        begin = max([self._since, *(self._earliest(tp, o) for tp, o in offsets.items())])
        found: dict[Outcome, dict[TopicPartition, int]] = {}
        for tp, offset in offsets.items():
            found.setdefault(_outcome(errors[tp]), {})[tp] = offset
        for what, those in found.items():
            self._events.add(
                AutoCommitted(
                    offsets=those,
                    generation=self._generation,
                    outcome=what,
                    begin_ns=begin,
                    ns=monotonic_ns(),
                )
            )

    def _earliest(self, tp: TopicPartition, offset: int) -> int:
        """Begin of the last poll all of whose records were returned before this commit."""
        polls = self._handed.get(tp, deque())
        while len(polls) > 1 and polls[1][0] <= offset:
            polls.popleft()
        return polls[0][1] if polls and polls[0][0] <= offset else 0


class SessionConsumer(MemberPart[Consumer]):
    """One consumer. Every method is bounded by the seconds it is given."""

    def __init__(self, settings: Properties, events: ClientEvents) -> None:
        super().__init__(events)
        self._asked: dict[TopicPartition, int] = {}
        self._subscribed = False
        self._handed = 0
        """Records that the current poll has returned: a rebalance reported now comes after them."""
        self._commits: AutoCommits | None = None
        hooks = events.hooks
        if settings["enable.auto.commit"]:
            self._commits = AutoCommits(events)
            hooks["on_commit"] = self._commits.answered
        self._client = Consumer({**settings, **hooks})

    def poll(self, max_records: int, seconds: float) -> list[Fetched]:
        """The messages that have arrived; waits for the first message or event only.

        A rebalance that is reported while the rest is collected comes after the first message and
        before the others: of those collected earlier, librdkafka has dropped the ones of partitions
        that it pauses for it (rdkafka_queue.c, rd_kafka_purge_outdated_messages).
        """
        client, begin = self._usable(), monotonic_ns()
        self._handed = 0
        try:
            first = client.poll(seconds)
            if first is None:
                return []
            messages = [first]
            if max_records > 1:
                self._handed = int(first.error() is None)
                messages += client.consume(max_records - 1, 0)
                self._handed = 0
        except (KafkaException, SystemError) as error:
            # Messages that librdkafka had handed over in this call are lost: the session ends.
            self._broken = Indefinite(self._failure(error).code)
            raise self._broken from None
        fetched: list[Fetched] = []
        broken: Indefinite | None = None
        for message in messages:
            problem = message.error()
            if problem is not None:
                broken = self._problem(problem, message) or broken
                continue
            epoch = message.leader_epoch()
            fetched.append(
                Fetched(
                    _tp(message.topic() or "", message.partition() or 0),
                    message.offset() or 0,
                    message.value() or _of_tombstone(message),
                    -1 if epoch is None else epoch,
                )
            )
        self._broken = broken
        if broken is not None and not fetched:
            raise broken
        if self._commits is not None:
            self._commits.handed({at.tp: at.offset + 1 for at in fetched}, begin)
        return fetched

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets; leaves the group if there is one."""
        client = self._usable()
        if self._subscribed:
            self._call(Verb.LOCAL, client.unsubscribe)
            self._subscribed = False
        self._call(Verb.LOCAL, client.assign, [KafkaPartition(*tp, at) for tp, at in positions.items()])
        self._asked = dict(positions)
        if self._commits is not None:
            self._commits.assigned(positions, -1)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics."""
        client = self._usable()
        if not self._subscribed:
            self._call(Verb.LOCAL, client.unassign)
        self._asked = {}
        self._call(
            Verb.LOCAL,
            client.subscribe,
            list(topics),
            on_assign=self._rebalance(AssignmentKind.ASSIGNED),
            on_revoke=self._rebalance(AssignmentKind.REVOKED),
            on_lost=self._rebalance(AssignmentKind.LOST),
        )
        self._subscribed = True

    def seek(self, positions: Mapping[TopicPartition, int], seconds: float) -> None:
        """Move positions. A partition that is not started yet is waited for: librdkafka starts
        what it is assigned in the background and refuses to seek before (_STATE)."""
        client, until = self._usable(), monotonic() + seconds
        for tp, offset in positions.items():
            while True:
                try:
                    client.seek(KafkaPartition(*tp, offset))
                except KafkaException as error:
                    failure = self._failure(error)
                    if failure.code not in ("_STATE", "_PREV_IN_PROGRESS"):
                        raise outcome(Verb.LOCAL, failure) from None
                    if monotonic() >= until:
                        raise Indefinite(EXPIRED, failure.message) from None
                    time.sleep(SEEK_WAIT_S)
                else:
                    self._asked[tp] = offset
                    break

    def position(self) -> dict[TopicPartition, int]:
        """Next offset of each assigned partition; -1 where it is not known yet."""
        known = self._positions()
        return {
            tp: at.offset if at.offset >= 0 else max(self._asked.get(tp, -1), -1) for tp, at in known.items()
        }

    def offsets(self, positions: Mapping[TopicPartition, int]) -> list[KafkaPartition]:
        """Offsets to commit. Without the leader epoch of the last record a consumer that resumes
        there cannot see that the log was truncated (KAFKA-19902)."""
        known = self._positions()
        wanted = {tp: KafkaPartition(*tp, offset) for tp, offset in positions.items()}
        return [
            known[tp] if tp in known and known[tp].offset == at.offset else at for tp, at in wanted.items()
        ]

    def generation(self) -> int:
        """Generation of the group that this consumer is a member of; -1 outside of one."""
        return generation_of(self.group_metadata())

    def group_metadata(self) -> object:
        """What `send_offsets_to_transaction` wants of the group."""
        return self._usable().consumer_group_metadata()

    def commit(self, positions: Mapping[TopicPartition, int], seconds: float) -> int:
        """Commit to the group and wait for the answer; the generation used.

        confluent-kafka's synchronous commit has no time-out. While one is left behind, every other
        call on this consumer would block (2.16 lets one thread in at a time): the session has ended.
        """
        client, generation = self._usable(), self.generation()
        offsets = self.offsets(positions)
        if self._commits is not None:
            self._commits.asked({_tp(at.topic, at.partition): at.offset for at in offsets})

        def answered() -> list[KafkaPartition]:
            return client.commit(offsets=offsets, asynchronous=False)

        late = "a commit without answer holds the client"
        done = self._bounded(Verb.COMMIT_OFFSETS, late, seconds, answered)
        errors = [at.error for at in done if at.error is not None]
        if errors:
            raise outcome(Verb.COMMIT_OFFSETS, self._failure(KafkaException(errors[0])))
        return generation

    def _problem(self, error: KafkaError, message: Message) -> Indefinite | None:
        """Note an error that stands in place of a message; the end of the session where it is one.

        Records of the same poll are handed out first; the next poll raises.
        """
        if error.code() == KafkaError._PARTITION_EOF:
            tp = _tp(message.topic() or "", message.partition() or 0)
            self._events.add(EndReached(tp=tp, offset=message.offset() or 0, ns=monotonic_ns()))
            return None
        failure = self._note(KafkaException(error))
        if failure.fatal or error.code() in _DEAD:
            return Indefinite(failure.code, failure.message)
        return None

    def _rebalance(self, kind: AssignmentKind) -> Callable[[Consumer, list[KafkaPartition]], None]:
        def rebalanced(_: Consumer, partitions: list[KafkaPartition]) -> None:
            tps = tuple(_tp(at.topic, at.partition) for at in partitions)
            generation = generation_of(self._client.consumer_group_metadata())
            for tp in tps:
                self._asked.pop(tp, None)  # it starts where the group stands, not where we sought
            self._events.add(
                AssignmentEvent(
                    kind=kind, tps=tps, generation=generation, ns=monotonic_ns(), after=self._handed
                )
            )
            if kind is not AssignmentKind.ASSIGNED:
                return
            if self._commits is not None:
                self._commits.assigned(tps, generation)
            if partitions:
                self._see_committed(partitions, generation)

        return rebalanced

    def _see_committed(self, partitions: list[KafkaPartition], generation: int) -> None:
        """Ask for the committed offsets too, as the client itself does unseen. Evidence only: without
        an answer in time there is no event."""
        begin = monotonic_ns()
        try:
            known = self._client.committed(partitions, timeout=COMMITTED_WAIT_S)
        except (KafkaException, SystemError):
            return
        offsets = {
            _tp(at.topic, at.partition): at.offset for at in known if at.error is None and at.offset >= 0
        }
        if offsets:
            now = monotonic_ns()
            self._events.add(CommittedSeen(offsets=offsets, generation=generation, begin_ns=begin, ns=now))

    def _positions(self) -> dict[TopicPartition, KafkaPartition]:
        client = self._usable()
        assigned = self._call(Verb.LOCAL, client.assignment)
        found = self._call(Verb.LOCAL, client.position, assigned) if assigned else []
        return {_tp(at.topic, at.partition): at for at in found}


def generation_of(metadata: object) -> int:
    """Generation id in the bytes of `consumer_group_metadata()`; -1 where they are not understood.

    Layout: rdkafka_cgrp.c, rd_kafka_consumer_group_metadata_write ("CGMDv2:", int32 of the host).
    """
    if not isinstance(metadata, bytes) or not metadata.startswith(_METADATA_MAGIC):
        return -1
    try:
        generation: int = struct.unpack_from("=i", metadata, len(_METADATA_MAGIC))[0]
    except struct.error:
        return -1
    return generation


def _of_tombstone(message: Message) -> bytes:
    """The payload of a record without a value, from its header; b"" where it has none."""
    payload = dict(message.headers() or ()).get(TOMBSTONE)
    return payload if isinstance(payload, bytes) else b""


def _outcome(error: KafkaError | None) -> Outcome:
    if error is None:
        return Outcome.OK
    refused = outcome(Verb.COMMIT_OFFSETS, failure_of(KafkaException(error)))
    return Outcome.FAIL if isinstance(refused, Definite) else Outcome.INFO
