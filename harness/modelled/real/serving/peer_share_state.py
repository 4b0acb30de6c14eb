"""WriteShareGroupState between nodes as Kafka encodes it (version 0): see `peer_frames`.

Kafka names topics by their ids. A node that does not know one yet cannot read the request, and closes the
connection; its sender tries again.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

from kio.schema.write_share_group_state.v0.response import WriteShareGroupStateResponse

from harness.modelled.shared.topic_uuids import topic_uuid
from harness.protocol.encoding import Values
from harness.protocol.payloads import Message
from model.errors import KafkaError
from model.protocol.requests import ErrorResponse
from model.protocol.share_messages import StateBatch, WriteShareGroupState

Topics = Callable[[], Mapping[UUID, str]]
"""The names of all topics that a node knows, by id."""


def request_values(request: WriteShareGroupState) -> Values:
    """The values of Kafka's request."""
    topic, number = request.partition
    runs = [
        {
            "first_offset": one.first,
            "last_offset": one.last,
            "delivery_state": one.state,
            "delivery_count": one.times,
        }
        for one in request.batches
    ]
    partition = {
        "partition": number,
        "state_epoch": request.state_epoch,
        "leader_epoch": request.leader_epoch,
        "start_offset": request.start,
        "state_batches": runs,
    }
    topics = [{"topic_id": topic_uuid(topic), "partitions": [partition]}]
    return {"group_id": request.group, "topics": topics}


def requested(request: Message, topics: Topics) -> WriteShareGroupState:
    """What a node asks for. Raises: ValueError, for more than one partition or one of an unknown topic."""
    found = [(topic.topic_id, one) for topic in request.topics for one in topic.partitions]
    if len(found) != 1:
        raise ValueError(f"the state of {len(found)} share partitions")
    ((topic_id, one),) = found
    name = topics().get(topic_id or UUID(int=0))
    if name is None:
        raise ValueError(f"no topic that is known here has the id {topic_id}")
    runs = tuple(
        StateBatch(int(b.first_offset), int(b.last_offset), int(b.delivery_state), int(b.delivery_count))
        for b in one.state_batches
    )
    return WriteShareGroupState(
        str(request.group_id),
        (name, int(one.partition)),
        int(one.state_epoch),
        int(one.leader_epoch),
        int(one.start_offset),
        runs,
    )


def response_values(request: WriteShareGroupState, answer: ErrorResponse) -> Values:
    """The values of Kafka's response."""
    topic, number = request.partition
    result = {"partition": number, "error_code": answer.error}
    return {"results": [{"topic_id": topic_uuid(topic), "partitions": [result]}]}


def answered(response: WriteShareGroupStateResponse) -> ErrorResponse:
    """Raises: ValueError, for more than one partition."""
    ((result,),) = (topic.partitions for topic in response.results)
    return ErrorResponse(KafkaError(int(result.error_code)))
