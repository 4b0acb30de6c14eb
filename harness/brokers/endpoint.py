"""Where clients reach brokers behind Kafka's protocol."""

from collections.abc import Sequence

from core.cluster import CLUSTER_ID, Address, Endpoint, Security


def endpoint(listeners: Sequence[Address], security: Security, cluster: str) -> Endpoint:
    """The brokers at these addresses. cluster: the id that these have to name."""
    servers = ",".join(map(str, listeners))
    return Endpoint(args={"bootstrap.servers": servers, CLUSTER_ID: cluster, **security.client_settings()})
