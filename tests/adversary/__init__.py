"""An adversary of the checker: random runs of a small Kafka, with a naive judge of its own.

`python -m tests.adversary` runs many of them. docs/checks.md is the one thing that judge and checker share.

applications  Applications: instances, and what they leave.
application_classes  The judge's rules about applications.
campaign       Many histories: what differed, and what they covered.
classes        The judge's rules, class by class; groups and cycles have modules of their own.
clients        Lone clients of the small Kafka.
compaction     The judge's words about compacted topics.
compare        Judge against checker: differences, shrunk, as text.
cycle_classes  The judge's rules about cycles of dependencies.
deleted        The judge's words about what was deleted on purpose.
excused        What kernels, oracle and judge say of a history that is built by hand.
excuses        Windows in which a log may have lost its end, and what they excuse.
facts          The words of docs/checks.md, section 1.
faults         Faults that let Kafka lose what it may lose, and planted bugs.
group_classes  The judge's rules about groups, copies and transactional ids.
judge          What is permitted, what is undecided, and the verdict.
members        Members of groups.
metamorphic    Changes of a history that change no verdict.
noise          What no cluster did, in what was recorded.
removals       Records and topics that are deleted, and partitions whose last leader is gone.
rows           A history as plain rows, and what the checker says of it.
runs           Whole runs.
share_classes  The judge's rules about share groups.
shares         Share groups: locks, counts, acknowledgements.
sealed         What was recorded, as rows of the tables.
world          The cluster and its clock.
"""
