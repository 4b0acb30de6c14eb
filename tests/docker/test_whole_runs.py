"""Whole runs on real Kafka, as a user types them: from the command to the exit code, the last six lines, the
verdict, the report, and who judged it.

Each has 12 s of faults, the upgrade of three nodes 60. The one that has to find something, `acks1`, is in
every `make test`; of the others `make test` runs a share.
"""

import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.systems import report_title
from history.run_folder import Run
from tests.faults.command import Inquest, the_run, verdict
from tests.harness.cli.bad_input import Ended

LINES = ("faults: ", "reached: ", "broker logs: ", "report: ", "repeat: ")
HEADINGS = (
    "What was tested",
    "What was found",
    "Anomalies",
    "Timeline",
    "Cluster over time",
    "Checks",
    "Faults",
)
EVERYWHERE = frozenset({"isolation", "integrity", "stability", "cycles", "recovery"})
"""Checks that have a subject in each of these runs, and that nothing permits to fail."""
PROMISED = frozenset({"durability", "uniqueness", "consistency", "real-time", "send-order", "poll-order"})
"""Those that a permitted loss takes the ground from."""


@dataclass(frozen=True, slots=True)
class Case:
    """A run. says: what its first line has, a pattern. held: checks that have a subject, and hold. shown: an
    anomaly class that it has to find, which its configuration or its faults permit; "" = none."""

    words: str
    says: str
    held: frozenset[str]
    shown: str = ""


SEEN = r"no forbidden anomaly in \d+ ops, \d+ records acknowledged and \d+ read under [1-9]\d* faults?"
LOST = SEEN + r"; allowed here: .*\blost-write \(\d+\)"
CLEAN, LOSS = f"VALID: {SEEN}", f"VALID: {LOST}"
FIRED = f"CONTROL FIRED: {LOST}.*; the control found lost-write"
CASES = {
    "acks1": Case("--preset acks1 --seed 10", FIRED, EVERYWHERE, "lost-write"),
    "safe": Case(
        "--preset safe --seed 7", CLEAN, EVERYWHERE | PROMISED | {"group-offsets", "group-delivery"}
    ),
    "exactly-once": Case(
        "--preset exactly-once --seed 7", CLEAN, EVERYWHERE | PROMISED | {"atomicity", "exactly-once"}
    ),
    "groups": Case(
        "--workload groups --seed 7", CLEAN, EVERYWHERE | PROMISED | {"group-offsets", "group-delivery"}
    ),
    "share": Case(
        "--preset share --nemesis kill,client:crash-before-commit@member --seed 7",
        CLEAN,
        EVERYWHERE | (PROMISED - {"poll-order"}) | {"share-groups"},
    ),
    "zookeeper": Case(
        "--kafka 2.8.2 --nemesis kill,partition --seed 7",
        CLEAN,
        EVERYWHERE | PROMISED | {"group-offsets", "group-delivery"},
    ),
    "upgrade": Case(
        "--kafka 4.1.2 --upgrade 4.4.0 --workload transactions --nemesis upgrade --seed 7 --duration 100",
        CLEAN,
        (EVERYWHERE | PROMISED | {"atomicity"}) - {"isolation"},  # some readers are at read_uncommitted
    ),
    "power:all": Case("--nemesis power:all --seed 7", LOSS, EVERYWHERE | {"send-order"}, "lost-write"),
}


def ended(results: Path, case: Case) -> Ended:
    """The command, to its end."""
    words = ["--duration", "12", "--engine", "spark", *case.words.split()]
    command = Inquest("run", "--results", str(results), *words, module="inquest")
    try:
        return command.wait()
    finally:
        command.end()


@pytest.mark.sampled(19)
@pytest.mark.parametrize("name", CASES)
def test_a_run_ends_as_it_should(tmp_path: Path, name: str) -> None:
    """The command says, and leaves behind, what its case says."""
    case = CASES[name]
    said = ended(tmp_path, case)
    run = the_run(tmp_path)
    assert said.code == 0, said
    assert run is not None
    lines = said.out.splitlines()
    assert re.match(case.says, lines[0]), lines[0]
    if case.says is FIRED:  # what a control finds is what it is about
        assert lines.pop(1).startswith("first lost-write: ")
    assert [line[: len(start)] for line, start in zip(lines[1:], LINES, strict=True)] == list(LINES)
    assert lines[-3].endswith(f"; judged by {verdict(run)['engine']}")
    assert lines[-2] == f"report: {run.report}"
    again = r"repeat: inquest run .*--seed \d+ --duration \d+( --kafka \S+)?( --upgrade \S+)?$"
    assert re.match(again, lines[-1]), lines[-1]
    found = verdict(run)
    judged_as(found, case)
    reported(run, found, case)


def judged_as(found: dict[str, Any], case: Case) -> None:
    """The verdict of a run whose cluster was hit, and came back."""
    assert (found["valid"], found["exit_code"], found["recovered"], found["unknown"]) == (True, 0, True, [])
    assert found["faults"]
    assert found["stats"]["records acknowledged"] > 100
    checks = {name: one for name, one in found["checks"].items() if one["ring"] < 0}  # of what clients saw
    asked = {name for name, one in checks.items() if one["status"] not in ("unasked", "permitted")}
    assert asked >= case.held
    assert {name: checks[name]["status"] for name in asked} == dict.fromkeys(asked, "valid")
    if case.shown:
        shown = found["anomalies"][case.shown]
        assert shown["allowed"]
        assert shown["count"] >= len(shown["examples"]) > 0
    assert not [name for name, one in found["anomalies"].items() if one["disallowed"]]
    assert found["logs"]["why"] == ""
    assert not found["logs"]["missing"]
    assert [one["nodes"] for one in found["logs"]["takes"]][-1] == [1, 2, 3]
    assert re.fullmatch(r"Spark \d\.\d\.\d, local\[\d+\], \d+ tasks", found["engine"]), found["engine"]


def reported(run: Run, found: dict[str, Any], case: Case) -> None:
    """The report has its headings, the summary, and the witness of what was found."""
    page = html.unescape(run.report.read_text())
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", page)
    assert [one for one in headings if one in HEADINGS] == list(HEADINGS)
    assert found["summary"].lower() in page.lower()
    assert report_title(found["config"]) in page
    if case.shown:
        assert f"<code>{case.shown}</code>" in page
        text = re.sub(r"</?time[^>]*>", "", page)  # its times can be switched to the wall clock
        assert found["anomalies"][case.shown]["examples"][0]["sentence"] in text
