"""Three brokers of the model, sessions over a client's program, and what the logs really hold."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from core.client_settings import SessionSpec
from core.config import run_config
from core.op import Isolation, TopicPartition
from core.payload import Foreign, decode, encode
from core.runtime import run_blocking
from core.session import Acked, Definite, Delivery, EndReached, Fetched, Indefinite, Record
from harness.clients.command.named import needs
from harness.clients.command.protocol import Can
from harness.clients.command.session import CommandSession
from harness.clients.command.speaker import Speaker
from harness.clients.librdkafka.session import connect
from harness.modelled.real.cluster import ModelCluster
from harness.processes.waiting import NotYet, until

DEADLINE_S: Final = 10.0
"""Of a verb."""
PATIENCE_S: Final = 30.0
"""For what may take several polls."""
RUN: Final = "client-test"
SIZE: Final = 100


class CaseUnmet(Exception):
    """The client did not do what a case asks of it. The message says what it did."""


class Lacking(Exception):
    """The client says that it cannot do what a case needs."""


def must(condition: object, why: str) -> None:
    """Raises: Unmet, where the condition does not hold."""
    if not condition:
        raise CaseUnmet(why)


@dataclass
class ConformanceStage:
    """The brokers, and the program as its author starts it. lacks: what the program says it cannot do."""

    cluster: ModelCluster
    words: Sequence[str]
    log: Path
    lacks: frozenset[Can] = frozenset()
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _opened: list[CommandSession] = field(default_factory=list)
    _speakers: list[Speaker] = field(default_factory=list)

    def session(self, **settings: Any) -> CommandSession:
        """A session over a new process of the program. Raises: ClientLost, Lacking, Definite, Indefinite."""
        spec = SessionSpec(
            **{"slot": 0, "process": next(self._numbers), "deadline_s": DEADLINE_S, **settings}
        )
        if lacking := [need.value for need in needs(spec) if need in self.lacks]:
            raise Lacking(", ".join(lacking))
        speaker = Speaker(self.words, self.log)
        self._speakers.append(speaker)
        made = CommandSession(self.cluster.endpoint().args, spec, speaker, connect)
        self._opened.append(made)
        return made

    def producer(self, **settings: object) -> CommandSession:
        """A producer with acks=all."""
        return self.session(acks=-1, **settings)

    def consumer(self, isolation: Isolation = Isolation.READ_COMMITTED, **settings: Any) -> CommandSession:
        """A consumer."""
        return self.session(isolation=isolation, **settings)

    def close(self) -> None:
        """Close what was opened since the last call. Raises: ClientLost, where a program cannot."""
        opened, self._opened = self._opened, []
        for session in opened:
            run_blocking(session.close())
        for session in opened:
            session.events()

    def end(self) -> None:
        """End all programs, also those that stand still."""
        for speaker in self._speakers:
            speaker.end()

    def drop(self, session: CommandSession) -> None:
        """Close one of them now. Raises: ClientLost."""
        self._opened.remove(session)
        run_blocking(session.close())
        session.events()

    def name(self) -> str:
        """A name of a topic, a group or a transactional id."""
        return f"{RUN}-{next(self._numbers)}"

    def topic(self, partitions: int = 1) -> tuple[TopicPartition, ...]:
        """The partitions of a new topic."""
        name = self.name()
        run_blocking(self.cluster.create_topic(name, partitions, 3, {"min.insync.replicas": "2"}))
        return tuple(TopicPartition(name, n) for n in range(partitions))

    def filled(self, count: int, partitions: int = 1) -> tuple[TopicPartition, ...]:
        """The partitions of a new topic with `count` records in each, which librdkafka sent."""
        tps = self.topic(partitions)
        spec = SessionSpec(slot=0, process=next(self._numbers), acks=-1, deadline_s=PATIENCE_S)
        writer = connect(self.cluster.endpoint().args, spec)
        for tp in tps:
            sent = run_blocking(writer.send(records(tp, count)))
            assert all(isinstance(one, Acked) for one in sent), sent
        run_blocking(writer.close())
        return tps

    def revive(self, node: int) -> None:
        """Start a broker again; returns when all brokers see it. Raises: NotYet."""
        run_blocking(self.cluster.revive([node]))
        until(PATIENCE_S, 0.1, self._whole)

    def _whole(self) -> None:
        roles = run_blocking(self.cluster.roles())
        whole = all(len(isr) == len(self.cluster.brokers) for isr in roles.isr.values())
        if not (roles.agreed and whole):
            raise NotYet("a broker is missing")

    def log_of(self, tp: TopicPartition, isolation: Isolation) -> dict[int, int | Foreign]:
        """What librdkafka reads of a partition up to its end: value by offset."""
        spec = SessionSpec(
            slot=0, process=next(self._numbers), isolation=isolation, report_end=True, deadline_s=PATIENCE_S
        )
        reader = connect(self.cluster.endpoint().args, spec)
        run_blocking(reader.assign({tp: -2}))
        found: dict[int, int | Foreign] = {}
        end = monotonic() + PATIENCE_S
        while monotonic() < end:
            for one in run_blocking(reader.poll(500, 100)):
                found[one.offset] = decode(RUN, tp, one.payload)
            if any(isinstance(event, EndReached) for event in reader.events()):
                break
        run_blocking(reader.close())
        return found


def records(tp: TopicPartition, count: int, first: int = 0) -> list[Record]:
    """Records that describe themselves, with values from `first` on."""
    return [Record(tp, n, encode(RUN, tp, n, SIZE)) for n in range(first, first + count)]


def send(session: CommandSession, sent: Sequence[Record]) -> list[Delivery]:
    """Send, and one delivery each. Raises: ClientLost."""
    deliveries = run_blocking(session.send(sent))
    session.events()
    return deliveries


def acked(session: CommandSession, sent: Sequence[Record]) -> list[int]:
    """Send, and the offsets. Raises: Unmet, where a record was not acknowledged."""
    found = []
    for delivery in send(session, sent):
        if not isinstance(delivery, Acked):
            raise CaseUnmet(f"a record was not acknowledged, though nothing is broken: {delivery}")
        found.append(delivery.offset)
    return found


def read(session: CommandSession, count: int) -> list[Fetched]:
    """Poll until `count` records came. Raises: Unmet, where they do not."""
    found: list[Fetched] = []
    end = monotonic() + PATIENCE_S
    while len(found) < count:
        must(monotonic() < end, f"polls returned {len(found)} of {count} records in {PATIENCE_S:g} s")
        found += run_blocking(session.poll(500, 200))
    return found


def error_of(call: Callable[[], object]) -> Definite | Indefinite | None:
    """The outcome of a verb that may fail; None = it is `ok`."""
    try:
        call()
    except (Definite, Indefinite) as error:
        return error
    return None


@contextmanager
def brokers(folder: Path) -> Iterator[ModelCluster]:
    """Three brokers of the model. Raises: ClusterError."""
    cluster = ModelCluster(run_config({"sut": "model", "seed": 1}), folder)
    try:
        run_blocking(cluster.start())
        yield cluster
    finally:
        run_blocking(cluster.stop())
