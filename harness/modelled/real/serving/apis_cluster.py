"""What every broker serves: versions, metadata, and what administrators ask."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from harness.modelled.real.serving.api_call import Api, Call, error_of
from harness.modelled.real.serving.apis_consumer_groups import OF_CONSUMER_GROUPS
from harness.modelled.real.serving.apis_data import OF_LEADERS
from harness.modelled.real.serving.apis_groups import OF_GROUPS
from harness.modelled.real.serving.apis_settings import (
    INVALID_CONFIG,
    OF_SETTINGS,
    features,
    settings_of_topics,
)
from harness.modelled.real.serving.apis_share_groups import of_share_groups
from harness.modelled.real.serving.apis_transactions import NEWER, OF_TRANSACTIONS
from harness.modelled.real.serving.topic_ids import UNKNOWN_TOPIC_ID, id_of, names
from harness.protocol.encoding import Values
from harness.protocol.payloads import API_KEYS, Message
from harness.protocol.topics import in_topics, of_topics
from model.eras import Era
from model.errors import KafkaError
from model.kraft.kraft_metadata import KRaftMetadata
from model.protocol.messages import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    ElectLeaders,
    Metadata,
    MetadataResponse,
    Partition,
    PartitionState,
)
from model.protocol.requests import ErrorResponse, Response

LEADER_NOT_AVAILABLE: Final = 5
INVALID_PARTITIONS: Final = 37
INVALID_REQUEST: Final = 42
REBOOTSTRAP_REQUIRED: Final = 129
DEFAULT_REPLICATION: Final = 1
METADATA_TOPIC: Final = "__cluster_metadata"
NOT_ASKED: Final = -(1 << 31)
ALL_OPERATIONS: Final = 0b1_1111_1010_0000
"""Of a cluster: each has its own number's bit (`org.apache.kafka.common.acl.AclOperation`)."""


def _versions(call: Call) -> None:
    error = _misrouted(call)
    call.respond(**versions(call.node.settings.era) if error == KafkaError.NONE else {"error_code": error})


def _misrouted(call: Call) -> int:
    """The error of a client that means to reach another cluster or node than this one; 0 = it does not, or it
    does not say (KIP-1242; `KafkaApis.handleApiVersionsRequest`)."""
    cluster, node = getattr(call.request, "cluster_id", None), getattr(call.request, "node_id", -1)
    if (cluster is None) != (node == -1):
        return INVALID_REQUEST
    mine = (call.node.given.cluster, call.node.given.me)
    return KafkaError.NONE if cluster is None or (cluster, node) == mine else REBOOTSTRAP_REQUIRED


def versions(era: Era) -> dict[str, object]:
    """The values of ApiVersionsResponse: which clients may speak which versions. A cluster has the
    transaction version of its era's clients: coordinators of the model take all clients for such."""
    keys = [
        {"api_key": API_KEYS[name], "min_version": api.first, "max_version": api.last}
        for name, api in apis(era).items()
    ]
    return {"error_code": KafkaError.NONE, "api_keys": keys, **features(era)}


@cache
def apis(era: Era) -> Mapping[str, Api]:
    """What is served in an era, by name."""
    newer = NEWER if era.client_transaction_version >= 2 else {}
    found = {**_ALL, **{name: _ALL[name]._replace(last=last) for name, last in newer.items()}}
    groups = OF_CONSUMER_GROUPS if era.consumer_groups else {}
    return {**found, **groups, **of_share_groups(era)}


def _metadata(call: Call) -> None:
    asked = call.request.topics
    known = names(call) if asked and any(topic.name is None for topic in asked) else {}
    unknown = [topic.topic_id for topic in asked or () if topic.name is None and topic.topic_id not in known]
    wanted_names = (
        None
        if asked is None
        else [known.get(topic.topic_id) if topic.name is None else str(topic.name) for topic in asked]
    )

    def told(answer: MetadataResponse) -> None:
        topics: dict[str, dict[int, PartitionState]] = {}
        for (topic, number), state in sorted(answer.partitions.items()):
            topics.setdefault(topic, {})[number] = state
        brokers = _brokers(call, "node_id", answer)
        wanted = sorted(topics) if wanted_names is None else filter(None, wanted_names)
        found = [{**_topic(name, topics.get(name)), "topic_id": id_of(call, name)} for name in wanted]
        nameless = [{"name": None, "topic_id": one, "error_code": UNKNOWN_TOPIC_ID} for one in unknown]
        call.respond(
            brokers=brokers,
            cluster_id=call.node.given.cluster,
            controller_id=_controller(answer),
            topics=found + nameless,
            cluster_authorized_operations=ALL_OPERATIONS if _asks_operations(call) else NOT_ASKED,
        )

    call.ask(Metadata(), told)


def _asks_operations(call: Call) -> bool:
    """Versions 8 to 10 can ask."""
    return getattr(call.request, "include_cluster_authorized_operations", False)


def _brokers(call: Call, key: str, answer: MetadataResponse) -> list[Values]:
    return [
        {key: node, "host": call.addresses[node].host, "port": call.addresses[node].port}
        for node in answer.brokers
        if node in call.addresses
    ]


def _controller(answer: MetadataResponse) -> int:
    """A broker that takes requests to the controller."""
    if answer.controller in answer.brokers:
        return answer.controller
    return next(iter(answer.brokers), -1)


def _topic(name: str, partitions: Mapping[int, PartitionState] | None) -> Values:
    if partitions is None:
        return {"name": name, "error_code": KafkaError.UNKNOWN_TOPIC_OR_PARTITION}
    found = [
        {
            "error_code": 0 if state.leader >= 0 else LEADER_NOT_AVAILABLE,
            "partition_index": number,
            "leader_id": state.leader,
            "leader_epoch": state.leader_epoch,
            "replica_nodes": state.replicas,
            "isr_nodes": state.isr,
        }
        for number, state in partitions.items()
    ]
    return {"name": name, "error_code": 0, "is_internal": name.startswith("__"), "partitions": found}


def _cluster(call: Call) -> None:
    def told(answer: MetadataResponse) -> None:
        call.respond(
            error_code=0,
            cluster_id=call.node.given.cluster,
            controller_id=_controller(answer),
            brokers=_brokers(call, "broker_id", answer),
        )

    call.ask(Metadata(), told)


def _create(call: Call) -> None:
    topics = call.request.topics
    refused = {str(one.name): why for one in topics if (why := _refused(call, one))}
    wanted = [
        CreateTopics(
            str(one.name),
            len(one.assignments) or max(int(one.num_partitions), 1),
            int(one.replication_factor) if one.replication_factor > 0 else DEFAULT_REPLICATION,
            [[int(n) for n in its.broker_ids] for its in one.assignments],
        )
        for one in topics
        if str(one.name) not in refused
    ]

    def created(answers: list[ErrorResponse]) -> None:
        found: list[Values] = [
            {"name": name, "error_code": code, "error_message": why} for name, (code, why) in refused.items()
        ]
        for one, answer in zip(wanted, answers, strict=True):
            found.append({"name": one.topic, "error_code": error_of(answer)})
        call.respond(topics=found)

    call.ask_all(wanted, created)


def _add_partitions(call: Call) -> None:
    wanted = [CreatePartitions(str(one.name), int(one.count)) for one in call.request.topics]

    def made(answers: list[ErrorResponse]) -> None:
        told = zip(wanted, answers, strict=True)
        call.respond(results=[{"name": one.topic, "error_code": error_of(answer)} for one, answer in told])

    call.ask_all(wanted, made)


def _refused(call: Call, topic: Message) -> tuple[int, str] | None:
    """Why a topic is not created: error and sentence. It has the cluster's settings, and no others; -1 stands
    for the default number of partitions or replicas, which is 1."""
    if topic.num_partitions < 1 and topic.num_partitions != -1:
        return INVALID_PARTITIONS, f"{topic.num_partitions} partitions"
    known = settings_of_topics(call.node.settings)
    strange = [f"{one.name}={one.value}" for one in topic.configs if known.get(str(one.name)) != one.value]
    if strange:
        return INVALID_CONFIG, f"the model cannot set {', '.join(strange)} for a single topic"
    return None


def _elect(call: Call) -> None:
    request = call.request
    if request.topic_partitions is None:
        tps = sorted(call.node.broker.node.image.partitions)
    else:
        tps = [(str(t.topic), int(n)) for t in request.topic_partitions for n in t.partitions]
    unclean = bool(getattr(request, "election_type", 0))

    def elected(answer: Response) -> None:
        parts: Mapping[Partition, KafkaError] = getattr(answer, "parts", {})
        found = ((tp, {"partition_id": tp[1], "error_code": error}) for tp, error in parts.items())
        results = in_topics(found, "partition_result", "topic")
        call.respond(error_code=error_of(answer), replica_election_results=results)

    call.ask(ElectLeaders(tps, unclean), elected)


def _reassign(call: Call) -> None:
    wanted = {
        tp: one.replicas and [int(node) for node in one.replicas]
        for tp, one in of_topics(call.request.topics)
    }

    def done(answer: Response) -> None:
        errors: Mapping[Partition, KafkaError] = getattr(answer, "parts", {})
        parts = ((tp, {"partition_index": tp[1], "error_code": error}) for tp, error in errors.items())
        call.respond(error_code=error_of(answer), responses=in_topics(parts))

    call.ask(AlterPartitionReassignments(wanted), done)


def _quorum(call: Call) -> None:
    """As this node knows it; Kafka's brokers ask the quorum's leader."""
    metadata = call.node.broker.metadata
    assert isinstance(metadata, KRaftMetadata)
    quorum = metadata.quorum
    voters = [{"replica_id": node, "log_end_offset": -1} for node in call.node.given.voters]
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": quorum.leader,
        "leader_epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "current_voters": voters,
    }
    call.respond(error_code=0, topics=[{"topic_name": METADATA_TOPIC, "partitions": [partition]}])


_ALL: Final[Mapping[str, Api]] = {
    "api_versions": Api(0, 5, _versions),
    "metadata": Api(4, 12, _metadata),
    "describe_cluster": Api(0, 0, _cluster),
    "create_topics": Api(2, 5, _create),
    "create_partitions": Api(0, 1, _add_partitions),
    "elect_leaders": Api(0, 2, _elect),
    "alter_partition_reassignments": Api(0, 0, _reassign),
    "describe_quorum": Api(0, 0, _quorum),
    **OF_LEADERS,
    **OF_TRANSACTIONS,
    **OF_GROUPS,
    **OF_SETTINGS,
}
