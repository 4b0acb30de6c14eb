"""Disks are evidence where they are of one moment."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

import pytest

from core.errors import ClusterError
from core.secrets import HIDDEN
from harness.external.disks import MOVED, NO_HOOK, Disks
from harness.external.file import ClusterFile
from harness.external.hooks import HookRunner
from harness.external.nodes import Means
from history.evidence import Evidence
from history.evidence_tables import END, KILLED
from tests.histories.old_messages import message

SECRET = "open sesame"


class Hooks:
    """Brings a disk with one partition of each node, but of those that fail, and nothing of empty ones."""

    def __init__(self, fails: tuple[int, ...] = (), empty: tuple[int, ...] = ()) -> None:
        self.fails, self.empty = fails, empty

    def has(self, name: str) -> bool:
        return True

    def hide(self, text: str) -> str:
        return text.replace(SECRET, HIDDEN)

    def on_node(self, name: str, node: int, **around: str) -> None:
        if node in self.fails:
            raise ClusterError(f"hook collect of node {node}: exit code 1")
        folder = Path(around["INQUEST_TARGET"]) / "data" / "q-0"
        if node not in self.empty:
            folder.mkdir()
            (folder / f"{0:020}.log").write_bytes(message(0, None, b"x"))


def still(why: str) -> Callable[[], AbstractContextManager[str]]:
    @contextmanager
    def made() -> Iterator[str]:
        yield why

    return made


@pytest.mark.parametrize(
    ("why", "hooks", "missing", "nodes"),
    [
        ("", Hooks(), [], {1, 2}),
        ("", Hooks(fails=(2,)), ["hook collect of node 2: exit code 1"], {1}),
        ("", Hooks(empty=(2,)), ["the hook collect brought no disk of node 2"], {1}),
        ("", Hooks(empty=(1, 2)), [NO_HOOK], set()),
        ("no hooks", Hooks(), [f"{MOVED}: no hooks"], set()),
        ("no hooks", Hooks(fails=(2,)), [f"{MOVED}: no hooks", "hook collect of node 2: exit code 1"], set()),
        ("no hooks", Hooks(empty=(1, 2)), [NO_HOOK], set()),
    ],
)
def test_disks_of_nodes_that_worked_meanwhile_are_no_evidence(
    tmp_path: Path, why: str, hooks: Hooks, missing: list[str], nodes: set[int]
) -> None:
    disks = Disks(cast(HookRunner, hooks), [1, 2], still(why))
    disks.collect(tmp_path / "cluster")
    assert disks.take(tmp_path / "evidence") == missing
    assert not [*tmp_path.glob("cluster/*/data")]
    if nodes:
        assert {*Evidence.load(tmp_path / "evidence").table("takes")["node"].to_pylist()} == nodes
    else:
        assert not (tmp_path / "evidence").exists()


class Stopped(Hooks):
    """Node 2 had shut down in order."""

    def on_node(self, name: str, node: int, **around: str) -> None:
        super().on_node(name, node, **around)
        if node == 2:
            (Path(around["INQUEST_TARGET"]) / "data" / ".kafka_cleanshutdown").write_text('{"version":0}')


@pytest.mark.parametrize(
    ("down", "killed"), [(set[int](), set[int]()), ({1}, {1}), ({1, 2}, {1}), ({2}, set[int]())]
)
def test_nodes_that_hooks_ended_and_did_not_start_again_were_killed(
    tmp_path: Path, down: set[int], killed: set[int]
) -> None:
    now: set[int] = {1, 2} - down
    disks = Disks(cast(HookRunner, Stopped()), [1, 2], still(""), down=now)
    now ^= {1, 2}  # faults come later
    disks.collect(tmp_path / "cluster")
    now.clear()
    disks.take(tmp_path / "evidence")
    rows = Evidence.load(tmp_path / "evidence").table("takes").to_pylist()
    expected = {(0, node, END) for node in (1, 2)} | {(0, node, KILLED) for node in killed}
    assert {(row["take"], row["node"], row["why"]) for row in rows} == expected


class Shared(Hooks):
    """Brings the disk of a cluster that others use."""

    def on_node(self, name: str, node: int, **around: str) -> None:
        data = Path(around["INQUEST_TARGET"]) / "data"
        for topic in (*OWN, *FOREIGN):
            log_directory(data, topic, 3, 2)
        (data / "replication-offset-checkpoint").write_text(
            "0\n6\n" + "".join(f"{topic} 0 2\n" for topic in (*OWN, *FOREIGN))
        )
        (data / f"{FOREIGN[0]}-0" / f"{0:020}.log").write_bytes(b"damaged" * 99)


OWN = ("inquest-3fa9c1-q", "__consumer_offsets", "__transaction_state")
FOREIGN = ("orders", "inquest-0a0a0a-q", "__my_own")


def test_topics_of_others_are_no_evidence(tmp_path: Path) -> None:
    disks = Disks(cast(HookRunner, Shared()), [1], still(""), "inquest-3fa9c1-")
    disks.collect(tmp_path / "cluster")
    assert disks.take(tmp_path / "evidence") == []
    found = Evidence.load(tmp_path / "evidence")
    for table in ("batches", "partitions", "ends"):
        assert {*found.table(table)["topic"].to_pylist()} == {*OWN}, table
    damaged = found.table("damage")["file"].to_pylist()
    assert not [file for file in damaged if file.startswith(FOREIGN)]


class Logs(Hooks):
    """Writes logs beside the disk, and then fails where it is one that does."""

    def on_node(self, name: str, node: int, **around: str) -> None:
        folder = Path(around["INQUEST_TARGET"])
        (folder / "server.log").write_bytes(LOG)
        (folder / "previous.log").write_bytes(LOG)
        super().on_node(name, node, **around)


LOG = f"a\r\nKAFKA_OPTS={SECRET}\n\xe4\n".encode("latin-1")


@pytest.mark.parametrize("fails", [(), (1,)])
def test_logs_of_nodes_are_kept_without_secrets(tmp_path: Path, fails: tuple[int, ...]) -> None:
    Disks(cast(HookRunner, Logs(fails)), [1], still("")).collect(tmp_path)
    texts = {path.name: path.read_bytes() for path in (tmp_path / "1").iterdir() if path.is_file()}
    wanted = LOG.replace(SECRET.encode(), HIDDEN.encode())
    assert texts == {"server.log": wanted, "previous.log": wanted}


def test_a_log_whose_secrets_cannot_be_taken_out_is_not_kept(tmp_path: Path) -> None:
    class Dangling(Hooks):
        def on_node(self, name: str, node: int, **around: str) -> None:
            (Path(around["INQUEST_TARGET"]) / "server.log").symlink_to("nowhere")

    disks = Disks(cast(HookRunner, Dangling()), [1], still(""))
    disks.collect(tmp_path / "cluster")
    assert [path.name for path in (tmp_path / "cluster" / "1").iterdir()] == ["data"]
    assert any(why.startswith("server.log: ") for why in disks.take(tmp_path / "evidence"))


META = "meta.properties"


def log_directory(folder: Path, topic: str, end: int, high: int) -> None:
    """A log directory with one partition of as many messages, and two lines of checkpoints."""
    (folder / f"{topic}-0").mkdir(parents=True)
    content = b"".join(message(offset, None, b"x") for offset in range(end))
    (folder / f"{topic}-0" / f"{0:020}.log").write_bytes(content)
    (folder / META).write_text("version=1\n")
    for name in ("replication", "recovery-point"):
        (folder / f"{name}-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {high}\n")


class Copies(Hooks):
    """Brings log directories as a hook may lay them out: below one folder, or the second within the first."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__()
        self.places = first, second

    def on_node(self, name: str, node: int, **around: str) -> None:
        data = Path(around["INQUEST_TARGET"]) / "data"
        for place, topic, end in zip(self.places, ("q", "r"), (3, 5), strict=True):
            log_directory(data / place, topic, end, end - 1)


@pytest.mark.parametrize(
    ("first", "second"), [("0", "1"), ("kafka-logs-1", "kafka-logs-2"), ("", "more-1"), ("b/data-0", "a")]
)
def test_each_log_directory_of_a_node_is_read(tmp_path: Path, first: str, second: str) -> None:
    """With its own checkpoints; one whose name looks like a partition's is none."""
    disks = Disks(cast(HookRunner, Copies(first, second)), [1], still(""))
    disks.collect(tmp_path / "cluster")
    assert disks.take(tmp_path / "evidence") == []
    found = Evidence.load(tmp_path / "evidence")
    assert sorted(found.table("partitions")["topic"].to_pylist()) == ["q", "r"]
    assert sorted(found.table("batches")["topic"].to_pylist()) == ["q"] * 3 + ["r"] * 5
    ends = {(row["topic"], row["file"]): row["value"] for row in found.table("ends").to_pylist()}
    assert ends == {(topic, file): at for topic, at in (("q", 2), ("r", 4)) for file in FILES}
    assert found.table("damage").num_rows == 0


FILES = ("replication", "recovery-point")
DOCKER = """#!/bin/sh
case $1 in
inspect) echo {pid};;
logs) echo started;;
cp) from=${{2#k1:}}; cp -r "$from" "$3";;
esac
"""


@pytest.mark.parametrize("pid", ["self", "0"])  # root's way to the files, and the engine's
@pytest.mark.parametrize("several", [False, True])
def test_the_shorthand_docker_brings_each_log_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: str, several: bool
) -> None:
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text(DOCKER.format(pid=pid))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    log_directory(tmp_path / "d1", "q", 3, 2)
    log_directory(tmp_path / "d2", "r", 5, 4)
    given = {"bootstrap": "here:1", "docker": {"1": "k1"}, "log_dirs": f"{tmp_path}/d1"}
    if several:
        given["log_dirs"] = f"{tmp_path}/d1,{tmp_path}/d2/"
    disks = Disks(
        HookRunner(ClusterFile.model_validate({"cluster": given}), Means(names={1: "k1"})), [1], still("")
    )
    disks.collect(tmp_path / "cluster")
    assert disks.take(tmp_path / "evidence") == []
    found = Evidence.load(tmp_path / "evidence")
    assert sorted(found.table("partitions")["topic"].to_pylist()) == (["q", "r"] if several else ["q"])
    assert found.table("ends").num_rows == (4 if several else 2)
