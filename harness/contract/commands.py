"""Random commands, and the requests that they become.

A command names a producer and says how the request differs from what a correct client would send next: a
lower epoch, a sequence that does not follow, the id of another producer. What the producers have learnt from
the model stands in a `Situation`; so a command makes sense after any others, and a failing list of commands
can be made shorter.

    A, B    two instances of one transactional id      C    of another one
    P       without a transactional id
    M, N, O members of a group

A member that waits for the answer to JoinGroup or SyncGroup sends neither of them meanwhile. Who may be the
leader of a group leaves it only where at most one other member is left: of several Kafka chooses one by a
hash table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from harness.contract.dialect import MADE_UP
from model.errors import KafkaError
from model.log.unified_log import NO_EPOCH, NO_PRODUCER, SEQUENCES, RecordBatch
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DescribeGroup,
    DescribeProducers,
    DescribeTransactions,
    EndTxn,
    Heartbeat,
    InitProducerId,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    ProducerIdResponse,
    SyncGroup,
    TxnMarker,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from model.protocol.messages import (
    DeleteRecords,
    Fetch,
    FetchPartition,
    ListOffsets,
    Partition,
    Produce,
    ProduceResponse,
)
from model.protocol.requests import AnyRequest, ErrorResponse, Response

TIMEOUT_MS: Final = 600_000
"""Of a transaction: longer than any example takes."""
TIMEOUTS_REFUSED: Final = (0, 900_001)
UNKNOWN_ID: Final = MADE_UP + 1
MEMBERS: Final = "MNO"
UNKNOWN_MEMBER: Final = "nobody"
SESSION_MS: Final = 600_000
REBALANCE_MS: Final = 600_000
"""Both longer than any example takes."""
SESSION_REFUSED: Final = 10
DEVIATES: Final = 0.12
"""Share of commands that a correct client would not send."""


class RandomCommand(NamedTuple):
    """See the module. epoch, sequence: distance from the right ones. yes: commit; read_committed; stable;
    with the identity in hand. other: another producer's id is used, "?" = an unknown one. number: what
    else the kind of command needs."""

    kind: str
    who: str = "A"
    partitions: tuple[int, ...] = (0,)
    epoch: int = 0
    sequence: int = 0
    records: int = 1
    yes: bool = True
    other: str = ""
    number: int = 0

    @property
    def text(self) -> str:
        """What is not the default."""
        defaults = RandomCommand("")
        given = [
            f"{name}={value}"
            for name, value in zip(self._fields[2:], self[2:], strict=True)
            if value != getattr(defaults, name)
        ]
        return f"{self.kind}({', '.join([self.who, *given])})"


@dataclass(slots=True)
class KnownProducer:
    """What a producer has learnt. sequences: next one by partition."""

    transactional_id: str | None
    producer_id: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    sequences: dict[Partition, int] = field(default_factory=dict)

    def take(self, producer_id: int, epoch: int) -> None:
        """A new identity begins at 0."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch, self.sequences = producer_id, epoch, {}


@dataclass(slots=True)
class KnownMember:
    """What a member of a group has learnt. members: of its generation, where it leads. waits: the command
    and the request whose answer it waits for."""

    member: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()
    waits: tuple[RandomCommand, AnyRequest] | None = None

    def leave(self) -> None:
        """It has left, or was removed."""
        self.member, self.generation, self.members = "", -1, ()


class Situation:
    """What producers and members have learnt so far. name: unique on the real broker. topic: of two
    partitions."""

    def __init__(self, name: str, topic: str, transaction_version: int) -> None:
        self.partitions: tuple[Partition, ...] = ((topic, 0), (topic, 1))
        self.transaction_version = transaction_version
        self.ids = (f"{name}-1", f"{name}-2")
        self.group = f"{name}-g"
        self.producers = {
            "A": KnownProducer(self.ids[0]),
            "B": KnownProducer(self.ids[0]),
            "C": KnownProducer(self.ids[1]),
            "P": KnownProducer(None),
        }
        self.members = {name: KnownMember() for name in MEMBERS}

    def request(self, command: RandomCommand) -> AnyRequest | None:
        """The request of a command; None where its producer can send none yet."""
        return KINDS[command.kind].request(self, command)

    def learn(self, command: RandomCommand, request: AnyRequest, answer: Response) -> None:
        """The answer that the producer or the member gets."""
        if command.who in self.members:
            self._learn_member(self.members[command.who], request, answer)
            return
        producer = self.producers[command.who]
        if isinstance(answer, ProducerIdResponse):
            if answer.error is KafkaError.NONE and answer.producer_id >= 0:
                producer.take(answer.producer_id, answer.producer_epoch)
        elif isinstance(request, Produce) and isinstance(answer, ProduceResponse):
            for tp, told in answer.results.items():
                if told[0] is KafkaError.NONE and command.sequence >= 0:
                    after = request.batches[tp].sequence + request.batches[tp].size
                    producer.sequences[tp] = after % SEQUENCES

    def _learn_member(self, member: KnownMember, request: AnyRequest, answer: Response) -> None:
        if isinstance(request, JoinGroup | SyncGroup):
            member.waits = None
        if isinstance(answer, JoinGroupResponse) and answer.error is KafkaError.NONE:
            member.member, member.generation = answer.member, answer.generation
            member.members = tuple(sorted(answer.members))
        elif isinstance(answer, ErrorResponse) and getattr(request, "member", "") == member.member:
            left = isinstance(request, LeaveGroup) and answer.error is KafkaError.NONE
            if left or answer.error is KafkaError.UNKNOWN_MEMBER_ID:
                member.leave()

    # ---- parts of requests

    def may_leave(self, member: KnownMember) -> bool:
        """Whether it is determined who leads the group when this member has left: another one leads already,
        or at most one is left. A member that follows a leader who left does not know it before it has joined
        again."""
        others = [one for one in self.members.values() if one is not member and (one.member or one.waits)]
        return len(others) < 2 or any(one.members for one in others)

    def tps(self, command: RandomCommand) -> tuple[Partition, ...]:
        """The command's partitions."""
        return tuple(self.partitions[number] for number in command.partitions)

    def identity(self, command: RandomCommand) -> tuple[int, int] | None:
        """Producer id and epoch of a command; None before the producer has any."""
        producer = self.producers[command.who]
        if producer.epoch < 0:
            return None
        producer_id = producer.producer_id
        if command.other == "?":
            producer_id = UNKNOWN_ID
        elif command.other and self.producers[command.other].epoch >= 0:
            producer_id = self.producers[command.other].producer_id
        epoch = producer.epoch + command.epoch
        return (producer_id, epoch) if epoch >= 0 else None


Owned = Callable[[Situation, RandomCommand, str, int, int], AnyRequest]


def _owned(build: Owned) -> Callable[[Situation, RandomCommand], AnyRequest | None]:
    """A request of a transactional id's owner."""

    def made(situation: Situation, command: RandomCommand) -> AnyRequest | None:
        tid = situation.producers[command.who].transactional_id
        identity = situation.identity(command)
        return build(situation, command, tid, *identity) if tid and identity else None

    return made


def _init(s: Situation, c: RandomCommand) -> AnyRequest | None:
    tid = s.producers[c.who].transactional_id
    identity = (NO_PRODUCER, NO_EPOCH)
    if c.yes and tid:
        identity = s.identity(c) or identity
    return InitProducerId(tid, c.number or TIMEOUT_MS, *identity)


def _add(s: Situation, c: RandomCommand, tid: str, producer_id: int, epoch: int) -> AnyRequest:
    return AddPartitionsToTxn(tid, producer_id, epoch, s.tps(c))


def _verify(s: Situation, c: RandomCommand, tid: str, producer_id: int, epoch: int) -> AnyRequest:
    return AddPartitionsToTxn(tid, producer_id, epoch, s.tps(c), verify=True)


def _write(s: Situation, c: RandomCommand) -> AnyRequest | None:
    producer, identity = s.producers[c.who], s.identity(c)
    if identity is None:
        return None
    transactional = producer.transactional_id is not None and c.yes
    batches = {}
    for tp in s.tps(c):
        sequence = (producer.sequences.get(tp, 0) + c.sequence) % SEQUENCES
        records = tuple(f"{c.who}{n}" for n in range(c.records))
        batches[tp] = RecordBatch(-1, -1, records, *identity, sequence, transactional=transactional)
    return Produce(-1, batches, producer.transactional_id if transactional else None)


def _write_plain(s: Situation, c: RandomCommand) -> AnyRequest:
    records = tuple(f"{c.who}{n}" for n in range(c.records))
    return Produce(-1, {tp: RecordBatch(-1, -1, records) for tp in s.tps(c)}, None)


def _end(s: Situation, c: RandomCommand, tid: str, producer_id: int, epoch: int) -> AnyRequest:
    return EndTxn(tid, producer_id, epoch, c.yes)


def _add_offsets(s: Situation, c: RandomCommand, tid: str, producer_id: int, epoch: int) -> AnyRequest:
    return AddOffsetsToTxn(tid, producer_id, epoch, s.group)


def _txn_offsets(s: Situation, c: RandomCommand, tid: str, producer_id: int, epoch: int) -> AnyRequest:
    offsets = dict.fromkeys(s.tps(c), c.number)
    if c.yes:
        return TxnOffsetCommit(tid, s.group, producer_id, epoch, offsets)
    return TxnOffsetCommit(tid, s.group, producer_id, epoch, offsets, *_membership(s, c))


def _offsets(s: Situation, c: RandomCommand) -> AnyRequest:
    offsets = dict.fromkeys(s.tps(c), c.number)
    return OffsetCommit(s.group, *((-1, "") if c.yes else _membership(s, c)), offsets)


def _membership(s: Situation, c: RandomCommand) -> tuple[int, str]:
    """Generation and member id of one of the members; of no member where it has none."""
    member = s.members[MEMBERS[c.number % len(MEMBERS)]]
    return (member.generation, member.member) if member.member else (c.records, UNKNOWN_MEMBER)


def _join(s: Situation, c: RandomCommand) -> AnyRequest | None:
    member = s.members[c.who]
    if member.waits is not None:
        return None
    topic = s.partitions[0][0]
    topics = (topic,) if c.yes else (topic, f"{topic}-other")
    name = UNKNOWN_MEMBER if c.other else member.member
    return JoinGroup(s.group, name, c.number or SESSION_MS, REBALANCE_MS, topics)


def _sync(s: Situation, c: RandomCommand) -> AnyRequest | None:
    member = s.members[c.who]
    if member.waits is not None or member.generation + c.epoch < 0:
        return None
    given: dict[str, tuple[Partition, ...]] = dict.fromkeys(member.members, ())
    for n, tp in enumerate(s.partitions if member.members else ()):
        name = member.members[(n + c.records) % len(member.members)]
        given[name] = (*given[name], tp)
    name = UNKNOWN_MEMBER if c.other else member.member
    return SyncGroup(s.group, member.generation + c.epoch, name, given)


def _beat(s: Situation, c: RandomCommand) -> AnyRequest | None:
    member = s.members[c.who]
    if member.generation + c.epoch < 0:
        return None
    name = UNKNOWN_MEMBER if c.other else member.member
    return Heartbeat(s.group, member.generation + c.epoch, name)


def _leave(s: Situation, c: RandomCommand) -> AnyRequest | None:
    member = s.members[c.who]
    if not member.member or not s.may_leave(member):
        return None
    return LeaveGroup(s.group, UNKNOWN_MEMBER if c.other else member.member)


def _marker(s: Situation, c: RandomCommand) -> AnyRequest | None:
    identity = s.identity(c)
    if identity is None:
        return None
    marker = TxnMarker(*identity, c.number, c.yes, s.tps(c), s.transaction_version)
    return WriteTxnMarkers((marker,))


def _fetch(s: Situation, c: RandomCommand) -> AnyRequest:
    parts = {tp: FetchPartition(c.number) for tp in s.tps(c)}
    return Fetch(-1, parts, committed=c.yes, max_wait_ms=0)


def _delete(s: Situation, c: RandomCommand) -> AnyRequest:
    return DeleteRecords(dict.fromkeys(s.tps(c), c.number))


class CommandKind(NamedTuple):
    """Of commands. weight: how often, relative to others. draw: what it sets apart from who, and
    deviations; owners: who may send it."""

    weight: int
    owners: str
    request: Callable[[Situation, RandomCommand], AnyRequest | None]
    deviations: tuple[str, ...] = ()
    number: Callable[[Random], int] = lambda _: 0


KINDS: Final[Mapping[str, CommandKind]] = {
    "init": CommandKind(5, "AABCP", _init, ("epoch", "other", "refused")),
    "add": CommandKind(12, "AABC", _owned(_add), ("epoch", "other")),
    "write": CommandKind(26, "AAABCPP", _write, ("epoch", "sequence", "other")),
    "plain": CommandKind(3, "P", _write_plain),
    "end": CommandKind(13, "AAABC", _owned(_end), ("epoch", "other")),
    "add_offsets": CommandKind(8, "AAC", _owned(_add_offsets), ("epoch", "other")),
    "txn_offsets": CommandKind(8, "AAC", _owned(_txn_offsets), ("epoch", "other"), lambda r: r.randrange(9)),
    "offsets": CommandKind(3, "P", _offsets, (), lambda r: r.randrange(9)),
    "marker": CommandKind(3, "AABCP", _marker, ("epoch", "other"), lambda r: r.choice((0, 0, 0, 1, 5))),
    "join": CommandKind(14, MEMBERS, _join, ("other", "refused session")),
    "sync": CommandKind(12, MEMBERS, _sync, ("epoch", "other")),
    "beat": CommandKind(4, MEMBERS, _beat, ("epoch", "other")),
    "leave": CommandKind(4, MEMBERS, _leave, ("other",)),
    "verify": CommandKind(2, "AAC", _owned(_verify), ("epoch", "other")),
    "fetch": CommandKind(4, "P", _fetch, (), lambda r: r.choice((0, 0, 0, 1, 2, 5, 40))),
    "delete": CommandKind(2, "P", _delete, (), lambda r: r.choice((-2, -1, 0, 1, 2, 3, 5, 40))),
    "ends": CommandKind(1, "P", lambda s, c: ListOffsets(s.tps(c), earliest=not c.yes)),
    "producers": CommandKind(1, "P", lambda s, c: DescribeProducers(s.tps(c))),
    "transactions": CommandKind(1, "P", lambda s, c: DescribeTransactions((*s.ids, f"{s.ids[0]}-none"))),
    "group": CommandKind(1, "P", lambda s, c: DescribeGroup(s.group)),
    "committed": CommandKind(2, "P", lambda s, c: OffsetFetch(s.group, s.tps(c), c.yes)),
}
"""Name -> kind."""


def draw(random: Random) -> RandomCommand:
    """A command."""
    (name,) = random.choices(list(KINDS), [kind.weight for kind in KINDS.values()])
    kind = KINDS[name]
    made = RandomCommand(
        name,
        random.choice(kind.owners),
        random.choice(((0,), (0,), (1,), (0, 1))),
        records=random.choice((1, 1, 1, 2, 3)),
        yes=random.random() < (0.3 if name == "init" else 0.75),
        number=kind.number(random),
    )
    for deviation in kind.deviations:
        if random.random() < DEVIATES:
            made = _deviating(made, deviation, random)
    return made


def _deviating(command: RandomCommand, what: str, random: Random) -> RandomCommand:
    match what:
        case "epoch":
            return command._replace(epoch=random.choice((-1, -1, 1, 2)))
        case "sequence":
            return command._replace(sequence=random.choice((-4, -3, -2, -1, -1, 1, 3)))
        case "other":
            return command._replace(other=random.choice("ABCP?"))
        case "refused session":
            return command._replace(number=SESSION_REFUSED)
        case _:
            return command._replace(number=random.choice(TIMEOUTS_REFUSED))
