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

from checkers.judging import check, check_portable
from checkers.pipeline import findings
from checkers.sealed import HistoryError
from checkers.verdict import exit_code

__all__ = ["HistoryError", "check", "check_portable", "exit_code", "findings"]
