"""Each kind of tampering is found at its place, in evidence that the rules accept.

`python -m tests.checkers.logs.tamper` does so at many places of real evidence; here it is one place a kind,
in simulated evidence.
"""

from functools import cache
from typing import Any

import pytest

from checkers.api import check_evidence
from core.config import run_config
from harness.explore.profile import BASE
from harness.modelled.virtual.evidence import evidence
from harness.modelled.virtual.run import simulate
from history.evidence import Evidence
from history.evidence_tables import PER_NODE, PER_PARTITION
from tests.checkers.logs.tamper import Judge, measure
from tests.checkers.logs.tampering import KINDS

RUNS: dict[str, dict[str, Any]] = {
    "kill": {"workload": "transactions", "nemesis": "kill:one"},
    "crash": {"workload": "transactions", "nemesis": "client:crash-in-transaction,pause"},
    "groups": {"workload": "groups", "nemesis": "client"},
}
OFTEN = {"era": "4.2-tv1", "batch_max": 2, "transaction_timeout_s": 1}
"""Many transactions under each producer epoch, small batches, and epochs that rise by time-outs."""


@cache
def judges() -> dict[str, Judge]:
    """The evidence of each run, and what the rules refuse in it."""
    made = {}
    for name, settings in RUNS.items():
        config = run_config({**BASE, **OFTEN, "preset": "safe", "duration_s": 6, "seed": 7, **settings})
        found = evidence(simulate(config, invariants=False).cluster)
        made[name] = Judge({table: found.table(table) for table in (*PER_PARTITION, *PER_NODE)})
    return made


@pytest.mark.sampled(6)
def test_the_rules_accept_the_evidence_as_it_is() -> None:
    assert not [one for judge in judges().values() for one in check_evidence(Evidence(judge.tables)).in_logs]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", KINDS)
def test_tampering_is_found_at_its_place(kind: str) -> None:
    score = measure(kind, judges(), 1)
    assert (score.tried, score.at_place) == (1, 1), score.missed
