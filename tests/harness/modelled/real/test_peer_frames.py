"""Frames between nodes: what a proxy reads in them, and what comes back out of them."""

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.write_share_group_state.v0.request import WriteShareGroupStateRequest

from harness.modelled.real.serving.peer_frames import (
    OWN,
    answer_frame,
    read_answer,
    read_request,
    request_frame,
)
from harness.modelled.real.serving.peer_share_state import request_values
from harness.modelled.shared.topic_uuids import topic_uuid
from harness.protocol.encoding import request_frame as kafka_request
from harness.protocol.frames import FrameError, RequestHeader, correlation_id, frame, request_header
from harness.protocol.payloads import API_KEYS
from harness.wire.responses import error_of
from harness.wire.subjects import NOTHING, subjects
from model.errors import KafkaError
from model.protocol.controller_messages import BeginQuorumEpoch
from model.protocol.coordinator_messages import TxnMarker, WriteTxnMarkers, WriteTxnMarkersResponse
from model.protocol.requests import AnyRequest, ErrorResponse, Response
from model.protocol.share_messages import StateBatch, WriteShareGroupState

NAME = "node-1-broker-cluster"
P, Q, R = ("p", 0), ("p", 3), ("q", 1)
MARKERS = WriteTxnMarkers((TxnMarker(2000, 4, 7, True, (P, Q, R), 2), TxnMarker(2001, 0, 7, False, (R,), 0)))
WRITTEN = WriteTxnMarkersResponse(
    {
        (2000, P): KafkaError.NONE,
        (2000, Q): KafkaError.NOT_LEADER_OR_FOLLOWER,
        (2000, R): KafkaError.NONE,
        (2001, R): KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
PACKED = BeginQuorumEpoch(3, 1)
RUNS = (StateBatch(4, 2**40, 2, 1), StateBatch(2**40 + 1, 2**40 + 9, 0, 300))
STATE = WriteShareGroupState("g", Q, 0, 5, 4, RUNS)


def topics() -> Mapping[UUID, str]:
    return {topic_uuid(name): name for name in ("p", "q")}


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (MARKERS, WRITTEN),
        (STATE, ErrorResponse(KafkaError.FENCED_LEADER_EPOCH)),
        (PACKED, ErrorResponse(KafkaError.NOT_CONTROLLER)),
    ],
)
def test_what_was_sent_comes_out(request_: AnyRequest, answer: Response) -> None:
    sent = request_frame(request_, 5, NAME)
    assert read_request(sent, topics) == (request_, 5, NAME)
    answered = answer_frame(request_, answer, 5)
    assert correlation_id(answered) == 5
    assert read_answer(answered, request_) == answer


def test_a_proxy_reads_markers_and_nothing_else() -> None:
    sent = request_frame(MARKERS, 5, NAME)
    header = request_header(sent)
    assert (header.api_key, header.client_id) == (API_KEYS["write_txn_markers"], NAME)
    assert str(subjects(sent, header)) == "producer 2000/4, producer 2001/0, p-0, p-3, q-1"
    assert error_of(answer_frame(MARKERS, WRITTEN, 5), header) == KafkaError.NOT_LEADER_OR_FOLLOWER
    packed = request_frame(PACKED, 6, NAME)
    header = request_header(packed)
    assert header == RequestHeader(OWN, 0, 6, NAME)
    assert subjects(packed, header) is NOTHING
    assert error_of(answer_frame(PACKED, ErrorResponse(KafkaError.NONE), 6), header) is None


def test_a_proxy_knows_what_the_state_of_a_share_partition_is() -> None:
    header = request_header(request_frame(STATE, 5, NAME))
    assert (header.api_key, header.version) == (API_KEYS["write_share_group_state"], 0)
    answer = answer_frame(STATE, ErrorResponse(KafkaError.NOT_COORDINATOR), 5)
    assert error_of(answer, header) == KafkaError.NOT_COORDINATOR


def test_the_state_of_another_topic_or_of_several_partitions_is_refused() -> None:
    sent = request_frame(STATE, 5, NAME)
    with pytest.raises(ValueError, match="no topic that is known here"):
        read_request(sent, dict)
    several = dict(request_values(STATE))
    several["topics"] = [*several["topics"], *several["topics"]]
    with pytest.raises(ValueError, match="the state of 2 share partitions"):
        read_request(kafka_request(WriteShareGroupStateRequest, several, 5, NAME), topics)


def test_requests_of_clients_and_values_that_are_no_requests_are_refused() -> None:
    sent = request_frame(PACKED, 5, NAME)
    with pytest.raises(FrameError, match="API key 3, version 0"):
        read_request(sent[:4] + b"\0\3" + sent[6:], topics)
    with pytest.raises(ValueError, match="no packed value"):
        read_request(sent[:-1], topics)


@given(st.sampled_from((MARKERS, STATE, PACKED)), st.data())
def test_a_changed_frame_is_read_or_refused(request_: AnyRequest, data: st.DataObject) -> None:
    sent = bytearray(request_frame(request_, 5, NAME))
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(4, len(sent) - 1))] = data.draw(st.integers(0, 255))
    kept = frame(bytes(sent[4 : data.draw(st.integers(4, len(sent)))]))
    try:
        found, _, _ = read_request(kept, topics)
    except (ValueError, TypeError):
        return
    assert found is not None
