"""What brokers say to a client that names the cluster and the node which it means to reach (KIP-1242)."""

from kio.schema.errors import ErrorCode

from core.cluster import Address, Endpoint
from harness.brokers.admin.connection import BrokerConnection
from harness.protocol.newer import ApiVersionsResponse

ASK_S = 20.0


def asked(address: Address, cluster: str | None, node: int) -> ApiVersionsResponse:
    """The answer to ApiVersions, version 5."""
    connection = BrokerConnection(address, ASK_S)
    named = {"client_software_name": "test", "client_software_version": "1"}
    try:
        return connection.call(ApiVersionsResponse, **named, cluster_id=cluster, node_id=node)
    finally:
        connection.close()


def told(endpoint: Endpoint) -> tuple[str, dict[int, Address]]:
    """The id of the cluster, and where its nodes are, as its clients learn them."""
    host, _, port = endpoint.args["bootstrap.servers"].split(",")[0].rpartition(":")
    connection = BrokerConnection(Address(host, int(port)), ASK_S)
    try:
        found = connection.cluster()
    finally:
        connection.close()
    assert found.cluster_id is not None
    return found.cluster_id, {int(one.node_id): Address(one.host, int(one.port)) for one in found.brokers}


def answers(endpoint: Endpoint) -> dict[int, dict[int, ErrorCode]]:
    """At the address of each node: the error for a client that means to reach each of them."""
    cluster, addresses = told(endpoint)
    return {
        at: {node: asked(address, cluster, node).error_code for node in addresses}
        for at, address in addresses.items()
    }


def one_way(nodes: int) -> dict[int, dict[int, ErrorCode]]:
    """The answers of a cluster that lets nobody pass who means to reach another node."""
    every = range(1, nodes + 1)
    wrong = ErrorCode.rebootstrap_required
    return {at: {node: ErrorCode.none if node == at else wrong for node in every} for at in every}
