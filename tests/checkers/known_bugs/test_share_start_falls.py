"""The label share-start-falls: a leader has to have read the start while it was too low."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checkers.logs.share_answers import STORED
from core.internal_topics import SHARE_STATE_TOPIC
from core.op import TopicPartition
from history import evidence
from history.events import RolesSeen
from history.run_folder import Run
from history.verdict import Verdict
from tests.checkers.known_bugs.test_uncommitted_state import BEGAN_MS
from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.checkers.logs.made import at, batch, tables, whole
from tests.histories.folders import check_run, write_run
from tests.histories.notation import stories

LOG, X = TopicPartition(SHARE_STATE_TOPIC, 0), TopicPartition("x", 0)
S = 1_000_000_000
DONE = {"state": 2, "times": 1}
STORY = """share
set p1 group0 acks-2
set p2 group0 acks-2
p0 send x:1@0 x:2@1
p1 acquire x{1@0} x{2@1}
p1 acknowledge x+0 x+1
p2 acquire x{2@1*2}
p1 leave
p9 final x[1@0,2@1]
end x rc 2"""
"""Offset 1 is accepted by 3 s, and delivered again by 4 s."""


def stored(at_s: float, start: int, *ended: int, leader: int = 0, snapshot: bool = False) -> dict[str, Any]:
    """A record of the share coordinator."""
    return {
        "timestamp": BEGAN_MS + int(at_s * 1000),
        "name": "ShareSnapshot" if snapshot else "ShareUpdate",
        "group": "group-0",
        "shared_topic": "X",
        "snapshot_epoch": 0,
        "state_epoch": 0 if snapshot else None,
        "shared_leader_epoch": leader,
        "start": start,
        "states": [{"first": one, "last": one, **DONE} for one in ended],
    }


def moved(at_s: float, epoch: int) -> RolesSeen:
    """A look at the leaders."""
    return RolesSeen(
        ns=int(at_s * S),
        leaders={"x-0": 1 + epoch},
        isr={},
        controller=1,
        answering=(1, 2),
        agreed=True,
        epochs={"x-0": epoch},
    )


BEGUN, BOTH = stored(0.1, 0, snapshot=True), stored(2.6, 2, 0, 1)
LATE = stored(2.7, 1, 0)
"""An earlier write comes late: the start falls from 2 to 1."""


def judged(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    version: str = "4.3.1",
    upgraded_s: float | None = None,
    story: str = STORY,
    looks: Sequence[RolesSeen] = (),
    **more: Any,
) -> Verdict:
    """The verdict, where a coordinator has these records. A member may hold a record for 2 s. looks: at the
    leaders."""
    (told,) = stories(f"== case\n{story}")
    settings, events = upgrade_of(version, upgraded_s)
    settings = {**settings, "workload": "share"}
    run: Run = write_run(folder, told.tables(), settings=settings, events=[*events, *looks])
    found = {
        "partitions": [whole(LOG, 1), {**whole(X, 1), "topic_id": "X"}],
        "batches": [batch(LOG, 1, offset) for offset in range(len(rows))],
        "share_log": [at(LOG, 1, offset=offset, **row) for offset, row in enumerate(rows)],
        **more,
    }
    evidence.write(run.evidence, tables(found, nodes=(1,)))
    return check_run(run)


def labels(found: Verdict) -> tuple[str, str | None]:
    """Of the delivery, and of the fall in the log, None = there is none."""
    given = found.anomalies["share-redelivery"]
    fell = found.anomalies.get("model-violation")
    return given.examples[0].known_bug, fell.examples[0].known_bug if fell else None


BUG = "share-start-falls"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([BEGUN, BOTH, LATE, stored(3, 1, leader=1)], (BUG, BUG)),  # the next leader read 1
        ([BEGUN, BOTH, LATE], (BUG, BUG)),  # it is still too low
        ([BEGUN, BOTH, stored(3.9, 1, 0)], (BUG, BUG)),
        ([BEGUN, BOTH, LATE, stored(2.8, 2), stored(3, 2, leader=1)], ("", BUG)),  # it was right again
        ([BEGUN, BOTH, LATE, stored(2.8, 2)], ("", BUG)),
        ([BEGUN, BOTH, stored(9, 1, 0)], ("", BUG)),  # it fell later
        ([BEGUN, BOTH, stored(2.7, 1, 0, leader=1)], ("", "")),  # a new leader went back of itself
        ([BEGUN, stored(2.6, 1, 0, 1), stored(2.7, 0, 0)], ("", BUG)),  # not the start of this record
        ([BEGUN, BOTH, stored(3, 2, leader=1)], ("", None)),
    ],
)
def test_the_label_needs_a_start_that_a_leader_read_while_it_was_too_low(
    tmp_path: Path, rows: Sequence[dict[str, Any]], expected: tuple[str, str | None]
) -> None:
    assert labels(judged(tmp_path, rows)) == expected


ANSWERED_LATER = STORY.replace("x+0 x+1", "x+0 x+1?").replace(
    "p1 leave", "p2 acknowledge x+1\np1 leave\np2 acquire x{2@1*3}"
)
"""Member 1 has no answer; member 2 accepts it by 5 s, has the answer, and is given it again by 7 s."""


@pytest.mark.parametrize(("falls_s", "expected"), [(2.7, ""), (5.5, BUG)])
def test_a_record_that_was_accepted_after_the_fall_is_not_forgotten_by_it(
    tmp_path: Path, falls_s: float, expected: str
) -> None:
    """The next leader read the low start, delivered the record again, and had its end stored."""
    rows = [
        BEGUN,
        BOTH,
        stored(falls_s, 1, 0),
        stored(falls_s + 0.3, 1, leader=1),
        stored(falls_s + 1.9, 2, leader=1),
    ]
    assert labels(judged(tmp_path, rows, story=ANSWERED_LATER))[0] == expected


AGAIN = ANSWERED_LATER.replace("x+1?", "x+1")
"""Member 1 has the answer as well: the record is delivered again after either."""


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([stored(3, 1, leader=1), stored(4.6, 2, leader=1)], ""),  # nothing explains the second time
        ([stored(3, 1, leader=1), stored(4.6, 2, leader=1), stored(5.5, 1, leader=1)], BUG),  # it fell again
    ],
)
def test_the_bug_has_to_explain_every_time_that_a_record_is_delivered_again(
    tmp_path: Path, rows: Sequence[dict[str, Any]], expected: str
) -> None:
    found = judged(tmp_path, [BEGUN, BOTH, LATE, *rows], story=AGAIN)
    assert labels(found)[0] == expected
    (one,) = found.anomalies["share-redelivery"].examples
    assert one.sentence.endswith("to process 2 (client 0) (op 3). Likewise later: op 6.")


def test_brokers_that_keep_the_higher_start_have_no_label(tmp_path: Path) -> None:
    assert labels(judged(tmp_path, [BEGUN, BOTH, LATE], version="4.4.0")) == ("", "")


@pytest.mark.parametrize(("upgraded_s", "expected"), [(2.65, ("", "")), (2.8, (BUG, BUG))])
def test_a_start_that_fell_when_all_brokers_were_upgraded_has_no_label(
    tmp_path: Path, upgraded_s: float, expected: tuple[str, str]
) -> None:
    assert labels(judged(tmp_path, [BEGUN, BOTH, LATE], upgraded_s=upgraded_s)) == expected


def test_an_answer_that_is_not_stored_is_refused_where_the_log_is_whole(tmp_path: Path) -> None:
    check = judged(tmp_path, [BEGUN, stored(2.6, 1, 0)]).log_checks[STORED]
    assert (check.status, check.found) == ("invalid", 1)


@pytest.mark.parametrize(("waits", "found"), [(0, 1), (1, 0), (2, 0)])
def test_an_answer_that_came_after_the_lock_says_that_nothing_is_stored(
    tmp_path: Path, waits: int, found: int
) -> None:
    """Member 1 is given the record from 1 s on, and accepts it so many seconds later."""
    lines = STORY.splitlines()
    at = lines.index("p1 acknowledge x+0 x+1")
    sends = [f"p0 send x:{3 + n}@{2 + n}" for n in range(waits)]
    story = "\n".join([*lines[:at], *sends, "p1 acknowledge x+1", *lines[at + 1 :]])
    check = judged(tmp_path, [BEGUN, stored(2.6, 1, 0)], story=story).log_checks[STORED]
    assert check.found == found


@pytest.mark.parametrize(
    "missing",
    [
        {"batches": [batch(LOG, 1, 0), batch(LOG, 1, 1, intact=False)]},
        {"share_log": [at(LOG, 1, offset=0, **BEGUN), at(LOG, 1, offset=1, opaque=b"?")]},
        {"partitions": [whole(LOG, 1)]},  # no node had the topic: its id is not known
        {
            "partitions": [
                whole(LOG, 1),
                {**whole(X, 1), "topic_id": "X"},
                whole(LOG._replace(partition=1), 2),
            ]
        },
    ],
)
def test_an_answer_that_is_not_stored_is_a_doubt_where_a_part_of_the_log_may_be_missing(
    tmp_path: Path, missing: dict[str, Any]
) -> None:
    check = judged(tmp_path, [BEGUN, stored(2.6, 1, 0)], **missing).log_checks[STORED]
    assert (check.status, check.found) == ("unknown", 0)
