"""What a run of the small Kafka may lose for good: records that are deleted, topics that are deleted and
made again, and partitions whose last leader is gone.

Chance gives a run some of `SHARES`, by a draw of its own. Not here: what the naive judge says of them
(`tests.adversary.deleted`).
"""

from random import Random

from history.events import FaultFailed, FaultHealed, FaultStarted, RecordsDeleted
from history.tables import GONE
from tests.adversary.applications import WRONGS
from tests.adversary.excuses import retention
from tests.adversary.rows import Row
from tests.adversary.shares import SHARE_BUGS
from tests.adversary.world import MARKER, Group, Log, Steps, World

SHARES = {"leaderless": 0.1, "deletions": 0.12, "remade": 0.08, "shares": 0.08}
APPLICATIONS = 0.15
"""Which part of the recorded runs has what; of them, which part is of an application."""
BUGGY = 0.3
FAULTS = {"deletions": ("deletes-more",), "remade": ("old-life", "offsets-kept"), "shares": SHARE_BUGS}
"""Bugs that only such runs can have."""


def kinds(seed: int, compacted: bool) -> tuple[frozenset[str], list[str]]:
    """What a run has of `SHARES`, and the bugs planted for it. The harness deletes nothing from compacted
    topics."""
    rng = Random(f"adversary/{seed}/removals")
    drawn = {name for name, share in SHARES.items() if rng.random() < share}
    drawn -= {"deletions", "remade"} if compacted else set()
    draw = Random(f"adversary/{seed}/application")
    if not (compacted or "shares" in drawn) and draw.random() < APPLICATIONS:
        drawn.add("application")
    if drawn & {"shares", "application"}:  # no topics are remade under these
        drawn -= {"remade"}
    bugs = [bug for name in sorted(drawn) for bug in FAULTS.get(name, ()) if rng.random() < BUGGY]
    if "application" in drawn:
        bugs += draw.sample(WRONGS, draw.choice((0, 0, 1, 1, 2)))
    return frozenset(drawn), bugs


# Partitions without a leader --------------------------------------------------------------------


def orphaned(world: World) -> Steps:
    """From some moment on, partitions have no leader, and nothing brings one back. Mostly a fault is on
    record that took it, and is never healed."""
    rng = world.rng
    for _ in range(rng.randint(5, 70)):
        yield
    begin, node = world.tick(), rng.randint(1, 3)
    for log in rng.sample(world.logs, rng.choice((1, 1, 1, len(world.logs)))):
        log.lost = True
    if world.chance(0.7):
        nodes = (1, 2, 3) if world.chance(0.3) else (node,)
        world.events.append(
            FaultStarted(
                begin_ns=begin, ns=world.tick(), fault=30, nodes=nodes, text="x", colour="x",
                name=rng.choice(("kill:one@leader", "disk:full@leader")),
            )
        )  # fmt: skip
    world.roles()


def unread(world: World, log: Log, level: int) -> Row:
    """The row of bounds of a final read that is not whole, as its partition has no leader. Mostly its ends
    could not be listed; or it lost its leader after that, and a reader may have got some of it."""
    rng = world.rng
    row = {"tp": log.tp, "isolation": int(level), "start": -1, "end": -1, "read_to": -1, "complete": False}
    if rng.random() < 0.7:
        return row
    end = log.high if level == 0 else log.stable()
    read_to = rng.randrange(log.start, end) if end > log.start and rng.random() < 0.6 else -1
    return row | {"start": log.start, "end": end, "read_to": read_to, "complete": read_to >= end}


# Records that are deleted -----------------------------------------------------------------------


def deletions(world: World, first: int) -> Steps:
    """Now and then leaders are asked to delete records. A deletion may be forgotten. first: see `nemesis`."""
    rng = world.rng
    for fault in range(first, first + rng.randint(1, 3)):
        for _ in range(rng.randint(3, 25)):
            yield
        node, begin = rng.randint(1, 3), world.tick()
        some = [
            log for log in world.logs if log.high > log.start and (log.leader == node or world.chance(0.3))
        ]
        ends = [(log, log.high if world.chance(0.5) else (log.start + log.high + 1) // 2) for log in some]
        if world.chance(0.3):
            yield  # others act while the leader deletes
        ends = [(log, end) for log, end in ends if log.start < end <= log.high]
        if not ends or any(log.lost for log, _ in ends):
            continue
        for log, end in ends:
            log.asked = max(log.asked, end)
            if world.chance(0.9):
                _delete(world, log, end)
        _written(world, fault, begin, node, {log.name: end for log, end in ends})
        for log, _ in ends:
            if world.chance(0.25):
                _restore(log)
                world.roles()
                yield


def _written(world: World, fault: int, begin: int, node: int, offsets: dict[str, int]) -> None:
    """The events of a deletion: one that failed may have deleted, too."""
    name = world.rng.choice(("delete-records:half@leader", "delete-records:all@random"))
    world.events.append(RecordsDeleted(ns=world.tick(), fault=fault, offsets=offsets))
    if world.chance(0.15):
        failed = FaultFailed(begin_ns=begin, ns=world.tick(), fault=fault, name=name, why="no answer")
        world.events.append(failed)
        return
    world.events.append(
        FaultStarted(
            begin_ns=begin, ns=world.tick(), fault=fault, name=name, nodes=(node,), text="x", colour="x"
        )
    )
    world.events.append(FaultHealed(begin_ns=world.tick(), ns=world.tick(), fault=fault))


def _delete(world: World, log: Log, end: int) -> None:
    """The log begins at `end`; or a bug deletes more, where no retention could have."""
    beyond = [e for e in log.entries if end <= e.offset < log.high and e.value != MARKER]
    if beyond and not retention(world.plan.config) and world.strikes("deletes-more", 0.8):
        last = world.rng.choice(beyond)
        values = [e.value for e in beyond if e.offset <= last.offset]
        end = last.offset + 1
        world.promise("deletes-more", lambda: world.gone(log.tp, values), "lost-write")
    gone = [e for e in log.entries if e.offset < end]
    log.forgotten = log.start, gone, {e.token for e in gone if e.token >= 0}
    log.deleted |= {e.value for e in gone}
    log.entries, log.start = [e for e in log.entries if e.offset >= end], end


def _restore(log: Log) -> None:
    """The replicas died before they had written where the log begins: its beginning is there again."""
    start, gone, tokens = log.forgotten
    if start < log.start and not log.lost and tokens <= log.fate.keys():
        log.entries, log.start = gone + log.entries, start
        log.deleted -= {e.value for e in gone}
        log.forgotten = log.start, [], set()


# Topics that are deleted and made again ---------------------------------------------------------


def deleted(world: World) -> Steps:
    """At some moment the topics are gone; clients end what they do."""
    for _ in range(world.rng.randint(10, 60)):
        yield
    world.remaking = world.tick()
    for log in world.logs:
        log.lost = True
    world.budget = 0


def remake(world: World, life: int) -> None:
    """The topics are made again, and their logs begin empty. What processes did so far, they did to the old
    ones: these have the numbers behind all that there are."""
    rng, many = world.rng, len(world.logs)
    begin = world.remaking or world.tick()
    by = many + len(world.past)
    rows = [row for op in world.ops for row in (*op.sends, *op.reads, *op.commits, *op.assigns, *op.foreign)]
    for row in rows:
        for name in ("tp", "src_tp"):
            if 0 <= row.get(name, -1) < many:
                row[name] += by
    for row in world.bounds:
        row["tp"] += by * (row["tp"] < many)
    for log in world.logs:
        log.topic, log.tp, log.lost = f"t{log.tp}~{life + 1}", log.tp + by, False
    world.past += world.logs
    old = world.logs
    world.logs = [Log(tp, leader=rng.randint(1, 3)) for tp in range(many)]
    for known in world.ids.values():
        known.token, known.left = -1, 0
    world.former, world.groups = world.groups, []
    world.later, world.zombies, world.remaking = [], set(), 0
    world.events.append(
        FaultStarted(
            begin_ns=begin, ns=world.tick(), fault=50 + life, name="recreate-topics:all", nodes=(), text="x",
            colour="x",
        )
    )  # fmt: skip
    world.events.append(FaultHealed(begin_ns=world.tick(), ns=world.tick(), fault=50 + life))
    kept = [e for log in old for e in log.entries if e.value != MARKER]
    if kept and world.strikes("old-life"):
        log = rng.choice(world.logs)
        entry = log.append(rng.choice(kept).value)
        log.high = log.end
        world.promise("old-life", lambda: log.holds(entry) and world.read_whole(log.tp), "phantom-read")


def remembered(world: World, group: Group) -> None:
    """A group continues where one of its name was: its offsets are forgotten with the topic, or a bug keeps
    them."""
    for former in world.former:
        if former.number != group.number:
            continue
        group.generation = former.generation
        if former.committed and world.strikes("offsets-kept", 0.8):
            group.committed = {tp: at for tp, at in former.committed.items() if tp in group.tps and at > 0}
            world.promise("offsets-kept", lambda: _beyond(world, group), "phantom-commit")


def _beyond(world: World, group: Group) -> bool:
    """A member was given an offset that the new log does not reach."""
    ends = {row["tp"]: row for row in world.bounds if not row["isolation"] and row["end"] >= 0}
    current = [
        row for op in world.ops for row in op.commits
        if row["group"] == group.number and row["tp"] in ends and row["tp"] < len(world.logs)
    ]  # fmt: skip
    return any(
        row["outcome"] == 0 and row["offset"] > max(ends[row["tp"]][name] for name in ("end", "read_to"))
        for row in current
    )


def bounds_of_deleted(world: World) -> None:
    """Deleted topics have no end, and have lost all."""
    for log in world.past:
        for level in (0, 1):
            world.bounds.append(
                {"tp": log.tp, "isolation": level, "start": GONE, "end": -1, "read_to": -1, "complete": False}
            )
