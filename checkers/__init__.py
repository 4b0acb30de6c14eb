"""The checker: sealed history in, verdict out. Rules: docs/checks.md.

check(run)             judge a recorded run: checked/anomalies.parquet, verdict.json
check_portable(path)   judge portable histories: one answer a case
findings(tables)       keys of all findings of a history in memory
"""

from checkers.pipeline import findings
from checkers.sealed import HistoryError

__all__ = ["HistoryError", "findings"]
