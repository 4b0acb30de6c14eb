"""One real cluster for all Docker tests; after each test it is whole again.

Nothing here is skipped: where no engine answers it is set up, or the tests fail.
"""

import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from core.cluster import Roles
from core.config import run_config
from core.op import TopicPartition
from core.runtime import run_blocking
from harness.containers.cluster import ContainerCluster
from harness.kafka.system import kafka_cluster
from tests.waiting import until

HERE = Path(__file__).parent
TOPIC = "shared"
TP = TopicPartition(TOPIC, 0)
WHOLE_S = 60.0


LONGEST = ("whole_runs", "external", "faults", "session_contract", "reproduce", "links_nemesis", "evidence")
"""Files whose tests take minutes: they come first, so that no process is left alone with one at the end."""


@pytest.hookimpl(trylast=True)  # after the order of all tests is made
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.docker)

    def rank(item: pytest.Item) -> int:
        name = item.path.stem.removeprefix("test_")
        return LONGEST.index(name) if name in LONGEST else len(LONGEST)

    items[:] = sorted(mine, key=rank) + [item for item in items if HERE not in item.path.parents]


def roles_when(cluster: ContainerCluster, true: Callable[[Roles], bool], seconds: float, what: str) -> Roles:
    """The first roles that satisfy a condition."""
    seen: list[Roles] = []

    def met() -> bool:
        seen[:] = [run_blocking(cluster.roles())]
        return true(seen[0])

    try:
        until(met, what, seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; last seen: {seen}") from None
    return seen[0]


def whole(cluster: ContainerCluster, topic: str = TOPIC) -> Roles:
    """Roles once all nodes agree, every replica is in sync and the quorum has a leader."""
    copies = min(3, len(cluster.brokers))

    def good(roles: Roles) -> bool:
        mine = [isr for tp, isr in roles.isr.items() if tp.topic == topic]
        return (
            roles.agreed
            and roles.controller > 0
            and all(leader > 0 for leader in roles.leaders.values())
            and all(len(isr) == copies for isr in mine)
        )

    return roles_when(cluster, good, WHOLE_S, "the cluster is whole")


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCluster]:
    """A running cluster of three with the topic `shared`; tests take `cluster` instead.

    Its controller balances no leaders: a leader that a test has seen moves only where the test makes it.
    """
    folder = tmp_path_factory.mktemp("docker") / f"docker-tests-{time.time_ns()}"
    settings = {"auto.leader.rebalance.enable": "false"}
    cluster = kafka_cluster(run_config({"seed": 1, "broker_settings": settings}), folder)
    try:
        run_blocking(cluster.start())
        run_blocking(cluster.create_topic(TOPIC, 6, 3, {}))
        yield cluster
    finally:
        run_blocking(cluster.stop())


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


def keep_logs(cluster: ContainerCluster, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Of the brokers, where the test failed."""
    if request.node.stash.get(FAILED, False):
        run_blocking(cluster.collect(tmp_path / "cluster"))
        print(f"brokers' logs: {tmp_path / 'cluster'}")


@pytest.fixture
def cluster(
    started: ContainerCluster, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[ContainerCluster]:
    """The shared cluster, whole before and after the test, whatever the test did to it.

    The brokers' logs of a failed test are kept in its temporary folder.
    """
    whole(started)
    yield started
    keep_logs(started, request, tmp_path)
    run_blocking(started.mend(started.cuts * 2))
    run_blocking(started.resume(started.nodes))
    run_blocking(started.revive(started.nodes))
    whole(started)
