"""The checker: sealed history in, verdict out. Rules: docs/checks.md.

    from checkers import check
    result = check("results/latest")           # or tables: docs/library.md

allowed     Where Kafka allows what: the ground of a run, and the rules that several checks share.
api         The ways in: a recorded run, portable histories, and tables in memory.
caller_tables  Tables of a caller → a sealed run folder.
caller_values  What values tables of a caller may have: codes that stand for something, numbers of
            rows that exist, and columns that say the same as the table they come from.
catalogue   Every anomaly class by name, and whether a run permits a finding of it.
checks      The checks, one module each, and their registry.
clients     The clients of a run as its history has them.
early       Findings that are final before a run has ended.
engine      What carries the checks: the input of kernels, findings, and where they run.
hits        What each fault hit: what was under way there, and what happened under it.
incidents   What happened in a run without being planned, and which checks it keeps from deciding.
judged_logs  What brokers' logs add to the verdict of a run: its section `logs`, and
            whether it counts.
known_bugs  Known bugs of Kafka and its clients, recognised by evidence in the history of a run:
            one module a bug.
liveness    How the cluster kept serving its producers, fault by fault.
logs        Judging the logs that brokers left behind: no client is asked.
mixed_clusters  Another cluster in a recording: where one answered, nothing that was found
            is this cluster's doing.
recordings  Recordings of other programs, small histories that others wrote by hand, and what other
            checkers take.
repeat      The command line that repeats a run.
run_source  Recorded runs as Spark DataFrames: one run, or a year of nights.
run_tables  The tables of recorded runs as people ask them: words for codes, seconds.
served      How much of a time lies within a second after an acknowledgement.
subjects    What a history holds that checks can judge; a check whose subject a run lacks is not
            asked.
verdict     The verdict: what was found, whether it is allowed, what could not be decided.
windows     When records may have been taken off the logs of a run, and by what.
witness     Examples of findings for people: the sentence, the ops and records, the faults in force.

Two programs implement docs/checks.md: the kernels here and the slow oracle in tests/oracle; property
tests compare them on random histories. `valid` is true only if every check that applies decided and found
nothing forbidden. If faults were planned and none came into force, nothing is decided. A finding with the
signature of a known bug of Kafka or its client (docs/known-bugs.md) gets its label and stays invalid; any
other is open.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkers.api import Result, check

__all__ = ["Result", "check"]


def __getattr__(name: str) -> Any:
    """`check` and `Result`, imported when they are used: most users of this package need one module of it."""
    if name in __all__:
        from checkers import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
