"""What happens to the small Kafka: faults that let it lose what it may lose, and planted bugs."""

from history.events import FaultHealed, FaultStarted
from tests.adversary.world import MARKER, Entry, Log, Steps, World

# Faults and bugs --------------------------------------------------------------------------------


def nemesis(world: World, first: int = 0, *, most: int = 3) -> Steps:
    """Leaders move; what is above the high watermark may go. More only where the faults permit it.

    first: number of its first fault; most: of how many at most.
    """
    rng, config = world.rng, world.plan.config
    given = {**config.broker_settings, **config.topic_settings}
    together = int(given.get("flush.messages", given.get("log.flush.interval.messages", 0)))
    timed = "log.flush.scheduler.interval.ms" in given
    world.roles()
    for number in range(first, first + rng.randint(0, most)):
        for _ in range(rng.randint(2, 12)):
            yield
        kind = rng.choice(
            (
                "kill:one@leader",
                "partition:isolate@leader",
                "power:all@random",
                "power:one@random",
                "unclean:x",
            )
        )
        if kind.startswith("power") and not world.chance(0.3):
            continue
        if kind.startswith("unclean") and not config.unclean_leader_election:
            continue
        node = rng.randint(1, 3)
        nodes = (1, 2, 3) if kind == "power:all@random" else (node,)
        begin = world.tick()
        world.events.append(
            FaultStarted(
                begin_ns=begin, ns=world.tick(), fault=number, name=kind, nodes=nodes, text="x", colour="x"
            )
        )
        for log in world.logs:
            if log.leader in nodes:
                low = log.high
                most = 3 if not together else min(together - 1, 3)
                if kind.startswith("unclean"):
                    low = max(log.start, log.high - rng.randint(0, 3))
                elif kind == "power:all@random" and not timed and world.chance(0.7):
                    low = max(log.start, log.high - rng.randint(0, most))
                if kind.startswith("partition"):
                    log.replaced = Log(log.tp, end=log.end)
                log.cut(rng.randint(low, log.end))
                log.high = log.end
                log.leader, log.epoch = rng.randint(1, 3), log.epoch + 1
        if kind.startswith("power"):
            world.out |= set(nodes)
        world.roles()
        for _ in range(rng.randint(0, 6)):
            yield
        world.events.append(FaultHealed(begin_ns=world.tick(), ns=world.tick(), fault=number))
        for log in world.logs:
            log.leader, log.epoch = rng.randint(1, 3), log.epoch + (rng.random() < 0.5)
            log.replaced = None
        world.roles()
        if world.chance(0.8):
            world.out.clear()
            world.roles()


def bugs(world: World) -> Steps:
    """Planted bugs that change logs at some moment."""
    rng = world.rng
    for _ in range(rng.randint(3, 25)):
        yield
    for _ in range(12):
        log = rng.choice(world.logs)
        for bug, strike in STRIKES.items():
            below = [e for e in log.entries if e.value != MARKER and e.offset < log.high]
            if below and world.strikes(bug, 0.8):
                strike(world, log, below)
        yield


def _lose(world: World, log: Log, below: list[Entry]) -> None:
    entry = world.rng.choice(below)
    log.entries.remove(entry)
    world.promise("lost", lambda: world.gone(log.tp, [entry.value]), "lost-write")


def _double(world: World, log: Log, below: list[Entry]) -> None:
    entry = world.rng.choice(below)
    log.append(entry.value, entry.token if log.fate.get(entry.token) == "open" else -1)
    log.high = log.end

    def twice() -> bool:
        return world.read_whole(log.tp) and sum(e.value == entry.value for e in log.entries) > 1

    world.promise("doubled", twice, "duplicate")


def _swap(world: World, log: Log, below: list[Entry]) -> None:
    one, other = (world.rng.choice(below) for _ in range(2))
    one.value, other.value = other.value, one.value


def _truncate(world: World, log: Log, below: list[Entry]) -> None:
    entry = world.rng.choice(below)
    values = [e.value for e in log.entries if e.offset >= entry.offset and e.value != MARKER]
    log.cut(entry.offset)
    log.epoch += 1
    world.promise("truncated", lambda: world.gone(log.tp, values), "lost-write")


def _move_start(world: World, log: Log, below: list[Entry]) -> None:
    log.start = world.rng.randint(1, log.high)
    values = [e.value for e in below if e.offset < log.start]
    log.entries = [e for e in log.entries if e.offset >= log.start]
    world.promise("start", lambda: world.gone(log.tp, values), "lost-write")


def _invent(world: World, log: Log, below: list[Entry]) -> None:
    entry = log.append(9_999 << 32)
    log.high = log.end
    world.promise("phantom", lambda: log.holds(entry) and world.read_whole(log.tp), "phantom-read")


def cleaned(world: World) -> None:
    """Compaction, before the final reads: of some keys only the newest record is left, or nothing."""
    for log in world.logs if world.plan.config.compacted else ():
        counting = [
            e for e in log.entries if e.value != MARKER and log.fate.get(e.token, "commit") == "commit"
        ]
        newest = {e.value % 128: e for e in counting}
        for key, last in newest.items():
            older = [e for e in counting if e.value % 128 == key and e is not last]
            if world.chance(0.5):
                log.entries = [e for e in log.entries if e not in older or world.chance(0.2)]
            elif last.value // 128 % 2 and older and world.strikes("resurrected", 0.9):
                log.entries = [e for e in log.entries if e is not last]
                log.end = log.high = max(log.end, last.offset + 1)


STRIKES = {
    "lost": _lose, "doubled": _double, "swapped": _swap, "truncated": _truncate, "start": _move_start,
    "phantom": _invent,
}  # fmt: skip
BUGS = (
    "lost", "doubled", "swapped", "truncated", "start", "phantom", "hanging", "aborted-visible", "torn",
    "eos-twice", "eos-loss", "zombie", "dirty", "consumer-skips", "consumer-back", "group-forgets",
    "group-ahead", "begins-late", "resurrected",
)  # fmt: skip
