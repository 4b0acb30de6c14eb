"""Which findings a log or a timeline is made for: the first examples of all classes, each once.

Where an earlier example of the same class shows the same, an example only refers to it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.cluster import OpenTransaction
from core.op import Isolation, Outcome
from harness.report.inputs import Inputs
from harness.report.wording import Key
from history.events import TransactionsOpen
from history.reader import History

T = TypeVar("T")
Made = TypeVar("Made")
LEVELS = {Isolation.READ_COMMITTED: "RC", Isolation.READ_UNCOMMITTED: "RU"}


@dataclass(frozen=True, slots=True)
class ChosenExamples(Generic[T]):
    """What is shown, by example. same: examples that an earlier one of their class, with this position,
    covers. missing: examples that got nothing, because others came first."""

    shown: dict[Key, T] = field(default_factory=dict)
    same: dict[Key, int] = field(default_factory=dict)
    missing: set[Key] = field(default_factory=set)

    def made(self, make: Callable[[T], Made | None]) -> "ChosenExamples[Made]":
        """The same choice with what `make` makes of each example; where that is None, it is not shown."""
        shown = {key: made for key, one in self.shown.items() if (made := make(one)) is not None}
        same = {key: first for key, first in self.same.items() if (key[0], first) in shown}
        return ChosenExamples(shown, same, self.missing)


def choose(examples: Iterable[tuple[Key, T]], covers: Callable[[T, T], bool], most: int) -> ChosenExamples[T]:
    """At most `most` of the examples, in turn. covers: whether what one shows includes the other."""
    choice: ChosenExamples[T] = ChosenExamples()
    for key, one in examples:
        earlier = (n for (name, n), each in choice.shown.items() if name == key[0] and covers(each, one))
        first = next(earlier, None)
        if first is not None:
            choice.same[key] = first
        elif len(choice.shown) < most:
            choice.shown[key] = one
        else:
            choice.missing.add(key)
    return choice


def open_at_end(inputs: Inputs, partition: str) -> list[OpenTransaction]:
    """The transactions that a partition still held open at the end of the run."""
    events = [event for event in inputs.events if isinstance(event, TransactionsOpen)]
    rows = events[-1].rows if events else ()
    return [row for row in rows if f"{row.topic}-{row.partition}" == partition]


def stable_end(history: History, tp: int, opened: Iterable[OpenTransaction]) -> list[int]:
    """Where the last stable offset of a partition stands: at its open transactions, else where the final
    reads stopped."""
    starts = [row.start for row in opened if row.start >= 0]
    bound = history.bounds.get(tp, {}).get(Isolation.READ_COMMITTED)
    return starts or ([bound.end] if bound and bound.end >= 0 else [])


def transaction_fate(outcome: int, deliberate: bool) -> tuple[str, str]:
    """What happened to a transaction, in words, and its style."""
    if outcome == Outcome.OK:
        return "committed", "ok"
    if outcome == Outcome.INFO:
        return "unknown", "info"
    return f"aborted {'on purpose' if deliberate else 'after an error'}", "fail"
