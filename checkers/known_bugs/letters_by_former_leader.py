"""A leader that was replaced writes dead letters of records that it still takes for delivered."""

from typing import Final

from checkers.checks.dead_letters import ACCEPTED, OfAccepted
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.accept_share import lacking
from core.cluster import SHARE_STATE_TOPIC
from core.op import TopicPartition
from history.events import RolesSeen
from model.share.record_states import RecordState

TICK_NS: Final = 1_000_000_000
"""A timer of Kafka's fires within a tick of 200 ms."""
LOOK_NS: Final = 10_000_000_000
"""How much later than it happened a look may show a new leader epoch."""


def _after_its_time(suspicion: Suspicion) -> bool:
    """Each letter was written when the lock of a delivery at the limit had ended, and a newer leader led by
    then; and no record of the share coordinators says that the record is to be archived."""
    finding, run = suspicion.finding, suspicion.run
    assert isinstance(finding, OfAccepted)
    tp = run.partition(finding.key[0])
    moves = _moves(run, tp)
    for letter in finding.letters:
        written = run.ns_of(letter.ms)
        last = (one for one in finding.deliveries if one.times == letter.times >= finding.limit)
        ended = (one for one in last if one.since_ns + finding.lock_ns <= written + TICK_NS)
        if not any(one.since_ns <= move <= written + LOOK_NS for one in ended for move in moves):
            return False
    return not _to_be_archived(run, finding, tp)


def _moves(run: LabelledRun, tp: TopicPartition) -> list[int]:
    """When looks at the cluster showed a newer leader epoch of a partition."""
    name, newest = str(tp), -1
    found: list[int] = []
    for look in sorted((e for e in run.history.events if isinstance(e, RolesSeen)), key=lambda e: e.ns):
        epoch = look.epochs.get(name, -1)
        if epoch > newest >= 0:
            found.append(look.ns)
        newest = max(epoch, newest)
    return found


def _to_be_archived(run: LabelledRun, finding: OfAccepted, tp: TopicPartition) -> bool:
    """A record of `__share_group_state` says so, or it may be missing."""
    evidence, group = run.evidence, run.history.group(finding.key[1])
    if lacking(evidence):
        return True
    logs = (one for one in evidence.partitions() if one.topic == SHARE_STATE_TOPIC)
    return any(
        batch["state"] == RecordState.ARCHIVING and batch["first"] <= finding.key[2] <= batch["last"]
        for log in logs
        for row in evidence.of("share_log", log).to_pylist()
        if (row["group"], evidence.topics.get(row["shared_topic"])) == (group, tp.topic)
        and row["shared_partition"] == tp.partition
        for batch in row["states"] or ()
    )


BUG: Final = KnownBug(
    title="Share groups: a former leader writes dead letters of accepted records",
    url="findings/dead-letters.md#former-leader",
    link="our finding",
    versions="Kafka 4.4.0, the first with dead-letter queues",
    doc="""\
The leader of a share partition has a timer for the lock of each record that it gave out. When it leads no
more, its share partition is fenced, and the timers remain. A lock that ends there, of a delivery at the
delivery limit, leads to a write of the share state, which the coordinator refuses (the leader epoch is old),
and to a dead letter all the same. Meanwhile the new leader has delivered the record again, and a member has
accepted it: the record is processed, and stands in the dead-letter queue. An election of the preferred leader
is enough.""",
    evidence="A record that a member accepted has a dead letter with the delivery count of the limit; the"
    " letter was written when or after the lock of a delivery with that count ended; the leader epoch of the"
    " partition had risen in between; and no record of `__share_group_state` says that the record is to be"
    " archived.",
    anomalies=(ACCEPTED,),
    match=_after_its_time,
)
