"""Safety invariants of a simulated cluster.

end           What a simulated cluster has left undone at the end of its run.
observer      Safety invariants of a simulated cluster, looked at after every event of
              a node.
partition     What has to hold of the replicas of one partition; see `invariants` for
              the list.
transactions  What has to hold of committed transactional records: of the transaction
              log and of markers.
weaknesses    Known weaknesses of Kafka, recognised by their mechanism: what only looks
              like them is none.
"""
