"""What has to hold of the replicas of one partition; see `invariants` for the list.

A partition's *committed log* is put together from what any replica has below its high watermark: two
replicas that agree with it agree with each other. Each batch of a replica is compared once, when the
high watermark passes it, and again after the log was cut.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from harness.modelled.virtual.invariants.transactions import PartitionFates, Report
from model.accepting.partition_state import ElectionKind, election, epoch_rises, unsound
from model.log.unified_log import NO_PRODUCER, RecordBatch, UnifiedLog, alike
from model.protocol.messages import Partition, PartitionState
from model.replication.replica import Replica
from model.settings import Settings

EVERY: Final = 64
"""Batches after which the producer state of a replica is compared with its log again; more in a longer log,
so that the cost of each append stays the same."""

ProducerState = tuple[int, int, int, list[tuple[int, int, int]]]
"""Epoch, first offset of the open transaction, coordinator epoch, (first, last sequence, base) of the
newest batches."""


@dataclass(slots=True, eq=False)
class Watched:
    """A replica as it was after the last event of its node.

    batches: its log's own list. end, high, state: as the replica's. count, tail: of its batches. at:
    batches from the first on that were compared with the committed log, in its generation. checked: batches
    with which the producer state was compared. led: the epoch that it led; stable: its last stable offset
    then. `told`: without a metadata quorum that decides, what the replicas receive counts.
    """

    tp: Partition
    node: int
    replica: Replica
    guarded: "Guarded"
    told: bool = False
    batches: list[RecordBatch] = field(init=False)
    end: int = -1
    high: int = -1
    state: PartitionState | None = None
    count: int = 0
    tail: RecordBatch | None = None
    at: int = 0
    generation: int = 0
    checked: int = -1
    led: int = -1
    stable: int = -1

    def __post_init__(self) -> None:
        self.batches = self.replica.log.batches


@dataclass(slots=True, eq=False)
class Guarded:
    """One partition. `batches`, `bases`, `end`: its committed log. `exposed`: see `invariants`.

    state: what the metadata quorum committed last. unclean: the epoch of an unclean election whose leader
    has not begun yet, -1 = none; last_known: of a last known leader (KIP-966), likewise. since: the epoch
    of the last unclean one that has begun. generation: counts those. leaders: by epoch.
    """

    tp: Partition
    settings: Settings
    report: Report
    decisions: PartitionFates
    batches: list[RecordBatch] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    end: int = 0
    exposed: int = 0
    state: PartitionState | None = None
    unclean: int = -1
    last_known: int = -1
    since: int = -1
    generation: int = 0
    leaders: dict[int, int] = field(default_factory=dict)

    def _broken(self, name: str, text: Callable[[], str]) -> None:
        self.report(name, self.tp, lambda: f"{self.tp[0]}-{self.tp[1]}: {text()}")

    # ---- what the controller decided

    def decided(self, state: PartitionState) -> None:
        """The metadata quorum committed a state."""
        old, self.state = self.state, state
        if why := unsound(state):
            self._broken("in-sync-set", lambda: f"{why}: {state}")
        if old is None:
            return
        if not epoch_rises(old, state):
            self._broken("one-leader", lambda: f"the epoch does not rise: {old}, then {state}")
        found = election(old, state)
        if found is ElectionKind.LAST_KNOWN:
            self.last_known = state.leader_epoch
        elif found is ElectionKind.UNCLEAN:
            self.unclean = state.leader_epoch
            if not self.settings.unclean:
                self._broken("clean-election", lambda: f"{old}, then {state}")

    def _newer(self, state: PartitionState) -> bool:
        known = self.state
        if known is None:
            return state.leader_epoch >= 0
        mine = (state.leader_epoch, state.partition_epoch)
        return mine > (known.leader_epoch, known.partition_epoch)

    # ---- what a replica did

    def changed(self, seen: Watched, cut: set[Partition]) -> None:
        """A replica is not as it was. cut: partitions that its node lost records of with its power."""
        replica, log = seen.replica, seen.replica.log
        batches, high, state = log.batches, seen.replica.high_watermark, seen.replica.state
        if seen.count and (len(batches) < seen.count or batches[seen.count - 1] is not seen.tail):
            seen.at, seen.checked = 0, -1
        if high > log.end:
            self._broken(
                "offsets-in-order", lambda: f"node {seen.node}: high watermark {high}, log end {log.end}"
            )
        if seen.told and state is not seen.state and self._newer(state):
            self.decided(state)
        if state.leader == replica.me:
            if state.leader_epoch != seen.led:
                self._leads(seen, cut)
            self._led(seen)
        self._compare(seen)
        if state.leader == replica.me and high > self.exposed and self._rightly(state):
            self.exposed = high
        count = len(batches)
        if count - seen.checked >= EVERY + seen.checked // 4 or seen.checked < 0:
            self._producers(seen)
        seen.end, seen.high, seen.state = log.end, high, state
        seen.count, seen.tail = count, batches[-1] if batches else None

    def _rightly(self, state: PartitionState) -> bool:
        """Whether a leader of this state is the one that the quorum committed last."""
        known = self.state
        return known is not None and known.leader_epoch == state.leader_epoch

    def _leads(self, seen: Watched, cut: set[Partition]) -> None:
        """It leads an epoch from now on."""
        epoch = seen.replica.state.leader_epoch
        seen.led, seen.stable = epoch, -1
        other = self.leaders.setdefault(epoch, seen.node)
        if other != seen.node:
            self._broken("one-leader", lambda: f"nodes {other} and {seen.node} lead epoch {epoch}")
        if 0 <= self.unclean <= epoch:
            self._begin_anew(seen.replica.log, epoch)
            return
        if epoch < self.since:
            return
        log = seen.replica.log
        at, mine = self._agree(log, seen.at if seen.generation == self.generation else 0)
        held = mine is None and log.end >= self.exposed
        excused = not self.settings.era.eligible_replicas or 0 <= self.last_known <= epoch
        self.last_known = -1
        if held:
            cut.discard(self.tp)
            return
        if self.tp in cut and excused:
            self._begin_anew(log, epoch)
            return
        which = self._describe(mine) if mine is not None else f"its log ends at {log.end}"
        self._broken(
            "leader-completeness",
            lambda: (
                f"node {seen.node} was elected cleanly in epoch {epoch}, but of the records below "
                f"{self.exposed} that were exposed it holds those below {at} only: {which}"
            ),
        )

    def _begin_anew(self, log: UnifiedLog, epoch: int) -> None:
        """An unclean leader: what it has is all that is left."""
        keep = 0
        for mine, theirs in zip(self.batches, log.batches, strict=False):
            if not alike(mine, theirs):
                break
            keep += 1
        del self.batches[keep:]
        del self.bases[keep:]
        self.end = self.batches[-1].last + 1 if self.batches else 0
        self.exposed = min(self.exposed, self.end)
        self.unclean, self.since = -1, epoch
        self.generation += 1
        self.decisions.begin_anew(self.batches)

    def _led(self, seen: Watched) -> None:
        """Compare what a leader reports with what it reported before in this epoch."""
        replica = seen.replica
        high, stable = replica.high_watermark, replica.log.stable(replica.high_watermark)
        if stable > high:
            self._broken("offsets-in-order", lambda: f"node {seen.node}: stable {stable}, watermark {high}")
        if seen.stable >= 0:
            if high < seen.high:
                self._broken("high-watermark-falls", lambda: self._fell(seen, seen.high, high))
            if stable < seen.stable:
                before = seen.stable
                self._broken("stable-offset-falls", lambda: self._fell(seen, before, stable))
        seen.stable = stable

    def _fell(self, seen: Watched, before: int, after: int) -> str:
        return f"node {seen.node} in epoch {seen.led}: {before}, then {after}"

    # ---- the committed log

    def _compare(self, seen: Watched) -> None:
        """Compare what came below the high watermark with the committed log, or add it there."""
        replica, log = seen.replica, seen.replica.log
        if seen.generation != self.generation:
            # After an unclean election a replica agrees once it has heard of it and cut its log back.
            if replica.state.leader_epoch < self.since or replica.truncating:
                return
            seen.generation, seen.at = self.generation, 0
        if 0 <= self.unclean <= replica.state.leader_epoch:
            return
        batches, bases = log.batches, self.bases
        high, at, count = replica.high_watermark, seen.at, len(log.batches)
        while at < count:
            batch = batches[at]
            base = batch.base
            if base >= high:
                break
            if base < self.end or (bases and base < bases[0]):
                if base >= bases[0] and not self._same(batch, at):
                    self._unequal(seen, batch)
                    break
            elif batch.last >= high or (bases and base > self.end):
                break
            else:
                self.batches.append(batch)
                bases.append(base)
                self.end = batch.last + 1
                self.decisions.add(batch)
            at += 1
        seen.at = at

    def _same(self, batch: RecordBatch, at: int) -> bool:
        """Whether the committed log has the batch; `at`: where it is if the log was never shortened."""
        batches = self.batches
        if at < len(batches) and batches[at] is batch:
            return True
        found = bisect_left(self.bases, batch.base)
        return found < len(batches) and alike(batches[found], batch)

    def _agree(self, log: UnifiedLog, at: int) -> tuple[int, RecordBatch | None]:
        """Offset up to which a log agrees with what was exposed, and its first other batch."""
        for index in range(at, len(log.batches)):
            batch = log.batches[index]
            if batch.base >= self.exposed or not self.bases:
                break
            if batch.base >= self.bases[0] and not self._same(batch, index):
                return batch.base, batch
        return min(log.end, self.exposed), None

    def _unequal(self, seen: Watched, batch: RecordBatch) -> None:
        found = bisect_left(self.bases, batch.base + 1) - 1
        other = self.batches[max(0, found)]
        self._broken(
            "log-matching",
            lambda: (
                f"node {seen.node}, high watermark {seen.replica.high_watermark}: "
                f"{self._describe(batch)}, committed is {self._describe(other)}"
            ),
        )

    def _describe(self, batch: RecordBatch) -> str:
        what = batch.control or f"{batch.size} records"
        return (
            f"offset {batch.base} has {what} of epoch {batch.epoch}, producer {batch.producer_id}/"
            f"{batch.producer_epoch} from {batch.sequence}"
        )

    # ---- producers

    def _producers(self, seen: Watched) -> None:
        log = seen.replica.log
        seen.checked = len(log.batches)
        told = remembered(log)
        made = producers_of(log.batches, self.settings.era.remembered_batches)
        if log.start and log.batches:
            first = log.batches[0].base
            told = {one: of_the_rest(told[one], made[one], first) for one in told if one in made}
        elif log.start:
            told = {}
        if told != made:
            self._broken("producer-state", lambda: f"node {seen.node}: {unlike(told, made)}")


# ---- what a log remembers of its producers, and what its batches say of them, derived again


def remembered(log: UnifiedLog) -> dict[int, ProducerState]:
    """What a log remembers, by producer id."""
    return {
        producer: (
            known.epoch,
            known.began,
            known.coordinator_epoch,
            [(sent.first_sequence, sent.last_sequence, sent.base) for sent in known.batches],
        )
        for producer, known in log.producers.items()
    }


def of_the_rest(told: ProducerState, made: ProducerState, first: int) -> ProducerState:
    """What a log remembers of a producer, as far as its batches from `first` on can say it. What was deleted
    is still remembered: batches, where a transaction began, and the coordinator that ended one."""
    epoch, began, coordinator, sent = told
    if 0 <= began < first <= made[1]:
        began = made[1]
    if made[2] == -1:
        coordinator = -1
    return epoch, began, coordinator, [one for one in sent if one[2] >= first]


def producers_of(batches: list[RecordBatch], remembered: int) -> dict[int, ProducerState]:
    """What a log says of its producers, by producer id."""
    made: dict[int, ProducerState] = {}
    for batch in batches:
        producer = batch.producer_id
        if producer == NO_PRODUCER:
            continue
        epoch, began, coordinator, sent = made.get(producer, (batch.producer_epoch, -1, -1, []))
        if epoch != batch.producer_epoch:
            sent = []
        if batch.control:
            began, coordinator = -1, batch.coordinator_epoch
        else:
            sent = [*sent, (batch.sequence, batch.last_sequence, batch.base)][-remembered:]
            if batch.transactional and began < 0:
                began = batch.base
        made[producer] = (batch.producer_epoch, began, coordinator, sent)
    return made


def unlike(told: dict[int, ProducerState], made: dict[int, ProducerState]) -> str:
    """The first producer on which the two differ, in words."""
    producer = min(p for p in {*told, *made} if told.get(p) != made.get(p))
    return f"of producer {producer} it knows {told.get(producer)}, its log says {made.get(producer)}"
