"""What excuses a checkpoint beyond the end of its log: a cut of that log that the broker had no time to
note."""

from typing import Any

import pytest

from checkers.logs.power_losses import heard_of
from history.evidence import Evidence
from history.evidence_tables import KILLED, LOST_POWER
from tests.checkers.logs.made import tables
from tests.checkers.logs.test_audit import DEAD, Made, clean, judged, one

S = 1000


def metadata(
    *changes: tuple[int, list[int], int], heard: int, heard_s: int, take: int = 1, node: int = 1
) -> list[dict[str, Any]]:
    """A metadata log: of changes to (leader, in-sync replicas) at seconds, each of the next leader epoch
    where the leader is another one. The disk of the node had it up to the record of offset `heard`, written
    at `heard_s`; record 0 is the topic's, 1 the partition's, the changes follow."""
    rows: list[dict[str, Any]] = [{"name": "TopicRecord", "topic": "q", "topic_id": "id", "timestamp": 0}]
    for number, (leader, isr, s) in enumerate(changes):
        new = not number or leader != changes[number - 1][0]
        state = {"leader": leader if new else -2, "isr": isr, "replicas": None if number else [1, 2, 3]}
        name = "PartitionChangeRecord" if number else "PartitionRecord"
        epoch = {} if number else {"partition_leader_epoch": 1}
        rows.append({"name": name, "topic_id": "id", "partition": 0, "timestamp": s * S, **state, **epoch})
    rows = [{"snapshot": -1, "offset": number, **row} for number, row in enumerate(rows)]
    disk = [row for row in rows if row["offset"] <= heard]
    disk.append({"snapshot": -1, "offset": heard, "name": "NoOpRecord", "timestamp": heard_s * S})
    rest = [{**row, "take": 1, "node": 3} for row in rows] if (take, node) != (1, 3) else []
    return [{**row, "take": take, "node": node} for row in disk] + rest


def ends_judged(made: Made) -> str:
    found = judged(made)
    if "ends-within-log" in {each.check for each in found.in_logs}:
        return "found"
    return "open" if "ends-within-log" in {doubt.check for doubt in found.doubts} else "silent"


UNCLEAN = (1, [1], 10), (2, [2], 20), (2, [1, 2], 30)
"""Leader 2 was elected while only 1 was in sync; 1 is in sync again at 30 s."""


@pytest.mark.parametrize(
    ("heard", "heard_s", "says"),
    [
        (3, 44, "open"),  # node 1 was in sync for less than 15 s, and need not have written it again
        (3, 45, "found"),
        (2, 99, "open"),  # it was not in sync yet
        (1, 99, "found"),  # it had not heard of the election: its log was not cut
    ],
)
def test_an_unclean_election_excuses_a_high_watermark_until_the_broker_writes_it_again(
    heard: int, heard_s: int, says: str
) -> None:
    made = clean()
    one(made, "ends", take=DEAD, node=1, file="replication")["value"] = 91
    made["metadata"] = metadata(*UNCLEAN, heard=heard, heard_s=heard_s, take=DEAD)
    assert ends_judged(made) == says


def test_in_sync_for_long_means_at_one_time() -> None:
    made = clean()
    one(made, "ends", take=DEAD, node=1, file="replication")["value"] = 91
    again = (2, [2], 40), (2, [1, 2], 50)
    made["metadata"] = metadata(*UNCLEAN, *again, heard=5, heard_s=60, take=DEAD)
    assert ends_judged(made) == "open"
    made["metadata"] = metadata(*UNCLEAN, *again, heard=5, heard_s=65, take=DEAD)
    assert ends_judged(made) == "found"


def test_an_unclean_election_of_another_partition_excuses_nothing() -> None:
    made = clean()
    one(made, "ends", take=DEAD, node=1, file="replication")["value"] = 91
    made["metadata"] = metadata((1, [1, 2], 10), (2, [1, 2], 20), heard=2, heard_s=21, take=DEAD)
    for row in metadata(*UNCLEAN, heard=3, heard_s=31, take=DEAD):
        if row["offset"]:
            made["metadata"].append(row | {"partition": 1, "offset": row["offset"] + 10})
    assert ends_judged(made) == "found"


@pytest.mark.parametrize(
    ("file", "heard_s", "says"), [("recovery-point", 104, "open"), ("log-start", 105, "found")]
)
def test_other_checkpoints_are_written_each_minute(file: str, heard_s: int, says: str) -> None:
    made = clean()
    one(made, "ends", take=1, node=1, file=file)["value"] = 200
    made["metadata"] = metadata(*UNCLEAN, heard=3, heard_s=heard_s)
    assert ends_judged(made) == says


@pytest.mark.parametrize(("take", "says"), [(-1, "open"), (DEAD, "found"), (1, "found")])
def test_power_that_another_node_lost_later_cut_nothing_before(take: int, says: str) -> None:
    """A replica cuts its log when one that lost power is back, and so after that one was looked at."""
    made = clean()
    one(made, "ends", take=DEAD, node=1, file="replication")["value"] = 91
    made["metadata"] = metadata((1, [1, 2], 10), (2, [1, 2], 20), heard=2, heard_s=21, take=DEAD)
    made["takes"].append({"take": take, "node": 2, "at_ns": 0, "why": LOST_POWER})
    assert ends_judged(made) == says


@pytest.mark.parametrize(
    ("lost", "registers", "heard_s", "says"),
    [
        (DEAD, True, 44, "open"),
        (DEAD, True, 45, "found"),
        (DEAD, False, 99, "open"),
        (2, False, 45, "found"),  # after the look
    ],
)
def test_a_nodes_own_loss_of_power_excuses_until_it_is_back(
    lost: int, registers: bool, heard_s: int, says: str
) -> None:
    """Node 1 lost power when it had heard of record 1, was taken out at 20 s, and was in sync again at 30."""
    made = clean()
    one(made, "ends", take=1, node=1, file="replication")["value"] = 101
    changes = (2, [1, 2, 3], 10), (2, [2, 3], 20), (2, [1, 2, 3], 30)
    made["metadata"] = metadata(*changes, heard=3, heard_s=heard_s)
    made["metadata"] += [
        row | {"take": lost}
        for row in metadata(*changes, heard=1, heard_s=11, take=DEAD)
        if (row["take"], row["node"]) == (DEAD, 1)
    ]
    for row in [row for row in made["metadata"] if row["offset"] == 3]:
        row["offset"] = 4
        if registers:
            made["metadata"].append(
                row | {"offset": 3, "name": "RegisterBrokerRecord", "broker": 1, "topic_id": None}
            )
    made["takes"] = [row for row in made["takes"] if row["take"] != DEAD]
    made["takes"].append({"take": lost, "node": 1, "at_ns": 1, "why": LOST_POWER})
    assert ends_judged(made) == says


@pytest.mark.parametrize(("ended", "says"), [("", "found"), (KILLED, "found"), (LOST_POWER, "open")])
def test_a_node_that_was_not_started_again_has_lost_power_as_one_that_was(ended: str, says: str) -> None:
    """Its files are read at the end alone. What a process wrote outlives its death, but no loss of power."""
    made = clean()
    made["batches"] = [
        row for row in made["batches"] if (row["take"], row["node"]) != (1, 2) or row["base"] < 70
    ]
    made["metadata"] = metadata((1, [1, 2, 3], 10), (1, [1, 3], 20), heard=2, heard_s=21, node=2)
    if ended:
        made["takes"].append({"take": 1, "node": 2, "at_ns": 2, "why": ended})
    assert ends_judged(made) == says


def test_a_snapshot_tells_how_far_a_node_had_heard() -> None:
    """A disk may have the metadata log from a snapshot on alone, and no record behind it."""
    rows = [
        {"take": 0, "node": 1, "snapshot": 40, "offset": 3, "timestamp": 5},
        {"take": 0, "node": 2, "snapshot": 40, "offset": 3, "timestamp": 5},
        {"take": 0, "node": 2, "snapshot": -1, "offset": 41, "timestamp": 7},
        {"take": 1, "node": 2, "snapshot": -1, "offset": 12, "timestamp": 6},
        {"take": 1, "node": 2, "snapshot": 9, "offset": 30, "timestamp": 5},
    ]
    heard = heard_of(Evidence(tables({"metadata": rows})))
    assert heard == {(0, 1): (39, -1), (0, 2): (41, 7), (1, 2): (12, 6)}
