"""The metadata log of real nodes is accepted as it is, and refused where somebody has changed it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.engine.findings import Found
from checkers.logs.accept_metadata import CHECKS
from checkers.logs.elections import METADATA
from core.op import TopicPartition
from harness.evidence import directory
from history import evidence
from history.evidence import Evidence, merged
from history.evidence_tables import schema
from tests.checkers.logs.made import asked_nothing, of_partition
from tests.histories.broker_files import NODE
from tests.histories.folders import check_run, write_run
from tests.histories.notation import stories

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def golden() -> dict[str, pa.Table]:
    """The tables of a node of Kafka 4.3.1: a broker restarts, another one ends."""
    return merged([directory.read(NODE, 3)])


def judged(tables: dict[str, pa.Table], change: Callable[[Rows], Rows], unclean: bool | None = None) -> Found:
    """With other rows of the metadata log. unclean: what brokers say of unclean elections."""
    rows = change(tables["metadata"].to_pylist())
    metadata = pa.Table.from_pylist(rows, schema("metadata"))
    return of_partition(CHECKS, Evidence(tables | {"metadata": metadata}), METADATA, unclean)


def places(judgement: Found) -> list[tuple[str, int]]:
    return [(finding.check, finding.offset) for finding in judgement.in_logs]


def changed(at: int, **columns: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [row | (columns if row["offset"] == at else {}) for row in rows]


def second(change: Callable[[Rows], Rows]) -> Callable[[Rows], Rows]:
    """Another node has the log with a change."""
    return lambda rows: [*rows, *({**row, "node": 1} for row in change(rows))]


def same(rows: Rows) -> Rows:
    return rows


def test_a_real_log_is_accepted(golden: dict[str, pa.Table]) -> None:
    judgement = judged(golden, second(same))
    assert (judgement.in_logs, judgement.doubts) == ([], [])
    silent = {"snapshot-is-image", "unclean-not-eligible"}
    assert set(judgement.asked) == set(CHECKS) - silent
    assert judgement.asked["change-has-cause"] == 64
    assert all(many > 0 for many in judgement.asked.values())


def test_other_partitions_are_not_judged(golden: dict[str, pa.Table]) -> None:
    assert asked_nothing(of_partition(CHECKS, Evidence(golden), TopicPartition("in", 0)))


def test_evidence_without_a_metadata_log_asks_nothing(golden: dict[str, pa.Table]) -> None:
    assert asked_nothing(judged(golden, lambda _: []))


def test_a_log_that_shares_no_record_with_another_is_judged_from_its_beginning(
    golden: dict[str, pa.Table],
) -> None:
    def older(rows: Rows) -> Rows:
        unknown = next(row for row in rows if row["name"] == "PartitionRecord")
        return [{**row, "leader_epoch": 0} for row in ({**unknown, "offset": 0}, *rows)]

    assert ("topics-known", 0) in places(judged(golden, second(older)))


def test_what_an_older_log_lacks_is_nothing_to_refuse(golden: dict[str, pa.Table]) -> None:
    assert places(judged(golden, second(lambda rows: [row for row in rows if row["offset"] < 130]))) == []


def test_a_tail_of_another_epoch_may_differ(golden: dict[str, pa.Table]) -> None:
    """It was never committed, and Raft cuts it off."""

    def newer(rows: Rows) -> Rows:
        return [
            row | ({"leader_epoch": 2, "name": "NoOpRecord"} if row["offset"] > 205 else {}) for row in rows
        ]

    found = judged(golden, second(newer))
    assert places(found) == []
    ids = "producer-ids-given"
    assert found.asked[ids] == judged(golden, same).asked[ids]  # of the newest log alone


def test_what_no_definition_reads_in_such_a_tail_is_a_doubt(golden: dict[str, pa.Table]) -> None:
    def logs(rows: Rows) -> Rows:
        newer = [row | ({"leader_epoch": 2} if row["offset"] > 205 else {}) for row in rows]
        older = changed(206, opaque=b"?", name="unknown")(rows)
        return [*older, *({**row, "node": 1} for row in newer)]

    assert {doubt.check for doubt in judged(golden, logs).doubts} == set(CHECKS)


TAMPERED: list[tuple[Callable[[Rows], Rows], list[tuple[str, int]]]] = [
    (changed(131, leader=1), [("change-has-cause", 131)]),
    (changed(131, leader=2), [("in-sync-set", 131), ("change-has-cause", 131)]),
    (changed(129, leader=3), [("change-has-cause", 129)]),
    (changed(129, elr=[2]), [("change-has-cause", 129)]),
    (changed(145, name="NoOpRecord"), [("change-has-cause", at) for at in (131, 132, 135, 139, 140, 142)]),
    (changed(145, broker_epoch=9), [("broker-epochs-rise", 145)]),
    (changed(10, broker_epoch=11), [("broker-epochs-rise", 10)]),
    (changed(100, leader_epoch=3), [("metadata-in-order", 101)]),
    (
        lambda rows: [row for row in rows if row["offset"] != 24],
        [("topics-known", at) for at in (25, 26, 27)],
    ),
    (changed(131, partition_leader_epoch=0), [("leader-epoch-rises", 131)]),
    (changed(131, partition_epoch=0), [("partition-epoch-rises", 131)]),
    (changed(171, leader=2, isr=[2]), [("unclean-election", 171)]),
    (lambda rows: [row for row in rows if row["offset"] != 131], [("fenced-leads-nothing", 145)]),
    (second(changed(131, leader=1)), [("metadata-logs-agree", 131)]),
    (second(lambda rows: [row for row in rows if row["offset"] != 100]), [("metadata-logs-agree", 100)]),
]


def silent(rows: Rows) -> Rows:
    """No topic says whether a replica that misses records may lead; one does, at 171."""
    kept = [row for row in rows if "unclean.leader.election.enable" not in (row["body"] or "")]
    return changed(171, leader=2, isr=[2])(kept)


@pytest.mark.parametrize(("unclean", "found"), [(None, []), (True, []), (False, [("unclean-election", 171)])])
def test_an_unclean_election_of_a_topic_without_a_setting_is_judged_by_that_of_the_brokers(
    golden: dict[str, pa.Table], unclean: bool | None, found: list[tuple[str, int]]
) -> None:
    judgement = judged(golden, silent, unclean)
    of_election = [one for one in places(judgement) if one[0] == "unclean-election"]
    doubts = [one.check for one in judgement.doubts if one.check == "unclean-election"]
    assert (of_election, doubts) == (found, [] if unclean is not None else ["unclean-election"])


@pytest.mark.parametrize("allowed", [False, True])
def test_a_run_says_what_its_brokers_have(
    golden: dict[str, pa.Table], tmp_path: Path, *, allowed: bool
) -> None:
    (story,) = stories("== case\np0 send x:1@0\np9 final x[1@0]\nend x rc 1")
    run = write_run(tmp_path, story.tables(), settings={"unclean_leader_election": allowed})
    rows = silent(golden["metadata"].to_pylist())
    evidence.write(run.evidence, golden | {"metadata": pa.Table.from_pylist(rows, schema("metadata"))})
    found = check_run(run).anomalies.get("unclean-election")
    assert (found.disallowed if found else 0) == (0 if allowed else 1)


@pytest.mark.parametrize("number", range(len(TAMPERED)))
def test_a_changed_record_is_found(golden: dict[str, pa.Table], number: int) -> None:
    change, found = TAMPERED[number]
    assert places(judged(golden, change))[: len(found)] == found


@pytest.mark.parametrize("begins", [0, 1])
def test_two_logs_have_to_agree_from_where_both_begin(golden: dict[str, pa.Table], begins: int) -> None:
    """The other log begins `begins` records later; they differ in the first record."""
    rows = golden["metadata"].to_pylist()
    first, other = rows[0]["offset"], Found()

    def changes(rows: Rows) -> Rows:
        return changed(first, name="NoOpRecord")(rows)[begins:]

    for nodes in (second(changes), lambda rows: [*({**row, "node": 1} for row in rows), *changes(rows)]):
        other = judged(golden, nodes)
        found = [place for place in places(other) if place[0] == "metadata-logs-agree"]
        assert found == ([] if begins else [("metadata-logs-agree", first)])


@pytest.mark.parametrize("aborted", [True, False])
def test_what_a_controller_gave_up_half_way_was_never_there(
    golden: dict[str, pa.Table], aborted: bool
) -> None:
    """It creates a topic, gives up, and creates a topic of that name (KIP-866)."""

    def given_up(rows: Rows) -> Rows:
        offset = max(row["offset"] for row in rows if row["snapshot"] < 0)
        last = next(row for row in rows if (row["snapshot"], row["offset"]) == (-1, offset))
        empty = dict.fromkeys(last, None) | {name: last[name] for name in ("take", "node", "snapshot")}
        empty |= {"leader_epoch": last["leader_epoch"], "timestamp": last["timestamp"]}
        names = ["BeginTransactionRecord", "TopicRecord", "AbortTransactionRecord", "TopicRecord"]
        more = [
            empty | {"offset": offset + n, "name": name, "topic": "again", "topic_id": f"id-{n}"}
            for n, name in enumerate(names, 1)
            if aborted or name != "AbortTransactionRecord"
        ]
        return [*rows, *more]

    found = [] if aborted else [("topics-known", max(at for _, at in places(judged(golden, given_up))))]
    assert places(judged(golden, given_up)) == found


def test_blocks_of_producer_ids(golden: dict[str, pa.Table]) -> None:
    last = max(row["offset"] for row in golden["metadata"].to_pylist() if row["name"] == "ProducerIdsRecord")
    judgement = judged(golden, changed(last, body='{"nextProducerId": 1000}'))
    assert places(judgement) == [("producer-id-blocks", last)]
    (finding,) = judgement.in_logs
    told = f"at offset {last} of __cluster_metadata-0: producer ids below 1000 are"
    assert finding.text.startswith(told)


def test_producer_ids_that_were_never_given_away(golden: dict[str, pa.Table]) -> None:
    def without(rows: Rows) -> Rows:
        return [row for row in rows if row["name"] != "ProducerIdsRecord"]

    judgement = judged(golden, without)
    assert {finding.check for finding in judgement.in_logs} == {"producer-ids-given"}
    assert {finding.log for finding in judgement.in_logs} == {
        TopicPartition("in", 0),
        TopicPartition("__consumer_offsets", 4),
    }
    first = [row | {"producer_id": min(row["producer_id"], 0)} for row in golden["batches"].to_pylist()]
    zero = golden | {"batches": pa.Table.from_pylist(first, schema("batches"))}
    assert places(judged(zero, without)) == places(judgement)
    assert places(judged(zero, same)) == []
    alone = [{"take": 0, "node": node, "why": "end", "at_ns": 9} for node in (1, 3)]
    lacks = golden | {"takes": pa.Table.from_pylist(alone, schema("takes"))}
    assert judged(lacks, without).asked["producer-ids-given"] == 0  # node 1 may know more


def test_the_newest_log_is_the_one_with_the_newest_record(golden: dict[str, pa.Table]) -> None:
    """It is shorter, and its last record alone has a later epoch: it gives producer ids away."""

    def two(rows: Rows) -> Rows:
        ids = next(row for row in reversed(rows) if row["name"] == "ProducerIdsRecord")
        without = [row for row in rows if row["name"] != "ProducerIdsRecord"]
        shorter = [row for row in without if row["offset"] < 150]
        return [
            *without,
            *({**row, "node": 1} for row in (*shorter, {**ids, "offset": 150, "leader_epoch": 2})),
        ]

    judgement = judged(golden, two)
    assert judgement.asked["producer-ids-given"]
    assert "producer-ids-given" not in {rule for rule, _ in places(judgement)}


def test_a_broker_that_died_is_not_eligible_when_it_is_back(golden: dict[str, pa.Table]) -> None:
    """Broker 2 is fenced at 145, and registered again."""

    def nodes(why: str, *, clean: bool = False) -> dict[str, pa.Table]:
        takes = [{"take": take, "node": 2, "why": why if take == 0 else "end", "at_ns": 9} for take in (0, 1)]
        found = [{"take": take, "node": 2, "clean_shutdown": clean} for take in (0, 1)]
        return golden | {
            "takes": pa.Table.from_pylist(takes, schema("takes")),
            "nodes": pa.Table.from_pylist(found, schema("nodes")),
        }

    def twice(rows: Rows) -> Rows:
        died = [row | {"take": 0, "node": 2} for row in rows if row["offset"] <= 145]
        return [*died, *(row | {"take": 1, "node": 2} for row in rows)]

    def kept(rows: Rows) -> Rows:
        return twice(changed(129, elr=[2])(rows))

    rule = "unclean-not-eligible"
    sound = judged(nodes("killed"), twice)
    assert (sound.in_logs, sound.asked[rule]) == ([], 1)
    assert judged(nodes("end"), kept).asked[rule] == 0
    assert judged(nodes("killed", clean=True), kept).asked[rule] == 0
    first = min(row["offset"] for row in golden["metadata"].to_pylist() if row["broker"] == 2)

    def several(rows: Rows) -> Rows:
        """It was registered twice since what it knew when it died."""
        died = [row | {"take": 0, "node": 2} for row in rows if row["offset"] < first]
        return [*died, *(row | {"take": 1, "node": 2} for row in rows)]

    assert judged(nodes("killed"), several).asked[rule] == 0
    found = [place for place in places(judged(nodes("killed"), kept)) if place[0] == rule]
    back = [row["offset"] for row in golden["metadata"].to_pylist() if row["name"] == "RegisterBrokerRecord"]
    assert found == [(rule, back[-1])]


def snapshot(rows: Rows, end: int) -> Rows:
    """Rows of a snapshot, as Kafka has them: partitions as they are at its end."""
    kept = ("FeatureLevelRecord", "ConfigRecord", "TopicRecord", "PartitionRecord", "RegisterBrokerRecord")
    made = [row | {"snapshot": end} for row in rows if row["name"] in kept and row["offset"] < 90]
    for row in made:
        if row["name"] == "RegisterBrokerRecord":
            row["fenced"] = 0
    ids = [row for row in rows if row["name"] == "ProducerIdsRecord" and row["offset"] < end]
    return [*made, ids[-1] | {"snapshot": end}]


def test_a_log_goes_on_from_its_snapshot(golden: dict[str, pa.Table]) -> None:
    begins = golden["partitions"].to_pylist()
    for row in begins:
        row["start"] = 129 if row["topic"] == METADATA.topic else row["start"]
    tables = golden | {"partitions": pa.Table.from_pylist(begins, schema("partitions"))}

    def later(rows: Rows) -> Rows:
        return [row for row in rows if row["offset"] >= 129]

    judgement = judged(tables, lambda rows: [*snapshot(rows, 129), *later(rows)])
    assert (judgement.in_logs, judgement.doubts) == ([], [])
    assert judgement.asked["change-has-cause"] == 48
    again = judged(tables, lambda rows: [*snapshot(rows, 129), *snapshot(rows, 160), *later(rows)])
    assert again.asked["change-has-cause"] == 48  # from the first one on
    without = judged(tables, later)
    assert without.in_logs == []
    assert {doubt.check for doubt in without.doubts} == set(CHECKS)


def test_a_snapshot_is_compared_with_the_log(golden: dict[str, pa.Table]) -> None:
    judgement = judged(golden, lambda rows: [*snapshot(rows, 129), *rows])
    assert (judgement.in_logs, judgement.asked["snapshot-is-image"]) == ([], 1)
    other = judged(golden, lambda rows: [*changed(27, leader=3)(snapshot(rows, 129)), *rows])
    assert places(other) == [("snapshot-is-image", 129)]


def test_the_snapshot_at_offset_0_is_no_part_of_the_log(golden: dict[str, pa.Table]) -> None:
    """A node that is formatted for a quorum that may change begins with one (KIP-853)."""

    def formatted(rows: Rows) -> Rows:
        first = next(row for row in rows if row["name"] == "FeatureLevelRecord")
        return [first | {"snapshot": 0, "offset": 0, "leader_epoch": 0}, *rows]

    judgement = judged(golden, formatted)
    assert (judgement.in_logs, judgement.doubts) == ([], [])
    assert judgement.asked == judged(golden, same).asked


def test_damage_and_records_that_no_definition_reads_are_doubts(golden: dict[str, pa.Table]) -> None:
    opaque = judged(golden, changed(100, opaque=b"?", name="unknown"))
    assert {doubt.check for doubt in opaque.doubts} == set(CHECKS)
    known = judged(golden, changed(131, opaque=b"?"))  # what follows is not judged
    assert (known.in_logs, len(known.doubts)) == ([], len(CHECKS))
    row = {"take": 0, "node": 3, "file": "__cluster_metadata-0/0.log", "position": 9, "why": "cut"}
    damage = golden | {"damage": pa.Table.from_pylist([row], schema("damage"))}
    assert len(judged(damage, same).doubts) == len(CHECKS)


def test_behind_a_damaged_batch_nothing_is_judged(golden: dict[str, pa.Table]) -> None:
    """Offsets 24 to 27 create a topic whose partitions change later on."""

    def without(rows: Rows) -> Rows:
        return [row for row in rows if not 24 <= row["offset"] <= 27]

    assert "topics-known" in {rule for rule, _ in places(judged(golden, without))}
    batches = golden["batches"].to_pylist()
    for row in batches:
        if row["topic"] == METADATA.topic and row["base"] == 24:
            row["intact"] = False
    damaged = golden | {"batches": pa.Table.from_pylist(batches, schema("batches"))}
    judgement = judged(damaged, without)
    assert judgement.in_logs == []
    assert {doubt.check for doubt in judgement.doubts} == set(CHECKS)
    beside = judged(damaged, lambda rows: [*without(rows), *({**row, "node": 1} for row in rows)])
    assert (beside.in_logs, beside.asked["change-has-cause"]) == ([], 64)  # of the whole one
