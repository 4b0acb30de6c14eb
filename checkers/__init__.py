"""The checker: sealed history in, verdict out. Rules: docs/checks.md.

check(run)             judge a recorded run: checked/anomalies.parquet, verdict.json
check_portable(path)   judge portable histories: one answer a case
findings(tables)       keys of all findings of a history in memory
exit_code(...)         what a verdict comes to on the command line

Map of the package: `sealed` reads a run folder; `kernel*` judge one partition each; `whole`,
`cycles`, `groups` join partitions; `pipeline`, `spark` run kernels; `catalogue`, `known_bugs` say
what a finding means here; `lookup`, `sentences`, `witness` tell it; `verdict` sums up; `reference*`
is the slow oracle; `portable*` read histories of others.
"""

from checkers.judging import check, check_portable
from checkers.pipeline import findings
from checkers.sealed import HistoryError
from checkers.verdict import exit_code

__all__ = ["HistoryError", "check", "check_portable", "exit_code", "findings"]
