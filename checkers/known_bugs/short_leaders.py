"""Leaders that lacked acknowledged records when they were elected, and what was cut off with them."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from checkers.checks.consistency import INCONSISTENT
from checkers.checks.durability import LOST
from checkers.checks.group_offsets import PHANTOM_COMMIT, PhantomCommit
from checkers.checks.real_time import INVERSION
from checkers.checks.send_order import BETWEEN_OPS
from checkers.engine.findings import NEVER, Finding, LogFinding, What
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from core.op import TopicPartition

CUT: Final = (LOST, INVERSION, INCONSISTENT, BETWEEN_OPS, PHANTOM_COMMIT)
"""Classes that such a leader causes."""


class ShortLeader(NamedTuple):
    """A leader that may lack what was acknowledged before `ns`. epoch: its leader epoch."""

    ns: int
    epoch: int


ShortLeaders = Callable[[LabelledRun, TopicPartition], Iterable[ShortLeader]]
"""Those of a partition by one mechanism."""


def cut_off(leaders: ShortLeaders, suspicion: Suspicion) -> bool:
    """What the finding misses was acknowledged before the leader lacked it, and what stands in its place, if
    anything does, was written after the election. Of an offset that a group committed, it is the record right
    below it, of several that stood there the last one."""
    run, finding = suspicion.run, suspicion.finding
    if isinstance(finding, PhantomCommit):
        known = [one.ack_ns for one in run.sent_to(finding) if one.ack_ns >= 0]
        return _cut(leaders, run, run.partition(finding.tp), finding.place, max(known, default=NEVER))
    sends = finding.only(What.SEND)
    gone = sends if finding.name == INCONSISTENT else sends[:1]  # of two in order the second one was not lost
    acked = [one.done_ns for one in gone if one.done_ns >= 0]
    return _cut(leaders, run, run.partition(finding.tp), _place(finding), min(acked, default=NEVER))


def cut_off_log(leaders: ShortLeaders, run: LabelledRun, finding: LogFinding) -> bool:
    """The same of a record that no log has at its place."""
    return _cut(leaders, run, finding.log, finding.offset, finding.since_ns)


def _cut(leaders: ShortLeaders, run: LabelledRun, tp: TopicPartition, place: int, known_ns: int) -> bool:
    """Whether a record that was known by a time was cut off at its place. A place that is not known, or that
    is empty in a log that continues behind it, shows no cut."""
    log, standing = run.survivor(tp), run.batch(tp, place)
    if log is None or place < 0 or (standing is None and place < log.end):
        return False
    return any(
        known_ns <= one.ns and (standing is None or standing["leader_epoch"] >= one.epoch)
        for one in leaders(run, tp)
    )


def _place(finding: Finding) -> int:
    """Where a record that was acknowledged is no more."""
    if finding.name == INCONSISTENT:
        return finding.key[1]
    sends = finding.only(What.SEND)
    return sends[0].offset if finding.name == LOST else sends[-1].offset
