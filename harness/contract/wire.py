"""The model's requests as Kafka's own, and Kafka's responses as the model's."""

from collections.abc import Mapping
from typing import Final

from kio.static.protocol import ResponsePayload

from harness.contract.described_transactions import DescribedTransactions
from harness.contract.dialect import Dialect, IdPairs, Translation, error_of
from harness.contract.wire_consumer_groups import OF_CONSUMER_GROUPS
from harness.contract.wire_data import OF_LEADERS
from harness.contract.wire_groups import NEWER_COMMIT, OF_GROUPS
from harness.contract.wire_transactions import OF_TRANSACTIONS, VERIFY_VERSION
from harness.protocol.encoding import Values
from harness.protocol.payloads import API_KEYS, Message, response_type
from harness.protocol.topics import of_topics
from model.protocol.coordinator_messages import (
    AddPartitionsToTxn,
    DescribeTransactions,
    FindCoordinator,
    FindCoordinatorResponse,
    OffsetCommit,
)
from model.protocol.messages import Metadata, MetadataResponse, PartitionState
from model.protocol.requests import AnyRequest, Response


def _metadata(request: Metadata, names: IdPairs) -> Values:
    return {"topics": None, "allow_auto_topic_creation": False}


def _described_cluster(answer: Message, names: IdPairs) -> Response:
    parts = {
        tp: PartitionState(
            tuple(map(int, one.replica_nodes)),
            tuple(map(int, one.isr_nodes)),
            int(one.leader_id),
            int(one.leader_epoch),
        )
        for tp, one in of_topics(answer.topics)
    }
    brokers = tuple(sorted(int(broker.node_id) for broker in answer.brokers))
    return MetadataResponse(brokers, parts, int(answer.controller_id))


def _find_coordinator(request: FindCoordinator, names: IdPairs) -> Values:
    return {"key": request.key, "key_type": int(not request.group)}


def _coordinator(answer: Message, names: IdPairs) -> Response:
    return FindCoordinatorResponse(error_of(answer.error_code), int(answer.node_id))


TRANSLATIONS: Final[Mapping[type[AnyRequest], Translation]] = {
    Metadata: Translation("metadata", 9, _metadata, _described_cluster),
    FindCoordinator: Translation("find_coordinator", 3, _find_coordinator, _coordinator),
    **OF_LEADERS,
    **OF_TRANSACTIONS,
    **OF_GROUPS,
    **OF_CONSUMER_GROUPS,
}
"""By kind of request."""


def encode(request: AnyRequest, dialect: Dialect, names: IdPairs) -> tuple[type[ResponsePayload], Values]:
    """The class of Kafka's response, and the values of its request."""
    one = TRANSLATIONS[type(request)]
    version = dialect.version(one.api, one.version)
    if isinstance(request, AddPartitionsToTxn) and request.verify:
        version = VERIFY_VERSION
    if isinstance(request, OffsetCommit) and request.newer:
        version = NEWER_COMMIT
    kind = response_type(API_KEYS[one.api], version)
    assert kind is not None, request
    if isinstance(request, DescribeTransactions):
        kind = DescribedTransactions
    return kind, one.values(request, names)


def decode(answer: Message, request: AnyRequest, names: IdPairs) -> Response:
    """The model's response."""
    return TRANSLATIONS[type(request)].decode(answer, names)
