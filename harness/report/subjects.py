"""What the messages and states around a finding are about, and when it happened.

Where nothing was found, the first fault is the subject: the partition that it moved first.

Not here: the steps (`steps`), the drawing (`spacetime`).
"""

from harness import trace as tr
from harness.events import TransactionsOpen
from harness.op import Phase
from harness.report.inputs import Inputs
from harness.report.records import Unreadable, any_of
from harness.report.steps import Subject
from harness.verdict import Example, Fault

NAMES_MAX = 4
"""Transactional ids, groups of one subject."""


def of_example(inputs: Inputs, trace: tr.Trace, example: Example) -> Subject:
    """The subject of a finding."""
    loading = [op for op in example.ops if op.phase != Phase.FINAL.name.lower()]
    times = [op.begin_s for op in loading] + [op.end_s for op in loading if op.end_s is not None]
    if not times and example.at_s is not None:
        times = [example.at_s]
    transactions = [op.transactional_id for op in example.ops if op.txn and op.transactional_id]
    producers = {example.producer.get("producer_id", -1)}
    if not example.ops:
        producers |= _open_in(inputs, example.partition)
    transactions += _of_producers(trace, producers)
    clients = {tr.client_lane(op.process) for op in loading}
    groups = [] if transactions else _groups(trace, clients, example)
    return Subject(
        partition=example.partition or _partition(inputs, example),
        transactions=tuple(dict.fromkeys(transactions))[:NAMES_MAX],
        groups=tuple(groups)[:NAMES_MAX],
        offsets=tuple(offset for offset in example.offsets if offset >= 0),
        moments=tuple(_ns(inputs, second) for second in times),
        clients=tuple(sorted(clients)),
    )


def _ns(inputs: Inputs, second: float) -> int:
    return inputs.start_ns + round(second * 1e9)


def _open_in(inputs: Inputs, partition: str) -> set[int]:
    """Producer ids of the transactions that a partition held open at the end."""
    return {
        row.producer_id
        for event in inputs.events
        if isinstance(event, TransactionsOpen)
        for row in event.rows
        if f"{row.topic}-{row.partition}" == partition
    }


def _of_producers(trace: tr.Trace, producers: set[int]) -> list[str]:
    """Transactional ids that had these producer ids."""
    return [
        state.transactional_id
        for state in trace.states
        if isinstance(state, tr.Transaction) and state.producer_id >= 0
        and state.producer_id in producers
    ]  # fmt: skip


def _groups(trace: tr.Trace, clients: set[str], example: Example) -> list[str]:
    """Groups of the finding's clients, where it tells of what a group committed."""
    if not any(op.f == "commit" or "committed" in " ".join(op.records) for op in example.ops):
        return []
    found = [
        name.removeprefix("group:")
        for message in trace.messages
        if message.sender in clients
        for name in message.parts
        if name.startswith("group:")
    ]
    return list(dict.fromkeys(found))


def _partition(inputs: Inputs, example: Example) -> str:
    """Where the records of the finding's ops went first."""
    if inputs.sealed is None or not example.ops:
        return ""
    try:
        rows = inputs.sealed.rows("sends", any_of("op", {op.op for op in example.ops}))
    except Unreadable:
        return ""
    wanted = [row for row in rows if row["value"] in example.values] or rows
    return inputs.sealed.tp(wanted[0]["tp"]) if wanted else ""


def of_fault(inputs: Inputs, trace: tr.Trace, fault: Fault) -> Subject:
    """The subject of a run in which nothing was found."""
    begin = _ns(inputs, fault.begin_s)
    partition = ""
    last: dict[tuple[int, str], tr.Replica] = {}
    for state in trace.states:
        if not isinstance(state, tr.Replica) or state.partition.startswith("__"):
            continue
        before = last.get((state.node, state.partition))
        last[state.node, state.partition] = state
        partition = partition or state.partition
        if before and state.ns >= begin and state.epoch != before.epoch:
            return Subject(partition=state.partition, moments=(begin, state.ns))
    return Subject(partition=partition, moments=(begin,))
