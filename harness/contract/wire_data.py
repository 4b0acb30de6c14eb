"""Requests to the leaders of partitions, and batches of records, as Kafka has them."""

import struct
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from core.errors import ClusterError
from harness.contract.dialect import IdPairs, Translation, error_of
from harness.contract.payloads import payloads
from harness.evidence.segments import gather, walk_lengths
from harness.protocol.batches import CONTROL, TRANSACTIONAL, sent_batch
from harness.protocol.encoding import Values
from harness.protocol.payloads import Message
from harness.protocol.topics import in_topics, numbers_in_topics, of_topics
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
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    Partition,
    Produce,
    ProduceResponse,
)
from model.protocol.requests import AnyRequest, Response

WAIT: Final = timedelta(seconds=20)
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


def _produce(request: Produce, names: IdPairs) -> Values:
    parts = (
        (tp, {"index": tp[1], "records": encoded(batch, names)}) for tp, batch in request.batches.items()
    )
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout": max(WAIT, timedelta(milliseconds=request.timeout_ms)),
        "topic_data": in_topics(parts, "partition_data"),
    }


def encoded(batch: RecordBatch, names: IdPairs) -> bytes:
    """A batch of records as a producer sends it."""
    values = [str(value).encode() for value in batch.records]
    producer = (names.to_real(batch.producer_id), batch.producer_epoch, batch.sequence)
    return sent_batch(values, time.time_ns() // 1_000_000, producer, transactional=batch.transactional)


def _produced(answer: Message, names: IdPairs) -> Response:
    found = of_topics(answer.responses, "partition_responses", "index")
    return ProduceResponse({tp: (error_of(one.error_code), int(one.base_offset)) for tp, one in found})


def _fetch(request: Fetch, names: IdPairs) -> Values:
    parts = (
        (
            tp,
            {
                "partition": tp[1],
                "current_leader_epoch": part.leader_epoch,
                "fetch_offset": part.offset,
                "partition_max_bytes": BYTES,
            },
        )
        for tp, part in request.parts.items()
    )
    return {
        "replica_id": request.replica,
        "max_wait": timedelta(0),
        "min_bytes": 0,
        "isolation_level": int(request.committed),
        "topics": in_topics(parts, name="topic"),
        "max_bytes": BYTES,
    }


def _fetched(answer: Message, names: IdPairs) -> Response:
    parts = {}
    for tp, one in of_topics(answer.responses):
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
                () if control else payloads(topic, data, at, header, names),
                names.to_model(int(header["producer_id"])),
                int(header["producer_epoch"]),
                int(header["base_sequence"]),
                bool(int(header["attributes"]) & TRANSACTIONAL),
                control,
                epoch,
            )
        )
    return found


def _list_offsets(request: ListOffsets, names: IdPairs) -> Values:
    stamp = EARLIEST if request.earliest else LATEST
    topics = in_topics((tp, {"partition_index": tp[1], "timestamp": stamp}) for tp in request.parts)
    return {"replica_id": -1, "isolation_level": int(request.committed), "topics": topics}


def _listed_offsets(answer: Message, names: IdPairs) -> Response:
    found = of_topics(answer.topics)
    return ListOffsetsResponse({tp: (error_of(one.error_code), int(one.offset)) for tp, one in found})


def _offset_for_leader_epoch(request: OffsetForLeaderEpoch, names: IdPairs) -> Values:
    topics = in_topics(
        (
            (tp, {"partition": tp[1], "current_leader_epoch": current, "leader_epoch": asked})
            for tp, (current, asked) in request.parts.items()
        ),
        name="topic",
    )
    return {"replica_id": request.replica, "topics": topics}


def _ended_epochs(answer: Message, names: IdPairs) -> Response:
    found = of_topics(answer.topics, number="partition")
    return OffsetForLeaderEpochResponse(
        {tp: (error_of(one.error_code), int(one.leader_epoch), int(one.end_offset)) for tp, one in found}
    )


def _delete_records(request: DeleteRecords, names: IdPairs) -> Values:
    topics = in_topics(
        (tp, {"partition_index": tp[1], "offset": offset}) for tp, offset in request.offsets.items()
    )
    return {"topics": topics, "timeout": WAIT}


def _deleted_records(answer: Message, names: IdPairs) -> Response:
    found = of_topics(answer.topics)
    return DeleteRecordsResponse(
        {tp: (error_of(one.error_code), int(one.low_watermark)) for tp, one in found}
    )


def _describe_producers(request: DescribeProducers, names: IdPairs) -> Values:
    return {"topics": numbers_in_topics(request.partitions, "partition_indexes")}


def _described_producers(answer: Message, names: IdPairs) -> Response:
    parts: dict[Partition, Sequence[ProducerState]] = {}
    for tp, one in of_topics(answer.topics):
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
    Produce: Translation("produce", 10, _produce, _produced),
    Fetch: Translation("fetch", 11, _fetch, _fetched),
    ListOffsets: Translation("list_offsets", 5, _list_offsets, _listed_offsets),
    OffsetForLeaderEpoch: Translation("offset_for_leader_epoch", 3, _offset_for_leader_epoch, _ended_epochs),
    DeleteRecords: Translation("delete_records", 2, _delete_records, _deleted_records),
    DescribeProducers: Translation("describe_producers", 0, _describe_producers, _described_producers),
}
"""By kind of request."""
