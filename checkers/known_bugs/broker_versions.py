"""Which versions of Kafka the brokers of a run had, and when: an upgrade changes one after the other.

A bug of one version explains nothing that happened before any broker had that version, or once all had
another one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from core.presets import NamedSettings
from history.events import NO_TARGET, Event, FaultFailed, FaultHealed, FaultStarted, HealFailed

UPGRADE: Final = "upgrade"
WHOLE: Final = ("whole", "finalize")
"""Kinds that are in force only once every node has the later version."""
FINALIZE: Final = "finalize"
"""It changes no node's version."""
BACK: Final = "back"
"""In force once every node has the first version."""
MIXED: Final = "mixed"
"""A node has the later version for a while only."""
FIRST, LATER = frozenset({0}), frozenset({1})
EITHER: Final = FIRST | LATER

Version = tuple[int, ...]


class _Change(NamedTuple):
    """From a time (ns) on, these brokers have one of these versions, by the place in `known`."""

    ns: int
    brokers: frozenset[int]
    may_have: frozenset[int]


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """known: the versions of brokers, or the era of modelled ones, in the order of time; none = not on
    record. steps: from a time (ns) on, which of them some broker may have had; before, all had the first."""

    known: Sequence[Version]
    steps: Sequence[tuple[int, frozenset[int]]]

    def some_since(self, version: Version, ns: int | None = None) -> bool:
        """Some brokers may have had this version or a later one, at a moment or at any time."""
        return any(one >= version for one in self._at(ns))

    def some_before(self, version: Version, ns: int | None = None) -> bool:
        """Some brokers may have had an earlier version, at a moment or at any time."""
        return any(one < version for one in self._at(ns))

    def some_between(self, which: Callable[[Version], bool], since_ns: int, until_ns: int) -> bool:
        """Some brokers may have had such a version at a moment between two times."""
        return any(which(one) for one in self._at(since_ns, until_ns))

    def _at(self, ns: int | None, until_ns: int | None = None) -> Sequence[Version]:
        if ns is None:
            return self.known
        places = ([which for since, which in self.steps if since <= ns] or [FIRST])[-1]
        for since, which in self.steps:
            places |= which if until_ns is not None and ns < since <= until_ns else frozenset()
        return [one for place, one in enumerate(self.known) if place in places]


def broker_versions(config: NamedSettings, events: Sequence[Event]) -> BrokerVersions:
    """Of a run, by its recorded config."""
    kafka = config.get("kafka") or {}
    modelled = config.get("simulated") or config.get("model") or {}
    every = kafka.get("version"), kafka.get("upgrade"), modelled.get("era")
    known = [
        tuple(int(part) for part in one.partition("-")[0].split(".") if part.isdigit())
        for one in filter(None, every)
    ]
    brokers = frozenset(range(1, int(config.get("brokers", 0)) + 1))
    return BrokerVersions(known, list(_steps(events, brokers)) if len(known) > 1 else [])


def _steps(events: Sequence[Event], brokers: frozenset[int]) -> Iterator[tuple[int, frozenset[int]]]:
    may_have = dict.fromkeys(brokers, FIRST)
    for change in sorted(_changes(events, brokers), key=lambda one: one.ns):
        may_have |= dict.fromkeys(change.brokers & brokers, change.may_have)
        yield change.ns, frozenset[int]().union(*may_have.values()) or EITHER


def _changes(events: Sequence[Event], brokers: frozenset[int]) -> Iterator[_Change]:
    """Of what failed, whom it hit has a fault event with another name; where it has none, it found no target,
    or an earlier version recorded it."""
    parts = {one.fault: one for one in events if isinstance(one, FaultStarted)}
    for one in events:
        if not isinstance(one, FaultStarted | FaultFailed) or one.name.partition(":")[0] != UPGRADE:
            continue
        kind = one.name.partition(":")[2].partition("@")[0]
        if isinstance(one, FaultStarted):
            yield from _made(one, kind, events, brokers)
        elif kind == FINALIZE:
            continue
        elif part := parts.get(one.fault):
            nodes = frozenset(part.nodes)
            yield _Change(part.begin_ns, nodes, EITHER)
            if kind == MIXED:
                yield from _gone_back(part, events)
        elif not one.why.startswith(NO_TARGET):
            yield _Change(one.ns if one.begin_ns < 0 else one.begin_ns, brokers, EITHER)


def _made(
    fault: FaultStarted, kind: str, events: Sequence[Event], brokers: frozenset[int]
) -> Iterator[_Change]:
    nodes = frozenset(fault.nodes)
    if kind != FINALIZE:
        yield _Change(fault.begin_ns, nodes, EITHER)
    if kind == BACK:
        yield _Change(fault.ns, brokers, FIRST)
        return
    yield _Change(fault.ns, brokers if kind in WHOLE else nodes, LATER)
    if kind == MIXED:
        yield from _gone_back(fault, events)


def _gone_back(fault: FaultStarted, events: Sequence[Event]) -> Iterator[_Change]:
    """A node that had the later version for a while. Where healing failed, it may have kept that: what is
    healed with all else at the end does not change its version."""
    nodes = frozenset(fault.nodes)
    of_it = [one for one in events if isinstance(one, FaultHealed | HealFailed) and one.fault == fault.fault]
    if any(isinstance(one, HealFailed) for one in of_it):
        yield _Change(fault.ns, nodes, EITHER)
        return
    for one in of_it:
        if isinstance(one, FaultHealed):
            yield _Change(one.begin_ns, nodes, EITHER)
            yield _Change(one.ns, nodes, FIRST)
