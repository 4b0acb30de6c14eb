"""KAFKA-19632: the label needs a start offset above the record, in the same batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from history.events import RolesSeen
from history.verdict import Verdict
from tests.checkers.known_bugs.test_share_start_falls import BEGUN, LATE, LOG, X, judged, moved, stored
from tests.checkers.logs.made import batch

BUG = "KAFKA-19632"
ONE, TWO = ((0, 3),), ((0, 1), (2, 3))
"""The batches of the partition: first and last offset of each. The record at 1 is delivered again by 4 s."""
STARTS = stored(2.6, 2, 2)
"""All before offset 2 has ended, and the record there, too."""
COUNT_FALLS = """share
set p1 group0 acks-2
set p2 group0 acks-2
p0 send x:1@0 x:2@1
p1 acquire x{1@0} x{2@1}
p1 acknowledge x+0 x~1
p2 acquire x{2@1}
p9 final x[1@0,2@1]
end x rc 2"""
"""The record at 1 is released by 3 s, and delivered with the same count by 4 s."""


def known(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    batches: Sequence[tuple[int, int]],
    version: str = "4.1.2",
    **more: Any,
) -> Verdict:
    """The verdict, where a coordinator has these records."""
    of_log = [batch(LOG, 1, offset) for offset in range(len(rows))]
    of_topic = [batch(X, 1, first, last=last, records=last - first + 1) for first, last in batches]
    return judged(folder, rows, version=version, batches=of_log + of_topic, **more)


def label(found: Verdict, anomaly: str = "share-redelivery") -> str:
    return found.anomalies[anomaly].examples[0].known_bug


@pytest.mark.parametrize(
    ("rows", "batches", "labelled"),
    [
        ([BEGUN, STARTS], ONE, True),
        ([BEGUN, stored(2.6, 1), STARTS], ONE, True),
        ([BEGUN, STARTS, stored(3, 2, leader=1)], ONE, True),
        ([BEGUN, STARTS], TWO, False),  # the leader begins with a batch
        ([BEGUN, stored(2.6, 1, 1)], ONE, False),  # the start was not above it
        ([BEGUN, STARTS, stored(3, 1, leader=1)], ONE, False),
        ([BEGUN, stored(9, 2, 2)], ONE, False),  # it rose later
        ([BEGUN, STARTS], (), False),
    ],
)
def test_the_label_needs_a_start_within_the_batch_of_the_record(
    tmp_path: Path, rows: Sequence[dict[str, Any]], batches: Sequence[tuple[int, int]], labelled: bool
) -> None:
    assert label(known(tmp_path, rows, batches)) == (BUG if labelled else "")


def test_brokers_that_take_nothing_below_their_start_have_no_label(tmp_path: Path) -> None:
    assert label(known(tmp_path, [BEGUN, STARTS], ONE, version="4.2.0")) == ""


@pytest.mark.parametrize(("upgraded_s", "labelled"), [(2.5, False), (60, True)])
def test_what_brokers_deliver_that_were_all_upgraded_has_no_label(
    tmp_path: Path, upgraded_s: float, labelled: bool
) -> None:
    found = known(tmp_path, [BEGUN, STARTS], ONE, upgraded_s=upgraded_s)
    assert label(found) == (BUG if labelled else "")


@pytest.mark.parametrize(("batches", "labelled"), [(ONE, True), (TWO, False)])
def test_a_count_that_falls_with_it_has_the_label(
    tmp_path: Path, batches: Sequence[tuple[int, int]], labelled: bool
) -> None:
    found = known(tmp_path, [BEGUN, STARTS], batches, story=COUNT_FALLS)
    assert label(found, "share-count") == (BUG if labelled else "")


STEADY = """share
set p1 group0 acks-2
set p2 group0 acks-2
p0 send x:1@0 x:2@1 x:3@2 x:4@3
p1 acquire x{1@0} x{2@1} x{3@2} x{4@3}
p1 acknowledge x+0 x+1 x~2
p2 acquire x{2@1*2}
p1 acknowledge x+3
p2 acknowledge x+1
p9 final x[1@0,2@1,3@2,4@3]
end x rc 4"""
"""The session of member 1 lasts: from 2 s, when it is given all four, until its acknowledgement at 5 s."""
FALLS = STEADY.replace("x{2@1*2}", "x{3@2}").replace("p2 acknowledge x+1\n", "")
FIRST, SAME, SECOND = moved(0, 0), moved(2.1, 0), moved(3.1, 1)


@pytest.mark.parametrize(
    ("looks", "rows", "labelled"),
    [
        ((), [BEGUN, stored(2.6, 2)], False),
        ((FIRST, SAME), [BEGUN, stored(2.6, 2)], False),
        ((FIRST, SECOND), [BEGUN, stored(2.6, 2)], True),
        ((FIRST, moved(1.4, 1), moved(2.2, 1)), [BEGUN, stored(2.6, 2)], False),  # before it had ended
        ((FIRST, SAME, moved(9, 1)), [BEGUN, stored(2.6, 2)], True),  # it may have changed in between
        ((), [BEGUN, stored(2.6, 2), stored(3.1, 2, leader=1)], True),
        ((), [BEGUN, stored(2.6, 2), stored(9, 2, leader=1)], False),
    ],
)
def test_a_leader_has_to_have_read_its_state_since(
    tmp_path: Path, looks: Sequence[RolesSeen], rows: Sequence[dict[str, Any]], labelled: bool
) -> None:
    """The record at 1 has ended by 3 s, and is delivered again by 4 s, while member 1 has another one."""
    found = known(tmp_path, rows, ONE, story=STEADY, looks=looks)
    assert label(found) == (BUG if labelled else "")


def test_a_leader_that_stayed_counts_on(tmp_path: Path) -> None:
    """It did not begin again within the batch: that the count fell has another cause."""
    found = known(tmp_path, [BEGUN, stored(2.6, 3)], ONE, story=FALLS)
    assert label(found, "share-count") == ""


@pytest.mark.parametrize(("batches", "expected"), [(ONE, BUG), (((0, 1), (2, 3)), "share-start-falls")])
def test_a_start_that_falls_within_a_batch_is_told_from_a_write_that_came_late(
    tmp_path: Path, batches: Sequence[tuple[int, int]], expected: str
) -> None:
    found = known(tmp_path, [BEGUN, STARTS, LATE], batches)
    assert label(found, "model-violation") == expected
