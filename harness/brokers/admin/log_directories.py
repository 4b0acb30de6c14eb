"""What a broker says of its log directories: DescribeLogDirs (KIP-113). Synchronous; safe from any thread."""

from collections.abc import Mapping

from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode

from core.errors import ClusterError
from core.op import TopicPartition
from harness.brokers.admin.broker_views import ASK_S
from harness.brokers.admin.connection import AdminError, Brokers
from harness.protocol.topics import of_topics


def replicas(brokers: Brokers, node: int) -> Mapping[str, tuple[TopicPartition, ...] | None]:
    """The replicas in each log directory of a broker, but for those that are still being copied there; None =
    the directory is offline. Raises: ClusterError, where the broker does not say."""
    try:
        with brokers.connect(node, ASK_S) as connection:
            answer = connection.call(DescribeLogDirsResponse, topics=None)
    except AdminError as error:
        raise ClusterError(f"node {node} does not tell of its log directories: {error}") from error
    found: dict[str, tuple[TopicPartition, ...] | None] = {}
    for one in answer.results:
        places = (place for place, its in of_topics(one.topics) if not its.is_future_key)
        whole = one.error_code == ErrorCode.none
        found[one.log_dir] = tuple(sorted(TopicPartition(*place) for place in places)) if whole else None
    return found
