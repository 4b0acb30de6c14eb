"""A client over a session that answers as told, for tests of the client loop."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.client_settings import ClientSettings, SessionSpec
from core.config import RunConfig
from core.op import Acknowledgement, Op, Outcome, Phase, Send, TopicPartition, value_of
from core.payload import encode
from core.runtime import run_blocking
from core.session import Acked, Acquisition, Answers, Delivery, Fetched, Record, SessionEvent
from harness.clients.executor import Client, Completion
from history import journal as j
from history.journal import Journal, JournalHeader

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


class Script:
    """A session that answers as told: verb → what it returns or raises."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []
        self.sent: list[Record] = []
        self.waited: list[bool] = []
        self.client = ClientSettings()
        self.fatal: str | None = None

    def _answer(self, verb: str, *args: Any, default: Any = None) -> Any:
        self.calls.append((verb, *args))
        answer = self.answers.get(verb, default)
        if isinstance(answer, Exception):
            raise answer
        return answer(*args) if callable(answer) else answer

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        values = [r.value for r in records]
        self.sent += records
        self.waited.append(wait)
        acked = [Acked(n, 1) for n in range(len(values))]
        found: list[Delivery] = self._answer("send", values, default=acked)
        return found

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        found: list[Fetched] = self._answer("poll", default=[])
        return found

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._answer("assign", dict(positions))

    async def subscribe(self, topics: Sequence[str]) -> None:
        self._answer("subscribe", tuple(topics))

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        self._answer("seek", dict(positions))

    async def position(self) -> dict[TopicPartition, int]:
        at: dict[TopicPartition, int] = self._answer("position", default={TP: 3})
        return at

    async def begin(self) -> None:
        self._answer("begin")

    async def commit(self) -> None:
        self._answer("commit")

    async def abort(self) -> None:
        self._answer("abort")

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        return int(self._answer("send_offsets", dict(positions), default=1))

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        return int(self._answer("commit_offsets", dict(positions), default=1))

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        self._answer("create_topic", topic, partitions, replication, dict(settings))

    async def acquire(self, wait_ms: int) -> Acquisition:
        found: Acquisition = self._answer("acquire", wait_ms, default=Acquisition([], 0))
        return found

    async def acknowledge(
        self, records: Mapping[TopicPartition, Sequence[tuple[int, Acknowledgement]]]
    ) -> Answers:
        ok = dict.fromkeys(records, (Outcome.OK, ""))
        found: Answers = self._answer("acknowledge", dict(records), default=ok)
        return found

    async def close(self) -> None:
        self.calls.append(("close",))

    def events(self) -> list[SessionEvent]:
        found: list[SessionEvent] = self.answers.pop("events", [])
        return found


class Ticks:
    """A clock that moves by one at each look."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        self.now += 1
        return self.now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the client loop does not sleep")


def scripted(tmp_path: Path) -> Client:
    """A client of process 5 that journals to `tmp_path`; `invoke` gives it a session."""
    spec = SessionSpec(slot=0, process=5)
    header = JournalHeader(1, "run", 5, 0, 0, spec)
    return Client(
        run="run",
        process=5,
        session=Script(),
        journal=Journal(tmp_path / "5.jsonl", header),
        clock=Ticks(),
        phase=lambda: Phase.FAULTS,
        config=RunConfig(seed=1),
    )


def sends(count: int) -> tuple[Send, ...]:
    return tuple(Send(TP, value_of(5, n)) for n in range(count))


def invoke(client: Client, op: Op, **answers: Any) -> tuple[Completion, list[str]]:
    session = Script(**answers)
    client.session = session
    done = run_blocking(client.invoke(op))
    return done, [call[0] for call in session.calls]


def lines(client: Client, tmp_path: Path) -> list[j.Line]:
    return j.read(tmp_path / "5.jsonl")


def fetched(*offsets: int, tp: TopicPartition = TP) -> list[Fetched]:
    return [Fetched(tp, offset, encode("run", tp, offset, 100), 0) for offset in offsets]


def journaled(client: Client, tmp_path: Path, *kinds: type[Any]) -> list[Any]:
    return [line for line in lines(client, tmp_path) if isinstance(line, kinds)]
