"""Members of groups of the small Kafka: they commit what they read, or copy it, exactly once."""

from core.op import AssignmentKind, CommitKind, End, Isolation
from tests.adversary.clients import BESIDE, FAIL, INFO, OK, READING_ON, begin_txn, deliver, end_txn, poll
from tests.adversary.excuses import fences
from tests.adversary.world import MARKER, RC, RU, Asked, Ended, Entry, Group, Op, Steps, TxnId, World


def member(world: World, slot: int, group: Group, *, copies: bool) -> Steps:
    """A member of a group that commits what it read; or one that copies it, exactly once."""
    rng, mode = world.rng, world.plan.config.commit
    txn = copies and (mode == "transaction" or mode in READING_ON)
    settings = {"group": group.number, "isolation": rng.choice((RC, RC, RC, RU)) if not copies else RC}
    if copies and world.plan.config.isolation is Isolation.READ_UNCOMMITTED:
        settings["isolation"] = rng.choice((RC, RU))
    auto = mode == "automatic-beside" if copies else world.chance(0.25)
    if copies:
        settings |= {"acks": -1, "idempotent": 1} | ({"txn_id": 40 + slot} if txn else {})
    if auto:
        settings["auto_commit"] = 1
    while world.budget > 0:
        process = world.start(slot, **settings)
        group.members.append(process)
        _rebalance(world, group)
        yield from _lives(world, process, group, copies=copies, txn=txn, auto=auto)
        if process in group.members:
            group.members.remove(process)
            _rebalance(world, group)
        yield


def _rebalance(world: World, group: Group) -> None:
    group.generation += 1
    group.owner = {tp: world.rng.choice(group.members) for tp in group.tps if group.members}


def _joined(
    world: World, op: Op, group: Group, positions: dict[int, int], generation: int, *, missed: bool
) -> Steps:
    """Take the partitions of the current generation. missed: others may have had them in between."""
    own = [tp for tp, process in group.owner.items() if process == op.process]
    for tp in [tp for tp in positions if missed or tp not in own]:
        kind = world.rng.choice((AssignmentKind.REVOKED, AssignmentKind.LOST))
        world.assign(op, tp, kind, generation=generation)
        del positions[tp]
    for tp in [tp for tp in own if tp not in positions]:
        waits = world.processes[op.process]["isolation"] == RC and fences(world.plan.config)
        while waits and any(each[1] == tp for each in group.pending):
            world.land()
            yield
        world.assign(op, tp, AssignmentKind.ASSIGNED, generation=generation)
        at, begin = group.committed.get(tp, 0), world.tick()
        if at and world.strikes("group-forgets"):
            at = world.rng.randrange(at)
            world.promise(
                "group-forgets", lambda: _certain(world, group), "offset-commit-regression", "group-duplicate"
            )
        positions[tp] = at
        if tp in group.committed:
            world.commit(op, tp, at, CommitKind.FETCHED, OK, generation, begin)


def _certain(world: World, group: Group) -> bool:
    """Nothing about the commits of a group is in doubt, and none was in a transaction."""
    own = [row for op in world.ops for row in op.commits if row["group"] == group.number]
    return all(row["outcome"] != INFO and row["kind"] != CommitKind.TXN for row in own)


def _lives(world: World, process: int, group: Group, *, copies: bool, txn: bool, auto: bool) -> Steps:
    positions: dict[int, int] = {}
    generation, fresh = -1, True
    for _ in range(world.rng.randint(1, 4)):
        world.budget -= 1
        txn_id = world.processes[process]["txn_id"]
        while txn and world.ids.get(txn_id, TxnId()).left:
            world.land()
            yield
        op = world.begin(process, "txn" if txn else "poll", txn=txn)
        if generation != group.generation:
            missed, generation = group.generation != generation + 1, group.generation
            yield from _joined(world, op, group, positions, generation, missed=missed)
        known, token = begin_txn(world, process, fresh) if txn else (TxnId(), -1)
        fresh = False
        before = dict(positions)
        yield
        found = poll(world, op, positions)
        offsets = {tp: positions[tp] for tp in {tp for tp, _ in found}}
        if copies:
            outcome = yield from _copied(world, op, group, known, token, found, offsets, generation)
        else:
            outcome = yield from _committed(world, op, group, offsets, generation, auto=auto)
        if txn and outcome != OK and world.plan.config.commit not in READING_ON:
            for tp in positions:
                positions[tp] = before.get(tp, positions[tp])
                world.assign(op, tp, AssignmentKind.REWIND)
        if outcome == INFO:
            end = world.rng.choice((End.REPLACED, End.CRASHED))
            world.processes[process]["end"] = end
            return


def _committed(
    world: World, op: Op, group: Group, offsets: dict[int, int], generation: int, *, auto: bool
) -> Ended:
    kind = CommitKind.AUTO if auto else CommitKind.SYNC
    if offsets and world.chance(0.8):
        begin = world.tick()
        yield
        good = generation == group.generation
        outcome = (OK if world.chance(0.9) else INFO) if good else FAIL
        for tp, at in offsets.items():
            stored = at
            if good and world.strikes("group-ahead"):
                stored += world.rng.randint(1, 2)
                _ahead(world, group, tp, at, stored)
            if outcome == OK or (outcome == INFO and world.chance(0.5)):
                group.committed[tp] = stored
            world.commit(op, tp, at, kind, outcome, generation, begin)
    end = OK if world.chance(0.92) else INFO
    world.end(op, end)
    yield
    return end


def _ahead(world: World, group: Group, tp: int, at: int, stored: int) -> None:
    """The coordinator stored more than was committed."""
    log = world.logs[tp]

    def skipped() -> bool:
        if not world.read_whole(log.tp):
            return False
        own = [row for row in world.processes if row["group"] == group.number]
        if any(row["auto_commit"] for row in own):
            return False
        members = [row["process"] for row in own]
        got = {r["offset"] for op in world.ops if op.process in members for r in op.reads if r["tp"] == tp}
        rows = [
            row["offset"]
            for op in world.ops
            for row in op.commits
            if (row["group"], row["tp"]) == (group.number, tp)
            and row["kind"] != CommitKind.FETCHED
            and (op.outcome if row["kind"] == CommitKind.TXN else row["outcome"]) == OK
        ]
        return any(
            max(at, log.asked) <= e.offset < stored
            and e.value != MARKER
            and e.offset not in got
            and e.offset < max(rows, default=-1)
            and world.promised(tp, e.value)
            for e in log.entries
        )

    world.promise("group-ahead", skipped, "group-skip")


def _copied(
    world: World, op: Op, group: Group, known: TxnId, token: int, found: list[tuple[int, Entry]],
    offsets: dict[int, int], generation: int,
) -> Ended:  # fmt: skip
    half = len(world.logs) // 2
    mode = world.plan.config.commit
    failed = op.txn and token < 0
    if mode == "before" and offsets:
        failed = not (yield from _store(world, op, group, offsets, generation))
    for tp, entry in found:
        if failed or world.chance(0.03):
            failed = True
            break
        row = world.send(op, tp + half, (tp, entry.offset))
        yield from deliver(world, row, token)
        failed = row["outcome"] != OK if not op.txn else row["outcome"] == FAIL
        if failed:
            break
    if mode in ("after", "beside") and offsets and not failed:
        stored = yield from _store(world, op, group, offsets, generation)
        failed = mode == "beside" and not stored
    if mode == "automatic-beside" and offsets and world.chance(0.5):
        yield from _store(world, op, group, offsets, generation, kind=CommitKind.AUTO)
    if not op.txn:
        world.end(op, OK if not failed else INFO)
        yield
        return op.outcome
    if failed:
        op.deliberate = False
    if mode in READING_ON:
        op.deliberate = not failed and token >= 0 and world.chance(0.2)
    if mode in BESIDE:
        outcome = yield from end_txn(world, op, known, token, failed, None, {})
        return outcome
    good = generation == group.generation or not fences(world.plan.config)
    if offsets and not failed and token >= 0:
        if not good:
            failed = True
        begin = world.tick()
        for tp, at in offsets.items():
            if good:
                group.pending.append((token, tp))
            world.commit(op, tp, at, CommitKind.TXN, OK, generation, begin)
    outcome = yield from end_txn(world, op, known, token, failed, group, offsets if not failed else {})
    return outcome


def _store(
    world: World, op: Op, group: Group, offsets: dict[int, int], generation: int,
    kind: CommitKind = CommitKind.SYNC,
) -> Asked:  # fmt: skip
    """Commit offsets outside of a transaction; whether the coordinator took them."""
    begin = world.tick()
    yield
    good = generation == group.generation
    for tp, at in offsets.items():
        if good:
            group.committed[tp] = at
        world.commit(op, tp, at, kind, OK if good else FAIL, generation, begin)
    return good
