"""The windows of a recorded run, from what is on record: faults, roles, ends of nodes, settings."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from checkers.log_settings import NOT_COMPACTED, LogSettings, log_settings
from checkers.windows import (
    FOREVER,
    INTERNAL,
    SLACK_NS,
    LogWindows,
    PowerLosses,
    RunWindows,
    Span,
    Windows,
    together,
)
from core.config import RunConfig
from core.internal_topics import SHARE_STATE_TOPIC
from core.op import GONE_MARK
from history.events import (
    NO_TARGET,
    Event,
    FaultFailed,
    FaultHealed,
    FaultStarted,
    NodeEnded,
    RecordsDeleted,
    RolesSeen,
)

T = TypeVar("T", bound=Hashable)

POWER: Final = "power"
BESIDE_BROKERS: Final = (
    "links:", "half-open:", "wire:", "partition:clients-", "delete-records:", "add-partitions:",
)  # fmt: skip
"""How the names of faults begin that leave brokers and the links between them alone: no leader moves."""
BETWEEN_BROKERS: Final = (
    "wire:markers", "wire:share-state", "wire:fetch-", "wire:alter-partition", "wire:heartbeat-controller",
)  # fmt: skip
"""Names of faults that begin like one of these, and are between brokers all the same."""
SHRINKS: Final = "reassign:shrink"
"""How the names of faults begin that take a replica from partitions."""
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
        unseen = {f"{topic}-?"} if topic != SHARE_STATE_TOPIC else ()  # most runs have none
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
