"""Ring 3, records: each rule fires at its place, and is silent on the same logs without the fault."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs.elections import elections
from checkers.logs.lineage import CHECKS, IN_SYNC
from core.op import TopicPartition
from history.events import ClockJumped, JournalsListed
from history.evidence import Evidence
from history.evidence_tables import END, KILLED, LOST_POWER
from history.reader import History, load
from tests.checkers.logs.made import TP, at, batch, of_all, tables, whole
from tests.histories.built import Built, Op, Process, Send
from tests.histories.folders import STARTED, write_run

BEGAN_MS = 1_767_225_600_000
"""2026-01-01, when the runs of `write_run` begin."""
OFFSETS = TopicPartition("__consumer_offsets", 0)
PLACE = ("take", "node", "snapshot", "timestamp")
Made = dict[str, list[dict[str, Any]]]


def rows(take: int, node: int, end: int, since: int = 0, epoch: int = 0) -> list[dict[str, Any]]:
    """Batches of one record; of the offset o at o seconds."""
    made = []
    for base in range(since, end):
        ms = BEGAN_MS + base * 1000
        times = {"base_timestamp": ms, "max_timestamp": ms}
        made.append(batch(TP, node, base, take=take, leader_epoch=epoch, crc=base + 100 * epoch, **times))
    return made


def clean() -> Made:
    """Node 1 led epoch 0 up to offset 6 and died (take 0); node 2 leads epoch 1 from offset 5 on."""
    metadata: list[dict[str, Any]] = [
        {"name": "TopicRecord", "topic": TP.topic, "topic_id": "id"},
        {"name": "PartitionRecord", "leader": 1, "isr": [1, 2], "partition_leader_epoch": 0},
        {"name": "PartitionChangeRecord", "leader": 2, "isr": [2]},
    ]
    place = {"take": 1, "node": 2, "snapshot": -1, "topic_id": "id", "partition": TP.partition}
    place["timestamp"] = BEGAN_MS + 60_000
    return {
        "takes": [
            {"take": 0, "node": 1, "at_ns": 1, "why": KILLED},
            {"take": 1, "node": 2, "at_ns": 2, "why": END},
        ],
        "partitions": [whole(TP, 1), whole(TP, 2) | {"take": 1}],
        "batches": [*rows(0, 1, 7), *rows(1, 2, 5), *rows(1, 2, 9, since=5, epoch=1)],
        "ends": [at(TP, 1, file="replication", value=5)],
        "metadata": [place | {"offset": number} | row for number, row in enumerate(metadata)],
        "offset_log": [read_to(4, -1)],
    }


def read_to(committed: int, epoch: int, s: int | None = None) -> dict[str, Any]:
    """A group's commit; s: of the second of its last record."""
    ms = BEGAN_MS + 1000 * (committed if s is None else s)
    tp = {"committed_topic": TP.topic, "committed_partition": TP.partition}
    told = {"committed": committed, "committed_leader_epoch": epoch, "commit_ms": ms, "group": "g"}
    return at(OFFSETS, 2, take=1) | tp | told


def sent(
    tmp_path: Path,
    *offsets: int,
    acks: int = -1,
    at_s: dict[int, int] | None = None,
    settings: dict[str, Any] | None = None,
) -> History:
    """A client's records, each acknowledged at an offset within its second."""
    ops = []
    for value, offset in enumerate(offsets):
        begin = (at_s or {}).get(offset, offset) * 10**9
        mops: list[Any] = [Send(tp=0, value=value, offset=offset)]
        ops.append(Op(process=0, f="send", invoke=begin, complete=begin + 10**6, mops=mops))
    built = Built(tps=[TP.topic], ops=ops, processes={0: Process(acks=acks)})
    return load(write_run(tmp_path / "run", built.tables(), settings=settings))


def places(found: Found) -> list[tuple[str, int]]:
    return [(each.check, each.offset) for each in found.in_logs]


def test_clean_logs_are_silent_and_exercise_every_rule(tmp_path: Path) -> None:
    found = of_all(CHECKS, Evidence(tables(clean())), sent(tmp_path, 0, 4, 8))
    assert not found.in_logs
    assert not found.doubts
    assert {rule for rule in CHECKS if not found.asked[rule]} == {IN_SYNC}, "the topic has no minimum here"


def test_an_epoch_that_no_leader_was_given() -> None:
    made = clean()
    made["batches"][-1]["leader_epoch"] = 2
    found = of_all(CHECKS, Evidence(tables(made)), None)
    assert places(found) == [("epochs-given", 8)]
    assert found.in_logs[0].nodes == (2,)


def test_messages_of_old_formats_have_no_epoch_that_was_given() -> None:
    made = clean()
    for row in made["batches"]:
        row["leader_epoch"] = -1 if row["base"] < 2 else row["leader_epoch"]
    found = of_all(CHECKS, Evidence(tables(made)), None)
    assert not found.in_logs
    assert found.asked["epochs-given"]


def test_what_a_dead_node_knew_to_be_committed_is_gone() -> None:
    made = clean()
    made["ends"][0]["value"] = 6
    found = of_all(CHECKS, Evidence(tables(made)), None)
    assert places(found) == [("committed-kept", 5)]
    assert found.in_logs[0].nodes == (1, 2)


@pytest.mark.parametrize(("heard_s", "says"), [(14, "open"), (15, "found")])
@pytest.mark.parametrize("before", [True, False])
def test_a_dead_node_may_have_noted_what_was_committed_in_a_topic_that_was_deleted(
    before: bool, heard_s: int, says: str
) -> None:
    """The name was given again some seconds before the death, as far as the node had heard; it writes high
    watermarks each few seconds while it is in sync."""
    made = clean()
    made["ends"][0]["value"] = 5000
    for row in made["partitions"]:
        row["topic_id"] = "id"
    older = [{"name": "TopicRecord", "topic": TP.topic}, {"name": "RemoveTopicRecord"}] if before else []
    place = made["metadata"][0]
    for row in made["metadata"]:
        row["offset"] += len(older)
    made["metadata"] = [
        *(place | row | {"topic_id": "old", "offset": number} for number, row in enumerate(older)),
        *made["metadata"],
    ]
    made["metadata"][-1]["timestamp"] += 60_000  # node 2 leads a minute later
    made["metadata"][-1]["offset"] += 10
    disk = [row | {"take": 0, "node": 1} for row in made["metadata"][:-1]]
    noted = disk[-1] | {"name": "NoOpRecord", "topic_id": None, "partition": -1, "isr": None}
    noted["timestamp"] += heard_s * 1000
    made["metadata"] += [*disk, noted | {"offset": noted["offset"] + 1}]
    made["metadata"].sort(key=lambda row: (row["take"], row["offset"]))
    found = of_all(CHECKS, Evidence(tables(made)), None)
    expected = says if before else "found"
    assert (("committed-kept", 5) in places(found)) is (expected == "found")
    assert ("committed-kept" in {doubt.check for doubt in found.doubts}) is (expected == "open")


@pytest.mark.parametrize("lost", [False, True])
def test_messages_without_a_time_are_held_at_any_time(tmp_path: Path, lost: bool) -> None:
    """Those of message format 0 have none."""
    made = clean()
    for row in made["batches"]:
        row |= {"base_timestamp": -1, "max_timestamp": -1}
    if lost:
        del made["batches"][-1]
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 0, 4, 8))
    assert places(found) == ([("acknowledged-held", 8)] if lost else [])
    assert not found.doubts


Changes = list[tuple[int, dict[str, Any]]]


def with_minimum(made: Made, minimum: str, *more: tuple[int, dict[str, Any]], late: bool = False) -> Made:
    """The topic has this min.insync.replicas from its begin on, or a later one. more: changes of the
    partition, each with its second; node 2 leads from second 5 on."""
    topic, first, elected = made["metadata"]
    body = {"resourceType": 2, "resourceName": TP.topic, "name": "min.insync.replicas", "value": minimum}
    config = {**dict.fromkeys(topic), **{k: topic[k] for k in PLACE}}
    config |= {"name": "ConfigRecord", "body": json.dumps(body)}
    first |= {"replicas": [1, 2, 3]}
    changes = [(s, elected | {"leader": None} | row) for s, row in more]
    order = [(0, topic), (0, first), (0, config)] if late else [(0, topic), (0, config), (0, first)]
    made["metadata"] = [
        row | {"offset": number, "timestamp": BEGAN_MS + s * 1000}
        for number, (s, row) in enumerate([*order, (5, elected), *changes])
    ]
    return made


@pytest.mark.parametrize(
    ("minimum", "more", "early"),
    [
        ("2", [], [6, 8]),
        ("3", [], [0, 4, 6, 8]),
        ("2", [(7, {"isr": [2, 3]})], [6]),
        ("2", [(7, {"isr": [2, 3]}), (7, {"isr": [2]})], [6]),  # it may not have heard of the second
        ("2", [(60, {"isr": [2, 3]})], [6, 8]),
        ("2", [(5, {"isr": [1, 2]})], []),
    ],
)
def test_a_record_acknowledged_where_too_few_had_been_in_sync(
    tmp_path: Path, minimum: str, more: Changes, early: list[int]
) -> None:
    made = with_minimum(clean(), minimum, *more)
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path / "all", 0, 4, 6, 8))
    assert places(found) == [("acknowledged-in-sync", offset) for offset in early]
    assert not found.doubts
    assert found.asked["acknowledged-in-sync"] == 4
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path / "one", 0, 4, 6, 8, acks=1))
    assert not found.in_logs
    assert not found.asked["acknowledged-in-sync"]


@pytest.mark.parametrize(
    ("minimum", "late", "replicas"), [("1", False, [1, 2, 3]), ("2", True, [1, 2, 3]), ("2", False, [1])]
)
def test_where_the_leader_alone_may_have_been_enough_nothing_is_asked(
    tmp_path: Path, minimum: str, late: bool, replicas: list[int]
) -> None:
    """Before the topic had a minimum of its own, the brokers' may have been in force: it is unknown."""
    made = with_minimum(clean(), minimum, late=late)
    for row in made["metadata"]:
        row |= {"replicas": replicas} if row.get("replicas") else {}
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 0, 4, 6, 8))
    assert not found.asked["acknowledged-in-sync"]
    assert (found.in_logs, found.doubts) == ([], [])


def test_where_records_may_be_lost_it_may_be_another_record(tmp_path: Path) -> None:
    """Brokers that lost their power may have lost the acknowledged one, and another one took its place."""
    made = with_minimum(clean(), "2")
    made["takes"] += [{"take": 0, "node": node, "at_ns": 1, "why": LOST_POWER} for node in (1, 2)]
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 8))
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["acknowledged-in-sync"]


def test_a_log_that_is_damaged_from_its_first_batch_on_is_not_compared() -> None:
    """The audit speaks of the damage."""
    made = clean()
    made["ends"][0]["value"] = 6
    made["batches"][0]["intact"] = False
    assert made["batches"][0]["take"] == 0
    found = of_all(CHECKS, Evidence(tables(made)), None)
    assert places(found) == []
    assert not found.asked["committed-kept"]


def test_a_log_that_ends_before_what_was_committed() -> None:
    made = clean()
    made["batches"] = [*rows(0, 1, 7), *rows(1, 2, 4)]
    assert places(of_all(CHECKS, Evidence(tables(made)), None)) == [("committed-kept", 4)]


@pytest.mark.parametrize("offset", [9, 20])
def test_an_acknowledged_offset_beyond_the_end(tmp_path: Path, offset: int) -> None:
    found = of_all(CHECKS, Evidence(tables(clean())), sent(tmp_path, 3, offset))
    assert places(found) == [("acknowledged-held", offset)]
    assert "node 2 at the end has no record there; its log ends at 9" in found.in_logs[0].text


def test_another_record_where_one_was_acknowledged(tmp_path: Path) -> None:
    found = of_all(CHECKS, Evidence(tables(clean())), sent(tmp_path, 3, 6, at_s={6: 2}))
    assert places(found) == [("acknowledged-held", 6)]
    assert "of 1767225606000 to 1767225606000 ms; the client sent its record" in found.in_logs[0].text
    assert not of_all(
        CHECKS, Evidence(tables(clean())), sent(tmp_path / "1", 3, 6, acks=1, at_s={6: 2})
    ).in_logs


@pytest.mark.parametrize(
    ("sut", "begin_ms", "end_ms", "held"),
    [
        *(("simulated", 5000, 5995, True), ("simulated", 5000, 5993, False)),
        *(("simulated", 6005, 6500, True), ("simulated", 6006, 6500, False), ("simulated", 5999, 6001, True)),
        *(("kafka", 5000, 5500, True), ("kafka", 5000, 5498, False)),
        *(("kafka", 6500, 7000, True), ("kafka", 6501, 7000, False)),
    ],
)
def test_a_record_was_made_while_its_client_waited_but_for_the_clocks(
    tmp_path: Path, sut: str, begin_ms: int, end_ms: int, held: bool
) -> None:
    """The batch at offset 6 was made at 6000 ms. In virtual time two clocks may differ by 5 ms; that
    of a machine may be set by half a second before the harness notes it."""
    send = Send(tp=0, value=0, offset=6)
    op = Op(process=0, f="send", invoke=begin_ms * 10**6, complete=end_ms * 10**6, mops=[send])
    built = Built(tps=[TP.topic], ops=[op], processes={0: Process(acks=-1)})
    history = load(write_run(tmp_path / "run", built.tables(), settings={"sut": sut}))
    wrong = [] if held else [("acknowledged-held", 6)]
    assert places(of_all(CHECKS, Evidence(tables(clean())), history)) == wrong


def test_an_acknowledged_offset_before_the_first_batch(tmp_path: Path) -> None:
    made = clean()
    made["batches"] = [row for row in made["batches"] if row["base"] >= 3]
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 2, 3))
    assert ("acknowledged-held", 2) in places(found)
    assert ("acknowledged-held", 3) not in places(found)


@pytest.mark.parametrize(
    ("sut", "ms", "lost"),
    [
        *(("simulated", 4995, False), ("simulated", 4994, True)),
        *(("kafka", 4500, False), ("kafka", 4499, True), ("", 4500, False), ("", 4499, True)),
    ],
)
def test_a_record_that_was_made_after_a_group_had_read_it_but_for_the_clocks(
    tmp_path: Path, sut: str, ms: int, lost: bool
) -> None:
    """It was made at 5000 ms, and the broker's clock was set before it noted the commit. sut "": unknown."""
    made = clean()
    made["offset_log"].append(read_to(6, -1) | {"commit_ms": BEGAN_MS + ms})
    wanted = [("consumed-kept", 5)] if lost else []
    history = sent(tmp_path, settings={"sut": sut}) if sut else None
    assert places(of_all(CHECKS, Evidence(tables(made)), history)) == wanted


@pytest.mark.parametrize(
    ("jumps", "behind_ms", "held"),
    [
        ((-2.0,), 2500, True),
        ((-2.0,), 2501, False),
        ((1.0, -2.0), 2500, True),  # from one second ahead to one behind
        ((1.0, -2.0), 2501, False),
        ((-1.0, -1.0), 2500, True),
        ((3.0, -3.0), 3500, True),  # between the two
        ((3.0, -3.0), 3501, False),
        ((), 501, False),
    ],
)
def test_a_clock_that_jumped_may_have_been_that_of_a_record(
    tmp_path: Path, jumps: tuple[float, ...], behind_ms: int, held: bool
) -> None:
    """The batch at offset 6 was made at 6000 ms, and its client sent it later than that."""
    begin = (6000 + behind_ms) * 10**6
    send = Send(tp=0, value=0, offset=6)
    op = Op(process=0, f="send", invoke=begin, complete=begin + 10**6, mops=[send])
    built = Built(tps=[TP.topic], ops=[op], processes={0: Process(acks=-1)})
    events = [ClockJumped(before_ns=n * 10**9, ns=n * 10**9 + 1, wall_s=s) for n, s in enumerate(jumps, 1)]
    history = load(write_run(tmp_path / "run", built.tables(), events=[STARTED, *events]))
    wrong = [] if held else [("acknowledged-held", 6)]
    assert places(of_all(CHECKS, Evidence(tables(clean())), history)) == wrong


def test_a_marker_may_be_younger_than_the_commit_of_an_offset_behind_it() -> None:
    made = clean()
    made["batches"][-4]["control"] = True
    made["offset_log"].append(read_to(6, -1, 4))
    assert made["batches"][-4]["base"] == 5
    assert not of_all(CHECKS, Evidence(tables(made)), None).in_logs


def test_a_marker_where_a_record_was_acknowledged(tmp_path: Path) -> None:
    made = clean()
    made["batches"][-1]["control"] = True
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 8))
    assert places(found) == [("acknowledged-held", 8)]
    assert "a control record at offset 8" in found.in_logs[0].text
    assert "the client sent its record from" not in found.in_logs[0].text  # its time is not the point


@pytest.mark.parametrize(
    ("committed", "epoch", "s", "lost"),
    [
        (10, 1, 10, 9),  # the log ends before
        (6, 0, 6, 5),  # there is a record of a later epoch
        (6, -1, 4, 5),  # the record was made after the commit
        (6, -1, 6, None),
        (6, 1, 6, None),
        (5, 1, 5, None),  # a position can have a later epoch than the record before it
    ],
)
def test_what_a_group_has_read(committed: int, epoch: int, s: int, lost: int | None) -> None:
    made = clean()
    made["offset_log"].append(read_to(committed, epoch, s))
    wanted = [] if lost is None else [("consumed-kept", lost)]
    assert places(of_all(CHECKS, Evidence(tables(made)), None)) == wanted


@pytest.mark.parametrize("compression", [0, 3])
def test_commits_in_compressed_batches_may_be_missing(compression: int) -> None:
    made = clean()
    log = TopicPartition("__consumer_offsets", 0)
    made["batches"].append(batch(log, 1, 0, take=1, compression=compression))
    found = of_all(CHECKS, Evidence(tables(made)), None)
    assert not found.in_logs
    open_ = [doubt.log for doubt in found.doubts if doubt.check == "consumed-kept"]
    assert open_ == ([TP] if compression else [])
    made["offset_log"].append(read_to(10, 1, 10))
    assert places(of_all(CHECKS, Evidence(tables(made)), None)) == [("consumed-kept", 9)]


def test_what_a_group_has_read_may_be_gone_after_an_unclean_election_only() -> None:
    made = clean()
    made["offset_log"].append(read_to(6, 0))
    made["metadata"][1]["isr"] = [1]
    found = of_all(CHECKS, Evidence(tables(made)), None)
    assert not found.in_logs
    assert "consumed-kept" in {doubt.check for doubt in found.doubts}


@pytest.mark.parametrize("cause", ["unclean", "power", "unknown", "not in sync", "damaged"])
def test_where_records_may_be_lost_rightly_there_is_a_doubt(tmp_path: Path, cause: str) -> None:
    made = clean()
    made["ends"][0]["value"] = 6
    if cause == "unclean":
        made["metadata"][1]["isr"] = [1]
    elif cause == "power":
        made["takes"][0]["why"] = LOST_POWER
    elif cause == "not in sync":  # the node that is has not been taken
        made["metadata"][2] |= {"leader": 3, "isr": [3]}
        made["metadata"][1]["isr"] = [1, 2, 3]
    elif cause == "damaged":
        made["batches"][-1]["intact"] = False
    else:
        made["metadata"] = []
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 9))
    assert not found.in_logs
    assert {"committed-kept", "acknowledged-held"} <= {doubt.check for doubt in found.doubts}


@pytest.mark.parametrize(("s", "lost"), [(8, [9]), (9.6, [])])
def test_an_unclean_election_takes_nothing_that_was_made_when_the_old_leader_had_heard_of_it(
    tmp_path: Path, s: float, lost: list[int]
) -> None:
    """It was at 4 s; the old leader was in sync again at `s`, and until then it may have answered. Record 9
    was made and acknowledged at 9 s; clocks are half a second apart at most."""
    made = clean()
    made["metadata"][1]["isr"] = [1]
    made["metadata"][2]["timestamp"] = BEGAN_MS + 4000
    back = {"offset": 3, "leader": -2, "isr": [1, 2], "timestamp": BEGAN_MS + round(s * 1000)}
    made["metadata"].append(made["metadata"][2] | back)
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 9))
    assert places(found) == [("acknowledged-held", offset) for offset in lost]


def test_an_unclean_election_before_excuses_nothing() -> None:
    made = clean()
    made["metadata"][1] |= {"leader": 2, "isr": [2]}
    change = {"name": "PartitionChangeRecord", "leader": 1, "isr": [1]}
    made["metadata"][2] |= change
    for row in made["batches"]:
        row["leader_epoch"] += 1
    made["metadata"].append(made["metadata"][2] | {"offset": 3, "leader": 2, "isr": [2]})
    made["metadata"][2]["isr"] = [1, 2]
    made["ends"][0]["value"] = 6
    assert places(of_all(CHECKS, Evidence(tables(made)), None)) == [("committed-kept", 5)]


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(
    ("powerless", "minimum", "found"),
    [((1, 2), "2", False), ((1,), "2", True), ((1,), None, False), ((9,), None, True)],
)
def test_power_is_lost_by_as_many_replicas_as_had_to_have_a_record(
    powerless: tuple[int, ...], minimum: str | None, found: bool, *, read: bool
) -> None:
    """Also where the files of the replicas could not be taken."""
    made = clean()
    made["ends"][0]["value"] = 6
    made.setdefault("takes" if read else "unread_losses", []).extend(
        {"take": 0, "node": node, "at_ns": 1, "why": LOST_POWER} for node in powerless
    )
    if minimum:
        body = {"resourceType": 2, "resourceName": TP.topic, "name": "min.insync.replicas", "value": minimum}
        last = made["metadata"][-1]
        made["metadata"].append(
            {**dict.fromkeys(last), **{k: last[k] for k in PLACE}}
            | {"offset": last["offset"] + 1, "name": "ConfigRecord", "body": json.dumps(body)}
        )
    judged = of_all(CHECKS, Evidence(tables(made)), None)
    assert bool(judged.in_logs) is found
    assert found or "lost power" in judged.doubts[0].why


@pytest.mark.parametrize(("settings", "minimum"), [("old", 1), ("new", 2), ("both", 3)])
def test_settings_go_with_the_topic_that_had_them(settings: str, minimum: int) -> None:
    """The setting of the newest topic stands before its TopicRecord up to 3.5."""

    def setting(value: str) -> dict[str, Any]:
        body = {"resourceType": 2, "resourceName": TP.topic, "name": "min.insync.replicas", "value": value}
        return {**dict.fromkeys(topic), **{k: topic[k] for k in PLACE}} | {
            "name": "ConfigRecord",
            "body": json.dumps(body),
        }

    made = clean()
    topic, *others = made["metadata"]
    old = {"topic_id": "old"}
    rows = [topic | old, topic | old | {"name": "RemoveTopicRecord", "topic": None}, topic, *others]
    if settings != "new":
        rows.insert(1, setting("2"))
    if settings != "old":
        rows.insert(rows.index(topic), setting("3" if settings == "both" else "2"))
    made["metadata"] = [row | {"offset": number} for number, row in enumerate(rows)]
    assert elections(Evidence(tables(made)), TP).minimum == minimum


@pytest.mark.parametrize(
    ("had", "registers", "isr", "found"),
    [
        (4, True, [2], True),  # node 1 was in sync again when node 2 lost power
        (5, True, [2], True),
        (3, True, [2], False),  # it was not yet, as far as the disk of node 2 tells
        (1, True, [2], False),
        (0, True, [2], True),  # it had not heard that the partition was created: it had no log of it
        (4, False, [2], False),  # it did not start again: that was before its loss
        (4, True, [1, 2], False),  # it was never out of sync: nothing says that it has what it lost
        (None, True, [2], False),  # the disk of node 2 had no metadata
    ],
)
def test_losses_of_power_one_after_the_other_take_nothing_if_the_first_was_back(
    had: int | None, registers: bool, isr: list[int], found: bool
) -> None:
    """Node 1 lost power after record 1 of the metadata log, registered again at 3, was in sync again at 4."""
    made = clean()
    made["ends"][0]["value"] = 6
    made["takes"] += [{"take": 0, "node": node, "at_ns": 1, "why": LOST_POWER} for node in (1, 2)]
    change = made["metadata"][2] | {"isr": isr}
    made["metadata"][2] = change
    empty = {**dict.fromkeys(change), **{name: change[name] for name in PLACE}}
    body = {"resourceType": 2, "resourceName": TP.topic, "name": "min.insync.replicas", "value": "2"}
    made["metadata"] += [
        empty | {"offset": 3, "name": "RegisterBrokerRecord", "broker": 1 if registers else 7},
        change | {"offset": 4, "leader": -2, "isr": [1, 2]},
        empty | {"offset": 5, "name": "ConfigRecord", "body": json.dumps(body)},
    ]
    whole_log = list(made["metadata"])
    for node, last in ((1, 1), (2, had)):
        disk = [row for row in whole_log if last is not None and row["offset"] <= last]
        made["metadata"] += [row | {"take": 0, "node": node} for row in disk]
    judged = of_all(CHECKS, Evidence(tables(made)), None)
    assert bool(judged.in_logs) is found
    assert found or "lost power" in judged.doubts[0].why


@pytest.mark.parametrize(
    ("settings", "lost"),
    [
        ({}, [("acknowledged-held", 3)]),
        ({"topic_settings": {"retention.ms": "60000"}}, []),
        ({"topic_settings": {"retention.ms": "-1"}}, [("acknowledged-held", 3)]),
    ],
)
def test_records_below_the_start_of_the_log_are_lost_where_nothing_removes_any(
    tmp_path: Path, settings: dict[str, Any], lost: list[tuple[str, int]]
) -> None:
    made = clean()
    made["partitions"] = [row | {"start": 8} for row in made["partitions"]]
    made["batches"] = [row for row in made["batches"] if row["base"] >= 8]
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 3, 8, settings=settings))
    assert places(found) == lost
    assert found.asked["acknowledged-held"] == 1 + len(lost)


@pytest.mark.parametrize(
    ("settings", "lost"), [({}, [("committed-kept", 0)]), ({"topic_settings": {"retention.ms": "60000"}}, [])]
)
def test_a_log_that_begins_behind_all_that_a_dead_node_had(
    tmp_path: Path, settings: dict[str, Any], lost: list[tuple[str, int]]
) -> None:
    """It has no record left."""
    made = clean()
    made["partitions"][1]["start"] = 9
    made["batches"] = [row for row in made["batches"] if not row["take"]]
    made["offset_log"] = []
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, settings=settings))
    assert places(found) == lost


def test_a_log_in_disorder_is_not_compared(tmp_path: Path) -> None:
    """The audit speaks of it."""
    made = clean()
    made["batches"] += [made["batches"].pop(-3)]
    made["ends"][0]["value"] = 7
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 6, 20))
    assert not found.in_logs
    assert set(found.asked) == {"epochs-given"}


@pytest.mark.parametrize("in_sync", [False, True])
def test_what_only_a_replica_out_of_sync_has_is_lost(tmp_path: Path, in_sync: bool) -> None:
    """Node 1 is back at the end, with three more records of epoch 1 than node 2."""
    made = clean()
    made["takes"].append({"take": 1, "node": 1, "at_ns": 2, "why": END})
    made["partitions"].append(whole(TP, 1) | {"take": 1})
    own = [row | {"take": 1} for row in (*rows(0, 1, 5), *rows(0, 1, 12, since=5, epoch=1))]
    made["batches"] = sorted([*made["batches"], *own], key=lambda row: (row["take"], row["node"]))
    made["metadata"][2]["isr"] = [1, 2] if in_sync else [2]
    found = of_all(CHECKS, Evidence(tables(made)), sent(tmp_path, 10))
    assert places(found) == ([] if in_sync else [("acknowledged-held", 10)])


@pytest.mark.parametrize(
    ("begin_s", "journals", "found"),
    [
        (8.4, (0, 1), False),  # the group may have read it before the old leader had heard
        (8.6, (0, 1), True),  # half a second: the clocks
        (8.6, (0, 1, 2), False),  # what another process did is not known
        (8.6, (), False),
        (None, (0, 1), False),  # another group
    ],
)
def test_a_group_has_not_read_what_was_gone_before_it_began(
    tmp_path: Path, begin_s: float | None, journals: tuple[int, ...], found: bool
) -> None:
    """The election was at 4 s, and the old leader in sync again at 8 s. The commit names no leader epoch."""
    made = clean()
    made["metadata"][1]["isr"] = [1]
    made["metadata"][2]["timestamp"] = BEGAN_MS + 4000
    back = {"offset": 3, "leader": -2, "isr": [1, 2], "timestamp": BEGAN_MS + 8000}
    made["metadata"].append(made["metadata"][2] | back)
    made["offset_log"].append(read_to(12, -1))
    begin = round((begin_s or 9) * 10**9)
    ops = [
        Op(process=0, f="send", invoke=0, complete=1, mops=[Send(tp=0, value=0, offset=0)]),
        Op(process=1, f="poll", invoke=begin, complete=begin + 1, mops=[]),
    ]
    built = Built(tps=[TP.topic], ops=ops, processes={0: Process(), 1: Process(group=0)})
    listed = [JournalsListed(ns=10**10, processes=journals)]
    history = load(write_run(tmp_path / "run", built.tables(), events=listed))
    name = "g" if begin_s is None else history.group(0)
    made["offset_log"][-1]["group"] = name + "x" * (begin_s is None)
    judged = of_all(CHECKS, Evidence(tables(made)), history)
    assert (("consumed-kept", 11) in places(judged)) is found
    assert found or "consumed-kept" in {doubt.check for doubt in judged.doubts}


@pytest.mark.parametrize(("epoch", "found"), [(-1, False), (0, False), (1, True)])
def test_an_unclean_election_takes_nothing_of_a_later_leader_epoch_that_a_group_read(
    epoch: int, found: bool
) -> None:
    """Leader epoch 1 is of the unclean election: what its leader wrote later is its own."""
    made = clean()
    made["metadata"][1]["isr"] = [1]
    made["offset_log"].append(read_to(12, epoch))
    judged = of_all(CHECKS, Evidence(tables(made)), None)
    assert (places(judged) == [("consumed-kept", 11)]) is found


@pytest.mark.parametrize(
    ("epoch", "s", "found"), [(0, 5, False), (-1, 5, False), (1, 5, True), (-1, 8, True)]
)
def test_a_loss_of_power_takes_nothing_that_was_made_when_the_node_was_back(
    tmp_path: Path, epoch: int, s: int, found: bool
) -> None:
    """Node 1 lost power when it had heard of record 1, and was in sync again at 7 s, before leader epoch 1. A
    record of that epoch, or one that was made at 8 s, is lost by nothing that is permitted."""
    made = clean()
    made["takes"][0]["why"] = LOST_POWER
    created, change = made["metadata"][1:]
    created["isr"], created["replicas"] = [1, 2], [1, 2]
    empty = {**dict.fromkeys(change), **{name: change[name] for name in PLACE}}
    out = change | {"offset": 2, "leader": -2, "isr": [2], "timestamp": BEGAN_MS + 3000}
    made["metadata"][2:] = [
        out,
        empty | {"offset": 3, "name": "RegisterBrokerRecord", "broker": 1},
        out | {"offset": 4, "isr": [1, 2], "timestamp": BEGAN_MS + 7000},
        change | {"offset": 5, "isr": [1, 2], "timestamp": BEGAN_MS + 7500},
    ]
    made["metadata"] += [row | {"take": 0, "node": 1} for row in made["metadata"][:2]]
    if epoch >= 0:
        made["offset_log"].append(read_to(12, epoch))
    history = sent(tmp_path, 9, at_s={9: s}) if epoch < 0 else None
    judged = of_all(CHECKS, Evidence(tables(made)), history)
    wanted = ("acknowledged-held", 9) if epoch < 0 else ("consumed-kept", 11)
    assert places(judged) == [wanted] * found
