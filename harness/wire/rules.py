"""Rules of the wire: which requests they take, and what happens to these.

Every action but `refuse` is something that a network can do: bytes come late or not at all, and connections
break. What follows from it counts against Kafka.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from core.op import TopicPartition
from harness.wire.frames import RequestHeader
from harness.wire.payloads import API_KEYS, api_name
from harness.wire.subjects import Subjects, subjects


class Action(StrEnum):
    """What happens to a request that a rule takes."""

    HOLD = "hold"
    """It waits, and with it all that follows on its connection; it reaches the broker on the connection that
    it came by, also after the client has given up."""
    DETACH = "detach"
    """As `hold`, and the client's side of the connection is reset at once: the client tries again
    elsewhere."""
    DROP_REQUEST = "drop-request"
    """It never reaches the broker, and the client's side is reset."""
    DROP_RESPONSE = "drop-response"
    """From its response on, nothing that the broker sends on this connection reaches the client."""
    DELAY_RESPONSE = "delay-response"
    """The response waits, and with it all later ones of the connection."""
    CUT = "cut"
    """It reaches the broker, and the client's side is reset at once: its response is lost."""
    REFUSE = "refuse"
    """It never reaches the broker; the proxy answers with an error. No network does this."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. It takes a request that fits every condition that is given.

    api: by the name of `API_KEYS`. nodes: brokers that were sent it; empty: any. versions: lowest and
    highest. client_id: "" = any. transactional_id, group, partition: named by the request. skip: number of
    requests that fit and pass first. times: number of requests that it takes, 0 = all. seconds: how long it
    holds, 0 = until it is released. until_api: a request of this API releases what it holds ("" = none does);
    where the rule names a transactional id, only one of that id. error: of `refuse`, Kafka's code.
    """

    number: int
    api: str
    action: Action
    nodes: tuple[int, ...] = ()
    versions: tuple[int, int] | None = None
    client_id: str = ""
    transactional_id: str = ""
    group: str = ""
    partition: tuple[str, int] | None = None
    skip: int = 0
    times: int = 1
    seconds: float = 0.0
    until_api: str = ""
    error: int = 0

    def fits(self, node: int, header: RequestHeader, named: Callable[[], Subjects]) -> bool:
        """Whether a request to a broker meets the conditions. named: what it names; asked only if needed."""
        if header.api_key != API_KEYS[self.api] or (self.nodes and node not in self.nodes):
            return False
        if self.versions is not None and not self.versions[0] <= header.version <= self.versions[1]:
            return False
        if self.client_id and header.client_id != self.client_id:
            return False
        return self._names(named)

    def ends_by(self, header: RequestHeader, named: Callable[[], Subjects]) -> bool:
        """Whether a request releases what this rule holds."""
        if not self.until_api or header.api_key != API_KEYS[self.until_api]:
            return False
        return not self.transactional_id or self.transactional_id in named().transactional_ids

    def _names(self, named: Callable[[], Subjects]) -> bool:
        if not (self.transactional_id or self.group or self.partition):
            return True
        found = named()
        return (
            (not self.transactional_id or self.transactional_id in found.transactional_ids)
            and (not self.group or self.group in found.groups)
            and (self.partition is None or TopicPartition(*self.partition) in found.partitions)
        )


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule did, or what happened to what it took.

    what: `caught`, `delivered` (what was held reached the broker's connection), `answered` (by the broker;
    error: its code, where the response has one), `lost` (the connection ended first). ns: CLOCK_MONOTONIC.
    """

    ns: int
    rule: int
    what: str
    node: int
    connection: int
    api: str
    version: int
    correlation_id: int
    client_id: str
    error: int | None = None


@dataclass(slots=True)
class RuleBook:
    """The rules in force, in the order in which they were made: the first one that fits takes a request."""

    rules: dict[int, Rule] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)

    def add(self, rule: Rule) -> None:
        """Put a rule in force."""
        self.rules[rule.number] = rule
        self._seen[rule.number] = 0

    def remove(self, number: int) -> None:
        """Take a rule back; what it holds stays held until it is released. No-op where there is none."""
        self.rules.pop(number, None)
        self._seen.pop(number, None)

    def takes(self, node: int, header: RequestHeader, frame: bytes) -> Rule | None:
        """The rule that takes this request; each that fits counts it."""
        if not self.rules:
            return None
        named = once(lambda: subjects(frame, header))
        for rule in self.rules.values():
            if rule.fits(node, header, named):
                count = self._seen[rule.number] = self._seen[rule.number] + 1
                if count > rule.skip and (not rule.times or count <= rule.skip + rule.times):
                    return rule
        return None

    def ended_by(self, header: RequestHeader, frame: bytes) -> list[int]:
        """Numbers of the rules whose hold a request ends."""
        named = once(lambda: subjects(frame, header))
        return [rule.number for rule in self.rules.values() if rule.ends_by(header, named)]


def once(make: Callable[[], Subjects]) -> Callable[[], Subjects]:
    """The same, made at the first call."""
    made: list[Subjects] = []

    def get() -> Subjects:
        if not made:
            made.append(make())
        return made[0]

    return get


def told(rule: Rule) -> str:
    """A rule in words: `end_txn of txn-1: hold`."""
    of = [rule.transactional_id, rule.group, rule.client_id]
    if rule.partition is not None:
        of.append(f"{rule.partition[0]}-{rule.partition[1]}")
    named = ", ".join(one for one in of if one)
    return f"{api_name(API_KEYS[rule.api])}{f' of {named}' if named else ''}: {rule.action}"
