"""The first screen of a failing run: its records, leaders, faults and commands are those of the run."""

import dataclasses
import re
from datetime import datetime
from glob import glob
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.catalogue import ANOMALIES
from checkers.engine.findings import CAP
from harness.report import build, clock, headlines, inputs, near_faults, records, story, wording
from harness.report.inputs import Inputs
from harness.report.timeline import numbers
from history.run_folder import Run
from history.verdict import IN_THE_LOG, Example, Fault
from tests.histories import traced
from tests.histories.report_findings import FOLDERS, anomalous
from tests.histories.report_runs import FAULTS, clean


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A simulated run that lost records."""
    return traced.recorded(tmp_path_factory.mktemp("lost") / "run", traced.losing())


def told(run: Run) -> tuple[Inputs, story.Story]:
    read = inputs.read(run)
    found = story.build(read, numbers.build(read))
    assert found is not None
    return read, found


def fault(number: int, begin: float, end: float | None) -> Fault:
    return msgspec.structs.replace(FAULTS[0], fault=number, begin_s=begin, end_s=end)


@pytest.mark.sampled(48)
def test_the_example_is_of_the_first_row(lost: Run) -> None:
    _, found = told(lost)
    assert story._within(found.example, found.ranges[0])
    other = dataclasses.replace(found.ranges[0], partition="other-0")
    assert not story._within(found.example, other)
    row = dataclasses.replace(found.ranges[0], offsets=(), begin=1.0, end=2.0)
    for at, within in ((1.5, True), (2.5, False), (None, False)):
        assert story._within(msgspec.structs.replace(found.example, at_s=at), row) is within


@pytest.mark.sampled(8)
def test_the_ranges_hold_every_lost_record_once(lost: Run) -> None:
    read, found = told(lost)
    assert read.history is not None
    assert found.name == "lost-write"
    rows = [row for row in pq.read_table(lost.anomalies).to_pylist() if row["anomaly"] == "lost-write"]
    values = {tuple(row["key"]) for row in rows if row["tp"] >= 0}
    assert sum(one.count for one in found.ranges) + found.records_more == len(values)
    assert not found.partial
    sends = [
        one for one in read.history.sends({0: {"value": {value for _, value in values}}}) if one.ack_ns >= 0
    ]
    first, last = min(one.ack_ns for one in sends), max(one.ack_ns for one in sends)
    begins = [one.begin for one in found.ranges if one.begin is not None]
    ends = [one.end for one in found.ranges if one.end is not None]
    assert min(begins) == pytest.approx(read.seconds(first))
    assert max(ends) == pytest.approx(read.seconds(last))
    offsets = [offset for one in found.ranges for offset in one.offsets]
    assert (min(offsets), max(offsets)) == (min(s.offset for s in sends), max(s.offset for s in sends))


def test_the_leader_is_the_one_that_the_fault_killed(lost: Run) -> None:
    _, found = told(lost)
    (first, *_) = found.ranges
    killed = next(one for one in found.faults if str(one.fault.nodes[0]) == first.leader)
    assert killed.fault.name == "kill:one@leader"
    assert first.next_leader not in ("", first.leader)
    assert first.next_at is not None
    assert first.end is not None
    assert first.next_at > first.end
    assert found.drawing is not None
    names = {bar.name for strip in found.drawing.strips for bar in strip.bars}
    assert {"kill:one@leader", f"node {first.leader}"} <= names
    assert any("acknowledged" in name for name in names)
    assert found.drawing.axis.begin <= (first.begin or 0) <= found.drawing.axis.end


@pytest.mark.sampled(10)
def test_what_now_repeats_shrinks_and_asks_this_run(lost: Run) -> None:
    _, found = told(lost)
    commands = dict(found.steps)
    assert commands["Repeat the run"] == inputs.read(lost).verdict.repro
    assert f"inquest recording shrink --anomaly lost-write {lost.folder}" in commands.values()
    assert commands["List all its findings"].endswith(f"--results {lost.folder}")
    assert "anomaly = 'lost-write'" in commands["List all its findings"]
    assert [path for _, path in found.paths if not glob(path)] == []


def test_a_name_from_outside_goes_into_no_command(tmp_path: Path) -> None:
    _, found = told(FOLDERS["hostile"]().write(tmp_path / "a 'run"))
    assert not [text for _, text in found.steps if "inquest sql" in text]
    shrink = next(text for _, text in found.steps if "shrink" in text)
    assert shrink == f"inquest recording shrink '{tmp_path}/a '\"'\"'run'"


def test_a_run_without_a_forbidden_finding_has_no_story(tmp_path: Path) -> None:
    for name in ("clean", "empty"):
        read = inputs.read(FOLDERS[name]().write(tmp_path / name))
        assert story.build(read, numbers.build(read)) is None
    folder = anomalous()
    assert folder.verdict is not None
    permitted = {
        name: msgspec.structs.replace(one, disallowed=0, allowed=True)
        for name, one in folder.verdict.anomalies.items()
    }
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies=permitted)
    read = inputs.read(folder.write(tmp_path / "permitted"))
    assert story.build(read, numbers.build(read)) is None
    folder.verdict = msgspec.structs.replace(folder.verdict, expect={"lost-write": True})
    read = inputs.read(folder.write(tmp_path / "control"))
    control = story.build(read, numbers.build(read))
    assert control is not None
    assert control.name == "lost-write", "a control is about what it has to find"


def test_the_story_is_of_the_most_severe_class_that_no_known_bug_explains(tmp_path: Path) -> None:
    def story_of(run: str, **bugs: str) -> str:
        folder = anomalous()
        assert folder.verdict is not None
        classes = {
            name: msgspec.structs.replace(one, known_bug=bugs.get(name.replace("-", "_"), ""))
            for name, one in folder.verdict.anomalies.items()
        }
        folder.verdict = msgspec.structs.replace(folder.verdict, anomalies=classes)
        return told(folder.write(tmp_path / run))[1].name

    assert story_of("none known") == "lost-write"
    assert story_of("worst known", lost_write="KAFKA-1") == "torn-txn"
    assert story_of("both known", lost_write="KAFKA-1", torn_txn="KAFKA-2") == "lost-write"


@pytest.mark.parametrize(
    ("bug", "reproduction"),
    [
        ("KAFKA-15591", "kafka-15591"),
        ("uncommitted-state", "uncommitted-abort"),  # the first of two
        ("KAFKA-17754", "kafka-17754-abort"),
    ],
)
def test_a_known_bug_comes_with_its_rate_and_its_reproduction(
    tmp_path: Path, bug: str, reproduction: str
) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    one = msgspec.structs.replace(
        folder.verdict.anomalies["lost-write"], known_bug=bug, known_bug_url="https://x.example/1"
    )
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies={"lost-write": one})
    _, found = told(folder.write(tmp_path / "run"))
    assert found.bug is not None
    assert re.match(r"\d+ of \d+ runs with Kafka ", found.bug.met)
    assert found.first_step[1] == f"inquest bugs reproduce {reproduction}"
    decided = SimpleNamespace(states=[(1.0, "PrepareCommit")])
    late = story._bug(one, one.examples[0], cast(Any, SimpleNamespace(decided=decided)))
    assert late is not None
    assert late.reproduce.endswith("-commit") is (bug == "KAFKA-17754")
    assert bug in found.cause.named
    both = msgspec.structs.replace(one, known_bug=f"KAFKA-1, {bug}", known_bug_url="")
    example = msgspec.structs.replace(one.examples[0], known_bug=bug)
    of_example = story._bug(both, example, cast(Any, SimpleNamespace(decided=None)))
    assert of_example == dataclasses.replace(found.bug, url="")


def test_findings_without_a_table_are_told_by_their_examples(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    run = folder.write(tmp_path / "run")
    _, found = told(run)
    partitions = {one.partition for one in folder.verdict.anomalies[found.name].examples}
    assert {one.partition for one in found.ranges} <= partitions
    assert found.partial
    run.checked.mkdir()
    run.anomalies.write_bytes(b"no table")
    read, again = told(run)
    assert (
        again.ranges
        == records._of_examples(folder.verdict.anomalies[found.name].examples)[: story.RANGES_MAX]
    )
    assert any("anomalies.parquet" in gap for gap in read.gaps)


@pytest.mark.sampled(8)
def test_findings_of_the_table_that_are_permitted_are_no_part_of_the_story(tmp_path: Path, lost: Run) -> None:
    table = pq.read_table(lost.anomalies)
    read, found = told(lost)
    column = table.schema.get_field_index("allowed")
    none = table.set_column(column, "allowed", pa.array([True] * table.num_rows))
    keys, kept = records._keys(records._kept(read, found.name, allowed=False), found.name)
    assert kept >= sum(map(len, keys.values())) > 0
    copy = Run(tmp_path / "copy")
    copy.checked.mkdir(parents=True)
    pq.write_table(none, copy.anomalies)
    changed = Inputs(**{**{f: getattr(read, f) for f in read.__slots__}, "run": copy})
    assert not records._kept(changed, found.name, allowed=False)


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], []),
        ([fault(0, 5, 12)], ["in force when A"]),
        ([fault(0, 5, None)], ["in force when A"]),
        ([fault(0, 10, 11)], ["in force when A"]),
        ([fault(0, 10.072, 11)], ["began 72 ms after A"]),
        ([fault(0, 1, 9.5)], ["ended 500 ms before A"]),
        ([fault(0, 11.005, 12)], ["began 5 ms after B"]),
        ([fault(0, 13, 14), fault(1, 20, 21)], ["began 2.0 s after B"]),
        ([fault(0, 1, 2), fault(1, 3, 4)], ["ended 6.0 s before A"]),
        ([fault(0, 50, 51)], []),
        ([fault(0, 41.5, 51)], []),
    ],
)
def test_a_fault_is_next_to_a_finding_within_half_a_minute(faults: list[Fault], expected: list[str]) -> None:
    assert [one.when for one in near_faults.near(faults, [10.0, 11.0], ("A", "B"))] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lost-write", ["in force when A", "ended 500 ms before A", "began 2.0 s after B"]),
        ("aborted-read", ["in force when A", "ended 500 ms before A"]),
        ("not-recovered", ["ended 500 ms before A", "ended 8.0 s before A"]),
    ],
)
def test_only_faults_that_may_explain_a_finding_are_next_to_it(name: str, expected: list[str]) -> None:
    faults = [fault(0, 1, 2), fault(1, 5, 9.5), fault(2, 9.9, 30), fault(3, 13, 14)]
    found = near_faults.of_story(name, faults, [10.0, 11.0], ("A", "B"))
    assert [one.when for one in found] == expected


def test_findings_that_are_complete_come_about_during_their_ops() -> None:
    example = next(iter(anomalous().verdict.anomalies["lost-write"].examples))  # type: ignore[union-attr]
    row = records.Records(partition="x-0", count=1, begin=1.0, end=2.0)
    traces = SimpleNamespace(example=example, offsets=None, decided=None, written=None)
    times, moments = near_faults.when("duplicate", cast(Any, traces), [row])
    assert (times, moments) == (near_faults._of_ops(example), near_faults.OF_OPS)
    times, moments = near_faults.when("lost-write", cast(Any, traces), [row])
    assert (times, moments[0]) == ([1.0, 2.0], "the first of these records was acknowledged")


def test_a_fault_that_the_witness_names_is_not_beside_it() -> None:
    example = Example(sentence="", allowed=False, why="", at_s=10.0, faults=[0])
    both = [fault(0, 5, 12), fault(1, 13, 14)]
    assert [one.fault.fault for one in near_faults.beside(example, both)] == [1]


@pytest.mark.parametrize("name", ANOMALIES)
def test_headlines_are_sentences_with_their_number(name: str) -> None:
    title = ANOMALIES[name].title
    one, many = (headlines.headline(name, title, n) for n in (1, 1234))
    assert one[0].isupper() or one[0].isdigit()
    assert "{" not in one + many
    assert "1\u202f234" in many or name == "not-recovered"


def test_what_no_broker_acknowledged_is_not_called_acknowledged() -> None:
    assert headlines.headline("lost-write", "", 2, acknowledged=False) == (
        "2 records that took effect are gone"
    )
    assert headlines.headline("duplicate", "", 1, acknowledged=False) == headlines.headline(
        "duplicate", "", 1
    )


def test_a_record_that_is_in_the_log_is_not_called_gone() -> None:
    told = headlines.headline("lost-write", "", 2, withheld=True)
    assert told.startswith("2 records are in their logs, and")
    assert headlines.headline("duplicate", "", 1, withheld=True) == headlines.headline("duplicate", "", 1)
    in_log, gone = (
        Example(sentence=f"It was acknowledged; {seen}.", allowed=False, why="", at_s=1.0)
        for seen in (f"{IN_THE_LOG}, and the others went beyond it", "gone")
    )
    assert headlines.withheld([in_log])
    assert not headlines.withheld([in_log, gone])
    assert not headlines.withheld([])


def test_a_loss_that_brokers_logs_alone_show_is_called_that() -> None:
    told = headlines.headline("lost-write", "", 3, in_logs=True)
    assert told == "Leaders’ logs lack what was acknowledged or read, at 3 places"
    assert headlines.headline("duplicate", "", 1, in_logs=True) == headlines.headline("duplicate", "", 1)


def test_a_long_text_of_a_fault_keeps_its_verb() -> None:
    roles = "; ".join(["leader of x-1, x-2, x-3", "transaction coordinator of a, b and 7 more"] * 2)
    text = f"all replicas of x-0: node 1 ({roles}), node 2 ({roles}) were shut down"
    assert len(text) > near_faults.TEXT_MOST
    roles = "(leader of x-1, x-2, x-3…)"
    assert (
        near_faults.shortened(text) == f"all replicas of x-0: node 1 {roles}, node 2 {roles} were shut down"
    )
    assert near_faults.shortened("node 1 (leader of x-1) was killed") == "node 1 (leader of x-1) was killed"


@pytest.mark.sampled(5)
def test_where_no_time_is_on_record_no_fault_is_called_absent(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    name = "replica-divergence"
    bare = Example(sentence="Copies differ.", allowed=False, why="", partition="other-0")
    anomaly = msgspec.structs.replace(folder.verdict.anomalies["lost-write"], examples=[bare])
    folder.verdict = msgspec.structs.replace(folder.verdict, anomalies={name: anomaly})
    run = folder.write(tmp_path / "run")
    _, found = told(run)
    assert (found.timed, found.faults) == (False, [])
    html = build(run).read_text()
    assert "when this came about is not on record" in html
    assert "None near it" not in html


def test_steps_of_consumers_are_rows_with_both_offsets() -> None:
    def step(*offsets: int) -> Example:
        return Example(sentence="", allowed=False, why="", partition="x-0", offsets=list(offsets))

    found = list(records._steps([step(7, 0), step(7, 0), step(3, 4, 9), step(3)]))
    assert [(one.offsets, one.count, one.step) for one in found] == [((7, 0), 2, True), ((3, 9), 1, True)]
    assert story._within(step(7, 0), found[0])


def test_records_that_no_client_sent_have_their_offsets(lost: Run) -> None:
    read, _ = told(lost)
    assert read.history is not None
    timeline = numbers.build(read)
    ends = read.history.bounds[0]
    beyond = max(bound.end for bound in ends.values()) + 5
    (row,) = records._of_keys(read, read.history, timeline, "offset", {0: {beyond}})
    assert (row.partition, row.count, row.offsets) == (read.history.tp(0), 1, (beyond, beyond))


def test_what_logs_alone_show_stands_behind_what_clients_saw(lost: Run) -> None:
    verdict = inputs.read(lost).verdict
    anomaly = verdict.anomalies["lost-write"]
    in_logs = wording.found_in_logs(verdict, "lost-write")
    assert 0 < in_logs < anomaly.disallowed
    seen = msgspec.structs.replace(anomaly, disallowed=1)
    for found, first in ((in_logs, "group-skip"), (in_logs + 1, "lost-write")):
        both = {"lost-write": msgspec.structs.replace(anomaly, disallowed=found), "group-skip": seen}
        ranked = wording.ranked(msgspec.structs.replace(verdict, anomalies=both))
        assert ranked[0][0] == first
    alone = {"lost-write": msgspec.structs.replace(anomaly, disallowed=in_logs)}
    assert wording.worst(msgspec.structs.replace(verdict, anomalies=alone)) is not None


@pytest.mark.sampled(24)
def test_records_above_a_stuck_last_stable_offset_are_counted(lost: Run) -> None:
    read, _ = told(lost)
    assert read.history is not None
    example = Example(sentence="", allowed=False, why="", partition="queue-0")
    assert not list(records._hidden(read.history, [example])), "both levels end at the same offset"
    by_level = read.history.bounds[0]
    level, *_ = by_level
    end = by_level[level].end
    by_level[level] = dataclasses.replace(by_level[level], end=end - 5)
    (found,) = records._hidden(read.history, [example, example])
    assert (found.count, found.offsets) == (5, (end - 5, end - 1))


@pytest.mark.sampled(8)
def test_findings_that_were_counted_and_not_kept_are_named(tmp_path: Path) -> None:
    read, found = told(traced.recorded(tmp_path / "run", traced.losing(1)))  # seed 0 loses fewer
    anomaly, checks = read.verdict.anomalies["lost-write"], read.verdict.log_checks.values()
    in_logs = sum(check.disallowed for check in checks if "lost-write" in check.anomalies)
    of_clients = anomaly.disallowed - in_logs
    assert of_clients > CAP, "more than the checker keeps of a partition"
    assert sum(one.count for one in found.ranges) + found.records_more == CAP
    assert found.not_kept == of_clients - CAP
    more = msgspec.structs.replace(anomaly, count=anomaly.count + 7, disallowed=anomaly.disallowed + 7)
    verdict = msgspec.structs.replace(read.verdict, anomalies={"lost-write": more})
    capped = dataclasses.replace(read, verdict=verdict)
    again = story.build(capped, numbers.build(capped))
    assert again is not None
    assert again.not_kept == found.not_kept + 7


@pytest.mark.sampled(18)
def test_findings_in_logs_that_the_headline_does_not_count_are_told(lost: Run) -> None:
    read, found = told(lost)
    counted = headlines.many(read.verdict, "lost-write", found.anomaly)
    assert 0 < counted < found.anomaly.disallowed
    assert found.in_logs == found.anomaly.disallowed - counted
    assert "in what clients saw" in build(lost).read_text()


def test_what_a_loss_brought_with_it_is_called_its_consequence(lost: Run) -> None:
    read, found = told(lost)
    lost_range = next(row for row in found.ranges if row.offsets)
    low, high = sorted(lost_range.offsets)
    here = msgspec.structs.replace(found.example, partition=lost_range.partition, offsets=[low])
    elsewhere = msgspec.structs.replace(here, offsets=[high + 10**6])
    one = msgspec.structs.replace(found.anomaly, examples=[here], count=3, disallowed=3)
    both = msgspec.structs.replace(one, examples=[here, elsewhere])
    anomalies = {found.name: found.anomaly, "inconsistent-offsets": one, "nonmonotonic-send": both}
    verdict = msgspec.structs.replace(read.verdict, anomalies=anomalies | {"duplicate": one})
    ((name, many, _),) = story.follows(verdict, found.name, found.ranges)
    assert (name, many) == ("inconsistent-offsets", 3)
    assert story.follows(verdict, "duplicate", found.ranges) == []


def test_a_cluster_that_did_not_recover_stands_behind_damaged_data(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    one = msgspec.structs.replace(
        folder.verdict.anomalies["lost-write"], examples=folder.verdict.anomalies["lost-write"].examples[:1]
    )
    order = ("not-recovered", "replica-divergence")
    both = msgspec.structs.replace(folder.verdict, anomalies=dict.fromkeys(order, one))
    assert [name for name, _ in wording.ranked(both)] == ["replica-divergence", "not-recovered"]
    other = msgspec.structs.replace(
        folder.verdict, anomalies=dict.fromkeys(("not-recovered", "model-violation"), one)
    )
    assert [name for name, _ in wording.ranked(other)] == ["not-recovered", "model-violation"]


@pytest.mark.sampled(10)
def test_input_records_of_a_group_are_told_without_their_leaders(tmp_path: Path) -> None:
    folder = anomalous()
    assert folder.verdict is not None
    one = folder.verdict.anomalies["lost-write"]
    for name, shown in (("lost-write", True), ("group-duplicate", False)):
        folder.verdict = msgspec.structs.replace(folder.verdict, anomalies={name: one})
        run = folder.write(tmp_path / name)
        assert any(row.begin is not None for row in told(run)[1].ranges) is shown
        assert ("Elected leader" in build(run).read_text()) is shown


@pytest.mark.parametrize(
    ("name", "sentence", "partition", "op", "same"),
    [
        ("model-violation", "at offset 22: queue-3, which is there", "__cluster_metadata-0", -1, "partition"),
        ("model-violation", "at offset 22", "queue-3", -1, "partition"),
        ("zombie-write", "Record 1/2", "queue-9", 7, "op"),
        ("model-violation", "at offset 22: queue-31 and old.queue-3 and my-queue-3", "queue-31", -1, ""),
        ("duplicate", "Record 1/2", "queue-3", 7, ""),
    ],
)
def test_a_finding_about_the_same_op_or_partition_is_quoted(
    name: str, sentence: str, partition: str, op: int, same: str
) -> None:
    verdict = anomalous().verdict
    assert verdict is not None
    one = verdict.anomalies["lost-write"]
    view = msgspec.structs.replace(one.examples[0].ops[0], op=7)
    mine = Example(sentence="", allowed=False, why="", partition="queue-3", ops=[view])
    other = Example(
        sentence=sentence,
        allowed=False,
        why="",
        partition=partition,
        ops=[msgspec.structs.replace(view, op=op)],
    )
    for allowed in (False, True):
        example = msgspec.structs.replace(other, allowed=allowed)
        classes = {"lost-write": one, name: msgspec.structs.replace(one, examples=[example])}
        both = msgspec.structs.replace(verdict, anomalies=classes)
        quoted = story.seen_with(both, "lost-write", mine)
        assert (quoted.same if quoted else "") == ("" if allowed else same)
        assert quoted is None or (quoted.name, quoted.example) == (name, example)


def test_headlines_are_of_classes_that_there_are() -> None:
    assert set(headlines.HEADLINES) <= set(ANOMALIES)


START_MS = 1_795_518_000_000


@pytest.mark.parametrize(
    ("text", "start_ms", "shown"),
    [
        ("acknowledged at 4.076 s; then", START_MS, "acknowledged at 4.076 s; then"),
        (
            "from 1795518755223 to 1795518778248 ms, no leader",
            START_MS,
            "from 755.223 s to 778.248 s, no leader",
        ),
        (
            "of 28218 to 28218 ms; sent from 5071 to 5076 ms",
            1000,
            "of 27.218 s; sent from 4.071 s to 4.076 s",
        ),
        ("committed offset 411 at 5077 ms", 1000, "committed offset 411 at 4.077 s"),
        ("continued until after 10.926 s", 0, "continued until after 10.926 s"),
        ("did 12.5 ms later, within 3.0 s", 0, "did 12.5 ms later, within 3.0 s"),
        ("<b>at 4.0 s</b> & at 7 ms", 0, "&lt;b&gt;at 4.000 s&lt;/b&gt; &amp; at 0.007 s"),
    ],
)
def test_sentences_have_one_time_base(text: str, start_ms: float, shown: str) -> None:
    marked = clock.timed(text, start_ms)
    assert re.sub("</?time[^>]*>", "", marked) == shown
    times = re.findall(r'<time data-s="([-\d.]+)" data-digits="3">([-\d.]+) s</time>', marked)
    assert len(times) == marked.count("<time")
    assert all(float(a) == pytest.approx(float(b), abs=1e-3) for a, b in times)


@pytest.mark.parametrize(
    ("wall", "end_s", "days"),
    [
        ("2026-03-01T10:15:00+00:00", 49_499.9, False),
        ("2026-03-01T10:15:00+00:00", 49_500.0, True),
        ("2026-03-01T23:15:00-02:00", 60.0, False),
        ("2026-03-01T21:59:30-02:00", 60.0, True),
        ("", 1e6, False),
    ],
)
def test_a_run_of_more_than_one_day_has_days_on_its_clock(wall: str, end_s: float, days: bool) -> None:
    start = datetime.fromisoformat(wall).timestamp() * 1e3 if wall else None
    assert clock.passes_midnight(start, end_s) is days


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("end_s", "dated"), [(60_000.0, True), (70.0, False)])
def test_the_page_says_so_to_its_clock(end_s: float, dated: bool, tmp_path: Path) -> None:
    folder = clean(ops=50)
    assert folder.verdict is not None
    long = msgspec.structs.replace(FAULTS[0], end_s=end_s)
    folder.verdict = msgspec.structs.replace(folder.verdict, faults=[long])
    html = build(folder.write(tmp_path / "run")).read_text()
    assert (" data-dated>" in html.partition("<head>")[0]) is dated


@pytest.mark.sampled(19)
def test_the_page_tells_the_story_first(lost: Run) -> None:
    page = build(lost).read_text()
    _, found = told(lost)
    at = page.index(found.headline)
    assert page.index("<h1") < at < page.index('id="tested"') < page.index('id="anomalies"')
    assert page.index('id="anomalies"') < page.index('id="timeline"')
    assert f"inquest recording shrink --anomaly lost-write {lost.folder}" in page
    assert "simulated: no Kafka ran" in page
    first, _ = found.ranges[0].values  # type: ignore[misc]
    assert f"is record {wording.number(first & 0xFFFFFFFF)} of process {first >> 32}." in page
    assert "Do this next" in page
    assert "To look at it" not in page


@pytest.mark.sampled(22)
def test_topics_keep_their_names_at_the_start_of_a_sentence(lost: Run) -> None:
    read, _ = told(lost)
    assert read.verdict.log_examples
    page = build(lost).read_text()
    assert re.search(r"[ >]queue-0: ", page)
    assert "Queue-0" not in page
