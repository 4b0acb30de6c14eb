"""What the kernels take and give: the context of a partition, findings, results.

Everything here can be pickled: a kernel runs in this process or in one of Spark's workers.

Not here: the rules (docs/checks.md), the kernels (`checkers.kernel`), what is allowed
(`checkers.catalogue`), words for people (`checkers.witness`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]
"""Columns of a table by name, all of one length."""

RU: Final = 0
RC: Final = 1
OK: Final = 0
FAIL: Final = 1
INFO: Final = 2
FINAL: Final = 6
"""Integer values of `Isolation`, `Outcome` and `Phase` (harness.op), as the tables hold them."""
NEVER: Final = 2**63 - 1
"""A time that does not come."""

LOG: Final = "log"
"""Variant of what a final read at RU showed: evidence of what the log holds, no consumer's anomaly."""

CAP: Final = 64
"""Findings kept of one class in one partition; counts stay exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One row of `bounds`: what the final reads of one level had to reach, and reached."""

    start: int
    end: int
    read_to: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a kernel knows beside the rows of its partition.

    processes, acks, idempotent, group, isolation: one entry a process, sorted by process number.
    tenure: who held which transactional id when; None where no id had two holders.
    commits: rows of `commits` of each partition with a group, `done` = when each is complete.
    copying: groups that copy. unclosed: of each group that has some, the processes whose automatic
    commits may have passed too much.
    copies: whether there may be copies at all, so that sends have the columns `COPIES`.
    vertex, relay: flags by op (docs/checks.md, "Cycles"); empty where cycles are not wanted.
    proven: ops proven committed in other partitions, sorted.
    ww: whether write-write edges are wanted.
    cap: findings kept of one class.
    """

    portable: bool
    processes: Array
    acks: Array
    idempotent: Array
    vertex: Array
    relay: Array
    bounds: Mapping[int, Mapping[int, Bound]]
    assignments: Mapping[int, Columns]
    group: Array
    isolation: Array
    tenure: "Tenure | None" = None
    commits: Mapping[int, Columns] = field(default_factory=dict)
    copying: frozenset[int] = frozenset()
    unclosed: Mapping[int, "Unclosed"] = field(default_factory=dict)
    copies: bool = False
    proven: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    ww: bool = True
    cap: int = CAP

    def process_rows(self, processes: Array) -> Array:
        """Positions in `processes`."""
        return np.searchsorted(self.processes, processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """Who held a transactional id when; one entry a process, as in `Context.processes`.

    begun: when its first transaction was over (NEVER: none was); first: when its first one was invoked
    (-1: none); fenced: when a successor had begun at the latest (NEVER: none had). holders: of each id
    that several processes held, their positions in order of `first`.
    """

    begun: Array
    first: Array
    fenced: Array
    holders: tuple[Array, ...]

    def lowest_of_successors(self, values: Array) -> Array:
        """For each process: the lowest value (one a process) among the processes that it precedes,
        NEVER where there is none."""
        lowest = np.full(len(values), NEVER)
        for mine in self.holders:
            onward = np.minimum.accumulate(values[mine][::-1])[::-1]
            after = np.searchsorted(self.first[mine], self.begun[mine], side="right")
            lowest[mine] = np.append(onward, NEVER)[after]
        return lowest


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclosed:
    """Processes of one group whose clients committed by themselves and were not closed, one entry each.

    open_ns: invocation of the op that never completed (NEVER: none); what it was assigned then is not
    on record. gone_ns: when the next process of its slot began, where its worker died (else NEVER).
    """

    process: Array
    open_ns: Array
    gone_ns: Array


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as a witness shows it: `what` happened to `value` at `offset` in op `op`.

    outcome: of the record (sends); leader_epoch: as the client knew it (reads); source: partition and
    offset that it was copied from (sends).
    """

    op: int
    what: str
    tp: int
    value: int
    offset: int
    outcome: int = OK
    leader_epoch: int = -1
    source: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding: `key` is canonical (docs/checks.md, section 2), the rest is its witness.

    at_ns: when it came to light, -1 unknown. process: whose promise was broken, -1 = nobody's.
    """

    name: str
    key: tuple[int, ...]
    variant: str = ""
    tp: int = -1
    process: int = -1
    ops: tuple[int, ...] = ()
    records: tuple[Shown, ...] = ()
    at_ns: int = -1
    detail: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[tuple[str, int, int, int], ...] = ()
    """Of a cycle: (kind, from op, to op, tp or -1)."""

    @property
    def canonical(self) -> tuple[str | int, ...]:
        """The key by which kernel and oracle are compared."""
        return (self.name, *self.key)


MISSING: Final = 1
UNDECIDED: Final = 2
ABSENT: Final = 3
"""Fate of a transaction's record that no counting read showed; ABSENT = it need not be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Records of transactions (OK or INFO) that no counting read showed, one entry each."""

    op: Array
    op_sends: Array
    value: Array
    info: Array
    fate: Array


Runs = Array
"""Offsets as runs of neighbours, shape (2, n): from, up to but not including."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The committed position of a group in a partition, and the row that it stems from.

    expected: the offsets below it that a read_committed consumer has to see (copying groups only).
    """

    group: int
    offset: int
    op: int
    process: int
    ns: int
    expected: Runs = field(default_factory=lambda: np.zeros((2, 0), np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Inputs of one partition `source` of which a group has copies here: committed ones; ones of
    which that is not decided."""

    group: int
    source: int
    committed: Runs
    pending: Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """When a partition served its producers (docs/checks.md, "Liveness"). Times in ns.

    acked: bins of `BIN_NS` with an acknowledgement. sent: bins in which records were sent, and when the
    first of each bin's records to be acknowledged was, shape (2, n). waits: shape (2, n), from and to.
    """

    acked: Array
    sent: Array
    waits: Array


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    """What the kernels found in one partition.

    counts: exact, by (class, variant). seen_info: INFO transactions with a record seen here.
    waiting: INFO transactions whose proof would raise a committed position here.
    late: transactions (not FAIL) that wrote here after a successor had begun.
    positions, copied: of copying groups: what they had to copy from here, what they copied to here.
    wr, ww: edges, shape (2, n) int32. undecided: committed records whose loss is undecided.
    crashed: check -> how. seconds: check -> time spent.
    """

    tp: int
    rows: int = 0
    acknowledged: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    unseen: Unseen | None = None
    seen_info: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    waiting: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    late: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    positions: list[Position] = field(default_factory=list)
    copied: list[Copied] = field(default_factory=list)
    progress: Progress | None = None
    wr: Array = field(default_factory=lambda: np.zeros((2, 0), np.int32))
    ww: Array = field(default_factory=lambda: np.zeros((2, 0), np.int32))
    undecided: int = 0
    unread: bool = False
    """The final reads did not show all of a partition with sends, at a level that matters."""
    crashed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def count(self, name: str, hits: int, variant: str = "") -> None:
        """Add to the exact count of a class."""
        if hits:
            self.counts[name, variant] += int(hits)

    def count_by(self, name: str, variants: Array, names: Iterable[tuple[int, str]]) -> None:
        """Count hits by a variant code each; `names`: code -> variant."""
        for code, variant in names:
            self.count(name, int(np.count_nonzero(variants == code)), variant)


ALL: Final = -1
"""`acks` of a process that waits for all in-sync replicas."""
ACKS: Final = ((0, "0"), (1, "1"), (ALL, "all"))
"""Variants of what was lost: acks of the process."""
IDEMPOTENT: Final = ((0, "0"), (1, "1"))
"""Variants of what an idempotent producer excludes."""


def spelled(code: int, names: Iterable[tuple[int, str]]) -> str:
    """The variant of a code."""
    return dict(names)[int(code)]


def integers(*values: Any) -> tuple[int, ...]:
    """Plain ints of numpy scalars (keys are compared and pickled)."""
    return tuple(int(value) for value in values)


def runs(offsets: Array) -> Runs:
    """Sorted distinct offsets as runs."""
    starts = np.flatnonzero(np.append(True, offsets[1:] != offsets[:-1] + 1)[: len(offsets)])
    ends = np.append(starts[1:], len(offsets))[: len(starts)] - 1
    return np.stack((offsets[starts], offsets[ends] + 1)).astype(np.int64)


def offsets_of(found: Runs) -> Array:
    """The offsets of runs (inverse of `runs`)."""
    lengths = found[1] - found[0]
    before = np.cumsum(lengths) - lengths
    return np.repeat(found[0] - before, lengths) + np.arange(int(lengths.sum()), dtype=np.int64)
