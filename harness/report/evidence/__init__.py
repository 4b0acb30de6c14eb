"""What stands in logs and transactions around a finding.

log_table     The log of a partition around a finding: what stands at each offset, who
              sent it, who read it.
transactions  The transactions around a finding: which were open when, where their records
              went, who received them.
"""
