"""Damage to groups, copies and transactional ids, and events that name open transactions.

What brokers that forget commits or do not fence would leave, and copiers that do not work exactly once.
Not here: damage to single records and reads (`tests.histories.planted`).
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final, TypeVar

from core.cluster import NodeEnd, OpenTransaction
from core.op import AssignmentKind, CommitKind, End, Outcome, Phase, value_of
from history.events import (
    BoundsListed,
    Event,
    FaultFailed,
    FaultStarted,
    Interrupted,
    NodeEnded,
    PhaseStarted,
    Recovered,
    TransactionsOpen,
    WorkerLost,
)
from tests.histories.built import Assign, Built, Commit, Op, Process, Read, Send

T = TypeVar("T")
Damage = Callable[[Random, Built], None]


def named(*kinds: Damage) -> dict[str, Damage]:
    """Kinds of damage by their names."""
    return {kind.__name__: kind for kind in kinds}


def pick(rng: Random, items: list[T]) -> list[T]:
    """One of them, or none where there is none."""
    return [rng.choice(items)] if items else []


def random_events(seed: int, built: Built) -> list[Event]:
    """Events of such a history: transactions that were open at the end, some of them made up; nodes that
    ended."""
    rng = Random(f"events/{seed}")
    rows = []
    for bound in built.bounds:
        if rng.random() < 0.8:
            pid, start = rng.randint(1, 3), max(0, bound.end + rng.randint(-1, 2))
            rows.append(
                OpenTransaction(
                    topic=built.tps[bound.tp], partition=0, producer_id=pid, producer_epoch=0, start=start
                )
            )
    earlier = TransactionsOpen(ns=1, rows=tuple(rows[::-1]))
    draw = rng.random()
    still = (0, 2)[: 1 + seed % 2] if 0.88 <= draw < 0.95 else ()
    settled = Recovered(ns=0, recovered=draw < 0.88, seconds=1.0, stalled=still)
    opened = TransactionsOpen(ns=2, rows=tuple(rows[rng.randint(0, 1) :]))
    listed = BoundsListed(ns=2, rows=(), stable=False, moving="q-0" if rng.random() < 0.05 else "")
    ends: list[Event] = []
    while rng.random() < 0.2:
        code, signal = rng.choice([(0, 0), (1, 0), (134, 6), (137, 9), (143, 15)])
        end = NodeEnd(node=rng.randint(1, 3), exit_code=code, signal=signal, own_program=rng.random() < 0.1)
        ends.append(NodeEnded(ns=len(ends), end=end))
    broke_off = rng.random() < 0.2
    phase = PhaseStarted(ns=3, phase=Phase.FAULTS if broke_off else Phase.COLLECT)
    return [*ends, settled, listed, earlier, opened, phase, *_deaths(seed, built)]


def _deaths(seed: int, built: Built) -> Iterator[Event]:
    """What accounts for crashed processes, or does not quite."""
    rng = Random(f"deaths/{seed}")
    late = 10**12
    slots = sorted({process.slot for process in built.processes.values() if process.end == End.CRASHED})
    for number, slot in enumerate(slots):
        span = (0, late) if rng.random() < 0.8 else sorted((rng.randrange(late), rng.randrange(late)))
        begin, ns = span
        name = rng.choice(
            ("client:crash@random",) * 8 + ("half-open:clients", "client:pause@random", "kill:one")
        )
        died: list[Event] = [
            FaultStarted(
                begin_ns=begin, ns=ns, fault=50 + number, name=name, slots=hit, nodes=(9,), text="", colour=""
            )
            for hit in ((slot,), (slot,), ())
        ]
        lost = WorkerLost(ns=late, slot=slot, why="x")
        failed = FaultFailed(begin_ns=begin, ns=ns, fault=50 + number, name=name, why="x")
        if rng.random() < 0.9:
            yield rng.choice((*died, *died, lost, failed))
    if rng.random() < 0.02:
        yield Interrupted(ns=late)


def cut_journal(rng: Random, built: Built) -> None:
    """The last lines of a journal are gone, and nobody says why."""
    for process in pick(rng, sorted({op.process for op in built.ops})):
        own = sorted((op for op in built.ops if op.process == process), key=lambda op: op.invoke)
        at = rng.randrange(len(own))
        built.ops = [op for op in built.ops if op not in own[at + 1 :]]
        built.processes.setdefault(process, Process()).end = End.CRASHED
        if rng.random() < 0.7:
            own[at].complete, own[at].outcome = None, Outcome.INFO
            for mop in own[at].mops:
                if isinstance(mop, Send):
                    mop.offset, mop.outcome = -1, None


def _copies(built: Built) -> list[tuple[Op, Send]]:
    return [(op, send) for op, send in built.sends() if send.source[1] >= 0]


def _grouped(built: Built, op: Op) -> int:
    return built.processes.get(op.process, Process()).group


def copy_again(rng: Random, built: Built) -> None:
    """An input is copied once more: by the same group, or by somebody else."""
    for _, copy in pick(rng, _copies(built)):
        for op in pick(rng, [op for op, other in _copies(built) if other.tp == copy.tp]):
            end = max((bound.end for bound in built.bounds if bound.tp == copy.tp), default=20)
            value = value_of(op.process, 1_000 + rng.randint(0, 10**6))
            again = Send(tp=copy.tp, value=value, offset=end + rng.randint(0, 3))
            again.source = copy.source
            op.mops.append(again)


def forget_copy(rng: Random, built: Built) -> None:
    """An input was not copied, or the record is a copy of something else."""
    for _, copy in pick(rng, _copies(built)):
        tp, offset = copy.source
        copy.source = rng.choice(((-1, -1), (tp, offset + 1), (rng.randrange(len(built.tps)), 0)))


def doubt_copy(rng: Random, built: Built) -> None:
    """Nobody knows of a copy whether it is there: its op is in doubt and nobody read its partition."""
    for op, copy in pick(rng, _copies(built)):
        op.outcome, copy.outcome, copy.offset = Outcome.INFO, Outcome.INFO, -1
        values = {mop.value for mop in op.mops if isinstance(mop, Send)}
        built.forget([read for _, read in built.reads() if read.value in values])
        for bound in built.bounds:
            if bound.tp == copy.tp:
                bound.read_to = rng.randint(-1, bound.end)


def withhold(rng: Random, built: Built) -> None:
    """No member of a group is given some record."""
    given = [(op, read) for op, read in built.reads() if _grouped(built, op) >= 0]
    for op, one in pick(rng, given):
        group, at = _grouped(built, op), (one.tp, one.offset)
        again = [r for o, r in given if _grouped(built, o) == group and (r.tp, r.offset) == at]
        built.forget(again)


def give_again(rng: Random, built: Built) -> None:
    """A member is given what its group had read, right after it was assigned the partition."""
    joined = [
        (op, mop)
        for op in built.ops
        for mop in op.mops
        if isinstance(mop, Assign) and mop.kind == AssignmentKind.ASSIGNED and _grouped(built, op) >= 0
    ]
    found = [
        (op, assign, read)
        for op, assign in joined
        for _, read in built.reads()
        if read.tp == assign.tp and read.offset < _stored_before(built, op, assign.tp)
    ]
    for op, assign, read in pick(rng, found):
        again = Read(tp=read.tp, offset=read.offset, value=read.value)
        op.mops.insert(op.mops.index(assign) + 1, again)


def _stored_before(built: Built, op: Op, tp: int) -> int:
    """The highest offset that the op's group may have committed before the op began."""
    return max(
        (
            mop.offset
            for other in built.ops
            for mop in other.mops
            if isinstance(mop, Commit)
            and mop.tp == tp
            and _grouped(built, other) == _grouped(built, op)
            and other.invoke < op.invoke
        ),
        default=0,
    )


def expire(rng: Random, built: Built) -> None:
    """Retention took the beginning of a log away, as one of the listings tells."""
    for bound in pick(rng, built.bounds):
        bound.start = rng.randint(0, max(bound.end // 2, 0))


def share_id(rng: Random, built: Built) -> None:
    """Processes have one transactional id, and nobody fences anybody."""
    txns = sorted({op.process for op in built.ops if op.txn})
    number = rng.randint(0, 3)
    for process in rng.sample(txns, rng.randint(min(2, len(txns)), len(txns))):
        built.processes.setdefault(process, Process()).txn_id = number


def write_behind_fence(rng: Random, built: Built) -> None:
    """A process that lost its transactional id goes on."""
    ids = {process: settings.txn_id for process, settings in built.processes.items()}
    begun = {op.process: ids[op.process] for op in built.ops if op.txn and op.process in ids}
    twins = {p for p, one in begun.items() for q, other in begun.items() if p != q and one == other}
    for process in pick(rng, sorted(twins)):
        own = [op for op in built.ops if op.process == process and op.complete is not None]
        for op in own[-1:]:
            end = max(each.complete or 0 for each in built.ops)
            op.complete, op.outcome, op.txn = (end + rng.randint(1, 3), rng.choice(list(Outcome)), True)
            for mop in op.mops:
                if isinstance(mop, Send) and mop.offset >= 0:
                    mop.offset += rng.randint(0, 9)
                if isinstance(mop, Send | Commit) and rng.random() < 0.7:
                    mop.ns = (end, end + 1)


def end_otherwise(rng: Random, built: Built) -> None:
    """A process ended in another way, or committed by itself."""
    for process in pick(rng, sorted(built.processes)):
        settings = built.processes[process]
        settings.end, settings.auto_commit = rng.choice(list(End)), rng.random() < 0.5
        settings.group = rng.choice((settings.group, 1, 2, -1))


def assign_twice(rng: Random, built: Built) -> None:
    """Two members of a group, or of two, are given one partition; in most histories in one generation."""
    members = [op for op in built.ops if _grouped(built, op) >= 0]
    for op in pick(rng, members):
        for other in pick(rng, members):
            tp, generation = rng.randrange(len(built.tps)), rng.randint(-1, 4)
            for owner in (op, other):
                row = Assign(tp=tp, kind=rng.choice(list(AssignmentKind)[:2]))
                row.generation = generation + (rng.random() < 0.2)
                owner.mops.append(row)


def tell_aborted_offset(rng: Random, built: Built) -> None:
    """A group tells the offset of a transaction, which was aborted or not."""
    taken = [
        (op, mop)
        for op in built.ops
        for mop in op.mops
        if isinstance(mop, Commit) and mop.kind == CommitKind.TXN
    ]
    for op, mop in pick(rng, taken):
        if rng.random() < 0.7:
            op.outcome, mop.offset = Outcome.FAIL, rng.randint(0, 30)
        later = [o for o in built.ops if _grouped(built, o) == _grouped(built, op) and o is not op]
        for told in pick(rng, later):
            told.mops.append(Commit(tp=mop.tp, offset=mop.offset, kind=CommitKind.FETCHED))


GROUP_DAMAGE: Final = named(
    copy_again,
    forget_copy,
    doubt_copy,
    withhold,
    give_again,
    expire,
    share_id,
    write_behind_fence,
    end_otherwise,
)
