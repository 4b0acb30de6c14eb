"""What the checks give: findings with their evidence, and the result of one partition.

Everything here can be pickled: kernels run in this process or in Spark's workers. Findings may be many,
so each carries only what its sentence and the signatures of known bugs need.
"""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, Self

import numpy as np

from checkers.engine.evidence import FetchedRecords, Wanted
from checkers.windows import EXCUSES, Excuse
from history.columns import Array
from history.reader import History, ReadRow, SendRow, value_text

RU: Final = 0
RC: Final = 1
OK: Final = 0
FAIL: Final = 1
INFO: Final = 2
FINAL: Final = 6
"""Integer values of `Isolation`, `Outcome` and `Phase` (core.op), as the tables hold them."""
NEVER: Final = 2**63 - 1
"""A time that does not come."""

CAP: Final = 4096
"""Findings kept of one class and variant in one partition; counts stay exact."""
LEGAL_SHARE: Final = 128
"""Only this part of it is kept where every configuration permits the finding: as examples."""
TRANSACTION_READS: Final = 8
"""Reads of a transaction's records in a witness."""


class Variant(StrEnum):
    """What the rule of an anomaly class needs to know of a finding; each check has its own kinds."""


class Plain(Variant):
    """Of classes without variants."""

    PLAIN = ""


class Acks(Variant):
    """The `acks` of the process that had the acknowledgement.

    READ: it is 0 or 1, and a consumer had read the record. HOLE: whatever it is, the offset of the record is
    empty in a log that has no empty ones.
    """

    NONE = "0"
    LEADER = "1"
    ALL = "all"
    READ = "read"
    HOLE = "hole"


class Level(Variant):
    """At which level a client read a record that none should see.

    UNSENT: at any level, a record that its client never wrote. LOG: by a final read at
    read_uncommitted: it shows what the log holds, and no consumer's anomaly.
    """

    UNSENT = "unsent"
    RC = "rc"
    RU = "ru"
    LOG = "log"


PLAIN: Final[Mapping[int, Variant]] = {0: Plain.PLAIN}
READ_ONCE, IN_A_HOLE = 2, 3
ACKS: Final[Mapping[int, Variant]] = {
    0: Acks.NONE, 1: Acks.LEADER, -1: Acks.ALL, READ_ONCE: Acks.READ, IN_A_HOLE: Acks.HOLE,
}  # fmt: skip


class Kind(NamedTuple):
    """What decides whether a finding is permitted: its class, its variant, and what on record may have taken
    from the log what it misses."""

    name: str
    variant: Variant = Plain.PLAIN
    excuse: Excuse = Excuse.NONE


class What(StrEnum):
    """What an op did with a record, or with an offset of a partition."""

    SEND = "send"
    READ = "read"
    COMMIT = "commit"
    FETCHED = "fetch committed"


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as a witness shows it: `what` an op did to `value` at `offset`.

    outcome, source, invoke_ns: of sends; source: partition and offset that it was copied from.
    leader_epoch: of reads, as the client knew it. done_ns: when it was acknowledged or read, -1 = never.
    """

    op: int
    what: What
    tp: int
    value: int
    offset: int
    process: int = -1
    done_ns: int = -1
    outcome: int = OK
    leader_epoch: int = -1
    source: tuple[int, int] = (-1, -1)
    invoke_ns: int = -1

    @property
    def name(self) -> str:
        """Its value as people read it."""
        return value_text(self.value)

    def text(self, history: History) -> str:
        """The record with its partition."""
        return f"record {self.name} of {history.tp(self.tp)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. Checks derive their own kinds, with the evidence that their sentences need.

    key: docs/checks.md, section 2; its first number is the partition, -1 = none. process: whose promise
    was broken, -1 = none. ops: none given = those of `records`. at_ns: when it came to light, -1 unknown.
    name, variant, excuse: its `Kind`, entered as it is reported.
    """

    key: tuple[int, ...]
    process: int = -1
    ops: tuple[int, ...] = ()
    records: tuple[Shown, ...] = ()
    at_ns: int = -1
    name: str = ""
    variant: Variant = Plain.PLAIN
    excuse: Excuse = Excuse.NONE

    @property
    def kind(self) -> Kind:
        """What decides whether it is permitted."""
        return Kind(self.name, self.variant, self.excuse)

    @property
    def tp(self) -> int:
        """Its partition, -1 = none."""
        return self.key[0]

    @property
    def canonical(self) -> tuple[str | int, ...]:
        """The key by which kernel and oracle are compared."""
        return (self.name, *self.key)

    @property
    def wanted(self) -> Wanted:
        """What its witness needs beside `records`."""
        return Wanted()

    def more(self, fetched: FetchedRecords) -> Sequence[Shown]:
        """Further records of its witness."""
        return ()

    def completed(self, fetched: FetchedRecords) -> Self:
        """The finding with all records of its witness."""
        return replace(self, records=(*self.records, *self.more(fetched)))

    def sentence(self, history: History) -> str:
        """The whole story: what was promised, what was seen, when, for an expert to go and look."""
        raise NotImplementedError(type(self))

    def only(self, what: What) -> list[Shown]:
        """Records of its witness of one kind."""
        return [shown for shown in self.records if shown.what is what]


class OfTransaction(Finding):
    """A finding about one transaction, `ops`; where it is not known, about no op."""

    @property
    def wanted(self) -> Wanted:
        """All its records, and who read them."""
        return Wanted(written=self.ops)

    def more(self, fetched: FetchedRecords) -> list[Shown]:
        """All its records, and one read of each that was read."""
        own = [sent(row) for op in self.ops for row in fetched.sends.get(op, ())]
        found = (fetched.reads_of.get((each.tp, each.value), ()) for each in own)
        reads = [read for some in found for read in some[:1]]
        return [*own, *map(got, reads[:TRANSACTION_READS])]


def at(history: History, ns: int) -> str:
    """A moment in words."""
    return f"at {history.seconds(ns):.3f} s" if ns > 0 else "at an unknown time"


def reader(history: History, op: int) -> str:
    """The process of an op in words, with the level at which it reads."""
    number = history.op(op).process
    process = history.processes.get(number)
    level = f", reading at {process.level}," if process is not None and process.level else ""
    return f"{history.client(number)}{level}"


def sent(row: SendRow) -> Shown:
    """A row of sends as a witness shows it."""
    offset = row.offset if row.offset >= 0 else row.place
    source = row.src_tp, row.src_offset
    return Shown(row.op, What.SEND, row.tp, row.value, offset, outcome=row.outcome, source=source)


def got(row: ReadRow) -> Shown:
    """A row of reads as a witness shows it."""
    return Shown(row.op, What.READ, row.tp, row.value, row.offset, leader_epoch=row.leader_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What kept a check from deciding, `number` times. why: may name `{number}`, `{where}`, `{group}`."""

    check: str
    number: int
    why: str
    tps: tuple[int, ...] = ()
    group: int = -1

    def text(self, history: History | None = None) -> str:
        """The reason in words, with the names of the history."""
        names = [str(tp) if history is None else history.tp(tp) for tp in self.tps[:4]]
        more = f" and {len(self.tps) - 4} more" if len(self.tps) > 4 else ""
        group = str(self.group) if history is None else history.group(self.group)
        return self.why.format(number=self.number, where=", ".join(names) + more, group=group)


@dataclass(slots=True, kw_only=True)
class Found:
    """What was found. cap: findings kept of one kind. counts: exact, by kind.

    acknowledged: records. crashed: check -> how. seconds: check -> time spent.
    """

    cap: int = CAP
    rows: int = 0
    acknowledged: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    crashed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def report(
        self,
        name: str,
        hits: Array,
        make: Callable[[int], Finding],
        codes: Array | None = None,
        variants: Mapping[int, Variant] = PLAIN,
        legal: Collection[Variant] = (),
        excuses: Array | int = 0,
    ) -> None:
        """Count all hits of a class; keep the first `cap` of each kind as findings.

        hits: what `make` takes (a row, an offset …). codes: of each hit, a key of `variants`. legal: variants
        that every configuration permits: fewer of them are kept. excuses: of each hit, or of all, a key of
        `EXCUSES`. Raises: ValueError, where a code is not a key: a hit that no variant counts would be a
        finding that no reader sees.
        """
        if codes is not None and len(unknown := np.setdiff1d(codes, [*variants])):
            raise ValueError(f"{name}: hits with codes {unknown.tolist()}; known: {list(variants)}")
        if not len(hits):
            return
        excuse = np.broadcast_to(np.asarray(excuses), len(hits))
        for code, variant in variants.items():
            of_code = np.ones(len(hits), bool) if codes is None else codes == code
            for by in np.unique(excuse[of_code]).tolist():
                mine = hits[of_code & (excuse == by)]
                kind = Kind(name, variant, EXCUSES[by])
                self.counts[kind] += len(mine)
                kept = self.cap // LEGAL_SHARE if variant in legal else self.cap
                self.findings += [entered(make(each), kind) for each in mine[:kept].tolist()]

    def add(self, name: str, findings: Collection[Finding], excuse: int = 0) -> None:
        """Findings of a class, none left out. excuse: a key of `EXCUSES`."""
        if findings:
            kind = Kind(name, excuse=EXCUSES[excuse])
            self.counts[kind] += len(findings)
            self.findings += [entered(each, kind) for each in findings]

    def guarded(self, check: str, work: Callable[[], None]) -> None:
        """Do a part of a check. A crash is noted, and stops nothing else."""
        begin = time.perf_counter()
        try:
            work()
        except Exception:  # noqa: BLE001 (the check is named as crashed, the others run)
            self.crashed.setdefault(check, traceback.format_exc(limit=-3))
        self.spent(check, time.perf_counter() - begin)

    def spent(self, check: str, seconds: float) -> None:
        """Time went into a check."""
        self.seconds[check] = self.seconds.get(check, 0.0) + seconds


def entered(finding: Finding, kind: Kind) -> Finding:
    """A finding with its kind, and the ops of its records where it names none."""
    ops = finding.ops or tuple(dict.fromkeys(each.op for each in finding.records))
    return replace(finding, name=kind.name, variant=kind.variant, excuse=kind.excuse, ops=ops)


@dataclass(slots=True, kw_only=True)
class PartitionResult(Found):
    """What the kernels found in one partition.

    unread: the final reads did not show all of a partition with sends, at a level
    that matters. parts: check -> what its join over all partitions needs. kept: check -> what grows with the
    rows; it stays where the kernel ran, and the join asks for some of it (`WholeRun.ask`). refused: why no
    kernel was asked, "" = they were; may name `{where}`.
    """

    tp: int
    unread: bool = False
    parts: dict[str, object] = field(default_factory=dict)
    kept: dict[str, object] = field(default_factory=dict)
    refused: str = ""


Runs = Array
"""Offsets as runs of neighbours, shape (2, n): from, up to but not including."""


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
