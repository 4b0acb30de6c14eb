"""Share groups on brokers of the model: librdkafka as their member, and single requests."""

import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from kio.schema.describe_configs.v2.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v4.response import ListGroupsResponse
from kio.schema.share_acknowledge.v1.response import ShareAcknowledgeResponse
from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse as NewerAcknowledgeResponse
from kio.schema.share_fetch.v1.response import ShareFetchResponse
from kio.schema.share_fetch.v2.response import ShareFetchResponse as NewerFetchResponse
from kio.schema.share_group_describe.v1.response import ShareGroupDescribeResponse
from kio.schema.share_group_heartbeat.v1.response import ShareGroupHeartbeatResponse

from core.config import run_config
from core.errors import ClusterError
from core.internal_topics import SHARE_STATE_TOPIC
from core.op import TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin.connection import BrokerConnection
from harness.brokers.admin.settings import GROUP
from harness.modelled.real.cluster import ModelCluster
from harness.modelled.real.serving.apis_cluster import apis
from harness.modelled.real.system import MODEL
from harness.modelled.shared.topic_uuids import topic_uuid
from model.eras import ERAS
from tests.contract.session_contract_test import NUMBERS
from tests.contract.share_member import a_rejected_record_has_a_letter, fill, released_records_come_again
from tests.harness.modelled.real.conftest import THREE
from tests.waiting import until

DEADLINE_S: Final = 60.0
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
QUEUE: Final = "dlq.share"
COMPRESSED: Final[dict[str, Any]] = {"compression.type": "gzip", "linger.ms": 500}
NONE: Final = ErrorCode.none
NO_TOPIC: Final = UUID(int=7)


def fresh() -> TopicPartition:
    """Of a topic that no other test has."""
    return TopicPartition(f"shared{next(NUMBERS)}", 0)


class Raw:
    """A member that sends single requests to the leader of a partition. Its `close` says nothing to the
    broker."""

    def __init__(self, cluster: ModelCluster, tp: TopicPartition, group: str, name: str) -> None:
        self.group, self.name, self.tp = group, name, tp
        self._opened = ExitStack()
        leader = run_blocking(cluster.roles()).leaders[tp]
        self.broker: BrokerConnection = self._opened.enter_context(cluster.admin.connect(leader, DEADLINE_S))
        self.other = self._opened.enter_context(cluster.admin.connect(leader % 3 + 1, DEADLINE_S))

    def close(self) -> None:
        self._opened.close()

    def fetch(
        self, epoch: int, *said: tuple[int, int, Sequence[int]], kind: Any = ShareFetchResponse, **values: Any
    ) -> Any:
        """said: first and last offset, and what is said of them."""
        asked: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "max_wait": None,
            "min_bytes": 1,
            "max_bytes": 2**20,
            "max_records": 500,
            "batch_size": 500,
            "topics": self.named(said) if epoch == 0 or said else (),
        }
        return self.broker.call(kind, **(asked | values))

    def say(
        self, epoch: int, *said: tuple[int, int, Sequence[int]], kind: Any = ShareAcknowledgeResponse
    ) -> Any:
        """The error of the whole request, or of the partition."""
        asked = {"group_id": self.group, "member_id": self.name, "share_session_epoch": epoch}
        if kind is NewerAcknowledgeResponse:
            asked["is_renew_ack"] = True
        answer = self.broker.call(kind, topics=self.named(said), **asked)
        return answer.error_code or answer.responses[0].partitions[0].error_code

    def named(self, said: Sequence[tuple[int, int, Sequence[int]]] = (), topic: UUID | None = None) -> Any:
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": types}
            for first, last, types in said
        ]
        part = {"partition_index": self.tp.partition, "acknowledgement_batches": batches}
        return [{"topic_id": topic or topic_uuid(self.tp.topic), "partitions": [part]}]

    def acquired(self, epoch: int, *said: tuple[int, int, Sequence[int]]) -> list[tuple[int, int, int]]:
        """First and last offset, and delivery count."""
        answer = self.fetch(epoch, *said)
        assert answer.error_code == NONE
        return [
            (int(one.first_offset), int(one.last_offset), int(one.delivery_count))
            for topic in answer.responses
            for part in topic.partitions
            for one in part.acquired_records
        ]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def joined(opened: ExitStack, cluster: ModelCluster, tp: TopicPartition, name: str = "m") -> Raw:
    made = Raw(cluster, tp, f"of-{tp.topic}", name)
    opened.callback(made.close)
    return made


def begun(opened: ExitStack, cluster: ModelCluster, count: int, **of_fill: Any) -> Raw:
    """A member that has acquired so many records with the first fetch that brought some."""
    tp = fresh()
    fill(cluster, tp, count, **of_fill)
    made = joined(opened, cluster, tp)
    held: list[tuple[int, int, int]] = []

    def there() -> bool:
        held.extend(made.acquired(0))
        return bool(held)

    until(there, "records are acquired", 30)
    assert (held[0][0], held[-1][1]) == (0, count - 1)
    return made


def test_a_group_delivers_released_records_again_and_says_where_it_stands(cluster: ModelCluster) -> None:
    released_records_come_again(cluster, "share-model", fresh(), 30)


def coordinated(cluster: ModelCluster, kind: Any, error: Callable[[Any], int], **asked: Any) -> Any:
    """What the coordinator of a group answers. error: of an answer."""

    def answer() -> Any:
        for node in cluster.brokers:
            with cluster.admin.connect(node, DEADLINE_S) as broker:
                found = broker.call(kind, **asked)
            if error(found) not in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress):
                return found
        return None

    return until(answer, "a coordinator answers", 30)


def test_a_coordinator_assigns_partitions_by_ids_and_describes_the_group(cluster: ModelCluster) -> None:
    topic = fresh().topic
    group = f"of-{topic}"
    run_blocking(cluster.create_topic(topic, 2, 3, {}))

    def beat(epoch: int) -> Any:
        wanted = {"group_id": group, "member_id": "m", "member_epoch": epoch, "rack_id": None}
        subscribed = [topic] if epoch == 0 else None
        return coordinated(
            cluster,
            ShareGroupHeartbeatResponse,
            lambda answer: answer.error_code,
            **wanted,
            subscribed_topic_names=subscribed,
        )

    def described() -> Any:
        asked = {"group_ids": [group], "include_authorized_operations": False}
        error = lambda answer: answer.groups[0].error_code  # noqa: E731
        return coordinated(cluster, ShareGroupDescribeResponse, error, **asked).groups[0]

    assert (described().error_code, described().group_state) == (ErrorCode.group_id_not_found, "Dead")
    first = beat(0)
    assert (first.error_code, first.member_id, first.member_epoch) == (NONE, "m", 1)
    told = described()
    (member,) = told.members
    assert (told.group_state, told.group_epoch, told.assignor_name) == ("Stable", 1, "simple")
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == ("m", 1, (topic,))
    for answer in (first, beat(1), member):
        (given,) = answer.assignment.topic_partitions
        assert (given.topic_id, sorted(given.partitions)) == (topic_uuid(topic), [0, 1])
    assert (beat(-1).error_code, beat(-1).error_code) == (NONE, ErrorCode.unknown_member_id)
    assert described().group_state == "Empty"
    listed: list[tuple[str, str, str]] = []
    for node in cluster.brokers:
        with cluster.admin.connect(node, DEADLINE_S) as broker:
            groups = broker.call(ListGroupsResponse, states_filter=("Empty",)).groups
        listed += [(one.group_id, one.protocol_type, one.group_state) for one in groups]
    assert [one for one in listed if one[0] == group] == [(group, "share", "Empty")]


def test_what_a_request_says_holds_for_its_session(cluster: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, cluster, 4)
    assert member.acquired(1, (0, 1, [RELEASE])) == [(0, 1, 2)]  # it names no partition but in what it says
    assert member.acquired(2) == []
    assert member.fetch(2).error_code == ErrorCode.invalid_share_session_epoch
    assert member.say(3, (0, 3, [ACCEPT, RELEASE, ACCEPT, RELEASE])) == NONE
    gone = {"topic_id": topic_uuid(member.tp.topic), "partitions": [0]}
    assert member.fetch(4, forgotten_topics_data=[gone]).responses == ()
    assert member.acquired(5) == []  # its session has no partition
    assert member.acquired(6, (1, 1, [ACCEPT])) == [(1, 1, 3), (3, 3, 2)]


def test_a_closed_connection_frees_what_its_session_holds(cluster: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, cluster, 2)
    another = joined(opened, cluster, member.tp, "n")
    assert another.acquired(0) == []
    member.close()
    epochs = itertools.count(1)
    assert until(lambda: another.acquired(next(epochs)), "they are free", 10) == [(0, 1, 2)]


def test_a_member_without_a_session_is_refused(cluster: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, cluster, 1)
    stranger = joined(opened, cluster, member.tp, "n")
    assert stranger.fetch(1).error_code == ErrorCode.share_session_not_found
    assert stranger.say(1, (0, 0, [ACCEPT])) == ErrorCode.share_session_not_found
    assert stranger.fetch(0, (0, 0, [ACCEPT])).error_code == ErrorCode.invalid_request
    assert stranger.say(0, (0, 0, [ACCEPT])) == ErrorCode.invalid_share_session_epoch
    for name, why in (("", "no valid member id"), ("n" * 37, "no valid member id"), (None, "no group id")):
        nameless = {"group_id": None} if name is None else {"member_id": name}
        answer = stranger.fetch(0, **nameless)
        assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, why)
    assert stranger.acquired(0) == []
    assert stranger.say(1, (0, 0, [ACCEPT])) == ErrorCode.invalid_record_state
    assert member.say(-1, (0, 0, [ACCEPT])) == NONE
    assert member.fetch(1).error_code == ErrorCode.share_session_not_found


@pytest.mark.parametrize(
    "said",
    [
        [(1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, [RENEW])],
        [(0, 0, [9])],
        [(0, 0, [-1])],
        [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
        [(0, 99, [ACCEPT])],
    ],
    ids=str,
)
def test_what_is_no_acknowledgement_changes_nothing(
    cluster: ModelCluster, opened: ExitStack, said: list[tuple[int, int, list[int]]]
) -> None:
    member = begun(opened, cluster, 2)
    assert member.say(1, *said) == ErrorCode.invalid_request
    (topic,) = member.fetch(2, *said, max_records=0).responses
    (part,) = topic.partitions
    assert (part.error_code, part.acknowledge_error_code) == (NONE, ErrorCode.invalid_request)
    assert member.say(3, (0, 1, [ACCEPT])) == NONE


def test_a_lock_is_renewed_where_the_request_says_so(cluster: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, cluster, 1)
    assert member.say(1, (0, 0, [RENEW]), kind=NewerAcknowledgeResponse) == NONE
    answer = member.fetch(2, (0, 0, [RENEW]), kind=NewerFetchResponse, is_renew_ack=True)
    (part,) = answer.responses[0].partitions
    assert (part.acknowledge_error_code, part.acquired_records) == (NONE, ())
    assert member.say(3, (0, 0, [ACCEPT])) == NONE


def test_a_fetch_of_single_records_is_refused(cluster: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, cluster, 1)
    answer = member.fetch(1, kind=NewerFetchResponse, share_acquire_mode=1)
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message == "acquire mode record_limit is not served"


def test_who_does_not_lead_names_the_leader(cluster: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, cluster, 1)
    member.broker, leader = member.other, run_blocking(cluster.roles()).leaders[member.tp]
    answer = member.fetch(0)
    (part,) = answer.responses[0].partitions
    assert (part.error_code, part.current_leader.leader_id) == (ErrorCode.not_leader_or_follower, leader)
    assert [int(one.node_id) for one in answer.node_endpoints] == [leader]
    stranger = member.fetch(1, topics=member.named(topic=NO_TOPIC))
    assert [one.topic_id for one in stranger.responses] == [topic_uuid(member.tp.topic), NO_TOPIC]
    assert stranger.responses[1].partitions[0].error_code == ErrorCode.unknown_topic_id


def test_a_consumer_may_read_the_log_of_share_coordinators(cluster: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, cluster, 2)
    assert member.say(1, (0, 1, [ACCEPT])) == NONE
    servers = cluster.endpoint().args["bootstrap.servers"]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "c", "auto.offset.reset": "earliest"})
    parts = consumer.list_topics(SHARE_STATE_TOPIC, 30).topics[SHARE_STATE_TOPIC].partitions
    consumer.assign([Place(SHARE_STATE_TOPIC, number, 0) for number in parts])
    mine = struct.pack(">h", len(member.group)) + member.group.encode() + topic_uuid(member.tp.topic).bytes
    found: list[bytes] = []

    def both() -> bool:
        records = consumer.consume(500, 0.1)
        found.extend(key for record in records if mine in (key := record.key() or b""))
        return len(found) >= 2

    until(both, "records of this group", 30)
    consumer.close()
    assert [struct.unpack_from(">h", one)[0] for one in found[:2]] == [0, 1]


def test_groups_have_the_settings_of_the_cluster_and_no_others(cluster: ModelCluster) -> None:
    run_blocking(cluster.configure_groups({"g": {"share.record.lock.duration.ms": "30000"}}))
    with pytest.raises(ClusterError, match=r"the model cannot set share\.record\.lock\.duration\.ms=2000"):
        run_blocking(cluster.configure_groups({"g": {"share.record.lock.duration.ms": "2000"}}))
    asked = [{"resource_type": GROUP, "resource_name": "g", "configuration_keys": None}]
    with cluster.admin.connect(1, DEADLINE_S) as broker:
        (found,) = broker.call(DescribeConfigsResponse, resources=asked).results
    assert {one.name: one.value for one in found.configs} == {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.record.lock.duration.ms": "30000",
    }


def test_apis_follow_the_era() -> None:
    served = {era: {name for name in apis(ERAS[era]) if "share" in name} for era in ("4.0", "4.1", "4.4")}
    assert served["4.0"] == set()
    assert served["4.1"] == served["4.4"] > {"share_fetch", "share_acknowledge", "share_group_heartbeat"}
    assert [apis(ERAS[era])["share_fetch"].last for era in ("4.1", "4.2")] == [1, 2]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, ""),
        ({"era": "3.9"}, "workload share: era 3.9 has no share groups; 4.1 and later have"),
        ({"dead_letters": True}, "dead_letters: era 4.3-tv1 has no dead-letter queues; 4.4 and later have"),
        ({"dead_letters": True, "era": "4.4-tv1"}, ""),
    ],
)
def test_eras_without_share_groups_refuse_a_run_of_them(settings: dict[str, Any], why: str) -> None:
    assert MODEL.share_groups(run_config({**THREE, "preset": "share"} | settings)) == why


@pytest.fixture
def lettered(tmp_path: Path) -> Iterator[ModelCluster]:
    """Brokers whose share groups have a dead-letter queue."""
    settings = {**THREE, "era": "4.4-tv1", "dead_letters": True, "preset": "share"}
    yield from started(settings, tmp_path)


def started(settings: dict[str, Any], folder: Path) -> Iterator[ModelCluster]:
    made = ModelCluster(run_config(settings), folder)
    try:
        run_blocking(made.start())
        yield made
    finally:
        run_blocking(made.stop())


@pytest.mark.sampled(15)
def test_a_rejected_record_is_in_the_dead_letter_queue_with_its_copy(
    lettered: ModelCluster, opened: ExitStack
) -> None:
    a_rejected_record_has_a_letter(lettered, "share-dead", fresh(), QUEUE)
    member = begun(opened, lettered, 5, wide=200, **COMPRESSED)
    assert member.say(1, (2, 2, [REJECT])) == NONE
    letters = until(lambda: run_blocking(lettered.dead_letters(QUEUE))[1:], "the letter is written", 30)
    assert [(one.tp, one.offset, one.payload) for one in letters] == [(member.tp, 2, None)]
    assert run_blocking(lettered.trouble()) == ""


@pytest.fixture
def leaky(tmp_path: Path) -> Iterator[ModelCluster]:
    """Brokers that give a member what another one holds."""
    yield from started({**THREE, "mutant": "share-lock-ignored"}, tmp_path)


@pytest.mark.sampled(12)
def test_a_planted_bug_gives_a_record_to_two_members(leaky: ModelCluster, opened: ExitStack) -> None:
    member = begun(opened, leaky, 2)
    another = joined(opened, leaky, member.tp, "n")
    assert another.acquired(0) == [(0, 1, 2)]  # `test_a_closed_connection_…` is its twin
