"""Workloads: what the clients of a run do. One file each; file name = registry key = CLI value.

A workload is mostly a pure generator of ops and the session settings of each slot; the client loop
(`harness.client`) executes the ops. A workload imports no client, no clock and no thread.
"""
