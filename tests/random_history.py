"""Random histories: a correct cluster is simulated first, then anomalies are planted in what was seen.

`simulate` plays clients against logs that keep Kafka's promises: transactions with markers that land
partition by partition, aborts, indefinite ends, delayed writes, gaps, two isolation levels, groups,
manual assignment, rewinds, final reads. Nothing forbidden may be found in such a history.

Not here: damage (`tests.planted`), what is an anomaly (docs/checks.md), tables (`tests.built`).
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random

from harness.op import (
    AssignmentKind,
    CommitKind,
    End,
    Isolation,
    Outcome,
    Phase,
    value_of,
)
from tests.built import Assign, Bound, Built, Commit, Op, Process, Read, Send

Steps = Generator[None, None, None]

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass
class _Log:
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
                (o, v)
                for o, v, txn in self.records
                if start <= o < stable and self.fate.get(txn) != ABORTED
            ]
        return found[:most]


class _World:
    """The cluster, the clock and what is recorded."""

    def __init__(self, rng: Random, tps: int, *, portable: bool) -> None:
        self.rng = rng
        self.portable = portable
        self.coarse = rng.random() < 0.5
        self.now = 0
        self.logs = [_Log() for _ in range(tps)]
        self.built = Built(tps=[f"t{n}" for n in range(tps)])
        self.later: list[Callable[[], None]] = []
        """Writes and markers that land at some later moment."""
        self.txns = 0
        self.budget = rng.randint(10, 60)
        self.committed = [0] * tps
        """Positions that the one consumer group committed."""
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


def simulate(seed: int, *, portable: bool) -> Built:
    """A history of a correct cluster.

    portable: as portable histories are: read_committed only, no final reads, no offset commits.
    """
    rng = Random(f"simulate/{seed}")
    world = _World(rng, rng.randint(2, 4), portable=portable)
    makers = [_plain_producer, _txn_client, _consumer]
    clients = [maker(world, slot) for slot, maker in enumerate(makers)]
    clients += [rng.choice(makers)(world, slot) for slot in range(len(makers), rng.randint(3, 8))]
    while clients:
        if rng.random() < 0.2:
            world.land()
        client = rng.choice(clients)
        if next(client, StopIteration) is StopIteration:
            clients.remove(client)
    while world.later:
        world.land()
    if not portable or rng.random() < 0.5:
        _final_reads(world)
    return world.built


def _settings(world: _World, slot: int, *, txn: bool = False, reads: bool = False) -> Process:
    isolation = Isolation.NONE
    if world.portable:
        isolation = Isolation.READ_COMMITTED
    elif reads:
        isolation = Isolation(world.rng.choice((0, 1, 1)))
    acks = -1 if not reads or txn or world.portable else -2
    return Process(
        isolation=isolation,
        slot=slot,
        acks=acks,
        txn_id=slot if txn else -1,
        group=0 if reads and not txn and not world.portable else -1,
    )


def _plain_producer(world: _World, slot: int) -> Steps:
    rng = world.rng
    process = world.process(_settings(world, slot))
    while world.budget > 0:
        world.budget -= 1
        op = world.invoke(process, "send")
        begin = world.tick()
        count = 1 if world.portable else rng.randint(1, 4)
        sends = [_send(world, process) for _ in range(count)]
        op.mops += sends
        yield
        stuck: dict[int, list[Send]] = {}
        for send in sends:
            fate = rng.random()
            if send.tp in stuck or fate >= 0.93:
                # an idempotent producer writes nothing past a record that is in doubt
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
        outcomes = {send.outcome for send in sends}
        outcome = outcomes.pop() if len(outcomes) == 1 else Outcome.INFO
        world.complete(op, outcome or Outcome.OK)
        yield
        if outcome == Outcome.INFO:
            world.built.processes[process].end = End.REPLACED
            process = world.process(_settings(world, slot))


def _send(world: _World, process: int) -> Send:
    return Send(tp=world.rng.randrange(len(world.logs)), value=world.value(process))


def _late_appends(world: _World, sends: list[Send]) -> Callable[[], None]:
    def land() -> None:
        for send in sends:
            world.logs[send.tp].append(send.value, -1)

    return land


def _txn_client(world: _World, slot: int) -> Steps:
    """Transactions that send, and in some histories also poll."""
    rng = world.rng
    reads = world.portable or rng.random() < 0.6
    process = world.process(_settings(world, slot, txn=True, reads=reads))
    positions: dict[int, int] = {}
    pending: list[bool] = [False]
    while world.budget > 0:
        world.budget -= 1
        while pending[0]:  # the coordinator answers CONCURRENT_TRANSACTIONS
            world.land()
            yield
        begin = dict(positions)
        op = world.invoke(process, "txn", txn=True)
        if reads and not positions:
            for tp in range(len(world.logs)):
                positions[tp] = 0
                op.mops.append(Assign(tp=tp, kind=AssignmentKind.MANUAL))
            begin = dict(positions)
        token = world.txns
        world.txns += 1
        failed = False
        for _ in range(rng.randint(1, 4)):
            if reads and rng.random() < 0.4:
                _poll(world, op, world.built.processes[process].isolation, positions)
            else:
                failed |= yield from _txn_send(world, op, token)
            yield
        outcome = yield from _end_txn(world, op, token, pending, failed=failed)
        if outcome == Outcome.FAIL and reads and positions != begin:
            positions = begin
            op.mops += [Assign(tp=tp, kind=AssignmentKind.REWIND) for tp in positions]
        if outcome == Outcome.INFO:
            world.built.processes[process].end = End.REPLACED
            process = world.process(_settings(world, slot, txn=True, reads=reads))
            positions = {}


def _txn_send(world: _World, op: Op, token: int) -> Generator[None, None, bool]:
    """One send within a transaction; True if it failed for good."""
    rng = world.rng
    send = _send(world, op.process)
    op.mops.append(send)
    begin = world.tick()
    yield
    fate = rng.random()
    if fate < 0.05:
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


def _end_txn(
    world: _World, op: Op, token: int, pending: list[bool], *, failed: bool
) -> Generator[None, None, Outcome]:
    """Commit or abort; markers land one by one, also after the completion."""
    rng = world.rng
    op.deliberate = rng.random() < 0.15
    if not op.deliberate and not failed:
        # a commit that is acknowledged has all records in the log
        for mop in op.mops:
            if isinstance(mop, Send) and mop.outcome == Outcome.INFO:
                mop.outcome = Outcome.OK
    known = rng.random() < 0.85
    abort = op.deliberate or failed or (not known and rng.random() < 0.5)
    fate = ABORTED if abort else COMMITTED
    tps = sorted({mop.tp for mop in op.mops if isinstance(mop, Send)})
    tps = [tp for tp in tps if token in world.logs[tp].fate]
    left = len(tps)

    def marker(tp: int) -> Callable[[], None]:
        def land() -> None:
            nonlocal left
            world.logs[tp].mark(token, fate)
            left -= 1
            pending[0] = left > 0

        return land

    pending[0] = left > 0
    world.later += [marker(tp) for tp in tps]
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


def _poll(world: _World, op: Op, isolation: Isolation, positions: dict[int, int]) -> None:
    rng = world.rng
    begin = world.tick()
    for tp in sorted(positions, key=lambda _: rng.random()):
        if rng.random() < 0.25:
            continue
        for offset, value in world.logs[tp].read(positions[tp], isolation, rng.randint(1, 6)):
            op.mops.append(Read(tp=tp, offset=offset, value=value, ns=(begin, -1)))
            positions[tp] = offset + 1
    end = world.tick()
    for mop in op.mops:
        if isinstance(mop, Read) and mop.ns == (begin, -1):
            mop.ns = (begin, end)


def _consumer(world: _World, slot: int) -> Steps:
    rng = world.rng
    process = world.process(_settings(world, slot, reads=True))
    positions: dict[int, int] = {}
    grouped = rng.random() < 0.4
    while world.budget > 0:
        world.budget -= 1
        settings = world.built.processes[process]
        change = not positions or rng.random() < 0.12
        if change and not grouped:
            _assign(world, process, positions)
            yield
            continue
        op = world.invoke(process, "poll")
        if change:
            _rebalance(world, op, positions)
        for _ in range(rng.randint(1, 2)):
            yield
            _poll(world, op, settings.isolation, positions)
        outcome = Outcome.OK if rng.random() < 0.9 else Outcome.INFO
        if grouped and not world.portable and rng.random() < 0.6:
            outcome = _commit(world, op, positions)
        world.complete(op, outcome)
        yield
        if outcome == Outcome.INFO:
            world.built.processes[process].end = End.REPLACED
            process = world.process(_settings(world, slot, reads=True))
            positions = {}


def _assign(world: _World, process: int, positions: dict[int, int]) -> None:
    """Assign some partitions by hand: those that stay keep their position, others start at 0."""
    rng = world.rng
    wanted = [tp for tp in range(len(world.logs)) if rng.random() < 0.7] or [0]
    op = world.invoke(process, "assign")
    for tp in wanted:
        kept = tp in positions
        op.mops.append(Assign(tp=tp, kind=AssignmentKind.MANUAL, kept=kept))
        positions.setdefault(tp, 0)
    for tp in set(positions) - set(wanted):
        del positions[tp]
    world.complete(op, Outcome.OK)


def _rebalance(world: _World, op: Op, positions: dict[int, int]) -> None:
    """The group moves partitions; reading starts where the group committed."""
    rng = world.rng
    world.generation += 1
    for tp in range(len(world.logs)):
        if rng.random() < 0.5:
            continue
        now = world.tick()
        if tp in positions:
            kind = rng.choice((AssignmentKind.REVOKED, AssignmentKind.LOST))
            op.mops.append(Assign(tp=tp, kind=kind, ns=now))
            del positions[tp]
            continue
        op.mops.append(Assign(tp=tp, kind=AssignmentKind.ASSIGNED, ns=now))
        positions[tp] = world.committed[tp]
        if not world.portable:
            fetched = CommitKind.FETCHED
            ns = (now, world.tick())
            op.mops.append(Commit(tp=tp, offset=positions[tp], kind=fetched, ns=ns))


def _commit(world: _World, op: Op, positions: dict[int, int]) -> Outcome:
    """Commit what was read; a definite failure leaves the position where it is."""
    ahead = {tp: p for tp, p in positions.items() if p >= world.committed[tp]}
    outcome = world.rng.choice((Outcome.OK, Outcome.OK, Outcome.OK, Outcome.FAIL))
    ns = (world.tick(), world.tick())
    for tp, position in ahead.items():
        op.mops.append(
            Commit(tp=tp, offset=position, outcome=outcome, generation=world.generation, ns=ns)
        )
        if outcome == Outcome.OK:
            world.committed[tp] = position
    return outcome


def _final_reads(world: _World) -> None:
    """Everything is read from the start; a portable history only shows that as further polls."""
    levels = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
    for isolation in levels[1:] if world.portable else levels:
        process = world.process(Process(isolation=isolation, acks=-2, slot=100 + isolation))
        positions = dict.fromkeys(range(len(world.logs)), 0)
        first = True
        while any(log.read(positions[tp], isolation, 1) for tp, log in enumerate(world.logs)):
            op = world.invoke(process, "final")
            op.phase = Phase.FAULTS if world.portable else Phase.FINAL
            if first:
                op.mops += [Assign(tp=tp, kind=AssignmentKind.MANUAL) for tp in positions]
                first = False
            _poll(world, op, isolation, positions)
            world.complete(op, Outcome.OK)
        for tp, log in enumerate(world.logs):
            end = log.end if isolation == Isolation.READ_UNCOMMITTED else log.stable()
            if not world.portable:
                world.built.bounds.append(Bound(tp=tp, isolation=isolation, end=end, read_to=end))
