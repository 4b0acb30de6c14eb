"""Applications of the small Kafka: a program's instances between input and output, and what they leave.

As of the harness' own runs: instances record nothing of what they do. What they made is found by the last
reader, as copies of one more process (docs/checks.md, "Exactly once").
"""

from dataclasses import dataclass, field

from core.config import Application
from core.op import DATABASE, CommitKind, End, Outcome, value_of
from tests.adversary.clients import BESIDE, READING_ON, producer, transactional
from tests.adversary.rows import Row
from tests.adversary.world import RU, Asked, Entry, Group, Log, Op, Steps, TxnId, World

GROUP = 2
SLOTS = (40, 41)
WRONGS = ("app-loses", "app-repeats", "app-dirty", "app-invents", "app-behind", "app-late")
UNREADABLE, UNCOMMITTED = 0, 4
"""Reasons of foreign records."""
NUMBERS = 7_777 << 32
"""Output records of the small Kafka have values from here on; the last reader gives them others."""
LIVES = 8
"""So often an instance is started."""
ROUNDS = 60
"""After so many an instance is still at work."""


@dataclass
class App:
    """An application. made: of each output record the partition and the value of its input. rows: places of
    the input of which a database has a row, where it refuses a second one. feeding: clients that still write
    the input. reader: what the last reader has found."""

    its: Application
    group: Group
    inputs: list[int]
    outputs: list[int]
    made: dict[int, tuple[int, int]] = field(default_factory=dict)
    rows: set[tuple[int, int]] = field(default_factory=set)
    feeding: int = 0
    reader: "Reader | None" = None


@dataclass
class Reader:
    """What the last reader at read_committed has found. process: whose copies it journals. inputs: offsets of
    each value, by partition. copies: place, value, and partition and offset of the input."""

    process: int
    inputs: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    copies: list[tuple[int, int, int, tuple[int, int]]] = field(default_factory=list)
    read: set[int] = field(default_factory=set)


# Its run ----------------------------------------------------------------------------------------


def topics(world: World, its: Application) -> None:
    """The first half of the partitions is the input, the second the output. Of one with effects all are the
    input, and each has a partition of a database."""
    half = len(world.logs) // (1 if its.effects else 2)
    for log in world.logs:
        log.base = its.input if log.tp < half else its.output
        log.partition = log.tp % half
    world.fed = half
    if its.effects:
        many = range(half)
        world.database = [Log(half + n, base=DATABASE, partition=n) for n in many]
    tps = [log.tp for log in (*world.logs, *world.database)]
    world.app = App(its, Group(GROUP, tps[:half]), tps[:half], tps[half:])
    world.groups.append(world.app.group)
    world.budget += 10
    if world.plan.config.isolation == RU:
        world.planted.append("~unstable")


def clients(world: World) -> list[Steps]:
    """Those that write the input, the instances, and what stops these for a while."""
    app: App = world.app
    feeders = [producer(world, 0), transactional(world, 1, 1, False)]
    feeders += [producer(world, slot) for slot in range(2, world.rng.randint(2, 4))]
    app.feeding = len(feeders)
    instances = [_instance(world, slot) for slot in SLOTS[: world.rng.randint(1, 2)]]
    return [*(_feeding(app, steps) for steps in feeders), *instances, _pauses(world)]


def _feeding(app: App, steps: Steps) -> Steps:
    yield from steps
    app.feeding -= 1


def _pauses(world: World) -> Steps:
    """Members stand still: others take their partitions, and then they continue with what they had."""
    app: App = world.app
    for _ in range(world.rng.randint(0, 3)):
        for _ in range(world.rng.randint(3, 30)):
            yield
        if len(app.group.members) > 1:
            stopped = world.rng.choice(app.group.members)
            app.group.members.remove(stopped)
            _rebalance(world, app.group)
            for _ in range(world.rng.randint(1, 8)):
                yield
            if world.processes[stopped]["end"] != End.CRASHED:
                app.group.members.append(stopped)
            _rebalance(world, app.group)


def _rebalance(world: World, group: Group) -> None:
    group.generation += 1
    group.owner = {tp: world.rng.choice(group.members) for tp in group.tps if group.members}


# Instances --------------------------------------------------------------------------------------


def _settings(world: World) -> Row:
    unknown = {"retries": -1, "in_flight": -1, "socket_timeout_ms": -1}
    return {"group": GROUP, "isolation": int(world.plan.config.isolation), "acks": -1} | unknown


def _instance(world: World, slot: int) -> Steps:
    """One after the other: one that died is started again."""
    group: Group = world.app.group
    for _ in range(LIVES):
        process = world.start(slot, **_settings(world))
        group.members.append(process)
        _rebalance(world, group)
        op = world.begin(process, "instance")
        died = yield from _works(world, op, slot)
        if process in group.members:
            group.members.remove(process)
        _rebalance(world, group)
        if not died:
            return
        world.processes[process]["end"] = End.CRASHED
        yield


def _works(world: World, op: Op, slot: int) -> Asked:
    """Until it has nothing more to do, or dies; whether it died."""
    app: App = world.app
    known = world.ids.setdefault(slot, TxnId())
    _abort(world, known)
    for _ in range(ROUNDS):
        yield
        if world.chance(0.04):
            world.processes[op.process]["end_ns"] = world.tick()
            return True
        own = [tp for tp in app.inputs if app.group.owner.get(tp) == op.process]
        found = [(tp, some) for tp in own if (some := _given(world, tp))]
        if found:
            tp, some = world.rng.choice(found)
            if (yield from _processed(world, op, known, tp, some)):
                continue
            world.processes[op.process]["end_ns"] = world.tick()
            return True  # it is started again
        if world.later:
            world.land()
        elif not app.feeding and world.ids[1].token >= 0 and world.chance(0.9):
            _abort(world, world.ids[1])
        elif not app.feeding and op.process in app.group.members:
            break
    else:
        world.end(op, Outcome.INFO)  # still at work
        return False
    for tp in own:
        at = app.group.committed.get(tp, 0)
        if at and world.strikes("app-behind", 0.8):
            app.group.committed[tp] = at - 1
    world.end(op, Outcome.OK if world.chance(0.95) else Outcome.INFO)
    return False


def _given(world: World, tp: int) -> list[Entry]:
    """What a fetch behind the committed offset returns; it waits for offsets that are being committed."""
    app: App = world.app
    log, at = world.logs[tp], app.group.committed.get(tp, 0)
    if log.lost or any(each[1] == tp for each in app.group.pending):
        return []
    if at > log.end:  # truncated: it goes to the beginning
        at = log.start
    level = world.plan.config.isolation
    some = log.visible(level, max(at, log.start))[: world.rng.randint(1, 4)]
    dirty = log.visible(RU, max(at, log.start))[:3]
    if [e.value for e in dirty] != [e.value for e in some[:3]] and world.strikes("app-dirty", 0.5):
        return dirty
    return some


def _abort(world: World, known: TxnId) -> None:
    """The transaction of a predecessor is aborted (InitProducerId)."""
    if known.token >= 0:
        for log in world.logs:
            if log.fate.get(known.token) == "open":
                log.mark(known.token, "abort")
        world.drop(known.token)
        known.token = -1


def _processed(world: World, op: Op, known: TxnId, tp: int, some: list[Entry]) -> Asked:
    """Whether an instance did what it had to with some records of a partition; else it dies."""
    group: Group = world.app.group
    mode, generation, at = world.plan.config.commit, group.generation, some[-1].offset + 1
    txn = mode in READING_ON or mode == "transaction"
    while txn and known.left:
        world.land()
        yield
    if txn:
        known.token = token = world.tokens
        world.tokens += 1
    yield
    early = mode == "before" or (mode == "automatic" and world.chance(0.5))
    if early and not _committed(group, generation, tp, at):
        return True  # it is another one's
    good = yield from _written(world, tp, some, known.token if txn else -1)
    if not good or world.chance(0.05):
        return False
    if world.chance(0.3):
        yield
    if not txn:
        if not early and (mode == "after" or world.chance(0.7)):
            _committed(group, generation, tp, at)
        return True
    if known.token != token:
        return False
    if mode in BESIDE:
        own = _committed(group, generation, tp, at) if mode == "beside" or world.chance(0.7) else True
        if world.chance(0.2):
            return False  # it dies, and its transaction is aborted
        world.decide(known, token, "commit" if own and world.chance(0.8) else "abort", None, {})
        return True
    if generation == group.generation:
        group.pending.append((token, tp))
        world.decide(known, token, "commit", group, {tp: at})
    else:
        world.decide(known, token, "abort", None, {})
    return True


def _committed(group: Group, generation: int, tp: int, at: int) -> bool:
    """Whether the coordinator takes an offset."""
    if generation == group.generation:
        group.committed[tp] = at
    return generation == group.generation


def _written(world: World, tp: int, some: list[Entry], token: int) -> Asked:
    """Write what is made of records; whether all was acknowledged."""
    app: App = world.app
    if len(some) > 1 and world.strikes("app-late"):
        some = some[::-1]
    to = app.outputs[app.inputs.index(tp) if world.database or world.chance(0.8) else 0]
    for entry in some:
        if (app.its.may_omit and entry.value % 3 == 0) or world.strikes("app-loses", 0.2):
            continue
        if world.database and world.plan.config.commit == "transaction":
            if (tp, entry.offset) in app.rows:
                continue  # the database refuses a second row of a place
            app.rows.add((tp, entry.offset))
        times = 2 if world.strikes("app-repeats", 0.2) else 1
        for _ in range(times):
            if not (yield from _sent(world, _log(world, to), (tp, entry.value), token)):
                return False
        if world.strikes("app-invents", 0.2):
            yield from _sent(world, _log(world, to), (tp, 9_998 << 32), token)
    return True


def _log(world: World, tp: int) -> Log:
    return [*world.logs, *world.database][tp]


def _sent(world: World, log: Log, made: tuple[int, int], token: int) -> Asked:
    """Write one output record, until all in-sync replicas have it; whether they do."""
    app: App = world.app
    number = NUMBERS + len(app.made)
    app.made[number] = made
    if world.database:
        log.append(number)
        log.high = log.end
        return True
    for _ in range(8):
        if log.lost:
            return False
        entry = log.append(number, token)
        if world.chance(0.3):
            yield
        if log.holds(entry) or number in log.deleted:
            log.high = max(log.high, entry.offset + 1)
            return True
    return False


# The last reader --------------------------------------------------------------------------------


def begin_reading(world: World) -> None:
    """The last reader at read_committed begins, with the input."""
    world.app.reader = Reader(world.start(SLOTS[0], **_settings(world)))
    for log in world.database:  # a command lists them, in whatever order
        world.rng.shuffle(log.entries)
        for offset, entry in enumerate(log.entries):
            entry.offset = offset


def skips(world: World, tp: int, level: int) -> bool:
    """Whether a reader leaves a partition out: what is not committed is no output."""
    return world.app is not None and level == RU and tp in world.app.outputs


def found(world: World, op: Op, log: Log, some: list[Entry], *, whole: bool) -> list[Entry]:
    """What the last reader makes of records: input as it is, output as copies; it notes what is foreign.
    whole: it came to the end."""
    app: App = world.app
    reader = app.reader
    if reader is None:
        return some
    if whole:
        reader.read.add(log.tp)
    if log.tp in app.inputs:
        for entry in some:
            reader.inputs.setdefault((log.tp, entry.value), []).append(entry.offset)
        return some
    own = []
    for entry in some:
        number = app.made.get(entry.value)
        source = None if number is None else _source(app, reader, *number)
        if source is None:
            payload = b"?" if number is None else b"%d" % number[1]
            reason = UNREADABLE if number is None else UNCOMMITTED
            op.foreign.append({"tp": log.tp, "offset": entry.offset, "reason": reason, "payload": payload})
            continue
        value = value_of(reader.process, len(reader.copies) + 1)
        reader.copies.append((log.tp, entry.offset, value, source))
        own.append(Entry(entry.offset, value, entry.token))
    return own


def _source(app: App, reader: Reader, tp: int, value: int) -> tuple[int, int] | None:
    """The input of output that names a value: of a doubled one each in turn. None: it has none."""
    offsets = reader.inputs.get((tp, value))
    if offsets is None:
        unread = tp not in reader.read
        return (-1, -1) if unread else None
    times = reader.times[value] = reader.times.get(value, 0) + 1
    return tp, offsets[min(times, len(offsets)) - 1]


def left(world: World, begin: int) -> None:
    """What was found becomes the journal of one more process."""
    app: App = world.app
    reader = app.reader
    if reader is None:
        return
    end = world.tick()
    world.processes[reader.process] |= {"start_ns": end, "end_ns": end}
    for some in (True, False):
        rows = [each for each in reader.copies if (each[3] != (-1, -1)) is some]
        if not rows:
            continue
        op = _journaled(world, reader.process, begin, end)
        for tp, offset, value, source in rows:
            row = world.send(op, tp, source)
            row |= {"value": value, "offset": offset, "outcome": Outcome.OK}
            row |= {"invoke_ns": begin, "ack_ns": end}
    if {*app.outputs} <= reader.read and world.chance(0.97):
        op = _journaled(world, reader.process, begin, end)
        for tp in app.inputs:
            at = app.group.committed.get(tp, 0)
            world.commit(op, tp, at, CommitKind.SYNC, Outcome.OK, -1, begin)
            op.commits[-1]["complete_ns"] = end


def _journaled(world: World, process: int, begin: int, end: int) -> Op:
    op = world.begin(process, "application")
    op.invoke, op.complete, op.outcome = begin, end, Outcome.OK
    return op
