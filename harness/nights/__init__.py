"""The sessions of a results folder: their logs, and the index, which shows what they come to.

cards        Runs at a glance: what each came to, and its drawing in small.
findings     The findings of all nights: a row is a known bug or a class of anomalies, a column a system.
github       A session in Markdown, appended to the file that `$GITHUB_STEP_SUMMARY` names.
headline     A session as the index shows it: what it came to, in words, the most severe first.
page         The index of a results folder: one self-contained page with its sessions, findings and
             runs.
runs         The runs of a results folder, as rows.
session_log  The log of a session: `nights/<utc>/night.jsonl`, one JSON line an event, written as it
             happens.
shares       What a share of the nights comes to: the work of one task.
side_by_side  Systems side by side: their runs by nemesis, and the bugs that they met.
totals       What all nights come to: workers read shares of them (Spark's, or this process), and these
             are added up.
trend        The trend over sessions: a few rows of columns, one column a session, as shapes that
             need no script.
"""
