"""When records may have been taken off the logs of a run, and by what (docs/checks.md, section 6, "Windows").

A window is a span of time in which the log of one partition may have lost its end. Kernels ask whether a
window lies between a moment at which a record was there and one at which it was not. Not here: how windows
are made of what is on record (`checkers.run_windows`), and what a window permits (`checkers.allowed`).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np

from core.internal_topics import GROUP_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from history.columns import Array

FOREVER: Final = 2**63 - 1
SLACK_NS: Final = 10_000_000_000
"""How long a leader that was replaced may still answer, and a client hand out what it was given before."""
INTERNAL: Final = (TRANSACTION_TOPIC, GROUP_TOPIC, SHARE_STATE_TOPIC)
OF_GROUPS: Final = (GROUP_TOPIC, TRANSACTION_TOPIC)
"""What may lose a group's offsets: the log that has them, and that of transactions, which may commit them."""
OF_SHARES: Final = (SHARE_STATE_TOPIC, GROUP_TOPIC)
"""What may lose the state of share groups: the log that has it, and that of groups, whose coordinator
initialises a state that it does not know to be there."""


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
        return self[tp].or_away(self.excuses((tp, TRANSACTION_TOPIC), since, until), begun, until)

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
