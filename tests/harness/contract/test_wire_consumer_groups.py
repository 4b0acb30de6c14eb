"""Requests of members of consumer groups in Kafka's bytes, and the answers in the model's words."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from harness.contract.dialect import Dialect, IdPairs
from harness.contract.stage import PACE, paced, renamed
from harness.contract.wire import decode, encode
from harness.protocol.encoding import request_frame, response_frame
from harness.protocol.payloads import decode_request, decode_response, request_type
from model.errors import KafkaError
from model.protocol.consumer_group_messages import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumer,
)
from model.protocol.coordinator_messages import OffsetCommit
from model.protocol.requests import AnyRequest, Response

T, U = UUID(int=1), UUID(int=2)
NAMES = IdPairs(topics={"t": T, "u": U})


def sent(request: AnyRequest) -> Any:
    """The request as a broker reads it."""
    kind, values = encode(request, Dialect(2, 2), NAMES)
    asked = request_type(kind.__api_key__, kind.__version__)
    assert asked is not None
    return decode_request(request_frame(asked, values, 1, ""), asked)


def heard(request: AnyRequest, **values: object) -> Response:
    """A broker's answer in the model's words."""
    kind, _ = encode(request, Dialect(2, 2), NAMES)
    return decode(decode_response(response_frame(kind, values, 1), kind), request, NAMES)


def test_a_join_says_everything() -> None:
    got = sent(ConsumerGroupHeartbeat("g", "A", 0, "i", 5000, ("t", "u"), (), "range"))
    assert (got.group_id, got.member_id, got.member_epoch, got.instance_id) == ("g", "A", 0, "i")
    assert (got.rebalance_timeout, got.server_assignor) == (timedelta(seconds=5), "range")
    assert (got.subscribed_topic_names, got.topic_partitions) == (("t", "u"), ())
    assert got.subscribed_topic_regex is None
    assert sent(ConsumerGroupHeartbeat("g", "A", 0, regex="t.*")).subscribed_topic_regex == "t.*"


def test_a_heartbeat_leaves_out_what_is_as_before() -> None:
    got = sent(ConsumerGroupHeartbeat("g", "A", 3))
    assert (got.instance_id, got.rebalance_timeout, got.server_assignor) == (
        None,
        timedelta(milliseconds=-1),
        None,
    )
    assert (got.subscribed_topic_names, got.topic_partitions) == (None, None)
    owning = sent(ConsumerGroupHeartbeat("g", "A", 3, owned=(("t", 0), ("u", 1), ("t", 2))))
    assert [(one.topic_id, one.partitions) for one in owning.topic_partitions] == [(T, (0, 2)), (U, (1,))]


@pytest.mark.parametrize(("given", "expected"), [(None, None), ([], ()), ([(U, [1]), (T, [2, 0])], True)])
def test_an_assignment_is_in_the_names_of_topics(given: Any, expected: Any) -> None:
    parts = None if given is None else [{"topic_id": one, "partitions": numbers} for one, numbers in given]
    assignment = None if parts is None else {"topic_partitions": parts}
    answer = heard(
        ConsumerGroupHeartbeat("g", "A", 3),
        member_id="A",
        member_epoch=4,
        heartbeat_interval=timedelta(seconds=4),
        assignment=assignment,
    )
    whole = (("t", 0), ("t", 2), ("u", 1)) if expected is True else expected
    assert answer == ConsumerGroupHeartbeatResponse(KafkaError.NONE, "A", 4, 4000, whole)


def test_a_refusal_is_its_error() -> None:
    request = ConsumerGroupHeartbeat("g", "A", 3)
    error = KafkaError.FENCED_MEMBER_EPOCH
    assert heard(request, error_code=error) == ConsumerGroupHeartbeatResponse(error)


def test_a_description() -> None:
    member = {
        "member_id": "A",
        "instance_id": "i",
        "member_epoch": 3,
        "client_id": "c",
        "client_host": "h",
        "subscribed_topic_names": ["u", "t"],
        "subscribed_topic_regex": "v.*",
        "assignment": {"topic_partitions": [{"topic_id": T, "topic_name": "t", "partitions": [1, 0]}]},
        "target_assignment": {"topic_partitions": []},
    }
    group = {
        "group_id": "g",
        "group_state": "Stable",
        "group_epoch": 4,
        "assignment_epoch": 3,
        "assignor_name": "uniform",
        "members": [member],
    }
    one = DescribedConsumer(3, "i", ("t", "u"), (("t", 0), ("t", 1)), (), "v.*")
    expected = ConsumerGroupDescribeResponse(KafkaError.NONE, "Stable", 4, 3, "uniform", {"A": one})
    assert heard(ConsumerGroupDescribe("g"), groups=[group]) == expected
    assert sent(ConsumerGroupDescribe("g")).group_ids == ("g",)


def test_members_commit_by_a_version_that_knows_them() -> None:
    commit = OffsetCommit("g", 3, "A", {("t", 0): 5}, newer=True)
    assert sent(commit).__version__ == 9
    assert sent(OffsetCommit("g", 3, "A", {("t", 0): 5})).__version__ == 8


def test_names_are_a_scenarios_and_times_those_of_the_real_cluster() -> None:
    request = ConsumerGroupHeartbeat("g", "A", 0, "i", 5000, ("t",), (("t", 0),), regex="t.*")
    expected = ConsumerGroupHeartbeat("x-g", "A", 0, "i", 5000 * PACE, ("x-t",), (("x-t", 0),), regex="x-t.*")
    assert paced(renamed(request, "x-{}".format)) == expected
    assert paced(renamed(ConsumerGroupHeartbeat("g", "A", 3), "x-{}".format)).rebalance_ms == -1
    described = ConsumerGroupDescribeResponse(
        KafkaError.NONE, members={"A": DescribedConsumer(1, "i", ("x-t",), (("x-t", 0),), (("x-t", 1),))}
    )
    told = renamed(described, lambda name: name.removeprefix("x-"))
    assert told.members == {"A": DescribedConsumer(1, "i", ("t",), (("t", 0),), (("t", 1),))}
