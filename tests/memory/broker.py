"""The logs, transactions and groups of the in-memory cluster, all under one lock."""

import threading
import time
from dataclasses import dataclass, field
from enum import Enum

from harness.events import OpenTransaction

BUG_EVERY = 40
"""A planted bug strikes at every so-manyth record of a partition."""


class Error(Exception):
    """A verb failed: `kind` is definite, indefinite or fatal."""

    def __init__(self, code: str, kind: str = "definite") -> None:
        super().__init__(code)
        self.code = code
        self.kind = kind


class State(Enum):
    PLAIN = 0
    OPEN = 1
    COMMITTED = 2
    ABORTED = 3
    GONE = 4


@dataclass(slots=True)
class Entry:
    payload: bytes
    state: State


@dataclass(slots=True)
class Transaction:
    owner: int
    entries: list[tuple[tuple[str, int], int]] = field(default_factory=list)
    began: float = 0.0
    open: bool = False
    timeout_s: float = 10.0


@dataclass(slots=True)
class Group:
    generation: int = 0
    members: dict[int, tuple[str, ...]] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)


class Broker:
    """Everything that is shared. Times out verbs by itself; callers only pass their deadline."""

    def __init__(self, nodes: int, bug: str) -> None:
        self.nodes = tuple(range(1, nodes + 1))
        self.bug = bug
        self.down: set[int] = set()
        self.frozen: set[int] = set()
        self.cut_off: set[int] = set()
        self.logs: dict[tuple[str, int], list[Entry]] = {}
        self.transactions: dict[str, Transaction] = {}
        self.groups: dict[str, Group] = {}
        self.lock = threading.Condition()

    def create_topic(self, topic: str, partitions: int) -> None:
        with self.lock:
            if (topic, 0) in self.logs:
                raise Error("TOPIC_ALREADY_EXISTS", "indefinite")
            for partition in range(partitions):
                self.logs[topic, partition] = []

    def leader(self, tp: tuple[str, int]) -> int:
        turn = (tp[1] + len(tp[0])) % len(self.nodes)
        order = self.nodes[turn:] + self.nodes[:turn]
        bad = self.down | self.frozen | self.cut_off
        return next((node for node in order if node not in bad), -1)

    def _await_leader(self, tp: tuple[str, int], until: float) -> bool:
        return self.lock.wait_for(
            lambda: self.leader(tp) > 0, timeout=max(0.0, until - time.monotonic())
        )

    # -- producing

    def append(
        self,
        owner: int,
        txn_id: str | None,
        records: list[tuple[str, int, bytes]],
        deadline_s: float,
    ) -> list[int | None]:
        """Offset of each record, None where the deadline passed."""
        until = time.monotonic() + deadline_s
        offsets: list[int | None] = []
        with self.lock:
            txn = self._owned(owner, txn_id) if txn_id else None
            for topic, partition, payload in records:
                tp = (topic, partition)
                if not self._await_leader(tp, until):
                    offsets.append(None)
                    continue
                offsets.append(self._append_one(tp, payload, txn))
        return offsets

    def _append_one(self, tp: tuple[str, int], payload: bytes, txn: Transaction | None) -> int:
        log = self.logs[tp]
        state = State.OPEN if txn else State.PLAIN
        log.append(Entry(payload, state))
        offset = len(log) - 1
        if txn:
            txn.entries.append((tp, offset))
        if offset % BUG_EVERY == BUG_EVERY - 1:
            if self.bug == "lose":
                log[offset].state = State.GONE
            elif self.bug == "duplicate":
                log.append(Entry(payload, State.PLAIN if not txn else State.OPEN))
                if txn:
                    txn.entries.append((tp, offset + 1))
            elif self.bug == "swap":
                log[offset], log[offset - 1] = log[offset - 1], log[offset]
        return offset

    # -- transactions

    def begin(self, owner: int, txn_id: str, timeout_s: float) -> None:
        with self.lock:
            txn = self.transactions.get(txn_id)
            if txn is None or txn.owner < owner:
                if txn is not None and txn.open:
                    self._end(txn, State.ABORTED)
                txn = self.transactions[txn_id] = Transaction(owner)
            self._owned(owner, txn_id)
            txn.open, txn.began, txn.timeout_s = True, time.monotonic(), timeout_s

    def end(self, owner: int, txn_id: str, commit: bool, deadline_s: float) -> None:
        until = time.monotonic() + deadline_s
        with self.lock:
            txn = self._owned(owner, txn_id)
            if not self._await_leader(("__transaction_state", 0), until):
                raise Error("_TIMED_OUT", "indefinite")
            self._end(txn, State.COMMITTED if commit else State.ABORTED)

    def open_transactions(self, tps: list[tuple[str, int]]) -> list[OpenTransaction]:
        with self.lock:
            found: dict[tuple[str, tuple[str, int]], OpenTransaction] = {}
            for name, txn in self.transactions.items():
                for tp, offset in txn.entries:
                    if txn.open and tp in tps and (name, tp) not in found:
                        found[name, tp] = OpenTransaction(
                            topic=tp[0], partition=tp[1], producer_id=txn.owner, producer_epoch=0,
                            start=offset, coordinator=self.nodes[0], transactional_id=name,
                        )  # fmt: skip
            return list(found.values())

    def expire(self) -> None:
        """Abort transactions past their timeout and fence their owners."""
        with self.lock:
            for txn in self.transactions.values():
                if txn.open and time.monotonic() - txn.began > txn.timeout_s:
                    self._end(txn, State.ABORTED)
                    txn.owner += 1

    def _owned(self, owner: int, txn_id: str) -> Transaction:
        txn = self.transactions[txn_id]
        if txn.owner != owner:
            raise Error("_FENCED", "fatal")
        return txn

    def _end(self, txn: Transaction, state: State) -> None:
        for tp, offset in txn.entries:
            if self.logs[tp][offset].state is State.OPEN:
                self.logs[tp][offset].state = state
        for tp in sorted({tp for tp, _ in txn.entries}):
            self.logs[tp].append(Entry(b"", State.GONE))  # the marker takes an offset
        txn.entries, txn.open = [], False
        self.lock.notify_all()

    # -- consuming

    def fetch(
        self, positions: dict[tuple[str, int], int], committed: bool, most: int
    ) -> tuple[
        list[tuple[str, int, int, bytes]], dict[tuple[str, int], int], list[tuple[str, int]]
    ]:
        """Records, new positions, and the partitions whose end was reached."""
        found: list[tuple[str, int, int, bytes]] = []
        after, ended = dict(positions), []
        with self.lock:
            for tp, position in positions.items():
                if self.leader(tp) < 0:
                    continue
                log = self.logs[tp]
                end = self._end_offset(tp, committed)
                while position < end and len(found) < most:
                    entry = log[position]
                    hidden = (
                        committed and entry.state is State.ABORTED and self.bug != "show-aborted"
                    )
                    if entry.state is not State.GONE and not hidden:
                        found.append((*tp, position, entry.payload))
                    position += 1
                after[tp] = position
                if position >= end:
                    ended.append(tp)
        return found, after, ended

    def _end_offset(self, tp: tuple[str, int], committed: bool) -> int:
        log = self.logs[tp]
        if committed:
            return next((n for n, e in enumerate(log) if e.state is State.OPEN), len(log))
        return len(log)

    def ends(self, tp: tuple[str, int], committed: bool) -> int | None:
        with self.lock:
            return self._end_offset(tp, committed) if self.leader(tp) > 0 else None

    # -- groups

    def join(self, group: str, member: int, topics: tuple[str, ...]) -> None:
        with self.lock:
            state = self.groups.setdefault(group, Group())
            state.members[member] = topics
            state.generation += 1

    def leave(self, group: str, member: int) -> None:
        with self.lock:
            state = self.groups.get(group)
            if state and state.members.pop(member, None) is not None:
                state.generation += 1

    def assignment(self, group: str, member: int) -> tuple[int, dict[tuple[str, int], int]]:
        """Generation, and the partitions of a member with their committed offsets."""
        with self.lock:
            state = self.groups[group]
            members = sorted(state.members)
            topics = set(state.members[member])
            tps = sorted(tp for tp in self.logs if tp[0] in topics)
            mine = tps[members.index(member) :: len(members)]
            return state.generation, {tp: state.committed.get(tp, 0) for tp in mine}

    def commit_offsets(
        self, group: str, generation: int, offsets: dict[tuple[str, int], int]
    ) -> None:
        with self.lock:
            state = self.groups[group]
            if state.generation != generation:
                raise Error("ILLEGAL_GENERATION")
            state.committed.update(offsets)

    def change(self, nodes: set[int], add: set[int], remove: set[int]) -> None:
        """Nodes enter and leave one of `down`, `frozen`, `cut_off`."""
        with self.lock:
            nodes |= add
            nodes -= remove
            self.lock.notify_all()
