"""What the faults of a run did to it.

availability  Served time: how much of a time lies within a second after an acknowledgement.
hits          What each fault hit: what was under way there, and what happened under it.
in_force      The faults of a run, and when each was in force.
liveness      How the cluster kept serving its producers, fault by fault.
reached       Facts that the run reached: how strong its verdict is.

Not here: which records faults may have taken off the logs (`checkers.windows`).
"""
