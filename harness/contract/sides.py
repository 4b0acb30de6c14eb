"""The two brokers that get the same requests: a real one, and the model's.

Both are asked in the words of the model. Answers are made comparable (`comparable`): what the model leaves
out is left out, and where a request or a partition is refused nothing but the error counts.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec
from kio.static.protocol import ResponsePayload

from core.internal_topics import GROUP_TOPIC
from harness.brokers.admin.connection import BrokerConnection
from harness.contract.dialect import Dialect, IdPairs
from harness.contract.wire import decode, encode
from harness.protocol.payloads import Message
from model.coordinator.classic_group import STABLE
from model.eras import Era
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import (
    DescribedMember,
    DescribedTransaction,
    DescribeGroupResponse,
    FindCoordinator,
    InitProducerId,
    JoinGroupResponse,
    ProducerIdResponse,
    ProducerState,
)
from model.protocol.messages import FetchedPartition, Partition
from model.protocol.requests import AnyRequest, ErrorResponse, R, Request, Response
from model.settings import Settings
from scenarios.drivers.cluster import ClusterStage, lone

BROKER: Final = 1
AFTER_MS: Final = 100
"""Time of the model that follows each answer: what its broker does on its own is done by then."""

LATE_S: Final = 0.1
LATE_ROUNDS: Final = 50
"""An answer that the other side has is waited for `LATE_S`, and once more after each other request that the
broker answers: on a busy machine it is late with everything."""

T = TypeVar("T", bound=Response)


class Side(Protocol):
    """One of the two."""

    def ask(self, request: Request[R], expected: Response | None = None) -> R:
        """The answer, comparable. expected: what the other side answered."""

    def send(self, who: str, request: AnyRequest) -> None:
        """A member's request, whose answer may wait for other members."""

    def taken(self, who: str, expected: Response | None = None) -> Response | None:
        """The answer to it, once; None = it waits. expected: what the other side has."""


class ModelSide:
    """A modelled cluster of one broker."""

    def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
        self.stage = ClusterStage(settings)
        self.stage.create(topic, ((BROKER,),) * partitions)
        self.stage.until(lambda: not self.stage.ask(InitProducerId(None, 0), to=BROKER).error)
        self._answers: dict[str, Response] = {}

    def ask(self, request: Request[R], expected: Response | None = None) -> R:
        """See `Side`."""
        answer = self.stage.ask(request, to=BROKER)
        assert isinstance(answer, Response), f"the model does not answer {request}"
        self.stage.wait(AFTER_MS)
        return comparable(answer)

    def send(self, who: str, request: AnyRequest) -> None:
        """See `Side`."""
        self.stage.deliver("", request, BROKER, partial(self._answers.__setitem__, who))
        self.stage.wait(AFTER_MS)

    def taken(self, who: str, expected: Response | None = None) -> Response | None:
        """See `Side`."""
        answer = self._answers.pop(who, None)
        return comparable(answer) if answer is not None else None

    def ends(self, tps: Iterable[Partition]) -> dict[Partition, int]:
        """High watermarks."""
        replicas = self.stage.nodes[BROKER].node.replicas
        return {tp: replicas[tp].high_watermark for tp in tps}

    def starts(self, tps: Iterable[Partition]) -> dict[Partition, int]:
        """Log start offsets."""
        replicas = self.stage.nodes[BROKER].node.replicas
        return {tp: replicas[tp].log.start for tp in tps}


def settings_of(era: Era, bugs: frozenset[str] = frozenset()) -> Settings:
    """Settings of the model that are those of the real broker."""
    return lone(era=era, bugs=bugs)


class RealSide:
    """A broker; the dialect is that of the client. connect(): opens a connection: on each a broker answers
    one request after the other, so each member has its own."""

    def __init__(self, connect: Callable[[], BrokerConnection], dialect: Dialect) -> None:
        self._connect, self._dialect = connect, dialect
        self._connection = connect()
        self._members: dict[str, BrokerConnection] = {}
        self._waiting: dict[str, tuple[AnyRequest, type[ResponsePayload]]] = {}
        self.names = IdPairs()

    def ask(self, request: Request[R], expected: Response | None = None) -> R:
        """See `Side`. Raises: AdminError."""
        kind, values = encode(request, self._dialect, self.names)
        self._connection.send(kind, values)
        answer: Message = self._connection.receive(kind)
        if isinstance(expected, ProducerIdResponse) and int(answer.error_code) == 0:
            producer_id = int(getattr(answer, "producer_id", -1))
            if producer_id >= 0 and expected.producer_id >= 0:
                self.names.pair(expected.producer_id, producer_id)
        if isinstance(expected, DescribeGroupResponse):
            self._pair_member(expected, [str(one.member_id) for one in answer.groups[0].members])
        return comparable(cast("R", decode(answer, request, self.names)))

    def _pair_member(self, expected: DescribeGroupResponse, found: Iterable[str]) -> None:
        """A member that waits for its id can be seen already."""
        modelled = [name for name in expected.members if name not in self.names.real]
        real = [name for name in found if name not in self.names.modelled]
        if len(modelled) == len(real) == 1:
            self.names.pair(modelled[0], real[0])

    def send(self, who: str, request: AnyRequest) -> None:
        """See `Side`. Raises: AdminError."""
        if who not in self._members:
            self._members[who] = self._connect()
        kind, values = encode(request, self._dialect, self.names)
        self._members[who].send(kind, values)
        self._waiting[who] = request, kind

    def taken(self, who: str, expected: Response | None = None) -> Response | None:
        """See `Side`. Raises: AdminError."""
        connection = self._members[who]
        if not (connection.answered(0.0) or (expected is not None and self._late(connection))):
            return None
        request, kind = self._waiting.pop(who)
        answer: Message = connection.receive(kind)
        if isinstance(expected, JoinGroupResponse) and expected.error is KafkaError.NONE:
            self.names.pair(expected.member, str(answer.member_id))
        return comparable(decode(answer, request, self.names))

    def _late(self, connection: BrokerConnection) -> bool:
        """Whether an answer comes while the broker answers other requests."""
        kind, values = encode(FindCoordinator("", group=True), self._dialect, self.names)
        for _ in range(LATE_ROUNDS):
            if connection.answered(LATE_S):
                return True
            self._connection.call(kind, **values)
        return connection.answered(0.0)


def comparable(answer: T) -> T:
    """See the module."""
    if isinstance(answer, ErrorResponse) and answer.error is not KafkaError.NONE:
        return msgspec.structs.replace(answer, **_bare(type(answer)))
    changed: dict[str, object] = {}
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if isinstance(value, Mapping):
            changed[name] = {key: _one(one) for key, one in value.items()}
        elif isinstance(value, list | tuple):
            changed[name] = tuple(sorted(value))
    if isinstance(answer, DescribeGroupResponse) and answer.state != STABLE:
        # Only Kafka from 4.0 on shows what its members had.
        changed["members"] = dict.fromkeys(answer.members, DescribedMember())
    return msgspec.structs.replace(answer, **changed) if changed else answer


@cache
def _bare(kind: type[ErrorResponse]) -> dict[str, object]:
    """What an answer has beside its error, where it has nothing else."""
    return {f.name: f.default for f in msgspec.structs.fields(kind) if f.name != "error"}


def _one(value: Any) -> Any:
    """What is said of one partition or one transactional id."""
    match value:
        case FetchedPartition():
            return _fetched(value)
        case DescribedTransaction() if value.error is not KafkaError.NONE:
            return (value.error,)
        case DescribedTransaction():
            return value._replace(partitions=tuple(sorted(map(_place, value.partitions))))
        case (KafkaError() as error, _) if error is not KafkaError.NONE:
            return (error,)
        case DescribedMember():
            return value._replace(assigned=tuple(sorted(value.assigned)))
        case list() | tuple() if value and isinstance(value[0], ProducerState):
            return tuple(sorted(value))
        case list():
            return tuple(value)
    return value


def _fetched(part: FetchedPartition) -> object:
    if part.error is not KafkaError.NONE:
        return (part.error,)
    return msgspec.structs.replace(
        part,
        batches=tuple(_batch(batch) for batch in part.batches),
        aborted=tuple(sorted(a._replace(last=-1, last_stable=-1) for a in part.aborted)),
    )


def _batch(batch: RecordBatch) -> RecordBatch:
    return msgspec.structs.replace(
        batch,
        epoch=0,
        records=tuple(batch.records),
        transactional=batch.transactional or bool(batch.control),
        appended_ms=0,
        transaction_version=0,
    )


def _place(tp: Partition) -> Partition:
    """Brokers may put a group into different partitions of the offsets topic."""
    return tp if tp[0] != GROUP_TOPIC else (GROUP_TOPIC, 0)
