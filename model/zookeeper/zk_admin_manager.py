"""What a broker of the ZooKeeper era does for administrators, and for itself, by writing to ZooKeeper.

Topics, elections and reassignments are asked for by creating a znode; the controller sees it and does it.
Blocks of producer ids every broker takes itself, by a conditional update (before KIP-730). An answer says
that the znode is written, not that all is done.
"""

from collections.abc import Callable
from dataclasses import dataclass

from model.errors import NO_ERROR, KafkaError, Refused
from model.metadata.replica_placer import assign
from model.protocol.controller_messages import (
    PRODUCER_ID_BLOCK_SIZE,
    AllocateProducerIds,
    AllocateProducerIdsResponse,
)
from model.protocol.messages import AlterPartitionReassignments, CreateTopics, ElectLeaders
from model.protocol.requests import Answer, ErrorResponse, Handlers, Q, Refusal, Response
from model.protocol.zookeeper_messages import Children, Create, GetData, SetData, ZkError
from model.zookeeper.kafka_zk_client import KafkaZkClient, SessionExpired, Steps
from model.zookeeper.zk_data import IDS, PREFERRED, PRODUCER_IDS, REASSIGNED, brokers_of, topic_path


@dataclass(slots=True)
class ZkAdminManager:
    """See the module."""

    client: KafkaZkClient

    def register(self, handlers: Handlers) -> None:
        """Add the handlers of requests that end in a znode."""
        self._on(handlers, CreateTopics, self._create)
        self._on(handlers, ElectLeaders, self._elect)
        self._on(handlers, AlterPartitionReassignments, self._reassign)
        self._on(handlers, AllocateProducerIds, self._allocate, AllocateProducerIdsResponse)

    def _on(
        self,
        handlers: Handlers,
        kind: type[Q],
        answering: Callable[[Q], Steps[Response]],
        refusal: Refusal = ErrorResponse,
    ) -> None:
        def steps(request: Q, answer: Answer) -> Steps[None]:
            try:
                answer((yield from answering(request)))
            except Refused as refused:
                answer(refusal(refused.error))
            except SessionExpired:
                answer(refusal(KafkaError.REQUEST_TIMED_OUT))

        handlers.on(kind, lambda request, answer: self.client.run(steps(request, answer)))

    def _create(self, request: CreateTopics) -> Steps[Response]:
        (ids,) = yield [Children(IDS)]
        alive = brokers_of(ids)
        if len(alive) < request.replication:
            raise Refused(KafkaError.INVALID_REPLICATION_FACTOR)
        made = tuple(map(tuple, request.replicas)) or assign(
            alive, partitions=request.partitions, replication=request.replication
        )
        return (yield from self._write(topic_path(request.topic), made, KafkaError.TOPIC_ALREADY_EXISTS))

    def _elect(self, request: ElectLeaders) -> Steps[Response]:
        """Unclean elections on demand are of KIP-460, and of the controller alone: refused here."""
        if request.unclean:
            raise Refused(KafkaError.UNSUPPORTED_VERSION)
        return self._write(PREFERRED, tuple(request.partitions), KafkaError.ELECTION_NOT_NEEDED)

    def _reassign(self, request: AlterPartitionReassignments) -> Steps[Response]:
        """Before KIP-455 (2.4) none can be cancelled."""
        asked = {tp: tuple(replicas) for tp, replicas in request.replicas.items() if replicas is not None}
        if len(asked) < len(request.replicas):
            raise Refused(KafkaError.UNSUPPORTED_VERSION)
        return self._write(REASSIGNED, asked, KafkaError.REASSIGNMENT_IN_PROGRESS)

    def _write(self, path: str, data: object, exists: KafkaError) -> Steps[Response]:
        """Create a znode. exists: what it means that there is one."""
        (made,) = yield [Create(path, data)]
        return ErrorResponse(NO_ERROR if made.error is ZkError.OK else exists)

    def _allocate(self, request: AllocateProducerIds) -> Steps[Response]:
        """A block that another broker takes first is not taken; one whose write is not answered is lost."""
        while True:
            (block,) = yield [GetData(PRODUCER_IDS)]
            (taken,) = yield [SetData(PRODUCER_IDS, block.data + PRODUCER_ID_BLOCK_SIZE, block.version)]
            if taken.error is ZkError.OK:
                return AllocateProducerIdsResponse(NO_ERROR, block.data, PRODUCER_ID_BLOCK_SIZE)
