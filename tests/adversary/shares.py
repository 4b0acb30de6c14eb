"""Share groups of the small Kafka (KIP-932): leaders hold locks and counts, members acknowledge records.

Some of the recorded runs have one (`tests.adversary.removals.SHARES`). A leader that changes forgets who
holds what, and how often a record was delivered since that was stored last. Not here: what the naive judge
says of them (`tests.adversary.share_classes`).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from core.op import Acknowledgement, End, Outcome
from history.events import Event, FaultStarted, NodeEnded, RolesSeen, ShareOffsetsListed
from history.tables import OPEN
from tests.adversary.rows import Row
from tests.adversary.world import MARKER, MS, RC, RU, Entry, Log, Op, Steps, World

SHARE = 2
"""The number of the share group."""
LIMIT = "group.share.delivery.count.limit"
OTHERS = (Acknowledgement.RELEASE, Acknowledgement.REJECT, Acknowledgement.RENEW)
SHARE_BUGS = (
    "share-again",
    "share-two",
    "share-passed",
    "share-aborted",
    "share-same-count",
    "share-too-often",
)
IN_CALM = ("share-two", "share-same-count")
"""Those of which nothing is asked while leaders may change."""


@dataclass
class Held:
    """What a leader knows of a record. stored: how often it was delivered, by what outlives the leader."""

    holder: int = -1
    until: int = 0
    count: int = 0
    stored: int = 0
    ended: bool = False

    def free(self) -> None:
        """Nobody holds it any more."""
        self.holder, self.stored = -1, self.count


@dataclass
class Shared:
    """The share group."""

    level: int
    lock_ns: int
    limit: int
    of: dict[int, dict[int, Held]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Held)))
    led: dict[int, tuple[int, int]] = field(default_factory=dict)

    def records(self, log: Log) -> dict[int, Held]:
        """What the present leader of a partition knows."""
        led = log.leader, log.epoch
        if self.led.setdefault(log.tp, led) != led:
            self.led[log.tp] = led
            for one in self.of[log.tp].values():
                one.holder, one.count = -1, one.stored
        return self.of[log.tp]

    def left(self, process: int) -> None:
        """The connection of a member broke: what it held is free."""
        for records in self.of.values():
            for one in records.values():
                if one.holder == process:
                    one.free()


def shared(world: World) -> list[Steps]:
    """A share group with some members."""
    config = world.plan.config
    lock = 2000 * MS if config.workload == "share" else 30_000 * MS
    limit = int(config.broker_settings.get(LIMIT, 5))
    world.shared = Shared(world.rng.choice((RC, RC, RU)), lock, limit)
    return [_member(world, 70 + n, world.shared) for n in range(world.rng.randint(1, 3))]


def _member(world: World, slot: int, shared: Shared) -> Steps:
    rng = world.rng
    while world.budget > 0:
        process = world.start(slot, group=SHARE, isolation=shared.level)
        asked, held = world.now, list[tuple[int, int]]()
        for _ in range(rng.randint(4, 15)):
            world.budget -= 1
            op = world.begin(process, "poll")
            since = asked if world.chance(0.5) else op.invoke
            yield
            got = [
                (log, *one)
                for log in world.logs
                if world.chance(0.7)
                for one in _acquired(world, shared, log, op)
            ]
            if world.chance(0.05):  # the client dies with what it was given
                world.end(op, Outcome.INFO)
                op.complete = -1
                world.processes[process]["end"] = rng.choice((End.CRASHED, End.REPLACED))
                break
            if world.chance(0.3):
                yield
            _given(world, op, since, got)
            held += [(log.tp, entry.offset) for log, entry, _ in got]
            asked = world.now
            world.end(op, Outcome.OK)
            yield
            if held and world.chance(0.6):
                yield from _acknowledged(world, shared, process, held)
        shared.left(process)
        yield


def _acquired(world: World, shared: Shared, log: Log, op: Op) -> list[tuple[Entry, int]]:
    """Records that a leader gives to a member, and how often each was delivered by then."""
    if log.lost:
        return []
    now, records, found = world.now, shared.records(log), list[tuple[Entry, int]]()
    for entry in log.visible(shared.level, log.start):
        one = records[entry.offset]
        if len(found) >= world.rng.randint(1, 4):
            break
        if one.ended and not _strikes(world, "share-again", 0.5, log, entry):
            continue
        if one.holder >= 0 and now < one.until:
            soon = one.until - now > shared.lock_ns // 2  # else the lock may end before the record comes
            if not (soon and _strikes(world, "share-two", 0.5, log, entry)):
                continue
        if one.holder >= 0:
            one.free()
        if one.count >= shared.limit and not _strikes(world, "share-too-often", 0.9, log, entry):
            one.ended = True
            continue
        if not one.count and _strikes(world, "share-passed", 0.3, log, entry):
            one.ended = True
            continue
        one.ended = False
        one.count += not (one.count and _strikes(world, "share-same-count", 0.5, log, entry))
        one.holder, one.until = op.process, now + shared.lock_ns
        found.append((entry, one.count))
    if shared.level == RC:
        hidden = [e for e in log.entries if e.value != MARKER and log.fate.get(e.token) == "abort"]
        for entry in hidden[:1]:
            if _strikes(world, "share-aborted", 0.5, log, entry):
                records[entry.offset].count += 1
                found.append((entry, records[entry.offset].count))
    return found


def _given(world: World, op: Op, since: int, got: list[tuple[Log, Entry, int]]) -> None:
    """A poll returned these."""
    end = world.tick()
    for log, entry, count in got:
        op.deliveries.append(
            {
                "group": SHARE, "tp": log.tp, "process": op.process, "offset": entry.offset,
                "value": entry.value, "delivery_count": count, "since_ns": since, "invoke_ns": op.invoke,
                "complete_ns": end,
            }
        )  # fmt: skip


def _acknowledged(world: World, shared: Shared, process: int, held: list[tuple[int, int]]) -> Steps:
    """A member says what has become of its records; of some it says nothing for now."""
    rng, op = world.rng, world.begin(process, "poll")
    for tp, offset in list(held):
        if world.chance(0.3):
            continue
        begin = world.tick()
        if world.chance(0.2):
            yield
        one = shared.records(world.logs[tp])[offset]
        kind = rng.choice((Acknowledgement.ACCEPT,) * 5 + OTHERS)
        if kind is not Acknowledgement.RENEW:
            held.remove((tp, offset))
        good = not world.logs[tp].lost and not one.ended and one.holder == process and world.now < one.until
        unheard = world.chance(0.06)
        if good and not (unheard and world.chance(0.5)):
            if kind is Acknowledgement.RENEW:
                one.until = world.now + shared.lock_ns
            else:
                one.free()
            one.ended = kind in (Acknowledgement.ACCEPT, Acknowledgement.REJECT)
        done = good or offset < _start(shared, world.logs[tp])
        outcome = Outcome.INFO if unheard else Outcome.OK if done else Outcome.FAIL
        op.acknowledgements.append(
            {
                "group": SHARE, "tp": tp, "process": process, "offset": offset, "kind": kind,
                "outcome": outcome, "invoke_ns": begin,
                "complete_ns": OPEN if unheard else world.tick(),
            }
        )  # fmt: skip
    world.end(op, Outcome.OK)
    yield


def _start(shared: Shared, log: Log) -> int:
    """Below, the group is done with every record."""
    records = shared.of[log.tp]
    waiting = [e.offset for e in log.visible(shared.level, log.start) if not records[e.offset].ended]
    return min(waiting, default=log.high)


def listed(world: World, ns: int) -> list[Event]:
    """How far the group is, once its members have ended; now and then another group is listed, too."""
    if world.shared is None:
        return []
    rows = [("g2", f"t{log.tp}", 0, _start(world.shared, log)) for log in world.logs if not log.lost]
    if world.chance(0.05):
        rows.append(("g9", "t0", 0, 1))
    return [ShareOffsetsListed(ns=ns, rows=tuple(rows))]


def disturbs(event: Event) -> bool:
    """Whether locks and counts may be lost by it."""
    return isinstance(event, NodeEnded) or (
        isinstance(event, FaultStarted) and bool(event.nodes or not event.slots)
    )


def _strikes(world: World, bug: str, share: float, log: Log, entry: Entry) -> bool:
    """Whether a bug strikes, that the history has to show where nothing disturbed the group."""
    if not world.strikes(bug, share):
        return False
    offset, value, shared, struck = entry.offset, entry.value, world.shared, world.now
    assert shared is not None

    def told() -> list[Row]:
        given = [row for op in world.ops for row in op.deliveries]
        return [row for row in given if (row["tp"], row["offset"], row["value"]) == (log.tp, offset, value)]

    def passed() -> bool:
        """No member ended it, and none can have been given it unseen as often as it may be."""
        own = [row for row in world.processes if row["group"] == SHARE]
        found = world.op_of(log.tp, value)
        shown = any(
            row["tp"] == log.tp and row["isolation"] == RC and row["complete"] for row in world.bounds
        )
        promised = world.promised(log.tp, value) and world.holds(log.tp, value) and log.holds(entry)
        listed = shown and promised and not log.lost and _start(shared, log) > offset
        return bool(listed and not (log.asked or told()) and found and len(own) < shared.limit)

    def aborted() -> bool:
        found = world.op_of(log.tp, value)
        return bool(told()) and found is not None and found[0].txn and found[0].outcome == Outcome.FAIL

    match bug:
        case "share-again":
            world.promise(bug, lambda: _again(world, log.tp, offset, told()), "share-redelivery")
        case "share-passed":
            world.promise(bug, passed, "share-skip")
        case "share-aborted":
            world.promise(bug, aborted, "share-aborted-read")
        case "share-too-often":
            often = shared.limit
            world.promise(
                bug, lambda: any(d["delivery_count"] > often and d["complete_ns"] >= struck for d in told()),
                "share-over-limit",
            )  # fmt: skip
        case "share-two":
            world.promise(bug, lambda: _two_hold(world, log.tp, offset), "share-two-holders")
        case "share-same-count":
            world.promise(bug, lambda: _counts_stand(world, log.tp, offset), "share-count")
    return True


def _again(world: World, tp: int, offset: int, told: list[Row]) -> bool:
    """The answer to what ended it came while its lock lasted, before it was asked for again."""
    assert world.shared is not None
    lock_ns = world.shared.lock_ns
    ends = (Acknowledgement.ACCEPT, Acknowledgement.REJECT)
    acks = [a for a in _said(world, tp, offset) if a["outcome"] == Outcome.OK and a["kind"] in ends]
    return any(
        d["process"] == a["process"]
        and d["complete_ns"] <= a["invoke_ns"]
        and a["complete_ns"] <= d["since_ns"] + lock_ns
        and any(x["since_ns"] > a["complete_ns"] for x in told)
        for a in acks
        for d in told
    )


def _two_hold(world: World, tp: int, offset: int) -> bool:
    """A member was given the record within the lock of another delivery, of which nothing was said by then,
    and a leader answered later what was said of its op."""
    assert world.shared is not None
    lock_ns = world.shared.lock_ns
    return any(
        d2["complete_ns"] < d1["since_ns"] + lock_ns
        and not any(
            a["process"] == d1["process"] and a["invoke_ns"] <= d2["complete_ns"]
            for a in _said(world, tp, offset)
        )
        and _answered(world, d1, d2["complete_ns"])
        for d1, d2 in _neighbours(world, tp, offset)
    )


def _answered(world: World, given: Row, ns: int) -> bool:
    """The leader answered, then or later, what a member said of a record that it was given with this one,
    before it was given that record again."""
    of = given["tp"], given["process"], given["invoke_ns"]
    rows = (row for op in world.ops for row in op.deliveries)
    for row in (row for row in rows if (row["tp"], row["process"], row["invoke_ns"]) == of):
        own = [d for d in _deliveries(world, row["tp"], row["offset"]) if d["process"] == row["process"]]
        for a in _said(world, row["tp"], row["offset"]):
            if a["process"] == row["process"] and a["outcome"] != Outcome.INFO and a["complete_ns"] >= ns:
                known = [d for d in own if d["complete_ns"] <= a["invoke_ns"]]
                if known and known[-1] is row:
                    return True
    return False


def _counts_stand(world: World, tp: int, offset: int) -> bool:
    """A later delivery has no higher count."""
    return any(d2["delivery_count"] <= d1["delivery_count"] for d1, d2 in _neighbours(world, tp, offset))


def _neighbours(world: World, tp: int, offset: int) -> list[tuple[Row, Row]]:
    """Neighbouring deliveries, the second of which was asked for after the first."""
    return [(a, b) for a, b in pairwise(_deliveries(world, tp, offset)) if a["complete_ns"] < b["since_ns"]]


def _deliveries(world: World, tp: int, offset: int) -> list[Row]:
    """Deliveries of one offset, in their order."""
    rows = [row for op in world.ops for row in op.deliveries if (row["tp"], row["offset"]) == (tp, offset)]
    return sorted(rows, key=lambda row: row["complete_ns"])


def _said(world: World, tp: int, offset: int) -> list[Row]:
    """Acknowledgements of one offset."""
    return [
        row for op in world.ops for row in op.acknowledgements if (row["tp"], row["offset"]) == (tp, offset)
    ]


def led_alike(events: list[Event]) -> bool:
    """All looks name the same leader of each partition, in the same epoch."""
    looks = [event for event in events if isinstance(event, RolesSeen)]
    led: dict[str, set[tuple[int, int | None]]] = defaultdict(set)
    for look in looks:
        for name, leader in look.leaders.items():
            led[name].add((leader, look.epochs.get(name)))
    return all(len(found) == 1 and min(found)[0] >= 0 for found in led.values())
