"""Ring 3, clients: each rule fires, and is silent on the same run without the fault."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from checkers.engine.findings import Found
from checkers.logs.answers import CHECKS
from core.java_hash import java_hash
from core.op import CommitKind, Outcome, TopicPartition
from history.events import ClockJumped
from history.evidence import Evidence
from history.evidence_tables import END, KILLED, LOST_POWER
from history.reader import History, load
from history.tables import OPEN, TABLES
from tests.checkers.logs.made import at, of_all, tables
from tests.checkers.logs.test_decisions import BEGAN_MS, LOG, MS, P0, PRODUCER, Cluster
from tests.histories.built import Built, Commit, Op, Process, Send
from tests.histories.folders import write_run

OK, FAIL = Outcome.OK, Outcome.FAIL
COMMITS_S, ABORTS_S = 1, 2
"""When the transactions of `logs` begin."""


def logs(*, second_commits: bool = False) -> Cluster:
    cluster = Cluster()
    cluster.coordinator("Empty", BEGAN_MS)
    cluster.transaction(BEGAN_MS + 1000 * COMMITS_S, P0)
    cluster.transaction(BEGAN_MS + 1000 * ABORTS_S, P0, commit=second_commits)
    for row in cluster.made["transaction_log"]:
        row["transactional_id"] = "txn-0"
    return cluster


def led_to_the_end() -> Cluster:
    """The coordinator that wrote the newest record is the last one."""
    cluster = logs()
    cluster.made["transaction_log"][-1]["leader_epoch"] = 9
    return cluster


def clients(
    tmp_path: Path,
    *outcomes: tuple[int, Outcome],
    epoch: int = 0,
    fenced: bool = False,
    settings: dict[str, Any] | None = None,
) -> History:
    """One process, whose transactions began 0.1 s before these seconds and had these outcomes 0.3 s later."""
    ops = []
    for value, (second, outcome) in enumerate(outcomes):
        begin = second * 10**9 - 10**8
        mops: list[Any] = [Send(tp=0, value=value)]
        op = Op(process=0, f="txn", invoke=begin, complete=begin + 3 * 10**8, outcome=outcome, mops=mops)
        op.txn = True
        ops.append(op)
    built = Built(tps=["q"], ops=ops, processes={0: Process(txn_id=0)})
    history = load(write_run(tmp_path / "run", built.tables(), settings=settings))
    known = {"process": 0, "producer_id": PRODUCER, "producer_epoch": epoch, "epoch_cnt": 1, "ns": 1}
    made = dict(history.tables) | {"producers": pa.Table.from_pylist([known], TABLES["producers"])}
    names = history.names
    if fenced:
        names = msgspec.structs.replace(names, error=["_FENCED"])
        rows = history.tables["ops"].to_pylist()
        made["ops"] = pa.Table.from_pylist([row | {"error": 0} for row in rows], TABLES["ops"])
    return replace(history, tables=made, names=names)


def judged(cluster: Cluster, history: History) -> Found:
    return of_all(CHECKS, Evidence(tables(cluster.made)), history)


def found(cluster: Cluster, history: History) -> list[tuple[str, str]]:
    return [(each.check, each.transactional_id) for each in judged(cluster, history).in_logs]


def test_answers_that_the_log_confirms(tmp_path: Path) -> None:
    whole = judged(logs(), clients(tmp_path, (COMMITS_S, OK), (ABORTS_S, FAIL)))
    assert not whole.in_logs
    assert not whole.doubts
    assert whole.asked == {"answers-decided": 2, "identities-logged": 1}
    later = logs()
    later.coordinator("Empty", BEGAN_MS + 2100, epoch=1)
    later.made["transaction_log"][-1]["transactional_id"] = "txn-0"
    fenced = judged(later, clients(tmp_path / "1", (ABORTS_S, FAIL), fenced=True))
    assert not fenced.in_logs
    assert not fenced.doubts
    assert {*whole.asked, *fenced.asked} == set(CHECKS)


def test_without_clients_nothing_is_asked() -> None:
    assert not of_all(CHECKS, Evidence(tables(logs().made)), None).asked


def test_a_commit_that_the_log_does_not_have(tmp_path: Path) -> None:
    assert found(logs(), clients(tmp_path, (COMMITS_S, OK), (ABORTS_S, OK))) == [("answers-decided", "txn-0")]


@pytest.mark.parametrize(
    ("mops", "wanted"),
    [
        ([Send(tp=0, value=1, outcome=FAIL)], 0),
        ([Send(tp=0, value=1, outcome=FAIL), Send(tp=0, value=2, outcome=Outcome.INFO)], 1),
        ([Send(tp=0, value=1, outcome=FAIL), Commit(tp=0, offset=3, kind=CommitKind.TXN)], 1),
        ([Send(tp=0, value=1, outcome=FAIL), Commit(tp=0, offset=3, kind=CommitKind.FETCHED)], 0),
    ],
)
def test_a_commit_whose_records_all_failed_needs_no_coordinator(
    tmp_path: Path, mops: list[Any], wanted: int
) -> None:
    """librdkafka ends it on its own: no partition was added. A record in doubt needs a decision, and so do
    offsets that it takes along, not those that a member was told."""
    begin = ABORTS_S * 10**9 - 10**8
    op = Op(process=0, f="txn", invoke=begin, complete=begin + 3 * 10**8, outcome=OK, txn=True, mops=mops)
    built = Built(tps=["q"], ops=[op], processes={0: Process(txn_id=0, group=0)})
    history = load(write_run(tmp_path / "run", built.tables()))
    assert found(logs(), history) == [("answers-decided", "txn-0")] * wanted


def test_an_abort_that_the_log_has_as_a_commit(tmp_path: Path) -> None:
    history = clients(tmp_path, (COMMITS_S, OK), (ABORTS_S, FAIL))
    (finding,) = judged(logs(second_commits=True), history).in_logs
    assert (finding.check, finding.offset, finding.producer_id) == ("answers-decided", 5, PRODUCER)


def client_of(tmp_path: Path, begin_ms: int, end_ms: int, outcome: Outcome, epoch: int = 0) -> History:
    """One process with one transaction between these moments of the run."""
    history = clients(tmp_path, (1, outcome), epoch=epoch)
    rows = history.tables["ops"].to_pylist()
    times = {"invoke_ns": begin_ms * 10**6, "complete_ns": end_ms * 10**6}
    ops = pa.Table.from_pylist([row | times for row in rows], TABLES["ops"])
    return replace(history, tables={**history.tables, "ops": ops})


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "wrong"),
    [(900, 997, 0), (900, 996, 1), (1007, 1200, 0), (1008, 1200, 1), (1001, 1003, 0)],
)
@pytest.mark.parametrize("jump_ms", [0, 2000])
def test_a_commit_that_was_decided_while_its_client_waited_but_for_the_clocks(
    tmp_path: Path, jump_ms: int, begin_ms: int, end_ms: int, wrong: int
) -> None:
    """It was decided at 1002 ms; two clocks may differ by 5 ms, and by the jumps that the run notes."""
    at_ms = (
        (begin_ms + jump_ms, end_ms + jump_ms) if begin_ms > 1002 else (begin_ms - jump_ms, end_ms - jump_ms)
    )
    history = client_of(tmp_path, *at_ms, OK)
    jump = ClockJumped(before_ns=1, ns=2, wall_s=-jump_ms / 1000)
    history = replace(history, events=[*history.events, *([jump] if jump_ms else [])])
    assert len(found(logs(), history)) == wrong


def commits_of(tmp_path: Path, *spans: tuple[int, int], process: int = 0) -> History:
    """One process with a committed transaction in each of these spans (ms), one record each."""
    ops = []
    for value, (begin, end) in enumerate(spans):
        op = Op(process=process, f="txn", invoke=begin * MS, complete=end * MS, txn=True)
        op.mops = [Send(tp=0, value=value)]
        ops.append(op)
    built = Built(tps=["q"], ops=ops, processes={process: Process(txn_id=0)})
    return load(write_run(tmp_path / "run", built.tables()))


def jumped(history: History, ms: int) -> History:
    jump = ClockJumped(before_ns=1, ns=2, wall_s=-ms / 1000)
    return replace(history, events=[*history.events, jump])


@pytest.mark.parametrize(
    ("spans", "jump_ms", "wrong"),
    [
        ([(900, 1003), (1003, 1020)], 0, [1]),  # the decision at 1002 ms is that of the first one
        ([(900, 1003), (1006, 1020)], 0, [1]),
        ([(900, 1003), (1003, 2010)], 0, []),  # the second has the one at 2002 ms
        ([(900, 1000), (1001, 1001), (1900, 2010)], 0, [1]),
        ([(900, 1003), (1003, 1020)], 2000, []),  # it may be that of 2002 ms
        ([(900, 1003), (1003, 1020), (1020, 1030)], 2000, [2]),  # two decisions are not three
        ([(1003, 1020), (1990, 2010)], 2000, []),
    ],
)
def test_each_commit_needs_a_decision_of_its_own(
    tmp_path: Path, spans: list[tuple[int, int]], jump_ms: int, wrong: list[int]
) -> None:
    history = commits_of(tmp_path, *spans)
    whole = judged(logs(second_commits=True), jumped(history, jump_ms) if jump_ms else history)
    found = [int(one.text.split("op ")[1].split()[0]) for one in whole.in_logs]
    assert found == wrong
    assert whole.asked["answers-decided"] == len(spans)


@pytest.mark.parametrize(("outcome", "wrong"), [(FAIL, 0), (OK, 1)])
def test_a_commit_that_needs_no_decision_takes_none(tmp_path: Path, outcome: Outcome, wrong: int) -> None:
    """Where the records of the first one all failed, the decision is that of the second one."""
    spans = ((900, 1001, outcome), (1001, 1020, OK))
    ops = [
        Op(
            process=0, f="txn", invoke=begin * MS, complete=end * MS, txn=True,
            mops=[Send(tp=0, value=begin, outcome=how)],
        )
        for begin, end, how in spans
    ]  # fmt: skip
    built = Built(tps=["q"], ops=ops, processes={0: Process(txn_id=0)})
    assert len(found(logs(), load(write_run(tmp_path / "run", built.tables())))) == wrong


@pytest.mark.parametrize(
    ("identities", "wrong"),
    [
        ([(0, PRODUCER, 3), (1, PRODUCER, 0)], 1),  # the decision is of the other process's epoch
        ([(0, PRODUCER, 0), (1, PRODUCER, 0)], 0),
        ([(0, PRODUCER, 3)], 0),  # the process may have had another epoch before
        ([(1, PRODUCER, 1)], 0),
        ([(0, PRODUCER, 3), (1, PRODUCER + 1, 0)], 0),
    ],
)
def test_a_decision_of_the_epoch_of_another_process_is_that_of_its_transaction(
    tmp_path: Path, identities: list[tuple[int, int, int]], wrong: int
) -> None:
    """Two processes have one transactional id; the first has a commit while the second one's is decided."""
    op = Op(process=0, f="txn", invoke=1000 * MS, complete=1003 * MS, txn=True, mops=[Send(tp=0, value=1)])
    processes = {number: Process(txn_id=0, slot=number) for number in (0, 1)}
    history = load(write_run(tmp_path / "run", Built(tps=["q"], ops=[op], processes=processes).tables()))
    names = ("process", "producer_id", "producer_epoch")
    rows = [{**dict(zip(names, one, strict=True)), "epoch_cnt": 1, "ns": 9} for one in identities]
    made = dict(history.tables) | {"producers": pa.Table.from_pylist(rows, TABLES["producers"])}
    rules = [rule for rule, _ in found(logs(), replace(history, tables=made))]
    assert rules.count("answers-decided") == wrong


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "wrong"),
    [(1995, 2007, 1), (1996, 2007, 0), (1995, 2006, 0), (1100, 1900, 0), (2300, 2400, 0)],
)
def test_a_commit_that_began_and_ended_while_its_client_aborted(
    tmp_path: Path, begin_ms: int, end_ms: int, wrong: int
) -> None:
    """It began at 2000 ms and was decided at 2002 ms."""
    assert len(found(logs(second_commits=True), client_of(tmp_path, begin_ms, end_ms, FAIL))) == wrong


def test_a_transaction_that_was_begun_again_begins_where_its_records_do(tmp_path: Path) -> None:
    """The coordinator had begun one before the client's op, and gave it up."""
    cluster = Cluster()
    cluster.coordinator("Ongoing", BEGAN_MS + 3000, P0, start_ms=BEGAN_MS + 3000)
    cluster.transaction(BEGAN_MS + 3200, P0)
    for row in cluster.made["transaction_log"]:
        row["transactional_id"] = "txn-0"
    assert len(found(cluster, client_of(tmp_path, 3100, 3400, FAIL))) == 1


def test_a_commit_of_another_epoch_is_not_the_aborted_transaction(tmp_path: Path) -> None:
    history = client_of(tmp_path, 1900, 2400, FAIL, epoch=3)
    assert [rule for rule, _ in found(logs(second_commits=True), history)] == ["identities-logged"]


def test_what_a_client_learned_of_its_identity_after_the_end_says_nothing_of_a_transaction(
    tmp_path: Path,
) -> None:
    history = client_of(tmp_path, 1900, 2400, FAIL)
    (known,) = history.tables["producers"].to_pylist()
    for ns, asked in ((2400 * 10**6, 1), (2400 * 10**6 + 1, 0)):
        producers = pa.Table.from_pylist([known | {"ns": ns}], TABLES["producers"])
        later = replace(history, tables={**history.tables, "producers": producers})
        assert judged(logs(second_commits=True), later).asked["answers-decided"] == asked


def test_which_transactions_have_an_answer_that_the_log_must_have(tmp_path: Path) -> None:
    """One without an end, without records, or outside of a transaction has none."""
    history = client_of(tmp_path, 100, 200, OK)
    (op,) = history.tables["ops"].to_pylist()
    for changed, wrong in (({}, 1), ({"complete_ns": OPEN}, 0), ({"n_sends": 0}, 0), ({"txn": 0}, 0)):
        ops = pa.Table.from_pylist([op | changed], TABLES["ops"])
        assert len(found(logs(), replace(history, tables={**history.tables, "ops": ops}))) == wrong


def test_an_identity_that_a_client_does_not_have_yet_is_not_asked(tmp_path: Path) -> None:
    history = clients(tmp_path, (COMMITS_S, OK))
    (known,) = history.tables["producers"].to_pylist()
    for changed in ({"producer_id": -1}, {"producer_epoch": -1}):
        rows = pa.Table.from_pylist([known | changed], TABLES["producers"])
        whole = judged(logs(), replace(history, tables={**history.tables, "producers": rows}))
        assert not whole.in_logs
        assert not whole.asked["identities-logged"]


def test_an_epoch_that_the_log_does_not_have(tmp_path: Path) -> None:
    assert found(logs(), clients(tmp_path, (COMMITS_S, OK), epoch=3)) == [("identities-logged", "txn-0")]


@pytest.mark.parametrize(("next_id", "wrong"), [(PRODUCER + 1, 0), (PRODUCER, 1)])
def test_a_client_has_the_next_id_before_its_transaction_is_done(
    tmp_path: Path, next_id: int, wrong: int
) -> None:
    """The epochs of the id are used up: the decision names the next one, and the log ends with it."""
    cluster = logs()
    del cluster.made["transaction_log"][-1]
    cluster.made["transaction_log"][-1] |= {"next_producer_id": next_id, "next_producer_epoch": 0}
    history = clients(tmp_path, (COMMITS_S, OK))
    (known,) = history.tables["producers"].to_pylist()
    rows = pa.Table.from_pylist([known | {"producer_id": PRODUCER + 1}], TABLES["producers"])
    found = judged(cluster, replace(history, tables={**history.tables, "producers": rows}))
    assert [one.check for one in found.in_logs] == ["identities-logged"] * wrong
    assert found.asked["identities-logged"] == 1


def test_a_finding_about_an_id_with_one_record_is_in_its_partition(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.coordinator("Empty", BEGAN_MS)
    cluster.made["transaction_log"][-1]["transactional_id"] = "txn-0"
    history = clients(tmp_path, (COMMITS_S, FAIL), epoch=3)
    (finding,) = judged(cluster, history).in_logs
    assert (finding.check, finding.log, finding.nodes) == ("identities-logged", LOG, (1,))
    assert (finding.offset, finding.producer_id, finding.producer_epoch) == (-1, PRODUCER, 3)


def test_a_fenced_client_without_a_later_epoch(tmp_path: Path) -> None:
    history = clients(tmp_path, (ABORTS_S, FAIL), fenced=True)
    assert found(led_to_the_end(), history) == [("fencing-logged", "txn-0")]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"state": "Empty", "producer_id": PRODUCER, "producer_epoch": 1}, False),
        ({"state": "Empty", "producer_id": PRODUCER + 1, "producer_epoch": 0}, False),
        ({"state": "Empty", "producer_id": PRODUCER - 1, "producer_epoch": 0}, False),  # of another broker's
        ({"state": "Empty", "producer_id": PRODUCER, "producer_epoch": 0}, True),
        ({"state": None, "producer_id": None, "producer_epoch": None}, True),  # its id expired
    ],
)
def test_what_comes_after_the_identity_of_a_client_that_is_fenced(
    tmp_path: Path, row: dict[str, Any], found: bool
) -> None:
    cluster = led_to_the_end()
    cluster.coordinator("Empty", BEGAN_MS + 30_000)
    cluster.made["transaction_log"][-1] |= {"transactional_id": "txn-0", "leader_epoch": 9, **row}
    whole = judged(cluster, clients(tmp_path, (ABORTS_S, FAIL), fenced=True))
    assert [(one.check, one.offset) for one in whole.in_logs] == [("fencing-logged", -1)] * found
    assert not whole.doubts


@pytest.mark.parametrize("other", [PRODUCER - 1, PRODUCER + 1])
def test_a_producer_id_from_before_that_of_a_fenced_client_fenced_nobody(tmp_path: Path, other: int) -> None:
    """Ids are given in blocks to each broker: which is greater says nothing of which is later."""
    cluster = led_to_the_end()
    cluster.made["transaction_log"][0] |= {"producer_id": other, "producer_epoch": 32766}
    assert found(cluster, clients(tmp_path, (ABORTS_S, FAIL), fenced=True)) == [("fencing-logged", "txn-0")]


def test_a_coordinator_may_fence_before_its_log_has_the_epoch(tmp_path: Path) -> None:
    """A 3.9.1 broker did: its log accepted nothing for 27 s, while clients learned that they are fenced."""
    later = logs()
    later.coordinator("Empty", BEGAN_MS + 30_000, epoch=1)
    later.made["transaction_log"][-1]["transactional_id"] = "txn-0"
    assert not judged(later, clients(tmp_path, (ABORTS_S, FAIL), fenced=True)).in_logs


def test_a_coordinator_that_fenced_in_memory_may_be_gone(tmp_path: Path) -> None:
    gone = led_to_the_end()
    gone.elect(LOG, BEGAN_MS + 30_000, leader=2, isr=[1, 2, 3])
    whole = judged(gone, clients(tmp_path, (ABORTS_S, FAIL), fenced=True))
    assert not whole.in_logs
    assert [doubt.check for doubt in whole.doubts] == ["fencing-logged"]


def test_after_a_loss_of_power_the_log_may_lack_a_commit(tmp_path: Path) -> None:
    cluster = logs()
    cluster.made["takes"].append({"take": 0, "node": 2, "at_ns": 1, "why": LOST_POWER})
    whole = judged(cluster, clients(tmp_path, (ABORTS_S, OK)))
    assert not whole.in_logs
    assert [doubt.check for doubt in whole.doubts] == ["answers-decided"]


OTHER = TopicPartition(LOG.topic, 1)


def elsewhere(partition: dict[str, Any] | None, *, taken: str = END, named: str = "another") -> Cluster:
    """The first partition of the coordinators' log is whole, with an id of another client. partition: what
    the directory of the second one says, None = the evidence has none. taken: when."""
    cluster = Cluster()
    cluster.coordinator("Empty", BEGAN_MS)
    cluster.made["transaction_log"][-1]["transactional_id"] = named
    cluster.made["takes"].append({"take": 2, "node": 1, "at_ns": 1, "why": taken})
    if partition is not None:
        take = 1 if taken == END else 2
        row = at(OTHER, 1, take=take, **{"start": 0, "files": 1, "bytes": 9, **partition})
        cluster.made["partitions"].append(row)
    return cluster


def of_id(history: History, name: str) -> History:
    """The same of a client with this transactional id."""
    return replace(history, names=msgspec.structs.replace(history.names, txn_id=[name]))


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (elsewhere({}, taken=KILLED), "no node had this partition of the log at the end"),
        (elsewhere({"start": 40}), "the beginning of the transaction log is gone"),
        (elsewhere(None), "the evidence does not have __transaction_state-1"),
    ],
)
def test_an_id_without_a_record_may_be_in_a_log_that_is_not_whole(
    tmp_path: Path, cluster: Cluster, why: str
) -> None:
    assert java_hash("txn-0") % 2 == 1
    whole = judged(cluster, clients(tmp_path, (COMMITS_S, OK), fenced=True))
    assert not whole.in_logs
    assert {(doubt.check, doubt.log) for doubt in whole.doubts} == {(check, OTHER) for check in CHECKS}
    assert all(why in doubt.why for doubt in whole.doubts)


def test_an_id_without_a_record_is_missing_from_its_own_partition(tmp_path: Path) -> None:
    found = judged(elsewhere({}), clients(tmp_path, (COMMITS_S, OK)))
    places = {(one.check, one.log) for one in found.in_logs}
    assert places == {("answers-decided", OTHER), ("identities-logged", OTHER)}
    assert not found.doubts


def test_another_partition_excuses_no_id_of_a_whole_one(tmp_path: Path) -> None:
    assert java_hash("txn-1") % 2 == 0
    found = judged(elsewhere({"start": 40}), of_id(clients(tmp_path, (COMMITS_S, OK)), "txn-1"))
    assert {(one.check, one.log) for one in found.in_logs} == {
        ("answers-decided", LOG),
        ("identities-logged", LOG),
    }
    assert not found.doubts
