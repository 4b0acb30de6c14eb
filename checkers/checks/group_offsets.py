"""group-offsets: the committed offset of a group goes back, or is one that no member can have committed
(docs/checks.md, "Groups").

Kafka fences commits by generation, so among acknowledged commits only three things are forbidden: the
coordinator returns an older offset than one it acknowledged; a member goes back without a reason; a
later generation goes back. Concurrent and indefinite commits excuse.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from checkers.allowed import unless_truncated
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import FAIL, OK, RC, RU, Finding, Shown, What
from checkers.engine.kernel_input import done_ns
from checkers.windows import FOREVER
from core.op import AssignmentKind, CommitKind, End
from history.columns import Array, Columns, columns, grouped
from history.reader import Bound, History
from history.tables import OPEN

REGRESSION = "offset-commit-regression"
PHANTOM_COMMIT = "phantom-commit"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PhantomCommit(Finding):
    """An offset that no member committed. log_end: where the log ended, if that is below it; or -1."""

    log_end: int

    @property
    def place(self) -> int:
        """The offset of the record right below it."""
        return self.records[-1].offset - 1

    def sentence(self, history: History) -> str:
        """Who committed it, or was given it."""
        (c,) = self.records[-1:]
        verb = "was given" if c.what is What.FETCHED else "committed"
        why = f"the log ends at {self.log_end}"
        if self.log_end < 0:
            why = f"only transactions that were aborted committed that (op {self.records[0].op})"
        return (
            f"{history.client(self.process)} {verb} offset {c.offset} of {history.tp(self.tp)} for group"
            f" {history.group(self.key[1])} (op {c.op}); {why}."
        )


def _join(run: WholeRun, tally: Tally) -> None:
    commits = columns(run.tables["commits"])
    if not run.known.on_record.commits or not len(commits["op"]):
        return
    ops = columns(run.tables["ops"], ("op", "process", "txn", "invoke_ns", "complete_ns"))
    commits["done"] = done_ns(commits, ops)
    for one in _phantoms(run, commits, ops):
        tally.add(PHANTOM_COMMIT, [one], _excuse(run, one))
    assignments = columns(run.tables["assignments"])
    processes = columns(run.tables["processes"], ("process", "isolation"))
    rc = processes["process"][processes["isolation"] == RC].tolist()
    waiting = set(rc if run.known.offsets_fenced else ())
    found: dict[tuple[int, ...], Finding] = {}
    for group, of_group in grouped(commits["group"], commits):
        for tp, rows in grouped(of_group["tp"], of_group) if group >= 0 else ():
            changes = {name: c[assignments["tp"] == tp] for name, c in assignments.items()}
            own = _own(rows, changes)
            whole = (_forgotten(rows, waiting), own, _later(rows, changes, waiting))
            for rule in (own,) if group in run.known.cut_groups else whole:
                for earlier, later in rule:
                    finding = _finding(rows, earlier, later)
                    found.setdefault(finding.key, finding)
    for one in found.values():
        tally.add(REGRESSION, [one], _excuse(run, one, until=one.at_ns))


def _excuse(run: WholeRun, one: Finding, until: int = FOREVER) -> int:
    group, known = one.key[1], run.known
    return known.windows.ever(one.tp, *known.logs_of(group), since=known.begun(group), until=until)


def stored(rows: Columns) -> Array:
    """Rows of `commits` that took effect."""
    return np.asarray((rows["outcome"] == OK) & (rows["kind"] != CommitKind.FETCHED))


def written(rows: Columns) -> Array:
    """Rows of `commits` that took effect or may have."""
    return np.asarray((rows["kind"] != CommitKind.FETCHED) & (rows["outcome"] != FAIL))


def may_follow(rows: Columns, maybe: Array, commit: int) -> Array:
    """Which of the rows `maybe`, which are written, the group may have stored after a commit (flags)."""
    generation = rows["generation"][maybe]
    refused = (rows["kind"][maybe] == CommitKind.SYNC) & (generation >= 0)
    refused &= generation < rows["generation"][commit]
    return np.asarray((rows["done"][maybe] >= rows["invoke_ns"][commit]) & ~refused)


def _phantoms(run: WholeRun, commits: Columns, ops: Columns) -> list[Finding]:
    """Committed offsets beyond the end of the log; offsets that only aborted transactions committed."""
    ends = {tp: max(of[RU].end, of[RU].read_to) for tp, of in run.known.bounds.items() if _listed(of)}
    rows = np.flatnonzero((commits["group"] >= 0) & (commits["outcome"] == OK))
    known = np.array([ends.get(tp, -1) for tp in commits["tp"][rows].tolist()], np.int64)
    beyond = (known >= 0) & (commits["offset"][rows] > known)
    found = [_phantom(commits, row, end) for row, end in zip(rows[beyond], known[beyond], strict=True)]
    failed = np.flatnonzero((commits["kind"] == CommitKind.TXN) & (commits["outcome"] == FAIL))
    fetched = rows[~beyond & (commits["kind"][rows] == CommitKind.FETCHED)]
    fetched = fetched[np.isin(commits["offset"][fetched], commits["offset"][failed])]
    for row in fetched.tolist():
        aborted = _only_aborted(commits, row)
        if aborted >= 0 and not _unseen(run, ops, commits, row):
            found.append(_phantom(commits, row, -1, aborted))
    return list({finding.key: finding for finding in reversed(found)}.values())


def _listed(of: Mapping[int, Bound]) -> bool:
    return RU in of and of[RU].end >= 0


def _only_aborted(commits: Columns, fetched: int) -> int:
    """A row of an aborted transaction with the offset that a group reported; -1 = none, or others have it."""
    same = (commits["offset"] == commits["offset"][fetched]) & (commits["kind"] != CommitKind.FETCHED)
    same &= (commits["group"] == commits["group"][fetched]) & (commits["tp"] == commits["tp"][fetched])
    same &= commits["invoke_ns"] < commits["complete_ns"][fetched]
    aborted = np.flatnonzero(same & (commits["kind"] == CommitKind.TXN) & (commits["outcome"] == FAIL))
    stands = bool((same & (commits["outcome"] != FAIL)).any())
    return int(aborted[0]) if len(aborted) and not stands else -1


def _unseen(run: WholeRun, ops: Columns, commits: Columns, fetched: int) -> bool:
    """Some process of the group may have committed what is not on record."""
    processes = columns(run.tables["processes"], ("process", "group", "auto_commit", "end"))
    mine = processes["group"] == commits["group"][fetched]
    if int(commits["group"][fetched]) in run.known.cut_groups:
        return True
    automatic = mine & (processes["auto_commit"] == 1) & (processes["end"] != End.CLOSED)
    left = (ops["txn"] == 0) & (ops["complete_ns"] == OPEN)
    left &= ops["invoke_ns"] < commits["complete_ns"][fetched]
    return bool(automatic.any() or np.isin(ops["process"][left], processes["process"][mine]).any())


def _phantom(commits: Columns, row: int, log_end: int, aborted: int = -1) -> Finding:
    names = ("tp", "group", "op", "offset", "process", "kind", "complete_ns")
    tp, group, op, offset, process, kind, ns = (int(commits[name][row]) for name in names)
    what = What.FETCHED if kind == CommitKind.FETCHED else What.COMMIT
    shown = [Shown(int(commits["op"][aborted]), What.COMMIT, tp, -1, offset)] if aborted >= 0 else []
    return PhantomCommit(
        key=(tp, group, op, offset),
        process=process,
        records=(*shown, Shown(op, what, tp, -1, offset)),
        at_ns=ns,
        log_end=int(log_end),
    )


def _forgotten(rows: Columns, waiting: set[int]) -> Iterator[tuple[int, int]]:
    """The coordinator returns less than it acknowledged, and no other commit accounts for it. waiting:
    processes whose fetches of offsets wait for markers."""
    took_effect = stored(rows)
    fetched = np.flatnonzero((rows["kind"] == CommitKind.FETCHED) & (rows["outcome"] == OK))
    maybe = written(rows)
    for f in fetched.tolist():
        offset = rows["offset"][f]
        before = took_effect & (rows["done"] < rows["invoke_ns"][f]) & (rows["offset"] > offset)
        if int(rows["process"][f]) not in waiting:
            before &= rows["kind"] != CommitKind.TXN
        accounts = maybe & (rows["offset"] == offset)
        accounts &= rows["invoke_ns"] < rows["complete_ns"][f]
        accounting = np.flatnonzero(accounts)
        for c in np.flatnonzero(before).tolist():
            if not may_follow(rows, accounting, c).any():
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


def _later(rows: Columns, changes: Columns, waiting: set[int]) -> Iterator[tuple[int, int]]:
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
            if int(rows["process"][d]) not in waiting:
                more = more[rows["kind"][more] != CommitKind.TXN]
            accounts = maybe & (rows["offset"] <= rows["offset"][d])
            accounts &= rows["generation"] < generation
            accounts &= rows["invoke_ns"] < rows["invoke_ns"][d]
            accounting = np.flatnonzero(accounts)
            more = more[[not may_follow(rows, accounting, c).any() for c in more.tolist()]]
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
    claim="The committed offset of a group does not go back, and is one that a member committed.",
    anomalies={
        REGRESSION: AnomalyClass(
            title="Committed offset went back",
            absence=True,
            meaning="A group's committed offset is lower than one that was acknowledged before, and no"
            " rebalance, reset or concurrent commit explains it.",
            rule=unless_truncated("an acknowledged commit of offsets holds"),
        ),
        PHANTOM_COMMIT: AnomalyClass(
            title="Offset committed out of thin air",
            absence=True,
            meaning="A group's committed offset lies beyond the end of the log, or is one that only an"
            " aborted transaction had committed.",
            literature="thin-air read; aborted read of an offset",
            rule=unless_truncated("a group's offset is what a member committed, and lies in the log"),
        ),
    },
    join=_join,
    needs="commits",
    subject="offsets",
)
