"""Share groups (KIP-932): who holds which record, and what is stored of it.

dead_letter_queue        A broker as writer of dead letters.
record_states            The delivery states of records: one by one, and as runs of offsets.
share_coordinator        The share coordinator: how far each share partition got, in a log.
share_group_coordinator  Members of share groups, and the partitions that they may fetch.
share_groups             A broker's part in share groups: what it has to be handed.
share_partition          One share partition, as its leader has it in memory: locks, delivery counts, ends.
share_partition_manager  A broker as leader of share partitions: sessions of members, fetches that wait,
                         state that is read and written.

The leader of a partition hands its records out to the members of a group. Who holds a record, and until when,
is in its memory alone; how records ended, how often those were delivered that came back, and below which
offset all have ended, it has the share coordinator store before it answers. A new leader reads that: what its
predecessor had handed out is available again, with the count that was stored last.
"""
