"""recovery: whether the cluster came back to full service, and whether a node ended on its own; and when each
partition served its producers (docs/checks.md, "Groups, LSO, recovery", "Liveness").

Not here: how fast it came back, fault by fault (`checkers.faults.liveness`).
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, never
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import INFO, NEVER, Finding, PartitionResult, Variant, at
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import SPARSE, distinct
from checkers.windows import BY_POWER, NO_EXCUSE, Excuse
from core.cluster import NodeEnd
from core.config import RunConfig
from core.systems import ExternalSection
from history.columns import Array
from history.events import NodeEnded, Recovered, RolesSeen
from history.reader import History
from history.verdict import NOT_RECOVERED

NODE_DIED = "node-died"
STALLED = "stalled-client"
REFUSED: Final = "log truncation is not allowed"
"""Before 2.1 a follower that has more than its leader says so and exits, whether or not it lost its own power
(KAFKA-7414)."""
TOLD: Final = 4
"""Lines of a node's log that a sentence has."""

BIN_NS: Final = 50_000_000
"""Width of a bin."""
WAIT_NS: Final = 2 * BIN_NS
"""Shorter waits are left out."""


class Start(Variant):
    """Why a node died, where that matters. HINDERED: faults had kept it from registering with the quorum."""

    PLAIN = ""
    HINDERED = "hindered"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNotBack(Finding):
    """The cluster was not back `seconds` after all faults had been healed. why: as far as it is known."""

    seconds: float
    why: str

    def sentence(self, history: History) -> str:
        """How long the harness waited."""
        return (
            f"All faults healed, the cluster had not recovered {self.seconds:.0f} s later"
            f" ({at(history, self.at_ns)}): {self.why or 'no reason on record'}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledClient(ClusterNotBack):
    """A client that stood still, while one like it worked and the cluster was back."""

    slot: int

    def sentence(self, history: History) -> str:
        """Which one, and how long."""
        return (
            f"Client {self.slot} stood still ({at(history, self.at_ns)}): {self.seconds:.0f} s after all"
            f" faults were healed, with every partition served and one like it at work: {self.why}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDied(Finding):
    """A node halted, crashed or exited, and neither the harness nor anything from outside had ended it."""

    end: NodeEnd

    def sentence(self, history: History) -> str:
        """How it ended, and its last errors, or the last lines of its log where it has none."""
        signal = f" (signal {self.end.signal})" if self.end.signal else ""
        errors, last = " / ".join(self.end.errors), " / ".join(self.end.log[-TOLD:])
        lines = f"Its last errors: {errors}" if errors else f"Its log ends: {last}"
        return (
            f"Node {self.end.node} ended on its own, with exit code {self.end.exit_code}{signal}"
            f" ({at(history, self.at_ns)}); no fault had ended it, and nothing from outside."
            + (f" {lines}" if self.end.log else " It left no log.")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTimes:
    """When a partition served its producers. Times in ns.

    acked: bins of `BIN_NS` with an acknowledgement. sent: bins in which records were sent, and when the
    first of each bin's records to be acknowledged was, shape (2, n). waits: shape (2, n), from and to.
    """

    acked: Array
    sent: Array
    waits: Array


def _kernel(p: KernelView, result: PartitionResult) -> None:
    if not p.known.on_record.recovery or not len(p.sends["op"]):
        return
    acks, invoked = p.sends["ack_ns"], p.sends["invoke_ns"]
    answered = acks >= 0
    waiting = answered | (p.sends["outcome"] == INFO)
    acked = _bins(acks[answered])
    gaps = _gaps(acked, acks[answered], invoked[answered])
    result.parts[NAME] = ServedTimes(
        acked=acked,
        sent=_answers(invoked[waiting], np.where(answered, acks, NEVER)[waiting]),
        waits=_waits(gaps, np.sort(invoked[waiting & ~answered])),
    )


def _bins(ns: Array) -> Array:
    """Distinct bins, sorted."""
    return _distinct_bins(ns // BIN_NS)


def _distinct_bins(bins: Array) -> Array:
    if not len(bins):
        return bins
    low, high = int(bins.min()), int(bins.max())
    if high - low > SPARSE * len(bins) + 1024:
        return distinct(bins)
    flags = np.zeros(high - low + 1, bool)
    flags[bins - low] = True
    return np.flatnonzero(flags) + low


def _answers(invoked: Array, acks: Array) -> Array:
    """Bins in which records were sent, and the first acknowledgement of a record of each."""
    bin_of = invoked // BIN_NS
    bins = _distinct_bins(bin_of)
    first = np.full(len(bins), NEVER)
    new = np.flatnonzero(np.append(True, bin_of[1:] != bin_of[:-1])[: len(bin_of)])
    if len(new):  # of neighbours in one bin the first answer, then of each bin
        np.minimum.at(first, np.searchsorted(bins, bin_of[new]), np.minimum.reduceat(acks, new))
    return np.stack((bins, first))


def _gaps(acked: Array, acks: Array, invoked: Array) -> Array:
    """Times without an acknowledgement, of `WAIT_NS` or more, shape (3, n): from, to, and when the first of
    the records was sent that were acknowledged after it. acked: bins of `acks`; invoked: of the acknowledged
    records."""
    if len(acks) and not (np.diff(acked) > 1).any():
        ends = int(acks.min()), int(acks.max())
        return np.array([[-1, ends[1]], [ends[0], NEVER], [int(invoked.min()), NEVER]])
    order = np.argsort(acks, kind="stable")
    times = np.concatenate(([-1], acks[order], [NEVER]))
    oldest = np.minimum.accumulate(np.append(invoked[order], NEVER)[::-1])[::-1]
    long = np.flatnonzero(times[1:] >= times[:-1] + WAIT_NS)  # NEVER + 1 would overflow
    return np.stack((times[:-1][long], times[1:][long], oldest[long]))


def _waits(gaps: Array, unanswered: Array) -> Array:
    """From and to of each time in which a record waited and none was acknowledged. unanswered: when the
    records were sent that were not, sorted."""
    after, end, oldest = gaps
    following = np.append(unanswered, NEVER)[np.searchsorted(unanswered, after, side="left")]
    begin = np.maximum(np.minimum(oldest, following), after)
    kept = (begin < NEVER) & (end - begin >= WAIT_NS)
    return np.stack((begin[kept], end[kept]))


def _join(run: WholeRun, tally: Tally) -> None:
    if not run.known.on_record.recovery:
        return
    ends = Counter[int]()
    for event in run.events:
        if isinstance(event, NodeEnded):
            node, number = event.end.node, ends[event.end.node]
            ends[node] += 1
            if not event.end.outside:
                _judge_end(run, tally, event, (-1, node, number))
    seen = [event for event in run.events if isinstance(event, Recovered)]
    if not seen:
        tally.doubt(NAME, 1, "the run ended before it showed whether the cluster recovers")
    elif not seen[-1].recovered:
        _judge_recovery(run, tally, seen[-1])


def _judge_recovery(run: WholeRun, tally: Tally, last: Recovered) -> None:
    """Of a cluster that was not back."""
    ns, seconds, why = last.ns, last.seconds, last.why
    still = [
        StalledClient(key=(-1, slot), slot=slot, at_ns=ns, seconds=seconds, why=why) for slot in last.stalled
    ]
    tally.add(STALLED, still)
    if down := [] if still else _not_started(run, ns):
        tally.doubt(NAME, 1, f"the cluster had not recovered without node {', '.join(map(str, down))}: {why}")
    elif not still:
        tally.add(NOT_RECOVERED, [ClusterNotBack(key=(-1,), at_ns=ns, seconds=seconds, why=why)])


def _not_started(run: WholeRun, until_ns: int) -> list[int]:
    """The brokers that did not start, for their sessions expired or they could not register, and that
    answered no more: nothing starts them again."""
    down = set[int]()
    looks = [event for event in run.events if isinstance(event, NodeEnded | RolesSeen)]
    # They are written in another order: a look has the time of its beginning.
    for event in sorted(looks, key=lambda one: (one.ns, isinstance(one, NodeEnded))):
        if event.ns > until_ns:
            break
        if isinstance(event, RolesSeen):
            down.difference_update(event.answering)
        elif event.end.session_expired or event.end.unregistered:
            down.add(event.end.node)
    return sorted(down)


def _judge_end(run: WholeRun, tally: Tally, event: NodeEnded, key: tuple[int, ...]) -> None:
    """Of a node that ended on its own."""
    end, windows = event.end, run.known.windows
    lost = windows.lost_power(end.node, event.ns)
    if any(REFUSED in line for line in end.log):
        lost = windows.power_before(event.ns)
    died = NodeDied(key=key, at_ns=event.ns, end=end)
    if lost or not (end.unregistered or end.session_expired):
        tally.add(NODE_DIED, [died], BY_POWER if lost else NO_EXCUSE)
    elif not end.unregistered:
        tally.doubt(NAME, 1, f"{end}: the machine or a fault may have kept it from its session")
    elif run.known.hindrances.explain(end.node, event.ns):
        tally.add(NODE_DIED, [died], variant=Start.HINDERED)
    else:
        tally.doubt(NAME, 1, f"{end}, and no fault explains that: the quorum or the machine was at fault")


def _died(ground: Ground, variant: str) -> Answer:
    """A node ended on its own."""
    if variant == Start.HINDERED:
        return True, "faults kept it from the controllers: a broker that cannot register in time exits"
    if ground.excuse is Excuse.POWER:
        return (
            True,
            "a loss of power took records: a node may refuse what is left on its disk, or its leader's",
        )
    return False, "a node runs until it is stopped"


def _unwatched(config: RunConfig) -> str:
    """The claim of a run that does not see which nodes end; "" = of all others it is that of `CHECK`."""
    if not config.has(ExternalSection) or config.section(ExternalSection).watched:
        return ""
    return f"{_SERVED.capitalize()} Which nodes ended on their own was not watched."


NAME = "recovery"
_SERVED = (
    "after the faults are healed the cluster comes back to full service in time, and no client stands still."
)
CHECK = Check(
    claim=f"No node ends on its own, and {_SERVED}",
    anomalies={
        NODE_DIED: AnomalyClass(
            title="Node ended on its own",
            meaning="A broker or controller halted, crashed or exited, and neither a fault nor anything from"
            " outside had ended it.",
            rule=_died,
        ),
        STALLED: AnomalyClass(
            title="Client stands still",
            meaning="After all faults were healed every partition was served and other clients worked, and"
            " one like them completed nothing, or was given nothing, until the deadline.",
            rule=never("a client of a healed cluster continues"),
        ),
        NOT_RECOVERED: AnomalyClass(
            title="Cluster did not recover",
            meaning="After all faults were healed the cluster did not come back to full service in time.",
            rule=never("a healed cluster recovers"),
        ),
    },
    kernel=_kernel,
    join=_join,
    needs="recovery",
    lesser=_unwatched,
)
