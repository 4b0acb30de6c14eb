"""The records of a story as ranges: each is of one log, whoever brokers named as leader meanwhile."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.report import records
from harness.report.inputs import Inputs
from history.events import RolesSeen
from history.reader import SendRow

S = 1_000_000_000
INPUTS = cast("Inputs", SimpleNamespace(seconds=lambda ns: ns / S))
MOVED = [(0.0, "2"), (70.0, "3"), (80.0, "1")]
"""Node 3 is named 70 s after node 2, and node 1 at 80 s."""


def sent(offset: int, at_s: float) -> SendRow:
    """A record that was acknowledged; its value is its time in ms."""
    zeros = dict.fromkeys(SendRow._fields, 0)
    return SendRow(
        **zeros | {"value": round(at_s * 1000), "offset": offset, "place": -1, "ack_ns": round(at_s * S)}
    )


def groups(
    sends: list[SendRow], begins: list[tuple[float, int]] | None = None
) -> list[tuple[int, int, str, str]]:
    """First and last offset of each range, who led, and who led next."""
    found = []
    for group in records._one_after_the_other(INPUTS, sends, MOVED, begins or []):
        one = records._range(INPUTS, "x-0", group, records.dated(MOVED, []))
        assert one.next_seen
        assert one.offsets
        found.append((*one.offsets, one.leader, one.next_leader))
    return sorted(found)


CUT_OFF = [sent(100 + n, 66 + n / 10) for n in range(60)]
"""By node 2, up to 72 s: it does not know that node 3 leads."""
AFTER = [sent(100 + n, 74.8 + n / 10) for n in range(10)]
"""By node 3, from where its log began."""


def test_a_leader_that_does_not_know_its_successor_has_one_range() -> None:
    assert groups(CUT_OFF) == [(100, 159, "2", "3")]


@pytest.mark.parametrize(
    ("elected", "next_leader", "next_at", "seen"),
    [
        ([(-3.0, 2), (69.8, 3), (79.9, 1)], "3", 69.8, False),
        ([(70.1, 3)], "3", 70.1, False),  # brokers may answer before the leader logs it
        ([(10.0, 3), (20.0, 2), (69.8, 3)], "3", 69.8, False),
        ([(69.8, 1)], "3", 70.0, True),  # of another one
        ([(81.0, 3)], "3", 70.0, True),  # when another one led already
    ],
)
def test_an_election_has_the_time_that_is_logged(
    elected: list[tuple[float, int]], next_leader: str, next_at: float, seen: bool
) -> None:
    one = records._range(INPUTS, "x-0", CUT_OFF, records.dated(MOVED, elected))
    assert (one.leader, one.next_leader, one.next_at, one.next_seen) == ("2", next_leader, next_at, seen)


def test_offsets_that_begin_again_are_of_another_log() -> None:
    assert groups(CUT_OFF + AFTER) == [(100, 109, "3", "1"), (100, 159, "2", "3")]
    soon = [sent(150 + n, 72.01 + n / 10) for n in range(5)]  # it is not far below
    assert groups(CUT_OFF + soon) == [(100, 159, "2", "3"), (150, 154, "3", "1")]


def test_two_leaders_that_answer_at_the_same_time_have_a_range_each() -> None:
    both = [sent(100 + n, 71.05 + n / 10) for n in range(10)]
    assert groups(CUT_OFF + both) == [(100, 109, "3", "1"), (100, 159, "2", "3")]


@pytest.mark.parametrize(
    ("begins", "many"),
    [
        ([(70.0, 140)], 2),  # node 3 had what node 2 acknowledged until then, and continues
        ([(70.0, 100)], 1),  # it did not: node 2 answers still
        ([(65.0, 140)], 1),
        ([], 1),
    ],
)
def test_a_range_ends_with_its_leader_where_the_next_one_had_all_of_it(
    begins: list[tuple[float, int]], many: int
) -> None:
    before, after = CUT_OFF[:40], CUT_OFF[41:]  # 69.9 s is the last one before the election
    assert len(groups(before + after, begins)) == many


def test_offsets_that_do_not_follow_are_of_the_leader_that_was_named() -> None:
    later = [sent(900 + n, 72.1 + n / 10) for n in range(5)]
    assert groups(CUT_OFF[:40] + later) == [(100, 139, "2", "3"), (900, 904, "3", "1")]
    assert len(groups([*CUT_OFF[:30], sent(900, 69.0)])) == 1  # no other one was named


def test_answers_to_several_clients_may_come_out_of_turn() -> None:
    swapped = [sent(101, 66.0), sent(100, 66.1), sent(103, 66.15), sent(102, 66.3)]
    assert groups(swapped) == [(100, 103, "2", "3")]
    assert len(groups([sent(101, 66.0), sent(100, 66.3)])) == 2


def test_records_far_apart_in_time_have_a_range_each() -> None:
    assert len(groups([sent(1, 10), sent(2, 12.9), sent(3, 16)])) == 2


def test_records_whose_offset_is_unknown_stand_with_their_neighbours() -> None:
    assert groups([sent(1, 10), sent(-1, 10.5), sent(2, 11)]) == [(1, 2, "2", "3")]


def test_where_epochs_begin_is_read_from_disks() -> None:
    def roles(at_s: int, epoch: int) -> RolesSeen:
        seen: dict[str, Any] = {"isr": {}, "controller": 1, "answering": (1,), "agreed": True}
        return RolesSeen(ns=at_s * S, leaders={"x-0": 1}, epochs={"x-0": epoch}, **seen)

    rows = [{"epoch": 4, "start": 0}, {"epoch": 5, "start": 77}]
    evidence = SimpleNamespace(of=lambda name, tp: SimpleNamespace(to_pylist=lambda: rows))
    events = [roles(1, 4), roles(9, 5), roles(12, 6)]
    inputs = SimpleNamespace(seconds=INPUTS.seconds, evidence=evidence, events=events)
    assert records._begins(cast("Inputs", inputs), "x-0") == [(1.0, 0), (9.0, 77)]
    assert records._begins(cast("Inputs", SimpleNamespace(evidence=None)), "x-0") == []
