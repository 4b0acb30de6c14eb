"""Of a recording of another program a report says what is on record; the default of a setting is no fact."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.systems import report_title
from harness.report import github, junit
from harness.report.repetition import where
from history.verdict import Liveness, Verdict
from tests.harness.report.test_page import text_of
from tests.histories.report_findings import anomalous

IMPORTED = {"workload": "imported", "sut": "imported", "imported": {"format": "jsonl", "files": ["a.jsonl"]}}
OURS = {
    "workload": "queue",
    "nemesis": "none",
    "preset": "safe",
    "seed": 0,
    "duration_s": 60.0,
    "brokers": 3,
    "producers": 4,
}
CONFIG = OURS | {"acks": 1, "idempotent": False, "isolation": 1, "min_insync_replicas": 2}


def without_faults(config: dict[str, Any]) -> Verdict:
    """A verdict with a finding, in which nothing of faults and load was measured."""
    verdict = anomalous().verdict
    assert verdict is not None
    stats = verdict.stats | {"faults": 0.0, "idle faults": 0.0}
    return msgspec.structs.replace(
        verdict, config=config, faults=[], liveness=Liveness(), stats=stats, seed=0
    )


def test_the_command_of_an_import_needs_no_folder_where_it_has_whole_paths() -> None:
    for files, title, needed in (
        (["a.jsonl"], "imported, jsonl: a.jsonl", "in the folder of the recording"),
        (["/of/mine/a.jsonl", "/b.jsonl"], "imported, jsonl: a.jsonl, b.jsonl", ""),
    ):
        config = IMPORTED | {"imported": {"format": "jsonl", "files": files}}
        assert (report_title(config), where(config)) == (title, needed)


def section(text: str, begin: str, end: str) -> str:
    """The text of a page between two headings."""
    return text.partition(begin)[2].partition(end)[0]


@pytest.mark.sampled(13)
@pytest.mark.parametrize("foreign", [True, False], ids=["a recording", "a run"])
def test_what_no_recording_has_is_no_fact_of_the_page(foreign: bool, tmp_path: Path) -> None:
    folder = anomalous()
    folder.verdict = without_faults(CONFIG | (IMPORTED if foreign else {"sut": "kafka"}))
    text = text_of(folder, tmp_path)
    assert ("No fault came into force in this run." in text) is not foreign
    assert ("brokers acknowledged no record in the fault phase" in text) is not foreign
    for begin, end in ((" Faults ", " Liveness "), (" Liveness ", " Run ")):
        shown = section(text.partition("Brokers’ logs")[2], begin, end)
        assert (shown.strip() == "Not on record.") is foreign
    assert ("Whole configuration" in text) is not foreign
    listed = section(text, "What the import assumed" if foreign else "Whole configuration", "Repeat this run")
    assert ("nemesis none" in listed, "seed 0" in listed, "producers 4" in listed) == (not foreign,) * 3
    assert "acks 1" in listed
    assert "min_insync_replicas 2" in listed
    assert ("idle faults" in text) is not foreign
    assert ("number 1207 of process 4" in text) is not foreign
    assert ("0/7 is the recorded integer 7" in text) is foreign
    assert (" of process " in section(text, "First and last record", "Likely cause")) is not foreign


@pytest.mark.parametrize("foreign", [True, False], ids=["a recording", "a run"])
def test_what_no_recording_has_is_in_no_summary(foreign: bool) -> None:
    verdict = without_faults(CONFIG | (IMPORTED if foreign else {"sut": "kafka"}))
    made = junit.render(verdict).decode()
    assert [f'name="{name}"' in made for name in ("seed", "nemesis", "preset")] == [not foreign] * 3
    assert 'name="workload"' in made
    assert ("seed 0" in github.render(verdict)) is not foreign
