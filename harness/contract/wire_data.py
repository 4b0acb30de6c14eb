"""Requests to the leaders of partitions, and batches of records, as Kafka has them."""

import datetime
import io
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i64
from kio.static.protocol import RequestPayload

from core.errors import ClusterError
from harness.contract.dialect import (
    Dialect,
    IdPairs,
    Translation,
    by_topic,
    error_of,
    milliseconds,
    partitions_of,
)
from harness.contract.payloads import payloads
from harness.evidence.segments import CONTROL, TRANSACTIONAL, gather, walk_lengths
from model.log.unified_log import ABORT, COMMIT, AbortedTxn, RecordBatch
from model.protocol.coordinator_messages import DescribeProducers, DescribeProducersResponse, ProducerState
from model.protocol.messages import (
    DeleteRecords,
    DeleteRecordsResponse,
    Fetch,
    FetchedPartition,
    FetchResponse,
    ListOffsets,
    ListOffsetsResponse,
    Partition,
    Produce,
    ProduceResponse,
)
from model.protocol.requests import AnyRequest, Response

WAIT_MS: Final = 20_000
BYTES: Final = 10_000_000
LATEST: Final = -1
EARLIEST: Final = -2
MARKER_TYPE: Final = struct.Struct(">h")
MARKER_TYPE_AT: Final = 68
"""After the batch's header (61), five varints of one byte and the version of the key."""
MARKER_EPOCH: Final = struct.Struct(">i")
MARKER_EPOCH_AT: Final = 73
"""After the key, the length of the value and its version."""
MARKERS: Final = (ABORT, COMMIT)


def _produce(request: Produce, dialect: Dialect, names: IdPairs) -> RequestPayload:
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


def encoded(batch: RecordBatch, names: IdPairs) -> bytes:
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


def _produced(answer: Any, request: Produce, names: IdPairs) -> Response:
    found = partitions_of(answer, "responses", "partition_responses", "index")
    return ProduceResponse(
        {tp: (error_of(one.error_code), int(one.base_offset)) for tp, one in found.items()}
    )


def _fetch(request: Fetch, dialect: Dialect, names: IdPairs) -> RequestPayload:
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


def _fetched(answer: Any, request: Fetch, names: IdPairs) -> Response:
    parts = {}
    for tp, one in partitions_of(answer, "responses", "partitions", "partition_index").items():
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


def batches(data: bytes, names: IdPairs, topic: str = "") -> list[RecordBatch]:
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


def _list_offsets(request: ListOffsets, dialect: Dialect, names: IdPairs) -> RequestPayload:
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


def _listed_offsets(answer: Any, request: ListOffsets, names: IdPairs) -> Response:
    found = partitions_of(answer, "topics", "partitions", "partition_index")
    return ListOffsetsResponse({tp: (error_of(one.error_code), int(one.offset)) for tp, one in found.items()})


def _delete_records(request: DeleteRecords, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("delete_records", "request")
    topics = tuple(
        kafka.DeleteRecordsTopic(
            name=topic,
            partitions=tuple(
                kafka.DeleteRecordsPartition(
                    partition_index=i32(number), offset=i64(request.offsets[topic, number])
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(request.offsets).items()
    )
    made: RequestPayload = kafka.DeleteRecordsRequest(topics=topics, timeout=milliseconds(WAIT_MS))
    return made


def _deleted_records(answer: Any, request: DeleteRecords, names: IdPairs) -> Response:
    found = partitions_of(answer, "topics", "partitions", "partition_index")
    return DeleteRecordsResponse(
        {tp: (error_of(one.error_code), int(one.low_watermark)) for tp, one in found.items()}
    )


def _describe_producers(request: DescribeProducers, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("describe_producers", "request")
    topics = tuple(
        kafka.TopicRequest(name=topic, partition_indexes=tuple(map(i32, numbers)))
        for topic, numbers in by_topic(request.partitions).items()
    )
    made: RequestPayload = kafka.DescribeProducersRequest(topics=topics)
    return made


def _described_producers(answer: Any, request: DescribeProducers, names: IdPairs) -> Response:
    parts: dict[Partition, Sequence[ProducerState]] = {}
    for tp, one in partitions_of(answer, "topics", "partitions", "partition_index").items():
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


OF_LEADERS: Final[Mapping[type[AnyRequest], Translation]] = {
    Produce: Translation("ProduceResponse", _produce, _produced),
    Fetch: Translation("FetchResponse", _fetch, _fetched),
    ListOffsets: Translation("ListOffsetsResponse", _list_offsets, _listed_offsets),
    DeleteRecords: Translation("DeleteRecordsResponse", _delete_records, _deleted_records),
    DescribeProducers: Translation("DescribeProducersResponse", _describe_producers, _described_producers),
}
"""By kind of request."""
