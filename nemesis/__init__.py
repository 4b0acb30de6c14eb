"""Nemeses: faults that are planned from a seed, aimed at roles, injected and always healed.

execute   Executing a plan: inject a fault, heal it, heal everything.
families  The families of faults, one module each.
registry  The registry of nemeses: every name that a run can be asked for.
schedule  Planning: from the name of a nemesis to the faults of a run, before anything is executed.
targets   Targets: from a symbolic name (`leader`, `controller`, …) to a node, with the roles of
          now.
types     What a fault is, from its plan to its healing: the types that all nemeses share.
written   Schedules in a file: a person wrote them, or a run recorded them. One fault a line.

A fault is a symbolic target, a pure plan and one small effect. Names on the command line are
`family[:kind][@target]`, comma-separated to compose; the seed draws what is left out. The run writes the
plan to `schedule.jsonl` before it executes anything, and records a fault that finds no target, or does
not come into force, as failed. A family never overlaps itself; a node that faults of several families
hold down starts after the last of them heals. An effect of several stages (a rolling restart, an unclean
election) waits by the run's clock and stops early when the run stops. Healing always happens.
"""
