"""The fates of a transaction's records, partition by partition: evidence for bugs that decide the fate of a
transaction, or of a part of it, wrongly.

Such a bug loses no record: it makes readers at read_committed see what was aborted, or miss what was
committed. In the log all of them stay, and the final reads at read_uncommitted show them. Where those lack
one, another bug took it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from checkers.checks.atomicity import TornTransaction
from checkers.checks.exactly_once import NeverCopied
from checkers.checks.group_delivery import NeverGiven
from checkers.checks.isolation import PRECOMMITTED
from checkers.checks.poll_order import Skipped
from checkers.checks.stability import HangingTransaction, StuckLso
from checkers.engine.evidence import FetchedRecords
from checkers.engine.findings import FAIL, FINAL, NEVER, OK, RC, Finding, What
from checkers.known_bugs.labelled_run import Input, LabelledRun
from core.cluster import OpenTransaction
from core.op import Isolation
from core.presets import NamedSettings
from history.reader import History, OpRecord, SendRow

HIDDEN: Final = (
    " Who passed over a record, or was never given it, reads at read_committed (in a group: each member):"
    " from others the fate of a transaction hides nothing."
)
"""Whom such a bug hides records from, as evidence in words."""
ENDINGS: Final[Mapping[int, tuple[bool, ...]]] = {OK: (True,), FAIL: (False,)}
"""Outcome of a transaction -> how it may have ended, True = committed; others: either way."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A finding that may bear a bug's signature, in its run. fetched: the records that `wanted` named. known:
    fates that were asked for, the same for all findings."""

    run: LabelledRun
    finding: Finding
    fetched: FetchedRecords
    known: "dict[int, Fates]" = field(default_factory=dict)

    def fates(self, op: int) -> "Fates":
        """The fates of a transaction's records."""
        if op not in self.known:
            self.known[op] = fates(self.fetched, op)
        return self.known[op]

    @property
    def history(self) -> History:
        """The history of the run."""
        return self.run.history

    @property
    def config(self) -> NamedSettings:
        """The settings of the run."""
        return self.history.config

    @property
    def until_ns(self) -> int:
        """What explains the finding happened before: where a record was read too early, it was read then."""
        return self.finding.at_ns if self.early else NEVER

    @property
    def early(self) -> bool:
        """It is about a record that was read before its transaction ended, however that ended then."""
        return self.finding.name == PRECOMMITTED


class Written(NamedTuple):
    """A record that was written. place: its offset. sent_ns, acked_ns: begin of its send, and when its client
    had the acknowledgement, NEVER = it had none. visible: a consumer at read_committed got it. kept: the log
    has it at the end, as a final read showed. offered: its client handed it over."""

    place: int
    sent_ns: int
    acked_ns: int
    visible: bool
    kept: bool
    offered: bool


Fates = Mapping[int, Sequence[Written]]
"""Partition -> its records, by offset."""
Way = Callable[[Sequence[Written], bool], bool]
"""Whether the mechanism explains the records of a partition, given how the transaction ended in others."""


def fates(fetched: FetchedRecords, op: int) -> Fates:
    """The fates of a transaction's records. One in doubt was written if a consumer saw it."""
    by_tp: dict[int, list[Written]] = {}
    for row in fetched.sends.get(op, ()):
        reads = [read for read in fetched.reads_of.get((row.tp, row.value), ()) if read.op != op]
        visible = any(read.isolation == RC for read in reads)
        if row.outcome == OK or visible:
            kept = any(read.phase == FINAL for read in reads)
            acked = row.ack_ns if row.outcome == OK and row.ack_ns >= 0 else NEVER
            one = Written(row.place, row.invoke_ns, acked, visible, kept, row.outcome != FAIL)
            by_tp.setdefault(row.tp, []).append(one)
    return {tp: sorted(rows) for tp, rows in by_tp.items()}


def in_log(found: Fates) -> bool:
    """All of them are in the log, and were handed over: what is wrong with the transaction is its fate."""
    return all(one.kept and one.offered for rows in found.values() for one in rows)


def uniform(rows: Sequence[Written], ended: bool) -> bool:
    """All have one fate: one marker decided all of them."""
    return len({one.visible for one in rows}) <= 1


def decided_early(rows: Sequence[Written], ended: bool) -> bool:
    """From some offset on they have the fate of the transaction; those before have the other one: a marker
    came between."""
    wrong = [one.visible != ended for one in rows]
    return wrong == sorted(wrong, reverse=True)


def astray_only(suspicion: Suspicion, op: OpRecord, astray: Mapping[int, Way]) -> bool:
    """Partitions that the mechanism led astray explain what is wrong with a transaction: in all others it
    ended one way; in some of them it did not, and the finding is about one of these."""
    found, tp = suspicion.fates(op.op), suspicion.finding.tp
    if not astray or not in_log(found):
        return False
    for ended in ENDINGS.get(op.outcome, (True, False)):
        straight = all(
            astray[one](rows, ended) if one in astray else all(row.visible == ended for row in rows)
            for one, rows in found.items()
        )
        wrong = {one for one, rows in found.items() if any(row.visible != ended for row in rows)}
        # in doubt: what is wrong may be what is visible elsewhere, while the finding is about what is hidden
        hidden = op.outcome not in ENDINGS and not all(row.visible for row in found.get(tp, ()))
        here = tp in astray if suspicion.early else bool(wrong) and (tp < 0 or hidden or tp in wrong)
        if straight and here:
            return True
    return False


def all_explained(suspicion: Suspicion, astray: Callable[[Suspicion, OpRecord], Mapping[int, Way]]) -> bool:
    """Each transaction behind a finding about records went astray, and that explains what is wrong with it.
    What readers at read_uncommitted miss it does not explain."""
    if not _at_read_committed(suspicion.history, suspicion.finding):
        return False
    ops = [suspicion.history.op(number) for number in behind(suspicion.run, suspicion.finding)]
    if isinstance(suspicion.finding, Skipped):
        ops = [op for op in ops if _committed(suspicion, op)]
    return bool(ops) and all(astray_only(suspicion, op, astray(suspicion, op)) for op in ops)


def _at_read_committed(history: History, finding: Finding) -> bool:
    """Who misses a record reads at read_committed; of other findings: nothing is said of that."""
    if isinstance(finding, Skipped):
        process = history.processes.get(history.op(finding.records[-1].op).process)
        readers = [] if process is None else [process]
    elif isinstance(finding, NeverCopied | NeverGiven):
        readers = [one for one in history.processes.values() if one.group == finding.key[1]]
    else:
        return True
    return bool(readers) and all(one.isolation is Isolation.READ_COMMITTED for one in readers)


def open_or_astray(suspicion: Suspicion, astray: Callable[[Suspicion, OpRecord], Mapping[int, Way]]) -> bool:
    """As `all_explained`; and of a transaction that stays open: the mechanism led its partition astray."""
    finding = suspicion.finding
    if isinstance(finding, StuckLso | HangingTransaction):
        ops = [suspicion.history.op(number) for number in behind(suspicion.run, finding)]
        return bool(ops) and all(finding.tp in astray(suspicion, op) for op in ops)
    return all_explained(suspicion, astray)


def _committed(suspicion: Suspicion, op: OpRecord) -> bool:
    """The client got its acknowledgement, or a record of the transaction is visible."""
    rows = suspicion.fates(op.op).values()
    return op.outcome == OK or any(row.visible for some in rows for row in some)


# ---- which transactions a finding is about


def behind(run: LabelledRun, finding: Finding) -> tuple[int, ...]:
    """The transactions whose records a finding is about; of a skip: those that may be committed."""
    if isinstance(finding, Skipped):
        return tuple({row.op for row in run.between(finding) if row.op_outcome != FAIL})
    if isinstance(finding, Input):
        return tuple({row.op for row in run.sent_to(finding)})
    if isinstance(finding, TornTransaction):
        return finding.ops[:1]
    if isinstance(finding, StuckLso | HangingTransaction):
        opened = unclaimed(finding)
        rows = first_open(run.history, finding.tp, opened.start) if opened else ()
        return tuple({row.op for row in rows})
    return tuple(shown.op for shown in finding.only(What.SEND))


def first_open(history: History, tp: int, start: int) -> list[SendRow]:
    """The first record of the transaction that holds the last stable offset back, where it begins."""
    rows = history.sends({tp: {"place": (start,)}})
    return [row for row in rows if row.place == start]


def unclaimed(finding: StuckLso | HangingTransaction) -> OpenTransaction | None:
    """The transaction that holds the last stable offset back, if its coordinator answered and does not claim
    it; one that did not answer may have claimed it."""
    opened = next(iter(_listed(finding)), None)
    if opened is None or opened.transactional_id or opened.coordinator < 0:
        return None
    return opened


def coordinators_answered(finding: StuckLso | HangingTransaction) -> bool:
    """Some coordinator answered whether it claims a transaction of the partition."""
    return any(one.transactional_id or one.coordinator >= 0 for one in _listed(finding))


def _listed(finding: StuckLso | HangingTransaction) -> tuple[OpenTransaction, ...]:
    return (finding.opened,) if isinstance(finding, HangingTransaction) else finding.opened
