"""What brokers' logs add to a verdict: findings, doubts, crashes, evidence that is missing or damaged."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from checkers.catalogue import ANOMALIES
from checkers.logs import answers, audit, decisions, lineage, messages
from checkers.logs.judgement import Judgement, LogDoubt, LogFinding, LogRule
from checkers.logs.registry import LOCAL, RULES, WHOLE, LocalRules
from checkers.verdict.judged_logs import configured
from core.op import TopicPartition
from harness.nights.session_log import RunResult
from harness.report.wording import logs_line
from history.events import Event, EvidenceMissing
from history.evidence import Evidence, write
from history.reader import History
from history.verdict import Verdict
from tests.checkers.logs.made import TP, batch, tables, whole
from tests.checkers.verdict.test_judged_run import history
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run
from tests.histories.planted import random_history

RULE = LogRule(name="alike", ring=0, anomaly="replica-divergence", claim="replicas are alike", source="…")


def evidence(damaged: int = -1) -> dict[str, pa.Table]:
    """Four batches in each of three replicas; the third replica's batch at `damaged` has another checksum."""
    batches = [
        batch(TP, node, base, crc=1 if (node, base) == (3, damaged) else base * 7)
        for node in (1, 2, 3)
        for base in range(4)
    ]
    return tables({"batches": batches, "partitions": [whole(TP, node) for node in (1, 2, 3)]})


def alike(found: Evidence, tp: TopicPartition) -> Judgement:
    judged = Judgement()
    for row in found.of("batches", tp).to_pylist():
        judged.asked[RULE.name] += 1
        if row["crc"] != row["base"] * 7:
            judged.refuse(refused(tp, row["base"], row["node"]))
    return judged


def refused(tp: TopicPartition, offset: int, node: int) -> LogFinding:
    told = f"the batch at offset {offset} of {tp} has another checksum on node {node}"
    return LogFinding(
        rule=RULE.name, tp=tp, offset=offset, take=0, nodes=(node,), sentence=told, before="log end 2"
    )


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Judgement]], None]:
    """Puts one rule in the place of all."""

    def use(judge: Callable[[Evidence, TopicPartition], Judgement]) -> None:
        for registered in (LOCAL, WHOLE, RULES):
            for name in list(registered):
                monkeypatch.delitem(registered, name)
        monkeypatch.setitem(LOCAL, "alike", LocalRules(rules=(RULE,), judge=judge))
        monkeypatch.setitem(RULES, RULE.name, RULE)

    return use


def judged(
    folder: Path,
    found: Mapping[str, pa.Table] | None,
    settings: dict[str, Any] | None = None,
    *events: Event,
    read: int = 4,
) -> Verdict:
    """The verdict of a run whose clients saw nothing wrong, unless the final reads fell short."""
    told = history(read=read, end=read).tables()
    run = write_run(folder, told, settings=settings, events=(STARTED, *events, RECOVERED))
    if found is not None:
        write(run.evidence, found)
    verdict = check_run(run)
    assert msgspec.json.decode(run.verdict.read_bytes(), type=Verdict) == verdict
    return verdict


def test_a_run_whose_logs_agree_is_valid(tmp_path: Path, only: Callable[..., None]) -> None:
    only(alike)
    verdict = judged(tmp_path / "run", evidence())
    assert (verdict.valid, verdict.exit_code) == (True, 0)
    assert verdict.logs is not None
    rule = verdict.logs.rules["alike"]
    assert (rule.status, rule.asked, rule.found) == ("valid", 12, 0)
    assert (verdict.logs.exercised, verdict.logs.refused, verdict.logs.why) == (1.0, 0, "")
    (take,) = verdict.logs.takes
    assert (take.why, take.nodes, take.at_s) == ("end", [1, 2, 3], 9.0)
    line = "1 rule applied to 3 nodes: no violation"
    assert logs_line(verdict.logs) == line


def test_a_refused_place_makes_the_verdict_invalid(tmp_path: Path, only: Callable[..., None]) -> None:
    only(alike)
    verdict = judged(tmp_path / "run", evidence(damaged=2))
    assert (verdict.valid, verdict.exit_code, verdict.unknown) == (False, 1, [])
    assert verdict.logs is not None
    rule = verdict.logs.rules["alike"]
    assert (rule.status, rule.found, rule.disallowed) == ("invalid", 1, 1)
    (place,) = verdict.logs.places
    assert (place.partition, place.offset, place.nodes, place.before) == ("q-0", 2, [3], "log end 2")
    anomaly = verdict.anomalies["replica-divergence"]
    assert (anomaly.count, anomaly.disallowed, anomaly.known_bug) == (1, 1, "")
    assert [(one.partition, one.offsets) for one in anomaly.examples] == [("q-0", [2])]
    result = RunResult.of(verdict, "anomaly", code=1, seconds=1.0, folder="run")
    assert [one.name for one in result.open] == ["replica-divergence"]
    clean = judged(tmp_path / "clean", evidence())
    assert (clean.valid, clean.anomalies) == (True, {})


def test_findings_of_clients_and_of_logs_are_counted_together(
    tmp_path: Path, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(alike)
    monkeypatch.setitem(RULES, RULE.name, LogRule(**{**fields(RULE), "anomaly": "lost-write"}))
    assert judged(tmp_path / "a", evidence(), read=3).anomalies["lost-write"].count == 1
    lost = judged(tmp_path / "b", evidence(damaged=2), read=3).anomalies["lost-write"]
    assert (lost.count, lost.disallowed, len(lost.examples)) == (2, 2, 2)


def test_each_rule_and_each_class_has_its_own_findings_and_doubts(
    tmp_path: Path, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rule refuses two places, another one a third and doubts something, a last one only doubts."""
    refuses = LogRule(**{**fields(RULE), "name": "refuses", "anomaly": "damaged-log"})
    doubts = LogRule(**{**fields(RULE), "name": "doubts", "anomaly": "damaged-log"})

    def judge(found: Evidence, tp: TopicPartition) -> Judgement:
        judged = alike(found, tp)
        for rule, offset in ((RULE, 1), (refuses, 3)):
            place = LogFinding(rule=rule.name, tp=tp, offset=offset, take=0, nodes=(3,), sentence=rule.name)
            judged.refuse(place)
        for rule in (refuses, doubts):
            judged.doubt(rule, tp, f"{rule.name} knows too little")
            judged.asked[rule.name] += 1
        return judged

    only(judge)
    monkeypatch.setitem(LOCAL, "alike", LocalRules(rules=(RULE, refuses, doubts), judge=judge))
    for rule in (refuses, doubts):
        monkeypatch.setitem(RULES, rule.name, rule)
    verdict = judged(tmp_path / "run", evidence(damaged=2))
    counts = {name: (one.count, one.disallowed, len(one.examples)) for name, one in verdict.anomalies.items()}
    assert counts == {"replica-divergence": (2, 2, 2), "damaged-log": (1, 1, 1)}
    assert verdict.logs is not None
    assert {name: (rule.status, rule.found, rule.doubts) for name, rule in verdict.logs.rules.items()} == {
        "alike": ("invalid", 2, []),
        "refuses": ("invalid", 1, ["q-0: refuses knows too little"]),
        "doubts": ("unknown", 0, ["q-0: doubts knows too little"]),
    }


def fields(rule: LogRule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in ("name", "ring", "anomaly", "claim", "source")}


def test_what_the_configuration_permits_is_shown_and_harms_nothing(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    only(alike)
    verdict = judged(tmp_path / "run", evidence(damaged=2), {"unclean_leader_election": True})
    assert (verdict.valid, verdict.exit_code) == (True, 0)
    assert verdict.logs is not None
    rule = verdict.logs.rules["alike"]
    assert (rule.status, rule.found, rule.disallowed) == ("valid", 1, 0)
    assert "unclean" in rule.why
    assert verdict.logs.places[0].allowed


@pytest.mark.parametrize(
    ("rule", "settings", "stays"),
    [
        ("no-repeated-batch", {}, True),
        ("no-repeated-batch", {"producer.id.expiration.ms": "9000"}, True),
        ("no-repeated-batch", {"producer.id.expiration.ms": "8999"}, False),
        ("producer-snapshot", {"producer.id.expiration.ms": "1000"}, False),
        ("log-matching", {"producer.id.expiration.ms": "1000"}, True),
        ("one-owner", {}, True),
        ("one-owner", {"log.cleaner.delete.retention.ms": "9000"}, True),
        ("one-owner", {"log.cleaner.delete.retention.ms": "8999"}, False),
        ("group-place", {"log.cleaner.delete.retention.ms": "1000"}, True),
        ("log-matching", {"log.cleaner.delete.retention.ms": "1000"}, True),
    ],
)
def test_what_brokers_forget_makes_doubts(rule: str, settings: dict[str, str], stays: bool) -> None:
    found = Judgement()
    found.refuse(LogFinding(rule=rule, tp=TP, offset=2, take=0, nodes=(3,), sentence="refused"))
    made = configured(found, settings, 9000)
    assert (made.counts[rule], len(made.findings), len(made.doubts)) == ((1, 1, 0) if stays else (0, 0, 1))
    assert {rule} <= RULES.keys()


def test_how_long_a_run_took_counts_from_its_start_and_not_from_that_of_the_machine(
    tmp_path: Path, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(alike)
    forgetful = (("producer.id.expiration.ms", {"alike"}, "after {} ms"),)
    monkeypatch.setattr("checkers.verdict.judged_logs.FORGETFUL", forgetful)
    settings = {"broker_settings": {"producer.id.expiration.ms": "5000"}}
    assert judged(tmp_path / "nine", evidence(damaged=2), settings).valid is True
    monkeypatch.setattr(History, "seconds", lambda _, ns: ns / 1e9 - 5)
    assert judged(tmp_path / "four", evidence(damaged=2), settings).valid is False


def test_a_rule_that_crashes_never_passes(tmp_path: Path, only: Callable[..., None]) -> None:
    def broken(found: Evidence, tp: TopicPartition) -> Judgement:
        raise ValueError("no such column")

    only(broken)
    verdict = judged(tmp_path / "run", evidence())
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    assert verdict.unknown == ["brokers' logs: the rule alike crashed"]
    assert verdict.logs is not None
    assert verdict.logs.rules["alike"].status == "crashed"
    assert "no such column" in verdict.logs.rules["alike"].why


@pytest.mark.parametrize(("asked", "valid"), [(5, True), (0, "unknown")])
def test_a_doubt_is_shown_and_a_ring_that_decided_nothing_is_unknown(
    tmp_path: Path, only: Callable[..., None], asked: int, valid: object
) -> None:
    def doubting(found: Evidence, tp: TopicPartition) -> Judgement:
        one = Judgement(doubts=[LogDoubt(rule="alike", tp=tp, why="the beginning is gone")])
        one.asked["alike"] = asked
        return one

    only(doubting)
    verdict = judged(tmp_path / "run", evidence())
    assert verdict.valid == valid
    assert verdict.logs is not None
    rule = verdict.logs.rules["alike"]
    assert (rule.status, rule.doubts) == ("unknown", ["q-0: the beginning is gone"])
    assert all("ring 0" in reason for reason in verdict.unknown)


def test_a_run_without_evidence_is_judged_by_its_clients_and_says_so(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "old", None)
    assert (verdict.valid, verdict.exit_code) == (True, 0)
    assert logs_line(verdict.logs) == "not judged: the run kept no evidence of its brokers' logs"
    note = EvidenceMissing(ns=2_000_000, why="no node could be stopped")
    missing = judged(tmp_path / "missing", None, None, note)
    assert missing.logs is not None
    assert (missing.valid, missing.logs.why) == (True, "no node could be stopped")


def test_evidence_that_is_not_whole_leaves_the_clients_history_to_be_judged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", history().tables())
    write(run.evidence, evidence())
    (run.evidence / "batches.parquet").write_bytes(b"PAR1")
    verdict = check_run(run)
    assert (verdict.valid, verdict.exit_code, verdict.anomalies) == ("unknown", 2, {})
    assert verdict.logs is not None
    assert verdict.logs.why.startswith("evidence is missing: ")
    assert "batches.parquet" in verdict.summary


def test_evidence_that_is_not_whole_hides_no_finding_of_clients(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", random_history(10)[0].tables())
    found = check_run(run)
    run.evidence.mkdir()
    verdict = check_run(run)
    assert (verdict.exit_code, verdict.anomalies) == (1, found.anomalies)
    assert verdict.logs is not None
    assert verdict.logs.lacks


def test_a_verdict_of_an_older_version_is_read(tmp_path: Path) -> None:
    told = msgspec.to_builtins(judged(tmp_path / "run", None))
    del told["logs"]
    assert msgspec.convert(told, Verdict).logs is None


def test_every_rule_has_a_class_of_the_catalogue_and_a_sentence() -> None:
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.anomaly in ANOMALIES, name
        assert rule.claim.endswith("."), name
        assert rule.source, name
    modules = {0: [audit], 1: [], 3: [lineage, decisions, answers], 4: [messages]}
    rings = {rule.name: ring for ring, some in modules.items() for one in some for rule in one.RULES}
    assert {name: rule.ring for name, rule in RULES.items()} == dict.fromkeys(RULES, 1) | rings
