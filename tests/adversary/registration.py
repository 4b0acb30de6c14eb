"""Brokers that could not register with the controller quorum in time, and exit (docs/checks.md, "node-died").

Chance gives a run some by a draw of its own, and so changes nothing else of the run.
"""

from random import Random
from typing import Final

from core.cluster import NodeEnd
from core.config import RunConfig
from history.events import Event, FaultHealed, FaultStarted, NodeEnded
from tests.adversary.excuses import spares_brokers

SHARE: Final = 0.1
LIMIT: Final = "initial.broker.registration.timeout.ms"
SAYS: Final = "unable to register with the controller quorum"
EVER: Final = 2**63 - 1


def gives_up(seed: int, config: RunConfig, events: list[Event], until: int) -> RunConfig:
    """One broker gives up, in some runs; its event, and the settings of the run."""
    rng = Random(f"adversary/{seed}/registration")
    if rng.random() >= SHARE:
        return config
    faults = [event for event in events if isinstance(event, FaultStarted)]
    fault = rng.choice(faults) if faults else None
    node = rng.choice(fault.nodes) if fault and fault.nodes and rng.random() < 0.7 else rng.randint(1, 3)
    died = NodeEnd(node=node, exit_code=1, log=(f"ERROR we were {SAYS}.",))
    at = min(until, (fault.begin_ns if fault else until) + rng.choice((-50, 1, 50, 2000)) * 10**6)
    events.append(NodeEnded(ns=at, end=died))
    given = {LIMIT: rng.choice(("100", "2000", "40000"))} if rng.random() < 0.8 else {}
    return config.model_copy(update={"broker_settings": config.broker_settings | given})


def given_up(end: NodeEnd) -> bool:
    """A broker says that it could not register."""
    return any(SAYS in line for line in end.log)


def hindered(config: RunConfig, events: list[Event], died: NodeEnded) -> bool:
    """Faults on the node, or on half of the voters, left it no 30 s, nor all of its time."""
    limit = int(config.broker_settings.get(LIMIT, 60_000)) * 10**6
    healed = {event.fault: event.ns for event in events if isinstance(event, FaultHealed)}
    faults = [
        (event.begin_ns, healed.get(event.fault, EVER), event.nodes or (1, 2, 3))
        for event in events
        if isinstance(event, FaultStarted) and (event.nodes or not event.slots)
        if not spares_brokers(event.name)
    ]
    begun = died.ns - limit
    for since in {begun, *(end for _, end, _ in faults if begun <= end < died.ns)}:
        until = since + min(limit, 30 * 10**9)
        if until <= died.ns and not any(
            _out(faults, moment, died.end.node)
            for moment in {since, *(begin for begin, _, _ in faults if since < begin < until)}
        ):
            return False
    return True


def _out(faults: list[tuple[int, int, tuple[int, ...]]], moment: int, node: int) -> bool:
    hit = {one for begin, end, nodes in faults for one in nodes if begin <= moment < end}
    return node in hit or len(hit & {1, 2, 3}) >= 2
