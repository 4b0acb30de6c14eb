"""A leader that leads no more writes dead letters, though it could not store that records are archived."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from checkers.checks.dead_letters import ACCEPTED, OfAccepted
from checkers.engine.share_groups import Letter
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.accept_share import Key, lacking, whole_since_ms
from core.internal_topics import SHARE_STATE_TOPIC
from history.evidence import Evidence
from model.share.record_states import RecordState

TICK_NS: Final = 1_000_000_000
"""A timer of Kafka's fires within a tick of 200 ms."""


class _Archiving(NamedTuple):
    """What is to be archived, by share partition: first and last offset, and when that was stored (ms).
    since_ms: no record that says so is missing from then on."""

    batches: Mapping[Key, Sequence[tuple[int, int, int]]]
    since_ms: float


def _unstored(suspicion: Suspicion) -> bool:
    """Each letter was written when the lock of a delivery at the limit had ended, and no record of the share
    coordinators says that the record is to be archived."""
    finding, run = suspicion.finding, suspicion.run
    assert isinstance(finding, OfAccepted)
    return all(lock_ended(run, finding, one) for one in finding.letters) and archiving_ns(run, finding) == []


def lock_ended(run: LabelledRun, finding: OfAccepted, letter: Letter) -> bool:
    """A letter is of a delivery at the limit whose lock had ended by then: of one before that which was
    accepted. A leader that has stored that one's end has a timer of it no more."""
    accepted, written = finding.accepted, run.ns_of(letter.ms)
    last = (one for one in finding.deliveries if one.times == letter.times >= finding.limit)
    return any(
        one.done_ns < accepted.since_ns and one.since_ns + finding.lock_ns <= written + TICK_NS
        for one in last
    )


def archiving_ns(run: LabelledRun, finding: OfAccepted) -> list[int] | None:
    """When records of `__share_group_state` say that the record is to be archived; None = one that does may
    be missing: share coordinators prune their log."""
    stored = run.evidence.once(_archiving)
    if stored is None or stored.since_ms > run.history.wall_ms(
        min(one.since_ns for one in finding.deliveries)
    ):
        return None
    shared = run.shared(finding)
    return [
        run.ns_of(ms)
        for key, batches in stored.batches.items()
        if run.share_partition(key) == shared
        for first, last, ms in batches
        if first <= finding.key[2] <= last
    ]


def _archiving(evidence: Evidence) -> _Archiving | None:
    """None = a record that says so may be missing at any time."""
    if lacking(evidence):
        return None
    found: dict[Key, list[tuple[int, int, int]]] = defaultdict(list)
    for log in evidence.partitions():
        for row in evidence.of("share_log", log).to_pylist() if log.topic == SHARE_STATE_TOPIC else ():
            key = row["group"], row["shared_topic"], row["shared_partition"]
            for batch in row["states"] or ():
                if batch["state"] == RecordState.ARCHIVING:
                    found[key].append((batch["first"], batch["last"], row["timestamp"]))
    return _Archiving(found, whole_since_ms(evidence))


BUG: Final = KnownBug(
    title="Share groups: a former leader writes dead letters of accepted records",
    page="findings/dead-letters.md#former-leader",
    link="our finding",
    versions="Kafka 4.4.0, the first with dead-letter queues",
    doc="""\
The leader of a share partition has a timer for the lock of each record that it gave out. When it leads no
more, its share partition is fenced, and the timers remain. A lock that ends there, of a delivery at the
delivery limit, leads to a write of the share state, which the coordinator refuses (the leader epoch is old),
and to a dead letter all the same. Meanwhile the new leader has delivered the record again, and a member has
accepted it: the record is processed, and stands in the dead-letter queue. An election of the preferred leader
is enough. A leader that leads, and cannot reach the coordinator, writes the letter as well; that is meant, as
it never gives the record out again (KAFKA-20245). Where it forgets the share partition, or dies, before the
state is stored, the next one delivers the record again: such a letter has this label, too.""",
    evidence="A record that a member accepted has a dead letter with the delivery count of the limit; the"
    " letter was written when or after the lock of a delivery with that count ended, another one than the"
    " accepted one, and before it; and no record of `__share_group_state` says that the record is to be"
    " archived. Where that log was pruned (its coordinators do so each 5 minutes), it has to begin before"
    " the record was first delivered.",
    anomalies=(ACCEPTED,),
    match=_unstored,
)
