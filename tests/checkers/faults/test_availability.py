"""Served time against a count of milliseconds, one by one."""

import numpy as np
import pytest

from checkers.faults.availability import REACH_NS, served_share

S = 1_000_000_000
MS = 1_000_000


def share(acked: list[float], *spans: tuple[float, float]) -> float | None:
    return served_share(
        np.array([int(at * S) for at in acked], np.int64), [(int(a * S), int(b * S)) for a, b in spans]
    )


def test_a_second_after_an_acknowledgement_is_served_and_no_more() -> None:
    assert share([1.0], (0, 10)) == pytest.approx(0.1)
    assert share([1.0, 1.5], (0, 10)) == pytest.approx(0.15)
    assert share([1.0, 5.0], (0, 10)) == pytest.approx(0.2)


def test_what_was_acknowledged_before_reaches_into_the_time_and_nothing_out_of_it() -> None:
    assert share([0.5], (1, 2)) == pytest.approx(0.5)
    assert share([1.5], (1, 2)) == pytest.approx(0.5)
    assert share([0.0], (1, 2)) == 0
    assert share([2.0], (1, 2)) == 0


def test_time_that_several_spans_cover_counts_once() -> None:
    assert share([0.0], (0, 2), (1, 4)) == pytest.approx(0.25)
    assert share([0.0, 5.0], (5, 6), (0, 1)) == pytest.approx(1)


def test_no_acknowledgement_is_no_service_and_no_time_has_no_share() -> None:
    assert share([], (0, 1)) == 0
    assert share([1.0]) is None
    assert share([1.0], (1, 1)) is None


@pytest.mark.parametrize("seed", range(10))
def test_the_share_is_what_a_count_of_milliseconds_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    acked = np.sort(rng.integers(0, 20_000, rng.integers(0, 12)))
    begins, lengths = rng.integers(0, 18_000, 4), rng.integers(0, 4_000, 4)
    spans = [(int(b), int(b + n)) for b, n in zip(begins, lengths, strict=True)]
    covered = {at for begin, end in spans for at in range(begin, end)}
    served = sum(any(0 <= at - ack < REACH_NS // MS for ack in acked.tolist()) for at in covered)
    found = served_share(acked * MS, [(begin * MS, end * MS) for begin, end in spans])
    assert found == pytest.approx(served / len(covered))
