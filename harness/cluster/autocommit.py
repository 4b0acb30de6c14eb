"""What a consumer commits by itself (`enable.auto.commit`), as librdkafka's callback tells it.

The callback says that a commit was answered, not when it was asked for. An offset can only be committed
once the record before it was handed out, so the poll that did that is the earliest moment: several
commits may be under way when one of them is told.

Not here: commits that the session asks for (`consumer`).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic_ns

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from harness.cluster.outcomes import Verb, outcome
from harness.cluster.producer import failure_of
from harness.cluster.sidelight import Sidelight
from harness.op import Outcome, TopicPartition
from harness.session import AutoCommitted, Definite

NOTHING = KafkaError._NO_OFFSET
"""Code of a commit that had nothing to commit: not an event."""


class AutoCommits:
    """Of one consumer. Used from the thread that polls only (and the one that closes, after it)."""

    def __init__(self, sidelight: Sidelight) -> None:
        self._sidelight = sidelight
        self._generation = -1
        self._since = monotonic_ns()
        self._handed: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Of each partition: (offset after the last record of a poll, begin of that poll). Its
        assignment stands there as a poll of nothing."""
        self._own: list[dict[TopicPartition, int]] = []

    def assigned(self, tps: Iterable[TopicPartition], generation: int) -> None:
        """These partitions were given to the consumer; commits from now on are of this generation.
        (librdkafka gives a partition up only when its commits were answered.)"""
        self._generation = generation
        now = monotonic_ns()
        for tp in tps:
            self._handed[tp] = deque([(0, now)])

    def handed(self, positions: Mapping[TopicPartition, int], begin_ns: int) -> None:
        """A poll that began at `begin_ns` left these positions."""
        for tp, position in positions.items():
            self._handed.setdefault(tp, deque()).append((position, begin_ns))

    def asked(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The session itself commits these offsets: librdkafka tells of that by the same callback."""
        self._own.append(dict(offsets))

    def told(self, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> None:
        """librdkafka's callback (`on_commit`)."""
        if error is not None and error.code() == NOTHING:
            return
        offsets = {
            TopicPartition(at.topic, at.partition): at.offset for at in partitions if at.offset >= 0
        }
        if offsets in self._own:
            self._own.remove(offsets)
            return
        errors = {TopicPartition(at.topic, at.partition): at.error or error for at in partitions}
        begin = max([self._since, *(self._earliest(tp, o) for tp, o in offsets.items())])
        found: dict[Outcome, dict[TopicPartition, int]] = {}
        for tp, offset in offsets.items():
            found.setdefault(_outcome(errors[tp]), {})[tp] = offset
        for what, those in found.items():
            self._sidelight.add(
                AutoCommitted(
                    offsets=those,
                    generation=self._generation,
                    outcome=what,
                    begin_ns=begin,
                    ns=monotonic_ns(),
                )
            )

    def _earliest(self, tp: TopicPartition, offset: int) -> int:
        """Begin of the last poll whose records were all handed out before this commit."""
        polls = self._handed.get(tp, deque())
        while len(polls) > 1 and polls[1][0] <= offset:
            polls.popleft()
        return polls[0][1] if polls and polls[0][0] <= offset else 0


def _outcome(error: KafkaError | None) -> Outcome:
    if error is None:
        return Outcome.OK
    refused = outcome(Verb.COMMIT_OFFSETS, failure_of(KafkaException(error)))
    return Outcome.FAIL if isinstance(refused, Definite) else Outcome.INFO
