"""Messages and states around the findings of a run: what the section of the report shows.

A scene has a subject (what its finding is about; without a finding, the partition that the first fault
changed first), the steps that changed it, and the messages that caused these steps or are about the same
and nearest in time. Of real brokers it has the messages that were captured, and no steps.
"""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from core.errors import HistoryError
from core.op import Phase
from harness.report.evidence.choice import open_at_end
from harness.report.inputs import Inputs
from harness.report.messages import diagram, steps
from harness.report.messages.captured import Captured
from harness.report.messages.diagram import Missing, ShownMessages
from harness.report.messages.steps import AROUND_NS, DAMAGE, TURN, Subject, TraceStep
from harness.report.wording import Key, in_turn
from history import trace as tr
from history.unit_files import EVERYWHERE
from history.verdict import Example, Fault, Verdict

SCENES_MAX = 6
STEPS_MAX, ARROWS_MAX = 40, 100
SMALL_STEPS_MAX, SMALL_ARROWS_MAX = 16, 40
PAIR_NS = 20_000_000
"""Time within which the request of a shown answer is shown as well."""

OFFSETS = frozenset({"OffsetCommit", "OffsetFetch", "TxnOffsetCommit"})
"""They are about partitions, too, but seldom matter where no group is the subject."""
NAMES_MAX = 4
"""Transactional ids, groups of one subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceScene:
    """One finding, or the first fault. key: class and position of the example, None = the fault. title,
    text: what is shown, in words. nodes: the partition's replicas. left_out: steps that are not shown; gaps:
    how many of them before each that is."""

    key: Key | None
    title: str
    text: str
    subject: Subject
    nodes: list[int]
    steps: list[TraceStep]
    left_out: int
    gaps: list[int]
    diagram: diagram.Diagram
    arrows_left_out: int
    missing: Sequence[Missing] = ()


def build(inputs: Inputs) -> list[TraceScene]:
    """The scenes of a run: the first forbidden finding of each class, or the first fault. None where there is
    neither a trace nor a capture."""
    trace, verdict = inputs.trace, inputs.verdict
    if trace is None:
        return _captured(inputs)
    found: list[TraceScene] = []
    examples = _examples(verdict)
    for key, example in examples:
        about = of_example(inputs, trace, example)
        if about.names:
            found.append(_scene(inputs, trace, key, example.sentence, about))
    if not examples and verdict.faults:
        fault = min(verdict.faults, key=lambda fault: (fault.begin_s, fault.fault))
        about = of_fault(inputs, trace, fault)
        text = (
            "The checks found nothing forbidden. "
            f"This is what the first fault, {fault.name}, did to {about.partition}:"
        )
        found.append(_scene(inputs, trace, None, text, about))
    return found


def _examples(verdict: Verdict) -> list[tuple[Key, Example]]:
    """The first forbidden one of each class."""
    first: dict[str, tuple[Key, Example]] = {}
    for key, example in in_turn(verdict):
        if not example.allowed:
            first.setdefault(key[0], (key, example))
    return list(first.values())[:SCENES_MAX]


def _captured(inputs: Inputs) -> list[TraceScene]:
    """Scenes of what was captured: around findings alone."""
    if inputs.evidence is None or not inputs.evidence.captured:
        return []
    seen, found = Captured(inputs, inputs.evidence), []
    nothing = tr.Trace(header=seen.header)
    for key, example in _examples(inputs.verdict):
        about = of_example(inputs, nothing, example, seen.ids)
        told = example.producer.get("producer_id", -1), example.producer.get("epoch", -1)
        about = replace(about, moments=seen.moments(about, told if told[0] >= 0 else None))
        trace = seen.trace(about.moments)
        if about.names and trace.messages:
            until = trace.messages[-1].sent
            found.append(_scene(inputs, trace, key, example.sentence, about, seen.missing(until)))
    return found


def _scene(
    inputs: Inputs,
    trace: tr.Trace,
    key: Key | None,
    text: str,
    about: Subject,
    missing: Sequence[Missing] = (),
) -> TraceScene:
    most_steps, most_arrows = (STEPS_MAX, ARROWS_MAX) if key else (SMALL_STEPS_MAX, SMALL_ARROWS_MAX)
    everything = steps.steps(trace, about)
    moments = steps.moments(everything, about)
    shown = steps.chosen(everything, about, most_steps)
    messages = choose(trace, about, shown, moments, most_arrows)
    places = [number for number, step in enumerate(everything) if step in shown]
    nodes = sorted({node for step in shown for node in step.replicas})
    return TraceScene(
        key=key,
        title=inputs.verdict.anomalies[key[0]].title if key else "First fault",
        text=text,
        subject=about,
        nodes=nodes,
        steps=shown,
        left_out=len(everything) - len(shown),
        gaps=[after - before - 1 for before, after in itertools.pairwise([-1, *places])],
        diagram=diagram.Diagram(trace, messages, shown, inputs.verdict.faults, inputs.start_ns, missing),
        arrows_left_out=messages.left_out,
        missing=missing,
    )


def of_example(
    inputs: Inputs, trace: tr.Trace, example: Example, ids: Callable[[Iterable[int]], list[str]] | None = None
) -> Subject:
    """The subject of a finding. ids: transactional ids of producer ids, where the trace has no states."""
    loading = [op for op in example.ops if op.phase != Phase.FINAL.name.lower()]
    times = [op.begin_s for op in loading] + [op.end_s for op in loading if op.end_s is not None]
    if not times and example.at_s is not None:
        times = [example.at_s]
    transactions = [op.transactional_id for op in example.ops if op.txn and op.transactional_id]
    producers = {example.producer.get("producer_id", -1)}
    if not example.ops:
        producers |= {row.producer_id for row in open_at_end(inputs, example.partition)}
    transactions += ids(producers) if ids else _of_producers(trace, producers)
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


def _of_producers(trace: tr.Trace, producers: set[int]) -> list[str]:
    """Transactional ids that had these producer ids."""
    return [
        state.transactional_id
        for state in trace.states
        if isinstance(state, tr.TracedTransaction)
        and state.producer_id >= 0
        and state.producer_id in producers
    ]


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
    if inputs.history is None or not example.ops:
        return ""
    history = inputs.history
    try:
        rows = history.sends({EVERYWHERE: {"op": {op.op for op in example.ops}}})
    except HistoryError:
        return ""
    wanted = [row for row in rows if row.value in example.values] or rows
    return history.tp(wanted[0].tp) if wanted else ""


def of_fault(inputs: Inputs, trace: tr.Trace, fault: Fault) -> Subject:
    """The subject of a run in which nothing was found."""
    begin = _ns(inputs, fault.begin_s)
    partition = ""
    last: dict[tuple[int, str], tr.TracedReplica] = {}
    for state in trace.states:
        if not isinstance(state, tr.TracedReplica) or state.partition.startswith("__"):
            continue
        before = last.get((state.node, state.partition))
        last[state.node, state.partition] = state
        partition = partition or state.partition
        if before and state.ns >= begin and state.epoch != before.epoch:
            return Subject(partition=state.partition, moments=(begin, state.ns))
    return Subject(partition=partition, moments=(begin,))


def choose(
    trace: tr.Trace, subject: Subject, steps: Sequence[TraceStep], moments: Sequence[int], most: int
) -> ShownMessages:
    """At most `most` messages."""
    messages, names = trace.messages, subject.names
    near = sorted({*moments, *(s.ns for s in steps if s.weight <= TURN)}) or [0]
    must = {step.cause for step in steps if step.cause >= 0}
    must |= {messages[n].answers for n in must if messages[n].answers >= 0}
    vital = {step.cause for step in steps if step.weight == DAMAGE}
    low = min([*moments, *(s.ns for s in steps)], default=0) - AROUND_NS // 10
    high = max([*moments, *(s.ns for s in steps)], default=0) + AROUND_NS // 10
    concerned = _concerned(messages, names, low, high)

    def order(number: int) -> tuple[int, int]:
        message = messages[number]
        rank = 0 if number in vital else 1 if number in must else 2
        aside = message.name in OFFSETS and not subject.groups
        if rank == 2 and (aside or _of_others(message, subject.clients)):
            rank = 3
        elif message.arrived == tr.LOST:
            rank = min(rank, 1)
        at = bisect_left(near, message.sent)
        around = near[max(0, at - 1) : at + 1]
        return rank, min(abs(message.sent - moment) for moment in around)

    pool = {n for n in (*concerned, *must) if messages[n].sender != messages[n].receiver}
    kept = sorted(pool, key=order)[:most]
    return ShownMessages(numbers=sorted(kept), names=names, left_out=len(pool) - len(kept))


def _of_others(message: tr.TracedMessage, clients: Sequence[str]) -> bool:
    """Whether the message belongs to a client that the finding does not name."""
    ends = (message.sender, message.receiver)
    of_client = any(end[0] == "c" for end in ends)
    return bool(clients) and of_client and not set(clients).intersection(ends)


def _concerned(messages: Sequence[tr.TracedMessage], names: Sequence[str], low: int, high: int) -> set[int]:
    """Messages about something, sent in a stretch of time, and the other halves of their exchanges."""
    found: set[int] = set()
    begin = bisect_left(messages, low, key=lambda message: message.sent)
    for number in range(begin, len(messages)):
        message = messages[number]
        if message.sent > high:
            break
        if any(name in message.parts for name in names):
            found.add(number)
            asked = message.answers
            if asked >= 0 and message.sent - messages[asked].sent <= PAIR_NS:
                found.add(asked)
        elif message.answers in found:
            found.add(number)
    return found
