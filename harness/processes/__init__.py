"""The harness as operating-system processes.

cache       The cache folder of this user: resolved jars, locks. Everything in it can be deleted.
child       A program that the harness holds by its standard input and output.
clocks      The clocks of this machine: whether they went apart, and which machine that is.
commands    A program of this machine that runs for a bounded time, and ends well or is one clear error.
guard       A shell that acts for this process as soon as this process has ended.
interrupts  SIGINT and SIGTERM while a run or a soak is under way.
parent      The harness as its programs see it: commands on standard input, lines to standard output.
reaper      A process that clears up after a harness that was killed, as the harness holds it.
real_time   The real runtime: the wall clock, threads, and the signals of the user.
user_command  A command of the user's, run to its end: a hook, or the one that lists effects.
user_program  Programs of the user's: how they are named, and what they find in their environment.
waiting     Waiting: with a deadline for something that is not there yet, and for several things done at once.
"""
