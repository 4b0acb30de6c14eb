"""Messages and states around a finding of a simulated run; captured messages around one of any other run.

captured  Messages that were captured on a run's network, as a trace of what happened near
          certain moments.
diagram   Space-time diagrams: lanes side by side, time downwards, a row for each message
          and each step.
section   What the section of the report shows: the subject of each scene, its steps and its
          messages.
steps     What a simulated cluster did, step by step: one step for each event of a node that
          changed what matters.
"""
