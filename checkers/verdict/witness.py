"""Examples of findings for people: the sentence, the ops and records, the faults in force."""

from collections.abc import Iterable, Sequence
from typing import Final

from checkers.engine.findings import INFO, NOWHERE, OK, Finding, LogFinding, Shown, What
from checkers.faults.in_force import RunFaults
from history.reader import History, OpRecord
from history.verdict import Example, LogPlace, OpView

EXAMPLES: Final = 16
"""Examples of one class in a verdict, and of each check of evidence."""
RECORDS: Final = 8
"""Records shown of one op."""


def example(run: RunFaults, finding: Finding, *, allowed: bool, why: str, bug: str) -> Example:
    """One finding, in words and records."""
    if isinstance(finding, LogFinding):
        return _log_example(finding, allowed=allowed, why=why, bug=bug)
    history, shown = run.history, finding.records
    numbers = dict.fromkeys((*finding.ops, *(each.op for each in shown)))
    ops = [history.op(op) for op in numbers if op >= 0]
    told = finding.sentence(history)
    return Example(
        sentence=told[:1].upper() + told[1:],
        allowed=allowed,
        why=why,
        known_bug=bug,
        partition=history.tp(finding.tp) if finding.tp >= 0 else "",
        offsets=_distinct(each.offset for each in shown),
        values=_distinct(each.value for each in shown),
        leader_epochs=_distinct(each.leader_epoch for each in shown),
        at_s=run.seconds(finding.at_ns) if finding.at_ns > 0 else None,
        faults=_faults(run, finding, ops),
        ops=[_view(run, op, shown) for op in ops],
        producer=_producer(history, finding, ops),
    )


def _log_example(finding: LogFinding, *, allowed: bool, why: str, bug: str) -> Example:
    """One finding in logs; its sentence begins with a name as it is."""
    producer = {"producer_id": finding.producer_id, "epoch": finding.producer_epoch}
    return Example(
        sentence=finding.text,
        allowed=allowed,
        why=why,
        known_bug=bug,
        partition="" if finding.log == NOWHERE else str(finding.log),
        offsets=_distinct([finding.offset]),
        producer=producer if finding.producer_id >= 0 else {},
        check=finding.check,
        log=LogPlace(
            offset=finding.offset,
            take=finding.take,
            nodes=list(finding.nodes),
            before=finding.before,
            transactional_id=finding.transactional_id,
        ),
    )


def _distinct(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(number for number in numbers if number >= 0))


def _producer(history: History, finding: Finding, ops: Sequence[OpRecord]) -> dict[str, int]:
    """Identity of the sending process when its op ended, as its statistics gave it; {} unknown."""
    own = [op for op in ops if finding.process >= 0 and op.process == finding.process]
    known = history.identities(finding.process) if own else ()
    if not known:
        return {}
    past = [one for one in known if one.ns <= own[0].ended_ns]
    last = (past or known)[-1 if past else 0]
    return {"producer_id": last.producer_id, "epoch": last.producer_epoch, "epoch_cnt": last.epoch_cnt}


def _faults(run: RunFaults, finding: Finding, ops: Sequence[OpRecord]) -> list[int]:
    """Faults in force during the ops of the witness; during final reads only those that were never healed."""
    found: set[int] = set()
    for op in ops:
        found.update(run.during(op.invoke_ns, op.ended_ns))
    if not ops and finding.at_ns > 0:
        found.update(run.during(finding.at_ns, finding.at_ns))
    return sorted(found)


def _view(run: RunFaults, op: OpRecord, shown: Iterable[Shown]) -> OpView:
    process = run.history.processes.get(op.process)
    records = dict.fromkeys(_record(run.history, each) for each in shown if each.op == op.op)
    return OpView(
        op=op.op,
        process=op.process,
        slot=-1 if process is None else process.slot,
        f=op.f,
        outcome=op.outcome.name.lower(),
        phase=op.phase.name.lower(),
        error=op.error,
        txn=op.txn,
        transactional_id="" if process is None else process.transactional_id,
        isolation="" if process is None else process.level,
        begin_s=run.seconds(op.invoke_ns),
        end_s=run.seconds(op.complete_ns) if op.completed else None,
        records=list(records)[:RECORDS],
    )


def _record(history: History, shown: Shown) -> str:
    tp, at = history.tp(shown.tp), f"offset {shown.offset}"
    if shown.what is What.SEND:
        fate = at if shown.offset >= 0 else ("acknowledged" if shown.outcome == OK else "no offset")
        doubt = " (in doubt)" if shown.outcome == INFO else ""
        source, offset = shown.source
        copy = f" (copy of {history.tp(source)} offset {offset})" if offset >= 0 else ""
        return f"send {tp} {shown.name} -> {fate}{doubt}{copy}"
    if shown.what is What.READ:
        epoch = f" (leader epoch {shown.leader_epoch})" if shown.leader_epoch >= 0 else ""
        return f"read {tp} {at} -> {shown.name}{epoch}"
    return f"{shown.what} {tp} -> {at}"
