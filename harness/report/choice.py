"""Which examples get a picture of their own: those of all classes in turn, forbidden ones first.

Not here: the pictures (`logs`, `transactions`).
"""

from collections.abc import Iterator

from harness.report import words
from harness.verdict import Example, Verdict

Key = tuple[str, int]
"""Class and position of an example in the verdict."""


def in_turn(verdict: Verdict) -> Iterator[tuple[Key, Example]]:
    """The first example of every class, then the second of every class, and so on."""
    ranked = words.ranked(verdict)
    most = max((len(anomaly.examples) for _, anomaly in ranked), default=0)
    for number in range(most):
        for name, anomaly in ranked:
            if number < len(anomaly.examples):
                yield (name, number), anomaly.examples[number]


def partitions(verdict: Verdict) -> list[str]:
    """Partitions of the findings, in the same order, each once."""
    return list(dict.fromkeys(e.partition for _, e in in_turn(verdict) if e.partition))
