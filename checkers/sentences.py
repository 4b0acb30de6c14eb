"""One plain sentence for each finding: what was promised, what was seen, when.

A sentence names the partition, the record, its offset, the client and the times, so that an expert
can go and look. Records are named process/number, as the values of a run are made.

Not here: those about groups and fencing (`checkers.sentences_groups`), the ops and records shown beside
them (`checkers.witness`).
"""

from collections.abc import Callable
from typing import Final

from checkers import sentences_groups
from checkers.kernel_types import FAIL, INFO, OK, Finding
from checkers.lookup import Lookup, show_value
from checkers.phrases import at, client, only, reader, record
from harness.events import Recovered

Sentence = Callable[[Lookup, Finding], str]


def sentence(lookup: Lookup, finding: Finding) -> str:
    """The whole story of a finding."""
    told = SENTENCES[finding.name](lookup, finding)
    return told[:1].upper() + told[1:]


def _lost(lookup: Lookup, f: Finding) -> str:
    s = f.records[0]
    op = lookup.op(s.op)
    where = f" at offset {s.offset}" if s.offset >= 0 else " without an offset"
    if op["txn"] and op["outcome"] == OK:
        promised = f"was committed in the transaction op {s.op}"
        promised += f" (acknowledged{where})" if s.outcome == OK else ""
    elif s.outcome == INFO or op["txn"]:
        promised = (
            f"was proven written (op {s.op} is indeterminate, but consumers saw it take effect)"
        )
    else:
        promised = f"was acknowledged{where} {at(lookup, f.at_ns)}"
    reads = only(f, "read")
    seen = (
        f"op {reads[0].op} had read it at offset {reads[0].offset}, yet "
        if reads
        else "no consumer ever read it, and "
    )
    end = f.detail.get("end", -1)
    reached = f" (the log ends at {end})" if end >= 0 else ""
    return (
        f"{record(lookup, s)}, sent by {client(lookup, f.process)}, {promised}; {seen}"
        f"the final reads, which read past its place{reached}, did not return it."
    )


def _duplicate(lookup: Lookup, f: Finding) -> str:
    reads, sends = only(f, "read"), only(f, "send")
    offsets = sorted({s.offset for s in f.records if s.offset >= 0})
    places = ", ".join(map(str, offsets[:4]))
    epochs = sorted({s.leader_epoch for s in reads if s.leader_epoch >= 0})
    by = client(lookup, f.process) if f.process >= 0 else "nobody on record"
    under = f" (leader epochs {', '.join(map(str, epochs))})" if epochs else ""
    acked = f", acknowledged at offset {sends[0].offset}" if sends and sends[0].offset >= 0 else ""
    return (
        f"{record(lookup, f.records[0])} was sent once, by {by}{acked}, and stands in the"
        f" log {f.detail['copies']} times: at offsets {places}{under}."
    )


def _torn(lookup: Lookup, f: Finding) -> str:
    op = lookup.op(f.ops[0])
    d = f.detail
    missing = f"record {show_value(d['value'])} of {lookup.tp(d['tp'])}"
    came = "committed" if op["outcome"] == OK else "ended indeterminate"
    return (
        f"Transaction op {f.ops[0]} of {client(lookup, op['process'])} {came}; {d['seen']} of its"
        f" records became visible to read_committed consumers, {d['missing']} never did"
        f" (first of them: {missing})."
    )


def _aborted(lookup: Lookup, f: Finding) -> str:
    s, r = only(f, "send")[0], only(f, "read")[0]
    writer = lookup.op(s.op)
    if not writer["txn"]:
        fate = "was definitely not written, as its client was told"
    elif writer["outcome"] == FAIL:
        meant = "on purpose" if writer["deliberate"] else "after an error"
        fate = f"belongs to the transaction op {s.op}, which was aborted {meant}"
    else:
        fate = f"was never handed over within the transaction op {s.op}"
    return (
        f"{record(lookup, s)} by {client(lookup, f.process)} {fate}; yet"
        f" {reader(lookup, lookup.op(r.op))} got it at offset {r.offset} {at(lookup, f.at_ns)}."
    )


def _precommitted(lookup: Lookup, f: Finding) -> str:
    r = only(f, "read")[0]
    op = lookup.op(r.op)
    return (
        f"The transaction op {r.op} of {reader(lookup, op)} read its own"
        f" {record(lookup, r)} at offset {r.offset} {at(lookup, f.at_ns)}, before it could commit."
    )


def _phantom(lookup: Lookup, f: Finding) -> str:
    op = lookup.op(f.ops[0])
    if not f.records:
        return (
            f"{reader(lookup, op)} got a record of another run at offset {f.detail['offset']} of"
            f" {lookup.tp(f.tp)}."
        )
    r = f.records[0]
    return (
        f"{reader(lookup, op)} got {record(lookup, r)} at offset {r.offset} {at(lookup, f.at_ns)};"
        " no client sent that record to this partition."
    )


def _damaged(lookup: Lookup, f: Finding) -> str:
    op = lookup.op(f.ops[0])
    what = {0: "a payload that cannot be read", 1: "a payload whose checksum is wrong"}.get(
        f.detail["reason"], "a record that was sent to another topic or partition"
    )
    return f"{reader(lookup, op)} got {what} at offset {f.detail['offset']} of {lookup.tp(f.tp)}."


def _conflict(lookup: Lookup, f: Finding) -> str:
    told = []
    for s in f.records:
        verb = "acknowledged for" if s.what == "send" else "read as"
        epoch = f", leader epoch {s.leader_epoch}" if s.leader_epoch >= 0 else ""
        told.append(f"{verb} {show_value(s.value)} (op {s.op}{epoch})")
    return f"Offset {f.key[1]} of {lookup.tp(f.tp)} was {', and '.join(told)}."


def _inversion(lookup: Lookup, f: Finding) -> str:
    s, t = f.records
    return (
        f"{record(lookup, s)} was acknowledged at offset {s.offset}"
        f" {at(lookup, f.detail['acked_ns'])}; record {show_value(t.value)}, sent afterwards"
        f" ({at(lookup, f.detail['invoked_ns'])}), stands before it, at offset {t.offset}."
    )


def _reordered(lookup: Lookup, f: Finding) -> str:
    s, t = f.records
    how = f"in op {s.op}" if s.op == t.op else f"in op {s.op}, then op {t.op}"
    return (
        f"{client(lookup, f.process)} sent records {show_value(s.value)} and {show_value(t.value)} to"
        f" {lookup.tp(f.tp)} in this order ({how}); they stand at offsets {s.offset} and {t.offset}."
    )


def _interleaved(lookup: Lookup, f: Finding) -> str:
    s, t = f.records
    return (
        f"Between records {show_value(s.value)} and {show_value(t.value)} of the transaction op {s.op}"
        f" (offsets {s.offset} and {t.offset} of {lookup.tp(f.tp)}) stand records of others."
    )


def _step(lookup: Lookup, f: Finding) -> str:
    q, r = f.records[0], f.records[-1]
    who = reader(lookup, lookup.op(r.op))
    when = f"within op {r.op}" if q.op == r.op else f"in op {r.op}, after op {q.op},"
    if not f.name.endswith("skip"):
        went = "the same record again" if r.offset == q.offset else "an earlier one"
        return (
            f"{who} {when} was given {went} of {lookup.tp(f.tp)}: offset {q.offset}, then"
            f" {r.offset}; no rebalance, assignment, rewind or reset on record explains it."
        )
    between = ", ".join(f"{show_value(s.value)} at {s.offset}" for s in f.records[1:-1])
    left = f" (among them {between})" if between else ""
    return (
        f"{who} {when} was given offset {q.offset} of {lookup.tp(f.tp)}, then {r.offset}, and never"
        f" the records between{left}; no rebalance, assignment, rewind or reset on record explains it."
    )


def _cycle(lookup: Lookup, f: Finding) -> str:
    if f.records:
        s, r = f.records
        return (
            f"{reader(lookup, lookup.op(r.op))} was given {record(lookup, r)} at offset {r.offset}"
            f" {at(lookup, f.at_ns)}, before op {s.op} had begun to send it."
        )
    told = "; ".join(_link(lookup, *step) for step in f.steps)
    more = f" ({f.key[2]} ops in all depend on each other)" if f.key[2] > len(f.steps) else ""
    if not f.steps:
        return f"{f.key[2]} ops, the first of them op {f.key[1]}, depend on each other in a circle."
    return f"A circle of {len(f.steps)} ops: {told}{more}."


def _link(lookup: Lookup, kind: str, a: int, b: int, tp: int) -> str:
    if kind == "rt":
        return f"op {a} was over before op {b} began"
    if kind == "wr":
        return f"op {b} read what op {a} wrote to {lookup.tp(tp)}"
    return f"op {a} stands before op {b} in {lookup.tp(tp)}"


def _regression(lookup: Lookup, f: Finding) -> str:
    s, t = f.records
    group = lookup.group(f.key[1])
    said = "was told" if t.what == "fetch committed" else "committed"
    return (
        f"Group {group} had committed offset {s.offset} of {lookup.tp(f.tp)} (op {s.op}); afterwards"
        f" {client(lookup, f.process)} {said} offset {t.offset} (op {t.op}), and nothing explains it."
    )


def _unseen(lookup: Lookup, f: Finding) -> str:
    return f"{record(lookup, f.records[0])} is committed, and no poll returned it."


def _unrecovered(lookup: Lookup, f: Finding) -> str:
    seen = [event for event in lookup.sealed.events if isinstance(event, Recovered)][-1]
    return (
        f"All faults healed, the cluster had not recovered {seen.seconds:.0f} s later"
        f" ({at(lookup, f.at_ns)}): {seen.why or 'no reason on record'}."
    )


SENTENCES: Final[dict[str, Sentence]] = {
    "lost-write": _lost,
    "unseen": _unseen,
    "duplicate": _duplicate,
    "torn-txn": _torn,
    "aborted-read": _aborted,
    "precommitted-read": _precommitted,
    "phantom-read": _phantom,
    "corrupt-record": _damaged,
    "misdirected-record": _damaged,
    "inconsistent-offsets": _conflict,
    "offset-reuse": _conflict,
    "offset-realtime-inversion": _inversion,
    "nonmonotonic-send": _reordered,
    "int-nonmonotonic-send": _reordered,
    "int-send-skip": _interleaved,
    "nonmonotonic-poll": _step,
    "int-nonmonotonic-poll": _step,
    "poll-skip": _step,
    "int-poll-skip": _step,
    "offset-commit-regression": _regression,
    "not-recovered": _unrecovered,
    **sentences_groups.SENTENCES,
    **dict.fromkeys(("G1c", "G1c-realtime", "G1c-ww", "G0", "G0-realtime"), _cycle),
}
"""Anomaly class -> its sentence."""
