"""What stands in logs and transactions around a finding.

choice        Which findings a log or a timeline is made for: the first examples of all classes, each
              once.
log_table     The log of a partition around a finding: what stands at each offset, who
              sent it, who read it.
transactions  The transactions around a finding: which were open when, where their records
              went, who received them.
"""
