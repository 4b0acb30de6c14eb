"""Noise: what no cluster did, in what was recorded. It reaches corners of the rules that planted bugs do not.

Preconditions stay: a process is sequential, and a value is sent once to a partition.
"""

from random import Random
from typing import Any

from core.op import AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from history.events import FaultStarted
from history.tables import GONE
from tests.adversary.rows import Row
from tests.adversary.world import MS, Op, World

NOBODY = 9_999 << 32


def shaken(world: World) -> None:
    """Some pieces of noise; `planted` says which."""
    rng = world.rng
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        kind = rng.choice(PORTABLE if world.plan.portable else PORTABLE + RECORDED)
        kind(rng, world)
        world.planted.append(f"~{kind.__name__.strip('_')}")
    for op in world.ops:  # who reads does so at some level
        if op.reads and world.processes[op.process]["isolation"] < 0:
            world.processes[op.process]["isolation"] = 1
        if op.sends and world.processes[op.process]["acks"] == -2:
            world.processes[op.process] |= {"acks": -1, "idempotent": 1}


def _reads(world: World) -> list[tuple[Op, Row]]:
    return [(op, row) for op in world.ops for row in op.reads]


def _sends(world: World) -> list[tuple[Op, Row]]:
    return [(op, row) for op in world.ops for row in op.sends]


def _some(rng: Random, things: list[Any]) -> list[Any]:
    return rng.sample(things, min(len(things), rng.randint(1, 3)))


def _drop_reads(rng: Random, world: World) -> None:
    for op, row in _some(rng, _reads(world)):
        op.reads.remove(row)


def _forget_value(rng: Random, world: World) -> None:
    for _, sent in _some(rng, _sends(world)):
        final = rng.random() < 0.5
        for op in world.ops:
            if op.phase == Phase.FINAL or not final:
                op.reads = [r for r in op.reads if (r["tp"], r["value"]) != (sent["tp"], sent["value"])]


def _misplace(rng: Random, world: World) -> None:
    for _, row in _some(rng, _reads(world)):
        row["offset"] = max(0, row["offset"] + rng.randint(-3, 3))


def _misread(rng: Random, world: World) -> None:
    for _, row in _some(rng, _reads(world)):
        values = [s["value"] for _, s in _sends(world) if s["tp"] == row["tp"]]
        row["value"] = rng.choice([*values, NOBODY + rng.randint(0, 2)])


def _read(op: Op, row: Row, **changed: int) -> None:
    """Another read in an op, at the end or at the beginning."""
    op.reads.append(row | changed | {"process": op.process, "pos": op.pos})
    op.pos += 1


def _read_again(rng: Random, world: World) -> None:
    for op, row in _some(rng, _reads(world)):
        other = rng.choice([op, rng.choice(world.ops)])
        _read(
            other,
            row,
            offset=max(0, row["offset"] + rng.choice((0, 0, 1, 3, -2))),
            complete_ns=max(row["complete_ns"], other.invoke),
        )


def _read_early(rng: Random, world: World) -> None:
    """Some op reads a record, perhaps before it was sent, perhaps inside of its transaction."""
    for writer, row in _some(rng, _sends(world)):
        reader = rng.choice([writer, rng.choice(world.ops)])
        end = reader.complete if reader.complete >= 0 else reader.invoke + 900 * MS
        made: Row = {
            "tp": row["tp"], "offset": row["offset"] if row["offset"] >= 0 else rng.randint(0, 9),
            "value": row["value"], "leader_epoch": -1, "assignment": rng.randint(0, 1),
            "invoke_ns": reader.invoke, "complete_ns": rng.randint(reader.invoke, end),
        }  # fmt: skip
        _read(reader, made)


def _ring(rng: Random, world: World) -> None:
    """Transactions read each other's records in a cycle."""
    ops = [op for op in world.ops if op.txn and op.sends]
    if len(ops) < 2:
        return
    ring = rng.sample(ops, rng.randint(2, min(3, len(ops))))
    for op, other in zip(ring, [*ring[1:], ring[0]], strict=True):
        row = rng.choice(other.sends)
        made = {"tp": row["tp"], "offset": max(row["offset"], 0), "value": row["value"], "leader_epoch": -1}
        ns = {"invoke_ns": op.invoke, "complete_ns": max(op.complete, op.invoke), "assignment": 0}
        _read(op, made | ns)
        world.processes[op.process]["isolation"] = 1
        if rng.random() < 0.7:
            op.outcome = Outcome.OK if op.complete >= 0 else Outcome.INFO


def _swap_positions(rng: Random, world: World) -> None:
    ops = [op for op in world.ops if len(op.reads) > 1]
    for op in _some(rng, ops):
        a, b = rng.sample(op.reads, 2)
        a["pos"], b["pos"] = b["pos"], a["pos"]


def _outcomes(rng: Random, world: World) -> None:
    for op in _some(rng, [op for op in world.ops if op.complete >= 0]):
        op.outcome = rng.choice(list(Outcome))


def _record_outcomes(rng: Random, world: World) -> None:
    for _, row in _some(rng, _sends(world)):
        row["outcome"] = rng.choice(list(Outcome))
        if row["outcome"] == Outcome.OK and row["ack_ns"] < 0 and rng.random() < 0.8:
            row["ack_ns"] = row["invoke_ns"] + rng.randint(0, 900) * MS


def _acks(rng: Random, world: World) -> None:
    for _, row in _some(rng, _sends(world)):
        row["offset"] = rng.choice((-1, max(0, row["offset"] + rng.randint(-2, 2)), rng.randint(0, 9)))
        if rng.random() < 0.3:
            row["ack_ns"] = rng.choice((-1, row["invoke_ns"] + rng.randint(0, 900) * MS))


def _swap_acks(rng: Random, world: World) -> None:
    for _, row in _some(rng, _sends(world)):
        other = rng.choice([s for _, s in _sends(world) if s["tp"] == row["tp"]])
        row["offset"], other["offset"] = other["offset"], row["offset"]


def _swap_records(rng: Random, world: World) -> None:
    for _, row in _some(rng, _sends(world)):
        other = rng.choice([s for _, s in _sends(world) if s["tp"] == row["tp"]])
        swap = {row["value"]: other["value"], other["value"]: row["value"]}
        row["offset"], other["offset"] = other["offset"], row["offset"]
        for _, read in _reads(world):
            if read["tp"] == row["tp"]:
                read["value"] = swap.get(read["value"], read["value"])


def _transactional(rng: Random, world: World) -> None:
    for op in _some(rng, world.ops):
        op.txn = not op.txn


def _widen(rng: Random, world: World) -> None:
    """Ops take longer, as far as their process leaves room."""
    for op in _some(rng, [op for op in world.ops if op.complete >= 0]):
        own = sorted((o for o in world.ops if o.process == op.process), key=lambda o: o.invoke)
        at = next(n for n, one in enumerate(own) if one is op)
        if at and 0 <= own[at - 1].complete <= op.invoke:
            op.invoke = rng.randint(own[at - 1].complete, op.invoke)
        room = own[at + 1].invoke if at + 1 < len(own) else op.complete + 900 * MS
        op.complete = rng.randint(op.complete, max(room, op.complete))


def _send_elsewhere(rng: Random, world: World) -> None:
    """A value of one partition is sent to another one, too: another record."""
    for _, row in _some(rng, _sends(world)):
        tp = rng.randrange(len(world.logs))
        op = rng.choice([op for op in world.ops if op.sends])
        if not any((s["tp"], s["value"]) == (tp, row["value"]) for _, s in _sends(world)):
            op.sends.append(
                row
                | {"tp": tp, "process": op.process, "pos": op.pos, "offset": rng.randint(-1, 9)}
                | {"invoke_ns": op.invoke, "ack_ns": rng.choice((-1, op.invoke + rng.randint(0, 900) * MS))}
            )
            op.pos += 1


def _assignments(rng: Random, world: World) -> None:
    for op in _some(rng, world.ops):
        kind = rng.choice(list(AssignmentKind))
        row: Row = {
            "process": op.process, "tp": rng.randrange(len(world.logs)), "generation": rng.randint(-1, 3),
            "assignment": rng.randint(0, 4), "kind": kind, "ns": op.invoke + rng.randint(0, 300) * MS,
        }  # fmt: skip
        own = [one for other in world.ops for one in other.assigns if one["process"] == op.process]
        if all((one["tp"], one["assignment"]) != (row["tp"], row["assignment"]) for one in own):
            op.assigns.append(row)  # a number is raised once


def _no_assignments(rng: Random, world: World) -> None:
    for op in _some(rng, [op for op in world.ops if op.assigns]):
        op.assigns = []


def _listed(world: World) -> list[Row]:
    """Rows of bounds of topics that were not deleted."""
    return [row for row in world.bounds if row["start"] != GONE]


def _cut_bounds(rng: Random, world: World) -> None:
    for row in _some(rng, _listed(world)):
        match rng.randrange(5):
            case 0:
                row["start"] = rng.randint(0, max(row["end"], 0))
            case 1:
                row["end"] = max(-1, row["end"] + rng.randint(-3, 3))
            case 2:
                row["end"] = row["start"] = -1
            case 3:
                world.bounds.remove(row)
            case 4:
                row["end"] = row["read_to"] = max(0, row["end"] - rng.randint(1, 4))
        row["start"] = min(row["start"], row["end"])  # tables that say otherwise are refused
        row["complete"] = row["end"] >= 0 and row["read_to"] >= row["end"]


def _read_less(rng: Random, world: World) -> None:
    for row in _some(rng, _listed(world)):
        row["read_to"] = rng.randint(-1, row["end"] + 1)
        row["complete"] = row["end"] >= 0 and row["read_to"] >= row["end"]


def _levels(rng: Random, world: World) -> None:
    for op in _some(rng, [op for op in world.ops if op.reads]):
        world.processes[op.process]["isolation"] = int(
            rng.choice((Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED))
        )


def _settings(rng: Random, world: World) -> None:
    for row in _some(rng, [row for row in world.processes if row["acks"] != -2]):
        row["acks"] = rng.choice((-1, 0, 1))
        row["idempotent"] = int(row["acks"] == -1 and rng.random() < 0.5)
        row["retries"], row["in_flight"] = rng.choice((0, 5)), rng.choice((1, 5))


def _ends(rng: Random, world: World) -> None:
    for row in _some(rng, world.processes):
        row["end"] = rng.choice(list(End))
        row["auto_commit"] = int(rng.random() < 0.5)


def _share_ids(rng: Random, world: World) -> None:
    ids = [row for row in world.processes if row["txn_id"] >= 0]
    for row in _some(rng, ids):
        row["txn_id"] = rng.choice(ids)["txn_id"]


def _finals(rng: Random, world: World) -> None:
    for op in _some(rng, [op for op in world.ops if op.reads]):
        op.phase = rng.choice((Phase.FINAL, Phase.FAULTS))


def _foreign(rng: Random, world: World) -> None:
    for op in _some(rng, world.ops):
        op.foreign.append(
            {
                "tp": rng.randrange(len(world.logs)),
                "offset": rng.randint(0, 9),
                "reason": rng.choice((0, 1, 2, 3, 4, 4, 4)),
                "payload": b"%d" % rng.choice(_values(world)) if rng.random() < 0.8 else b"?",
            }
        )


def _values(world: World) -> list[int]:
    """Of all that was sent, and of one record that was not."""
    return [9_998 << 32, *(send["value"] for op in world.ops for send in op.sends)]


def _commits(rng: Random, world: World) -> None:
    for op in _some(rng, world.ops) + _some(rng, world.ops):
        world.processes[op.process]["group"] = rng.choice((0, 0, 1, -1))
        end = op.complete if op.complete >= 0 else op.invoke + 400 * MS
        begin, done = sorted((rng.randint(op.invoke, end), rng.randint(op.invoke, end)))
        op.commits.append(
            {
                "group": world.processes[op.process]["group"],
                "tp": rng.choice((0, 0, rng.randrange(len(world.logs)))),
                "process": op.process, "generation": rng.randint(-1, 4), "offset": rng.randint(0, 8),
                "kind": rng.choice(list(CommitKind)),
                "outcome": rng.choice((Outcome.OK, Outcome.OK, *Outcome)),
                "invoke_ns": begin, "complete_ns": done,
            }
        )  # fmt: skip


def _move_commits(rng: Random, world: World) -> None:
    for row in _some(rng, [row for op in world.ops for row in op.commits]):
        row["offset"] = max(0, row["offset"] + rng.randint(-4, 4))
        row["generation"] = rng.randint(-1, 4)


def _sources(rng: Random, world: World) -> None:
    """A copy is of another input."""
    for _, row in _some(rng, _sends(world)):
        row["src_tp"], row["src_offset"] = rng.randrange(len(world.logs)), rng.randint(0, 5)


def _faults(rng: Random, world: World) -> None:
    at = world.now + MS
    world.events.append(
        FaultStarted(
            begin_ns=at, ns=at, fault=90 + rng.randint(0, 9),
            name=rng.choice(("power:one@random", "power:all", "powerful:x", "kill:all@leader")),
            nodes=tuple(rng.sample((1, 2, 3), rng.randint(1, 3))), text="x", colour="x",
        )
    )  # fmt: skip


PORTABLE = (
    _drop_reads, _forget_value, _misplace, _misread, _read_again, _read_early, _ring, _swap_positions,
    _outcomes, _record_outcomes, _acks, _swap_acks, _swap_records, _transactional, _widen, _send_elsewhere,
    _assignments,
    _no_assignments,
)  # fmt: skip
RECORDED = (
    _cut_bounds, _read_less, _levels, _settings, _ends, _share_ids, _finals, _foreign, _commits,
    _move_commits, _sources, _faults,
)  # fmt: skip
