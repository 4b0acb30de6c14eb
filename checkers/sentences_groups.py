"""Sentences about exactly-once, delivery to groups, fencing, and transactions that never end.

Not here: those about records and their order (`checkers.sentences`).
"""

from collections.abc import Callable
from typing import Final

from checkers.kernel_types import FAIL, Finding
from checkers.lookup import Lookup, Row, show_value
from checkers.phrases import at, client, only, reader, record
from checkers.stability import open_transactions
from harness.events import OpenTransaction
from harness.history import OPEN


def _copied_twice(lookup: Lookup, f: Finding) -> str:
    _, group, source, offset = f.key
    copies = ", and ".join(
        f"as record {show_value(s.value)} (op {s.op})"
        if s.offset < 0
        else f"as record {show_value(s.value)} at offset {s.offset} (op {s.op})"
        for s in f.records
    )
    return (
        f"Group {lookup.group(group)} copied the record at offset {offset} of {lookup.tp(source)}"
        f" {f.detail['copies']} times into committed output, to {lookup.tp(f.tp)}: {copies}."
    )


def _copied_never(lookup: Lookup, f: Finding) -> str:
    tp, group, offset = f.key
    reads, copies = lookup.input(tp, offset)
    named = f"Record {show_value(reads[0]['value'])}" if reads else "The record"
    told = [f"{show_value(row['value'])} of op {row['op']} {_fate(row)}" for row in copies[:4]]
    attempts = f" ({'; '.join(told)})" if told else ""
    return (
        f"{named} at offset {offset} of {lookup.tp(tp)} was never copied: group {lookup.group(group)}"
        f" committed offset {f.detail['position']} there {at(lookup, f.at_ns)} (op {f.ops[0]} of"
        f" {client(lookup, f.process)}), and committed output holds no copy of it{attempts}."
    )


def _fate(row: Row) -> str:
    if row["outcome"] == FAIL:
        return "was refused"
    if row["txn"] and row["op_outcome"] == FAIL:
        return "was aborted"
    return "was in doubt, and is not in the log"


def _given_again(lookup: Lookup, f: Finding) -> str:
    (commit,), (read,) = only(f, "commit"), only(f, "read")
    return (
        f"Group {lookup.group(f.key[1])} had committed offset {commit.offset} of {lookup.tp(f.tp)}"
        f" {at(lookup, f.detail['committed_ns'])} (op {commit.op}); then"
        f" {reader(lookup, lookup.op(read.op))} was assigned the partition and given offset"
        f" {read.offset} (record {show_value(read.value)}, op {read.op}) {at(lookup, f.at_ns)}."
    )


def _never_given(lookup: Lookup, f: Finding) -> str:
    (commit,), (read,) = only(f, "commit"), only(f, "read")
    return (
        f"{record(lookup, read)}, at offset {read.offset}, was never given to group"
        f" {lookup.group(f.key[1])}, which committed offset {commit.offset} there"
        f" {at(lookup, f.at_ns)} (op {commit.op} of {client(lookup, f.process)}); op {read.op} read it."
    )


def _zombie(lookup: Lookup, f: Finding) -> str:
    zombie, heir = client(lookup, f.process), client(lookup, f.detail["heir"])
    if f.variant == "commit":
        return (
            f"{zombie} committed the transaction op {f.ops[0]} {at(lookup, f.at_ns)}, of which it wrote"
            f" something after {heir}, which had taken its transactional id over, had completed a"
            f" transaction {at(lookup, f.detail['fenced_ns'])}."
        )
    before, after = f.records
    fate = "it is committed" if f.variant == "committed" else "it is not committed"
    return (
        f"{record(lookup, after)}, by {zombie}, stands at offset {after.offset}, behind record"
        f" {show_value(before.value)} at offset {before.offset} by {heir}, which had taken its"
        f" transactional id over; {fate}."
    )


def _stuck(lookup: Lookup, f: Finding) -> str:
    name = lookup.tp(f.tp)
    opened = [
        row
        for row in open_transactions(lookup.sealed.events)
        if f"{row.topic}-{row.partition}" == name and row.start >= f.detail["lso"]
    ]
    held = "; ".join(_open(row) for row in sorted(opened, key=lambda row: row.start)[:4])
    return (
        f"After all clients were gone and every transaction past its time-out, the last stable offset"
        f" of {name} stayed at {f.detail['lso']}, its high watermark at {f.detail['hw']}"
        + (f": {held}." if held else ".")
    )


def _hanging(lookup: Lookup, f: Finding) -> str:
    row = next(
        row
        for row in open_transactions(lookup.sealed.events)
        if (row.producer_id, row.start) == (f.key[1], f.detail["start"])
        and f"{row.topic}-{row.partition}" == lookup.tp(f.tp)
    )
    last = ""
    if f.ops:
        op = lookup.op(f.ops[0])
        ended = "never ended" if op["complete_ns"] == OPEN else f"ended {op['outcome_name']}"
        last = f"; the last transaction of {client(lookup, f.process)} with that id, op {f.ops[0]}, {ended}"
    return (
        f"With all clients gone and all transactions past their time-out, {lookup.tp(f.tp)} holds a"
        f" transaction open: {_open(row)}{last}."
    )


def _open(row: OpenTransaction) -> str:
    held = f"producer id {row.producer_id}, epoch {row.producer_epoch}, since offset {row.start}"
    if not row.transactional_id:
        return f"{held}; no coordinator claims it"
    node = f", coordinated by node {row.coordinator}" if row.coordinator >= 0 else ""
    return f"{held}, transactional id {row.transactional_id}{node}"


SENTENCES: Final[dict[str, Callable[[Lookup, Finding], str]]] = {
    "eos-duplicate": _copied_twice,
    "eos-loss": _copied_never,
    "group-duplicate": _given_again,
    "group-skip": _never_given,
    "zombie-write": _zombie,
    "stuck-lso": _stuck,
    "hanging-txn": _hanging,
}
"""Anomaly class -> its sentence."""
