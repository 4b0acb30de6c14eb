"""The label `removed-replica`: a replica is taken off a partition, stays eligible, comes back without its
log, and is elected."""

from pathlib import Path
from typing import Any

import pytest

from checkers.engine.findings import LogFinding
from checkers.known_bugs.registry import labels as labels_of
from checkers.known_bugs.removed_replica import RULE
from checkers.logs.accept_metadata import CHECKS
from history.evidence import Evidence
from history.reader import load
from tests.checkers.known_bugs.test_last_replica import NEW_MS, Change, change, labels, recorded
from tests.checkers.logs.made import of_all

BEGAN_MS = NEW_MS - 40_000
EVERY: Change = {"name": "PartitionRecord", "leader": 2, "isr": [1, 2, 3], "replicas": [1, 2, 3]}
LOWERED = change(2, 2, replicas=[2], elr=[1, 3])
RAISED = change(2, 2, replicas=[2, 3], adding=[3], elr=[1, 3])
ELECTED = change(3, 3, elr=[1, 2], timestamp=BEGAN_MS + 30_000)
SHOWN = dict.fromkeys(("lost-write", "inconsistent-offsets"), "removed-replica")


def test_a_replica_that_was_none_is_elected(tmp_path: Path) -> None:
    found = labels(tmp_path / "run", [EVERY, LOWERED, RAISED, ELECTED], loses_power=False)
    assert found == SHOWN


def test_it_may_have_been_no_replica_long_before(tmp_path: Path) -> None:
    raised = [RAISED, change(-1, elr=[1, 2, 3]), change(2, 2, elr=[1, 3])]
    assert labels(tmp_path / "run", [EVERY, LOWERED, *raised, ELECTED], loses_power=False) == SHOWN


def test_a_reassignment_that_had_added_it_was_cancelled(tmp_path: Path) -> None:
    two = EVERY | {"isr": [2], "replicas": [1, 2]}
    added = change(2, 2, 3, replicas=[1, 2, 3], adding=[3])
    cancelled = change(2, 2, replicas=[1, 2], adding=[], elr=[3])
    again = change(2, 2, replicas=[1, 2, 3], adding=[3], elr=[3])
    elected = ELECTED | {"elr": [2]}
    assert labels(tmp_path / "run", [two, added, cancelled, again, elected], loses_power=False) == SHOWN
    left_out = [two, added, cancelled | {"elr": []}, again | {"elr": []}, elected]
    assert set(labels(tmp_path / "not", left_out, loses_power=False).values()) == {""}


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ([EVERY, change(2, 2, elr=[1, 3]), ELECTED], {}),  # it was a replica all the while: it has its log
        ([EVERY, LOWERED, RAISED, change(2, 2, 3, adding=[], elr=[]), ELECTED], {}),  # it has fetched all
        ([EVERY, LOWERED | {"elr": []}, RAISED | {"elr": []}, ELECTED], {}),  # an unclean election
        ([EVERY, LOWERED, RAISED], {}),  # it never led
        (
            [EVERY, LOWERED, change(2, 2, replicas=[1, 2], adding=[1], elr=[3]), change(1, 1, elr=[3])],
            {},
        ),  # another one leads, which was not eligible
        ([EVERY, LOWERED, RAISED, ELECTED], {"acked_s": 35}),  # it was sent after the election
        ([EVERY, LOWERED, RAISED, ELECTED], {"epoch": 1}),  # what stands there is older than the election
    ],
    ids=["replica", "in sync", "unclean", "never led", "another", "sent later", "older"],
)
def test_what_only_looks_like_it_stays_open(
    tmp_path: Path, changes: list[Change], more: dict[str, Any]
) -> None:
    found = labels(tmp_path / "run", changes, loses_power=False, **more)
    assert set(found.values()) == {""}


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ([EVERY, LOWERED], "removed-replica"),
        ([EVERY, change(2, 2, elr=[1]), LOWERED | {"elr": [1]}], "removed-replica"),
        ([EVERY, LOWERED | {"elr": [4]}], ""),  # it was no replica before
        ([EVERY, change(2, 2, elr=[1]), LOWERED], ""),  # 3 was neither in sync nor eligible
    ],
    ids=["in sync", "eligible", "stranger", "out of sync"],
)
def test_the_change_that_leaves_it_eligible_has_the_label(
    tmp_path: Path, changes: list[Change], label: str
) -> None:
    run = recorded(tmp_path / "run", changes, loses_power=False)
    found = Evidence.load(run.evidence)
    stays = [
        one for one in of_all(CHECKS, found).findings if isinstance(one, LogFinding) and one.check == RULE
    ]
    assert labels_of(load(run), found, stays) == [label]


@pytest.mark.parametrize(("end", "label"), [(5, "removed-replica"), (6, "")])
def test_what_it_had_copied_by_then_was_cut_off_later(tmp_path: Path, end: int, label: str) -> None:
    changes = [EVERY, LOWERED, RAISED, ELECTED]
    found = labels(tmp_path / "run", changes, loses_power=False, offset=5, starts=[(4, end)])
    assert found["lost-write"] == label


@pytest.mark.parametrize(
    ("back", "label"),
    [
        ([], "removed-replica"),  # the leader before it may not have heard of the election
        ([change(3, 2, 3, adding=[], elr=[], timestamp=BEGAN_MS + 40_000)], ""),
    ],
)
def test_the_leader_before_it_may_have_answered_the_reader(
    tmp_path: Path, back: list[Change], label: str
) -> None:
    changes = [EVERY, LOWERED, RAISED, ELECTED, *back]
    found = labels(tmp_path / "run", changes, loses_power=False, offset=5, reread=(50, 60))
    assert found["lost-write"] == label
