"""Transactions that are open now, and who answers for them (KIP-664), by Kafka's raw protocol.

A partition's leader knows which producers have a transaction open in its log (DescribeProducers);
the coordinator of a transactional id knows which partitions its transaction has yet to end in. One
that is open in a log and that no coordinator claims is *hanging*: nobody will ever end it.

Not here: transactions of clients (`producer`), the last stable offset that an open one holds back
(`survey.offsets`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kio.schema.describe_producers.v0 import request as describe_producers
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_transactions.v0 import request as describe_transactions
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v0 import request as list_transactions
from kio.schema.list_transactions.v0.response import ListTransactionsResponse
from kio.schema.types import ProducerId, TopicName
from msgspec.structs import replace

from harness.cluster import admin, survey
from harness.cluster.elections import by_topic
from harness.cluster.roles import agree
from harness.events import OpenTransaction
from harness.op import TopicPartition

ROUND_S = 1.2
"""What each of at most three rounds of questions may take; with all brokers up, 0.1 s."""
UNENDED = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which a coordinator has yet to end a transaction (those after it: `TransactionState`)."""

Key = tuple[TopicPartition, int]
"""Where a transaction is open, and its producer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """What one node says: of the cluster, and of the open transactions in the logs that it leads."""

    view: admin.View
    opened: Mapping[Key, OpenTransaction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What one node coordinates: transactional ids by where their transactions have yet to end, and
    the producer ids that it knows."""

    ids: Mapping[Key, str]
    known: frozenset[int]


def open_transactions(
    ports: Mapping[int, int], tps: Sequence[TopicPartition]
) -> list[OpenTransaction]:
    """Transactions that the agreed leaders of these partitions hold open.

    The leaders are asked first and the coordinators then; what nobody claims is looked at again,
    because it may have ended in between. Within 3.6 s; never raises.
    """
    opened = _opened(ports, tps)
    if not opened:
        return []
    numbers = {producer for _, producer in opened}
    told = survey.ask(
        {node: (port, partial(claims, numbers)) for node, port in ports.items()}, within_s=ROUND_S
    )
    rows = {key: _claimed(key, row, told) for key, row in opened.items()}
    unclaimed = [key for key, row in rows.items() if not row.transactional_id]
    if unclaimed:
        still = _opened(ports, sorted({tp for tp, _ in unclaimed}))
        for key in unclaimed:
            if key not in still or still[key].start != opened[key].start:
                del rows[key]
    return [rows[key] for key in sorted(rows)]


def _opened(ports: Mapping[int, int], tps: Sequence[TopicPartition]) -> dict[Key, OpenTransaction]:
    told = survey.ask(
        {node: (port, partial(producers, tps)) for node, port in ports.items()}, within_s=ROUND_S
    )
    views = {node: one.view for node, one in told.items()}
    leaders = agree(0, tuple(ports), views, {}).leaders
    return {
        key: row
        for node, one in told.items()
        for key, row in one.opened.items()
        if leaders.get(key[0], -1) == node
    }


def _claimed(key: Key, row: OpenTransaction, told: Mapping[int, Claims]) -> OpenTransaction:
    """The row with what the coordinators say of it."""
    for node, one in told.items():
        if key in one.ids:
            return replace(row, coordinator=node, transactional_id=one.ids[key])
    knowing = [node for node, one in told.items() if row.producer_id in one.known]
    return replace(row, coordinator=knowing[0]) if len(knowing) == 1 else row


def producers(tps: Iterable[TopicPartition], connection: admin.Connection) -> Producers:
    """Open transactions in the logs among `tps` that this node leads. Raises: AdminError."""
    view = admin.view(connection)
    request = describe_producers.DescribeProducersRequest(
        topics=tuple(
            describe_producers.TopicRequest(name=TopicName(topic), partition_indexes=numbers)
            for topic, numbers in by_topic(list(tps)).items()
        )
    )
    answer: DescribeProducersResponse = connection.call(request, DescribeProducersResponse)
    opened = {}
    for topic in answer.topics:
        for part in topic.partitions:
            if part.error_code != ErrorCode.none:
                continue  # it does not lead this one
            tp = TopicPartition(str(topic.name), int(part.partition_index))
            for one in part.active_producers:
                if one.current_txn_start_offset >= 0:
                    opened[tp, int(one.producer_id)] = OpenTransaction(
                        topic=tp.topic,
                        partition=tp.partition,
                        producer_id=int(one.producer_id),
                        producer_epoch=int(one.producer_epoch),
                        start=int(one.current_txn_start_offset),
                    )
    return Producers(view=view, opened=opened)


def claims(numbers: Iterable[int], connection: admin.Connection) -> Claims:
    """What this node coordinates for these producer ids. Raises: AdminError."""
    request = list_transactions.ListTransactionsRequest(
        producer_id_filters=tuple(ProducerId(number) for number in sorted(numbers))
    )
    listed: ListTransactionsResponse = connection.call(request, ListTransactionsResponse)
    admin.check("ListTransactions", listed.error_code)
    known = frozenset(int(one.producer_id) for one in listed.transaction_states)
    unended = tuple(
        one.transactional_id
        for one in listed.transaction_states
        if one.transaction_state in UNENDED
    )
    if not unended:
        return Claims(ids={}, known=known)
    answer: DescribeTransactionsResponse = connection.call(
        describe_transactions.DescribeTransactionsRequest(transactional_ids=unended),
        DescribeTransactionsResponse,
    )
    ids = {
        (TopicPartition(str(topic.topic), int(number)), int(one.producer_id)): str(
            one.transactional_id
        )
        for one in answer.transaction_states
        if one.error_code == ErrorCode.none and one.transaction_state in UNENDED
        for topic in one.topics
        for number in topic.partitions
    }
    return Claims(ids=ids, known=known)
