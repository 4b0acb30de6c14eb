"""A member of a share group: what it asks, and what it says of records."""

from typing import Any

from model.client.share_consumer import ShareConsumer
from model.errors import KafkaError
from model.log.unified_log import COMMIT, RecordBatch
from model.protocol.coordinator_messages import FindCoordinator, FindCoordinatorResponse
from model.protocol.messages import Metadata
from model.protocol.share_messages import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    SharedPartition,
    ShareFetch,
    ShareFetchResponse,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResponse,
)
from tests.model.one_client import P0, P1, OneClient, metadata

NONE = KafkaError.NONE
ACCEPT = AcknowledgeType.ACCEPT


class Member:
    """A member that has joined and wants records."""

    def __init__(self) -> None:
        self.client = ShareConsumer("g", "m", (1, 2))
        self.client.subscribe(("t",))
        self.client.wants = True
        self.world = OneClient(self.client)
        self.world.wait(0)
        self.world.answer(Metadata, metadata([1, 2]))
        self.world.answer(FindCoordinator, FindCoordinatorResponse(NONE, 2))
        self.world.answer(ShareGroupHeartbeat, ShareGroupHeartbeatResponse(NONE, 1, 1000, (P0, P1)))

    def asks(self, kind: type) -> Any:
        """Its only request of a kind."""
        (ask,) = self.world.of(kind)
        return ask.request

    def fetched(self) -> Any:
        return self.asks(ShareFetch)

    def brings(self, batches: tuple[RecordBatch, ...], *given: AcquiredRecords) -> None:
        part = SharedPartition(NONE, NONE, batches, given)
        self.world.answer(ShareFetch, ShareFetchResponse(NONE, {P0: part}))


def test_it_takes_what_was_acquired_and_says_where_no_record_is() -> None:
    one = Member()
    assert one.fetched().session_epoch == 0
    assert one.fetched().partitions == (P0, P1)
    marker = RecordBatch(2, 0, (), 7, 0, control=COMMIT)
    one.brings((RecordBatch(0, 0, ("a", "b")), marker), AcquiredRecords(1, 2, 3))
    (record,) = one.client.take()
    assert (record.offset, record.payload, record.count) == (1, "b", 3)
    number = one.client.acknowledge({P0: [(1, ACCEPT)]})
    one.client.wants = False
    assert one.asks(ShareAcknowledge).said == {P0: [AcknowledgementBatch(1, 1, ACCEPT)]}
    assert one.asks(ShareAcknowledge).session_epoch == 1
    one.world.answer(ShareAcknowledge, ShareAcknowledgeResponse(NONE, {P0: NONE}))
    assert one.client.answers.pop(number) == {P0: ""}
    one.client.wants = True
    gap = AcknowledgementBatch(2, 2, AcknowledgeType.GAP)
    assert (one.fetched().session_epoch, one.fetched().said) == (2, {P0: [gap]})


def test_a_renewed_record_stays_to_be_acknowledged() -> None:
    one = Member()
    one.brings((RecordBatch(0, 0, ("a",)),), AcquiredRecords(0, 0, 1))
    one.client.take()
    one.client.wants = False
    for session_epoch, kind in enumerate((AcknowledgeType.RENEW, AcknowledgeType.RENEW, ACCEPT), 1):
        one.client.acknowledge({P0: [(0, kind)]})
        assert one.asks(ShareAcknowledge).said == {P0: [AcknowledgementBatch(0, 0, kind)]}
        assert one.asks(ShareAcknowledge).session_epoch == session_epoch
        one.world.answer(ShareAcknowledge, ShareAcknowledgeResponse(NONE, {P0: NONE}))


def test_a_record_that_it_kept_and_is_given_again_is_acknowledged_twice() -> None:
    """The second one waits to be taken while the first is acknowledged."""
    one = Member()
    one.brings((RecordBatch(0, 0, ("a",)),), AcquiredRecords(0, 0, 1))
    one.client.take()
    one.client.acknowledge({P0: [(0, AcknowledgeType.RENEW)]})
    one.world.answer(ShareAcknowledge, ShareAcknowledgeResponse(NONE, {P0: NONE}))
    one.brings((RecordBatch(0, 0, ("a",)),), AcquiredRecords(0, 0, 2))
    for session_epoch, times in ((3, (2,)), (4, ())):
        one.client.acknowledge({P0: [(0, ACCEPT)]})
        one.client.wants = False
        assert one.asks(ShareAcknowledge).said == {P0: [AcknowledgementBatch(0, 0, ACCEPT)]}
        assert one.asks(ShareAcknowledge).session_epoch == session_epoch
        one.world.answer(ShareAcknowledge, ShareAcknowledgeResponse(NONE, {P0: NONE}))
        assert tuple(record.count for record in one.client.take()) == times


def test_without_an_answer_it_begins_a_new_session_and_nothing_is_certain() -> None:
    one = Member()
    one.brings((RecordBatch(0, 0, ("a",)),), AcquiredRecords(0, 0, 1))
    one.client.take()
    number = one.client.acknowledge({P0: [(0, ACCEPT)]})
    one.world.answer(ShareAcknowledge, None)
    assert one.client.answers.pop(number) == {P0: "_TIMED_OUT"}
    one.world.wait(100)
    assert one.fetched().session_epoch == 0


def test_where_the_session_is_over_nothing_is_sent() -> None:
    one = Member()
    one.brings((RecordBatch(0, 0, ("a",)),), AcquiredRecords(0, 0, 1))
    one.client.take()
    one.world.answer(ShareFetch, ShareFetchResponse(KafkaError.SHARE_SESSION_NOT_FOUND))
    number = one.client.acknowledge({P0: [(0, ACCEPT)]})
    assert one.world.of(ShareAcknowledge) == []
    assert one.client.answers.pop(number) == {P0: "SHARE_SESSION_NOT_FOUND"}


def test_an_unknown_member_joins_again() -> None:
    one = Member()
    one.world.wait(1000)
    one.world.answer(ShareGroupHeartbeat, ShareGroupHeartbeatResponse(KafkaError.UNKNOWN_MEMBER_ID))
    one.world.wait(100)
    assert one.asks(ShareGroupHeartbeat).member_epoch == 0


def test_it_leaves_its_group_and_ends_its_sessions() -> None:
    one = Member()
    one.brings((RecordBatch(0, 0, ("a",)),), AcquiredRecords(0, 0, 1))
    one.client.wants = False
    one.client.take()
    one.client.leave()
    one.world.wait(0)
    assert one.asks(ShareAcknowledge).session_epoch == -1
    assert one.asks(ShareGroupHeartbeat).member_epoch == -1
