"""The model's requests as Kafka's own, and Kafka's responses as the model's.

One translation for each kind of request. Versions of requests say which transaction version the sender
speaks: with 2 leaders add partitions to transactions themselves, and EndTxn brings the next epoch (KIP-890).
Producer ids are renamed (`Names`): brokers hand out whatever they have.
"""

import datetime
import io
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple, cast

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload, ResponsePayload

from core.errors import ClusterError
from harness.contract import described_transactions
from harness.contract.payloads import payloads
from harness.evidence.segments import CONTROL, TRANSACTIONAL, gather, walk_lengths
from model.errors import KafkaError
from model.log.unified_log import ABORT, COMMIT, AbortedTxn, RecordBatch
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    DescribedTransaction,
    DescribeProducers,
    DescribeProducersResponse,
    DescribeTransactions,
    DescribeTransactionsResponse,
    EndTxn,
    FindCoordinator,
    FindCoordinatorResponse,
    InitProducerId,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    ProducerIdResponse,
    ProducerState,
    TxnOffsetCommit,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)
from model.protocol.messages import (
    Fetch,
    FetchedPartition,
    FetchResponse,
    ListOffsets,
    ListOffsetsResponse,
    Partition,
    Produce,
    ProduceResponse,
)
from model.protocol.requests import AnyRequest, ErrorResponse, Response

WAIT_MS: Final = 20_000
BYTES: Final = 10_000_000
MADE_UP: Final = 900_000_000
"""Producer ids from here on were given out by no broker."""
LATEST: Final = -1
EARLIEST: Final = -2
NOT_ATTEMPTED: Final = 55
"""OPERATION_NOT_ATTEMPTED: another partition of the request is why it was refused."""
MARKER_TYPE: Final = struct.Struct(">h")
MARKER_TYPE_AT: Final = 68
"""After the batch's header (61), five varints of one byte and the version of the key."""
MARKER_EPOCH: Final = struct.Struct(">i")
MARKER_EPOCH_AT: Final = 73
"""After the key, the length of the value and its version."""
MARKERS: Final = (ABORT, COMMIT)

VERSIONS: Final[Mapping[str, tuple[int, int]]] = {
    "produce": (10, 12),
    "fetch": (11, 11),
    "list_offsets": (5, 5),
    "init_producer_id": (4, 5),
    "add_partitions_to_txn": (3, 3),
    "add_offsets_to_txn": (3, 4),
    "end_txn": (3, 5),
    "txn_offset_commit": (3, 5),
    "offset_commit": (8, 8),
    "offset_fetch": (9, 9),
    "describe_producers": (0, 0),
    "describe_transactions": (0, 0),
    "find_coordinator": (3, 3),
}
"""Versions by which a client speaks transaction version 1 (those of librdkafka, which knows no
TRANSACTION_ABORTABLE) and 2."""
VERIFY_VERSION: Final = 4
"""Of AddPartitionsToTxn between brokers."""


@dataclass(slots=True)
class Names:
    """Producer ids of the model and of the real broker, one for one. Ids that no broker gave out are the same
    on both sides."""

    real: dict[int, int] = field(default_factory=dict)
    modelled: dict[int, int] = field(default_factory=dict)

    def pair(self, modelled: int, real: int) -> None:
        """Both brokers gave out an id in answer to one request."""
        if modelled >= 0 and real >= 0 and modelled not in self.real and real not in self.modelled:
            self.real[modelled], self.modelled[real] = real, modelled

    def to_real(self, producer_id: int) -> int:
        """An id of the model at the real broker."""
        return self.real.get(producer_id, producer_id)

    def to_model(self, producer_id: int) -> int:
        """An id of the real broker in the model; negative where the model has none for it."""
        if producer_id < 0 or producer_id >= MADE_UP:
            return producer_id
        return self.modelled.get(producer_id, -2 - producer_id)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a client speaks. transaction_version: 1 or 2. marker_version: of WriteTxnMarkers, 2 tells the
    transaction version (KIP-1228, 4.2)."""

    transaction_version: int
    marker_version: int

    def schema(self, api: str, part: str) -> Any:
        """Kafka's schema: part `request` or `response` of an API in this dialect's version."""
        if api == "write_txn_markers":
            return _schema(api, self.marker_version, part)
        return _schema(api, VERSIONS[api][self.transaction_version - 1], part)


@cache
def _schema(api: str, version: int, part: str) -> ModuleType:
    return import_module(f"kio.schema.{api}.v{version}.{part}")


class Translation(NamedTuple):
    """Of one kind of request. response: the class, or its name beside the request's. encode(request, dialect,
    names); decode(answer, request, names)."""

    response: str | type[ResponsePayload]
    encode: Callable[[Any, Dialect, Names], RequestPayload]
    decode: Callable[[Any, Any, Names], Response]


def encode(
    request: AnyRequest, dialect: Dialect, names: Names, one: Translation | None = None
) -> tuple[RequestPayload, type[Any]]:
    """Kafka's request, and the class of its response. one: the translation, where it is not one of these."""
    one = one or TRANSLATIONS[type(request)]
    made = one.encode(request, dialect, names)
    if isinstance(one.response, type):
        return made, one.response
    module = type(made).__module__.rpartition(".")[0]
    return made, getattr(import_module(f"{module}.response"), one.response)


def decode(answer: Any, request: AnyRequest, names: Names) -> Response:
    """The model's response."""
    return TRANSLATIONS[type(request)].decode(answer, request, names)


def error_of(code: int) -> KafkaError:
    """The model's error; one that the model does not know stays a number, and equals none of the model's."""
    try:
        return KafkaError(code)
    except ValueError:
        return cast("KafkaError", code)


def milliseconds(number: int) -> i32Timedelta:
    """A duration as the protocol has it."""
    return i32Timedelta.parse(datetime.timedelta(milliseconds=number))


def by_topic(tps: Iterable[Partition]) -> dict[str, list[int]]:
    """Numbers by topic, each as often as it is named."""
    found: dict[str, list[int]] = {}
    for topic, number in tps:
        found.setdefault(topic, []).append(number)
    return found


def _partitions(answer: Any, topics: str, partitions: str, number: str) -> dict[Partition, Any]:
    """What an answer says of each partition."""
    return {
        (str(topic[0]), int(getattr(one, number))): one
        for topic in ((getattr(t, "name", None) or t.topic, t) for t in getattr(answer, topics))
        for one in getattr(topic[1], partitions)
    }


def _first_error(codes: Iterable[int]) -> KafkaError:
    """The error of a request that Kafka answers by partition and the model as a whole."""
    found = [int(code) for code in codes]
    return error_of(next((code for code in found if code not in (0, NOT_ATTEMPTED)), 0))


# ---- data


def _produce(request: Produce, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("produce", "request")
    topics = []
    for topic, numbers in by_topic(request.batches).items():
        data = tuple(
            kafka.PartitionProduceData(
                index=i32(number), records=Records(encoded(request.batches[topic, number], names))
            )
            for number in numbers
        )
        topics.append(kafka.TopicProduceData(name=topic, partition_data=data))
    made: RequestPayload = kafka.ProduceRequest(
        transactional_id=request.transactional_id,
        acks=i16(request.acks),
        timeout=milliseconds(WAIT_MS),
        topic_data=tuple(topics),
    )
    return made


def encoded(batch: RecordBatch, names: Names) -> bytes:
    """A batch of records as a producer sends it."""
    stamp = TZAwareMicros.parse(datetime.datetime.now(datetime.UTC))
    records = tuple(
        Record(
            attributes=i8(0), timestamp=stamp, offset=i64(n), key=None, value=str(value).encode(), headers=()
        )
        for n, value in enumerate(batch.records)
    )
    buffer = io.BytesIO()
    header = NewRecordBatch(
        partition_leader_epoch=i32(-1),
        attributes=i16(TRANSACTIONAL if batch.transactional else 0),
        producer_id=i64(names.to_real(batch.producer_id)),
        producer_epoch=i16(batch.producer_epoch),
        base_sequence=i32(batch.sequence),
        records=records,
    )
    write_new_batch(buffer, header)
    return buffer.getvalue()


def _produced(answer: Any, request: Produce, names: Names) -> Response:
    found = _partitions(answer, "responses", "partition_responses", "index")
    return ProduceResponse(
        {tp: (error_of(one.error_code), int(one.base_offset)) for tp, one in found.items()}
    )


def _fetch(request: Fetch, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("fetch", "request")
    topics = tuple(
        kafka.FetchTopic(
            topic=topic,
            partitions=tuple(
                kafka.FetchPartition(
                    partition=i32(number),
                    current_leader_epoch=i32(request.parts[topic, number].leader_epoch),
                    fetch_offset=i64(request.parts[topic, number].offset),
                    partition_max_bytes=i32(BYTES),
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(request.parts).items()
    )
    made: RequestPayload = kafka.FetchRequest(
        max_wait=milliseconds(0),
        min_bytes=i32(0),
        isolation_level=i8(int(request.committed)),
        topics=topics,
        forgotten_topics_data=(),
        max_bytes=i32(BYTES),
    )
    return made


def _fetched(answer: Any, request: Fetch, names: Names) -> Response:
    parts = {}
    for tp, one in _partitions(answer, "responses", "partitions", "partition_index").items():
        parts[tp] = FetchedPartition(
            error_of(one.error_code),
            tuple(batches(bytes(one.records or b""), names, tp[0])),
            int(one.high_watermark),
            int(one.last_stable_offset),
            int(one.log_start_offset),
            tuple(
                AbortedTxn(names.to_model(int(a.producer_id)), int(a.first_offset), -1)
                for a in one.aborted_transactions or ()
            ),
        )
    return FetchResponse(parts)


def batches(data: bytes, names: Names, topic: str = "") -> list[RecordBatch]:
    """Batches of a topic as a fetch brings them."""
    positions, end = walk_lengths(data)
    if end != len(data):
        raise ClusterError(f"a fetch brought {len(data)} bytes, and only {end} of them are whole batches")
    found = []
    for at, header in zip(positions.tolist(), gather(data, positions), strict=True):
        control, epoch = "", -1
        if int(header["attributes"]) & CONTROL:
            control = MARKERS[MARKER_TYPE.unpack_from(data, at + MARKER_TYPE_AT)[0]]
            (epoch,) = MARKER_EPOCH.unpack_from(data, at + MARKER_EPOCH_AT)
        found.append(
            RecordBatch(
                int(header["base"]),
                int(header["leader_epoch"]),
                () if control else payloads(topic, data, at, header),
                names.to_model(int(header["producer_id"])),
                int(header["producer_epoch"]),
                int(header["base_sequence"]),
                bool(int(header["attributes"]) & TRANSACTIONAL),
                control,
                epoch,
            )
        )
    return found


def _list_offsets(request: ListOffsets, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("list_offsets", "request")
    stamp = i64(EARLIEST if request.earliest else LATEST)
    topics = tuple(
        kafka.ListOffsetsTopic(
            name=topic,
            partitions=tuple(
                kafka.ListOffsetsPartition(partition_index=i32(number), timestamp=stamp) for number in numbers
            ),
        )
        for topic, numbers in by_topic(request.parts).items()
    )
    made: RequestPayload = kafka.ListOffsetsRequest(
        replica_id=i32(-1), isolation_level=i8(int(request.committed)), topics=topics
    )
    return made


def _listed_offsets(answer: Any, request: ListOffsets, names: Names) -> Response:
    found = _partitions(answer, "topics", "partitions", "partition_index")
    return ListOffsetsResponse({tp: (error_of(one.error_code), int(one.offset)) for tp, one in found.items()})


# ---- transactions


def _init_producer_id(request: InitProducerId, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("init_producer_id", "request")
    made: RequestPayload = kafka.InitProducerIdRequest(
        transactional_id=request.transactional_id,
        transaction_timeout=milliseconds(request.timeout_ms),
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
    )
    return made


def _producer_id(answer: Any, request: AnyRequest, names: Names) -> Response:
    producer_id = getattr(answer, "producer_id", -1)  # of EndTxn only from version 5 on
    epoch = getattr(answer, "producer_epoch", -1)
    return ProducerIdResponse(error_of(answer.error_code), names.to_model(int(producer_id)), int(epoch))


def _add_partitions(request: AddPartitionsToTxn, dialect: Dialect, names: Names) -> RequestPayload:
    producer_id, epoch = i64(names.to_real(request.producer_id)), i16(request.producer_epoch)
    version = VERIFY_VERSION if request.verify else VERSIONS["add_partitions_to_txn"][0]
    kafka: Any = _schema("add_partitions_to_txn", version, "request")
    topics = tuple(
        kafka.AddPartitionsToTxnTopic(name=topic, partitions=tuple(map(i32, numbers)))
        for topic, numbers in by_topic(request.partitions).items()
    )
    made: RequestPayload
    if request.verify:
        one = kafka.AddPartitionsToTxnTransaction(
            transactional_id=request.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=True,
            topics=topics,
        )
        made = kafka.AddPartitionsToTxnRequest(transactions=(one,))
    else:
        made = kafka.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=request.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
    return made


def _added_partitions(answer: Any, request: AddPartitionsToTxn, names: Names) -> Response:
    if not request.verify:
        topics = answer.results_by_topic_v3_and_below
        return AddPartitionsToTxnResponse(
            _first_error(one.partition_error_code for topic in topics for one in topic.results_by_partition)
        )
    if answer.error_code:
        return AddPartitionsToTxnResponse(error_of(answer.error_code))
    (result,) = answer.results_by_transaction
    found = _partitions(result, "topic_results", "results_by_partition", "partition_index")
    parts = {tp: error_of(one.partition_error_code) for tp, one in found.items()}
    refused = set(parts.values()) - {KafkaError.NONE, KafkaError.TRANSACTION_ABORTABLE}
    if refused:  # of the transactional id, so each partition has it
        return AddPartitionsToTxnResponse(refused.pop())
    return AddPartitionsToTxnResponse(KafkaError.NONE, parts)


def _add_offsets(request: AddOffsetsToTxn, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("add_offsets_to_txn", "request")
    made: RequestPayload = kafka.AddOffsetsToTxnRequest(
        transactional_id=request.transactional_id,
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
        group_id=request.group,
    )
    return made


def _end_txn(request: EndTxn, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("end_txn", "request")
    made: RequestPayload = kafka.EndTxnRequest(
        transactional_id=request.transactional_id,
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
        committed=request.commit,
    )
    return made


def _error(answer: Any, request: AnyRequest, names: Names) -> Response:
    return ErrorResponse(error_of(answer.error_code))


def _markers(request: WriteTxnMarkers, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("write_txn_markers", "request")
    made = []
    for marker in request.markers:
        version = (
            {"transaction_version": i8(marker.transaction_version)} if dialect.marker_version >= 2 else {}
        )
        topics = tuple(
            kafka.WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(map(i32, numbers)))
            for topic, numbers in by_topic(marker.partitions).items()
        )
        made.append(
            kafka.WritableTxnMarker(
                producer_id=i64(names.to_real(marker.producer_id)),
                producer_epoch=i16(marker.producer_epoch),
                transaction_result=marker.commit,
                topics=topics,
                coordinator_epoch=i32(marker.coordinator_epoch),
                **version,
            )
        )
    request_made: RequestPayload = kafka.WriteTxnMarkersRequest(markers=tuple(made))
    return request_made


def _marked(answer: Any, request: WriteTxnMarkers, names: Names) -> Response:
    results = {}
    for marker in answer.markers:
        for tp, one in _partitions(marker, "topics", "partitions", "partition_index").items():
            results[names.to_model(int(marker.producer_id)), tp] = error_of(one.error_code)
    return WriteTxnMarkersResponse(results)


def _describe_producers(request: DescribeProducers, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("describe_producers", "request")
    topics = tuple(
        kafka.TopicRequest(name=topic, partition_indexes=tuple(map(i32, numbers)))
        for topic, numbers in by_topic(request.partitions).items()
    )
    made: RequestPayload = kafka.DescribeProducersRequest(topics=topics)
    return made


def _described_producers(answer: Any, request: DescribeProducers, names: Names) -> Response:
    parts: dict[Partition, Sequence[ProducerState]] = {}
    for tp, one in _partitions(answer, "topics", "partitions", "partition_index").items():
        parts[tp] = sorted(
            ProducerState(
                names.to_model(int(its.producer_id)),
                int(its.producer_epoch),
                int(its.last_sequence),
                int(its.coordinator_epoch),
                int(its.current_txn_start_offset),
            )
            for its in one.active_producers
        )
    return DescribeProducersResponse(parts)


def _describe_transactions(request: DescribeTransactions, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("describe_transactions", "request")
    made: RequestPayload = kafka.DescribeTransactionsRequest(
        transactional_ids=tuple(request.transactional_ids)
    )
    return made


def _described_transactions(answer: Any, request: DescribeTransactions, names: Names) -> Response:
    found = {}
    for one in answer.transaction_states:
        tps = ((str(topic.topic), int(number)) for topic in one.topics for number in topic.partitions)
        found[str(one.transactional_id)] = DescribedTransaction(
            error_of(one.error_code),
            one.transaction_state,
            names.to_model(int(one.producer_id)),
            int(one.producer_epoch),
            round(one.transaction_timeout.total_seconds() * 1000),
            tuple(sorted(tps)),
        )
    return DescribeTransactionsResponse(found)


# ---- groups


def _committed(
    request: TxnOffsetCommit | OffsetCommit,
    topic_of: Callable[..., object],
    partition_of: Callable[..., object],
) -> tuple[object, ...]:
    """The offsets to commit, by topic. topic_of, partition_of: classes of the request's schema."""
    return tuple(
        topic_of(
            name=topic,
            partitions=tuple(
                partition_of(
                    partition_index=i32(number),
                    committed_offset=i64(request.offsets[topic, number]),
                    committed_leader_epoch=i32(request.epochs.get((topic, number), -1)),
                    committed_metadata="",
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(request.offsets).items()
    )


def _txn_offset_commit(request: TxnOffsetCommit, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("txn_offset_commit", "request")
    topics = _committed(request, kafka.TxnOffsetCommitRequestTopic, kafka.TxnOffsetCommitRequestPartition)
    made: RequestPayload = kafka.TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group,
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
        generation_id=i32(request.generation),
        member_id=request.member,
        topics=topics,
    )
    return made


def _offset_commit(request: OffsetCommit, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("offset_commit", "request")
    topics = _committed(request, kafka.OffsetCommitRequestTopic, kafka.OffsetCommitRequestPartition)
    made: RequestPayload = kafka.OffsetCommitRequest(
        group_id=request.group,
        generation_id_or_member_epoch=i32(request.generation),
        member_id=request.member,
        group_instance_id=None,
        topics=topics,
    )
    return made


def _offsets_committed(answer: Any, request: AnyRequest, names: Names) -> Response:
    return ErrorResponse(_first_error(one.error_code for topic in answer.topics for one in topic.partitions))


def _offset_fetch(request: OffsetFetch, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("offset_fetch", "request")
    topics = tuple(
        kafka.OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(map(i32, numbers)))
        for topic, numbers in by_topic(request.partitions).items()
    )
    group = kafka.OffsetFetchRequestGroup(group_id=request.group, topics=topics)
    made: RequestPayload = kafka.OffsetFetchRequest(groups=(group,), require_stable=request.stable)
    return made


def _offsets_fetched(answer: Any, request: OffsetFetch, names: Names) -> Response:
    (group,) = answer.groups
    found = _partitions(group, "topics", "partitions", "partition_index")
    error = _first_error((group.error_code, *(one.error_code for one in found.values())))
    epochs = {tp: int(one.committed_leader_epoch) for tp, one in found.items()}
    return OffsetFetchResponse(
        error,
        {tp: int(one.committed_offset) for tp, one in found.items()},
        {tp: epoch for tp, epoch in epochs.items() if epoch >= 0},
    )


def _find_coordinator(request: FindCoordinator, dialect: Dialect, names: Names) -> RequestPayload:
    kafka = dialect.schema("find_coordinator", "request")
    made: RequestPayload = kafka.FindCoordinatorRequest(key=request.key, key_type=i8(not request.group))
    return made


def _coordinator(answer: Any, request: FindCoordinator, names: Names) -> Response:
    return FindCoordinatorResponse(error_of(answer.error_code), int(answer.node_id))


TRANSLATIONS: Final[Mapping[type[AnyRequest], Translation]] = {
    Produce: Translation("ProduceResponse", _produce, _produced),
    Fetch: Translation("FetchResponse", _fetch, _fetched),
    ListOffsets: Translation("ListOffsetsResponse", _list_offsets, _listed_offsets),
    InitProducerId: Translation("InitProducerIdResponse", _init_producer_id, _producer_id),
    AddPartitionsToTxn: Translation("AddPartitionsToTxnResponse", _add_partitions, _added_partitions),
    AddOffsetsToTxn: Translation("AddOffsetsToTxnResponse", _add_offsets, _error),
    EndTxn: Translation("EndTxnResponse", _end_txn, _producer_id),
    TxnOffsetCommit: Translation("TxnOffsetCommitResponse", _txn_offset_commit, _offsets_committed),
    WriteTxnMarkers: Translation("WriteTxnMarkersResponse", _markers, _marked),
    DescribeProducers: Translation("DescribeProducersResponse", _describe_producers, _described_producers),
    DescribeTransactions: Translation(
        described_transactions.DescribeTransactionsResponse, _describe_transactions, _described_transactions
    ),
    OffsetCommit: Translation("OffsetCommitResponse", _offset_commit, _offsets_committed),
    OffsetFetch: Translation("OffsetFetchResponse", _offset_fetch, _offsets_fetched),
    FindCoordinator: Translation("FindCoordinatorResponse", _find_coordinator, _coordinator),
}
"""By kind of request."""
