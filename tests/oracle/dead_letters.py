"""The rules of docs/checks.md about dead letters, in plain Python.

Part of the slow oracle (`tests.oracle.anomalies`); shares no code with the kernel.
"""

from collections.abc import Iterator
from typing import NamedTuple

from core.op import Acknowledgement, Phase
from history.events import DeadLettersListed, ShareOffsetsListed
from history.tables import OPEN
from tests.oracle.share_groups import calm, lock_ns, most, rows_of
from tests.oracle.words import FAIL, OK, RC, RU, History, Key, Partition, Row

COPIED_NOTHING = -1
Record = tuple[int, int, int]
"""Partition, group, offset."""


class Letters(NamedTuple):
    """What the queue has of one record: (delivery count, value) of each letter. values: of the records at its
    offset, as final reads show them."""

    p: Partition
    record: Record
    letters: list[tuple[int, int]]
    values: list[int]

    @property
    def sent_ns(self) -> int:
        """When the record was sent."""
        send = self.p.send_of.get(self.values[0])
        return 0 if send is None else int(send["invoke_ns"])


def _groups(history: History) -> set[int]:
    return {row["group"] for row in (*history.deliveries, *history.acknowledgements)}


def _listing(history: History) -> DeadLettersListed | None:
    """The only one, where it is whole and of the only share group."""
    found = [event for event in history.events if isinstance(event, DeadLettersListed)]
    names = {row[0] for event in found for row in event.rows}
    names |= {row[0] for e in history.events if isinstance(e, ShareOffsetsListed) for row in e.rows}
    if len(found) != 1 or found[0].why or len(names) > 1 or len(_groups(history)) != 1:
        return None
    return found[0] if history.deliveries else None


def _at(p: Partition, offset: int, level: int | None = None) -> list[int]:
    return [
        read["value"]
        for read in p.reads
        if read["phase"] == Phase.FINAL and read["offset"] == offset and level in (None, read["isolation"])
    ]


def letters(history: History) -> Iterator[Letters]:
    """Of each offset that has some."""
    if (listing := _listing(history)) is None:
        return
    (group,) = _groups(history)
    for p in history.partitions:
        mine = [row for row in listing.rows if (row[1], row[2]) == history.names[p.tp]]
        for offset in sorted({row[3] for row in mine}):
            some = [(row[4], row[5]) for row in mine if row[3] == offset]
            yield Letters(p, (p.tp, group, offset), some, _at(p, offset))


def _said(history: History, record: Record, kind: Acknowledgement) -> list[Row]:
    return [
        row
        for row in rows_of(history.acknowledgements, record)
        if row["kind"] == kind and row["outcome"] != FAIL
    ]


def _accepted(history: History, record: Record) -> bool:
    """For certain."""
    for said in _said(history, record, Acknowledgement.ACCEPT):
        own = [d for d in rows_of(history.deliveries, record) if d["process"] == said["process"]]
        own = [d for d in own if d["complete_ns"] <= said["invoke_ns"]]
        if not own or said["outcome"] != OK or said["complete_ns"] > own[-1]["since_ns"] + lock_ns(history):
            continue
        since, process = own[-1]["complete_ns"], said["process"]
        renewals = [
            row["invoke_ns"]
            for row in rows_of(history.acknowledgements, record)
            if row["kind"] == Acknowledgement.RENEW and row["process"] == process
        ]
        later = [d["complete_ns"] for d in rows_of(history.deliveries, record) if d["process"] == process]
        later = [ns for ns in later if ns > since]
        overlapping = [
            d
            for d in rows_of(history.deliveries, record)
            if d["complete_ns"] >= own[-1]["since_ns"] and d["since_ns"] <= said["complete_ns"]
        ]
        if len(overlapping) == 1 and not any(since <= ns < min(later, default=OPEN) for ns in renewals):
            return True
    return False


def _given_at_most(history: History, record: Record, sent_ns: int) -> int:
    counts = [d["delivery_count"] for d in rows_of(history.deliveries, record)]
    mine = [row for row in history.processes.values() if row["group"] == record[1]]
    return int(max([0, *counts])) + len([row for row in mine if row["end_ns"] > sent_ns])


def dead_letter_of_accepted(history: History) -> Iterator[Key]:
    """Accepted records that have a letter."""
    for one in letters(history):
        if one.values and _accepted(history, one.record):
            yield "dead-letter-of-accepted", *one.record


def dead_letter_unearned(history: History) -> Iterator[Key]:
    """Letters of records that were neither rejected nor at the limit."""
    for one in letters(history):
        if not one.values or _accepted(history, one.record) or history.cut_group(one.record[1]):
            continue
        if _said(history, one.record, Acknowledgement.REJECT):
            continue
        seldom = _given_at_most(history, one.record, one.sent_ns) < most(history)
        short = any(times < most(history) for times, _ in one.letters)
        if short or (seldom and calm(history, one.sent_ns, OPEN)):
            yield "dead-letter-unearned", *one.record


def dead_letter_twice(history: History) -> Iterator[Key]:
    """Records with several letters."""
    for one in letters(history):
        if one.values and len(one.letters) > 1:
            yield "dead-letter-twice", *one.record


def dead_letter_differs(history: History) -> Iterator[Key]:
    """Copies of other records."""
    for one in letters(history):
        if one.values and any(value not in (one.values[0], COPIED_NOTHING) for _, value in one.letters):
            yield "dead-letter-differs", *one.record


def dead_letter_of_nothing(history: History) -> Iterator[Key]:
    """Letters where there is no record."""
    for one in letters(history):
        bounds = one.p.bounds.get(RU)
        if one.values or bounds is None or not bounds.complete or history.retention:
            continue
        if history.config.compacted or one.p.given_from() > 0:
            continue
        if bounds.start <= one.record[2] < bounds.read_to:
            yield "dead-letter-of-nothing", *one.record


def dead_letter_lost(history: History) -> Iterator[Key]:
    """Records that were archived, and have no letter."""
    if (listing := _listing(history)) is None:
        return
    (group,) = _groups(history)
    listed = [row for event in history.events if isinstance(event, ShareOffsetsListed) for row in event.rows]
    start = {(topic, number): offset for _, topic, number, offset in listed}
    for p in history.partitions:
        if history.retention or p.given_from() > 0 or history.cut_group(group):
            continue
        have = {row[3] for row in listing.rows if (row[1], row[2]) == history.names[p.tp]}
        for offset in range(start.get(history.names[p.tp], 0)):
            values, record = _at(p, offset, RC), (p.tp, group, offset)
            if offset in have or not values or values[0] not in p.send_of:
                continue
            if _said(history, record, Acknowledgement.ACCEPT):
                continue
            often = _given_at_most(history, record, p.send_of[values[0]]["invoke_ns"]) >= most(history)
            if often or _said(history, record, Acknowledgement.REJECT):
                yield "dead-letter-lost", *record


def calmness(p: Partition, key: Key) -> set[str]:
    """The variant of a letter too few or too many."""
    values = _at(p, int(key[3]))
    sends = [p.send_of[value] for value in values if value in p.send_of]
    sent = sends[0]["invoke_ns"] if sends else 0
    return {"calm" if calm(p.history, sent, OPEN) else "disturbed"}


RULES = (
    dead_letter_lost,
    dead_letter_of_accepted,
    dead_letter_unearned,
    dead_letter_twice,
    dead_letter_differs,
    dead_letter_of_nothing,
)
