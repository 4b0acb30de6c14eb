"""The client of the in-memory cluster."""

import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Client as Connect
from typing import Any

from core.client_settings import SessionSpec, effective
from core.op import AssignmentKind, Isolation, Outcome, TopicPartition
from core.session import (
    UNAWAITED,
    Acked,
    AssignmentEvent,
    AutoCommitted,
    CommittedSeen,
    Definite,
    Delivery,
    EndReached,
    Failed,
    Fetched,
    Indefinite,
    Record,
    Session,
    SessionEvent,
    Unknown,
)
from harness.clients.librdkafka.settings import LIBRDKAFKA

AUTO_COMMIT_S = 1.0


def connect(args: dict[str, str], spec: SessionSpec) -> Session:
    """The factory named by the endpoint."""
    return MemorySession(args["path"], spec)


class MemorySession:
    """One client over one connection."""

    def __init__(self, path: str, spec: SessionSpec) -> None:
        self._connection = Connect(path, "AF_UNIX")
        self.client = effective(spec, LIBRDKAFKA)
        self._spec = spec
        self._fatal: str | None = None
        self._epoch = -1
        self._in_transaction = False
        self._positions: dict[tuple[str, int], int] = {}
        self._generation = -1
        self._joined = False
        self._waits = False
        """The group is in another generation, and has not told its offsets yet."""
        self._committed: dict[tuple[str, int], int] = {}
        self._committed_at = time.monotonic()
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

    # -- producing

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        spec = self._spec
        if spec.transactional_id is not None and not self._in_transaction:
            return [Failed("_STATE") for _ in records]
        rows = [(r.tp.topic, r.tp.partition, r.payload) for r in records]
        deadline_s = spec.deadline_s if wait else 0.0
        try:
            offsets = self._call("append", spec.transactional_id, self._epoch, rows, deadline_s)
        except (Definite, Indefinite) as error:
            return [Unknown(error.code) for _ in records]
        if not wait:
            return [Unknown(UNAWAITED) for _ in records]
        ns = time.monotonic_ns()
        return [
            Unknown("_MSG_TIMED_OUT") if o is None else Acked(o if spec.acks else -1, ns) for o in offsets
        ]

    async def begin(self) -> None:
        name = self._spec.transactional_id
        if self._epoch < 0:
            self._epoch = self._call("init", name, self._spec.transaction_timeout_s)
        self._call("begin", name, self._epoch)
        self._in_transaction = True

    async def commit(self) -> None:
        self._end(commit=True)

    async def abort(self) -> None:
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        spec = self._spec
        self._call("end", spec.transactional_id, self._epoch, commit, spec.deadline_s)
        self._in_transaction = False

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        spec = self._spec
        member = (spec.group, spec.process, self._generation)
        self._call("send_offsets", spec.transactional_id, self._epoch, *member, _plain(positions))
        return self._generation

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        self._call("create_topic", topic, partitions)

    # -- consuming

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        until = time.monotonic() + wait_ms / 1000
        committed = self._spec.isolation is Isolation.READ_COMMITTED
        if self._spec.auto_commit and time.monotonic() - self._committed_at > AUTO_COMMIT_S:
            self._auto_commit()
        self._rebalance()
        while True:
            fetched = self._call("fetch", self._positions, committed, max_records)
            found, self._positions, ended, reset = fetched
            if reset:
                self._changed(AssignmentKind.RESET, reset, -1)
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
        generation = self._call("generation", self._spec.group)
        if generation != self._generation:
            if self._positions:
                self._changed(AssignmentKind.REVOKED, self._positions, self._generation)
            self._generation, self._positions, self._waits = generation, {}, True
        if not self._waits:
            return
        begin = time.monotonic_ns()
        assigned = self._call("assignment", self._spec.group, self._spec.process)
        if assigned is None:
            return
        self._generation, mine, committed = assigned
        self._waits = False
        self._positions = {tp: committed.get(tp, 0) for tp in mine}
        # As with real clients, which ask for committed offsets once they were told of the assignment: a
        # commit that is complete before it counts, a later one may or may not.
        self._changed(AssignmentKind.ASSIGNED, mine, self._generation, begin)
        if committed:
            self._events.append(
                CommittedSeen(
                    offsets={TopicPartition(*tp): at for tp, at in committed.items()},
                    generation=self._generation,
                    begin_ns=begin,
                    ns=time.monotonic_ns(),
                )
            )

    def _changed(self, kind: AssignmentKind, tps: Any, generation: int, ns: int = 0) -> None:
        """ns: when, 0 = now."""
        names = tuple(TopicPartition(*tp) for tp in tps)
        at = ns or time.monotonic_ns()
        self._events.append(AssignmentEvent(kind=kind, tps=names, generation=generation, ns=at))

    def _auto_commit(self) -> None:
        begin, offsets = time.monotonic_ns(), dict(self._positions)
        self._committed_at = time.monotonic()
        if offsets == self._committed:
            return
        member = (self._spec.group, self._spec.process, self._generation)
        try:
            self._call("commit_offsets", *member, offsets)
            outcome, self._committed = Outcome.OK, offsets
        except Definite:
            outcome = Outcome.FAIL
        self._events.append(
            AutoCommitted(
                offsets={TopicPartition(*tp): at for tp, at in offsets.items()},
                generation=self._generation,
                outcome=outcome,
                begin_ns=begin,
                ns=time.monotonic_ns(),
            )
        )

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._positions = {tp: max(p, 0) for tp, p in _plain(positions).items()}

    async def subscribe(self, topics: Sequence[str]) -> None:
        self._call("join", self._spec.group, self._spec.process, tuple(topics))
        self._joined = True

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        for tp, position in _plain(positions).items():
            self._positions[tp] = max(position, 0)

    async def position(self) -> dict[TopicPartition, int]:
        return {TopicPartition(*tp): p for tp, p in self._positions.items()}

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        member = (self._spec.group, self._spec.process, self._generation)
        self._call("commit_offsets", *member, _plain(positions))
        return self._generation

    # -- both

    async def close(self) -> None:
        if self._connection.closed:
            return
        if self._joined:
            if self._spec.auto_commit:
                self._auto_commit()
            self._call("leave", self._spec.group, self._spec.process)
        self._connection.close()

    def events(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        return events


def _plain(positions: Mapping[TopicPartition, int]) -> dict[tuple[str, int], int]:
    return {(tp.topic, tp.partition): at for tp, at in positions.items()}
