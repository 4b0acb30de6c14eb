"""Ids of topics as brokers of the model tell them to clients. A topic's id follows from its name."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from harness.modelled.real.node import Node
from harness.modelled.real.serving.api_call import Call
from harness.modelled.shared.topic_uuids import topic_uuid
from harness.protocol.encoding import Values
from harness.protocol.topics import numbers_by_topic
from model.protocol.messages import Partition

UNKNOWN_TOPIC_ID: Final = 100
"""An error of Kafka that the model does not have."""


def id_of(call: Call, topic: str) -> UUID:
    """The id of a topic."""
    return _id_of(call.node, topic)


def _id_of(node: Node, topic: str) -> UUID:
    return topic_uuid(topic, node.broker.node.image.topic_ids.get(topic, 0))


def names(call: Call) -> Mapping[UUID, str]:
    """The names of all topics that this broker knows, by id."""
    return names_at(call.node)


def names_at(node: Node) -> Mapping[UUID, str]:
    """The names of all topics that a node knows, by id."""
    return {_id_of(node, topic): topic for topic in {tp[0] for tp in node.broker.node.image.partitions}}


def with_ids(call: Call, partitions: Iterable[Partition]) -> list[Values]:
    """Topics with the numbers of their partitions, each with its name, too, where the schema has one."""
    return [
        {"topic_id": id_of(call, topic), "topic_name": topic, "partitions": numbers}
        for topic, numbers in numbers_by_topic(partitions).items()
    ]
