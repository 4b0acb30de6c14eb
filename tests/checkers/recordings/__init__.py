"""Imports in a folder of their own: files in, sealed history out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkers.recordings.formats import ImportRequest, import_config, import_files
from checkers.recordings.recording import Recording
from core.config import RunConfig
from history.run_folder import Run
from history.seal import seal


def folder(path: Path, config: RunConfig) -> Run:
    """A run folder that holds only its config."""
    run = Run(path)
    for made in (run.folder, run.journal, run.cluster):
        made.mkdir()
    run.config.write_text(config.model_dump_json())
    return run


def imported(tmp_path: Path, format: str, *contents: str | bytes, **options: Any) -> tuple[Run, Recording]:
    """The sealed run folder of these files, and what the import says of them. Raises: HistoryError."""
    return imported_with({}, tmp_path, format, *contents, **options)


def imported_with(
    settings: Mapping[str, object], tmp_path: Path, format: str, *contents: str | bytes, **options: Any
) -> tuple[Run, Recording]:
    """The same, where the user knows these settings."""
    paths = []
    tmp_path.mkdir(exist_ok=True)
    for number, content in enumerate(contents):
        paths.append(tmp_path / f"recording-{number}.txt")
        paths[-1].write_bytes(content.encode() if isinstance(content, str) else content)
    request = ImportRequest(format=format, files=paths, **options)
    config = import_config(request, settings)
    run = folder(tmp_path / "run", config)
    recording = import_files(run, config, request)
    seal(run)
    return run, recording
