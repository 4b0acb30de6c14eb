"""What coordinators of transactions serve, and what concerns producer ids."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from harness.modelled.real.serving.api_call import Api, Call
from harness.modelled.real.serving.peer_frames import answer_values, requested
from harness.protocol.encoding import Values, milliseconds
from harness.protocol.payloads import Message
from harness.protocol.topics import in_topics, numbers_in_topics, numbers_of_topics, of_topics
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    DescribeTransactions,
    DescribeTransactionsResponse,
    EndTxn,
    InitProducerId,
    ProducerIdResponse,
    TxnOffsetCommit,
)
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse

NEWER: Final[Mapping[str, int]] = {
    "produce": 12,
    "init_producer_id": 5,
    "add_offsets_to_txn": 4,
    "end_txn": 5,
    "txn_offset_commit": 5,
}
"""APIs whose newest version clients of transaction version 2 speak (KIP-890), and that version."""

UNKNOWN_TIME: Final = datetime.fromtimestamp(0, UTC)


def _init_producer_id(call: Call) -> None:
    request = call.request
    tid = request.transactional_id
    wanted = InitProducerId(
        None if tid is None else str(tid),
        milliseconds(request.transaction_timeout),
        int(getattr(request, "producer_id", -1)),
        int(getattr(request, "producer_epoch", -1)),
    )
    call.ask(wanted, lambda answer: _producer_id(call, answer))


def _producer_id(call: Call, answer: ProducerIdResponse) -> None:
    call.respond(
        error_code=answer.error, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
    )


def _add_partitions(call: Call) -> None:
    """Of one transaction up to version 3; later of several, or only to ask: those versions are brokers'."""
    request = call.request
    if hasattr(request, "transactions"):
        _add_batches(call)
        return
    tps = numbers_of_topics(request.v3_and_below_topics, "partitions")
    wanted = AddPartitionsToTxn(
        str(request.v3_and_below_transactional_id),
        int(request.v3_and_below_producer_id),
        int(request.v3_and_below_producer_epoch),
        tps,
    )
    call.ask(wanted, lambda answer: call.respond(results_by_topic_v3_and_below=_added(tps, answer)))


def _add_batches(call: Call) -> None:
    wanted = [
        AddPartitionsToTxn(
            str(one.transactional_id),
            int(one.producer_id),
            int(one.producer_epoch),
            numbers_of_topics(one.topics, "partitions"),
            verify=bool(one.verify_only),
        )
        for one in call.request.transactions
    ]

    def added(answers: list[AddPartitionsToTxnResponse]) -> None:
        found = [
            {"transactional_id": one.transactional_id, "topic_results": _added(one.partitions, answer)}
            for one, answer in zip(wanted, answers, strict=True)
        ]
        call.respond(results_by_transaction=found)

    call.ask_all(wanted, added)


def _added(tps: Sequence[Partition], answer: AddPartitionsToTxnResponse) -> Sequence[Values]:
    """The error of each partition: its own, else that of the transaction."""
    errors = getattr(answer, "parts", {})
    parts = (
        (
            tp,
            {
                "partition_index": tp[1],
                "partition_error_code": answer.error or errors.get(tp, KafkaError.NONE),
            },
        )
        for tp in tps
    )
    return in_topics(parts, "results_by_partition")


def _add_offsets(call: Call) -> None:
    request = call.request
    wanted = AddOffsetsToTxn(
        str(request.transactional_id),
        int(request.producer_id),
        int(request.producer_epoch),
        str(request.group_id),
    )
    call.ask(wanted, lambda answer: call.respond(error_code=answer.error))


def _end_txn(call: Call) -> None:
    request = call.request
    wanted = EndTxn(
        str(request.transactional_id),
        int(request.producer_id),
        int(request.producer_epoch),
        bool(request.committed),
    )
    call.ask(wanted, lambda answer: _producer_id(call, answer))


def _markers(call: Call) -> None:
    """What coordinators ask leaders for, and administrators who end a hanging transaction."""
    wanted = requested(call.request)
    call.ask(wanted, lambda answer: call.respond(markers=answer_values(wanted, answer)))


def _txn_offset_commit(call: Call) -> None:
    request = call.request
    offsets, epochs = committed(request)
    wanted = TxnOffsetCommit(
        str(request.transactional_id),
        str(request.group_id),
        int(request.producer_id),
        int(request.producer_epoch),
        offsets,
        int(getattr(request, "generation_id", -1)),
        str(getattr(request, "member_id", "")),
        epochs,
    )
    call.ask(wanted, lambda answer: respond_committed(call, answer))


def committed(request: Message) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """The offsets of a commit, and their leader epochs where it has some."""
    offsets, epochs = {}, {}
    for tp, one in of_topics(request.topics):
        offsets[tp] = int(one.committed_offset)
        if (epoch := int(getattr(one, "committed_leader_epoch", -1))) >= 0:
            epochs[tp] = epoch
    return offsets, epochs


def respond_committed(call: Call, answer: ErrorResponse) -> None:
    """To a commit of offsets: all of its partitions have the same error."""
    parts = (
        (tp, {"partition_index": tp[1], "error_code": answer.error}) for tp in committed(call.request)[0]
    )
    call.respond(topics=in_topics(parts))


def _describe(call: Call) -> None:
    """Of kio's schema: a time of start has to be a time, so one that is not known is 1970."""

    def told(answer: DescribeTransactionsResponse) -> None:
        found = [
            {
                "error_code": one.error,
                "transactional_id": tid,
                "transaction_state": one.state,
                "transaction_timeout": timedelta(milliseconds=one.timeout_ms),
                "transaction_start_time": UNKNOWN_TIME,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "topics": numbers_in_topics(one.partitions, name="topic"),
            }
            for tid, one in answer.transactions.items()
        ]
        call.respond(transaction_states=found)

    call.ask(DescribeTransactions([str(tid) for tid in call.request.transactional_ids]), told)


def _list(call: Call) -> None:
    """What this broker coordinates."""
    states = set(map(str, call.request.state_filters))
    ids = set(map(int, call.request.producer_id_filters))
    found = []
    for known in call.node.broker.coordinators.transactions.log.known.values():
        for tid, transaction in known.items():
            state, producer_id = transaction.state.value, transaction.record.producer_id
            if (not states or state in states) and (not ids or producer_id in ids):
                found.append(
                    {"transactional_id": tid, "producer_id": producer_id, "transaction_state": state}
                )
    call.respond(transaction_states=found)


OF_TRANSACTIONS: Final[Mapping[str, Api]] = {
    "init_producer_id": Api(0, 4, _init_producer_id),
    "add_partitions_to_txn": Api(0, 5, _add_partitions),
    "write_txn_markers": Api(1, 2, _markers),
    "add_offsets_to_txn": Api(0, 3, _add_offsets),
    "end_txn": Api(0, 3, _end_txn),
    "txn_offset_commit": Api(0, 4, _txn_offset_commit),
    "describe_transactions": Api(0, 0, _describe),
    "list_transactions": Api(0, 0, _list),
}
"""By name."""
