"""One example: a list of commands, sent to both brokers. The states are compared after commands that change
something, and after the last one.

The answer to a command has to be equal at once. What a broker does after its answer (markers, the record that
all are written) it may do a little later: the states have to become equal within `SETTLE_S`.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from core.errors import ClusterError
from harness.contract.commands import Command, Situation, draw
from harness.contract.sides import ModelSide, Side
from model.errors import KafkaError
from model.protocol.coordinator_messages import DescribeProducers, DescribeTransactions, OffsetFetch
from model.protocol.messages import Fetch, FetchPartition, Partition
from model.protocol.requests import AnyRequest, Response

SETTLE_S: Final = 5.0
PAUSE_S: Final = 0.002
LOST: Final = {
    KafkaError.NOT_LEADER_OR_FOLLOWER.name,
    KafkaError.NOT_COORDINATOR.name,
    KafkaError.REQUEST_TIMED_OUT.name,
}
"""What no lone broker answers that runs without interruption."""
QUESTIONS: Final = ("fetch", "ends", "producers", "transactions", "committed")
"""Kinds of commands that change nothing."""
LATER: Final = ("init", "end", "marker")
"""Kinds that change something after the answer, also where it is an error (CONCURRENT_TRANSACTIONS: an open
transaction is being aborted)."""
CHANGE_OFFSETS: Final = (*LATER, "txn_offsets", "offsets")
LENGTHS: Final = (20, 60)
"""Least and most commands of an example, after the first one."""
BEGIN: Final = Command("init", yes=False)


class Example(NamedTuple):
    """transaction_version: what its clients speak."""

    transaction_version: int
    commands: tuple[Command, ...]


class Difference(NamedTuple):
    """The two brokers do not agree. after: number of the command in the example. state: the states after the
    command differ, not its own answers."""

    after: int
    command: Command
    request: AnyRequest
    real: Response
    modelled: Response
    state: bool

    @property
    def kind(self) -> tuple[str, bool, tuple[str, ...], tuple[str, ...]]:
        """Equal for differences of the same kind."""
        name = type(self.request).__name__
        return name, self.state, tuple(errors(self.real)), tuple(errors(self.modelled))

    @property
    def text(self) -> str:
        """In words: the request, and what both say where they say different things."""
        kind = "state: " if self.state else ""
        lines = [f"{kind}{shown(self.request)}"]
        for name in self.modelled.__struct_fields__:
            real, modelled = getattr(self.real, name), getattr(self.modelled, name)
            if real != modelled:
                lines += [f"    Kafka {name}: {shown(real)}", f"    model {name}: {shown(modelled)}"]
        return "\n".join(lines)


@dataclass(slots=True)
class Played:
    """What an example brought. requests: compared commands; looks: compared looks at states. answers: how
    often each kind of request was answered with which error."""

    difference: Difference | None = None
    requests: int = 0
    looks: int = 0
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)


def drawn(seed: int, number: int, transaction_version: int) -> Example:
    """An example, always the same for a seed and a number. It begins with a producer id: most commands need
    one."""
    random = Random(f"contract/{seed}/{number}")
    commands = (draw(random) for _ in range(random.randint(*LENGTHS)))
    return Example(transaction_version, (BEGIN, *commands))


def play(example: Example, situation: Situation, modelled: ModelSide, real: Side) -> Played:
    """Send the commands to both, up to the first difference. Raises: AdminError."""
    played = Played()
    newest = (0, BEGIN)
    for after, command in enumerate(example.commands):
        request = situation.request(command)
        if request is None:
            continue
        newest = after, command
        expected = modelled.ask(request)
        answer = _answer(real, request, expected)
        played.requests += 1
        found = list(errors(expected))
        played.answers.update((type(request).__name__, error) for error in found)
        if answer != expected:
            played.difference = Difference(after, command, request, answer, expected, state=False)
            return played
        situation.learn(command, request, expected)
        if command.kind in LATER or (command.kind not in QUESTIONS and KafkaError.NONE.name in found):
            ends = modelled.ends(situation.partitions)
            _look(newest, looks(situation, command, ends), modelled, real, played)
        if played.difference is not None:
            return played
    _look(newest, last_looks(situation), modelled, real, played)
    return played


def _look(
    newest: tuple[int, Command],
    questions: Iterable[AnyRequest],
    modelled: ModelSide,
    real: Side,
    played: Played,
) -> None:
    """Compare states, up to the first difference. newest: the last command that was sent."""
    for question in questions:
        played.looks += 1
        expected = modelled.ask(question)
        answer = _settled(real, question, expected)
        if answer != expected:
            played.difference = Difference(*newest, question, answer, expected, state=True)
            return


def _answer(real: Side, request: AnyRequest, expected: Response | None) -> Response:
    """Raises: ClusterError, where a broker that leads everything says that it does not."""
    answer = real.ask(request, expected)
    if lost := LOST & set(errors(answer)):
        raise ClusterError(f"{type(request).__name__} was answered {lost.pop()}: the broker was held up")
    return answer


def _settled(real: Side, look: AnyRequest, expected: Response) -> Response:
    """The answer, as soon as it is the expected one; the last one, where it does not become that."""
    deadline = time.monotonic() + SETTLE_S
    while (answer := _answer(real, look, None)) != expected and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    return answer


def looks(situation: Situation, command: Command, ends: Mapping[Partition, int]) -> Iterator[AnyRequest]:
    """Questions about the state after a command: transactions first, whose end the others depend on. A fetch
    at the ends of the logs brings high watermarks and last stable offsets. ends: by the model."""
    tps = situation.partitions
    yield DescribeTransactions(situation.ids)
    yield DescribeProducers(tps)
    yield Fetch(-1, {tp: FetchPartition(ends[tp]) for tp in tps}, max_wait_ms=0)
    if command.kind in CHANGE_OFFSETS:
        yield OffsetFetch(situation.group, tps)


def last_looks(situation: Situation) -> Iterator[AnyRequest]:
    """Questions about the state after an example: also what is in the logs, and each offset."""
    tps = situation.partitions
    yield DescribeTransactions(situation.ids)
    yield DescribeProducers(tps)
    for tp in tps:
        yield OffsetFetch(situation.group, (tp,))
    for committed in (False, True):
        yield Fetch(-1, {tp: FetchPartition(0) for tp in tps}, committed=committed, max_wait_ms=0)


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


def shown(value: Any) -> str:
    """A value as a line of text."""
    if isinstance(value, msgspec.Struct):
        parts = (f"{name}={shown(getattr(value, name))}" for name in value.__struct_fields__)
        return f"{type(value).__name__}({', '.join(parts)})"
    return str(value)
