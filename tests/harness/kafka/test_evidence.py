"""Takes of containers: which nodes, when, and what becomes of takes that fail."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from docker.errors import APIError

from core.errors import ClusterError
from harness.containers.data import AT_KILL, CHUNK, Limit, copy_data
from harness.containers.nodes import NodeContainer, deaths
from harness.kafka import evidence as module
from harness.kafka.evidence import NodeEvidence
from history.evidence import Evidence
from history.evidence_tables import END, KILLED, LOST_POWER
from tests.histories.broker_files import NODE

if TYPE_CHECKING:
    from docker.models.containers import Container

SHUT_DOWN, SIGKILLED, CRASHED, NEVER_RAN = 143, 137, 1, 0


class Sdk:
    """A container of the SDK with the data of a real node, which has ended."""

    name = "planted"
    data = NODE

    def __init__(self, exit_code: int, broken: str) -> None:
        self.attrs = {"State": {"Running": False, "ExitCode": exit_code}}
        self.broken = broken

    def reload(self) -> None:
        """Nothing changes."""

    def get_archive(self, path: str, chunk_size: int) -> tuple[Iterator[bytes], dict[str, str]]:
        assert (path, chunk_size) == ("/data", CHUNK)
        if self.broken == "engine":
            raise APIError("the container is gone")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(self.data, "data")
        whole = packed.getvalue()
        chunks = [whole[at : at + 10_000] for at in range(0, len(whole), 10_000)]
        return iter(chunks[: len(chunks) // 2] if self.broken == "stream" else chunks), {}


class Ended(NodeContainer):
    """A node whose container is no engine's."""

    def __init__(self, number: int, exit_code: int = SIGKILLED, broken: str = "") -> None:
        self.number = number
        self.sdk: Sdk = Sdk(exit_code, broken)

    @property
    def own(self) -> "Container":
        return cast("Container", self.sdk)


@pytest.fixture
def taken(tmp_path: Path) -> NodeEvidence:
    return NodeEvidence(tmp_path / "copies")


def takes(taken: NodeEvidence, folder: Path) -> tuple[list[tuple[int, int, str]], list[str]]:
    """Take, node and reason of all takes, and what is missing."""
    missed = taken.write(folder / "evidence")
    rows = Evidence.recorded(folder / "evidence", []).table("takes").to_pylist()
    assert not (folder / "copies").exists()
    return [(row["take"], row["node"], row["why"]) for row in rows], missed


@pytest.mark.sampled(5)
def test_nodes_that_were_killed_are_taken_before_they_start(taken: NodeEvidence, tmp_path: Path) -> None:
    ended = {1: SHUT_DOWN, 2: SIGKILLED, 3: CRASHED, 4: NEVER_RAN}
    taken.before_start([Ended(number, code) for number, code in ended.items()])
    taken.before_start([Ended(1, SHUT_DOWN)])
    taken.before_start([])
    taken.before_start([Ended(1)])
    taken.at_end([Ended(number) for number in ended])
    expected = [(0, 2, KILLED), (0, 3, KILLED), (1, 1, KILLED), *((2, node, END) for node in ended)]
    assert takes(taken, tmp_path) == (expected, [])


def test_nodes_that_lost_power_are_told_from_those_that_were_killed(
    taken: NodeEvidence, tmp_path: Path
) -> None:
    taken.before_start([Ended(1), Ended(2), Ended(3, SHUT_DOWN)], powerless={2, 3})
    assert takes(taken, tmp_path) == ([(0, 1, KILLED), (1, 2, LOST_POWER)], [])


def test_how_nodes_had_ended_that_were_down_at_the_end(taken: NodeEvidence, tmp_path: Path) -> None:
    nodes = [Ended(1), Ended(2), Ended(3)]
    ended = deaths([Ended(2), Ended(3), Ended(4, SHUT_DOWN)], powerless={3, 4})
    taken.at_end(nodes, ended)
    found, missed = takes(taken, tmp_path)
    expected = [(0, 1, END), (0, 2, END), (0, 2, KILLED), (0, 3, END), (0, 3, LOST_POWER)]
    assert (sorted(found), missed) == (expected, [])


@pytest.mark.parametrize("at_end", [False, True])
def test_a_loss_of_power_is_known_also_where_the_files_are_not(
    taken: NodeEvidence, tmp_path: Path, *, at_end: bool
) -> None:
    lost = [Ended(1, broken="engine"), Ended(2, broken="stream")]
    if at_end:
        taken.at_end(lost, {1: LOST_POWER})
    else:
        taken.before_start(lost, powerless={1})
    found, missed = takes(taken, tmp_path)
    assert (found, len(missed)) == ([], 2)  # rows of takes are those of files
    losses = Evidence.load(tmp_path / "evidence").table("unread_losses").to_pylist()
    assert [row["node"] for row in losses] == [1]


def test_of_a_node_that_died_and_could_not_be_read_at_the_end_nothing_is_noted(
    taken: NodeEvidence, tmp_path: Path
) -> None:
    taken.at_end([Ended(1), Ended(2, broken="engine"), Ended(3)], {2: KILLED, 3: LOST_POWER})
    found, missed = takes(taken, tmp_path)
    assert (sorted(found), len(missed)) == ([(0, 1, END), (0, 3, END), (0, 3, LOST_POWER)], 1)
    assert not Evidence.load(tmp_path / "evidence").table("unread_losses").num_rows


@pytest.mark.parametrize(
    ("broken", "why"), [("engine", "the container is gone"), ("stream", "could not be copied: ")]
)
def test_a_node_that_cannot_be_copied_is_missed_alone(
    taken: NodeEvidence, tmp_path: Path, broken: str, why: str
) -> None:
    taken.at_end([Ended(1), Ended(2, broken=broken), Ended(3)])
    found, (missed,) = takes(taken, tmp_path)
    assert found == [(0, 1, END), (0, 3, END)]
    assert missed.startswith("files of node 2 at the end: ")
    assert why in missed


@pytest.mark.sampled(2)
def test_takes_at_kills_share_a_limit(
    taken: NodeEvidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(path.stat().st_size for path in NODE.rglob("*") if path.is_file())
    monkeypatch.setattr(taken, "_left", int(2.5 * size))
    for number in (1, 2, 3):
        taken.before_start([Ended(number)])
    taken.at_end([Ended(4)])
    found, (missed,) = takes(taken, tmp_path)
    assert found == [(0, 1, KILLED), (1, 2, KILLED), (3, 4, END)]
    assert "files of node 3 when it was killed: " in missed
    assert "they are more than" in missed


def test_a_take_at_a_kill_has_little_time(
    taken: NodeEvidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_KILL", Limit(AT_KILL.bytes, 0.0))
    taken.before_start([Ended(1)])
    found, (missed,) = takes(taken, tmp_path)
    assert found == []
    assert "could not be copied within 0 s" in missed


class LedOut(Sdk):
    """A container whose engine names a file outside of what was asked for."""

    def get_archive(self, path: str, chunk_size: int) -> tuple[Iterator[bytes], dict[str, str]]:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name in ("data/kept", "data/../../evil"):
                archive.addfile(tarfile.TarInfo(name))
        return iter([packed.getvalue()]), {}


def test_no_file_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    into = tmp_path / "copies" / "1"
    with pytest.raises(ClusterError, match="leads out of the folder"):
        copy_data(cast("Container", LedOut(SIGKILLED, "")), into)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["kept"]
