"""How a worker process reaches brokers by librdkafka."""

from collections.abc import Sequence

from core.cluster import Address, Endpoint, Security
from harness.clients.librdkafka.settings import CLUSTER_ID


def endpoint(listeners: Sequence[Address], security: Security, cluster: str) -> Endpoint:
    """How clients reach brokers at these addresses. cluster: the id that these have to name."""
    servers = ",".join(map(str, listeners))
    args = {"bootstrap.servers": servers, CLUSTER_ID: cluster, **security.client_settings()}
    return Endpoint(factory=f"{__package__}.session:connect", args=args)
