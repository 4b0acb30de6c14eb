"""Requests to coordinators of transactions, as Kafka has them."""

from collections.abc import Mapping
from typing import Any, Final

from kio.static.primitive import i8, i16, i32, i64
from kio.static.protocol import RequestPayload

from harness.contract import described_transactions
from harness.contract.dialect import (
    VERSIONS,
    Dialect,
    IdPairs,
    Translation,
    by_topic,
    error_alone,
    error_of,
    first_error,
    milliseconds,
    partitions_of,
    schema_of,
)
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResponse,
    EndTxn,
    InitProducerId,
    ProducerIdResponse,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)
from model.protocol.requests import AnyRequest, Response

VERIFY_VERSION: Final = 4
"""Of AddPartitionsToTxn between brokers."""


def _init_producer_id(request: InitProducerId, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("init_producer_id", "request")
    made: RequestPayload = kafka.InitProducerIdRequest(
        transactional_id=request.transactional_id,
        transaction_timeout=milliseconds(request.timeout_ms),
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
    )
    return made


def _producer_id(answer: Any, request: AnyRequest, names: IdPairs) -> Response:
    producer_id = getattr(answer, "producer_id", -1)  # of EndTxn only from version 5 on
    epoch = getattr(answer, "producer_epoch", -1)
    return ProducerIdResponse(error_of(answer.error_code), names.to_model(int(producer_id)), int(epoch))


def _add_partitions(request: AddPartitionsToTxn, dialect: Dialect, names: IdPairs) -> RequestPayload:
    producer_id, epoch = i64(names.to_real(request.producer_id)), i16(request.producer_epoch)
    version = VERIFY_VERSION if request.verify else VERSIONS["add_partitions_to_txn"][0]
    kafka: Any = schema_of("add_partitions_to_txn", version, "request")
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


def _added_partitions(answer: Any, request: AddPartitionsToTxn, names: IdPairs) -> Response:
    if not request.verify:
        topics = answer.results_by_topic_v3_and_below
        return AddPartitionsToTxnResponse(
            first_error(one.partition_error_code for topic in topics for one in topic.results_by_partition)
        )
    if answer.error_code:
        return AddPartitionsToTxnResponse(error_of(answer.error_code))
    (result,) = answer.results_by_transaction
    found = partitions_of(result, "topic_results", "results_by_partition", "partition_index")
    parts = {tp: error_of(one.partition_error_code) for tp, one in found.items()}
    refused = set(parts.values()) - {KafkaError.NONE, KafkaError.TRANSACTION_ABORTABLE}
    if refused:  # of the transactional id, so each partition has it
        return AddPartitionsToTxnResponse(refused.pop())
    return AddPartitionsToTxnResponse(KafkaError.NONE, parts)


def _add_offsets(request: AddOffsetsToTxn, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("add_offsets_to_txn", "request")
    made: RequestPayload = kafka.AddOffsetsToTxnRequest(
        transactional_id=request.transactional_id,
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
        group_id=request.group,
    )
    return made


def _end_txn(request: EndTxn, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("end_txn", "request")
    made: RequestPayload = kafka.EndTxnRequest(
        transactional_id=request.transactional_id,
        producer_id=i64(names.to_real(request.producer_id)),
        producer_epoch=i16(request.producer_epoch),
        committed=request.commit,
    )
    return made


def _markers(request: WriteTxnMarkers, dialect: Dialect, names: IdPairs) -> RequestPayload:
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


def _marked(answer: Any, request: WriteTxnMarkers, names: IdPairs) -> Response:
    results = {}
    for marker in answer.markers:
        for tp, one in partitions_of(marker, "topics", "partitions", "partition_index").items():
            results[names.to_model(int(marker.producer_id)), tp] = error_of(one.error_code)
    return WriteTxnMarkersResponse(results)


def _describe_transactions(request: DescribeTransactions, dialect: Dialect, names: IdPairs) -> RequestPayload:
    kafka = dialect.schema("describe_transactions", "request")
    made: RequestPayload = kafka.DescribeTransactionsRequest(
        transactional_ids=tuple(request.transactional_ids)
    )
    return made


def _described_transactions(answer: Any, request: DescribeTransactions, names: IdPairs) -> Response:
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


OF_TRANSACTIONS: Final[Mapping[type[AnyRequest], Translation]] = {
    InitProducerId: Translation("InitProducerIdResponse", _init_producer_id, _producer_id),
    AddPartitionsToTxn: Translation("AddPartitionsToTxnResponse", _add_partitions, _added_partitions),
    AddOffsetsToTxn: Translation("AddOffsetsToTxnResponse", _add_offsets, error_alone),
    EndTxn: Translation("EndTxnResponse", _end_txn, _producer_id),
    WriteTxnMarkers: Translation("WriteTxnMarkersResponse", _markers, _marked),
    DescribeTransactions: Translation(
        described_transactions.DescribedTransactions, _describe_transactions, _described_transactions
    ),
}
"""By kind of request."""
