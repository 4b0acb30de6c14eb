"""What stands in logs and transactions around a finding.

choice        Which findings a log or a timeline is made for: the first examples of all classes, each
              once.
log_table     The log of a partition around a finding: what stands at each offset, who
              sent it, who read it.
replica_logs  Brokers' copies of a log around a place that a rule refuses: which batch
              stands where on which node.
transactions  The transactions around a finding: which were open when, where their records
              went, who received them.
"""
