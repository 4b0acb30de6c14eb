"""The checker: sealed history in, verdict out. Rules: docs/checks.md.

check(run)             judge a recorded run: checked/anomalies.parquet, verdict.json
check_portable(path)   judge portable histories: one answer a case
findings(tables)       keys of all findings of a history in memory
exit_code(...)         what a verdict comes to on the command line

Map of the package: `sealed` reads a run folder, `context` what kernels know beside their rows; `kernel*`
judge one partition each; `whole` joins partitions, with `cycles`, `groups`, `exactly_once`, `fencing`,
`stability`; `pipeline`, `spark` run kernels; `catalogue`, `rules`, `known_bugs` say what a finding means
here; `lookup`, `phrases`, `sentences*`, `witness` tell it; `liveness` tells how the run was served;
`verdict` sums up; `reference*` is the slow oracle; `portable*` read histories of others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkers.judging import check, check_portable
    from checkers.pipeline import findings
    from checkers.sealed import HistoryError
    from checkers.verdict import exit_code

_WHERE = {
    "check": "judging", "check_portable": "judging", "findings": "pipeline",
    "HistoryError": "sealed", "exit_code": "verdict",
}  # fmt: skip
__all__ = ["HistoryError", "check", "check_portable", "exit_code", "findings"]


def __getattr__(name: str) -> Any:
    """Imported when asked for (PEP 562): the catalogue alone needs neither pandas nor scipy."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
