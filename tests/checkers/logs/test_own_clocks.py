"""Rules that compare times, on clusters whose nodes may have clocks of their own: what no time can explain is
still found, all else is a doubt. With one clock of all machines the same logs are findings."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.engine.findings import Found
from checkers.logs import answers, decisions, lineage
from checkers.logs.clocks import OWN_CLOCKS
from core.op import Outcome
from history.evidence import Evidence
from history.reader import load
from history.tables import TABLES
from tests.checkers.logs.made import of_all, tables
from tests.checkers.logs.test_answers import COMMITS_S, clients, logs
from tests.checkers.logs.test_decisions import BEGAN_MS, P0, P1, Cluster
from tests.checkers.logs.test_lineage import Made, clean, read_to, sent
from tests.histories.built import Built, Process
from tests.histories.folders import write_run

OWN = {"sut": "external"}
ONE = {"sut": "external", "external": {"one_clock": True}}


def outcome(found: Found) -> tuple[set[str], set[str]]:
    """Rules that refuse something, and those that leave something open because of clocks."""
    refused = {each.check for each in found.in_logs}
    return refused, {doubt.check for doubt in found.doubts if OWN_CLOCKS in doubt.why}


def judged(tmp_path: Path, cluster: Cluster, settings: dict[str, Any]) -> Found:
    for row in cluster.made["transaction_log"]:
        row["transactional_id"] = "txn-0"
    built = Built(tps=[P0.topic], processes={0: Process(txn_id=0)})
    run = write_run(tmp_path / "run", built.tables(), settings=settings)
    return of_all(decisions.CHECKS, Evidence(tables(cluster.made)), load(run))


SHARED = {"decisions-agree", "marker-decided", "partitions-marked", "partitions-named"}
"""Rules that are open for a producer whose transactions share an epoch."""


def two(**transaction: int) -> Cluster:
    """Two transactions of one epoch. partition: by how much its leader's clock is ahead of the coordinator's,
    client: the one of the client; first, last: markers of them in P0."""
    cluster = Cluster()
    ahead, client = transaction.get("partition", 0), transaction.get("client", 0)
    for ms, markers in ((1000, transaction.get("first", 1)), (1020, transaction.get("last", 1))):
        cluster.coordinator("Ongoing", ms, P0, start_ms=ms)
        cluster.records(P0, ms + 1 + client)
        cluster.coordinator("PrepareCommit", ms + 2, P0, start_ms=ms)
        for _ in range(markers):
            cluster.marker(P0, ms + 3 + ahead, "COMMIT")
        cluster.coordinator("CompleteCommit", ms + 4, start_ms=ms)
    return cluster


@pytest.mark.parametrize("skew", [{"partition": -4}, {"client": 50}, {"client": 10, "partition": 10}])
def test_a_marker_or_a_record_at_a_time_of_another_clock(tmp_path: Path, skew: dict[str, int]) -> None:
    """A marker 1 ms older than its decision; records that seem to be of no transaction, or of the next."""
    assert outcome(judged(tmp_path / "own", two(**skew), OWN)) == (set(), SHARED)
    refused, open_ = outcome(judged(tmp_path / "one", two(**skew), ONE))
    assert refused
    assert not open_


def test_silence_of_times_proves_nothing(tmp_path: Path) -> None:
    assert outcome(judged(tmp_path / "own", two(), OWN)) == (set(), SHARED)
    assert outcome(judged(tmp_path / "one", two(), ONE)) == (set(), set())


@pytest.mark.parametrize(("start", "refused"), [(0, {"partitions-marked"}), (1, set())])
def test_fewer_markers_than_transactions_prove_nothing_where_the_beginning_is_gone(
    tmp_path: Path, start: int, refused: set[str]
) -> None:
    cluster = two(first=0, last=0)
    cluster.made["partitions"][1]["start"] = start
    found = judged(tmp_path, cluster, OWN)
    assert outcome(found)[0] == refused
    assert "partitions-marked" in {doubt.check for doubt in found.doubts}


def by_epochs(last_marker: bool) -> Cluster:
    """Transactions of version 2; all nodes and the client have other times."""
    cluster = Cluster()
    for epoch in (0, 1):
        ms, of = 1000 + 20 * epoch, {"start_ms": 1000 + 20 * epoch}
        cluster.coordinator("Ongoing", ms, P0, epoch=epoch, **of)
        cluster.records(P0, ms + 5000, epoch)
        cluster.coordinator("PrepareCommit", ms, P0, epoch=epoch + 1, client_transaction_version=2, **of)
        if epoch == 0 or last_marker:
            cluster.marker(P0, ms - 700, "COMMIT", epoch + 1)
        cluster.coordinator("CompleteCommit", ms, epoch=epoch + 1, **of)
    return cluster


@pytest.mark.parametrize("last_marker", [False, True])
def test_epochs_tell_transactions_apart_without_times(tmp_path: Path, last_marker: bool) -> None:
    wanted = set() if last_marker else {"partitions-marked"}
    assert outcome(judged(tmp_path, by_epochs(last_marker), OWN)) == (wanted, set())


def undecided() -> Cluster:
    """The second one was committed, and its marker aborts it."""
    cluster = two(last=0)
    cluster.marker(P0, 1023, "ABORT")
    return cluster


def elsewhere() -> Cluster:
    """The log decides an abort in another partition."""
    cluster = undecided()
    for state, ms in (("Ongoing", 900), ("PrepareAbort", 902), ("CompleteAbort", 904)):
        cluster.coordinator(state, ms, *([P1] if ms < 904 else []), start_ms=900)
    cluster.marker(P1, 903, "ABORT")
    return cluster


def unnamed() -> Cluster:
    """Records in a partition that no transaction names."""
    cluster = two()
    cluster.records(P1, 1001)
    return cluster


def late() -> Cluster:
    """A record after the markers of all transactions."""
    cluster = two()
    cluster.records(P0, 1021)
    return cluster


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (undecided, "marker-decided"),
        (elsewhere, "marker-decided"),
        (unnamed, "partitions-named"),
        (late, "partitions-marked"),
        (lambda: two(first=0), "partitions-marked"),
        (lambda: two(last=0), "partitions-marked"),
    ],
)
def test_what_no_time_explains_is_found(tmp_path: Path, made: Callable[[], Cluster], rule: str) -> None:
    refused, _ = outcome(judged(tmp_path / "own", made(), OWN))
    assert rule in refused
    assert rule in outcome(judged(tmp_path / "one", made(), ONE))[0]


def test_a_repeated_marker_may_stand_for_one_that_is_missing(tmp_path: Path) -> None:
    """Two markers for two transactions: which one has two is a matter of times."""
    assert outcome(judged(tmp_path / "own", two(first=2, last=0), OWN)) == (set(), SHARED)
    assert outcome(judged(tmp_path / "one", two(first=2, last=0), ONE))[0] == {"partitions-marked"}


def test_a_record_after_a_marker_may_be_of_a_transaction_that_is_still_open(tmp_path: Path) -> None:
    cluster = late()
    cluster.coordinator("Ongoing", 1040, P0, start_ms=1040)
    assert outcome(judged(tmp_path / "own", cluster, OWN)) == (set(), SHARED)
    assert outcome(judged(tmp_path / "one", cluster, ONE))[0] == {"partitions-marked"}


# ---- records


def of_lineage(tmp_path: Path, made: Made, settings: dict[str, Any], at_s: dict[int, int]) -> Found:
    history = sent(tmp_path, *at_s, at_s=at_s, settings=settings)
    return of_all(lineage.CHECKS, Evidence(tables(made)), history)


def stamped(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"log_append_time": True} for row in rows]


@pytest.mark.parametrize("by_broker", [False, True])
def test_the_time_of_a_broker_says_nothing_of_whose_record_it_is(tmp_path: Path, by_broker: bool) -> None:
    """The record at offset 6 was made at 6 s; a client had it acknowledged at 7 s."""
    made = clean()
    made["batches"] = stamped(made["batches"]) if by_broker else made["batches"]
    wanted = (set(), {"acknowledged-held"}) if by_broker else ({"acknowledged-held"}, set())
    assert outcome(of_lineage(tmp_path / "own", made, OWN, {6: 7})) == wanted
    assert outcome(of_lineage(tmp_path / "one", made, ONE, {6: 7})) == ({"acknowledged-held"}, set())
    assert outcome(of_lineage(tmp_path / "gone", made, OWN, {9: 9})) == ({"acknowledged-held"}, set())


@pytest.mark.parametrize(
    ("committed", "epoch", "s", "certain"),
    [
        (6, -1, 4, False),  # the record was made after the commit
        (6, 0, 4, True),  # and has a later epoch
        (10, -1, 4, True),  # the log ends before
    ],
)
def test_a_commit_before_its_record_was_made(
    tmp_path: Path, committed: int, epoch: int, s: int, certain: bool
) -> None:
    made = clean()
    made["offset_log"].append(read_to(committed, epoch, s))
    wanted = ({"consumed-kept"}, set()) if certain else (set(), {"consumed-kept"})
    assert outcome(of_lineage(tmp_path / "own", made, OWN, {})) == wanted
    assert outcome(of_lineage(tmp_path / "one", made, ONE, {})) == ({"consumed-kept"}, set())


def test_an_unclean_election_of_any_time_may_have_lost_a_record(tmp_path: Path) -> None:
    """By the controller's clock the old leader had heard of it long before the record was made."""
    made = clean()
    made["metadata"][1]["isr"] = [1]
    made["metadata"][2]["timestamp"] = BEGAN_MS + 1000
    made["metadata"].append(
        made["metadata"][2] | {"offset": 3, "leader": -2, "isr": [1, 2], "timestamp": BEGAN_MS + 2000}
    )
    found = of_lineage(tmp_path / "own", made, OWN, {9: 9})
    assert not found.in_logs
    assert "acknowledged-held" in {doubt.check for doubt in found.doubts}
    assert outcome(of_lineage(tmp_path / "one", made, ONE, {9: 9}))[0] == {"acknowledged-held"}


# ---- answers


def answered(tmp_path: Path, cluster: Cluster, ms: int, outcome_: Outcome, settings: dict[str, Any]) -> Found:
    """A client's transaction from this time of the run to 0.2 s later, by its clock."""
    history = clients(tmp_path, (1, outcome_), settings=settings)
    rows = history.tables["ops"].to_pylist()
    times = {"invoke_ns": ms * 10**6, "complete_ns": (ms + 200) * 10**6}
    ops = pa.Table.from_pylist([row | times for row in rows], TABLES["ops"])
    history = replace(history, tables={**history.tables, "ops": ops})
    return of_all(answers.CHECKS, Evidence(tables(cluster.made)), history)


def test_a_commit_that_was_decided_at_a_time_of_another_clock(tmp_path: Path) -> None:
    ms = 1000 * COMMITS_S - 250  # it ended 52 ms before it was decided
    found = answered(tmp_path / "own", logs(), ms, Outcome.OK, OWN)
    assert outcome(found) == (set(), {"answers-decided"})
    assert outcome(answered(tmp_path / "one", logs(), ms, Outcome.OK, ONE)) == ({"answers-decided"}, set())


def test_a_commit_that_was_never_decided(tmp_path: Path) -> None:
    cluster = logs()
    cluster.made["transaction_log"] = [
        row for row in cluster.made["transaction_log"] if row["state"] != "PrepareCommit"
    ]
    found = answered(tmp_path, cluster, 1000 * COMMITS_S - 100, Outcome.OK, OWN)
    assert outcome(found) == ({"answers-decided"}, set())


def test_an_abort_of_an_epoch_that_has_a_commit(tmp_path: Path) -> None:
    """Whether the commit lay within the op that failed, times alone would tell."""
    ms = 1000 * COMMITS_S - 100
    assert outcome(answered(tmp_path / "own", logs(), ms, Outcome.FAIL, OWN)) == (set(), {"answers-decided"})
    assert outcome(answered(tmp_path / "one", logs(), ms, Outcome.FAIL, ONE)) == ({"answers-decided"}, set())
    nothing = answered(tmp_path / "own2", aborted(), ms, Outcome.FAIL, OWN)
    assert outcome(nothing) == (set(), set())


def aborted() -> Cluster:
    cluster = Cluster()
    cluster.coordinator("Empty", BEGAN_MS)
    cluster.transaction(BEGAN_MS + 1000 * COMMITS_S, P0, commit=False)
    for row in cluster.made["transaction_log"]:
        row["transactional_id"] = "txn-0"
    return cluster
