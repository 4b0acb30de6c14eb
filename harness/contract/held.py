"""Random requests to three brokers between which messages are held: the campaign on `ReplicaStage`.

An example is a list of commands (`held_commands`) that drives two stages: the model's, and the stage of real
brokers on which the scenarios about replicas are played. Answers to clients are compared, and after each
command that changes something the cells of a table: what the controller decided, each replica's log, high
watermark and leader, which requests of followers and leaders wait, and who was answered of the producers that
waited. The real stage may come to the model's cells a little later, as in `examples`. Counts, shrinking and
the list of explained differences are those of the campaign on one broker (`campaign`, `shrink`): a seed and a
number are always the same example.

One example is played at a time, each on a topic of its own: fetches between two brokers lie on one lane. No
time passes in the story, except that a follower that met an error is waited for until it asks again; so the
settings (`SETTINGS`) give no member of the in-sync set, no fetch and no producer a time that runs out.

The model's followers ask for the end of their newest epoch by a request of its own, as Kafka's did up to 2.6;
from 2.7 on their fetch tells the epoch, and its answer brings that end only where logs differ (KIP-595).
`HeldModel` passes the messages of the model as those of the newer brokers: such a question whose answer cuts
nothing off arrives, with its answer, together with the fetch after it.

The controller decides nothing that no command has asked it for, unless a busy machine holds up a broker for
the time of a session. An example in which it did is left out, and said so: it compares nothing.

On Kafka 4.4.0 (November 2026) 180 examples of eight seeds, with 14,700 requests of clients, have no
difference that is left. At first differed:

- A refused AlterPartition moved the model's high watermark, and not Kafka's (`isr-refused` in docs/model,
  docs/findings/refused-expansion.md). Mended in the model.
- A follower got a high watermark one round too early. Kafka reads what it answers a fetch before it counts
  what that shows (Partition.fetchRecords). Mended in the model, as is, seen between two models, a leader that
  leads again: it asks for no set before the request of its epoch before is answered
  (AlterPartitionManager.unsentIsrUpdates).
- After an error a follower's next fetch only takes the partition out of its session, from 4.1 on once more
  where it then cuts its log back. The stage took it for a fetch of the story; now it lets it pass.
- A broker that refuses an acks=0 request closes the connection. The stage took it for a broker that is gone.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple, Self, cast

from harness.brokers.admin.connection import Brokers
from harness.contract.campaign import Campaign, Say
from harness.contract.commands import RandomCommand
from harness.contract.differences import Known
from harness.contract.examples import (
    PAUSES_S,
    ROUNDS,
    CommandSequence,
    Difference,
    DiffersError,
    Look,
    NoAnswerYet,
    Played,
    ShownCell,
    errors,
)
from harness.contract.held_commands import ASKING, QUESTIONS, REPLICAS, STEPS, WRITE, Writers, broker_of, draw
from harness.contract.scenarios import Real
from harness.contract.sides import comparable
from harness.contract.versions import Version
from harness.processes.waiting import NotYet
from model.broker import TICK_MS
from model.eras import Era
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import Fetch, OffsetForLeaderEpoch, OffsetForLeaderEpochResponse
from model.protocol.requests import AnyRequest, Response
from model.settings import Settings
from scenarios.drivers.messages import MessageInFlight
from scenarios.drivers.partition import TP, PartitionStage
from scenarios.framework import cell

LENGTHS: Final = (300, 500)
"""Least and most commands of an example."""
SESSION_MS: Final = 18_000
"""Of brokers: no scenario, whose steps are few, needs as much where a machine is busy."""
BACKOFF_TICKS: Final = 6
"""A follower that met an error asks again by then (replica.fetch.backoff.ms)."""
MOST_LEFT_OUT: Final = 10
BUSY: Final = "sessions of brokers run out; is the machine too busy?"
NONE_YET: Final = NoAnswerYet()
DECIDED: Final = ("leader", "leader epoch", "ISR", "ELR", "unfenced")
"""Columns that the controller decides."""


Reals = Callable[[str], Real]
"""By the name of an example, makes the stage of real brokers."""


def settings_of(era: Era, bugs: Iterable[str] = ()) -> Settings:
    """Of both stages; see the module."""
    return Settings(era=era, bugs=frozenset(bugs), replica_lag_ms=60_000, fetch_wait_ms=30_000)


class HeldModel(PartitionStage):
    """See the module."""

    def arrive(self, message: MessageInFlight) -> Self:
        """See `PartitionStage`."""
        asks = isinstance(message.ask.request, OffsetForLeaderEpoch) and not message.answering
        super().arrive(message)
        if asks and message in self.held and self._cuts_nothing(message):
            super().arrive(message)
            node, follower = message.ask.node, cast("int", message.sender)
            for fetch in self._of_kind(Fetch, of=follower, to=node, answering=False):
                super().arrive(fetch)
        return self

    def _cuts_nothing(self, message: MessageInFlight) -> bool:
        request: Any = message.ask.request
        replica = self.replica(TP, cast("int", message.sender))
        assert isinstance(message.answer, OffsetForLeaderEpochResponse)
        error, epoch, end = message.answer.parts[TP]
        of, asked = request.parts[TP]
        current = replica is not None and of in (-1, replica.state.leader_epoch)
        return current and not error and epoch == asked and replica is not None and end >= replica.log.end

    def tell(self, *brokers: int) -> Self:
        """See `PartitionStage`. A follower of another leader ends its fetcher, and its connection with it."""
        before = {n: self._followed(n) for n in brokers}
        super().tell(*brokers)
        for n, leader in before.items():
            if leader not in (-1, n, self._followed(n)):
                self.cut(n, at=leader)
        return self

    def _followed(self, n: int) -> int:
        replica = self.replica(TP, n)
        return replica.state.leader if replica is not None else -1

    def idle(self) -> bool:
        """A follower that will ask its leader again has nothing under way."""
        return any(self._idle(n) for n in REPLICAS)

    def _idle(self, n: int) -> bool:
        replica = self.replica(TP, n)
        if replica is None or replica.failed or replica.state.leader in (-1, n):
            return False
        return not self.sends(n) and self.asked(n) is None


def cells(s: PartitionStage) -> dict[str, str]:
    """What a stage shows that no client asks for, by heading. Raises: AdminError, NotYet."""
    state = s.state
    shown: dict[str, object] = {
        "leader": state.leader,
        "leader epoch": state.leader_epoch,
        "AR": state.replicas,
        "ISR": sorted(state.isr),
        "ELR": sorted(state.elr),
        "unfenced": sorted(s.unfenced),
    }
    for n in REPLICAS:
        replica = s.replica(TP, n)
        assert replica is not None, f"broker {n} shows no replica"
        shown[f"log {n}"] = [_batch(one) for one in replica.log.batches]
        shown[f"HW {n}"] = replica.high_watermark
        shown[f"leader, as {n} knows"] = f"{replica.state.leader}, epoch {replica.state.leader_epoch}"
        shown[f"{n} asks its leader"] = replica.state.leader not in (-1, n) and s.sends(n)
        shown[f"AlterPartition of {n}"] = s.altering(n)
    return {heading: cell(value) for heading, value in shown.items()}


def _batch(batch: RecordBatch) -> str:
    return f"{batch.base}:{'+'.join(map(str, batch.records))}@{batch.epoch}"


def last_cells(s: PartitionStage) -> dict[str, str]:
    """Those of the end of an example."""
    return cells(s) | {f"epochs {n}": cell([str(one) for one in s.epochs(n) or ()]) for n in REPLICAS}


def drawn(seed: int, number: int, modelled: HeldModel) -> tuple[RandomCommand, ...]:
    """Commands of an example, always the same for a seed and a number, on a new stage. Those that are not
    possible there when their turn comes are left out."""
    random = Random(f"held/{seed}/{number}")
    commands = tuple(draw(random) for _ in range(random.randint(*LENGTHS)))
    play = _HeldPlay(modelled, modelled.again(modelled.settings), 1)
    play.all(commands)
    return tuple(commands[at] for at in play.done)


class HeldUpError(Exception):
    """The controller decided something that no command asked it for; see the module."""


class _Asked(NamedTuple):
    """A request that no side may have answered yet."""

    request: AnyRequest
    modelled: list[Any]
    real: list[Any]


def play(example: CommandSequence, modelled: HeldModel, real: PartitionStage, rounds: int) -> Played:
    """Drive both stages, up to the first difference. rounds: see `examples.play`. Raises: AdminError."""
    play = _HeldPlay(modelled, real, rounds)
    try:
        play.all(example.commands)
    except DiffersError as error:
        play.played.difference = error.difference
    return play.played


class _HeldPlay:
    """An example that is being played. done: numbers of the commands that were possible."""

    def __init__(self, modelled: HeldModel, real: PartitionStage, rounds: int) -> None:
        self.done: list[int] = []
        self.modelled, self.real, self.rounds = modelled, real, rounds
        self.played = Played()
        self.writers = Writers()
        self.waiting: list[_Asked] = []

    def all(self, commands: Sequence[RandomCommand]) -> None:
        """Raises: DiffersError, AdminError, ClusterError."""
        for self.after, self.command in enumerate(commands):
            n = broker_of(self.modelled, self.command)
            if n >= 0 and self._one(n):
                self.done.append(self.after)
        self._look(last=True)

    def _one(self, n: int) -> bool:
        """Whether the command was possible."""
        command = self.command
        if command.kind in STEPS:
            return self._step(n)
        if command.kind == WRITE:
            self._write(n)
            return True
        question = QUESTIONS[command.kind](self.modelled, command, n)
        if question is not None:
            self._ask(question, n)
            self._answers()
        return question is not None

    def _write(self, n: int) -> None:
        command, replica = self.command, self.modelled.replica(TP, n)
        assert replica is not None, f"broker {n} has no replica"
        request = self.writers.request(command, replica.log)
        self._ask(request, n)
        (*_, asked) = self.waiting
        refused = any(error != KafkaError.NONE.name for one in asked.modelled for error in errors(one))
        if not refused and (request.acks or replica.leads):
            self.writers.learn(command, request)
        if not request.acks:
            self.waiting.remove(asked)
            self.played.answers[type(request).__name__, "no answer"] += 1
        self._look()

    def _step(self, n: int) -> bool:
        step, kind = STEPS[self.command.kind], self.command.kind
        if not step.may(self.modelled, self.command, n):
            return False
        step.do(self.modelled, self.command, n)
        try:
            step.do(self.real, self.command, n)
        except (AssertionError, NotYet) as error:  # what the step waits for does not happen
            self._differs(
                Look(f"step {kind}"), ShownCell(str(error)), ShownCell("comes to its end"), state=False
            )
        for _ in range(BACKOFF_TICKS):
            if not self.modelled.idle():
                break
            self.modelled.wait(TICK_MS)
            self.real.wait(TICK_MS)
        self.played.answers["step", kind] += 1
        self._look()
        return True

    def _ask(self, request: AnyRequest, n: int) -> None:
        self.played.requests += 1
        asked = _Asked(request, [], [])
        self.waiting.append(asked)
        self.modelled.deliver("", request, n, asked.modelled.append)
        try:
            self.real.deliver("", request, n, asked.real.append)
        except NotYet as error:
            self._differs(request, ShownCell(str(error)), ShownCell("is taken"), state=False)

    def _answers(self) -> None:
        """Compare the answers that clients have, and those that they have not."""
        for one in list(self.waiting):
            expected, found = ((*map(comparable, side), NONE_YET)[0] for side in one[1:])
            if found != expected:
                self._differs(one.request, found, expected, state=False)
            if expected is not NONE_YET:
                self.waiting.remove(one)
                self.played.answers.update((type(one.request).__name__, error) for error in errors(expected))

    def _look(self, *, last: bool = False) -> None:
        self.played.looks += 1
        show = last_cells if last else cells
        expected, found = show(self.modelled), dict[str, str]()
        pause, longest = PAUSES_S
        for left in reversed(range(self.rounds)):
            try:
                self.real.flow()
                found = show(self.real)
                if found == expected:
                    self._answers()
                    return
            except (AssertionError, NotYet) as error:
                found = dict.fromkeys(expected, str(error))
            except DiffersError:
                if not left:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, longest)
        heading = next(one for one in expected if found[one] != expected[one])
        if heading in DECIDED and self.command.kind not in ASKING:
            raise HeldUpError
        self._differs(Look(heading), ShownCell(found[heading]), ShownCell(expected[heading]), state=True)

    def _differs(self, request: AnyRequest, real: Response, modelled: Response, *, state: bool) -> None:
        raise DiffersError(Difference(self.after, self.command, request, real, modelled, state))


class HeldCampaign(Campaign):
    """See the module."""

    workers = 1

    def __init__(
        self, real: Reals, version: Version, run: str, seed: int, listed: tuple[Known, ...], say: Say
    ) -> None:
        super().__init__(Brokers({}), version, run, seed, listed, say)
        self._real, self._numbers_played = real, count(1)
        self._left_out = 0
        """Examples in turn, up to now."""

    def drawn(self, number: int, spoken: int) -> CommandSequence:
        """See `Campaign`."""
        nothing = CommandSequence(spoken, ())
        return nothing._replace(commands=drawn(self._seed, number, self._model(nothing)))

    def play(self, example: CommandSequence) -> Played:
        """Play an example on a new topic. Raises: AdminError, ClusterError, NotYet."""
        modelled = self._model(example)
        real = self._real(f"{self._run}-{next(self._numbers_played)}")(modelled)
        assert isinstance(real, PartitionStage)
        try:
            played = play(example, modelled, real, ROUNDS)
        except HeldUpError:
            self._say("a broker was held up: this example is left out")
            self._left_out += 1
            if self._left_out == MOST_LEFT_OUT:
                raise NotYet(f"{MOST_LEFT_OUT} examples in turn compared nothing: {BUSY}") from None
            return Played(left_out=True)
        self._left_out = 0
        for bug in self._bugs if played.difference is not None else ():
            planted = play(example, self._model(example), self._model(example, bug), 1)
            if planted.difference == played.difference:
                played.explained = bug
                break
        return played

    def _model(self, example: CommandSequence, *bugs: str) -> HeldModel:
        era = self._version.era_of(example.transaction_version)
        return HeldModel(REPLICAS, settings_of(era, bugs))
