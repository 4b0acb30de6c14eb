"""Clients of random histories that live in groups: copiers, and members that only read.

Partitions change hands while members do not know it yet: they go on handing out what they had, and
their commits are refused. Crashed members leave transactions open, which their successors abort.

Not here: the coordinator (`tests.histories.random_world`), lone clients (`tests.histories.random_history`).
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Literal

from core.op import AssignmentKind, CommitKind, End, Isolation, Outcome
from tests.histories.built import Assign, Commit, Op, Process, Read, Send
from tests.histories.random_world import (
    Group,
    Steps,
    World,
    append_plainly,
    begin_txn,
    end_txn,
    is_fenced,
    txn_send,
)

Mode = Literal["transaction", "after", "before"]
"""When a copier commits its offsets."""


@dataclass
class _Member:
    """What a process knows of its group."""

    process: int
    generation: int = -1
    positions: dict[int, int] = field(default_factory=dict)


def _join(world: World, group: Group, settings: Process) -> _Member:
    member = _Member(world.process(settings))
    group.members.append(member.process)
    group.rebalance(world.rng)
    return member


def _catch_up(world: World, group: Group, member: _Member, op: Op) -> None:
    """Learn of a rebalance, sometimes; offsets of open transactions are waited for."""
    own = [tp for tp in group.tps if group.owner.get(tp) == member.process]
    if member.generation == group.generation or world.rng.random() < 0.3:
        return
    if any(tp in own for _, tp in group.pending):
        return
    for tp in member.positions:
        kind = world.rng.choice((AssignmentKind.REVOKED, AssignmentKind.LOST))
        op.mops.append(Assign(tp=tp, kind=kind, ns=world.tick()))
    member.positions, member.generation = {}, group.generation
    for tp in own:
        now = world.tick()
        given = Assign(tp=tp, kind=AssignmentKind.ASSIGNED, ns=now, generation=group.generation)
        op.mops.append(given)
        member.positions[tp] = group.committed.get(tp, 0)
        if tp in group.committed:
            fetched = Commit(tp=tp, offset=group.committed[tp], kind=CommitKind.FETCHED)
            fetched.generation, fetched.ns = group.generation, (now, world.tick())
            op.mops.append(fetched)


def _store(
    world: World, group: Group, member: _Member, op: Op, offsets: dict[int, int], kind: CommitKind
) -> Outcome:
    """Commit to the group without a transaction. In doubt, it may have been stored or not."""
    rng = world.rng
    outcome = rng.choice((Outcome.OK,) * 8 + (Outcome.FAIL, Outcome.INFO))
    stored = outcome != Outcome.FAIL and (outcome == Outcome.OK or rng.random() < 0.5)
    if member.generation != group.generation:
        outcome, stored = Outcome.FAIL, False
    ns = (world.tick(), world.tick())
    for tp, offset in offsets.items():
        row = Commit(tp=tp, offset=offset, kind=kind, outcome=outcome, ns=ns)
        row.generation = member.generation
        op.mops.append(row)
        if stored:
            group.committed[tp] = offset
    return outcome if offsets else Outcome.OK


def copier(world: World, slot: int, group: Group, mode: Mode) -> Steps:
    """Consume, transform, produce; output goes to the last partition."""
    rng, txn = world.rng, mode == "transaction"
    settings = Process(isolation=Isolation.READ_COMMITTED, slot=slot, group=group.number)
    settings.txn_id = slot if txn else -1
    member = _join(world, group, replace(settings))
    while world.budget > 0:
        world.budget -= 1
        op = world.invoke(member.process, "txn" if txn else "poll", txn=txn)
        _catch_up(world, group, member, op)
        if txn:
            outcome = yield from _copy_whole(world, group, member, op)
        else:
            outcome = yield from _copy_loosely(world, group, member, op, mode)
        yield
        if outcome == Outcome.INFO or rng.random() < 0.05:
            died = outcome == Outcome.INFO and rng.random() < 0.5
            end = End.REPLACED if outcome == Outcome.INFO else End.CLOSED
            world.built.processes[member.process].end = End.CRASHED if died else end
            group.left_by(member.process, rng)
            member = _join(world, group, replace(settings))


def _after(reads: list[Read]) -> dict[int, int]:
    """Offsets to commit after these records."""
    return {read.tp: read.offset + 1 for read in reads}


def _copies(world: World, member: _Member, reads: list[Read]) -> list[Send]:
    out = len(world.logs) - 1
    return [Send(tp=out, value=world.value(member.process), source=(read.tp, read.offset)) for read in reads]


def _copy_whole(world: World, group: Group, member: _Member, op: Op) -> Generator[None, None, Outcome]:
    """One transaction: copies and offsets, all or nothing."""
    token = yield from begin_txn(world, member.process)
    begin = dict(member.positions)
    reads = world.poll(op, member.positions)
    yield
    failed = token < 0
    for send in _copies(world, member, reads):
        if failed:
            send.outcome = Outcome.FAIL
            op.mops.append(send)
        else:
            failed = yield from txn_send(world, op, token, send)
    if not failed and world.rng.random() < 0.06:
        return Outcome.INFO  # it dies; whoever has the id next aborts what it left open
    offsets = _after(reads)
    refused = member.generation != group.generation or is_fenced(world, member.process)
    if not failed and offsets:
        now = world.tick()
        for tp, offset in offsets.items():
            row = Commit(tp=tp, offset=offset, kind=CommitKind.TXN, ns=(now, world.tick()))
            row.generation = member.generation
            op.mops.append(row)
            if not refused:
                group.pending.add((token, tp))
        failed = refused
    stored = {} if failed else offsets
    outcome = yield from end_txn(world, op, token, failed=failed, group=group, offsets=stored)
    if outcome == Outcome.FAIL and member.positions != begin:
        member.positions = begin
        op.mops += [Assign(tp=tp, kind=AssignmentKind.REWIND, ns=world.now) for tp in begin]
    return outcome


def _copy_loosely(
    world: World, group: Group, member: _Member, op: Op, mode: Mode
) -> Generator[None, None, Outcome]:
    """Copies and offsets, each for itself."""
    rng = world.rng
    reads = world.poll(op, member.positions)
    sends = _copies(world, member, reads)
    yield
    outcomes = set()
    if mode == "before":
        outcomes.add(_store(world, group, member, op, _after(reads), CommitKind.SYNC))
    if rng.random() < 0.1:
        return Outcome.INFO  # it dies
    if outcomes <= {Outcome.OK}:
        op.mops += sends
        yield from append_plainly(world, sends, world.tick())
        outcomes |= {send.outcome for send in sends if send.outcome is not None}
    if mode == "after" and outcomes <= {Outcome.OK} and rng.random() < 0.9:
        outcomes.add(_store(world, group, member, op, _after(reads), CommitKind.SYNC))
    outcome = outcomes.pop() if len(outcomes) == 1 else Outcome.INFO if outcomes else Outcome.OK
    world.complete(op, outcome)
    # what failed for good stays uncopied unless a successor starts from the committed offsets
    return Outcome.OK if outcome == Outcome.OK else Outcome.INFO


def member(world: World, slot: int, group: Group) -> Steps:
    """A member that only reads; some members commit by themselves in the background."""
    rng = world.rng
    settings = Process(slot=slot, group=group.number, acks=-2, auto_commit=rng.random() < 0.5)
    settings.isolation = Isolation(rng.choice((0, 1, 1)))
    one = _join(world, group, replace(settings))
    while world.budget > 0:
        world.budget -= 1
        op = world.invoke(one.process, "poll")
        if settings.auto_commit and one.positions and rng.random() < 0.5:
            _store(world, group, one, op, dict(one.positions), CommitKind.AUTO)
        _catch_up(world, group, one, op)
        yield
        world.poll(op, one.positions)
        yield
        outcome = Outcome.OK if rng.random() < 0.93 else Outcome.INFO
        if not settings.auto_commit and outcome == Outcome.OK and rng.random() < 0.5:
            outcome = _store(world, group, one, op, dict(one.positions), CommitKind.SYNC)
        world.complete(op, outcome)
        yield
        if outcome == Outcome.INFO or rng.random() < 0.05:
            end = rng.choice((End.REPLACED, End.CRASHED))
            world.built.processes[one.process].end = end if outcome == Outcome.INFO else End.CLOSED
            group.left_by(one.process, rng)
            one = _join(world, group, replace(settings))
