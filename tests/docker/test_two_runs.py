"""Two runs, of two users of one machine, on real Kafka: neither takes what is the other's."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.client_settings import SessionSpec
from core.config import run_config
from core.errors import ClusterError
from core.op import TopicPartition
from core.payload import encode
from core.runtime import run_blocking
from core.session import Acked, Record, Session
from harness.clients.librdkafka.session import connect
from harness.containers import claims, engine
from harness.containers.claims import State
from harness.containers.cluster import ContainerCluster
from harness.kafka.system import kafka_cluster
from tests.waiting import until

SMALL = {"seed": 1, "brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
TP = TopicPartition("orders", 0)
OTHER = """
import sys
from pathlib import Path
from core.config import run_config
from core.runtime import run_blocking
from harness.containers.cluster import ContainerCluster
from harness.kafka.system import kafka_cluster
small = {"seed": 1, "brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
cluster = kafka_cluster(run_config(small), Path(sys.argv[1]))
run_blocking(cluster.start())
run_blocking(cluster.create_topic("orders", 1, 1, {}))
(broker,) = cluster.addresses.values()
print(cluster.endpoint().args["bootstrap.servers"], broker, cluster._reaper.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[ContainerCluster]:
    """A cluster of one broker with a topic."""
    made = kafka_cluster(run_config(SMALL), tmp_path / "results" / f"docker-tests-{time.time_ns()}")
    try:
        run_blocking(made.start())
        run_blocking(made.create_topic("orders", 1, 1, {}))
        yield made
    finally:
        run_blocking(made.stop())


@contextmanager
def other_user(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process with a home, a cache and a results folder of its own that starts such a cluster."""
    around = {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    (folder / "results").mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(folder / "results" / folder.name)],
        env=around,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def acknowledged(session: Session, value: int) -> bool:
    (delivery,) = run_blocking(session.send([Record(TP, value, encode("run", TP, value, 100))]))
    session.events()
    return isinstance(delivery, Acked)


def states() -> dict[str, State]:
    client = engine.ensure()
    try:
        return claims.runs(client)
    finally:
        client.close()


@pytest.mark.sampled(10)
def test_two_users_keep_apart_also_while_brokers_are_down_and_what_a_killed_one_left_is_removed(
    mine: ContainerCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    session = connect(mine.endpoint().args, SessionSpec(slot=0, process=0, acks=-1, deadline_s=5))
    assert acknowledged(session, 1)
    run_blocking(mine.kill([1]))
    with other_user(tmp_path / f"docker-tests-other-{time.time_ns()}") as process:
        assert process.stdout is not None
        address, broker, reaper = process.stdout.readline().split()
        assert address != mine.endpoint().args["bootstrap.servers"]
        assert broker != mine.addresses[1]
        assert not acknowledged(session, 2)
        assert run_blocking(mine.roles()).answering == ()
        run_blocking(mine.revive([1]))
        until(lambda: acknowledged(session, 3), "the broker is back at its address", 60)
        roles = run_blocking(mine.roles())
        assert (roles.answering, roles.strangers) == ((1,), {})
        theirs = next(run for run in states() if run.startswith("docker-tests-other-"))
        assert states()[theirs] is states()[mine.run] is State.UNDER_WAY
        os.kill(int(reaper), signal.SIGKILL)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert states()[theirs] is State.LEFT
    assert len(engine.leftovers(theirs)) == 2
    client = engine.ensure()
    try:
        claims.remove_left(client)
    finally:
        client.close()
    assert f"removed what {theirs} left" in capfd.readouterr().err
    assert engine.leftovers(theirs) == []
    assert len(engine.leftovers(mine.run)) == 2
    assert acknowledged(session, 4)
    run_blocking(session.close())


def test_a_second_run_of_a_name_is_refused_and_takes_nothing(mine: ContainerCluster, tmp_path: Path) -> None:
    second = kafka_cluster(run_config(SMALL), tmp_path / "elsewhere" / mine.run)
    try:
        with pytest.raises(ClusterError, match="under way on this machine"):
            run_blocking(second.start())
    finally:
        run_blocking(second.stop())
    assert len(engine.leftovers(mine.run)) == 2
    assert run_blocking(mine.roles()).answering == (1,)
