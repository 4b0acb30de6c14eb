"""The in-memory cluster of the tests keeps the contract of sessions, as far as it goes."""

from collections.abc import Iterator

import pytest

from harness.config import run_config
from harness.session import drive
from tests.memory.cluster import MemoryCluster
from tests.memory.session import connect
from tests.session_contract_test import SessionContract, Sessions, System


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryCluster]:
    cluster = MemoryCluster(run_config({"seed": 1}), tmp_path_factory.mktemp("memory"))
    drive(cluster.start())
    yield cluster
    drive(cluster.stop())


@pytest.fixture
def sessions(memory: MemoryCluster) -> Iterator[Sessions]:
    made = Sessions(
        System(
            connect=lambda spec: connect(memory.endpoint().args, spec),
            create_topic=lambda name, count: drive(memory.create_topic(name, count, 3, {})),
        )
    )
    yield made
    made.close()


class TestMemory(SessionContract):
    """The same tests, without a broker. What it does not model is left out here, by name:"""

    # transactional offsets (it refuses them), resets (it reads what there is), acks (all are
    # "all"), records outside of a transaction (they are written), a second close (it raises)
    test_offsets_of_a_transaction_share_its_fate = None  # type: ignore[assignment]
    test_an_offset_beyond_the_end_is_reset_to_the_beginning_and_told = None  # type: ignore[assignment]
    test_without_acks_there_is_no_offset = None  # type: ignore[assignment]
    test_outside_of_a_transaction_nothing_is_sent = None  # type: ignore[assignment]
    test_closing_is_idempotent_and_frees_the_group = None  # type: ignore[assignment]
