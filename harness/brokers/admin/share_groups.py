"""Share groups: their settings, and where they stand (KIP-932).

Synchronous; safe from any thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_share_group_offsets.v0 import request as describe_offsets
from kio.schema.describe_share_group_offsets.v0.response import DescribeShareGroupOffsetsResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as alter_configs
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from core.op import TopicPartition
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.brokers.admin.features import enable
from harness.processes.waiting import NotYet, until

FEATURE: Final = "share.version"
GROUP: Final = i8(32)
SET: Final = i8(0)
OFFSETS_S: Final = 6.0
"""A broker that has not asked a coordinator of share groups before takes two seconds for its first answer."""
Settings = Mapping[str, Mapping[str, str]]
"""By group and name."""


def configure(brokers: Brokers, settings: Settings, within_s: float) -> None:
    """See `core.cluster.SharesGroups`: of a cluster whose features the harness may raise.

    Raises: ConfigError, where its brokers have no share groups; ClusterError: refused, or late.
    """
    enable(brokers, FEATURE, 1)
    broker_views.anywhere(brokers, partial(_alter, settings), within_s)

    def known() -> None:
        answers = broker_views.ask_all(brokers, partial(_settings, settings))
        if late := [node for node in brokers.nodes if answers.get(node) != settings]:
            raise NotYet(f"brokers {late} do not know the settings of the share groups {[*settings]}")

    until(within_s, broker_views.POLL_S, known)


def _alter(settings: Settings, connection: BrokerConnection) -> None:
    """IncrementalAlterConfigs. Raises: AdminError."""
    resources = tuple(
        alter_configs.AlterConfigsResource(
            resource_type=GROUP,
            resource_name=group,
            configs=tuple(
                alter_configs.AlterableConfig(name=name, config_operation=SET, value=value)
                for name, value in its.items()
            ),
        )
        for group, its in settings.items()
    )
    request = alter_configs.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    for one in connection.call(request, IncrementalAlterConfigsResponse).responses:
        check(f"settings of group {one.resource_name}", one.error_code, one.error_message)


def _settings(wanted: Settings, connection: BrokerConnection) -> dict[str, dict[str, str | None]]:
    """What one broker knows of these settings. Raises: AdminError."""
    request = describe_configs.DescribeConfigsRequest(
        resources=tuple(
            describe_configs.DescribeConfigsResource(
                resource_type=GROUP, resource_name=group, configuration_keys=tuple(its)
            )
            for group, its in wanted.items()
        ),
        include_synonyms=False,
        include_documentation=False,
    )
    answer = connection.call(request, DescribeConfigsResponse)
    return {one.resource_name: {each.name: each.value for each in one.configs} for one in answer.results}


def offsets(
    brokers: Brokers, groups: Sequence[str], tps: Sequence[TopicPartition]
) -> dict[tuple[str, TopicPartition], int]:
    """The start offset of each share partition, as its coordinator has it stored: the share partition may
    be further. Never raises; what no broker says is left out."""
    found: dict[tuple[str, TopicPartition], int] = {}
    for group in groups:
        answers = broker_views.ask_all(brokers, partial(_offsets, group, tps), OFFSETS_S).values()
        for tp in {tp for answer in answers for tp in answer}:
            found[group, tp] = max(answer.get(tp, -1) for answer in answers)
    return found


def _offsets(
    group: str, tps: Iterable[TopicPartition], connection: BrokerConnection
) -> dict[TopicPartition, int]:
    """What one broker says. Raises: AdminError."""
    topics = tuple(
        describe_offsets.DescribeShareGroupOffsetsRequestTopic(
            topic_name=TopicName(topic), partitions=tuple(map(i32, numbers))
        )
        for topic, numbers in protocol.by_topic(tps).items()
    )
    asked = describe_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group), topics=topics)
    request = describe_offsets.DescribeShareGroupOffsetsRequest(groups=(asked,))
    (answer,) = connection.call(request, DescribeShareGroupOffsetsResponse).groups
    if answer.error_code != ErrorCode.none:
        return {}
    return {
        TopicPartition(str(topic.topic_name), int(one.partition_index)): int(one.start_offset)
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.none and one.start_offset >= 0
    }
