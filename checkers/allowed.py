"""Where Kafka allows what: the ground of a run, and the rules that several checks share.

A rule takes the ground and the variant of a finding (docs/checks.md, section 2) and answers whether it is
allowed there, and why, in a sentence that ends up in the verdict. Rules of one check stand in its module.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core.client_settings import ProducerConfig
from core.config import RunConfig
from core.op import Isolation
from history.events import FaultStarted
from history.reader import Process
from history.verdict import Fault

Answer = tuple[bool, str]
"""Whether it is allowed, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a configuration and the executed faults let Kafka do.

    retries, pipelined: whether a client without idempotence may send a record again, and may have
    several requests under way. unclean: a replica that misses records may become leader.
    power_loss: brokers lost power, and what they had not flushed; they may include every broker that
    had an acknowledged record. commit: when copiers commit the offsets of their
    input (`RunConfig.commit`). unstable: consumers at read_uncommitted, whose groups may receive offsets
    from before a transaction that is just ending. subscribe: rebalances may move positions of
    portable histories, which seldom record them. rebalances: those of members of groups are on record.
    """

    retries: bool = True
    pipelined: bool = True
    unclean: bool = False
    power_loss: bool = False
    commit: str = "transaction"
    unstable: bool = False
    subscribe: bool = False
    rebalances: bool = True


Rule = Callable[[Ground, str], Answer]
"""(ground, variant of the finding) -> whether it is allowed there, and why."""


FaultInForce = Fault | FaultStarted
"""A fault that was in force, as a verdict or the events of a run have it."""
Producing = Process | ProducerConfig
"""What a producer worked with, as tables or journals have it."""


def ground(config: RunConfig, faults: Iterable[FaultInForce], producers: Iterable[Producing]) -> Ground:
    """The ground of a recorded run. faults: those that were in force. producers: as recorded; where no
    plain one is among them, nothing limits what a plain one may do."""
    unclean = "unclean.leader.election.enable"
    plain = [one for one in producers if one.acks >= -1 and not one.idempotent]
    return Ground(
        retries=not plain or any(one.retries != 0 for one in plain),
        pipelined=not plain or any(one.in_flight != 1 for one in plain),
        unclean=config.unclean_leader_election
        or any(is_true(s.get(unclean, "")) for s in (config.broker_settings, config.topic_settings)),
        commit=config.commit,
        unstable=config.isolation is Isolation.READ_UNCOMMITTED,
        power_loss=len(_powerless(faults)) >= config.min_insync_replicas,
    )


def _powerless(faults: Iterable[FaultInForce]) -> set[int]:
    """Brokers that lost power. What is acknowledged is on `min_insync_replicas` of them: fewer cannot take
    it away, where only replicas lead that have it (KIP-966)."""
    return {node for one in faults if one.name.partition(":")[0] == "power" for node in one.nodes}


def is_true(setting: str) -> bool:
    """Whether a broker's or topic's setting is on, as Kafka reads it (ConfigDef: in any case)."""
    return setting.strip().lower() == "true"


def truncation(ground: Ground) -> str:
    """What may take acknowledged records off the end of a log; "" = nothing."""
    if ground.unclean:
        return "unclean leader election is on: a replica that misses records may become leader"
    if ground.power_loss:
        return "power losses took unflushed records away on as many brokers as had to have them"
    return ""


def truncated(ground: Ground, why: str) -> Answer:
    """Allowed only where a log may lose its end; `why` says what Kafka promises otherwise."""
    reason = truncation(ground)
    return (True, reason) if reason else (False, why)


def unless_truncated(why: str) -> Rule:
    """`truncated` as a rule."""
    return lambda ground, _: truncated(ground, why)


def never(why: str) -> Rule:
    """Forbidden everywhere; `why` says what Kafka promises."""
    return lambda *_: (False, why)


def always(why: str) -> Rule:
    """Legal everywhere: the class is informational."""
    return lambda *_: (True, why)
