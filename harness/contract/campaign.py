"""Many examples against one real broker: several at a time, each with a topic and ids that are new.

The brokers of one cluster serve all examples, so nothing is restarted. What an example leaves behind (open
transactions, groups) belongs to names that no other example has.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from core.op import Isolation, TopicPartition
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import Brokers
from harness.contract import examples
from harness.contract.commands import Situation
from harness.contract.dialect import Dialect
from harness.contract.differences import Known, bugs_of
from harness.contract.examples import CommandSequence, Difference, Played
from harness.contract.shrink import shrunk
from harness.contract.sides import BROKER, ModelSide, RealSide, settings_of
from harness.contract.versions import Version
from harness.processes.waiting import NotYet, until
from model.protocol.coordinator_messages import FindCoordinator, InitProducerId
from model.protocol.requests import ErrorResponse

WORKERS: Final = 16
"""Examples at once: nearly all of their time they wait for answers."""
PARTITIONS: Final = 2
"""Of the topic of an example."""
TOPICS: Final = 60
"""Created at once."""
READY_S: Final = 60.0
POLL_S: Final = 0.1
EXAMPLE_S: Final = 600.0
"""Deadline of an example's connections."""
ENOUGH: Final = 3
"""Unexplained differences after which no further example begins."""
SAY_EVERY_S: Final = 20.0
SHRINK_S: Final = 900.0
"""So long an example with a difference is made smaller: one with held messages takes a minute to play."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class UnexplainedDifference:
    """An unexplained difference. number: of the example that showed it first, `example` the smallest one."""

    number: int
    example: CommandSequence
    difference: Difference

    @property
    def text(self) -> str:
        """In words."""
        commands = [f"    {one.text}" for one in self.example.commands[: self.difference.after + 1]]
        version = self.example.transaction_version
        head = f"example {self.number}, transaction version {version}, after these commands:"
        return "\n".join([head, *commands, f"  {self.difference.text}"])


@dataclass(slots=True)
class CampaignResult:
    """What the examples brought. answers: by kind of request and error. explained: by the planted bug in
    differences.toml. left_out: examples that count for nothing."""

    examples: int = 0
    left_out: int = 0
    requests: int = 0
    looks: int = 0
    seconds: float = 0.0
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    failures: list[UnexplainedDifference] = field(default_factory=list)

    def add(self, played: Played) -> None:
        """One more example."""
        if played.left_out:
            self.left_out += 1
            return
        self.examples += 1
        self.requests += played.requests
        self.looks += played.looks
        self.answers += played.answers
        self.explained.update([played.explained] if played.explained else ())

    @property
    def text(self) -> str:
        """One line."""
        explained = sum(self.explained.values())
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        return (
            f"{self.requests} requests in {self.examples} examples{left_out}, {self.looks} looks at the "
            f"state, {len(self.answers)} kinds of answers, {explained} explained differences, "
            f"{len(self.failures)} unexplained; {self.seconds:.0f} s"
        )


class Topics:
    """Topics of the real broker that no example has used, each of two partitions."""

    def __init__(self, brokers: Brokers, run: str) -> None:
        self._brokers, self._run = brokers, run
        self._lock = threading.Lock()
        self._created = 0
        self._left: list[str] = []

    def take(self) -> str:
        """One of them. Raises: ClusterError, NotYet."""
        with self._lock:
            if not self._left:
                self._create()
            return self._left.pop()

    def _create(self) -> None:
        self._left = [f"{self._run}-{self._created + n}" for n in range(TOPICS)]
        self._created += TOPICS
        broker_views.request_topics(self._brokers, self._left, PARTITIONS, 1, {}, READY_S)
        tps = {TopicPartition(topic, number): 0 for topic in self._left for number in range(PARTITIONS)}

        def led() -> None:
            with self._brokers.connect(BROKER, READY_S) as connection:
                found = protocol.offsets(connection, tps, Isolation.READ_UNCOMMITTED, protocol.LATEST)
            if len(found) < len(tps):
                raise NotYet(f"only {len(found)} of {len(tps)} new partitions are led")

        until(READY_S, POLL_S, led)


class Campaign:
    """See the module. brokers: of a cluster of one. run: makes names unique on it. workers: how many
    examples are played at once."""

    workers = WORKERS

    def __init__(
        self, brokers: Brokers, version: Version, run: str, seed: int, listed: tuple[Known, ...], say: Say
    ) -> None:
        self._brokers, self._version, self._run, self._seed = brokers, version, run, seed
        self._bugs, self._say = bugs_of(version.kafka, listed), say
        self._topics = Topics(brokers, run)
        self._lock = threading.Lock()
        self._numbers = 0
        self._names = 0
        self._said = 0.0
        self._ended = False

    def run(self, requests: int, outcome: CampaignResult, versions: Sequence[int]) -> None:
        """Play examples until this many more requests were compared, as many of each of these transaction
        versions. outcome: gets what they bring. The coordinators are there (`wait_for_coordinators`).

        Raises: AdminError, ClusterError, NotYet.
        """
        began = self._said = time.monotonic()
        before = outcome.requests
        for turn, spoken in enumerate(versions, 1):
            self._play_all(spoken, before + requests * turn // len(versions), outcome)
        outcome.seconds += time.monotonic() - began

    def _play_all(self, spoken: int, requests: int, outcome: CampaignResult) -> None:
        """Examples of one transaction version. Those of two must not run at once: a leader that asks a
        coordinator about several transactions treats all answers as the version of the first one has it, so
        which error a client gets depends on its neighbours (docs/findings/mixed-client-versions.md)."""

        def work() -> None:
            while (number := self._next(outcome, requests)) is not None:
                self._one(number, spoken, outcome)

        with ThreadPoolExecutor(self.workers) as pool:
            working = [pool.submit(work) for _ in range(self.workers)]
            try:
                for done in as_completed(working):
                    done.result()
            except BaseException:  # an interrupt too: the others end after the example that they play
                self._ended = True
                self._say(f"ended early: {outcome.text}")
                raise

    def _next(self, outcome: CampaignResult, requests: int) -> int | None:
        with self._lock:
            if self._ended or outcome.requests >= requests or len(outcome.failures) >= ENOUGH:
                return None
            if time.monotonic() - self._said > SAY_EVERY_S:
                self._said = time.monotonic()
                self._say(f"{outcome.requests} of {requests} requests")
            self._numbers += 1
            return self._numbers

    def _one(self, number: int, spoken: int, outcome: CampaignResult) -> None:
        example = self.drawn(number, spoken)
        played = self.play(example)
        with self._lock:
            outcome.add(played)
        if played.difference is not None and not played.explained:
            self._fail(number, example, played.difference, outcome)

    def _fail(
        self, number: int, example: CommandSequence, difference: Difference, outcome: CampaignResult
    ) -> None:
        """Make the example smaller, as long as the same kind of answer differs, and for `SHRINK_S`; an
        interrupt ends it, too."""
        self._say(f"example {number}: {difference.text}")
        smallest = [difference]
        last = time.monotonic() + SHRINK_S

        def fails(candidate: CommandSequence) -> bool:
            if self._ended or time.monotonic() > last:
                return False
            played = self.play(candidate)
            found = played.difference
            if found is None or found.kind != difference.kind or played.explained:
                return False
            smallest[0] = found
            return True

        small = shrunk(example._replace(commands=example.commands[: difference.after + 1]), fails)
        failure = UnexplainedDifference(number, small, smallest[0])
        self._say(failure.text)  # at once: a later example may fail to run
        with self._lock:
            outcome.failures.append(failure)

    def drawn(self, number: int, spoken: int) -> CommandSequence:
        """The example of a number, for clients of a transaction version."""
        return examples.drawn(self._seed, number, spoken)

    def play(self, example: CommandSequence) -> Played:
        """Play an example under new names. Raises: AdminError, ClusterError, NotYet."""
        topic = self._topics.take()
        with self._lock:
            self._names += 1
            name = f"{self._run}-{self._names}"
        spoken = example.transaction_version
        modelled = Modelled(self._version, name, topic, spoken)
        with ExitStack() as opened:
            connect = partial(self._brokers.connect, BROKER, EXAMPLE_S)
            dialect = Dialect(spoken, self._version.marker_version)
            real = RealSide(lambda: opened.enter_context(connect()), dialect)
            played = examples.play(example, modelled.situation(), modelled.side(), real)
        if played.difference is not None:
            played.explained = modelled.explanation(example, played.difference, self._bugs)
        return played


class Modelled(NamedTuple):
    """The model's side of examples. name: on the real broker, with a topic."""

    version: Version
    name: str
    topic: str
    transaction_version: int

    def situation(self) -> Situation:
        """Before an example."""
        return Situation(self.name, self.topic, self.transaction_version)

    def side(self, *bugs: str) -> ModelSide:
        """A new broker, with planted bugs."""
        settings = settings_of(self.version.era_of(self.transaction_version), frozenset(bugs))
        return ModelSide(settings, self.topic, PARTITIONS)

    def explanation(self, example: CommandSequence, difference: Difference, bugs: Iterable[str]) -> str:
        """The first of these planted bugs by which the model would differ from itself just as the real broker
        does: at the same command, with the same answer, and nowhere before. "" = none."""
        for bug in bugs:
            planted = examples.play(example, self.situation(), self.side(), self.side(bug), rounds=1)
            if planted.difference == difference:
                return bug
        return ""


def wait_for_coordinators(brokers: Brokers) -> None:
    """The topics of the coordinators are created by the first one who asks; so are producer ids.

    Raises: AdminError, NotYet.
    """
    first = (FindCoordinator("x", True), FindCoordinator("x", False), InitProducerId(None, 0))

    def found() -> None:
        with brokers.connect(BROKER, READY_S) as connection:
            real = RealSide(lambda: connection, Dialect(1, 1))
            answers: list[ErrorResponse] = [real.ask(request) for request in first]
        if any(answer.error for answer in answers):
            raise NotYet("the broker does not coordinate")

    until(READY_S, POLL_S, found)
