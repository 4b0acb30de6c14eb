"""Lone clients of the small Kafka: producers, transactions, consumers.

A client is a generator: between two steps the others act. What it learns is recorded as the harness would.
Not here: groups (`tests.adversary.members`).
"""

from itertools import starmap

from core.op import AssignmentKind, End, Outcome
from tests.adversary.rows import Row
from tests.adversary.world import MARKER, MS, RC, RU, Ended, Entry, Group, Log, Op, Steps, TxnId, World

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
BESIDE = ("beside", "automatic-beside")
"""Ways to commit offsets beside the transaction of the copies."""
READING_ON = ("without-rewind", *BESIDE)
"""Ways to commit offsets of copies in a transaction, after whose abort the copier reads on."""

# Sending ----------------------------------------------------------------------------------------


def deliver(world: World, row: Row, token: int = -1) -> Steps:
    """Send one record; its row says what the client learned."""
    log, settings = world.logs[row["tp"]], world.processes[row["process"]]
    if world.chance(0.04) or (token >= 0 and is_fenced(world, row["process"])):
        row["outcome"] = FAIL
        return
    if log.lost:
        row["outcome"] = world.rng.choice((FAIL, INFO, INFO))
        return
    if log.replaced is not None and settings["acks"] != -1 and world.chance(0.4):
        log = log.replaced
    entry = log.append(row["value"], token)
    if world.chance(0.3):
        yield
    plain = not settings["idempotent"]
    if plain and settings["retries"] and world.chance(0.08):
        log.append(row["value"], token)  # the answer was lost, and the record is sent again
    if settings["acks"] == -1:
        while world.chance(0.3):
            yield
        for _ in range(20):
            if log.holds(entry) or entry.value in log.deleted:
                log.high = max(log.high, entry.offset + 1)
                break
            yield
            if not settings["retries"] or (token >= 0 and is_fenced(world, row["process"])):
                return
            entry = log.append(row["value"], token)  # the leader changed: again
        else:
            return
    if world.chance(0.05):
        return  # in doubt
    row["outcome"] = OK
    row["offset"] = -1 if settings["acks"] == 0 or world.chance(0.05) else entry.offset
    row["ack_ns"] = world.tick()


def is_fenced(world: World, process: int) -> bool:
    """Whether another process has taken the transactional id, and brokers know that."""
    owner = world.ids[world.processes[process]["txn_id"]].owner
    return owner != process and process not in world.zombies


def _producing(world: World, **more: int) -> dict[str, int]:
    config, rng = world.plan.config, world.rng
    idempotent = config.idempotent and config.acks == -1
    settings = {"acks": int(config.acks), "idempotent": int(idempotent)}
    if not idempotent:
        settings["retries"] = rng.choice((0, 2**31 - 1, 2**31 - 1))
        settings["in_flight"] = rng.choice((1, 5, 5))
    return settings | more


def producer(world: World, slot: int) -> Steps:
    """Records without transactions."""
    rng = world.rng
    settings = _producing(world)
    if world.plan.portable:
        settings["isolation"] = RC
    process = world.start(slot, **settings)
    while world.budget > 0:
        world.budget -= 1
        op = world.begin(process, "send")
        rows = [
            world.send(op, rng.randrange(world.fed))
            for _ in range(1 if world.plan.portable else rng.randint(1, 3))
        ]
        stuck: set[int] = set()
        yield
        for row in rows:
            if row["tp"] in stuck:
                continue  # an idempotent producer writes nothing past one in doubt
            yield from deliver(world, row)
            if row["outcome"] == INFO:
                stuck.add(row["tp"])
        outcomes = {row["outcome"] for row in rows}
        outcome = outcomes.pop() if len(outcomes) == 1 else INFO
        world.end(op, outcome)
        yield
        if outcome == INFO:
            world.processes[process]["end"] = End.REPLACED
            process = world.start(slot, **settings)


# Transactions -----------------------------------------------------------------------------------


def begin_txn(world: World, process: int, fresh: bool) -> tuple[TxnId, int]:
    """A transaction begins; -1 = the process is fenced. fresh: the process takes the id (InitProducerId)."""
    known = world.ids.setdefault(world.processes[process]["txn_id"], TxnId())
    if fresh:
        if known.token >= 0:
            for log in world.logs:
                if log.fate.get(known.token) == "open":
                    log.mark(known.token, "abort")
            world.drop(known.token)
        known.owner = process
    if known.owner != process:
        if not world.strikes("zombie", 0.7):
            return known, -1
        world.zombies.add(process)
    known.token = world.tokens
    world.tokens += 1
    return known, known.token


def transactional(world: World, slot: int, txn_id: int, reads: bool) -> Steps:
    """Transactions over several partitions, some with polls."""
    rng = world.rng
    more = {"txn_id": txn_id, "acks": -1, "idempotent": 1}
    if reads or world.plan.portable:
        more["isolation"] = rng.choice((RC, RC, RU)) if not world.plan.portable else RC
    process, fresh = world.start(slot, **more), True
    positions: dict[int, int] = {}
    while world.budget > 0:
        world.budget -= 1
        while world.ids.get(txn_id, TxnId()).left:
            world.land()
            yield
        op = world.begin(process, "txn", txn=True)
        known, token = begin_txn(world, process, fresh)
        fresh = False
        op.deliberate = token >= 0 and world.chance(0.15)
        if reads and not positions:
            for log in world.logs:
                world.assign(op, log.tp, AssignmentKind.MANUAL)
                _begin(world, op, log.tp, positions)
        before = dict(positions)
        failed = False
        for _ in range(rng.randint(1, 4)):
            yield
            if reads and world.chance(0.4):
                poll(world, op, positions)
                continue
            row = world.send(op, rng.randrange(world.fed))
            if token < 0 or is_fenced(world, process):
                row["outcome"] = FAIL
                failed = True
                break
            yield from deliver(world, row, token)
            failed = failed or row["outcome"] == FAIL
        outcome = yield from end_txn(world, op, known, token, failed, None, {})
        if outcome != OK and reads:
            positions = before
            for tp in positions:
                world.assign(op, tp, AssignmentKind.REWIND)
        if outcome == INFO:
            world.processes[process]["end"] = rng.choice((End.REPLACED, End.CRASHED))
            process, fresh, positions = world.start(slot, **more), True, {}


def end_txn(
    world: World, op: Op, known: TxnId, token: int, failed: bool, group: Group | None, offsets: dict[int, int]
) -> Ended:
    """Commit or abort; the outcome that the client learns."""
    fenced = token < 0 or known.token != token
    if fenced and not (token >= 0 and op.process in world.zombies and op.sends):
        world.drop(token)
        world.end(op, INFO if world.chance(0.5) else FAIL)
        yield
        return op.outcome
    doubt = world.chance(0.12)
    abort = failed or op.deliberate or (doubt and world.chance(0.5)) or _unwritten(world, op)
    if not abort:
        for row in op.sends:
            log = world.logs[row["tp"]]
            there = [e for e in log.entries if e.value == row["value"]]
            if row["outcome"] != FAIL:
                if not there and row["outcome"] != OK and row["value"] not in log.deleted:
                    there = [log.append(row["value"], token)]
                log.high = max(log.high, there[-1].offset + 1) if there else log.high
                row["outcome"] = OK if not doubt else row["outcome"]
                row["ack_ns"] = row["ack_ns"] if row["ack_ns"] >= 0 or row["outcome"] != OK else world.tick()
    fate = "abort" if abort else "commit"
    heir = world.ids[known_id(world, op)].owner
    if heir != op.process and fate == "commit":
        world.promise("zombie", lambda: _took_over(world, op, heir), "zombie-write")
    if fate == "commit" and group is not None and world.strikes("eos-loss"):
        copies = [(world.logs[row["tp"]], [row["value"]]) for row in op.sends]
        world.promise("eos-loss", lambda: any(starmap(world.hidden, copies)), "lost-write", "eos-loss")
        world.decide(known, token, "abort", None, {})
        world.later += [world._stored(group, token, tp, at, "commit") for tp, at in offsets.items()]
    else:
        world.decide(known, token, fate, group, offsets)
    while world.chance(0.6):
        world.land()
        yield
    world.end(op, INFO if doubt else FAIL if abort else OK)
    yield
    return op.outcome


def _unwritten(world: World, op: Op) -> bool:
    """Whether a record waits for a leader that is gone."""
    return any(world.logs[row["tp"]].lost and row["outcome"] == INFO for row in op.sends)


def _took_over(world: World, op: Op, heir: int) -> bool:
    """Whether the history shows that an op which committed wrote after its process had been fenced."""

    def answered(process: int) -> list[int]:
        own = [o for o in world.ops if o.process == process and o.txn]
        found = [o.complete for o in own if o.outcome == OK]
        return found + [row["ack_ns"] for o in own for row in o.sends if row["ack_ns"] >= 0]

    wrote = [row["invoke_ns"] for row in op.sends if row["outcome"] != FAIL]
    first = min(o.invoke for o in world.ops if o.process == heir and o.txn)
    before = min(answered(op.process), default=first) < first
    return op.outcome == OK and before and any(ns > min(answered(heir), default=ns) for ns in wrote)


def known_id(world: World, op: Op) -> int:
    """The transactional id of the process of an op."""
    return int(world.processes[op.process]["txn_id"])


# Reading ----------------------------------------------------------------------------------------


def poll(world: World, op: Op, positions: dict[int, int]) -> list[tuple[int, Entry]]:
    """Read on from the positions."""
    rng, level = world.rng, world.processes[op.process]["isolation"]
    begin = world.tick()
    found: list[tuple[int, Entry]] = []
    for tp in sorted(positions, key=lambda _: rng.random()):
        if world.chance(0.2):
            continue
        log = world.logs[tp]
        if log.lost:
            continue
        last = last_read(world, op.process, tp)
        expected = positions[tp]
        if last is not None and world.strikes("consumer-skips", 0.2):
            positions[tp] += rng.randint(1, 2)
        if last is not None and positions[tp] and world.strikes("consumer-back", 0.2):
            positions[tp] -= 1
        dirty = level == RC and log.stable() < log.high and world.strikes("dirty", 0.6)
        if positions[tp] < log.start:
            positions[tp] = log.start
            world.assign(op, tp, AssignmentKind.RESET)
        some = log.visible(level, positions[tp], dirty=dirty)[: rng.randint(1, 5)]
        if positions[tp] > log.end:  # truncated: the client goes to the beginning
            positions[tp] = log.start
            world.assign(op, tp, AssignmentKind.RESET)
        if some:
            if dirty:
                _read_too_early(world, log, some)
            _began(world, log, op, some[0].offset)
            if last is not None and positions[tp] != expected:
                _moved(world, log, last, op, some[0].offset)
            positions[tp] = some[-1].offset + 1
            world.got(op, tp, some, begin)
            found += [(tp, entry) for entry in some]
    return found


def _begin(world: World, op: Op, tp: int, positions: dict[int, int]) -> None:
    """A partition that was assigned by hand is read from the beginning of its log."""
    if not world.plan.portable:
        world.assign(op, tp, AssignmentKind.BEGINNING)
    positions[tp] = world.logs[tp].start if world.logs[tp].asked else 0
    if not world.plan.portable and world.strikes("begins-late", 0.4):
        positions[tp] += world.rng.randint(1, 3)
        world.late[op.process, tp, world.assignment(op.process, tp)] = positions[tp]


def _began(world: World, log: Log, op: Op, first: int) -> None:
    """A consumer began behind the beginning of the log."""
    if world.late.pop((op.process, log.tp, world.assignment(op.process, log.tp)), 0) == 0:
        return
    skipped = _records(log, log.start, first)

    def seen() -> bool:
        return world.read_whole(log.tp) and _held(world, log, skipped)

    world.promise("begins-late", seen, "poll-skip", "int-poll-skip")


def _records(log: Log, begin: int, end: int) -> list[tuple[int, int]]:
    """Offsets and values of the records between two offsets."""
    return [(e.offset, e.value) for e in log.entries if begin <= e.offset < end and e.value != MARKER]


def _held(world: World, log: Log, records: list[tuple[int, int]]) -> bool:
    """Whether some promised record of these is still there, and no leader was asked to delete it."""
    return any(
        offset >= log.asked and world.promised(log.tp, value) and world.holds(log.tp, value)
        for offset, value in records
    )


def last_read(world: World, process: int, tp: int) -> Row | None:
    """The last read of a process in a partition, under its present assignment; None where it was undone."""
    number = world.assignment(process, tp)
    own = [(op, r) for op in world.ops if op.process == process for r in op.reads if r["tp"] == tp]
    if not own or own[-1][1]["assignment"] != number:
        return None
    return own[-1][1]


def _read_too_early(world: World, log: Log, some: list[Entry]) -> None:
    """A consumer at read_committed was given records of open transactions."""
    opened = [e.value for e in some if log.fate.get(e.token) == "open"]
    now = world.now

    def shown() -> bool:
        """What the transaction does later shows that it was open."""
        ops = [found[0] for value in opened if (found := world.op_of(log.tp, value))]
        later = [r for op in ops for r in op.sends if r["invoke_ns"] > now + 401 * world.pace * MS]
        aborted = [op for op in ops if op.outcome == FAIL]
        return bool(later or aborted)

    world.promise("dirty", shown, "aborted-read", "precommitted-read")


def _moved(world: World, log: Log, last: Row, op: Op, first: int) -> None:
    """A consumer went on at a place where it was not."""
    low, before = last["offset"], [other for other in world.ops if last in other.reads]
    skipped = _records(log, low + 1, first)

    def seen() -> bool:
        undone = before and before[0] is not op and before[0].outcome != OK
        if undone or not world.read_whole(log.tp):
            return False
        return first <= low or _held(world, log, skipped)

    back = ("nonmonotonic-poll", "int-nonmonotonic-poll")
    world.promise("consumer-moved", seen, *(back if first <= low else ("poll-skip", "int-poll-skip")))


def consumer(world: World, slot: int) -> Steps:
    """Assigns partitions by hand and reads them."""
    rng = world.rng
    level = RC if world.plan.portable else rng.choice((RC, RC, RU))
    settings = {"isolation": level} | ({"acks": -1, "idempotent": 1} if world.plan.portable else {})
    process = world.start(slot, **settings)
    positions: dict[int, int] = {}
    while world.budget > 0:
        world.budget -= 1
        if not positions or world.chance(0.12):
            op = world.begin(process, "assign")
            wanted = [log.tp for log in world.logs if world.chance(0.8)] or [0]
            if world.plan.portable:
                for log in world.logs:  # the format says which keys were dropped
                    if log.tp not in wanted:
                        world.assign(op, log.tp, AssignmentKind.MANUAL)
            for tp in wanted:
                if not world.plan.portable:
                    world.assign(op, tp, AssignmentKind.MANUAL, kept=tp in positions)
                if tp not in positions:
                    _begin(world, op, tp, positions)
            positions = {tp: positions[tp] for tp in wanted}
            world.end(op, OK)
            yield
        op = world.begin(process, "poll")
        yield
        poll(world, op, positions)
        outcome = OK if world.chance(0.93) else INFO
        world.end(op, outcome)
        yield
        if outcome == INFO:
            world.processes[process]["end"] = End.REPLACED
            process, positions = world.start(slot, **settings), {}
