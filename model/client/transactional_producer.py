"""The transactional side of a producer: its id, the partitions of the open transaction, its end.

    begin -> records, offsets -> commit or abort

The client asks the coordinator for its producer id once, and adds a partition before it sends the first
record there; with transaction protocol 2 the leader adds it when the record comes (KIP-890). It asks for the
end again, on a new connection, when no answer comes: the coordinator makes that harmless, or not
(KAFKA-17754: with transaction protocol 1 a late copy ends the next transaction).

Left out: of INVALID_PRODUCER_ID_MAPPING (the coordinator has forgotten the id) a producer is finished here;
Java clients and librdkafka abort and ask for a new producer id.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from model.client.client_metadata import BACKOFF_MS, RETRIABLE
from model.client.producer import FENCED, Producer, ProducerBatch, ProducerSettings
from model.errors import NO_ERROR, KafkaError
from model.log.unified_log import NO_PRODUCER
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    InitProducerId,
    ProducerIdResponse,
    TxnOffsetCommit,
)
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse, Request

E = TypeVar("E", bound=ErrorResponse)

FATAL: Final = FENCED | {KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.INVALID_TXN_STATE}
"""Answers of coordinators after which the producer is finished. To a batch the last two fail the
transaction only (Java: `TransactionManager.maybeTransitionToErrorState`; librdkafka:
`rd_kafka_handle_Produce_error`)."""


@dataclass(slots=True, eq=False)
class TransactionalRequestResult:
    """Something that the application waits for. error "" = it went well; `abort`: an abort would help."""

    done: bool = False
    error: str = ""
    abort: bool = False

    def finish(self, error: str = "", *, abort: bool = False) -> None:
        """Record the outcome; the first one counts."""
        if not self.done:
            self.done, self.error, self.abort = True, error, abort


class TransactionalProducer(Producer):
    """See the module. `failed`: code of the error for which the open transaction must be aborted."""

    def __init__(self, settings: ProducerSettings, bootstrap: Sequence[int]) -> None:
        super().__init__(settings, bootstrap)
        assert settings.transactional_id is not None
        self.id = settings.transactional_id
        self.open = False
        self.failed = ""
        self._added: dict[Partition, None] = {}
        """Partitions of the open transaction, in the order in which they were added."""
        self._adding = False
        self._goals: dict[str, TransactionalRequestResult] = {}
        self._pause = 0
        self._ending: bool | None = None
        self._offsets: tuple[str, Mapping[Partition, int], int, str, Mapping[Partition, int]] | None = None
        self._group_added = False

    # ---- what the application does

    def init(self) -> TransactionalRequestResult:
        """Get the producer id and fence the previous owner of the transactional id."""
        return self._goals.setdefault("init", TransactionalRequestResult())

    def begin(self) -> None:
        """Begin a transaction: nothing is sent yet."""
        assert not self.open
        self.open, self.failed, self._ending = True, "", None
        self._added, self._group_added, self._offsets = {}, False, None

    def add_offsets(
        self,
        group: str,
        offsets: Mapping[Partition, int],
        generation: int,
        member: str,
        epochs: Mapping[Partition, int],
    ) -> TransactionalRequestResult:
        """Offsets of a group, with leader epochs, become part of the transaction."""
        self._offsets = (group, offsets, generation, member, epochs)
        return self._goals.setdefault("offsets", TransactionalRequestResult())

    def finish(self, *, commit: bool) -> TransactionalRequestResult:
        """Commit or abort. A commit waits until every record is acknowledged, an abort for those that were
        sent until they are answered or given up (Java: `TransactionManager.nextRequest`)."""
        goal = self._goals["finish"] = TransactionalRequestResult()
        self._ending = commit
        if not commit:
            self.purge("_PURGE")
            self._goals.pop("offsets", None)
        return goal

    # ---- time and answers

    def pump(self, now: int) -> None:
        """Send what can be sent."""
        self.out += self.cluster.requests(now)
        if self.fatal:
            for goal in self._goals.values():
                goal.finish(self.fatal)
            self.drop(self.fatal)
            return
        self._expire(now)
        for lane in self.lanes.values():
            if lane.broken:
                self._fail("_MSG_TIMED_OUT")
                break
        node, asks = self.cluster.coordinator(self.id, False, now)
        self.out += asks
        if node < 0 or now < self._pause:
            return
        init = self._goals.get("init")
        if init is not None and not init.done:
            timeout = self.settings.transaction_timeout_ms
            request = InitProducerId(self.id, timeout, *self._identity)
            self._request(node, "init", request, self._initialised)
            return
        if self.open:
            self._advance(node, now)

    def _advance(self, node: int, now: int) -> None:
        """Add partitions, send records, add offsets, end."""
        if self._ending is not False:
            wanted = tuple(tp for tp, lane in self.lanes.items() if lane.queue and tp not in self._added)
            if self._added_by_leaders:
                self._added.update(dict.fromkeys(wanted))
            elif wanted and not self._adding:
                self._number += 1
                self._adding = True
                request = AddPartitionsToTxn(self.id, *self._identity, wanted)
                self._ask(node, f"add {self._number}", request, partial(self._partitions_added, wanted))
        for tp in self._added:
            if tp in self.lanes:
                self._drain(tp, now)
        if self._ending is not False:
            self._offer_offsets(node, now)
        if self._ending is None:
            return
        if self._ending and self.failed:
            self._goals["finish"].finish(self.failed, abort=True)
            self._ending = None
        elif self.idle and not self._waits_for_offsets():
            self._end(node)

    def _finish(self, pending: ProducerBatch, error: str, base: int = -1) -> None:
        super()._finish(pending, error, base)
        if error and self.open and self._ending is not False:
            self._fail(error)  # what is not acknowledged cannot be committed

    def _fail(self, error: str) -> None:
        if "commits-without-acks" not in self.settings.bugs:
            self.failed = self.failed or error

    @property
    def _identity(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    @property
    def _added_by_leaders(self) -> bool:
        return self.settings.transaction_version >= 2

    def _waits_for_offsets(self) -> bool:
        goal = self._goals.get("offsets")
        return goal is not None and not goal.done

    def _offer_offsets(self, node: int, now: int) -> None:
        if self._offsets is None or not self._waits_for_offsets():
            return
        group, offsets, generation, member, epochs = self._offsets
        if self._added_by_leaders:
            self._group_added = True
        if not self._group_added:
            added = AddOffsetsToTxn(self.id, *self._identity, group)
            self._request(node, "add-offsets", added, self._offsets_added)
            return
        coordinator, asks = self.cluster.coordinator(group, True, now)
        self.out += asks
        if coordinator >= 0:
            request = TxnOffsetCommit(self.id, group, *self._identity, offsets, generation, member, epochs)
            self._request(coordinator, "txn-offsets", request, lambda _: self._goals["offsets"].finish())

    def _end(self, node: int) -> None:
        if "end" in self._under_way:
            return
        if not self._added and not self._group_added and not self._adding:
            self._ended(self.producer_id, self.producer_epoch)
            return
        request = EndTxn(self.id, *self._identity, bool(self._ending))
        self._request(node, "end", request, self._end_answered)

    def _request(self, node: int, channel: str, request: Request[E], done: Callable[[E], None]) -> None:
        def then(answer: "E | None", now: int) -> None:
            if channel == "end" and answer is None and "silent-end-is-done" in self.settings.bugs:
                self._ended(*self._identity)
            elif self._usable(channel, answer, now) and answer is not None:
                done(answer)

        self._ask(node, channel, request, then)

    def _partitions_added(
        self, added: Sequence[Partition], answer: AddPartitionsToTxnResponse | None, now: int
    ) -> None:
        self._adding = False
        if self._usable("add", answer, now):
            self._added.update(dict.fromkeys(added))

    def _offsets_added(self, _: ErrorResponse) -> None:
        self._group_added = True

    def _usable(self, channel: str, answer: ErrorResponse | None, now: int) -> bool:
        """Whether the answer says that it was done; else the error is dealt with here."""
        error = KafkaError.REQUEST_TIMED_OUT if answer is None else answer.error
        if error is NO_ERROR:
            return True
        if error in RETRIABLE:
            self._pause = now + BACKOFF_MS
            if error is not KafkaError.CONCURRENT_TRANSACTIONS:
                group = channel == "txn-offsets"
                key = self._offsets[0] if group and self._offsets else self.id
                self.cluster.forget(key, group)
        elif error in FATAL or channel in ("init", "end"):
            self.fatal = error.name
        else:
            self.failed = self.failed or error.name
            goal = self._goals.get("offsets")
            if goal is not None and channel in ("add-offsets", "txn-offsets"):
                goal.finish(error.name, abort=True)
        return False

    def _initialised(self, answer: ProducerIdResponse) -> None:
        known = self.producer_id != NO_PRODUCER
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self._goals["init"].finish()
        if known:
            self._ended(self.producer_id, self.producer_epoch)

    def _end_answered(self, answer: ProducerIdResponse) -> None:
        if answer.producer_id >= 0:  # transaction protocol 2 hands out the next epoch
            self._ended(answer.producer_id, answer.producer_epoch)
        elif self._in_doubt:
            # Records that were given up may be in the log or not, and so may their sequences: a new
            # epoch begins at 0 (KIP-360).
            self._goals["init"] = TransactionalRequestResult()
        else:
            self._ended(self.producer_id, self.producer_epoch)

    @property
    def _in_doubt(self) -> bool:
        """An abort left a sequence behind; the client does not know whether a log has it."""
        if self._ending or "abort-keeps-epoch" in self.settings.bugs:
            return False
        return any(lane.broken for lane in self.lanes.values())

    def _ended(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.open, self._ending = False, None
        self._goals.pop("offsets", None)
        for lane in self.lanes.values():
            lane.broken = False
        self._goals["finish"].finish()
