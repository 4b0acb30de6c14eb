"""Topics and groups of a cluster: which are the run's, which are not, and taking away those that are.

A run owns what its prefix begins, and nothing else.

Metadata and ListGroups leave out what the user may not describe. The right to describe the cluster shows all
groups, and the brokers' disks, which have all topics; a user without it sees neither.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kio.schema.delete_groups.v1.response import DeleteGroupsResponse
from kio.schema.delete_topics.v3.response import DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v2.response import ListGroupsResponse
from kio.schema.metadata.v9.response import MetadataResponse

from core.errors import ClusterError
from core.first_few import first_few
from core.internal_topics import internal
from harness.brokers.admin import broker_views, log_directories
from harness.brokers.admin.connection import AdminError, BrokerConnection, Brokers, check
from harness.brokers.admin.protocol import view
from harness.containers import claims
from harness.processes.waiting import NotYet, until

REMOVE_S: Final = 15.0
"""Topics are deleted within a second; a group after the session time-out of members that died."""
BACK_S: Final = 90.0
"""Brokers that were started a moment ago answer within this time."""
PAUSE_S: Final = 0.5
GONE: Final = (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
DESCRIBE: Final = 1 << 8
"""The bit of the operation in what a user is authorized to (KIP-430)."""
NAMED: Final = 5
"""Names in one sentence."""


class Belongings(NamedTuple):
    """Names, sorted. unseen: brokers that did not say which groups they coordinate. blind: the user may not
    describe the cluster, so that there may be others."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    unseen: tuple[int, ...] = ()
    blind: bool = False

    def under(self, prefix: str) -> "Belongings":
        """Those that the prefix begins."""
        topics, groups = (tuple(n for n in some if n.startswith(prefix)) for some in self[:2])
        return self._replace(topics=topics, groups=groups)

    def outside(self, prefix: str) -> "Belongings":
        """Those that it does not."""
        topics, groups = (tuple(n for n in some if not n.startswith(prefix)) for some in self[:2])
        return self._replace(topics=topics, groups=groups)

    def text(self) -> str:
        """In words, "" = there are none."""
        kinds = (("topics", self.topics), ("groups", self.groups))
        return " and ".join(f"{kind} {first_few(names, NAMED)}" for kind, names in kinds if names)

    def refusal(self, prefix: str, *, owned: bool) -> str:
        """Why no run may use a cluster with these, "" = one may. owned: others' may be there, too."""
        if text := self.under(prefix).text():
            return (
                f"the cluster has {text}: a run is under way, or its harness was killed; "
                "`inquest doctor --cluster FILE` deletes what the prefix begins"
            )
        text = self.outside(prefix).text()
        if not text and self.unseen:
            text = f"a broker, {self.unseen[0]}, that does not list its groups"
        if text and not owned:
            return f"the cluster has {text}, which others may use: --owned, if it is yours to break"
        if self.blind and not owned:
            return (
                "no broker says that the client may describe the cluster, and without that topics and groups "
                "of others do not show: --owned, if it is yours to break"
            )
        return ""


def listed(brokers: Brokers) -> Belongings:
    """All of a cluster but internal topics. Raises: NotYet, where no broker answers."""
    views = broker_views.ask_all(brokers, view)
    if not views:
        raise NotYet("no broker answers")
    topics = {tp.topic for one in views.values() for tp in one.partitions}
    groups = broker_views.ask_all(brokers, _groups)
    return Belongings(
        tuple(sorted(topic for topic in topics if not internal(topic))),
        tuple(sorted({name for some in groups.values() for name in some})),
        tuple(node for node in brokers.nodes if node not in groups),
    )


def refusal(brokers: Brokers, prefix: str, within_s: float, *, owned: bool) -> str:
    """See `Belongings.refusal`. Raises: NotYet, where no broker answers in time."""
    found = until(within_s, PAUSE_S, lambda: listed(brokers))
    return (found if owned else _with_hidden(brokers, found, prefix)).refusal(prefix, owned=owned)


def _with_hidden(brokers: Brokers, found: Belongings, prefix: str) -> Belongings:
    """The same, with others' topics that only the disks show. What the prefix begins is left out there: a
    disk has a topic for a while after its deletion."""
    stored: set[str] = set()
    for node in brokers.nodes:
        with suppress(ClusterError):  # not every program of Kafka's protocol has the request
            each = log_directories.replicas(brokers, node).values()
            stored |= {tp.topic for tps in each for tp in tps or ()}
    theirs = {topic for topic in stored if not topic.startswith(prefix) and not internal(topic)}
    may = broker_views.ask_all(brokers, may_describe).values()
    return found._replace(topics=tuple(sorted({*found.topics, *theirs})), blind=not may or not all(may))


def may_describe(connection: BrokerConnection) -> bool:
    """Whether this user may describe the cluster; it may do all where nothing is asked of users."""
    answer = connection.call(
        MetadataResponse,
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
    )
    return answer.cluster_authorized_operations > 0 and bool(answer.cluster_authorized_operations & DESCRIBE)


def _groups(connection: BrokerConnection) -> tuple[str, ...]:
    answer = connection.call(ListGroupsResponse)
    check("ListGroups", answer.error_code)
    return tuple(str(group.group_id) for group in answer.groups)


def claim(brokers: Brokers) -> claims.Claim:
    """Only one process of this machine may break a cluster. Raises: ClusterError."""
    return claims.claim(f"cluster {brokers.cluster or min(map(str, brokers.addresses.values()))}")


def staying(transactional_ids: Sequence[str]) -> list[str]:
    """What no call of Kafka's deletes, in a sentence."""
    ids = first_few(transactional_ids, NAMED)
    return [f"Kafka forgets in its time (transactional.id.expiration.ms): {ids}"] if ids else []


def all_listed(brokers: Brokers) -> Belongings:
    """As `listed`, of every broker. Raises: NotYet."""
    found = listed(brokers)
    if found.unseen:
        raise NotYet(f"broker {found.unseen[0]} does not list its groups")
    return found


def remove(brokers: Brokers, prefix: str) -> list[str]:
    """Take away what the prefix begins, until nothing of it is seen twice in a row (a client that dies may
    create a topic once more); what stayed, in sentences. Never raises."""
    left, quiet = "", 0

    def look() -> None:
        nonlocal left, quiet
        mine = listed(brokers).under(prefix)
        left = mine.text()
        quiet = 0 if left else quiet + 1
        if left:
            _delete(brokers, mine)
        if quiet < 2:
            raise NotYet(f"{left or 'something'} may be left")

    try:
        until(REMOVE_S, PAUSE_S, look)
    except ClusterError as error:
        return [
            f"left on the cluster: {left}" if left else f"what is left on the cluster is unknown: {error}"
        ]
    return []


def _delete(brokers: Brokers, mine: Belongings) -> None:
    """One try. A topic is deleted by any broker, a group by the one that coordinates it."""

    def ask(connection: BrokerConnection) -> None:
        if mine.groups:
            connection.call(DeleteGroupsResponse, groups_names=mine.groups)
        if mine.topics:
            answer = connection.call(
                DeleteTopicsResponse, topic_names=mine.topics, timeout=broker_views.TIMEOUT
            )
            for topic in answer.responses:
                if topic.error_code not in GONE:
                    raise AdminError(f"topic {topic.name}", topic.error_code)

    broker_views.ask_all(brokers, ask, broker_views.CALL_S)
