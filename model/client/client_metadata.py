"""What every modelled client has: its view of the cluster, and requests with answers that may not come.

Clients are state machines as brokers are: `answered`, `tick`, and `take_out()` with what they want sent.

    Ask(node, channel, request)   one request is under way on a channel
"""

from collections.abc import Callable, Sequence
from typing import cast

from model.errors import NO_ERROR, KafkaError
from model.protocol.coordinator_messages import FindCoordinator, FindCoordinatorResponse
from model.protocol.messages import Metadata, MetadataResponse, Partition
from model.protocol.requests import R, Request, Response
from model.replication.node import Ask

RETRIABLE = frozenset(
    {
        KafkaError.NOT_LEADER_OR_FOLLOWER,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.NOT_CONTROLLER,
    }
)
"""Errors after which clients ask again."""
REFRESH_MS = 1000
BACKOFF_MS = 50


class ClientMetadata:
    """A client's view: leaders by partition, coordinators by key. `wanted`: it is to be refreshed."""

    def __init__(self, bootstrap: Sequence[int]) -> None:
        self.bootstrap = tuple(bootstrap)
        self.leaders: dict[Partition, tuple[int, int]] = {}
        """(node, leader epoch); node -1 = unknown."""
        self.coordinators: dict[tuple[str, bool], int] = {}
        self.wanted = True
        self._turn = 0
        self._asking = False
        self._finding: set[tuple[str, bool]] = set()
        self._refreshed = -REFRESH_MS
        self._pause: dict[tuple[str, bool], int] = {}
        self._metadata_pause = 0

    def any_node(self) -> int:
        """A node to ask, another one each time."""
        self._turn += 1
        return self.bootstrap[self._turn % len(self.bootstrap)]

    def seen(self, tp: Partition, epoch: int) -> None:
        """A client read under this leader epoch: earlier leaders lead no more, whatever brokers say (KIP-320;
        Java: `Metadata.updateLastSeenEpochIfNewer`)."""
        if epoch > self.leaders.get(tp, (-1, -1))[1]:
            self.leaders[tp] = (-1, epoch)
            self.wanted = True

    def requests(self, now: int) -> Sequence[Ask]:
        """What is to be asked now about the cluster itself."""
        if self._asking or not (self.wanted or now - self._refreshed >= REFRESH_MS * 5):
            return ()
        if now < self._metadata_pause:
            return ()
        self._asking = True
        return (Ask(self.any_node(), "metadata", Metadata()),)

    def coordinator(self, key: str, group: bool, now: int) -> tuple[int, Sequence[Ask]]:
        """The coordinator of a key, -1 while it is not known, and what is to be asked for that."""
        name = (key, group)
        node = self.coordinators.get(name, -1)
        if node >= 0 or name in self._finding or now < self._pause.get(name, 0):
            return node, ()
        self._finding.add(name)
        channel = f"find {'group' if group else 'id'} {key}"
        return -1, (Ask(self.any_node(), channel, FindCoordinator(key, group)),)

    def forget(self, key: str, group: bool) -> None:
        """The coordinator is another one now."""
        self.coordinators.pop((key, group), None)

    def answered(self, channel: str, answer: Response | None, now: int) -> bool:
        """Whether the answer was one to a question of this view."""
        if channel == "metadata":
            self._asking = False
            if isinstance(answer, MetadataResponse):
                self._refreshed, self.wanted = now, False
                for tp, state in answer.partitions.items():
                    known = self.leaders.get(tp, (-1, -1))
                    # Without an epoch (before KIP-320) a client cannot tell which state is older.
                    if state.leader_epoch < 0 or state.leader_epoch >= known[1]:
                        self.leaders[tp] = (state.leader, state.leader_epoch)
            else:
                self._metadata_pause = now + BACKOFF_MS
            return True
        if channel.startswith("find "):
            _, kind, key = channel.split(" ", 2)
            name = (key, kind == "group")
            self._finding.discard(name)
            if isinstance(answer, FindCoordinatorResponse) and answer.error is NO_ERROR:
                self.coordinators[name] = answer.node
            else:
                self._pause[name] = now + BACKOFF_MS
            return True
        return False


class KafkaClient:
    """What asks for a client: one request on a channel at a time. `out`: what is to be sent."""

    def __init__(self, cluster: ClientMetadata) -> None:
        self.cluster = cluster
        self.out: list[Ask] = []
        self._under_way: dict[str, Callable[[Response | None, int], None]] = {}

    def _ask(
        self, node: int, channel: str, request: Request[R], then: Callable[[R | None, int], None]
    ) -> None:
        """Ask, unless a request is under way on the channel; `then` gets the answer, and the time."""
        if channel not in self._under_way:
            self._under_way[channel] = cast("Callable[[Response | None, int], None]", then)
            self.out.append(Ask(node, channel, request))

    def answered(self, channel: str, answer: Response | None, now: int) -> bool:
        """The answer to an `Ask`, None = none came; whether the question was this client's."""
        if self.cluster.answered(channel, answer, now):
            return True
        then = self._under_way.pop(channel, None)
        if then is not None:
            then(answer, now)
        return then is not None
