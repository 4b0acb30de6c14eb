"""What leaders of partitions serve: Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch,
DescribeProducers."""

from collections.abc import Mapping
from typing import Final

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from harness.modelled.real.encoded.records import CorruptBatch, batch_of, fetched
from harness.modelled.real.serving.api_call import Api, Call
from harness.protocol.encoding import Values, milliseconds
from harness.protocol.topics import in_topics, numbers_of_topics, of_topics
from model.eras import Era
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import DescribeProducers, DescribeProducersResponse
from model.protocol.messages import (
    DeleteRecords,
    DeleteRecordsResponse,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    ListOffsets,
    ListOffsetsResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    Partition,
    Produce,
    ProduceResponse,
)

CORRUPT_MESSAGE: Final = 2
UNSUPPORTED_FOR_FORMAT: Final = 43
"""Errors of Kafka that the model does not have."""
INTERNAL: Final = (TRANSACTION_TOPIC, GROUP_TOPIC)
"""Topics that only coordinators write."""
MOST: Final = 10_000
"""Records that a fetch brings, beyond the first batch."""
LATEST: Final = -1
EARLIEST: Final = -2


def _produce(call: Call) -> None:
    request = call.request
    batches: dict[Partition, RecordBatch] = {}
    refused: dict[Partition, tuple[int, int]] = {}
    for tp, one in of_topics(request.topic_data, "partition_data", "index"):
        if tp[0] in INTERNAL:
            refused[tp] = (KafkaError.INVALID_TOPIC_EXCEPTION, -1)
            continue
        try:
            batches[tp] = batch_of(one.records or b"")
        except CorruptBatch:
            refused[tp] = (CORRUPT_MESSAGE, -1)
    acks, tid = int(request.acks), request.transactional_id
    wanted = Produce(acks, batches, None if tid is None else str(tid), milliseconds(request.timeout))
    if acks == 0:
        call.node.submit_unanswered(wanted)
        call.silent()
        return

    def produced(answer: ProduceResponse) -> None:
        results: Mapping[Partition, tuple[int, int]] = {**refused, **answer.results}
        parts = ((tp, _produced(tp, *result)) for tp, result in results.items())
        call.respond(responses=in_topics(parts, "partition_responses"))

    call.ask(wanted, produced)


def _produced(tp: Partition, error: int, base: int) -> Values:
    return {"index": tp[1], "error_code": error, "base_offset": base, "log_start_offset": -1}


def _fetch(call: Call) -> None:
    request = call.request
    parts, limits = {}, {}
    for tp, one in of_topics(request.topics, number="partition"):
        parts[tp] = FetchPartition(int(one.fetch_offset), int(getattr(one, "current_leader_epoch", -1)))
        limits[tp] = int(one.partition_max_bytes)
    wanted = Fetch(
        -1,
        parts,
        committed=bool(getattr(request, "isolation_level", 0)),
        max_wait_ms=milliseconds(request.max_wait),
        most=MOST,
    )

    def brought(answer: FetchResponse) -> None:
        node = call.node
        era, wall_ms = node.settings.era, node.given.wall_ms
        found = [(tp, _brought(tp, part, limits[tp], era, wall_ms)) for tp, part in answer.parts.items()]
        call.respond(responses=in_topics(found, name="topic"), session_id=0)

    if not parts:  # KafkaApis answers at once; a Java consumer that closes its session asks for no partition
        brought(FetchResponse({}))
        return
    call.ask(wanted, brought)


def _brought(tp: Partition, part: FetchedPartition, limit: int, era: Era, wall_ms: int) -> Values:
    """What a fetch says of one partition. limit: bytes, which only the first batch may exceed. era, wall_ms:
    see `fetched`."""
    records: list[bytes] = []
    size = 0
    for batch in part.batches:
        data = fetched(batch, era, wall_ms)
        size += len(data)
        if records and size > limit:
            break
        records.append(data)
    return {
        "partition_index": tp[1],
        "error_code": part.error,
        "high_watermark": part.high_watermark,
        "last_stable_offset": part.stable,
        "log_start_offset": part.start,
        "aborted_transactions": [
            {"producer_id": a.producer_id, "first_offset": a.first} for a in part.aborted
        ],
        "records": b"".join(records),
    }


def _list_offsets(call: Call) -> None:
    """Of the first and the last offset. Kafka's search by time is not in the model: it is refused."""
    request = call.request
    committed = bool(getattr(request, "isolation_level", 0))
    wanted: dict[bool, list[Partition]] = {True: [], False: []}
    found: list[tuple[Partition, Values]] = []
    for tp, one in of_topics(request.topics):
        error = _stale(call, tp, int(getattr(one, "current_leader_epoch", -1)))
        if not error and one.timestamp not in (EARLIEST, LATEST):
            error = UNSUPPORTED_FOR_FORMAT
        if error:
            found.append((tp, _listed(call, tp, error, -1)))
        else:
            wanted[one.timestamp == EARLIEST].append(tp)

    def listed(answers: list[ListOffsetsResponse]) -> None:
        for answer in answers:
            found.extend((tp, _listed(call, tp, *result)) for tp, result in answer.parts.items())
        call.respond(topics=in_topics(found))

    requests = [ListOffsets(tps, early, committed) for early, tps in wanted.items() if tps]
    call.ask_all(requests, listed)


def _stale(call: Call, tp: Partition, epoch: int) -> int:
    """The error of a client that speaks of another leader epoch than this broker's (KIP-320), 0 = none."""
    replica = call.node.broker.node.leader_of(tp)
    if replica is None or epoch < 0 or not call.node.settings.era.fenced_fetch:
        return 0
    mine = replica.state.leader_epoch
    if epoch < mine:
        return KafkaError.FENCED_LEADER_EPOCH
    return KafkaError.UNKNOWN_LEADER_EPOCH if epoch > mine else 0


def _listed(call: Call, tp: Partition, error: int, offset: int) -> Values:
    replica = call.node.broker.node.leader_of(tp)
    epoch = replica.state.leader_epoch if replica is not None and not error else -1
    return {
        "partition_index": tp[1],
        "error_code": error,
        "timestamp": -1,
        "offset": offset,
        "leader_epoch": epoch,
    }


def _delete_records(call: Call) -> None:
    offsets = {tp: int(one.offset) for tp, one in of_topics(call.request.topics)}

    def deleted(answer: DeleteRecordsResponse) -> None:
        found = (
            (tp, {"partition_index": tp[1], "low_watermark": low, "error_code": error})
            for tp, (error, low) in answer.parts.items()
        )
        call.respond(topics=in_topics(found))

    call.ask(DeleteRecords(offsets, milliseconds(call.request.timeout)), deleted)


def _epoch_ends(call: Call) -> None:
    parts = {
        tp: (int(one.current_leader_epoch), int(one.leader_epoch))
        for tp, one in of_topics(call.request.topics, number="partition")
    }

    def told(answer: OffsetForLeaderEpochResponse) -> None:
        found = (
            (tp, {"partition": tp[1], "error_code": error, "leader_epoch": epoch, "end_offset": end})
            for tp, (error, epoch, end) in answer.parts.items()
        )
        call.respond(topics=in_topics(found, name="topic"))

    call.ask(OffsetForLeaderEpoch(-1, parts), told)


def _producers(call: Call) -> None:
    wanted = numbers_of_topics(call.request.topics, "partition_indexes")

    def told(answer: DescribeProducersResponse) -> None:
        found = []
        for tp in wanted:
            known = answer.parts.get(tp)
            error = KafkaError.NOT_LEADER_OR_FOLLOWER if known is None else KafkaError.NONE
            its = [
                {
                    "producer_id": one.producer_id,
                    "producer_epoch": one.epoch,
                    "last_sequence": one.last_sequence,
                    "last_timestamp": -1,
                    "coordinator_epoch": one.coordinator_epoch,
                    "current_txn_start_offset": one.began,
                }
                for one in known or ()
            ]
            found.append((tp, {"partition_index": tp[1], "error_code": error, "active_producers": its}))
        call.respond(topics=in_topics(found))

    call.ask(DescribeProducers(wanted), told)


OF_LEADERS: Final[Mapping[str, Api]] = {
    "produce": Api(3, 11, _produce),
    "fetch": Api(4, 11, _fetch),
    "list_offsets": Api(1, 5, _list_offsets),
    "delete_records": Api(0, 2, _delete_records),
    "offset_for_leader_epoch": Api(2, 4, _epoch_ends),
    "describe_producers": Api(0, 0, _producers),
}
"""By name."""
