"""The rules about logs, by the modules that apply them.

To add rules: a module here that exports `RULES` and `judge`, and its line in `LOCAL` or `WHOLE`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from checkers.logs import (
    accept_data,
    accept_metadata,
    accept_offsets,
    accept_transactions,
    answers,
    audit,
    decisions,
    lineage,
    messages,
)
from checkers.logs.judgement import Judgement, LogRule
from core.op import TopicPartition
from history.evidence import Evidence
from history.reader import History


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRules:
    """Rules that one partition decides. judge: it is called for each partition, and answers with an empty
    judgement where its rules are not about that one."""

    rules: tuple[LogRule, ...]
    judge: Callable[[Evidence, TopicPartition], Judgement]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRules:
    """Rules that need several partitions, or the clients' history beside them (None = there is none)."""

    rules: tuple[LogRule, ...]
    judge: Callable[[Evidence, History | None], Judgement]


LOCAL: Final[dict[str, LocalRules]] = {
    "audit": LocalRules(rules=audit.RULES, judge=audit.judge),
    "accept_metadata": LocalRules(rules=accept_metadata.RULES, judge=accept_metadata.judge),
    "accept_data": LocalRules(rules=accept_data.RULES, judge=accept_data.judge),
    "accept_transactions": LocalRules(rules=accept_transactions.RULES, judge=accept_transactions.judge),
    "accept_offsets": LocalRules(rules=accept_offsets.RULES, judge=accept_offsets.judge),
}
"""Name of the module -> its rules."""
WHOLE: Final[dict[str, WholeRules]] = {
    "lineage": WholeRules(rules=lineage.RULES, judge=lineage.judge),
    "decisions": WholeRules(rules=decisions.RULES, judge=decisions.judge),
    "answers": WholeRules(rules=answers.RULES, judge=answers.judge),
    "messages": WholeRules(rules=messages.RULES, judge=messages.judge),
}
"""Name of the module -> its rules."""
RULES: Final[dict[str, LogRule]] = {
    rule.name: rule
    for rules in (*(one.rules for one in LOCAL.values()), *(one.rules for one in WHOLE.values()))
    for rule in rules
}
"""Identifier -> rule."""
