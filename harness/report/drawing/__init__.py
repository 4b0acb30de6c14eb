"""Drawings over time, as SVG in the page: rows of bars and panels of lines on one axis of time.

around     What surrounds a finding: the ops of its witness, its transactions.
held       Who held a record when, and how a transaction ended.
panels     Lines of records, ops, latency, errors, and the ends of logs.
run        The whole run: phases, faults, stalls, clients, rates; leaders, replicas, ends of logs.
scales     Round numbers beside axes; values as paths.
small      A run in small, from its verdict: faults, stalls, times of findings.
strips     What a drawing consists of.

There is one drawing of each thing. It needs no script: it is complete on paper and where scripts are off.
`drawing.js` adds values at a cursor, zoom and pan to the same elements.
"""
