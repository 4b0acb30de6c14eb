"""What a list leaves out is counted below it, and a number has the form of its word."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from core.op import TopicPartition
from harness.report import build, facts, github, inputs, page, repetition, wording
from harness.report.evidence import decisions, side_by_side, transactions
from harness.report.evidence.decisions import DrawnMarker, WrittenPart
from harness.report.timeline import numbers
from history.verdict import ReportedIncident, Verdict
from tests.harness.report.test_causes import nothing
from tests.harness.report.test_page import Parsed, text_of, with_verdict
from tests.histories.report_findings import anomalous, transactional
from tests.histories.report_runs import clean

LONG = 700
"""Characters of an incident that has more of them than a line on a terminal."""


def many_classes(many: int) -> Verdict:
    """A verdict with so many classes, all forbidden."""
    verdict = anomalous().verdict
    assert verdict is not None
    one = verdict.anomalies["lost-write"]
    others = {f"class-{n}": msgspec.structs.replace(one, known_bug="") for n in range(1, many)}
    return msgspec.structs.replace(verdict, anomalies={"lost-write": one} | others)


@pytest.mark.sampled(14)
@pytest.mark.parametrize(("many", "folded"), [(4, ""), (6, "2 more incidents"), (5, "1 more incident")])
def test_the_page_shows_every_incident_whole(many: int, folded: str, tmp_path: Path) -> None:
    incidents = [
        ReportedIncident(at_s=1234.5 + n, text=f"node {n} {'x' * LONG} ended at 7.250 s") for n in range(many)
    ]
    html = build(with_verdict(incidents=incidents).write(tmp_path / "run")).read_text()
    shown = Parsed(html).text
    assert all(f"{1234.5 + n:.1f} s node {n} {'x' * LONG} ended at 7.250 s" in shown for n in range(many))
    assert "see the report" not in shown
    assert ("more incident" in shown, folded in shown) == (bool(folded), True)
    notice = html.partition('aria-labelledby="incidents"')[2].partition("</section>")[0]
    assert notice.count('<time data-s="7.250000"') == many
    assert '<time data-s="1234.500000" data-digits="1"' in notice


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("most", "said"), [(3, "These are the first 3 of 4; verdict.json"), (4, "")])
def test_incidents_and_costs_that_are_left_out_are_counted(
    most: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "INCIDENTS_MOST", most)
    monkeypatch.setattr(page, "FAULTS_MAX", most)
    incidents = [ReportedIncident(at_s=1.0, text="a node ended")] * 4
    text = text_of(with_verdict(incidents=incidents), tmp_path)
    assert text.count("the first 3 of 4; verdict.json has all of them.") == 2 * bool(said)
    assert text.count("the first 3 of 4; events.jsonl has all of them.") == bool(said)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("many", "more"), [(14, "(37) and 2 more."), (12, "(37).")])
def test_classes_that_the_story_leaves_out_are_counted(many: int, more: str, tmp_path: Path) -> None:
    folder = anomalous()
    folder.verdict = many_classes(many)
    listed = text_of(folder, tmp_path).partition("Other classes in this run")[2].partition(".")[0] + "."
    assert listed.count("class-") == min(many - 1, 11)
    assert listed.endswith(more)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("many", "left_out"), [(8, False), (10, True)])
def test_records_that_a_row_leaves_out_are_counted(
    many: int, left_out: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = inputs.read(transactional().write(tmp_path / "run"))
    found = transactions.build(read)
    for timeline in found.shown.values():
        for bar in (bar for lane in timeline.lanes for bar in lane.bars if lane.kind == "txn"):
            bar.records[:] = [(f"x-{n}", 1) for n in range(many)]
    monkeypatch.setattr(transactions, "build", lambda _: found)
    for anomaly in read.verdict.anomalies.values():
        for op in (op for example in anomaly.examples for op in example.ops):
            op.records[:] = [f"record {n}" for n in range(many)]
    text = Parsed(page.render(read).decode()).text
    assert "1 to x-7" in text
    assert ("to 2 more partitions" in text) is left_out
    assert ("record 7 and 2 more" in text) is left_out


@pytest.mark.parametrize(("many", "said"), [(1, "1 record, "), (3, "3 records, ")])
def test_a_poll_of_one_record_has_one(many: int, said: str, tmp_path: Path) -> None:
    read = inputs.read(transactional().write(tmp_path / "run"))
    assert read.ops is not None
    counts = np.where(read.ops.n_reads > 0, many, read.ops.n_reads)
    read = dataclasses.replace(read, ops=dataclasses.replace(read.ops, n_reads=counts))
    lanes = [lane for one in transactions.build(read).shown.values() for lane in one.lanes]
    polls = [bar for lane in lanes if lane.kind == "reader" for bar in lane.bars]
    assert polls
    assert all(bar.text.startswith(f"op {bar.op}: {said}") for bar in polls)


@pytest.mark.parametrize("extra", [0, 2])
def test_lists_of_the_summary_that_are_cut_say_so(extra: int) -> None:
    many = github.CLASSES_MAX + extra
    reasons = [f"reason {n}" for n in range(many)]
    verdict = msgspec.structs.replace(many_classes(many), unknown=reasons)
    lines = github.render(verdict).splitlines()
    assert lines.count(f"… and {extra} more") == (2 if extra else 0)
    assert sum(line.startswith("- Not decided") for line in lines) == github.CLASSES_MAX


def test_one_partition_of_each_marker_is_among_those_that_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twelfth got the other marker; the finding's own comes first."""

    def written(_: object, __: object, tp: TopicPartition, *___: object) -> list[WrittenPart]:
        marker = None if tp.partition == 13 else DrawnMarker(2.0, 7, tp.partition != 12, 3)
        return [WrittenPart(begin=1.0, first=4, last=6, producer="7/3", marker=marker)]

    monkeypatch.setattr(decisions, "_states", lambda evidence: [])
    monkeypatch.setattr(decisions, "_written", written)
    bare = nothing(tmp_path)
    every = frozenset(TopicPartition("x", n) for n in range(20))
    named = decisions._NamedTransaction(
        transactional_id="t", producer=7, epoch=3, begin=1.0, end=1.0, touched=every,
        place=(TopicPartition("x", 9), 5),
    )  # fmt: skip
    evidence: Any = SimpleNamespace()
    found = decisions._decisions(bare.inputs, evidence, named)
    assert found is not None
    assert [*found.partitions] == ["x-9", "x-0", "x-1", "x-2", "x-3", "x-4", "x-12", "x-13"]
    assert found.more == 12
    table = side_by_side.partitions(found)
    assert table is not None
    assert table.title.endswith("of t (8 of 20)")
    told = [*facts._markers(dataclasses.replace(bare, decided=found))][-1]
    assert told.startswith("x-12 got the ABORT marker and x-13 got no marker and x-9, x-0, x-1, ")
    assert told.endswith(" got the COMMIT marker; of 12 more partitions this is not listed")


@pytest.mark.parametrize(("seconds", "mean"), [(0.9, ""), (2.0, ", on average 6 per second")])
def test_a_load_of_less_than_a_second_has_no_mean_rate(seconds: float, mean: str, tmp_path: Path) -> None:
    timeline = numbers.build(inputs.read(clean(ops=1).write(tmp_path / "run")))
    assert timeline.rates is not None
    (kind,) = timeline.kinds
    kinds = [dataclasses.replace(kind, written=11, read=0)]
    changed = dataclasses.replace(
        timeline, kinds=kinds, rates=dataclasses.replace(timeline.rates, seconds=seconds)
    )
    assert dict(page.throughput(changed))["Written"] == f"11 records by successful operations{mean}"


def test_the_load_lasts_from_the_first_invocation_to_the_last_completion(tmp_path: Path) -> None:
    read = inputs.read(clean(ops=1).write(tmp_path / "run"))
    assert read.ops is not None
    rates = numbers.build(read).rates
    assert rates is not None
    (begin,), (end,) = read.ops.invoke.tolist(), read.ops.complete.tolist()
    assert rates.seconds == pytest.approx(end - begin)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"sut": "simulated"}, ["the same command gives the same run"]),
        ({"sut": "kafka"}, ["what the clients do and which faults", "may take several runs"]),
        ({"sut": "model"}, ["what the clients do and which faults", "may take several runs"]),
        ({"sut": "kafka", "app": {"effects": False}}, ["The seed fixes which faults", "several runs"]),
        ({"sut": "kafka", "clients": "command"}, ["The seed fixes which faults", "several runs"]),
        ({}, ["may take several runs"]),
    ],
    ids=str,
)
def test_what_the_same_command_gives_again(config: dict[str, Any], said: list[str]) -> None:
    told = repetition.what_repeats(config)
    assert all(words in told for words in said)
    assert ("several runs" in told) is (config.get("sut") != "simulated")


@pytest.mark.parametrize(
    ("statuses", "said"),
    [(["valid"], "1 of 1 check holds."), (["valid", "invalid"], "1 of 2 checks holds, 1 broken."),
     (["valid", "valid"], "2 of 2 checks hold."), (["invalid"], "0 of 1 check hold, 1 broken.")],
)  # fmt: skip
def test_how_many_checks_hold(statuses: list[str], said: str) -> None:
    verdict = with_verdict().verdict
    assert verdict is not None
    check = next(iter(verdict.client_checks.values()))
    checks = {f"c{n}": msgspec.structs.replace(check, status=one) for n, one in enumerate(statuses)}
    assert wording.held(msgspec.structs.replace(verdict, checks=checks)) == said
