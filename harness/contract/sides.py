"""The two brokers that get the same requests: a real one, and the model's.

Both are asked in the words of the model. Answers are made comparable (`comparable`): what the model leaves
out is left out, and where a request or a partition is refused nothing but the error counts.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from harness.contract.wire import Dialect, Names, decode, encode
from harness.kafka.admin.connection import BrokerConnection
from model.eras import Era
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import (
    DescribedTransaction,
    InitProducerId,
    ProducerIdResponse,
    ProducerState,
)
from model.protocol.messages import FetchedPartition, Partition
from model.protocol.requests import ErrorResponse, R, Request, Response
from model.replication.node import GROUP_TOPIC
from model.scenarios.drivers.cluster import ClusterStage, lone
from model.settings import Settings

BROKER: Final = 1
AFTER_MS: Final = 100
"""Time of the model that follows each answer: what its broker does on its own is done by then."""

T = TypeVar("T", bound=Response)


class Side(Protocol):
    """One of the two."""

    def ask(self, request: Request[R], expected: Response | None = None) -> R:
        """The answer, comparable. expected: what the other side answered."""


class ModelSide:
    """A modelled cluster of one broker."""

    def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
        self.stage = ClusterStage(settings)
        self.stage.create(topic, ((BROKER,),) * partitions)
        self.stage.until(lambda: not self.stage.ask(InitProducerId(None, 0), to=BROKER).error)

    def ask(self, request: Request[R], expected: Response | None = None) -> R:
        """See `Side`."""
        answer = self.stage.ask(request, to=BROKER)
        assert isinstance(answer, Response), f"the model does not answer {request}"
        self.stage.wait(AFTER_MS)
        return comparable(cast("R", answer))

    def ends(self, tps: Iterable[Partition]) -> dict[Partition, int]:
        """High watermarks."""
        replicas = self.stage.nodes[BROKER].node.replicas
        return {tp: replicas[tp].high_watermark for tp in tps}


def settings_of(era: Era, bugs: frozenset[str] = frozenset()) -> Settings:
    """Settings of the model that are those of the real broker."""
    return lone(era=era, bugs=bugs)


class RealSide:
    """A broker, over a connection; the dialect is that of the client."""

    def __init__(self, connection: BrokerConnection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self.names = Names()

    def ask(self, request: Request[R], expected: Response | None = None) -> R:
        """See `Side`. Raises: AdminError."""
        asked, kind = encode(request, self._dialect, self.names)
        answer = self._connection.call(asked, kind)
        if isinstance(expected, ProducerIdResponse) and int(answer.error_code) == 0:
            self.names.pair(expected.producer_id, int(getattr(answer, "producer_id", -1)))
        return comparable(cast("R", decode(answer, request, self.names)))


def comparable(answer: T) -> T:
    """See the module."""
    if isinstance(answer, ErrorResponse) and answer.error is not KafkaError.NONE:
        return msgspec.structs.replace(answer, **_bare(type(answer)))
    changed = {}
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if isinstance(value, Mapping):
            changed[name] = {key: _one(one) for key, one in value.items()}
    return msgspec.structs.replace(answer, **changed) if changed else answer


@cache
def _bare(kind: type[ErrorResponse]) -> dict[str, Any]:
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
        case list() | tuple() if value and isinstance(value[0], ProducerState):
            return tuple(sorted(value))
        case list():
            return tuple(value)
    return value


def _fetched(part: FetchedPartition) -> object:
    if part.error is not KafkaError.NONE:
        return (part.error,)
    return part._replace(
        batches=tuple(_batch(batch) for batch in part.batches),
        aborted=tuple(sorted(a._replace(last=-1) for a in part.aborted)),
    )


def _batch(batch: RecordBatch) -> RecordBatch:
    return batch._replace(
        epoch=0,
        records=(None,) * len(batch.records),
        transactional=batch.transactional or bool(batch.control),
        appended_ms=0,
        transaction_version=0,
    )


def _place(tp: Partition) -> Partition:
    """Brokers may put a group into different partitions of the offsets topic."""
    return tp if tp[0] != GROUP_TOPIC else (GROUP_TOPIC, 0)
