"""The checker: sealed history in, verdict out. Rules: docs/checks.md.

    from checkers import check
    result = check("results/latest")           # or tables: docs/library.md

allowed     Where Kafka allows what: the ground of a run, and the rules that several checks share.
api         The ways in: a recorded run, portable histories, and tables in memory.
caller_tables  Tables of a caller → a sealed run folder.
catalogue   All checks, every anomaly class by name, and whether a run permits a finding of it.
checks      The checks, one module each, and their registry.
early       Findings that are final before a run has ended.
engine      What carries the checks: the input of kernels, findings, and where they run.
faults      What the faults of a run did to it.
internal_topics  With what brokers create Kafka's own topics.
known_bugs  Known bugs of Kafka and its clients, recognised by evidence in the history of a run:
            one module a bug.
logs        Checks of evidence: what brokers left behind, and no client is asked.
log_settings  What the settings of a topic say of what its logs may lose.
recordings  Recordings of other programs, small histories that others wrote by hand, and what other
            checkers take.
registration  Whether faults explain that a broker could not register with the controller quorum.
run_source  Recorded runs as Spark DataFrames: one run, or a year of nights.
run_tables  The tables of recorded runs as people ask them: words for codes, seconds.
run_windows  The windows of a recorded run, from what is on record: faults, roles, ends of nodes.
verdict     The verdict of a run: what was found, whether it is allowed, what could not be decided.
windows     When records may have been taken off the logs of a run, and by what.

Two programs implement docs/checks.md: the kernels here and the slow oracle in tests/oracle; property
tests compare them on random histories. `valid` is true only if every check that applies decided and found
nothing forbidden. If faults were planned and none came into force, nothing is decided. A finding with the
signature of a known bug of Kafka or its client (docs/known-bugs.md) gets its label and stays invalid; any
other is open.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.api import Result, check

__all__ = ["Result", "check"]


def __getattr__(name: str) -> object:
    """`check` and `Result`, imported when they are used: most users of this package need one module of it."""
    if name in __all__:
        from checkers import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
