"""The model's requests as Kafka's own, and Kafka's responses as the model's."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from kio.schema.metadata.v9 import request as metadata
from kio.static.primitive import i8
from kio.static.protocol import RequestPayload

from harness.contract.dialect import Dialect, IdPairs, Translation, error_of
from harness.contract.wire_data import OF_LEADERS
from harness.contract.wire_groups import OF_GROUPS
from harness.contract.wire_transactions import OF_TRANSACTIONS
from model.protocol.coordinator_messages import FindCoordinator, FindCoordinatorResponse
from model.protocol.messages import Metadata, MetadataResponse, PartitionState
from model.protocol.requests import AnyRequest, Response


def _metadata(request: Metadata, dialect: Dialect, names: IdPairs) -> RequestPayload:
    return metadata.MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def _described_cluster(answer: Any, request: Metadata, names: IdPairs) -> Response:
    parts = {
        (str(topic.name), int(one.partition_index)): PartitionState(
            tuple(map(int, one.replica_nodes)),
            tuple(map(int, one.isr_nodes)),
            int(one.leader_id),
            int(one.leader_epoch),
        )
        for topic in answer.topics
        for one in topic.partitions
    }
    brokers = tuple(sorted(int(broker.node_id) for broker in answer.brokers))
    return MetadataResponse(brokers, parts, int(answer.controller_id))


def _find_coordinator(request: FindCoordinator, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("find_coordinator", "request")
    made: RequestPayload = kafka.FindCoordinatorRequest(key=request.key, key_type=i8(not request.group))
    return made


def _coordinator(answer: Any, request: FindCoordinator, names: IdPairs) -> Response:
    return FindCoordinatorResponse(error_of(answer.error_code), int(answer.node_id))


TRANSLATIONS: Final[Mapping[type[AnyRequest], Translation]] = {
    Metadata: Translation("MetadataResponse", _metadata, _described_cluster),
    FindCoordinator: Translation("FindCoordinatorResponse", _find_coordinator, _coordinator),
    **OF_LEADERS,
    **OF_TRANSACTIONS,
    **OF_GROUPS,
}
"""By kind of request."""


def encode(request: AnyRequest, dialect: Dialect, names: IdPairs) -> tuple[RequestPayload, type[Any]]:
    """Kafka's request, and the class of its response."""
    one = TRANSLATIONS[type(request)]
    made = one.encode(request, dialect, names)
    if isinstance(one.response, type):
        return made, one.response
    module = type(made).__module__.rpartition(".")[0]
    return made, getattr(import_module(f"{module}.response"), one.response)


def decode(answer: Any, request: AnyRequest, names: IdPairs) -> Response:
    """The model's response."""
    return TRANSLATIONS[type(request)].decode(answer, request, names)
