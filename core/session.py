"""The seam to a system under test: the verbs of one client, as Kafka names them.

A *session* belongs to one process: one producer and/or one consumer, with the settings of its
`SessionSpec`. librdkafka (`harness.clients.librdkafka.session`) and the modelled clients
(`harness.modelled.virtual.session`) implement this protocol, so workloads and the client loop are written
once.

Rules every implementation keeps:
- Verbs are `async`, but never suspend in a real run (`core.runtime`).
- Every verb has one deadline (`SessionSpec.deadline_s`); when it passes, the verb is `Indefinite`.
- Nothing is retried, cancelled or wrapped in a time-out by the caller.
- Verbs raise `Definite` (it did not happen) or `Indefinite` (it may have), nothing else. Any other
  exception is a fault of the harness.
- A session that raised a fatal error is dead: `fatal` says so, and the slot gets a new process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec

from core.client_settings import ClientSettings
from core.op import Acknowledgement, AssignmentKind, Outcome, TopicPartition


class Definite(Exception):
    """The verb did not take effect and never will. `code` is Kafka's error name."""

    def __init__(self, code: str, message: str = "", *, fatal: bool = False) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.fatal = fatal


class Indefinite(Exception):
    """The verb may have taken effect, or may still. `code` is Kafka's error name.

    wants_abort: the client says that the open transaction must be aborted (`txn_requires_abort`);
    a confirmed abort then decides it.
    """

    def __init__(self, code: str, message: str = "", *, wants_abort: bool = False) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.wants_abort = wants_abort


# One of each is made per record, on the path that is measured: frozen dataclasses take ten times as
# long to make as these, which hold no cycles and need no garbage collection.


class Acked(msgspec.Struct, frozen=True, gc=False):
    """The record was acknowledged; `offset` is -1 where the acknowledgement carried none."""

    offset: int
    ns: int
    """When the acknowledgement was seen (CLOCK_MONOTONIC): an upper bound."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The record was definitely not written."""

    code: str


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """The record may have been written."""

    code: str


Delivery = Acked | Failed | Unknown


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record to send; `payload` is made by `core.payload.encode`.

    key: "" = none. tombstone: Kafka gets no value, and the payload as a header: it deletes the key.
    """

    tp: TopicPartition
    value: int
    payload: bytes
    key: bytes = b""
    tombstone: bool = False


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """A record as a poll returned it. `leader_epoch` is -1 where the client does not know it."""

    tp: TopicPartition
    offset: int
    payload: bytes
    leader_epoch: int


class AcquiredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record as a share group gave it. `count`: how often it was delivered, this time included."""

    tp: TopicPartition
    offset: int
    payload: bytes
    count: int


class Acquisition(msgspec.Struct, frozen=True):
    """What a share group gave to one of its members: `records`, at `since_ns` or later."""

    records: list[AcquiredRecord]
    since_ns: int


Answers = Mapping[TopicPartition, tuple[Outcome, str]]
"""What happened to acknowledgements, by partition, and Kafka's code where that is not OK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentEvent:
    """Partitions that the session reads changed. `generation` is -1 where unknown.

    after: where it happened within a poll: how many of the records that the poll returned were handed
        out before it, under the assignment before (rebalances only).
    position: of a reset, the position that it left, which the log did not have; -1 where unknown.
    """

    kind: AssignmentKind
    tps: tuple[TopicPartition, ...]
    generation: int
    ns: int
    after: int = 0
    position: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEvent:
    """The client's producer identity changed (idempotent and transactional producers).

    epoch_cnt: how often librdkafka has obtained or bumped an epoch (its `eos.epoch_cnt`); a jump
    without a new process betrays librdkafka #4953.
    """

    producer_id: int
    producer_epoch: int
    epoch_cnt: int
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReached:
    """A consumer reached the end of a partition (LSO at read_committed, HW otherwise)."""

    tp: TopicPartition
    offset: int
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """An error that the client reported outside of any verb's result (side evidence only)."""

    code: str
    message: str
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSeen:
    """The offsets that the group coordinator gave for newly assigned partitions, asked for between
    `begin_ns` and `ns`. Partitions without a committed offset are left out."""

    offsets: Mapping[TopicPartition, int]
    generation: int
    begin_ns: int
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCommitted:
    """The client committed offsets automatically (`auto_commit`) and learned so at `ns`. It sent the
    request at `begin_ns` or later (without better knowledge: the begin of the session)."""

    offsets: Mapping[TopicPartition, int]
    generation: int
    outcome: Outcome
    begin_ns: int
    ns: int


SessionEvent = AssignmentEvent | CommittedSeen | AutoCommitted | ProducerEvent | EndReached | ClientError

UNAWAITED = "UNAWAITED"
"""Code of a record whose acknowledgement the process did not wait for (`send` with `wait` false)."""


class Session(Protocol):
    """One client. All verbs but `events` may raise `Definite` or `Indefinite`."""

    @property
    def client(self) -> ClientSettings:
        """What its clients work with."""

    @property
    def fatal(self) -> str | None:
        """Code of the error that made this session unusable, or None."""

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        """Send all records pipelined; one delivery each, in order. Does not raise.

        wait: until all are acknowledged or the deadline has passed. Else what was handed to the client
        is `Unknown(UNAWAITED)`.
        """

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        """The next records, at most `max_records`, waiting at most `wait_ms` for the first."""

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets (-2: beginning of the log)."""

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics; partitions come with later polls."""

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move the positions of assigned partitions."""

    async def position(self) -> dict[TopicPartition, int]:
        """Next offset to read of each assigned partition; -1 where nothing was read yet."""

    async def begin(self) -> None:
        """Begin a transaction (the first call also initialises the transactional id)."""

    async def commit(self) -> None:
        """Commit the open transaction. Called at most once for it."""

    async def abort(self) -> None:
        """Abort the open transaction. A normal return means: confirmed aborted."""

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Add consumer positions to the open transaction; the generation used (-1 unknown)."""

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Commit consumer positions to the group; the generation used (-1 unknown)."""

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when the controller has (brokers may not know it yet)."""

    async def close(self) -> None:
        """Close the clients; never raises, bounded by the deadline."""

    def events(self) -> list[SessionEvent]:
        """What happened outside of verbs since the last call, oldest first."""


@runtime_checkable
class Sharing(Protocol):
    """A session that can be a member of a share group (`SessionSpec.share`). Verbs raise as a `Session`'s."""

    async def acquire(self, wait_ms: int) -> Acquisition:
        """Records that the group gives this member, waiting at most `wait_ms` for the first.

        Not before everything is acknowledged that was acquired before.
        """

    async def acknowledge(
        self, records: Mapping[TopicPartition, Sequence[tuple[int, Acknowledgement]]]
    ) -> Answers:
        """Acknowledge acquired records (offset, and what is said of it), and wait for all answers."""
