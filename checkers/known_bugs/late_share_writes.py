"""A rejection that came late archives a record that was accepted since."""

from typing import Final

from checkers.checks.dead_letters import ACCEPTED, OfAccepted
from checkers.engine.share_groups import Letter
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.letters_by_former_leader import archiving_ns, lock_ended
from checkers.known_bugs.transaction_fates import Suspicion
from core.op import Outcome


def _late(suspicion: Suspicion) -> bool:
    """Some letter is of a rejection without an answer, of before the record was delivered to the member that
    accepted it; all others are, too, or of a lock that ended. Until it was accepted no record of the share
    coordinators says that it is to be archived."""
    finding, run = suspicion.finding, suspicion.run
    assert isinstance(finding, OfAccepted)
    late = [one for one in finding.letters if _of_unanswered(finding, one)]
    others = (one for one in finding.letters if one not in late)
    stored = archiving_ns(run, finding)
    in_time = stored and all(ns > finding.said.invoke_ns for ns in stored)
    return bool(late and in_time) and all(lock_ended(run, finding, one) for one in others)


def _of_unanswered(finding: OfAccepted, letter: Letter) -> bool:
    """A letter is of the delivery that some rejection without an answer was about, before the one that was
    accepted."""
    accepted_ns = finding.accepted.since_ns
    return any(
        said.outcome is Outcome.INFO and held.times == letter.times and said.invoke_ns < accepted_ns
        for said, held in finding.rejected
    )


BUG: Final = KnownBug(
    title="Share groups: a rejection that comes late archives a record that was accepted since",
    page="findings/dead-letters.md#late-writes",
    link="our finding",
    versions="Kafka 4.4.0; by source since share partitions go from memory with the last session",
    doc="""\
When the last session of a share group at a broker ends, the broker forgets its share partitions; the next
fetch reads their state again. A write of state that was still on its way (the share coordinator was away) is
made later, with the same leader epoch and state epoch: nothing fences it. So a rejection of before archives a
record that was delivered again since, and accepted, and a dead letter is written. A JUnit test shows it with
Kafka's share partition and share coordinator; no script shows it on brokers. In `__share_group_state`
the record goes from acknowledged (2) to what is to be archived (3).""",
    evidence="A record that a member accepted has a dead letter with the delivery count of an earlier"
    " delivery, which a member rejected without getting an answer, before the accepted one; and a record of"
    " `__share_group_state` says that it is to be archived, but none of before it was accepted. Where that"
    " log was pruned, it has to begin before the record was first delivered.",
    anomalies=(ACCEPTED,),
    match=_late,
)
