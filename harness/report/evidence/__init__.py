"""What stands in logs and transactions around a finding.

acknowledged  Offsets that a leader acknowledged, where it is known for certain which: its log
              reached past them then.
choice        Which findings a log or a timeline is made for: the first examples of all classes, each
              once.
decisions     The transactions of a finding as brokers' files have them: what was decided, and which marker
              each partition got.
exchanges     What a client asked brokers about a partition, around a finding of a simulated run.
group_offsets  The offsets of a group in a partition, as the log of its coordinator has them.
log_table     The log of a partition around a finding: what stands at each offset, who
              sent it, who read it.
replicas      How far each replica of a partition reached, around a record of a finding.
replica_logs  Brokers' copies of a log around a place that a rule refuses: which batch
              stands where on which node.
side_by_side  Logs side by side, with what differs: copies of a partition, partitions of a
              transaction.
transactions  The transactions around a finding: which were open when, where their records
              went, who received them.
"""
