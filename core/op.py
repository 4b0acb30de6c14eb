"""Ops: what a process was asked to do, and the result.

An *op* is one invocation by one *process* (a single-threaded logical client) and its completion. Its
work is a tuple of micro-ops (*mops*), executed in order. An op is a transaction iff `txn` is set:
atomicity is claimed only then. In a non-transactional op each record stands for itself.

Not here: how ops are chosen (`core.generator`), executed (`harness.clients.executor`) or stored
(`history.tables`). The integer values of the enums are written into histories and never change.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import msgspec


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


GONE_MARK: Final = "~"
"""Between the name of a topic that was deleted and made again, and the number of the deletion that ended it:
`queue~1` is the topic `queue` before it was deleted the first time. Kafka has no topic with such a name."""
DATABASE: Final = "database"
"""In place of a topic: the database of the run, which Kafka knows nothing of (`harness.clients.database`)."""


class Outcome(IntEnum):
    """What is known of an op, or of one record of it."""

    OK = 0
    """It happened."""
    FAIL = 1
    """It did not happen, and never will."""
    INFO = 2
    """It may or may not have happened, or may still happen."""


class Phase(IntEnum):
    """Where in the run something happened; phases only move forward."""

    SETUP = 0
    WARMUP = 1
    FAULTS = 2
    HEAL = 3
    RECOVER = 4
    QUIESCE = 5
    FINAL = 6
    COLLECT = 7
    SEAL = 8


class Isolation(IntEnum):
    """Kafka's `isolation.level` of a consumer; NONE for a process that does not read."""

    NONE = -1
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class End(IntEnum):
    """How a process ended."""

    CLOSED = 0
    """Its clients were closed in order."""
    REPLACED = 1
    """An op was indefinite or fatal; the slot continued under a new process number."""
    CRASHED = 2
    """Its worker died, or the run was cut short."""


class AssignmentKind(IntEnum):
    """Why the partitions that a process reads changed."""

    ASSIGNED = 0
    """Given by the group coordinator (rebalance)."""
    REVOKED = 1
    LOST = 2
    MANUAL = 3
    """The process itself assigned or subscribed."""
    REWIND = 4
    """The process went back to its begin positions after an abort."""
    RESET = 5
    """The client reset its position by `auto.offset.reset`."""
    BEGINNING = 6
    """What the process itself assigned it reads from the beginning of the log: the row before is MANUAL."""


class CommitKind(IntEnum):
    """How a consumer offset was committed."""

    SYNC = 0
    """By an explicit commit."""
    TXN = 1
    """Within a transaction (TxnOffsetCommit)."""
    AUTO = 2
    """By the client's background commit."""
    FETCHED = 3
    """Not a commit: the committed offset that the coordinator returned to the process on assignment."""


class Acknowledgement(IntEnum):
    """What a member of a share group says of a record that it was given (KIP-932); Kafka's own codes."""

    ACCEPT = 1
    """It was processed."""
    RELEASE = 2
    """It is to be delivered again."""
    REJECT = 3
    """It is never to be delivered again."""
    RENEW = 4
    """It is not processed yet: the member holds it for longer (KIP-1222)."""


class Send(msgspec.Struct, frozen=True, tag="send", array_like=True):
    """Produce one record. `value` is unique in the run: `process << 32 | n`."""

    tp: TopicPartition
    value: int


class Poll(msgspec.Struct, frozen=True, tag="poll", array_like=True):
    """Fetch the next records, waiting at most `wait_ms` for the first."""

    max_records: int = 500
    wait_ms: int = 100


class Assign(msgspec.Struct, frozen=True, tag="assign", array_like=True):
    """Read these partitions, each from the process's own last position, else from its beginning."""

    tps: tuple[TopicPartition, ...]


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe", array_like=True):
    """Join the group of the session's settings for these topics."""

    topics: tuple[str, ...]


class CommitOffsets(msgspec.Struct, frozen=True, tag="commit", array_like=True):
    """Commit the current positions of all assigned partitions to the group, synchronously."""


class SendOffsets(msgspec.Struct, frozen=True, tag="send-offsets", array_like=True):
    """Add the positions after the records that this op polled to the open transaction."""


class Copy(msgspec.Struct, frozen=True, tag="copy", array_like=True):
    """Produce one record to `topic` for each record of this run that the op polled so far, to the
    partition of the same number: consume-transform-produce. Their values are `first`, `first` + 1, …
    in the order of the poll; the op's polls together ask for at most `most` records. Copies to `DATABASE` are
    rows, written in one transaction of the database; what it refuses has the outcome FAIL, and the op
    is as it would be without it."""

    topic: str
    first: int
    most: int


class ReadDatabase(msgspec.Struct, frozen=True, tag="read-database", array_like=True):
    """Read all rows of these partitions of the database."""

    tps: tuple[TopicPartition, ...]


class CreateTopic(msgspec.Struct, frozen=True, tag="create-topic", array_like=True):
    """Create a topic with the run's replication, through the admin client; done when Kafka says so,
    which is before every broker knows its leaders."""

    topic: str
    partitions: int


class Acquire(msgspec.Struct, frozen=True, tag="acquire", array_like=True):
    """Ask for records of the share group, waiting at most `wait_ms` for the first. The group gives no
    other member what it gives this one, until the lock of the record ends."""

    wait_ms: int = 500


class Acknowledge(msgspec.Struct, frozen=True, tag="acknowledge", array_like=True):
    """Acknowledge `share` of the records that the process acquired and has not acknowledged, and wait for the
    result. What is said of each is drawn from `seed`: `accept` and `release` are shares, the rest is
    rejected. `renew`: share of records whose locks are renewed instead, and that stay to be acknowledged."""

    seed: int
    accept: float
    release: float
    share: float = 1.0
    renew: float = 0.0


Mop = (
    Send
    | Poll
    | Assign
    | Subscribe
    | CommitOffsets
    | SendOffsets
    | Copy
    | ReadDatabase
    | CreateTopic
    | Acquire
    | Acknowledge
)


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One op to invoke.

    f: name of the kind of op, as it stands in reports (`send`, `poll`, `txn`, `assign`, …).
    txn: the mops form one transaction.
    abort: with `txn`: the application means to abort it at its end.
    forget: without `txn`: the process does not wait for the acknowledgements (fire and forget). What
        the client took is in doubt (INFO, code UNAWAITED), and the process continues.
    """

    f: str
    mops: tuple[Mop, ...]
    txn: bool = False
    abort: bool = False
    forget: bool = False


def value_of(process: int, n: int) -> int:
    """The n-th value that a process sends: unique in the run, never reused."""
    return process << 32 | n


def process_of(value: int) -> int:
    """The process that a value belongs to (inverse of `value_of`)."""
    return value >> 32
