"""Ring 1 over data partitions: evidence of real brokers passes, the rules refuse what a test plants."""

from copy import deepcopy
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs.accept_data import CHECKS
from checkers.logs.producer_files import ABORTED_INDEX, PRODUCER_SNAPSHOT
from checkers.windows import FOREVER, RunWindows
from core.op import TopicPartition
from harness.evidence.directory import read
from history.evidence import Evidence, merged
from history.evidence_tables import END, KILLED, NO_PRODUCER
from model.accepting import data_partition as rules
from tests.checkers.logs.made import TP, at, batch, namesakes, of_all, of_partition, tables, whole
from tests.histories.broker_files import GOLDEN, NODE

Made = dict[str, list[dict[str, Any]]]
GROUP = TopicPartition("__consumer_offsets", 0)
LEVELS = {"3.9": 21, "4.3": 30}


def clean(release: str = "4.3", tp: TopicPartition = TP) -> Made:
    """Producer 7: two batches and an abort marker, then a plain batch; producer 8: a transaction that
    commits. Node 1 was killed before (take 0); at the end (take 1) nodes 1 and 2 have the whole log."""
    log: list[dict[str, Any]] = [
        {"producer_id": 7, "base_sequence": 0, "records": 2, "transactional": True},
        {"producer_id": 8, "base_sequence": 5, "transactional": True},
        {"producer_id": 7, "base_sequence": 2, "transactional": True},
        {"producer_id": 7, "control": True, "transactional": True, "name": "ABORT"},
        {"producer_id": 8, "control": True, "transactional": True, "name": "COMMIT"},
        {"producer_id": 7, "base_sequence": 3},
        {"producer_id": -1},
    ]
    batches, control = [], []
    for take, node, count in ((0, 1, 4), (1, 1, 7), (1, 2, 7)):
        base = 0
        for number, row in enumerate(log[:count]):
            row = {"records": 1, "producer_epoch": 0, "max_timestamp": 1000 + number, **row}
            last = base + row["records"] - 1
            if name := row.pop("name", ""):
                control.append(at(tp, node, take=take, offset=base, name=name, coordinator_epoch=3))
            batches.append(batch(tp, node, take=take, position=base, last=last, **row, base=base))
            base = last + 1
    entry = {
        "producer_epoch": 0,
        "last_offset": -1,
        "first_offset_of_transaction": -1,
        "coordinator_epoch": -1,
    }
    snapshot = [
        {"producer_id": 7, "last_sequence": 3, "last_offset": 6, "timestamp": 1005, "coordinator_epoch": 3},
        {"producer_id": 8, "last_sequence": 5, "last_offset": 2, "timestamp": 1004, "coordinator_epoch": 3},
    ]
    index = {"producer_id": 7, "first": 0, "last": 4, "last_stable": 2}
    places = ((0, 1), (1, 1), (1, 2))
    feature = {"take": 1, "node": 1, "name": "FeatureLevelRecord", "feature": "metadata.version"}
    return {
        "takes": [{"take": take, "node": node, "why": END if take else KILLED} for take, node in places],
        "partitions": [whole(tp, node) | {"take": take} for take, node in places],
        "batches": batches,
        "control": control,
        "producers": [at(tp, 2, take=1, snapshot=8, **(entry | row)) for row in snapshot],
        "aborted": [at(tp, node, take=take, **index) for take, node in places],
        "metadata": [feature | {"level": LEVELS[release]}] if release else [],
    }


def judged(made: Made, tp: TopicPartition = TP, remade_ns: int = -1) -> Found:
    """remade_ns: see RunWindows; the files of the node that was killed are read at 0."""
    return of_partition(CHECKS, Evidence(tables(made)), tp, windows=RunWindows(remade_ns=remade_ns))


def told(made: Made) -> set[tuple[str, int]]:
    """Rules and offsets of the findings."""
    return {(finding.check, finding.offset) for finding in judged(made).in_logs}


def test_the_clean_log_passes_and_its_rules_were_asked() -> None:
    found = judged(clean())
    assert not found.in_logs
    assert not found.doubts
    assert found.asked == {
        rules.SEQUENCE: 2,
        rules.NO_REPEAT: 2,
        rules.PRODUCER_EPOCH: 2,
        rules.PLAIN_IN_TRANSACTION: 1,
        rules.MARKER_EPOCH: 2,
        PRODUCER_SNAPSHOT: 2,
        ABORTED_INDEX: 3,
    }


def everywhere(made: Made, base: int, **columns: Any) -> None:
    """Change a batch in every copy."""
    for row in made["batches"]:
        if row["base"] == base:
            row.update(columns)


def a_skipped_sequence(made: Made) -> None:
    everywhere(made, 3, base_sequence=4)


def a_new_epoch_in_the_middle(made: Made) -> None:
    everywhere(made, 6, producer_epoch=1)


def an_old_epoch(made: Made) -> None:
    everywhere(made, 0, producer_epoch=1)
    everywhere(made, 4, producer_epoch=1)
    everywhere(made, 6, producer_epoch=1, base_sequence=2)
    made["producers"][0]["producer_epoch"] = 1


def an_old_marker(made: Made) -> None:
    everywhere(made, 0, producer_epoch=1)
    everywhere(made, 3, producer_epoch=1)


def a_plain_batch(made: Made) -> None:
    everywhere(made, 3, transactional=False)


def a_batch_twice(made: Made) -> None:
    everywhere(made, 3, records=2, last=4, base_sequence=0)
    for row in made["batches"]:
        if row["base"] > 3:
            row["base"], row["last"] = row["base"] + 1, row["last"] + 1
    for row in made["control"]:
        row["offset"] += 1


def a_marker_of_an_older_coordinator(made: Made) -> None:
    everywhere(made, 6, control=True, transactional=True)
    made["control"] += [at(TP, node, take=1, offset=6, name="ABORT", coordinator_epoch=2) for node in (1, 2)]


@pytest.mark.parametrize(
    ("plant", "rule", "offset"),
    [
        (a_batch_twice, rules.NO_REPEAT, 3),
        (a_marker_of_an_older_coordinator, rules.COORDINATOR_EPOCH, 6),
        (a_skipped_sequence, rules.SEQUENCE, 3),
        (a_new_epoch_in_the_middle, rules.EPOCH_BEGINS, 6),
        (an_old_epoch, rules.PRODUCER_EPOCH, 3),
        (an_old_marker, rules.MARKER_EPOCH, 4),
        (a_plain_batch, rules.PLAIN_IN_TRANSACTION, 3),
    ],
)
def test_a_planted_batch_is_told_at_its_offset(plant: Any, rule: str, offset: int) -> None:
    made = clean()
    plant(made)
    found = judged(made)
    assert found.asked[rule]
    finding = next(one for one in found.in_logs if (one.check, one.offset) == (rule, offset))
    assert finding.text.startswith(f"at offset {offset} of {TP}: ")
    assert finding.before
    assert finding.producer_id == 7


def test_the_version_of_a_transaction_comes_from_its_coordinator() -> None:
    """With version 2 (4.2) a marker needs a higher epoch than the transaction that it ends."""
    log = TopicPartition("__transaction_state", 0)
    decided = at(
        log,
        1,
        take=1,
        producer_id=7,
        producer_epoch=0,
        transactional_id="t",
        state="PrepareAbort",
        client_transaction_version=2,
    )
    made = clean() | {"transaction_log": [decided]}
    assert told(made) == {(rules.MARKER_EPOCH, 4)}
    assert [one.transactional_id for one in judged(made).in_logs] == ["t"]
    assert told(made | {"transaction_log": [decided | {"client_transaction_version": 0}]}) == set()
    assert told(clean("3.9") | {"transaction_log": [decided]}) == set()


def test_an_unknown_producer_of_version_2_begins_at_zero() -> None:
    """Producer 8 begins with sequence 5."""
    log = TopicPartition("__transaction_state", 0)
    begun = at(log, 1, take=1, producer_id=8, producer_epoch=0, transactional_id="t", state="Ongoing")
    made = clean() | {"transaction_log": [begun | {"client_transaction_version": 2}]}
    assert told(made) == {(rules.UNKNOWN_BEGINS, 2)}
    assert judged(made).asked[rules.UNKNOWN_BEGINS] == 1
    assert told(made | {"transaction_log": [begun | {"client_transaction_version": 1}]}) == set()


def test_an_unknown_version_is_a_doubt() -> None:
    found = judged(clean(""))
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {rules.MARKER_EPOCH, rules.UNKNOWN_BEGINS}


def test_after_a_gap_the_state_is_unknown_and_that_is_said() -> None:
    made = clean()
    made["batches"] = [row for row in made["batches"] if row["base"] != 2]
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {rules.SEQUENCE, rules.NO_REPEAT, PRODUCER_SNAPSHOT}
    (why,) = (doubt.why for doubt in found.doubts if doubt.check == PRODUCER_SNAPSHOT)
    assert why.endswith("has gaps in the log before it")


@pytest.mark.parametrize("removed", [True, False])
def test_a_snapshot_where_the_log_begins_is_of_what_was_before(*, removed: bool) -> None:
    """Retention, or DeleteRecords, removes whole segments; the snapshot at the first one that is left stays.
    It has what nothing else shows any more."""
    made = clean()
    for row in made["producers"]:
        row["snapshot"] = 6
    if removed:
        made["batches"] = [row for row in made["batches"] if row["base"] >= 6]
        made["control"] = [row for row in made["control"] if row["offset"] >= 6]
        made["aborted"] = []
        made["partitions"] = [row | {"start": 6} for row in made["partitions"]]
    found = judged(made)
    of_snapshots = {one.producer_id for one in found.in_logs if one.check == PRODUCER_SNAPSHOT}
    assert of_snapshots == (set() if removed else {7})  # in the whole log producer 7 continues behind it
    assert (PRODUCER_SNAPSHOT in {doubt.check for doubt in found.doubts}) == removed


def test_a_snapshot_behind_the_end_of_its_log_is_a_doubt() -> None:
    made = clean()
    for row in made["producers"]:
        row["snapshot"] = 99
    found = judged(made)
    assert not found.in_logs
    (doubt,) = found.doubts
    assert (doubt.check, doubt.why.endswith("is after the end of its log")) == (PRODUCER_SNAPSHOT, True)


def test_after_a_gap_sequences_of_a_coordinator_are_in_no_doubt() -> None:
    """Compaction leaves gaps in the log of the group coordinator, and no broker checks sequences there."""
    made = clean(tp=GROUP)
    made["batches"] = [row for row in made["batches"] if row["base"] != 2]
    found = judged(made, GROUP)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {PRODUCER_SNAPSHOT}


@pytest.mark.parametrize(
    "column", ["producer_epoch", "last_sequence", "last_offset", "timestamp", "coordinator_epoch"]
)
def test_a_snapshot_is_what_the_log_makes(column: str) -> None:
    made = clean()
    made["producers"][0][column] += 1
    assert told(made) == {(PRODUCER_SNAPSHOT, 8)}


def test_a_snapshot_has_all_producers_and_no_other() -> None:
    made = clean()
    made["producers"][0]["producer_id"] = 9
    assert [one.producer_id for one in judged(made).in_logs] == [7, 9]


def without_producers(made: Made, snapshot: int) -> Made:
    return made | {"producers": [at(TP, 2, take=1, snapshot=snapshot, producer_id=NO_PRODUCER)]}


@pytest.mark.parametrize(("snapshot", "lost"), [(0, []), (2, [7]), (3, [7, 8]), (8, [7, 8])])
def test_a_snapshot_of_a_broker_that_lost_all_its_producers(snapshot: int, lost: list[int]) -> None:
    found = judged(without_producers(clean(), snapshot))
    refused = [one for one in found.in_logs if one.check == PRODUCER_SNAPSHOT]
    assert [(one.producer_id, one.offset) for one in refused] == [(producer, snapshot) for producer in lost]
    assert found.asked[PRODUCER_SNAPSHOT] == max(1, len(lost))


@pytest.mark.parametrize("deleted", [7, 8])
def test_a_snapshot_without_producers_after_a_deletion_is_in_doubt(deleted: int) -> None:
    """Of all records, too: a broker that starts in order has none to read then."""
    made = without_producers(clean(), 8)
    made["ends"] = [at(TP, 1, take=1, file="log-start", value=deleted)]
    found = judged(made)
    assert not found.in_logs
    assert PRODUCER_SNAPSHOT in {doubt.check for doubt in found.doubts}


def test_a_broker_forgets_producers_of_records_that_were_deleted() -> None:
    made = clean()
    del made["producers"][1]  # all records of producer 8 are before offset 6
    assert told(made) == {(PRODUCER_SNAPSHOT, 8)}
    made["ends"] = [at(TP, node, take=1, file="log-start", value=6) for node in (1, 2)]
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {rules.SEQUENCE, rules.NO_REPEAT, PRODUCER_SNAPSHOT}


def deleted_by_epochs(made: Made, offset: int, *nodes: int) -> None:
    """The first entry of leader-epoch-checkpoint moves at once, the mark of the log start once a minute."""
    made["epochs"] = [at(TP, node, take=1, epoch=0, start=offset if node in nodes else 0) for node in (1, 2)]


@pytest.mark.parametrize("nodes", [(1, 2), (1,), (2,)])
def test_a_deletion_is_known_before_the_log_start_is_on_disk(nodes: tuple[int, ...]) -> None:
    """A broker that forgot may be another one than that whose disk shows the deletion."""
    made = clean()
    del made["producers"][1]
    deleted_by_epochs(made, 6)
    assert told(made) == {(PRODUCER_SNAPSHOT, 8)}
    deleted_by_epochs(made, 6, *nodes)
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {rules.SEQUENCE, rules.NO_REPEAT, PRODUCER_SNAPSHOT}


def begins_at_100(made: Made) -> None:
    for row in made["partitions"]:
        row["start"] = 100 * (row["take"] == 0)


def noted_at_the_kill(made: Made) -> None:
    made["ends"] = [at(TP, 1, take=0, file="log-start", value=9)]


def moved_at_the_kill(made: Made) -> None:
    made["epochs"] = [at(TP, 1, take=0, epoch=0, start=9)]


@pytest.mark.parametrize("show", [begins_at_100, noted_at_the_kill, moved_at_the_kill])
@pytest.mark.parametrize(
    ("topic_id", "remade_ns", "known"),
    [(None, 1, True), (None, FOREVER, True), (None, -1, False), ("id", 1, False)],
)
def test_what_was_deleted_from_a_topic_without_an_id_says_nothing_of_the_one_that_was_made_again(
    show: Any, topic_id: str | None, remade_ns: int, *, known: bool
) -> None:
    made = clean()
    a_batch_twice(made)
    for row in made["partitions"]:
        row["topic_id"] = topic_id
    show(made)
    found = judged(made, remade_ns=remade_ns)
    assert ((rules.NO_REPEAT, 3) in {(one.check, one.offset) for one in found.in_logs}) == known
    assert (rules.NO_REPEAT in {doubt.check for doubt in found.doubts}) != known


def test_what_was_deleted_from_the_old_topic_counts_for_its_own_log() -> None:
    """The snapshot of the node that was killed then lacks the producers of what was deleted."""
    made = clean()
    made["producers"] += [at(TP, 1, take=0, snapshot=4, producer_id=NO_PRODUCER)]
    assert {(one.producer_id, one.offset) for one in judged(made, remade_ns=1).in_logs} == {(7, 4), (8, 4)}
    moved_at_the_kill(made)
    found = judged(made, remade_ns=1)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {PRODUCER_SNAPSHOT}


def test_the_doubt_names_the_disk_that_shows_the_deletion() -> None:
    made = clean()
    made["ends"] = [at(TP, 1, take=1, file="log-start", value=6)]
    del made["producers"][1]
    forgot = "records before offset 6 were deleted, as the disk of node 1 at the end shows, and a broker may"
    for doubt in judged(made).doubts:
        assert forgot in doubt.why
        assert "missing" not in doubt.why
    made["batches"] = [row for row in made["batches"] if row["base"] != 3]
    (why, *_) = (doubt.why for doubt in judged(made).doubts if doubt.check == rules.SEQUENCE)
    assert why.startswith(f"batches are missing, damaged or deleted before offset 4; {forgot}")


@pytest.mark.parametrize("node", [1, 2])
def test_a_log_start_that_one_node_has_noted_counts_for_the_logs_of_all(node: int) -> None:
    made = clean()
    made["producers"][1].update(producer_id=9)
    made["ends"] = [at(TP, node, take=1, file="log-start", value=6)]
    assert told(made) == set()


def test_an_index_that_was_made_again_begins_where_records_are_left() -> None:
    made = clean()
    made["aborted"][2].update(first=3, last_stable=5)
    assert told(made) == {(ABORTED_INDEX, 4)}
    deleted_by_epochs(made, 3, 2)
    assert told(made) == set()
    made["aborted"][2]["last_stable"] = 4
    assert told(made) == {(ABORTED_INDEX, 4)}


def test_what_files_say_of_deleted_records_alone_is_in_doubt() -> None:
    """They may have been deleted in several steps, and the files made again in between."""
    made = clean()
    made["producers"] = [row | {"snapshot": 5} for row in made["producers"]]
    made["aborted"][2].update(first=3, last_stable=5)
    del made["aborted"][1]
    deleted_by_epochs(made, 6, 2)
    found = judged(made)
    assert not found.in_logs
    assert {PRODUCER_SNAPSHOT, ABORTED_INDEX} <= {doubt.check for doubt in found.doubts}
    assert found.asked[ABORTED_INDEX] == 1  # that of the node that was killed agrees


@pytest.mark.parametrize(
    ("plant", "rule", "offset"),
    [(a_batch_twice, rules.NO_REPEAT, 3), (an_old_epoch, rules.PRODUCER_EPOCH, 3)],
)
@pytest.mark.parametrize(("first", "refused"), [(0, True), (2, False), (5, False)])
def test_a_leader_that_forgot_a_producer_takes_its_batch(
    plant: Any, rule: str, offset: int, first: int, *, refused: bool
) -> None:
    """It may have forgotten when fewer records were deleted than are by now."""
    made = clean()
    plant(made)
    deleted_by_epochs(made, first, 1, 2)
    assert ((rule, offset) in told(made)) == refused
    assert (rule in {doubt.check for doubt in judged(made).doubts}) == (
        first == 5 or (first == 2 and rule == rules.NO_REPEAT)
    )


def test_what_came_behind_deleted_records_is_judged() -> None:
    made = clean()
    plain = {"take": 1, "producer_id": 7, "producer_epoch": 0, "max_timestamp": 1007}
    made["batches"] += [
        batch(TP, node, base=8 + more, position=8 + more, base_sequence=4 + 2 * more, **plain)
        for node in (1, 2)
        for more in (0, 1)
    ]
    deleted_by_epochs(made, 6, 1, 2)
    assert (rules.SEQUENCE, 9) in told(made)


@pytest.mark.parametrize(
    ("heard_s", "begins_at", "known"),
    [
        (74, 0, True),  # the mark is that of the deleted topic: this one still has its first epoch entry
        (74, 3, False),  # records of this topic may have been deleted
        (75, 0, False),  # the broker has written the mark since
    ],
)
def test_records_that_were_deleted_from_a_namesake_make_no_producer_forgotten(
    heard_s: int, begins_at: int, known: bool
) -> None:
    made = clean()
    namesakes(made, heard_s)
    made["ends"] = [at(TP, node, take=1, file="log-start", value=3) for node in (1, 2)]
    made["epochs"] = [at(TP, node, take=1, epoch=0, start=begins_at) for node in (1, 2)]
    found = judged(made)
    assert not found.in_logs
    open_ = {rules.SEQUENCE, rules.NO_REPEAT, PRODUCER_SNAPSHOT}
    assert {doubt.check for doubt in found.doubts} == (set() if known else open_)
    a_skipped_sequence(made)
    assert ((rules.SEQUENCE, 3) in told(made)) == known


def test_a_snapshot_is_compared_with_the_log_of_its_node() -> None:
    """The tail of the node that was killed was not committed."""
    made = clean()
    other = next(row for row in made["batches"] if row["take"] == 0 and row["base"] == 3)
    other["crc"], other["producer_id"] = 99, 8
    other["base_sequence"] = 6
    mine = at(
        TP,
        1,
        take=0,
        snapshot=4,
        producer_id=8,
        producer_epoch=0,
        last_sequence=6,
        last_offset=3,
        coordinator_epoch=-1,
        timestamp=1002,
        first_offset_of_transaction=2,
    )
    seven = mine | {"producer_id": 7, "last_sequence": 1, "last_offset": 1, "offset_delta": 1}
    made["producers"] += [mine, seven | {"timestamp": 1000, "first_offset_of_transaction": 0}]
    assert told(made) == set()
    mine["last_sequence"] = 5
    assert told(made) == {(PRODUCER_SNAPSHOT, 4)}


@pytest.mark.parametrize("column", ["producer_id", "first", "last", "last_stable"])
def test_the_aborted_index_is_what_the_log_makes(column: str) -> None:
    made = clean()
    made["aborted"][1][column] += 1
    assert {rule for rule, _ in told(made)} == {ABORTED_INDEX}


def test_a_missing_entry_is_told_where_the_broker_lived_to_write_it() -> None:
    made = clean()
    at_kill, first, _ = made["aborted"]
    made["aborted"].remove(at_kill)
    assert told(made) == set()
    made["aborted"].remove(first)
    assert told(made) == {(ABORTED_INDEX, 4)}


def test_a_node_that_was_down_at_the_end_may_lack_an_entry_as_one_that_was_looked_at_before() -> None:
    made = clean()
    del made["aborted"][1]
    assert told(made) == {(ABORTED_INDEX, 4)}
    made["takes"].append({"take": 1, "node": 1, "why": KILLED})
    assert told(made) == set()
    a_skipped_sequence(made)  # it is still a log of the end
    assert (rules.SEQUENCE, 3) in told(made)


def test_the_group_coordinator_repeats_sequences() -> None:
    made = clean(tp=GROUP)
    everywhere(made, 3, base_sequence=0)
    found = judged(made, GROUP)
    assert not found.in_logs
    assert rules.SEQUENCE not in found.asked


@pytest.mark.parametrize("version", ["3.3.2", "3.9.1", "4.3.1"])
def test_logs_of_real_brokers_pass(version: str) -> None:
    evidence = Evidence(merged([read(GOLDEN / version, 1)]))
    found = of_all(CHECKS, evidence)
    assert not found.in_logs
    assert found.asked[PRODUCER_SNAPSHOT]
    assert found.asked[ABORTED_INDEX]
    assert found.asked[rules.COORDINATOR_EPOCH]


def test_a_moved_entry_of_a_real_index_is_told() -> None:
    found = {name: table.to_pylist() for name, table in merged([read(NODE, 1)]).items()}
    made = deepcopy(found)
    (index,) = (row for row in made["aborted"] if row["topic"] == "in")
    index["first"] -= 1
    tp = TopicPartition("in", 0)
    assert not of_partition(CHECKS, Evidence(tables(found, nodes=(1,))), tp).in_logs
    assert [one.check for one in of_partition(CHECKS, Evidence(tables(made, nodes=(1,))), tp).in_logs] == [
        ABORTED_INDEX
    ]


def test_every_rule_that_is_asked_is_declared() -> None:
    assert set(judged(clean()).asked) <= set(CHECKS)


def test_a_snapshot_before_1_0_has_a_marker_for_the_last_batch_and_nothing_else() -> None:
    def snapshot_of(release: str, last_offset: int, **changed: int) -> set[tuple[str, int]]:
        made = clean(release)
        made["producers"][1].update(last_offset=last_offset, **changed)
        return told(made)

    marker = 5  # producer 8's
    assert snapshot_of("", marker) == set()
    assert snapshot_of("4.3", marker) == {("producer-snapshot", 8)}  # a version that is known writes none
    for wrong in (4, 6):  # another producer's marker, and a batch
        assert snapshot_of("", wrong) == {("producer-snapshot", 8)}
    assert snapshot_of("", marker, last_sequence=4) == {("producer-snapshot", 8)}


def test_an_empty_abort_was_indexed_before_2_8() -> None:
    def index_with(release: str, first: int) -> set[tuple[str, int]]:
        made = clean(release)
        row = {"producer_id": 9, "first": first, "last": 5, "last_stable": 6}
        made["aborted"].append(at(TP, 2, take=1, **row))
        return told(made)

    assert index_with("", 5) == set()
    assert index_with("4.3", 5) == {("aborted-index", 5)}
    assert index_with("", 4) == {("aborted-index", 5)}


def test_a_snapshot_of_1_1_has_the_time_of_the_last_batch_and_not_of_the_marker_after_it() -> None:
    def snapshot_of(release: str, timestamp: int) -> set[tuple[str, int]]:
        made = clean(release)
        made["producers"][1]["timestamp"] = timestamp
        return told(made)

    batch_ms = 1001  # producer 8's; its marker came at 1004
    assert snapshot_of("", batch_ms) == set()
    assert snapshot_of("4.3", batch_ms) == {("producer-snapshot", 8)}
    for wrong in (1002, -1):
        assert snapshot_of("", wrong) == {("producer-snapshot", 8)}
