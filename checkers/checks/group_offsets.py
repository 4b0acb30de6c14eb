"""group-offsets: the committed offset of a group goes back (docs/checks.md, "Groups").

Kafka fences commits by generation, so among acknowledged commits only three things are forbidden: the
coordinator returns an older offset than one it acknowledged; a member goes back without a reason; a
later generation goes back. Concurrent and indefinite commits excuse.
"""

from collections.abc import Iterator

import numpy as np

from checkers.allowed import unless_truncated
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import FAIL, OK, RC, Finding, Shown, What
from checkers.engine.kernel_input import done_ns
from core.op import AssignmentKind, CommitKind
from history.columns import Array, Columns, columns, grouped
from history.reader import History

REGRESSION = "offset-commit-regression"


class Regression(Finding):
    """A committed offset below an earlier one: its records are the two commits (or commit and fetch)."""

    def sentence(self, history: History) -> str:
        """Who committed what."""
        s, t = self.records
        verb = "was given" if t.what is What.FETCHED else "committed"
        return (
            f"Group {history.group(self.key[1])} had committed offset {s.offset} of"
            f" {history.tp(self.tp)} (op {s.op}); afterwards {history.client(self.process)} {verb}"
            f" offset {t.offset} (op {t.op}), and nothing explains it."
        )


def _join(run: WholeRun, tally: Tally) -> None:
    commits = columns(run.tables["commits"])
    if not run.known.on_record.commits or not len(commits["op"]):
        return
    commits["done"] = done_ns(commits, columns(run.tables["ops"], ("op", "complete_ns")))
    assignments = columns(run.tables["assignments"])
    processes = columns(run.tables["processes"], ("process", "isolation"))
    rc = set(processes["process"][processes["isolation"] == RC].tolist())
    found: dict[tuple[int, ...], Finding] = {}
    for group, of_group in grouped(commits["group"], commits):
        for tp, rows in grouped(of_group["tp"], of_group) if group >= 0 else ():
            changes = {name: c[assignments["tp"] == tp] for name, c in assignments.items()}
            for rule in (_forgotten(rows, rc), _own(rows, changes), _later(rows, changes, rc)):
                for earlier, later in rule:
                    finding = _finding(rows, earlier, later)
                    found.setdefault(finding.key, finding)
    tally.add(REGRESSION, found.values())


def stored(rows: Columns) -> Array:
    """Rows of `commits` that took effect."""
    return np.asarray((rows["outcome"] == OK) & (rows["kind"] != CommitKind.FETCHED))


def written(rows: Columns) -> Array:
    """Rows of `commits` that took effect or may have."""
    return np.asarray((rows["kind"] != CommitKind.FETCHED) & (rows["outcome"] != FAIL))


def _forgotten(rows: Columns, rc: set[int]) -> Iterator[tuple[int, int]]:
    """The coordinator returns less than it acknowledged, and no other commit accounts for it."""
    took_effect = stored(rows)
    fetched = np.flatnonzero((rows["kind"] == CommitKind.FETCHED) & (rows["outcome"] == OK))
    maybe = written(rows)
    for f in fetched.tolist():
        offset = rows["offset"][f]
        before = took_effect & (rows["done"] < rows["invoke_ns"][f]) & (rows["offset"] > offset)
        if int(rows["process"][f]) not in rc:
            before &= rows["kind"] != CommitKind.TXN
        accounts = maybe & (rows["offset"] == offset)
        accounts &= rows["invoke_ns"] < rows["complete_ns"][f]
        for c in np.flatnonzero(before).tolist():
            if not (accounts & ~(rows["done"] < rows["invoke_ns"][c])).any():
                yield c, f
                break


def _own(rows: Columns, changes: Columns) -> Iterator[tuple[int, int]]:
    """A process commits less than it did before, and nothing moved its position."""
    explicit = stored(rows) & (rows["kind"] != CommitKind.AUTO)
    for process in np.unique(rows["process"][explicit]).tolist():
        mine = np.flatnonzero(explicit & (rows["process"] == process))
        keys = (-rows["offset"][mine], *(rows[name][mine] for name in ("invoke_ns", "op", "done")))
        mine = mine[np.lexsort(keys)]
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
    maybe = written(rows)
    known = np.flatnonzero(stored(rows) & (rows["generation"] >= 0))
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
                (rows["offset"][before] > rows["offset"][d]) & (rows["process"][before] != rows["process"][d])
            ]
            if int(rows["process"][d]) not in rc:
                more = more[rows["kind"][more] != CommitKind.TXN]
            accounts = maybe & (rows["offset"] <= rows["offset"][d])
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
    what = What.FETCHED if value("kind", later) == CommitKind.FETCHED else What.COMMIT
    first = Shown(value("op", earlier), What.COMMIT, tp, -1, value("offset", earlier))
    return Regression(
        key=(tp, value("group", later), op, offset),
        process=value("process", later),
        records=(first, Shown(op, what, tp, -1, offset)),
        at_ns=value("complete_ns", later),
    )


CHECK = Check(
    claim="The committed offset of a group does not go back.",
    anomalies={
        REGRESSION: AnomalyClass(
            title="Committed offset went back",
            absence=True,
            meaning="A group's committed offset is lower than one that was acknowledged before, and no"
            " rebalance, reset or concurrent commit explains it.",
            rule=unless_truncated("an acknowledged commit of offsets holds"),
        )
    },
    join=_join,
    needs="commits",
    subject="offsets",
)
