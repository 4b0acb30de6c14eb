"""Damage to a history: each kind is what some fault of a cluster, client or recorder would leave.

A kind may find nothing to damage and leave the history as it is. Processes stay sequential, a value
is sent once to a partition: what docs/checks.md presupposes is kept.

Not here: damage to groups, copies and transactional ids (`tests.histories.planted_groups`), correct histories
(`tests.histories.random_history`).
"""

from random import Random
from typing import Final

from core.op import AssignmentKind, CommitKind, Isolation, Outcome, Phase, value_of
from history.tables import FOREIGN_REASONS
from tests.histories.built import Assign, Bound, Built, Commit, Foreign, Op, Process, Read, Send
from tests.histories.planted_groups import (
    GROUP_DAMAGE,
    assign_twice,
    cut_journal,
    named,
    pick,
    tell_aborted_offset,
)
from tests.histories.random_groups import Mode
from tests.histories.random_history import simulate

OFTEN: Final = {
    "share_id": 9,
    "write_behind_fence": 5,
    "stick_lso": 3,
    "copy_again": 4,
    "foreign": 4,
    "give_again": 4,
    "doubt_copy": 2,
    "cycle": 2,
    "overtake": 4,
}
"""Kinds that leave a trace in few histories are drawn more often."""

NOBODY: Final = 9_999
"""A process that sends nothing: its values are phantoms."""


def random_history(seed: int) -> tuple[Built, bool, list[str]]:
    """A history with up to five kinds of damage; whether it is a recorded one; the kinds."""
    rng = Random(f"plant/{seed}")
    portable = seed % 3 == 0
    mode: Mode = rng.choice(("transaction", "transaction", "after", "before"))
    built = simulate(seed, portable=portable, mode=mode)
    kinds = DAMAGE if portable else DAMAGE | RECORDED_DAMAGE
    likely = [OFTEN.get(kind, 1) for kind in sorted(kinds)]
    chosen = rng.choices(sorted(kinds), likely, k=rng.choice((0, 1, 2, 3, 4, 5)))
    for kind in chosen:
        for _ in range(rng.randint(1, 3)):
            kinds[kind](rng, built)
    if not portable and rng.random() < 0.2:
        chosen.append("commit")
        for _ in range(3):
            commit(rng, built)
    if not portable:
        for kind in rng.choices(sorted(LATER_DAMAGE), k=rng.choice((0, 0, 0, 1, 1, 2))):
            chosen.append(kind)
            LATER_DAMAGE[kind](rng, built)
    for op in _readers(built):
        settings = built.processes.setdefault(op.process, Process())
        if settings.isolation == Isolation.NONE:  # who reads does so at some level
            settings.isolation = Isolation.READ_COMMITTED
    return built, not portable, chosen


def _readers(built: Built) -> list[Op]:
    return [op for op in built.ops if any(isinstance(mop, Read) for mop in op.mops)]


def _isolation(built: Built, op: Op) -> Isolation:
    return built.processes.get(op.process, Process()).isolation


def _insert_read(rng: Random, op: Op, read: Read) -> None:
    op.mops.insert(rng.randint(0, len(op.mops)), read)


def _offset(rng: Random, built: Built, send: Send) -> int:
    """Where the record is, or some place for it."""
    known = [read.offset for _, read in built.reads() if read.value == send.value]
    if send.offset >= 0 and rng.random() < 0.7:
        return send.offset
    return known[0] if known and rng.random() < 0.8 else rng.randint(0, 12)


def lose(rng: Random, built: Built) -> None:
    for _, send in pick(rng, built.sends()):
        built.forget([read for _, read in built.reads() if read.value == send.value])


def lose_at_the_end(rng: Random, built: Built) -> None:
    level = rng.choice((None, Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED))
    final = [(op, read) for op, read in built.reads() if op.phase == Phase.FINAL]
    final = [(op, read) for op, read in final if level in (None, _isolation(built, op))]
    for _, send in pick(rng, built.sends()):
        built.forget([read for _, read in final if read.value == send.value])


def tear(rng: Random, built: Built) -> None:
    sends = [[mop for mop in op.mops if isinstance(mop, Send)] for op in built.ops if op.txn]
    for several in pick(rng, [each for each in sends if len(each) > 1]):
        hidden = rng.choice(several)
        built.forget([read for _, read in built.reads() if read.value == hidden.value])


def skip(rng: Random, built: Built) -> None:
    for op, read in pick(rng, built.reads()):
        op.mops.remove(read)


def duplicate(rng: Random, built: Built) -> None:
    for op, read in pick(rng, built.reads()):
        again = Read(tp=read.tp, offset=read.offset + rng.randint(1, 5), value=read.value)
        _insert_read(rng, rng.choice([op, rng.choice(_readers(built))]), again)


def swap_reads(rng: Random, built: Built) -> None:
    for op in pick(rng, _readers(built)):
        places = [at for at, mop in enumerate(op.mops) if isinstance(mop, Read)]
        if len(places) > 1:
            a, b = rng.sample(places, 2)
            op.mops[a], op.mops[b] = op.mops[b], op.mops[a]


def rewind(rng: Random, built: Built) -> None:
    for op, read in pick(rng, built.reads()):
        later = [o for o in built.ops if o.process == op.process and o.invoke >= op.invoke]
        again = Read(tp=read.tp, offset=read.offset, value=read.value)
        _insert_read(rng, rng.choice(later), again)


def read_aborted(rng: Random, built: Built) -> None:
    aborted = [(op, send) for op, send in built.sends() if op.outcome != Outcome.OK]
    for _, send in pick(rng, aborted):
        for reader in pick(rng, _readers(built)):
            read = Read(tp=send.tp, offset=_offset(rng, built, send), value=send.value)
            _insert_read(rng, reader, read)


def read_own(rng: Random, built: Built) -> None:
    for op, send in pick(rng, built.sends()):
        read = Read(tp=send.tp, offset=_offset(rng, built, send), value=send.value)
        op.mops.insert(op.mops.index(send) + 1, read)


def read_under_way(rng: Random, built: Built) -> None:
    """Somebody is given a record while its transaction goes on."""
    spread = {
        id(op): [mop for mop in op.mops if isinstance(mop, Send | Commit) and mop.ns is not None]
        for op in built.ops
        if op.txn
    }
    found = [(op, send) for op, send in built.sends() if len(spread.get(id(op), ())) > 1 and send.ns]
    for op, send in pick(rng, found):
        times = [mop.ns[rng.randint(0, 1)] for mop in spread[id(op)] if mop.ns is not None]
        begin = send.ns[0] if send.ns else op.invoke
        read = Read(tp=send.tp, offset=_offset(rng, built, send), value=send.value)
        read.ns = (begin, max(begin, rng.choice(times) - rng.randint(0, 1)))
        for reader in pick(rng, _readers(built)):
            _insert_read(rng, reader, read)


def read_too_early(rng: Random, built: Built) -> None:
    for op, send in pick(rng, built.sends()):
        before = [o for o in built.ops if o.complete is not None and o.complete < op.invoke]
        for early in pick(rng, before):
            read = Read(tp=send.tp, offset=_offset(rng, built, send), value=send.value)
            _insert_read(rng, early, read)


def misread(rng: Random, built: Built) -> None:
    for _, read in pick(rng, built.reads()):
        others = [send.value for _, send in built.sends() if send.tp == read.tp]
        read.value = rng.choice([*others, value_of(NOBODY, rng.randint(0, 2))])


def misplace_read(rng: Random, built: Built) -> None:
    for _, read in pick(rng, built.reads()):
        read.offset = max(0, read.offset + rng.randint(-4, 4))


def misplace_ack(rng: Random, built: Built) -> None:
    for _, send in pick(rng, built.sends()):
        send.offset = rng.choice((-1, rng.randint(0, 12), max(0, send.offset + 1)))


def swap_acks(rng: Random, built: Built) -> None:
    for _, a in pick(rng, built.sends()):
        same = [send for _, send in built.sends() if send.tp == a.tp]
        b = rng.choice(same)
        a.offset, b.offset = b.offset, a.offset


def swap_records(rng: Random, built: Built) -> None:
    """Two records change places, in acknowledgements and in all reads."""
    for _, a in pick(rng, built.sends()):
        b = rng.choice([send for _, send in built.sends() if send.tp == a.tp])
        other = {a.value: b.value, b.value: a.value}
        a.offset, b.offset = b.offset, a.offset
        for _, read in built.reads():
            if read.tp == a.tp:
                read.value = other.get(read.value, read.value)


def overtake(rng: Random, built: Built) -> None:
    """A record of a producer without idempotence stands behind the next one, given up or not."""
    sends = built.sends()
    for op, a in pick(rng, sends):
        later = [
            b for other, b in sends if (other.process, b.tp) == (op.process, a.tp) and b.value > a.value
        ][:2]
        for b in pick(rng, later):
            settings = built.processes.setdefault(op.process, Process())
            settings.acks, settings.idempotent = rng.choice((-1, -1, 0, 1)), False
            a.offset, b.offset = max(a.offset, b.offset) + 1, min(a.offset, b.offset)
            if rng.random() < 0.5:
                a.outcome = Outcome.INFO


def cycle(rng: Random, built: Built) -> None:
    """Each of some transactions reads the next one's record."""
    txns = [op for op in built.ops if op.txn and any(isinstance(mop, Send) for mop in op.mops)]
    if len(txns) < 2:
        return
    ring = rng.sample(txns, rng.randint(2, min(4, len(txns))))
    for op, after in zip(ring, [*ring[1:], ring[0]], strict=True):
        send = rng.choice([mop for mop in after.mops if isinstance(mop, Send)])
        read = Read(tp=send.tp, offset=_offset(rng, built, send), value=send.value)
        _insert_read(rng, op, read)
        if rng.random() < 0.5:
            op.outcome = Outcome.OK if op.complete is not None else Outcome.INFO


def flip_outcome(rng: Random, built: Built) -> None:
    for op in pick(rng, [op for op in built.ops if op.complete is not None]):
        op.outcome = rng.choice(list(Outcome))


def flip_record_outcome(rng: Random, built: Built) -> None:
    for _, send in pick(rng, built.sends()):
        send.outcome = rng.choice((None, *Outcome))


def flip_txn(rng: Random, built: Built) -> None:
    for op in pick(rng, built.ops):
        op.txn = not op.txn


def forget_op(rng: Random, built: Built) -> None:
    for op in pick(rng, built.ops):
        built.ops.remove(op)


def same_value_elsewhere(rng: Random, built: Built) -> None:
    """A value of one partition is sent to another one as well: two different records."""
    for _, send in pick(rng, built.sends()):
        tp = rng.randrange(len(built.tps))
        taken = {(other.tp, other.value) for _, other in built.sends()}
        if (tp, send.value) not in taken:
            other = rng.choice([op for op, _ in built.sends()])
            other.mops.append(Send(tp=tp, value=send.value, offset=rng.randint(-1, 12)))


def widen(rng: Random, built: Built) -> None:
    """An op takes longer, as far as its neighbours in the process leave room."""
    for op in pick(rng, [op for op in built.ops if op.complete is not None]):
        own = sorted((o for o in built.ops if o.process == op.process), key=lambda o: o.invoke)
        at = own.index(op)
        assert op.complete is not None
        if at:
            op.invoke = rng.randint(min(own[at - 1].complete or 0, op.invoke), op.invoke)
        room = own[at + 1].invoke if at + 1 < len(own) else op.complete + 50
        op.complete = rng.randint(op.complete, max(room, op.complete))


def reassign(rng: Random, built: Built) -> None:
    for op in pick(rng, built.ops):
        tp, kind = rng.randrange(len(built.tps)), rng.choice(list(AssignmentKind))
        kept = kind == AssignmentKind.MANUAL and rng.random() < 0.3
        op.mops.insert(rng.randint(0, len(op.mops)), Assign(tp=tp, kind=kind, kept=kept))


def forget_assignments(rng: Random, built: Built) -> None:
    for op in pick(rng, [o for o in built.ops if any(isinstance(m, Assign) for m in o.mops)]):
        op.mops = [mop for mop in op.mops if not isinstance(mop, Assign)]


def noise(rng: Random, built: Built) -> None:
    for op in pick(rng, built.ops):
        for _ in range(rng.randint(1, 4)):
            tp = rng.randrange(len(built.tps))
            values = [send.value for _, send in built.sends() if send.tp == tp]
            values.append(value_of(NOBODY, rng.randint(0, 2)))
            read = Read(tp=tp, offset=rng.randint(0, 15), value=rng.choice(values))
            _insert_read(rng, op, read)


def _forget_above(built: Built, bound: Bound, *, final: bool) -> None:
    """Readers of the bound's level did not get what lies above what it says was read."""
    above = [
        read
        for op, read in built.reads()
        if _isolation(built, op) == bound.isolation
        and read.tp == bound.tp
        and read.offset >= bound.read_to
        and (op.phase == Phase.FINAL or not final)
    ]
    built.forget(above)


def cut_final_read(rng: Random, built: Built) -> None:
    for bound in pick(rng, built.bounds):
        bound.read_to = rng.randint(-1, bound.end + 1)
        if rng.random() < 0.7:
            _forget_above(built, bound, final=True)


def change_bounds(rng: Random, built: Built) -> None:
    for bound in pick(rng, built.bounds):
        match rng.randrange(5):
            case 0:
                bound.start = rng.randint(0, max(bound.end, 0))
            case 1:
                bound.end = max(-1, bound.end + rng.randint(-3, 3))
            case 2:
                bound.end = bound.start = -1
            case 3:
                built.bounds.remove(bound)
            case 4:
                bound.end = bound.read_to = max(0, bound.end - rng.randint(1, 4))


def change_isolation(rng: Random, built: Built) -> None:
    for op in pick(rng, _readers(built)):
        settings = built.processes.setdefault(op.process, Process())
        settings.isolation = rng.choice((Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED))


def change_settings(rng: Random, built: Built) -> None:
    for process in pick(rng, sorted(built.processes)):
        settings = built.processes[process]
        settings.acks = rng.choice((-1, 0, 1))
        settings.idempotent = settings.acks == -1 and rng.random() < 0.5


def make_final(rng: Random, built: Built) -> None:
    for op in pick(rng, _readers(built)):
        op.phase = rng.choice((Phase.FINAL, Phase.FAULTS))


def foreign(rng: Random, built: Built) -> None:
    for op in pick(rng, built.ops):
        tp, reason = rng.randrange(len(built.tps)), rng.choice((*FOREIGN_REASONS, "misdirected"))
        payload = b"%d" % rng.choice(_values(built)) if rng.random() < 0.8 else b"?"
        op.mops.append(Foreign(tp=tp, offset=rng.randint(0, 12), reason=reason, payload=payload))


def _values(built: Built) -> list[int]:
    """Of all that was sent, and of one record that was not."""
    sent = (mop.value for op in built.ops for mop in op.mops if isinstance(mop, Send))
    return [value_of(NOBODY, 1), *sent]


def commit(rng: Random, built: Built) -> None:
    """Committed offsets of any kind, most of them of one group and partition."""
    for op in rng.sample(built.ops, min(len(built.ops), rng.randint(1, 6))):
        built.processes.setdefault(op.process, Process()).group = rng.choice((0, 0, 0, 1, -1))
        span = (op.invoke, op.invoke + 40 if op.complete is None else op.complete)
        begin, end = sorted((rng.randint(*span), rng.randint(*span)))
        op.mops.append(
            Commit(
                tp=rng.choice((0, 0, rng.randrange(len(built.tps)))),
                offset=rng.randint(0, 8),
                kind=rng.choice(list(CommitKind)),
                outcome=rng.choice((Outcome.OK, Outcome.OK, Outcome.OK, *Outcome)),
                generation=rng.randint(-1, 4),
                ns=(begin, end),
            )
        )


def move_commit(rng: Random, built: Built) -> None:
    commits = [mop for op in built.ops for mop in op.mops if isinstance(mop, Commit)]
    for found in pick(rng, commits):
        found.offset = max(0, found.offset + rng.randint(-5, 5))
        found.generation = rng.randint(-1, 4)


def stick_lso(rng: Random, built: Built) -> None:
    """The last stable offset stays behind: committed readers do not get what lies above."""
    committed = [b for b in built.bounds if b.isolation == Isolation.READ_COMMITTED and b.end > 0]
    for bound in pick(rng, committed):
        bound.end = bound.read_to = rng.randint(0, bound.end - 1)
        _forget_above(built, bound, final=False)


DAMAGE: Final = named(
    lose,
    tear,
    skip,
    duplicate,
    swap_reads,
    rewind,
    read_aborted,
    read_own,
    read_too_early,
    misread,
    misplace_read,
    misplace_ack,
    swap_acks,
    swap_records,
    cycle,
    flip_outcome,
    flip_record_outcome,
    flip_txn,
    forget_op,
    same_value_elsewhere,
    widen,
    reassign,
    forget_assignments,
    noise,
)
"""What can happen to any history."""

LATER_DAMAGE: Final = named(read_under_way, assign_twice, tell_aborted_offset, cut_journal)
"""What is drawn last, so that a seed keeps what it had before these were added. For recorded histories."""

RECORDED_DAMAGE: Final = (
    named(
        lose_at_the_end,
        cut_final_read,
        change_bounds,
        change_isolation,
        change_settings,
        make_final,
        foreign,
        commit,
        move_commit,
        stick_lso,
        overtake,
    )
    | GROUP_DAMAGE
)
"""What needs final reads, isolation levels, groups or transactional ids."""
