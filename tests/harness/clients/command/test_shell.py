"""A client behind a shell, or another wrapper, that dies and leaves it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from core.runtime import run_blocking
from harness.clients.command import speaker
from harness.clients.command.session import CommandSession
from harness.clients.command.speaker import ClientLost, Speaker
from harness.processes import child
from tests.harness.clients.command.test_command import ARGS, SPEC, words
from tests.processes import alive
from tests.waiting import until

SLEEPS = 'open(sys.argv[1], "w").write(str(os.getpid()))\nsay(id, outcome="ok")\ntime.sleep(600)'
"""It says its process, and sees neither the second command nor the end of its input."""


def by_a_shell(folder: Path) -> list[str]:
    return ["sh", "-c", '"$@"; exit 3', "sh", *words(SLEEPS), str(folder / "pid")]


@pytest.mark.sampled(19)
@pytest.mark.parametrize("how", ["end", "still", "wrong"])
def test_what_a_shell_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The shell dies at once, and hands on no signal."""
    monkeypatch.setattr(speaker, "GRACE_S", 0.3 if how == "still" else 30)
    monkeypatch.setattr(speaker, "END_S", 0.3)
    talking = Speaker(by_a_shell(tmp_path), tmp_path / "log")
    session = CommandSession(ARGS, replace(SPEC, deadline_s=0.5), talking, None)
    pid = int((tmp_path / "pid").read_text())
    if how == "still":
        with pytest.raises(ClientLost, match="stands still"):
            run_blocking(session.begin())
    elif how == "wrong":
        talking.refused("it answers nonsense")
    else:
        talking.end()
    until(lambda: not alive(pid), "the client outlives the shell that started it")
    talking.end()


@pytest.mark.sampled(19)
def test_a_shell_whose_client_stands_still_is_lost_in_the_group_of_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the shell started holds its output open until the worker ends, and its group with it."""
    monkeypatch.setattr(speaker, "GRACE_S", 0.3)
    monkeypatch.setattr(child, "JOIN_S", 0.1)
    session = CommandSession(ARGS, replace(SPEC, deadline_s=0.5), Speaker(by_a_shell(tmp_path)), None)
    try:
        with pytest.raises(ClientLost, match="stands still"):
            run_blocking(session.begin())
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)
        run_blocking(session.close())
