"""When records may have been taken off the logs of a run, and by what (docs/checks.md, section 6, "Windows").

A window is a span of time in which the log of one partition may have lost its end. It is made from what is on
record: faults, roles, ends of nodes, settings. Kernels ask whether a window lies between a moment at which a
record was there and one at which it was not. Not here: what a window permits (`checkers.allowed`).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from core.config import RunConfig
from core.flushing import DAY_MS, Flushing, flushing
from core.op import GONE_MARK
from core.systems import ImportedSection, KafkaSection, ModelSection, SimulatedSection, is_since, release_of
from core.unclean_elections import SETTING as UNCLEAN
from core.unclean_elections import unheeded
from history.columns import Array
from history.events import (
    NO_TARGET,
    ClockJumped,
    Event,
    FaultFailed,
    FaultHealed,
    FaultStarted,
    NodeEnded,
    RecordsDeleted,
    RolesSeen,
)

T = TypeVar("T", bound=Hashable)

FOREVER: Final = 2**63 - 1
SLACK_NS: Final = 10_000_000_000
"""How long a leader that was replaced may still answer, and a client hand out what it was given before."""

TRANSACTIONS: Final = "__transaction_state"
OFFSETS: Final = "__consumer_offsets"
SHARE_STATE: Final = "__share_group_state"
INTERNAL: Final = (TRANSACTIONS, OFFSETS, SHARE_STATE)
COPIES: Final = {
    TRANSACTIONS: "transaction.state.log.replication.factor",
    OFFSETS: "offsets.topic.replication.factor",
    SHARE_STATE: "share.coordinator.state.topic.replication.factor",
}
"""Internal topic -> setting of brokers: the number of its replicas."""
OF_GROUPS: Final = (OFFSETS, TRANSACTIONS)
"""What may lose a group's offsets: the log that has them, and that of transactions, which may commit them."""
OF_SHARES: Final = (SHARE_STATE, OFFSETS)
"""What may lose the state of share groups: the log that has it, and that of groups, whose coordinator
initialises a state that it does not know to be there."""
POWER: Final = "power"
BESIDE_BROKERS: Final = (
    "links:", "half-open:", "wire:", "partition:clients-", "delete-records:", "add-partitions:",
)  # fmt: skip
"""How the names of faults begin that leave brokers and the links between them alone: no leader moves."""
BETWEEN_BROKERS: Final = ("wire:markers", "wire:share-state")
"""Names of faults that begin like one of these, and are between brokers all the same."""
MIN_ISR: Final = "min.insync.replicas"
MOST_COUNTED: Final = 1 << 16
"""A greater number of records that brokers flush together narrows nothing."""
NOT_COMPACTED: Final = -1
EFFECTIVE_MINIMUM: Final = "3.7"
"""The first version where a partition with fewer replicas than min.insync.replicas acknowledges all the same
(KAFKA-15583)."""
NO_LIMIT: Final = 1 << 16
SHRINKS: Final = "reassign:shrink"
"""How the names of faults begin that take a replica from partitions."""


class Excuse(StrEnum):
    """What may have taken records off a log."""

    NONE = ""
    UNCLEAN = "unclean"
    POWER = "power"
    LEADER = "leader"
    AWAY = "away"


NO_EXCUSE, BY_UNCLEAN, BY_POWER, BY_LEADER, BY_AWAY = range(5)
EXCUSES: Final = dict(enumerate(Excuse))
"""Codes of kernels -> excuse."""

Span = tuple[int, int]
"""From, until: ns, both included."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Spans of time, disjoint and in order: arrays of their beginnings and ends."""

    begin: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    end: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, spans: Iterable[Span]) -> "Windows":
        """Any spans, which may overlap."""
        merged: list[list[int]] = []
        for begin, end in sorted(spans):
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        both = np.array(merged, np.int64).reshape(-1, 2)
        return cls(both[:, 0], both[:, 1])

    def __bool__(self) -> bool:
        return len(self.begin) > 0

    def __iter__(self) -> Iterator[Span]:
        return zip(self.begin.tolist(), self.end.tolist(), strict=True)

    def between(self, since: Array, until: Array) -> Array:
        """Of each pair of moments: whether a window has a moment between them; in order (flags)."""
        if not self:
            return np.zeros(len(since), bool)
        first = np.searchsorted(self.end, since)
        begun = np.append(self.begin, FOREVER)[first] <= until
        return np.asarray(begun & (first < len(self.begin)) & (since <= until))

    def after_next(self, moments: Array) -> Array:
        """Of each moment: when the first window that begins later has ended; FOREVER: none does."""
        over = np.append(self.end, FOREVER)[np.searchsorted(self.begin, moments, side="right")]
        return np.asarray(np.minimum(over, FOREVER - 1) + 1)


@dataclass(frozen=True, slots=True)
class PowerLosses:
    """Power windows. young: those at which a replica may have had only for a moment what it had."""

    every: Windows = field(default_factory=Windows)
    young: Windows = field(default_factory=Windows)

    def __bool__(self) -> bool:
        return bool(self.every)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.every)

    def take(self, since: Array, until: Array, *, timed: Array, counted: Array) -> Array:
        """Of each pair of moments: whether one may have taken a record in between (flags).

        timed, counted: when it was flushed, by time and by the number of records behind it (FOREVER: never).
        """
        first = self._between(since, np.minimum(until, counted), timed)
        again = self.every.after_next(counted)  # a log that was cut shorter has it again without a flush
        return first | self._between(np.maximum(since, again), until, timed)

    def _between(self, since: Array, until: Array, timed: Array) -> Array:
        return self.every.between(since, np.minimum(until, timed)) | self.young.between(since, until)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindows:
    """The windows of one partition, or of several together.

    power: as many replicas as a record with acks=all had to be on had lost power, and no other one that was
    in sync kept it; any_power: one had. read_power: one had, and none kept what consumers had read.
    leader: the leader may have changed, or one that was replaced may have answered. away: a replica was not
    in sync for longer than compaction keeps tombstones. flushed_ns: how long after it was acknowledged a
    record is flushed, at the latest. flushed_records: a log that has this number of records that are not
    flushed is flushed at once; 0 = no number is set.
    """

    unclean: Windows = field(default_factory=Windows)
    power: PowerLosses = field(default_factory=PowerLosses)
    any_power: PowerLosses = field(default_factory=PowerLosses)
    read_power: PowerLosses = field(default_factory=PowerLosses)
    leader: Windows = field(default_factory=Windows)
    away: Windows = field(default_factory=Windows)
    flushed_ns: int = FOREVER
    flushed_records: int = 0

    def __bool__(self) -> bool:
        return bool(self.unclean or self.any_power or self.leader)

    def excuses(
        self,
        since: Array,
        until: Array,
        *,
        weak: Array,
        read: Array | None = None,
        acked: Array | None = None,
        counted: Array | None = None,
    ) -> Array:
        """Of each pair of moments: the code of what may have taken a record in between.

        weak: flags, one replica alone may have had it. read: flags, a consumer had, so all in sync had it.
        acked: when it was acknowledged (-1: unknown). counted: when the acknowledged records behind it show
        that it was flushed (FOREVER: they do not).
        """
        codes = np.full(len(since), NO_EXCUSE, np.int8)
        codes[weak & self.leader.between(since, until)] = BY_LEADER
        never = np.full(len(since), FOREVER)
        counted = never if counted is None else counted
        timed = never
        if acked is not None and self.flushed_ns < FOREVER:
            timed = np.where(acked >= 0, acked, FOREVER - self.flushed_ns) + self.flushed_ns
        power = self.power.take(since, until, timed=timed, counted=counted)
        if weak.any():
            alone = weak if read is None else weak & ~read
            power |= alone & self.any_power.take(since, until, timed=timed, counted=counted)
        if weak.any() and read is not None:
            power |= weak & read & self.read_power.take(since, until, timed=timed, counted=counted)
        codes[power] = BY_POWER
        codes[self.unclean.between(since, until)] = BY_UNCLEAN
        return codes

    def or_away(self, codes: Array, since: Array, until: Array) -> Array:
        """Codes of what compaction removes in the end: a replica that was away may explain what nothing else
        does, and more than a leader that changed."""
        unexplained = (codes == NO_EXCUSE) | (codes == BY_LEADER)
        codes[unexplained & self.away.between(since, until)] = BY_AWAY
        return codes


def together(windows: Iterable[LogWindows]) -> LogWindows:
    """Those of several partitions as if they were one."""
    every = list(windows)
    return LogWindows(
        unclean=Windows.of(span for one in every for span in one.unclean),
        power=PowerLosses(Windows.of(span for one in every for span in one.power)),
        any_power=PowerLosses(Windows.of(span for one in every for span in one.any_power)),
        leader=Windows.of(span for one in every for span in one.leader),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWindows:
    """The windows of each log. Keys: of a partition, for kernels the row of `tps`; of all partitions of an
    internal topic together (`INTERNAL`), its name. powerless: of each node that lost its power in a power
    window of a partition, from then on until it was in sync there again. remade_ns: when the run's topics had
    been deleted and made again for the last time, -1 = they never were, FOREVER = unknown."""

    of_log: Mapping[Any, LogWindows] = field(default_factory=dict)
    powerless: Mapping[int, Windows] = field(default_factory=dict)
    remade_ns: int = -1

    def __getitem__(self, log: Hashable) -> LogWindows:
        return self.of_log.get(log, _NOTHING)

    @property
    def partitions(self) -> list[Hashable]:
        """The keys of those that are of no internal topic."""
        return [log for log in self.of_log if log not in INTERNAL]

    def excuses(self, logs: Iterable[Hashable], since: Array, until: Array) -> Array:
        """Of each pair of moments: the code of what may have taken records in between from these logs."""
        codes = np.full(len(since), len(EXCUSES), np.int8)
        for one in map(self.__getitem__, logs):
            if one:
                found = one.excuses(since, until, weak=np.zeros(len(since), bool))
                codes = np.where(found == NO_EXCUSE, codes, np.minimum(codes, found))
        return np.where(codes < len(EXCUSES), codes, NO_EXCUSE)

    def excuses_of_markers(
        self, tp: Hashable, since: Array, until: Array, *, begun: Array | None = None
    ) -> Array:
        """Of each pair of moments: the code of what may have kept a marker in between from the log that a
        partition has. begun: when its transaction began at the earliest, None = at `since`."""
        begun = since if begun is None else begun
        return self[tp].or_away(self.excuses((tp, TRANSACTIONS), since, until), begun, until)

    def ever(self, *logs: Hashable, since: int = 0, until: int = FOREVER) -> int:
        """What may have taken records from these logs between two moments; without them, in the whole run."""
        return int(self.excuses(logs, np.full(1, since), np.full(1, until))[0])

    def power_before(self, ns: int) -> bool:
        """Whether a power window of any log had begun, records that another replica kept or not."""
        return any(begin < ns for spans in self.powerless.values() for begin, _ in spans)

    def lost_power(self, node: int, ns: int) -> bool:
        """Whether a node still missed then what a power window had taken from it."""
        spans = self.powerless.get(node, Windows())
        return any(begin < ns <= end for begin, end in spans)

    def anywhere(self, *internal: str, since: int = 0) -> int:
        """The code of what may have taken records since a moment, from any partition or from these internal
        topics."""
        return self.ever(*self.partitions, *internal, since=since)


_NOTHING: Final = LogWindows()
_ALWAYS: Final = Windows.of([(0, FOREVER)])


def whenever(tps: Iterable[Hashable], *, unclean: bool, power: bool, away: bool = False) -> RunWindows:
    """As if everything that may still come had been at all times."""
    every = LogWindows(
        unclean=_ALWAYS if unclean else Windows(),
        power=PowerLosses(_ALWAYS, _ALWAYS) if power else PowerLosses(),
        any_power=PowerLosses(_ALWAYS, _ALWAYS) if power else PowerLosses(),
        read_power=PowerLosses(_ALWAYS, _ALWAYS) if power else PowerLosses(),
        leader=_ALWAYS,
        away=_ALWAYS if away else Windows(),
    )
    return RunWindows(of_log=dict.fromkeys((*tps, *INTERNAL), every))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What a topic's settings say of what its logs may lose.

    flushed_ns, flushed_records: see `LogWindows`; 0 ns = each record is flushed before it is acknowledged.
    tombstones_ns: how long compaction keeps tombstones. copies: the number of replicas, where no more than
    those have to acknowledge; NO_LIMIT: as many as `min_isr` always.
    """

    min_isr: int
    copies: int
    unclean: bool
    flushed_ns: int
    flushed_records: int
    tombstones_ns: int = NOT_COMPACTED


def log_settings(config: RunConfig, topic: str, events: Sequence[Event] = ()) -> LogSettings:
    """Of a topic of the run: the topic's own settings win; internal topics have those of the brokers, and
    `__transaction_state` a minimum of its own, and no unclean elections; nor has any topic where the
    controllers do not look at the setting. events: of the run."""
    brokers = config.broker_settings
    copies = str(min(3, config.brokers))
    of = flushing(config, topic)
    number = of.records if 1 < of.records <= MOST_COUNTED else 0
    limited, otherwise = _minimum_is_limited(config), int(copies)
    replicas = config.replication_factor
    if topic in COPIES:
        replicas = _number(brokers.get(COPIES[topic], copies), otherwise)
    made = partial(
        LogSettings,
        flushed_ns=_flushed_ns(of),
        flushed_records=number,
        copies=replicas if limited else NO_LIMIT,
    )
    of_brokers, heeded = brokers.get(UNCLEAN, str(config.unclean_leader_election)), not unheeded(config)
    if topic == TRANSACTIONS:
        least = brokers.get("transaction.state.log.min.isr", str(min(2, int(copies))))
        return made(min_isr=_number(least, 2), unclean=False)
    if topic == OFFSETS:
        least = brokers.get(MIN_ISR, str(min(config.min_insync_replicas, int(copies))))
        return made(min_isr=_number(least, 1), unclean=heeded and is_true(of_brokers))
    if topic == SHARE_STATE:
        least = brokers.get("share.coordinator.state.topic.min.isr", str(min(2, int(copies))))
        return made(min_isr=_number(least, 2), unclean=heeded and is_true(of_brokers))
    own = config.settings_of_topics()
    return made(
        min_isr=_number(own[MIN_ISR], config.min_insync_replicas),
        unclean=heeded and is_true(own[UNCLEAN]),
        tombstones_ns=tombstones_kept_ns(config, events),
    )


def _minimum_is_limited(config: RunConfig) -> bool:
    """Whether some broker of the run asks for no more replicas than there are, for all that is known."""
    if config.has(KafkaSection):
        kafka = config.section(KafkaSection)
        return is_since(kafka.upgrade or kafka.version, EFFECTIVE_MINIMUM)
    era = ""
    if config.has(SimulatedSection):
        era = config.section(SimulatedSection).era
    if config.has(ModelSection):
        era = config.section(ModelSection).era
    release = release_of(era)
    return not release or is_since(release, EFFECTIVE_MINIMUM)


def is_true(setting: str) -> bool:
    """Whether a broker's or topic's setting is on, as Kafka reads it (ConfigDef: in any case)."""
    return setting.strip().lower() == "true"


def _number(setting: str, otherwise: int) -> int:
    return int(setting) if setting.strip().isdecimal() else otherwise


def _flushed_ns(of: Flushing) -> int:
    """By number: each record, or none for certain. By time: what the flusher takes at the latest."""
    if of.each:
        return 0
    return 1_000_000 * of.latest_ms + SLACK_NS if of.looks_ms else FOREVER


def tombstones_kept_ns(config: RunConfig, events: Sequence[Event]) -> int:
    """How long compaction keeps the tombstones of the run's topics, NOT_COMPACTED where there is none.
    Brokers measure it by the wall's clock: it may have been shorter by what that was set forward."""
    if not config.compacted or config.has(ImportedSection):
        return NOT_COMPACTED
    brokers = config.broker_settings.get("log.cleaner.delete.retention.ms", "")
    given = config.topic_settings.get("delete.retention.ms", brokers)
    ahead_s = sum(max(0.0, event.wall_s) for event in events if isinstance(event, ClockJumped))
    return max(0, 1_000_000 * _number(given, DAY_MS) - round(1e9 * ahead_s))


RECREATES: Final = "recreate-topics:"
"""How the names of faults begin that delete topics and make them again."""


class Deletion(NamedTuple):
    """Records of a partition below `offset`, sent before `ns`, may have been deleted since `begin`."""

    begin: int
    ns: int
    offset: int


def deletions(tps: Mapping[T, tuple[str, int]], events: Sequence[Event]) -> dict[T, tuple[Deletion, ...]]:
    """What faults asked for, of the partitions that have some; a deleted topic lost everything, not before as
    many faults had begun to delete topics as its number says: each deletes them once at most, a failed one
    perhaps, and none that found no target. What was asked for before topics were remade was asked of older
    ones. tps: key -> topic and partition."""
    faults = [event for event in events if isinstance(event, FaultStarted | FaultFailed)]
    begin = {event.fault: max(0, event.begin_ns) for event in reversed(faults)}
    remaking = [event for event in faults if event.name.startswith(RECREATES) and not _aimless(event)]
    begun = sorted(begin[fault] for fault in {event.fault for event in remaking})
    last = max((begin[e.fault] for e in remaking if isinstance(e, FaultStarted)), default=0)
    asked = [event for event in events if isinstance(event, RecordsDeleted)]
    found = {}
    for tp, (topic, number) in tps.items():
        title, gone, at = topic.partition(GONE_MARK)
        name = f"{title}-{number}"
        mine = [Deletion(begin.get(e.fault, 0), e.ns, e.offsets[name]) for e in asked if name in e.offsets]
        if gone:
            since = begun[int(at) - 1] if int(at) <= len(begun) else 0
            found[tp] = (*mine, Deletion(since, FOREVER, FOREVER))
        else:
            found[tp] = tuple(one for one in mine if one.ns >= last)
    return {tp: its for tp, its in found.items() if its}


def _aimless(event: FaultStarted | FaultFailed) -> bool:
    """It found no target, and changed nothing."""
    return isinstance(event, FaultFailed) and event.why.startswith(NO_TARGET)


def run_windows(tps: Mapping[T, tuple[str, int]], events: Sequence[Event], config: RunConfig) -> RunWindows:
    """The windows of a recorded run. tps: key -> topic and partition. A deleted topic has those of its name:
    no event knows which one it was."""
    seen = _Seen(events)
    logs = {
        tp: (f"{topic.partition(GONE_MARK)[0]}-{n}", log_settings(config, topic, events))
        for tp, (topic, n) in tps.items()
    }
    of_log: dict[Hashable, LogWindows] = {tp: seen.windows(*log) for tp, log in logs.items()}
    named = [*logs.values()]
    for topic in INTERNAL:
        names = {name for one in seen.roles for name in one.leaders if name.rpartition("-")[0] == topic}
        unseen = {f"{topic}-?"} if topic != SHARE_STATE else ()  # most runs have none
        of_log[topic] = together(seen.windows(name, log_settings(config, topic)) for name in names or unseen)
        named += [(name, log_settings(config, topic)) for name in names]
    spans: dict[int, list[Span]] = {}
    for node, span in (each for name, of in named for each in seen.powerless(name, of)):
        spans.setdefault(node, []).append(span)
    powerless = {node: Windows.of(its) for node, its in spans.items()}
    return RunWindows(of_log=of_log, powerless=powerless, remade_ns=_remade_ns(events))


def _remade_ns(events: Sequence[Event]) -> int:
    """See RunWindows. Of a fault that failed on the way, what took it back may have made the topics again."""
    faults = [e for e in events if isinstance(e, FaultStarted | FaultFailed) and e.name.startswith(RECREATES)]
    ends = [e.ns for e in faults if isinstance(e, FaultStarted)]
    failed = any(isinstance(e, FaultFailed) and not _aimless(e) for e in faults)
    return max([FOREVER] * failed + ends, default=-1)


class _Seen:
    """What events say of the nodes of a run."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.roles = sorted((e for e in events if isinstance(e, RolesSeen)), key=lambda e: e.ns)
        self.healed = {e.fault: e.ns for e in events if isinstance(e, FaultHealed)}
        faults = (e for e in events if isinstance(e, FaultStarted) and may_move_leaders(e))
        self.faults = sorted(faults, key=lambda e: (e.begin_ns, e.fault))
        self.ended = [e for e in events if isinstance(e, NodeEnded)]

    def windows(self, name: str, of: LogSettings) -> LogWindows:
        """Those of a partition, by its name."""
        replicas = self._replicas(name)
        leader = Windows.of(self._leaders(name, replicas))
        power = any_power = read_power = PowerLosses()
        if of.flushed_ns:
            one = [*self._losses(name, replicas)]
            lost = [(fault, out) for fault, _, out in one if not self._kept(name, fault, out)]
            any_power = self._power(name, replicas, of, (fault for fault, _, _ in one))
            read_power = self._power(name, replicas, of, (fault for fault, _ in lost))
            taking = (f for f, out in lost if len(out) >= self._least(of, f, replicas))
            power = self._power(name, replicas, of, taking)
        return LogWindows(
            unclean=leader if of.unclean else Windows(),
            power=power,
            any_power=any_power,
            read_power=read_power,
            leader=leader,
            away=Windows.of(self._away(name, replicas, of.tombstones_ns)),
            flushed_ns=of.flushed_ns,
            flushed_records=of.flushed_records,
        )

    def powerless(self, name: str, of: LogSettings) -> Iterator[tuple[int, Span]]:
        """Of each node that lost its power in a power window of a partition: when it did, and when it was in
        sync there again."""
        replicas = self._replicas(name)
        for fault, hit, out in self._losses(name, replicas) if of.flushed_ns else ():
            if len(out) >= self._least(of, fault, replicas):
                yield from ((node, (fault.begin_ns, back)) for node, back in hit.items())

    def _replicas(self, name: str) -> set[int]:
        """The nodes that looks name as its leader or as in sync."""
        named = (node for one in self.roles for node in (*one.isr.get(name, ()), one.leaders.get(name, -1)))
        return {node for node in named if node >= 0}

    def _power(
        self, name: str, replicas: set[int], of: LogSettings, faults: Iterable[FaultStarted]
    ) -> PowerLosses:
        """Its power windows, by the faults that make them."""
        spans = [(fault.begin_ns, fault.ns) for fault in faults]
        young = [span for span in spans if self._young(name, replicas, span[0], of.flushed_ns)]
        return PowerLosses(Windows.of(spans), Windows.of(young))

    def _young(self, name: str, replicas: set[int], begin: int, flushed_ns: int) -> bool:
        """Whether, less than the time of the flusher before, one of its replicas may have started, or come
        into the in-sync replicas: what it had by then was acknowledged before, and not flushed there."""
        since = begin - flushed_ns
        ended = any(one.ns < begin and one.end.node in replicas for one in self.ended)
        of_all = not replicas  # no look names them
        faults = (f for f in self.faults if f.begin_ns < begin and (of_all or _concerns(f, replicas)))
        looks = (
            (a, b)
            for a, b in pairwise(self.roles)
            if a.ns < begin
            and since <= b.ns <= begin + SLACK_NS  # it came shortly before b
            and {*b.isr.get(name, ())} - {*a.isr.get(name, ())}
        )
        healed = (self.healed.get(fault.fault, FOREVER) >= since for fault in faults)
        return ended or any(healed) or any(looks)

    def _leaders(self, name: str, replicas: set[int]) -> Iterator[Span]:
        """When its leader may have changed, or answered although it was replaced."""
        led = [(one.ns, one.leaders.get(name, -1), one.epochs.get(name, -1)) for one in self.roles]
        first = next((ns for ns, leader, _ in led if leader >= 0), FOREVER)
        yield 0, first
        led = [one for one in led if one[0] >= first]
        for (before, old, epoch), (after, new, later) in pairwise(led):
            if old < 0:
                yield before - SLACK_NS, after + SLACK_NS
            elif new != old or 0 <= epoch < later - 1:
                yield max(before, after - SLACK_NS), after + SLACK_NS
        if led and led[-1][1] < 0:
            yield led[-1][0] - SLACK_NS, FOREVER
        for fault in self.faults:
            if _concerns(fault, replicas):
                yield fault.begin_ns, self.healed.get(fault.fault, FOREVER - SLACK_NS) + SLACK_NS
        for ended in self.ended:
            if ended.end.node in replicas:
                yield ended.ns - SLACK_NS, ended.ns + SLACK_NS

    def _away(self, name: str, replicas: set[int], tombstones_ns: int) -> Iterator[Span]:
        """When a replica was out of the in-sync ones for longer than compaction keeps tombstones."""
        if tombstones_ns == NOT_COMPACTED:
            return
        for node in replicas:
            spans = self._out_of_sync(name, node)
            yield from ((begin, end) for begin, end in spans if end - begin > tombstones_ns)

    def _out_of_sync(self, name: str, node: int) -> Iterator[Span]:
        """When a node was out of the in-sync replicas, at the longest, and came back: one that does not leads
        nothing. A look is on record where it shows something new: between two that name the node it was in
        sync."""
        inside, out = -1, -1
        for one in self.roles:
            if node in one.isr.get(name, ()):
                if out >= 0:
                    yield max(inside, out - SLACK_NS), one.ns
                inside, out = one.ns, -1
            elif inside >= 0 and out < 0:
                out = one.ns

    def _least(self, of: LogSettings, fault: FaultStarted, replicas: set[int]) -> int:
        """How many replicas an acknowledged record was on at least when a fault began."""
        fewer = any(
            one.name.startswith(SHRINKS)
            and one.begin_ns <= fault.begin_ns < self.healed.get(one.fault, FOREVER - SLACK_NS) + SLACK_NS
            and _concerns(one, replicas)
            for one in self.faults
        )
        return min(of.min_isr, max(1, of.copies - fewer))

    def _losses(
        self, name: str, replicas: set[int]
    ) -> Iterator[tuple[FaultStarted, dict[int, int], dict[int, int]]]:
        """The faults that took the power of replicas; the nodes that each hit, and all that were out then,
        and when they were in sync again."""
        out: dict[int, int] = {}
        for fault in self.faults:
            if fault.name.partition(":")[0] != POWER:
                continue
            out = {node: back for node, back in out.items() if back > fault.begin_ns}
            nodes = [node for node in fault.nodes if not replicas or node in replicas]
            hit = {node: self._back(name, node, fault) for node in nodes}
            out |= hit
            if hit:
                yield fault, hit, {**out}

    def _kept(self, name: str, fault: FaultStarted, out: Mapping[int, int]) -> bool:
        """Whether a replica that had not lost its power was in sync from before the fault until all that were
        out are back, and none of these led meanwhile: it had what was committed, and no leader took it away.
        """
        since = [one for one in self.roles if one.ns < fault.begin_ns][-1:]
        until = max(out.values())
        looks = [*since, *(one for one in self.roles if fault.begin_ns <= one.ns <= until)]
        if not since or looks[-1].ns <= fault.ns:
            return False
        keepers = set(since[0].isr.get(name, ())) - out.keys()
        for look in looks:
            leader = look.leaders.get(name, -1)
            if leader < 0 or (look.ns > fault.ns and leader in out and leader in look.answering):
                return False
            keepers &= set(look.isr.get(name, ()))
        return bool(keepers)

    def _back(self, name: str, node: int, fault: FaultStarted) -> int:
        """When the node was in the in-sync replicas again, after it was out of them, or none led. It may have
        been out before the fault: events say what has changed."""
        healed = self.healed.get(fault.fault, FOREVER)
        before = [one for one in self.roles if one.ns < fault.begin_ns][-1:]
        meanwhile = [one for one in self.roles if fault.begin_ns <= one.ns <= fault.ns]
        out = any(one.leaders.get(name, -1) >= 0 for one in before) and not any(
            node in one.isr.get(name, ()) for one in (*before, *meanwhile)
        )
        for one in (one for one in self.roles if one.ns > fault.ns):
            if one.leaders.get(name, -1) < 0 or node not in one.isr.get(name, ()):
                out = True
            elif out and one.ns > healed:
                return one.ns
        return FOREVER


def may_move_leaders(fault: FaultStarted) -> bool:
    """Whether a fault may keep brokers from each other, or from work: not, if it is one of clients, of what
    lies between them and brokers, or a request that whole brokers honour."""
    return fault.name.startswith(BETWEEN_BROKERS) or not fault.name.startswith(BESIDE_BROKERS)


def _concerns(fault: FaultStarted, replicas: set[int]) -> bool:
    """Whether a fault is one on some of these nodes, or on no node and no client."""
    return bool(replicas.intersection(fault.nodes)) or not (fault.nodes or fault.slots)
