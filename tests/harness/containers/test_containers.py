import signal
from typing import TYPE_CHECKING, cast

import pytest
from docker.errors import APIError
from requests.exceptions import ReadTimeout

from core.errors import ClusterError
from harness.containers.nodes import NodeContainer
from harness.processes.waiting import on_each

if TYPE_CHECKING:
    from docker.models.containers import Container


class Sdk:
    """A container of the SDK as far as `NodeContainer` uses it; it ends by the signal `ends_by`."""

    def __init__(self, ends_by: str) -> None:
        self.ends_by = ends_by
        self.up = True
        self.frozen = False
        self.silent = False
        self.name = "planted"
        self.signals: list[str] = []
        self.attrs: dict[str, dict[str, object]] = {}
        self.asked: list[list[str]] = []
        self.answer = (0, b"")
        """Exit code and output of a command inside."""

    def kill(self, signal: str) -> None:
        if not self.up:
            raise APIError("container is not running")
        if self.frozen:
            raise APIError("container is paused")
        self.signals.append(signal)
        self.up = self.up and signal not in (self.ends_by, "SIGKILL")

    def pause(self) -> None:
        if self.frozen:
            raise APIError("container is already paused")
        self.frozen = True

    def unpause(self) -> None:
        if not self.up:
            raise APIError("container is not running")
        if not self.frozen:
            raise APIError("container is not paused")
        self.frozen = False

    def wait(self) -> None:
        assert not self.up

    def exec_run(self, command: list[str]) -> tuple[int, bytes]:
        self.asked.append(command)
        return self.answer

    def reload(self) -> None:
        if self.silent:
            raise ReadTimeout("read timed out")
        self.attrs = {"State": {"Running": self.up, "ExitCode": 143}}


class PlantedNode(NodeContainer):
    """A node whose container is no engine's."""

    def __init__(self, number: int, ends_by: str = "SIGTERM") -> None:
        self.number = number
        self.sdk = Sdk(ends_by)

    @property
    def own(self) -> "Container":
        return cast("Container", self.sdk)


def test_a_node_that_shuts_down_is_not_killed() -> None:
    nodes = [PlantedNode(1), PlantedNode(2)]
    on_each(NodeContainer.shut_down, nodes)
    assert [node.sdk.signals for node in nodes] == [["SIGTERM"], ["SIGTERM"]]
    assert [node.exit_code() for node in nodes] == [143, 143]


@pytest.mark.parametrize("allowed_s", [0.0, 0.3])
def test_a_node_that_does_not_shut_down_is_killed_in_time(allowed_s: float) -> None:
    node = PlantedNode(1, "SIGKILL")
    assert node.shut_down(allowed_s)
    assert node.sdk.signals == (["SIGTERM"] if allowed_s else []) + ["SIGKILL"]
    assert not node.is_up()


def test_a_frozen_node_is_thawed_and_an_ended_one_left_alone() -> None:
    frozen, ended = nodes = [PlantedNode(1), PlantedNode(2)]
    frozen.sdk.frozen = True
    ended.sdk.up = False
    assert on_each(NodeContainer.shut_down, nodes) == [False, False]
    assert (frozen.sdk.signals, ended.sdk.signals) == (["SIGTERM"], [])


def test_freezing_and_thawing_twice_is_no_error() -> None:
    node = PlantedNode(1)
    for _ in range(2):
        node.pause()
    for _ in range(2):
        node.unpause()
    node.kill()
    node.unpause()
    with pytest.raises(ClusterError, match="node 1 could not be paused"):
        _refused(node).pause()


def test_a_busy_node_is_frozen_at_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    node = PlantedNode(1)
    freeze = node.sdk.pause
    tries: list[str] = []

    def busy() -> None:
        tries.append("pause")
        if len(tries) < 3:
            raise APIError("OCI runtime pause failed: unable to freeze")
        freeze()

    node.sdk.pause = busy  # type: ignore[method-assign]
    node.pause()
    assert (len(tries), node.sdk.frozen) == (3, True)
    tries[:] = []
    node.unpause()
    monkeypatch.setattr("harness.containers.nodes.FREEZE_S", 0.0)
    with pytest.raises(ClusterError, match="unable to freeze"):
        node.pause()


def _refused(node: PlantedNode) -> PlantedNode:
    def refuse() -> None:
        raise APIError("no such container")

    node.sdk.pause = refuse  # type: ignore[method-assign]
    return node


def test_an_engine_that_does_not_answer_is_named() -> None:
    node = PlantedNode(3)
    node.sdk.silent = True
    with pytest.raises(ClusterError, match="node 3 could not be inspected: the Docker engine does not"):
        node.is_up()


def test_every_node_is_tried_before_an_error_is_raised() -> None:
    nodes = [_refused(PlantedNode(1)), PlantedNode(2), PlantedNode(3)]
    with pytest.raises(ClusterError, match="node 1 could not be paused: no such container"):
        on_each(NodeContainer.pause, nodes)
    assert all(node.sdk.frozen for node in nodes[1:])


@pytest.mark.parametrize("user", [0, 1000])
def test_files_of_a_node_are_limited_from_inside_by_any_user(
    user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    node = PlantedNode(1)
    node.fail_writes()
    assert node.sdk.asked == [["prlimit", "--pid", "1", "--fsize=0:"]]
    assert node.sdk.signals == []
    node.sdk.answer = (1, b"prlimit: failed to set")
    with pytest.raises(ClusterError, match="node 1: its files could not be limited: prlimit: failed to set"):
        node.fail_writes()


def test_a_signal_reaches_a_frozen_node() -> None:
    node = PlantedNode(1, "SIGINT")
    node.pause()
    node.signal(signal.SIGINT)
    assert node.sdk.signals == ["SIGINT"]
