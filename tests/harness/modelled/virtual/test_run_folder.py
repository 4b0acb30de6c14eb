"""A simulated run that is looked at while it is made."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import HistoryError, UsageError
from harness.modelled.virtual import run_folder
from harness.run.planning import planned
from history.evidence import Evidence
from history.reader import load
from history.run_folder import Run, write_atomically
from history.seal import recorded, seal
from tests.histories.traced import config


@pytest.mark.sampled(13)
@pytest.mark.parametrize("last", ["simulate", "write_virtual", "evidence", "tr"])
def test_whoever_checks_a_simulated_run_before_it_is_written_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    run, made = Run(tmp_path / "run"), config(seed=8, duration_s=1)
    run.journal.mkdir(parents=True)
    write_atomically(run.config, made.model_dump_json())
    looks: list[str] = []

    def look() -> None:
        with pytest.raises(UsageError, match="nothing is recorded there"):
            recorded(run.folder)
        with pytest.raises(HistoryError, match="events"):
            seal(run)
        looks.append(last)

    name = {"evidence": "evidence.write", "tr": "tr.encode"}.get(last, last)
    real = run_folder
    for part in name.split("."):
        real = getattr(real, part)

    def looking(*args: Any, **more: Any) -> Any:
        look()
        return real(*args, **more)  # type: ignore[operator]

    monkeypatch.setattr(f"{run_folder.__name__}.{name}", looking)
    run_folder.record(made, planned(made).steps, run)
    assert looks
    seal(recorded(run.folder))
    assert load(run).tables["ops"].num_rows
    assert Evidence.load(run.evidence)
