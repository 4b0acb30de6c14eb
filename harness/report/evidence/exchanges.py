"""What clients asked brokers, and what these answered, around a finding of a simulated run.

Captured messages of real brokers do not say which client of several sent them.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from harness.report.inputs import Inputs
from harness.report.tested import ACKS
from harness.report.wording import count
from history import trace as tr
from history.verdict import Example

USUAL: Final = re.compile(r"(from|offsets?|HW|leader|generation|producer) ")
"""What fetches and commits say as a rule, and metadata; everything else is shown."""
OFFSETS: Final = re.compile(r"(?:done at )?offsets? (\d+)(?:–(\d+))?")
TOLD_MAX: Final = 4


def between(inputs: Inputs, example: Example) -> Iterator[str]:
    """What was out of the ordinary between two polls of a consumer, and whether an answer held what it was
    not given."""
    ops = example.ops
    if len(ops) < 2:
        return
    until = ops[1].begin_s if ops[1].end_s is None else ops[1].end_s
    mine = list(_of_client(inputs, example, (0.0, until)))
    told = [
        f"{'answered' if one.answers >= 0 else 'asked'} {one.name}, {text} ({inputs.seconds(one.sent):.3f} s)"
        for one, text in mine
        if inputs.seconds(one.sent) >= ops[0].begin_s and not USUAL.match(text)
    ]
    if told:
        yield f"between these ops, of the partition: {'; '.join(told[:TOLD_MAX])}"
    before, after = example.offsets[0], example.offsets[-1]
    if after > before + 1:
        held = [(one, text) for one, text in mine if one.arrived != tr.LOST and _holds(text, before + 1)]
        if held:
            one, text = held[-1]
            yield (
                f"{_node(one.sender)} had answered its fetch with {text.split(',')[0]} "
                f"({inputs.seconds(one.sent):.3f} s), so it got what it skipped"
            )


def acknowledged(inputs: Inputs, example: Example) -> tuple[float, int, str] | None:
    """When, by which node and for which acks the example's record was acknowledged; None = not on record."""
    asked: dict[int, str] = {}
    offset = next((offset for offset in example.offsets if offset >= 0), -1)
    for number, one in enumerate(inputs.trace.messages if inputs.trace and example.ops else ()):
        if one.name == "Produce" and one.answers < 0:
            asked[number] = one.text
        text = one.parts.get(example.partition, "")
        mine = one.receiver == tr.client_lane(example.ops[0].process) and one.name == "Produce"
        if mine and one.answers >= 0 and _holds(text, offset):
            return inputs.seconds(one.sent), int(one.sender[1:]), asked.get(one.answers, "")
    return None


def unanswered(inputs: Inputs, example: Example) -> Iterator[str]:
    """That no answer for the partition reached the client of the example's first op, which ended ok."""
    op = next((op for op in example.ops[:1] if op.outcome == "ok"), None)
    if inputs.trace is None or op is None or op.end_s is None:
        return
    mine = [
        one
        for one, _ in _of_client(inputs, example, (op.begin_s, op.end_s))
        if one.name == "Produce" and (one.answers < 0 or one.arrived != tr.LOST)
    ]
    if not any(one.answers >= 0 for one in mine):
        sent = f"{count(len(mine), 'Produce request')} to the partition"
        yield f"its client sent {sent}, and no answer reached it before its op ended ok"


def weaker(inputs: Inputs, acks: str) -> bool:
    """Whether a request asked for fewer acknowledgements than the configuration says."""
    return ACKS.get(inputs.verdict.config.get("acks", 0)) == "all" and acks not in ("", "acks all")


def ends(inputs: Inputs, transactional_id: str, begin: float, end: float) -> list[str] | None:
    """Requests to end a transaction that were sent in a time, those that follow one another and ask for the
    same as one; None = not on record."""
    if inputs.trace is None:
        return None
    asked = (
        (one.parts[f"txn:{transactional_id}"].split(",")[0], inputs.seconds(one.sent))
        for one in inputs.trace.messages
        if one.name == "EndTxn" and one.answers < 0 and f"txn:{transactional_id}" in one.parts
    )
    within = [(text, at) for text, at in asked if begin <= at <= end]
    alike = itertools.groupby(within, itemgetter(0))
    return [f"{text} ({_times([at for _, at in some])})" for text, some in alike]


def _times(times: list[float]) -> str:
    if len(times) == 1:
        return f"{times[0]:.3f} s"
    return f"{len(times)} times, from {times[0]:.3f} to {times[-1]:.3f} s"


def sent_again(inputs: Inputs, example: Example) -> Iterator[str]:
    """A batch that a producer sent again during the finding's op, and the answers that it got."""
    ops = example.ops[:1]
    if not ops or ops[0].end_s is None:
        return
    asked: dict[str, list[tr.TracedMessage]] = defaultdict(list)
    answers: Counter[str] = Counter()
    for one, text in _of_client(inputs, example, (ops[0].begin_s, ops[0].end_s)):
        if one.name == "Produce" and one.answers < 0:
            asked[text].append(one)
        elif one.name == "Produce":
            answers[text.split(",")[0]] += one.arrived != tr.LOST
    for text, some in asked.items():
        if len(some) > 1:
            sent = f"its client sent the batch ({text}) {_times([inputs.seconds(one.sent) for one in some])}"
            many = [(one, "once" if n == 1 else f"{n} times") for one, n in answers.most_common() if n]
            got = [f"{answer} ({times})" for answer, times in many[:TOLD_MAX]]
            yield f"{sent}; it was answered: {', '.join(got)}" if got else f"{sent}; no answer reached it"
            return


def _of_client(
    inputs: Inputs, example: Example, window: tuple[float, float]
) -> Iterator[tuple[tr.TracedMessage, str]]:
    """Messages of the first op's client about the finding's partition, with what they say of it."""
    lane = tr.client_lane(example.ops[0].process)
    for one in inputs.trace.messages if inputs.trace else ():
        text = one.parts.get(example.partition, "")
        mine = text and lane in (one.sender, one.receiver)
        if mine and window[0] <= inputs.seconds(one.sent) <= window[1]:
            yield one, text


def _holds(text: str, offset: int) -> bool:
    found = OFFSETS.match(text)
    return found is not None and int(found[1]) <= offset <= int(found[2] or found[1])


def _node(lane: str) -> str:
    return f"node {lane[1:]}"
