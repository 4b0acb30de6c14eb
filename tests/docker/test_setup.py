"""Starting, creating topics, collecting and leaving nothing behind."""

import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse

from core.capabilities import Cut, Direction, Listener
from core.cluster import Address
from core.config import RunConfig, run_config
from core.errors import ClusterError
from core.op import TopicPartition
from core.runtime import run_blocking
from harness.containers import engine
from harness.containers.cluster import ContainerCluster
from harness.containers.images import build
from harness.evidence.directory import read as read_directory
from harness.kafka.images import ensure_image
from harness.kafka.system import kafka_cluster
from tests.docker.conftest import TOPIC
from tests.waiting import until


def one_broker(**settings: object) -> RunConfig:
    small = {"seed": 1, "brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
    return run_config(small | settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / f"docker-tests-{time.time_ns()}"


def topic_configs(cluster: ContainerCluster, topic: str) -> dict[str, str]:
    """All settings of a topic that are in force, defaults included."""
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    with cluster.admin.connect(1, 5) as connection:
        (result,) = connection.call(DescribeConfigsResponse, resources=[resource]).results
    return {one.name: one.value or "" for one in result.configs}


def test_every_node_leads_and_the_topic_carries_the_configs_safety(cluster: ContainerCluster) -> None:
    roles = run_blocking(cluster.roles())
    assert roles.agreed
    assert roles.answering == cluster.nodes == (1, 2, 3)
    assert sum(tp.topic == TOPIC for tp in roles.leaders) == 6
    found = topic_configs(cluster, TOPIC)
    assert found["min.insync.replicas"] == "2"
    assert found["unclean.leader.election.enable"] == "false"


def test_a_topic_asked_for_twice_is_there_and_nonsense_is_refused(cluster: ContainerCluster) -> None:
    run_blocking(cluster.create_topic(TOPIC, 6, 3, {}))
    with pytest.raises(ClusterError, match="INVALID_CONFIG"):
        run_blocking(cluster.create_topic("odd", 1, 1, {"retention.ms": "banana"}))
    with pytest.raises(ClusterError, match="INVALID_REPLICATION_FACTOR"):
        run_blocking(cluster.create_topic("odd", 1, 4, {}))


def test_logs_are_collected_over_restarts_and_say_what_happened(
    cluster: ContainerCluster, tmp_path: Path
) -> None:
    tp = TopicPartition(TOPIC, 0)
    victim = run_blocking(cluster.roles()).leaders[tp]
    run_blocking(cluster.kill([victim]))
    until(lambda: run_blocking(cluster.roles()).leaders[tp] not in (victim, -1), "the leader moved", 30)
    run_blocking(cluster.revive([victim]))
    until(lambda: run_blocking(cluster.roles()).agreed, "all agree", 60)
    run_blocking(cluster.collect(tmp_path))
    own = (tmp_path / str(victim) / "server.log").read_text()
    assert own.count("Kafka Server started") >= 2
    every = "".join((tmp_path / str(node) / "server.log").read_text() for node in cluster.nodes)
    assert f"Fencing broker {victim}" in every
    assert f"{TOPIC}-0" in every
    assert "leaderEpoch" in every
    assert not list(tmp_path.rglob("missing.txt"))
    properties = (tmp_path / "1" / "node.properties").read_text()
    assert "node.id=1\n" in properties


def listeners(cluster: ContainerCluster) -> set[Address]:
    return set(cluster.admin.addresses.values())


@pytest.mark.sampled(5)
def test_two_clusters_side_by_side_and_stop_leaves_nothing(cluster: ContainerCluster, folder: Path) -> None:
    second = kafka_cluster(one_broker(), folder)
    try:
        run_blocking(second.start())
        assert not listeners(second) & listeners(cluster)
        assert not set(second.addresses.values()) & set(cluster.addresses.values())
        assert len(engine.leftovers(second.run)) == 2  # a container and a network
        run_blocking(second.pause([1]))
    finally:
        run_blocking(second.stop())
    assert engine.leftovers(second.run) == []
    run_blocking(second.stop())
    assert len(engine.leftovers(cluster.run)) == 4


@pytest.mark.sampled(5)
def test_an_isolated_controller_is_a_node_that_faults_can_hit(folder: Path) -> None:
    cluster = kafka_cluster(one_broker(controllers=1), folder)
    try:
        run_blocking(cluster.start())
        assert (cluster.nodes, cluster.brokers) == ((1, 2), (1,))
        run_blocking(cluster.create_topic("t", 1, 1, {}))
        roles = run_blocking(cluster.roles())
        assert (roles.controller, roles.answering, roles.agreed) == (2, (1,), True)
        run_blocking(cluster.pause([2]))
        run_blocking(cluster.resume([2]))
        cut = Cut(node=2, direction=Direction.IN, peer=1, listener=Listener.CONTROLLER)
        run_blocking(cluster.cut([cut]))
        run_blocking(cluster.kill([2]))
        roles = run_blocking(cluster.roles())
        assert (roles.controller, roles.leaders[TopicPartition("t", 0)]) == (-1, 1)
        run_blocking(cluster.revive([2]))
        until(lambda: starts(cluster, 2, folder) == 2, "the controller runs", 60)
        assert run_blocking(cluster.roles()).controller == -1  # the broker does not reach it
        run_blocking(cluster.mend([cut]))
        until(lambda: run_blocking(cluster.roles()).controller == 2, "the controller is back", 60)
        run_blocking(cluster.shut_down(cluster.nodes))
        run_blocking(cluster.collect(folder))
        log = (folder / "1" / "server.log").read_text()
        assert "The controller has asked us to exit controlled shutdown" in log
        cluster.copy_data(1, folder / "data")
        found = read_directory(folder / "data", 1)
        assert found["damage"].to_pylist() == []
        assert found["nodes"]["clean_shutdown"].to_pylist() == [True]
        assert found["partitions"]["topic"].to_pylist() == ["__cluster_metadata", "t"]
    finally:
        run_blocking(cluster.stop())
    assert engine.leftovers(cluster.run) == []


def starts(cluster: ContainerCluster, node: int, into: Path) -> int:
    """How often a node has come up, by its log."""
    run_blocking(cluster.collect(into))
    return (into / str(node) / "server.log").read_text().count("Kafka Server started")


class Engine:
    """The real engine behind a socket of its own, which can be taken away."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def die(self) -> None:
        self._path.unlink(missing_ok=True)
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect("/var/run/docker.sock")
            self._open += [near, far]
            for ends in ((near, far), (far, near)):
                self._threads.append(threading.Thread(target=_pump, args=ends))
                self._threads[-1].start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def _sockets_of_the_sdk() -> Iterator[None]:
    """The Docker SDK leaves a socket open when its engine goes away: let it be collected unseen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for a socket: its path may have 107 bytes."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.usefixtures("_sockets_of_the_sdk")
def test_an_engine_that_dies_is_told_from_a_fault_of_kafka(
    folder: Path, short: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir()
    between = Engine(short / "engine.sock")
    try:
        with monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", between.url)
            cluster = kafka_cluster(one_broker(), folder)
            run_blocking(cluster.start())
            assert run_blocking(cluster.trouble()) == ""
            between.die()
            assert "no Docker engine answers" in run_blocking(cluster.trouble())
            with pytest.raises(ClusterError, match="the Docker engine does not answer"):
                run_blocking(cluster.kill([1]))
            assert run_blocking(cluster.roles()).answering == (1,)  # Kafka itself lives
            run_blocking(cluster.collect(folder / "logs"))
            assert "does not answer" in (folder / "logs" / "1" / "missing.txt").read_text()
            run_blocking(cluster.stop())
            assert "not removed: no Docker engine answers" in capfd.readouterr().err
    finally:
        between.die()
        engine.clear(folder.name)
    assert engine.leftovers(folder.name) == []


def test_the_reaper_clears_up_after_a_killed_harness(folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from harness.containers.cluster import ContainerCluster\n"
        "from harness.kafka.system import kafka_cluster\n"
        "from core.config import run_config\n"
        "from core.runtime import run_blocking\n"
        "config = run_config({'seed': 1, 'brokers': 1, 'replication_factor': 1,"
        " 'min_insync_replicas': 1, 'capture': True})\n"
        "cluster = kafka_cluster(config, Path(sys.argv[1]))\n"
        "run_blocking(cluster.use_wire_between())\n"
        "run_blocking(cluster.start())\n"
        "print('started', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"started\n"
        assert len(engine.leftovers(folder.name)) == 4  # the broker, its proxy, the capture and a network
        os.kill(harness.pid, signal.SIGKILL)
    until(lambda: engine.leftovers(folder.name) == [], "nothing is left", 60)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("num.io.threads", "banana", "Invalid value banana for configuration num.io.threads"),
        ("authorizer.class.name", "no.such.Authorizer", "no.such.Authorizer"),
    ],
    ids=["refused by format", "refused by the server"],
)
def test_a_broker_that_ends_while_starting_shows_why(
    folder: Path, setting: str, value: str, words: str
) -> None:
    cluster = kafka_cluster(one_broker(broker_settings={setting: value}), folder)
    try:
        with pytest.raises(ClusterError, match="node 1 ended with exit code") as error:
            run_blocking(cluster.start())
        assert words in str(error.value)
        run_blocking(cluster.collect(folder / "cluster"))
        assert words in (folder / "cluster" / "1" / "server.log").read_text()
    finally:
        run_blocking(cluster.stop())
    assert engine.leftovers(cluster.run) == []


def test_a_broker_that_never_comes_up_shows_the_end_of_its_log(folder: Path) -> None:
    # A quorum of two of which one does not exist: it waits for ever.
    lonely = {"controller.quorum.voters": "1@broker-1:9093,2@broker-1:1"}
    for seconds in (5, 60):  # in 5 s a JVM of a busy machine may have logged nothing
        cluster = kafka_cluster(one_broker(broker_settings=lonely), folder, ready_deadline_s=seconds)
        try:
            with pytest.raises(ClusterError, match=f"did not see all 1 brokers within {seconds} s") as error:
                run_blocking(cluster.start())
        finally:
            run_blocking(cluster.stop())
        if "org.apache.kafka" in str(error.value):
            return
    pytest.fail(str(error.value))


def test_an_image_that_cannot_be_built_shows_the_end_of_the_log(
    cluster: ContainerCluster, tmp_path: Path
) -> None:
    base = "inquest-broken"
    client = engine.connect()
    try:
        image = ensure_image(client, "4.3.1")  # there: nothing to do
        (tmp_path / "Dockerfile").write_text(f"FROM {image}\nRUN echo oh dear; exit 3\n")
        with pytest.raises(ClusterError, match="could not be built") as error:
            build(client, f"{base}:1", tmp_path, {})
    finally:
        client.close()
    assert "oh dear" in str(error.value)
    assert "code: 3" in str(error.value)


def test_a_version_that_does_not_exist_is_said_so() -> None:
    client = engine.connect()
    try:
        with pytest.raises(ClusterError, match=r"there is no Kafka 4\.99\.0 on Maven Central"):
            ensure_image(client, "4.99.0")
    finally:
        client.close()
