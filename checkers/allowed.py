"""Where Kafka allows what: the ground of a run, and the rules that several checks share.

A rule takes the ground and the variant of a finding (docs/checks.md, section 2) and answers whether it is
allowed there, and why, in a sentence that ends up in the verdict. Rules of one check stand in its module.
What may have taken records off which log, and when, is decided where the finding is made
(`checkers.windows`); the finding bears it as its excuse.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from checkers.windows import Excuse
from core.config import RunConfig
from core.offset_fencing import offsets_fenced
from core.op import Isolation

RESET: Final = "auto.offset.reset"
EARLIEST: Final = ("earliest", "beginning", "smallest")
"""A client's setting, and its values (librdkafka's) that lead to the beginning of the log."""

Answer = tuple[bool, str]
"""Whether it is allowed, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a configuration lets Kafka do, and what may have happened to the log of one finding.

    excuse: of the finding; rules without one leave it empty. commit: when copiers commit the offsets of their
    input (`RunConfig.commit`). sink: how rows of a database are kept from being there twice
    (`RunConfig.sink`), "" = the copies are records. filters: an application that may make nothing of a
    record. unstable: consumers at read_uncommitted, whose groups may get offsets from before a transaction
    that is just ending. unfenced: copiers with a transactional id each, on brokers that take offsets in a
    transaction from any member. begins_late: a consumer without a committed offset does not begin at the
    first record (`auto.offset.reset`). subscribe: rebalances may move positions of portable histories, which
    seldom record them. rebalances: those of members of groups are on record.
    """

    excuse: Excuse = Excuse.NONE
    commit: str = "transaction"
    sink: str = ""
    filters: bool = False
    unstable: bool = False
    unfenced: bool = False
    begins_late: bool = False
    subscribe: bool = False
    rebalances: bool = True


Rule = Callable[[Ground, str], Answer]
"""(ground, variant of the finding) -> whether it is allowed there, and why."""


def begins_late(settings: Mapping[str, str]) -> bool:
    """Whether consumers with these settings begin elsewhere than at the first record of a log, where their
    group has committed nothing."""
    return any(name.endswith(RESET) and where not in EARLIEST for name, where in settings.items())


def ground(config: RunConfig) -> Ground:
    """The ground of a recorded run, before anything is said of a finding."""
    return Ground(
        commit=config.commit,
        sink=config.sink if config.workload == "sink" else "",
        filters=config.app is not None and config.app.may_omit,
        unstable=config.isolation is Isolation.READ_UNCOMMITTED,
        unfenced=config.app is None and not offsets_fenced(config),
        begins_late=begins_late(config.client_settings),
    )


TRUNCATIONS: Final[Mapping[Excuse, str]] = {
    Excuse.UNCLEAN: "unclean.leader.election.enable=true: a replica that misses records may have led",
    Excuse.POWER: "power losses took unflushed records away on as many brokers as had to have them",
}
"""What may take off the end of a log what every in-sync replica had."""


def truncation(ground: Ground) -> str:
    """What may have taken acknowledged records off the end of the log; "" = nothing."""
    return TRUNCATIONS.get(ground.excuse, "")


def not_fetched(ground: Ground, what: str) -> str:
    """Why a replica may never have had what the cleaner removes in the end; "" = each had it."""
    if ground.excuse is not Excuse.AWAY:
        return ""
    return (
        "a replica was out of the in-sync replicas for longer than delete.retention.ms: it may never have had"
        f" {what}"
    )


def truncated(ground: Ground, why: str) -> Answer:
    """Allowed only where a log may have lost its end; `why` says what Kafka promises otherwise."""
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
