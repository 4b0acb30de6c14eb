"""Ring 0: each rule fires at its place, and is silent on the same evidence without the fault."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs.audit import CHECKS
from checkers.logs.elections import METADATA
from checkers.windows import FOREVER, RunWindows
from core.op import TopicPartition
from harness.evidence.directory import read
from history.evidence import Evidence, merged
from history.evidence_tables import END, KILLED, LOST_POWER
from tests.checkers.logs.made import TP, Rows, at, batch, namesakes, of_all, of_partition, tables, whole
from tests.checkers.logs.test_accept_znodes import change
from tests.histories.broker_files import NODE
from tests.histories.old_messages import message

Made = dict[str, list[dict[str, Any]]]
FIRST_OF_EPOCH = {1: 0, 3: 40, 4: 60}
LED = {"leader": 2, "leader_epoch": 4, "controller_epoch": 1, "isr": [2]}
DEAD, OLD_TAIL = 0, 60
"""Take of the node that died in leader epoch 3, with batches from OLD_TAIL on that epoch 4 never had."""


def log(take: int, node: int, end: int) -> list[dict[str, Any]]:
    """Batches of ten records."""
    rows = []
    for base in range(0, end, 10):
        epoch = max(epoch for epoch, first in FIRST_OF_EPOCH.items() if first <= base)
        sent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": base}
        rows.append(batch(TP, node, base, last=base + 9, records=10, leader_epoch=epoch, take=take, **sent))
    return rows


def clean() -> Made:
    """Nodes 1 to 3 at the end (take 1) have offsets 0 to 99; node 1 died before (take 0), and its tail was
    not committed."""
    batches = [row for node in (1, 2, 3) for row in log(1, node, 100)]
    tail = [
        batch(TP, 1, base, last=base + 9, records=10, leader_epoch=3, take=DEAD, crc=base + 1)
        for base in (60, 70, 80)
    ]
    batches += [*log(DEAD, 1, OLD_TAIL), *tail]
    for number, row in enumerate(batches):
        row["position"] = number * 80
    places = [(DEAD, 1), (1, 1), (1, 2), (1, 3)]
    epochs = [
        at(TP, node, take=take, epoch=epoch, start=start)
        for take, node in places
        for epoch, start in FIRST_OF_EPOCH.items()
        if take or epoch < 4
    ]
    marks = {"replication": 100, "recovery-point": 50, "log-start": 0}
    ends = [
        at(TP, node, take=1, file=name, value=value) for node in (1, 2, 3) for name, value in marks.items()
    ]
    ends.append(at(TP, 1, take=DEAD, file="replication", value=60))
    return {
        "takes": [
            {"take": DEAD, "node": 1, "at_ns": 1, "why": KILLED},
            *({"take": 1, "node": node, "at_ns": 2, "why": END} for node in (1, 2, 3)),
        ],
        "batches": batches,
        "partitions": [whole(TP, node) | {"take": take} for take, node in places],
        "epochs": epochs,
        "ends": ends,
        "nodes": [{"take": 1, "node": node, "clean_shutdown": True} for node in (1, 2, 3)],
        "damage": [],
        "metadata": [],
    }


def judged(rows: Rows) -> Found:
    return of_partition(CHECKS, Evidence(tables(rows)), TP)


def one(made: Made, table: str, **where: Any) -> dict[str, Any]:
    """The row that has these values."""
    (found,) = [row for row in made[table] if where.items() <= row.items()]
    return found


def test_clean_evidence_is_silent_and_asks_every_rule() -> None:
    found = judged(clean())
    assert not found.in_logs
    assert not found.doubts
    assert found.asked == {
        "batches-intact": 39,
        "offsets-dense": 35,
        "epochs-rise": 35,
        "epoch-checkpoint": 11,
        "ends-within-log": 10,
        "log-matching": 26,
        "replicas-equal": 20,
    }
    assert {*found.asked} == set(CHECKS)


def flipped(made: Made) -> None:
    one(made, "batches", take=1, node=2, base=30)["intact"] = False


def cut_in_the_middle(made: Made) -> None:
    made["damage"] = [damage("q-0/00000000000000000000.log", position=777, why="cut")]
    for row in made["batches"]:
        if (row["take"], row["node"]) == (1, 2) and row["base"] >= 50:
            row["segment"] = 50


def damage(file: str, *, take: int = 1, node: int = 2, position: int, why: str) -> dict[str, Any]:
    return {"take": take, "node": node, "file": file, "position": position, "why": why}


def unreadable_checkpoint(made: Made) -> None:
    made["damage"] = [damage("q-0/leader-epoch-checkpoint", position=3, why="no number")]


def dropped_everywhere(made: Made) -> None:
    made["batches"] = [row for row in made["batches"] if row["base"] != 30]


def too_few_records(made: Made) -> None:
    one(made, "batches", take=1, node=1, base=20)["records"] = 9


def first_dropped(made: Made) -> None:
    made["batches"] = [row for row in made["batches"] if row["base"] != 0]


def lowered_epoch(made: Made) -> None:
    for row in made["batches"]:
        if row["base"] == 50:
            row["leader_epoch"] = 2


def epoch_left_out(made: Made) -> None:
    made["epochs"].remove(one(made, "epochs", take=1, node=3, epoch=3))


def epoch_moved(made: Made) -> None:
    one(made, "epochs", take=1, node=3, epoch=3)["start"] = 50


def epoch_of_nothing(made: Made) -> None:
    made["epochs"].append(at(TP, 2, take=1, epoch=2, start=20))


def watermark_beyond(made: Made) -> None:
    one(made, "ends", take=1, node=2, file="replication")["value"] = 101


def watermark_beyond_where_a_node_died(made: Made) -> None:
    one(made, "ends", take=DEAD, node=1, file="replication")["value"] = 91
    made["metadata"] = elections((1, 1), (3, 1), (4, 2))


def recovery_beyond(made: Made) -> None:
    one(made, "ends", take=1, node=1, file="recovery-point")["value"] = 200


def last_dropped(made: Made) -> None:
    made["batches"].remove(one(made, "batches", take=1, node=3, base=90))


def other_bytes(made: Made) -> None:
    one(made, "batches", take=1, node=3, base=60)["crc"] = 1


def other_sequence(made: Made) -> None:
    one(made, "batches", take=DEAD, node=1, base=20)["base_sequence"] = 21


def dropped_in_one(made: Made) -> None:
    made["batches"].remove(one(made, "batches", take=1, node=2, base=30))


def other_tail_below_the_watermark(made: Made) -> None:
    for base in (60, 70, 80, 90):
        none = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
        one(made, "batches", take=1, node=3, base=base).update(leader_epoch=3, crc=base + 1, **none)
    made["epochs"].remove(one(made, "epochs", take=1, node=3, epoch=4))


FIRES: dict[Callable[[Made], None], dict[str, tuple[int, tuple[int, ...]]]] = {
    flipped: {"batches-intact": (30, (2,)), "log-matching": (30, (1, 2)), "replicas-equal": (30, (1, 2))},
    cut_in_the_middle: {"batches-intact": (50, (2,))},
    unreadable_checkpoint: {"batches-intact": (-1, (2,))},
    dropped_everywhere: {"offsets-dense": (40, (1,))},
    too_few_records: {
        "offsets-dense": (20, (1,)),
        "log-matching": (20, (1,)),
        "replicas-equal": (20, (1, 2)),
    },
    first_dropped: {"offsets-dense": (10, (1,)), "epoch-checkpoint": (10, (1,))},
    lowered_epoch: {"epochs-rise": (50, (1,)), "epoch-checkpoint": (50, (1,))},
    epoch_left_out: {"epoch-checkpoint": (40, (3,))},
    epoch_moved: {"epoch-checkpoint": (40, (3,))},
    epoch_of_nothing: {"epoch-checkpoint": (20, (2,))},
    watermark_beyond: {"ends-within-log": (100, (2,))},
    watermark_beyond_where_a_node_died: {"ends-within-log": (90, (1,))},
    recovery_beyond: {"ends-within-log": (100, (1,))},
    last_dropped: {"ends-within-log": (90, (3,))},
    other_bytes: {"log-matching": (60, (1, 3)), "replicas-equal": (60, (1, 3))},
    other_sequence: {"log-matching": (20, (1,))},
    dropped_in_one: {
        "offsets-dense": (40, (2,)),
        "log-matching": (30, (1, 2)),
        "replicas-equal": (30, (1, 2)),
    },
    other_tail_below_the_watermark: {"replicas-equal": (60, (1, 3))},
}


@pytest.mark.parametrize("tamper", FIRES, ids=lambda tamper: tamper.__name__)
def test_each_rule_fires_at_the_place(tamper: Callable[[Made], None]) -> None:
    made = deepcopy(clean())
    tamper(made)
    found: dict[str, tuple[int, tuple[int, ...]]] = {}
    for each in judged(made).in_logs:
        assert each.log == TP
        found.setdefault(each.check, (each.offset, each.nodes))
    assert found == FIRES[tamper]


@pytest.mark.parametrize("folder", ["q-0", "1/q-0", "a/q-0"])
@pytest.mark.parametrize("ending", ["log", "log.swap"])
def test_a_damaged_segment_is_told_wherever_it_stands(folder: str, ending: str) -> None:
    """In any log directory of a node, also as what the cleaner had just written."""
    made = clean()
    cut_in_the_middle(made)
    made["damage"][0]["file"] = f"{folder}/{0:020}.{ending}"
    assert [(one.check, one.offset) for one in judged(made).in_logs] == [("batches-intact", 50)]


@pytest.mark.parametrize("folder", ["q-1", "1/q-1", "1/x-q-0", "q-0/x-1"])
def test_damage_of_another_partition_is_not_told_here(folder: str) -> None:
    made = clean()
    cut_in_the_middle(made)
    made["damage"][0]["file"] = f"{folder}/{0:020}.log"
    assert not judged(made).in_logs


def test_a_file_that_cannot_be_read_is_asked_about_like_a_batch() -> None:
    made, sound = clean(), judged(clean())
    unreadable_checkpoint(made)
    assert judged(made).asked - sound.asked == {"batches-intact": 1}


@pytest.mark.parametrize(
    ("tamper", "told"), [(epoch_left_out, "leaves it out"), (epoch_moved, "says offset 50")]
)
def test_what_the_checkpoint_of_epochs_says_is_told(tamper: Callable[[Made], None], told: str) -> None:
    made = clean()
    tamper(made)
    (finding,) = judged(made).in_logs
    assert f"leader epoch 3 begins with offset 40; leader-epoch-checkpoint {told}" in finding.text


def test_every_rule_of_the_audit_has_a_case() -> None:
    assert {name for fired in FIRES.values() for name in fired} == set(CHECKS)


def test_what_a_death_cut_off_is_legal() -> None:
    made = clean()
    one(made, "batches", take=DEAD, node=1, base=80)["intact"] = False
    made["damage"] = [damage("q-0/00000000000000000000.log", take=DEAD, node=1, position=9999, why="cut")]
    found = judged(made)
    assert not found.in_logs
    assert not found.doubts


def foreign_bytes(made: Made) -> None:
    made["damage"] = [damage("q-0/00000000000000000000.log", take=DEAD, node=1, position=9999, why="cut")]


def bad_checksum(made: Made) -> None:
    one(made, "batches", take=DEAD, node=1, base=80)["intact"] = False


@pytest.mark.parametrize(("tamper", "offset"), [(foreign_bytes, 90), (bad_checksum, 80)])
@pytest.mark.parametrize(
    ("files", "why", "mark", "refused"),
    [
        (1, KILLED, {}, False),
        (2, KILLED, {}, True),
        (2, KILLED, {"cleaner": 40}, False),  # the empty file may be one that was cleaned
        (2, LOST_POWER, {"recovery-point": 80}, False),  # it was not flushed
        (2, LOST_POWER, {"recovery-point": 91}, True),
    ],
)
def test_a_death_cuts_off_the_end_of_the_last_file_also_where_that_has_no_batch_yet(
    tamper: Callable[[Made], None], offset: int, files: int, why: str, mark: dict[str, int], refused: bool
) -> None:
    """The node died just after it had begun the next segment: the one before was whole."""
    made = clean()
    tamper(made)
    one(made, "partitions", take=DEAD)["files"] = files
    made["takes"][0]["why"] = why
    made["ends"] += [at(TP, 1, take=DEAD, file=name, value=value) for name, value in mark.items()]
    found = [(each.check, each.offset) for each in judged(made).in_logs if each.check == "batches-intact"]
    assert found == ([("batches-intact", offset)] if refused else [])


def test_a_last_file_that_has_damage_alone_is_the_one_that_a_death_cut() -> None:
    made = clean()
    made["damage"] = [damage(f"q-0/{90:020}.log", take=DEAD, node=1, position=0, why="cut")]
    one(made, "partitions", take=DEAD)["files"] = 2
    assert not judged(made).in_logs
    made["damage"].append(damage(f"q-0/{0:020}.log", take=DEAD, node=1, position=9999, why="cut"))
    assert [(each.check, each.offset) for each in judged(made).in_logs] == [("batches-intact", 90)]


def test_damage_before_the_end_of_a_log_is_none_that_a_death_leaves() -> None:
    made = clean()
    one(made, "batches", take=DEAD, node=1, base=70)["intact"] = False
    assert [each.offset for each in judged(made).in_logs] == [70]
    made["takes"][0]["why"] = LOST_POWER
    assert not judged(made).in_logs


def test_what_was_not_flushed_may_be_gone_after_a_loss_of_power() -> None:
    made = clean()
    watermark_beyond_where_a_node_died(made)
    made["takes"][0]["why"] = LOST_POWER
    found = judged(made)
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["ends-within-log"]


def test_a_broker_that_lost_power_may_not_have_noted_its_watermark_again() -> None:
    made = clean()
    watermark_beyond(made)
    made["metadata"] = elections((1, 1), (3, 2), (4, 3))
    assert "ends-within-log" in {each.check for each in judged(made).in_logs}
    made["takes"][0]["why"] = LOST_POWER
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {"ends-within-log", "replicas-equal"}


@pytest.mark.parametrize(
    ("away", "doubted"), [((), False), ((1,), False), ((2,), True), ((2, 3), True), ((3, 4), False)]
)
def test_the_watermark_of_a_replica_that_came_back_may_be_that_of_its_log_before(
    away: tuple[int, ...], doubted: bool
) -> None:
    """A reassignment took the replica of node 1 away in the states of these numbers, from 1 on. Where it
    never had one before, or never came back, the watermark is that of the log that the death left."""
    made = clean()
    watermark_beyond_where_a_node_died(made)
    made["metadata"] = elections((1, 1), (3, 2), (4, 2), (5, 2))
    for number, row in enumerate(made["metadata"][1:], start=1):
        row["replicas"] = row["isr"] = [2, 3] if number in away else [1, 2, 3]
    found = judged(made)
    assert ("ends-within-log" in {each.check for each in found.in_logs}) is not doubted
    assert ("ends-within-log" in {doubt.check for doubt in found.doubts}) is doubted


def test_records_that_were_deleted_are_not_in_the_epochs() -> None:
    """DeleteRecords up to offset 47; the segment is still there."""
    made = clean()
    for row in made["ends"]:
        row["value"] = 47 if row["file"] == "log-start" else row["value"]
    made["epochs"] = [row for row in made["epochs"] if not row["take"] or row["epoch"] > 1]
    for row in made["epochs"]:
        row["start"] = 47 if row["take"] and row["epoch"] == 3 else row["start"]
    assert not judged(made).in_logs
    one(made, "epochs", take=1, node=2, epoch=4)["start"] = 70
    assert [(each.check, each.offset) for each in judged(made).in_logs] == [("epoch-checkpoint", 60)]


def test_a_node_that_died_may_not_have_noted_which_records_were_deleted() -> None:
    """DeleteRecords up to offset 47, a moment before the death."""
    made = clean()
    made["epochs"].remove(one(made, "epochs", take=DEAD, node=1, epoch=1))
    one(made, "epochs", take=DEAD, node=1, epoch=3)["start"] = 47
    found = judged(made)
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["epoch-checkpoint"]
    made["nodes"].append({"take": DEAD, "node": 1, "clean_shutdown": True})
    assert {each.check for each in judged(made).in_logs} == {"epoch-checkpoint"}


def test_records_are_deleted_in_all_logs_of_a_partition() -> None:
    made = clean()
    made["nodes"] = []  # they ran when they were read
    one(made, "epochs", take=1, node=3, epoch=1)["start"] = 5
    assert [(each.check, each.nodes) for each in judged(made).in_logs] == [("epoch-checkpoint", (3,))]
    for node in (1, 2):
        one(made, "epochs", take=1, node=node, epoch=1)["start"] = 5
    found = judged(made)
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["epoch-checkpoint"]


def test_the_log_of_the_leader_shows_first_that_records_were_deleted() -> None:
    made = clean()
    made["nodes"] = []
    made["metadata"] = elections((1, 1), (3, 2), (4, 1))
    for row in made["partitions"]:
        row["topic_id"] = "id"
    for node in (2, 3):
        one(made, "epochs", take=1, node=node, epoch=1)["start"] = 1
    assert [(each.check, each.nodes) for each in judged(made).in_logs] == [
        ("epoch-checkpoint", (2,)),
        ("epoch-checkpoint", (3,)),
    ]
    one(made, "epochs", take=1, node=1, epoch=1)["start"] = 1
    assert not judged(made).in_logs


def test_a_topic_that_was_deleted_and_created_again_has_other_records() -> None:
    made = clean()
    other_tail = [row for row in made["batches"] if row["take"] == DEAD and row["base"] == 10]
    other_tail[0]["crc"] = 99
    assert [(each.check, each.offset) for each in judged(made).in_logs] == [("log-matching", 10)]
    for row in made["partitions"]:
        row["topic_id"] = "new" if row["take"] else "old"
    created = [{"name": "TopicRecord", "topic": "q", "topic_id": name} for name in ("old", "new")]
    place = {"take": 1, "node": 1, "snapshot": -1}
    made["metadata"] = [place | {"offset": number} | row for number, row in enumerate(created)]
    assert not judged(made).in_logs


@pytest.mark.parametrize("old", [range(0, 40), range(90, 100), range(70, 80)])
def test_a_log_may_have_an_old_format_beside_the_newer_one(old: range) -> None:
    """Messages of an old format have no leader epoch, and no entry in leader-epoch-checkpoint."""
    made = clean()
    for row in made["batches"]:
        row["leader_epoch"] = -1 if row["base"] in old else row["leader_epoch"]
    if 0 in old:
        made["epochs"] = [row for row in made["epochs"] if row["epoch"] > 1]
    assert not judged(made).in_logs
    for row in made["batches"]:
        row["leader_epoch"] = (
            1 if row["base"] in (80, 90) and row["leader_epoch"] > 0 else row["leader_epoch"]
        )
    assert "epochs-rise" in {each.check for each in judged(made).in_logs}
    epoch_moved(made)
    assert "epoch-checkpoint" in {each.check for each in judged(made).in_logs}


def of_two_topics(made: Made) -> None:
    """The node that was killed had the first one; of those of the end one has a damaged batch."""
    for row in made["partitions"]:
        row["topic_id"] = "new" if row["take"] else "old"
    one(made, "batches", take=1, node=2, base=30)["intact"] = False


@pytest.mark.parametrize(("snapshot", "offset"), [(-1, 460), (500, 60), (500, 100), (460, 0)])
def test_a_snapshot_of_the_metadata_log_has_the_topic_that_was_created_last(
    snapshot: int, offset: int
) -> None:
    """Its records are counted from 0; the log of the end begins behind it. The first topic's record stood in
    the log at offset 450."""
    made = clean()
    of_two_topics(made)
    record = {"name": "TopicRecord", "topic": "q"}
    made["metadata"] = [
        record | {"take": DEAD, "node": 1, "snapshot": -1, "offset": 450, "topic_id": "old"},
        record | {"take": DEAD, "node": 1, "snapshot": 451, "offset": 400, "topic_id": "old"},
        record | {"take": 1, "node": 1, "snapshot": snapshot, "offset": offset, "topic_id": "new"},
    ]
    one(made, "batches", take=DEAD, node=1, base=10)["crc"] = 99
    found = {(each.check, each.offset) for each in judged(made).in_logs}
    assert ("batches-intact", 30) in found
    assert {offset for _, offset in found} == {30}


@pytest.mark.parametrize("last", ["new", None, "old"])
def test_without_a_metadata_log_the_topic_is_that_of_most_directories_of_the_end(last: str | None) -> None:
    made = clean()
    of_two_topics(made)
    one(made, "partitions", take=1, node=3)["topic_id"] = last
    assert ("batches-intact", 30) in {(each.check, each.offset) for each in judged(made).in_logs}


@pytest.mark.parametrize("topic_id", [None, "id"])
@pytest.mark.parametrize(("remade_ns", "compared"), [(-1, True), (0, True), (1, False), (FOREVER, False)])
def test_where_topics_have_no_id_what_was_read_before_they_were_made_again_is_compared_with_nothing(
    topic_id: str | None, remade_ns: int, compared: bool
) -> None:
    """Brokers before 2.8 note none, and on ZooKeeper each new topic begins with the same leader epoch."""
    made = clean()
    (other,) = [row for row in made["batches"] if row["take"] == DEAD and row["base"] == 10]
    other["crc"] = 99
    for row in made["partitions"]:
        row["topic_id"] = topic_id
    windows = RunWindows(remade_ns=remade_ns)
    found = of_partition(CHECKS, Evidence(tables(made)), TP, windows=windows)
    expected = [("log-matching", 10)] if compared or topic_id else []
    assert [(each.check, each.offset) for each in found.in_logs] == expected
    assert found.asked["log-matching"] == (21 if expected else 20)


@pytest.mark.parametrize(
    ("names", "new", "compared"), [(2, [1, 2], False), (2, [3, 2], True), (1, [1, 2], True)]
)
def test_a_node_that_was_taken_off_may_keep_the_log_of_a_topic_that_is_gone(
    names: int, new: list[int], compared: bool
) -> None:
    """It was down as its replica was taken off, so that it kept the folder; then the topic was made again."""
    made = clean()
    for row in made["batches"]:
        row["crc"] += row["node"] == 3 and row["base"] == 10
    topic = f"/brokers/topics/{TP.topic}"
    first, last = ({"partitions": {"0": nodes}} for nodes in ([1, 2, 3], new))
    rows = [change(1, 1, "create", "/brokers"), change(2, 1, "create", topic, first)]
    rows += [change(3, 1, "create", f"{topic}/partitions/0/state", LED)]
    if names == 1:
        rows.append(change(4, 1, "set", topic, last))
    else:
        rows += [change(4, 1, "delete", topic, None), change(5, 1, "create", topic, last)]
        rows.append(change(6, 1, "create", f"{topic}/partitions/0/state", LED))
    made["znodes"] = rows
    found = {each.check for each in judged(made).in_logs}
    assert found == ({"log-matching", "replicas-equal"} if compared else set())


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"])
def test_the_logs_of_internal_topics_are_compared_also_where_the_topics_of_the_run_were_made_again(
    topic: str,
) -> None:
    """No fault deletes them."""
    made = clean()
    (other,) = [row for row in made["batches"] if row["take"] == DEAD and row["base"] == 10]
    other["crc"] = 99
    for row in (row for rows in made.values() for row in rows if row.get("topic") == TP.topic):
        row["topic"] = topic
    tp = TopicPartition(topic, TP.partition)
    found = of_partition(CHECKS, Evidence(tables(made)), tp, windows=RunWindows(remade_ns=FOREVER))
    assert [(each.check, each.offset) for each in found.in_logs] == [("log-matching", 10)]
    assert found.asked["log-matching"] == 21


def test_logs_of_the_end_are_compared_also_where_topics_were_made_again() -> None:
    made = clean()
    one(made, "batches", take=1, node=2, base=10)["crc"] = 99
    found = of_partition(CHECKS, Evidence(tables(made)), TP, windows=RunWindows(remade_ns=FOREVER))
    assert {(each.check, each.nodes) for each in found.in_logs} >= {("log-matching", (1, 2))}


@pytest.mark.parametrize("heard_s", [74, 75])
def test_records_that_were_deleted_from_a_namesake_moved_no_epoch(heard_s: int) -> None:
    """The checkpoint of log starts is that of the deleted topic, until the broker writes it again."""
    made = clean()
    namesakes(made, heard_s)
    one(made, "ends", take=1, node=1, file="log-start")["value"] = 47
    found = judged(made)
    assert {each.check for each in found.in_logs} == ({"epoch-checkpoint"} if heard_s == 75 else set())
    assert not found.doubts


@pytest.mark.parametrize("heard_s", [74, 75])
def test_beside_a_namesake_records_may_have_been_deleted_from_this_log(heard_s: int) -> None:
    made = clean()
    namesakes(made, heard_s)
    one(made, "ends", take=1, node=1, file="log-start")["value"] = 47
    made["epochs"].remove(one(made, "epochs", take=1, node=1, epoch=1))
    one(made, "epochs", take=1, node=1, epoch=3)["start"] = 47
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == ({"epoch-checkpoint"} if heard_s == 74 else set())


@pytest.mark.parametrize("heard_s", [14, 15])
def test_the_watermark_of_a_namesake_says_nothing_of_what_replicas_have(heard_s: int) -> None:
    made = clean()
    namesakes(made, heard_s)
    one(made, "batches", take=1, node=2, base=80)["crc"] = 99
    found = judged(made)
    assert ("replicas-equal" in {each.check for each in found.in_logs}) is (heard_s == 15)
    assert ("replicas-equal" in {doubt.check for doubt in found.doubts}) is (heard_s == 14)


def test_a_loss_of_power_leaves_holes() -> None:
    made = clean()
    one(made, "batches", take=DEAD, node=1, base=30)["intact"] = False
    assert {each.check for each in judged(made).in_logs} == {"batches-intact", "log-matching"}
    made["takes"][0]["why"] = LOST_POWER
    assert not judged(made).in_logs


@pytest.mark.parametrize(
    ("why", "node", "start", "found"),
    [(LOST_POWER, 1, 50, []), (LOST_POWER, 1, 55, [40]), (LOST_POWER, 2, 50, [40]), (KILLED, 1, 50, [40])],
)
def test_an_epoch_that_a_node_led_before_it_lost_power_may_begin_where_the_loss_cut_its_log(
    why: str, node: int, start: int, found: list[int]
) -> None:
    """It starts as leader of an epoch that begins at 60, with a log that ends at 50; then it follows."""
    made = clean()
    made["takes"][0]["why"] = why
    made["batches"] = [row for row in made["batches"] if row["take"] != DEAD or row["base"] < 50]
    one(made, "epochs", take=1, node=node, epoch=3)["start"] = start
    judgement = judged(made)
    mine = [each.offset for each in judgement.in_logs if each.check == "epoch-checkpoint"]
    assert mine == found
    assert not found or not any(doubt.check == "epoch-checkpoint" for doubt in judgement.doubts)
    assert found or any("loss of power cut its log" in doubt.why for doubt in judgement.doubts)


def test_the_newest_bytes_of_a_node_that_ran_are_in_doubt() -> None:
    made = clean()
    made["nodes"] = []
    made["damage"] = [damage("q-0/00000000000000000000.log", position=9999, why="cut")]
    found = judged(made)
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["batches-intact"]


def test_an_epoch_that_a_dead_node_had_just_truncated_is_in_doubt() -> None:
    made = clean()
    made["epochs"].append(at(TP, 1, take=DEAD, epoch=2, start=20))
    found = judged(made)
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["epoch-checkpoint"]


def test_compacted_offsets_are_not_compared() -> None:
    made = clean()
    made["ends"].append(at(TP, 2, take=1, file="cleaner", value=40))
    dropped_in_one(made)
    assert not judged(made).in_logs


def test_after_an_unclean_election_replicas_may_differ() -> None:
    made = clean()
    other_tail_below_the_watermark(made)
    made["metadata"] = elections((1, 1), (3, 2), (4, 3))
    assert len(judged(made).in_logs) == 1
    made["metadata"][-1]["isr"] = [3]
    made["metadata"][-2]["isr"] = [2]
    found = judged(made)
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["replicas-equal"]


def test_replicas_that_are_not_known_to_be_in_sync_differ_below_both_watermarks() -> None:
    made = clean()
    other_bytes(made)
    (sentence,) = (one.text for one in judged(made).in_logs if one.check == "replicas-equal")
    assert "both know all offsets to be committed below the high watermark 100" in sentence


@pytest.mark.parametrize("where", [(DEAD, 1), (1, 1)])
@pytest.mark.parametrize("more", [0, 30])
def test_logs_that_begin_and_end_at_other_offsets_are_compared_where_both_are(
    where: tuple[int, int], more: int
) -> None:
    """The segments before offset 30 are gone in one of them; the dead node had more that nobody committed."""
    made = clean()
    made["batches"] = [
        row for row in made["batches"] if (row["take"], row["node"]) != where or row["base"] >= 30
    ]
    tail = range(OLD_TAIL + 30, OLD_TAIL + 30 + more, 10)
    made["batches"] += [
        batch(TP, 1, base, last=base + 9, position=base * 99, records=10, leader_epoch=3, take=DEAD)
        for base in tail
    ]
    made["batches"].sort(key=lambda row: (row["take"], row["node"], row["base"]))
    for row in made["partitions"]:
        row["start"] = 30 if (row["take"], row["node"]) == where else row["start"]
    assert not [one for one in judged(made).in_logs if one.check in ("log-matching", "replicas-equal")]
    one(made, "batches", take=DEAD, node=1, base=30)["crc"] = 1
    assert ("log-matching", 30) in {(one.check, one.offset) for one in judged(made).in_logs}


@pytest.mark.parametrize("other", [-1, 60, 70])
def test_two_logs_whose_ends_nobody_else_has_agree_with_each_other(other: int) -> None:
    """Nodes 1 and 2 died in epoch 3, with an end that epoch 4 never had. other: a batch that differs."""
    made = clean()
    made["takes"].append({"take": DEAD, "node": 2, "at_ns": 1, "why": KILLED})
    made["partitions"].append(whole(TP, 2) | {"take": DEAD})
    made["batches"] += [row | {"node": 2} for row in made["batches"] if row["take"] == DEAD]
    made["batches"].sort(key=lambda row: (row["take"], row["node"], row["base"]))
    if other >= 0:
        one(made, "batches", take=DEAD, node=2, base=other)["crc"] = 7
    found = [(each.offset, each.nodes) for each in judged(made).in_logs if each.check == "log-matching"]
    assert found == ([(other, (1, 2))] if other >= 0 else [])


def test_an_in_sync_replica_that_lacks_what_is_committed() -> None:
    made = clean()
    made["batches"] = [row for row in made["batches"] if (row["take"], row["node"]) != (1, 3)] + log(1, 3, 90)
    one(made, "ends", take=1, node=3, file="replication")["value"] = 90
    made["metadata"] = elections((1, 1), (3, 2), (4, 1))
    found = judged(made)
    assert [(each.check, each.offset, each.nodes) for each in found.in_logs] == [
        ("replicas-equal", 90, (1, 3))
    ]
    assert "in-sync replicas have all offsets below the high watermark 100" in found.in_logs[0].text
    assert "producer 7/0 from sequence 90" in found.in_logs[0].text
    one(made, "ends", take=1, node=3, file="replication")["value"] = 0  # it has begun to follow
    begun = judged(made)
    assert ([each.offset for each in begun.in_logs], begun.doubts) == ([90], [])
    made["metadata"][-1]["isr"] = [1, 3]  # no other one has to be in sync
    assert [(each.offset, each.nodes) for each in judged(made).in_logs] == [(90, (1, 3))]
    made["metadata"][-1]["isr"] = [1, 2]  # it lags, and the high watermark does not wait for it
    assert not judged(made).in_logs


@pytest.mark.parametrize(("in_sync", "start"), [([1, 2, 3], 0), ([1, 2], 0), ([1, 2, 3], 100)])
def test_a_replica_without_any_record(in_sync: list[int], start: int) -> None:
    """start: where its log begins; all records before it may have been deleted."""
    made = clean()
    made["batches"] = [row for row in made["batches"] if (row["take"], row["node"]) != (1, 3)]
    made["epochs"] = [row for row in made["epochs"] if (row["take"], row["node"]) != (1, 3)]
    one(made, "partitions", take=1, node=3)["start"] = start
    for name in ("replication", "recovery-point"):
        one(made, "ends", take=1, node=3, file=name)["value"] = start
    made["metadata"] = elections((1, 1), (3, 2), (4, 1))
    made["metadata"][-1]["isr"] = in_sync
    found = [(each.check, each.offset, each.nodes) for each in judged(made).in_logs]
    assert found == ([("replicas-equal", 0, (1, 3))] if (len(in_sync), start) == (3, 0) else [])


def test_a_log_in_disorder_is_not_compared() -> None:
    made = clean()
    early, late = (one(made, "batches", take=1, node=3, base=base) for base in (50, 60))
    early["position"], late["position"] = late["position"], early["position"]
    checks = {each.check for each in judged(made).in_logs}
    assert "offsets-dense" in checks
    assert "replicas-equal" not in checks


def elections(*leaders: tuple[int, int]) -> list[dict[str, Any]]:
    """A metadata log with one topic and these (leader epoch, leader), all of them in sync."""
    rows: list[dict[str, Any]] = [{"name": "TopicRecord", "topic": "q", "topic_id": "id"}]
    for epoch, leader in leaders:
        name = "PartitionChangeRecord" if len(rows) > 1 else "PartitionRecord"
        state = {"partition_leader_epoch": epoch, "leader": leader, "isr": [1, 2, 3]}
        rows.append({"name": name, "topic_id": "id", "partition": 0, **state})
    return [
        {"take": 1, "node": 1, "snapshot": -1, "offset": number, **row} for number, row in enumerate(rows)
    ]


def test_the_files_of_a_real_broker_are_in_order() -> None:
    evidence = Evidence(merged([read(NODE, 1)]))
    found = of_all(CHECKS, evidence)
    assert not found.in_logs
    assert {doubt.why for doubt in found.doubts} == set()
    assert found.asked["epoch-checkpoint"] > len(evidence.partitions()) / 2
    assert METADATA in evidence.partitions()


def test_an_epoch_without_a_record_may_have_kept_its_entry_beside_the_next_one() -> None:
    """Before KAFKA-7415 (2.1) nothing took it away; alone it speaks of records that the log does not have."""
    made = clean()
    begins = next(row for row in made["epochs"] if row["take"] and row["node"] == 3 and row["epoch"] == 3)
    beside = begins | {"epoch": 2}
    assert not any((row["take"], row["node"], row["epoch"]) == (1, 3, 2) for row in made["epochs"])
    made["epochs"].append(beside)
    assert not judged(made).in_logs
    beside["start"] += 3
    assert {each.check for each in judged(made).in_logs} == {"epoch-checkpoint"}


def test_messages_without_leader_epochs_differ_below_the_high_watermark_or_not_at_all() -> None:
    """Formats 0 and 1: that two logs have one offset says nothing of what stands before it."""
    made = clean()
    made["epochs"] = []
    for row in made["batches"]:
        row["leader_epoch"] = -1
    found = judged(made)
    assert not found.in_logs
    assert not found.doubts
    assert not {"log-matching", "epochs-rise", "epoch-checkpoint"} & {*found.asked}
    for row in made["batches"]:
        if (row["take"], row["base"]) == (DEAD, 10):  # what a death left may be cut off later
            row["crc"] = 99
    assert not judged(made).in_logs
    one(made, "batches", take=1, node=3, base=10)["crc"] = 99
    assert {each.check for each in judged(made).in_logs} == {"replicas-equal"}


@pytest.mark.parametrize(
    ("high", "flipped", "rules"),
    [
        (9, -1, set()),
        (10, -1, {"ends-within-log"}),
        (9, 30, {"batches-intact"}),  # a byte of the first one
    ],
)
def test_a_log_of_compressed_messages_of_an_old_format_is_whole(
    tmp_path: Path, high: int, flipped: int, rules: set[str]
) -> None:
    """Kafka 0.10 and a client with `compression.type`: three messages in each of two, and plain ones."""
    packed = message(2, None, b"...", attributes=1), message(5, None, b"...", attributes=1)
    content = bytearray(b"".join((*packed, *(message(n, None, b"x") for n in range(6, 9)))))
    if flipped >= 0:
        content[flipped] ^= 1
    (tmp_path / "q-0").mkdir()
    (tmp_path / "q-0" / f"{0:020}.log").write_bytes(content)
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\nq 0 {high}\n")
    found = of_partition(CHECKS, Evidence(merged([read(tmp_path, 1)])), TP)
    assert {one.check for one in found.findings} == rules
    assert (found.doubts, found.asked["batches-intact"]) == ([], 5)
