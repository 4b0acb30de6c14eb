"""DescribeTransactionsResponse, version 0, with the start time as a number: -1 where no transaction is open,
which kio's own class refuses to read."""

from dataclasses import dataclass, field

from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TransactionState
from kio.static.primitive import i64


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription(TransactionState):
    """Of one transactional id."""

    transaction_start_time: i64 = field(metadata={"kafka_type": "int64"})  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransactions(DescribeTransactionsResponse):
    """See the module."""

    transaction_states: tuple[TransactionDescription, ...]
