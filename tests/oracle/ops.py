"""The rules of docs/checks.md about whole ops and consumer groups, in plain Python.

Part of the slow oracle (`tests.oracle.anomalies`); shares no code with the kernels.

Here: torn transactions, dependency cycles, committed offsets that go back.
"""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Final

from core.config import RunConfig
from core.op import AssignmentKind, CommitKind
from core.systems import KafkaSection
from tests.oracle.words import FAIL, INFO, OK, RC, History, Key, Partition, Row


def torn_parts(history: History) -> Iterator[tuple[int, list[tuple[Partition, Row]]]]:
    """Ops of which a record is seen, with their records that are not."""
    for number, op in history.ops.items():
        if not op["txn"] or op["outcome"] not in (OK, INFO):
            continue
        parts = [
            (p, send)
            for p in history.partitions
            for send in p.sends
            if send["op"] == number and send["outcome"] != FAIL
        ]
        if any(p.seen(send) for p, send in parts):
            yield number, [(p, send) for p, send in parts if not p.seen(send)]


def torn_txn(history: History) -> Iterator[Key]:
    """Transactions of which a part is there and a part is not."""
    for number, hidden in torn_parts(history):
        if any(not p.recorded or p.torn_off(send) for p, send in hidden):
            yield "torn-txn", -1, number


# Cycles -----------------------------------------------------------------------------------------

Edge = tuple[int, int]


def _vertex(op: Row) -> bool:
    whole = op["txn"] or op["n_sends"] == 0 or (op["n_sends"] == 1 and op["n_reads"] == 0)
    return op["outcome"] in (OK, INFO) and bool(whole)


def _relay(op: Row) -> bool:
    return _vertex(op) and bool(op["txn"]) and op["n_sends"] > 0 and op["n_reads"] > 0


def _wr(history: History) -> set[Edge]:
    edges = set()
    for _, read, send in history.reads_of_sends():
        w, r = history.ops[send["op"]], history.ops[read["op"]]
        joined = read["isolation"] == RC and w is not r and _vertex(w) and _vertex(r)
        if joined and (_relay(w) or _relay(r)):
            edges.add((w["op"], r["op"]))
    return edges


def _ww(history: History) -> set[Edge]:
    edges = set()
    for p in history.partitions:
        placed = [
            (offset, p.send_of[value]["op"])
            for offset, value in p.log()
            if value in p.send_of
            and p.committed(p.send_of[value])
            and _vertex(history.ops[p.send_of[value]["op"]])
        ]
        offsets = [offset for offset, _ in placed]
        alone = sorted(pair for pair in placed if offsets.count(pair[0]) == 1)
        for (_, a), (_, b) in pairwise(alone):
            if a != b:
                edges.add((a, b))
    return edges


def _before(history: History, a: int, b: int) -> bool:
    """Real time: a was over when b began."""
    return bool(
        history.ops[a]["outcome"] == OK and history.ops[a]["complete_ns"] < history.ops[b]["invoke_ns"]
    )


def _rt(history: History, edges: set[Edge]) -> set[Edge]:
    """Real-time edges among the ops that these edges join."""
    ops = {op for edge in edges for op in edge}
    return {(a, b) for a in ops for b in ops if _before(history, a, b)}


def _components(edges: set[Edge]) -> set[frozenset[int]]:
    """Strongly connected components of at least two ops."""
    after: dict[int, set[int]] = {}
    for a, b in edges:
        after.setdefault(a, set()).add(b)
    reach = {a: _reachable(after, a) for a in after}
    found = {frozenset(b for b in reach[a] if a in reach.get(b, ())) | {a} for a in reach}
    return {frozenset(component) for component in found if len(component) > 1}


def _reachable(after: dict[int, set[int]], start: int) -> set[int]:
    reached: set[int] = set()
    todo = [start]
    while todo:
        for b in after.get(todo.pop(), ()):
            if b not in reached:
                reached.add(b)
                todo.append(b)
    return reached


def members(history: History, key: Key) -> list[Row]:
    """The ops of the cycle with this key."""
    (found,) = {ops for name, ops in circles(history) if (name, -1, min(ops), len(ops)) == key}
    return [history.ops[op] for op in found]


def cycles(history: History) -> Iterator[Key]:
    """Their keys."""
    for name, ops in circles(history):
        yield name, -1, min(ops), len(ops)


def circles(history: History) -> Iterator[tuple[str, frozenset[int]]]:
    """Strongly connected components of the graphs of docs/checks.md, by class."""
    wr, ww = _wr(history), _ww(history)
    g1c, g0 = _components(wr), _components(ww)
    yield from product(["G1c"], g1c)
    yield from product(["G0"], g0)
    mixed = _components(wr | ww) - g1c - g0
    with_wr = {c for c in mixed if any(a in c and b in c for a, b in wr)}
    yield from product(["G1c-ww"], with_wr)
    past = {(w, r) for w, r in wr if history.ops[r]["complete_ns"] >= history.ops[w]["invoke_ns"]}
    yield from product(["G1c-realtime"], _components(past | _rt(history, past)) - g1c)
    yield from product(["G0-realtime"], _components(ww | _rt(history, ww)) - g0)


# Groups and LSO ---------------------------------------------------------------------------------

STORING: Final = (CommitKind.SYNC, CommitKind.AUTO, CommitKind.TXN)
"""Kinds that store an offset."""
BY_HAND: Final = (AssignmentKind.MANUAL, AssignmentKind.REWIND, AssignmentKind.RESET)
NEVER: Final = 2**64
"""Later than any time."""


def offset_commit_regression(history: History) -> Iterator[Key]:
    """Committed offsets that went back, or were served lower than they were stored."""
    for d in history.commits if history.recorded else ():
        same = [c for c in history.commits if (c["group"], c["tp"]) == (d["group"], d["tp"])]
        before = [c for c in same if stored(c) and commit_complete(history, c) < d["invoke_ns"]]
        if d["group"] >= 0 and (
            (_served_too_low(history, same, before, d) and not history.cut_group(d["group"]))
            or (stored(d) and _went_back(history, before, d))
            or (stored(d) and _undercut(history, same, before, d) and not history.cut_group(d["group"]))
        ):
            yield "offset-commit-regression", d["tp"], d["group"], d["op"], d["offset"]


def stored(c: Row) -> bool:
    """The group's coordinator took the offset, for certain."""
    return bool(c["outcome"] == OK and c["kind"] in STORING)


def commit_complete(history: History, c: Row) -> int:
    """When the commit was over."""
    if c["kind"] == CommitKind.TXN:
        return int(history.ops[c["op"]]["complete_ns"])
    return NEVER if c["outcome"] == INFO else int(c["complete_ns"])


def may_follow(history: History, e: Row, c: Row) -> bool:
    """The group may have stored e after c, both of one partition."""
    refused = e["kind"] == CommitKind.SYNC and 0 <= e["generation"] < c["generation"]
    written = e["kind"] in STORING and e["outcome"] in (OK, INFO)
    return bool(
        written and not refused and commit_complete(history, e) + history.apart(e, c) >= c["invoke_ns"]
    )


def sees_transactions(history: History, c: Row) -> bool:
    """The offsets that this process is told wait for the markers of transactions."""
    return bool(history.processes[c["process"]]["isolation"] == RC) and not _unfenced(history.config)


def _unfenced(config: RunConfig) -> bool:
    """Brokers before 2.5, or an era before it."""
    if config.has(KafkaSection):
        version = config.section(KafkaSection).version
    elif config.sut in ("simulated", "model"):
        version = getattr(config, config.sut).era.partition("-")[0]
    else:
        return False
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) < (2, 5)


def _served_too_low(history: History, same: list[Row], before: list[Row], f: Row) -> bool:
    """Rule 1: the coordinator told an offset below a stored one."""
    if f["kind"] != CommitKind.FETCHED or f["outcome"] != OK:
        return False
    return any(
        c["offset"] > f["offset"]
        and (c["kind"] != CommitKind.TXN or sees_transactions(history, f))
        and not any(
            may_follow(history, e, c) and e["offset"] == f["offset"] and e["invoke_ns"] < f["complete_ns"]
            for e in same
        )
        for c in before
    )


def _went_back(history: History, before: list[Row], d: Row) -> bool:
    """Rule 2: a process committed less than before, and nothing moved it back."""
    kinds = (CommitKind.SYNC, CommitKind.TXN)
    own = [c for c in before if c["process"] == d["process"] and c["kind"] in kinds]
    if d["kind"] not in kinds or not own:
        return False
    last = max(
        own, key=lambda c: (commit_complete(history, c), int(c["op"]), int(c["invoke_ns"]), -int(c["offset"]))
    )
    moved = any(
        row["process"] == d["process"]
        and row["tp"] == d["tp"]
        and last["invoke_ns"] < row["ns"] < d["complete_ns"]
        for row in history.assignments
    )
    return bool(d["offset"] < last["offset"]) and not moved


def _undercut(history: History, same: list[Row], before: list[Row], d: Row) -> bool:
    """Rule 3: a member of a later generation committed less than one of an earlier generation, and
    nothing of an earlier generation may have put the group back."""
    by_hand = any(
        row["process"] == d["process"]
        and row["tp"] == d["tp"]
        and row["kind"] in BY_HAND
        and row["ns"] < d["complete_ns"]
        for row in history.assignments
    )
    return not by_hand and any(
        c["process"] != d["process"]
        and (c["kind"] != CommitKind.TXN or sees_transactions(history, d))
        and 0 <= c["generation"] < d["generation"]
        and d["offset"] < c["offset"]
        and not any(
            may_follow(history, e, c)
            and e["generation"] < d["generation"]
            and e["offset"] <= d["offset"]
            and e["invoke_ns"] < d["invoke_ns"]
            for e in same
        )
        for c in before
    )
