"""What a report reads of a history depends on its findings, not on how long the history is."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.make_history import write
from harness.report import build
from history import unit_files, units
from history.reader import SendRow, load
from history.run_folder import Run
from history.verdict import Anomaly, Example, OpView
from tests.histories.report_runs import make_verdict

MESSAGES = 12_000
ROW_GROUP = 64
EVERY = 0.5
"""The findings' records, as a share of the history."""


class Cells:
    """Cells that row groups of sends and reads decode: of whole rows, and of single columns."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.scanned: Counter[str] = Counter()

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = unit_files.columns_of_groups

        def counted(file: Any, wanted: Sequence[str], groups: Sequence[int]) -> Any:
            rows = read(file, wanted, groups)
            number = len(rows["tp"])
            if len(wanted) > 4:
                self.rows["rows"] += number
            else:
                self.scanned.update(dict.fromkeys(wanted, number))
            return rows

        monkeypatch.setattr(unit_files, "columns_of_groups", counted)


def example(run: Run, sent: SendRow, name: str) -> Example:
    """A finding about one record and its transaction."""
    history = load(run)
    op = history.op(sent.op)
    view = OpView(
        op=sent.op,
        process=sent.process,
        slot=0,
        f=op.f,
        outcome="ok",
        phase="faults",
        error="",
        txn=True,
        transactional_id="",
        isolation="",
        begin_s=history.seconds(op.invoke_ns),
        end_s=history.seconds(op.complete_ns),
        records=[],
    )
    return Example(
        sentence=name,
        allowed=False,
        why="",
        partition=history.tp(sent.tp),
        offsets=[sent.place],
        values=[sent.value],
        ops=[view],
    )


def reported(folder: Path, messages: int, monkeypatch: pytest.MonkeyPatch) -> Cells:
    """A report with a log and a timeline around the middle of four partitions."""
    folder.mkdir()
    run = Run(folder)
    write(run, messages, 5)
    history = load(run)
    examples = []
    for tp in range(4):
        sends = history.sends({tp: {"tp": [tp]}})
        examples.append(example(run, sends[int(len(sends) * EVERY)], "lost"))
    lost = Anomaly(
        title="lost",
        literature="",
        meaning="",
        count=4,
        disallowed=4,
        allowed=False,
        why="",
        examples=examples,
    )
    verdict = make_verdict(anomalies={"lost-write": lost}, faults=[], valid=False, exit_code=1)
    run.verdict.write_bytes(msgspec.json.encode(verdict))
    with monkeypatch.context() as patched:
        cells = Cells()
        cells.watch(patched)
        html = build(run).read_text(encoding="utf-8")
    assert html.count("The log of <code>") == 4
    assert "Transactions around this finding" in html
    return cells


@pytest.mark.sampled(48)
@pytest.mark.slow
def test_rows_that_are_read_do_not_grow_with_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "ROW_GROUP", ROW_GROUP)
    small = reported(tmp_path / "small", MESSAGES, monkeypatch)
    large = reported(tmp_path / "large", 4 * MESSAGES, monkeypatch)
    assert 0 < large.rows["rows"] < 2 * small.rows["rows"]
    assert large.rows["rows"] < 20_000, "of 48,000 sends and 192,000 reads"
    assert set(large.scanned) <= {"tp", "op", "offset", "value", "place"}
    rows = 5 * (4 * MESSAGES // 32 * 4)
    assert large.scanned["value"] < 5 * rows, "of sends and reads of four partitions"
    assert large.scanned["offset"] < 2 * rows
