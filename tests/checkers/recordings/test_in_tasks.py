"""The line format in tasks: the tables and messages of an import in one process, also of damaged files,
and where each task runs twice."""

import gzip
import random
from pathlib import Path

import pytest

from checkers.recordings import lines_in_tasks
from checkers.recordings.formats import ImportRequest, import_config, import_files
from core.errors import HistoryError
from history.events import decode
from history.run_folder import Run
from history.seal import seal
from tests.checkers.recordings import folder
from tests.checkers.recordings.fuzz import SEEDS, mutated
from tests.history.test_parts import Again, files

(SEED,) = SEEDS["jsonl"]


def many(seed: int) -> bytes:
    """The small recording, followed by ops of many processes, some of them out of order."""
    random_ = random.Random(seed)
    found = [SEED.rstrip()]
    for number in range(300):
        process, begin = random_.randrange(10, 90), number * 10 + random_.randrange(2000)
        found.append(
            b'{"line": "op", "process": %d, "outcome": "ok", "begin_ns": %d, "end_ns": %d, "sends":'
            b' [{"topic": "u%d", "partition": %d, "value": %d, "offset": %d}]}'
            % (process, begin, begin + 5, number % 3, number % 4, number, number)
        )
    return b"\n".join(found) + b"\n" * random_.randrange(2)


def outcome(run: Run, contents: list[bytes], *, in_tasks: bool) -> object:
    """What is on record of an import: files, events, counts; or its error."""
    paths = []
    for number, content in enumerate(contents):
        paths.append(run.folder.parent / f"recording-{number}")
        paths[-1].write_bytes(content)
    request = ImportRequest(format="jsonl", files=paths)
    try:
        recording = import_files(run, import_config(request, {}), request, Again() if in_tasks else None)
    except HistoryError as error:
        return str(error)
    seal(run)
    counts = (recording.ops, recording.processes, recording.refused, recording.reasons)
    events = decode(run.events.read_bytes(), "events")
    return counts, events, run.config.read_bytes(), sorted(p.name for p in run.journal.iterdir()), files(run)


def both(tmp_path: Path, contents: list[bytes]) -> tuple[object, object]:
    found = []
    for name in ("here", "tasks"):
        (tmp_path / name).mkdir()
        run = folder(tmp_path / name / "run", import_config(ImportRequest(format="jsonl", files=[]), {}))
        found.append(outcome(run, contents, in_tasks=name == "tasks"))
        assert not (run.folder / "parts").exists() or isinstance(found[-1], str)
    here, tasks = found
    return here, tuple(tasks) if isinstance(tasks, tuple) else tasks


def same(tmp_path: Path, contents: list[bytes]) -> object:
    """The outcome, which is the same either way."""
    here, tasks = both(tmp_path, contents)
    text = (
        str(tasks).replace(str(tmp_path / "tasks"), str(tmp_path / "here"))
        if isinstance(tasks, str)
        else tasks
    )
    if isinstance(here, tuple) and isinstance(text, tuple):
        shown = [str(each).replace(str(tmp_path / "tasks"), str(tmp_path / "here")) for each in text[:4]]
        assert shown == [str(each) for each in here[:4]]
        assert text[4] == here[4]
    else:
        assert here == text
    return here


@pytest.mark.sampled(24)
@pytest.mark.parametrize("size", [64, 1000, 1 << 26])
@pytest.mark.parametrize("packed", [False, True])
def test_tasks_import_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, packed: bool
) -> None:
    monkeypatch.setattr(lines_in_tasks, "RANGE_BYTES", size)
    contents = [many(1), b'\n{"line": "process", "process": 3, "acks": 1}\n']
    counts = same(tmp_path, [gzip.compress(each) for each in contents] if packed else contents)[0]  # type: ignore[index]
    assert counts[0] > 200
    assert counts[2] > 10


@pytest.mark.sampled(8)
def test_damaged_files_end_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_in_tasks, "RANGE_BYTES", 200)
    refused = 0
    for seed in range(40):
        random_ = random.Random(seed)
        content = mutated(SEED, random_)
        content = gzip.compress(content)[: -random_.randrange(1, 9)] if seed % 8 == 7 else content
        (tmp_path / str(seed)).mkdir()
        found = same(tmp_path / str(seed), [content])
        refused += isinstance(found, tuple) and found[0][2] > 0
    assert refused > 10
