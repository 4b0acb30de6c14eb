"""The anomaly classes, in words, with the rule that says where Kafka allows each; and the checks.

Finding is universal; allowing depends on the configuration and on the faults that were executed.
`allowed` never looks at how many findings there are, and a known bug never makes one allowed.

Not here: how findings are made (docs/checks.md), labels of known bugs (`checkers.known_bugs`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkers.kernel_types import Finding
from harness.config import RunConfig

Answer = tuple[bool, str]
"""Whether it is allowed, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a configuration and the executed faults let Kafka do.

    retries, pipelined: whether a client without idempotence may send a record again, and may have
    several requests under way. unclean: a replica that misses records may become leader.
    power_loss: a fault took unflushed data away. subscribe: rebalances may move positions of
    portable histories, which seldom record them.
    """

    retries: bool = True
    pipelined: bool = True
    unclean: bool = False
    power_loss: bool = False
    subscribe: bool = False


IN_FLIGHT: Final = ("max.in.flight", "max.in.flight.requests.per.connection")


def ground(config: RunConfig, faults: Sequence[str]) -> Ground:
    """The ground of a recorded run; `faults`: names of the faults that were in force."""
    unclean = "unclean.leader.election.enable"
    return Ground(
        retries=not _setting(config, "0", "retries", "message.send.max.retries"),
        pipelined=not _setting(config, "1", *IN_FLIGHT),
        unclean=config.unclean_leader_election
        or "true" in (config.broker_settings.get(unclean), config.topic_settings.get(unclean)),
        power_loss=any(name.partition(":")[0].startswith("power") for name in faults),
    )


def _setting(config: RunConfig, value: str, *names: str) -> bool:
    """Whether the producers have one of these settings at this value."""
    settings = config.client_settings
    return any(settings.get(f"producer.{name}", settings.get(name)) == value for name in names)


def _never(why: str) -> Callable[[Ground, str], Answer]:
    return lambda ground, variant: (False, why)


def _always(why: str) -> Callable[[Ground, str], Answer]:
    return lambda ground, variant: (True, why)


def _truncation(ground: Ground) -> str:
    """What may take acknowledged records off the end of a log, "" = nothing."""
    if ground.unclean:
        return "unclean leader election is on: a replica that misses records may become leader"
    return "a power loss took unflushed records away" if ground.power_loss else ""


def _loss(ground: Ground, variant: str) -> Answer:
    if variant == "0":
        return True, "the producer used acks=0: an acknowledgement promises nothing"
    if variant == "1":
        return True, "the producer used acks=1: the leader alone acknowledged, and may be replaced"
    if reason := _truncation(ground):
        return True, reason
    return False, "acks=all and clean elections keep every acknowledged record"


def _repeat(ground: Ground, variant: str) -> Answer:
    if variant == "0" and ground.retries:
        return True, "the producer is not idempotent and retries: a lost answer means a second copy"
    if reason := _truncation(ground):
        return True, f"{reason}; what it knew of the producer is gone too"
    if variant == "0":
        return False, "the producer does not retry"
    return False, "an idempotent producer writes each record once"


def _reorder(ground: Ground, variant: str) -> Answer:
    if variant == "0" and ground.retries and ground.pipelined:
        return True, "the producer is not idempotent, retries, and has several requests under way"
    if reason := _truncation(ground):
        return True, f"{reason}; what it knew of the producer is gone too"
    if variant == "0":
        return (
            False,
            "the producer never has a retry overtaken: no retries, or one request at a time",
        )
    return False, "an idempotent producer keeps its order"


def _conflict(ground: Ground, variant: str) -> Answer:
    if reason := _truncation(ground):
        return True, reason
    if variant in ("ack 0", "ack 1"):
        return True, f"acks={variant[-1]}: what was acknowledged there may have been truncated"
    return False, "below the high watermark a log never changes"


def _uncommitted(ground: Ground, variant: str) -> Answer:
    if variant == "ru":
        return True, "the reader used read_uncommitted"
    if variant == "unsent":
        return False, "the record was never written, as far as its client was told"
    return False, "read_committed readers see committed transactions only"


def _own(ground: Ground, variant: str) -> Answer:
    if variant == "ru":
        return True, "the reader used read_uncommitted"
    return False, "a read_committed reader sees no open transaction, not even its own"


def _moved(ground: Ground, variant: str) -> Answer:
    if ground.subscribe:
        return True, "consumers subscribe: a rebalance may have moved the position"
    return _stepped(ground, variant)


def _stepped(ground: Ground, variant: str) -> Answer:
    if reason := _truncation(ground):
        return True, reason
    return False, "no rebalance, new assignment, rewind or reset on record explains this step"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyClass:
    """One class of the catalogue; its identifier is the key in `ANOMALIES`.

    rule: (ground, variant of the finding) -> allowed, why.
    """

    title: str
    meaning: str
    literature: str = ""
    rule: Callable[[Ground, str], Answer] = field(repr=False)


ANOMALIES: Final[dict[str, AnomalyClass]] = {
    "lost-write": AnomalyClass(
        title="Acknowledged record lost",
        meaning="Kafka acknowledged a record (or committed its transaction), and the log does not hold it.",
        literature="lost update; durability",
        rule=_loss,
    ),
    "unseen": AnomalyClass(
        title="Committed record never read",
        meaning="A committed record was returned by no successful poll. Whether it is lost, or only was not"
        " read yet, a history without final reads cannot tell.",
        rule=_never("a committed record has to become visible"),
    ),
    "duplicate": AnomalyClass(
        title="Record written twice",
        meaning="The application sent a record once; the log holds it at several offsets.",
        rule=_repeat,
    ),
    "torn-txn": AnomalyClass(
        title="Transaction torn apart",
        meaning="Of the records of one transaction some are visible to read_committed consumers and others"
        " never will be.",
        literature="atomicity violation; fractured write",
        rule=_never("a transaction is visible as a whole or not at all"),
    ),
    "aborted-read": AnomalyClass(
        title="Aborted record read",
        meaning="A consumer was given a record whose transaction was aborted, or whose write was refused.",
        literature="G1a",
        rule=_uncommitted,
    ),
    "precommitted-read": AnomalyClass(
        title="Record read inside its own transaction",
        meaning="A transaction's own poll returned a record that the same transaction had not committed yet.",
        literature="G1b, dirty read",
        rule=_own,
    ),
    "phantom-read": AnomalyClass(
        title="Record that nobody sent",
        meaning="A consumer was given a record that no producer of this run sent to this partition.",
        rule=_never("a log holds what was sent to it, nothing else"),
    ),
    "corrupt-record": AnomalyClass(
        title="Record damaged",
        meaning="A record came back with a payload that fails its checksum or cannot be read.",
        rule=_never("payloads come back unchanged"),
    ),
    "misdirected-record": AnomalyClass(
        title="Record in the wrong partition",
        meaning="A record was stored in, or served from, another topic or partition than it was sent to.",
        rule=_never("a record stays where it was sent"),
    ),
    "inconsistent-offsets": AnomalyClass(
        title="One offset, several records",
        meaning="The same offset of a partition held different records for different observers: the log"
        " changed after it was acknowledged or read.",
        literature="divergence",
        rule=_conflict,
    ),
    "offset-reuse": AnomalyClass(
        title="Offset of an uncommitted record used again",
        meaning="An offset was acknowledged for a record that did not commit, and holds another record.",
        rule=_always("informational: nothing was promised for the record that did not commit"),
    ),
    "offset-realtime-inversion": AnomalyClass(
        title="Later send, lower offset",
        meaning="A record was sent after another of the same partition had been acknowledged, and stands"
        " before it in the log. A log grows at its end only.",
        literature="real-time order violation",
        rule=_loss,
    ),
    "nonmonotonic-send": AnomalyClass(
        title="A producer's later record stands earlier",
        meaning="One producer sent two records to a partition in two operations; the log has them the other"
        " way round.",
        rule=_reorder,
    ),
    "int-nonmonotonic-send": AnomalyClass(
        title="Records of one operation reordered",
        meaning="Records that one operation sent to a partition stand in the log in another order.",
        rule=_reorder,
    ),
    "int-send-skip": AnomalyClass(
        title="Foreign records between those of a transaction",
        meaning="Between two records of one transaction the log has records of others.",
        rule=_always("informational: Kafka interleaves transactions"),
    ),
    "nonmonotonic-poll": AnomalyClass(
        title="Consumer went back",
        meaning="Between two polls a consumer's position went back or stood still, without a reason.",
        rule=_moved,
    ),
    "int-nonmonotonic-poll": AnomalyClass(
        title="Consumer went back within one operation",
        meaning="Within one operation a consumer was given records out of order or twice.",
        rule=_stepped,
    ),
    "poll-skip": AnomalyClass(
        title="Consumer skipped records",
        meaning="Between two polls a consumer's position passed over records that it had to see,"
        " without a reason.",
        rule=_moved,
    ),
    "int-poll-skip": AnomalyClass(
        title="Consumer skipped records within one operation",
        meaning="Within one operation a consumer was not given records between those that it was given.",
        rule=_stepped,
    ),
    "offset-commit-regression": AnomalyClass(
        title="Committed offset went back",
        meaning="A group's committed offset is lower than one that was acknowledged before, and no rebalance,"
        " reset or concurrent commit explains it.",
        rule=_never("an acknowledged commit of offsets holds"),
    ),
    "stuck-lso": AnomalyClass(
        title="Last stable offset stuck",
        meaning="With all clients gone and all transactions past their time-out, the last stable offset stays"
        " below the high watermark: read_committed consumers wait for ever.",
        literature="hanging transaction",
        rule=_never("every transaction ends, at the latest by its time-out"),
    ),
    "G1c": AnomalyClass(
        title="Circular information flow",
        meaning="Transactions read each other's records in a circle: each would have had to commit first.",
        literature="G1c",
        rule=_never("read_committed forbids it: a record is read after its transaction committed"),
    ),
    "G1c-realtime": AnomalyClass(
        title="Information flow against real time",
        meaning="A record was read before it was sent, or transactions read from each other in a circle that"
        " closes through real time.",
        literature="G1c-realtime; future read",
        rule=_never("nothing is read before it is sent"),
    ),
    "G1c-ww": AnomalyClass(
        title="Circle of reads and writes",
        meaning="Transactions depend on each other in a circle of reads and of the order of their writes.",
        literature="G1c with ww edges",
        rule=_always("informational: Kafka does not isolate writes of concurrent transactions"),
    ),
    "G0": AnomalyClass(
        title="Circle of writes",
        meaning="Transactions' records interleave so that each stands before the other somewhere.",
        literature="G0, dirty write",
        rule=_always("informational: Kafka does not isolate writes of concurrent transactions"),
    ),
    "G0-realtime": AnomalyClass(
        title="Circle of writes and real time",
        meaning="The order of writes and real time form a circle over several transactions.",
        literature="G0-realtime",
        rule=_always("informational; a direct inversion is reported as offset-realtime-inversion"),
    ),
    "not-recovered": AnomalyClass(
        title="Cluster did not recover",
        meaning="After all faults were healed the cluster did not come back to full service in time.",
        rule=_never("a healed cluster recovers"),
    ),
}  # fmt: skip
"""Identifier -> class."""

INFORMATIONAL: Final = frozenset({"offset-reuse", "int-send-skip", "G1c-ww", "G0", "G0-realtime"})
"""Classes that are legal in every configuration."""


def allowed(config: RunConfig, faults: Sequence[str], finding: Finding) -> Answer:
    """Whether the configuration and the executed faults permit a finding, and why."""
    return ANOMALIES[finding.name].rule(ground(config, faults), finding.variant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim about the cluster, in a Kafka user's words.

    anomalies: classes that contradict it. subjects: kernels and joins that it rests on; if one
    crashes, so did the check. content: it judges what the logs hold, so it needs the final reads.
    """

    claim: str
    anomalies: tuple[str, ...]
    subjects: tuple[str, ...]
    content: bool = False


CHECKS: Final[dict[str, Check]] = {
    "durability": Check(
        claim="Every acknowledged record, and every record of a committed transaction, is in the log.",
        anomalies=("lost-write", "unseen"),
        subjects=("delivery",),
        content=True,
    ),
    "uniqueness": Check(
        claim="A record that was sent once is in the log at most once.",
        anomalies=("duplicate",),
        subjects=("duplicates",),
        content=True,
    ),
    "atomicity": Check(
        claim="A transaction is visible as a whole or not at all.",
        anomalies=("torn-txn",),
        subjects=("atomicity",),
        content=True,
    ),
    "isolation": Check(
        claim="Consumers at read_committed see nothing of aborted and open transactions.",
        anomalies=("aborted-read", "precommitted-read"),
        subjects=("isolation",),
        content=True,
    ),
    "integrity": Check(
        claim="Consumers get what was sent to the partition, unchanged, and nothing else.",
        anomalies=("phantom-read", "corrupt-record", "misdirected-record"),
        subjects=("integrity",),
        content=True,
    ),
    "consistency": Check(
        claim="An offset holds one record, for every observer and for ever.",
        anomalies=("inconsistent-offsets", "offset-reuse"),
        subjects=("offsets",),
        content=True,
    ),
    "real-time": Check(
        claim="A record that is sent after another was acknowledged stands behind it.",
        anomalies=("offset-realtime-inversion",),
        subjects=("real-time",),
    ),
    "send-order": Check(
        claim="The log keeps the order in which a producer sent.",
        anomalies=("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip"),
        subjects=("send-order",),
    ),
    "poll-order": Check(
        claim="A consumer reads on from where it was: nothing twice, nothing left out.",
        anomalies=("nonmonotonic-poll", "int-nonmonotonic-poll", "poll-skip", "int-poll-skip"),
        subjects=("poll-order",),
    ),
    "group-offsets": Check(
        claim="The committed offset of a group does not go back.",
        anomalies=("offset-commit-regression",),
        subjects=("groups",),
    ),
    "stability": Check(
        claim="The last stable offset reaches the end of the log once all clients are gone.",
        anomalies=("stuck-lso",),
        subjects=("lso",),
    ),
    "cycles": Check(
        claim="Transactions do not depend on each other in a circle, nor on the future.",
        anomalies=("G1c", "G1c-realtime", "G1c-ww", "G0", "G0-realtime"),
        subjects=("cycles", "future-reads"),
    ),
    "recovery": Check(
        claim="After the faults are healed the cluster comes back to full service in time.",
        anomalies=("not-recovered",),
        subjects=("recovery",),
    ),
}
"""Name -> check. Every class of `ANOMALIES` belongs to exactly one."""
