import os
import platform
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError
from requests.exceptions import ReadTimeout

from core.config import run_config
from core.errors import ClusterError
from core.runtime import run_blocking
from harness.containers import engine
from harness.containers.cluster import ContainerCluster
from harness.kafka.system import kafka_cluster
from harness.systems import client_kind


@pytest.fixture
def _no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_no_engine")
def test_no_engine_is_one_clear_message_and_a_chosen_one_is_never_replaced() -> None:
    assert not engine.startable()
    with pytest.raises(ClusterError, match="no Docker engine answers at unix://") as error:
        engine.ensure()
    assert "DOCKER_HOST" in str(error.value)


def test_only_root_on_debian_gets_an_engine_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not engine.startable()


def test_pid_files_of_dead_daemons_are_removed_and_of_living_ones_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path("/proc/self/exe").resolve().name
    alive, reused, ended, odd = (tmp_path / name for name in ("alive", "reused", "ended", "odd"))
    for file in (alive, reused):
        file.write_text(str(os.getpid()))
    ended.write_text("4194305")  # beyond the kernel's largest pid
    odd.write_text("not a number")
    names = {alive: own, reused: "dockerd", ended: "dockerd", odd: "dockerd"}
    monkeypatch.setattr(engine, "PID_FILES", names | {tmp_path / "absent": "dockerd"})
    engine._forget_dead_daemons()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive"]


@pytest.mark.parametrize(
    ("pid", "started"),
    [(None, False), ("4194305", True), (str(os.getpid()), True), ("alive", False)],
    ids=["stopped", "died", "another program has its pid", "alive"],
)
def test_an_engine_that_was_stopped_is_not_started_to_clear_up_and_one_that_died_is(
    pid: str | None, started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped removes its pid file; a pid may have become another program's since."""
    file = tmp_path / "docker.pid"
    own = Path("/proc/self/exe").resolve().name
    if pid is not None:
        file.write_text(str(os.getpid()) if pid == "alive" else pid)
    monkeypatch.setattr(engine, "ENGINE_PID", file)
    monkeypatch.setattr(engine, "PID_FILES", {file: own if pid == "alive" else "dockerd"})
    monkeypatch.setattr(engine, "startable", lambda: True)
    monkeypatch.setattr(engine, "connect", fail_to_connect)
    asked: list[str] = []

    def ensure() -> None:
        asked.append("started")
        raise ClusterError("still nobody")

    monkeypatch.setattr(engine, "ensure", ensure)
    assert engine.clear("some-run") == ["still nobody" if started else "nobody answers"]
    assert bool(asked) is started


def fail_to_connect() -> None:
    raise ClusterError("nobody answers")


@pytest.mark.usefixtures("_no_engine")
def test_a_cluster_without_engine_fails_to_start_and_still_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = kafka_cluster(run_config({"seed": 1}), tmp_path / tmp_path.name)
    try:
        with pytest.raises(ClusterError, match="no Docker engine answers"):
            run_blocking(cluster.start())
        assert "no Docker engine answers" in run_blocking(cluster.trouble())
        run_blocking(cluster.collect(tmp_path / "logs"))
        assert "not started" in (tmp_path / "logs" / "2" / "missing.txt").read_text()
        assert run_blocking(cluster.take_evidence(tmp_path / "evidence")) == ["the cluster was not started"]
        assert not (tmp_path / "evidence").exists()
        assert run_blocking(cluster.roles()).answering == ()
        with pytest.raises(ClusterError, match="not started"):
            run_blocking(cluster.kill([1]))
    finally:
        run_blocking(cluster.stop())
        run_blocking(cluster.stop())
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_no_engine")
def test_the_endpoint_is_known_before_the_start(tmp_path: Path) -> None:
    config = run_config({"seed": 1, "brokers": 5})
    cluster = kafka_cluster(config, tmp_path / tmp_path.name)
    try:
        servers = cluster.endpoint().args["bootstrap.servers"].split(",")
        assert len(set(servers)) == 5 == len(cluster.nodes)
        assert all(server.startswith("127.0.0.1:") for server in servers)
        assert cluster.endpoint().factory == ""
        assert client_kind(config).factory == "harness.clients.librdkafka.session:connect"
    finally:
        run_blocking(cluster.stop())


class Slow:
    """A client of an engine with three containers, a network and a volume of a run; `silent` calls are not
    answered in time. It is its own `api`."""

    def __init__(self, silent: str) -> None:
        self.silent = silent
        self.done: list[str] = []
        self.api = self

    def _call(self, what: str) -> None:
        if what == self.silent:
            raise ReadTimeout("read timed out")
        self.done.append(what)

    def containers(self, **_: object) -> list[dict[str, str]]:
        self._call("containers")
        return [{"Id": one} for one in ("one", "two", "three")]

    def remove_container(self, identity: str, **_: object) -> None:
        self._call(identity)
        if identity == "three":
            raise APIError("removal is already in progress")

    def networks(self, **_: object) -> list[dict[str, str]]:
        self._call("networks")
        return [{"Id": "net", "Name": "net"}]

    def remove_network(self, identity: str) -> None:
        self._call(identity)

    def volumes(self, **_: object) -> dict[str, list[dict[str, str]] | None]:
        self._call("volumes")
        return {"Volumes": [{"Name": "disk"}]}

    def remove_volume(self, name: str) -> None:
        self._call(name)

    def close(self) -> None:
        self.done.append("closed")


@pytest.mark.parametrize(
    ("silent", "told", "removed"),
    [
        ("one", "container one", {"two", "three", "net", "disk"}),
        ("net", "network net", {"one", "two", "three", "disk"}),
        ("disk", "volume disk", {"one", "two", "three", "net"}),
        ("containers", "what is left of some-run", set()),
        ("networks", "what is left of some-run", {"one", "two", "three"}),
        ("volumes", "what is left of some-run", {"one", "two", "three", "net"}),
    ],
)
def test_an_engine_too_slow_to_remove_is_told_and_keeps_nothing_else_from_being_removed(
    silent: str, told: str, removed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Slow(silent)
    monkeypatch.setattr(engine, "connect", lambda: client)
    assert engine.clear("some-run") == [f"{told}: the Docker engine does not answer (read timed out)"]
    assert set(client.done) - {"containers", "networks", "volumes"} == removed | {"closed"}


@pytest.mark.parametrize("silent", ["containers", "networks", "volumes"])
def test_an_engine_too_slow_to_list_is_a_cluster_error(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Slow(silent)
    monkeypatch.setattr(engine, "connect", lambda: client)
    with pytest.raises(ClusterError, match=r"left of some-run could not be listed: .*read timed"):
        engine.leftovers("some-run")
    assert client.done[-1] == "closed"


class Surroundings:
    """What a cluster starts beside its containers; `done` has what was done with it, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def stop(self) -> None:
        self.done.append("proxies stopped")

    def dismiss(self) -> None:
        self.done.append("reaper dismissed")

    def act(self) -> None:
        self.done.append("reaper acts")

    def close(self) -> None:
        self.done.append("client closed")


def started(folder: Path) -> tuple[ContainerCluster, Any]:
    cluster: Any = kafka_cluster(run_config({"seed": 1}), folder)
    around: Any = Surroundings()
    cluster._client = cluster._proxies = cluster._reaper = around
    return cluster, around


@pytest.mark.parametrize(
    ("left", "end"), [([], "reaper dismissed"), (["container 1: timed out"], "reaper acts")]
)
def test_the_reaper_gets_what_stopping_could_not_remove(
    left: list[str],
    end: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engine, "clear", lambda _: left)
    cluster, around = started(tmp_path / tmp_path.name)
    for _ in range(2):
        run_blocking(cluster.stop())
    assert around.done == ["proxies stopped", "client closed", end]
    said = capsys.readouterr().err
    assert all(f"not removed: {line}" in said for line in left)
    assert bool(said) is bool(left)
    assert not cluster._plan.held


def fail(*_: object) -> list[str]:
    raise OSError("no")


@pytest.mark.parametrize(
    ("part", "done"),
    [("containers", ["proxies stopped", "reaper acts"]), ("proxies", ["client closed", "reaper dismissed"])],
)
def test_a_part_that_cannot_be_stopped_keeps_no_other_from_it(
    part: str, done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, around = started(tmp_path / tmp_path.name)
    monkeypatch.setattr(engine, "clear", lambda _: [])
    if part == "containers":
        monkeypatch.setattr(engine, "clear", fail)
    else:
        monkeypatch.setattr(around, "stop", fail)
    with pytest.raises(OSError, match="no"):
        run_blocking(cluster.stop())
    assert around.done == done
    assert not cluster._plan.held


class Told:
    """An engine that says this of its machine."""

    def __init__(self, **info: str) -> None:
        self._info = info

    def info(self) -> dict[str, str]:
        return self._info

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("host", "name", "kernel", "here"),
    [
        (None, "", "", True),
        ("unix:///run/user/1000/docker.sock", "", "", True),
        (None, "docker-desktop", "", False),  # a virtual machine
        (None, "", "6.1.0-linuxkit", False),
        ("tcp://127.0.0.1:2375", "", "", False),
        ("ssh://root@elsewhere", "", "", False),
    ],
)
def test_whether_containers_have_the_clock_of_this_machine(
    host: str | None, name: str, kernel: str, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(Name=name or platform.node(), KernelVersion=kernel or platform.release())
    monkeypatch.setattr(engine, "chosen", lambda: host)
    monkeypatch.setattr(engine, "connect", lambda: told)
    assert engine.of_this_machine() is here


@pytest.mark.usefixtures("_no_engine")
def test_an_engine_that_does_not_answer_is_not_known_to_be_here() -> None:
    assert not engine.of_this_machine()
