import os
from pathlib import Path

import pytest

from harness.cluster import ClusterError, engine
from harness.cluster.kafka import KafkaCluster
from harness.config import run_config
from harness.session import drive


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


@pytest.mark.usefixtures("_no_engine")
def test_a_cluster_without_engine_fails_to_start_and_still_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = KafkaCluster(run_config({"seed": 1}), tmp_path / "run")
    try:
        with pytest.raises(ClusterError, match="no Docker engine answers"):
            drive(cluster.start())
        assert "no Docker engine answers" in drive(cluster.trouble())
        drive(cluster.collect(tmp_path / "logs"))
        assert "not started" in (tmp_path / "logs" / "2" / "missing.txt").read_text()
        assert drive(cluster.roles()).answering == ()
        with pytest.raises(ClusterError, match="not started"):
            drive(cluster.kill([1]))
    finally:
        drive(cluster.stop())
        drive(cluster.stop())
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_no_engine")
def test_the_endpoint_is_known_before_the_start(tmp_path: Path) -> None:
    cluster = KafkaCluster(run_config({"seed": 1, "brokers": 5}), tmp_path / "run")
    try:
        servers = cluster.endpoint().args["bootstrap"].split(",")
        assert len(set(servers)) == 5 == len(cluster.nodes)
        assert all(server.startswith("127.0.0.1:") for server in servers)
        assert cluster.endpoint().factory == "harness.cluster.session:connect"
    finally:
        drive(cluster.stop())
