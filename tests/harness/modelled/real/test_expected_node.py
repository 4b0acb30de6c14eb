"""A client that names the node which it means to reach (KIP-1242): brokers of the model, and proxies."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from core.config import run_config
from core.runtime import run_blocking
from harness.modelled.real.cluster import ModelCluster
from harness.protocol.payloads import API_KEYS
from tests.harness.brokers.expected_node import answers, asked, one_way, told
from tests.harness.modelled.real.conftest import THREE


@pytest.fixture(params=["toxiproxy", "wire", "both"])
def behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModelCluster]:
    """Brokers behind proxies of one kind, or of both."""
    made = ModelCluster(run_config(THREE), tmp_path / "proxied")
    try:
        if request.param != "wire":
            run_blocking(made.use_proxies())
        if request.param != "toxiproxy":
            run_blocking(made.use_wire())
        run_blocking(made.start())
        yield made
    finally:
        run_blocking(made.stop())


@pytest.mark.sampled(10)
def test_a_broker_refuses_who_means_to_reach_another_node(cluster: ModelCluster) -> None:
    assert answers(cluster.endpoint()) == one_way(3)


@pytest.mark.sampled(42)
def test_proxies_lead_to_the_node_that_clients_mean_to_reach(behind: ModelCluster) -> None:
    assert answers(behind.endpoint()) == one_way(3)


@pytest.mark.parametrize(
    ("of_this", "node", "error"),
    [
        (True, 2, ErrorCode.none),
        (None, -1, ErrorCode.none),
        (False, 2, ErrorCode.rebootstrap_required),
        (True, -1, ErrorCode.invalid_request),
        (None, 2, ErrorCode.invalid_request),
    ],
)
def test_a_client_names_cluster_and_node_or_neither(
    cluster: ModelCluster, of_this: bool | None, node: int, error: ErrorCode
) -> None:
    here, addresses = told(cluster.endpoint())
    answer = asked(addresses[2], None if of_this is None else here if of_this else "another", node)
    served = {int(one.api_key): int(one.max_version) for one in answer.api_keys}
    assert answer.error_code == error
    assert served.get(API_KEYS["api_versions"]) == (5 if error == ErrorCode.none else None)
