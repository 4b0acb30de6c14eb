"""Decisions by a coordinator that had too few replicas in sync, and by those that had enough."""

import json
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs.decisions_in_sync import CHECKS
from core.internal_topics import TRANSACTION_TOPIC as TOPIC
from history.evidence import Evidence
from tests.checkers.logs.made import of_all, tables
from tests.checkers.logs.test_decisions import P0, P1, Cluster

RULE = "decided-in-sync"
States = list[tuple[int, int, list[int]]]
"""Time in ms, leader epoch, in-sync replicas."""


def judged(states: States, minimum: str = "2", *, late: bool = False, open_: bool = False) -> Found:
    """Two transactions in leader epoch 4, decided at 1,000,102 and 2,000,102 ms and completed 2 ms later,
    with these states of the partition, and this minimum. open_: a third one that is not completed."""
    cluster = Cluster()
    cluster.transaction(1_000_100, P0, P1)
    cluster.transaction(2_000_100, P0, P1, commit=False)
    if open_:
        cluster.coordinator("Ongoing", 3_000_100, P0, start_ms=3_000_100)
        cluster.coordinator("PrepareCommit", 3_000_102, P0, start_ms=3_000_100)
    body = {"resourceType": 2, "resourceName": TOPIC, "name": "min.insync.replicas", "value": minimum}
    config: dict[str, Any] = {"name": "ConfigRecord", "body": json.dumps(body)}
    topic: dict[str, Any] = {"name": "TopicRecord", "topic": TOPIC, "topic_id": TOPIC}
    of: dict[str, Any] = {"topic_id": TOPIC, "partition": 0}
    made: list[dict[str, Any]] = []
    for ms, epoch, isr in states:
        state = {"leader": 1, "isr": isr, "partition_leader_epoch": epoch, "timestamp": ms}
        if not made:
            made.append(of | state | {"name": "PartitionRecord", "replicas": [1, 2, 3]})
        else:
            same = made[-1]["partition_leader_epoch"] == epoch
            made.append(of | state | {"name": "PartitionChangeRecord", "leader": None if same else 1})
    rows = [topic, *made, config] if late else [topic, config, *made]
    where = {"take": 1, "node": 1, "snapshot": -1}
    cluster.made["metadata"] = [where | {"offset": number} | row for number, row in enumerate(rows)]
    return of_all(CHECKS, Evidence(tables(cluster.made)))


@pytest.mark.parametrize(
    ("states", "early"),
    [
        ([(0, 4, [1, 2, 3])], []),
        ([(0, 4, [1, 2])], []),
        ([(0, 4, [1])], [1, 4]),
        ([(0, 4, [1, 2]), (1_000, 4, [1])], []),  # it may not have heard of the second
        ([(0, 3, [1, 2, 3]), (1_000, 4, [1])], [1, 4]),
        ([(0, 4, [1]), (1_000, 4, [1, 2])], []),
        ([(0, 4, [1]), (1_500_000, 4, [1, 2])], [1]),  # one came in between the decisions
        ([(0, 4, [1]), (1_000_500, 4, [1, 2])], []),  # clocks
        ([(0, 4, [1]), (9_000_000, 4, [1, 2])], [1, 4]),
    ],
)  # fmt: skip
def test_a_decision_where_too_few_had_been_in_sync(states: States, early: list[int]) -> None:
    found = judged(states)
    assert [(one.check, one.offset, one.log.topic) for one in found.in_logs] == [
        (RULE, offset, TOPIC) for offset in early
    ]
    assert (found.doubts, found.asked[RULE]) == ([], 2)


@pytest.mark.parametrize(("since", "early"), [(9_000_000, [1, 4]), (None, [1, 4, 7])])
def test_when_a_decision_was_made_its_completion_tells(since: int | None, early: list[int]) -> None:
    """One that is not completed is early where its leader epoch never had enough."""
    states = [(0, 4, [1])] + ([(since, 4, [1, 2])] if since else [])
    found = judged(states, open_=True)
    assert [one.offset for one in found.in_logs] == early
    assert found.asked[RULE] == 3


@pytest.mark.parametrize(
    ("minimum", "late", "states"),
    [
        ("1", False, [(0, 4, [1])]),
        ("2", True, [(0, 4, [1])]),  # until then the minimum of the brokers may have been in force
        ("2", False, [(0, 3, [1])]),  # no leader was given the epoch: another rule says so
    ],
)  # fmt: skip
def test_where_the_leader_alone_may_have_been_enough_nothing_is_asked(
    minimum: str, late: bool, states: States
) -> None:
    found = judged(states, minimum, late=late)
    assert (found.in_logs, found.doubts, found.asked[RULE]) == ([], [], 0)
