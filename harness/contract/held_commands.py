"""Random commands about one partition of three replicas: requests of clients, and what happens to messages
between the brokers.

Nothing that brokers send each other, or the controller, arrives before a command says so. A command of the
second kind lets one message go (`fetch`, `answer`, `alter`, `altered`, `tell`), breaks the connection on
which it lies (`cut`), or is an operator's or a failure (`elect`, `reassign`, `fence`, `heal`). It does what
the model's stage can do now, and else nothing: so it makes sense after any others, and a failing list of
commands can be made shorter. Which command is possible is asked of the model alone.

Left out is what depends on a broker's own clock: members of the in-sync set that lag (no time passes for the
story here), crashes and restarts (what of a high watermark is on disk hangs on the checkpoint every few
seconds), fetches that wait until their time has run out, and an acks=-1 write that is in the log already (no
request shows when its leader has taken it). Scenarios play the first three.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from harness.contract.commands import DEVIATES, RandomCommand
from harness.contract.dialect import MADE_UP
from model.log.unified_log import NO_EPOCH, NO_PRODUCER, RecordBatch, UnifiedLog
from model.protocol.coordinator_messages import DescribeProducers
from model.protocol.messages import Fetch, FetchPartition, ListOffsets, OffsetForLeaderEpoch, Produce
from model.protocol.requests import AnyRequest
from scenarios.drivers.partition import ALTER_ANSWERED, ANSWERED, ASKS, EXPIRED, TP, PartitionStage

REPLICAS: Final = (1, 2, 3)
LEADER: Final = "L"
"""Who leads as the controller has it; a number is that broker, whatever it takes itself for."""
PATIENT_MS: Final = 90_000
"""Of a producer's request, in the story: longer than any example."""
ORDERS: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (2, 1, 3))
MOST_FENCED: Final = 2


@dataclass(slots=True)
class Writer:
    """A producer's identity, and its next sequence number."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0


def _writers() -> dict[str, Writer]:
    return {name: Writer(MADE_UP + n) for n, name in enumerate("AB")}


@dataclass(slots=True)
class Writers:
    """The producers of an example; P has no id. count: of the records so far, which all have other names."""

    known: dict[str, Writer] = field(default_factory=_writers)
    count: int = 0

    def request(self, command: RandomCommand, log: UnifiedLog) -> Produce:
        """The request of a write to the broker with this log. The command says how it deviates from what its
        producer would send; acks=-1 becomes 1 for a batch that the log has already."""
        records = tuple(f"{command.other or 'P'}{self.count + n}" for n in range(command.records))
        self.count += command.records
        identity, sequence = (NO_PRODUCER, NO_EPOCH), -1
        if (writer := self.known.get(command.other)) is not None:
            epoch = max(writer.epoch + command.epoch, 0)
            sequence = max((0 if command.epoch > 0 else writer.sequence) + command.sequence, 0)
            identity = writer.producer_id, epoch
        batch = RecordBatch(-1, -1, records, *identity, sequence)
        acks = 1 if command.number < 0 and log.recognised(batch) is not None else command.number
        return Produce(acks, {TP: batch}, None, PATIENT_MS)

    def learn(self, command: RandomCommand, request: Produce) -> None:
        """It was not refused."""
        writer, batch = self.known.get(command.other), request.batches[TP]
        if writer is not None and command.sequence >= 0 and batch.producer_epoch >= writer.epoch:
            writer.epoch, writer.sequence = batch.producer_epoch, batch.sequence + batch.size


def broker_of(stage: PartitionStage, command: RandomCommand) -> int:
    """The broker that a command names; -1 = there is no leader."""
    return stage.state.leader if command.who == LEADER else int(command.who)


# ---- requests of clients


def _epoch(stage: PartitionStage, c: RandomCommand) -> int:
    """The leader epoch that a client knows; -1: it does not say one."""
    return -1 if c.yes else max(stage.state.leader_epoch + c.epoch, 0)


def _read(stage: PartitionStage, c: RandomCommand, n: int) -> AnyRequest | None:
    replica = stage.replica(TP, n)
    if replica is None:
        return None
    high, end = replica.high_watermark, replica.log.end
    offsets = (0, high // 2, max(high - 1, 0), high, end, end + 1)
    request = {TP: FetchPartition(offsets[c.number % len(offsets)], _epoch(stage, c))}
    return Fetch(-1, request, committed=c.records > 1, max_wait_ms=0)


def _ends(stage: PartitionStage, c: RandomCommand, n: int) -> AnyRequest | None:
    return ListOffsets((TP,), earliest=c.number > 3, committed=c.records > 1)


def _epoch_end(stage: PartitionStage, c: RandomCommand, n: int) -> AnyRequest | None:
    return OffsetForLeaderEpoch(-1, {TP: (_epoch(stage, c), c.number)})


def _producers(stage: PartitionStage, c: RandomCommand, n: int) -> AnyRequest | None:
    replica = stage.replica(TP, n)  # others refuse it, with nothing but an error
    return DescribeProducers((TP,)) if replica is not None and replica.leads else None


QUESTIONS: Final[Mapping[str, Callable[[PartitionStage, RandomCommand, int], AnyRequest | None]]] = {
    "read": _read,
    "ends": _ends,
    "epoch_end": _epoch_end,
    "producers": _producers,
}
"""Commands that change nothing -> the request."""


# ---- messages between brokers, and what happens to these


class Step(NamedTuple):
    """may: whether the model's stage can do it to a broker now. do: on either stage."""

    may: Callable[[PartitionStage, RandomCommand, int], bool]
    do: Callable[[PartitionStage, RandomCommand, int], object]


def _answered(s: PartitionStage, n: int) -> bool:
    """A request that its leader keeps lies on no connection: it cannot be cut."""
    return s.asked(n) in (ANSWERED, EXPIRED)


def _unfenced(s: PartitionStage, n: int) -> bool:
    return n not in s.isolated and len(s.isolated) < MOST_FENCED


def _new_order(s: PartitionStage, c: RandomCommand, _: int) -> bool:
    return c.partitions in ORDERS and c.partitions != s.state.replicas


def _electable(s: PartitionStage, c: RandomCommand, _: int) -> bool:
    return s.state.leader != s.state.replicas[0] if c.yes else s.state.leader < 0


STEPS: Final[Mapping[str, Step]] = {
    "fetch": Step(lambda s, _, n: s.sends(n), lambda s, _, n: s.fetch(n)),
    "answer": Step(lambda s, _, n: _answered(s, n), lambda s, _, n: s.answer(n)),
    "cut": Step(lambda s, _, n: s.sends(n) or _answered(s, n), lambda s, _, n: s.cut(n)),
    "alter": Step(lambda s, _, n: s.altering(n) == ASKS, lambda s, _, n: s.alter(n)),
    "altered": Step(lambda s, _, n: s.altering(n) == ALTER_ANSWERED, lambda s, _, n: s.altered(n)),
    "tell": Step(lambda s, _, n: s.behind(n), lambda s, _, n: s.tell(n)),
    "elect": Step(_electable, lambda s, c, _: s.elect(unclean=not c.yes)),
    "reassign": Step(_new_order, lambda s, c, _: s.reassign(*c.partitions)),
    "fence": Step(lambda s, _, n: _unfenced(s, n), lambda s, _, n: s.isolate(n).fence(n)),
    "heal": Step(lambda s, _, n: n in s.isolated, lambda s, _, n: s.heal(n)),
}
"""Commands of the second kind."""
ASKING: Final = ("alter", "elect", "reassign", "fence", "heal")
"""Those after which the controller may decide something."""

WRITE: Final = "write"
WEIGHTS: Final[Mapping[str, int]] = {
    **{WRITE: 26, "read": 20, "ends": 8, "epoch_end": 8, "producers": 8},
    **{"fetch": 60, "answer": 60, "alter": 40, "altered": 40, "tell": 40},
    **{"cut": 3, "elect": 3, "reassign": 1, "fence": 1, "heal": 15},
}
"""How often, relative to others. A fence takes a session's time; other steps are often not possible."""


def draw(random: Random) -> RandomCommand:
    """A command."""
    (kind,) = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
    if kind == "reassign":
        return RandomCommand(kind, "1", random.choice(ORDERS))
    n = str(random.choice(REPLICAS))
    if kind in STEPS:
        return RandomCommand(kind, n, yes=random.random() < 0.8)
    made = RandomCommand(
        kind,
        n if random.random() < 0.2 else LEADER,
        records=random.choice((1, 1, 1, 2, 3)),
        yes=random.random() < 0.5,
        number=random.choice((-1, -1, -1, 1, 1, 0)) if kind == WRITE else random.randrange(6),
        other=random.choice(("", "A", "A", "B")) if kind == WRITE else "",
    )
    if random.random() < DEVIATES:
        made = made._replace(epoch=random.choice((-1, 1)))
    if kind == WRITE and random.random() < DEVIATES:
        made = made._replace(sequence=random.choice((-2, -1, 1)))
    return made
