"""Planted bugs: each makes the model break one rule of Kafka's protocol, and has to be found.

cleaner       Planted bugs of the cleaner of compacted topics.
groups        Planted bugs of committed offsets, groups and consumers.
log_damage    Planted bugs that damage logs alone: clients of these runs see nothing wrong.
mutant        What a planted bug is, and where it shows.
producers     Planted bugs of idempotent producers and of clients that send again.
registry      The registry of planted bugs.
replication   Planted bugs of replicas, elections, metadata and truncation.
share         Planted bugs of share groups.
transactions  Planted bugs of transactions, their markers, fencing and time-outs.

A mutant is in force where its name is among `Settings.bugs`; the lines that it changes ask for that name. It
declares the anomaly classes of the damage, the principal one first, and where to look for it.
"""
