"""Liveness: how the cluster kept serving its producers, fault by fault (docs/checks.md, "Liveness").

This is not a finding: `not-recovered` judges whether a run comes back, this module measures how fast.

Not here: the times of each partition (`checkers.checks.recovery`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.checks.recovery import BIN_NS, ServedTimes
from checkers.faults.availability import TimeSpan, served_share
from checkers.faults.in_force import RunFaults
from core.op import GONE_MARK, Phase
from history.columns import Array
from history.events import Event, FaultHealed, FaultStarted, PhaseStarted
from history.verdict import STALLS_KEPT, FaultLiveness, Liveness, Stall

STALL_NS: Final = 1_000_000_000
"""Shorter waits are not stalls."""
LAST: Final = float("inf")
"""The number of a topic that was not deleted, among those of its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpan:
    """When clients loaded the cluster, and how long of it faults were injected; ns."""

    begin: int
    faults_end: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Times in which records waited and none was acknowledged, within the load; shape (2, n) each.

    whole: of the whole run. parts: of each partition.
    """

    whole: Array
    parts: Mapping[int, Array]


def liveness(run: RunFaults, progress: Mapping[int, ServedTimes]) -> Liveness:
    """Stalls, what each fault cost, served time. Empty where the load is not on record."""
    events = run.history.events
    load = _load(events)
    if load is None or not progress:
        return Liveness()
    acked = np.unique(np.concatenate([each.acked for each in progress.values()])) * BIN_NS
    parts = {
        tp: _clipped(each.waits, load.begin, _over(run, progress, tp, load)) for tp, each in progress.items()
    }
    waits = Waits(whole=_together(parts, acked, load), parts=parts)
    in_force = _in_force(events, load)
    served = {fault: _share(acked, [span]) for fault, span in in_force.items()}
    stalls = _stalls(run, waits)
    return Liveness(
        faults=_faults(run, progress, waits, load, served),
        stalls=stalls[:STALLS_KEPT],
        stall_count=len(stalls),
        available=_share(acked, [(load.begin, load.faults_end)]),
        under_faults=_share(acked, in_force.values()),
    )


def _over(run: RunFaults, progress: Mapping[int, ServedTimes], tp: int, load: LoadSpan) -> int:
    """When no record waits in a partition any more: its topic had been deleted, and clients worked on a later
    one of its name; else with the load."""
    title, order = _incarnation(run, tp)
    if order == LAST:
        return load.end
    begun = (
        int(each.sent[0].min()) * BIN_NS
        for other, each in progress.items()
        if each.sent.size and (later := _incarnation(run, other))[0] == title and later[1] > order
    )
    return min(begun, default=load.end)


def _incarnation(run: RunFaults, tp: int) -> tuple[str, float]:
    """The name of a partition's topic, and its number among those of this name, in the order of time."""
    title, gone, number = run.history.tp(tp).rpartition("-")[0].partition(GONE_MARK)
    return title, int(number) if gone else LAST


def _load(events: Sequence[Event]) -> LoadSpan | None:
    """The load of a run; None where its faults never began."""
    began = {e.phase: e.ns for e in reversed(events) if isinstance(e, PhaseStarted)}
    begin = began.get(Phase.FAULTS)
    if begin is None:
        return None
    last = max(event.ns for event in events)
    end = min((ns for phase, ns in began.items() if phase >= Phase.QUIESCE), default=last)
    over = min((ns for phase, ns in began.items() if phase > Phase.FAULTS), default=last)
    return LoadSpan(begin=begin, faults_end=over, end=end)


def _clipped(spans: Array, begin: int, end: int) -> Array:
    """The parts of intervals that lie within another."""
    cut = np.stack((np.maximum(spans[0], begin), np.minimum(spans[1], end)))
    return cut[:, cut[0] < cut[1]]


def _together(parts: Mapping[int, Array], acked: Array, load: LoadSpan) -> Array:
    """Waits of the whole run: no partition acknowledges anything, and a record waits somewhere.

    acked: when a bin with an acknowledgement begins, of the whole run."""
    waits = np.concatenate(list(parts.values()), axis=1)
    acked = acked[(acked + BIN_NS > load.begin) & (acked < load.end)]
    quiet = np.stack((np.append(load.begin, acked + BIN_NS), np.append(acked, load.end)))
    quiet = quiet[:, quiet[1] - quiet[0] >= BIN_NS]
    found = []
    for begin, end in quiet.T.tolist():
        mine = (waits[0] < end) & (waits[1] > begin)
        if mine.any():
            found.append((max(begin, int(waits[0][mine].min())), end))
    return np.array(found, np.int64).reshape(-1, 2).T


def _stalls(run: RunFaults, waits: Waits) -> list[Stall]:
    """Longest first."""
    named = [("", waits.whole), *((run.history.tp(tp), found) for tp, found in waits.parts.items())]
    spans = [
        (end - begin, name, begin, end)
        for name, found in named
        for begin, end in found.T.tolist()
        if end - begin >= STALL_NS
    ]
    return [
        Stall(
            partition=name, begin_s=run.seconds(begin), end_s=run.seconds(end), faults=run.during(begin, end)
        )
        for _, name, begin, end in sorted(spans, key=lambda s: (-s[0], s[1], s[2]))
    ]


def _in_force(events: Sequence[Event], load: LoadSpan) -> dict[int, TimeSpan]:
    """When each fault was in force within the load, from the beginning of injecting to the end of healing."""
    healed = {event.fault: event.ns for event in events if isinstance(event, FaultHealed)}
    return {
        event.fault: (max(event.begin_ns, load.begin), min(healed.get(event.fault, load.end), load.end))
        for event in events
        if isinstance(event, FaultStarted)
    }


def _share(acked: Array, spans: Iterable[TimeSpan]) -> float | None:
    share = served_share(acked, spans)
    return None if share is None else round(share, 4)


def _faults(
    run: RunFaults,
    progress: Mapping[int, ServedTimes],
    waits: Waits,
    load: LoadSpan,
    served: Mapping[int, float | None],
) -> list[FaultLiveness]:
    events = run.history.events
    started = [event for event in events if isinstance(event, FaultStarted)]
    healed = {event.fault: event.ns for event in events if isinstance(event, FaultHealed)}
    found = []
    for fault in started:
        ns = healed.get(fault.fault)
        recovered, back, until = None, None, load.end
        if ns is not None:
            back, _ = _recovered(progress, waits, ns, load.end)
            later = [e.begin_ns for e in started if ns < e.begin_ns < load.end]
            recovered, until = _recovered(progress, waits, ns, min([*later, load.end]))
        stalled, longest, partition = _longest(waits.whole, fault.begin_ns, until), 0, ""
        for tp, spans in sorted(waits.parts.items()):
            lasted = _longest(spans, fault.begin_ns, until)
            if lasted > longest:
                longest, partition = lasted, run.history.tp(tp)
        found.append(
            FaultLiveness(
                fault=fault.fault,
                stalled_s=_seconds(stalled),
                partition=partition,
                partition_stalled_s=_seconds(longest),
                recovered_s=None if recovered is None else _seconds(recovered),
                back_s=None if back is None else _seconds(back),
                served=served[fault.fault],
            )
        )
    return found


def _recovered(
    progress: Mapping[int, ServedTimes], waits: Waits, healed: int, limit: int
) -> tuple[int | None, int]:
    """How long after healing every partition that was in use then had acknowledged a record sent after
    it, None = not before `limit`; and when that was (else `limit`)."""
    last = -1
    for tp, each in progress.items():
        bins, first = each.sent
        later = (bins * BIN_NS >= healed) & (bins * BIN_NS < limit)
        begin, end = waits.parts[tp]
        used = bool(((begin <= healed) & (end > healed)).any())
        if later.any() and (used or int(bins[later][0]) * BIN_NS < healed + STALL_NS):
            last = max(last, int(first[later].min()))
    if not healed <= last < limit:
        return None, limit
    return last - healed, last


def _longest(spans: Array, begin: int, end: int) -> int:
    cut = _clipped(spans, begin, end)
    return int((cut[1] - cut[0]).max(initial=0))


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 3)
