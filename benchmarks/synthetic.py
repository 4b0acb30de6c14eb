"""A synthetic run: what the producers did, what the log became, and which anomalies are planted.

Everything is an array over messages (message m = record m % 4 of transaction m // 4) or over
transactions, made from one seed. The cluster behind it is correct; then a known number of anomalies
of each class is planted, far enough from each other not to meet.

Time: 20 producers, each one transaction after the other, a round of 2 ms for all of them. Consumers
get a record one round after it was appended, when every transaction up to it is decided.

Not here: who read what (`benchmarks.synthetic_reads`), the files (`benchmarks.make_history`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from core.op import Outcome, value_of

TPS: Final = 32
SLOTS: Final = 20
PER_TXN: Final = 4
ROUND_NS: Final = 2_000_000
START_NS: Final = 1_000_000_000_000
POLL: Final = 50
"""Records of one poll."""
RELAY_EVERY: Final = 10
"""Every tenth transaction of a producer also polls one record."""
POOL: Final = 500_000
"""Most places that are looked at for an anomaly."""
APART: Final = 3
"""Anomalies keep this many records between each other in a partition."""

PLANTED: Final[dict[str, int]] = {
    "lost": 100,
    "lost after it was read": 20,
    "duplicate": 50,
    "aborted read": 20,
    "torn in doubt": 10,
    "phantom": 10,
    "inconsistent": 10,
    "swapped in a poll": 15,
    "skipped in a poll": 15,
    "skipped between polls": 10,
    "repeated between polls": 10,
    "explained rewind": 20,
    "producer reorder": 30,
    "precommitted": 5,
    "cycle": 10,
    "early": 5,
    "commit goes back": 5,
    "foreign": 6,
}
"""How many of each kind are planted into a million messages or more; fewer into fewer."""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(kw_only=True)
class Txns:
    """One entry a transaction."""

    slot: Array
    process: Array
    invoke: Array
    complete: Array
    outcome: Array
    written: Array
    committed: Array
    relay: Array


@dataclass(kw_only=True)
class Messages:
    """One entry a message. `log`: written messages by (tp, offset); `at`: place in `log`, or -1.

    `offset` is where the record is (-1: nowhere), also if no client learned it. The log of partition tp
    is `log[starts[tp] : starts[tp + 1]]`.
    """

    tp: Array
    value: Array
    begin: Array
    append: Array
    ack: Array
    offset: Array
    log: Array
    at: Array
    starts: Array


@dataclass(kw_only=True)
class Plan:
    """What is planted, as message numbers by kind (a pair where two meet)."""

    one: dict[str, list[int]] = field(default_factory=dict)
    two: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


class Synthetic:
    """Producers and log of one history."""

    def __init__(self, messages: int, seed: int, partitions: int = TPS) -> None:
        self.rng, self.partitions = np.random.default_rng(seed), partitions
        rounds = max(messages // (SLOTS * PER_TXN), 40)
        self.scale = min(1.0, messages / 1_000_000)
        self.txns = _txns(self.rng, rounds, doubt=0.002 if self.scale == 1 else 0.02)
        self.messages = _messages(self.rng, self.txns, partitions)
        self.end_ns = int(self.txns.complete.max()) + ROUND_NS
        self.committed_rank = self._committed_rank()
        self.plan = _Planter(self).plan()
        for a, b in self.plan.two["producer reorder"]:
            log, at, offset = self.messages.log, self.messages.at, self.messages.offset
            log[[at[a], at[b]]] = [b, a]
            for column in (at, offset):
                column[[a, b]] = column[[b, a]]

    def _committed_rank(self) -> Array:
        """Number of committed records before each log entry in its partition."""
        log, starts = self.messages.log, self.messages.starts
        committed = self.txns.committed[log // PER_TXN]
        before = np.cumsum(committed) - committed
        return np.asarray(before - np.repeat(before[starts[:-1]], np.diff(starts)))

    def log_rank(self, m: int) -> int:
        """Number of records before a written message in its partition."""
        return int(self.messages.at[m] - self.messages.starts[self.messages.tp[m]])


def _txns(rng: np.random.Generator, rounds: int, *, doubt: float) -> Txns:
    """doubt: share of transactions with an indefinite end."""
    count = rounds * SLOTS
    slot = np.arange(count) % SLOTS
    jitter = rng.integers(0, ROUND_NS // 40, count)
    invoke = START_NS + np.arange(count) // SLOTS * ROUND_NS + slot * (ROUND_NS // SLOTS) + jitter
    complete = invoke + int(ROUND_NS * 0.85) + rng.integers(0, ROUND_NS // 10, count)
    dice = rng.random(count)
    outcome = np.select([dice < 0.98 - doubt, dice < 1 - doubt], [Outcome.OK, Outcome.FAIL], Outcome.INFO)
    in_doubt = outcome == Outcome.INFO
    fate = rng.integers(0, 3, count)  # of those in doubt: committed, aborted, never written
    info = in_doubt.reshape(rounds, SLOTS)
    incarnation = (np.cumsum(info, axis=0) - info).reshape(-1)
    late = np.arange(count) > count // 20
    return Txns(
        slot=slot,
        process=(slot + SLOTS * incarnation).astype(np.int64),
        invoke=invoke,
        complete=complete,
        outcome=outcome.astype(np.int8),
        written=~(in_doubt & (fate == 2)),
        committed=(outcome == Outcome.OK) | (in_doubt & (fate == 0)),
        relay=(np.arange(count) // SLOTS % RELAY_EVERY == RELAY_EVERY - 1) & (outcome == Outcome.OK) & late,
    )


def _messages(rng: np.random.Generator, txns: Txns, partitions: int) -> Messages:
    count = len(txns.slot) * PER_TXN
    number = np.arange(count)
    txn = number // PER_TXN
    tp = rng.integers(0, partitions, count).astype(np.int32)
    delay = rng.integers(ROUND_NS // 10, ROUND_NS * 6 // 10, (len(txns.slot), PER_TXN))
    append = txns.invoke[txn] + np.sort(delay, axis=1).reshape(-1)
    written = np.flatnonzero(txns.written[txn])
    log = written[np.lexsort((append[written], tp[written]))]
    starts = np.searchsorted(tp[log], np.arange(partitions + 1))
    rank = np.arange(len(log)) - np.repeat(starts[:-1], np.diff(starts))
    offset = np.full(count, -1)
    offset[log] = rank + rank // 3  # every fourth offset holds a marker
    at = np.full(count, -1)
    at[log] = np.arange(len(log))
    sent = txn // SLOTS * PER_TXN + number % PER_TXN
    return Messages(
        tp=tp,
        value=value_of(1, 0) * txns.process[txn] + sent,
        begin=txns.invoke[txn] + 1_000 + number % PER_TXN,
        append=append,
        ack=append + rng.integers(1_000, ROUND_NS // 10, count),
        offset=offset,
        log=log,
        at=at,
        starts=starts,
    )


class _Planter:
    """Chooses where anomalies go. Every choice claims the transactions around it."""

    def __init__(self, synthetic: Synthetic) -> None:
        self.synthetic = synthetic
        self.messages, self.txns = synthetic.messages, synthetic.txns
        self.claimed = self.txns.relay.copy()
        count = len(self.messages.tp)
        pool = np.arange(count * 6 // 100, count * 95 // 100)
        self.pool: list[int] = synthetic.rng.permutation(pool)[:POOL].tolist()
        self.readers: set[tuple[int, int]] = set()

    def plan(self) -> Plan:
        plan = Plan()
        pairs: dict[str, Callable[[int], int | None]] = {
            "producer reorder": self._next_of_producer,
            "swapped in a poll": self._next_committed,
            "cycle": self._concurrent,
            "inconsistent": self._in_doubt_meanwhile,
            "torn in doubt": self._next_of_txn,
        }
        for kind, full in PLANTED.items():
            wanted = max(1, round(full * self.synthetic.scale))
            if kind in pairs:
                plan.two[kind] = self._take_two(kind, wanted, pairs[kind])
            else:
                plan.one[kind] = self._take(kind, wanted)
        return plan

    def _take(self, kind: str, wanted: int) -> list[int]:
        taken: list[int] = []
        for m in self.pool:
            if len(taken) == wanted:
                return taken
            if self._fits(kind, m) and self._claim([m]):
                taken.append(m)
        raise ValueError(f"too few messages to plant {wanted} x {kind}")

    def _take_two(
        self, kind: str, wanted: int, partner: Callable[[int], int | None]
    ) -> list[tuple[int, int]]:
        taken: list[tuple[int, int]] = []
        for m in self.pool:
            if len(taken) == wanted:
                return taken
            if not self._fits(kind, m):
                continue
            other = partner(m)
            if other is not None and self._claim([m, other]):
                taken.append((m, other))
        raise ValueError(f"too few messages to plant {wanted} x {kind}")

    def _around(self, m: int) -> list[int]:
        """The messages next to this one in the log, with itself."""
        at, log = int(self.messages.at[m]), self.messages.log
        if at < 0:
            return [m]
        return [int(n) for n in log[max(at - APART, 0) : at + APART + 1]]

    def _claim(self, chosen: list[int]) -> bool:
        txns = {n // PER_TXN for m in chosen for n in self._around(m)}
        if any(self.claimed[txn] for txn in txns):
            return False
        self.claimed[list(txns)] = True
        return True

    def _fits(self, kind: str, m: int) -> bool:
        """Whether this kind can be planted at this message at all."""
        txn = m // PER_TXN
        outcome, committed = self.txns.outcome[txn], bool(self.txns.committed[txn])
        if kind == "aborted read":
            return bool(outcome == Outcome.FAIL)
        if kind == "torn in doubt":
            return bool(outcome == Outcome.INFO) and committed
        if outcome != Outcome.OK:
            return False
        rank = int(self.synthetic.committed_rank[self.messages.at[m]]) % POLL
        match kind:
            case "duplicate" | "phantom" | "foreign":
                return bool(self.messages.offset[m] % 4 == 2)  # a marker comes next
            case "swapped in a poll" | "commit goes back":
                return 10 <= rank < POLL - 10
            case "skipped in a poll":
                return 10 <= self.synthetic.log_rank(m) % POLL < POLL - 10
            case "skipped between polls" | "repeated between polls" | "explained rewind":
                return rank == POLL - 1
            case "precommitted":
                return self._first_reader(txn, m)
        return True

    def _first_reader(self, txn: int, m: int) -> bool:
        """The process of the transaction reads nothing else of this partition."""
        key = (int(self.txns.process[txn]), int(self.messages.tp[m]))
        if key in self.readers or self.messages.tp[m] == self.txns.slot[txn]:
            return False
        self.readers.add(key)
        return True

    def _next_of_producer(self, m: int) -> int | None:
        """The same process's next message to the partition, where one poll returns both."""
        txn, tp = m // PER_TXN, self.messages.tp[m]
        for other in range(txn + SLOTS, min(txn + 12 * SLOTS, len(self.txns.slot)), SLOTS):
            own = np.arange(other * PER_TXN, (other + 1) * PER_TXN)
            here = own[self.messages.tp[own] == tp]
            if len(here):
                return int(here[0]) if self._together(m, int(here[0])) else None
        return None

    def _together(self, m: int, n: int) -> bool:
        a, b = m // PER_TXN, n // PER_TXN
        later = np.arange(m + 1, (a + 1) * PER_TXN)
        if (self.messages.tp[later] == self.messages.tp[m]).any():
            return False
        if self.txns.outcome[b] != Outcome.OK or self.txns.process[a] != self.txns.process[b]:
            return False
        ranks = self.synthetic.committed_rank[self.messages.at[[m, n]]] // POLL
        places = [self.synthetic.log_rank(each) // POLL for each in (m, n)]
        return bool(ranks[0] == ranks[1]) and places[0] == places[1]

    def _next_of_txn(self, m: int) -> int | None:
        return m // PER_TXN * PER_TXN + (m + 1) % PER_TXN

    def _next_committed(self, m: int) -> int | None:
        """The next record that a committed reader gets."""
        log = self.messages.log
        for at in range(int(self.messages.at[m]) + 1, int(self.messages.at[m]) + 1 + APART):
            n = int(log[at])
            if self.txns.committed[n // PER_TXN]:
                return n if self.txns.outcome[n // PER_TXN] == Outcome.OK else None
        return None

    def _concurrent(self, m: int) -> int | None:
        """A message of another transaction that overlaps."""
        n = m + PER_TXN
        a, b = m // PER_TXN, n // PER_TXN
        if self.txns.outcome[b] != Outcome.OK or self.txns.slot[b] == 0:
            return None
        reads = self._first_reader(a, n) and self._first_reader(b, m)
        return n if reads else None

    def _in_doubt_meanwhile(self, m: int) -> int | None:
        """A message to the same partition that was never written, of an op in doubt just then."""
        begin = self.messages.append[m] - ROUND_NS
        first = int(np.searchsorted(self.txns.invoke, begin)) * PER_TXN
        near = np.arange(first, m)
        lost = near[
            ~self.txns.written[near // PER_TXN]
            & (self.messages.tp[near] == self.messages.tp[m])
            & (self.messages.begin[near] < self.messages.append[m])
        ]
        return int(lost[0]) if len(lost) else None
