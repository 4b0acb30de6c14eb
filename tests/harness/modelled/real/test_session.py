"""librdkafka with brokers of the model: the contract of all sessions."""

from collections.abc import Iterator

import pytest

from core.runtime import run_blocking
from harness.clients.librdkafka.session import connect
from harness.modelled.real.cluster import ModelCluster
from tests.contract.session_contract_test import SessionContract, Sessions, System
from tests.contract.session_contract_work_test import WorkContract


@pytest.fixture
def sessions(cluster: ModelCluster) -> Iterator[Sessions]:
    made = Sessions(
        System(
            connect=lambda spec: connect(cluster.endpoint().args, spec),
            create_topic=lambda name, count: run_blocking(cluster.create_topic(name, count, 3, {})),
        )
    )
    yield made
    made.close()


@pytest.mark.sampled(2)
class TestModel(SessionContract, WorkContract):
    """Brokers of the model."""
