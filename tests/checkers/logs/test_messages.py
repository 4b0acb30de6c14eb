"""Ring 4: each rule fires, and is silent on the same run without the fault.

The messages are those of a simulated run; what Kafka must not do is written into its tables.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from checkers.engine.check import Tally
from checkers.engine.findings import NOWHERE
from checkers.logs.captured_messages import CLOCK_NS, waited_for
from checkers.logs.elections import Elections
from checkers.logs.messages import (
    CHECKS,
    CLOSED,
    ENDED,
    IN_TURN,
    MARKERS_COMMITTED,
    MARKERS_LOGGED,
    REPLICATED,
)
from core.config import run_config
from core.internal_topics import TRANSACTION_TOPIC as TOPIC
from harness.compose import record
from harness.run.progress import silent
from history.evidence import Evidence
from history.evidence_tables import (
    ALL,
    CLIENT,
    END_TXN,
    FETCH,
    PER_NODE,
    PER_PARTITION,
    PER_RUN,
    PRODUCE,
    WRITE_TXN_MARKERS,
    schema,
)
from history.reader import History, load
from model.protocol.messages import PartitionState
from tests.checkers.logs.made import of_all

Tables = dict[str, pa.Table]
SHORT = {"sut": "simulated", "workload": "transactions", "nemesis": "none", "seed": 3, "duration_s": 2}


@dataclass(frozen=True)
class Case:
    history: History
    evidence: Evidence

    def judged(self, change: Callable[[Tables], None] = lambda _: None) -> Tally:
        tables = {name: self.evidence.table(name) for name in (*PER_PARTITION, *PER_NODE, *PER_RUN)}
        change(tables)
        return of_all(CHECKS, Evidence(tables), self.history)


def made(folder: Path, **settings: object) -> Case:
    config = run_config({**SHORT, "capture": True, **settings})
    run = record(config, results=folder, display=silent()).run
    return Case(load(run), Evidence.load(run.evidence))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return made(tmp_path_factory.mktemp("messages"))


def rules(found: Tally) -> set[str]:
    return {kind.check for kind, many in found.counts.items() if many}


def kept(table: pa.Table, mask: Any) -> pa.Table:
    return table.filter(pc.fill_null(mask, fill_value=False))


def without_fetches(tables: Tables, topic: str, node: int) -> None:
    """A follower never fetched the partitions of a topic."""
    parts = tables["frame_parts"]
    own = kept(tables["frames"], pc.and_(pc.equal(tables["frames"]["client"], node), of_api(tables, FETCH)))
    mine = pc.and_(pc.is_in(parts["number"], own["number"]), pc.equal(parts["topic"], topic))
    tables["frame_parts"] = parts.filter(pc.invert(pc.fill_null(mine, fill_value=False)))


def of_api(tables: Tables, api: int) -> Any:
    return pc.equal(tables["frames"]["api"], api)


def first_answer(tables: Tables) -> dict[str, Any]:
    rows = kept(tables["frames"], pc.and_(tables["frames"]["answer"], of_api(tables, PRODUCE)))
    row: dict[str, Any] = rows.slice(0, 1).to_pylist()[0]
    return row


@pytest.mark.sampled(10)
def test_a_sound_run_is_silent_and_exercises_every_rule(case: Case) -> None:
    found = case.judged()
    assert not found.in_logs
    assert not found.doubts
    assert {rule for rule in CHECKS if found.asked[rule]} == {*CHECKS} - {CLOSED}  # no client tries
    assert found.asked[MARKERS_COMMITTED] == found.asked[MARKERS_LOGGED]


def test_without_messages_no_rule_is_asked(case: Case) -> None:
    logs = {name: case.evidence.table(name) for name in (*PER_PARTITION, *PER_NODE)}
    found = of_all(CHECKS, Evidence(logs), case.history)
    assert not found.asked
    assert not found.in_logs
    assert of_all(CHECKS, case.evidence, None).asked == case.judged().asked


@pytest.mark.sampled(8)
def test_a_decision_that_a_follower_never_fetched(case: Case) -> None:
    found = case.judged(lambda tables: without_fetches(tables, TOPIC, 2))
    assert rules(found) == {MARKERS_COMMITTED, ENDED}
    one = found.in_logs[0]
    assert one.log.topic == TOPIC
    assert {node for each in found.in_logs for node in each.nodes} <= {1, 3}  # the coordinators that acted
    assert one.transactional_id
    assert "node 2, in sync, had not asked it for what follows, and never did" in one.text


def test_a_batch_that_was_acknowledged_and_that_a_follower_never_fetched(case: Case) -> None:
    found = case.judged(lambda tables: without_fetches(tables, "transactions", 2))
    assert rules(found) == {REPLICATED}
    assert found.in_logs[0].offset >= 0
    assert {node for each in found.in_logs for node in each.nodes} <= {1, 3}  # the leaders that answered


def test_of_a_leader_that_was_alone_in_sync_no_answer_is_asked(case: Case) -> None:
    """It may act by that set still: nothing could be found."""

    def change(tables: Tables) -> None:
        without_fetches(tables, "transactions", 2)
        rows = tables["metadata"].to_pylist()
        for row in rows:
            if row["name"] == "PartitionRecord":
                row["isr"] = [row["leader"]]
        replaced(tables, "metadata", rows)

    found = case.judged(change)
    assert not found.asked[REPLICATED]
    assert REPLICATED not in rules(found)


@pytest.mark.parametrize(("epoch", "late_ms", "wrong"), [(1, 0, True), (0, 0, False), (1, 10**6, False)])
def test_a_leader_does_not_act_by_the_sets_before_the_epoch_of_its_batch(
    case: Case, epoch: int, late_ms: int, wrong: bool
) -> None:
    """It was alone in sync before, and appended the batch once it led with others. Where that epoch began
    after its answer, the batch in the log is another one."""

    def change(tables: Tables) -> None:
        without_fetches(tables, "transactions", 2)
        rows = tables["metadata"].to_pylist()
        topic = next(row["topic_id"] for row in rows if row["topic"] == "transactions")
        last = max(rows, key=lambda row: (row["take"], row["leader_epoch"], row["offset"], row["node"]))
        place = {name: last[name] for name in ("take", "node", "snapshot", "leader_epoch", "type", "version")}
        made = [row for row in rows if (row["name"], row["topic_id"]) == ("PartitionRecord", topic)]
        for number, row in enumerate(
            row for row in made if (row["take"], row["node"]) == tuple(place.values())[:2]
        ):
            said = {"name": "PartitionChangeRecord", "topic_id": topic, "partition": row["partition"]}
            when = {"offset": last["offset"] + 1 + number, "timestamp": row["timestamp"] + late_ms}
            led = {"leader": row["leader"], "isr": row["isr"]}
            rows.insert(rows.index(last) + 1 + number, dict.fromkeys(last) | place | said | when | led)
        for row in made:
            row["isr"] = [row["leader"]]
        replaced(tables, "metadata", rows)
        batches = tables["batches"].to_pylist()
        for row in batches:
            row["leader_epoch"] = epoch if row["topic"] == "transactions" else row["leader_epoch"]
        replaced(tables, "batches", batches)

    found = case.judged(change)
    assert (REPLICATED in rules(found)) is wrong
    assert bool(found.asked[REPLICATED]) is wrong


@pytest.mark.parametrize("error", [0, 17, None])
def test_a_client_that_writes_the_coordinators_log(case: Case, error: int | None) -> None:
    """One batch of a client is for another topic; its leader refuses it (INVALID_TOPIC_EXCEPTION), or does
    not answer."""

    def change(tables: Tables) -> None:
        answer = first_answer(tables)
        frames = {row["number"]: row for row in tables["frames"].to_pylist()}
        (part,) = (one for one in tables["frame_parts"].to_pylist() if one["number"] == answer["number"])
        parts = tables["frame_parts"].to_pylist()
        for row in parts:
            frame = frames[row["number"]]
            exchange = frame["connection"], frame["correlation"], row["topic"], row["partition"]
            if exchange == (answer["connection"], answer["correlation"], part["topic"], part["partition"]):
                row["topic"] = TOPIC
                row["error"] = error if frame["answer"] else None
        if error is None:
            parts.remove(next(row for row in parts if row["number"] == answer["number"]))
        replaced(tables, "frame_parts", parts)

    found = case.judged(change)
    assert found.asked[CLOSED] == (error is not None)
    assert (CLOSED in rules(found)) is (error == 0)
    if error == 0:
        (one,) = (each for each in found.in_logs if each.check == CLOSED)
        assert one.log.topic == TOPIC
        assert "acknowledged" in one.text
        assert "to a client" in one.text


@pytest.mark.parametrize("known", [True, False])
def test_fetches_name_topics_by_ids_that_a_log_has(case: Case, known: bool) -> None:
    """As since Kafka 3.1. Where no log has an id, it may be this topic's."""

    def by_id(tables: Tables) -> None:
        rows = tables["metadata"].select(["topic", "topic_id", "name"]).to_pylist()
        ids = {row["topic"]: row["topic_id"] for row in rows if row["name"] == "TopicRecord"}
        fetches = {*kept(tables["frames"], of_api(tables, FETCH))["number"].to_pylist()}
        parts = [
            row | ({"topic": None, "topic_id": ids[row["topic"]] if known else "x"})
            if row["number"] in fetches and row["topic"] == "transactions"
            else row
            for row in tables["frame_parts"].to_pylist()
        ]
        tables["frame_parts"] = pa.Table.from_pylist(parts, tables["frame_parts"].schema)

    found = case.judged(by_id)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == (set() if known else {REPLICATED})


@pytest.mark.parametrize("by_zookeeper", [True, False])
def test_with_zookeeper_a_leader_waits_for_no_replica_that_is_taken_off(by_zookeeper: bool) -> None:
    """Else it leaves replicas and in-sync set at once."""
    states = [
        (1, PartitionState((1, 2, 3), (3, 1, 2), 3)),
        (2, PartitionState((3, 2, 1), (3, 1, 2), 3, removing=(1,))),
    ]
    found = waited_for(Elections(states=states, by_zookeeper=by_zookeeper))
    assert [(ms, state.isr) for ms, state in found] == [
        (1, (3, 1, 2)),
        (2, (3, 2) if by_zookeeper else (3, 1, 2)),
    ]


def up_to(tables: Tables, node: int, topic: str, partition: int, offset: int) -> None:
    """A follower never asked for more of a partition than what begins at an offset."""
    asked = kept(tables["frames"], pc.and_(pc.equal(tables["frames"]["client"], node), of_api(tables, FETCH)))
    known = set(asked["number"].to_pylist())
    parts = tables["frame_parts"].to_pylist()
    for row in parts:
        if row["number"] in known and (row["topic"], row["partition"]) == (topic, partition):
            row["offset"] = min(row["offset"], offset)
    tables["frame_parts"] = pa.Table.from_pylist(parts, schema("frame_parts"))


@pytest.mark.parametrize("follows", [0, 1])
def test_a_follower_has_a_batch_once_it_asks_for_what_follows(case: Case, follows: int) -> None:
    """Asking for the last record of a batch is not enough."""
    frames = {row["number"]: row for row in case.evidence.table("frames").to_pylist()}
    parts = [row | frames[row["number"]] for row in case.evidence.table("frame_parts").to_pylist()]
    produced = [row for row in parts if row["api"] == PRODUCE]
    keys = ("connection", "correlation", "topic", "partition")
    records = {tuple(row[key] for key in keys): row["records"] for row in produced if not row["answer"]}
    answer = next(
        row
        for row in produced
        if row["answer"] and not row["error"] and records.get(tuple(row[key] for key in keys), 0) > 1
    )
    last = answer["offset"] + records[tuple(answer[key] for key in keys)] - 1
    place = answer["topic"], answer["partition"]
    follower = next(node for node in (1, 2, 3) if node != answer["server"])
    found = case.judged(lambda tables: up_to(tables, follower, *place, last + follows))
    refused = {
        one.offset
        for one in found.in_logs
        if one.check == REPLICATED and (one.log.topic, one.log.partition) == place
    }
    assert (answer["offset"] in refused) is not bool(follows)


@pytest.mark.sampled(19)
@pytest.mark.parametrize("follows", [0, 1])
def test_a_follower_has_a_decision_once_it_asks_for_what_follows(case: Case, follows: int) -> None:
    whole = case.judged(lambda tables: without_fetches(tables, TOPIC, 2))
    one = next(each for each in whole.in_logs if each.check == MARKERS_COMMITTED)
    offset = one.offset + follows
    found = case.judged(lambda tables: up_to(tables, 2, TOPIC, one.log.partition, offset))
    refused = {
        each.offset for each in found.in_logs if each.check == MARKERS_COMMITTED and each.log == one.log
    }
    assert (one.offset in refused) is not bool(follows)


def test_a_replica_that_led_before_need_not_fetch_what_others_fetched_from_it(case: Case) -> None:
    """Node 2 never fetches, but node 3 fetched everything from it first, as if node 2 had led."""

    def change(tables: Tables) -> None:
        without_fetches(tables, "transactions", 2)
        frames, parts = tables["frames"].to_pylist(), tables["frame_parts"].to_pylist()
        known = {row["number"] for row in frames if row["client"] == 3 and row["api"] == FETCH}
        own = next(row for row in parts if row["number"] in known and row["topic"] == "transactions")
        frames[own["number"]]["server"] = 2
        highest = [{**own, "partition": number, "offset": 10**6} for number in range(6)]
        tables["frame_parts"] = pa.Table.from_pylist(
            sorted([*parts, *highest], key=lambda row: row["number"]), schema("frame_parts")
        )
        tables["frames"] = pa.Table.from_pylist(frames, schema("frames"))

    found = case.judged(change)
    assert found.asked[REPLICATED]
    assert not rules(found)


@pytest.mark.sampled(13)
def test_a_request_with_a_number_that_was_used_before_is_another_one(case: Case) -> None:
    def change(tables: Tables) -> None:
        frames, parts = tables["frames"].to_pylist(), tables["frame_parts"].to_pylist()
        number = len(frames)
        for asked in [row for row in frames if row["api"] == PRODUCE and not row["answer"]]:
            own = [row for row in parts if row["number"] == asked["number"]]
            parts += [row | {"number": number, "records": 10**6} for row in own]
            frames.append(asked | {"number": number, "at_ns": frames[-1]["at_ns"]})
            number += 1
        tables["frames"] = pa.Table.from_pylist(frames, schema("frames"))
        tables["frame_parts"] = pa.Table.from_pylist(parts, schema("frame_parts"))

    assert not case.judged(change).in_logs


def test_without_the_metadata_log_it_is_unknown_which_replicas_had_to_have_a_batch(case: Case) -> None:
    def change(tables: Tables) -> None:
        without_fetches(tables, "transactions", 2)
        tables["metadata"] = tables["metadata"].slice(0, 0)

    found = case.judged(change)
    assert not found.refused[REPLICATED]
    assert not found.asked[REPLICATED]
    assert REPLICATED in {one.check for one in found.doubts}


@pytest.mark.parametrize("heard", [False, True])
def test_a_coordinator_that_leads_no_more_has_to_hear_what_its_successor_knows(
    case: Case, heard: bool
) -> None:
    """The first markers come from a follower; the leader answers its Fetches, or none after the first."""

    def change(tables: Tables) -> None:
        frames = tables["frames"].to_pylist()
        sent = next(row for row in frames if row["api"] == WRITE_TXN_MARKERS and not row["answer"])
        leader = sent["client"]
        sent["client"] = other = next(node for node in (1, 2, 3) if node != leader)
        told = [row for row in frames if row["api"] == FETCH and row["answer"]]
        told = [row for row in told if (row["client"], row["server"]) == (other, leader)]
        for row in () if heard else told:
            row["at_ns"] = told[0]["at_ns"]
        tables["frames"] = pa.Table.from_pylist(frames, schema("frames"))

    assert rules(case.judged(change)) == (set() if heard else {MARKERS_COMMITTED})


def test_a_marker_that_nobody_decided(case: Case) -> None:
    def change(tables: Tables) -> None:
        parts = tables["frame_parts"].to_pylist()
        marker = next(row for row in parts if row["coordinator_epoch"] is not None)
        marker["producer_epoch"] += 7
        tables["frame_parts"] = pa.Table.from_pylist(parts, schema("frame_parts"))

    found = case.judged(change)
    assert rules(found) == {MARKERS_LOGGED}
    assert found.refused[MARKERS_LOGGED] == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_clock_that_was_set_between_a_decision_and_its_markers(case: Case, all_of_them: bool) -> None:
    """From the first markers on, messages have times of 100 ms before; or all of them do, so that it was not
    set, and markers were sent before anybody decided."""

    def change(tables: Tables) -> None:
        frames = tables["frames"].to_pylist()
        first = next(row["number"] for row in frames if row["api"] == WRITE_TXN_MARKERS)
        for row in frames:
            row["ms"] -= 100 if all_of_them or row["number"] >= first else 0
        tables["frames"] = pa.Table.from_pylist(frames, schema("frames"))

    assert (MARKERS_LOGGED in rules(case.judged(change))) is all_of_them
    assert all_of_them or not rules(case.judged(change))


def test_a_marker_may_be_of_any_decision_like_it(case: Case) -> None:
    """A dead node had each decision at another offset, too, which no follower ever fetched."""

    def change(tables: Tables) -> None:
        rows = tables["transaction_log"].to_pylist()
        decided = [row for row in rows if (row["state"] or "").startswith("Prepare")]
        lost = [
            row | {"take": 99, "offset": row["offset"] + 10**6, "timestamp": row["timestamp"] - 1}
            for row in decided
        ]
        rows = sorted([*rows, *lost], key=lambda row: row["partition"])
        tables["transaction_log"] = pa.Table.from_pylist(rows, schema("transaction_log"))

    found = case.judged(change)
    assert found.asked[MARKERS_COMMITTED]
    assert not found.in_logs


@pytest.fixture(scope="module")
def decision(case: Case) -> dict[str, Any]:
    """The record of a decision; with its first marker: frame `number`, `sent_ns`, `sent_ms`, `by` a node."""
    one = case.judged(lambda tables: without_fetches(tables, TOPIC, 2)).in_logs[0]
    rows = case.evidence.table("transaction_log").to_pylist()
    (row, *_) = (row for row in rows if (row["partition"], row["offset"]) == (one.log.partition, one.offset))
    frames = case.evidence.table("frames").to_pylist()
    number, *_ = (
        part["number"]
        for part in case.evidence.table("frame_parts").to_pylist()
        if part["coordinator_epoch"] is not None
        and (part["producer_id"], part["producer_epoch"]) == (row["producer_id"], row["producer_epoch"])
    )
    frame = frames[number]
    made: dict[str, Any] = row | {
        "number": number,
        "sent_ns": frame["at_ns"],
        "sent_ms": frame["ms"],
        "by": frame["client"],
    }
    return made


def early(case: Case, decision: dict[str, Any], *changes: Callable[[Tables], None]) -> bool:
    """Whether its markers were sent too early."""

    def change(tables: Tables) -> None:
        for one in changes:
            one(tables)

    place = decision["partition"], decision["offset"]
    found = case.judged(change).in_logs
    return place in {(one.log.partition, one.offset) for one in found if one.check == MARKERS_COMMITTED}


def replaced(tables: Tables, name: str, rows: list[dict[str, Any]]) -> None:
    tables[name] = pa.Table.from_pylist(rows, schema(name))


@pytest.mark.sampled(35)
def test_an_older_decision_like_it_that_was_completed_explains_no_marker(
    case: Case, decision: dict[str, Any]
) -> None:
    """Before transaction version 2 all of a producer have one epoch. The older one is on all replicas."""

    def lacking(tables: Tables) -> None:
        up_to(tables, 2, TOPIC, decision["partition"], decision["offset"])

    def older(tables: Tables) -> None:
        rows = tables["transaction_log"].to_pylist()
        begun, ended = decision["start_ms"] - 1000, decision["state"].replace("Prepare", "Complete")
        made = [
            {name: decision[name] for name in rows[0]}
            | {"node": node, "offset": at, "state": state, "start_ms": begun, "timestamp": begun + at}
            for node in (1, 2, 3)
            for at, state in enumerate((decision["state"], ended))
        ]
        rows = sorted([*made, *rows], key=lambda row: (row["partition"], row["node"]))
        replaced(tables, "transaction_log", rows)

    assert early(case, decision, lacking)
    assert early(case, decision, lacking, older)
    assert not early(case, decision, older)


@pytest.mark.parametrize(("late_ns", "wrong"), [(0, False), (1_000_000, False), (1_000_001, True)])
def test_a_message_may_have_come_a_millisecond_before_it_was_seen(
    case: Case, decision: dict[str, Any], late_ns: int, wrong: bool
) -> None:
    """The follower asks for what follows the decision so long after its marker was sent."""

    def change(tables: Tables) -> None:
        up_to(tables, 2, TOPIC, decision["partition"], decision["offset"])
        frames, parts = tables["frames"].to_pylist(), tables["frame_parts"].to_pylist()
        asked = {
            row["number"]
            for row in frames
            if (row["client"], row["server"], row["api"]) == (2, decision["by"], FETCH)
            and row["number"] > decision["number"]
            and not row["answer"]
        }
        part = next(
            row
            for row in parts
            if row["number"] in asked and (row["topic"], row["partition"]) == (TOPIC, decision["partition"])
        )
        part["offset"] = decision["offset"] + 1
        frames[part["number"]]["at_ns"] = decision["sent_ns"] + late_ns
        replaced(tables, "frames", frames)
        replaced(tables, "frame_parts", parts)

    assert early(case, decision, change) is wrong


@pytest.mark.parametrize(("late_ms", "wrong"), [(0, False), (5, False), (6, True)])
def test_a_leader_may_know_of_an_in_sync_set_a_moment_before_its_time(
    case: Case, decision: dict[str, Any], late_ms: int, wrong: bool
) -> None:
    """The follower that never fetched leaves the in-sync set so long after the marker was sent."""

    def change(tables: Tables) -> None:
        without_fetches(tables, TOPIC, 2)
        rows = tables["metadata"].to_pylist()
        topic = next(row["topic_id"] for row in rows if row["topic"] == TOPIC)
        nothing = dict.fromkeys(rows[0])
        last = max(rows, key=lambda row: (row["take"], row["leader_epoch"], row["offset"], row["node"]))
        place = {name: last[name] for name in ("take", "node", "snapshot", "leader_epoch", "type", "version")}
        left = {"name": "PartitionChangeRecord", "topic_id": topic, "partition": decision["partition"]}
        when = {"offset": last["offset"] + 1, "timestamp": decision["sent_ms"] + late_ms}
        rows.insert(rows.index(last) + 1, nothing | place | left | when | {"isr": [1, 3]})
        replaced(tables, "metadata", rows)

    assert early(case, decision, change) is wrong


@pytest.mark.parametrize(("by", "wrong"), [("a node that died", set()), ("nobody", {MARKERS_LOGGED})])
def test_a_marker_by_a_decision_that_the_log_lost(
    case: Case, decision: dict[str, Any], by: str, wrong: set[str]
) -> None:
    def change(tables: Tables) -> None:
        rows = tables["transaction_log"].to_pylist()
        place = decision["partition"], decision["offset"]
        left = [row for row in rows if (row["partition"], row["offset"]) != place]
        lost = [{name: decision[name] for name in rows[0]} | {"take": 99}] if by != "nobody" else []
        lost += [row | {"take": 99, "offset": 10**6} for row in left if row["state"] == "Ongoing"][:1]
        replaced(tables, "transaction_log", sorted([*left, *lost], key=lambda row: row["partition"]))

    assert rules(case.judged(change)) == wrong


def test_an_end_whose_request_was_not_seen_is_not_judged(case: Case) -> None:
    """It comes unasked; whether what it says was true then is not known."""

    def change(tables: Tables) -> None:
        frames = tables["frames"].to_pylist()
        gone = next(row["number"] for row in frames if row["api"] == END_TXN and not row["answer"])
        tables["frames"] = tables["frames"].filter(pc.not_equal(tables["frames"]["number"], gone))

    whole, found = case.judged(), case.judged(change)
    assert rules(found) == {IN_TURN}
    assert found.asked[ENDED] == whole.asked[ENDED] - 1


@pytest.mark.sampled(8)
@pytest.mark.parametrize("how", ["twice", "unasked"])
def test_an_answer_that_was_not_due(case: Case, how: str) -> None:
    def change(tables: Tables) -> None:
        answer = first_answer(tables)
        answer["number"] = tables["frames"].num_rows
        answer["correlation"] += 5_000_000 if how == "unasked" else 0
        more = pa.Table.from_pylist([answer], schema("frames"))
        tables["frames"] = pa.concat_tables([tables["frames"], more])

    found = case.judged(change)
    assert rules(found) == {IN_TURN}


def test_answers_in_another_order(case: Case) -> None:
    def change(tables: Tables) -> None:
        frames = tables["frames"].to_pylist()
        first = next(row for row in frames if row["answer"])
        mine = [row for row in frames if row["connection"] == first["connection"]]
        asked = next(row for row in mine if not row["answer"])
        more = asked | {"correlation": 9_000_000}
        frames.insert(frames.index(asked), more)
        tables["frames"] = pa.Table.from_pylist(frames, schema("frames"))

    found = case.judged(change)
    assert rules(found) == {IN_TURN}
    (finding,) = found.in_logs
    assert "9000000 was due" in finding.text
    assert (finding.log, finding.offset, finding.take) == (NOWHERE, -1, -1)


@pytest.mark.parametrize("where", [{"connection": ALL, "client": CLIENT}, {"connection": 9, "client": 2}])
def test_where_messages_may_be_missing_there_are_doubts(case: Case, where: dict[str, int]) -> None:
    """Of each act after the time since when they may be: acts before it rest on what was seen."""
    gap = {"server": 1, "why": "lost", "client_port": 0, "server_port": 0, **where}

    def judged(at_ns: int) -> Tally:
        def change(tables: Tables) -> None:
            without_fetches(tables, TOPIC, 2)
            without_fetches(tables, "transactions", 2)
            tables["gaps"] = pa.Table.from_pylist([gap | {"at_ns": at_ns}], schema("gaps"))

        return case.judged(change)

    early = {MARKERS_COMMITTED, ENDED, REPLICATED}
    found = judged(0)
    assert not found.in_logs
    assert {one.check for one in found.doubts} == early
    last = int(pc.max(case.evidence.table("frames")["at_ns"]).as_py())
    found = judged(last + 2 * CLOCK_NS)
    assert rules(found) == early
    assert not found.doubts


@pytest.mark.sampled(32)
@pytest.mark.parametrize(
    ("mutant", "workload", "rule"),
    [
        ("ack-before-replication", "queue", REPLICATED),
        ("commit-before-prepare-logged", "transactions", ENDED),
    ],
)
def test_planted_bugs_whose_logs_are_those_of_a_sound_cluster(
    tmp_path: Path, mutant: str, workload: str, rule: str
) -> None:
    planted = made(tmp_path, workload=workload, mutant=mutant)
    assert rules(planted.judged()) == {rule}
