"""The anomaly classes, in words, with the rule that says where Kafka allows each; and the checks.

Finding is universal; allowing depends on the configuration and on the faults that were executed.
`allowed` never looks at how many findings there are, and a known bug never makes one allowed.

Not here: how findings are made (docs/checks.md), labels of known bugs (`checkers.known_bugs`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from checkers.kernel_types import Finding
from checkers.rules import (
    Answer,
    Fault,
    Ground,
    always,
    conflict,
    copied_never,
    copied_twice,
    ground,
    loss,
    moved,
    never,
    own,
    passed,
    reorder,
    repeat,
    stepped,
    uncommitted,
    unless_truncated,
)
from harness.config import RunConfig


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
        rule=loss,
    ),
    "unseen": AnomalyClass(
        title="Committed record never read",
        meaning="A committed record was returned by no successful poll. Whether it is lost, or only was not"
        " read yet, a history without final reads cannot tell.",
        rule=never("a committed record has to become visible"),
    ),
    "duplicate": AnomalyClass(
        title="Record written twice",
        meaning="The application sent a record once; the log holds it at several offsets.",
        rule=repeat,
    ),
    "torn-txn": AnomalyClass(
        title="Transaction torn apart",
        meaning="Of the records of one transaction some are visible to read_committed consumers and others"
        " never will be.",
        literature="atomicity violation; fractured write",
        rule=unless_truncated("a transaction is visible as a whole or not at all"),
    ),
    "aborted-read": AnomalyClass(
        title="Aborted record read",
        meaning="A consumer was given a record whose transaction was aborted, or whose write was refused.",
        literature="G1a",
        rule=uncommitted,
    ),
    "precommitted-read": AnomalyClass(
        title="Record read inside its own transaction",
        meaning="A transaction's own poll returned a record that the same transaction had not committed yet.",
        literature="G1b, dirty read",
        rule=own,
    ),
    "phantom-read": AnomalyClass(
        title="Record that nobody sent",
        meaning="A consumer was given a record that no producer of this run sent to this partition.",
        rule=never("a log holds what was sent to it, nothing else"),
    ),
    "corrupt-record": AnomalyClass(
        title="Record damaged",
        meaning="A record came back with a payload that fails its checksum or cannot be read.",
        rule=never("payloads come back unchanged"),
    ),
    "misdirected-record": AnomalyClass(
        title="Record in the wrong partition",
        meaning="A record was stored in, or served from, another topic or partition than it was sent to.",
        rule=never("a record stays where it was sent"),
    ),
    "inconsistent-offsets": AnomalyClass(
        title="One offset, several records",
        meaning="The same offset of a partition held different records for different observers: the log"
        " changed after it was acknowledged or read.",
        literature="divergence",
        rule=conflict,
    ),
    "offset-reuse": AnomalyClass(
        title="Offset of an uncommitted record used again",
        meaning="An offset was acknowledged for a record that did not commit, and holds another record.",
        rule=always("informational: nothing was promised for the record that did not commit"),
    ),
    "offset-realtime-inversion": AnomalyClass(
        title="Later send, lower offset",
        meaning="A record was sent after another of the same partition had been acknowledged, and stands"
        " before it in the log. A log grows at its end only.",
        literature="real-time order violation",
        rule=loss,
    ),
    "nonmonotonic-send": AnomalyClass(
        title="A producer's later record stands earlier",
        meaning="One producer sent two records to a partition in two operations; the log has them the other"
        " way round.",
        rule=reorder,
    ),
    "int-nonmonotonic-send": AnomalyClass(
        title="Records of one operation reordered",
        meaning="Records that one operation sent to a partition stand in the log in another order.",
        rule=reorder,
    ),
    "int-send-skip": AnomalyClass(
        title="Foreign records between those of a transaction",
        meaning="Between two records of one transaction the log has records of others.",
        rule=always("informational: Kafka interleaves transactions"),
    ),
    "nonmonotonic-poll": AnomalyClass(
        title="Consumer went back",
        meaning="Between two polls a consumer's position went back or stood still, without a reason.",
        rule=moved,
    ),
    "int-nonmonotonic-poll": AnomalyClass(
        title="Consumer went back within one operation",
        meaning="Within one operation a consumer was given records out of order or twice.",
        rule=stepped,
    ),
    "poll-skip": AnomalyClass(
        title="Consumer skipped records",
        meaning="Between two polls a consumer's position passed over records that it had to see,"
        " without a reason.",
        rule=moved,
    ),
    "int-poll-skip": AnomalyClass(
        title="Consumer skipped records within one operation",
        meaning="Within one operation a consumer was not given records between those that it was given.",
        rule=stepped,
    ),
    "offset-commit-regression": AnomalyClass(
        title="Committed offset went back",
        meaning="A group's committed offset is lower than one that was acknowledged before, and no rebalance,"
        " reset or concurrent commit explains it.",
        rule=unless_truncated("an acknowledged commit of offsets holds"),
    ),
    "stuck-lso": AnomalyClass(
        title="Last stable offset stuck",
        meaning="With all clients gone and all transactions past their time-out, the last stable offset stays"
        " below the high watermark: read_committed consumers wait for ever.",
        literature="hanging transaction",
        rule=unless_truncated("every transaction ends, at the latest by its time-out"),
    ),
    "hanging-txn": AnomalyClass(
        title="Hanging transaction",
        meaning="With all clients gone and all transactions past their time-out, a partition still holds a"
        " transaction open: nothing behind it reaches a read_committed consumer.",
        literature="hanging transaction",
        rule=unless_truncated("every transaction ends, at the latest by its time-out"),
    ),
    "eos-duplicate": AnomalyClass(
        title="Input processed twice",
        meaning="A group copied one input record into committed output more than once.",
        literature="exactly-once violation; duplicate processing",
        rule=copied_twice,
    ),
    "eos-loss": AnomalyClass(
        title="Input never processed",
        meaning="A group committed an offset behind an input record, and committed output holds no copy of"
        " it.",
        literature="exactly-once violation; lost input",
        rule=copied_never,
    ),
    "group-duplicate": AnomalyClass(
        title="Record given to a group again",
        meaning="A member of a group started below an offset that the group had committed before the member"
        " was assigned the partition.",
        literature="redelivery below the committed offset",
        rule=unless_truncated("a member starts where its group has committed"),
    ),
    "group-skip": AnomalyClass(
        title="Record never given to a group",
        meaning="A group committed an offset behind a record that no member of it was ever given.",
        literature="missed delivery; consumer gap",
        rule=passed,
    ),
    "zombie-write": AnomalyClass(
        title="Fenced producer still writes",
        meaning="A producer wrote, or committed, after another had taken over its transactional id.",
        literature="fencing violation; zombie instance",
        rule=unless_truncated("whoever initialises a transactional id last fences all before it"),
    ),
    "G1c": AnomalyClass(
        title="Circular information flow",
        meaning="Transactions read each other's records in a circle: each would have had to commit first.",
        literature="G1c",
        rule=never("read_committed forbids it: a record is read after its transaction committed"),
    ),
    "G1c-realtime": AnomalyClass(
        title="Information flow against real time",
        meaning="A record was read before it was sent, or transactions read from each other in a circle that"
        " closes through real time.",
        literature="G1c-realtime; future read",
        rule=never("nothing is read before it is sent"),
    ),
    "G1c-ww": AnomalyClass(
        title="Circle of reads and writes",
        meaning="Transactions depend on each other in a circle of reads and of the order of their writes.",
        literature="G1c with ww edges",
        rule=always("informational: Kafka does not isolate writes of concurrent transactions"),
    ),
    "G0": AnomalyClass(
        title="Circle of writes",
        meaning="Transactions' records interleave so that each stands before the other somewhere.",
        literature="G0, dirty write",
        rule=always("informational: Kafka does not isolate writes of concurrent transactions"),
    ),
    "G0-realtime": AnomalyClass(
        title="Circle of writes and real time",
        meaning="The order of writes and real time form a circle over several transactions.",
        literature="G0-realtime",
        rule=always("informational; a direct inversion is reported as offset-realtime-inversion"),
    ),
    "not-recovered": AnomalyClass(
        title="Cluster did not recover",
        meaning="After all faults were healed the cluster did not come back to full service in time.",
        rule=never("a healed cluster recovers"),
    ),
}  # fmt: skip
"""Identifier -> class."""

INFORMATIONAL: Final = frozenset({"offset-reuse", "int-send-skip", "G1c-ww", "G0", "G0-realtime"})
"""Classes that are legal in every configuration."""


def allowed(config: RunConfig, faults: Iterable[Fault], finding: Finding) -> Answer:
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
    "exactly-once": Check(
        claim="What a group reads, transforms and produces is in committed output once: each input record"
        " that it committed an offset behind, and none twice.",
        anomalies=("eos-duplicate", "eos-loss"),
        subjects=("copies", "group-delivery", "exactly-once"),
        content=True,
    ),
    "group-delivery": Check(
        claim="A group is given every record that it commits an offset behind, and after a rebalance nothing"
        " below its committed offset.",
        anomalies=("group-duplicate", "group-skip"),
        subjects=("group-delivery",),
        content=True,
    ),
    "fencing": Check(
        claim="Once a producer has taken a transactional id over, nothing of its predecessor is written or"
        " committed any more.",
        anomalies=("zombie-write",),
        subjects=("fencing", "zombies"),
    ),
    "stability": Check(
        claim="Every transaction ends: the last stable offset reaches the end of the log once all clients"
        " are gone.",
        anomalies=("stuck-lso", "hanging-txn"),
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
        subjects=("recovery", "progress", "liveness"),
    ),
}
"""Name -> check. Every class of `ANOMALIES` belongs to exactly one."""
