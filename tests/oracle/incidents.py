"""What happened in a run without being planned (docs/checks.md, section 3), in plain Python.

Part of the slow oracle (`tests.oracle.anomalies`): nodes that ended on their own, and which checks the events
of a run keep from deciding.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from core.cluster import NodeEnd
from core.op import Phase
from history.events import (
    BoundsListed,
    ClockJumped,
    EndsUnseen,
    Event,
    FaultHealed,
    FaultStarted,
    HealFailed,
    Interrupted,
    NodeEnded,
    Note,
    PhaseStarted,
    Recovered,
    WorkerLost,
)
from tests.oracle.windows import of_brokers, power_took
from tests.oracle.words import History, Key

HUP, INT, KILL, TERM = 1, 2, 9, 15
EVERY = "all"
"""Stands for all checks."""

Roles = Mapping[tuple[bool, bool, str], Collection[int]]
"""(produces, in transactions, group) -> the slots that have this role."""


def from_outside(end: NodeEnd) -> bool:
    """Something else than the node ended it, or the system under test is not what ran there."""
    return end.oom_killed or end.disk_full or end.own_program or end.signal in (HUP, INT, KILL, TERM)


def _blamed(history: History, died: NodeEnded) -> bool:
    """A broker that could not register, and no fault explains that, leaves recovery open; so does one that
    was not started."""
    if unregistered(died.end):
        return power_took(history, died) or hindered(history, died)
    return not not_started(died.end) or power_took(history, died)


def node_died(history: History) -> Iterator[Key]:
    """Nodes that ended on their own."""
    before: list[int] = []
    for event in history.events:
        if isinstance(event, NodeEnded):
            if not from_outside(event.end) and _blamed(history, event):
                yield "node-died", -1, event.end.node, before.count(event.end.node)
            before.append(event.end.node)


def unregistered(end: NodeEnd) -> bool:
    """The broker says that it gave up registering."""
    return "unable to register with the controller quorum" in "\n".join(end.log)


def not_started(end: NodeEnd) -> bool:
    """The broker says that it failed while it started, and next that its session had expired."""
    _, said, behind = "\n".join(end.log).partition("Fatal error during KafkaServer startup")
    names = re.findall(r"^([^ :\n]*(?:Exception|Error))(?::|$)", behind, re.MULTILINE)
    return bool(said) and names[:1] == ["org.apache.zookeeper.KeeperException$SessionExpiredException"]


def hindered(history: History, died: NodeEnded) -> bool:
    """Whether faults explain that a broker had not registered when its time was up."""
    config = history.config
    limit = int(config.broker_settings.get("initial.broker.registration.timeout.ms", "60000")) * 1_000_000
    everyone = range(1, config.brokers + config.controllers + 1)
    voters = {node for node in everyone if not config.controllers or node > config.brokers}
    healed = {e.fault: e.ns for e in history.events if isinstance(e, FaultHealed)}
    faults = [
        (e.begin_ns, healed.get(e.fault, 2**63 - 1), set(e.nodes or everyone))
        for e in history.events
        if isinstance(e, FaultStarted) and not (e.slots and not e.nodes) and of_brokers(e)
    ]

    def free(at: float) -> bool:
        hit = set[int]().union(*(nodes for begin, end, nodes in faults if begin <= at <= end))
        return died.end.node not in hit and len(voters - hit) > len(voters) / 2

    moments = {died.ns - limit, died.ns, *(begin for begin, _, _ in faults), *(end for _, end, _ in faults)}
    calm = 0.0
    within = sorted(moment for moment in moments if died.ns - limit <= moment <= died.ns)
    for begin, end in pairwise(within):
        calm = calm + end - begin if free((begin + end) / 2) else 0.0
        if calm >= min(limit, 30 * 10**9):
            return False
    return True


def stalled_client(history: History) -> Iterator[Key]:
    """Clients that stood still while the cluster served others."""
    for event in [event for event in history.events if isinstance(event, Recovered)][-1:]:
        for slot in () if event.recovered else event.stalled:
            yield "stalled-client", -1, slot


def whole(events: Sequence[Event]) -> bool:
    """Nothing says that the recording is not."""
    return not any(
        isinstance(event, Interrupted)
        or (isinstance(event, HealFailed) and event.fault == -1)
        or (isinstance(event, Note) and event.incomplete)
        for event in events
    )


def unknown(events: Sequence[Event], roles: Roles) -> set[str]:
    """The checks that the events keep from deciding; `EVERY` = all of them."""
    found = set() if whole(events) else {EVERY}
    for event in events:
        if isinstance(event, NodeEnded) and from_outside(event.end):
            killed = event.end.oom_killed or event.end.signal in (HUP, INT, KILL, TERM)
            found |= {EVERY} if event.end.own_program and not killed else {"recovery"}
        if isinstance(event, WorkerLost) and event.status in (69, 78):  # a program of the user's
            found.add("recovery")
        if isinstance(event, EndsUnseen):
            found.add("recovery")
        if isinstance(event, ClockJumped):
            found |= {"recovery", "stability"}
        if isinstance(event, BoundsListed) and event.moving:
            found.add("stability")
    for role, slots in roles.items():
        found |= _deserted(events, role, slots)
    return found


def _deserted(events: Sequence[Event], role: tuple[bool, bool, str], slots: Collection[int]) -> set[str]:
    lost = {event.slot: event.ns for event in events if isinstance(event, WorkerLost)}
    begun = {event.phase: event.ns for event in events if isinstance(event, PhaseStarted)}
    over = [ns for phase, ns in begun.items() if phase >= Phase.QUIESCE]
    if not all(slot in lost for slot in slots) or not over or not {Phase.FAULTS, Phase.HEAL} <= begun.keys():
        return set()
    since = max(lost[slot] for slot in slots)
    if since >= min(over):
        return set()
    begin, end = begun[Phase.FAULTS], begun[Phase.HEAL]
    if 5 * (end - max(begin, since)) <= end - begin:
        return {"recovery"}
    produces, _, group = role
    if produces:
        return {EVERY}
    if group:
        return {"recovery", "poll-order", "group-offsets", "exactly-once", "group-delivery"}
    return {"recovery", "poll-order"}
