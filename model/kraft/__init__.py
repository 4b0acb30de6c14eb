"""Metadata by a Raft quorum (KRaft).

kafka_raft_client  The metadata quorum: a replicated log of metadata records (KIP-595), one state
                   machine a node.
kraft_metadata     Metadata of a KRaft node: its part in the quorum, the controller where it leads,
                   the broker's side.
quorum_controller  The active controller of a KRaft cluster: what it decides, as records of the
                   metadata log.
"""
