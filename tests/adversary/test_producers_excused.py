"""What permits that a record stands twice, or that two stand in the other order (docs/checks.md)."""

from collections.abc import Sequence

import pytest

from core.op import Outcome, value_of
from history.events import Event
from tests.adversary.excused import Said, said
from tests.checkers.test_windows import START, S, fault, roles
from tests.histories.built import Built, Op, Process, Read, Send, final_reads

FORGETS = {"broker_settings": {"producer.id.expiration.ms": "3000"}}


def steady(*offsets: int, sent: Sequence[float], acked: Sequence[float] | None = None) -> Built:
    """Values 0.. stand at these offsets, but the last offset is one of value 0; process 1 sent them at these
    times (s)."""
    built = Built(tps=["x"], processes={1: Process()})
    for n, at in enumerate(sent):
        done = at + 0.005 if acked is None else acked[n]
        op = Op(process=1, f="send", invoke=round(at * S), complete=round(done * S))
        op.mops = [Send(tp=0, value=value_of(1, n), offset=offsets[n])]
        built.ops.append(op)
    shown = [
        *((offset, value_of(1, n)) for n, offset in enumerate(offsets[:-1])),
        (offsets[-1], value_of(1, 0)),
    ]
    return final_reads(built, {0: shown}, end=len(offsets))


@pytest.mark.parametrize(
    ("offsets", "sent", "variant"),
    [
        ((0, 2, 3, 1), (1, 1.1, 1.2), "1"),  # the copy stands between two that were sent 0.1 s apart
        ((0, 2, 3, 1), (1, 4.1, 4.2), "forgotten"),
        ((0, 2, 3, 1), (1, 3.9, 4.2), "1"),  # acknowledged 2.905 s after the record below was sent
        ((0, 1, 3, 2), (1, 1.1, 4.2), "forgotten"),
        ((0, 1, 3, 2), (1, 1.3, 4.2), "1"),
        ((0, 1, 2, 3), (1, 1.1, 4.2), "forgotten"),  # nothing of the process stands behind it
    ],
)
def test_brokers_forget_a_producer_that_wrote_nothing_for_a_time(
    offsets: tuple[int, ...], sent: tuple[float, ...], variant: str
) -> None:
    found = said(steady(*offsets, sent=sent), START, **FORGETS)
    assert found["duplicate"] == {Said(variant, "", permitted=variant == "forgotten")}
    assert said(steady(*offsets, sent=sent), START)["duplicate"] == {Said("1", "", permitted=False)}


@pytest.mark.parametrize(("read_s", "variant"), [(3, "1"), (4.5, "forgotten")])
def test_a_copy_that_a_consumer_was_given_was_there(read_s: float, variant: str) -> None:
    built = steady(0, 2, 3, 1, sent=(1, 5, 5.1))
    poll = Op(process=3, f="poll", invoke=round(read_s * S) - 1, complete=round(read_s * S))
    poll.mops = [Read(tp=0, offset=n, value=value_of(1, 0)) for n in range(2)]
    built.ops.append(poll)
    assert {one.variant for one in said(built, START, **FORGETS)["duplicate"]} == {variant}


@pytest.mark.parametrize(("done_s", "variant"), [(5.1, "forgotten"), (1.1, "1")])
def test_an_acknowledged_copy_came_before_its_answer(done_s: float, variant: str) -> None:
    """A record whose first answer was lost is acknowledged at the offset of its copy."""
    built = steady(1, 0, sent=(1,), acked=(done_s,))
    assert {one.variant for one in said(built, START, **FORGETS)["duplicate"]} == {variant}


def test_each_of_two_copies_needs_its_own_time() -> None:
    built = steady(0, 3, 4, 2, sent=(1, 5, 5.1))
    for op in built.ops[-2:]:
        op.mops.insert(1, Read(tp=0, offset=1, value=value_of(1, 0)))
    for bound in built.bounds:
        bound.end = bound.read_to = 5
    assert {one.variant for one in said(built, START, **FORGETS)["duplicate"]} == {"forgotten"}
    poll = Op(process=3, f="poll", invoke=2 * S, complete=3 * S)
    poll.mops = [Read(tp=0, offset=1, value=value_of(1, 0))]
    built.ops.append(poll)
    assert {one.variant for one in said(built, START, **FORGETS)["duplicate"]} == {"1"}


def turned(acks: int, *, between_ops: bool, acked: bool = True) -> Built:
    """Process 1 sends records 0 and 1, which stand at offsets 1 and 0."""
    built = Built(tps=["x"], processes={1: Process(acks=acks, idempotent=False, retries=0)})
    outcome = Outcome.OK if acked else Outcome.INFO
    first = Send(tp=0, value=value_of(1, 0), offset=1 if acked else -1, outcome=outcome)
    second = Send(tp=0, value=value_of(1, 1), offset=0)
    whole = [[first], [second]] if between_ops else [[first, second]]
    for n, sends in enumerate(whole):
        begin = 50 * S + n  # at the same time, so that no order of real time is asked
        built.ops.append(Op(process=1, f="send", invoke=begin, complete=51 * S + n, mops=[*sends]))
    return final_reads(built, {0: [(0, value_of(1, 1)), (1, value_of(1, 0))]}, end=2, at_s=190)


@pytest.mark.parametrize("between_ops", [True, False])
@pytest.mark.parametrize(
    ("acks", "events", "said_of"),
    [
        (1, [START], Said("acks 1", "", permitted=False)),
        (1, [START, roles(55, 2, 1, 2, 3)], Said("acks 1", "leader", permitted=True)),
        (1, [START, roles(30, 2, 1, 2, 3)], Said("acks 1", "", permitted=False)),
        (1, [], Said("acks 1", "leader", permitted=True)),  # who led is not on record
        (1, [START, *fault("power:one", 50, 1)], Said("acks 1", "power", permitted=True)),
        (0, [START], Said("acks 0", "", permitted=True)),
        (-1, [START], Said("0", "", permitted=False)),
        (-1, [START, roles(55, 2, 1, 2, 3)], Said("0", "", permitted=False)),
    ],
)
def test_another_leader_alone_turns_two_records_that_one_leader_acknowledged(
    acks: int, events: list[Event], said_of: Said, *, between_ops: bool
) -> None:
    found = said(turned(acks, between_ops=between_ops), *events)
    assert found["nonmonotonic-send" if between_ops else "int-nonmonotonic-send"] == {said_of}


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_record_that_no_broker_acknowledged_may_arrive_late(acks: int) -> None:
    found = said(turned(acks, between_ops=True, acked=False), START)
    assert found["nonmonotonic-send"] == {Said("abandoned", "", permitted=True)}
