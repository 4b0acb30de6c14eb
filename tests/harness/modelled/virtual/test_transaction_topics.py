"""Transactions that write to two topics are atomic over both, and one that is not is found."""

from typing import Any

import pytest

from core.config import RunConfig, run_config
from core.op import Isolation, Outcome, Phase
from harness.explore.profile import BASE, hunting, without_mutant
from harness.explore.trial import checked, findings
from harness.modelled.virtual.run import simulate
from history.journal_rows import rows_of

Rows = dict[str, list[dict[str, Any]]]
BOTH = {"transactions", "transactions-2"}
WITHIN = 8
"""Within so many runs the bug has to show over two topics. (The first one does.)"""


def ran(config: RunConfig) -> tuple[dict[str, list[tuple[int, ...]]], Rows]:
    """The keys of the forbidden findings of a run by class, and its rows."""
    done = simulate(config)
    tally = checked(done)
    assert not tally.crashed
    found: dict[str, list[tuple[int, ...]]] = {}
    for one in findings(done, tally):
        found.setdefault(one.name, []).append(one.key)
    return found, {name: table.to_pylist() for name, table in rows_of(done.journals).tables().items()}


def topics_of(rows: Rows, op: int, values: set[int] | None = None) -> set[str]:
    """The topics that an op wrote to; of these values alone, where they are given."""
    topics = {row["tp"]: row["topic"] for row in rows["tps"]}
    own = [row for row in rows["sends"] if row["op"] == op]
    return {topics[row["tp"]] for row in own if values is None or row["value"] in values}


@pytest.mark.sampled(8)
def test_a_committed_transaction_has_records_in_two_topics() -> None:
    settings = {"workload": "transactions", "nemesis": "none", "transaction_topics": 2, "duration_s": 4}
    found, rows = ran(run_config({**BASE, **settings, "seed": 2}))
    assert found == {}
    committed = [row["op"] for row in rows["ops"] if row["txn"] and row["outcome"] == Outcome.OK]
    assert [topics_of(rows, op) for op in committed].count(BOTH) > 3


@pytest.mark.sampled(19)
def test_a_transaction_that_is_visible_in_one_of_its_topics_is_torn() -> None:
    for number in range(WITHIN):
        config = hunting("partitions-not-logged", number).model_copy(
            update={"transaction_topics": 2, "partitions": 1}
        )
        found, rows = ran(config)
        shown = {
            row["value"]
            for row in rows["reads"]
            if row["phase"] == Phase.FINAL and row["isolation"] == Isolation.READ_COMMITTED
        }
        torn = [op for _, op in found.get("torn-txn", ()) if topics_of(rows, op) == BOTH]
        if torn:
            assert all(len(topics_of(rows, op, shown)) == 1 for op in torn)
            assert ran(without_mutant(config))[0] == {}
            return
    pytest.fail("no transaction was torn over two topics")
