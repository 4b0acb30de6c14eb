"""A member of a share group: joins, acquires records, acknowledges them (KIP-932, explicit mode).

While the application waits for records and has none, it asks one leader after another, one at a time, and
hands out all that an answer brings. What it says of records goes to the broker that gave them. Of offsets
that were given without a record (markers) it says so itself, with its next request for records.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from model.client.client_metadata import BACKOFF_MS, RETRIABLE, ClientMetadata, KafkaClient
from model.errors import NO_ERROR, KafkaError
from model.log.unified_log import REMOVED
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse, Request
from model.protocol.share_messages import (
    NONE_SAID,
    AcknowledgementBatch,
    Acknowledgements,
    AcknowledgeType,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    SharedPartition,
    ShareFetch,
    ShareFetchResponse,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResponse,
)
from model.share.share_partition_manager import LAST

UNHEARD: Final = "_TIMED_OUT"
"""Of acknowledgements without an answer."""
A = TypeVar("A", bound=ErrorResponse)
Said = Mapping[Partition, Sequence[tuple[int, AcknowledgeType]]]
"""By partition: offsets, and what is said of the record there."""


class ShareRecord(msgspec.Struct, frozen=True):
    """A record that was handed out. count: how often it was delivered. asked_ms: when it was asked for.
    node: who gave it."""

    tp: Partition
    offset: int
    payload: object
    count: int
    asked_ms: int
    node: int


@dataclass(slots=True)
class BrokerSession:
    """With one broker. epoch: of the next request. gaps: what is to be said of offsets without a record."""

    epoch: int = 0
    gaps: dict[Partition, list[AcknowledgementBatch]] = field(default_factory=dict)


@dataclass(slots=True)
class _Waiting:
    """An acknowledgement that was not sent yet to some brokers, or not answered. left: by broker."""

    left: dict[int, Acknowledgements]
    sent: set[int] = field(default_factory=set)
    outcomes: dict[Partition, str] = field(default_factory=dict)

    def decided(self, node: int, outcome: Mapping[Partition, str]) -> None:
        """What a broker answered: error names, "" = done. Two brokers that disagree decide nothing."""
        for tp in self.left.pop(node):
            told = outcome.get(tp, UNHEARD)
            self.outcomes[tp] = told if self.outcomes.get(tp, told) == told else UNHEARD


class ShareConsumer(KafkaClient):
    """See the module. `wants`: the application waits for records. `answers`: outcome by number of an
    acknowledgement and partition: error name, "" = done."""

    def __init__(self, group: str, member: str, bootstrap: Sequence[int], wait_ms: int = 500) -> None:
        super().__init__(ClientMetadata(bootstrap))
        self.group = group
        self.member = member
        self.wait_ms = wait_ms
        self.wants = False
        self.partitions: tuple[Partition, ...] = ()
        self.answers: dict[int, dict[Partition, str]] = {}
        self._topics: tuple[str, ...] = ()
        self._epoch = 0
        self._beat_at = self._pause = 0
        self._records: list[ShareRecord] = []
        self._givers: dict[tuple[Partition, int], int] = {}
        self._sessions: dict[int, BrokerSession] = {}
        self._busy: set[int] = set()
        self._acknowledging: dict[int, _Waiting] = {}
        self._number = self._turn = 0

    # ---- what the application does

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics."""
        self._topics = tuple(topics)

    @property
    def ready(self) -> bool:
        """There is something to take."""
        return bool(self._records)

    def take(self) -> list[ShareRecord]:
        """All records that were brought; each is to be acknowledged, also what was kept and came again."""
        taken, self._records = self._records, []
        self._givers |= {(one.tp, one.offset): one.node for one in taken}
        return taken

    def acknowledge(self, said: Said) -> int:
        """Acknowledge records; the number under which `answers` will tell. A record that is renewed stays
        to be acknowledged."""
        self._number += 1
        left: dict[int, dict[Partition, list[AcknowledgementBatch]]] = {}
        for tp, records in said.items():
            for offset, kind in records:
                node = self._givers[tp, offset]
                if kind is not AcknowledgeType.RENEW:
                    del self._givers[tp, offset]
                batches = left.setdefault(node, {}).setdefault(tp, [])
                batches.append(AcknowledgementBatch(offset, offset, kind))
        self._acknowledging[self._number] = _Waiting(dict(left))
        return self._number

    def leave(self) -> None:
        """Leave the group and end all sessions, without waiting for the answers."""
        for node in self._sessions:
            if node not in self._busy:
                self._ask(node, f"share {node}", self._last(), lambda answer, now: None)
        node = self.cluster.coordinators.get((self.group, True), -1)
        if self._epoch and node >= 0:
            request = ShareGroupHeartbeat(self.group, self.member, LAST)
            self._ask(node, "leave", request, lambda answer, now: None)
        self._topics = ()

    def _last(self) -> ShareAcknowledge:
        return ShareAcknowledge(self.group, self.member, LAST)

    # ---- time and answers

    def pump(self, now: int) -> None:
        """Send what is to be sent."""
        self.out += self.cluster.requests(now)
        if not self._topics:
            return
        self._beat(now)
        for number, waiting in list(self._acknowledging.items()):
            for node, said in list(waiting.left.items()):
                if node not in waiting.sent:
                    self._say(number, waiting, node, said)
            self._settle(number, waiting)
        if self.wants and not self._records and not self._busy and now >= self._pause:
            self._fetch(now)

    def _beat(self, now: int) -> None:
        node, asks = self.cluster.coordinator(self.group, True, now)
        self.out += asks
        if node < 0 or now < self._beat_at:
            return
        self._beat_at = now + BACKOFF_MS
        request = ShareGroupHeartbeat(self.group, self.member, self._epoch, self._topics)
        self._ask(node, "beat", request, self._beaten)

    def _beaten(self, answer: ShareGroupHeartbeatResponse | None, now: int) -> None:
        error = KafkaError.REQUEST_TIMED_OUT if answer is None else answer.error
        if answer is not None and error is NO_ERROR:
            self._epoch, self.partitions = answer.member_epoch, tuple(answer.partitions)
            self._beat_at = now + (answer.heartbeat_ms if self.partitions else BACKOFF_MS)
            return
        self._beat_at = now + BACKOFF_MS
        if error in RETRIABLE:
            self.cluster.forget(self.group, True)
        else:
            self._epoch = 0  # it joins again, and keeps what it has

    # ---- records

    def _fetch(self, now: int) -> None:
        by_node: dict[int, list[Partition]] = {}
        for tp in self.partitions:
            node, _ = self.cluster.leaders.get(tp, (-1, -1))
            if node < 0:
                self.cluster.wanted = True
            else:
                by_node.setdefault(node, []).append(tp)
        if not by_node:
            return
        self._turn += 1
        node = sorted(by_node)[self._turn % len(by_node)]
        session = self._sessions.setdefault(node, BrokerSession())
        gaps = session.gaps if session.epoch else NONE_SAID
        session.gaps = {}
        tps = tuple(sorted({*by_node[node], *gaps}))
        request = ShareFetch(self.group, self.member, session.epoch, tps, gaps, self.wait_ms)
        self._send(node, request, lambda answer, when: self._fetched(node, now, answer, when))

    def _send(self, node: int, request: Request[A], then: Callable[[A | None, int], None]) -> None:
        """The next request of the session with a broker."""
        self._sessions[node].epoch += 1
        self._busy.add(node)

        def answered(answer: A | None, now: int) -> None:
            self._busy.discard(node)
            if answer is None or answer.error is not NO_ERROR:
                self._sessions.pop(node, None)  # the next request begins a new one
            then(answer, now)

        self._ask(node, f"share {node}", request, answered)

    def _fetched(self, node: int, asked_ms: int, answer: ShareFetchResponse | None, now: int) -> None:
        if answer is None or answer.error is not NO_ERROR:
            self._pause = now + BACKOFF_MS
            self.cluster.wanted = True
            return
        for tp, part in answer.parts.items():
            if part.error is not NO_ERROR:
                self._pause = now + BACKOFF_MS
                self.cluster.wanted = True
            self._take_in(node, tp, part, asked_ms)

    def _take_in(self, node: int, tp: Partition, part: SharedPartition, asked_ms: int) -> None:
        there = {
            batch.base + n: payload
            for batch in part.batches
            if not batch.control
            for n, payload in enumerate(batch.records)
            if payload is not REMOVED
        }
        for given in part.acquired:
            for offset in range(given.first, given.last + 1):
                if offset in there:
                    record = ShareRecord(tp, offset, there[offset], given.times, asked_ms, node)
                    self._records.append(record)
                else:
                    gap = AcknowledgementBatch(offset, offset, AcknowledgeType.GAP)
                    self._sessions[node].gaps.setdefault(tp, []).append(gap)

    # ---- acknowledgements

    def _say(self, number: int, waiting: _Waiting, node: int, said: Acknowledgements) -> None:
        session = self._sessions.get(node)
        if session is None or session.epoch == 0:
            waiting.decided(node, dict.fromkeys(said, KafkaError.SHARE_SESSION_NOT_FOUND.name))
            return
        if node in self._busy:
            return
        waiting.sent.add(node)
        request = ShareAcknowledge(self.group, self.member, session.epoch, said)
        self._send(node, request, lambda answer, now: self._said(number, node, answer))

    def _said(self, number: int, node: int, answer: ShareAcknowledgeResponse | None) -> None:
        waiting = self._acknowledging[number]
        if answer is None:
            waiting.decided(node, {})
        elif answer.error is not NO_ERROR:
            waiting.decided(node, dict.fromkeys(waiting.left[node], answer.error.name))
        else:
            told = {tp: "" if error is NO_ERROR else error.name for tp, error in answer.parts.items()}
            waiting.decided(node, told)
            if any(told.values()):
                self.cluster.wanted = True
        self._settle(number, waiting)

    def _settle(self, number: int, waiting: _Waiting) -> None:
        if not waiting.left and number in self._acknowledging:
            self.answers[number] = self._acknowledging.pop(number).outcomes
