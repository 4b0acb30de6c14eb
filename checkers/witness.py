"""Examples of findings for people: the sentence, the ops and records, the faults in force.

Not here: the sentences (`checkers.sentences`), which findings there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from checkers.kernel_types import FINAL, INFO, OK, Finding, Shown
from checkers.lookup import Lookup, Row, ended_ns, show_value
from checkers.sentences import sentence
from harness.history import OPEN
from harness.verdict import Example, OpView

EXAMPLES: Final = 16
"""Examples of one class in a verdict."""
RECORDS: Final = 8
"""Records shown of one op."""


def example(lookup: Lookup, finding: Finding, *, allowed: bool, why: str, bug: str) -> Example:
    """One finding, told and shown."""
    shown = (*finding.records, *_more(lookup, finding))
    ops = list(dict.fromkeys((*finding.ops, *(each.op for each in shown))))
    rows = [lookup.op(op) for op in ops if op >= 0]
    return Example(
        sentence=sentence(lookup, finding),
        allowed=allowed,
        why=why,
        known_bug=bug,
        partition=lookup.tp(finding.tp) if finding.tp >= 0 else "",
        offsets=_distinct(each.offset for each in shown),
        values=_distinct(each.value for each in shown),
        leader_epochs=_distinct(each.leader_epoch for each in shown),
        at_s=lookup.seconds(finding.at_ns) if finding.at_ns > 0 else None,
        faults=_faults(lookup, finding, rows),
        ops=[_view(lookup, row, shown) for row in rows],
        producer=_producer(lookup, finding, rows),
    )


def fetch(lookup: Lookup, findings: Sequence[Finding]) -> None:
    """Read in one go what the examples of these findings need."""
    whole = [finding.ops[0] for finding in findings if _whole(finding)]
    lookup.fetch(ops=[*whole, *(op for f in findings if f.steps for op in f.ops)])
    sends, _ = lookup.of_ops(*whole)
    lookup.fetch(values=[row["value"] for row in sends])
    lookup.fetch_inputs((f.key[0], f.key[2]) for f in findings if f.name == "eos-loss")


def _whole(finding: Finding) -> bool:
    """The witness is one whole transaction."""
    by_op = finding.name in ("torn-txn", "hanging-txn") or finding.variant == "commit"
    return by_op and bool(finding.ops)


def _distinct(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(number for number in numbers if number >= 0))


def _producer(lookup: Lookup, finding: Finding, rows: list[Row]) -> dict[str, int]:
    """Identity of the sending process when its op was over."""
    if finding.process < 0 or not rows:
        return {}
    own = [row for row in rows if row["process"] == finding.process]
    return lookup.identity(finding.process, ended_ns(own[0])) if own else {}


def _faults(lookup: Lookup, finding: Finding, rows: list[Row]) -> list[int]:
    """Faults in force during the ops of the witness; final reads came after all faults."""
    found: set[int] = set()
    for row in rows:
        if row["phase"] != FINAL:
            found.update(lookup.faults_during(row["invoke_ns"], ended_ns(row)))
    if not rows and finding.at_ns > 0:
        found.update(lookup.faults_during(finding.at_ns, finding.at_ns))
    return sorted(found)


def _view(lookup: Lookup, row: Row, shown: Iterable[Shown]) -> OpView:
    process = lookup.process(row["process"])
    mine = [each for each in shown if each.op == row["op"]]
    told = list(dict.fromkeys(_record(lookup, each) for each in mine))
    end = None if row["complete_ns"] == OPEN else lookup.seconds(row["complete_ns"])
    return OpView(
        op=row["op"],
        process=row["process"],
        slot=process.get("slot", -1),
        f=row["name"],
        outcome=row["outcome_name"],
        phase=row["phase_name"],
        error=row["why"],
        txn=bool(row["txn"]),
        transactional_id=process.get("transactional_id", ""),
        isolation="" if process.get("isolation", -1) < 0 else process["level"],
        begin_s=lookup.seconds(row["invoke_ns"]),
        end_s=end,
        records=told[:RECORDS],
    )


def _record(lookup: Lookup, shown: Shown) -> str:
    tp, value = lookup.tp(shown.tp), show_value(shown.value)
    at = f"offset {shown.offset}"
    if shown.what == "send":
        fate = at if shown.offset >= 0 else ("acknowledged" if shown.outcome == OK else "no offset")
        doubt = " (in doubt)" if shown.outcome == INFO else ""
        copy = f" (copy of {lookup.tp(shown.source[0])} offset {shown.source[1]})"
        return f"send {tp} {value} -> {fate}{doubt}{copy if shown.source[1] >= 0 else ''}"
    if shown.what == "read":
        epoch = f" (leader epoch {shown.leader_epoch})" if shown.leader_epoch >= 0 else ""
        return f"read {tp} {at} -> {value}{epoch}"
    return f"{shown.what} {tp} -> {at}"


def _more(lookup: Lookup, finding: Finding) -> list[Shown]:
    """Records that a witness over several partitions needs and no kernel had."""
    if _whole(finding):
        return _of_transaction(lookup, finding.ops[0])
    if finding.name == "eos-loss":
        return _of_input(lookup, finding)
    if finding.steps:
        return _of_cycle(lookup, finding)
    return []


def _of_transaction(lookup: Lookup, op: int) -> list[Shown]:
    """All records of a transaction, and one read of each that was read."""
    own = [_sent(row) for row in lookup.of_ops(op)[0]]
    _, reads = lookup.of_values(*(each.value for each in own))
    first: dict[tuple[int, int], Row] = {}
    for row in reads:
        first.setdefault((row["tp"], row["value"]), row)
    kept = [first[at] for each in own if (at := (each.tp, each.value)) in first]
    return [*own, *(_got(one) for one in kept[:RECORDS])]


def _of_input(lookup: Lookup, finding: Finding) -> list[Shown]:
    """An input: who sent it, who of the group read it, its copies, and the commit behind it."""
    tp, _, offset = finding.key
    reads, copies = lookup.input(tp, offset)
    sends, _ = lookup.of_values(*{row["value"] for row in reads})
    copiers = {row["process"] for row in copies}
    shown = [_sent(row) for row in sends if row["tp"] == tp][:1]
    mine = [row for row in reads if row["process"] in copiers]
    shown += [_got(row) for row in (mine or reads)[:4]]
    shown += [_sent(row) for row in copies[:4]]
    return [*shown, Shown(finding.ops[0], "commit", tp, -1, finding.detail["position"])]


def _of_cycle(lookup: Lookup, finding: Finding) -> list[Shown]:
    """For each step the record that makes it."""
    sends, reads = lookup.of_ops(*finding.ops)
    shown: list[Shown] = []
    for kind, a, b, tp in finding.steps:
        sent = {row["value"]: row for row in sends if row["op"] == a and row["tp"] == tp}
        if kind == "wr":
            read = [r for r in reads if r["op"] == b and r["tp"] == tp and r["value"] in sent]
            shown += [_sent(sent[r["value"]]) for r in read[:1]] + [_got(r) for r in read[:1]]
        elif kind == "ww":
            later = [row for row in sends if row["op"] == b and row["tp"] == tp]
            pairs = [
                (s, t) for s in sent.values() for t in later if 0 <= s["place"] < t["place"]
            ]  # fmt: skip
            for s, t in sorted(pairs, key=lambda pair: pair[1]["place"] - pair[0]["place"])[:1]:
                shown += [_sent(s), _sent(t)]
    return shown


def _sent(row: Mapping[str, Any]) -> Shown:
    at = row["offset"] if row["offset"] >= 0 else row["place"]
    source = (row.get("src_tp", -1), row.get("src_offset", -1))
    return Shown(row["op"], "send", row["tp"], row["value"], at, row["outcome"], source=source)


def _got(row: Mapping[str, Any]) -> Shown:
    return Shown(row["op"], "read", row["tp"], row["value"], row["offset"], OK, row["leader_epoch"])
