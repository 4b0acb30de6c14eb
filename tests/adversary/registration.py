"""Brokers that gave up while they started, and exit (docs/checks.md, "node-died"): they could not register
with the controller quorum in time, or their session with ZooKeeper expired.

Chance gives a run some by a draw of its own, and so changes nothing else of the run.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from core.cluster import NodeEnd
from core.config import RunConfig
from history.events import Event, FaultHealed, FaultStarted, NodeEnded, RolesSeen
from tests.adversary.excuses import spares_brokers

SHARE: Final = 0.1
LIMIT: Final = "initial.broker.registration.timeout.ms"
SAYS: Final = "unable to register with the controller quorum"
SESSIONS: Final = 0.5
"""How many of the brokers that give up do so for their sessions."""
FAILS: Final = "ERROR Fatal error during KafkaServer startup. Prepare to shutdown"
EXPIRED: Final = "org.apache.zookeeper.KeeperException$SessionExpiredException"
OTHERWISE: Final = "java.lang.IllegalStateException"
TRACE: Final = "\tat kafka.Kafka.main(Kafka.scala)"
EVER: Final = 2**63 - 1


def gives_up(seed: int, config: RunConfig, events: list[Event], until: int) -> RunConfig:
    """One broker gives up, in some runs; its event, and the settings of the run."""
    rng = Random(f"adversary/{seed}/registration")
    if rng.random() >= SHARE:
        return config
    faults = [event for event in events if isinstance(event, FaultStarted)]
    fault = rng.choice(faults) if faults else None
    node = rng.choice(fault.nodes) if fault and fault.nodes and rng.random() < 0.7 else rng.randint(1, 3)
    died = NodeEnd(node=node, exit_code=1, log=_last_lines(Random(f"adversary/{seed}/session")))
    at = min(until, (fault.begin_ns if fault else until) + rng.choice((-50, 1, 50, 2000)) * 10**6)
    events.append(NodeEnded(ns=at, end=died))
    given = {LIMIT: rng.choice(("100", "2000", "40000"))} if rng.random() < 0.8 else {}
    return config.model_copy(update={"broker_settings": config.broker_settings | given})


def _last_lines(rng: Random) -> tuple[str, ...]:
    if rng.random() >= SESSIONS:
        return (f"ERROR we were {SAYS}.",)
    said = f"{EXPIRED}: KeeperErrorCode = Session expired" if rng.random() < 0.5 else EXPIRED
    logs = [
        (FAILS, said, TRACE),
        (FAILS, "INFO another", said),
        (FAILS, OTHERWISE, said),
        (said, FAILS, TRACE),
    ]
    return rng.choices(logs, (4, 2, 1, 1))[0]


def not_started(end: NodeEnd) -> bool:
    """A broker says that its session expired while it started."""
    behind = list(end.log)
    while behind and FAILS[6:] not in behind[0]:
        del behind[0]
    first = [line.split(":")[0] for line in behind if line.split(":")[0] in (EXPIRED, OTHERWISE)]
    return first[:1] == [EXPIRED]


def without(events: Sequence[Event], ns: int) -> set[int]:
    """The brokers that the cluster was without, since nothing started them again by then."""
    looks = [e for e in events if isinstance(e, RolesSeen) and e.ns <= ns]
    return {
        died.end.node
        for died in events
        if isinstance(died, NodeEnded)
        if (not_started(died.end) or given_up(died.end)) and died.ns <= ns
        if not any(died.end.node in e.answering for e in looks if e.ns > died.ns)
    }


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
