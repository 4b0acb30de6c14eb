"""Requests to coordinators of transactions, as Kafka has them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from harness.contract.dialect import IdPairs, Translation, common_error, error_alone, error_of
from harness.protocol.encoding import Values, milliseconds
from harness.protocol.payloads import Message
from harness.protocol.topics import numbers_in_topics, of_topics
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


def _init_producer_id(request: InitProducerId, names: IdPairs) -> Values:
    return {
        "transactional_id": request.transactional_id,
        "transaction_timeout": timedelta(milliseconds=request.timeout_ms),
        "producer_id": names.to_real(request.producer_id),
        "producer_epoch": request.producer_epoch,
    }


def _producer_id(answer: Message, names: IdPairs) -> Response:
    producer_id = getattr(answer, "producer_id", -1)  # of EndTxn only from version 5 on
    epoch = getattr(answer, "producer_epoch", -1)
    return ProducerIdResponse(error_of(answer.error_code), names.to_model(int(producer_id)), int(epoch))


def _add_partitions(request: AddPartitionsToTxn, names: IdPairs) -> Values:
    producer_id, epoch = names.to_real(request.producer_id), request.producer_epoch
    topics = numbers_in_topics(request.partitions)
    if not request.verify:
        return {
            "v3_and_below_transactional_id": request.transactional_id,
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": topics,
        }
    transaction = {
        "transactional_id": request.transactional_id,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "verify_only": True,
        "topics": topics,
    }
    return {"transactions": [transaction]}


def _added_partitions(answer: Message, names: IdPairs) -> Response:
    if not hasattr(answer, "results_by_transaction"):
        topics = answer.results_by_topic_v3_and_below
        return AddPartitionsToTxnResponse(
            common_error(one.partition_error_code for topic in topics for one in topic.results_by_partition)
        )
    if answer.error_code:
        return AddPartitionsToTxnResponse(error_of(answer.error_code))
    (result,) = answer.results_by_transaction
    found = of_topics(result.topic_results, "results_by_partition")
    parts = {tp: error_of(one.partition_error_code) for tp, one in found}
    codes = set(parts.values())
    if codes - {KafkaError.NONE, KafkaError.TRANSACTION_ABORTABLE}:  # of the id, so each partition has it
        return AddPartitionsToTxnResponse(common_error(codes))
    return AddPartitionsToTxnResponse(KafkaError.NONE, parts)


def _add_offsets(request: AddOffsetsToTxn, names: IdPairs) -> Values:
    return {
        "transactional_id": request.transactional_id,
        "producer_id": names.to_real(request.producer_id),
        "producer_epoch": request.producer_epoch,
        "group_id": request.group,
    }


def _end_txn(request: EndTxn, names: IdPairs) -> Values:
    return {
        "transactional_id": request.transactional_id,
        "producer_id": names.to_real(request.producer_id),
        "producer_epoch": request.producer_epoch,
        "committed": request.commit,
    }


def _markers(request: WriteTxnMarkers, names: IdPairs) -> Values:
    markers = [
        {
            "producer_id": names.to_real(marker.producer_id),
            "producer_epoch": marker.producer_epoch,
            "transaction_result": marker.commit,
            "topics": numbers_in_topics(marker.partitions, "partition_indexes"),
            "coordinator_epoch": marker.coordinator_epoch,
            "transaction_version": marker.transaction_version,
        }
        for marker in request.markers
    ]
    return {"markers": markers}


def _marked(answer: Message, names: IdPairs) -> Response:
    results = {}
    for marker in answer.markers:
        for tp, one in of_topics(marker.topics):
            results[names.to_model(int(marker.producer_id)), tp] = error_of(one.error_code)
    return WriteTxnMarkersResponse(results)


def _describe_transactions(request: DescribeTransactions, names: IdPairs) -> Values:
    return {"transactional_ids": request.transactional_ids}


def _described_transactions(answer: Message, names: IdPairs) -> Response:
    found = {}
    for one in answer.transaction_states:
        tps = ((str(topic.topic), int(number)) for topic in one.topics for number in topic.partitions)
        found[str(one.transactional_id)] = DescribedTransaction(
            error_of(one.error_code),
            one.transaction_state,
            names.to_model(int(one.producer_id)),
            int(one.producer_epoch),
            milliseconds(one.transaction_timeout),
            tuple(sorted(tps)),
        )
    return DescribeTransactionsResponse(found)


OF_TRANSACTIONS: Final[Mapping[type[AnyRequest], Translation]] = {
    InitProducerId: Translation("init_producer_id", 4, _init_producer_id, _producer_id),
    AddPartitionsToTxn: Translation("add_partitions_to_txn", 3, _add_partitions, _added_partitions),
    AddOffsetsToTxn: Translation("add_offsets_to_txn", 3, _add_offsets, error_alone),
    EndTxn: Translation("end_txn", 3, _end_txn, _producer_id),
    WriteTxnMarkers: Translation("write_txn_markers", 1, _markers, _marked),
    DescribeTransactions: Translation(
        "describe_transactions", 0, _describe_transactions, _described_transactions
    ),
}
"""By kind of request."""
