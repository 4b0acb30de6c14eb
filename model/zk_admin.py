"""What a broker of the ZooKeeper era does for administrators, and for itself, by writing to ZooKeeper.

Topics, elections and reassignments are asked for by creating a znode; the controller sees it and does it.
Blocks of producer ids every broker takes itself, by a conditional update (before KIP-730). An answer says
that the znode is written, not that all is done.

Not here: what the controller makes of it (`zk_controller`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.assignment import assign
from model.controller import ID_BLOCK
from model.controller_messages import AllocateIds, IdsAnswer
from model.errors import KafkaError
from model.messages import Answer, CreateTopic, ElectLeaders, Reassign
from model.metadata import Handler
from model.node import Node
from model.zk_client import ZkClient
from model.zk_paths import (
    IDS,
    PREFERRED,
    PRODUCER_IDS,
    REASSIGNED,
    brokers_of,
    topic_path,
)
from model.zookeeper import Children, Create, GetData, Result, SetData, ZkError

Answering = Callable[[Any], None]


@dataclass(slots=True)
class ZkAdmin:
    """See the module."""

    node: Node
    client: ZkClient

    def handlers(self) -> Mapping[type, Handler]:
        """Requests that end in a znode."""
        return {
            CreateTopic: self._handler(self._create),
            ElectLeaders: self._handler(self._elect),
            Reassign: self._handler(self._reassign),
            AllocateIds: self._handler(self._allocate),
        }

    def _handler(self, function: Callable[[Any, Answering], None]) -> Handler:
        def handle(connection: int, correlation: int, request: Any) -> None:
            function(request, lambda answer: self.node.reply(connection, correlation, answer))

        return handle

    def _create(self, request: CreateTopic, answer: Answering) -> None:
        def brokers(results: Sequence[Result] | None) -> None:
            if results is None:
                answer(Answer(KafkaError.REQUEST_TIMED_OUT))
                return
            alive = brokers_of(results[0])
            if len(alive) < request.replication:
                answer(Answer(KafkaError.INVALID_REPLICATION_FACTOR))
                return
            made = tuple(map(tuple, request.replicas)) or tuple(
                assign(alive, partitions=request.partitions, replication=request.replication)
            )
            self._write(topic_path(request.topic), made, KafkaError.TOPIC_ALREADY_EXISTS, answer)

        self.client.send([Children(IDS)], brokers)

    def _elect(self, request: ElectLeaders, answer: Answering) -> None:
        """Unclean elections on demand are of KIP-460, and of the controller alone: refused here."""
        if request.unclean:
            answer(Answer(KafkaError.UNSUPPORTED_VERSION))
            return
        asked = tuple(request.partitions)
        self._write(PREFERRED, asked, KafkaError.ELECTION_NOT_NEEDED, answer)

    def _reassign(self, request: Reassign, answer: Answering) -> None:
        asked = {tp: tuple(replicas) for tp, replicas in request.replicas.items()}
        self._write(REASSIGNED, asked, KafkaError.REASSIGNMENT_IN_PROGRESS, answer)

    def _write(self, path: str, data: Any, exists: KafkaError, answer: Answering) -> None:
        """Create a znode. exists: what it means that there is one."""

        def written(results: Sequence[Result] | None) -> None:
            if results is None:
                answer(Answer(KafkaError.REQUEST_TIMED_OUT))
            else:
                done = results[0].error is ZkError.OK
                answer(Answer(KafkaError.NONE if done else exists))

        self.client.send([Create(path, data)], written)

    def _allocate(self, request: AllocateIds, answer: Answering) -> None:
        """A block that another broker takes first is not taken; one whose write is not answered is lost."""

        def read(results: Sequence[Result] | None) -> None:
            if results is None:
                answer(IdsAnswer(KafkaError.REQUEST_TIMED_OUT))
                return
            first, version = results[0].data, results[0].version

            def written(results: Sequence[Result] | None) -> None:
                if results is None:
                    answer(IdsAnswer(KafkaError.REQUEST_TIMED_OUT))
                elif results[0].error is ZkError.OK:
                    answer(IdsAnswer(KafkaError.NONE, first, ID_BLOCK))
                else:
                    self._allocate(request, answer)

            self.client.send([SetData(PRODUCER_IDS, first + ID_BLOCK, version)], written)

        self.client.send([GetData(PRODUCER_IDS)], read)
