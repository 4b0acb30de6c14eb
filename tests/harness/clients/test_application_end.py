"""What is seen of an instance of an application, and how it ends, with all that its program started.

Each that ends runs in a process that leads a group, as a worker does: this module as a program.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import pytest

from core.extensions import APP
from core.op import TopicPartition
from core.programs import BASE
from harness.clients.application import instance, named
from harness.clients.application.position import GroupPosition
from harness.clients.command.speaker import ClientLost
from harness.processes import guard
from tests.waiting import until

IN, OTHER = TopicPartition("in", 3), TopicPartition("in", 4)
LONG_S: Final = 60.0
"""Where an instance ends in order, no case comes to this."""


class Position:
    """In place of what brokers say of a group: its offset (None: nothing), and whether that is the end."""

    def __init__(self, offset: int | None, *, end: bool) -> None:
        self.offsets, self.end = None if offset is None else {IN: offset}, end

    def committed(self, tps: object) -> dict[TopicPartition, int] | None:
        return self.offsets

    def at_the_end(self, committed: object) -> bool:
        return self.end

    def close(self) -> None:
        """Nothing is open."""


def drive(script: str, offset: int | None, seconds: Mapping[str, float], *, end: bool, ended: bool) -> str:
    """How an instance with this program ended, and what is left of its group. offset, end: see `Position`.
    ended: a file `go` tells the program to end first."""
    for name, value in seconds.items():
        setattr(instance, name, value)
    log = Path("log")
    named.PROGRAM.name(shlex.join(["sh", "-c", script]))
    one = instance.Instance(os.environ, log, cast(GroupPosition, Position(offset, end=end)))
    until(lambda: "ready" in log.read_text(), "it runs")
    one.look([IN])
    assert one.finished()
    if ended:
        Path("go").touch()
        until(lambda: one._program.poll() is not None, "it has ended")
    try:
        how = "in order" if one.end() else "otherwise"
    except ClientLost as lost:
        return str(lost)
    until(lambda: not guard.members(os.getpid()), "nothing is left")
    return how


def how_ended(folder: Path, script: str, **given: Any) -> str:
    """See `drive`; in a process of its own, whose group ends with it."""
    usual = {"offset": 5, "end": True, "ended": False}
    seconds = {"QUIET_S": LONG_S, "DRAIN_S": 0.0, "REST_S": 0.0, "END_S": LONG_S, **given.pop("seconds", {})}
    words = json.dumps({"script": script, **usual, **given, "seconds": seconds})
    running = subprocess.Popen(
        [sys.executable, "-m", __name__, words],
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(BASE)},
        start_new_session=True,
        text=True,
    )
    with running:
        try:
            said, _ = running.communicate()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    return said.strip()


@pytest.mark.parametrize(
    ("offsets", "on"),
    [
        ([{IN: 5}, {IN: 5}, {IN: 6}], [False, False, True]),  # started again: others committed that before
        ([{IN: 0}, {IN: 0}, {IN: 5}, {IN: 5}], [False, False, True, False]),
        ([None, {IN: 5}, None, {IN: 6}], [False, False, False, True]),
        ([{IN: 5}, {IN: 5, OTHER: 0}, {IN: 5, OTHER: 1}], [False, False, True]),  # it has a further partition
        ([{IN: 5}, {IN: 4}], [False, True]),  # the group began there again
    ],
)
def test_a_group_gets_on_where_it_commits_between_two_looks(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    offsets: list[dict[TopicPartition, int] | None],
    on: list[bool],
) -> None:
    monkeypatch.setenv(APP, "sleep 1000")
    position = Position(None, end=False)
    one = instance.Instance(os.environ, tmp_path / "log", cast(GroupPosition, position))
    looks = []
    with one._program as program:
        try:
            for position.offsets in offsets:
                looks.append(one.look([]))
        finally:
            program.kill()
    assert looks == list(zip([found is not None for found in offsets], on, strict=True))


STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
QUIET = {"QUIET_S": 0.0}
SOON = {"END_S": 1.0}


def exits(code: int) -> str:
    return f"trap 'exit {code}' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("script", "given", "how"),
    [
        ("echo ready; sleep 1000", {}, "in order"),
        ("echo ready; sleep 1000", {"end": False, "seconds": QUIET}, "in order"),  # it does nothing more
        ("echo ready; sleep 1000", {"end": False}, "otherwise"),  # it is still at work
        ("echo ready; sleep 1000", {"offset": None, "seconds": QUIET}, "otherwise"),  # it could not commit
        (STUBBORN, {"seconds": SOON}, "otherwise"),  # it has to be killed
        (f"({STUBBORN}) & wait", {"seconds": SOON}, "otherwise"),  # so has what it left
        (exits(0), {}, "in order"),
        (exits(143), {}, "in order"),  # as Java's
        (exits(1), {}, "otherwise"),  # an error, maybe that of its last commit
        ("trap 'kill -KILL $$' TERM; echo ready; while :; do sleep 0.05; done", {}, "otherwise"),
    ],
)
def test_whether_an_instance_ended_in_order(
    tmp_path: Path, script: str, given: dict[str, Any], how: str
) -> None:
    assert how_ended(tmp_path, script, **given) == how


@pytest.mark.sampled(8)
@pytest.mark.parametrize("code", [0, 3])
def test_what_has_ended_already_is_lost_whatever_its_exit_code(tmp_path: Path, code: int) -> None:
    script = f"echo ready; until [ -e go ]; do sleep 0.05; done; echo no more; exit {code}"
    lost = f"the application ended with exit code {code}; its last line: no more"
    assert how_ended(tmp_path, script, ended=True) == lost


COMMITS = """
trap 'echo asked >>calls; asked=1' TERM
echo ready
until [ "$asked" ]; do sleep 0.05; done
sleep 0.2
echo bye && echo committed >>calls
"""
"""A program that has something to do when it is asked to end; its output has to be read for that."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "command",
    [
        "while :; do sh commits; done",
        "sh commits; true",
        "sh commits | cat >>log; true",
        "sh commits & until [ -e over ]; do sleep 0.05; done",
        "sh commits & it=$!; trap 'kill -TERM $it; wait $it; exit 0' TERM; wait $it",  # hands it on
        "sh -c 'while :; do sh commits; done'; true",
    ],
)
def test_what_a_program_started_is_asked_to_end_once_and_may(tmp_path: Path, command: str) -> None:
    (tmp_path / "commits").write_text(COMMITS)
    assert how_ended(tmp_path, command, seconds={"NEXT_S": 60.0}) == "in order"
    assert (tmp_path / "calls").read_text() == "asked\ncommitted\n"


@pytest.mark.sampled(13)
@pytest.mark.parametrize(("next_s", "calls"), [(0.1, "asked\ncommitted\n"), (60.0, None)])
def test_one_that_does_not_end_keeps_no_other_from_being_asked(
    tmp_path: Path, next_s: float, calls: str | None
) -> None:
    (tmp_path / "commits").write_text(COMMITS)
    (tmp_path / "stubborn").write_text("trap '' TERM; touch older; while :; do sleep 0.1; done")
    command = "sh stubborn & until [ -e older ]; do sleep 0.05; done; sh commits; true"
    seconds = {"NEXT_S": next_s, "END_S": 5.0}
    assert how_ended(tmp_path, command, seconds=seconds) == "otherwise"
    made = tmp_path / "calls"
    assert (made.read_text() if made.exists() else None) == calls


def test_the_last_line_of_an_application_has_no_secret_also_where_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = "x" * 190
    monkeypatch.setenv(APP, shlex.join(["sh", "-c", f"echo {before}open-sesame; exit 3"]))
    position = cast(GroupPosition, Position(0, end=False))
    one = instance.Instance(os.environ, tmp_path / "log", position, ["open-sesame"])
    with one._program as program:
        program.wait()
    with pytest.raises(ClientLost, match=rf"ended with exit code 3; its last line: {before}\(hidden\)$"):
        one.look([IN])


if __name__ == "__main__":
    print(drive(**json.loads(sys.argv[1])))
