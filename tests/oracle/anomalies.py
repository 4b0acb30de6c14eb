"""The slow oracle: every rule of docs/checks.md in plain Python, one short function a class.

It reads the tables row by row, builds no index that it could do without, and shares no code with the
kernels, so that a disagreement shows an error in one of the two. For small histories only: most
functions compare every row with every other.

Here: the rules that look at one partition at a time, and `findings`. The words that they use are in
`tests.oracle.words`, the rules about whole ops and committed offsets in
`tests.oracle.ops`, those about copies, groups and fencing in `tests.oracle.groups`, those
about variants in `tests.oracle.variants`.
Not here: what is allowed (`checkers.catalogue`), verdicts, and the finding `not-recovered` (it comes
from the events of a run, not from its tables).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from core.config import RunConfig
from core.op import AssignmentKind, CommitKind, Phase, process_of
from history.events import Event
from tests.oracle import dead_letters
from tests.oracle.groups import (
    copy_order_undecided,
    double_assignment,
    eos_duplicate,
    eos_loss,
    eos_loss_undecided,
    eos_uncommitted,
    group_duplicate,
    group_skip,
    hanging_txn,
    nonmonotonic_copy,
    phantom_commit,
    silent_groups,
    zombie_write,
)
from tests.oracle.incidents import node_died, stalled_client
from tests.oracle.ops import cycles, offset_commit_regression, torn_parts, torn_txn
from tests.oracle.share_groups import (
    share_aborted_read,
    share_count,
    share_over_limit,
    share_redelivery,
    share_skip,
    share_two_holders,
)
from tests.oracle.variants import variants as variants_of
from tests.oracle.words import INFO, KINDS, OK, RC, RU, History, Key, Partition, Row, counts, failed, key

# Delivery ---------------------------------------------------------------------------------------


def lost_write(history: History) -> Iterator[Key]:
    """Committed records that are not in the log."""
    for p in history.partitions:
        log = p.log()
        for send in p.sends:
            if not p.committed(send):
                continue
            torn_off = send["txn"] and send["op_outcome"] == INFO and not p.seen(send)
            if (p.missing(send) and not torn_off) if p.recorded else _skipped_for_good(p, log, send):
                yield "lost-write", p.tp, send["value"]


def resurrected_key(history: History) -> Iterator[Key]:
    """Deleted keys of which the final reads show an older record."""
    for p in history.partitions if history.tombstones >= 0 else ():
        final = [read for read in p.reads if read["phase"] == Phase.FINAL]
        ended = max((read["complete_ns"] for read in final), default=-1)
        for send in p.sends:
            if not p.expired(send) or not p.committed(send) or p.replaced(send) or not p.absent(send):
                continue
            older = [
                read
                for read in final
                if key(read) == key(send) and read["offset"] < p.top(send)
                if read["value"] in p.send_of and p.committed(p.send_of[read["value"]])
            ]
            timely = any(ended - read["complete_ns"] < history.tombstones for read in older)
            if timely and not p.shown(RU, send):
                yield "resurrected-key", p.tp, send["value"]


def _skipped_for_good(p: Partition, log: set[tuple[int, int]], send: Row) -> bool:
    """Portable: reads went past the send and nobody ever got it."""
    counting = {read["value"] for read in p.reads if _speaks(p.history, read, send)}
    bound = max((_first(log, value) for value in counting), default=-1)
    offsets = [offset for offset, value in log if value == send["value"]]
    read = any(
        read["value"] == send["value"] and (read["isolation"] == RC or not send["txn"]) for read in p.reads
    )
    return bool(offsets) and max(offsets) <= bound and not read


def _speaks(history: History, read: Row, send: Row) -> bool:
    """The read tells that the send was passed: no poll in doubt before it may have returned that."""
    return counts(read, send) and not any(
        op["invoke_ns"] <= read["complete_ns"] and op["complete_ns"] >= send["invoke_ns"]
        for op in history.polls_in_doubt(read["process"])
    )


def _first(log: set[tuple[int, int]], value: int) -> int:
    return min(offset for offset, each in log if each == value)


def unseen(history: History) -> Iterator[Key]:
    """Portable: committed records that no counting read returned."""
    for p in history.partitions:
        for send in p.sends:
            if not p.recorded and p.committed(send) and not p.seen(send):
                yield "unseen", p.tp, send["value"]


def duplicate(history: History) -> Iterator[Key]:
    """Values at several offsets."""
    for p in history.partitions:
        values = [value for _, value in p.log()]
        for value in set(values):
            if values.count(value) > 1:
                yield "duplicate", p.tp, value


# Isolation and integrity ------------------------------------------------------------------------


def aborted_read(history: History) -> Iterator[Key]:
    """Reads of records that were aborted, or never written."""
    for p, read, send in history.reads_of_sends():
        if failed(send):
            yield "aborted-read", p.tp, read["value"], read["op"]


def precommitted_read(history: History) -> Iterator[Key]:
    """Reads of a record by the transaction that sends it, or by others while it goes on."""
    for p, read, send in history.reads_of_sends():
        if send["txn"] and (send["op"] == read["op"] or _too_early(history, read, send)):
            yield "precommitted-read", p.tp, read["value"], read["op"]
    for p in history.partitions:
        for given in history.deliveries:
            sent = p.send_of.get(given["value"]) if given["tp"] == p.tp else None
            level = history.processes[given["process"]]["isolation"]
            if sent and sent["txn"] and _too_early(history, {**given, "isolation": level}, sent):
                yield "precommitted-read", p.tp, given["value"], given["op"]


def _too_early(history: History, read: Row, send: Row) -> bool:
    """The transaction of the send went on after this read at read_committed."""
    if not history.recorded or read["isolation"] != RC or failed(send):
        return False
    parts = [row for row in history.sends if row["op"] == send["op"]]
    offsets = [c for c in history.commits if c["op"] == send["op"] and c["kind"] == CommitKind.TXN]
    ended = history.ops[send["op"]]["complete_ns"]
    acked = max(row["ack_ns"] for row in parts)
    unasked = max([row["invoke_ns"] for row in parts + offsets] + [acked] * (acked < ended))
    return bool(send["invoke_ns"] <= read["complete_ns"] < min(unasked, ended))


def phantom_read(history: History) -> Iterator[Key]:
    """Reads of what nobody of this run sent."""
    for p in history.partitions:
        for read in p.reads:
            if read["value"] not in p.send_of and not history.cut(process_of(read["value"])):
                yield "phantom-read", p.tp, read["offset"], read["value"]
        for row in p.foreign:
            if row["reason"] == 3 or (row["reason"] == 4 and named_input(history, row) == "sent"):
                yield "phantom-read", p.tp, row["offset"], -1


def named_input(history: History, row: Row) -> str:
    """Of output of an application: "removed", as the record that it names was committed and is removed;
    "open", as it may have been; "sent", as neither is so."""
    value = int(row["payload"]) if row["payload"].isdigit() and int(row["payload"]) < 2**63 else -1
    if not history.recorded or value < 0:
        return "sent"
    sends = [(p, p.send_of[value]) for p in history.partitions if value in p.send_of]
    if not sends:
        return "open" if history.cut(process_of(value)) else "sent"
    hidden = [(p, s) for p, s in sends if not p.returned(s)]
    gone = [(p, s) for p, s in hidden if p.removed(s) or p.gone(s)]
    if any(p.committed(s) for p, s in gone):
        return "removed"
    doubtful = [*gone, *((p, s) for p, s in sends if p.undecided(s))]
    return "open" if any(not failed(s) for _, s in doubtful) else "sent"


def corrupt_record(history: History) -> Iterator[Key]:
    """Records that cannot be what was sent."""
    for p in history.partitions:
        for row in p.foreign:
            if row["reason"] in (0, 1):
                yield "corrupt-record", p.tp, row["offset"]


def misdirected_record(history: History) -> Iterator[Key]:
    """Records of another partition."""
    for p in history.partitions:
        for row in p.foreign:
            if row["reason"] == 2:
                yield "misdirected-record", p.tp, row["offset"]


def future_read(history: History) -> Iterator[Key]:
    """Reads that were over before the send of their value began."""
    for p, read, send in history.reads_of_sends():
        if read["complete_ns"] < send["invoke_ns"]:
            yield "G1c-realtime", p.tp, read["value"], read["op"]


# Offsets ----------------------------------------------------------------------------------------


def _values_at(log: Iterable[tuple[int, int]], offset: int) -> set[int]:
    return {value for at, value in log if at == offset}


def inconsistent_offsets(history: History) -> Iterator[Key]:
    """Offsets that hold several values."""
    for p in history.partitions:
        log = p.log()
        for offset, _ in log:
            if len(_values_at(log, offset)) > 1:
                yield "inconsistent-offsets", p.tp, offset


def offset_reuse(history: History) -> Iterator[Key]:
    """Offsets acknowledged also for a record that did not commit."""
    for p in history.partitions:
        log = p.log()
        acked = {(send["offset"], send["value"]) for send in p.sends if send["offset"] >= 0}
        for offset, _ in acked:
            there = _values_at(log, offset)
            if len(there) <= 1 and len(there | _values_at(acked, offset)) > 1:
                yield "offset-reuse", p.tp, offset


def offset_realtime_inversion(history: History) -> Iterator[Key]:
    """Sends placed below one that was acknowledged before they began."""
    for p in history.partitions:
        for later in p.sends:
            if later["place"] >= 0 and any(
                earlier["place"] > later["place"] and 0 <= earlier["ack_ns"] < later["invoke_ns"]
                for earlier in p.sends
            ):
                yield "offset-realtime-inversion", p.tp, later["value"]


# Order of sends ---------------------------------------------------------------------------------


def _neighbours(history: History) -> Iterator[tuple[Partition, Row, Row]]:
    """Successive placed sends of one process to one partition."""
    for p in history.partitions:
        for process, row in history.processes.items():
            if row["group"] >= 0 and history.recorded and history.config.app is not None:
                continue
            own = [s for s in p.sends if s["process"] == process and s["place"] >= 0]
            for before, after in pairwise(own):
                yield p, before, after


def int_nonmonotonic_send(history: History) -> Iterator[Key]:
    """Records of one op, the later one placed lower."""
    for p, s, t in _neighbours(history):
        if s["op"] == t["op"] and t["place"] < s["place"]:
            yield "int-nonmonotonic-send", p.tp, s["value"], t["value"]


def int_send_skip(history: History) -> Iterator[Key]:
    """Records of one transaction with others between them."""
    for p, s, t in _neighbours(history):
        skipped = any(s["place"] < offset < t["place"] for offset in p.order(RU))
        if s["op"] == t["op"] and t["txn"] and skipped:
            yield "int-send-skip", p.tp, s["value"], t["value"]


def nonmonotonic_send(history: History) -> Iterator[Key]:
    """Records of two ops of one process, the later one placed lower."""
    for p, s, t in _neighbours(history):
        dropped = any(
            row["process"] == s["process"]
            and row["tp"] == p.tp
            and row["kind"] == AssignmentKind.MANUAL
            and s["invoke_ns"] < row["ns"] <= t["invoke_ns"]
            for row in history.assignments
        )
        if s["op"] != t["op"] and t["place"] < s["place"] and not dropped:
            yield "nonmonotonic-send", p.tp, s["value"], t["value"]


# Order of polls ---------------------------------------------------------------------------------


def _steps(history: History) -> Iterator[tuple[Partition, Row, Row]]:
    """Successive reads of one process from one partition that nothing explains away."""
    for p in history.partitions:
        for process in history.processes:
            own = [read for read in p.reads if read["process"] == process]
            for at, read in enumerate(own):
                before = own[:at]
                maybe: list[Row] = []
                if not (before and before[-1]["op"] == read["op"]):
                    before = [q for q in before if not _undone(p, q)]
                    since = own.index(before[-1]) + 1 if before else at
                    maybe = [q for q, after in pairwise(own[since : at + 1]) if q["op"] != after["op"]]
                if not before or _explained(p, before[-1], read):
                    continue
                if p.recorded or not any(_goes_on(p, q, read) for q in maybe):
                    yield p, before[-1], read


def _goes_on(p: Partition, q: Row, r: Row) -> bool:
    """A process whose op with q happened, though it did not end well, may have been given r next."""
    before, after = _position(p, q), _position(p, r)
    onward = before < after and not any(before < offset < after for offset in p.order(r["isolation"]))
    return onward or _explained(p, q, r)


def _undone(p: Partition, read: Row) -> bool:
    if read["op_outcome"] == OK:
        return False
    return not p.recorded or any(
        row["process"] == read["process"]
        and row["tp"] == p.tp
        and row["op"] == read["op"]
        and row["kind"] == AssignmentKind.REWIND
        for row in p.history.assignments
    )


def _explained(p: Partition, q: Row, r: Row) -> bool:
    for row in p.history.assignments:
        if row["process"] != r["process"] or row["tp"] != p.tp:
            continue
        if row["kind"] == AssignmentKind.REWIND:
            continue
        if q["assignment"] < row["assignment"] <= r["assignment"]:
            reset = p.recorded and p.begins_known() and row["kind"] == AssignmentKind.RESET
            begin = p.given_from(r["complete_ns"])
            if not reset or not any(begin <= o < r["offset"] for o in p.order(r["isolation"])):
                return True
        if not p.recorded and q["op"] == r["op"] == row["op"]:
            return True
    return False


def _position(p: Partition, read: Row) -> int:
    if p.recorded:
        return int(read["offset"])
    return max(offset for offset, value in p.log() if value == read["value"])


def poll_order(history: History) -> Iterator[Key]:
    """The four classes of steps: back or repeated, and past something; within an op and across."""
    for p, q, r in _steps(history):
        internal = q["op"] == r["op"]
        prefix, key = ("int-", (p.tp, r["op"], r["pos"])) if internal else ("", (p.tp, r["op"]))
        before, after = _position(p, q), _position(p, r)
        if after <= before:
            yield (f"{prefix}nonmonotonic-poll", *key)
        given = any(
            q["op"] < op["op"] < r["op"] and op["process"] == r["process"]
            for op in history.polls_in_doubt(r["process"])
        )
        if not given and any(before < offset < after for offset in p.order(r["isolation"])):
            yield (f"{prefix}poll-skip", *key)
    for p, r, internal in _first_reads(history) if history.recorded else ():
        if p.begins_known() and any(
            p.given_from(r["complete_ns"]) <= offset < r["offset"] for offset in p.order(r["isolation"])
        ):
            yield ("int-poll-skip", p.tp, r["op"], r["pos"]) if internal else ("poll-skip", p.tp, r["op"])


def _first_reads(history: History) -> Iterator[tuple[Partition, Row, bool]]:
    """The reads that begin, and whether their predecessor is of the same op."""
    for row in history.assignments:
        if row["kind"] != AssignmentKind.BEGINNING:
            continue
        for p in (p for p in history.partitions if p.tp == row["tp"]):
            own = [read for read in p.reads if read["process"] == row["process"]]
            for at, read in enumerate(own):
                internal = at > 0 and own[at - 1]["op"] == read["op"]
                q = own[at - 1] if internal else next((q for q in own[:at][::-1] if not _undone(p, q)), None)
                begins = q is None or q["assignment"] < read["assignment"]
                if begins and read["assignment"] == row["assignment"] and read["phase"] != Phase.FINAL:
                    yield p, read, internal


def stuck_lso(history: History) -> Iterator[Key]:
    """Partitions whose last stable offset never reached the high watermark."""
    for p in history.partitions:
        if p.stuck() and history.settled():
            yield "stuck-lso", p.tp


RULES: Final[tuple[Callable[[History], Iterator[Key]], ...]] = (
    lost_write,
    resurrected_key,
    unseen,
    duplicate,
    torn_txn,
    aborted_read,
    precommitted_read,
    phantom_read,
    corrupt_record,
    misdirected_record,
    inconsistent_offsets,
    offset_reuse,
    offset_realtime_inversion,
    int_nonmonotonic_send,
    int_send_skip,
    nonmonotonic_send,
    poll_order,
    cycles,
    future_read,
    offset_commit_regression,
    phantom_commit,
    double_assignment,
    stuck_lso,
    hanging_txn,
    eos_duplicate,
    eos_loss,
    eos_uncommitted,
    nonmonotonic_copy,
    group_duplicate,
    group_skip,
    zombie_write,
    share_redelivery,
    share_two_holders,
    share_skip,
    share_aborted_read,
    share_count,
    share_over_limit,
    *dead_letters.RULES,
    node_died,
    stalled_client,
)


SHARED: Final = (
    "share-redelivery",
    "share-two-holders",
    "share-skip",
    "share-aborted-read",
    "share-count",
    "share-over-limit",
)
"""Classes of share groups."""
LETTERS: Final = (
    "dead-letter-lost",
    "dead-letter-of-accepted",
    "dead-letter-unearned",
    "dead-letter-twice",
    "dead-letter-differs",
    "dead-letter-of-nothing",
)
"""Classes of their dead-letter queues."""
APPLIED: Final = ("eos-uncommitted", "nonmonotonic-copy")
"""Classes that are asked of applications alone."""
CLASSES: Final = (
    "lost-write",
    "resurrected-key",
    "unseen",
    "duplicate",
    "torn-txn",
    "aborted-read",
    "precommitted-read",
    "phantom-read",
    "corrupt-record",
    "misdirected-record",
    "inconsistent-offsets",
    "offset-reuse",
    "offset-realtime-inversion",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "int-send-skip",
    "nonmonotonic-poll",
    "int-nonmonotonic-poll",
    "poll-skip",
    "int-poll-skip",
    "G0",
    "G1c",
    "G1c-ww",
    "G0-realtime",
    "G1c-realtime",
    "offset-commit-regression",
    "phantom-commit",
    "double-assignment",
    "stuck-lso",
    "hanging-txn",
    "eos-duplicate",
    "eos-loss",
    "eos-uncommitted",
    "nonmonotonic-copy",
    "group-duplicate",
    "group-skip",
    "zombie-write",
    *SHARED,
    *LETTERS,
    "node-died",
    "stalled-client",
)
"""Every class that the rules can find."""


def findings(
    tables: Mapping[str, pa.Table],
    *,
    portable: bool | None = None,
    events: Sequence[Event] = (),
    config: RunConfig | None = None,
    f: Sequence[str] = KINDS,
) -> set[Key]:
    """The keys of all findings, allowed or not.

    portable: whether anything else than `inquest run` made the history; None: if it has no `bounds`.
    events: of the run: open transactions, and whether it came to rest. config: None = all defaults. f: the
    names of kinds of ops. Of an imported history, only group-skip and group-duplicate.
    """
    history = History(tables, portable=portable, events=events, config=config, f=f)
    if history.imported:
        return {key for rule in (group_skip, group_duplicate) for key in rule(history)}
    return {key for rule in RULES for key in rule(history)}


def variants(
    tables: Mapping[str, pa.Table],
    *,
    portable: bool | None = None,
    events: Sequence[Event] = (),
    config: RunConfig | None = None,
) -> dict[Key, set[tuple[str, str]]]:
    """The variants and excuses that each finding may have (`tests.oracle.variants`)."""
    history = History(tables, portable=portable, events=events, config=config)
    every = findings(tables, portable=portable, events=events, config=config)
    return {key: variants_of(history, key) for key in every}


def undecided(
    tables: Mapping[str, pa.Table],
    *,
    portable: bool | None = None,
    events: Sequence[Event] = (),
    config: RunConfig | None = None,
) -> set[str]:
    """Which of lost-write, torn-txn, eos-loss and nonmonotonic-copy would need a final read that was not
    made; group-skip where a group is silent; phantom-read where a journal may lack its newest lines."""
    history = History(tables, portable=portable, events=events, config=config)
    if not history.recorded:
        return set()
    found = {"eos-loss"} if eos_loss_undecided(history) else set()
    if copy_order_undecided(history):
        found.add("nonmonotonic-copy")
    if silent_groups(history):
        found.add("group-skip")
    if any(row["reason"] == 4 and named_input(history, row) == "open" for row in history.foreign):
        found.add("phantom-read")
    if any(
        r["value"] not in p.send_of and history.cut(process_of(r["value"]))
        for p in history.partitions
        for r in p.reads
    ):
        found.add("phantom-read")
    if any(p.committed(s) and p.undecided(s) for p in history.partitions for s in p.sends):
        found.add("lost-write")
    for _, hidden in torn_parts(history):
        doubtful = [p.undecided(s) or (p.missing(s) and not p.torn_off(s)) for p, s in hidden]
        if not any(p.torn_off(s) for p, s in hidden) and any(doubtful):
            found.add("torn-txn")
    return found
