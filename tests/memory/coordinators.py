"""The transactions and groups of the in-memory cluster. The broker calls them under its lock."""

import time
from dataclasses import dataclass, field
from enum import Enum

from core.cluster import OpenTransaction

Tp = tuple[str, int]
Offsets = dict[Tp, int]


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


Logs = dict[Tp, list[Entry]]


@dataclass(slots=True)
class Transaction:
    """Of one transactional id. Who holds another epoch is fenced."""

    producer_id: int
    epoch: int = -1
    open: bool = False
    began: float = 0.0
    timeout_s: float = 10.0
    entries: list[Entry] = field(default_factory=list)
    first: Offsets = field(default_factory=dict)
    """First offset in each partition that takes part."""
    offsets: dict[str, Offsets] = field(default_factory=dict)

    def add(self, tp: Tp, offset: int, entry: Entry) -> None:
        self.entries.append(entry)
        self.first.setdefault(tp, offset)


class Groups:
    """Committed offsets and members. Each join and leave is one rebalance, over at once."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._generation: dict[str, int] = {}
        self._members: dict[str, dict[int, tuple[str, ...]]] = {}
        self.committed: dict[str, Offsets] = {}
        self.mute = False
        """Nobody is told any more what is his."""

    def join(self, group: str, member: int, topics: tuple[str, ...]) -> None:
        self._members.setdefault(group, {})[member] = topics
        self._generation[group] = self.generation(group) + 1

    def leave(self, group: str, member: int) -> None:
        if self._members.get(group, {}).pop(member, None) is not None:
            self._generation[group] += 1

    def rebalance(self, *names: str) -> None:
        """These groups (or all) are in another generation: members ask again what is theirs."""
        for group in names or self._generation:
            self._generation[group] += 1

    def generation(self, group: str) -> int:
        return self._generation.get(group, 0)

    def assignment(self, group: str, member: int) -> list[Tp]:
        members = self._members[group]
        if member not in members:
            return []
        topics = members[member]
        tps = sorted(tp for tp in self._logs if tp[0] in topics)
        return tps[sorted(members).index(member) :: len(members)]

    def check(self, group: str, member: int, generation: int) -> None:
        """Only a member of this generation may commit; of a group without members, anybody."""
        members = self._members.get(group)
        if not members and generation < 0:
            return
        if not members or member not in members:
            raise Error("UNKNOWN_MEMBER_ID")
        if generation != self._generation[group]:
            raise Error("ILLEGAL_GENERATION")

    def commit(self, group: str, offsets: Offsets) -> None:
        self.committed.setdefault(group, {}).update(offsets)


class Transactions:
    """Who may write under which transactional id, and what is open."""

    def __init__(self, logs: Logs, groups: Groups, bug: str) -> None:
        self._logs = logs
        self._groups = groups
        self._bug = bug
        self._by_id: dict[str, Transaction] = {}

    def init(self, name: str, timeout_s: float) -> int:
        """The epoch of the caller, who fences all before him."""
        txn = self._by_id.setdefault(name, Transaction(len(self._by_id)))
        txn.timeout_s = timeout_s
        self._fence(txn)
        return txn.epoch

    def owned(self, name: str, epoch: int) -> Transaction:
        txn = self._by_id[name]
        if txn.epoch != epoch and self._bug != "unfenced":
            raise Error("_FENCED", "fatal")
        return txn

    def begin(self, name: str, epoch: int) -> None:
        txn = self.owned(name, epoch)
        txn.open, txn.began = True, time.monotonic()

    def end(self, txn: Transaction, state: State) -> None:
        for entry in txn.entries:
            if entry.state is State.OPEN:
                entry.state = state
        for tp in sorted(txn.first):
            self._logs[tp].append(Entry(b"", State.GONE))  # the marker takes an offset
        if state is State.COMMITTED or self._bug == "keep-offsets":
            for group, offsets in txn.offsets.items():
                self._groups.commit(group, offsets)
            if state is State.ABORTED:
                # A member goes back by itself to where it began; only who asks the group is misled.
                self._groups.rebalance(*txn.offsets)
        txn.entries, txn.first, txn.offsets, txn.open = [], {}, {}, False

    def _fence(self, txn: Transaction) -> None:
        if txn.open:
            self.end(txn, State.ABORTED)
        txn.epoch += 1

    def expire(self) -> bool:
        """Abort transactions past their timeout and fence their owners; whether there were any."""
        now = time.monotonic()
        late = [t for t in self._by_id.values() if t.open and now - t.began > t.timeout_s]
        for txn in late:
            self._fence(txn)
        return bool(late)

    def first_open(self, tp: Tp) -> int | None:
        """Where the first open transaction of a partition begins."""
        starts = [txn.first[tp] for txn in self._by_id.values() if tp in txn.first]
        return min(starts, default=None)

    def undecided(self, group: str, tps: list[Tp]) -> bool:
        """Whether offsets of these partitions wait for the end of a transaction."""
        waiting = (txn.offsets.get(group, {}) for txn in self._by_id.values())
        return any(tp in offsets for offsets in waiting for tp in tps)

    def listed(self, tps: list[Tp], coordinator: int) -> list[OpenTransaction]:
        return [
            OpenTransaction(
                topic=tp[0],
                partition=tp[1],
                producer_id=txn.producer_id,
                producer_epoch=txn.epoch,
                start=start,
                coordinator=coordinator,
                transactional_id=name,
            )
            for name, txn in self._by_id.items()
            for tp, start in txn.first.items()
            if tp in tps
        ]
