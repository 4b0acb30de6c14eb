"""The labels of dead letters: a former leader's, and those of markers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.dead_letters import ANOTHER
from core.internal_topics import SHARE_STATE_TOPIC
from core.op import TopicPartition
from history import evidence
from history.events import DeadLettersListed, Event, RolesSeen, ShareOffsetsListed
from history.evidence_tables import END, KILLED
from history.verdict import Verdict
from tests.checkers.known_bugs.test_share_start_falls import moved, stored
from tests.checkers.known_bugs.test_uncommitted_state import BEGAN_MS
from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.checkers.logs.made import at, batch, tables, whole
from tests.histories.folders import check_run, write_run
from tests.histories.notation import stories

LOG, X = TopicPartition(SHARE_STATE_TOPIC, 0), TopicPartition("x", 0)
S = 1_000_000_000
STORY = """share
set p1 group0 acks-2
set p2 group0 acks-2
set p10 ru
p0 send x:1@0
p1 acquire x{1@0*5}
p2 acquire x{1@0*5}
p2 acknowledge x+0
p9 final x[1@0]
end x rc 2
p10 final x[1@0]
end x ru 2"""
"""Member 1 is given the record by the last delivery, the fifth, by 2 s; a lock lasts 2 s. Member 2 is given
it as well, by 3 s, and has accepted it by 4 s."""
LAST = 5


def judged(
    folder: Path,
    letters: Sequence[tuple[int, int, float]],
    looks: Sequence[RolesSeen] = (),
    rows: Sequence[dict[str, Any]] = (),
    story: str = STORY,
    **more: Any,
) -> Verdict:
    """letters: offset, delivery count and time in s. rows: of the share coordinators."""
    (told,) = stories(f"== case\n{story}")
    settings, events = upgrade_of("4.4.0", None)
    listed = tuple(
        ("group-0", "x", 0, offset, times, 1 if offset == 0 else ANOTHER, 0, n, BEGAN_MS + int(s * 1000))
        for n, (offset, times, s) in enumerate(letters)
    )
    recorded: list[Event] = [
        *looks,
        ShareOffsetsListed(ns=90 * S, rows=(("group-0", "x", 0, 2),)),
        DeadLettersListed(ns=91 * S, rows=listed),
    ]
    more_settings = {**settings, "workload": "share"}
    run = write_run(folder, told.tables(), settings=more_settings, events=[*events, *recorded])
    found = {
        "partitions": [whole(LOG, 1), {**whole(X, 1), "topic_id": "X"}],
        "batches": [batch(LOG, 1, offset) for offset in range(len(rows))],
        "share_log": [at(LOG, 1, offset=offset, **row) for offset, row in enumerate(rows)],
        **more,
    }
    evidence.write(run.evidence, tables(found, nodes=(1,)))
    return check_run(run)


BUG = "letters-by-former-leader"
MOVED = (moved(0, 0), moved(2.4, 1))
BEGUN = stored(0.1, 0, snapshot=True)
DONE = stored(3.5, 1, 0, leader=1)
LATE = "late-share-writes"
TO_BE_ARCHIVED = DONE | {"states": [{"first": 0, "last": 0, "state": 3, "times": LAST}]}

ARCHIVED_LATE = TO_BE_ARCHIVED | {"timestamp": BEGAN_MS + 8500}


@pytest.mark.parametrize(
    ("letters", "looks", "rows", "expected"),
    [
        ([(0, LAST, 4.2)], MOVED, [BEGUN, DONE], BUG),
        ([(0, LAST, 20)], MOVED, [BEGUN, DONE], BUG),  # the leader of the queue was away
        ([(0, LAST, 4.2), (0, LAST, 5.2)], MOVED, [BEGUN, DONE], BUG),
        ([(0, LAST, 1.5)], MOVED, [BEGUN, DONE], ""),  # no lock had ended
        ([(0, LAST - 1, 4.2)], MOVED, [BEGUN, DONE], ""),  # another delivery than that of member 1
        ([(0, LAST, 4.2), (0, LAST - 1, 4.2)], MOVED, [BEGUN, DONE], ""),  # only one of the letters is its
        ([(0, LAST, 4.2)], (moved(0, 0),), [BEGUN, DONE], BUG),  # the coordinator was away
        ([(0, LAST, 4.2)], MOVED, [BEGUN, TO_BE_ARCHIVED], ""),  # it is stored that a letter follows
    ],
)
def test_a_former_leader_writes_a_letter_when_a_lock_ends_that_it_took_along(
    tmp_path: Path,
    letters: Sequence[tuple[int, int, float]],
    looks: Sequence[RolesSeen],
    rows: Sequence[dict[str, Any]],
    expected: str,
) -> None:
    found = judged(tmp_path, letters, looks, rows).anomalies["dead-letter-of-accepted"]
    assert found.examples[0].known_bug == expected


def test_a_former_leader_writes_no_letter_of_a_delivery_that_was_not_the_last(tmp_path: Path) -> None:
    story, letters = STORY.replace(f"*{LAST}", f"*{LAST - 1}"), [(0, LAST - 1, 4.2)]
    of = judged(tmp_path, letters, MOVED, [BEGUN, DONE], story=story)
    assert of.anomalies["dead-letter-of-accepted"].examples[0].known_bug == ""


def test_a_former_leader_is_not_named_where_a_part_of_the_log_may_be_missing(tmp_path: Path) -> None:
    damaged = [batch(LOG, 1, 0), batch(LOG, 1, 1, intact=False)]
    of = judged(tmp_path, [(0, LAST, 4.2)], MOVED, [BEGUN, DONE], batches=damaged)
    assert of.anomalies["dead-letter-of-accepted"].examples[0].known_bug == ""


@pytest.mark.parametrize("at_s", [3.5, 5.2, 20])
def test_a_former_leader_writes_no_letter_of_the_delivery_that_was_accepted(
    tmp_path: Path, at_s: float
) -> None:
    """Its lock ended with that, in the hands of the leader that stored it."""
    story = STORY.replace("p1 acquire x{1@0*5}\n", "")
    of = judged(tmp_path, [(0, LAST, at_s)], (moved(0, 0),), [BEGUN, DONE], story=story)
    assert of.anomalies["dead-letter-of-accepted"].examples[0].known_bug == ""


@pytest.mark.parametrize(("begins_s", "expected"), [(1.4, BUG), (1.6, "")])
def test_a_log_that_was_pruned_has_to_reach_back_to_the_first_delivery(
    tmp_path: Path, begins_s: float, expected: str
) -> None:
    """Member 1 was given the record at 1.5 s at the earliest. What is missing may say that it is archived."""
    rows = [at(LOG, 1, offset=n, **row) for n, row in ((7, stored(begins_s, 0)), (8, DONE))]
    begun = [{**whole(LOG, 1), "start": 7}, {**whole(X, 1), "topic_id": "X"}]
    more: dict[str, Any] = {
        "partitions": begun,
        "batches": [batch(LOG, 1, 7), batch(LOG, 1, 8)],
        "share_log": rows,
    }
    of = judged(tmp_path, [(0, LAST, 4.2)], MOVED, **more)
    assert of.anomalies["dead-letter-of-accepted"].examples[0].known_bug == expected


REJECTED = STORY.replace("p2 acquire", "p1 acknowledge x-0?\np2 acquire")
"""Member 1 rejects the record as well, and has no answer; the others come a second later."""

SELDOM = REJECTED.replace("acquire x{1@0*5}", "acquire x{1@0*3}", 1)
"""The delivery that was rejected was the third one."""


@pytest.mark.parametrize(
    ("letters", "story", "rows", "expected"),
    [
        ([(0, LAST, 9)], REJECTED, [BEGUN, stored(4.5, 1, 0), ARCHIVED_LATE], LATE),
        ([(0, LAST, 9)], REJECTED, [BEGUN, stored(4.5, 1, 0)], BUG),  # it may be the end of the lock as well
        ([(0, 3, 9)], SELDOM, [BEGUN, stored(4.5, 1, 0), ARCHIVED_LATE], LATE),
        ([(0, 3, 9)], SELDOM, [BEGUN, stored(4.5, 1, 0)], ""),  # no such write came, late or not
        ([(0, LAST, 9)], STORY, [BEGUN, DONE, ARCHIVED_LATE], ""),  # no member rejected it
        ([(0, LAST - 1, 9)], REJECTED, [BEGUN, stored(4.5, 1, 0), ARCHIVED_LATE], ""),  # another delivery
        ([(0, LAST, 9)], REJECTED.replace("?", ""), [BEGUN, ARCHIVED_LATE], ""),  # it had the answer
        ([(0, LAST, 9)], REJECTED, [BEGUN, TO_BE_ARCHIVED], ""),  # it was stored before
    ],
)
def test_a_rejection_without_an_answer_may_come_when_the_record_was_accepted(
    tmp_path: Path,
    letters: Sequence[tuple[int, int, float]],
    story: str,
    rows: Sequence[dict[str, Any]],
    expected: str,
) -> None:
    found = judged(tmp_path, letters, (), rows, story=story).anomalies["dead-letter-of-accepted"]
    assert found.examples[0].known_bug == expected


@pytest.mark.parametrize(("control", "expected"), [(1, "letters-of-markers"), (7, ""), (None, "")])
def test_a_letter_is_of_a_marker_where_a_log_has_one(
    tmp_path: Path, control: int | None, expected: str
) -> None:
    markers = [] if control is None else [at(X, 1, offset=control, type=1, name="COMMIT")]
    of = judged(tmp_path, [(1, LAST, 4.2)], control=markers)
    assert of.anomalies["dead-letter-of-nothing"].examples[0].known_bug == expected


@pytest.mark.parametrize(
    ("letters", "expected"),
    [([LAST], "letters-of-markers"), ([LAST] * 2, "letters-of-markers"), ([1], ""), ([LAST, 1], "")],
)
def test_a_letter_of_a_marker_comes_at_the_delivery_limit(
    tmp_path: Path, letters: Sequence[int], expected: str
) -> None:
    marker = [at(X, 1, offset=1, type=1, name="COMMIT")]
    of = judged(tmp_path, [(1, times, 4.2) for times in letters], control=marker)
    assert of.anomalies["dead-letter-of-nothing"].examples[0].known_bug == expected


def test_a_marker_stands_in_the_log_of_the_end(tmp_path: Path) -> None:
    """Node 1 had it when it died, and has cut it off since: the letter is of something else."""
    ends = [{"take": 1, "node": 1, "at_ns": 99 * S, "why": END}]
    takes = [{"take": 0, "node": 1, "at_ns": 3 * S, "why": KILLED}, *ends]
    marker = [at(X, 1, offset=1, type=1, name="COMMIT")]
    partitions = [{**whole(tp, 1), "topic_id": str(tp), "take": take} for tp in (LOG, X) for take in (0, 1)]
    more: dict[str, Any] = {"partitions": partitions, "takes": takes}
    of = judged(tmp_path / "cut", [(1, LAST, 4.2)], control=marker, **more)
    assert of.anomalies["dead-letter-of-nothing"].examples[0].known_bug == ""
    of = judged(tmp_path / "kept", [(1, LAST, 4.2)], control=[{**marker[0], "take": 1}], **more)
    assert of.anomalies["dead-letter-of-nothing"].examples[0].known_bug == "letters-of-markers"
