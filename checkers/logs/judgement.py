"""What a rule about logs says: findings, what it could not decide, how often it was asked.

Plain values that can be pickled: rules run in this process or in Spark's workers.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from core.op import TopicPartition
from model.accepting.refusal import Refusal

CAP: Final = 256
"""Findings kept of one rule in one unit of work; counts stay exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRule:
    """A rule.

    name: its identifier, such as `replicas-equal`. ring: 0 audit, 1 acceptance by the model, 3 lineage and
    decisions, 4 messages. anomaly: class of the catalogue that a finding belongs to. claim: what has to hold,
    one sentence. source: KIP, JIRA or file of Kafka.
    """

    name: str
    ring: int
    anomaly: str
    claim: str
    source: str


def accepting(name: str, claim: str, source: str, anomaly: str = "model-violation") -> LogRule:
    """A rule of ring 1."""
    return LogRule(name=name, ring=1, anomaly=anomaly, claim=claim, source=source)


NOWHERE: Final = TopicPartition("", -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFinding:
    """A place in a log that a rule refuses.

    rule: its name. tp, offset: the place; offset -1 = the partition as a whole; NOWHERE = no partition. take,
    nodes: where the rows stand that show it; take -1 = it is about messages of these nodes. sentence: the
    story for an expert: what stands there, what has to hold. before: the state before that place, as the
    model has it, "" = there is none. producer_id, producer_epoch, transactional_id: of the transaction that
    it is about, -1 and "" = none. ms: a time at which that was under way or was ended, by the clock of the
    nodes, -1 unknown: transactions of one id can have one epoch.
    """

    rule: str
    tp: TopicPartition
    offset: int
    take: int
    nodes: tuple[int, ...]
    sentence: str
    before: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str = ""
    ms: int = -1


def refused(
    refusal: Refusal, tp: TopicPartition, take: int, node: int, transactional_id: str = ""
) -> LogFinding:
    """What the model says of a place in the log of a node."""
    return LogFinding(
        rule=refusal.rule,
        tp=tp,
        offset=refusal.offset,
        take=take,
        nodes=(node,),
        sentence=f"at offset {refusal.offset} of {tp}: {refusal.why}",
        before=refusal.before,
        producer_id=refusal.producer_id,
        producer_epoch=refusal.producer_epoch,
        transactional_id=transactional_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDoubt:
    """What kept a rule from deciding, in one partition (None = anywhere)."""

    rule: str
    tp: TopicPartition | None
    why: str


@dataclass(slots=True, kw_only=True)
class Judgement:
    """What was found. asked: rule -> how often it was applied to a row (or pair of rows) that it could have
    refused: 0 = this run exercised it not at all. counts: rule -> findings, exact. crashed: rule -> how;
    the engine enters it."""

    findings: list[LogFinding] = field(default_factory=list)
    doubts: list[LogDoubt] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    crashed: dict[str, str] = field(default_factory=dict)

    def refuse(self, finding: LogFinding) -> None:
        """Count a finding, and keep it where there are not too many."""
        self.counts[finding.rule] += 1
        if self.counts[finding.rule] <= CAP:
            self.findings.append(finding)

    def doubt(self, rule: LogRule | str, tp: TopicPartition | None, why: str) -> None:
        """Keep the first doubt of a rule, or of the rule of this name, in a partition."""
        name = rule if isinstance(rule, str) else rule.name
        if not any((one.rule, one.tp) == (name, tp) for one in self.doubts):
            self.doubts.append(LogDoubt(rule=name, tp=tp, why=why))


def joined(judgements: Iterable[Judgement]) -> Judgement:
    """Several judgements as one."""
    whole = Judgement()
    for one in judgements:
        whole.findings += one.findings
        whole.doubts += one.doubts
        whole.asked += one.asked
        whole.counts += one.counts
        whole.crashed = one.crashed | whole.crashed
    return whole
