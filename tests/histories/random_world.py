"""The cluster of random histories: logs, transactional ids, groups, and the clock, all correct.

Not here: the clients (`tests.histories.random_history`, `tests.histories.random_groups`), damage
(`tests.histories.planted`).
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from random import Random

from core.op import Isolation, Outcome, value_of
from tests.histories.built import Built, Op, Process, Read, Send

Steps = Generator[None, None, None]

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass
class Log:
    """One partition: records by offset, and how far each transaction's fate is known here."""

    records: list[tuple[int, int, int]] = field(default_factory=list)
    """(offset, value, transaction or -1)"""
    fate: dict[int, str] = field(default_factory=dict)
    end: int = 0

    def append(self, value: int, txn: int) -> int:
        offset = self.end
        self.records.append((offset, value, txn))
        if txn >= 0:
            self.fate.setdefault(txn, OPEN)
        self.end += 1
        return offset

    def mark(self, txn: int, fate: str) -> None:
        self.fate[txn] = fate
        self.end += 1

    def stable(self) -> int:
        """The last stable offset."""
        unfinished = [o for o, _, txn in self.records if self.fate.get(txn) == OPEN]
        return min(unfinished, default=self.end)

    def read(self, start: int, isolation: Isolation, most: int) -> list[tuple[int, int]]:
        if isolation == Isolation.READ_UNCOMMITTED:
            found = [(o, v) for o, v, _ in self.records if o >= start]
        else:
            stable = self.stable()
            found = [
                (o, v) for o, v, txn in self.records if start <= o < stable and self.fate.get(txn) != ABORTED
            ]
        return found[:most]


@dataclass
class TxnId:
    """What the coordinator knows of a transactional id: who has it, its open transaction (-1 none),
    how many markers of the last one are still to be written."""

    owner: int = -1
    open: int = -1
    left: int = 0


@dataclass
class Group:
    """What the coordinator knows of a group. `pending`: offsets in transactions without markers."""

    number: int
    tps: Sequence[int]
    generation: int = 0
    members: list[int] = field(default_factory=list)
    owner: dict[int, int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    pending: set[tuple[int, int]] = field(default_factory=set)
    """(transaction, partition)"""

    def rebalance(self, rng: Random) -> None:
        """Everybody's partitions are given out anew."""
        self.generation += 1
        self.owner = {tp: rng.choice(self.members) for tp in self.tps if self.members}

    def left_by(self, process: int, rng: Random) -> None:
        """A member is gone, as far as the coordinator knows."""
        if process in self.members:
            self.members.remove(process)
            self.rebalance(rng)


class World:
    """The cluster, the clock and what is recorded."""

    def __init__(self, rng: Random, tps: int, *, portable: bool) -> None:
        self.rng = rng
        self.portable = portable
        self.coarse = rng.random() < 0.5
        self.now = 0
        self.logs = [Log() for _ in range(tps)]
        self.built = Built(tps=[f"t{n}" for n in range(tps)])
        self.later: list[Callable[[], None]] = []
        """Writes and markers that land at some later moment."""
        self.txns = 0
        self.budget = rng.randint(10, 60)
        self.ids: dict[int, TxnId] = {}
        self.begun: set[int] = set()
        """Processes that got their transactional id."""
        self.groups: list[Group] = []
        self.committed = [0] * tps
        """Positions that the one loose group committed."""
        self.generation = 0
        self.values: dict[int, int] = {}

    def tick(self) -> int:
        """Time goes on; in some histories several things happen at one moment."""
        self.now += self.rng.randint(0 if self.coarse else 1, 3)
        return self.now

    def process(self, settings: Process) -> int:
        number = len(self.built.processes)
        self.built.processes[number] = settings
        return number

    def value(self, process: int) -> int:
        n = self.values.get(process, 0)
        self.values[process] = n + 1
        return value_of(process, n)

    def send(self, process: int) -> Send:
        """A record for some partition."""
        return Send(tp=self.rng.randrange(len(self.logs)), value=self.value(process))

    def invoke(self, process: int, f: str, *, txn: bool = False) -> Op:
        op = Op(process=process, f=f, invoke=self.tick(), complete=None, txn=txn)
        op.outcome = Outcome.INFO
        self.built.ops.append(op)
        return op

    def complete(self, op: Op, outcome: Outcome) -> None:
        """Record the completion; an indefinite op sometimes never has one."""
        op.outcome = outcome
        if outcome != Outcome.INFO or self.rng.random() < 0.7:
            op.complete = self.tick()

    def land(self) -> None:
        """One of the delayed effects takes place."""
        if self.later:
            self.later.pop(self.rng.randrange(len(self.later)))()

    def poll(self, op: Op, positions: dict[int, int]) -> list[Read]:
        """Read on from these positions."""
        rng, isolation = self.rng, self.built.processes[op.process].isolation
        begin = self.tick()
        found = []
        for tp in sorted(positions, key=lambda _: rng.random()):
            if rng.random() < 0.25:
                continue
            for offset, value in self.logs[tp].read(positions[tp], isolation, rng.randint(1, 6)):
                found.append(Read(tp=tp, offset=offset, value=value))
                positions[tp] = offset + 1
        end = self.tick()
        for read in found:
            read.ns = (begin, end)
        op.mops += found
        return found


# Sending ----------------------------------------------------------------------------------------


def append_plainly(world: World, sends: Sequence[Send], begin: int) -> Steps:
    """Send records without transaction. An idempotent producer writes nothing past one in doubt."""
    rng = world.rng
    stuck: dict[int, list[Send]] = {}
    for send in sends:
        fate = rng.random()
        if send.tp in stuck or fate >= 0.93:
            send.outcome = Outcome.INFO
            stuck.setdefault(send.tp, []).append(send)
        elif fate < 0.86:
            offset = world.logs[send.tp].append(send.value, -1)
            send.outcome = Outcome.OK
            if rng.random() < 0.95:
                send.offset = offset
        else:
            send.outcome = Outcome.FAIL
        if rng.random() < 0.5:
            yield
        send.ns = (begin, world.tick())
    for chain in stuck.values():
        world.later.append(_late_appends(world, chain[: rng.randint(0, len(chain))]))


def _late_appends(world: World, sends: list[Send]) -> Callable[[], None]:
    def land() -> None:
        for send in sends:
            world.logs[send.tp].append(send.value, -1)

    return land


def begin_txn(world: World, process: int) -> Generator[None, None, int]:
    """Begin a transaction; its number, or -1 where the process is fenced.

    The first one of a process takes the transactional id: what is open under it is aborted.
    """
    known = world.ids.setdefault(world.built.processes[process].txn_id, TxnId())
    while known.left:  # the coordinator answers CONCURRENT_TRANSACTIONS
        world.land()
        yield
    if process not in world.begun:
        world.begun.add(process)
        known.owner = process
        for log in world.logs:
            if log.fate.get(known.open) == OPEN:
                log.mark(known.open, ABORTED)
        for group in world.groups:
            group.pending = {(txn, tp) for txn, tp in group.pending if txn != known.open}
    if known.owner != process:
        return -1
    known.open = world.txns
    world.txns += 1
    return known.open


def is_fenced(world: World, process: int) -> bool:
    """Another process took the transactional id."""
    return world.ids[world.built.processes[process].txn_id].owner != process


def txn_send(world: World, op: Op, token: int, send: Send) -> Generator[None, None, bool]:
    """One send within a transaction; True if it failed for good."""
    rng = world.rng
    op.mops.append(send)
    begin = world.tick()
    yield
    fate = rng.random()
    if fate < 0.05 or is_fenced(world, op.process):
        send.outcome = Outcome.FAIL
        send.ns = (begin, world.tick())
        return True
    offset = world.logs[send.tp].append(send.value, token)
    if fate < 0.9:
        send.offset, send.outcome = offset, Outcome.OK
    else:
        send.outcome = rng.choice((Outcome.OK, Outcome.INFO))
    send.ns = (begin, world.tick())
    return False


def end_txn(
    world: World,
    op: Op,
    token: int,
    *,
    failed: bool,
    group: Group | None = None,
    offsets: dict[int, int] | None = None,
) -> Generator[None, None, Outcome]:
    """Commit or abort; markers land one by one, also after the completion."""
    rng = world.rng
    if is_fenced(world, op.process):
        yield
        world.complete(op, Outcome.INFO)
        return Outcome.INFO
    op.deliberate = rng.random() < 0.15
    if not op.deliberate and not failed:
        # a commit that is acknowledged has all records in the log
        for mop in op.mops:
            if isinstance(mop, Send) and mop.outcome == Outcome.INFO:
                mop.outcome = Outcome.OK
    known = rng.random() < 0.85
    abort = op.deliberate or failed or (not known and rng.random() < 0.5)
    fate = ABORTED if abort else COMMITTED
    markers = [
        _marker(world.logs[tp], token, fate)
        for tp in sorted({mop.tp for mop in op.mops if isinstance(mop, Send)})
        if token in world.logs[tp].fate
    ]
    if group is not None:
        markers += [_stored(group, token, tp, at, fate) for tp, at in (offsets or {}).items()]
    _land_later(world, world.ids[world.built.processes[op.process].txn_id], markers)
    for _ in range(rng.randint(0, 4)):
        if rng.random() < 0.7:
            world.land()
        yield
    outcome = Outcome.INFO
    if known:
        outcome = Outcome.FAIL if abort else Outcome.OK
    world.complete(op, outcome)
    yield
    return outcome


def _marker(log: Log, token: int, fate: str) -> Callable[[], None]:
    return lambda: log.mark(token, fate)


def _stored(group: Group, token: int, tp: int, offset: int, fate: str) -> Callable[[], None]:
    def land() -> None:
        group.pending.discard((token, tp))
        if fate == COMMITTED:
            group.committed[tp] = offset

    return land


def _land_later(world: World, known: TxnId, markers: list[Callable[[], None]]) -> None:
    known.open, known.left = -1, len(markers)

    def landing(marker: Callable[[], None]) -> Callable[[], None]:
        def land() -> None:
            marker()
            known.left -= 1

        return land

    world.later += [landing(marker) for marker in markers]
