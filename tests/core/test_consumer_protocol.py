"""Subscriptions and assignments: read as they were written, and refused where they are cut off."""

import pytest

from core.consumer_protocol import NO_USER_DATA, assigned, assignment, subscribed, subscription

PARTITIONS = (("one", 3), ("one", 0), ("zwölf", 12))


def test_what_was_written_is_read() -> None:
    assert assigned(assignment(PARTITIONS)) == PARTITIONS
    assert subscribed(subscription(("one", "zwölf"))) == ("one", "zwölf")
    assert (assigned(b""), subscribed(b"")) == ((), ())


def test_what_is_cut_off_is_refused() -> None:
    whole = len(assignment(PARTITIONS)) - len(NO_USER_DATA)
    for size in range(1, whole):
        with pytest.raises(ValueError, match=r"\w"):
            assigned(assignment(PARTITIONS)[:size])
    with pytest.raises(ValueError, match=r"\w"):
        subscribed(subscription(("one",))[:9])


def test_a_length_below_zero_is_refused() -> None:
    data = bytearray(assignment((("one", 1),)))
    data[11:15] = b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match="struct"):
        assigned(bytes(data))
