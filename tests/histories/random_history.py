"""Random histories: a correct cluster is simulated first, then anomalies are planted in what was seen.

`simulate` plays clients against logs that keep Kafka's promises: transactions with markers that land
partition by partition, aborts, indefinite ends, delayed writes, gaps, two isolation levels, groups,
manual assignment, rewinds, final reads. Nothing forbidden may be found in such a history.

Here: lone clients and one loose group, and the final reads. Not here: the cluster
(`tests.histories.random_world`), groups with a coordinator (`tests.histories.random_groups`),
damage (`tests.histories.planted`), what is an anomaly (docs/checks.md), tables (`tests.histories.built`).
"""

from dataclasses import replace
from random import Random

from core.op import AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from tests.histories.built import Assign, Bound, Built, Commit, Op, Process
from tests.histories.random_groups import Mode, copier, member
from tests.histories.random_world import (
    ABORTED,
    OPEN,
    Group,
    Steps,
    World,
    append_plainly,
    begin_txn,
    end_txn,
    txn_send,
)


def simulate(seed: int, *, portable: bool, mode: Mode = "transaction") -> Built:
    """A history of a correct cluster.

    portable: as portable histories are: read_committed only, no final reads, no offset commits.
    mode: when copiers commit their offsets; other than in the transaction they lose or repeat.
    """
    rng = Random(f"simulate/{seed}")
    world = World(rng, rng.randint(2, 4), portable=portable)
    makers = [_plain_producer, _txn_client, _consumer]
    clients = [maker(world, slot) for slot, maker in enumerate(makers)]
    clients += [rng.choice(makers)(world, slot) for slot in range(len(makers), rng.randint(3, 8))]
    if not portable:
        clients += _company(world, mode)
    while clients:
        if rng.random() < 0.2:
            world.land()
        client = rng.choice(clients)
        if next(client, StopIteration) is StopIteration:
            clients.remove(client)
    while world.later:
        world.land()
    _time_out(world)
    if not portable or rng.random() < 0.5:
        _final_reads(world)
    return world.built


def _company(world: World, mode: Mode) -> list[Steps]:
    """Clients that share something: a group, or a transactional id."""
    rng, tps = world.rng, range(len(world.logs))
    clients: list[Steps] = []
    if rng.random() < 0.5:
        copying = Group(number=1, tps=tps[: rng.randint(1, len(tps) - 1)])
        world.groups.append(copying)
        clients += [copier(world, 10 + n, copying, mode) for n in range(rng.randint(1, 3))]
    if rng.random() < 0.4:
        reading = Group(number=2, tps=tps)
        world.groups.append(reading)
        clients += [member(world, 20 + n, reading) for n in range(rng.randint(1, 3))]
    if rng.random() < 0.4:
        clients += [_txn_client(world, slot, twin=True) for slot in (30, 31)]
    world.budget += 6 * len(clients)
    return clients


def _time_out(world: World) -> None:
    """The coordinator aborts what nobody ended."""
    for known in world.ids.values():
        for log in world.logs:
            if log.fate.get(known.open) == OPEN:
                log.mark(known.open, ABORTED)


def _settings(world: World, slot: int, *, txn: bool = False, reads: bool = False) -> Process:
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


def _plain_producer(world: World, slot: int) -> Steps:
    rng = world.rng
    process = world.process(_settings(world, slot))
    while world.budget > 0:
        world.budget -= 1
        op = world.invoke(process, "send")
        begin = world.tick()
        count = 1 if world.portable else rng.randint(1, 4)
        sends = [world.send(process) for _ in range(count)]
        op.mops += sends
        yield
        yield from append_plainly(world, sends, begin)
        outcomes = {send.outcome for send in sends}
        outcome = outcomes.pop() if len(outcomes) == 1 else Outcome.INFO
        world.complete(op, outcome or Outcome.OK)
        yield
        if outcome == Outcome.INFO:
            world.built.processes[process].end = End.REPLACED
            process = world.process(_settings(world, slot))


def _txn_client(world: World, slot: int, *, twin: bool = False) -> Steps:
    """Transactions that send, and in some histories also poll; a twin shares its id."""
    rng = world.rng
    reads = not twin and (world.portable or rng.random() < 0.6)
    settings = _settings(world, slot, txn=True, reads=reads)
    settings.txn_id = 30 if twin else slot
    process = world.process(replace(settings))
    positions: dict[int, int] = {}
    while world.budget > 0:
        world.budget -= 1
        op = world.invoke(process, "txn", txn=True)
        if reads and not positions:
            for tp in range(len(world.logs)):
                positions[tp] = 0
                op.mops.append(Assign(tp=tp, kind=AssignmentKind.MANUAL))
        begin = dict(positions)
        token = yield from begin_txn(world, process)
        failed = token < 0
        for _ in range(rng.randint(1, 4)):
            if reads and rng.random() < 0.4:
                world.poll(op, positions)
            else:
                failed |= yield from txn_send(world, op, token, world.send(process))
            yield
        outcome = yield from end_txn(world, op, token, failed=failed)
        if outcome == Outcome.FAIL and reads and positions != begin:
            positions = begin
            op.mops += [Assign(tp=tp, kind=AssignmentKind.REWIND) for tp in positions]
        if outcome == Outcome.INFO:
            world.built.processes[process].end = End.REPLACED
            process = world.process(replace(settings))
            positions = {}


def _consumer(world: World, slot: int) -> Steps:
    rng = world.rng
    process = world.process(_settings(world, slot, reads=True))
    positions: dict[int, int] = {}
    grouped = rng.random() < 0.4
    while world.budget > 0:
        world.budget -= 1
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
            world.poll(op, positions)
        outcome = Outcome.OK if rng.random() < 0.9 else Outcome.INFO
        if grouped and not world.portable and rng.random() < 0.6:
            outcome = _commit(world, op, positions)
        world.complete(op, outcome)
        yield
        if outcome == Outcome.INFO:
            world.built.processes[process].end = End.REPLACED
            process = world.process(_settings(world, slot, reads=True))
            positions = {}


def _assign(world: World, process: int, positions: dict[int, int]) -> None:
    """Assign some partitions by hand: those that stay keep their position, others start at 0."""
    rng = world.rng
    wanted = [tp for tp in range(len(world.logs)) if rng.random() < 0.7] or [0]
    op = world.invoke(process, "assign")
    for tp in wanted:
        kept = tp in positions
        op.mops.append(Assign(tp=tp, kind=AssignmentKind.MANUAL, kept=kept))
        if not kept and not world.portable:
            op.mops.append(Assign(tp=tp, kind=AssignmentKind.BEGINNING))
        positions.setdefault(tp, 0)
    for tp in set(positions) - set(wanted):
        del positions[tp]
    world.complete(op, Outcome.OK)


def _rebalance(world: World, op: Op, positions: dict[int, int]) -> None:
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


def _commit(world: World, op: Op, positions: dict[int, int]) -> Outcome:
    """Commit what was read; a definite failure leaves the position where it is."""
    ahead = {tp: p for tp, p in positions.items() if p >= world.committed[tp]}
    outcome = world.rng.choice((Outcome.OK, Outcome.OK, Outcome.OK, Outcome.FAIL))
    ns = (world.tick(), world.tick())
    for tp, position in ahead.items():
        op.mops.append(Commit(tp=tp, offset=position, outcome=outcome, generation=world.generation, ns=ns))
        if outcome == Outcome.OK:
            world.committed[tp] = position
    return outcome


def _final_reads(world: World) -> None:
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
                kinds = (AssignmentKind.MANUAL, AssignmentKind.BEGINNING)[: 1 if world.portable else 2]
                op.mops += [Assign(tp=tp, kind=kind) for kind in kinds for tp in positions]
                first = False
            world.poll(op, positions)
            world.complete(op, Outcome.OK)
        for tp, log in enumerate(world.logs):
            end = log.end if isolation == Isolation.READ_UNCOMMITTED else log.stable()
            if not world.portable:
                world.built.bounds.append(Bound(tp=tp, isolation=isolation, end=end, read_to=end))
