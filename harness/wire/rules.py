"""Which requests the rules of the wire take (`core.wire`)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from core.op import TopicPartition
from core.wire import RuleTally, WireRule
from harness.protocol.frames import RequestHeader
from harness.protocol.payloads import API_KEYS
from harness.wire.subjects import Subjects, subjects

Named = Callable[[], Subjects]
"""What a request names; reading that costs, so it is asked only where it matters."""


def fits(rule: WireRule, node: int, header: RequestHeader, named: Named) -> bool:
    """Whether a request to a broker meets the conditions of a rule."""
    if header.api_key != API_KEYS[rule.api] or (rule.nodes and node not in rule.nodes):
        return False
    if rule.versions is not None and not rule.versions[0] <= header.version <= rule.versions[1]:
        return False
    if rule.client_id and header.client_id != rule.client_id:
        return False
    if not (rule.transactional_id or rule.group or rule.partition):
        return True
    found = named()
    return (
        (not rule.transactional_id or rule.transactional_id in found.transactional_ids)
        and (not rule.group or rule.group in found.groups)
        and (rule.partition is None or TopicPartition(*rule.partition) in found.partitions)
    )


def releases(rule: WireRule, held: Subjects, header: RequestHeader, named: Named) -> bool:
    """Whether a request releases another one that a rule holds. held: what that one names."""
    if not rule.until_api or header.api_key != API_KEYS[rule.until_api]:
        return False
    ids = named().transactional_ids
    return not ids or not held.transactional_ids or bool(ids & held.transactional_ids)


@dataclass(slots=True)
class RuleBook:
    """The rules in force, in the order in which they were made: the first one that fits takes a request."""

    rules: dict[int, WireRule] = field(default_factory=dict)
    _tallies: dict[int, RuleTally] = field(default_factory=dict)

    def add(self, rule: WireRule) -> None:
        """Put a rule in force."""
        self.rules[rule.number] = rule
        self._tallies[rule.number] = RuleTally(time.monotonic_ns())

    def remove(self, number: int) -> None:
        """Take a rule back; what it holds stays held until it is released. No-op where there is none."""
        self.rules.pop(number, None)
        self._tallies.pop(number, None)

    def takes(self, node: int, header: RequestHeader, named: Named) -> WireRule | None:
        """The rule that takes this request; each that fits counts it."""
        for rule in self.rules.values():
            if fits(rule, node, header, named) and self._tallies[rule.number].takes(
                rule, time.monotonic_ns()
            ):
                return rule
        return None

    def skipped(self, number: int) -> int:
        """How many requests that fit a rule have passed."""
        return self._tallies[number].skipped


def once(frame: bytes, header: RequestHeader) -> Named:
    """What a request names, read at the first call."""
    made: list[Subjects] = []

    def get() -> Subjects:
        if not made:
            made.append(subjects(frame, header))
        return made[0]

    return get
