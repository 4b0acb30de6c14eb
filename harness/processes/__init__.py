"""The harness as operating-system processes.

child       A program that the harness holds by its standard input and output.
clocks      The clocks of this machine: whether they went apart, and which machine that is.
guard       A shell that acts for this process as soon as this process has ended.
interrupts  SIGINT and SIGTERM while a run or a soak is under way.
parent      The harness as its programs see it: commands on standard input, lines to standard output.
real_time   The real runtime: the wall clock, threads, and the signals of the user.
"""
