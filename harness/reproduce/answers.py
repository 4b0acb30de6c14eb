"""Schedules whose last answer is wrong, and no record is lost or doubled by it.

Requests are made by hand: librdkafka speaks transaction version 1, and asks once more when it likes.
"""

from dataclasses import dataclass

from harness.reproduce.stage import FiveBrokers


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedRequest:
    """One performed schedule. asked: the request, in words. answer: what a broker said to it. wrong, right:
    what it says with the bug, and without."""

    transactional_id: str
    asked: str
    answer: str
    wrong: str
    right: str


def opened_again(stage: FiveBrokers, name: str, good: bool) -> PerformedRequest:
    """A second instance asks for its epoch while a transaction of the first one is open, by transaction
    version 2. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    first, second = (stage.producer(name, stage.d, 2) for _ in range(2))
    first.init()
    first.write(tp, "zero", stage.d)
    second.init()
    risen = second.identity["producer_epoch"] - first.identity["producer_epoch"]
    return PerformedRequest(
        transactional_id=first.transactional_id,
        asked="InitProducerId over an open transaction",
        answer=f"the epoch is {risen} higher",
        wrong="the epoch is 3 higher",
        right="the epoch is 2 higher",
    )
