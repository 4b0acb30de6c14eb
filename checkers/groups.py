"""offset-commit-regression: the committed offset of a group goes back (docs/checks.md, "Groups"); and
groups that committed nothing, so far as anybody knows.

Kafka fences commits by generation, so among acknowledged commits only three things are forbidden: the
coordinator tells an older offset than one it acknowledged; a member goes back without a reason; a
later generation goes back. Concurrent and indefinite commits excuse.

Not here: positions within one assignment (`kernel_polls`).
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from checkers.kernel_types import FAIL, FINAL, INFO, OK, RC, Array, Columns, Finding, Shown
from checkers.sealed import columns
from harness.history import OPEN
from harness.op import AssignmentKind, CommitKind

NAME = "offset-commit-regression"


def regressions(tables: Mapping[str, pa.Table]) -> list[Finding]:
    """All findings of the class."""
    commits = columns(tables["commits"])
    if not len(commits["op"]):
        return []
    commits["done"] = done(commits, columns(tables["ops"], ("op", "complete_ns")))
    assignments = columns(tables["assignments"])
    processes = columns(tables["processes"], ("process", "isolation"))
    rc = set(processes["process"][processes["isolation"] == RC].tolist())
    keys = np.stack((commits["group"], commits["tp"]), axis=1)
    found: dict[tuple[int, ...], Finding] = {}
    for group, tp in np.unique(keys[commits["group"] >= 0], axis=0).tolist():
        mine = (commits["group"] == group) & (commits["tp"] == tp)
        rows = {name: column[mine] for name, column in commits.items()}
        changes = {name: c[assignments["tp"] == tp] for name, c in assignments.items()}
        for rule in (_forgotten(rows, rc), _own(rows, changes), _later(rows, changes, rc)):
            for earlier, later in rule:
                finding = _finding(rows, earlier, later)
                found.setdefault(finding.key, finding)
    return list(found.values())


def silent(tables: Mapping[str, pa.Table], proven: Array) -> list[int]:
    """Groups that were given records, and of which no commit is known to have succeeded: there is
    nothing to judge them by. `proven`: ops that are proven committed."""
    processes = columns(tables["processes"], ("process", "group"))
    ops = columns(tables["ops"], ("process", "phase", "n_reads"))
    reading = ops["process"][(ops["phase"] != FINAL) & (ops["n_reads"] > 0)]
    given = processes["group"][np.isin(processes["process"], reading)]
    commits = columns(tables["commits"], ("group", "op", "kind", "outcome"))
    in_txn = (commits["kind"] == CommitKind.TXN) & np.isin(commits["op"], proven)
    known = commits["group"][_stored(commits) | in_txn]
    return sorted(set(given[given >= 0].tolist()) - set(known.tolist()))


def done(commits: Columns, ops: Columns) -> Array:
    """When each row is complete: never, where it is indefinite."""
    size = int(max(ops["op"].max(initial=-1), commits["op"].max(initial=-1))) + 2
    op_done = np.full(size, OPEN)
    op_done[ops["op"]] = ops["complete_ns"]
    own = np.where(commits["outcome"] == INFO, OPEN, commits["complete_ns"])
    return np.where(commits["kind"] == CommitKind.TXN, op_done[commits["op"]], own)


def _stored(rows: Columns) -> Array:
    return np.asarray((rows["outcome"] == OK) & (rows["kind"] != CommitKind.FETCHED))


def _written(rows: Columns) -> Array:
    """Commits that took effect or may have."""
    return np.asarray((rows["kind"] != CommitKind.FETCHED) & (rows["outcome"] != FAIL))


def _forgotten(rows: Columns, rc: set[int]) -> Iterator[tuple[int, int]]:
    """The coordinator tells less than it acknowledged, and no other commit accounts for it."""
    stored = _stored(rows)
    fetched = np.flatnonzero((rows["kind"] == CommitKind.FETCHED) & (rows["outcome"] == OK))
    written = _written(rows)
    for f in fetched.tolist():
        offset = rows["offset"][f]
        before = stored & (rows["done"] < rows["invoke_ns"][f]) & (rows["offset"] > offset)
        if int(rows["process"][f]) not in rc:
            before &= rows["kind"] != CommitKind.TXN
        accounts = written & (rows["offset"] == offset)
        accounts &= rows["invoke_ns"] < rows["complete_ns"][f]
        for c in np.flatnonzero(before).tolist():
            if not (accounts & ~(rows["done"] < rows["invoke_ns"][c])).any():
                yield c, f
                break


def _own(rows: Columns, changes: Columns) -> Iterator[tuple[int, int]]:
    """A process commits less than it did before, and nothing moved its position."""
    explicit = _stored(rows) & (rows["kind"] != CommitKind.AUTO)
    for process in np.unique(rows["process"][explicit]).tolist():
        mine = np.flatnonzero(explicit & (rows["process"] == process))
        mine = mine[np.lexsort((rows["invoke_ns"][mine], rows["op"][mine], rows["done"][mine]))]
        last = np.searchsorted(rows["done"][mine], rows["invoke_ns"][mine], side="left") - 1
        has = np.flatnonzero(last >= 0)
        c, d = mine[last[has]], mine[has]
        back = rows["offset"][d] < rows["offset"][c]
        ns = changes["ns"][changes["process"] == process]
        for a, b in zip(c[back].tolist(), d[back].tolist(), strict=True):
            moved = (ns > rows["invoke_ns"][a]) & (ns < rows["complete_ns"][b])
            if not moved.any():
                yield a, b


def _later(rows: Columns, changes: Columns, rc: set[int]) -> Iterator[tuple[int, int]]:
    """A later generation commits less than an earlier one had committed, and no other commit accounts
    for it: a late one may have put the group back, and its members begin there."""
    written = _written(rows)
    known = np.flatnonzero(_stored(rows) & (rows["generation"] >= 0))
    moving = (AssignmentKind.MANUAL, AssignmentKind.REWIND, AssignmentKind.RESET)
    reason = np.isin(changes["kind"], moving)
    for generation in np.unique(rows["generation"][known])[1:].tolist():
        older = known[rows["generation"][known] < generation]
        older = older[np.argsort(rows["done"][older], kind="stable")]
        highest = np.maximum.accumulate(rows["offset"][older])
        own = known[rows["generation"][known] == generation]
        count = np.searchsorted(rows["done"][older], rows["invoke_ns"][own], side="left")
        suspects = own[np.append(highest, -1)[count - 1] > rows["offset"][own]]
        for d in suspects.tolist():
            before = older[rows["done"][older] < rows["invoke_ns"][d]]
            more = before[
                (rows["offset"][before] > rows["offset"][d])
                & (rows["process"][before] != rows["process"][d])
            ]
            if int(rows["process"][d]) not in rc:
                more = more[rows["kind"][more] != CommitKind.TXN]
            accounts = written & (rows["offset"] <= rows["offset"][d])
            accounts &= rows["generation"] < generation
            accounts &= rows["invoke_ns"] < rows["invoke_ns"][d]
            latest = rows["done"][accounts].max(initial=-1)
            more = more[rows["invoke_ns"][more] > latest]
            moved = reason & (changes["process"] == rows["process"][d])
            moved &= changes["ns"] < rows["complete_ns"][d]
            if len(more) and not moved.any():
                yield int(more[0]), d


def _finding(rows: Columns, earlier: int, later: int) -> Finding:
    def value(name: str, row: int) -> int:
        return int(rows[name][row])

    tp, op, offset = (value(name, later) for name in ("tp", "op", "offset"))
    what = "fetch committed" if value("kind", later) == CommitKind.FETCHED else "commit"
    first = value("op", earlier)
    return Finding(
        name=NAME,
        key=(tp, value("group", later), op, offset),
        tp=tp,
        process=value("process", later),
        ops=tuple(dict.fromkeys((first, op))),
        records=(
            Shown(first, "commit", tp, -1, value("offset", earlier)),
            Shown(op, what, tp, -1, offset),
        ),
        at_ns=value("complete_ns", later),
        detail={"generation": value("generation", later)},
    )
