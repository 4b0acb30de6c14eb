"""The naive judge's windows and excuses (docs/checks.md, section 6): what may have taken records off a log.

Each rule about what is missing says between which moments it may have been taken (`Facts.spans`). See
`tests.adversary.facts`.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from core.cluster import NodeEnd
from core.config import RunConfig
from core.systems import KafkaSection
from history.events import Event, FaultHealed, FaultStarted, NodeEnded, RolesSeen
from tests.adversary.compaction import kept_after_jumps
from tests.adversary.rows import Row

EVER = 2**63 - 1
TEN_S = 10 * 10**9
INTERNAL = ("__transaction_state", "__consumer_offsets")
TRANSACTIONS, OWNERS, GROUPS = INTERNAL[:1], INTERNAL[1:], INTERNAL
SHARE_STATE = "__share_group_state"
SHARES = (SHARE_STATE, *OWNERS)
"""Of which topics the logs say how transactions ended, who owns a partition, how far a group is, and what a
share group is done with."""
FACTORS = {
    "__transaction_state": "transaction.state.log",
    "__consumer_offsets": "offsets.topic",
    SHARE_STATE: "share.coordinator.state.topic",
}
UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"


class Span(NamedTuple):
    """When something may have been taken: from partitions (None = all). internal: topics of coordinators from
    which, too. weak: it may have been on one replica alone. read: unless a consumer had it before. acked: of
    the record, -1 = none, or flushing plays no part. behind: of records that all in-sync replicas
    acknowledged: how far behind, when sent, when acknowledged."""

    since: int
    until: int
    tps: tuple[int, ...] | None
    internal: tuple[str, ...] = ()
    weak: bool = False
    acked: int = -1
    read: bool = False
    behind: tuple[tuple[int, int, int], ...] = ()
    missed: tuple[int, int] | None = None
    """When a replica that was away may have missed it; until it was acknowledged (`EVER`: for ever), unless
    one lost its power since. None: it missed nothing that the cleaner removes."""


def first_sent(sends: Iterable[Row], send: Row) -> int:
    """When its op sent the first record to its partition."""
    return int(min(s["invoke_ns"] for s in sends if (s["op"], s["tp"]) == (send["op"], send["tp"])))


SPARING = re.compile(
    "(links|half-open|delete-records|add-partitions):|partition:clients-|wire:(?!markers|share-state|"
    "fetch-|alter-partition|heartbeat-controller)"
)


def spares_brokers(fault: str) -> bool:
    """A fault of this name strikes clients, or what lies between them and brokers, or asks something of whole
    brokers."""
    return bool(SPARING.match(fault))


class Logs:
    """The windows of the partitions of a run."""

    def __init__(self, config: RunConfig, events: list[Event], tps: dict[int, str]) -> None:
        self.config, self.tps, self.events = config, tps, events
        self.roles = [e for e in events if isinstance(e, RolesSeen)]
        self.faults = [e for e in events if isinstance(e, FaultStarted)]
        self.healed = {e.fault: e.ns for e in events if isinstance(e, FaultHealed)}
        self.ended = [e for e in events if isinstance(e, NodeEnded)]
        self.internal = [
            name
            for topic in (*INTERNAL, SHARE_STATE)
            for name in sorted(
                {n for e in self.roles for n in e.leaders if n.startswith(topic)}
                or ({f"{topic}-?"} if topic in INTERNAL else set())
            )
        ]

    def excuse(self, span: Span) -> str:
        """What may have taken it; "" = nothing."""
        names = [self.tps[tp] for tp in (self.tps if span.tps is None else span.tps)]
        names += [name for name in self.internal if name.startswith(span.internal)]
        found: set[str] = set()
        for name in names:
            leader = [*self._leader(name)]
            if self._unclean(name) and _meet(leader, span.since, span.until):
                found.add("unclean")
            if self._taken(name, span):
                found.add("power")
            if span.weak and _meet(leader, span.since, span.until):
                found.add("leader")
            if span.missed and name not in self.internal:
                since, until = span.missed
                if span.until == EVER and _meet([*self._power(name, weak=True)], since, EVER):
                    until = EVER
                if _meet([*self._away(name)], since, until):
                    found.add("away")
        return next((one for one in ("unclean", "power", "away", "leader") if one in found), "")

    def powerless(self, end: NodeEnd, ns: int) -> bool:
        """A power window of a partition took from the node what it has not yet again; or from its leader, and
        it says that it has more."""
        if any("log truncation is not allowed" in line for line in end.log):
            every = [*self.tps.values(), *self.internal]
            return any(begin < ns for name in every for begin, _ in self._power(name, weak=False))
        node = end.node
        names = [*self.tps.values(), *(name for name in self.internal if self._replicas(name))]
        return any(
            node in fault.nodes
            and (node in self._replicas(name) or not self._replicas(name))
            and fault.begin_ns < ns <= self._back(name, node, fault)
            for name in names
            for fault in self._losses(name, weak=False)
        )

    # Settings -----------------------------------------------------------------------------------

    def _unclean(self, name: str) -> bool:
        own = self.config.topic_settings
        if name.startswith(INTERNAL[0]) or self._deaf():
            return False
        if name.startswith(SHARES):
            own = self.config.broker_settings
        return str(own.get(UNCLEAN, self.config.unclean_leader_election)).strip().lower() == "true"

    def _deaf(self) -> bool:
        """No controller of the run looks at what the settings say of unclean elections (of Kafka, which is
        all that is made here)."""
        kafka = self.config.section(KafkaSection)
        later = [int(part) for part in (kafka.upgrade or kafka.version).split(".")]
        return kafka.deployment == "kraft" and later < [3, 9]

    def _minimum(self, name: str) -> int:
        config = self.config
        if name.startswith(INTERNAL[0]):
            return int(config.broker_settings.get("transaction.state.log.min.isr", min(2, config.brokers)))
        if name.startswith(SHARE_STATE):
            return int(config.broker_settings.get("share.coordinator.state.topic.min.isr", 2))
        own = config.broker_settings if name.startswith(INTERNAL[1]) else config.topic_settings
        return int(own.get(MIN_ISR, config.min_insync_replicas))

    def _least(self, name: str, ns: int) -> int:
        """How many replicas had what was acknowledged: all, where there are fewer than the minimum."""
        kafka = self.config.section(KafkaSection)
        if [int(part) for part in (kafka.upgrade or kafka.version).split(".")] < [3, 7]:
            return self._minimum(name)
        kind = next((n for topic, n in FACTORS.items() if name.startswith(topic)), "")
        given = min(3, self.config.brokers) if kind else self.config.replication_factor
        copies = int(self.config.broker_settings.get(f"{kind}.replication.factor", given))
        for fault in self.faults:
            taken = fault.name.startswith("reassign:shrink") and set(fault.nodes) & self._replicas(name)
            if taken and fault.begin_ns <= ns < self.healed.get(fault.fault, EVER - TEN_S) + TEN_S:
                copies = min(copies, max(1, copies - 1))
                break
        return min(copies, self._minimum(name))

    def _of_topic(self, name: str, own: str, brokers: str, otherwise: str) -> str:
        given = self.config.broker_settings.get(brokers, otherwise)
        return given if name.startswith("__") else self.config.topic_settings.get(own, given)

    def _latest(self, name: str) -> int:
        """How long a running broker leaves records unflushed."""
        brokers = self.config.broker_settings
        scheduler = int(brokers.get("log.flush.scheduler.interval.ms", EVER))
        if scheduler >= 86_400_000:
            return EVER
        interval = int(self._of_topic(name, "flush.ms", "log.flush.interval.ms", str(scheduler)))
        delay = int(brokers.get("log.initial.task.delay.ms", 30_000))
        return (interval + 2 * scheduler + delay) * 10**6 + TEN_S

    def _together(self, name: str) -> int:
        """How many records are flushed together; EVER: no number narrows anything."""
        number = int(self._of_topic(name, "flush.messages", "log.flush.interval.messages", "0"))
        return number if 1 < number <= 65536 else EVER

    # Windows ------------------------------------------------------------------------------------

    def _replicas(self, name: str) -> set[int]:
        nodes = {n for e in self.roles for n in (e.leaders.get(name, -1), *e.isr.get(name, ()))}
        return nodes - {-1}

    def _leader(self, name: str) -> Iterator[tuple[int, int]]:
        replicas = self._replicas(name)
        led = [(e.ns, e.leaders.get(name, -1)) for e in self.roles]
        epochs = [e.epochs.get(name, EVER) for e in self.roles]
        for look, following, earlier, later in zip(led, led[1:], epochs, epochs[1:], strict=False):
            if look[1] >= 0 and later != EVER and later - earlier > 1:
                yield max(look[0], following[0] - TEN_S), following[0] + TEN_S
        first = next((at for at, (_, node) in enumerate(led) if node >= 0), -1)
        yield 0, led[first][0] if first >= 0 else EVER
        led = led[first:] if first >= 0 else []
        for (a, old), (b, new) in pairwise(led):
            if old < 0:
                yield a - TEN_S, b + TEN_S
            elif new != old:
                yield max(a, b - TEN_S), b + TEN_S
        if led and led[-1][1] < 0:
            yield led[-1][0] - TEN_S, EVER
        for fault in self.faults:
            if spares_brokers(fault.name):
                continue
            if set(fault.nodes) & replicas or not (fault.nodes or fault.slots):
                healed = self.healed.get(fault.fault)
                yield fault.begin_ns, EVER if healed is None else healed + TEN_S
        for end in self.ended:
            if end.end.node in replicas:
                yield end.ns - TEN_S, end.ns + TEN_S

    def _away(self, name: str) -> Iterator[tuple[int, int]]:
        """When a replica was out of sync for longer than tombstones stay."""
        kept = self.config.broker_settings.get("log.cleaner.delete.retention.ms", "86400000")
        kept_ns = kept_after_jumps(
            int(self.config.topic_settings.get("delete.retention.ms", kept)), self.events
        )
        for node in self._replicas(name):
            was, since = -1, EVER
            for event in self.roles:
                if node not in event.isr.get(name, ()):
                    if was >= 0:
                        since = min(since, max(was, event.ns - TEN_S))
                    continue
                if event.ns - since > kept_ns:
                    yield since, event.ns
                was, since = event.ns, EVER

    def _taken(self, name: str, span: Span) -> bool:
        """A loss of power may have taken it."""
        losses = [*self._losses(name, weak=span.weak)]
        if not span.weak or span.read:
            losses = [fault for fault in losses if not self._saved(name, fault)]
        needed = self._together(name) - 1
        some = [*self._power(name, weak=True)]
        counted = min(
            (ns for far, sent, ns in span.behind if far >= needed and not _meet(some, sent, ns)), default=EVER
        )
        spared = next((end for begin, end in _joined([*map(_window, losses)]) if begin > counted), EVER)
        for fault in losses:
            until = span.until
            if span.acked >= 0 and not self._young(name, fault):
                until = min(until, span.acked + self._latest(name))
            if _meet([_window(fault)], span.since, min(until, counted)):
                return True
            if _meet([_window(fault)], max(span.since, spared + 1), until):
                return True
        return False

    def _young(self, name: str, fault: FaultStarted) -> bool:
        """A replica may have had for less than the flusher's time what it had when the fault began."""
        replicas, begin = self._replicas(name), fault.begin_ns
        since = begin - self._latest(name)
        ended = any(e.ns < begin and e.end.node in replicas for e in self.ended)
        struck = any(
            other.begin_ns < begin
            and not spares_brokers(other.name)
            and self.healed.get(other.fault, EVER) >= since
            and (not replicas or set(other.nodes) & replicas or not (other.nodes or other.slots))
            for other in self.faults
        )
        came = any(
            a.ns < begin
            and since <= b.ns <= begin + TEN_S
            and not set(b.isr.get(name, ())) <= set(a.isr.get(name, ()))
            for a, b in pairwise(self.roles)
        )
        return ended or struck or came

    def _power(self, name: str, *, weak: bool) -> Iterator[tuple[int, int]]:
        return map(_window, self._losses(name, weak=weak))

    def _out(self, name: str) -> list[tuple[int, FaultStarted, int]]:
        """Nodes that lost their power, by which fault, and when they were in sync again."""
        replicas = self._replicas(name)
        return [
            (node, fault, self._back(name, node, fault))
            for fault in self.faults
            if fault.name.split(":")[0] == "power"
            for node in fault.nodes
            if node in replicas or not replicas
        ]

    @staticmethod
    def _then(out: list[tuple[int, FaultStarted, int]], fault: FaultStarted) -> dict[int, int]:
        """Those that were out when a fault began."""
        return {n: back for n, of, back in out if of.begin_ns <= fault.ns and back >= fault.begin_ns}

    def _saved(self, name: str, fault: FaultStarted) -> bool:
        """One that lost no power was in sync all along, beside leaders of which none had lost any."""
        then = self._then(self._out(name), fault)
        looks = [e for e in self.roles if e.ns <= max(then.values())]
        earlier = [e for e in looks if e.ns < fault.begin_ns]
        looks = earlier[-1:] + looks[len(earlier) :]
        for e in looks:
            if e.leaders.get(name, -1) == -1:
                return False
            if e.leaders[name] in then and e.leaders[name] in e.answering and e.ns > fault.ns:
                return False
        same = [set(e.isr.get(name, ())) for e in looks]
        seen = bool(earlier) and looks[-1].ns > fault.ns
        return seen and bool(set.intersection(*same) - then.keys())

    def _losses(self, name: str, *, weak: bool) -> Iterator[FaultStarted]:
        every = self._of_topic(name, "flush.messages", "log.flush.interval.messages", "")
        if every == "1":
            return
        out = self._out(name)
        for _, fault, _ in out:
            if len(self._then(out, fault)) >= (1 if weak else self._least(name, fault.begin_ns)):
                yield fault

    def _back(self, name: str, node: int, fault: FaultStarted) -> int:
        """When a node that lost its power was in sync again."""
        healed = self.healed.get(fault.fault)
        gone = False
        for event in self.roles:
            led, inside = event.leaders.get(name, -1) >= 0, node in event.isr.get(name, ())
            if event.ns < fault.begin_ns:
                gone = not inside and led
            if event.ns < fault.ns:
                gone = gone and not inside
                continue
            if gone and inside and led and healed is not None and event.ns >= healed:
                return event.ns
            gone = gone or not inside or not led
        return EVER


def _meet(windows: list[tuple[int, int]], since: int, until: int) -> bool:
    """Whether a window has a moment in common with a span of time."""
    return since <= until and any(begin <= until and end >= since for begin, end in windows)


def _joined(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Windows that overlap are one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(windows):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _window(fault: FaultStarted) -> tuple[int, int]:
    return fault.begin_ns, fault.ns


def version(config: RunConfig) -> tuple[int, ...]:
    """Of the brokers (of Kafka, which is all that is made here)."""
    return tuple(int(part) for part in config.section(KafkaSection).version.split("."))


def fences(config: RunConfig) -> bool:
    """Whether the brokers have KIP-447."""
    return version(config) >= (2, 5)


def remembered_ms(config: RunConfig) -> int:
    """How long brokers remember an idle producer."""
    if version(config) < (3, 4):
        return int(config.broker_settings.get("transactional.id.expiration.ms", 7 * 86_400_000))
    return int(config.broker_settings.get("producer.id.expiration.ms", 86_400_000))


def retention(config: RunConfig) -> bool:
    """Whether a limit may remove records within a run."""
    own, brokers = config.topic_settings, config.broker_settings
    policies = {policy.strip() for policy in own.get("cleanup.policy", "delete").split(",")}
    if "delete" not in policies:
        return False
    if int(own.get("retention.bytes", brokers.get("log.retention.bytes", -1))) >= 0:
        return True
    hours = int(brokers.get("log.retention.hours", 7 * 24))
    minutes = int(brokers.get("log.retention.minutes", 60 * hours))
    limit = int(own.get("retention.ms", brokers.get("log.retention.ms", 60_000 * minutes)))
    return 0 <= limit < 2 * 86_400_000
