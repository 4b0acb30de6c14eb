"""What a broker of the ZooKeeper era does for administrators, and for itself, by writing to ZooKeeper.

Topics, elections and reassignments are asked for by creating a znode; the controller sees it and does it.
Blocks of producer ids every broker takes itself, by a conditional update (before KIP-730). An answer says
that the znode is written, not that all is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.errors import KafkaError
from model.metadata.replica_placer import assign
from model.protocol.controller_messages import (
    PRODUCER_ID_BLOCK_SIZE,
    AllocateProducerIds,
    AllocateProducerIdsResponse,
)
from model.protocol.messages import AlterPartitionReassignments, CreateTopics, ElectLeaders, ErrorResponse
from model.protocol.requests import Handler, Handlers, Q, Response
from model.protocol.zookeeper_messages import Children, Create, GetData, SetData, ZkError, ZkResult
from model.replication.node import NodeState
from model.zookeeper.kafka_zk_client import KafkaZkClient
from model.zookeeper.zk_data import IDS, PREFERRED, PRODUCER_IDS, REASSIGNED, brokers_of, topic_path

Answering = Callable[[Response], None]


@dataclass(slots=True)
class ZkAdminManager:
    """See the module."""

    node: NodeState
    client: KafkaZkClient

    def register(self, handlers: Handlers) -> None:
        """Add the handlers of requests that end in a znode."""
        handlers.on(CreateTopics, self._handler(self._create))
        handlers.on(ElectLeaders, self._handler(self._elect))
        handlers.on(AlterPartitionReassignments, self._handler(self._reassign))
        handlers.on(AllocateProducerIds, self._handler(self._allocate))

    def _handler(self, function: Callable[[Q, Answering], None]) -> Handler[Q]:
        def handle(connection: int, correlation: int, request: Q) -> None:
            function(request, lambda answer: self.node.reply(connection, correlation, answer))

        return handle

    def _create(self, request: CreateTopics, answer: Answering) -> None:
        def brokers(results: Sequence[ZkResult] | None) -> None:
            if results is None:
                answer(ErrorResponse(KafkaError.REQUEST_TIMED_OUT))
                return
            alive = brokers_of(results[0])
            if len(alive) < request.replication:
                answer(ErrorResponse(KafkaError.INVALID_REPLICATION_FACTOR))
                return
            made = tuple(map(tuple, request.replicas)) or tuple(
                assign(alive, partitions=request.partitions, replication=request.replication)
            )
            self._write(topic_path(request.topic), made, KafkaError.TOPIC_ALREADY_EXISTS, answer)

        self.client.send([Children(IDS)], brokers)

    def _elect(self, request: ElectLeaders, answer: Answering) -> None:
        """Unclean elections on demand are of KIP-460, and of the controller alone: refused here."""
        if request.unclean:
            answer(ErrorResponse(KafkaError.UNSUPPORTED_VERSION))
            return
        asked = tuple(request.partitions)
        self._write(PREFERRED, asked, KafkaError.ELECTION_NOT_NEEDED, answer)

    def _reassign(self, request: AlterPartitionReassignments, answer: Answering) -> None:
        asked = {tp: tuple(replicas) for tp, replicas in request.replicas.items()}
        self._write(REASSIGNED, asked, KafkaError.REASSIGNMENT_IN_PROGRESS, answer)

    def _write(self, path: str, data: object, exists: KafkaError, answer: Answering) -> None:
        """Create a znode. exists: what it means that there is one."""

        def written(results: Sequence[ZkResult] | None) -> None:
            if results is None:
                answer(ErrorResponse(KafkaError.REQUEST_TIMED_OUT))
            else:
                done = results[0].error is ZkError.OK
                answer(ErrorResponse(KafkaError.NONE if done else exists))

        self.client.send([Create(path, data)], written)

    def _allocate(self, request: AllocateProducerIds, answer: Answering) -> None:
        """A block that another broker takes first is not taken; one whose write is not answered is lost."""

        def read(results: Sequence[ZkResult] | None) -> None:
            if results is None:
                answer(AllocateProducerIdsResponse(KafkaError.REQUEST_TIMED_OUT))
                return
            first, version = results[0].data, results[0].version

            def written(results: Sequence[ZkResult] | None) -> None:
                if results is None:
                    answer(AllocateProducerIdsResponse(KafkaError.REQUEST_TIMED_OUT))
                elif results[0].error is ZkError.OK:
                    answer(AllocateProducerIdsResponse(KafkaError.NONE, first, PRODUCER_ID_BLOCK_SIZE))
                else:
                    self._allocate(request, answer)

            self.client.send([SetData(PRODUCER_IDS, first + PRODUCER_ID_BLOCK_SIZE, version)], written)

        self.client.send([GetData(PRODUCER_IDS)], read)
