"""The rules of docs/checks.md about share groups, in plain Python.

Part of the slow oracle (`tests.oracle.anomalies`); shares no code with the kernel.
"""

from collections.abc import Iterator
from itertools import pairwise

from core.op import Acknowledgement, Phase
from history.events import FaultHealed, FaultStarted, NodeEnded, RolesSeen, ShareOffsetsListed
from history.tables import OPEN
from tests.oracle.words import FAIL, INFO, OK, RC, History, Key, Row, failed

SLACK = 10_000_000_000


def lock_ns(history: History) -> int:
    """How long a member may hold a record."""
    from workloads.share import LOCK_MS

    return 1_000_000 * (LOCK_MS if history.config.workload == "share" else 30_000)


def most(history: History) -> int:
    """How often a record may be delivered."""
    return int(history.config.broker_settings.get("group.share.delivery.count.limit", "5"))


def records(history: History) -> list[tuple[int, int, int]]:
    """Partition, group and offset of each record that a share group delivered, or a member acknowledged."""
    rows = (*history.deliveries, *history.acknowledgements)
    return sorted({(row["tp"], row["group"], row["offset"]) for row in rows})


def rows_of(rows: list[Row], record: tuple[int, int, int]) -> list[Row]:
    """Those of one record, in their order."""
    mine = [row for row in rows if (row["tp"], row["group"], row["offset"]) == record]
    return sorted(mine, key=lambda row: (row["complete_ns"], row["op"]))


def _ends(row: Row) -> bool:
    return row["kind"] in (Acknowledgement.ACCEPT, Acknowledgement.REJECT)


def _poll(history: History, said: Row) -> int:
    """The op of the poll that gave what a row is about."""
    record = said["tp"], said["group"], said["offset"]
    mine = [d for d in rows_of(history.deliveries, record) if d["process"] == said["process"]]
    return int(next((d["op"] for d in reversed(mine) if d["complete_ns"] <= said["invoke_ns"]), -1))


def calm(history: History, since: int, until: int) -> bool:
    """No lock, and no count, can have been lost in between."""
    spans = []
    for event in history.events:
        if isinstance(event, FaultStarted) and (event.nodes or not event.slots):
            healed = [e.ns for e in history.events if isinstance(e, FaultHealed) and e.fault == event.fault]
            spans.append((event.begin_ns, healed[-1] + SLACK if healed else OPEN))
        if isinstance(event, NodeEnded):
            spans.append((event.ns - SLACK, event.ns + SLACK))
    looks = [event for event in history.events if isinstance(event, RolesSeen)]
    looks.sort(key=lambda look: look.ns)
    for number, one in enumerate(looks):
        two = looks[number + 1] if number + 1 < len(looks) else None
        if -1 in one.leaders.values():
            spans.append((one.ns, OPEN if two is None else two.ns + SLACK))
        if two and any(tp in two.leaders and two.leaders[tp] != one.leaders[tp] for tp in one.leaders):
            spans.append((max(one.ns, two.ns - SLACK), two.ns + SLACK))
    for tp in history.names:
        spans += replaced(history, tp)
    return not any(begin <= until and since <= end for begin, end in spans)


def replaced(history: History, tp: int) -> list[tuple[int, int]]:
    """Replaced times of a partition."""
    topic, number = history.names[tp]
    name = f"{topic}-{number}"
    looks = [e for e in history.events if isinstance(e, RolesSeen) and name in e.leaders]
    looks.sort(key=lambda look: look.ns)
    spans = []
    for one, two in pairwise(looks):
        epochs = [look.epochs[name] for look in (one, two) if name in look.epochs]
        twice = len(epochs) == 2 and epochs[0] >= 0 and epochs[1] - epochs[0] > 1
        if one.leaders[name] == -1 or (one.leaders[name] == two.leaders[name] and not twice):
            continue
        same = [e.ns for e in looks[looks.index(two) :] if e.agreed and e.leaders[name] != -1]
        spans.append((max(one.ns, two.ns - SLACK), same[0] + SLACK if same else OPEN))
    return spans


def _by_replaced(history: History, given: list[Row], d: Row, t: int) -> bool:
    """A delivery is perhaps a replaced leader's after t."""
    record = d["tp"], d["group"], d["offset"]
    answers = []
    for said in rows_of(history.acknowledgements, record):
        own = [g for g in given if g["process"] == said["process"] and g["complete_ns"] <= said["invoke_ns"]]
        if own and own[-1] is d and said["outcome"] == OK and said["kind"] != Acknowledgement.RENEW:
            answers.append(said["complete_ns"])
    spans = replaced(history, record[0])
    for number, (begin, end) in enumerate(spans):
        later = spans[number + 1][0] if number + 1 < len(spans) else OPEN
        if begin <= t <= end and begin <= d["since_ns"] <= end and not any(ns < later for ns in answers):
            return True
    return False


def share_redelivery(history: History) -> Iterator[Key]:
    """Deliveries after an end that was confirmed while the lock lasted for certain."""
    for record in records(history):
        given = rows_of(history.deliveries, record)
        for said in rows_of(history.acknowledgements, record):
            own = [
                d for d in given if d["process"] == said["process"] and d["complete_ns"] <= said["invoke_ns"]
            ]
            if not own or not _ends(said) or said["outcome"] != OK:
                continue
            in_time = said["complete_ns"] <= own[-1]["since_ns"] + lock_ns(history)
            done = said["complete_ns"]
            again = [d for d in given if d["since_ns"] > done and not _by_replaced(history, given, d, done)]
            if in_time and again:
                yield "share-redelivery", *record


def _locked(history: History, d: Row, following: Row) -> int:
    """Since when a delivery is locked, as far as renewals count that cannot be of the following one."""
    record = d["tp"], d["group"], d["offset"]
    begun = int(d["since_ns"])
    for said in rows_of(history.acknowledgements, record):
        renews = said["kind"] == Acknowledgement.RENEW and said["outcome"] == OK
        counts = said["complete_ns"] <= following["complete_ns"]
        if following["process"] == d["process"]:
            counts = said["complete_ns"] < following["since_ns"]
        if renews and counts and said["process"] == d["process"]:
            own = [g for g in rows_of(history.deliveries, record) if g["process"] == d["process"]]
            own = [g for g in own if g["complete_ns"] <= said["invoke_ns"]]
            if own and own[-1] is d:
                begun = max(begun, said["invoke_ns"])
    return begun


def share_two_holders(history: History) -> Iterator[Key]:
    """Deliveries to others while a lock lasted for certain."""
    for record in records(history):
        if history.cut_group(record[1]):
            continue
        for first, second in pairwise(rows_of(history.deliveries, record)):
            since, until = first["since_ns"], second["complete_ns"]
            begun = _locked(history, first, second)
            if first["complete_ns"] >= second["since_ns"] or until >= begun + lock_ns(history):
                continue
            alive = any(
                said["complete_ns"] >= until
                and said["outcome"] != INFO
                and _poll(history, said) == first["op"]
                for said in history.acknowledgements
                if (said["tp"], said["group"]) == record[:2]
            )
            spoke = any(
                said["process"] == first["process"]
                and said["invoke_ns"] <= until
                and (said["outcome"] == INFO or said["complete_ns"] >= since)
                for said in rows_of(history.acknowledgements, record)
                if said["kind"] != Acknowledgement.RENEW
            )
            if alive and not spoke and calm(history, since, until):
                yield "share-two-holders", *record


def share_count(history: History) -> Iterator[Key]:
    """Delivery counts that do not rise."""
    for record in records(history):
        for first, second in pairwise(rows_of(history.deliveries, record)):
            if first["complete_ns"] >= second["since_ns"]:
                continue
            same = second["delivery_count"] <= first["delivery_count"]
            if same and calm(history, first["since_ns"], second["complete_ns"]):
                yield "share-count", *record


def share_over_limit(history: History) -> Iterator[Key]:
    """Delivery counts above the limit."""
    for record in records(history):
        if any(d["delivery_count"] > most(history) for d in rows_of(history.deliveries, record)):
            yield "share-over-limit", *record


def share_aborted_read(history: History) -> Iterator[Key]:
    """Records of aborted transactions that a group at read_committed delivered."""
    for p in history.partitions:
        for record in records(history):
            if record[0] != p.tp:
                continue
            of = [d for d in rows_of(history.deliveries, record) if d["value"] in p.send_of]
            aborted = [d for d in of if p.send_of[d["value"]]["txn"] and failed(p.send_of[d["value"]])]
            aborted = [d for d in aborted if p.send_of[d["value"]]["op_outcome"] == FAIL]
            if aborted and history.processes[aborted[0]["process"]]["isolation"] == RC:
                yield "share-aborted-read", *record


def share_skip(history: History) -> Iterator[Key]:
    """Records below the start offset that no member ended."""
    listed = [row for event in history.events if isinstance(event, ShareOffsetsListed) for row in event.rows]
    if len({group for group, *_ in listed}) != 1:
        return
    start = {(topic, number): offset for _, topic, number, offset in listed}
    groups = {row["group"] for row in (*history.deliveries, *history.acknowledgements)}
    for p in history.partitions:
        if history.retention or p.given_from() > 0:
            continue
        final = [r for r in p.reads if r["phase"] == Phase.FINAL and r["isolation"] == RC]
        for offset in sorted({r["offset"] for r in final}):
            values = [r["value"] for r in final if r["offset"] == offset]
            if offset >= start.get(history.names.get(p.tp, ("", -1)), 0) or values[0] not in p.send_of:
                continue
            for group in sorted(groups):
                if not history.cut_group(group) and not _may_have_ended(
                    history, (p.tp, group, offset), p.send_of[values[0]]
                ):
                    yield "share-skip", p.tp, group, offset


def _may_have_ended(history: History, record: tuple[int, int, int], send: Row) -> bool:
    if any(_ends(said) and said["outcome"] != FAIL for said in rows_of(history.acknowledgements, record)):
        return True
    counts = [d["delivery_count"] for d in rows_of(history.deliveries, record)]
    gone = [
        row
        for row in history.processes.values()
        if row["group"] == record[1] and row["end_ns"] > send["invoke_ns"]
    ]
    unseen = max([0, *counts]) + len(gone)
    return unseen >= most(history) or not calm(history, send["invoke_ns"], OPEN)
