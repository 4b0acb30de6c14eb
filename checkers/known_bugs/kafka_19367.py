"""A coordinator raised the epoch of an open transaction twice when it aborted it."""

from itertools import pairwise
from typing import Final

from checkers.engine.findings import LogFinding
from checkers.known_bugs.broker_versions import Version
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.logs.classes import VIOLATION
from checkers.logs.transactions import transaction_logs
from model.accepting.transaction_log import EPOCH

SINCE: Final = (4, 0, 0)
"""The first version with transaction version 2."""
UNTIL: Final = (4, 0, 1)
"""The first one that raises it once."""


def _raised_twice(run: LabelledRun, finding: LogFinding) -> bool:
    """The record decides an abort, and its epoch is 2 higher than that of the open transaction before it; and
    some broker does so then."""
    if finding.check != EPOCH or not any(map(_raises_twice, run.versions.known)):
        return False
    rows = run.evidence.once(transaction_logs).rows.get(finding.transactional_id, ())
    return any(
        (before["state"], row["state"], row["offset"]) == ("Ongoing", "PrepareAbort", finding.offset)
        and row["producer_id"] == before["producer_id"]
        and row["producer_epoch"] == before["producer_epoch"] + 2
        and run.versions.some_between(_raises_twice, *[run.ns_of(row["timestamp"])] * 2)
        for before, row in pairwise(rows)
    )


def _raises_twice(version: Version) -> bool:
    return SINCE <= version < UNTIL


BUG: Final = KnownBug(
    title="An abort raises the epoch twice",
    link="KAFKA-19367",
    versions="brokers of 4.0.0 with transaction version 2",
    doc="""\
InitProducerId finds a transaction open. It raises the epoch, which fences the instance that has it, and
aborts the transaction. By transaction version 2 every end raises the epoch, and this one does so once more:
the new instance is answered an epoch that is 3 higher, and not 2. The version of the cluster decides:
instances that speak version 1 get this answer, too. No record is lost. What the JIRA says of epoch 32766,
which the second rise makes negative, so that the request fails, is not shown: it needs as many transactions.

Runs find it: `fencing` under `partition` (20 s, seed 5) had 13 such findings on 4.0.0 and no other one, and
was valid on 4.0.2.""",
    evidence="In `__transaction_state` the record of the finding is PrepareAbort, the one before it of that"
    " transactional id is Ongoing, both have the same producer id, and the epoch is 2 higher; and some broker"
    " had 4.0.0 when it was written.",
    in_logs={VIOLATION: _raised_twice},
)
