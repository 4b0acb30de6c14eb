"""Where the journal has the resets of a consumer, whose moment among the records no client tells."""

from pathlib import Path

import pytest

from core.op import Assign, AssignmentKind, Mop, Op, Poll, TopicPartition
from core.session import AssignmentEvent, Fetched, SessionEvent
from harness.clients.executor import Client
from harness.clients.librdkafka.client_part import ClientEvents
from history import journal as j
from tests.harness.clients.test_consumer_state import Polls, change, run
from tests.histories.script import OTHER, TP, fetched, invoke, journaled, scripted, sends

Step = str | list[int]
"""Of the partition: a change of its assignment, or offsets that were read of it."""

POLL = Op(f="poll", mops=(Poll(),))
REWOUND = Op(f="poll", mops=(Poll(),), txn=True, abort=True)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return scripted(tmp_path)


def reset(position: int = -1, tp: TopicPartition = TP) -> AssignmentEvent:
    return AssignmentEvent(kind=AssignmentKind.RESET, tps=(tp,), generation=-1, ns=5, position=position)


def steps(client: Client, tmp_path: Path, tp: TopicPartition = TP) -> list[Step]:
    """What the journal says of a partition, without polls that returned nothing of it."""
    found: list[Step] = []
    for line in journaled(client, tmp_path, j.Polled, j.AssignmentChanged):
        if isinstance(line, j.Polled):
            found += [run[2] for run in line.runs if run[:2] == tp]
        elif tuple(tp) in line.tps:
            found.append(line.kind.name)
    return found


def polls(client: Client, *polls: tuple[list[Fetched], list[SessionEvent]], op: Op = POLL) -> None:
    session = Polls(*polls)
    for _ in polls:
        run(client, session, op)


def test_a_reset_is_journaled_where_its_partition_goes_back(client: Client, tmp_path: Path) -> None:
    records = [*fetched(8, 9), *fetched(3, tp=OTHER), *fetched(5, 6), *fetched(4, tp=OTHER)]
    polls(client, (records, [reset()]))
    before, change, after = journaled(client, tmp_path, j.Polled, j.AssignmentChanged)
    assert [(run[1], run[2]) for run in before.runs] == [(0, [8, 9]), (1, [3, 4])]
    assert change.kind is AssignmentKind.RESET
    assert [(run[1], run[2]) for run in after.runs] == [(0, [5, 6])]


@pytest.mark.parametrize(
    ("offsets", "at", "expected"),
    [
        ([50, 51], 10, ["RESET", [50, 51]]),
        ([10, 11, 50], 12, [[10, 11], "RESET", [50]]),
        ([10, 11, 13, 14], 12, [[10, 11], "RESET", [13, 14]]),
        ([10, 12, 14, 50], 16, [[10, 12, 14], "RESET", [50]]),
        ([10, 12, 0, 1], 14, [[10, 12], "RESET", [0, 1]]),
        ([10, 11], 12, [[10, 11], "RESET"]),
    ],
    ids=["forward", "in-the-middle", "by-one", "behind-markers", "back", "at-the-end"],
)
def test_a_reset_stands_where_the_offset_is_that_the_log_did_not_have(
    client: Client, tmp_path: Path, offsets: list[int], at: int, expected: list[Step]
) -> None:
    """Offsets that no reader sees (markers of transactions) lie between records, too."""
    polls(client, (fetched(9), []), (fetched(*offsets), [reset(at)]))
    assert steps(client, tmp_path) == [[9], *expected]


@pytest.mark.parametrize(
    ("offsets", "left", "expected"),
    [
        ([50, 51, 90], (3, 52), ["RESET", [50, 51], "RESET", [90]]),
        ([1, 2, 90], (3, 3), ["RESET", [1, 2], "RESET", [90]]),
        ([50, 51, 0], (3, 52), ["RESET", [50, 51], "RESET", [0]]),
        ([90, 91], (3, 52), ["RESET", "RESET", [90, 91]]),  # nothing was read in between
        ([50, 51], (3, 52), ["RESET", [50, 51], "RESET"]),
        ([50, 51], (3, 53), ["RESET", [50, 51]]),  # the second one waits
        ([3, 0, 1], (-1, -1), [[3], "RESET", "RESET", [0, 1]]),  # of a client's program
    ],
)
def test_of_two_resets_each_has_its_place(
    client: Client, tmp_path: Path, offsets: list[int], left: tuple[int, int], expected: list[Step]
) -> None:
    """Records were deleted twice, or once after a truncation, while a client did not poll."""
    polls(client, (fetched(0, 1, 2), []), (fetched(*offsets), [reset(at) for at in left]))
    assert steps(client, tmp_path) == [[0, 1, 2], *expected]


def test_a_reset_waits_for_the_records_before_it_that_later_polls_return(
    client: Client, tmp_path: Path
) -> None:
    """The client had fetched more than the polls had asked for."""
    polls(client, (fetched(8), []), (fetched(9), [reset(14)]), (fetched(10), []), (fetched(12, 0, 1), []))
    assert steps(client, tmp_path) == [[8], [9], [10], [12], "RESET", [0, 1]]


def test_a_later_reset_waits_for_the_one_before_it(client: Client, tmp_path: Path) -> None:
    """Records of three polls were fetched before the first of two resets."""
    backlog, behind = [*range(12, 20)], [0, 1, 2, 3, 4, 0, 1]
    polls(client, (fetched(9), []), (fetched(10, 11), [reset(20), reset(5)]))
    polls(client, (fetched(*backlog), []), (fetched(*behind), []))
    assert steps(client, tmp_path) == [[9], [10, 11], backlog, "RESET", [0, 1, 2, 3, 4], "RESET", [0, 1]]


def test_a_reset_between_two_polls_comes_before_the_records_of_the_next(
    client: Client, tmp_path: Path
) -> None:
    polls(client, (fetched(8, 9), []))
    invoke(client, Op(f="send", mops=sends(1)), events=[reset(10)])
    polls(client, (fetched(50), []))
    assert steps(client, tmp_path) == [[8, 9], "RESET", [50]]


def test_a_reader_that_had_read_nothing_was_reset_before_its_first_record(
    client: Client, tmp_path: Path
) -> None:
    polls(client, (fetched(3), [reset(5000)]), ([], [reset(7, OTHER)]), (fetched(2, tp=OTHER), []))
    polls(client, (fetched(4), []))
    assert steps(client, tmp_path) == ["RESET", [3], [4]]
    assert steps(client, tmp_path, OTHER) == ["RESET", [2]]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([8, 9], [[8, 9], "RESET"]),
        ([8, 50], [[8], "RESET", [50]]),
        ([8, 0], [[8], "RESET", [0]]),
        ([50], ["RESET", [50]]),
    ],
)
def test_a_reader_that_had_read_nothing_may_show_that_it_read_before_its_reset(
    client: Client, tmp_path: Path, offsets: list[int], expected: list[Step]
) -> None:
    polls(client, (fetched(*offsets), [reset(10)]))
    assert steps(client, tmp_path) == expected


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([10, 11], [[10, 11], "RESET"]),
        ([50, 51], ["RESET", [50, 51], "RESET"]),
        ([10, 50, 51], [[10], "RESET", [50, 51], "RESET"]),
        ([10, 12, 0, 1], [[10, 12], "RESET", [0, 1]]),
        ([0, 1], ["RESET", [0, 1]]),
    ],
)
def test_a_reset_of_which_no_offset_is_known_stands_wherever_it_may_have_been(
    client: Client, tmp_path: Path, offsets: list[int], expected: list[Step]
) -> None:
    """A gap may be the reset's or that of a marker, with the reset to come."""
    polls(client, (fetched(9), []), (fetched(*offsets), [reset()]))
    assert steps(client, tmp_path) == [[9], *expected]


@pytest.mark.parametrize("kind", ["REVOKED", "LOST", "ASSIGNED"])
def test_a_reset_that_waits_comes_before_what_ends_its_reading(
    client: Client, tmp_path: Path, kind: str
) -> None:
    """And a change of another partition leaves it waiting."""
    other, own = change(AssignmentKind[kind], OTHER), change(AssignmentKind[kind], TP)
    polls(client, (fetched(8), []), (fetched(9), [reset(14)]), ([], [other]), (fetched(11), []), ([], [own]))
    assert steps(client, tmp_path) == [[8], [9], [11], "RESET", kind]


def test_a_reset_that_waits_comes_before_its_reader_goes_back_by_itself(
    client: Client, tmp_path: Path
) -> None:
    polls(client, (fetched(8), []))
    polls(client, (fetched(9), [reset(14)]), op=REWOUND)
    polls(client, (fetched(9), [reset(14)]))
    assign: tuple[Mop, ...] = (Assign((TP,)),)
    invoke(client, Op(f="assign", mops=assign))
    assert steps(client, tmp_path) == [[8], [9], "RESET", "REWIND", [9], "RESET", "MANUAL"]


@pytest.mark.parametrize(("text", "position"), [("offset 41 (leader epoch 3)", 41), ("offset INVALID", -1)])
def test_librdkafka_s_log_says_which_offset_the_log_did_not_have(text: str, position: int) -> None:
    events = ClientEvents()
    line = f"[thrd:main]: orders [3]: offset reset (at {text}, broker 1) to offset 9 (leader epoch -1): why"
    events.log(30, "%s [%s] %s", "OFFSET", "client", line)
    (found,) = (event for event in events.take() if isinstance(event, AssignmentEvent))
    assert (found.kind, found.tps) == (AssignmentKind.RESET, (TopicPartition("orders", 3),))
    assert found.position == position
