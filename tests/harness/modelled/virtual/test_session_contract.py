"""The simulated session keeps the contract of sessions, in real time."""

from collections.abc import Iterator

import pytest

from core.config import run_config
from core.runtime import run_blocking
from tests.contract.session_contract_test import SessionContract, Sessions, System
from tests.contract.session_contract_work_test import WorkContract
from tests.memory.cluster import MemoryCluster
from tests.memory.session import connect


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryCluster]:
    cluster = MemoryCluster(run_config({"seed": 1}), tmp_path_factory.mktemp("memory"))
    run_blocking(cluster.start())
    yield cluster
    run_blocking(cluster.stop())


@pytest.fixture
def sessions(memory: MemoryCluster) -> Iterator[Sessions]:
    made = Sessions(
        System(
            connect=lambda spec: connect(memory.endpoint().args, spec),
            create_topic=lambda name, count: memory.time.call(
                memory.simulated.create_topic(name, count, 3, {})
            ),
        )
    )
    yield made
    made.close()


class TestSimulated(SessionContract, WorkContract):
    """The model's clients and brokers."""

    commits_as_it_leaves = False
