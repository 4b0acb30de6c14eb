"""The rules of docs/checks.md about copies, consumer groups and fencing, in plain Python.

Part of the slow oracle (`tests.oracle.anomalies`); shares no code with the kernels.

Here: exactly-once copies, what groups were given twice or never, writes behind a fence, transactions
that hang. Not here: committed offsets that go back (`tests.oracle.ops`).
"""

from collections.abc import Iterable, Iterator, Sequence

from core.cluster import OpenTransaction
from core.op import AssignmentKind, CommitKind, End, Phase
from history.events import Event, RecordsDeleted, TransactionsOpen
from history.tables import OPEN
from tests.oracle.ops import NEVER, STORING, commit_complete, may_follow, sees_transactions, stored
from tests.oracle.words import FAIL, OK, RC, RU, History, Key, Partition, Row

# Words ------------------------------------------------------------------------------------------


def _group(history: History, row: Row) -> int:
    """The group of the process of a send or read, -1 = none."""
    return int(history.processes[row["process"]]["group"])


def _groups(history: History) -> set[int]:
    return {row["group"] for row in history.processes.values() if row["group"] >= 0}


def _copying(history: History) -> set[int]:
    """Groups with a member that produces."""
    return {
        row["group"]
        for row in history.processes.values()
        if row["group"] >= 0 and row["acks"] != -2 and row["isolation"] >= 0
    }


def _copies(history: History) -> Iterator[tuple[Partition, Row]]:
    for p in history.partitions:
        for send in p.sends:
            if send["src_offset"] >= 0 and _group(history, send) >= 0:
                yield p, send


def _committed_position(history: History, group: int, tp: int) -> int:
    """Highest offset that the group surely committed, -1 = none."""
    offsets = [
        c["offset"]
        for c in history.commits
        if (c["group"], c["tp"]) == (group, tp)
        and c["kind"] in STORING
        and (c["outcome"] == OK or (c["kind"] == CommitKind.TXN and c["op"] in history.proven))
    ]
    return max(offsets, default=-1)


def _passed(history: History, p: Partition, group: int) -> list[int]:
    """Offsets of records that lie behind what the group committed."""
    position = _committed_position(history, group, p.tp)
    commits = [c for c in history.commits if (c["group"], c["tp"]) == (group, p.tp) and stored(c)]
    found = []
    for offset in p.order(RC):
        passed = [commit_complete(history, c) for c in commits if c["offset"] > offset]
        if p.given_from(min(passed, default=OPEN)) <= offset < position:
            found.append(offset)
    return found


def _shown(p: Partition) -> set[int]:
    """Offsets that consumers at read_committed were given, by the final reads if one is whole."""
    whole = any(bounds.complete for bounds in p.bounds.values())
    reads = [r for r in p.reads if r["isolation"] == RC and (r["phase"] == Phase.FINAL or not whole)]
    return {read["offset"] for read in reads}


def _ahead(history: History) -> Iterator[tuple[int, int, int, bool]]:
    """Inputs of an application that Kafka shows, not below what its group committed: partition, group,
    offset, and whether it committed a copy."""
    for p in history.partitions if history.recorded and history.config.app else ():
        for group in _copying(history):
            position = _committed_position(history, group, p.tp)
            if position < 0 or history.cut_group(group):
                continue
            copied = {
                (copy["src_tp"], copy["src_offset"])
                for q, copy in _copies(history)
                if q.committed(copy) and _group(history, copy) == group
            }
            for offset in p.order(RC) & _shown(p):
                if offset >= position:
                    yield p.tp, group, offset, (p.tp, offset) in copied


def _ended(history: History, group: int) -> bool:
    """In each slot of the group some instance ended in order."""
    members = [row for row in history.processes.values() if row["group"] == group]
    made = {row["process"] for row in [*history.sends, *history.commits]}
    ended = set()
    for row in members:
        ops = [op["outcome"] for op in history.ops.values() if op["process"] == row["process"]]
        if row["end"] == End.CLOSED and row["process"] not in made and ops and set(ops) == {OK}:
            ended.add(row["slot"])
    return {row["slot"] for row in members} == ended


def eos_uncommitted(history: History) -> Iterator[Key]:
    """Inputs that an application made something of, and did not commit: it ended, and left none uncopied."""
    on_their_way = {group for group, _ in _left(history)}
    for tp, group, offset, copied in _ahead(history):
        if copied and _ended(history, group) and group not in on_their_way:
            yield "eos-uncommitted", tp, group, offset


def _left(history: History) -> Iterator[tuple[int, int]]:
    """Inputs that an application did not come to: group, offset. One that makes nothing of some records has
    passed those below a record that it copied."""
    app = history.config.app
    last: dict[tuple[int, int], int] = {}
    for q, copy in _copies(history) if app is not None and app.may_omit else ():
        if q.committed(copy):
            source = _group(history, copy), copy["src_tp"]
            last[source] = max(copy["src_offset"], last.get(source, -1))
    for tp, group, offset, copied in _ahead(history):
        if not copied and offset > last.get((group, tp), -1):
            yield group, offset


# Exactly once -----------------------------------------------------------------------------------


def eos_duplicate(history: History) -> Iterator[Key]:
    """Input records of which a group committed two copies."""
    if not history.recorded:
        return
    committed = [(p, copy) for p, copy in _copies(history) if p.committed(copy)]
    made = [(p.tp, _group(history, copy), copy["src_tp"], copy["src_offset"]) for p, copy in committed]
    for each in made:
        apart = [one for one in made if one[1:] == each[1:] and one[0] < each[0]]
        if made.count(each) > 1 or (history.config.app and apart):
            yield "eos-duplicate", *each


def _uncopied(history: History) -> Iterator[tuple[Key, bool]]:
    """Inputs behind the committed position without a committed copy; whether one may exist."""
    for group in sorted(_copying(history)) if history.recorded else ():
        if history.cut_group(group):
            continue
        copies = [(p, copy) for p, copy in _copies(history) if _group(history, copy) == group]
        for source in history.partitions:
            for offset in _passed(history, source, group):
                if history.config.app and offset not in _shown(source):
                    continue
                own = [
                    (p, copy)
                    for p, copy in copies
                    if (copy["src_tp"], copy["src_offset"]) == (source.tp, offset)
                ]
                if not any(p.committed(copy) for p, copy in own):
                    key = ("eos-loss", source.tp, group, offset)
                    yield (
                        key,
                        any(p.in_doubt(copy) for p, copy in own)
                        or _output_removed(history, source, offset)
                        or any(_outputs_not_read(history)),
                    )


def _not_read(history: History) -> Iterator[Partition]:
    """Of an application: partitions of its input and output that the final read at read_committed does not
    show whole."""
    app = history.config.app
    asked = [history.config.prefix + topic for topic in (app.input, app.output) if topic] if app else []
    grouped = any(row["group"] >= 0 for row in history.processes.values())
    for p in history.partitions if history.recorded and history.config.app and grouped else ():
        topic = history.names[p.tp][0]
        whole = RC in p.bounds and p.bounds[RC].complete and not p.may_hide()
        if not whole and topic in asked:
            yield p


def _made_nothing(history: History) -> bool:
    """An application that may omit records has no committed copy of any."""
    app = history.config.app
    grouped = any(row["group"] >= 0 for row in history.processes.values())
    omits = history.recorded and app is not None and app.may_omit and grouped
    return omits and not any(p.committed(copy) for p, copy in _copies(history))


def _outputs_not_read(history: History) -> Iterator[Partition]:
    """Those of them that are its output: copies may stand there."""
    app = history.config.app
    output = history.config.prefix + app.output if app and app.output else None
    return (p for p in _not_read(history) if history.names[p.tp][0] == output)


def _output_removed(history: History, source: Partition, offset: int) -> bool:
    """A copy that an application made of an input may have been in its output once."""
    app = history.config.app
    output = history.config.prefix + app.output if app else ""
    if not app or not app.output:
        return False
    tps = [tp for tp, (topic, _) in history.names.items() if topic == output]
    if history.retention and any(row["tp"] in tps and row["start"] > 0 for row in history.bounds):
        return True
    asked = [e for e in history.events if isinstance(e, RecordsDeleted)]
    deleted = [e.ns for e in asked for name in e.offsets if name[: name.rindex("-")] == output]
    sent = [s["invoke_ns"] for s in source.sends if s["place"] == offset and source.committed(s)]
    return bool(deleted) and min(sent, default=-1) <= max(deleted)


def eos_loss(history: History) -> Iterator[Key]:
    """Input records that a group went past without a committed copy."""
    for key, in_doubt in _uncopied(history):
        if not in_doubt:
            yield key


def eos_loss_undecided(history: History) -> bool:
    """Some input record has no committed copy, and one that may be; or an application did not come to one."""
    if any(not _ended(history, group) for _, group, *_ in _ahead(history)) or any(_left(history)):
        return True
    if any(_not_read(history)) or _made_nothing(history):
        return True
    return any(in_doubt for _, in_doubt in _uncopied(history))


def nonmonotonic_copy(history: History) -> Iterator[Key]:
    """Inputs of an application whose copies all stand behind all copies of a later one of the same key."""
    for key, in_doubt in _reordered(history):
        if not in_doubt:
            yield key


def copy_order_undecided(history: History) -> bool:
    """Some input may have a copy that nothing shows, in its place."""
    return any(in_doubt for _, in_doubt in _reordered(history))


def _reordered(history: History) -> Iterator[tuple[Key, bool]]:
    """Those inputs, and whether a copy of theirs may have stood before that later one's."""
    app = history.config.app
    if not history.recorded or app is None or app.effects or app.shape == "aggregate":
        return
    copies = [
        (p, copy)
        for p, copy in _copies(history)
        if p.committed(copy) and copy["place"] >= 0 and not history.cut_group(_group(history, copy))
    ]
    for p, a in copies:
        for q, b in copies:
            same = p is q and _group(history, a) == _group(history, b) and a["src_tp"] == b["src_tp"]
            if not same or a["src_offset"] >= b["src_offset"]:
                continue
            keys = [_input_key(history, copy) for copy in (a, b)]
            if keys[0] is None or keys[0] != keys[1]:
                continue
            first = min(c["place"] for r, c in copies if r is p and _of_one_input(history, c, a))
            last = max(c["place"] for r, c in copies if r is p and _of_one_input(history, c, b))
            apart = any(r is not p and _of_one_input(history, c, a) for r, c in copies)
            if first > last and not apart:
                source = next(each for each in history.partitions if each.tp == a["src_tp"])
                removed = _output_removed(history, source, a["src_offset"])
                key: Key = ("nonmonotonic-copy", p.tp, _group(history, a), a["src_tp"], a["src_offset"])
                yield key, removed or any(_outputs_not_read(history))


def _of_one_input(history: History, one: Row, other: Row) -> bool:
    source = (one["src_tp"], one["src_offset"]) == (other["src_tp"], other["src_offset"])
    return source and _group(history, one) == _group(history, other)


def _input_key(history: History, copy: Row) -> int | None:
    """The key of the record that was copied; None: it is not known which record that was."""
    values = [
        send["value"]
        for p in history.partitions
        for send in p.sends
        if (p.tp, send["place"]) == (copy["src_tp"], copy["src_offset"])
        and p.committed(send)
        and _group(history, send) < 0
    ]
    return max(values) % 16 if values else None


# What groups know and own -----------------------------------------------------------------------


def phantom_commit(history: History) -> Iterator[Key]:
    """Committed offsets that nobody can have committed."""
    for c in history.commits if history.recorded else ():
        if c["group"] < 0 or c["outcome"] != OK:
            continue
        (p,) = (p for p in history.partitions if p.tp == c["tp"])
        listed = p.bounds.get(RU)
        beyond = listed is not None and listed.end >= 0 and c["offset"] > max(listed.end, listed.read_to)
        if beyond or _only_aborted(history, c):
            yield "phantom-commit", c["tp"], c["group"], c["op"], c["offset"]


def _only_aborted(history: History, f: Row) -> bool:
    same = [
        c
        for c in history.commits
        if (c["group"], c["tp"], c["offset"]) == (f["group"], f["tp"], f["offset"])
        and c["kind"] in STORING
        and c["invoke_ns"] < f["complete_ns"]
    ]
    aborted = any(c["kind"] == CommitKind.TXN and c["outcome"] == FAIL for c in same)
    stands = any(c["outcome"] != FAIL for c in same)
    unseen = any(
        process["group"] == f["group"] and _may_commit_unseen(history, process, f)
        for process in history.processes.values()
    )
    return bool(f["kind"] == CommitKind.FETCHED and aborted and not stands and not unseen)


def _may_commit_unseen(history: History, process: Row, f: Row) -> bool:
    left = any(
        op["process"] == process["process"]
        and not op["txn"]
        and op["complete_ns"] == OPEN
        and op["invoke_ns"] < f["complete_ns"]
        for op in history.ops.values()
    )
    automatic = bool(process["auto_commit"] and process["end"] != End.CLOSED)
    return left or automatic or history.cut(process["process"])


def double_assignment(history: History) -> Iterator[Key]:
    """Partitions that two members of a group were given in one generation."""
    given = [a for a in history.assignments if a["kind"] == AssignmentKind.ASSIGNED and a["generation"] >= 0]
    for a in given if history.recorded else ():
        key = a["tp"], _group(history, a), a["generation"]
        owners = {b["process"] for b in given if (b["tp"], _group(history, b), b["generation"]) == key}
        if key[1] >= 0 and len(owners) > 1:
            yield "double-assignment", *key


# Delivery to groups -----------------------------------------------------------------------------


def group_duplicate(history: History) -> Iterator[Key]:
    """Assignments that began below what the group had committed before."""
    for a in history.assignments if history.recorded else ():
        group = _group(history, a)
        if a["kind"] != AssignmentKind.ASSIGNED or group < 0 or history.cut_group(group):
            continue
        again = [
            read
            for p in history.partitions
            for read in p.reads
            if (p.tp, read["process"], read["assignment"]) == (a["tp"], a["process"], a["assignment"])
            and read["phase"] != Phase.FINAL
            and _given_again(history, group, a, read)
        ]
        if again:
            yield "group-duplicate", a["tp"], group, again[0]["op"]


def _given_again(history: History, group: int, a: Row, read: Row) -> bool:
    """The group had committed an offset behind the read before it was assigned, and no commit
    that may have come after explains it."""
    same = [c for c in history.commits if (c["group"], c["tp"]) == (group, a["tp"])]
    return any(
        stored(c)
        and commit_complete(history, c) + history.apart(c, a) < a["ns"]
        and c["offset"] > read["offset"]
        and (c["kind"] != CommitKind.TXN or sees_transactions(history, a))
        and not any(
            may_follow(history, e, c)
            and e["offset"] <= read["offset"]
            and e["invoke_ns"] < read["complete_ns"] + history.apart(e, read)
            for e in same
        )
        for c in same
    )


def group_skip(history: History) -> Iterator[Key]:
    """Records that a group went past without any member being given them."""
    if history.config.app:
        return
    for group in sorted(_groups(history)) if history.recorded else ():
        for p in history.partitions if not history.cut_group(group) else ():
            given = {read["offset"] for read in p.reads if _group(history, read) == group}
            for offset in _passed(history, p, group):
                if offset not in given and not _maybe_given(history, p, group, offset):
                    yield "group-skip", p.tp, group, offset


def _maybe_given(history: History, p: Partition, group: int, offset: int) -> bool:
    """A poll in doubt may have returned the record."""
    same = [c for c in history.commits if (c["group"], c["tp"]) == (group, p.tp) and stored(c)]
    passed = min((commit_complete(history, c) for c in same if c["offset"] > offset), default=OPEN)
    values = {read["value"] for read in p.reads if read["offset"] == offset}
    sent = [s["invoke_ns"] for s in p.sends if s["offset"] == offset or s["value"] in values]
    members = [number for number, row in history.processes.items() if row["group"] == group]
    return any(
        op["invoke_ns"] <= passed and op["complete_ns"] >= min(sent, default=0)
        for member in members[:1]
        for op in history.polls_in_doubt(member)
    )


def silent_groups(history: History) -> set[int]:
    """Groups that were given records, or may have been, and committed nothing, so far as anybody knows."""
    given = {_group(history, read) for read in history.reads if read["phase"] != Phase.FINAL}
    return {
        group
        for group in (_groups(history) if history.recorded else ())
        if (history.config.app or group in given)
        and all(_committed_position(history, group, p.tp) < 0 for p in history.partitions)
    }


# Fencing ----------------------------------------------------------------------------------------


def _txns(history: History, process: int) -> list[Row]:
    return [op for op in history.ops.values() if op["process"] == process and op["txn"]]


def _begun(history: History, process: int) -> int:
    """When the process surely had its transactional id."""
    done = [op["complete_ns"] for op in _txns(history, process) if op["outcome"] == OK]
    own = [send for send in history.sends if send["process"] == process and send["txn"]]
    return min(done + [send["ack_ns"] for send in own if send["ack_ns"] >= 0], default=NEVER)


def _fenced(history: History) -> Iterator[tuple[int, int]]:
    """(A, B): B took the transactional id from A."""
    for a, one in history.processes.items():
        for b, other in history.processes.items():
            first = min((op["invoke_ns"] for op in _txns(history, b)), default=-1)
            same = one["txn_id"] == other["txn_id"] >= 0
            if a != b and same and _begun(history, a) < first:
                yield a, b


def zombie_write(history: History) -> Iterator[Key]:
    """Writes of a producer behind those of the one that fenced it."""
    for a, b in _fenced(history) if history.recorded else ():
        for p in history.partitions:
            fence = [s["place"] for s in p.sends if s["process"] == b and s["place"] >= 0]
            for send in p.sends:
                if send["process"] == a and any(place < send["place"] for place in fence):
                    yield "zombie-write", p.tp, send["value"]
        begun = _begun(history, b)
        for op in _txns(history, a):
            in_force = op["outcome"] == OK or op["op"] in history.proven
            if in_force and any(ns > begun for ns in _written_ns(history, op)):
                yield "zombie-write", -1, op["op"]


def _written_ns(history: History, op: Row) -> Iterator[int]:
    """When the op began to write each record and each offset."""
    for send in history.sends:
        if send["op"] == op["op"] and send["outcome"] != FAIL:
            yield send["invoke_ns"]
    for commit in history.commits:
        if commit["op"] == op["op"] and commit["kind"] == CommitKind.TXN:
            yield commit["invoke_ns"]


# Transactions that hang -------------------------------------------------------------------------


def hanging_txn(history: History) -> Iterator[Key]:
    """Transactions that hold the last stable offset below the end, by name."""
    for row in _open_rows(history.events):
        for p in history.partitions:
            named = history.names.get(p.tp) == (row.topic, row.partition)
            begins = [b["start"] for b in history.bounds if (b["tp"], b["isolation"]) == (p.tp, RC)]
            if named and p.stuck() and history.settled() and max(row.start, *begins) >= p.bounds[RC].end:
                yield "hanging-txn", p.tp, row.producer_id


def _open_rows(events: Iterable[Event]) -> Sequence[OpenTransaction]:
    listed = [event.rows for event in events if isinstance(event, TransactionsOpen)]
    return listed[-1] if listed else ()
