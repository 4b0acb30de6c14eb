"""The index of a results folder.

github  A session in Markdown, appended to the file that `$GITHUB_STEP_SUMMARY` names.
page    The index of a results folder: one self-contained page with its sessions, findings and
        runs.
tables  What a results folder holds, as pandas tables: its runs, their findings, and what
        these come to.
trend   The trend over sessions: a few rows of columns, one column a session, as shapes that
        need no script.
"""
