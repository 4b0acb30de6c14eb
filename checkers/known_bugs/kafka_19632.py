"""KAFKA-19632: a leader that begins within a batch delivers again what is before its start."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from checkers.checks.share_groups import COUNT, REDELIVERY, Redelivery
from checkers.engine.findings import Finding, LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.accept_share import START, StartFell, newer_leaders, starts_stored, starts_that_fell
from checkers.logs.classes import VIOLATION
from checkers.windows import SLACK_NS
from core.op import TopicPartition
from history.columns import columns
from history.events import RolesSeen
from history.tables import OPEN

RIGHT: Final = (4, 2)
"""First version whose leaders take nothing below their start."""


def _below_start(suspicion: Suspicion) -> bool:
    """When the record was delivered, the start offset that was stored was in the same batch, and above it; a
    leader may have read that since the record had ended."""
    finding, run, history = suspicion.finding, suspicion.run, suspicion.history
    if not run.versions.some_before(RIGHT, finding.at_ns):
        return False
    since_ns = finding.said.invoke_ns if isinstance(finding, Redelivery) else finding.records[0].done_ns
    if not _led_by_another(run, finding, since_ns) and not _left_alone(run, finding, since_ns):
        return False
    shared, until = run.shared(finding), history.wall_ms(finding.at_ns) + SLACK_MS
    stored = run.evidence.once(starts_stored)
    mine = (starts for key, starts in stored.items() if run.share_partition(key) == shared)
    newest = [start for starts in mine for ms, start in starts if ms <= until][-1:]
    return bool(newest) and _in_one_batch(run, shared[1], finding.key[2], newest[0])


def _led_by_another(run: LabelledRun, finding: Finding, since_ns: int) -> bool:
    """The partition got a leader between a time and the delivery, by the metadata log or by what was seen of
    the cluster, or one stored something that had stored nothing before."""
    shared, history = run.shared(finding), run.history
    tp, since_ms, until_ms = shared[1], history.wall_ms(since_ns), history.wall_ms(finding.at_ns) + SLACK_MS
    if any(since_ms <= one.ms <= until_ms for one in run.lineage(tp).found):
        return True
    looks = [one for one in history.events if isinstance(one, RolesSeen) and str(tp) in one.leaders]
    for before, after in pairwise(looks):
        # a look says what has changed: until shortly before it the leader was the old one
        begin_ns = max(before.ns, after.ns - SLACK_NS)
        if begin_ns <= finding.at_ns and since_ns <= after.ns and _roles(before, tp) != _roles(after, tp):
            return True
    newer = run.evidence.once(newer_leaders)
    mine = (every for key, every in newer.items() if run.share_partition(key) == shared)
    return any(since_ms <= ms <= until_ms for every in mine for ms in every)


def _roles(look: RolesSeen, tp: TopicPartition) -> tuple[int, int]:
    return look.leaders[str(tp)], look.epochs.get(str(tp), -1)


def _left_alone(run: LabelledRun, finding: Finding, since_ns: int) -> bool:
    """At some time since then, up to the delivery, no member was between two answers of the leader of the
    partition: the last one there may have left."""
    held = sorted(_sessions(run, finding))
    until_ns = since_ns
    for begin_ns, end_ns in held:
        if begin_ns <= until_ns:
            until_ns = max(until_ns, end_ns)
    return until_ns < finding.at_ns


def _sessions(run: LabelledRun, finding: Finding) -> Iterator[tuple[int, int]]:
    """From when each member of the group was first given a record of the partition until its leader last
    answered it about one, or gave it one."""
    tp, group = finding.key[:2]
    answered: dict[int, list[int]] = defaultdict(list)
    names = ("tp", "group", "process", "complete_ns")
    for name in ("deliveries", "acknowledgements"):
        rows = columns(run.history.tables[name], names)
        mine = (rows["tp"] == tp) & (rows["group"] == group) & (rows["complete_ns"] < OPEN)
        for process, ns in zip(
            rows["process"][mine].tolist(), rows["complete_ns"][mine].tolist(), strict=True
        ):
            answered[process].append(ns)
    yield from ((min(every), max(every)) for every in answered.values())


def _went_back(run: LabelledRun, finding: LogFinding) -> bool:
    """The start fell within a batch: a leader had begun in it, and has delivered again what is before."""
    place = finding.log, finding.offset
    fell = (one for one in run.evidence.once(starts_that_fell) if (one.log, one.offset) == place)
    return finding.check == START and any(_within_batch(run, one) for one in fell)


def _within_batch(run: LabelledRun, fell: StartFell) -> bool:
    _, tp = run.share_partition(fell.key)
    old = run.versions.some_before(RIGHT, run.ns_of(fell.ms))
    return old and _in_one_batch(run, tp, fell.after, fell.before)


def _in_one_batch(run: LabelledRun, tp: TopicPartition, offset: int, start: int) -> bool:
    """A start offset is above the offset, in the same batch."""
    batch = run.batch(tp, start)
    return batch is not None and batch["base"] <= offset < start


BUG: Final = KnownBug(
    title="Share groups: what was accepted is delivered again, where the leader begins within a batch",
    link="KAFKA-19632",
    versions="Kafka 4.1; right from 4.2.0 on",
    doc="""\
A member accepts the first records of a batch and some in its middle, and has the answer. Another broker
becomes leader, or the same one after the last member there has left, and reads what is stored: the start
offset, and which records behind it have ended. It fetches the batch, which begins below the start offset,
and takes all of it up to the first stored record for new. Where nothing behind the start offset is stored, it
begins there, as it should. What it stores next may set the start offset back.

`--preset share --nemesis elections` (seed 1, 20 s) on 4.1.2: 12 records in two batches were delivered again,
with count 1, in the 2 minutes in which the run waited for a member that was given nothing
([KAFKA-19846](#kafka-19846)).""",
    evidence="Some brokers were older than 4.2. A record was delivered again after it had ended, or with a"
    " delivery count that is not above the one before; the newest record of `__share_group_state` by then"
    " has a start offset that is above it, in the same batch. In between a leader may have read that: the"
    " partition got one (by the metadata log, by what was seen of the cluster, or since a newer leader epoch"
    " was stored), or no member of the group was between two answers of the leader. Where only connections"
    " of its members broke, the history does not show that their sessions ended: such a finding bears no"
    " label. A known bug has to explain each such delivery of the record. In brokers’ logs: the record that"
    " sets the start offset back, within one batch.",
    anomalies=(REDELIVERY, COUNT),
    match=_below_start,
    in_logs={VIOLATION: _went_back},
)
