"""A delayed marker ended the producer's next transaction in one partition.

Of markers that came late the run recorded what its rules of the wire held back, or a coordinator's log says
that it gave the request up.
"""

from collections.abc import Sequence, Set
from functools import partial
from typing import Final

from checkers.checks.atomicity import TORN
from checkers.checks.durability import LOST
from checkers.checks.isolation import ABORTED, PRECOMMITTED
from checkers.checks.poll_order import SKIP, SKIP_INSIDE
from checkers.engine.evidence import Wanted
from checkers.engine.findings import Finding, LogFinding, What
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.cancelled_markers import LateMarker
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.late_requests import LateRequest
from checkers.known_bugs.log_findings import between, marker_at, transactional_ids
from checkers.known_bugs.transaction_fates import (
    HIDDEN,
    Suspicion,
    Way,
    Written,
    all_explained,
    behind,
    decided_early,
)
from checkers.logs.classes import LOST_DECISION, TORN_DECISION
from checkers.logs.decisions import AGREE, DECIDED
from history.reader import OpRecord


def late_marker_wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    """What `late_marker` needs."""
    if not run.any_late_markers:
        return None
    found = behind(run, finding)
    return Wanted(written=found) if found else None


def late_marker(suspicion: Suspicion) -> bool:
    """While each transaction behind the finding was under way, markers of the same producer came that a rule
    of the wire had taken, or their coordinator had given up, before it began, and their brokers wrote them.
    Only in the partitions that these name the transaction shows another end: of its records there, those
    before the marker; and the finding is in one of them."""
    return all_explained(suspicion, _marked_early)


def _marked_early(suspicion: Suspicion, op: OpRecord) -> dict[int, Way]:
    history, run = suspicion.history, suspicion.run
    mine = run.transactional_id(op.process)
    if not op.txn or not mine:
        return {}
    held: dict[int, Way] = {
        history.tp_numbers[name]: partial(_as_marked, late, run.asked(late, mine), suspicion.early)
        for late in run.late_markers(mine)
        if late.delivered_ns <= suspicion.until_ns
        and _comes_into(run, late, op)
        and _sent_before(suspicion, late)
        for name in late.named & history.tp_numbers.keys()
    }
    until_ms = history.wall_ms(suspicion.until_ns) + SLACK_MS
    return held | {
        history.tp_numbers[name]: partial(_as_marked_at, given_up, suspicion.early)
        for given_up in run.given_up(mine)
        if given_up.ms <= until_ms
        and _stands_before(suspicion, given_up)
        and run.takes_older(given_up.version, run.ns_of(given_up.ms))
        and (name := str(given_up.tp)) in history.tp_numbers
        and (hit := run.at_ms(mine, given_up.began_ms))
        and hit.op == op.op
    }


def _sent_before(suspicion: Suspicion, late: LateRequest) -> bool:
    """Of a record that was read too early: it may stand before a late marker."""
    return not suspicion.early or suspicion.finding.only(What.SEND)[0].invoke_ns <= late.answered_ns


def _stands_before(suspicion: Suspicion, late: LateMarker) -> bool:
    """Likewise, by its place: in the same partition it is below the marker's."""
    finding = suspicion.finding
    if not suspicion.early or suspicion.run.partition(finding.tp) != late.tp:
        return True
    return finding.only(What.READ)[0].offset < late.offset


def _comes_into(run: LabelledRun, late: LateRequest, op: OpRecord) -> bool:
    """Late markers came before the next transaction began, as a transaction's own are written before that;
    and its producer id and epoch are theirs, as far as the coordinators' log tells."""
    begun = {f"producer {one.producer_id}/{one.epoch}" for one in run.begun(op)}
    if not late.comes_into(op, run.next_ns(op)) or (begun and begun.isdisjoint(late.named)):
        return False
    before = run.at(run.transactional_id(op.process), late.caught_ns)
    version = max((one.version for one in (run.begun(before) if before else ())), default=0)
    return run.takes_older(version, late.delivered_ns)


def _as_marked_at(late: LateMarker, early: bool, rows: Sequence[Written], ended: bool) -> bool:
    """Records before the late marker in the log have its result, those behind it do not. early: one was read
    by it, which stands before it."""
    if early:
        return late.commit and any(one.place < late.offset for one in rows)
    return late.commit != ended and all((one.visible != ended) == (one.place < late.offset) for one in rows)


def _as_marked(
    late: LateRequest, asked: Set[bool], early: bool, rows: Sequence[Written], ended: bool
) -> bool:
    """Records in the log before the late marker came have its result, those sent after it do not. early: one
    was read by it, which may stand before it, and its own transaction may have ended in the same way."""
    if early:
        return True in asked and any(one.sent_ns <= late.answered_ns for one in rows)
    return (
        (not ended) in asked
        and decided_early(rows, ended)
        and all(one.visible != ended for one in rows if one.acked_ns < late.delivered_ns)
        and all(one.visible == ended for one in rows if one.sent_ns > late.answered_ns)
    )


# ---- in brokers' logs


def marker_came_late(run: LabelledRun, finding: LogFinding) -> bool:
    """The marker of the finding came by a request that its coordinator had given up before the transaction
    began; or it was written when one of this transactional id came, for this partition, that a rule of the
    wire had taken before the transaction began."""
    if finding.check not in (DECIDED, AGREE):
        return False
    place = finding.log, finding.offset
    names = transactional_ids(run, finding)
    if any(
        (late.tp, late.offset) == place and run.takes_older(late.version, run.ns_of(late.ms))
        for name in names
        for late in run.given_up(name)
    ):
        return True
    marker = marker_at(run, finding)
    return marker is not None and any(
        str(finding.log) in late.named
        and between(run, late.delivered_ns, marker["timestamp"], late.answered_ns)
        and (marker["name"] == "COMMIT") in run.asked(late, name)
        for name in names
        for op in filter(None, [run.at_ms(name, marker["timestamp"])])
        for late in run.late_markers(name)
        if _comes_into(run, late, op)
    )


BUG: Final = KnownBug(
    title="A delayed marker ends the producer's next transaction in one partition",
    link="KAFKA-19446",
    versions="fixed by KIP-1228 (4.2) for clients of transaction protocol v2, which librdkafka 2.16"
    " does not speak",
    doc="""\
A network delays the request by which a coordinator writes the marker of a transaction to a partition. The
coordinator sends it again on another connection, and completes the transaction. The next transaction of the
same producer id and epoch writes to that partition. Then the first request arrives: the partition's leader
compares epochs only, appends the marker, and ends *that* transaction there. Its records before the marker
get the result of the transaction before: an acknowledged one is lost, or an aborted one becomes visible.
KIP-890 raises the epoch with every end, but the marker has the raised one; since KIP-1228 it also has to be
newer than the transaction that it ends. Without that, on 4.0.2, the good side of the schedule showed the bug
in 3 of 3 runs, too.

Nothing but a partition is needed. It cuts a coordinator off from the leader while markers are in flight, and
the request times out; when the network is healed, TCP delivers the bytes of the old connection, too. Of 100
runs with the preset `safe` on 4.3.1 one met it (workload `transactions`, nemesis `partition`): a
request that was cancelled after 2 s arrived 7 s after it had been sent, 1.4 s after the heal, in the 16th
transaction of its producer since; consumers read 108 times what that one had aborted.

The nemesis `wire:markers` aims at it. The model showed it with clients of transaction version 1 in 3 of 14
runs of 12 s in which the connection of each marker that a rule took was reset (seeds 0, 3 and 5). One run of
60 s on real brokers did not.""",
    evidence="Either a fault of the nemesis `wire` took markers of this producer before the transaction"
    " began, they reached the partition's leader before the next one began, and the leader answered them"
    " without an error; they have the producer id and epoch with which it began, as far as the coordinators'"
    " log tells. Or brokers' logs show all of this: a coordinator cancelled a WriteTxnMarkers in flight"
    " (`Cancelled in-flight WRITE_TXN_MARKERS request …`), which it had made after the decision of an"
    " earlier transaction and gave up before it completed that one; the partition has the marker of that"
    " decision from that time, and once more, within this transaction, which had no such decision by then;"
    " the second one has the producer id and epoch of both transactions, the leader that appended it is the"
    " broker that the request went to, and its coordinator epoch is that of the node that sent it. There are"
    " no more such markers than requests. Either way some broker was older than 4.2, or the client spoke an"
    " older transaction protocol than version 2, as far as both are on record. In the partitions that they"
    " name, records acknowledged before they came have their result, and those sent after the answer do not"
    " (by brokers' logs: those before the marker, and those behind it); in all others the transaction ended"
    f" one way. The log has every acknowledged record (the final reads at read_uncommitted show it).{HIDDEN}"
    " Of a record that was read before its transaction had asked for an end, that one itself was sent before"
    " the answer, or stands before the marker. In brokers' logs: the marker of the finding is that second"
    " one, or was written in that partition between the late request and its answer.",
    anomalies=(LOST, ABORTED, TORN, SKIP, SKIP_INSIDE, PRECOMMITTED),
    match=late_marker,
    wanted=late_marker_wanted,
    in_logs=dict.fromkeys((LOST_DECISION, TORN_DECISION), marker_came_late),
)
