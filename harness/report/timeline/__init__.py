"""The run over time, as spans and numbers.

lanes            Lanes of the timeline, as spans that do not overlap: phases, faults, stalls,
                 clients.
numbers          The run over time, as numbers: ops and records per bin, latency, errors.
partitions       The partitions over time: leaders, in-sync replicas, ends of the logs.
"""
