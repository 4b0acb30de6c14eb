"""Formats of recordings that Inquest imports, and the import of files into a run folder."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from checkers.recordings.jepsen import JepsenImport
from checkers.recordings.lines import LinesImport
from checkers.recordings.lines_in_tasks import read_in_tasks
from checkers.recordings.recording import Recording
from checkers.recordings.verifiable import VerifiableImport
from core.config import RunConfig, run_config
from core.errors import HistoryError, UsageError
from core.presets import NamedSettings
from core.systems import ImportedSection
from history.run_folder import Run, write_atomically
from history.tasks import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What an import is asked for. from_start, one_group, clock_error_s: what the user knows of output of
    Verifiable tools; clock_error_s: how far the clocks of their hosts are apart at most, None = the usual.
    """

    format: str
    files: Sequence[Path]
    from_start: bool = False
    one_group: bool = False
    clock_error_s: float | None = None


Facts = tuple[str, ...]
"""What the recording holds: names of `core.systems.ImportedSection.on_record`."""


def _jepsen(recording: Recording, request: ImportRequest) -> Facts:
    if len(request.files) != 1:
        raise UsageError("a Jepsen history is one file")
    JepsenImport(recording, request.files[0]).read()
    recording.close()
    return ("from_start",)


def _verifiable(recording: Recording, request: ImportRequest) -> Facts:
    read = VerifiableImport(recording, one_group=request.one_group)
    read.read(list(request.files))
    recording.close()
    facts = ("positions", *["commits"] * request.one_group, *["from_start"] * request.from_start)
    return facts if read.verbose else ()


def _jsonl(recording: Recording, request: ImportRequest) -> Facts:
    read = LinesImport(recording)
    for path in request.files:
        read.read(path)
    recording.close(read.bounds)
    return read.on_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format. defaults: settings of its clients, where the user gives none. read_in_tasks: does what
    `read` does, with workers."""

    doc: str
    read: Callable[[Recording, ImportRequest], Facts]
    defaults: NamedSettings
    read_in_tasks: Callable[[Recording, Sequence[Path], Workers], Facts] | None = None


FORMATS: Final[dict[str, Format]] = {
    "jepsen": Format(doc="EDN history of Jepsen's Kafka workload", read=_jepsen, defaults={}),
    "verifiable": Format(
        doc="output of Kafka's VerifiableProducer and VerifiableConsumer",
        read=_verifiable,
        defaults={"idempotent": False, "isolation": "read_uncommitted"},
    ),
    "jsonl": Format(
        doc="Inquest's line format, for any client", read=_jsonl, defaults={}, read_in_tasks=read_in_tasks
    ),
}
"""Name on the command line -> format."""


def import_config(request: ImportRequest, settings: Mapping[str, object]) -> RunConfig:
    """The config of an imported run. settings: those of the clients and topics that the user knows.

    Raises: UsageError, ConfigError.
    """
    if request.format not in FORMATS:
        raise UsageError(f"unknown format {request.format!r}; known: {', '.join(FORMATS)}")
    fixed = {"workload": "imported", "nemesis": "none", "sut": "imported", "seed": 0}
    if wrong := sorted((fixed.keys() | {"imported", "expect"}) & settings.keys()):
        raise UsageError(f"an import has no setting {wrong[0]}")
    options = ["--from-start"] * request.from_start + ["--one-group"] * request.one_group
    files = [os.path.abspath(path) for path in request.files]  # so the command works from any folder
    section: dict[str, object] = {"format": request.format, "files": files, "options": options}
    section["clock_error_s"] = request.clock_error_s
    config = run_config(FORMATS[request.format].defaults | dict(settings) | fixed | {"imported": section})
    policies = (config.topic_settings.get("cleanup.policy"), config.broker_settings.get("log.cleanup.policy"))
    if any("compact" in (policy or "") for policy in policies):
        raise UsageError("compacted topics cannot be imported: no format has the keys of records")
    return config


def import_files(
    run: Run, config: RunConfig, request: ImportRequest, workers: Workers | None = None
) -> Recording:
    """Write the journals and events of the files into a folder that holds only its config; `history.seal`
    then makes its tables.

    workers: read files in tasks, where the format can be read so; None = all in this process.

    Raises: HistoryError (a file cannot be opened, or nothing of the files can be judged), OSError.
    """
    recording = Recording(run, config)
    format_ = FORMATS[request.format]
    if workers is not None and format_.read_in_tasks is not None:
        facts = format_.read_in_tasks(recording, request.files, workers)
    else:
        facts = format_.read(recording, request)
    if not recording.ops:
        why = recording.reasons[0] if recording.reasons else f"{request.files[0]}: no op in it"
        raise HistoryError(f"nothing to import: {why}")
    section = config.model_dump(mode="json") | {"imported": _section(config) | {"on_record": facts}}
    whole = RunConfig.model_validate(section)
    write_atomically(run.config, whole.model_dump_json(indent=2) + "\n")
    return recording


def record_lines(lines: Iterable[Mapping[str, object]], folder: Path, **settings: object) -> Run:
    """A new run folder, for `check`, of lines that a program has in memory: each is one of the line format,
    as a dict (docs/importing.md). They are kept there as `recording.jsonl`. settings: those of the clients
    and topics that the user knows, such as `acks=1, idempotent=False`.

    Raises: HistoryError, for a line that cannot be read or where nothing can be judged; UsageError,
    ConfigError, for settings; OSError, such as a folder that there is.
    """
    request = ImportRequest(format="jsonl", files=[folder / "recording.jsonl"])
    config = import_config(request, settings)
    run = Run(folder)
    folder.mkdir(parents=True)  # of a folder that exists nothing may be replaced, and nothing removed
    try:
        run.journal.mkdir()
        request.files[0].write_bytes(b"".join(_encoded(n, line) for n, line in enumerate(lines, 1)))
        write_atomically(run.config, config.model_dump_json(indent=2) + "\n")
        if reasons := import_files(run, config, request).reasons:
            raise HistoryError(reasons[0])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return run


def _encoded(number: int, line: Mapping[str, object]) -> bytes:
    """Raises: HistoryError, for a value that JSON has not."""
    try:
        return msgspec.json.encode(line) + b"\n"
    except (TypeError, ValueError) as error:
        raise HistoryError(f"line {number}: {error}") from None


def _section(config: RunConfig) -> dict[str, object]:
    return config.section(ImportedSection).model_dump()
