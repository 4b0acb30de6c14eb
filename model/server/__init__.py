"""What ties replicas and coordinators to the metadata of the cluster.

broker_metadata_publisher  The replicas that a broker holds: made, changed and given up as the
                           metadata say.
cluster_metadata           The seam between a broker and the way in which its cluster keeps its
                           metadata.
"""
