"""A process that judges recorded runs, with a Spark session that is warm before the first one comes.

process  As its parent and those who ask it see it.
main     The process itself: `python -m harness.judging.main`.
words    What they say to each other.
"""
