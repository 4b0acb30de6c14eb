"""Rules about decisions, where a producer may give records the time of what they were made of: applications,
copiers, programs of the user's. Of transactions that share an epoch, what times alone would say is a doubt;
what epochs, decisions and markers say is still found.

Not here: nodes with clocks of their own (`tests/checkers/logs/test_own_clocks.py`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs import decisions
from checkers.logs.clocks import COPIED
from core.op import TopicPartition
from history.evidence import Evidence
from history.reader import load
from tests.checkers.logs.made import of_all, tables
from tests.checkers.logs.test_decisions import LOG, P0, P1, Cluster, unclean
from tests.checkers.logs.test_own_clocks import elsewhere, late, two, undecided, unnamed
from tests.histories.built import Built, Process
from tests.histories.folders import write_run

CLIENT, OTHER = "txn-0", "app-7"
"""Transactional ids: of a client of the run, and of something else."""
SHARED = {"decisions-agree", "marker-decided", "partitions-marked", "partitions-named"}


def judged(
    tmp_path: Path, cluster: Cluster, name: str = OTHER, settings: dict[str, Any] | None = None
) -> Found:
    """name: the transactional id of its producer."""
    for row in cluster.made["transaction_log"]:
        row["transactional_id"] = name
    built = Built(tps=[P0.topic], processes={0: Process(txn_id=0)})
    run = write_run(tmp_path / name, built.tables(), settings=settings)
    return of_all(decisions.CHECKS, Evidence(tables(cluster.made)), load(run))


def refused(found: Found) -> set[str]:
    return {each.check for each in found.in_logs}


def left_open(found: Found) -> set[tuple[str, TopicPartition | None]]:
    """By what times cannot say."""
    return {(doubt.check, doubt.log) for doubt in found.doubts if COPIED in doubt.why}


def lagging(tp: TopicPartition, *, commit: bool = True, stamped: bool = False, epoch: int = 0) -> Cluster:
    """The second transaction begins at 200; its record, in `tp`, has the time 101 of its input, before the
    first one, over the first partition, was decided. stamped: but for a broker that gives the time of the
    append. epoch: of the second one."""
    cluster = Cluster()
    cluster.transaction(100, P0)
    end = "Commit" if commit else "Abort"
    of = {"epoch": epoch, "start_ms": 200}
    cluster.coordinator("Ongoing", 200, tp, **of)
    cluster.records(tp, 201 if stamped else 101, epoch, stamped=stamped)
    cluster.coordinator(f"Prepare{end}", 202, tp, **of)
    cluster.marker(tp, 203, end.upper(), epoch)
    cluster.coordinator(f"Complete{end}", 204, **of)
    for row in cluster.made["batches"]:
        row["log_append_time"] = stamped
    return cluster


@pytest.mark.parametrize(
    ("tp", "commit", "wrong"),
    [(P1, True, {"partitions-named"}), (P0, False, {"decisions-agree"}), (P0, True, set())],
)
def test_the_time_of_its_input_does_not_say_of_which_transaction_a_record_is(
    tmp_path: Path, tp: TopicPartition, commit: bool, wrong: set[str]
) -> None:
    found = judged(tmp_path, lagging(tp, commit=commit))
    assert not found.in_logs
    assert left_open(found) == {(rule, where) for rule in SHARED for where in {P0, tp}}
    by_client = judged(tmp_path, lagging(tp, commit=commit), CLIENT)
    assert refused(by_client) == wrong  # its clients have the time of the making
    assert not left_open(by_client)


def test_programs_of_the_user_may_give_records_any_time(tmp_path: Path) -> None:
    found = judged(tmp_path, lagging(P1), CLIENT, {"clients": "command"})
    assert not found.in_logs
    assert left_open(found) == {(rule, where) for rule in SHARED for where in (P0, P1)}


@pytest.mark.parametrize("cluster", [lagging(P1, epoch=1), lagging(P1, stamped=True)])
def test_where_no_copied_time_counts_nothing_is_open(tmp_path: Path, cluster: Cluster) -> None:
    """Epochs tell transactions apart; or a broker gave the time."""
    found = judged(tmp_path, cluster)
    assert not found.in_logs
    assert not found.doubts
    cluster.records(P1, 208, 9, stamped=True)
    assert refused(judged(tmp_path / "more", cluster)) == {"partitions-named"}


@pytest.mark.parametrize("epoch", [0, 9])
def test_the_time_of_its_input_does_not_say_that_a_loss_was_before_a_record(
    tmp_path: Path, epoch: int
) -> None:
    """What names the partition may be gone by an unclean election at 150; the record's time is 5000, for a
    client of the run that of its making. epoch: of the record."""
    cluster = Cluster()
    cluster.transaction(100, P0)
    cluster.records(P1, 5000, epoch)
    assert refused(judged(tmp_path / "before", cluster)) == {"partitions-named"}
    unclean(cluster)
    cluster.elect(LOG, 160, 7, [7, 1])
    cluster.elect(LOG, 170, 1, [7, 1])
    assert refused(judged(tmp_path, cluster, CLIENT)) == {"partitions-named"}
    found = judged(tmp_path, cluster)
    assert not found.in_logs
    assert "partitions-named" in {doubt.check for doubt in found.doubts}


@pytest.mark.parametrize("ahead", [-1000, 0, 1000])
@pytest.mark.parametrize(
    ("made", "rules"),
    [
        (undecided, {"marker-decided", "partitions-marked"}),
        (elsewhere, {"marker-decided", "partitions-marked"}),
        (unnamed, {"partitions-named"}),
        (late, {"partitions-marked"}),
        (lambda: two(first=0), {"partitions-marked"}),
        (lambda: two(first=2, last=0), {"partitions-marked"}),  # markers have times of brokers
    ],
)
def test_what_no_time_of_a_record_explains_is_found(
    tmp_path: Path, made: Callable[[], Cluster], rules: set[str], ahead: int
) -> None:
    cluster = made()
    for row in cluster.made["batches"]:
        row["base_timestamp"] += 0 if row.get("control") else ahead
    assert refused(judged(tmp_path, cluster)) == rules


@pytest.mark.parametrize("ahead", [-1000, 0, 1000])
def test_records_at_any_time_of_a_clean_run_are_no_finding(tmp_path: Path, ahead: int) -> None:
    found = judged(tmp_path, two(client=ahead))
    assert not found.in_logs
    assert left_open(found) == {(rule, P0) for rule in SHARED}


def test_both_results_of_one_transaction_are_found_by_its_own_markers(tmp_path: Path) -> None:
    """Its coordinator decided twice, and each decision has a marker."""
    cluster = Cluster()
    cluster.coordinator("Ongoing", 100, P0, P1, start_ms=100)
    for tp in (P0, P1):
        cluster.records(tp, 101)
    for end, tp, ms in (("Commit", P0, 102), ("Abort", P1, 104)):
        cluster.coordinator(f"Prepare{end}", ms, P0, P1, start_ms=100)
        cluster.marker(tp, ms + 1, end.upper())
    cluster.transaction(300, P0)
    assert "decisions-agree" in refused(judged(tmp_path, cluster))


@pytest.mark.parametrize(
    ("epoch", "more"), [(0, set()), (1, {"decisions-agree"})], ids=["one epoch", "epochs of their own"]
)
def test_what_a_later_marker_ends_is_known_by_epochs_alone(
    tmp_path: Path, epoch: int, more: set[str]
) -> None:
    """The first transaction has no marker in a partition; the second one's, which aborts, stands behind its
    records there."""
    cluster = Cluster()
    cluster.coordinator("Ongoing", 100, P0, P1, start_ms=100)
    for tp in (P0, P1):
        cluster.records(tp, 101)
    cluster.coordinator("PrepareCommit", 102, P0, P1, start_ms=100)
    cluster.marker(P0, 103, "COMMIT")
    cluster.coordinator("CompleteCommit", 104, start_ms=100)
    cluster.coordinator("Ongoing", 200, P1, epoch=epoch, start_ms=200)
    cluster.records(P1, 201, epoch)
    cluster.coordinator("PrepareAbort", 202, P1, epoch=epoch, start_ms=200)
    cluster.marker(P1, 203, "ABORT", epoch)
    cluster.coordinator("CompleteAbort", 204, epoch=epoch, start_ms=200)
    assert refused(judged(tmp_path, cluster)) == {"partitions-marked"} | more
    assert refused(judged(tmp_path, cluster, CLIENT)) == {"partitions-marked", "decisions-agree"}
