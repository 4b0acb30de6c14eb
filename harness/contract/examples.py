"""One example: a list of commands, sent to both brokers. The states are compared after commands that act
after their answer, after each third of the others that were accepted, and at the end.

The answer to a command has to be equal at once. What a broker does after its answer (markers, the record that
all are written) it may do a little later: the states have to become equal within `ROUNDS` questions, which
take about 5 s. Answers are counted, and no seconds: on a busy machine a broker is late with everything.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

import msgspec

from core.errors import ClusterError
from harness.contract.commands import RandomCommand, Situation, draw
from harness.contract.sides import ModelSide, Side
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    DescribeGroup,
    DescribeProducers,
    DescribeTransactions,
    JoinGroup,
    OffsetFetch,
    SyncGroup,
)
from model.protocol.messages import Fetch, FetchPartition, ListOffsets
from model.protocol.requests import AnyRequest, Request, Response

ROUNDS: Final = 60
PAUSES_S: Final = (0.002, 0.1)
"""The first and the longest; each is twice the one before."""
LOST: Final = {
    KafkaError.NOT_LEADER_OR_FOLLOWER.name,
    KafkaError.NOT_COORDINATOR.name,
    KafkaError.REQUEST_TIMED_OUT.name,
}
"""What no lone broker answers that runs without interruption."""
QUESTIONS: Final = ("fetch", "ends", "producers", "transactions", "committed", "group")
"""Kinds of commands that change nothing."""
LATER: Final = ("init", "end", "marker")
"""Kinds that change something after the answer, also where it is an error (CONCURRENT_TRANSACTIONS: an open
transaction is being aborted)."""
OF_MEMBERS: Final = ("join", "sync", "beat", "leave")
LOOK_EVERY: Final = 3
"""A look costs more requests than a command; what a command leaves is still there after the next two."""
LENGTHS: Final = (30, 90)
"""Least and most commands of an example, after the first one."""
BEGIN: Final = RandomCommand("init", yes=False)


class NoAnswerYet(Response, frozen=True):
    """There is no answer yet."""


class ShownCell(Response, frozen=True):
    """What one side shows that no client asks for. cell: in words."""

    cell: str


class Look(Request[ShownCell], frozen=True):
    """At what no client asks for. column: its heading."""

    column: str


class CommandSequence(NamedTuple):
    """transaction_version: what its clients speak."""

    transaction_version: int
    commands: tuple[RandomCommand, ...]


class Difference(NamedTuple):
    """The two brokers do not agree. after: number of the command in the example. state: the states after the
    command differ, not its own answers."""

    after: int
    command: RandomCommand
    request: AnyRequest
    real: Response
    modelled: Response
    state: bool

    @property
    def kind(self) -> tuple[str, bool, tuple[str, ...], tuple[str, ...]]:
        """Equal for differences of the same kind."""
        name = self.request.column if isinstance(self.request, Look) else type(self.request).__name__
        return name, self.state, tuple(errors(self.real)), tuple(errors(self.modelled))

    @property
    def text(self) -> str:
        """In words: the request, and what both say where they say different things."""
        kind = "state: " if self.state else ""
        lines = [f"{kind}{shown(self.request)}"]
        if type(self.real) is not type(self.modelled):
            return "\n".join([*lines, f"    Kafka: {shown(self.real)}", f"    model: {shown(self.modelled)}"])
        for name in self.modelled.__struct_fields__:
            real, modelled = getattr(self.real, name), getattr(self.modelled, name)
            if real != modelled:
                lines += [f"    Kafka {name}: {shown(real)}", f"    model {name}: {shown(modelled)}"]
        return "\n".join(lines)


@dataclass(slots=True)
class Played:
    """What an example brought. explained: name of the listed difference that the difference is, "" = of none.
    requests: compared commands; looks: compared looks at states. answers: how often each kind of request was
    answered with which error. left_out: it was not compared to its end, and counts for nothing."""

    difference: Difference | None = None
    explained: str = ""
    requests: int = 0
    looks: int = 0
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    left_out: bool = False


def drawn(seed: int, number: int, transaction_version: int) -> CommandSequence:
    """An example, always the same for a seed and a number. It begins with a producer id: most commands need
    one."""
    random = Random(f"contract/{seed}/{number}")
    commands = (draw(random) for _ in range(random.randint(*LENGTHS)))
    return CommandSequence(transaction_version, (BEGIN, *commands))


def play(
    example: CommandSequence, situation: Situation, modelled: ModelSide, real: Side, rounds: int = ROUNDS
) -> Played:
    """Send the commands to both, up to the first difference. rounds: how often a state is asked for that is
    not equal yet. Raises: AdminError."""
    play = _Play(situation, modelled, real, rounds)
    try:
        play.all(example.commands)
    except DiffersError as error:
        play.played.difference = error.difference
    return play.played


class DiffersError(Exception):
    """The first difference."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.text)
        self.difference = difference


class _Play:
    """An example that is being played. newest: number and command of the last one that was sent. unseen: how
    many were accepted since the last look."""

    def __init__(self, situation: Situation, modelled: ModelSide, real: Side, rounds: int) -> None:
        self.situation, self.modelled, self.real, self.rounds = situation, modelled, real, rounds
        self.played = Played()
        self.newest = (0, BEGIN)
        self.unseen = 0

    def all(self, commands: Sequence[RandomCommand]) -> None:
        """Raises: DiffersError, AdminError, ClusterError."""
        for after, command in enumerate(commands):
            request = self.situation.request(command)
            if request is not None:
                self.newest = after, command
                self.played.requests += 1
                self._one(command, request)
        for look in last_looks(self.situation, self.modelled):
            self._look(look)
        self._waiting()

    def _one(self, command: RandomCommand, request: AnyRequest) -> None:
        accepted = True
        if isinstance(request, JoinGroup | SyncGroup):
            self.modelled.send(command.who, request)
            self.real.send(command.who, request)
            self.situation.members[command.who].waits = command, request
        else:
            expected = self.modelled.ask(request)
            answer = _answer(self.real, request, expected)
            accepted = self._compare(command, request, answer, expected)
        self._waiting()
        self.unseen += accepted and command.kind not in QUESTIONS
        if command.kind in (*LATER, *OF_MEMBERS) or self.unseen == LOOK_EVERY:
            self.unseen = 0
            for look in looks(self.situation, command, self.modelled):
                self._look(look)

    def _waiting(self) -> None:
        """Compare the answers of members who waited for others."""
        for name, member in self.situation.members.items():
            if member.waits is not None:
                expected = self.modelled.taken(name)
                answer = self.real.taken(name, expected)
                if answer is not None or expected is not None:
                    self._compare(*member.waits, answer or NoAnswerYet(), expected or NoAnswerYet())

    def _compare(
        self, command: RandomCommand, request: AnyRequest, answer: Response, expected: Response
    ) -> bool:
        """Whether the request was accepted, as a whole or in part."""
        found = list(errors(expected))
        self.played.answers.update((type(request).__name__, error) for error in found)
        if answer != expected:
            raise DiffersError(Difference(*self.newest, request, answer, expected, state=False))
        self.situation.learn(command, request, expected)
        return KafkaError.NONE.name in found

    def _look(self, question: AnyRequest) -> None:
        self.played.looks += 1
        expected = self.modelled.ask(question)
        pause, longest = PAUSES_S
        for _ in range(self.rounds):
            answer = _answer(self.real, question, expected)
            if answer == expected:
                return
            time.sleep(pause)
            pause = min(2 * pause, longest)
        raise DiffersError(Difference(*self.newest, question, answer, expected, state=True))


def _answer(real: Side, request: AnyRequest, expected: Response) -> Response:
    """Raises: ClusterError, where a broker that leads everything says that it does not."""
    answer = real.ask(request, expected)
    if lost := LOST & set(errors(answer)):
        raise ClusterError(f"{type(request).__name__} was answered {lost.pop()}: the broker was held up")
    return answer


def looks(situation: Situation, command: RandomCommand, modelled: ModelSide) -> Iterator[AnyRequest]:
    """Questions about the state after a command: transactions first, whose end the others depend on. A fetch
    at the ends of the logs brings high watermarks and last stable offsets."""
    if command.kind in OF_MEMBERS:
        yield DescribeGroup(situation.group)
        return
    tps = situation.partitions
    ends = modelled.ends(tps)
    yield DescribeTransactions(situation.ids)
    yield DescribeProducers(tps)
    yield Fetch(-1, {tp: FetchPartition(ends[tp]) for tp in tps}, max_wait_ms=0)
    yield OffsetFetch(situation.group, tps)


def last_looks(situation: Situation, modelled: ModelSide) -> Iterator[AnyRequest]:
    """Questions about the state after an example: also where the logs begin and what is in them, each offset
    and the group."""
    tps = situation.partitions
    starts = modelled.starts(tps)
    yield ListOffsets(tps, earliest=True)
    yield DescribeTransactions(situation.ids)
    yield DescribeProducers(tps)
    for tp in tps:
        yield OffsetFetch(situation.group, (tp,))
    yield DescribeGroup(situation.group)
    for committed in (False, True):
        yield Fetch(-1, {tp: FetchPartition(starts[tp]) for tp in tps}, committed=committed, max_wait_ms=0)


def errors(answer: Response) -> Iterator[str]:
    """Names of the errors of an answer, or NONE."""
    error = getattr(answer, "error", None)
    if error is not None:
        yield error.name
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if isinstance(value, dict):
            for one in value.values():
                first = one[0] if isinstance(one, tuple) and one else one
                if hasattr(first, "name"):
                    yield first.name


def shown(value: object) -> str:
    """A value as a line of text."""
    if isinstance(value, msgspec.Struct):
        parts = (f"{name}={shown(getattr(value, name))}" for name in value.__struct_fields__)
        return f"{type(value).__name__}({', '.join(parts)})"
    return str(value)
