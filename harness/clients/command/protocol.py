"""The lines of docs/client-protocol.md: the commands that a client's program gets, and its answers.

Each line is one JSON object. Bytes are base64: a record describes itself by bytes that are not text in
any encoding (`core.payload`).
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from core.client_settings import ClientSettings

VERSION: Final = 1
"""Of the protocol; `open` names it."""

Natural = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Number = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
"""-1 = not known."""
OFFSETS_END: Final = 2**62
"""No log is as long; a number beyond what a history can hold is a mistake of the client."""
TEXT_MOST: Final = 1000
"""Characters of a name or a message that are kept: what only explains is never too long."""


class Can(StrEnum):
    """What a client may lack. A run that needs it is refused."""

    PRODUCE = "produce"
    """It has a producer."""
    CONSUME = "consume"
    """It has a consumer."""
    IDEMPOTENCE = "idempotence"
    """Its producer can be idempotent."""
    TRANSACTIONS = "transactions"
    OFFSETS = "offsets"
    """It names the offsets of acknowledged records."""
    READ_COMMITTED = "read-committed"
    GROUPS = "groups"
    """Its consumer can be a member of a group, and commit offsets."""


class CommandOutcome(StrEnum):
    """What is known of a command, or of one record."""

    OK = "ok"
    """It took effect."""
    FAILED = "failed"
    """It certainly did not take effect, and never will."""
    UNKNOWN = "unknown"
    """It may have, or may still."""


class PartitionOfTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One partition of one topic."""

    topic: str
    partition: Natural


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition and an offset. -2 in `assign`: the beginning of the log; -1 in an answer: not known yet."""

    topic: str
    partition: Natural
    offset: Annotated[int, msgspec.Meta(ge=-2, lt=OFFSETS_END)]


class RecordToSend(msgspec.Struct, frozen=True, gc=False):
    """A record to send, without a key: the harness names its partition."""

    topic: str
    partition: int
    value: bytes


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb"):
    """Of all commands. timeout_ms: it has to be answered within this time; what is open then is unknown."""

    id: int
    timeout_ms: int


class Open(Command, frozen=True, kw_only=True, tag="open"):
    """First: note the settings, and say what the client is. Nothing is asked of the cluster yet.

    bootstrap: addresses of brokers, `host:port,…`. security: further settings of connections by librdkafka's
    names, secrets among them; empty for PLAINTEXT without SASL.
    """

    version: int
    bootstrap: str
    security: dict[str, str]
    client: ClientSettings


class Init(Command, frozen=True, kw_only=True, tag="init"):
    """Initialise the transactional id (once)."""


class SendRecords(Command, frozen=True, kw_only=True, tag="send"):
    """Hand these records to the producer, in this order, without waiting. It has reports and no answer."""

    records: list[RecordToSend]


class Flush(Command, frozen=True, kw_only=True, tag="flush"):
    """Wait until all records have their reports, and answer after the last one."""


class Begin(Command, frozen=True, kw_only=True, tag="begin"):
    """Begin a transaction."""


class Commit(Command, frozen=True, kw_only=True, tag="commit"):
    """Commit the open transaction."""


class Abort(Command, frozen=True, kw_only=True, tag="abort"):
    """Abort the open transaction."""


class OffsetsToTransaction(Command, frozen=True, kw_only=True, tag="offsets_to_transaction"):
    """Add offsets of this client's group to the open transaction, with the group's metadata."""

    positions: list[Position]


class SubscribeTopics(Command, frozen=True, kw_only=True, tag="subscribe"):
    """Join the group for these topics; leave what was assigned."""

    topics: list[str]


class AssignPartitions(Command, frozen=True, kw_only=True, tag="assign"):
    """Read these partitions from these offsets, and no others; leave the group."""

    positions: list[Position]


class PollRecords(Command, frozen=True, kw_only=True, tag="poll"):
    """The next records, at most this many; wait at most `timeout_ms` for the first."""

    max_records: int


class AskPosition(Command, frozen=True, kw_only=True, tag="position"):
    """The next offset of each assigned partition, after the records that polls have returned."""


class Committed(Command, frozen=True, kw_only=True, tag="committed"):
    """What the group's coordinator has for these partitions; none is left out of the answer but those without
    an offset."""

    partitions: list[PartitionOfTopic]


class CommitPositions(Command, frozen=True, kw_only=True, tag="commit_offsets"):
    """Commit offsets of this client's group, and wait for the answer."""

    positions: list[Position]


class Seek(Command, frozen=True, kw_only=True, tag="seek"):
    """Go to these offsets; the partitions are assigned."""

    positions: list[Position]


class Close(Command, frozen=True, kw_only=True, tag="close"):
    """Last: close the clients. Records without a report are dropped, an open transaction stays open."""


def _cut(line: msgspec.Struct, *names: str) -> None:
    for name in names:
        if len(text := getattr(line, name)) > TEXT_MOST:
            msgspec.structs.force_setattr(line, name, f"{text[: TEXT_MOST - 1]}…")


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What is known of one record of a send. record: its index there. code: Kafka's name of the error."""

    record: Natural
    outcome: CommandOutcome
    offset: Annotated[int, msgspec.Meta(ge=-1, lt=OFFSETS_END)] = -1
    code: str = ""

    def __post_init__(self) -> None:
        """Keep the beginning of a long text."""
        _cut(self, "code")


class PolledRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A record that a poll returned, with its value as it is on the broker."""

    topic: str
    partition: Natural
    offset: Annotated[int, msgspec.Meta(ge=0, lt=OFFSETS_END)]
    value: bytes
    leader_epoch: Number = -1


class Happened(StrEnum):
    """What a client tells beside the results of commands."""

    ASSIGNED = "assigned"
    """The group gave it these partitions."""
    REVOKED = "revoked"
    """It gave these partitions up, in order."""
    LOST = "lost"
    """These partitions were taken away."""
    RESET = "reset"
    """It moved its position by `auto_offset_reset`: its offset was out of the log."""
    ERROR = "error"
    """An error that is the result of no command."""


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """after: of a rebalance within a poll, how many of its records the client returned before it."""

    event: Happened
    partitions: list[PartitionOfTopic] = []
    generation: Number = -1
    after: Natural = 0
    code: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        """Keep the beginnings of long texts."""
        _cut(self, "code", "message")


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the program. With an outcome it answers the command `id`; without one it brings `reports`
    of the send `id`, and nothing else.

    fatal: the client can do no more. wants_abort: the open transaction has to be aborted; a confirmed abort
    decides it. name: of the library and its version, `lacks`: what it cannot do (both to `open`).
    generation: of the group, -1 = not known (to `commit_offsets` and `offsets_to_transaction`). events: since
    the last answer, oldest first.
    """

    id: int
    outcome: CommandOutcome | None = None
    code: str = ""
    message: str = ""
    fatal: bool = False
    wants_abort: bool = False
    name: str = ""
    lacks: list[Can] = []
    reports: list[Report] = []
    records: list[PolledRecord] = []
    positions: list[Position] = []
    generation: Number = -1
    events: list[Event] = []

    def __post_init__(self) -> None:
        """Keep the beginnings of long texts."""
        _cut(self, "code", "message", "name")

    def beside_reports(self) -> list[str]:
        """Fields that a line of reports must not have, and this one has."""
        plain = Answer(id=self.id, reports=self.reports)
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(plain, name)]

    @property
    def done(self) -> int:
        """Answers name their command, and do not count it."""
        return 0

    @property
    def error(self) -> str:
        """An error belongs to one command."""
        return ""


COMMANDS: Final = (
    Open | Init | SendRecords | Flush | Begin | Commit | Abort | OffsetsToTransaction | SubscribeTopics
    | AssignPartitions | PollRecords | AskPosition | Committed | CommitPositions | Seek | Close
)  # fmt: skip


def json_schema() -> dict[str, object]:
    """Both sides: `$defs/Command` of the lines in, `$defs/Answer` of the lines out."""
    (commands, _), found = msgspec.json.schema_components((COMMANDS, Answer), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The lines of a client of Inquest, version {VERSION}",
        "$defs": {**found, "Command": commands},
    }
