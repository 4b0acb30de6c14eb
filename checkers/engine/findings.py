"""What the checks give: findings with their evidence, and the result of one partition.

Everything here can be pickled: kernels run in this process or in Spark's workers. Findings may be many,
so each carries only what its sentence and the signatures of known bugs need.
"""

import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, Self

import numpy as np

from checkers.engine.evidence import FetchedRecords, Wanted
from checkers.windows import EXCUSES, FOREVER, Excuse, RunWindows
from core.errors import HistoryError
from core.first_few import first_few
from core.op import TopicPartition
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
LOG_CAP: Final = 256
"""The same of findings in logs: of one check, in one partition or in one join."""
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
    from the log what it misses. check: of evidence, the one that found it, for several of them have one
    class; "" = the check of the history that has the class."""

    name: str
    variant: Variant = Plain.PLAIN
    excuse: Excuse = Excuse.NONE
    check: str = ""


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
    leader_epoch: of reads, as the client knew it. done_ns: when it was acknowledged or read, -1 = never, or
    unknown.
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
class Finding(ABC):
    """One finding. Checks derive their own kinds, with the evidence that their sentences need.

    key: docs/checks.md, section 2; its first number is the partition, -1 = none. process: whose promise
    was broken, -1 = none. ops: none given = those of `records`. at_ns: when it came to light, -1 unknown.
    name, variant, excuse, check: its `Kind`, entered as it is reported.
    """

    key: tuple[int, ...]
    check: str = ""
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
        return Kind(self.name, self.variant, self.excuse, self.check)

    @property
    def tp(self) -> int:
        """Its partition, -1 = none."""
        return self.key[0]

    @property
    def canonical(self) -> tuple[str | int, ...]:
        """The key by which kernel and oracle are compared."""
        return (self.name, *self.key)

    @property
    def order(self) -> tuple[object, ...]:
        """Where it stands among findings of one check and class: the early ones first."""
        return self.at_ns < 0, self.at_ns, self.key

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

    @abstractmethod
    def sentence(self, history: History) -> str:
        """The whole story: what was promised, what was seen, when, for an expert to go and look."""

    def only(self, what: What) -> list[Shown]:
        """Records of its witness of one kind."""
        return [shown for shown in self.records if shown.what is what]


NOWHERE: Final = TopicPartition("", -1)
"""Stands for no partition."""


class Missed(NamedTuple):
    """A record that a finding in logs misses. epoch: the newest leader epoch whose leader is known to have
    had it. acked_ns: when its client had the acknowledgement. read_ms: by when a group had read it, by the
    clock of the nodes. -1 = unknown."""

    epoch: int = -1
    acked_ns: int = -1
    read_ms: int = -1


NOT_KNOWN: Final = Missed()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFinding(Finding):
    """A place in brokers' logs that a check of evidence refuses. It knows no row of the history.

    check: the name of the check. log, offset: the place; offset -1 = the partition as a whole; NOWHERE = no
    partition. take, nodes: where the rows stand that show it; take -1 = it is about messages of these nodes.
    text: its sentence, for an expert: what stands there, what has to hold. before: the state before that
    place, as the model has it, "" = there is none. since_ns: what it misses was not there before. missed:
    of the rules about lost records, what else is known of the record.
    producer_id, producer_epoch, transactional_id: of the transaction that it is about, -1 and "" = none. ms:
    a time at which that was under way or was ended, by the clock of the nodes, -1 unknown: transactions of
    one id can have one epoch. zxid: of the change in ZooKeeper that it is about, -1 = of none.
    """

    key: tuple[int, ...] = (-1,)
    log: TopicPartition
    offset: int
    take: int
    nodes: tuple[int, ...]
    text: str
    before: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str = ""
    since_ns: int = 0
    missed: Missed = NOT_KNOWN
    ms: int = -1
    zxid: int = -1

    @property
    def order(self) -> tuple[object, ...]:
        """By place, those without an offset last: a partition that has no records hurts no client."""
        return self.offset < 0, self.log, self.offset, self.take

    def sentence(self, history: History) -> str:
        """It is ready."""
        return self.text


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
    """What kept a check from deciding, `number` times. why: may name `{number}`, `{where}`, `{group}`.
    log: of a check of evidence, the partition, NOWHERE = anywhere; then `why` is ready."""

    check: str
    number: int
    why: str
    tps: tuple[int, ...] = ()
    group: int = -1
    log: TopicPartition | None = None

    def text(self, history: History | None = None) -> str:
        """The reason in words, with the names of the history."""
        if self.log is not None:
            return self.why if self.log == NOWHERE else f"{self.log}: {self.why}"
        where = first_few(self.tps if history is None else [*map(history.tp, self.tps)], 4)
        group = str(self.group) if history is None else history.group(self.group)
        return self.why.format(number=self.number, where=where, group=group)


@dataclass(frozen=True, slots=True)
class LogGround:
    """What has to be known of findings in logs as they are found.

    kinds: check of evidence -> kind of its findings. rests_on: check -> the internal topics that it rests on
    (`Check.rests_on`). windows: when records may have been taken off which log. taken_ns: take -> when its
    files were read. unclean: whether replicas that miss records may lead topics that do not say so
    themselves, None = unknown.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    rests_on: Mapping[str, Sequence[str]] = field(default_factory=dict)
    windows: RunWindows = field(default_factory=RunWindows)
    taken_ns: Mapping[int, int] = field(default_factory=dict)
    unclean: bool | None = None

    def kind(self, finding: LogFinding) -> Kind:
        """Of a finding. Raises: KeyError, where no check of this run has its name."""
        return self.kinds[finding.check]._replace(excuse=self._excuse(finding))

    def _excuse(self, finding: LogFinding) -> Excuse:
        """What may have taken records off the log, or off others that the check rests on, before the files
        were read that show the finding. What is in no partition may come from any."""
        logs = (finding.log,) if finding.log in self.windows.of_log else self.windows.partitions
        internal = self.rests_on.get(finding.check, ())
        until = self.taken_ns.get(finding.take, FOREVER)
        return EXCUSES[self.windows.ever(*logs, *internal, since=finding.since_ns, until=until)]


@dataclass(slots=True, kw_only=True)
class Found:
    """What was found. cap: findings kept of one kind. counts: exact, by kind.

    acknowledged: records. crashed: check -> how. seconds: check -> time spent. doubts: what could not be
    decided. asked: check of evidence -> how often it was applied to a row (or pair of rows) that it could
    have refused: 0 = this run exercised it not at all. ground: of findings in logs.
    """

    cap: int = CAP
    ground: LogGround = field(default_factory=LogGround)
    rows: int = 0
    acknowledged: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    crashed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)

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
        if not len(hits):
            return
        if codes is not None and len(unknown := np.setdiff1d(codes, [*variants])):
            raise ValueError(f"{name}: hits with codes {unknown.tolist()}; known: {list(variants)}")
        excuse = np.broadcast_to(np.asarray(excuses), len(hits))
        for code, variant in variants.items():
            of_code = np.ones(len(hits), bool) if codes is None else codes == code
            for by in np.unique(excuse[of_code]).tolist():
                mine = hits[of_code & (excuse == by)]
                kind = Kind(name, variant, EXCUSES[by])
                self.counts[kind] += len(mine)
                kept = self.cap // LEGAL_SHARE if variant in legal else self.cap
                self.findings += [entered(make(each), kind) for each in mine[:kept].tolist()]

    def add(
        self, name: str, findings: Collection[Finding], excuse: int = 0, variant: Variant = Plain.PLAIN
    ) -> None:
        """Findings of a class, none left out. excuse: a key of `EXCUSES`."""
        if findings:
            kind = Kind(name, variant, EXCUSES[excuse])
            self.counts[kind] += len(findings)
            self.findings += [entered(each, kind) for each in findings]

    @property
    def in_logs(self) -> list[LogFinding]:
        """The findings in logs that were kept."""
        return [one for one in self.findings if isinstance(one, LogFinding)]

    def refuse(self, finding: LogFinding) -> None:
        """Count a finding in logs; keep the first ones of its kind."""
        kind = self.ground.kind(finding)
        self.counts[kind] += 1
        if self.counts[kind] <= min(self.cap, LOG_CAP):
            self.findings.append(entered(finding, kind))

    def leave_open(self, check: str, log: TopicPartition, why: str) -> None:
        """Keep the first reason why a check of evidence could not decide something in a partition."""
        if not any((one.check, one.log) == (check, log) for one in self.doubts):
            self.doubts.append(Doubt(check=check, number=1, why=why, log=log))

    def guarded(self, checks: Sequence[str], work: Callable[[], None]) -> None:
        """Do a part of some checks. A crash is noted for each of them, and stops nothing else; a damaged file
        is not one. Raises: HistoryError."""
        begin = time.perf_counter()
        try:
            work()
        except HistoryError:
            raise
        except Exception:  # noqa: BLE001 (the checks are named as crashed, the others run)
            how = traceback.format_exc(limit=-3)
            for check in checks:
                self.crashed.setdefault(check, how)
        for check in checks:
            self.spent(check, (time.perf_counter() - begin) / len(checks))

    def spent(self, check: str, seconds: float) -> None:
        """Time went into a check."""
        self.seconds[check] = self.seconds.get(check, 0.0) + seconds


def entered(finding: Finding, kind: Kind) -> Finding:
    """A finding with its kind, and the ops of its records where it names none."""
    ops = finding.ops or tuple(dict.fromkeys(each.op for each in finding.records))
    at_ns = finding.at_ns if finding.at_ns < NEVER else -1
    return replace(
        finding,
        name=kind.name,
        variant=kind.variant,
        excuse=kind.excuse,
        check=kind.check,
        ops=ops,
        at_ns=at_ns,
    )


@dataclass(slots=True, kw_only=True)
class PartitionResult(Found):
    """What the kernels found in one partition: `tp` of the history, or `log` of the evidence.

    unread: the final reads did not show all of a partition with sends, at a level
    that matters. parts: check -> what its join over all partitions needs. kept: check -> what grows with the
    rows; it stays where the kernel ran, and the join asks for some of it (`WholeRun.ask`). refused: why no
    kernel was asked, "" = they were; may name `{where}`.
    """

    tp: int = -1
    log: TopicPartition = NOWHERE
    unread: bool = False
    parts: dict[str, object] = field(default_factory=dict)
    kept: dict[str, object] = field(default_factory=dict)
    refused: str = ""

    @property
    def where(self) -> str:
        """The partition in words, for programmers."""
        return f"partition {self.tp}" if self.log == NOWHERE else str(self.log)


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
