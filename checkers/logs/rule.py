"""A rule about brokers' logs: a check of evidence. The rules of a module share one pass over the rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from checkers.checks.durability import CHECK as DURABILITY
from checkers.checks.durability import LOST
from checkers.engine.check import Check, Join, LogKernel, Reads
from checkers.engine.findings import Acks, LogFinding, Plain
from checkers.logs.classes import CLASSES, VIOLATION
from core.op import TopicPartition
from model.accepting.refusal import Refusal

MAY_SHOW: Final = {**CLASSES, LOST: DURABILITY.anomalies[LOST]}
"""Classes of findings in logs: those that only logs show, and one that clients see, too."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one check of evidence says; its name is the key in `RULES` of its module.

    claim: what has to hold, one sentence. source: KIP, JIRA or file of Kafka. anomaly: class of its findings.
    forgets: the setting of brokers after which they forget what its findings rest on, "" = there is none.
    rests_on: internal topics whose records its findings rest on, beside the log of the partition itself.
    """

    claim: str
    source: str
    anomaly: str = VIOLATION
    forgets: str = ""
    rests_on: tuple[str, ...] = ()


def checks_of(
    rules: Mapping[str, Rule], *, ring: int, log_kernel: LogKernel | None = None, join: Join | None = None
) -> dict[str, Check]:
    """The rules of a module as checks that share its kernel, or its join: name -> check."""
    return {
        name: Check(
            claim=rule.claim,
            anomalies={rule.anomaly: MAY_SHOW[rule.anomaly]},
            reads=Reads.EVIDENCE if join is None else Reads.BOTH,
            log_kernel=log_kernel,
            join=join,
            ring=ring,
            source=rule.source,
            forgets=rule.forgets,
            rests_on=rule.rests_on,
            # rules about acknowledged records judge acks=all alone
            variant=Acks.ALL if rule.anomaly == LOST else Plain.PLAIN,
        )
        for name, rule in rules.items()
    }


def refused(
    refusal: Refusal, log: TopicPartition, take: int, node: int, transactional_id: str = ""
) -> LogFinding:
    """What the model says of a place in the log of a node."""
    return LogFinding(
        check=refusal.rule,
        log=log,
        offset=refusal.offset,
        take=take,
        nodes=(node,),
        text=f"at offset {refusal.offset} of {log}: {refusal.why}",
        before=refusal.before,
        producer_id=refusal.producer_id,
        producer_epoch=refusal.producer_epoch,
        transactional_id=transactional_id,
    )
