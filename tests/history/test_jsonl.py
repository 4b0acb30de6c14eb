"""Appending to files: a full disk has its own error, and what a phase leaves is durable."""

import errno
import os
import resource
from pathlib import Path

import pytest

from core.op import Phase
from history import events as ev
from history import jsonl


def test_a_line_that_is_written_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sizes = os.write, []

    def little(handle: int, data: memoryview) -> int:
        sizes.append(len(data))
        return write(handle, data[:7])

    log = jsonl.Appender(tmp_path / "log.jsonl")
    monkeypatch.setattr(os, "write", little)
    log.append(ev.Note(ns=1, text="a note"))
    assert len(sizes) > 3
    monkeypatch.undo()
    assert (tmp_path / "log.jsonl").read_bytes() == jsonl.encode([ev.Note(ns=1, text="a note")])
    log.close()


def test_a_disk_that_is_full_within_a_line_says_so(tmp_path: Path) -> None:
    log = jsonl.Appender(tmp_path / "log.jsonl")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            log.append(ev.Note(ns=1, text="a note"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        log.close()
    assert caught.value.errno == errno.EFBIG
    assert ev.decode((tmp_path / "log.jsonl").read_bytes(), "log") == []


def test_each_phase_makes_events_and_journals_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    (tmp_path / "journal").mkdir()
    for process in (1, 2):
        (tmp_path / "journal" / f"{process}.jsonl").write_text("")
    recorder = ev.Recorder(tmp_path / "events.jsonl")
    monkeypatch.setattr(os, "fsync", noted)
    recorder.write(ev.Note(ns=1, text="no phase"))
    assert synced == []
    recorder.write(ev.PhaseStarted(ns=2, phase=Phase.FAULTS))
    assert synced == ["events.jsonl", "1.jsonl", "2.jsonl", "journal"]
    assert recorder.broken == ""
    recorder.close()


def test_a_line_that_is_nested_deeply_is_damage(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="line 1 is damaged"):
        ev.decode(
            b'{"event":"note","ns":1,"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "events.jsonl"
        )
