"""Who makes the index of a soak: the judge, beside the next run; this process, where none is there."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from harness.judging.process import JudgeProcess
from harness.judging.words import Answer, Done, Index, JudgeError, Request
from harness.nights import page
from harness.processes.interrupts import Interrupts
from harness.soak.runs import Performer
from tests.harness.nights.made_sessions import by_hand


def performer(results: Path, where: Path | None = None) -> Performer:
    judge = None if where is None else cast(JudgeProcess, SimpleNamespace(socket=str(where)))
    return Performer(results=results, interrupts=Interrupts(), judge=judge)


@contextmanager
def a_judge(where: Path, answer: Answer | None, release: threading.Event) -> Iterator[list[Request]]:
    """Takes one request, and answers it, or dies, once it is released."""
    asked: list[Request] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(where))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(msgspec.json.decode(connection.makefile("rb").readline(), type=Request))
                release.wait(60)
                if answer is not None:
                    connection.sendall(msgspec.json.encode(answer) + b"\n")

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield asked
        serving.join(60)


@pytest.mark.sampled(6)
def test_without_a_judge_it_is_made_at_once(tmp_path: Path) -> None:
    by_hand(tmp_path)
    performer(tmp_path).rebuild()
    assert "by hand" in (tmp_path / page.NAME).read_text()


def test_with_a_judge_nobody_waits_for_it(tmp_path: Path) -> None:
    release = threading.Event()
    soak = performer(tmp_path, tmp_path / "socket")
    with a_judge(tmp_path / "socket", Done(), release) as asked:
        soak.rebuild()  # comes back while the judge is at work
        release.set()
        soak.rebuilt()
        assert asked == [Index(str(tmp_path))]
    assert not (tmp_path / page.NAME).exists(), "the judge makes it, and this one made none"


@pytest.mark.sampled(10)
def test_where_the_judge_died_it_is_made_here(tmp_path: Path) -> None:
    by_hand(tmp_path)
    release = threading.Event()
    release.set()
    soak = performer(tmp_path, tmp_path / "socket")
    with a_judge(tmp_path / "socket", None, release):
        soak.rebuild()
        soak.rebuilt()
    assert (tmp_path / page.NAME).exists()
    (tmp_path / page.NAME).unlink()
    soak.rebuild()  # nobody listens any more
    soak.rebuilt()
    assert (tmp_path / page.NAME).exists()


def test_what_kept_the_judge_from_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = threading.Event()
    release.set()
    soak = performer(tmp_path, tmp_path / "socket")
    with a_judge(tmp_path / "socket", JudgeError("OSError", "OSError: the disk is full"), release):
        soak.rebuild()
        soak.rebuilt()
    assert "no index: OSError: the disk is full" in capsys.readouterr().err
