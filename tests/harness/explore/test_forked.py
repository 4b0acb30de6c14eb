"""Forked processes: every piece is done once, by whoever is free; their deaths and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.explore.forked import Undone, forked
from tests.processes import children


def square(piece: int) -> tuple[int, int]:
    return piece * piece, os.getpid()


@pytest.mark.parametrize("processes", [1, 2, 5])
@pytest.mark.parametrize("pieces", [0, 1, 3, 40])
def test_every_piece_is_done_once(processes: int, pieces: int) -> None:
    done = dict(forked(square, range(pieces), processes))
    answers = [one for _, one in sorted(done.items()) if not isinstance(one, Undone)]
    assert [answer for answer, _ in answers] == [piece * piece for piece in range(pieces)]
    pids = {pid for _, pid in answers}
    assert len(pids) <= min(processes, pieces)
    assert (os.getpid() in pids) == (processes == 1 and pieces > 0)


def test_a_piece_is_taken_when_a_process_is_free_for_it() -> None:
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for piece in range(10):
            taken.append(piece)
            yield piece

    with closing(forked(square, pieces(), 2)) as answers:
        next(answers)
        assert len(taken) == 2


def dies_at_three(piece: int) -> int:
    if piece == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if piece == 5:
        os._exit(4)
    if piece == 6:
        raise ValueError("six")
    return piece


def test_a_process_that_dies_leaves_its_piece_undone_and_nothing_else() -> None:
    done = dict(forked(dies_at_three, range(12), 3))
    bad = {piece: one.why for piece, one in done.items() if isinstance(one, Undone)}
    assert set(bad) == {3, 5, 6}
    assert bad[3].endswith("(signal SIGKILL)")
    assert bad[5].endswith("(exit code 4)")
    assert bad[6].endswith("ValueError: six")
    assert {piece: one for piece, one in done.items() if piece not in bad} == {
        piece: piece for piece in (*range(3), 4, *range(7, 12))
    }


PROGRAM = """
import os, signal, sys, time
from contextlib import closing
from harness.explore.forked import forked

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def work(piece):
    if piece:
        time.sleep(600)
    return os.getpid()

with closing(forked(work, range(9), 3)) as answers:
    for piece, pid in answers:
        print(pid, flush=True)
"""


@pytest.mark.parametrize("to_all", [True, False])
def test_ctrl_c_ends_all_processes_at_once(to_all: bool) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert program.stdout is not None
    program.stdout.readline()
    members = children(program.pid)
    assert len(members) == 3
    (os.killpg if to_all else os.kill)(program.pid, signal.SIGINT)
    try:
        _, error = program.communicate(timeout=20)
    finally:
        program.kill()
    assert program.returncode == -signal.SIGINT
    assert error.count("Traceback") == 1
    gone_by(members, time.monotonic() + 10)


def gone_by(pids: list[int], deadline: float) -> None:
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
