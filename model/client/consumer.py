"""A consumer as real ones are: positions, fetches to the leaders, isolation, committed offsets.

It keeps one fetch under way to each leader of a partition that it is assigned and has nothing buffered of,
hands records out in the order of their offsets, passes control records and, at read_committed, records of
aborted transactions over without handing them out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from model.client.client_metadata import BACKOFF_MS, ClientMetadata, KafkaClient
from model.errors import NO_ERROR, KafkaError
from model.log.unified_log import REMOVED, AbortedTxn, RecordBatch
from model.protocol.messages import (
    Fetch,
    FetchPartition,
    FetchResponse,
    ListOffsets,
    ListOffsetsResponse,
    Partition,
)
from model.protocol.requests import R, Request

BEGINNING: Final = -2


class ConsumerRecord(msgspec.Struct, frozen=True):
    """A record that was handed out."""

    tp: Partition
    offset: int
    payload: object
    leader_epoch: int


@dataclass(slots=True)
class TopicPartitionState:
    """One assigned partition. `next`: offset to fetch from, BEGINNING = not known yet; `position`: next to
    hand out; `epoch`: leader epoch of the last record that was; `end`: the end that the newest fetch showed
    (LSO or HW), -1 unknown."""

    next: int
    position: int
    buffer: list[ConsumerRecord] = field(default_factory=list)
    after: int = -1
    """Position once the buffer is empty: behind what is not handed out."""
    end: int = -1
    epoch: int = -1
    pause: int = 0
    aborted: set[int] = field(default_factory=set)


class Consumer(KafkaClient):
    """See the module. `resets`: partitions that began again, and their offset, which was out of range."""

    def __init__(
        self,
        bootstrap: Sequence[int],
        *,
        committed: bool,
        wait_ms: int = 100,
        bugs: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(ClientMetadata(bootstrap))
        self.committed = committed
        self.wait_ms = wait_ms
        self.bugs = bugs
        self.positions: dict[Partition, TopicPartitionState] = {}
        self.resets: list[tuple[Partition, int]] = []
        self._flights: dict[int, dict[Partition, int]] = {}
        """By node: offsets that it is asked for; one request at a time to each."""
        self._number = 0
        self._stopped = False

    # ---- what the application does

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets (BEGINNING: the log's start); no others."""
        self.positions = {
            tp: TopicPartitionState(offset, max(offset, -1)) for tp, offset in positions.items()
        }

    def assign_more(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions, too, or again from there."""
        for tp, offset in positions.items():
            self.positions[tp] = TopicPartitionState(offset, max(offset, -1))

    def unassign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions no more; what was fetched of them is thrown away."""
        for tp in partitions:
            self.positions.pop(tp, None)

    def seek(self, tp: Partition, offset: int) -> None:
        """Read on from another offset; what was fetched is thrown away."""
        self.positions[tp] = TopicPartitionState(offset, max(offset, -1), end=self.positions[tp].end)

    def take(self, most: int) -> list[ConsumerRecord]:
        """Buffered records, at most `most`; positions move behind them."""
        taken: list[ConsumerRecord] = []
        for position in self.positions.values():
            room = most - len(taken)
            if position.buffer and room > 0:
                part, position.buffer = position.buffer[:room], position.buffer[room:]
                if "drops-what-does-not-fit" in self.bugs:
                    position.buffer = []
                taken += part
                position.position = part[-1].offset + 1
                position.epoch = part[-1].leader_epoch
            if not position.buffer and position.after >= 0:
                position.position, position.after = max(position.position, position.after), -1
        return taken

    @property
    def ready(self) -> bool:
        """There is something to take."""
        for position in self.positions.values():  # noqa: SIM110 (asked often, and `any` is slower)
            if position.buffer:
                return True
        return False

    # ---- time and answers

    def pump(self, now: int) -> None:
        """Ask for what is not under way."""
        self.out += self.cluster.requests(now)
        if self._stopped:
            return
        asked = self._flights
        wanted: dict[int, dict[Partition, FetchPartition]] = {}
        starts: dict[int, list[Partition]] = {}
        leaders = self.cluster.leaders
        for tp, position in self.positions.items():
            if position.buffer or position.pause > now:
                continue
            node, epoch = leaders.get(tp, (-1, -1))
            if node in asked or (asked and any(tp in parts for parts in asked.values())):
                continue
            if node < 0:
                self.cluster.wanted = True
            elif position.next == BEGINNING:
                starts.setdefault(node, []).append(tp)
            else:
                wanted.setdefault(node, {})[tp] = FetchPartition(position.next, epoch)
        for node, parts in wanted.items():
            request = Fetch(-1, parts, self.committed, self.wait_ms)
            self._read(node, request, {tp: part.offset for tp, part in parts.items()}, self._fetched)
        for node, tps in starts.items():
            if node not in wanted:
                starting = ListOffsets(tps, earliest=True)
                self._read(node, starting, dict.fromkeys(tps, BEGINNING), self._started)

    def _read(
        self,
        node: int,
        request: Request[R],
        offsets: dict[Partition, int],
        take: Callable[[Partition, TopicPartitionState, R], KafkaError],
    ) -> None:
        def then(answer: "R | None", now: int) -> None:  # a text: a closure evaluates others each time
            del self._flights[node]
            for tp, offset in offsets.items():
                position = self.positions.get(tp)
                if position is None or position.next != offset:
                    continue  # assigned or sought again meanwhile
                if answer is None or take(tp, position, answer) is not NO_ERROR:
                    position.pause = now + BACKOFF_MS
                    self.cluster.wanted = True
                    self._stopped = "stops-after-an-error" in self.bugs

        self._number += 1
        self._flights[node] = offsets
        self._ask(node, f"consume {self._number}", request, then)

    def _started(
        self, tp: Partition, position: TopicPartitionState, answer: ListOffsetsResponse
    ) -> KafkaError:
        error, offset = answer.parts[tp]
        if error is NO_ERROR:
            position.next = position.position = offset
        return error

    def _fetched(self, tp: Partition, position: TopicPartitionState, answer: FetchResponse) -> KafkaError:
        found = answer.parts[tp]
        if found.error is NO_ERROR:
            position.end = found.stable if self.committed else found.high_watermark
            self._buffer(tp, position, found.batches, list(found.aborted))
        elif found.error is KafkaError.OFFSET_OUT_OF_RANGE:
            self.resets.append((tp, position.next))
            position.next = BEGINNING  # auto.offset.reset=earliest
            position.aborted.clear()
            return NO_ERROR
        elif "starts-over-on-error" in self.bugs:
            position.next = BEGINNING
        return found.error

    def _buffer(
        self,
        tp: Partition,
        position: TopicPartitionState,
        batches: Sequence[RecordBatch],
        aborted: list[AbortedTxn],
    ) -> None:
        """Take out what is handed out of the batches (Fetcher.nextFetchedRecord's rule: a producer's
        records are aborted from the first offset of an aborted transaction to its marker)."""
        aborted.sort(key=lambda a: a.first)
        for batch in batches:
            while aborted and aborted[0].first <= batch.last:
                position.aborted.add(aborted.pop(0).producer_id)
            if batch.control and "abort-marker-not-seen" not in self.bugs:
                position.aborted.discard(batch.producer_id)
            skip = batch.transactional and batch.producer_id in position.aborted
            if skip and self.committed and "aborted-not-filtered" in self.bugs:
                skip = False
            if not batch.control and not (skip and self.committed):
                for n, payload in enumerate(batch.records):
                    if batch.base + n >= position.next and payload is not REMOVED:
                        position.buffer.append(ConsumerRecord(tp, batch.base + n, payload, batch.epoch))
            position.next = batch.last + 1
        if position.buffer:
            position.after = position.next
        else:
            position.position = max(position.position, position.next)
