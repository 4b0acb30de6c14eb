"""Members of the metadata quorum removed and added on request: RemoveRaftVoter, AddRaftVoter (KIP-853).

Brokers forward both to the controller. One that leads no more answers NOT_LEADER_OR_FOLLOWER, and the broker
forwards to it again as long as no other request tells it of another leader; so each is asked for the leader
first (docs/findings/voter-change-old-controller.md). A request that is repeated changes nothing.
Synchronous; safe from any thread.
"""

from uuid import UUID

from kio.schema.add_raft_voter.v0.response import AddRaftVoterResponse
from kio.schema.errors import ErrorCode
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

from core.cluster import Address
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.brokers.admin.protocol import quorum_leader


def remove(brokers: Brokers, node: int, directory: UUID, within_s: float) -> None:
    """directory: id of the one with its metadata log. Raises: ClusterError: refused, or late."""

    def ask(connection: BrokerConnection) -> None:
        quorum_leader(connection)
        answer = connection.call(
            RemoveRaftVoterResponse, cluster_id=brokers.cluster, voter_id=node, voter_directory_id=directory
        )
        if answer.error_code != ErrorCode.voter_not_found:
            check(f"RemoveRaftVoter {node}", answer.error_code, answer.error_message)

    broker_views.anywhere(brokers, ask, within_s)


def add(
    brokers: Brokers, node: int, directory: UUID, listener: str, address: Address, within_s: float
) -> None:
    """directory: as with `remove`. listener, address: where other controllers reach it.

    Raises: ClusterError: refused, or late.
    """
    listeners = [{"name": listener, "host": address.host, "port": address.port}]

    def ask(connection: BrokerConnection) -> None:
        quorum_leader(connection)
        answer = connection.call(
            AddRaftVoterResponse,
            cluster_id=brokers.cluster,
            timeout=broker_views.TIMEOUT,
            voter_id=node,
            voter_directory_id=directory,
            listeners=listeners,
        )
        if answer.error_code != ErrorCode.duplicate_voter:
            check(f"AddRaftVoter {node}", answer.error_code, answer.error_message)

    broker_views.anywhere(brokers, ask, within_s)
