"""Transactions that are open now, and which coordinator owns them (KIP-664), by Kafka's raw protocol.

A partition's leader knows which producers have a transaction open in its log (DescribeProducers);
the coordinator of a transactional id knows which partitions its transaction has yet to end in. One
that is open in a log and that no coordinator claims is *hanging*: no coordinator will ever end it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v0.response import ListTransactionsResponse
from msgspec.structs import replace

from core.cluster import OpenTransaction
from core.op import TopicPartition
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.protocol.topics import numbers_in_topics

ROUND_S = 1.2
"""What each of at most three rounds of questions may take; with all brokers up, 0.1 s."""
UNENDED = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which a coordinator has yet to end a transaction (those after it: `TransactionState`)."""

Key = tuple[TopicPartition, int]
"""Where a transaction is open, and its producer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """What one node says: of the cluster, and of the open transactions in the logs that it leads."""

    view: protocol.View
    opened: Mapping[Key, OpenTransaction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What one node coordinates: transactional ids and their time-outs in seconds, by where their
    transactions have yet to end, and the producer ids that it knows."""

    ids: Mapping[Key, tuple[str, float]]
    known: frozenset[int]


def open_transactions(brokers: Brokers, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
    """Transactions that the agreed leaders of these partitions hold open.

    The leaders are asked first, then the coordinators; a transaction that no coordinator claims is
    looked up again, because it may have ended in between. Within 3.6 s; never raises.
    """
    opened = _opened(brokers, tps)
    if not opened:
        return []
    numbers = {producer for _, producer in opened}
    reported = broker_views.ask_all(brokers, partial(claims, numbers), ROUND_S)
    silent = tuple(sorted(set(brokers.nodes) - reported.keys()))
    rows = {key: _claimed(key, row, reported, silent) for key, row in opened.items()}
    unclaimed = [key for key, row in rows.items() if not row.transactional_id]
    if unclaimed:
        still = _opened(brokers, sorted({tp for tp, _ in unclaimed}))
        for key in unclaimed:
            if key not in still or still[key].start != opened[key].start:
                del rows[key]
    return [rows[key] for key in sorted(rows)]


def _opened(brokers: Brokers, tps: Sequence[TopicPartition]) -> dict[Key, OpenTransaction]:
    reported = broker_views.ask_all(brokers, partial(producers, tps), ROUND_S)
    views = {node: one.view for node, one in reported.items()}
    leaders = broker_views.agree(0, brokers.nodes, views, {}).leaders
    return {
        key: row
        for node, one in reported.items()
        for key, row in one.opened.items()
        if leaders.get(key[0], -1) == node
    }


def _claimed(
    key: Key, row: OpenTransaction, reported: Mapping[int, Claims], silent: tuple[int, ...]
) -> OpenTransaction:
    """The row with what the coordinators say of it; silent: those that say nothing."""
    for node, one in reported.items():
        if key in one.ids:
            tid, timeout_s = one.ids[key]
            return replace(row, coordinator=node, transactional_id=tid, timeout_s=timeout_s)
    knowing = [node for node, one in reported.items() if row.producer_id in one.known]
    row = replace(row, silent=silent)
    return replace(row, coordinator=knowing[0]) if len(knowing) == 1 else row


def producers(tps: Iterable[TopicPartition], connection: BrokerConnection) -> Producers:
    """Open transactions in the logs among `tps` that this node leads. Raises: AdminError."""
    view = protocol.view(connection)
    topics = numbers_in_topics(dict.fromkeys(tps), "partition_indexes")
    answer = connection.call(DescribeProducersResponse, topics=topics)
    opened: dict[Key, OpenTransaction] = {}
    for topic in answer.topics:
        for part in topic.partitions:
            if part.error_code != ErrorCode.none:
                continue  # it does not lead this one
            tp = TopicPartition(topic.name, part.partition_index)
            for one in part.active_producers:
                if one.current_txn_start_offset >= 0:
                    opened[tp, one.producer_id] = OpenTransaction(
                        topic=tp.topic,
                        partition=tp.partition,
                        producer_id=one.producer_id,
                        producer_epoch=one.producer_epoch,
                        start=one.current_txn_start_offset,
                    )
    return Producers(view=view, opened=opened)


def claims(numbers: Iterable[int], connection: BrokerConnection) -> Claims:
    """What this node coordinates for these producer ids. Raises: AdminError."""
    listed = connection.call(ListTransactionsResponse, producer_id_filters=sorted(numbers))
    check("ListTransactions", listed.error_code)
    known = frozenset(one.producer_id for one in listed.transaction_states)
    unended = [one.transactional_id for one in listed.transaction_states if one.transaction_state in UNENDED]
    if not unended:
        return Claims(ids={}, known=known)
    answer = connection.call(DescribeTransactionsResponse, transactional_ids=unended)
    ids: dict[Key, tuple[str, float]] = {
        (TopicPartition(str(topic.topic), int(number)), one.producer_id): (
            str(one.transactional_id),
            one.transaction_timeout.total_seconds(),
        )
        for one in answer.transaction_states
        if one.error_code == ErrorCode.none and one.transaction_state in UNENDED
        for topic in one.topics
        for number in topic.partitions
    }
    return Claims(ids=ids, known=known)
