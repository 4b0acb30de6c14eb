"""What brokers' logs add to a verdict: findings, doubts, crashes, evidence that is missing or damaged."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.catalogue import ALL_CHECKS, ANOMALIES
from checkers.engine.check import LogKernel, Reads, Tally
from checkers.engine.findings import NOWHERE, LogFinding, LogGround, PartitionResult
from checkers.engine.pipeline import kinds_of, log_ground
from checkers.logs import (
    answers,
    audit,
    decisions,
    decisions_in_sync,
    flushes,
    lineage,
    messages,
    orders,
    placement,
    share_answers,
)
from checkers.logs.registry import LOG_CHECKS
from checkers.logs.rule import Rule, checks_of
from checkers.run_tables import read
from checkers.verdict import judged_run
from checkers.verdict.judged_logs import excuse_forgotten
from checkers.windows import LogWindows, PowerLosses, RunWindows, Windows
from core.op import TopicPartition
from harness.nights.session_log import RunResult
from harness.report.wording import logs_line
from history.events import Event, EvidenceMissing
from history.evidence import Evidence, merged, write
from history.evidence_tables import KILLED, METADATA_LOG
from history.reader import History
from history.run_folder import Run
from history.verdict import Verdict
from tests.checkers.logs.made import TP, batch, tables, whole
from tests.checkers.verdict.test_judged_run import history
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run
from tests.histories.planted import random_history

RULES = {"alike": Rule("replicas are alike", "…", "replica-divergence")}


def evidence(damaged: int = -1) -> dict[str, pa.Table]:
    """Four batches in each of three replicas; the third replica's batch at `damaged` has another checksum."""
    batches = [
        batch(TP, node, base, crc=1 if (node, base) == (3, damaged) else base * 7)
        for node in (1, 2, 3)
        for base in range(4)
    ]
    return tables({"batches": batches, "partitions": [whole(TP, node) for node in (1, 2, 3)]})


def alike(found: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    for row in found.of("batches", tp).to_pylist():
        result.asked["alike"] += 1
        if row["crc"] != row["base"] * 7:
            result.refuse(refused(tp, row["base"], row["node"]))


def refused(tp: TopicPartition, offset: int, node: int, check: str = "alike") -> LogFinding:
    told = f"the batch at offset {offset} of {tp} has another checksum on node {node}"
    return LogFinding(
        check=check, log=tp, offset=offset, take=0, nodes=(node,), text=told, before="log end 2"
    )


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts some checks in the place of all that read evidence."""

    def use(kernel: LogKernel, rules: Mapping[str, Rule] = RULES) -> None:
        for name in [*LOG_CHECKS]:
            monkeypatch.delitem(LOG_CHECKS, name)
        for name, check in checks_of(rules, ring=0, log_kernel=kernel).items():
            monkeypatch.setitem(LOG_CHECKS, name, check)

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
    rule = verdict.checks["alike"]
    assert (rule.status, rule.rows, rule.found, rule.disallowed) == ("valid", 12, 0, 0)
    assert (verdict.logs.exercised, verdict.logs.why) == (1.0, "")
    (take,) = verdict.logs.takes
    assert (take.why, take.nodes, take.at_s) == ("end", [1, 2, 3], 9.0)
    line = "1 rule applied to 3 nodes: no violation"
    assert logs_line(verdict) == line


def test_a_take_has_each_node_once(tmp_path: Path, only: Callable[..., None]) -> None:
    only(alike)
    found = evidence()
    down = [{"take": 0, "node": 2, "at_ns": 9_000_000_000, "why": KILLED}]
    found["takes"] = pa.concat_tables([tables({"takes": down})["takes"], found["takes"]])
    logs = judged(tmp_path / "run", found).logs
    assert logs is not None
    assert [(take.why, take.nodes) for take in logs.takes] == [("end", [1, 2, 3])]


def test_a_loss_of_power_without_files_is_no_evidence_to_judge(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    only(alike)
    missing = EvidenceMissing(ns=1, why="files of node 1 when it had lost power: no room")
    found = merged([{"unread_losses": tables({"unread_losses": [{"take": 0, "node": 1}]})["unread_losses"]}])
    verdict = judged(tmp_path / "run", found, None, missing)
    assert logs_line(verdict) == f"not judged: {missing.why}"
    assert "alike" not in verdict.checks


def test_a_refused_place_makes_the_verdict_invalid(tmp_path: Path, only: Callable[..., None]) -> None:
    only(alike)
    verdict = judged(tmp_path / "run", evidence(damaged=2))
    assert (verdict.valid, verdict.exit_code, verdict.unknown) == (False, 1, [])
    rule = verdict.checks["alike"]
    assert (rule.status, rule.found, rule.disallowed) == ("invalid", 1, 1)
    (found,) = verdict.log_examples
    place = found.log
    assert place is not None
    assert (found.check, found.partition, found.producer) == ("alike", "q-0", {})
    assert (place.offset, place.take, place.nodes, place.before) == (2, 0, [3], "log end 2")
    anomaly = verdict.anomalies["replica-divergence"]
    assert (anomaly.count, anomaly.disallowed, anomaly.known_bug) == (1, 1, "")
    assert [(one.partition, one.offsets) for one in anomaly.examples] == [("q-0", [2])]
    result = RunResult.of(verdict, "anomaly", code=1, seconds=1.0, folder="run")
    assert [one.name for one in result.open] == ["replica-divergence"]
    clean = judged(tmp_path / "clean", evidence())
    assert (clean.valid, clean.anomalies) == (True, {})


def test_the_table_of_findings_says_which_check_found_them(tmp_path: Path, only: Callable[..., None]) -> None:
    only(alike)
    judged(tmp_path / "run", evidence(damaged=2), read=3)
    run = Run(tmp_path / "run")
    columns = ["anomaly", "found_by", "partition", "tp", "allowed", "known_bug", "excuse"]
    (rows,) = [table.select(columns).to_pylist() for table in read("findings", run)]
    assert [tuple(row.values()) for row in rows] == [
        ("lost-write", "durability", "orders-0", 0, False, None, None),
        ("replica-divergence", "alike", "q-0", None, False, None, None),
    ]
    at_ns = pq.read_table(run.anomalies)["at_ns"].to_pylist()
    run.events.write_text(run.events.read_text().replace('"ns":0,', '"ns":1000000,', 1))
    (times,) = [table["at_s"].to_pylist() for table in read("findings", run)]
    assert at_ns[1] == -1
    assert times == [pytest.approx((at_ns[0] - 1_000_000) / 1e9), None]
    # as an older version wrote it
    pq.write_table(pq.read_table(run.anomalies).drop_columns(["found_by"]), run.anomalies)
    (old,) = read("findings", run)
    assert old["found_by"].to_pylist() == [None, None]


@pytest.mark.sampled(2)
def test_findings_of_clients_and_of_logs_are_counted_together(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    only(alike, {"alike": Rule("replicas are alike", "…", "lost-write")})
    assert judged(tmp_path / "a", evidence(), read=3).anomalies["lost-write"].count == 1
    both = judged(tmp_path / "b", evidence(damaged=2), read=3)
    lost = both.anomalies["lost-write"]
    assert (lost.count, lost.disallowed, len(lost.examples)) == (2, 2, 2)
    assert [one.check for one in lost.examples] == ["", "alike"]
    assert {
        name: (both.checks[name].status, both.checks[name].found) for name in ("durability", "alike")
    } == {"durability": ("invalid", 1), "alike": ("invalid", 1)}
    of_logs = judged(tmp_path / "c", evidence(damaged=2))
    assert (of_logs.checks["durability"].status, of_logs.checks["alike"].status) == ("valid", "invalid")


@pytest.mark.sampled(2)
def test_findings_of_each_check_are_compared_with_known_bugs(
    tmp_path: Path, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(alike, {"alike": Rule("replicas are alike", "…", "lost-write")})
    monkeypatch.setattr(judged_run, "LABELLED", 1)
    monkeypatch.setattr(
        judged_run, "labels", lambda _history, _evidence, findings: ["KAFKA-1"] * len(findings)
    )
    lost = judged(tmp_path, evidence(damaged=2), read=2).anomalies["lost-write"]
    assert [(one.check, one.known_bug) for one in lost.examples] == [
        ("", "KAFKA-1"),
        ("", ""),
        ("alike", "KAFKA-1"),
    ]


def test_each_rule_and_each_class_has_its_own_findings_and_doubts(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    """One rule refuses two places, another one a third and doubts something, a last one only doubts."""

    def kernel(found: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
        alike(found, tp, result)
        for rule, offset in (("alike", 1), ("refuses", 3)):
            result.refuse(refused(tp, offset, 3, rule))
        for rule in ("refuses", "doubts"):
            result.leave_open(rule, tp, f"{rule} knows too little")
            result.asked[rule] += 1

    only(kernel, RULES | dict.fromkeys(("refuses", "doubts"), Rule("…", "…", "damaged-log")))
    verdict = judged(tmp_path / "run", evidence(damaged=2))
    counts = {name: (one.count, one.disallowed, len(one.examples)) for name, one in verdict.anomalies.items()}
    assert counts == {"replica-divergence": (2, 2, 2), "damaged-log": (1, 1, 1)}
    assert {
        name: (check.status, check.found, check.doubts) for name, check in verdict.log_checks.items()
    } == {
        "alike": ("invalid", 2, []),
        "refuses": ("invalid", 1, ["q-0: refuses knows too little"]),
        "doubts": ("unknown", 0, ["q-0: doubts knows too little"]),
    }


def test_what_the_configuration_permits_is_shown_and_harms_nothing(
    tmp_path: Path, only: Callable[..., None]
) -> None:
    only(alike)
    verdict = judged(tmp_path / "run", evidence(damaged=2), {"unclean_leader_election": True})
    assert (verdict.valid, verdict.exit_code) == (True, 0)
    rule = verdict.checks["alike"]
    assert (rule.status, rule.found, rule.disallowed) == ("permitted", 1, 0)
    assert "unclean" in rule.why
    assert verdict.log_examples[0].allowed


STATE = TopicPartition("__transaction_state", 3)
POWERLESS = PowerLosses(Windows.of([(5 * 10**9, 6 * 10**9)]))


@pytest.mark.parametrize(
    ("rule", "lost", "taken_s", "since_s", "excuse"),
    [
        ("log-matching", TP, 9, 0, "power"),
        ("log-matching", TP, 4, 0, ""),  # the files were read before
        ("log-matching", TopicPartition("q", 1), 9, 0, ""),
        ("log-matching", "__transaction_state", 9, 0, ""),
        ("marker-decided", "__transaction_state", 9, 0, "power"),
        ("marker-decided", "__consumer_offsets", 9, 0, ""),
        ("acknowledged-held", TP, 9, 5, "power"),
        ("acknowledged-held", TP, 9, 7, ""),  # the record was sent after it
        ("share-answers-stored", "__share_group_state", 9, 0, "power"),
        ("share-answers-stored", "__transaction_state", 9, 0, ""),
    ],
)
def test_only_what_a_rule_rests_on_and_may_have_lost_by_then_excuses_its_findings(
    rule: str, lost: TopicPartition | str, taken_s: int, since_s: int, excuse: str
) -> None:
    found = evidence()
    found["takes"] = tables({"takes": [{"take": 0, "node": 1, "at_ns": taken_s * 10**9}]})["takes"]
    windows = RunWindows(of_log={TP: LogWindows(), lost: LogWindows(power=POWERLESS, any_power=POWERLESS)})
    ground = log_ground(LOG_CHECKS, Evidence(found), windows)
    finding = replace(refused(TP, 2, 1, rule), since_ns=since_s * 10**9)
    assert ground.kind(finding).excuse == excuse


def test_what_is_in_no_partition_may_come_from_any_and_the_metadata_log_loses_nothing() -> None:
    windows = RunWindows(
        of_log={TP: LogWindows(power=POWERLESS, any_power=POWERLESS), METADATA_LOG: LogWindows()}
    )
    ground = log_ground(LOG_CHECKS, Evidence(evidence()), windows)
    nowhere = replace(refused(NOWHERE, -1, 1, "log-matching"), take=-1)
    assert ground.kind(nowhere).excuse == "power"
    assert ground.kind(refused(METADATA_LOG, 2, 1, "log-matching")).excuse == ""


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
    tally = Tally(ground=LogGround(kinds_of(LOG_CHECKS)))
    tally.refuse(refused(TP, 2, 3, rule))
    excuse_forgotten(tally, settings, 9000)
    told = tally.refused[rule], len(tally.findings), len(tally.doubts)
    assert told == ((1, 1, 0) if stays else (0, 0, 1))


def test_how_long_a_run_took_counts_from_its_start_and_not_from_that_of_the_machine(
    tmp_path: Path, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgets = "producer.id.expiration.ms"
    only(alike, {"alike": Rule("replicas are alike", "…", "replica-divergence", forgets=forgets)})
    settings = {"broker_settings": {"producer.id.expiration.ms": "5000"}}
    assert judged(tmp_path / "nine", evidence(damaged=2), settings).valid is True
    monkeypatch.setattr(History, "seconds", lambda _, ns: ns / 1e9 - 5)
    assert judged(tmp_path / "four", evidence(damaged=2), settings).valid is False


def test_a_rule_that_crashes_never_passes(tmp_path: Path, only: Callable[..., None]) -> None:
    def broken(found: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
        raise ValueError("no such column")

    only(broken)
    verdict = judged(tmp_path / "run", evidence())
    assert (verdict.valid, verdict.exit_code) == ("unknown", 2)
    assert verdict.unknown == ["alike: the check crashed"]
    assert verdict.checks["alike"].status == "crashed"
    assert "no such column" in verdict.checks["alike"].why


def test_evidence_that_is_missing_is_no_doubt_of_what_was_not_asked(
    tmp_path: Path, only: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(alike)
    other = {"idle": Rule("nothing asks this", "…", "replica-divergence")}
    for name, check in checks_of(other, ring=1).items():
        monkeypatch.setitem(LOG_CHECKS, name, check)
    missing = EvidenceMissing(ns=1, why="files of node 2: no room")
    verdict = judged(tmp_path / "run", evidence(), None, missing)
    assert verdict.valid is True
    assert {name: check.status for name, check in verdict.log_checks.items()} == {
        "alike": "unknown",
        "idle": "unasked",
    }


@pytest.mark.parametrize(("asked", "valid"), [(5, True), (0, "unknown")])
def test_a_doubt_is_shown_and_a_ring_that_decided_nothing_is_unknown(
    tmp_path: Path, only: Callable[..., None], asked: int, valid: object
) -> None:
    def doubting(found: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
        result.leave_open("alike", tp, "the beginning is gone")
        result.asked["alike"] = asked

    only(doubting)
    verdict = judged(tmp_path / "run", evidence())
    assert verdict.valid == valid
    rule = verdict.checks["alike"]
    assert (rule.status, rule.doubts) == ("unknown", ["q-0: the beginning is gone"])
    why = "brokers' logs: no rule that compares copies of a log applied: q-0: the beginning is gone"
    assert verdict.unknown == ([] if asked else [why])


def test_a_run_without_evidence_is_judged_by_its_clients_and_says_so(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "old", None)
    assert (verdict.valid, verdict.exit_code) == (True, 0)
    assert logs_line(verdict) == "not judged: the run kept no evidence of its brokers' logs"
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


def test_a_verdict_with_the_results_of_rules_elsewhere_is_read_without_them(tmp_path: Path) -> None:
    """Format 1 has rules and places in its section about logs."""
    told = msgspec.to_builtins(judged(tmp_path / "run", evidence()))
    told["checks"] = {name: check for name, check in told["checks"].items() if check["ring"] < 0}
    told["logs"] |= {"rules": {"alike": {"ring": 0, "status": "valid"}}, "places": []}
    old = msgspec.convert(told | {"format": 1}, Verdict)
    assert (old.log_checks, old.log_examples) == ({}, [])
    assert logs_line(old) == "not judged: the verdict is of an older version"


def test_every_rule_has_a_class_of_the_catalogue_and_a_sentence() -> None:
    for name, check in LOG_CHECKS.items():
        assert set(check.anomalies) <= ANOMALIES.keys(), name
        assert check.claim.endswith("."), name
        assert check.source, name
        assert check.reads is not Reads.HISTORY, name
        assert ALL_CHECKS[name] is check
    ring3 = [lineage, flushes, decisions, decisions_in_sync, answers, placement, share_answers]
    modules = {0: [audit], 1: [], 3: ring3, 4: [messages, orders]}
    rings = {name: ring for ring, some in modules.items() for one in some for name in one.CHECKS}
    assert {name: check.ring for name, check in LOG_CHECKS.items()} == dict.fromkeys(LOG_CHECKS, 1) | rings
