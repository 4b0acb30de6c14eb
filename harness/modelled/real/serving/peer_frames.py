"""Frames between nodes: Kafka's headers, two requests as Kafka encodes them, and packed values of the model.

So the proxies between brokers, which know Kafka's frames, can stand between nodes of the model, too. The
client id of a request names the node that asks, the listener of Kafka that its connection stands for, and
the cluster: `node-1-broker-MkU3OEVBNTcwNTJENDM2Qg`. WriteTxnMarkers (version 2) and WriteShareGroupState
(`peer_share_state`), which rules of the wire take between brokers, are Kafka's own; all others are packed,
under an API key that Kafka does not have.
"""

import struct
from typing import Final

from kio.schema.write_share_group_state.v0.request import WriteShareGroupStateRequest as StateRequest
from kio.schema.write_share_group_state.v0.response import WriteShareGroupStateResponse as StateResponse
from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest as MarkersRequest
from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse as MarkersResponse

from harness.modelled.real.encoded.model_values import pack, unpack
from harness.modelled.real.serving import peer_share_state
from harness.modelled.real.serving.peer_share_state import Topics
from harness.protocol.encoding import Values
from harness.protocol.encoding import request_frame as kafka_request
from harness.protocol.encoding import response_frame as kafka_response
from harness.protocol.frames import SIZE, FrameError, frame, request_header
from harness.protocol.payloads import Message, decode_request, decode_response
from harness.protocol.topics import in_topics, numbers_in_topics, numbers_of_topics, of_topics
from model.errors import KafkaError
from model.protocol.coordinator_messages import TxnMarker, WriteTxnMarkers, WriteTxnMarkersResponse
from model.protocol.messages import Partition
from model.protocol.requests import AnyRequest, ErrorResponse, Request, Response
from model.protocol.share_messages import WriteShareGroupState

OWN: Final = -1
"""API key of what is packed."""
_HEADER: Final = struct.Struct(">hhih")
_ANSWER: Final = struct.Struct(">i")


def request_frame(request: AnyRequest, number: int, client_id: str) -> bytes:
    """The frame of a request. number: its correlation id."""
    if isinstance(request, WriteTxnMarkers):
        return kafka_request(MarkersRequest, _request_values(request), number, client_id)
    if isinstance(request, WriteShareGroupState):
        return kafka_request(StateRequest, peer_share_state.request_values(request), number, client_id)
    name = client_id.encode()
    return frame(_HEADER.pack(OWN, 0, number, len(name)) + name + pack(request))


def read_request(data: bytes, topics: Topics) -> tuple[AnyRequest, int, str]:
    """The request of a frame, its number, and its client id. Raises: ValueError, FrameError among them."""
    header = request_header(data)
    client_id = header.client_id or ""
    version = header.api_key, header.version
    if version == (MarkersRequest.__api_key__, MarkersRequest.__version__):
        return requested(decode_request(data, MarkersRequest)), header.correlation_id, client_id
    if version == (StateRequest.__api_key__, StateRequest.__version__):
        state = peer_share_state.requested(decode_request(data, StateRequest), topics)
        return state, header.correlation_id, client_id
    if header.api_key != OWN:
        raise FrameError(f"a request of API key {header.api_key}, version {header.version}")
    request = unpack(data[SIZE + _HEADER.size + len(client_id.encode()) :])
    if not isinstance(request, Request):
        raise ValueError(f"{type(request).__name__} is not a request")
    return request, header.correlation_id, client_id


def answer_frame(request: AnyRequest, answer: Response, number: int) -> bytes:
    """The frame of the answer to a request."""
    if isinstance(request, WriteTxnMarkers):
        assert isinstance(answer, WriteTxnMarkersResponse)
        return kafka_response(MarkersResponse, {"markers": answer_values(request, answer)}, number)
    if isinstance(request, WriteShareGroupState):
        assert isinstance(answer, ErrorResponse)
        return kafka_response(StateResponse, peer_share_state.response_values(request, answer), number)
    return frame(_ANSWER.pack(number) + pack(answer))


def read_answer(data: bytes, request: AnyRequest) -> object:
    """The answer to this request. Raises: ValueError, FrameError among them."""
    if isinstance(request, WriteTxnMarkers):
        return _answered(decode_response(data, MarkersResponse))
    if isinstance(request, WriteShareGroupState):
        return peer_share_state.answered(decode_response(data, StateResponse))
    return unpack(data[SIZE + _ANSWER.size :])


# ---- markers


def requested(request: Message) -> WriteTxnMarkers:
    """The markers that a request of Kafka, of any version, asks for."""
    return WriteTxnMarkers(
        tuple(
            TxnMarker(
                int(one.producer_id),
                int(one.producer_epoch),
                int(one.coordinator_epoch),
                bool(one.transaction_result),
                tuple(numbers_of_topics(one.topics, "partition_indexes")),
                int(getattr(one, "transaction_version", 0)),
            )
            for one in request.markers
        )
    )


def answer_values(request: WriteTxnMarkers, answer: WriteTxnMarkersResponse) -> list[Values]:
    """The values of Kafka's response."""
    found: list[Values] = []
    for one in request.markers:
        parts = (
            (tp, {"partition_index": tp[1], "error_code": answer.results[one.producer_id, tp]})
            for tp in one.partitions
        )
        found.append({"producer_id": one.producer_id, "topics": in_topics(parts)})
    return found


def _request_values(request: WriteTxnMarkers) -> Values:
    markers = [
        {
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "coordinator_epoch": one.coordinator_epoch,
            "transaction_result": one.commit,
            "transaction_version": one.transaction_version,
            "topics": numbers_in_topics(one.partitions, "partition_indexes"),
        }
        for one in request.markers
    ]
    return {"markers": markers}


def _answered(response: MarkersResponse) -> WriteTxnMarkersResponse:
    results: dict[tuple[int, Partition], KafkaError] = {}
    for one in response.markers:
        for tp, each in of_topics(one.topics):
            results[int(one.producer_id), tp] = KafkaError(int(each.error_code))
    return WriteTxnMarkersResponse(results)
