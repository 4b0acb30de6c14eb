"""What a reaper of a cluster waits for, and what it says."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from core.cluster import Address
from core.extensions import CLUSTER
from harness.brokers.admin.connection import Brokers
from harness.containers import claims
from harness.external import belongings, reaper
from harness.external.file import ClusterFile
from harness.external.hooks import HookRunner
from harness.external.nodes import Means
from harness.external.reaper import healed, must_have_ended, order_of
from harness.processes.guard import ended
from harness.processes.reaper import Last, Reaper, heard
from harness.processes.waiting import NotYet, until

NAMES = {1: "one", 2: "two"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(belongings, "PAUSE_S", 0.001)
    monkeypatch.setattr(belongings, "BACK_S", 0.05)


def hooks(log: Path, *, heals: bool = True) -> HookRunner:
    revive = f'echo "revive $INQUEST_NODE" >>{log}' + ("" if heals else "; exit 5")
    given = {"cluster": {"bootstrap": "here:1"}, "hooks": {"deadline_s": 5, "revive": revive}}
    return HookRunner(ClusterFile.model_validate(given), Means(names=NAMES))


class Looks:
    """Is not there for some looks, and writes each into the log."""

    def __init__(self, log: Path, name: str, times: float) -> None:
        self.log, self.name, self.times = log, name, times

    def __call__(self) -> None:
        with self.log.open("a") as file:
            file.write(f"{self.name}\n")
        self.times -= 1
        if self.times >= 0:
            raise NotYet(f"{self.name}: not yet")


def steps(log: Path) -> list[str]:
    """What was done, equal steps that follow each other once."""
    lines = log.read_text().replace("revive 2", "revive").replace("revive 1", "revive").splitlines()
    return [line for place, line in enumerate(lines) if line != lines[place - 1] or place == 0]


@pytest.mark.parametrize(
    ("ended", "listed", "done"),
    [
        (0, 0, ["ended", "revive", "listed"]),
        (3, 2, ["ended", "revive", "listed"]),  # hooks end, then nodes are healed; brokers take a moment
    ],
)
def test_nodes_are_healed_when_hooks_of_the_harness_have_ended(
    ended: int, listed: int, done: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    said = healed(hooks(log), (1, 2), Looks(log, "ended", ended), Looks(log, "listed", listed))
    assert said == []
    assert steps(log) == done
    assert log.read_text().count("ended") == ended + 1


def test_a_node_that_ends_after_it_was_healed_is_healed_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    listed = Looks(log, "listed", float("inf"))

    def answer() -> None:
        if log.read_text().count("revive") == 4:
            return
        listed()

    assert healed(hooks(log), (1, 2), Looks(log, "ended", 0), answer) == []
    assert steps(log) == ["ended", "revive", "listed", "revive"]


def test_brokers_that_do_not_answer_are_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    said = healed(hooks(log), (1, 2), Looks(log, "ended", 0), Looks(log, "listed", float("inf")))
    assert said == ["not all brokers answer: listed: not yet"]


def test_a_hook_that_fails_is_named_where_all_brokers_answer(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (said,) = healed(hooks(log, heals=False), (1,), Looks(log, "ended", 0), Looks(log, "listed", 0))
    assert said.startswith("hook revive of node 1: exit code 5")


def reaped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, list[tuple[str, bool]]]:
    """A reaper whose harness was killed: exit code, what it noted, and which prefix it deleted, when the
    cluster was claimed."""
    removed: list[tuple[str, bool]] = []

    def remove(_: Brokers, prefix: str) -> list[str]:
        removed.append((prefix, claims.claimed("cluster abc")))
        return []

    file, log = folder / "cluster.toml", folder / "reaper.log"
    hook = f"revive = 'touch {folder}/revived'\nkill = 'true'"
    file.write_text(f'[cluster]\nbootstrap = "127.0.0.1:1"\nnodes = {{ 1 = "one" }}\n[hooks]\n{hook}\n')
    monkeypatch.setenv(CLUSTER, str(file))
    monkeypatch.setattr(belongings, "remove", remove)
    monkeypatch.setattr(belongings, "all_listed", lambda _: None)
    monkeypatch.setattr(reaper, "CLAIM_S", 0.05)
    brokers = Brokers({1: Address("127.0.0.1", 1)}, cluster="abc")
    order = order_of(Means(names={1: "one"}), brokers, "inquest-tag-", log=str(log))
    read, write = os.pipe()
    os.close(write)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code = reaper.main([msgspec.json.encode(order).decode()])
    return code, log.read_text(), removed


def test_what_is_healed_and_deleted_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, said, removed = reaped(tmp_path, monkeypatch)
    assert removed == [("inquest-tag-", True)]
    assert said.endswith("no topic and no group is left of inquest-tag-\n")
    assert (tmp_path / "revived").exists()
    assert not claims.claimed("cluster abc")


def test_beside_another_run_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = claims.claim("cluster abc")
    try:
        code, said, removed = reaped(tmp_path, monkeypatch)
    finally:
        claim.release()
    assert (code, removed, (tmp_path / "revived").exists()) == (1, [], False)
    assert said.startswith("nothing was healed or deleted: a run of the name cluster abc is under way")


def test_a_process_is_waited_for_while_it_runs() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one, subprocess.Popen(["true"]) as gone:
        gone.wait()
        must_have_ended([gone.pid])
        with pytest.raises(NotYet, match=rf"a hook of the harness still runs, process {one.pid}"):
            must_have_ended([gone.pid, one.pid])
    must_have_ended([gone.pid, one.pid])
    with subprocess.Popen(["true"]) as zombie:  # a container's first process may wait for none
        until(30.0, 0.01, lambda: must_have_ended([zombie.pid]))
        assert ended(zombie.pid)
        assert zombie.returncode is None


@pytest.mark.parametrize(
    ("said", "last"),
    [
        (b"", Last()),
        (b"+5\n+6\n-5\n", Last((6,))),
        (b"+5\n-5\n", Last()),
        (b"+5\n-5\n+5\n", Last((5,))),
        (b"+5\n+1", Last((5,))),  # it was killed while it wrote
        (b"=one\n+5\n=two\n", Last((5,), ("one", "two"))),
        (b"=one\n=tw", Last(notes=("one",))),
        (b"done\n", None),
        (b"=one\n+5\ndone\n", None),
        (b"+5\ndone\n-5\n", None),
        (b"do", Last()),
    ],
)
def test_what_the_harness_had_said_is_known(
    said: bytes, last: Last | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    os.write(write, said)
    os.close(write)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert heard() == last


def test_a_reaper_hears_what_it_was_sent() -> None:
    program = "from harness.processes.reaper import heard; print(heard())"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        sender = Reaper(process)
        sender.note("first")
        with sender.during(5), sender.during(6):
            pass
        unended = sender.during(7)
        unended.__enter__()
        sender.act()
        assert process.stdout is not None
        assert process.stdout.read().decode() == f"{Last((7,), ('first',))}\n"
    sender.note("nothing hears it")
