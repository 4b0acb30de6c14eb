"""Whether faults explain that a broker could not register with the controller quorum (docs/checks.md,
"node-died").

A broker that has not registered within `initial.broker.registration.timeout.ms` of its start says so and
exits. Not here: windows of logs (`checkers.windows`), which ask what faults took, not what they kept away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from checkers.run_windows import may_move_leaders
from checkers.windows import FOREVER, Span, Windows
from core.config import RunConfig
from core.flushing import number
from core.systems import ExternalSection
from history.events import Event, FaultHealed, FaultStarted

TIMEOUT: Final = "initial.broker.registration.timeout.ms"
TIMEOUT_MS: Final = 60_000
"""Kafka's default."""
CALM_NS: Final = 30_000_000_000
"""In such a time without a fault a quorum elects, and a broker finds its leader and registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrances:
    """What kept brokers from registering. timeout_ns: how long each tries. of_all: when faults left no
    majority of the voters unhit; of_node: when they hit a node, too."""

    timeout_ns: int = TIMEOUT_MS * 1_000_000
    of_all: Windows = field(default_factory=Windows)
    of_node: Mapping[int, Windows] = field(default_factory=dict)

    def explain(self, node: int, ended_ns: int) -> bool:
        """Whether a broker that had ended by then, for it could not register, never had the time to."""
        since, calm = ended_ns - self.timeout_ns, min(CALM_NS, self.timeout_ns)
        spans = [span for span in self.of_node.get(node, self.of_all) if span[1] >= since]
        spans = [span for span in spans if span[0] <= ended_ns]
        edges = [(since, since), *spans, (ended_ns, ended_ns)]
        return all(begin - end < calm for (_, end), (begin, _) in pairwise(edges))


def hindrances(events: Sequence[Event], config: RunConfig) -> Hindrances:
    """Those of a recorded run."""
    healed = {event.fault: event.ns for event in events if isinstance(event, FaultHealed)}
    faults = [
        (event.begin_ns, healed.get(event.fault, FOREVER), event)
        for event in events
        if isinstance(event, FaultStarted)
        and (event.nodes or not event.slots)
        and may_move_leaders(event)
        and event.begin_ns < healed.get(event.fault, FOREVER)
    ]
    of_all = [*_without_quorum(faults, _voters(config))]
    nodes = {node for _, _, fault in faults for node in fault.nodes}
    own = {node: [(begin, end) for begin, end, fault in faults if node in fault.nodes] for node in nodes}
    return Hindrances(
        timeout_ns=1_000_000 * number(config.broker_settings, TIMEOUT, TIMEOUT_MS),
        of_all=Windows.of(of_all),
        of_node={node: Windows.of((*spans, *of_all)) for node, spans in own.items()},
    )


def _without_quorum(
    faults: Sequence[tuple[int, int, FaultStarted]], voters: frozenset[int]
) -> Iterator[Span]:
    """When the voters that no fault hit had no majority. A fault on no node may have hit each; where the
    voters are not known, so may any."""
    moments = sorted({moment for begin, end, _ in faults for moment in (begin, end)})
    for begin, end in pairwise(moments):
        acting = [fault for since, until, fault in faults if since <= begin and end <= until]
        hit = {node for fault in acting for node in fault.nodes}
        anyone = any(not fault.nodes for fault in acting)
        if acting and (anyone or 2 * len(voters - hit) <= len(voters)):
            yield begin, end


def _voters(config: RunConfig) -> frozenset[int]:
    """The nodes that vote in the metadata quorum; none where that is not known."""
    if not config.has(ExternalSection):
        first = config.brokers if config.controllers else 0
        return frozenset(range(first + 1, config.brokers + config.controllers + 1))
    isolated = config.section(ExternalSection).nodes[config.brokers :]
    return frozenset(isolated)
