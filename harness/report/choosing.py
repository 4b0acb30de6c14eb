"""Which messages a space-time diagram shows: those that made the steps beside it, then those that are about
the same and nearest in time.

Not here: the steps (`steps`), the drawing (`spacetime`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from harness import trace as tr
from harness.report.steps import AROUND_NS, DAMAGE, TURN, Step, Subject

PAIR_NS = 20_000_000
"""Time within which the request of a shown answer is shown as well."""

OFFSETS = frozenset({"OffsetCommit", "OffsetFetch", "TxnOffsetCommit"})
"""They are about partitions, too, but seldom matter where no group is the subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Numbers of the messages, in the order in which they were sent. names: what the scene is about.
    left_out: further messages about the same between the first moment and the last."""

    numbers: list[int]
    names: tuple[str, ...]
    left_out: int


def choose(
    trace: tr.Trace, subject: Subject, steps: Sequence[Step], moments: Sequence[int], most: int
) -> Chosen:
    """At most so many messages."""
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
    return Chosen(numbers=sorted(kept), names=names, left_out=len(pool) - len(kept))


def _of_others(message: tr.Message, clients: Sequence[str]) -> bool:
    """It is one of a client that the finding does not tell of."""
    ends = (message.sender, message.receiver)
    of_client = any(end[0] == "c" for end in ends)
    return bool(clients) and of_client and not set(clients).intersection(ends)


def _concerned(
    messages: Sequence[tr.Message], names: Sequence[str], low: int, high: int
) -> set[int]:
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
