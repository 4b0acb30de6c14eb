"""The naive judge's rules about groups, copies and transactional ids. See `tests.adversary.classes`."""

from collections.abc import Iterator

from core.op import AssignmentKind, CommitKind, End, Phase
from history.tables import OPEN
from tests.adversary.excuses import EVER, GROUPS, OWNERS, TRANSACTIONS, Span, fences
from tests.adversary.facts import FAIL, INFO, NEVER, OK, PLAIN, RC, RU, Facts, Found
from tests.adversary.rows import Key, Row


def _kept(f: Facts, group: int) -> tuple[str, ...]:
    """Internal topics that have, or decide, what a group committed."""
    txn = any(c["group"] == group and c["kind"] == CommitKind.TXN for c in f.commits)
    return GROUPS if txn or f.applied(group) else OWNERS


def given(f: Facts, group: int) -> tuple[str, ...]:
    """The same, and those that say which records there were for it."""
    return GROUPS if any(p["txn_id"] >= 0 for p in f.processes.values()) else _kept(f, group)


# Groups -----------------------------------------------------------------------------------------


def offset_commit_regression(f: Facts) -> Found:
    keys = {(c["group"], c["tp"]) for c in f.commits if c["group"] >= 0}
    for group, tp in keys if not f.portable else ():
        rows = [c for c in f.commits if (c["group"], c["tp"]) == (group, tp)]
        for d in rows:
            whole = not f.cut_group(group)
            if _lowered(f, rows, d) or (whole and (_forgotten(f, rows, d) or _undercut(f, rows, d))):
                key: Key = ("offset-commit-regression", tp, group, d["op"], d["offset"])
                f.spans[key].append(
                    Span(f.beginning(group), d["complete_ns"], (tp,), internal=_kept(f, group))
                )
                yield key, PLAIN


def _forgotten(f: Facts, rows: list[Row], d: Row) -> bool:
    if d["kind"] != CommitKind.FETCHED or d["outcome"] != OK:
        return False
    for c in rows:
        if not (f.stored(c) and f.precedes(c, d) and c["offset"] > d["offset"]):
            continue
        if c["kind"] == CommitKind.TXN and not _waits(f, d):
            continue
        if not any(
            f.may_follow(e, c) and e["offset"] == d["offset"] and e["invoke_ns"] < d["complete_ns"]
            for e in rows
        ):
            return True
    return False


def _waits(f: Facts, row: Row) -> bool:
    """Whether the process gets no offset of its group while markers are on their way."""
    return f.is_rc(row) and fences(f.recorded.config)


def _lowered(f: Facts, rows: list[Row], d: Row) -> bool:
    def explicit(row: Row) -> bool:
        return f.stored(row) and row["kind"] != CommitKind.AUTO

    own = [c for c in rows if explicit(c) and c["process"] == d["process"] and f.precedes(c, d)]
    if not explicit(d) or not own:
        return False
    c = max(own, key=lambda row: (f.done(row), row["op"], row["invoke_ns"], -row["offset"]))
    moved = any(c["invoke_ns"] < row["ns"] < d["complete_ns"] for row in f.changes(d["process"], d["tp"]))
    return bool(d["offset"] < c["offset"]) and not moved


def _undercut(f: Facts, rows: list[Row], d: Row) -> bool:
    by_hand = (AssignmentKind.MANUAL, AssignmentKind.REWIND, AssignmentKind.RESET)
    if not f.stored(d) or any(r["ns"] < d["complete_ns"] for r in f.changes(d["process"], d["tp"], *by_hand)):
        return False
    for c in rows:
        older = 0 <= c["generation"] < d["generation"] and c["process"] != d["process"]
        if not (f.stored(c) and older and f.precedes(c, d) and d["offset"] < c["offset"]):
            continue
        if c["kind"] == CommitKind.TXN and not _waits(f, d):
            continue
        if not any(
            f.may_follow(e, c)
            and e["generation"] < d["generation"]
            and e["offset"] <= d["offset"]
            and e["invoke_ns"] < d["invoke_ns"]
            for e in rows
        ):
            return True
    return False


def phantom_commit(f: Facts) -> Found:
    for c in f.commits if not f.portable else ():
        if c["group"] < 0 or c["outcome"] != OK:
            continue
        ru = f.bounds.get((c["tp"], RU))
        beyond = ru is not None and ru["end"] >= 0 and c["offset"] > max(ru["end"], ru["read_to"])
        if beyond or _only_aborted(f, c):
            key: Key = ("phantom-commit", c["tp"], c["group"], c["op"], c["offset"])
            f.spans[key].append(
                Span(f.beginning(c["group"]), EVER, (c["tp"],), internal=_kept(f, c["group"]))
            )
            yield key, PLAIN


def _only_aborted(f: Facts, c: Row) -> bool:
    """Only an aborted transaction had committed the offset that was fetched."""
    if c["kind"] != CommitKind.FETCHED:
        return False
    same = [
        e
        for e in f.commits
        if (e["group"], e["tp"], e["offset"]) == (c["group"], c["tp"], c["offset"])
        and e["invoke_ns"] < c["complete_ns"]
    ]
    aborted = any(e["kind"] == CommitKind.TXN and e["outcome"] == FAIL for e in same)
    if not aborted or any(f.may_be_stored(e) for e in same) or f.gone:
        return False
    for process in f.processes.values():
        if process["group"] != c["group"]:
            continue
        if process["process"] in f.cut or (process["auto_commit"] and process["end"] != End.CLOSED):
            return False
        for op in f.ops.values():
            left = op["process"] == process["process"] and not op["txn"] and op["complete_ns"] == OPEN
            if left and op["invoke_ns"] < c["complete_ns"]:
                return False
    return True


def double_assignment(f: Facts) -> Found:
    owners: dict[tuple[int, int, int], set[int]] = {}
    for row in f.assignments if not f.portable else ():
        group = f.group_of(row)
        if row["kind"] == AssignmentKind.ASSIGNED and row["generation"] >= 0 and group >= 0:
            owners.setdefault((row["tp"], group, row["generation"]), set()).add(row["process"])
    for key, processes in owners.items():
        if len(processes) > 1:
            f.spans["double-assignment", *key].append(Span(f.beginning(key[1]), EVER, (), internal=OWNERS))
            yield ("double-assignment", *key), PLAIN


def copies_of(f: Facts, group: int) -> list[Row]:
    return [s for s in f.sends if s["src_offset"] >= 0 and f.group_of(s) == group]


def groups_of(f: Facts) -> list[int]:
    found = {row["group"] for row in (*f.processes.values(), *f.commits)}
    return sorted(group for group in found if group >= 0)


def copying(f: Facts) -> list[int]:
    return sorted(
        {
            row["group"]
            for row in f.processes.values()
            if row["group"] >= 0 and row["acks"] != -2 and row["isolation"] >= 0
        }
    )


def eos_duplicate(f: Facts) -> Found:
    for group in groups_of(f) if not f.portable else ():
        made: dict[tuple[int, int, int], list[Row]] = {}
        for copy in copies_of(f, group):
            if f.committed(copy):
                made.setdefault((copy["tp"], copy["src_tp"], copy["src_offset"]), []).append(copy)
        for (tp, source, offset), here in made.items():
            every = [row for place, rows in made.items() if place[1:] == (source, offset) for row in rows]
            apart = f.app is not None and min(row["tp"] for row in every) < tp
            if len(here) < 2 and not apart:
                continue
            key: Key = ("eos-duplicate", tp, group, source, offset)
            tps = {tp, source}
            if len(here) < 2:
                here = every
                tps |= {out for out, of, _ in made if of == source}
            since = min(row["invoke_ns"] for row in here)
            f.spans[key].append(Span(since, EVER, tuple(sorted(tps)), internal=given(f, group)))
            yield key, PLAIN


def uncopied(f: Facts) -> Iterator[tuple[Key, bool]]:
    """Passed inputs without a committed copy; whether one may be there. Of an application those count that a
    last reader at read_committed returned."""
    for group in copying(f) if not f.portable else ():
        copies = copies_of(f, group)
        for tp in f.tps if not f.cut_group(group) else ():
            for offset in _passed(f, group, tp):
                own = [s for s in copies if (s["src_tp"], s["src_offset"]) == (tp, offset)]
                if f.app is not None and offset not in f.returned(tp):
                    continue
                if not any(f.committed(s) for s in own):
                    open_ = any(not f.failed(s) and not f.missing(s) for s in own)
                    maybe = open_ or output_removed(f, tp, offset) or f.output_unread()
                    yield ("eos-loss", tp, group, offset), maybe


def output_removed(f: Facts, tp: int, offset: int) -> bool:
    """What the application made of an input may have been in its output once."""
    if f.app is None:
        return False
    topic = f.recorded.config.prefix + f.app.output
    own = [row["tp"] for row in f.rows["tps"] if row["topic"] == topic]
    if f.retention and any(row["start"] > 0 for (of, _), row in f.bounds.items() if of in own):
        return True
    sent = [s["invoke_ns"] for s in f.sends if (s["tp"], s["place"]) == (tp, offset) and f.committed(s)]
    return any(one.ns >= min(sent, default=-1) for out in own for one in f.deletions[out])


def _passed(f: Facts, group: int, tp: int) -> list[int]:
    stored = [c for c in f.commits if (c["group"], c["tp"]) == (group, tp) and f.stored(c)]
    found = []
    for o in f.order(tp, RC):
        moment = min((f.done(c) for c in stored if c["offset"] > o), default=NEVER)
        if f.given_from(tp, moment) <= o < f.position(group, tp):
            found.append(o)
    return found


def eos_loss(f: Facts) -> Found:
    for key, maybe in uncopied(f):
        if not maybe:
            f.spans[key].append(Span(f.beginning(int(key[2])), EVER, None, internal=given(f, int(key[2]))))
            yield key, {"late" if f.app is None and _passed_behind(f, *map(int, key[1:])) else ""}


def _passed_behind(f: Facts, tp: int, group: int, offset: int) -> bool:
    """By a member that may have begun behind it: of what one had read, before the group had committed it."""
    if not any(r["tp"] == tp and r["offset"] == offset and f.group_of(r) == group for r in f.reads):
        return _may_begin_behind(f, group, tp, offset)
    rows = [c for c in f.commits if (c["group"], c["tp"]) == (group, tp) and f.stored(c)]
    passed = min((f.done(c) for c in rows if c["offset"] > offset), default=NEVER)
    return _began_behind(f, group, tp, offset, passed)


def group_duplicate(f: Facts) -> Found:
    for a in f.assignments if not f.portable else ():
        group, tp = f.group_of(a), a["tp"]
        if a["kind"] != AssignmentKind.ASSIGNED or group < 0 or f.cut_group(group):
            continue
        same = [one for one in f.changes(a["process"], tp) if one["assignment"] == a["assignment"]]
        if same[0] is not a:
            continue  # it did not raise the number
        rows = [c for c in f.commits if (c["group"], c["tp"]) == (group, tp)]
        for r in f.reads:
            mine = (r["process"], r["tp"], r["assignment"]) == (a["process"], tp, a["assignment"])
            if mine and r["phase"] != Phase.FINAL and _again(f, rows, a, r):
                key: Key = ("group-duplicate", tp, group, r["op"])
                f.spans[key].append(
                    Span(f.beginning(group), r["complete_ns"], (tp,), internal=_kept(f, group))
                )
                yield key, PLAIN
                break


def _again(f: Facts, rows: list[Row], a: Row, r: Row) -> bool:
    for c in rows:
        if not (f.stored(c) and f.done(c) < a["ns"] and c["offset"] > r["offset"]):
            continue
        if c["kind"] == CommitKind.TXN and not _waits(f, r):
            continue
        if not any(
            f.may_follow(e, c) and e["offset"] <= r["offset"] and e["invoke_ns"] < r["complete_ns"]
            for e in rows
        ):
            return True
    return False


def group_skip(f: Facts) -> Found:
    for group in groups_of(f) if not f.portable else ():
        for tp in f.tps if not (f.cut_group(group) or f.applied(group)) else ():
            got = {r["offset"] for r in f.reads if r["tp"] == tp and f.group_of(r) == group}
            for offset in _passed(f, group, tp):
                if offset not in got:
                    automatic = any(_may_have_had(f, row, group, tp, offset) for row in f.processes.values())
                    span = Span(f.beginning(group), EVER, (tp,), internal=given(f, group))
                    f.spans["group-skip", tp, group, offset].append(span)
                    how = "auto" if automatic else "late" if _may_begin_behind(f, group, tp, offset) else ""
                    yield ("group-skip", tp, group, offset), {how}


def _may_begin_behind(f: Facts, group: int, tp: int, offset: int) -> bool:
    """By `auto.offset.reset`, were it latest."""
    if f.given_from(tp, NEVER) > 0 or not f.begins_known(tp):
        return True
    return _began_behind(f, group, tp, offset, NEVER)


def _began_behind(f: Facts, group: int, tp: int, offset: int, until: int) -> bool:
    """A member is on record that did, before this moment."""
    rows = [c for c in f.commits if (c["group"], c["tp"]) == (group, tp) and f.stored(c)]
    first = min((f.done(c) for c in rows), default=NEVER)
    members = [number for number, row in f.processes.items() if row["group"] == group]
    for number in members:
        own = sorted(
            (r for r in f.reads if (r["process"], r["tp"]) == (number, tp)), key=lambda r: (r["op"], r["pos"])
        )
        for change in f.changes(number, tp):
            new = change["kind"] == AssignmentKind.ASSIGNED and change["ns"] < first
            if change["ns"] < until and (new or change["kind"] == AssignmentKind.RESET):
                after = [r["offset"] for r in own if r["assignment"] >= change["assignment"]]
                if after and after[0] > offset:
                    return True
    return False


def _may_have_had(f: Facts, process: Row, group: int, tp: int, offset: int) -> bool:
    if process["group"] != group or not process["auto_commit"] or process["end"] == End.CLOSED:
        return False
    number = process["process"]
    rows = [c for c in f.commits if (c["group"], c["tp"]) == (group, tp)]
    passed = min((f.done(c) for c in rows if f.stored(c) and c["offset"] > offset), default=NEVER)
    first = min((row["ns"] for row in f.changes(number, tp)), default=NEVER)
    hung = min(
        (op["invoke_ns"] for op in f.ops.values() if op["process"] == number and op["complete_ns"] == OPEN),
        default=NEVER,
    )
    if min(first, hung) >= passed:
        return False
    if process["end"] != End.CRASHED:
        return True
    later = [
        row["start_ns"]
        for row in f.processes.values()
        if row["slot"] == process["slot"] and row["start_ns"] > process["start_ns"]
    ]
    if not later:
        return True
    sends = [f.send_of.get((tp, r["value"])) for r in f.reads if (r["tp"], r["offset"]) == (tp, offset)]
    return any(s is None or s["invoke_ns"] < min(later) for s in sends)


def zombie_write(f: Facts) -> Found:
    if f.portable:
        return
    for a in f.processes.values():
        heirs = [b for b in f.processes.values() if _fences(f, a, b)]
        for s in f.sends:
            if s["process"] != a["process"]:
                continue
            behind = any(
                t["tp"] == s["tp"] and 0 <= t["place"] < s["place"]
                for b in heirs
                for t in f.sends
                if t["process"] == b["process"]
            )
            if behind:
                variant = "committed" if f.committed(s) else "uncommitted"
                key: Key = ("zombie-write", s["tp"], s["value"])
                f.spans[key].append(Span(f.ids_since(a["txn_id"]), EVER, (s["tp"],), internal=TRANSACTIONS))
                yield key, {variant}
        fenced = min((begun(f, b["process"]) for b in heirs), default=NEVER)
        for number, op in f.ops.items():
            if op["process"] != a["process"] or not op["txn"]:
                continue
            wrote = [s["invoke_ns"] for s in f.sends if s["op"] == number and s["outcome"] != FAIL]
            wrote += [c["invoke_ns"] for c in f.commits if c["op"] == number and c["kind"] == CommitKind.TXN]
            good = op["outcome"] == OK or (op["outcome"] == INFO and number in f.proven)
            if good and any(ns > fenced for ns in wrote):
                span = Span(f.ids_since(a["txn_id"]), EVER, None, internal=TRANSACTIONS)
                f.spans["zombie-write", -1, number].append(span)
                yield ("zombie-write", -1, number), {"commit"}


def begun(f: Facts, process: int) -> int:
    """When a process surely had its transactional id."""
    own = [op for op in f.ops.values() if op["process"] == process and op["txn"]]
    moments = [op["complete_ns"] for op in own if op["outcome"] == OK]
    mine = [s for s in f.sends if s["process"] == process and s["txn"]]
    return min([*moments, *(s["ack_ns"] for s in mine if s["ack_ns"] >= 0)], default=NEVER)


def _fences(f: Facts, a: Row, b: Row) -> bool:
    """A precedes B."""
    if a["txn_id"] < 0 or a["txn_id"] != b["txn_id"] or a["process"] == b["process"]:
        return False
    first = [op["invoke_ns"] for op in f.ops.values() if op["process"] == b["process"] and op["txn"]]
    return bool(first) and begun(f, a["process"]) < min(first)
