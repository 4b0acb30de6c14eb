"""The harness as operating-system processes.

clocks      Whether the clocks of this machine went apart: the time was set, or the
            machine slept.
guard       A shell that acts for this process as soon as this process has ended.
interrupts  SIGINT and SIGTERM while a run or a soak is under way.
real_time   The real runtime: the wall clock, threads, and the signals of the user.
"""
