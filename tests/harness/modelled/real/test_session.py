"""librdkafka with brokers of the model: the contract of all sessions."""

from collections.abc import Iterator

import pytest

from harness.modelled.real.cluster import ModelCluster
from tests.contract.session_contract_test import SessionContract, Sessions
from tests.contract.session_contract_work_test import WorkContract


@pytest.fixture
def sessions(cluster: ModelCluster) -> Iterator[Sessions]:
    made = Sessions.of_cluster(cluster)
    yield made
    made.close()


@pytest.mark.sampled(2)
class TestModel(SessionContract, WorkContract):
    """Brokers of the model."""
