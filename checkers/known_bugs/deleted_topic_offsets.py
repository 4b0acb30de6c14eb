"""What a group had committed in a deleted topic stays, since no broker coordinated the group just then."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

import pyarrow.compute as pc

from checkers.checks.exactly_once import LOST as NEVER_COPIED
from checkers.checks.group_delivery import NEVER_GIVEN
from checkers.checks.group_offsets import PHANTOM_COMMIT
from checkers.engine.evidence import InputRecords, Wanted
from checkers.engine.findings import Finding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.elections import Election, elections, newest_log
from checkers.logs.metadata_rows import rows
from core.internal_topics import GROUP_TOPIC
from core.op import GONE_MARK, TopicPartition
from history.broker_logs import OffsetsDeletedLine
from history.evidence import Evidence


class TopicDeletion(NamedTuple):
    """A topic was deleted. offset, ms: of the record in the metadata log. until_ms: when the next topic of
    the name was deleted."""

    id: str
    offset: int
    ms: int
    until_ms: float


class StoredOffset(NamedTuple):
    """A record of a group's offset in a partition. offset: -1 = a tombstone. ms: when it was written."""

    ms: int
    offset: int


class Survivor(NamedTuple):
    """A group's offset of a deleted topic that no coordinator removed. first: the first offset that the group
    has committed in that partition since, or the survivor itself. deleted_ms: when the topic was."""

    offset: int
    first: int
    deleted_ms: int


def deletions(evidence: Evidence) -> Mapping[str, Sequence[TopicDeletion]]:
    """The deletions of topics by name, in order, as the metadata log has them."""
    log = evidence.once(newest_log)
    names: dict[str, str] = {}
    found: dict[str, list[TopicDeletion]] = defaultdict(list)
    for row in rows(log) if log is not None else ():
        key = row.topic_id or ""
        if row.name == "TopicRecord":
            names[key] = str(row.topic)
        elif row.name == "RemoveTopicRecord" and key in names:
            before = found[names[key]]
            if before:
                before[-1] = before[-1]._replace(until_ms=row.timestamp)
            before.append(TopicDeletion(key, row.offset, row.timestamp, float("inf")))
    return found


def _stored(run: LabelledRun, group: str, tp: TopicPartition) -> tuple[TopicPartition, list[StoredOffset]]:
    """The partition of `__consumer_offsets` that has a group's offsets in a partition, and these in order."""
    for log in run.evidence.partitions():
        kept = run.survivor(log) if log.topic == GROUP_TOPIC else None
        if kept and (found := _records(run, log, group, tp, take=kept.take, node=kept.node)):
            return log, found
    return TopicPartition(GROUP_TOPIC, -1), []


def _records(
    run: LabelledRun, log: TopicPartition, group: str, tp: TopicPartition, **where: int
) -> list[StoredOffset]:
    """A group's offsets in a partition, in order, as copies of a log have them. where: which copies."""
    table = run.evidence.of("offset_log", log)
    mine = {**where, "group": group, "committed_topic": tp.topic, "committed_partition": tp.partition}
    for name, value in mine.items():
        table = table.filter(pc.equal(table[name], value))
    found = table.sort_by("offset").select(["timestamp", "committed"]).to_pylist()
    return [
        StoredOffset(one["timestamp"], -1 if one["committed"] is None else one["committed"]) for one in found
    ]


def _survivors(suspicion: Suspicion) -> Iterator[Survivor]:
    """What the group of a finding kept of deleted topics in its partition, up to the finding."""
    finding, history, run = suspicion.finding, suspicion.history, suspicion.run
    tp = run.partition(finding.tp)
    topic, group = tp.topic.partition(GONE_MARK)[0], history.group(finding.key[1])
    at_ms = history.wall_ms(finding.at_ns) + SLACK_MS
    log, stored = _stored(run, group, TopicPartition(topic, tp.partition))
    for one in run.evidence.once(deletions).get(topic, ()):
        before = [record for record in stored if record.ms <= one.ms]
        since = [record for record in stored if one.ms < record.ms <= at_ms]
        kept = before and before[-1].offset >= 0 and all(record.offset >= 0 for record in since)
        ways = (_unheard, partial(_forgotten, group, tp.partition))
        if kept and one.ms < at_ms and any(way(run, topic, one, log, at_ms) for way in ways):
            offset = before[-1].offset
            yield Survivor(offset, since[0].offset if since else offset, one.ms)


def _unheard(run: LabelledRun, topic: str, one: TopicDeletion, log: TopicPartition, at_ms: int) -> bool:
    """The broker that led the log at the deletion was loading it; or it did not hear of the deletion, though
    others did, and another leader came after it, and before a time."""
    led, came = _led(run, log, one, at_ms)
    if not led:
        return False
    logs, leader = run.history.broker_logs, led[-1].leader
    about = [line for line in logs.deleted if _of(run, line, topic, one)]
    told = [line for line in about if not line.loading]
    if any(line.partition == log.partition for line in told):
        return False
    if own := [line for line in told if (line.partition, line.node) == (-1, leader)]:
        return not any(_had_loaded(run, log, led, line) for line in own)
    if any(line.loading and line.node == leader for line in about):
        return True
    return came and bool(told) and (leader < 0 or leader in logs.nodes)


def _led(
    run: LabelledRun, log: TopicPartition, one: TopicDeletion, at_ms: int
) -> tuple[list[Election], bool]:
    """The leaders of a log up to a deletion, and whether another one came after it, and before a time."""
    lineage = elections(run.evidence, log).found
    led = [election for election in lineage if election.offset < one.offset]
    later = [election for election in lineage if one.offset < election.offset and election.leader >= 0]
    return led, bool(later) and later[0].ms <= at_ms


def _had_loaded(
    run: LabelledRun, log: TopicPartition, led: Sequence[Election], line: OffsetsDeletedLine
) -> bool:
    """Before Kafka 4.0 a coordinator removes the offsets of what it has loaded, and says that it removed some
    or none: it had loaded the log since it led."""
    term = [*takewhile(lambda one: one.leader == led[-1].leader, reversed(led))]
    since_ms = term[-1].ms - SLACK_MS
    return any(
        (each.node, each.partition) == (line.node, log.partition)
        and each.wall <= line.wall
        and run.history.wall_ms(run.history.wall_ns(each.wall)) >= since_ms
        for each in run.history.broker_logs.loaded
    )


def _forgotten(
    group: str,
    partition: int,
    run: LabelledRun,
    topic: str,
    one: TopicDeletion,
    log: TopicPartition,
    at_ms: int,
) -> bool:
    """Before Kafka 4.0: the broker that led the log removed the offset, waited for no other replica to have
    its tombstone, and another leader came."""
    led, came = _led(run, log, one, at_ms)
    heard = [line for line in run.history.broker_logs.deleted if _of(run, line, topic, one)]
    if not came or not led or not any((line.partition, line.node) == (-1, led[-1].leader) for line in heard):
        return False
    tp = TopicPartition(topic, partition)
    records = _records(run, log, group, tp, node=led[-1].leader)
    return any(record.offset < 0 and one.ms <= record.ms < one.until_ms for record in records)


def _of(run: LabelledRun, line: OffsetsDeletedLine, topic: str, one: TopicDeletion) -> bool:
    """Whether a line is about this deletion."""
    if known := line.topics.get(topic):
        return known == one.id
    ms = run.history.wall_ms(run.history.wall_ns(line.wall)) + SLACK_MS
    return topic in line.topics and one.ms <= ms < one.until_ms


def _given(suspicion: Suspicion) -> bool:
    """The group was given, or committed, just that offset."""
    offset = suspicion.finding.records[-1].offset
    return any(one.offset == offset for one in _survivors(suspicion))


def _passed(suspicion: Suspicion) -> bool:
    """The record lay below that offset, and the group began there: no member was given the record."""
    tp, group, offset = suspicion.finding.key
    processes = suspicion.history.processes
    _, reads, _ = suspicion.fetched.inputs.get((tp, offset), InputRecords())
    if any(processes[read.process].group == group for read in reads):
        return False
    return any(
        offset < one.offset <= one.first and _began_there(suspicion, one) for one in _survivors(suspicion)
    )


def _began_there(suspicion: Suspicion, one: Survivor) -> bool:
    """What the group's members were given first since the deletion, as far as it is on record, is not below
    the offset that stayed."""
    finding, history, run = suspicion.finding, suspicion.history, suspicion.run
    since_ns = run.ns_of(one.deleted_ms)
    members = (number for number, each in history.processes.items() if each.group == finding.key[1])
    reads = (read for number in members for read in run.reads_of(number, finding.tp))
    given = [read for read in reads if since_ns <= read.complete_ns <= finding.at_ns]
    first = min(given, key=lambda read: (read.complete_ns, read.op, read.pos), default=None)
    return first is None or first.offset >= one.offset


def _wanted(run: LabelledRun, finding: Finding) -> Wanted | None:
    if finding.name != NEVER_COPIED:
        return Wanted()
    tp, _, offset = finding.key
    return Wanted(inputs=((tp, offset),))


def _match(suspicion: Suspicion) -> bool:
    finding: Finding = suspicion.finding
    return _given(suspicion) if finding.name == PHANTOM_COMMIT else _passed(suspicion)


BUG: Final = KnownBug(
    title="Offsets of a deleted topic count in the next one of its name: its group had no coordinator then",
    page="findings/deleted-topic-offsets.md",
    link="the report",
    versions="brokers 0.10.2 to 4.4",
    doc="""\
When a topic is deleted, each broker removes the offsets of those groups that it coordinates just then. It is
asked once. Where the coordinator of a group is down, and its successor leads only afterwards, no broker
removes them: one that loads a partition of `__consumer_offsets` does not ask which topics there still are.
No broker has to fail: a coordinator that is loading when it hears of the deletion removes none, either.
Before 4.0 a coordinator that ends shortly after the deletion may be the only one that has the tombstones.
The next topic of that name has these offsets, so that the group passes over its first records, or asks for
records behind its end. Clients that ask by the id of the topic (OffsetFetch 10, from 4.2 on) do not get them.

`groups` under `recreate-topics:away@group-coordinator` showed it in 3 of 3 runs on 4.4.0, and in one each
on 4.3.1 and 4.2.1. The tables
[Offsets of a deleted topic](model/group-offsets.md#deleted-topic-offsets) and
[the next one](model/group-offsets.md#deleted-topic-forgotten) have both sides.""",
    evidence="The metadata log has the deletion of a topic of that name; who led the group's partition of"
    " `__consumer_offsets` then has a log in which it does not say that it deleted offsets of that topic (`…"
    " tombstone records … while deleting offsets for topics …`), though other brokers’ logs say so of"
    " theirs; another leader came after the deletion. Or its log says that it was loading (`Could not delete"
    " offsets for deleted topics … due to: The coordinator is loading …`). Before 4.0 every coordinator says"
    " so of all that it has loaded (`Removed … offsets associated with deleted partitions …`): it had not"
    " loaded that partition since it led (`Finished loading offsets …`), or it wrote a tombstone that its"
    " own log alone had, and another leader came. The last record of the group's offset before it is a"
    " commit, and no tombstone came after it. The group was given just that offset; or the record that it"
    " was not given, nor copied, lies below it, what the group was given first since the deletion (as far as"
    " its reads are on record) does not, and the group committed nothing lower since.",
    anomalies=(PHANTOM_COMMIT, NEVER_GIVEN, NEVER_COPIED),
    match=_match,
    wanted=_wanted,
)
