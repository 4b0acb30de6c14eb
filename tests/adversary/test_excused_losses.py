"""What excuses the loss of a record, and what does not (docs/checks.md, sections 2 and 6)."""

from typing import Any

import pytest

from core.op import Outcome, value_of
from tests.adversary.excused import Said, said
from tests.checkers.test_windows import START, S, fault
from tests.histories.built import Built, Foreign, Op, Process, Read, Send, final_reads


def read_early(middle: Send, *, shown: tuple[int, ...] = (0, 2), damaged: bool = False) -> Built:
    """Records 0..2, sent at 1, 2 and 3 s, which a consumer reads at 5 s; the middle one is gone at the end,
    or damaged."""
    built = Built(tps=["x"])
    sends = [Send(tp=0, value=value_of(1, 0), offset=0), middle, Send(tp=0, value=value_of(1, 2), offset=2)]
    for n, send in enumerate(sends):
        outcome = Outcome.OK if send.outcome is None else send.outcome
        begin = (n + 1) * S
        built.ops.append(
            Op(process=1, f="send", invoke=begin, complete=begin + S // 2, outcome=outcome, mops=[send])
        )
    poll = Op(process=2, f="poll", invoke=5 * S, complete=6 * S)
    poll.mops = [Read(tp=0, offset=n, value=value_of(1, n)) for n in range(3)]
    built.ops.append(poll)
    built = final_reads(built, {0: [(n, value_of(1, n)) for n in shown]}, end=3, at_s=190)
    if damaged:
        for op in built.ops[-2:]:
            op.mops.append(Foreign(tp=0, offset=1, reason="corrupt"))
    return built


def middle(**more: Any) -> Send:
    return Send(tp=0, value=value_of(1, 1), **more)


POWER = fault("power:all", 70, 1, 2, 3, until=75)
SENDS = [middle(offset=1), middle(outcome=Outcome.INFO), middle(outcome=Outcome.OK)]
"""With an offset; answer lost; acknowledged as one that the log has already."""


def losses(found: dict[str, set[Said]]) -> Said:
    (one,) = found["lost-write"]
    return one


@pytest.mark.parametrize("send", SENDS)
def test_a_place_that_only_a_read_names_is_empty_as_another_is(send: Send) -> None:
    assert losses(said(read_early(send), START, *POWER))[::2] == ("hole", False)


@pytest.mark.parametrize(
    ("at", "settings", "excuse"),
    [
        (70, {}, ""),  # the record behind it was acknowledged at 3.5 s, and is there
        (2.5, {}, "power"),
        (70, {"broker_settings": {"log.flush.interval.messages": "2"}}, ""),
        (2.5, {"broker_settings": {"log.flush.interval.messages": "2"}}, "power"),
    ],
)
@pytest.mark.parametrize("send", SENDS)
def test_what_stands_behind_a_place_that_only_a_read_names_was_there_when_it_was_lost(
    send: Send, at: float, settings: dict[str, Any], excuse: str
) -> None:
    built = read_early(send)
    built.processes[7] = Process(txn_id=0)  # offsets may be those of markers
    found = losses(said(built, START, *fault("power:all", at, 1, 2, 3, until=at + 5), **settings))
    assert found == Said("all", excuse, permitted=bool(excuse))


@pytest.mark.parametrize("shown", [(0, 2), (0,)])
def test_enough_records_behind_a_place_that_only_a_read_names_flushed_it(shown: tuple[int, ...]) -> None:
    """The record behind is gone as well, or not: a broker flushes two records together."""
    settings = {"broker_settings": {"log.flush.interval.messages": "2"}}
    built = read_early(middle(outcome=Outcome.INFO), shown=shown)
    for bound in built.bounds:
        bound.end = bound.read_to = max(shown) + 1
    built.processes[7] = Process(txn_id=0)
    found = said(built, START, *POWER, **settings)
    assert Said("all", "", permitted=False) in found["lost-write"]


@pytest.mark.parametrize("damaged", [True, False])
def test_a_damaged_record_leaves_no_hole(damaged: bool) -> None:
    found = said(read_early(middle(offset=1), damaged=damaged), START)
    assert ("corrupt-record" in found) is damaged
    assert losses(found) == Said("all" if damaged else "hole", "", permitted=False)


def test_a_damaged_record_that_a_consumer_got_before_the_end_says_nothing_of_the_end() -> None:
    built = read_early(middle(offset=1))
    poll = built.ops[3]
    poll.mops[1] = Foreign(tp=0, offset=1, reason="corrupt")
    assert losses(said(built, START)).variant == "hole"
