"""Which versions of Kafka the brokers of a run had, and when: an upgrade changes one after the other.

A bug of one version explains nothing that happened before any broker had that version, or once all had
another one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from checkers.windows import FOREVER
from history.events import Event, FaultFailed, FaultStarted

UPGRADE: Final = "upgrade"
WHOLE: Final = ("whole", "finalize")
"""Kinds that are in force only once every node has the later version."""
BACK: Final = "back"
MIXED: Final = "mixed"
"""A node has the later version for a while only."""

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """known: the versions of brokers, or the era of modelled ones, in the order of time; none = not on
    record. begun_ns: no broker had the later one before. spans: when all had it, from and until (ns)."""

    known: Sequence[Version]
    begun_ns: int
    spans: Sequence[tuple[int, int]]

    def some_since(self, version: Version, ns: int | None = None) -> bool:
        """Some brokers may have had this version or a later one, at a moment or at any time."""
        first = self.known[:1] if ns is not None and ns < self.begun_ns else self.known
        return any(one >= version for one in first)

    def some_before(self, version: Version, ns: int | None = None) -> bool:
        """Some brokers may have had an earlier version, at a moment or at any time."""
        later = ns is not None and any(since <= ns < until for since, until in self.spans)
        return any(one < version for one in (self.known[1:] if later else self.known))


def broker_versions(config: Mapping[str, Any], events: Sequence[Event]) -> BrokerVersions:
    """Of a run, by its recorded config."""
    kafka = config.get("kafka") or {}
    modelled = config.get("simulated") or config.get("model") or {}
    every = kafka.get("version"), kafka.get("upgrade"), modelled.get("era")
    known = [
        tuple(int(part) for part in one.partition("-")[0].split(".") if part.isdigit())
        for one in filter(None, every)
    ]
    changes = sorted(_changes(events), key=lambda one: one.ns)
    begun = min((one.ns if one.begin_ns < 0 else one.begin_ns for one in changes), default=FOREVER)
    spans = _all_later(changes, {*range(1, int(config.get("brokers", 0)) + 1)})
    return BrokerVersions(known, begun, list(spans) if len(known) > 1 else [])


def _changes(events: Sequence[Event]) -> Iterator[FaultStarted | FaultFailed]:
    for event in events:
        if isinstance(event, FaultStarted | FaultFailed) and event.name.partition(":")[0] == UPGRADE:
            yield event


def _all_later(changes: Sequence[FaultStarted | FaultFailed], brokers: set[int]) -> Iterator[tuple[int, int]]:
    """When all these brokers certainly had the later version. What failed may have changed some of them."""
    later: set[int] = set()
    since: int | None = None
    for one in changes:
        kind = one.name.partition(":")[2].partition("@")[0]
        if kind == BACK:
            if since is not None:
                yield since, one.begin_ns
            later, since = set(), None
        elif isinstance(one, FaultStarted) and kind != MIXED:
            later |= brokers if kind in WHOLE else {*one.nodes}
            if since is None and brokers and brokers <= later:
                since = one.ns
    if since is not None:
        yield since, FOREVER
