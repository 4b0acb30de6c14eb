"""Two clusters of the model's brokers keep apart. Where one has the other's ports all the same, those who ask
the wrong one learn it and stop."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.client_settings import SessionSpec
from core.config import run_config
from core.errors import WrongCluster
from core.op import Isolation, TopicPartition
from core.payload import encode
from core.runtime import run_blocking
from core.session import Acked, Definite, Indefinite, Record, Session
from harness.brokers.addresses import Plan
from harness.clients.librdkafka.session import connect
from harness.modelled.real import cluster as module
from harness.modelled.real.cluster import ModelCluster
from tests.waiting import until

PATIENCE_S = 60.0
CONFIG = run_config({"sut": "model", "seed": 1})
TOPIC = "orders"
TP = TopicPartition(TOPIC, 0)
OTHER_USER = """
import sys
from pathlib import Path
from core.config import run_config
from core.runtime import run_blocking
from harness.modelled.real.cluster import ModelCluster
made = ModelCluster(run_config({"sut": "model", "seed": 1}), Path(sys.argv[1]))
try:
    run_blocking(made.start())
    run_blocking(made.create_topic("orders", 1, 3, {}))
    print(made.endpoint().args["bootstrap.servers"], flush=True)
    sys.stdin.read()
    print(*sorted(map(str, run_blocking(made.roles()).leaders)), run_blocking(made.roles()).strangers)
finally:
    run_blocking(made.stop())
"""


@pytest.fixture
def first(tmp_path: Path) -> Iterator[ModelCluster]:
    """A cluster with a topic."""
    made = ModelCluster(CONFIG, tmp_path / "results" / "first")
    try:
        run_blocking(made.start())
        run_blocking(made.create_topic(TOPIC, 1, 3, {}))
        yield made
    finally:
        run_blocking(made.stop())


def opened(cluster: ModelCluster, **spec: object) -> Session:
    return connect(cluster.endpoint().args, SessionSpec(slot=0, process=1, deadline_s=5, **spec))  # type: ignore[arg-type]


def sent(session: Session, value: int) -> bool:
    with_payload = Record(TP, value, encode("run", TP, value, 100))
    (delivery,) = run_blocking(session.send([with_payload]))
    session.events()
    return isinstance(delivery, Acked)


@pytest.mark.sampled(48)
def test_a_cluster_of_another_user_takes_nothing_of_one_whose_brokers_are_down(
    first: ModelCluster, tmp_path: Path
) -> None:
    """Another home, cache and results folder; the same configuration and seed."""
    mine = first.endpoint().args["bootstrap.servers"].split(",")
    producer = opened(first, acks=-1)
    assert sent(producer, 1)
    run_blocking(first.kill(first.nodes))
    around = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_USER, str(tmp_path / "theirs" / "first")],
        env=around,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip().split(",")
        assert len(theirs) == 3
        assert not set(mine) & set(theirs)
        assert not sent(producer, 2)
        assert run_blocking(first.roles()).answering == ()
        run_blocking(first.revive(first.nodes))
        until(lambda: sent(producer, 3), "records are sent")
        out, _ = other.communicate("")
    assert "orders-0 {}" in out
    roles = run_blocking(first.roles())
    assert (roles.answering, roles.strangers) == (first.nodes, {})
    run_blocking(producer.close())


@pytest.fixture
def usurper(first: ModelCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelCluster]:
    """A cluster on the very ports of the first one, whose brokers are down: another program took them."""
    plan = Plan(first._plan.block, first._plan._held)
    with monkeypatch.context() as patch:
        patch.setattr(module, "reserve", lambda: plan)
        made = ModelCluster(CONFIG, tmp_path / "theirs" / "second")
    monkeypatch.setattr(plan, "release", lambda: None)
    yield made
    run_blocking(made.stop())


@pytest.mark.sampled(10)
@pytest.mark.parametrize("known", [True, False], ids=["an old client", "a new client"])
@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_client_that_meets_brokers_of_another_cluster_stops(
    kind: str, known: bool, first: ModelCluster, usurper: ModelCluster
) -> None:
    """An old client was connected to brokers of its own before."""
    spec = {"acks": -1} if kind == "producer" else {"isolation": Isolation.READ_COMMITTED}
    session = opened(first, **spec)
    if kind == "consumer":
        run_blocking(session.assign({TP: -2}))

    def use() -> None:
        if kind == "producer":
            sent(session, 1)
        else:
            try:
                run_blocking(session.poll(10, 100))
            except (Definite, Indefinite):
                return
            session.events()

    if known:
        use()
    run_blocking(first.kill(first.nodes))
    run_blocking(usurper.start())
    run_blocking(usurper.create_topic(TOPIC, 1, 3, {}))

    def use_for_ever() -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            use()

    theirs, mine = usurper._cluster, first._cluster
    with pytest.raises(WrongCluster, match=f"is a broker of cluster {theirs}, and not of {mine}"):
        use_for_ever()
    run_blocking(session.close())


@pytest.mark.sampled(48)
def test_the_harness_takes_no_answer_of_another_cluster(first: ModelCluster, usurper: ModelCluster) -> None:
    run_blocking(first.kill(first.nodes))
    run_blocking(usurper.start())
    run_blocking(usurper.create_topic("theirs", 1, 3, {}))
    roles = run_blocking(first.roles())
    assert (roles.answering, roles.leaders) == ((), {})
    assert roles.strangers == dict.fromkeys(first.brokers, usurper._cluster)
    assert run_blocking(first.offsets([TP], Isolation.READ_COMMITTED)) == {}
    assert run_blocking(first.open_transactions([TP])) == []
    assert run_blocking(usurper.roles()).strangers == {}
