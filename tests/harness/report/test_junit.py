"""JUnit XML and the step summary: every status arrives as what it is."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from harness.report import build, github, junit
from history.verdict import CheckResult, ReportedIncident, Verdict
from tests.histories.report_findings import FOLDERS, HOSTILE, anomalous
from tests.histories.report_runs import clean


def verdict_of(name: str) -> Verdict:
    verdict = FOLDERS[name]().verdict
    assert verdict is not None
    return verdict


def cases(verdict: Verdict) -> dict[str, str]:
    """Test cases by `class.name`, and what became of them."""
    suite = ET.fromstring(junit.render(verdict)).find("testsuite")
    assert suite is not None
    return {
        f"{case.get('classname')}.{case.get('name')}": case[0].tag if len(case) else "passed"
        for case in suite.iter("testcase")
    }


def test_a_clean_run_passes() -> None:
    assert set(cases(verdict_of("clean")).values()) == {"passed"}


def test_every_status_arrives_as_what_it_is() -> None:
    verdict = verdict_of("anomalous")
    crashed = CheckResult(claim="c", status="crashed", seconds=0, rows=0, why="ValueError: no")
    verdict = msgspec.structs.replace(
        verdict, checks=verdict.checks | {"cycles": crashed}, expect={"duplicate": False, "a": True}
    )
    assert cases(verdict) == {
        "inquest.check.acknowledged": "failure",
        "inquest.check.order": "passed",
        "inquest.check.atomicity": "failure",
        "inquest.check.consumers": "skipped",
        "inquest.check.recovery": "passed",
        "inquest.check.cycles": "error",
        "inquest.anomaly.lost-write": "failure",
        "inquest.anomaly.torn-txn": "failure",
        "inquest.control.duplicate": "failure",
        "inquest.control.a": "passed",
        "inquest.run.recovered": "passed",
        "inquest.run.decided": "skipped",
    }


def test_an_unknown_verdict_is_never_all_passed() -> None:
    verdict = msgspec.structs.replace(verdict_of("clean"), valid="unknown", exit_code=2)
    assert cases(verdict)["inquest.run.decided"] == "skipped"
    assert cases(verdict_of("interrupted"))["inquest.run.decided"] == "skipped"
    assert cases(verdict_of("empty"))["inquest.run.recovered"] == "skipped"
    verdict = msgspec.structs.replace(verdict, recovered=None)
    assert "the run ended before, or another one answered" in junit.render(verdict).decode()
    imported = msgspec.structs.replace(verdict, config={"imported": {"format": "jsonl"}})
    assert 'skipped message="no import says whether the cluster recovered' in junit.render(imported).decode()


def test_a_cluster_that_did_not_recover_fails() -> None:
    verdict = msgspec.structs.replace(verdict_of("clean"), recovered=False, exit_code=3)
    assert cases(verdict)["inquest.run.recovered"] == "failure"


def test_a_failure_tells_the_sentence() -> None:
    root = ET.fromstring(junit.render(verdict_of("anomalous")))
    failure = root.find(".//testcase[@name='torn-txn']/failure")
    assert failure is not None
    message = failure.get("message") or ""
    assert message.startswith("known bug KAFKA-17754: 1 finding. Transaction op 2210 wrote")
    assert failure.get("type") == "torn-txn"


@pytest.mark.parametrize("name", FOLDERS)
def test_the_file_is_what_consumers_expect(name: str) -> None:
    verdict = verdict_of(name)
    root = ET.fromstring(junit.render(verdict))
    assert root.tag == "testsuites"
    (suite,) = root
    assert [child.tag for child in suite if child.tag != "testcase"] == ["properties", "system-out"]
    found = list(suite.iter("testcase"))
    counts = {
        kind: sum(case.find(tag) is not None for case in found)
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    for element in (root, suite):
        assert int(element.attrib["tests"]) == len(found)
        assert {kind: int(element.attrib[kind]) for kind in counts} == counts
        assert float(element.attrib["time"]) >= 0
    for case in found:
        assert {"classname", "name", "time"} <= set(case.attrib)
        assert len(case) <= 1
    names = [(case.get("classname"), case.get("name")) for case in found]
    assert len(names) == len(set(names))
    seed = suite.find("properties/property[@name='seed']")
    assert seed is not None
    assert seed.get("value") == "42"


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    text = junit.render(verdict_of("hostile")).decode()
    assert "\x07" not in text
    values = [value for element in ET.fromstring(text).iter() for value in element.attrib.values()]
    assert any(HOSTILE.replace("\x07", "\ufffd") in value for value in values)


@pytest.mark.sampled(6)
def test_the_summary_is_appended_where_github_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv(github.VARIABLE, str(path))
    build(anomalous().write(tmp_path / "run"))
    text = path.read_text()
    assert text.startswith("before\n### ✕ Inquest: Anomaly\n")
    assert "| lost\\-write | 37 findings, forbidden | Record 4/1207" in text
    assert "- Not decided: Whether consumers skipped" in text
    assert "    inquest run --workload transactions" in text


def test_the_summary_tells_a_forbidden_example_of_a_class() -> None:
    verdict = verdict_of("anomalous")
    torn = verdict.anomalies["torn-txn"]
    shown = [
        msgspec.structs.replace(torn.examples[0], allowed=how, sentence=f"It is {how}")
        for how in (True, False)
    ]
    mixed = msgspec.structs.replace(torn, count=2, disallowed=1, examples=shown, known_bug="")
    text = github.render(msgspec.structs.replace(verdict, anomalies={"torn-txn": mixed}))
    assert "| torn\\-txn | 2 findings, 1 of them forbidden | It is False |" in text


def test_incidents_stand_in_the_summary_as_text() -> None:
    one = ReportedIncident(at_s=12.25, text="node 2 ended with exit code 137: <b>", checks=["recovery"])
    text = github.render(msgspec.structs.replace(verdict_of("clean"), incidents=[one]))
    assert "- Incident: at 12" in text
    assert "node 2 ended with exit code 137: &lt;b&gt;" in text
    assert "Incident" not in github.render(verdict_of("clean"))


@pytest.mark.sampled(5)
def test_no_summary_is_written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(github.VARIABLE, raising=False)
    run = clean(50).write(tmp_path / "run")
    build(run)
    assert not github.append(lambda: github.render(verdict_of("clean")), {})
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
    assert {path.name for path in run.folder.iterdir()} == {
        "verdict.json",
        "events.jsonl",
        "history",
        "report.html",
        "junit.xml",
    }


def test_markdown_and_html_from_outside_stay_text() -> None:
    text = github.render(verdict_of("hostile"))
    for line in text.splitlines():
        if line.startswith("    ") or line.startswith("Run `"):
            continue  # code, where nothing is taken for markup
        assert "<" not in line
        assert not re.search(r"(?<!\\)`", line), line
    rows = [line for line in text.splitlines() if line.startswith("| 0")]
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 4
