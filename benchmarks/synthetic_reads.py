"""Who reads a synthetic run: polls of each reader, and what it gets otherwise than the log is.

Not here: the log (`benchmarks.synthetic`), tables (`benchmarks.make_history`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.synthetic import PER_TXN, POLL, ROUND_NS, Array, Synthetic
from core.op import Isolation, value_of

CONSUMERS: Final = 8
FINAL_POLL: Final = 500
RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
FIRST_READER: Final = {
    (RC, False): 1_000_000, (RU, False): 1_000_100, (RC, True): 1_000_200, (RU, True): 1_000_201
}  # fmt: skip
NOBODY: Final = 2_000_000
"""A process that sent nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Who reads the log: at which level, during the run or at the end of it."""

    level: Isolation
    final: bool

    @property
    def poll(self) -> int:
        """Records of one poll."""
        return FINAL_POLL if self.final else POLL

    def process(self, tp: Array, partitions: int) -> Array:
        """The process that reads these partitions, of this number."""
        first = FIRST_READER[self.level, self.final]
        return np.full(len(tp), first) if self.final else first + tp * CONSUMERS // partitions


VIEWS: Final = [View(level=level, final=final) for final in (False, True) for level in (RC, RU)]


class Polls:
    """The polls of one view: chunk c of partition tp is op `first[tp] + c` of the view."""

    def __init__(self, synthetic: Synthetic, view: View, begin_ns: int) -> None:
        log, tps = synthetic.messages.log, synthetic.messages.tp
        self.view = view
        seen = synthetic.txns.committed[log // PER_TXN] if view.level == RC else np.ones(len(log), bool)
        entries = log[seen]
        tp = tps[entries]
        starts = np.searchsorted(tp, np.arange(synthetic.partitions + 1))
        chunks = -(-np.diff(starts) // view.poll)
        self.first = np.concatenate([[0], np.cumsum(chunks)])
        self.tp = np.repeat(np.arange(synthetic.partitions), chunks)
        within = np.arange(len(self.tp)) - self.first[self.tp]
        begin = starts[self.tp] + within * view.poll
        ready = np.maximum.reduceat(synthetic.messages.append[entries], begin) + ROUND_NS
        self.process = view.process(self.tp, synthetic.partitions)
        if view.final:
            self.complete = begin_ns + np.arange(1, len(self.tp) + 1) * 10_000
        else:
            self.complete = _one_after_the_other(self.process, ready)
        self.invoke = self.complete - 1_000


def _one_after_the_other(process: Array, ready: Array) -> Array:
    """Completion of each poll: when its records are there, and 2 µs after the one before."""
    complete = np.empty_like(ready)
    for each in np.unique(process):
        own = np.flatnonzero(process == each)
        own = own[np.argsort(ready[own], kind="stable")]
        turn = np.arange(len(own)) * 2_000
        complete[own] = np.maximum.accumulate(ready[own] - turn) + turn
    return complete


class Edits:
    """What one view of one partition shows otherwise than the log is."""

    def __init__(self, synthetic: Synthetic, view: View, tp: int, log: Array) -> None:
        self.view, self.tp, self.log = view, tp, log
        self.plan, self.messages = synthetic.plan, synthetic.messages

    def _rank(self, m: int) -> int:
        """Place of a message in this view; of one that it does not show: where it would be."""
        return int(np.searchsorted(self.messages.offset[self.log], self.messages.offset[m]))

    def planted(self, kind: str) -> list[int]:
        """Messages of this partition at which a kind is planted."""
        return [m for m in self.plan.one[kind] if self.messages.tp[m] == self.tp]

    def chunk_of(self, m: int) -> int:
        return self._rank(m) // self.view.poll

    def chunks(self, kind: str) -> list[int]:
        """The polls of this view that return them, in order."""
        return sorted(self.chunk_of(m) for m in self.planted(kind))

    def assignments(self, chunk: Array) -> Array:
        """Number of the assignment in each chunk."""
        if self.view.level != RC or self.view.final:
            return np.ones(len(chunk), np.int64)
        rewound = self.chunks("explained rewind")
        return np.asarray(1 + np.searchsorted(rewound, chunk, side="left"))

    def rows(self) -> tuple[Array, Array, Array]:
        """Offset, value and poll of each record, in order of delivery."""
        rank = np.arange(len(self.log)) * 10
        offset, value = self.messages.offset[self.log], self.messages.value[self.log]
        chunk = np.arange(len(self.log)) // self.view.poll
        shown = np.ones(len(self.log), bool)
        shown[[self._rank(m) for m in self._hidden()]] = False
        for a, b in self._pairs("swapped in a poll", RC):
            rank[[self._rank(a), self._rank(b)]] = rank[[self._rank(b), self._rank(a)]]
        for m, other in self._pairs("inconsistent", RU):
            value[self._rank(m)] = self.messages.value[other]
        extra = np.array(list(self._inserted()), np.int64).reshape(-1, 4)
        rank, offset, value, chunk = (
            np.concatenate([column[shown], extra[:, n]])
            for n, column in enumerate((rank, offset, value, chunk))
        )
        order = np.lexsort((rank, chunk))
        return offset[order], value[order], chunk[order]

    def _pairs(self, kind: str, level: Isolation) -> list[tuple[int, int]]:
        if self.view != View(level=level, final=False):
            return []
        return [pair for pair in self.plan.two[kind] if self.messages.tp[pair[0]] == self.tp]

    def _hidden(self) -> Iterator[int]:
        yield from self.planted("lost")
        torn = (m for pair in self.plan.two["torn in doubt"] for m in pair)
        yield from (m for m in torn if self.messages.tp[m] == self.tp)
        if self.view.final:
            yield from self.planted("lost after it was read")
        elif self.view.level == RC:
            yield from self.planted("skipped between polls")
        else:
            yield from self.planted("skipped in a poll")

    def _inserted(self) -> Iterator[tuple[int, int, int, int]]:
        """Records that the log does not hold: rank, offset, value, poll."""
        offset, value = self.messages.offset, self.messages.value
        for m in self.planted("duplicate"):
            rank = self._rank(m)
            yield rank * 10 + 5, offset[m] + 1, value[m], rank // self.view.poll
        if self.view != View(level=RC, final=False):
            return
        for m in self.planted("phantom"):
            rank = self._rank(m)
            unknown = value_of(NOBODY, m)
            yield rank * 10 + 5, offset[m] + 1, unknown, rank // self.view.poll
        for m in self.planted("aborted read"):
            rank = self._rank(m)
            yield rank * 10 - 5, offset[m], value[m], rank // self.view.poll
        for m in self.planted("repeated between polls"):
            yield self._rank(m) * 10, offset[m], value[m], self.chunk_of(m) + 1
        for m in self.planted("explained rewind"):
            for rank in range(self._rank(m) - 4, self._rank(m) + 1):
                again = self.log[rank]
                yield rank * 10, offset[again], value[again], self.chunk_of(m) + 1
