"""The client of the in-memory cluster."""

import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Client as Connect
from typing import Any

from harness.op import AssignmentKind, Isolation, TopicPartition
from harness.session import (
    UNAWAITED,
    Acked,
    AssignmentEvent,
    Definite,
    Delivery,
    EndReached,
    Fetched,
    Indefinite,
    Record,
    Session,
    SessionEvent,
    SessionSpec,
    Unknown,
)


def connect(args: dict[str, str], spec: SessionSpec) -> Session:
    """The factory named by the endpoint."""
    return MemorySession(args["path"], spec)


class MemorySession:
    """One client over one connection."""

    def __init__(self, path: str, spec: SessionSpec) -> None:
        self._connection = Connect(path, "AF_UNIX")
        self._spec = spec
        self._fatal: str | None = None
        self._positions: dict[tuple[str, int], int] = {}
        self._generation = -1
        self._joined = False
        self._events: list[SessionEvent] = []

    @property
    def fatal(self) -> str | None:
        return self._fatal

    def _call(self, verb: str, *args: Any) -> Any:
        self._connection.send((verb, args))
        result, error = self._connection.recv()
        if error is None:
            return result
        code, kind = error
        if kind == "fatal":
            self._fatal = code
            raise Indefinite(code)
        raise Definite(code) if kind == "definite" else Indefinite(code)

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        rows = [(r.tp.topic, r.tp.partition, r.payload) for r in records]
        spec = self._spec
        try:
            offsets = self._call(
                "append", spec.process, spec.transactional_id, rows, spec.deadline_s
            )
        except (Definite, Indefinite) as error:
            return [Unknown(error.code) for _ in records]
        if not wait:
            return [Unknown(UNAWAITED) for _ in records]
        ns = time.monotonic_ns()
        return [Unknown("_MSG_TIMED_OUT") if o is None else Acked(o, ns) for o in offsets]

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        until = time.monotonic() + wait_ms / 1000
        committed = self._spec.isolation is Isolation.READ_COMMITTED
        self._rebalance()
        while True:
            found, self._positions, ended = self._call(
                "fetch", self._positions, committed, max_records
            )
            if self._spec.report_end:
                ns = time.monotonic_ns()
                for tp in ended:
                    end = EndReached(tp=TopicPartition(*tp), offset=self._positions[tp], ns=ns)
                    self._events.append(end)
            if found or time.monotonic() >= until:
                return [Fetched(TopicPartition(t, p), o, data, 0) for t, p, o, data in found]
            time.sleep(0.01)

    def _rebalance(self) -> None:
        if not self._joined:
            return
        generation, mine = self._call("assignment", self._spec.group, self._spec.process)
        if generation == self._generation:
            return
        ns = time.monotonic_ns()
        for kind, tps in (
            (AssignmentKind.REVOKED, tuple(self._positions)),
            (AssignmentKind.ASSIGNED, tuple(mine)),
        ):
            names = tuple(TopicPartition(*tp) for tp in tps)
            self._events.append(AssignmentEvent(kind=kind, tps=names, generation=generation, ns=ns))
        self._generation, self._positions = generation, mine

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._positions = {(tp.topic, tp.partition): max(p, 0) for tp, p in positions.items()}

    async def subscribe(self, topics: Sequence[str]) -> None:
        self._call("join", self._spec.group, self._spec.process, tuple(topics))
        self._joined = True

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        for tp, position in positions.items():
            self._positions[tp.topic, tp.partition] = max(position, 0)

    async def position(self) -> dict[TopicPartition, int]:
        return {TopicPartition(*tp): p for tp, p in self._positions.items()}

    async def begin(self) -> None:
        spec = self._spec
        self._call("begin", spec.process, spec.transactional_id, spec.transaction_timeout_s)

    async def commit(self) -> None:
        self._call(
            "end", self._spec.process, self._spec.transactional_id, True, self._spec.deadline_s
        )

    async def abort(self) -> None:
        self._call(
            "end", self._spec.process, self._spec.transactional_id, False, self._spec.deadline_s
        )

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        raise Definite("UNSUPPORTED_VERSION", "the in-memory cluster has no transactional offsets")

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        offsets = {(tp.topic, tp.partition): p for tp, p in positions.items()}
        self._call("commit_offsets", self._spec.group, self._generation, offsets)
        return self._generation

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        self._call("create_topic", topic, partitions)

    async def close(self) -> None:
        if self._joined:
            self._call("leave", self._spec.group, self._spec.process)
        self._connection.close()

    def events(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        return events
