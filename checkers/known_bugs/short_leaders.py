"""Leaders that lacked acknowledged records when they were elected, and what was cut off with them."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Final, NamedTuple

from checkers.checks.consistency import INCONSISTENT
from checkers.checks.durability import LOST
from checkers.checks.group_offsets import PHANTOM_COMMIT, PhantomCommit
from checkers.checks.real_time import INVERSION, Inversion
from checkers.checks.send_order import BETWEEN_OPS
from checkers.engine.evidence import Wanted
from checkers.engine.findings import Finding, LogFinding, Missed, What
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from core.op import TopicPartition

CUT: Final = (LOST, INVERSION, INCONSISTENT, BETWEEN_OPS, PHANTOM_COMMIT)
"""Classes that such a leader causes."""
LACKED: Final = (
    " Where the log of that broker says so, its copy ended at or before the place when it began to lead."
    " No reader that was assigned the partition after the leader before it was in sync again got the record."
    " Of a later record at a lower offset, each one that it stands before is gone, as final reads show."
)
"""What shows that the leader did lack it, as evidence in words."""
IN_LOGS: Final = (
    " In brokers' logs, where no client has the acknowledgement, the record was there in an older leader"
    " epoch: the log that had it (`committed-kept`) has noted neither that epoch nor a later one; the group"
    " that had read it (`consumed-kept`) committed an older one, or, without an epoch, did so before that"
    " time. Where none of this is on record, the finding gets no label."
)
"""What shows that the record of a finding in logs was there before, likewise."""


class ShortLeader(NamedTuple):
    """A leader that may lack what was acknowledged before `ns`, and after `since_ns`. epoch: its leader
    epoch."""

    ns: int
    epoch: int
    since_ns: int = -1


ShortLeaders = Callable[[LabelledRun, TopicPartition], Iterable[ShortLeader]]
"""Those of a partition by one mechanism."""


class _Gone(NamedTuple):
    """A record that a finding misses. offset: where it stood; known_ns: when it was acknowledged."""

    op: int
    value: int
    offset: int
    known_ns: int


def wanted(leaders: ShortLeaders, run: LabelledRun, finding: Finding) -> Wanted | None:
    """The reads of the record, where the partition had such a leader."""
    if not any(leaders(run, run.partition(finding.tp))):
        return None
    gone = _gone(run, finding)
    return Wanted(written=(gone.op,)) if gone else None


def cut_off(leaders: ShortLeaders, suspicion: Suspicion) -> bool:
    """What the finding misses was acknowledged before the leader lacked it, that leader did lack it, and what
    stands in its place, if anything does, was written after the election. Of an offset that a group
    committed, it is the record right below it, of several that stood there the last one."""
    run, finding = suspicion.run, suspicion.finding
    gone = _gone(run, finding)
    if gone is None or (isinstance(finding, Inversion) and finding.kept):
        return False  # no leader that lacks a record puts another one before what the log still has
    reads = suspicion.fetched.reads_of.get((finding.tp, gone.value), ())
    # a client hands out what it fetched long before: after an assignment it has nothing of that
    given_ns = max((run.assigned_ns(one) for one in reads if one.offset == gone.offset), default=-inf)
    tp, place = run.partition(finding.tp), _place(finding)
    missed = Missed(acked_ns=gone.known_ns)
    return _cut(leaders, run, tp, place, missed=missed, given_ns=given_ns)


def cut_off_log(leaders: ShortLeaders, run: LabelledRun, finding: LogFinding) -> bool:
    """The same of a record that no log has at its place."""
    return _cut(leaders, run, finding.log, finding.offset, missed=finding.missed, given_ns=-inf)


def _cut(
    leaders: ShortLeaders,
    run: LabelledRun,
    tp: TopicPartition,
    place: int,
    *,
    missed: Missed,
    given_ns: float,
) -> bool:
    """Whether a record that was there before was cut off at its place. A place that is not known, or that is
    empty in a log that continues behind it, shows no cut. given_ns: when the last reader that was given the
    record asked for it, or later."""
    log, standing = run.survivor(tp), run.batch(tp, place)
    if log is None or place < 0 or (standing is None and place < log.end):
        return False
    return any(
        _before(run, missed, one)
        and (standing is None or standing["leader_epoch"] >= one.epoch)
        and run.starts(tp).get(one.epoch, place) <= place
        and given_ns <= _heard_ns(run, tp, one.epoch)
        for one in leaders(run, tp)
    )


def _before(run: LabelledRun, missed: Missed, one: ShortLeader) -> bool:
    """Whether a record was acknowledged before the leader lacked it, as far as anything tells. That a group
    had read it, or an older leader had it, does not tell when, and so not that a time had begun."""
    if missed.acked_ns >= 0:
        return one.since_ns <= missed.acked_ns <= one.ns
    if one.since_ns >= 0:
        return False
    if missed.epoch >= 0:
        return missed.epoch < one.epoch
    return missed.read_ms >= 0 and run.ns_of(missed.read_ms) <= one.ns


def _heard_ns(run: LabelledRun, tp: TopicPartition, epoch: int) -> float:
    """Until when readers may have been given what the leader of an epoch lacks, by the one before it."""
    heard = (one.heard_ms for one in run.lineage(tp).found if one.epoch == epoch)
    ms = next(heard, inf)
    return run.ns_of(int(ms) + SLACK_MS) if 0 <= ms < inf else inf


def _gone(run: LabelledRun, finding: Finding) -> _Gone | None:
    """None = no record that was acknowledged is known to be gone."""
    if isinstance(finding, PhantomCommit):
        rows = [row for row in run.sent_to(finding) if row.ack_ns >= 0]
        known = [_Gone(row.op, row.value, finding.place, row.ack_ns) for row in rows]
        return max(known, key=lambda one: one.known_ns, default=None)
    sends = finding.only(What.SEND)
    same = finding.name == INCONSISTENT  # one of those at its offset is gone; of two in order the first one
    known = [
        _Gone(one.op, one.value, finding.key[1] if same else one.offset, one.done_ns)
        for one in (sends if same else sends[:1])
        if one.done_ns >= 0
    ]
    return min(known, key=lambda one: one.known_ns, default=None)


def _place(finding: Finding) -> int:
    """Where a record that was acknowledged is no more."""
    if isinstance(finding, PhantomCommit):
        return finding.place
    if finding.name == INCONSISTENT:
        return finding.key[1]
    sends = finding.only(What.SEND)
    return sends[0].offset if finding.name == LOST else sends[-1].offset
