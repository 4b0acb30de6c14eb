"""The log of the share coordinators (`__share_group_state`), share partition by share partition.

Within a state epoch a share partition has one life: its start offset and the leader epochs that write it do
not fall, and a snapshot has what was stored before it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from checkers.engine.findings import LogFinding, PartitionResult
from checkers.logs.elections import elections, partition_count, survivor
from checkers.logs.replicas import COMPRESSED, ReplicaLog, newest, replicas
from checkers.logs.rule import Rule, checks_of
from core.internal_topics import GROUP_TOPIC, SHARE_STATE_TOPIC
from core.op import TopicPartition
from history.evidence import Evidence
from history.tables import TableRow
from model.protocol.share_messages import StateBatch
from model.share.record_states import RecordState, StoredState, combined

EPOCHS: Final = "share-epochs-rise"
START: Final = "share-start-rises"
WHOLE: Final = "share-snapshot-whole"
ENDED: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED)
RULES: Final = {
    EPOCHS: Rule(
        "State epochs and leader epochs of a share partition do not fall.",
        "KIP-932; ShareCoordinatorShard.maybeGetWriteStateError",
        rests_on=(GROUP_TOPIC,),
    ),
    START: Rule(
        "Within a state epoch the start offset of a share partition does not fall.",
        "KIP-932; apache/kafka#23074",
        rests_on=(GROUP_TOPIC,),
    ),
    WHOLE: Rule(
        "A snapshot of a share partition has at least what the records before it add up to.",
        "KIP-932; ShareCoordinatorShard.generateShareStateRecord",
    ),
}


Key = tuple[str, str, int]
"""A share partition: group, topic by its id, number of the partition."""


class Stored(NamedTuple):
    """The start offset that a record stores. newer: a newer leader wrote it than all before."""

    ms: int
    start: int
    newer: bool


@dataclass(slots=True, kw_only=True)
class StartFell:
    """A record of a share coordinator that sets the start offset of a share partition back.

    log, offset: its place. ms: its time. before, after: the start. by_newer: a newer leader wrote it than all
    before. later: what follows, until a newer leader writes, or the start is as high as before.
    """

    key: Key
    log: TopicPartition
    offset: int
    ms: int
    before: int
    after: int
    by_newer: bool
    later: list[Stored] = field(default_factory=list)

    def forgets(self, offset: int, ms: int) -> bool:
        """A leader may have begun by then as if the record at an offset had not ended: it read the start
        while that was no higher. A leader has its epoch stored when it reads; the same one may read again."""
        if ms < self.ms or not self.after <= offset < self.before:
            return False
        past = (one for one in self.later if one.ms <= ms)
        last = next((one for one in past if one.newer or one.start > offset), None)
        return last is None or last.start <= offset


@dataclass(slots=True)
class _Life:
    """A share partition in one state epoch so far. states: from `start` on."""

    state_epoch: int = -1
    leader_epoch: int = -1
    start: int = -1
    states: dict[int, StoredState] = field(default_factory=dict)

    def goes_on(self, row: TableRow) -> bool:
        """A record is of the same state epoch."""
        return row["state_epoch"] in (None, self.state_epoch)

    def falls(self, row: TableRow) -> bool:
        """A record sets the start offset back."""
        return self.goes_on(row) and 0 <= row["start"] < self.start

    def take(self, row: TableRow) -> None:
        """A record becomes part of it, or begins the next one."""
        if not self.goes_on(row):
            self.state_epoch, self.leader_epoch, self.start, self.states = row["state_epoch"], -1, -1, {}
        self.leader_epoch = max(self.leader_epoch, row["shared_leader_epoch"])
        self.start = row["start"] if row["start"] >= 0 else self.start
        states = combined(self.states, _states(row["states"]))
        self.states = {at: one for at, one in states.items() if at >= self.start}


def kernel(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    """The rules of this module, for a partition of `__share_group_state`; nothing for other partitions."""
    if tp.topic != SHARE_STATE_TOPIC:
        return
    log = _log(evidence, tp)
    for at in log.unread[-1:] if log is not None else ():
        for rule in RULES:
            result.leave_open(rule, tp, f"{COMPRESSED} before offset {at}")
    for key, life, row in _records(evidence, tp):
        for rule, why in _wrong(life, row, result):
            text = (
                f"at offset {row['offset']} of {tp}: {why}, of group {key[0]}, partition {key[2]} of {key[1]}"
            )
            where = LogFinding(
                check=rule, text=text, log=tp, offset=row["offset"], take=row["take"], nodes=(row["node"],)
            )
            result.refuse(where)


def starts_that_fell(evidence: Evidence) -> tuple[StartFell, ...]:
    """All of a run, in no order."""
    logs = (tp for tp in evidence.partitions() if tp.topic == SHARE_STATE_TOPIC)
    return tuple(one for tp in logs for one in _falls(evidence, tp))


def starts_stored(evidence: Evidence) -> Mapping[Key, Sequence[tuple[int, int]]]:
    """The start offsets that records after the first one of a share partition store, in their order, each
    with its time (ms)."""
    found: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for tp in evidence.partitions():
        for key, _, row in _records(evidence, tp) if tp.topic == SHARE_STATE_TOPIC else ():
            if row["start"] >= 0:
                found[key].append((row["timestamp"], row["start"]))
    return found


def newer_leaders(evidence: Evidence) -> Mapping[Key, Sequence[int]]:
    """When records that follow another one of their share partition have a newer leader epoch than all before
    them (ms)."""
    found: dict[Key, list[int]] = defaultdict(list)
    for tp in evidence.partitions():
        for key, life, row in _records(evidence, tp) if tp.topic == SHARE_STATE_TOPIC else ():
            if row["shared_leader_epoch"] > life.leader_epoch:
                found[key].append(row["timestamp"])
    return found


def _falls(evidence: Evidence, tp: TopicPartition) -> list[StartFell]:
    found: list[StartFell] = []
    open_: dict[Key, list[StartFell]] = defaultdict(list)
    for key, life, row in _records(evidence, tp):
        newer = row["shared_leader_epoch"] > life.leader_epoch
        goes_on, ms = life.goes_on(row), row["timestamp"]
        start = row["start"] if row["start"] >= 0 else life.start
        for one in open_[key]:
            one.later.append(Stored(ms, start if goes_on else one.before, newer or not goes_on))
        open_[key] = [one for one in open_[key] if not one.later[-1].newer and start < one.before]
        if life.falls(row):
            fell = StartFell(
                key=key, log=tp, offset=row["offset"], ms=ms, before=life.start, after=start, by_newer=newer
            )
            open_[key].append(fell)
            found.append(fell)
    return found


def stored_states(
    evidence: Evidence, tp: TopicPartition
) -> Iterator[tuple[Key, int, dict[int, StoredState]]]:
    """Of each record of the newest replica: the share partition, the start offset (-1: none, or as before),
    and the states that it stores."""
    for row in _rows(evidence, tp):
        if row["start"] is not None:
            key = row["group"], row["shared_topic"], row["shared_partition"]
            yield key, row["start"], _states(row["states"])


def lacking(evidence: Evidence) -> str:
    """Why a record that was committed may be missing from what `stored_states` reads, "" = none may."""
    known = {tp for tp in evidence.partitions() if tp.topic == SHARE_STATE_TOPIC}
    count = partition_count(evidence, SHARE_STATE_TOPIC)
    wanted = known | {TopicPartition(SHARE_STATE_TOPIC, number) for number in range(count)}
    for tp in sorted(wanted):
        lineage = elections(evidence, tp)
        log = survivor(replicas(evidence, tp), lineage)
        if log is None:
            return f"no node had {tp} at the end"
        opaque = any(row["opaque"] is not None for row in _rows(evidence, tp))
        opaque |= bool(log.unread)
        why = f"{log.where()} has records in {tp} that no definition reads" if opaque else lineage.lacks(log)
        if why:
            return why
    return ""


def whole_since_ms(evidence: Evidence) -> float:
    """Since when the coordinators have pruned no record (ms): each log whose beginning is gone
    has all from its first record on. -infinity = none is gone."""
    since = -inf
    for tp in evidence.partitions():
        log = _log(evidence, tp) if tp.topic == SHARE_STATE_TOPIC else None
        begin = 0 if log is None else int(log.whole["base"][0]) if log.count else max(log.start, 0)
        if begin > 0:
            since = max(since, next((row["timestamp"] for row in _rows(evidence, tp)), inf))
    return since


def _log(evidence: Evidence, tp: TopicPartition) -> ReplicaLog | None:
    """What a clean leader has at the end; the newest copy, where none was taken; None = there is none."""
    copies = replicas(evidence, tp)
    return survivor(copies, elections(evidence, tp)) or newest(copies)


def _rows(evidence: Evidence, tp: TopicPartition) -> list[TableRow]:
    """The records of that log, in their order."""
    one = _log(evidence, tp)
    if one is None:
        return []
    place = one.take, one.node
    rows = [row for row in evidence.of("share_log", tp).to_pylist() if (row["take"], row["node"]) == place]
    return sorted(rows, key=lambda row: int(row["offset"]))


def _records(evidence: Evidence, tp: TopicPartition) -> Iterator[tuple[Key, _Life, TableRow]]:
    """Each record of the newest replica that has a record of its share partition before it, with what those
    led to; nothing is known of what comes before a compressed batch."""
    lives: dict[Key, _Life] = {}
    log = _log(evidence, tp)
    unread = log.unread if log is not None else []
    for row in _rows(evidence, tp):
        while unread and unread[0] <= row["offset"]:
            unread.pop(0)
            lives.clear()
        key = row["group"], row["shared_topic"], row["shared_partition"]
        if row["start"] is None:
            lives.pop(key, None)  # deleted, or not read: what follows begins again
            continue
        life = lives.setdefault(key, _Life())
        if life.state_epoch >= 0:
            yield key, life, row
        life.take(row)


def _wrong(life: _Life, row: TableRow, result: PartitionResult) -> Iterator[tuple[str, str]]:
    """What a record breaks: rule, and why."""
    result.asked[EPOCHS] += 1
    if not life.goes_on(row):
        if row["state_epoch"] < life.state_epoch:
            yield EPOCHS, f"state epoch {row['state_epoch']} after {life.state_epoch}"
        return
    result.asked[START] += 1
    if 0 <= row["shared_leader_epoch"] < life.leader_epoch:
        yield EPOCHS, f"leader epoch {row['shared_leader_epoch']} after {life.leader_epoch}"
    if life.falls(row):
        yield START, f"start offset {row['start']} after {life.start}"
    if row["name"] == "ShareSnapshot":
        result.asked[WHOLE] += 1
        now = _states(row["states"])
        lost = [at for at, one in life.states.items() if at >= row["start"] and not _holds(now.get(at), one)]
        if lost:
            yield WHOLE, f"the snapshot lacks the state of the record at offset {lost[0]}"


def _holds(now: StoredState | None, before: StoredState) -> bool:
    return now is not None and (now.times, now.state) >= (before.times, before.state)


def _states(rows: Iterable[dict[str, int]]) -> dict[int, StoredState]:
    """Of rows of `history.evidence_tables.STATE_BATCHES`. A state that the model does not know counts as
    ended."""
    batches = (StateBatch(one["first"], one["last"], one["state"], one["times"]) for one in rows)
    return {
        offset: StoredState(_KNOWN.get(batch.state, RecordState.ARCHIVED), batch.times)
        for batch in batches
        for offset in range(batch.first, batch.last + 1)
    }


_KNOWN: Final = {int(one): one for one in RecordState}

CHECKS: Final = checks_of(RULES, ring=1, log_kernel=kernel)
