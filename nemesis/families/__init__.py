"""The families of faults, one module each.

add_partitions  The nemesis `add-partitions`: topics get further partitions, under load.
client          The nemesis `client`: loading clients die in mid-work, or stand still.
delete_records  The nemesis `delete-records`: records are deleted while clients write and read them.
disk            The nemesis `disk`: a broker cannot write any more, and stops for it; or
                one of its two disks is gone.
elections       The nemesis `elections`: leaders move on a healthy cluster, at once.
failover        The nemesis `failover`: a second death, before the cluster is whole after the
                first one.
links           The nemesis `links`: what lies between clients and brokers is slow, narrow or breaks.
partition       The nemesis `partition`: links between brokers, or from clients to a broker, are cut.
power           The nemesis `power`: nodes lose what was not flushed to disk.
process         The nemeses `kill` and `pause`: broker processes end, or stand still.
quorum          The nemesis `quorum`: voters of the metadata quorum are removed, and added again.
reassign        The nemesis `reassign`: replicas of partitions move to other brokers, and back.
recreate_topics The nemesis `recreate-topics`: topics are deleted under load, and made again under
                their names.
restart         The nemesis `restart`: brokers are shut down in order and started again.
slow_follower   The nemesis `slow-follower`: a follower is throttled, and falls behind when it
                gets a new leader.
unclean         The nemesis `unclean`: a replica that misses records becomes leader.
upgrade         The nemesis `upgrade`: nodes change to a later version, one after the other, and back.
"""
