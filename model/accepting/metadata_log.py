"""The metadata log of KRaft, record by record, against the controller (`model.metadata.election`).

A change of a partition has to be what `election.change` makes of its state for some cause. Causes that take
a broker away stand beside the changes that they make: its fencing, controlled shutdown, unregistration, or
the registration after an unclean shutdown. What the log does not tell is tried in all ways: which set a
leader asked for, an operator's elections, reassignments. So the acceptor takes more than a controller would
make, and nothing that one makes is refused.

Left out, as logs do not show it: whether a request was well made, whether a broker's session had ended,
what was asked and changed nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, NamedTuple

from msgspec import structs

from model.accepting.metadata_records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    LogImage,
    MetadataLogRecord,
    MetadataTransaction,
    PartitionChanged,
    PartitionCreated,
    ProducerIds,
    TopicCreated,
    TopicRemoved,
)
from model.accepting.partition_state import (
    ElectionKind,
    alike,
    described,
    distance,
    election,
    epoch_rises,
    strangers,
    unsound,
)
from model.accepting.refusal import Refusal
from model.eras import METADATA_VERSION, V3_3, V4_3, of_metadata_version
from model.metadata.election import change
from model.protocol.controller_messages import PRODUCER_ID_BLOCK_SIZE
from model.protocol.messages import Partition, PartitionState
from model.settings import Settings

ELIGIBLE: Final = "eligible.leader.replicas.version"
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"


@dataclass(slots=True)
class MetadataLog:
    """See the module. `whole`: the log is known from its begin, or from a snapshot that `image` holds; else
    only what its records have said counts. `snapshots`: images by the offset where they were taken.
    `unclean`: offsets of registrations that follow a death of the broker. `elects`: whether nodes elect
    replicas that miss records where the log does not say, None = unknown. `asked`: rule -> how often.
    `unknown`: places that could not be decided: offset, rule, why."""

    image: LogImage = field(default_factory=LogImage)
    whole: bool = True
    snapshots: dict[int, LogImage] = field(default_factory=dict)
    unclean: frozenset[int] = frozenset()
    elects: bool | None = None
    asked: Counter[str] = field(default_factory=Counter)
    unknown: list[tuple[int, str, str]] = field(default_factory=list)
    _began: LogImage | None = None
    _gone: frozenset[int] = frozenset()
    _dirty: frozenset[int] = frozenset()
    _fenced: set[int] = field(default_factory=set)
    _returned: set[int] = field(default_factory=set)
    _first_replicas: dict[str, int] = field(default_factory=dict)
    """Of topics whose first partition changed among the changes at hand: how many it had before them."""

    def accept(self, records: Sequence[tuple[int, MetadataLogRecord]]) -> Iterator[Refusal]:
        """The records at their offsets; what a controller would not have written."""
        for index, (offset, record) in enumerate(records):
            again = isinstance(record, PartitionCreated) and record.partition in self.image.partitions
            if not again and not isinstance(record, PartitionChanged):
                yield from self._leads_nothing(offset)
                yield from self._not_eligible(offset)
            elif not index or not isinstance(records[index - 1][1], PartitionChanged):
                self._beside(records, index)
            for at in sorted(at for at in self.snapshots if at <= offset):
                yield from self._snapshot(at, self.snapshots.pop(at))
            yield from self._refused(offset, record)
            if isinstance(record, MetadataTransaction):
                self._transaction(record)
            self.image.apply(record)

    def _transaction(self, record: MetadataTransaction) -> None:
        if record.begins:
            self._began = deepcopy(self.image)
        elif record.aborted and self._began is not None:
            self.image, self._began = self._began, None

    def _snapshot(self, at: int, image: LogImage) -> Iterator[Refusal]:
        """The snapshot that ends before `at`, beside what the log says up to there."""
        if not self.whole:
            return
        self.asked["snapshot-is-image"] += 1
        for why in self.image.unlike(image):
            yield Refusal(rule="snapshot-is-image", offset=at, why=why)

    def _beside(self, records: Sequence[tuple[int, MetadataLogRecord]], first: int) -> None:
        """Look at what stands before and after the changes of partitions that begin here: brokers that they
        take away."""
        end = first
        while end < len(records) and isinstance(records[end][1], PartitionChanged):
            end += 1
        gone, dirty = set(), set()
        for index in (first - 1, end):
            match records[index][1] if 0 <= index < len(records) else None:
                case BrokerChanged(broker, _, fenced, leaving, failed) if fenced or leaving or failed:
                    gone.add(broker)
                case BrokerUnregistered(broker):
                    gone.add(broker)
                    dirty.add(broker)
                case BrokerRegistered(broker):
                    dirty.add(broker)
        self._gone, self._dirty = frozenset(gone), frozenset(dirty)
        self._first_replicas = {}

    def _refused(self, offset: int, record: MetadataLogRecord) -> Iterator[Refusal]:
        match record:
            case TopicCreated() | TopicRemoved():
                yield from self._topic(offset, record)
            case BrokerRegistered() | BrokerChanged():
                yield from self._broker(offset, record)
            case PartitionCreated():
                yield from self._created(offset, record)
            case PartitionChanged():
                yield from self._changed(offset, record)
            case ProducerIds(next_):
                known = self.image.next_id
                least = max(known, 0) + PRODUCER_ID_BLOCK_SIZE
                if known >= 0 or self.whole:
                    self.asked["producer-id-blocks"] += 1
                    if next_ < least:
                        why = f"producer ids below {next_} are given away"
                        yield Refusal(
                            rule="producer-id-blocks",
                            offset=offset,
                            why=f"{why}; the next block ends at {least} or later",
                            before=f"producer ids below {known} are given away" if known >= 0 else "",
                        )

    # ---- topics and brokers

    def _topic(self, offset: int, record: TopicCreated | TopicRemoved) -> Iterator[Refusal]:
        self.asked["topics-known"] += 1
        known = self.image.topics
        why = ""
        if isinstance(record, TopicCreated):
            if record.topic in known:
                why = f"topic {record.topic} is created, which is there with id {known[record.topic]}"
            elif record.topic_id in known.values():
                why = f"topic {record.topic} gets the id {record.topic_id}, which another one has"
        elif record.topic not in known and self.whole:
            why = f"topic {record.topic} is removed, which is not there"
        if why:
            yield Refusal(rule="topics-known", offset=offset, why=why)

    def _broker(self, offset: int, record: BrokerRegistered | BrokerChanged) -> Iterator[Refusal]:
        known = self.image.brokers.get(record.broker)
        why = ""
        if isinstance(record, BrokerRegistered):
            if record.epoch > offset:
                why = f"broker {record.broker} is registered with epoch {record.epoch}, an offset to come"
            elif known is not None and record.epoch < known.epoch:
                why = f"broker {record.broker} is registered with epoch {record.epoch}"
        elif known is None:
            if not self.whole:
                return
            why = f"the registration of broker {record.broker} changes, which has none"
        elif record.epoch != known.epoch:
            why = f"the registration of broker {record.broker} changes under epoch {record.epoch}"
        self.asked["broker-epochs-rise"] += 1
        if why:
            before = "" if known is None else f"broker {record.broker} has epoch {known.epoch}"
            yield Refusal(rule="broker-epochs-rise", offset=offset, why=why, before=before)
        if isinstance(record, BrokerChanged) and record.fenced:
            self._fenced.add(record.broker)
        elif isinstance(record, BrokerRegistered) and offset in self.unclean:
            self._returned.add(record.broker)

    def _leads_nothing(self, offset: int) -> Iterator[Refusal]:
        """Once the changes that belong to a fencing are done, the broker leads nothing."""
        if not self._fenced:
            return
        fenced, self._fenced = self._fenced, set()
        self.asked["fenced-leads-nothing"] += 1
        for tp, state in self.image.partitions.items():
            if state.leader in fenced:
                yield Refusal(
                    rule="fenced-leads-nothing",
                    offset=offset - 1,
                    why=f"broker {state.leader} is fenced, and leads {_name(tp)} further on",
                    before=described(state),
                )

    def _not_eligible(self, offset: int) -> Iterator[Refusal]:
        """A broker that may have lost the end of its logs is registered, with the changes that go with it."""
        returned, self._returned = self._returned, set()
        if not returned or self.image.features.get(ELIGIBLE, 0) <= 0:
            return
        self.asked["unclean-not-eligible"] += 1
        for tp, state in self.image.partitions.items():
            for broker in returned & {*state.isr, *state.elr}:
                why = f"broker {broker} is back from an unclean shutdown, and stays in sync or eligible in "
                yield Refusal(
                    rule="unclean-not-eligible",
                    offset=offset - 1,
                    why=f"{why}{_name(tp)}",
                    before=described(state),
                )

    # ---- partitions

    def _created(self, offset: int, record: PartitionCreated) -> Iterator[Refusal]:
        tp, state = record.partition, record.state
        known = self.image.partitions.get(tp)
        if known is not None:
            yield from self._again(offset, tp, known, state)
            return
        self.asked["topics-known"] += 1
        if tp[0] not in self.image.topics and self.whole:
            yield Refusal(rule="topics-known", offset=offset, why=f"{_name(tp)} belongs to no topic")
        yield from self._sound(offset, tp, state, "")
        if not self.whole:
            return
        self.asked["change-has-cause"] += 1
        active = [n for n in state.replicas if n in self.image.active()]
        first = PartitionState(state.replicas, tuple(active), active[0] if active else -1)
        if not alike(first, state):
            yield Refusal(
                rule="change-has-cause",
                offset=offset,
                why=f"{_name(tp)} begins with {described(state)}; a new one has {described(first)}",
                before=f"brokers {sorted(self.image.active())} are active",
            )

    def _again(
        self, offset: int, tp: Partition, before: PartitionState, after: PartitionState
    ) -> Iterator[Refusal]:
        """A partition is created that is there: no controller writes that, whatever it says."""
        told, why = described(before), f"{_name(tp)}, which is there, is created with {described(after)}"
        broken = [rule for rule, holds in _epochs(before, after).items() if not holds] or ["topics-known"]
        for rule in broken:
            yield Refusal(rule=rule, offset=offset, why=why, before=told)

    def _changed(self, offset: int, record: PartitionChanged) -> Iterator[Refusal]:
        tp = record.partition
        before = self.image.partitions.get(tp)
        if before is None:
            if self.whole:
                self.asked["topics-known"] += 1
                why = f"{_name(tp)} changes, which was never created"
                yield Refusal(rule="topics-known", offset=offset, why=why)
            return
        after, told = record.after(before), described(before)
        name = _name(tp)
        yield from self._sound(offset, tp, after, told)
        yield from self._eligible(offset, tp, before, after)
        for rule, holds in _epochs(before, after).items():
            self.asked[rule] += 1
            if not holds:
                why = f"{name} becomes {described(after)}"
                yield Refusal(rule=rule, offset=offset, why=why, before=told)
        if tp[1] == 0 and len(before.replicas) != len(after.replicas):
            self._first_replicas.setdefault(tp[0], len(before.replicas))
        clean = True
        for refusal in self._elected(offset, tp, before, after):
            clean = False
            yield refusal
        if not self.whole and not set(before.replicas) <= set(self.image.brokers):
            return
        self.asked["change-has-cause"] += 1
        unchanged = structs.replace(before, partition_epoch=after.partition_epoch)
        if clean and not (record.other and alike(unchanged, after)):
            made = list(self._possible(tp, before, after))
            if not any(alike(one, after) for one in made):
                nearest = min(made, key=lambda one: distance(one, after), default=before)
                yield Refusal(
                    rule="change-has-cause",
                    offset=offset,
                    why=f"{name} becomes {described(after)}, which the controller makes for no cause; "
                    f"nearest to it is {described(nearest)}",
                    before=f"{told}; brokers that may lead {sorted(self.image.electable(tp))}",
                )

    def _sound(self, offset: int, tp: Partition, state: PartitionState, told: str) -> Iterator[Refusal]:
        self.asked["in-sync-set"] += 1
        if why := unsound(state):
            text = f"{_name(tp)} becomes {described(state)}: {why}"
            yield Refusal(rule="in-sync-set", offset=offset, why=text, before=told)

    def _eligible(
        self, offset: int, tp: Partition, before: PartitionState, after: PartitionState
    ) -> Iterator[Refusal]:
        """Whether a replica was taken off, and is eligible further on: it gives up its log."""
        if self.image.features.get(ELIGIBLE, 0) > 0:
            self.asked["eligible-are-replicas"] += 1
        if stayed := strangers(after) - strangers(before):
            yield Refusal(
                rule="eligible-are-replicas",
                offset=offset,
                why=f"{_name(tp)} becomes {described(after)}: {sorted(stayed)} may lead, but are taken off",
                before=described(before),
            )

    def _elected(
        self, offset: int, tp: Partition, before: PartitionState, after: PartitionState
    ) -> Iterator[Refusal]:
        """Whether a replica was elected that was neither in sync nor eligible, where that is forbidden."""
        found = election(before, after)
        if found is ElectionKind.NONE:
            return
        allowed = self._elects(tp[0])
        if allowed is not False and found is ElectionKind.UNCLEAN:
            if allowed is None:
                why = f"{_name(tp)}: an unclean election, and the log does not say whether it is allowed"
                self.unknown.append((offset, "unclean-election", why))
            return
        self.asked["unclean-election"] += 1
        if found is ElectionKind.UNCLEAN:
            yield Refusal(
                rule="unclean-election",
                offset=offset,
                why=f"{_name(tp)}'s leader becomes {after.leader}, which is neither in sync nor eligible",
                before=described(before),
            )

    def _elects(self, topic: str) -> bool | None:
        """Whether a replica that misses records may lead, None = unknown."""
        setting = self.image.setting(topic, UNCLEAN)
        return self.elects if setting is None else setting.strip().lower() == "true"

    # ---- causes

    def _possible(
        self, tp: Partition, before: PartitionState, after: PartitionState
    ) -> Iterator[PartitionState]:
        """What the controller makes of a state, for each cause that the log leaves open."""
        # One that is assigned to a directory which failed goes with the next change: no record says so of it.
        gone = self._gone | self.image.offline(tp) & {*before.isr}
        causes = list(_causes(self.image, before, after, gone, self._dirty))
        electable = self.image.electable(tp)
        for settings, first, cause in product(
            self._settings(tp[0], before, after), self._firsts(tp[0], before), causes
        ):
            yield cause.change(before, settings, electable, first)

    def _firsts(self, topic: str, before: PartitionState) -> set[int]:
        """How many replicas the topic's first partition may have had when the controller decided: it makes
        all records of a request before it applies one."""
        first = self.image.partitions.get((topic, 0), before)
        return {len(first.replicas), self._first_replicas.get(topic, len(first.replicas))}

    def _settings(self, topic: str, before: PartitionState, after: PartitionState) -> Iterator[Settings]:
        """Settings that the log leaves open. It tells no release: reassignments of both kinds are tried; and
        with the metadata version of a release whose controller heeds no setting of unclean elections, one
        that heeds it as well, which an upgrade has."""
        features = self.image.features
        level = features.get(METADATA_VERSION)
        release = V3_3 if level is None else of_metadata_version(level)
        era = replace(
            V4_3,
            eligible_replicas=features.get(ELIGIBLE, 0) > 0,
            epoch_by_shrink=level is not None and release.epoch_by_shrink,
        )
        moving = before.adding or before.removing or after.adding or after.removing
        bugs = [frozenset[str]()]
        if strangers(after):
            bugs.append(frozenset(["removed-stays-eligible"]))
        minimum, elects = self.image.setting(topic, MIN_ISR), self._elects(topic)
        known = [int(minimum)] if minimum is not None else range(1, len(before.replicas) + 1)
        either = elects is None or (elects and not release.unclean_by_setting)
        for whole, min_isr, unclean, planted in product(
            (True, False) if moving else (True,),
            known if era.eligible_replicas else (1,),
            (False, True) if either else (elects is True,),
            bugs,
        ):
            yield Settings(
                era=replace(era, whole_reassignment=whole), min_isr=min_isr, unclean=unclean, bugs=planted
            )


class _Cause(NamedTuple):
    """Arguments of `election.change`. without: a broker that may not lead, -1 = none."""

    without: int = -1
    isr: tuple[int, ...] | None = None
    preferred: bool = False
    unclean: bool = False
    dirty: int = -1
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None

    def change(
        self, before: PartitionState, settings: Settings, electable: set[int], first: int
    ) -> PartitionState:
        """What the controller makes of a state. first: see `election.change`."""
        return change(
            before,
            settings,
            electable - {self.without},
            isr=self.isr,
            preferred=self.preferred,
            unclean=self.unclean,
            dirty=self.dirty,
            replicas=self.replicas,
            adding=self.adding,
            removing=self.removing,
            first=first,
        )


def _causes(
    image: LogImage,
    before: PartitionState,
    after: PartitionState,
    gone: Collection[int],
    dirty: Collection[int],
) -> Iterator[_Cause]:
    yield _Cause()
    yield _Cause(preferred=True)
    if before.leader < 0:
        yield _Cause(unclean=True)  # an operator's; a finding of its own where it is forbidden
    for broker in gone:
        yield _Cause(broker, tuple(n for n in before.isr if n != broker))
    for broker in dirty:
        yield _Cause(broker, tuple(n for n in before.isr if n != broker), dirty=broker)
    for wanted in _asked_for(image, before, after):
        yield _Cause(isr=wanted)
    if (before.replicas, before.adding, before.removing) != (after.replicas, after.adding, after.removing):
        leave = tuple(n for n in before.replicas if n not in after.replicas)
        reverted = tuple(n for n in before.isr if n not in before.adding) or after.replicas[:1]
        yield _Cause(replicas=after.replicas, adding=after.adding, removing=after.removing)
        yield _Cause(replicas=(*after.replicas, *leave), adding=(), removing=leave)
        yield _Cause(isr=reverted, replicas=after.replicas, adding=(), removing=())


def _asked_for(image: LogImage, before: PartitionState, after: PartitionState) -> Iterator[tuple[int, ...]]:
    """In-sync sets that the leader may have asked for (AlterPartition): who joins is active (KIP-841). What
    a reassignment that ends takes out of the set was in it."""
    leaving = tuple(n for n in before.isr if n in before.removing and n not in after.isr)
    for wanted in (after.isr, (*after.isr, *leaving)):
        joins = set(wanted) - set(before.isr)
        if before.leader in wanted and joins <= image.active():
            yield wanted


def _epochs(before: PartitionState, after: PartitionState) -> dict[str, bool]:
    """Which rules about epochs hold."""
    return {
        "leader-epoch-rises": epoch_rises(before, after),
        "partition-epoch-rises": after.partition_epoch == before.partition_epoch + 1,
    }


def _name(tp: Partition) -> str:
    return f"{tp[0]}-{tp[1]}"
