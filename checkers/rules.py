"""Where Kafka allows what: rules over the configuration and the faults that were executed.

A rule takes the ground and the variant of a finding (docs/checks.md, section 2) and answers whether it is
allowed there, and why, in a sentence that ends up in the verdict.

Not here: which class has which rule (`checkers.catalogue`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harness.config import RunConfig
from harness.op import Isolation

Answer = tuple[bool, str]
"""Whether it is allowed, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a configuration and the executed faults let Kafka do.

    retries, pipelined: whether a client without idempotence may send a record again, and may have
    several requests under way. unclean: a replica that misses records may become leader.
    power_loss: so many brokers lost power, and what they had not flushed, that all which had an
    acknowledged record may be among them. commit: when copiers commit the offsets of their
    input (`RunConfig.commit`). unstable: consumers at read_uncommitted, whose groups may be told offsets
    from before a transaction that is just ending. subscribe: rebalances may move positions of
    portable histories, which seldom record them.
    """

    retries: bool = True
    pipelined: bool = True
    unclean: bool = False
    power_loss: bool = False
    commit: str = "transaction"
    unstable: bool = False
    subscribe: bool = False


IN_FLIGHT: Final = ("max.in.flight", "max.in.flight.requests.per.connection")


class Fault(Protocol):
    """A fault that was in force: its name as on the command line, and the nodes that it hit."""

    @property
    def name(self) -> str:
        """`family:kind@target`."""

    @property
    def nodes(self) -> Sequence[int]:
        """Who was hit."""


def ground(config: RunConfig, faults: Iterable[Fault]) -> Ground:
    """The ground of a recorded run; `faults`: those that were in force."""
    unclean = "unclean.leader.election.enable"
    return Ground(
        retries=not _setting(config.client_settings, "0", "retries", "message.send.max.retries"),
        pipelined=pipelined(config.client_settings),
        unclean=config.unclean_leader_election
        or any(
            is_true(s.get(unclean, "")) for s in (config.broker_settings, config.topic_settings)
        ),
        commit=config.commit,
        unstable=config.isolation is Isolation.READ_UNCOMMITTED,
        power_loss=len(_powerless(faults)) >= config.min_insync_replicas,
    )


def _powerless(faults: Iterable[Fault]) -> set[int]:
    """Brokers that lost power. What is acknowledged is on `min_insync_replicas` of them: fewer cannot take
    it away, where only replicas lead that have it (KIP-966)."""
    return {node for one in faults if one.name.partition(":")[0] == "power" for node in one.nodes}


def is_true(setting: str) -> bool:
    """Whether a broker's or topic's setting is on, as Kafka reads it (ConfigDef: in any case)."""
    return setting.strip().lower() == "true"


def pipelined(client_settings: Mapping[str, str]) -> bool:
    """Whether producers with these settings may have several requests under way."""
    return not _setting(client_settings, "1", *IN_FLIGHT)


def _setting(settings: Mapping[str, str], value: str, *names: str) -> bool:
    """Whether the producers have one of these settings at this value."""
    return any(settings.get(f"producer.{name}", settings.get(name)) == value for name in names)


def never(why: str) -> Callable[[Ground, str], Answer]:
    """Forbidden everywhere; `why` says what Kafka promises."""
    return lambda *_: (False, why)


def always(why: str) -> Callable[[Ground, str], Answer]:
    """Legal everywhere."""
    return lambda *_: (True, why)


def _truncation(ground: Ground) -> str:
    """What may take acknowledged records off the end of a log, "" = nothing."""
    if ground.unclean:
        return "unclean leader election is on: a replica that misses records may become leader"
    if ground.power_loss:
        return "power losses took unflushed records away on as many brokers as had to have them"
    return ""


def loss(ground: Ground, variant: str) -> Answer:
    """An acknowledged record is not (or no longer) where it was; variant: acks of its producer."""
    if variant == "0":
        return True, "the producer used acks=0: an acknowledgement promises nothing"
    if variant == "1":
        return True, "the producer used acks=1: the leader alone acknowledged, and may be replaced"
    if reason := _truncation(ground):
        return True, reason
    return False, "acks=all and clean elections keep every acknowledged record"


def repeat(ground: Ground, variant: str) -> Answer:
    """A record was written again; variant: whether its producer is idempotent."""
    if variant == "0" and ground.retries:
        return True, "the producer is not idempotent and retries: a lost answer means a second copy"
    if reason := _truncation(ground):
        return True, f"{reason}; what it knew of the producer is gone too"
    if variant == "0":
        return False, "the producer does not retry"
    return False, "an idempotent producer writes each record once"


def reorder(ground: Ground, variant: str) -> Answer:
    """A producer's records changed places; variant: whether it is idempotent, and if not, `abandoned`
    where the earlier record was not acknowledged, `weak` where not by all in-sync replicas."""
    if variant in ("0", "abandoned", "weak") and ground.retries and ground.pipelined:
        return True, "the producer is not idempotent, retries, and has several requests under way"
    if variant == "abandoned":
        return (
            True,
            "the producer is not idempotent: a request that it has given up may still arrive",
        )
    if variant == "weak":
        return True, "acks=0 or 1: where a record was said to stand, another leader may put others"
    if reason := _truncation(ground):
        return True, f"{reason}; what it knew of the producer is gone too"
    if variant == "0":
        return (
            False,
            "the producer never has a retry overtaken (no retries, or one request at a time), and"
            " the earlier record was acknowledged",
        )
    return False, "an idempotent producer keeps its order"


def conflict(ground: Ground, variant: str) -> Answer:
    """An offset held several records; variant: who contradicts whom."""
    if reason := _truncation(ground):
        return True, reason
    if variant in ("ack 0", "ack 1"):
        return True, f"acks={variant[-1]}: what was acknowledged there may have been truncated"
    return False, "below the high watermark a log never changes"


def uncommitted(ground: Ground, variant: str) -> Answer:
    """A record of no committed transaction was read; variant: the level, or `unsent`."""
    if variant == "ru":
        return True, "the reader used read_uncommitted"
    if variant == "unsent":
        return False, "the record was never written, as far as its client was told"
    if reason := _truncation(ground):
        return True, f"{reason}; a marker that is gone ends nothing"
    return False, "read_committed readers see committed transactions only"


def own(ground: Ground, variant: str) -> Answer:
    """A transaction read its own record; variant: the level."""
    if variant == "ru":
        return True, "the reader used read_uncommitted"
    return False, "a read_committed reader sees no open transaction, not even its own"


def moved(ground: Ground, variant: str) -> Answer:
    """A step of a consumer between two ops."""
    if ground.subscribe:
        return True, "consumers subscribe: a rebalance may have moved the position"
    return stepped(ground, variant)


def stepped(ground: Ground, variant: str) -> Answer:
    """A step of a consumer that nothing on record explains."""
    if reason := _truncation(ground):
        return True, reason
    return False, "no rebalance, new assignment, rewind or reset on record explains this step"


def copied_twice(ground: Ground, variant: str) -> Answer:
    """Two committed copies of one input."""
    if ground.commit == "after":
        return True, "offsets are committed by themselves after the copies: at least once"
    if ground.unstable and ground.commit == "transaction":
        return True, "a read_uncommitted member does not wait for offsets that are being committed"
    return truncated(
        ground, "a transaction that copies records also commits their offsets, once"
        if ground.commit == "transaction" else "offsets that are committed first are not given again"
    )  # fmt: skip


def copied_never(ground: Ground, variant: str) -> Answer:
    """An input that a group passed, without a committed copy."""
    if ground.commit == "before":
        return True, "offsets are committed by themselves before the copies are made: at most once"
    return truncated(
        ground, "offsets are committed in the transaction that makes the copies"
        if ground.commit == "transaction" else "offsets are committed only once the copies are there"
    )  # fmt: skip


def passed(ground: Ground, variant: str) -> Answer:
    """A record that a group passed and was never given; variant: `auto`."""
    if variant == "auto":
        return (
            True,
            "a client that commits automatically died with records that it had not handed out",
        )
    return truncated(ground, "a group commits only offsets behind what its members were given")


def truncated(ground: Ground, why: str) -> Answer:
    """Allowed only where a log may lose its end; `why` says what Kafka promises else."""
    reason = _truncation(ground)
    return (True, reason) if reason else (False, why)


def unless_truncated(why: str) -> Callable[[Ground, str], Answer]:
    """`truncated` as a rule."""
    return lambda ground, _: truncated(ground, why)
