"""Sealed run folders for tests: tables, a configuration and events, written as a run writes
them; and judging one.

Not here: building the tables (`tests.histories.built`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.api import EngineName, check
from core.config import run_config
from core.session import UNAWAITED
from history import jsonl
from history.events import Event, Recovered, RunStarted
from history.run_folder import Run
from history.seal import write_history
from history.verdict import Verdict
from tests.histories.built import F

STARTED = RunStarted(ns=0, wall="2026-01-01T00:00:00Z", run="test", versions={})
RECOVERED = Recovered(ns=1_000_000, recovered=True, seconds=2.5)
NAMES = {
    "f": [*F],
    "error": ["_TIMED_OUT", UNAWAITED, "_FENCED"],
    "group": [f"group-{n}" for n in range(3)],
    "txn_id": [f"txn-{n}" for n in range(40)],
}


def write_run(
    folder: Path,
    tables: Mapping[str, pa.Table],
    *,
    settings: Mapping[str, Any] | None = None,
    events: Sequence[Event] = (STARTED, RECOVERED),
) -> Run:
    """A sealed run folder with this history."""
    run = Run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = run_config({"seed": 7, **(settings or {})})
    run.config.write_text(config.model_dump_json())
    run.events.write_bytes(jsonl.encode(events))
    write_history(run, dict(tables), names=NAMES, start_ns=0, start_wall="2026-01-01T00:00:00Z")
    return run


def check_run(run: Run, *, engine: EngineName = "process") -> Verdict:
    """Judge a run folder, and write into it what `inquest check` writes."""
    result = check(run, engine=engine)
    result.write(run)
    return result.verdict


def scribble(path: Path) -> None:
    """Damage the data pages of a Parquet file, leave the footer whole."""
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(bytes(data))
