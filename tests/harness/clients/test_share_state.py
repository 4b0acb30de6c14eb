"""Members of share groups: what they hold, what they say of it, and their journals."""

from collections import Counter
from pathlib import Path

import pytest

from core.load_clients import CrashPoint
from core.op import Acknowledge, Acknowledgement, Acquire, Op, Outcome, TopicPartition
from core.payload import encode
from core.session import AcquiredRecord, Acquisition, Indefinite
from harness.clients.executor import Client
from history import journal as j
from tests.histories.script import OTHER, TP, invoke, journaled, scripted

ALL = Acknowledge(seed=1, accept=0.6, release=0.3)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return scripted(tmp_path)


def got(*offsets: int, tp: TopicPartition = TP, count: int = 1) -> list[AcquiredRecord]:
    return [AcquiredRecord(tp, offset, encode("run", tp, offset, 100), count) for offset in offsets]


def acquire(client: Client, *records: AcquiredRecord) -> None:
    done, calls = invoke(client, Op(f="acquire", mops=(Acquire(50),)), acquire=Acquisition([*records], 3))
    assert (done.outcome, calls) == (Outcome.OK, ["acquire"])


def acknowledge(client: Client, mop: Acknowledge = ALL, **answers: object) -> tuple[Outcome, str, list[str]]:
    done, calls = invoke(client, Op(f="acknowledge", mops=(mop,)), **answers)
    return done.outcome, done.error, calls


def test_what_a_group_gave_is_journaled_by_partition(client: Client, tmp_path: Path) -> None:
    acquire(client, *got(4, 5), *got(9, tp=OTHER, count=2), AcquiredRecord(TP, 6, b"odd", 1))
    (line,) = journaled(client, tmp_path, j.Acquired)
    assert line.runs == [("t", 0, [4, 5], [4, 5], [1, 1]), ("t", 1, [9], [9], [2])]
    assert line.foreign == [("t", 0, 6, 0, b"odd")]
    assert (line.since_ns, client.progress.read) == (3, 4)


def test_everything_held_is_acknowledged_once(client: Client, tmp_path: Path) -> None:
    acquire(client, *got(*range(1000)), *got(7, tp=OTHER))
    assert acknowledge(client) == (Outcome.OK, "", ["acknowledge"])
    assert acknowledge(client) == (Outcome.OK, "", [])  # it holds nothing
    (said,) = journaled(client, tmp_path, j.Acknowledging)
    assert [(*run[:2], run[2]) for run in said.records] == [("t", 0, [*range(1000)]), ("t", 1, [7])]
    kinds = Counter(said.records[0][3])
    assert kinds[Acknowledgement.ACCEPT] == pytest.approx(600, abs=60)
    assert kinds[Acknowledgement.RELEASE] == pytest.approx(300, abs=60)
    assert kinds[Acknowledgement.REJECT] == pytest.approx(100, abs=40)
    (answers,) = journaled(client, tmp_path, j.Acknowledged)
    assert answers.results == [(0, ""), (0, "")]


def test_what_is_renewed_is_held_and_acknowledged_later(client: Client, tmp_path: Path) -> None:
    acquire(client, *got(*range(1000)))
    acknowledge(client, Acknowledge(seed=1, accept=1, release=0, renew=0.3))
    acquire(client, *got(*range(1000), count=2))  # all locks have ended meanwhile
    acknowledge(client, Acknowledge(seed=2, accept=1, release=0))
    first, second = journaled(client, tmp_path, j.Acknowledging)
    kinds = Counter(first.records[0][3])
    assert kinds[Acknowledgement.RENEW] == pytest.approx(300, abs=60)
    assert kinds[Acknowledgement.ACCEPT] == 1000 - kinds[Acknowledgement.RENEW]
    assert sorted(second.records[0][2]) == [*range(1000)]
    assert set(second.records[0][3]) == {Acknowledgement.ACCEPT}


def test_a_part_is_acknowledged_and_then_the_rest(client: Client, tmp_path: Path) -> None:
    acquire(client, *got(*range(100)))
    acknowledge(client, Acknowledge(seed=1, accept=1, release=0, share=0.5))
    acknowledge(client)
    first, second = journaled(client, tmp_path, j.Acknowledging)
    (_, _, some, kinds), (_, _, others, _) = first.records[0], second.records[0]
    assert set(kinds) == {Acknowledgement.ACCEPT}
    assert 20 < len(some) < 80
    assert sorted(some + others) == [*range(100)]


def test_an_answer_that_is_an_error_leaves_the_op_in_doubt_and_the_process_continues(
    client: Client, tmp_path: Path
) -> None:
    acquire(client, *got(1), *got(2, tp=OTHER))
    answers = {TP: (Outcome.OK, ""), OTHER: (Outcome.INFO, "INVALID_RECORD_STATE")}
    assert acknowledge(client, acknowledge=answers)[:2] == (Outcome.INFO, "INVALID_RECORD_STATE")
    (line,) = journaled(client, tmp_path, j.Acknowledged)
    assert line.results == [(0, ""), (2, "INVALID_RECORD_STATE")]
    acquire(client, *got(3))
    assert acknowledge(client)[0] is Outcome.OK  # the code is that of one op


def test_without_answers_the_process_ends_and_what_it_said_is_on_record(
    client: Client, tmp_path: Path
) -> None:
    acquire(client, *got(1))
    done, _ = invoke(client, Op(f="acknowledge", mops=(ALL,)), acknowledge=Indefinite("_TIMED_OUT"))
    assert (done.outcome, done.replace) == (Outcome.INFO, True)
    assert len(journaled(client, tmp_path, j.Acknowledging)) == 1
    assert journaled(client, tmp_path, j.Acknowledged) == []


def test_a_member_may_die_between_delivery_and_acknowledgement(client: Client, tmp_path: Path) -> None:
    points: list[CrashPoint] = []
    client.at = points.append
    acquire(client, *got(1))
    acknowledge(client)
    acknowledge(client)
    assert points.count(CrashPoint.BEFORE_COMMIT) == 1
