"""The variants of findings (docs/checks.md, section 2), in plain Python: what `allowed` has to know.

Part of the slow oracle (`tests.oracle.anomalies`); shares no code with the kernels.

Not here: the findings themselves, what is allowed (`checkers.catalogue`).
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Final

from core.config import RunConfig
from core.op import AssignmentKind, End, Phase, process_of
from core.systems import KafkaSection
from history.events import NodeEnded
from history.tables import OPEN
from tests.oracle.dead_letters import calmness
from tests.oracle.incidents import unregistered
from tests.oracle.ops import NEVER, commit_complete, stored
from tests.oracle.windows import alone, excuses, hole, inversion, power_took, read_before
from tests.oracle.words import FAIL, OK, RC, History, Key, Partition, Row

Variants = set[str]
"""The variants that a finding may have; several only where witnesses of equal right differ."""

ACKS: Final = {0: "0", 1: "1", -1: "all"}


def variants(history: History, key: Key) -> set[tuple[str, str]]:
    """The variants, each with its excuse, that the finding with this key may have."""
    rule = _RULES.get(str(key[0]))
    if key[0] == "node-died":
        died = [e for e in history.events if isinstance(e, NodeEnded) and e.end.node == key[2]][int(key[3])]
        given_up = unregistered(died.end) and not power_took(history, died)
        return {("hindered" if given_up else "", excuse) for excuse in excuses(history, key)}
    if rule is None:
        return {("", excuse) for excuse in excuses(history, key)}
    if key[1] == -1:  # of zombie-write: an op, in no partition
        return {("commit", excuse) for excuse in excuses(history, key)}
    (p,) = (p for p in history.partitions if p.tp == key[1])
    if key[0] == "offset-realtime-inversion":
        later = p.send_of[int(key[2])]
        weaker = [later] if alone(p, later) else []
        return {
            (min(ACKS[_process(p, each)["acks"]] for each in (s, *weaker)), inversion(p, s, later))
            for s in _inverted(p, later)
        }
    return {(variant, excuse) for variant in rule(p, key) for excuse in excuses(history, key)}


def _process(p: Partition, row: Row) -> Row:
    return p.history.processes[row["process"]]


def _promised(p: Partition, send: Row) -> str:
    acks = _process(p, send)["acks"]
    return "read" if acks in (0, 1) and read_before(p, send) else ACKS[acks]


def _lost(p: Partition, key: Key) -> Variants:
    send = p.send_of[int(key[2])]
    return {"hole" if hole(p, send) else _promised(p, send)}


def _deleted(p: Partition, key: Key) -> Variants:
    return {_promised(p, p.send_of[int(key[2])])}


def _idempotent(p: Partition, key: Key) -> Variants:
    send = p.send_of.get(int(key[2]))
    number = process_of(int(key[2]))
    if send is None and not p.history.cut(number):
        return {"unsent" if p.history.imported else "1"}
    process = _process(p, send) if send else p.history.processes.get(number)
    if process is None:
        return {"retries"}
    if process["idempotent"]:
        return {"forgotten" if send and _forgotten(p, send) else "1"}
    return {"retries" if process["retries"] != 0 else "0"}


def _forgotten(p: Partition, send: Row) -> bool:
    """Each copy of the record may have come when brokers remembered nothing of its producer any more."""
    kept = _remembered_ms(p.history.config) * 1_000_000
    offsets = {offset for offset, value in p.log() if value == send["value"]}
    copies = offsets - {min(offsets)}
    return not send["txn"] and all(_silent_before(p, send, copy) >= kept for copy in copies)


def _silent_before(p: Partition, send: Row, copy: int) -> int:
    """For how long its process may have written nothing before a copy was appended there."""
    own = [s for s in p.sends if s["process"] == send["process"]]
    last = max([s["invoke_ns"] for s in own if 0 <= s["place"] < copy] + [send["invoke_ns"]])
    there = [r["complete_ns"] for r in p.reads if (r["value"], r["offset"]) == (send["value"], copy)]
    there += [s["ack_ns"] for s in own if s["offset"] >= copy and s["ack_ns"] >= 0]
    there = [ns for ns in there if ns != OPEN]
    return int(min(there) - last) if there else -1


def _remembered_ms(config: RunConfig) -> int:
    """Until which time brokers remember a producer that writes nothing (KIP-854, since 3.4)."""
    given, day = config.broker_settings, 24 * 3600 * 1000
    new = int(given.get("producer.id.expiration.ms", day))
    old = int(given.get("transactional.id.expiration.ms", 7 * day))
    if config.sut == "external":
        return old if {*given} & _EXPIRATIONS == {"transactional.id.expiration.ms"} else new
    if config.sut != "kafka":
        return new
    kafka = config.section(KafkaSection)
    versions = [one.split(".")[:2] for one in (kafka.version, kafka.upgrade) if one]
    return min(old if (int(major), int(minor)) < (3, 4) else new for major, minor in versions)


_EXPIRATIONS: Final = {"producer.id.expiration.ms", "transactional.id.expiration.ms"}


def _level(p: Partition, key: Key) -> Variants:
    levels = set()
    for read in p.reads:
        if (read["value"], read["op"]) == key[2:4]:
            final = "log" if read["phase"] == Phase.FINAL else "ru"
            levels.add("rc" if read["isolation"] == RC else final)
    return levels or {"rc"}  # a share group's delivery, for no other reader is asked for


def _aborted(p: Partition, key: Key) -> Variants:
    send = p.send_of[int(key[2])]
    unsent = not send["txn"] or send["op_outcome"] != FAIL
    return {"unsent"} if unsent else _level(p, key)


def _contradicted(p: Partition, key: Key) -> Variants:
    if len({read["value"] for read in p.reads if read["offset"] == key[2]}) > 1:
        return {"reads"}
    acks = {_process(p, s)["acks"] for s in p.sends if s["offset"] == key[2] and p.committed(s)}
    lowest = next(level for level in (0, 1, -1) if level in acks)
    return {f"ack {ACKS[lowest]}"}


def _inverted(p: Partition, later: Row) -> list[Row]:
    before = [s for s in p.sends if 0 <= s["ack_ns"] < later["invoke_ns"]]
    highest = max(s["place"] for s in before)
    return [s for s in before if s["place"] == highest]


def _reordered(p: Partition, key: Key) -> Variants:
    earlier = p.send_of[int(key[2])]
    process = _process(p, earlier)
    if process["idempotent"]:
        return {"1"}
    if process["retries"] != 0 and process["in_flight"] != 1:
        return {"pipelined"}
    if earlier["outcome"] != OK:
        return {"abandoned"}
    return {"0" if process["acks"] == -1 else f"acks {process['acks']}"}


def _zombie(p: Partition, key: Key) -> Variants:
    return {"committed" if p.committed(p.send_of[int(key[2])]) else "uncommitted"}


def _passed(p: Partition, key: Key) -> Variants:
    history, group, offset = p.history, key[2], int(key[3])
    commits = [c for c in history.commits if (c["group"], c["tp"]) == (group, p.tp)]
    passed = min(
        (commit_complete(history, c) for c in commits if stored(c) and c["offset"] > offset), default=NEVER
    )
    values = [read["value"] for read in p.reads if read["offset"] == offset]
    sent = min(p.send_of[v]["invoke_ns"] if v in p.send_of else -1 for v in values)
    for process in history.processes.values():
        suspect = process["group"] == group and process["auto_commit"]
        if not suspect or process["end"] == End.CLOSED:
            continue
        if _had_since(p, process) < passed and sent < _gone(history, process):
            return {"auto"}
    return _late(p, key)


def _late(p: Partition, key: Key) -> Variants:
    if p.history.config.app:
        return {""}
    moved = p.given_from() > 0 or not p.begins_known()
    return {"late" if moved or _begun_behind(p, key[2], int(key[3])) else ""}


def _not_copied(p: Partition, key: Key) -> Variants:
    group, offset = key[2], int(key[3])
    had = any(r["offset"] == offset and p.history.processes[r["process"]]["group"] == group for r in p.reads)
    if not had or p.history.config.app:
        return _late(p, key)
    commits = [c for c in p.history.commits if (c["group"], c["tp"]) == (group, p.tp) and stored(c)]
    passed = min((commit_complete(p.history, c) for c in commits if c["offset"] > offset), default=NEVER)
    return {"late" if _begun_behind(p, group, offset, passed) else ""}


def _begun_behind(p: Partition, group: object, offset: int, until: int = NEVER) -> bool:
    """A member that found nothing committed, or reset its position, read first behind the offset, and began
    before this moment."""
    history = p.history
    commits = [c for c in history.commits if (c["group"], c["tp"]) == (group, p.tp) and stored(c)]
    first = min((commit_complete(history, c) for c in commits), default=NEVER)
    for row in history.assignments:
        process = row["process"]
        if row["tp"] != p.tp or history.processes[process]["group"] != group or row["ns"] >= until:
            continue
        given = row["kind"] == AssignmentKind.ASSIGNED and row["ns"] < first + history.apart_ns
        if not given and row["kind"] != AssignmentKind.RESET:
            continue
        reads = [
            read for read in p.reads if read["process"] == process and read["assignment"] >= row["assignment"]
        ]
        if reads and min(reads, key=itemgetter("op", "pos"))["offset"] > offset:
            return True
    return False


def _had_since(p: Partition, process: Row) -> int:
    """From when on the process may have had the partition."""
    own = process["process"]
    rows = p.history.assignments
    changes = [row["ns"] for row in rows if (row["process"], row["tp"]) == (own, p.tp)]
    ops = p.history.ops.values()
    left = [op["invoke_ns"] for op in ops if op["process"] == own and op["complete_ns"] == OPEN]
    return min(changes + left, default=NEVER)


def _gone(history: History, process: Row) -> int:
    """By when it was surely dead."""
    if process["end"] != End.CRASHED:
        return NEVER
    return min(
        (
            other["start_ns"]
            for other in history.processes.values()
            if other["slot"] == process["slot"] and other["start_ns"] > process["start_ns"]
        ),
        default=NEVER,
    )


def _within(p: Partition, key: Key) -> Variants:
    return {"member" if p.history.processes[p.history.ops[int(key[2])]["process"]]["group"] >= 0 else ""}


def _between(p: Partition, key: Key) -> Variants:
    own = p.history.ops[int(key[2])]["process"]
    by_group = (AssignmentKind.ASSIGNED, AssignmentKind.REVOKED, AssignmentKind.LOST)
    joined = any(row["process"] == own and row["kind"] in by_group for row in p.history.assignments)
    return {"member"} if joined else _within(p, key)


_RULES: Final[Mapping[str, Callable[[Partition, Key], Variants]]] = {
    "lost-write": _lost,
    "resurrected-key": _deleted,
    "duplicate": _idempotent,
    "aborted-read": _aborted,
    "precommitted-read": _level,
    "inconsistent-offsets": _contradicted,
    "offset-realtime-inversion": _lost,  # and its excuse: of each witness
    "nonmonotonic-send": _reordered,
    "int-nonmonotonic-send": _reordered,
    "group-skip": _passed,
    "eos-loss": _not_copied,
    "int-nonmonotonic-poll": _within,
    "int-poll-skip": _within,
    "nonmonotonic-poll": _between,
    "poll-skip": _between,
    "zombie-write": _zombie,
    "dead-letter-lost": calmness,
    "dead-letter-twice": calmness,
}
"""Class -> its rule; the others have no variant."""
