"""Random histories of an application: what its instances made of their input, right or wrong, as one process
has it (docs/checks.md, "Exactly once").

Not here: groups whose members are on record (`tests.histories.random_groups`).
"""

from random import Random

from core.op import End, Isolation, Outcome, Phase, value_of
from tests.histories.built import Bound, Built, Commit, Op, Process, Read, Send

INPUTS, OUTPUTS = (0, 1), (2, 3)
Log = list[tuple[int, int, int, bool]]
"""What the logs hold: partition, offset, value, whether a reader at read_committed is given it."""
MADE = 9
"""The process that has the copies; 1 and 2 are the instances' last ones, 0 feeds."""
WRONGS = ("lost", "twice", "late", "aborted", "doubted", "behind")


def application(seed: int) -> tuple[Built, set[str]]:
    """A history, and in which ways the application was wrong."""
    rng = Random(f"application/{seed}")
    wrongs = set(rng.sample(WRONGS, k=rng.choice((0, 1, 1, 2, 3))))
    built = Built(tps=["x", "w", "y", "z"])
    built.processes = {0: Process(), MADE: Process(slot=1, group=0, idempotent=False)}
    for slot in (1, 2):
        _instance(rng, built, slot)
    log: Log = []
    inputs = {tp: _feed(rng, built, log, tp) for tp in INPUTS}
    made = [(tp, offset) for tp, offsets in inputs.items() for offset in offsets]
    _copy(rng, built, log, _order(rng, made, wrongs), wrongs)
    _commit(rng, built, {tp: len(offsets) for tp, offsets in inputs.items()}, wrongs)
    _read(rng, built, log)
    return built, wrongs


def _instance(rng: Random, built: Built, slot: int) -> None:
    """An instance that died and was started again, and did not always end in order."""
    built.processes[slot] = Process(slot=slot, group=0, idempotent=False, end=End.CRASHED)
    built.ops.append(Op(process=slot, f="instance", invoke=1, complete=None, outcome=Outcome.INFO))
    end = rng.choice((End.CLOSED,) * 8 + (End.CRASHED,))
    built.processes[slot + 10] = Process(slot=slot, group=0, idempotent=False, end=end)
    complete = None if end is End.CRASHED else 90 + slot
    outcome = Outcome.INFO if complete is None else rng.choice((Outcome.OK,) * 9 + (Outcome.INFO,))
    built.ops.append(Op(process=slot + 10, f="instance", invoke=5, complete=complete, outcome=outcome))


def _feed(rng: Random, built: Built, log: Log, tp: int) -> list[int]:
    """Records of few keys; their offsets."""
    keys = [rng.randrange(3) for _ in range(rng.randint(0, 6))]
    for offset, key in enumerate(keys):
        value = value_of(0, (tp * 8 + offset) * 16 + key)
        op = Op(process=0, f="send", invoke=10 + len(built.ops), complete=40 + len(built.ops))
        op.outcome = rng.choice((Outcome.OK, Outcome.OK, Outcome.OK, Outcome.INFO))
        op.mops.append(Send(tp=tp, value=value, offset=offset if op.outcome is Outcome.OK else -1))
        log.append((tp, offset, value, True))
        built.ops.append(op)
    return [*range(len(keys))]


def _order(rng: Random, made: list[tuple[int, int]], wrongs: set[str]) -> list[tuple[int, int]]:
    """In which order the application writes, with repeats of a successor."""
    order = list(made)
    if "late" in wrongs:
        rng.shuffle(order)
    if "lost" in wrongs:
        order = [one for one in order if rng.random() < 0.8]
    if "twice" in wrongs and order:
        at = rng.randrange(len(order))
        order = [*order[: rng.randint(at, len(order))], *order[at:]]
    return order


def _copy(rng: Random, built: Built, log: Log, order: list[tuple[int, int]], wrongs: set[str]) -> None:
    ends = dict.fromkeys(OUTPUTS, 0)
    for number, source in enumerate(order, 1):
        tp = OUTPUTS[source[0] if rng.random() < 0.8 else 1 - source[0]]
        op = Op(process=MADE, f="send", invoke=60, complete=100 + number)
        send = Send(tp=tp, value=value_of(MADE, number), offset=ends[tp], source=source)
        there = True
        if "aborted" in wrongs and rng.random() < 0.2:
            op.txn, op.outcome = True, Outcome.FAIL
        elif "doubted" in wrongs and rng.random() < 0.2:
            op.outcome, send.offset, there = Outcome.INFO, -1, rng.random() < 0.5
        if there:
            log.append((tp, ends[tp], send.value, not op.txn))
        ends[tp] += rng.choice((1, 1, 2))
        op.mops.append(send)
        built.ops.append(op)


def _commit(rng: Random, built: Built, ends: dict[int, int], wrongs: set[str]) -> None:
    op = Op(process=MADE, f="send", invoke=60, complete=300)
    for tp, end in ends.items():
        behind = rng.randint(0, 3) if "behind" in wrongs else 0
        op.mops.append(Commit(tp=tp, offset=max(end - behind, 0)))
    built.ops.append(op)


def _read(rng: Random, built: Built, log: Log) -> None:
    """The final reads; some do not reach their end."""
    for level, process in ((Isolation.READ_COMMITTED, 98), (Isolation.READ_UNCOMMITTED, 99)):
        built.processes[process] = Process(slot=process, isolation=level, acks=-2)
        op = Op(process=process, f="final", invoke=400, complete=401, phase=Phase.FINAL)
        for tp in range(len(built.tps)):
            mine = [(offset, value, shown) for where, offset, value, shown in log if where == tp]
            end = max((offset + 1 for offset, _, _ in mine), default=0)
            read_to = rng.randint(0, end) if rng.random() < 0.05 else end
            built.bounds.append(Bound(tp=tp, isolation=level, end=end, read_to=read_to))
            for offset, value, shown in sorted(mine):
                if offset < read_to and (shown or level is Isolation.READ_UNCOMMITTED):
                    op.mops.append(Read(tp=tp, offset=offset, value=value))
        built.ops.append(op)
