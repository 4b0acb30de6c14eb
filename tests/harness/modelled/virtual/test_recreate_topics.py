"""Simulated runs in which topics are deleted and made again, and what planted bugs make of it."""

from typing import Any

import pytest

from checkers.engine.check import Tally
from core.config import run_config
from harness.explore.profile import BASE
from harness.explore.trial import checked, counted, findings
from harness.modelled.virtual.run import Simulated, simulate
from history.events import FaultFailed
from history.journal_rows import rows_of
from history.tables import GONE


def run(nemesis: str, **settings: Any) -> tuple[Simulated, Tally]:
    done = simulate(run_config({**BASE, "nemesis": nemesis, "seed": 1, "duration_s": 10, **settings}))
    tally = checked(done, logs=True)
    assert not tally.crashed
    assert not [event.why for event in done.events if isinstance(event, FaultFailed)]
    return done, tally


@pytest.mark.sampled(8)
@pytest.mark.parametrize("workload", ["queue", "groups", "copier", "transactions", "fencing", "send-modes"])
def test_the_new_topic_is_judged_and_the_old_one_may_be_lost(workload: str) -> None:
    done, tally = run("recreate-topics:all", workload=workload)
    assert counted(findings(done, tally)) == {}
    assert not tally.refused
    of_namesakes = [doubt for doubt in tally.doubts if doubt.check == "replicas-equal"]
    assert all("had a log of that name before" in doubt.why for doubt in of_namesakes)
    # Modelled metadata records have no times: which topic of the name a transaction wrote to is not known.
    unmarked = [doubt for doubt in tally.doubts if doubt.check == "partitions-marked"]
    assert all(doubt.why.endswith("the topic was deleted, and created again") for doubt in unmarked)
    open_ = {"epochs-given", "consumed-kept", "replicas-equal", "partitions-marked"}
    assert {doubt.check for doubt in tally.doubts} <= open_
    tables = rows_of(done.journals).tables()
    names = {row["tp"]: row["topic"] for row in tables["tps"].to_pylist()}
    topics = {*names.values()}
    assert topics == {name for topic in topics if "~" not in topic for name in (topic, f"{topic}~1")}
    sent = {names[row["tp"]] for row in tables["sends"].to_pylist()}
    assert sent == topics
    final = {names[row["tp"]] for row in tables["reads"].to_pylist() if row["phase"] == 6}
    assert not any("~" in name for name in final)


@pytest.mark.sampled(5)
def test_a_broker_that_was_away_comes_back_with_logs_of_the_old_topic() -> None:
    done, tally = run("recreate-topics:away@leader", workload="queue", seed=2)
    assert counted(findings(done, tally)) == {}
    assert not tally.refused


@pytest.mark.sampled(5)
def test_logs_that_outlive_their_topic_are_found() -> None:
    done, tally = run("recreate-topics:all", mutant="deleted-topic-keeps-logs")
    assert "phantom-read" in counted(findings(done, tally))


@pytest.mark.sampled(13)
def test_offsets_that_outlive_their_topic_are_found() -> None:
    """Members begin at the old offset, commit it, and are reset, for the new log does not reach it."""
    done, tally = run(
        "recreate-topics:all", workload="groups", seed=3, mutant="deleted-topic-keeps-offsets", duration_s=15
    )
    assert {"phantom-commit", "offset-commit-regression"} <= counted(findings(done, tally)).keys()


@pytest.mark.sampled(2)
def test_ends_of_the_old_logs_are_behind_all_records() -> None:
    done, _ = run("recreate-topics:all")
    rows = rows_of(done.journals)
    rows.add_bounds([("queue", 0, level, 0, 7) for level in (0, 1)])
    tables = rows.tables()
    names = {row["tp"]: row["topic"] for row in tables["tps"].to_pylist()}
    for row in tables["bounds"].to_pylist():
        assert (row["start"] == GONE) == ("~" in names[row["tp"]])
