"""Run after run until a time budget is used up.

matrix     The matrix of a session: a TOML file that says what may be combined, and
             the order of the combinations.
runs       One run of a session: its process, its outcome, and what is kept of its
             folder.
scheduler  What to run next: a pure function of the session so far, of earlier
             sessions, and of the matrix.
serve      The results folder in a browser: `inquest serve`, read-only, on the
             loopback only.
session    A soak session from its first line to its last: `inquest soak`.
systems    What a session compares: versions, clients and clusters that perform the same
             runs.
"""
