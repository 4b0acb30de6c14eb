"""The run over time.

cluster_figures  The cluster over time, for plotly.js: leaders and in-sync replicas, and the
                 ends of the logs.
figures          The interactive timeline for plotly.js: lanes, and rates by bin.
lanes            Lanes of the timeline, as spans that do not overlap: phases, faults, stalls,
                 clients.
numbers          The run over time, as numbers: ops and records per bin, latency, errors.
partitions       The partitions over time: leaders, in-sync replicas, ends of the logs.
plots            What the figures for plotly.js share: bars on rows, panels of lines, the time
                 axis, the bands of faults.
"""
