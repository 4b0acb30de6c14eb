"""Ring 3, transactions: each rule fires at its place, and is silent on the same logs without the fault."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs.decisions import CHECKS
from core.internal_topics import TRANSACTION_TOPIC as TOPIC
from core.op import TopicPartition
from history.events import ClockJumped
from history.evidence import Evidence
from history.evidence_tables import END, KILLED, LOST_POWER
from history.reader import History, load
from tests.checkers.logs.made import at, batch, of_all, tables
from tests.histories.built import Built
from tests.histories.folders import STARTED, write_run

LOG = TopicPartition(TOPIC, 0)
P0, P1 = TopicPartition("q", 0), TopicPartition("q", 1)
PRODUCER = 2000
MS = 1_000_000
BEGAN_MS = 1_767_225_600_000
"""2026-01-01, when the runs of `write_run` begin."""
Made = dict[str, list[dict[str, Any]]]


class Cluster:
    """One node's logs at the end (take 1) of a run with one producer. `log`: what the coordinator wrote."""

    def __init__(self) -> None:
        self.made: Made = {name: [] for name in ("batches", "control", "transaction_log", "metadata")}
        self.made["takes"] = [{"take": 1, "node": 1, "at_ns": 2, "why": END}]
        self.made["partitions"] = [at(tp, 1, take=1, start=0, files=1, bytes=9) for tp in (LOG, P0, P1)]
        self.ends = {LOG: 0, P0: 0, P1: 0}
        self.metadata(["q", TOPIC])

    def metadata(self, topics: list[str]) -> None:
        rows: list[dict[str, Any]] = []
        for topic in topics:
            rows.append({"name": "TopicRecord", "topic": topic, "topic_id": topic})
            for partition in (0, 1):
                state = {"leader": 1, "isr": [1, 2, 3], "partition_leader_epoch": 9}
                rows.append({"name": "PartitionRecord", "topic_id": topic, "partition": partition, **state})
        where = {"take": 1, "node": 1, "snapshot": -1}
        self.made["metadata"] = [where | {"offset": number} | row for number, row in enumerate(rows)]

    def elect(self, tp: TopicPartition, ms: int, leader: int, isr: list[int]) -> None:
        change = {"topic_id": tp.topic, "partition": tp.partition, "leader": leader, "isr": isr}
        rows = self.made["metadata"]
        row = {"take": 1, "node": 1, "snapshot": -1, "offset": len(rows), "timestamp": ms}
        rows.append(row | change | {"name": "PartitionChangeRecord"})

    def coordinator(self, state: str, ms: int, *tps: TopicPartition, epoch: int = 0, **row: Any) -> None:
        named = [{"topic": tp.topic, "partition": tp.partition} for tp in tps]
        offset = self._batch(LOG, ms, {})
        known = {"transactional_id": "id", "producer_id": PRODUCER, "producer_epoch": epoch, "state": state}
        place = {"take": 1, "offset": offset, "timestamp": ms, "leader_epoch": 4}
        self.made["transaction_log"].append(at(LOG, 1, **place, **known, partitions=named, **row))

    def records(self, tp: TopicPartition, ms: int, epoch: int = 0, *, stamped: bool = False) -> int:
        producer = {"producer_id": PRODUCER, "producer_epoch": epoch}
        return self._batch(tp, ms, {**producer, "transactional": True, "log_append_time": stamped})

    def marker(self, tp: TopicPartition, ms: int, name: str, epoch: int = 0, coordinator: int = 4) -> int:
        producer = {"producer_id": PRODUCER, "producer_epoch": epoch}
        offset = self._batch(tp, ms, {**producer, "transactional": True, "control": True})
        place = {"take": 1, "offset": offset, "timestamp": ms, "type": int(name == "COMMIT"), "name": name}
        self.made["control"].append(at(tp, 1, **place, **producer, coordinator_epoch=coordinator))
        return offset

    def _batch(self, tp: TopicPartition, ms: int, columns: dict[str, Any]) -> int:
        offset = self.ends[tp]
        self.ends[tp] += 1
        times = {"base_timestamp": ms, "max_timestamp": ms, "leader_epoch": 4, "take": 1}
        self.made["batches"].append(batch(tp, 1, offset, **times, **columns))
        return offset

    def transaction(self, ms: int, *tps: TopicPartition, commit: bool = True) -> None:
        """A whole one, from this time on."""
        self.coordinator("Ongoing", ms, *tps, start_ms=ms)
        for tp in tps:
            self.records(tp, ms + 1)
        end = "Commit" if commit else "Abort"
        self.coordinator(f"Prepare{end}", ms + 2, *tps, start_ms=ms)
        for tp in tps:
            self.marker(tp, ms + 3, end.upper())
        self.coordinator(f"Complete{end}", ms + 4, start_ms=ms)

    def judged(self) -> Found:
        return of_all(CHECKS, Evidence(tables(self.made)))


def clean() -> Cluster:
    """Two transactions of one producer epoch over both partitions, the second one aborted."""
    cluster = Cluster()
    cluster.transaction(100, P0, P1)
    cluster.transaction(200, P0, P1, commit=False)
    return cluster


def test_how_often_each_rule_is_asked() -> None:
    """Of two transactions over two partitions: by marker, by batch, by transaction, by partition named."""
    assert clean().judged().asked == {
        "marker-decided": 4,
        "marker-coordinator": 4,
        "partitions-named": 4,
        "decisions-agree": 2,
        "partitions-marked": 4,
    }


def places(found: Found) -> list[tuple[str, TopicPartition, int]]:
    return [(each.check, each.log, each.offset) for each in found.in_logs]


def test_clean_logs_are_silent_and_exercise_every_rule() -> None:
    cluster = clean()
    cluster.marker(P0, 205, "ABORT")  # a repeated marker is legal
    cluster.transaction(300, P1)
    cluster.coordinator("Ongoing", 400, P0, start_ms=400)
    cluster.records(P0, 401)  # open, and not decided
    found = cluster.judged()
    assert not found.in_logs
    assert not found.doubts
    assert all(found.asked[rule] for rule in CHECKS)


def test_a_transaction_that_its_coordinator_began_again_has_no_records() -> None:
    """The coordinator did not hear that the first record was committed; time tells the others apart."""
    cluster = clean()
    cluster.coordinator("Ongoing", 290, P0, P1, start_ms=290)
    cluster.coordinator("Ongoing", 295, P0, P1, start_ms=295)
    for ms in (300, 400, 500, 600, 700):
        cluster.transaction(ms, P0, P1, commit=ms % 200 == 0)
    found = cluster.judged()
    assert not found.in_logs
    assert not found.doubts
    last = cluster.made["control"][-1]
    last["name"] = "COMMIT" if last["name"] == "ABORT" else "ABORT"
    assert ("decisions-agree", P1, cluster.ends[P1] - 1) in places(cluster.judged())


def test_a_marker_of_the_other_result() -> None:
    cluster = clean()
    (marker,) = [row for row in cluster.made["control"] if row["partition"] == 1 and row["name"] == "COMMIT"]
    marker["name"] = "ABORT"
    assert places(cluster.judged()) == [
        ("marker-decided", P1, 1),
        ("decisions-agree", P1, 1),
        ("partitions-marked", P1, 0),
    ]


def test_markers_of_both_results_in_the_one_partition_of_a_transaction() -> None:
    """An ABORT that no decision explains ends the records, and the COMMIT of the decision follows."""
    cluster = clean()
    cluster.coordinator("Ongoing", 300, P0, start_ms=300)
    cluster.records(P0, 301)
    wrong = cluster.marker(P0, 302, "ABORT", epoch=0)
    cluster.coordinator("PrepareCommit", 303, P0, start_ms=300)
    cluster.marker(P0, 304, "COMMIT")
    cluster.coordinator("CompleteCommit", 305, start_ms=300)
    found = cluster.judged()
    (finding,) = (one for one in found.in_logs if one.check == "decisions-agree")
    assert (finding.log, finding.offset) == (P0, wrong)
    assert "ends by the COMMIT marker" in finding.text
    assert "and by the ABORT marker" in finding.text
    assert "; its decision is PrepareCommit" in finding.text
    assert "it had no marker of its own there: a later one ended its records" in finding.text


def test_the_same_result_as_an_older_decision_is_no_excuse_for_a_marker_that_ends_records() -> None:
    cluster = clean()
    marker = cluster.made["control"][-1]
    assert marker["name"] == "ABORT"
    marker["name"] = "COMMIT"
    assert ("marker-decided", P1, 3) in places(cluster.judged())


def test_a_marker_of_a_producer_that_the_log_does_not_know() -> None:
    cluster = clean()
    wrong = cluster.marker(P0, 300, "COMMIT")
    cluster.made["batches"][-1]["producer_id"] = cluster.made["control"][-1]["producer_id"] = 3000
    (finding,) = cluster.judged().in_logs
    assert (finding.check, finding.log, finding.offset) == ("marker-decided", P0, wrong)
    assert (finding.producer_id, finding.transactional_id) == (3000, "")


def test_another_partition_of_the_coordinators_log_that_lost_its_beginning_excuses_nothing() -> None:
    cluster = clean()
    other = TopicPartition(TOPIC, 1)
    cluster.made["partitions"].append(at(other, 1, take=1, start=4, files=1, bytes=9))
    cluster.marker(P1, 400, "COMMIT", epoch=1)
    assert places(cluster.judged()) == [("marker-decided", P1, 4)]
    cluster.made["partitions"][0]["start"] = 1
    assert not cluster.judged().in_logs


def test_a_decision_that_was_acted_upon_and_lost_names_the_log_that_had_it() -> None:
    cluster = clean()
    cluster.coordinator("Ongoing", 300, P0, P1, start_ms=300)
    cluster.records(P0, 301)
    cluster.records(P1, 301)
    cluster.marker(P0, 305, "ABORT", epoch=1, coordinator=5)
    lost = cluster.ends[LOG]
    cluster.coordinator("PrepareCommit", 310, P0, P1, start_ms=300)
    cluster.marker(P1, 311, "COMMIT")
    cluster.coordinator("CompleteCommit", 312, start_ms=300)
    had = dict(cluster.made["transaction_log"][-2], take=0, node=2, leader_epoch=3, offset=lost)
    had |= {"state": "PrepareAbort", "producer_epoch": 1}
    cluster.made["transaction_log"].append(had)
    cluster.made["takes"].append({"take": 0, "node": 2, "at_ns": 1, "why": KILLED})
    found = cluster.judged()
    assert places(found)[:2] == [("marker-decided", P0, 5), ("decisions-agree", P0, 5)]
    first = found.in_logs[0]
    assert (first.producer_id, first.producer_epoch, first.transactional_id) == (PRODUCER, 1, "id")
    assert f"node 2 had when it was killed holds PrepareAbort 2000/1 at offset {lost}" in first.text


def test_a_marker_left_out_while_the_partition_had_no_leader() -> None:
    cluster = Cluster()
    cluster.transaction(100, P0)
    cluster.coordinator("Ongoing", 200, P0, P1, start_ms=200)
    cluster.records(P0, 201)
    first = cluster.records(P1, 201)
    cluster.elect(P1, 190, -1, [1])
    cluster.coordinator("PrepareCommit", 202, P0, P1, start_ms=200)
    cluster.marker(P0, 203, "COMMIT")
    cluster.coordinator("CompleteCommit", 204, start_ms=200)
    cluster.elect(P1, 210, 1, [1])
    (finding,) = cluster.judged().in_logs
    assert (finding.check, finding.log, finding.offset) == ("partitions-marked", P1, first)
    assert "the partition had no leader (KAFKA-20734)" in finding.text
    assert "its records begin at offset 0" in finding.text
    cluster.marker(P1, 203, "COMMIT")
    assert not cluster.judged().in_logs


def removed_from_the_beginning(cluster: Cluster, until: int = 1) -> None:
    cluster.made["partitions"][2]["start"] = until


def compacted(cluster: Cluster, until: int = 1) -> None:
    """The cleaner has been at work there."""
    cluster.made["ends"] = [at(P1, 1, take=1, file="cleaner", value=until)]


def deleted(cluster: Cluster) -> None:
    row = {"take": 1, "node": 1, "snapshot": -1, "offset": len(cluster.made["metadata"])}
    cluster.made["metadata"].append(row | {"name": "RemoveTopicRecord", "topic_id": "q"})


def created_again(cluster: Cluster, at_ms: int = 0) -> None:
    deleted(cluster)
    row: dict[str, Any] = {"take": 1, "node": 1, "snapshot": -1, "offset": len(cluster.made["metadata"])}
    cluster.made["metadata"].append(row | {"name": "TopicRecord", "topic": "q", "topic_id": "other"})
    leads = {"leader": 1, "isr": [1], "partition_leader_epoch": 0}
    for tp in (P0, P1):
        row = row | {"offset": row["offset"] + 1, "topic_id": "other", "partition": tp.partition}
        row["timestamp"] = at_ms
        cluster.made["metadata"].append(row | leads | {"name": "PartitionRecord"})
    for one in cluster.made["partitions"]:
        one["topic_id"] = "other" if one["topic"] == "q" else None


def created_again_later(cluster: Cluster) -> None:
    created_again(cluster, at_ms=305)


@pytest.mark.parametrize(
    ("gone", "doubts"),
    [
        (removed_from_the_beginning, 1),
        (compacted, 1),
        (created_again, 1),
        (created_again_later, 0),  # it was about another topic
        (deleted, 0),
    ],
)
def test_a_partition_without_records_of_it_may_rightly_lack_its_marker(
    gone: Callable[[Cluster], None], doubts: int
) -> None:
    cluster = clean()
    cluster.coordinator("Ongoing", 300, P0, P1, start_ms=300)
    cluster.coordinator("PrepareCommit", 302, P0, P1, start_ms=300)
    cluster.marker(P0, 303, "COMMIT")
    cluster.coordinator("CompleteCommit", 304, start_ms=300)
    (finding,) = cluster.judged().in_logs
    assert (finding.check, finding.log, finding.offset) == ("partitions-marked", P1, -1)
    assert "it has no records there" in finding.text
    gone(cluster)
    found = cluster.judged()
    assert not found.in_logs
    assert [(doubt.check, doubt.log) for doubt in found.doubts] == [("partitions-marked", P1)] * doubts


def unmarked() -> Cluster:
    """The third transaction has two batches in a partition, at the offsets 4 and 5, and no marker there."""
    cluster = clean()
    cluster.coordinator("Ongoing", 300, P0, P1, start_ms=300)
    for tp in (P0, P1, P1):
        cluster.records(tp, 301)
    cluster.coordinator("PrepareCommit", 302, P0, P1, start_ms=300)
    cluster.marker(P0, 303, "COMMIT")
    cluster.coordinator("CompleteCommit", 304, start_ms=300)
    return cluster


@pytest.mark.parametrize(
    ("gone", "until", "found"),
    [
        (removed_from_the_beginning, 4, 1),
        (removed_from_the_beginning, 5, 1),  # a marker stands behind all of its records
        (compacted, 5, 1),
        (compacted, 6, 0),  # what is left of the batches may be there for their sequences alone
        (created_again, 0, 1),
        (created_again, 305, 1),  # records of an older transaction, and in the newest topic
    ],
)
def test_behind_records_that_are_left_the_marker_has_to_be_left(
    gone: Callable[[Cluster, int], None], until: int, found: int
) -> None:
    cluster = unmarked()
    gone(cluster, until)
    whole = cluster.judged()
    assert [(one.check, one.log, one.offset) for one in whole.in_logs] == [
        ("partitions-marked", P1, 4)
    ] * found
    assert [(doubt.check, doubt.log) for doubt in whole.doubts] == [("partitions-marked", P1)] * (1 - found)
    cluster.marker(P1, 303, "COMMIT")
    marked = cluster.judged()
    assert not marked.in_logs
    assert not marked.doubts


@pytest.mark.parametrize(("until", "found"), [(7, 1), (8, 0)])
def test_records_after_the_marker_of_a_cleaned_log(until: int, found: int) -> None:
    cluster = unmarked()
    cluster.marker(P1, 303, "COMMIT")
    late = cluster.records(P1, 302)
    assert late == 7
    compacted(cluster, until)
    whole = cluster.judged()
    assert [(one.check, one.log, one.offset) for one in whole.in_logs] == [
        ("partitions-marked", P1, 7)
    ] * found


def test_a_decision_without_its_completion_may_still_send_its_marker() -> None:
    cluster = clean()
    cluster.coordinator("Ongoing", 300, P0, start_ms=300)
    cluster.records(P0, 301)
    cluster.coordinator("PrepareCommit", 302, P0, start_ms=300)
    found = cluster.judged()
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == ["partitions-marked"]


@pytest.mark.parametrize("made", [Cluster, clean])
def test_records_in_a_partition_that_the_decision_does_not_name(made: Callable[[], Cluster]) -> None:
    cluster = made()
    cluster.coordinator("Ongoing", 300, P0, start_ms=300)
    cluster.records(P0, 301)
    hidden = cluster.records(P1, 301)
    assert not cluster.judged().in_logs  # it may still be named
    cluster.coordinator("PrepareCommit", 302, P0, start_ms=300)
    cluster.marker(P0, 303, "COMMIT")
    cluster.coordinator("CompleteCommit", 304, start_ms=300)
    cluster.transaction(400, P0)
    (finding,) = cluster.judged().in_logs
    assert (finding.check, finding.log, finding.offset) == ("partitions-named", P1, hidden)
    assert finding.transactional_id == "id"
    assert finding.before.count("Prepare") == (1 if made is Cluster else 2)  # the one before, and its own
    assert "its decision does not name this partition" in finding.text
    assert "no marker ends them" in finding.text


def test_records_of_a_producer_that_the_log_does_not_know() -> None:
    cluster = clean()
    cluster.records(P1, 300)
    cluster.made["batches"][-1]["producer_id"] = 3000
    (finding,) = cluster.judged().in_logs
    assert (finding.check, finding.log, finding.producer_id) == ("partitions-named", P1, 3000)
    assert "no transaction of __transaction_state has the records 3000/0" in finding.text


@pytest.mark.parametrize("named", [False, True])
def test_at_one_millisecond_a_record_is_of_the_transaction_that_names_its_partition(named: bool) -> None:
    """It was created in the millisecond of a decision, and nothing ends it."""
    cluster = Cluster()
    cluster.transaction(100, *((P0, P1) if named else (P0,)))
    if named:
        cluster.made["batches"] = [
            row for row in cluster.made["batches"] if row["partition"] == 0 or not row["transactional"]
        ]
        cluster.made["control"] = [row for row in cluster.made["control"] if row["partition"] == 0]
        cluster.ends[P1] = 0
    cluster.coordinator("Ongoing", 103, P1, start_ms=103)
    cluster.records(P1, 102)
    wanted = [("partitions-marked", P1, 0)] if named else []
    assert places(cluster.judged()) == wanted


def test_records_that_no_transaction_of_the_log_has() -> None:
    cluster = Cluster()
    cluster.transaction(100, P0, P1)
    hidden = cluster.records(P1, 300)
    (finding,) = cluster.judged().in_logs
    assert (finding.check, finding.log, finding.offset) == ("partitions-named", P1, hidden)
    assert finding.transactional_id == "id"  # its producer's


def test_a_record_that_was_made_after_the_last_decision_and_stands_before_its_marker() -> None:
    """Its client had the answer before it made the record."""
    cluster = Cluster()
    cluster.coordinator("Ongoing", 100, P0, start_ms=100)
    cluster.records(P0, 101)
    cluster.coordinator("PrepareCommit", 102, P0, start_ms=100)
    late = cluster.records(P0, 103)
    cluster.marker(P0, 104, "COMMIT")
    cluster.coordinator("CompleteCommit", 105, start_ms=100)
    assert places(cluster.judged()) == [("partitions-named", P0, late)]


def test_a_record_after_the_marker_of_its_transaction() -> None:
    cluster = clean()
    late = cluster.records(P0, 201)
    assert places(cluster.judged()) == [("partitions-marked", P0, late)]


def test_at_one_millisecond_the_order_of_the_log_decides() -> None:
    cluster = Cluster()
    cluster.transaction(100, P0, P1)
    cluster.coordinator("Ongoing", 103, P0, start_ms=103)
    cluster.records(P0, 102)  # created when EndTxn had been answered, in the millisecond of PrepareCommit
    cluster.coordinator("PrepareAbort", 104, P0, start_ms=103)
    cluster.marker(P0, 105, "ABORT")
    cluster.coordinator("CompleteAbort", 106, start_ms=103)
    assert not cluster.judged().in_logs
    cluster.coordinator("Ongoing", 107, P0, P1, start_ms=107)
    cluster.records(P0, 104)  # open
    assert not cluster.judged().in_logs
    cluster.records(P1, 101)  # before that decision: no transaction of today
    assert places(cluster.judged()) == [("partitions-marked", P1, 2)]


@pytest.mark.parametrize("before", [0, 1])
def test_at_one_millisecond_a_repeated_marker_ends_a_record_of_its_own(before: int) -> None:
    """Created in the millisecond of a decision, it stands between two markers of that; the next transaction
    aborts. before: how many others there were."""
    cluster = Cluster()
    for number in range(before):
        cluster.transaction(50 + number, P0)
    cluster.transaction(100, P0)
    cluster.records(P0, 102)
    cluster.marker(P0, 103, "COMMIT")
    cluster.transaction(103, P0, commit=False)
    assert not cluster.judged().in_logs


def offsets(cluster: Cluster) -> TopicPartition:
    """A partition of the groups' topic, in place of P1."""
    tp = TopicPartition("__consumer_offsets", 1)
    cluster.made["partitions"].append(at(tp, 1, take=1, start=0, files=1, bytes=9))
    cluster.ends[tp] = 0
    cluster.metadata(["q", TOPIC, tp.topic])
    return tp


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("last", [False, True])
def test_a_late_commit_of_offsets_between_a_decision_and_its_marker(last: bool, version: int) -> None:
    """The broker stamps it; as the transaction is open there, it asks no coordinator."""
    cluster = Cluster()
    tp = offsets(cluster)
    for ms, epoch in ((100, 0), (200, version - 1))[: 2 - last]:
        cluster.coordinator("Ongoing", ms, P0, tp, epoch=epoch, start_ms=ms)
        for one in (P0, tp):
            cluster.records(one, ms + 1, epoch)
        ended = {"epoch": epoch + version - 1, "client_transaction_version": version, "start_ms": ms}
        cluster.coordinator("PrepareCommit", ms + 2, P0, tp, **ended)
        cluster.records(tp, ms + 3, epoch)
        for one in (P0, tp):
            cluster.marker(one, ms + 4, "COMMIT", epoch + version - 1)
        cluster.coordinator("CompleteCommit", ms + 5, **ended)
    found = cluster.judged()
    assert not found.in_logs
    assert not found.doubts
    late = cluster.records(tp, ms + 6, epoch)
    after = "partitions-named" if version == 1 else "partitions-marked"
    assert places(cluster.judged()) == [(after, tp, late)]


@pytest.mark.parametrize("stamped", [False, True])
def test_whether_a_broker_or_a_client_stamped_a_record_after_the_decision(stamped: bool) -> None:
    cluster = clean()
    cluster.coordinator("Ongoing", 300, P0, P1, start_ms=300)
    cluster.records(P0, 301)
    first = cluster.records(P1, 301)
    cluster.coordinator("PrepareCommit", 302, P0, P1, start_ms=300)
    cluster.records(P1, 303, stamped=stamped)
    cluster.marker(P0, 304, "COMMIT")
    end = cluster.marker(P1, 304, "COMMIT")
    cluster.coordinator("CompleteCommit", 305, start_ms=300)
    cluster.transaction(400, P0, P1)
    wrong = [] if stamped else [("marker-decided", P1, end), ("partitions-marked", P1, first)]
    assert places(cluster.judged()) == wrong


def test_markers_at_the_millisecond_of_the_next_decision_belong_to_their_own() -> None:
    cluster = Cluster()
    for ms in (100, 101, 102):
        cluster.coordinator("Ongoing", ms, P0, start_ms=ms)
        cluster.records(P0, ms)
        cluster.coordinator("PrepareCommit", ms, P0, start_ms=ms)
        cluster.marker(P0, ms + 1, "COMMIT")
        cluster.coordinator("CompleteCommit", ms + 1, start_ms=ms)
    assert not cluster.judged().in_logs


def test_transactions_of_version_2_are_told_apart_by_their_epochs() -> None:
    cluster = Cluster()
    for epoch in (0, 1):
        ms = 100  # all at one time
        cluster.coordinator("Ongoing", ms, P0, P1, epoch=epoch, start_ms=epoch)
        cluster.records(P0, ms, epoch)
        cluster.records(P1, ms, epoch)
        of = {"client_transaction_version": 2, "start_ms": epoch}
        cluster.coordinator("PrepareCommit", ms, P0, P1, epoch=epoch + 1, **of)
        for tp in (P0, P1)[: 2 - epoch]:
            cluster.marker(tp, ms, "COMMIT", epoch + 1)
        cluster.coordinator("CompleteCommit", ms, epoch=epoch + 1, start_ms=epoch)
    assert places(cluster.judged()) == [("partitions-marked", P1, 2)]


def test_of_a_transaction_of_version_2_compaction_may_have_left_the_decision_alone() -> None:
    """It has the epoch after the one of the records."""
    cluster = Cluster()
    cluster.records(P0, 101)
    ended = {"epoch": 1, "client_transaction_version": 2, "start_ms": 100}
    cluster.coordinator("PrepareCommit", 102, P0, **ended)
    cluster.marker(P0, 103, "COMMIT", epoch=1)
    cluster.coordinator("CompleteCommit", 104, **ended)
    found = cluster.judged()
    assert not found.in_logs
    assert not found.doubts


@pytest.mark.parametrize("coordinator", [3, 10])
def test_a_marker_of_a_coordinator_that_cannot_have_sent_it(coordinator: int) -> None:
    cluster = clean()
    cluster.made["control"][0]["coordinator_epoch"] = coordinator
    assert places(cluster.judged()) == [("marker-coordinator", P0, 1)]


def test_without_a_metadata_log_an_older_coordinator_epoch_is_a_doubt() -> None:
    """On ZooKeeper a coordinator keeps its epoch while that of its log rises."""
    cluster = clean()
    cluster.made["metadata"] = []
    assert doubted(cluster) == []
    cluster.made["control"][0]["coordinator_epoch"] = 3
    assert places(cluster.judged()) == []
    assert doubted(cluster) == [("marker-coordinator", P0)]


def doubted(cluster: Cluster) -> list[tuple[str, TopicPartition | None]]:
    return [(doubt.check, doubt.log) for doubt in cluster.judged().doubts]


def power(cluster: Cluster) -> None:
    cluster.made["takes"].append({"take": 0, "node": 2, "at_ns": 1, "why": LOST_POWER})


def unclean(cluster: Cluster) -> None:
    cluster.elect(LOG, 150, 7, [7])


def no_metadata(cluster: Cluster) -> None:
    cluster.made["metadata"] = []


def beginning_gone(cluster: Cluster) -> None:
    cluster.made["partitions"][0]["start"] = 1


def not_taken(cluster: Cluster) -> None:
    """The only node in sync at the end is another one."""
    cluster.elect(LOG, 150, 2, [2])


def test_a_marker_in_a_damaged_batch_is_a_doubt() -> None:
    cluster = clean()
    row = cluster.made["control"].pop()
    assert [rule for rule, *_ in places(cluster.judged())] == ["partitions-marked"]
    (torn,) = (
        each
        for each in cluster.made["batches"]
        if (each["partition"], each["base"], each["topic"]) == (row["partition"], row["offset"], row["topic"])
    )
    torn["intact"] = False
    found = cluster.judged()
    assert not found.in_logs
    assert "partitions-marked" in {doubt.check for doubt in found.doubts}


@pytest.mark.parametrize("cause", [power, unclean, no_metadata, beginning_gone, not_taken])
def test_where_a_decision_may_be_lost_rightly_there_is_a_doubt(cause: Callable[[Cluster], None]) -> None:
    cluster = clean()
    cluster.made["control"].pop(0)
    cluster.marker(P1, 400, "COMMIT", epoch=1)
    found = cluster.judged()
    assert {each.check for each in found.in_logs} == {
        "decisions-agree",
        "marker-decided",
        "partitions-marked",
    }
    cause(cluster)
    found = cluster.judged()
    assert not found.in_logs
    assert {"marker-decided", "partitions-marked"} <= {doubt.check for doubt in found.doubts}


def stepped(tmp_path: Path, wall_s: float, before_ms: int) -> History:
    """A run whose wall's clock was set by so much, within 10 ms after it showed `before_ms`."""
    jump = ClockJumped(before_ns=before_ms * MS, ns=(before_ms + 10) * MS, wall_s=wall_s)
    return load(write_run(tmp_path / "run", Built(tps=[P0.topic]).tables(), events=[STARTED, jump]))


@pytest.mark.parametrize(
    ("wall_s", "before_ms", "doubts"),
    [
        (-0.2, 1000, 1),  # from 805 to 1010 ms the clock showed times twice
        (-0.2, 1190, 1),
        (-0.2, 1600, 0),  # later
        (-0.2, 700, 0),  # earlier
        (+0.2, 1000, 0),  # no time was shown twice
    ],
)
def test_where_the_clock_was_set_back_a_marker_may_be_older_than_its_decision(
    tmp_path: Path, wall_s: float, before_ms: int, doubts: int
) -> None:
    """The coordinator decided at 1010 ms; then the clock was set back, or a marker came too early."""
    cluster = Cluster()
    cluster.coordinator("Ongoing", BEGAN_MS + 1000, P0, start_ms=BEGAN_MS + 1000)
    cluster.records(P0, BEGAN_MS + 1001)
    cluster.coordinator("PrepareCommit", BEGAN_MS + 1010, P0, start_ms=BEGAN_MS + 1000)
    cluster.marker(P0, BEGAN_MS + 890, "COMMIT")
    cluster.coordinator("CompleteCommit", BEGAN_MS + 1012, start_ms=BEGAN_MS + 1000)
    found = of_all(CHECKS, Evidence(tables(cluster.made)), stepped(tmp_path, wall_s, before_ms))
    assert len(found.in_logs) == (0 if doubts else 2)
    assert len(found.doubts) == (2 if doubts else 0)
