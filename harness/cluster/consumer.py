"""The consuming half of a session, over confluent-kafka's Consumer.

Positions are librdkafka's own (next offset after the last record handed out, control records
included) because that is what an application would commit; where it knows none yet, the offset that
this session asked for.

Not here: which errors are definite (`outcomes`), settings (`settings`), what the client commits by itself
(`autocommit`).
"""

import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, monotonic_ns
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from harness.cluster.autocommit import AutoCommits
from harness.cluster.bounded import Expired, bounded
from harness.cluster.outcomes import EXPIRED, Failure, Verb, outcome
from harness.cluster.producer import failure_of
from harness.cluster.sidelight import Sidelight
from harness.op import AssignmentKind, TopicPartition
from harness.session import AssignmentEvent, CommittedSeen, EndReached, Fetched, Indefinite

T = TypeVar("T")

SEEK_WAIT_S: Final = 0.01
"""Pause between two tries of a seek that came before its partition was started."""

COMMITTED_WAIT_S: Final = 1.0
"""How long a newly assigned consumer waits to be told its committed offsets."""

_METADATA_MAGIC: Final = b"CGMDv2:"
_DEAD: Final = frozenset({KafkaError._MAX_POLL_EXCEEDED, KafkaError._FATAL})
"""Errors in a polled message after which nothing more will be fetched."""


class SessionConsumer:
    """One consumer. Every method is bounded by the seconds it is given."""

    def __init__(self, settings: Mapping[str, Any], sidelight: Sidelight) -> None:
        self._sidelight = sidelight
        self._tps: dict[tuple[str, int], TopicPartition] = {}
        self._asked: dict[TopicPartition, int] = {}
        self._subscribed = False
        self._broken: Indefinite | None = None
        self._left: threading.Thread | None = None
        self._handed = 0
        """Records that the poll under way has handed out: a rebalance told now comes after them."""
        self._commits: AutoCommits | None = None
        hooks: dict[str, Any] = {"error_cb": sidelight.error, "logger": sidelight}
        if settings["enable.auto.commit"]:
            self._commits = AutoCommits(sidelight)
            hooks["on_commit"] = self._commits.told
        self._client = Consumer({**settings, **hooks})
        self.fatal: str | None = None

    def poll(self, max_records: int, seconds: float) -> list[Fetched]:
        """What is there, waiting for the first message or event only.

        A rebalance that is told while the rest is collected comes after the first message and before
        the others: of those that were collected earlier librdkafka has taken back the ones of
        partitions that it pauses for it (rdkafka_queue.c, rd_kafka_purge_outdated_messages).
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
            # Messages that librdkafka had handed over in this call are gone: the session is over.
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
                    self._tp(message),
                    message.offset() or 0,
                    message.value() or b"",
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
            self._local(client.unsubscribe)
            self._subscribed = False
        self._local(client.assign, [KafkaPartition(*tp, at) for tp, at in positions.items()])
        self._asked = dict(positions)
        if self._commits is not None:
            self._commits.assigned(positions, -1)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics."""
        client = self._usable()
        if not self._subscribed:
            self._local(client.unassign)
        self._asked = {}
        self._local(
            lambda: client.subscribe(
                list(topics),
                on_assign=self._rebalance(AssignmentKind.ASSIGNED),
                on_revoke=self._rebalance(AssignmentKind.REVOKED),
                on_lost=self._rebalance(AssignmentKind.LOST),
            )
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
            tp: at.offset if at.offset >= 0 else max(self._asked.get(tp, -1), -1)
            for tp, at in known.items()
        }

    def offsets(self, positions: Mapping[TopicPartition, int]) -> list[KafkaPartition]:
        """Offsets to commit. Without the leader epoch of the last record a consumer that resumes
        there cannot see that the log was truncated (KAFKA-19902)."""
        known = self._positions()
        offsets = []
        for tp, offset in positions.items():
            at = known.get(tp)
            if at is not None and at.offset == offset:
                offsets.append(at)
            else:
                offsets.append(KafkaPartition(*tp, offset))
        return offsets

    def generation(self) -> int:
        """Generation of the group that this consumer is a member of; -1 outside of one."""
        return generation_of(self.group_metadata())

    def group_metadata(self) -> Any:
        """What `send_offsets_to_transaction` wants of the group."""
        return self._usable().consumer_group_metadata()

    def commit(self, positions: Mapping[TopicPartition, int], seconds: float) -> int:
        """Commit to the group and wait for the answer; the generation used.

        confluent-kafka's synchronous commit has no time-out. While one is left behind, every other
        call on this consumer would block (2.16 lets one thread in at a time): the session is over.
        """
        client, generation = self._usable(), self.generation()
        offsets = self.offsets(positions)

        if self._commits is not None:
            self._commits.asked({TopicPartition(o.topic, o.partition): o.offset for o in offsets})

        def answered() -> list[KafkaPartition]:
            return client.commit(offsets=offsets, asynchronous=False)

        try:
            done = bounded(seconds, answered)
        except Expired as expired:
            self._left = expired.thread
            self.fatal = EXPIRED
            self._broken = Indefinite(EXPIRED, "a commit without answer holds the client")
            raise self._broken from None
        except (KafkaException, SystemError) as error:
            raise outcome(Verb.COMMIT_OFFSETS, self._failure(error)) from None
        errors = [at.error for at in done if at.error is not None]
        if errors:
            raise outcome(Verb.COMMIT_OFFSETS, self._failure(KafkaException(errors[0])))
        return generation

    def close(self) -> None:
        """Leave the group and end; unbounded (the session bounds it)."""
        if self._left is not None:
            self._left.join()
        try:
            self._client.close()
        except (KafkaException, SystemError) as error:
            failure = self._failure(error)  # closing runs callbacks, and tells of fatal errors
            self._sidelight.note(failure.code, failure.message)

    def _usable(self) -> Consumer:
        if self._broken is not None:
            raise self._broken
        return self._client

    def _tp(self, message: Message) -> TopicPartition:
        key = (message.topic() or "", message.partition() or 0)
        tp = self._tps.get(key)
        if tp is None:
            tp = self._tps[key] = TopicPartition(*key)
        return tp

    def _problem(self, error: KafkaError, message: Message) -> Indefinite | None:
        """Note an error that stands in place of a message; the end of the session where it is one.

        Records of the same poll are handed out first; the next poll raises.
        """
        if error.code() == KafkaError._PARTITION_EOF:
            end = EndReached(tp=self._tp(message), offset=message.offset() or 0, ns=monotonic_ns())
            self._sidelight.add(end)
            return None
        failure = self._failure(KafkaException(error))
        self._sidelight.note(failure.code, failure.message)
        if failure.fatal or error.code() in _DEAD:
            return Indefinite(failure.code, failure.message)
        return None

    def _rebalance(self, kind: AssignmentKind) -> Callable[[Consumer, list[KafkaPartition]], None]:
        def rebalanced(_: Consumer, partitions: list[KafkaPartition]) -> None:
            tps = tuple(TopicPartition(at.topic, at.partition) for at in partitions)
            generation = generation_of(self._client.consumer_group_metadata())
            for tp in tps:
                self._asked.pop(tp, None)  # it starts where the group stands, not where we sought
            self._sidelight.add(
                AssignmentEvent(
                    kind=kind,
                    tps=tps,
                    generation=generation,
                    ns=monotonic_ns(),
                    after=self._handed,
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
        """Ask for the committed offsets too, as the client itself does unseen. Evidence only: no
        answer in time is no event."""
        begin = monotonic_ns()
        try:
            known = self._client.committed(partitions, timeout=COMMITTED_WAIT_S)
        except (KafkaException, SystemError):
            return
        offsets = {
            TopicPartition(at.topic, at.partition): at.offset
            for at in known
            if at.error is None and at.offset >= 0
        }
        if offsets:
            now = monotonic_ns()
            self._sidelight.add(
                CommittedSeen(offsets=offsets, generation=generation, begin_ns=begin, ns=now)
            )

    def _positions(self) -> dict[TopicPartition, KafkaPartition]:
        client = self._usable()
        assigned = self._local(client.assignment)
        found = self._local(client.position, assigned) if assigned else []
        return {TopicPartition(at.topic, at.partition): at for at in found}

    def _local(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return function(*arguments)
        except (KafkaException, SystemError) as error:
            raise outcome(Verb.LOCAL, self._failure(error)) from None

    def _failure(self, error: BaseException) -> Failure:
        failure = failure_of(error)
        if failure.fatal and self.fatal is None:
            self.fatal = failure.code
        return failure


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
