"""Export and import: the same findings, whichever way a history travels."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from checkers.api import check_history, check_portable
from checkers.recordings.cases import read
from checkers.recordings.export import WRITERS, events_of
from checkers.recordings.formats import ImportRequest, import_config
from checkers.recordings.ops import OpWriter
from checkers.recordings.recording import Recording
from history.reader import History, load
from history.run_folder import Run
from history.seal import seal
from tests.checkers.recordings import folder, imported
from tests.checkers.recordings.test_formats import op as op_line
from tests.checkers.recordings.test_formats import records, text

PROBES = Path(__file__).parents[2] / "histories" / "probe.json"
CASES = {case.name: case for case in read(PROBES)}
LEFT_OPEN = {"unseen", "torn-txn"}
"""Classes that a portable history claims for lack of a read; an import leaves them open."""


def sealed(path: Path, name: str) -> History:
    """A probe history as a run folder."""
    config = import_config(ImportRequest(format="jepsen", files=[]), {})
    run = folder(path, config)
    recording = Recording(run, config)
    writer = OpWriter(recording, moved_by_groups=True)
    last = 0
    for op in CASES[name].ops:
        last = max(last, op.invoked_at, op.completed_at or 0)
    for op in sorted(CASES[name].ops, key=lambda op: op.invoked_at):
        writer.write(op, op.invoked_at * 1000, (last if op.completed_at is None else op.completed_at) * 1000)
    recording.close()
    facts = config.model_dump(mode="json")
    facts["imported"]["on_record"] = ["from_start"]
    run.config.write_text(json.dumps(facts))
    seal(run)
    return load(run)


def exported(history: History, to: str) -> str:
    file = io.StringIO()
    WRITERS[to](history.run.name, events_of(history).events, file)
    return file.getvalue()


def classes(run: Run) -> set[str]:
    return {kind.name for kind in check_history(load(run)).counts}


@pytest.mark.parametrize(
    ("outcome", "left"), [("ok", ["1 records that failed in a transaction which did not"]), ("fail", [])]
)
def test_a_record_that_failed_in_a_transaction_is_not_committed_with_it(
    tmp_path: Path, outcome: str, left: list[str]
) -> None:
    lost = {"topic": "t", "partition": 0, "value": "b", "outcome": "fail"}
    txn = {**op_line(0, 10, sends=[*records(("a", 0)), lost], txn=True), "outcome": outcome}
    reads = op_line(1, 50, reads=records(("a", 0), ("c", 2)) if outcome == "ok" else records(("c", 2)))
    lines = text(op_line(2, 10, sends=records(("c", 2))), txn, reads)
    run, recording = imported(tmp_path, "jsonl", lines)
    assert recording.reasons == []
    history = load(run)
    assert events_of(history).left_out == left
    (tmp_path / "portable.json").write_text(exported(history, "portable"))
    (answer,) = check_portable(tmp_path / "portable.json")
    assert answer["by_config"]["assign+ww"]["anomalies"] == []


@cache
def answers() -> dict[str, Any]:
    """Probe → its verdicts, as portable history."""
    return {answer["name"]: answer["by_config"] for answer in check_portable(PROBES)}


def expected(name: str) -> dict[str, Any]:
    return dict(answers()[name])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CASES)
def test_a_history_comes_back(tmp_path: Path, name: str) -> None:
    history = sealed(tmp_path / "sealed", name)
    (tmp_path / "portable.json").write_text(exported(history, "portable"))
    (answer,) = check_portable(tmp_path / "portable.json")
    assert answer["by_config"] == expected(name)

    run, recording = imported(tmp_path, "jepsen", exported(history, "jepsen"))
    assert recording.reasons == []
    wanted = set(expected(name)["assign+ww"]["anomalies"]) - LEFT_OPEN
    assert {"G1c" if name == "G1c-ww" else name for name in classes(run)} - {"offset-reuse"} >= wanted
    assert classes(run) == classes(history.run)
