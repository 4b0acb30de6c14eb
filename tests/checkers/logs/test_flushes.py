"""What a broker that died, or was killed at the end, had to have flushed, and what it need not have."""

from pathlib import Path
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs.flushes import CHECKS
from history.evidence import Evidence
from history.evidence_tables import END, KILLED, LOST_POWER
from tests.checkers.logs.made import TP, at, of_all, tables, whole
from tests.checkers.logs.test_lineage import BEGAN_MS, Made, rows, sent

EACH = {"broker_settings": {"log.flush.interval.messages": "1"}}
FIVE = {"topic_settings": {"flush.messages": "5"}}
TIMED = {
    "broker_settings": {
        "log.flush.interval.ms": "1000",
        "log.flush.scheduler.interval.ms": "500",
        "log.initial.task.delay.ms": "0",
    }
}
RULE = "flushed-as-set"
DIED_S = 20


def died(
    point: int | None, *changes: dict[str, Any], high: int = 20, why: str = KILLED, end: int = 20
) -> Made:
    """Node 2 had a record of each second, was in sync with node 1 all the time, and died at 20 s, with this
    recovery point and high watermark; node 1 leads on. changes: of the partition."""
    metadata: list[dict[str, Any]] = [
        {"name": "TopicRecord", "topic": TP.topic, "topic_id": "id"},
        {
            "name": "PartitionRecord",
            "leader": 1,
            "isr": [1, 2],
            "replicas": [1, 2],
            "partition_leader_epoch": 0,
        },
        *({"name": "PartitionChangeRecord", **change} for change in changes),
        *(
            {"name": "NoOpRecord", "topic_id": None, "partition": -1, "timestamp": BEGAN_MS + second * 1000}
            for second in range(DIED_S + 1)
        ),
    ]
    place = {"snapshot": -1, "topic_id": "id", "partition": TP.partition, "timestamp": BEGAN_MS}
    noted = [
        (one, value) for one, value in (("recovery-point", point), ("replication", high)) if value is not None
    ]
    return {
        "takes": [
            {"take": 0, "node": 2, "at_ns": 1, "why": why},
            {"take": 1, "node": 1, "at_ns": 2, "why": END},
        ],
        "partitions": [whole(TP, 2), whole(TP, 1) | {"take": 1}],
        "batches": [*rows(0, 2, end), *rows(1, 1, end)],
        "ends": [at(TP, 2, file=file, value=value) for file, value in noted],
        "metadata": [
            place | {"take": take, "node": node, "offset": number} | row
            for take, node in ((0, 2), (1, 1))
            for number, row in enumerate(metadata)
        ],
    }


def judged(tmp_path: Path, made: Made, settings: dict[str, Any], *offsets: int, acks: int = -1) -> Found:
    """Records were acknowledged at these offsets, each in the second of its number."""
    history = sent(tmp_path, *offsets, acks=acks, settings=settings)
    return of_all(CHECKS, Evidence(tables(made)), history)


@pytest.mark.parametrize("why", [KILLED, LOST_POWER, END])
@pytest.mark.parametrize(
    ("settings", "point", "offset"),
    [
        (EACH, 0, 8),
        (EACH, 8, 8),
        (EACH, 9, None),
        (EACH, 20, None),
        (FIVE, 4, 8),
        (FIVE, 5, None),
        (TIMED, 6, 6),
        (TIMED, 7, None),
        ({}, 0, None),
    ],
)  # fmt: skip
def test_what_was_sent_long_before_the_death_was_flushed(
    tmp_path: Path, settings: dict[str, Any], point: int, offset: int | None, why: str
) -> None:
    """By number: what was acknowledged 11.5 s before; by time: 13.5 s."""
    found = judged(tmp_path, died(point, why=why), settings, *range(20))
    assert [(one.check, one.offset, one.nodes) for one in found.in_logs] == (
        [] if offset is None else [(RULE, offset, (2,))]
    )
    assert all(one.name == "unflushed-log" for one in found.in_logs)
    assert not found.doubts
    assert bool(found.asked[RULE]) is bool(settings)


OUT = {"isr": [1], "timestamp": BEGAN_MS + 10_000}
BACK = {"isr": [1, 2], "timestamp": BEGAN_MS + 12_000}


@pytest.mark.parametrize(
    "made",
    [
        died(0, OUT, BACK),  # what it had when it came back is flushed with the next append
        died(0, OUT),
        died(0, {"isr": [2], "leader": 2}),  # alone it stays in sync when it starts again
        died(0, {"isr": [3], "leader": 3}, {"isr": [2, 3], "leader": 3}),
        died(0, high=0),  # nothing shows that it noted anything
    ],
)  # fmt: skip
def test_where_it_may_not_have_had_it_or_noted_nothing_it_is_not_asked(tmp_path: Path, made: Made) -> None:
    found = judged(tmp_path, made, EACH, *range(20))
    assert (found.in_logs, found.doubts, found.asked[RULE]) == ([], [], 0)


@pytest.mark.parametrize(("session_ms", "asked"), [(3000, True), (4000, True), (12_000, False)])
def test_a_broker_may_be_paused_for_its_session_and_stay_in_sync(
    tmp_path: Path, session_ms: int, asked: bool
) -> None:
    """It was killed as it ran again, before it noted anything."""
    settings = {"broker_settings": {**EACH["broker_settings"], "broker.session.timeout.ms": f"{session_ms}"}}
    found = judged(tmp_path, died(0), settings, *range(20))
    assert (bool(found.asked[RULE]), bool(found.in_logs)) == (asked, asked)


@pytest.mark.parametrize(("until_s", "refused"), [(8, True), (10, True), (11, False), (18, False)])
def test_while_no_controller_writes_a_broker_that_is_paused_stays_in_sync(
    tmp_path: Path, until_s: int, refused: bool
) -> None:
    """The metadata log says nothing from 7 s on until then; the broker noted what it had at 7 s."""
    made = died(7)
    made["metadata"] = [
        row for row in made["metadata"] if not BEGAN_MS + 7000 < row["timestamp"] < BEGAN_MS + until_s * 1000
    ]
    found = judged(tmp_path, made, EACH, *range(9))
    assert bool(found.in_logs) is refused


@pytest.mark.parametrize(("began_s", "asked"), [(0, 8), (4, 4), (9, 0)])
def test_what_a_log_had_before_its_process_began_need_not_be_flushed(
    tmp_path: Path, began_s: int, asked: int
) -> None:
    """A broker that is killed, and registers under a new controller at once, stays in sync meanwhile. What it
    has is flushed with the next append."""
    made = died(0)
    for row in made["metadata"]:
        if row["name"] == "NoOpRecord" and row["timestamp"] == BEGAN_MS + began_s * 1000:
            row |= {"name": "RegisterBrokerRecord", "broker": 2}
    found = judged(tmp_path, made, EACH, *range(20))
    assert (found.asked[RULE], len(found.in_logs)) == (asked, bool(asked))


def test_a_broker_that_heard_of_nothing_for_long_may_have_been_paused(tmp_path: Path) -> None:
    made = died(0)
    for row in made["metadata"]:
        row["timestamp"] = min(row["timestamp"], BEGAN_MS + 11_000) if row["take"] == 0 else row["timestamp"]
    assert not judged(tmp_path, made, EACH, *range(20)).asked[RULE]


@pytest.mark.parametrize(
    "settings",
    [
        {"log_dirs": 2},
        {"kafka": "3.7.0"},
        {"broker_settings": {**EACH["broker_settings"], "log.initial.task.delay.ms": "30000"}},
        {"sut": "simulated"},
    ],
)
def test_where_the_broker_need_not_have_noted_it_it_is_not_asked(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    found = judged(tmp_path, died(0), EACH | settings, *range(20))
    assert (found.in_logs, found.doubts, found.asked[RULE]) == ([], [], 0)


def test_what_one_replica_acknowledged_need_not_be_on_others(tmp_path: Path) -> None:
    assert not judged(tmp_path, died(0), EACH, *range(20), acks=1).asked[RULE]


def test_without_a_checkpoint_it_is_open(tmp_path: Path) -> None:
    found = judged(tmp_path, died(None), EACH, *range(20))
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == [RULE]
