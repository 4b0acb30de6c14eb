"""The section about brokers' logs: rules, refused places, the copies around them."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from core.op import TopicPartition
from harness.report import build
from harness.report.evidence.replica_logs import RefusedPlace, named
from harness.report.evidence.replica_logs import build as places_of
from harness.report.inputs import read
from history.evidence import write
from history.run_folder import Run
from history.verdict import Anomaly, CheckResult, Example, Logs, LogTake
from tests.checkers.logs.made import TP, at, batch, tables, whole
from tests.histories.report_findings import HOSTILE
from tests.histories.report_runs import clean

STATE = TopicPartition("__transaction_state", 0)


def evidence() -> dict[str, pa.Table]:
    """Twenty batches in three copies; node 3 has another one at offset 12, node 2 lacks the last two."""
    rows = [
        batch(TP, node, base, crc=99 if (node, base) == (3, 12) else base, producer_id=7, producer_epoch=1)
        for node in (1, 2, 3)
        for base in range(18 if node == 2 else 20)
    ]
    markers = [at(TP, node, offset=11, name="COMMIT", coordinator_epoch=4) for node in (1, 2, 3)]
    decided = [
        at(STATE, 1, offset=0, transactional_id="txn-1", state="PrepareCommit", producer_id=7,
           producer_epoch=1, partitions=[{"topic": "q", "partition": 0}])
    ]  # fmt: skip
    return tables(
        {
            "batches": [*rows, batch(STATE, 1, 0)],
            "control": markers,
            "transaction_log": decided,
            "partitions": [whole(TP, node) for node in (1, 2, 3)],
        }
    )


def place(check: str = "replicas-alike", offset: int = 12, **changes: object) -> Example:
    told = {"sentence": "two copies differ at offset 12", "partition": "q-0", "allowed": False}
    log = {"offset": offset, "take": 0, "nodes": [3], "before": "log end 12"}
    return msgspec.convert(
        {"why": "copies are equal", "check": check, "log": log, **told, **changes}, Example
    )


@dataclass
class Found:
    """What a verdict says of logs."""

    logs: Logs | None
    check: CheckResult | None = None
    places: tuple[Example, ...] = ()


def logs(*places: Example, rule: str = "replicas-alike", why: str = "") -> Found:
    result = CheckResult(
        claim="Copies are equal.",
        status="invalid" if places else "valid",
        seconds=0.1,
        rows=60,
        anomalies=["replica-divergence"],
        found=len(places),
        disallowed=len(places),
        doubts=[HOSTILE] if rule == HOSTILE else [],
        ring=0,
    )
    takes = [LogTake(take=0, why="end", nodes=[1, 2, 3], at_s=88.0)]
    return Found(Logs(why=why, takes=takes, exercised=1.0), None if why else result, places)


def folder(path: Path, found: Found, files: bool = True) -> Run:
    """The folder of a clean run with this section in its verdict."""
    made = clean(ops=300)
    assert made.verdict is not None
    checks, anomalies = dict(made.verdict.checks), dict(made.verdict.anomalies)
    if found.check is not None:
        checks[found.places[0].check if found.places else "replicas-alike"] = found.check
    if found.places:
        anomalies["replica-divergence"] = Anomaly(
            title="Replicas hold different records",
            literature="",
            meaning="Two copies differ.",
            count=len(found.places),
            disallowed=len(found.places),
            allowed=False,
            why="copies are equal",
            examples=list(found.places),
        )
    made.verdict = msgspec.structs.replace(made.verdict, logs=found.logs, checks=checks, anomalies=anomalies)
    run = made.write(path)
    if files:
        write(run.evidence, evidence())
    return run


def shown(tmp_path: Path, *places: Example) -> list[RefusedPlace]:
    return places_of(read(folder(tmp_path / "run", logs(*places))))


def test_a_batch_that_one_copy_has_otherwise_is_a_row_of_its_own(tmp_path: Path) -> None:
    (found,) = shown(tmp_path, place())
    assert [row.base for row in found.rows] == [7, 8, 9, 10, 11, 12, 12, 13, 14, 15, 16, 17]
    both = [row for row in found.rows if row.base == 12]
    assert [(row.copies, row.missing) for row in both] == [("1, 2", "3"), ("3", "1, 2")]
    assert [row.here for row in found.rows] == [row.base == 12 for row in found.rows]
    assert both[0].what[-1] != both[1].what[-1]
    assert (both[0].producer, both[0].leader_epoch) == ("7/1", 0)
    (marker,) = [row for row in found.rows if row.base == 11]
    assert marker.what == ["COMMIT marker, coordinator epoch 4"]


@pytest.mark.sampled(10)
def test_the_first_doubt_of_a_rule_is_open_and_the_others_are_folded(tmp_path: Path) -> None:
    found = logs(rule="open")
    assert found.check is not None
    doubts = [f"doubt number {n}" for n in range(4)]
    for many, fold in ((1, ""), (4, "<details><summary>3 more</summary>")):
        check = msgspec.structs.replace(found.check, status="unknown", doubts=doubts[:many])
        html = build(folder(tmp_path / str(many), replace(found, check=check))).read_text()
        first, _, rest = html.partition(fold) if fold else (html, "", "")
        assert "doubt number 0" in first
        assert [one in rest for one in doubts[1:]] == [bool(fold)] * 3


def test_a_copy_that_ends_before_is_named(tmp_path: Path) -> None:
    (found,) = shown(tmp_path, place(offset=18))
    assert [(row.base, row.missing) for row in found.rows if row.missing] == [(18, "2"), (19, "2")]
    (behind,) = places_of(read(folder(tmp_path / "behind", logs(place(offset=40)))))
    assert [row.base for row in behind.rows if row.here] == []
    assert behind.rows[-1].base == 19


def test_copies_of_before_are_named_by_what_happened_to_their_nodes() -> None:
    moments = {(0, 2): "when it was killed", (1, 1): "at the end", (1, 2): "at the end"}
    assert named([(0, 2), (1, 2), (1, 1)], moments) == "1, 2; 2 (when it was killed)"
    assert named([(0, 2), (0, 3)], moments) == "2 (when it was killed); 3 (before)"


def test_records_of_coordinators_are_told_in_words(tmp_path: Path) -> None:
    (found,) = shown(tmp_path, place(partition="__transaction_state-0", offset=0))
    assert found.rows[0].what == ["txn-1: PrepareCommit, producer 7/1, partitions q-0"]


@pytest.mark.sampled(10)
def test_the_page_has_rules_places_and_the_share_of_rules(tmp_path: Path) -> None:
    html = build(folder(tmp_path / "run", logs(place()))).read_text(encoding="utf-8")
    for part in ("Brokers’ logs", "1 rule applied to ", "100 % of them", "Copies are equal."):
        assert part in html
    assert "<td>copies of a log</td>" in html
    assert "(files taken at " in html
    assert not re.search(r"\btake \d|\bRing\b", html)
    for part in ("two copies differ at offset 12", "log end 12", "Not on nodes", 'id="place-1"'):
        assert part.lower() in html.lower()
    calm = build(folder(tmp_path / "calm", logs())).read_text(encoding="utf-8")
    assert "Refused places" not in calm
    assert "no violation" in calm


@pytest.mark.sampled(8)
def test_a_run_without_evidence_says_why_its_logs_were_not_judged(tmp_path: Path) -> None:
    old = build(folder(tmp_path / "old", Found(None), files=False)).read_text(encoding="utf-8")
    assert "Not judged: the verdict is of an older version." in old
    missing = folder(tmp_path / "missing", logs(why="no node could be stopped"), files=False)
    assert "Not judged: no node could be stopped." in build(missing).read_text(encoding="utf-8")


@pytest.mark.sampled(6)
def test_damaged_evidence_is_a_gap_and_the_verdict_is_shown(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", logs(place()))
    (run.evidence / "batches.parquet").write_bytes(b"PAR1")
    html = build(run).read_text(encoding="utf-8")
    assert "batches.parquet" in html
    assert "two copies differ at offset 12" in html.lower()
    assert "Not on nodes" not in html


@pytest.mark.sampled(6)
def test_text_from_outside_is_escaped(tmp_path: Path) -> None:
    at = {"offset": 12, "take": 0, "nodes": [3], "before": HOSTILE, "transactional_id": HOSTILE}
    strange = place(HOSTILE, sentence=HOSTILE, why=HOSTILE, known_bug=HOSTILE, log=at)
    strange = msgspec.structs.replace(strange, partition=f"{HOSTILE}-0")
    html = build(folder(tmp_path / "run", logs(strange, rule=HOSTILE))).read_text(encoding="utf-8")
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html
