"""Share groups: their settings, and where they stand (KIP-932).

Synchronous; safe from any thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kio.schema.describe_share_group_offsets.v0.response import DescribeShareGroupOffsetsResponse
from kio.schema.errors import ErrorCode

from core import dead_letters
from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers
from harness.brokers.admin.features import enable
from harness.brokers.admin.settings import GROUP, alter, described
from harness.processes.waiting import NotYet, until
from harness.protocol.topics import numbers_in_topics

FEATURE: Final = "share.version"
OFFSETS_S: Final = 6.0
"""A broker that has not asked a coordinator of share groups before takes two seconds for its first answer."""
Settings = Mapping[str, Mapping[str, str]]
"""By group and name."""


def configure(brokers: Brokers, settings: Settings, within_s: float) -> None:
    """See `core.capabilities.SharesGroups`: of a cluster whose features the harness may raise.

    Raises: ConfigError, where its brokers have no share groups; ClusterError: refused, or late.
    """
    queues = any(its.get(dead_letters.TOPIC) for its in settings.values())
    enable(brokers, FEATURE, dead_letters.FEATURE_LEVEL if queues else 1)
    broker_views.anywhere(brokers, partial(alter, GROUP, settings), within_s)

    def known() -> None:
        answers = broker_views.ask_all(brokers, partial(described, GROUP, settings))
        if late := [node for node in brokers.nodes if answers.get(node) != settings]:
            raise NotYet(f"brokers {late} do not know the settings of the share groups {[*settings]}")

    until(within_s, broker_views.POLL_S, known)


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
    topics = numbers_in_topics(dict.fromkeys(tps), name="topic_name")
    asked = [{"group_id": group, "topics": topics}]
    (answer,) = connection.call(DescribeShareGroupOffsetsResponse, groups=asked).groups
    if answer.error_code != ErrorCode.none:
        return {}
    return {
        TopicPartition(str(topic.topic_name), int(one.partition_index)): int(one.start_offset)
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.none and one.start_offset >= 0
    }
