"""One node of a modelled cluster: broker, controller of the quorum, or both.

Everything that happens to a node is one of its events: `start`, `receive` (a request), `answered` (the
answer to an `Ask` of its own, None = none came in time), `disconnected` (a client), `tick` (every 100 ms).
What it wants done stands in `take_out()` afterwards. A node that crashes is thrown away except for its
`Durable`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from model.coordinator.coordinators import Coordinators
from model.kraft.kafka_raft_client import KafkaRaftClient
from model.kraft.kraft_metadata import KRaftMetadata
from model.protocol.coordinator_messages import DescribeProducers, DescribeProducersResponse, ProducerState
from model.protocol.messages import (
    DeleteRecords,
    Fetch,
    ListOffsets,
    Metadata,
    MetadataResponse,
    OffsetForLeaderEpoch,
    Produce,
)
from model.protocol.requests import AnyRequest, Handlers, Response
from model.replication.node import Ask, NodeState, Reply
from model.replication.replica_fetcher_manager import ReplicaFetcherManager
from model.replication.replica_manager import ReplicaManager
from model.server.broker_metadata_publisher import TICK_MS as TICK_MS
from model.server.broker_metadata_publisher import BrokerMetadataPublisher
from model.server.broker_metadata_publisher import Durable as Durable
from model.server.cluster_metadata import ClusterMetadata
from model.settings import Settings
from model.share.share_groups import ShareGroups
from model.zookeeper.zk_metadata import ZkMetadata

CHECKPOINT_MS: Final = 5000


class Broker:
    """See the module. `incarnation` is different at each start. broker, voters: its process.roles. ensemble:
    node of the ZooKeeper ensemble, -1 = the metadata are a quorum's."""

    def __init__(
        self,
        me: int,
        *,
        voters: Sequence[int],
        settings: Settings,
        durable: Durable,
        incarnation: int,
        draw: Callable[[int, int], int],
        broker: bool = True,
        ensemble: int = -1,
    ) -> None:
        self.me = me
        self.settings = settings
        self.durable = durable
        self.incarnation = incarnation
        self.is_broker = broker
        self.node = NodeState(me, settings, durable.logs, durable.checkpoint, durable.server_log)
        self.replica_manager = ReplicaManager(
            self.node, lambda tp, follower: self.metadata.isr.fetched(tp, follower)
        )
        self.replica_fetchers = ReplicaFetcherManager(self.node, self.replica_manager.moved)
        self.coordinators = Coordinators(self.node, self.replica_manager, lambda: self.metadata.administrator)
        self.share_groups = ShareGroups(
            self.node, self.replica_manager, self.coordinators.group_log, lambda: self.metadata.administrator
        )
        self.publisher = BrokerMetadataPublisher(
            self.node,
            durable,
            self.replica_manager,
            self.replica_fetchers,
            self.coordinators,
            self.share_groups,
        )
        self.metadata: ClusterMetadata = (
            KRaftMetadata(self.publisher, voters, draw, incarnation, broker=broker)
            if ensemble < 0
            else ZkMetadata(self.publisher, ensemble)
        )
        self._checkpoint_at = 0
        self._handlers = handlers = Handlers()
        handlers.on(Produce, self.replica_manager.produce)
        handlers.on(Fetch, self.replica_manager.fetch)
        handlers.on(DeleteRecords, self.replica_manager.delete_records)
        handlers.at_once(OffsetForLeaderEpoch, self.replica_manager.epoch_ends)
        handlers.at_once(ListOffsets, self.replica_manager.list_offsets)
        handlers.at_once(Metadata, self._metadata)
        handlers.at_once(DescribeProducers, self._producers)
        self.metadata.register(handlers)
        self.coordinators.register(handlers)
        if settings.era.share_groups:
            self.share_groups.register(handlers)

    @property
    def fenced(self) -> bool:
        """As far as this node knows, the cluster does not count on it."""
        return self.metadata.fenced

    @property
    def may_end(self) -> bool:
        """The clean shutdown that was started has ended: `end` it."""
        return self.metadata.may_end

    @property
    def quorum(self) -> KafkaRaftClient:
        """This node's part of the metadata quorum. On ZooKeeper there is none."""
        assert isinstance(self.metadata, KRaftMetadata)
        return self.metadata.quorum

    # ---- events

    def start(self, now: int) -> None:
        """The process comes up, with what was durable."""
        self.node.now = now
        self.publisher.start()
        self.metadata.start()
        self.metadata.after()

    def receive(self, now: int, connection: int, correlation: int, request: AnyRequest) -> None:
        """A request came. Connection -1: the sender does not wait for the answer."""
        self.node.now = now
        self.node.connection = connection
        self._handlers.handle(request, self.node.answering(connection, correlation))
        self.metadata.after()

    def disconnected(self, now: int, connection: int) -> None:
        """A connection of a client is closed."""
        self.node.now = now
        self.share_groups.disconnected(connection)
        self.metadata.after()

    def answered(self, now: int, ask: Ask, answer: Response | None) -> None:
        """The answer to an `Ask`, None = connection lost or no answer in time."""
        self.node.now = now
        ask.then(answer)
        self.metadata.after()

    def tick(self, now: int) -> None:
        """100 ms passed."""
        self.node.now = now
        self.metadata.tick()
        if self.is_broker:
            self.metadata.isr.lead_on()
            self.replica_manager.tick()
            self.replica_fetchers.pump()
            self.coordinators.tick()
            if self.settings.era.share_groups:
                self.share_groups.tick()
            self.metadata.keep_alive()
            if now >= self._checkpoint_at:
                self._checkpoint_at = now + CHECKPOINT_MS
                self.publisher.checkpoint()
                self.publisher.expire_producers()
        self.metadata.after()

    def shut_down(self, now: int) -> None:
        """Begin a clean shutdown; `may_end` is set when it has ended."""
        self.node.now = now
        self.metadata.leave()

    def end(self) -> Durable:
        """The end of a clean shutdown: everything is on disk."""
        self.publisher.flush()
        self.metadata.end()
        return self.durable

    def take_out(self) -> list[Reply | Ask]:
        """What the node wants done since the last call."""
        out, self.node.out = self.node.out, []
        return out

    # ---- questions

    def _metadata(self, request: Metadata) -> MetadataResponse:
        image = self.node.image
        told = dict(image.partitions)
        if not self.node.settings.era.fenced_fetch:
            told = {tp: replace(state, leader_epoch=-1) for tp, state in told.items()}
        return MetadataResponse(sorted(image.alive()), told, self.metadata.controller_id)

    def _producers(self, request: DescribeProducers) -> DescribeProducersResponse:
        parts = {}
        for tp in request.partitions:
            replica = self.node.leader_of(tp)
            if replica is not None:
                known = sorted(replica.log.producers.items())
                parts[tp] = [
                    ProducerState(pid, p.epoch, p.last_sequence, p.coordinator_epoch, p.began)
                    for pid, p in known
                ]
        return DescribeProducersResponse(parts)
