"""The logs of the in-memory cluster and all verbs of its clients, under one lock."""

import threading
import time

from core.cluster import OpenTransaction
from tests.memory.coordinators import (
    Entry,
    Error,
    Groups,
    Logs,
    Offsets,
    State,
    Tp,
    Transaction,
    Transactions,
)

BUG_EVERY = 40
"""A planted bug strikes at every so-manyth record of a partition."""


class Broker:
    """Everything that is shared. Times out verbs by itself; callers only pass their deadline."""

    def __init__(self, nodes: int, bug: str) -> None:
        self.nodes = tuple(range(1, nodes + 1))
        self.bug = bug
        self.down: set[int] = set()
        self.frozen: set[int] = set()
        self.cut_off: set[int] = set()
        self.logs: Logs = {}
        self.replicas: dict[Tp, tuple[int, ...]] = {}
        self.groups = Groups(self.logs)
        self.transactions = Transactions(self.logs, self.groups, bug)
        self.lock = threading.Condition()

    def create_topic(self, topic: str, partitions: int) -> None:
        with self.lock:
            if partitions < 1:
                raise Error("INVALID_PARTITIONS")
            if (topic, 0) in self.logs:
                raise Error("TOPIC_ALREADY_EXISTS", "indefinite")
            for partition in range(partitions):
                turn = (partition + len(topic)) % len(self.nodes)
                self.replicas[topic, partition] = self.nodes[turn:] + self.nodes[:turn]
                self.logs[topic, partition] = []

    def leader(self, tp: Tp) -> int:
        bad = self.down | self.frozen | self.cut_off
        order = self.replicas.get(tp, self.nodes)
        return next((node for node in order if node not in bad), -1)

    def _await_leader(self, tp: Tp, until: float) -> bool:
        return self.lock.wait_for(lambda: self.leader(tp) > 0, timeout=max(0.0, until - time.monotonic()))

    # -- producing

    def append(
        self, txn_id: str | None, epoch: int, records: list[tuple[str, int, bytes]], deadline_s: float
    ) -> list[int | None]:
        """Offset of each record, None where the deadline passed."""
        until = time.monotonic() + deadline_s
        offsets: list[int | None] = []
        with self.lock:
            for topic, partition, payload in records:
                tp = (topic, partition)
                reached = self._await_leader(tp, until)
                txn = self.transactions.owned(txn_id, epoch) if txn_id else None
                offsets.append(self._append_one(tp, payload, txn) if reached else None)
        return offsets

    def _append_one(self, tp: Tp, payload: bytes, txn: Transaction | None) -> int:
        log = self.logs[tp]
        offset = len(log)
        strikes = offset % BUG_EVERY == BUG_EVERY - 1
        for at in range(offset, offset + 1 + (strikes and self.bug == "duplicate")):
            log.append(Entry(payload, State.OPEN if txn else State.PLAIN))
            if txn:
                txn.add(tp, at, log[at])
        if strikes and self.bug == "lose":
            log[offset].state = State.GONE
        elif strikes and self.bug == "swap":
            log[offset], log[offset - 1] = log[offset - 1], log[offset]
        return offset

    # -- transactions

    def init(self, txn_id: str, timeout_s: float) -> int:
        with self.lock:
            self.lock.notify_all()
            return self.transactions.init(txn_id, timeout_s)

    def begin(self, txn_id: str, epoch: int) -> None:
        with self.lock:
            self.transactions.begin(txn_id, epoch)

    def end(self, txn_id: str, epoch: int, commit: bool, deadline_s: float) -> None:
        until = time.monotonic() + deadline_s
        with self.lock:
            reached = self._await_leader(("__transaction_state", 0), until)
            txn = self.transactions.owned(txn_id, epoch)
            if not reached:
                raise Error("_TIMED_OUT", "indefinite")
            self.transactions.end(txn, State.COMMITTED if commit else State.ABORTED)
            self.lock.notify_all()

    def send_offsets(
        self, txn_id: str, epoch: int, group: str, member: int, generation: int, offsets: Offsets
    ) -> None:
        with self.lock:
            txn = self.transactions.owned(txn_id, epoch)
            self.groups.check(group, member, generation)
            txn.offsets.setdefault(group, {}).update(offsets)

    def open_transactions(self, tps: list[Tp]) -> list[OpenTransaction]:
        with self.lock:
            return self.transactions.listed(tps, self.leader(("__transaction_state", 0)))

    def expire(self) -> None:
        """Abort transactions past their timeout."""
        with self.lock:
            if self.transactions.expire():
                self.lock.notify_all()

    # -- consuming

    def fetch(
        self, positions: Offsets, committed: bool, most: int
    ) -> tuple[list[tuple[str, int, int, bytes]], Offsets, list[Tp], list[Tp]]:
        """Records, new positions, the partitions whose end was reached, and those that were reset
        to their beginning because there is no such offset."""
        found: list[tuple[str, int, int, bytes]] = []
        after, ended = dict(positions), []
        with self.lock:
            served = [tp for tp in positions if tp in self.logs and self.leader(tp) > 0]
            reset = [tp for tp in served if positions[tp] > len(self.logs[tp])]
            for tp in served:
                log, end = self.logs[tp], self._end_offset(tp, committed)
                position = 0 if tp in reset else positions[tp]
                while position < end and len(found) < most:
                    entry = log[position]
                    hidden = committed and entry.state is State.ABORTED and self.bug != "show-aborted"
                    if entry.state is not State.GONE and not hidden:
                        found.append((*tp, position, entry.payload))
                    position += 1
                after[tp] = position
                if position >= end:
                    ended.append(tp)
        return found, after, ended, reset

    def _end_offset(self, tp: Tp, committed: bool) -> int:
        first = self.transactions.first_open(tp) if committed else None
        return len(self.logs[tp]) if first is None else first

    def ends(self, tp: Tp, committed: bool) -> int | None:
        with self.lock:
            return self._end_offset(tp, committed) if self.leader(tp) > 0 else None

    # -- groups

    def join(self, group: str, member: int, topics: tuple[str, ...]) -> None:
        with self.lock:
            self.groups.join(group, member, topics)

    def leave(self, group: str, member: int) -> None:
        with self.lock:
            self.groups.leave(group, member)

    def generation(self, group: str) -> int:
        with self.lock:
            return self.groups.generation(group)

    def assignment(self, group: str, member: int) -> tuple[int, list[Tp], Offsets] | None:
        """Generation, partitions of the member, and what is committed of them; None as long as
        that waits for the end of a transaction, and from mute groups."""
        with self.lock:
            mine = self.groups.assignment(group, member)
            if self.groups.mute or self.transactions.undecided(group, mine):
                return None
            committed = self.groups.committed.get(group, {})
            known = {tp: committed[tp] for tp in mine if tp in committed}
            return self.groups.generation(group), mine, known

    def mute_groups(self) -> None:
        """All groups rebalance, and nothing is assigned in them any more."""
        with self.lock:
            self.groups.mute = True
            self.groups.rebalance()

    def commit_offsets(self, group: str, member: int, generation: int, offsets: Offsets) -> None:
        with self.lock:
            self.groups.check(group, member, generation)
            self.groups.commit(group, offsets)

    def change(self, nodes: set[int], add: set[int], remove: set[int]) -> None:
        """Nodes enter and leave one of `down`, `frozen`, `cut_off`."""
        with self.lock:
            nodes |= add
            nodes -= remove
            self.lock.notify_all()
