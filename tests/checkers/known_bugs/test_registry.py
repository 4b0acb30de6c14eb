"""Labels of known bugs: only on evidence; a labelled finding stays forbidden."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from checkers.checks.durability import LostWrite
from checkers.engine.evidence import FetchedRecords
from checkers.engine.findings import INFO, OK, Shown, What
from checkers.known_bugs.kafka_14402 import VERIFICATION
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.registry import KNOWN_BUGS
from checkers.known_bugs.transaction_fates import Suspicion
from core.cluster import OpenTransaction
from core.op import Isolation, Outcome, TopicPartition, value_of
from core.session import UNAWAITED
from core.wire import Seen
from history import evidence
from history.events import Event, RequestSeen, TransactionsOpen
from history.reader import load
from history.run_folder import Run
from history.tables import TABLES
from history.verdict import Verdict
from tests.checkers.known_bugs.test_uncommitted_state import BEGAN_MS, log, record, write_evidence
from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.checkers.logs.made import at, batch, whole
from tests.checkers.logs.made import tables as logs
from tests.histories.built import Bound, Built, Op, Process, Read, Send, final_reads
from tests.histories.folders import NAMES, RECOVERED, STARTED, check_run, write_run

S = 1_000_000_000


def judged(
    folder: Path, built: Built, producers: list[dict[str, int]] | None = None, first_error: str = ""
) -> Verdict:
    """first_error: of the op that ended first."""
    tables = built.tables()
    if first_error:
        rows = tables["ops"].to_pylist()
        rows[0]["error"] = NAMES["error"].index(first_error)
        tables["ops"] = pa.Table.from_pylist(rows, schema=TABLES["ops"])
    tables["producers"] = pa.Table.from_pylist(producers or [], schema=TABLES["producers"])
    return check_run(write_run(folder, tables))


def twice(*, idempotent: bool = True) -> Built:
    """Process 1 sends one record at 10 s, acknowledged at 14 s; the log holds it twice."""
    built = Built(tps=["x"])
    built.processes[1] = Process(idempotent=idempotent)
    op = Op(process=1, f="send", invoke=10 * S, complete=14 * S)
    op.mops = [Send(tp=0, value=value_of(1, 0), offset=3)]
    built.ops = [op]
    return final_reads(built, {0: [(1, value_of(1, 0)), (3, value_of(1, 0))]}, end=20)


def epochs(*changes: tuple[int, int], producer_id: int = 7) -> list[dict[str, int]]:
    """(epoch + 1, seconds) each. librdkafka raises the epoch alone: a broker answered InitProducerId once."""
    return [
        {"process": 1, "producer_id": producer_id, "producer_epoch": count - 1, "epoch_cnt": 1, "ns": at * S}
        for count, at in changes
    ]


@pytest.mark.parametrize(
    ("producers", "bug"),
    [
        (epochs((1, 2), (2, 12)), "librdkafka-4953"),
        (epochs((1, 2), (2, 15)), "librdkafka-4953"),  # statistics lag by a second
        (epochs((1, 2)), ""),
        (epochs((1, 2), (2, 5)), ""),  # before the record was sent
        (epochs((1, 2), (2, 40)), ""),  # long after it was acknowledged
        (epochs((1, 12)), ""),  # the first epoch is no bump
        (epochs((1, 2)) + epochs((2, 12), producer_id=8), ""),
        ([], ""),
    ],
)
def test_a_duplicate_after_an_epoch_bump_is_labelled(
    tmp_path: Path, producers: list[dict[str, int]], bug: str
) -> None:
    verdict = judged(tmp_path / "run", twice(), producers)
    duplicate = verdict.anomalies["duplicate"]
    assert (duplicate.known_bug, duplicate.examples[0].known_bug) == (bug, bug)
    assert (duplicate.allowed, verdict.valid, verdict.exit_code) == (False, False, 1)
    assert bool(duplicate.known_bug_url) is bool(bug)
    assert ("match known bug" in verdict.summary) is bool(bug)


@pytest.mark.parametrize(("bumped_s", "bug"), [(16, "librdkafka-4953"), (16.5, "")])
def test_a_record_in_doubt_is_under_way_until_its_op_ends(tmp_path: Path, bumped_s: float, bug: str) -> None:
    """It ended at 14 s; statistics lag by two seconds at most."""
    built = twice()
    (op, *_) = built.ops
    op.outcome, op.mops = Outcome.INFO, [Send(tp=0, value=value_of(1, 0), outcome=Outcome.INFO)]
    producers = epochs((1, 2), (2, 16))
    producers[-1]["ns"] = round(bumped_s * S)
    verdict = judged(tmp_path / "run", built, producers)
    assert verdict.anomalies["duplicate"].known_bug == bug


@pytest.mark.parametrize(("bumped_s", "bug"), [(17, "librdkafka-4953"), (21, "librdkafka-4953"), (30, "")])
def test_a_record_without_a_waiting_client_is_under_way_until_its_client_gives_it_up(
    tmp_path: Path, bumped_s: int, bug: str
) -> None:
    built = twice()
    (op, *_) = built.ops
    op.complete, op.outcome = 10 * S + 1, Outcome.INFO
    op.mops = [Send(tp=0, value=value_of(1, 0), outcome=Outcome.INFO)]
    verdict = judged(tmp_path / "run", built, epochs((1, 2), (2, bumped_s)), first_error=UNAWAITED)
    assert verdict.anomalies["duplicate"].known_bug == bug


def copied(*read: tuple[int, int]) -> Built:
    """The record of `twice`, read at these offsets and seconds (offset 3 is the acknowledged one)."""
    built = twice()
    for op in built.ops:
        if op.f == "final":
            op.mops = [Read(tp=0, offset=at, value=value_of(1, 0)) for at in sorted({1, 3, *dict(read)})]
    built.processes[4] = Process(slot=4, acks=-2)
    for offset, second in read:
        poll = Op(process=4, f="poll", invoke=second * S - S, complete=second * S)
        poll.mops = [Read(tp=0, offset=offset, value=value_of(1, 0))]
        built.ops.append(poll)
    return built


@pytest.mark.parametrize(
    ("built", "producers", "bug"),
    [
        (copied((1, 11), (3, 13)), epochs((1, 2), (2, 12)), "librdkafka-4953"),
        (
            copied((3, 12)),
            epochs((1, 2), (2, 14)),
            "librdkafka-4953",
        ),  # statistics lag by two seconds at most
        (copied((3, 11)), epochs((1, 2), (2, 14)), ""),  # the copy was there before the bump
        (copied((4, 15)), epochs((1, 2), (2, 12)), ""),  # three copies by one bump
        (copied((4, 15)), epochs((1, 2), (2, 12), (3, 13)), "librdkafka-4953"),
        (copied((4, 15)), epochs((1, 2), (3, 12)), "librdkafka-4953"),  # two bumps within a second
        (copied((4, 15)), epochs((1, 2), (2, 12), (3, 41)), ""),  # the second one came later
        (copied((3, 13), (4, 13)), epochs((1, 2), (2, 12), (3, 16)), ""),
        # four copies by three bumps; a finding shows four of the five records
        (copied((4, 15), (5, 15), (6, 15)), epochs((1, 2), (2, 12), (3, 13), (4, 14)), ""),
    ],
)
def test_each_bump_explains_one_copy_that_came_after_it(
    tmp_path: Path, built: Built, producers: list[dict[str, int]], bug: str
) -> None:
    assert judged(tmp_path / "run", built, producers).anomalies["duplicate"].known_bug == bug


@pytest.mark.parametrize(
    ("copies", "bug"),
    [
        ([(1, 7, 0), (3, 7, 1)], "librdkafka-4953"),
        ([(1, 7, 0), (3, 7, 0)], ""),  # the broker took the same batch twice
        ([(1, 7, 1), (3, 7, 0)], ""),
        ([(1, 7, 0), (3, 8, 1)], ""),
        ([(1, 7, 0)], "librdkafka-4953"),  # of one copy nothing is known
        ([(3, 7, 1)], "librdkafka-4953"),
        ([(0, 7, 1), (3, 7, 1)], "librdkafka-4953"),  # what stands before it is another record
    ],
)
def test_copies_in_the_log_have_each_its_own_epoch(
    tmp_path: Path, copies: list[tuple[int, int, int]], bug: str
) -> None:
    """copies: offset, producer id and epoch of batches in the log that the node has at the end."""
    tables = twice().tables()
    tables["producers"] = pa.Table.from_pylist(epochs((1, 2), (2, 12)), schema=TABLES["producers"])
    run = write_run(tmp_path / "run", tables)
    tp = TopicPartition("x", 0)
    rows = [batch(tp, 1, at, producer_id=id_, producer_epoch=epoch) for at, id_, epoch in copies]
    evidence.write(run.evidence, logs({"partitions": [whole(tp, 1)], "batches": rows}, [1]))
    assert check_run(run).anomalies["duplicate"].known_bug == bug


def test_a_transactional_producer_does_not_bump_its_epoch_alone(tmp_path: Path) -> None:
    built = twice()
    built.processes[1].txn_id = 0
    duplicate = judged(tmp_path / "run", built, epochs((1, 2), (2, 12))).anomalies["duplicate"]
    assert (duplicate.known_bug, duplicate.allowed) == ("", False)


def test_the_example_shows_the_identity_of_the_producer(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", twice(), epochs((1, 2), (2, 12), (3, 60)))
    (example,) = verdict.anomalies["duplicate"].examples
    assert example.producer == {"producer_id": 7, "epoch": 1, "epoch_cnt": 1}


def test_a_producer_without_idempotence_has_no_such_bug(tmp_path: Path) -> None:
    duplicate = judged(tmp_path / "run", twice(idempotent=False), epochs((1, 2), (2, 12))).anomalies[
        "duplicate"
    ]
    assert duplicate.known_bug == ""
    assert duplicate.allowed


def late_end(*, first: Outcome, slow_s: int, visible: tuple[int, ...], gone: tuple[int, ...] = ()) -> Built:
    """Two transactions of one id; the second one ends the other way, and of its records in partitions 0 and 1
    those in `visible` can be read. The others are hidden; the log has not those in `gone`."""
    built = Built(tps=["x", "y"])
    built.processes[1] = Process(txn_id=0)
    a = Op(process=1, f="txn", invoke=10 * S, complete=(11 + slow_s) * S, txn=True, outcome=first)
    a.mops = [Send(tp=0, value=value_of(1, 0), offset=0, ns=(10 * S, 11 * S))]
    second = Outcome.FAIL if first == Outcome.OK else Outcome.OK
    b = Op(process=1, f="txn", invoke=20 * S, complete=22 * S, txn=True, outcome=second)
    b.mops = [Send(tp=tp, value=value_of(1, 1 + tp), offset=5) for tp in (0, 1)]
    built.ops = [a, b]
    shown: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    hidden: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    (shown if first == Outcome.OK else hidden)[0].append((0, value_of(1, 0)))
    for tp in {0, 1} - {*gone}:
        (shown if tp in visible else hidden)[tp].append((5, value_of(1, 1 + tp)))
    return final_reads(built, shown, hidden, end=20)


def has_decided(run: Run, result: str) -> None:
    """The coordinators' log has this decision about x at 21 s, within the second transaction."""
    written = [
        record(9, "CompleteAbort"),
        record(20.1, "Ongoing", "x-0"),
        record(21, f"Prepare{result}", "x-0"),
    ]
    write_evidence(run, log(*written))


@pytest.mark.parametrize(
    ("first", "slow_s", "visible", "classes", "bug"),
    [
        (Outcome.OK, 4, (0,), {"aborted-read"}, "KAFKA-17754"),
        (Outcome.FAIL, 4, (1,), {"lost-write", "torn-txn"}, "KAFKA-17754"),
        (Outcome.OK, 1, (0,), {"aborted-read"}, ""),  # its end was not asked for twice
        (Outcome.OK, 4, (0, 1), {"aborted-read"}, ""),  # all of it is visible
    ],
)
def test_a_transaction_ended_by_the_end_of_its_predecessor_is_labelled(
    tmp_path: Path, first: Outcome, slow_s: int, visible: tuple[int, ...], classes: set[str], bug: str
) -> None:
    built = late_end(first=first, slow_s=slow_s, visible=visible)
    run = write_run(tmp_path / "run", built.tables())
    has_decided(run, "Commit" if first == Outcome.OK else "Abort")
    verdict = check_run(run)
    bad = {name: a for name, a in verdict.anomalies.items() if a.disallowed}
    assert set(bad) == classes
    assert {a.known_bug for a in bad.values()} == {bug}
    assert verdict.exit_code == 1


@pytest.mark.parametrize("settings", [{}, {"sut": "external"}])
def test_slowness_alone_explains_nothing_where_no_log_is_on_record(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    tables = late_end(first=Outcome.FAIL, slow_s=4, visible=(1,)).tables()
    found = check_run(write_run(tmp_path / "run", tables, settings=settings)).anomalies
    assert {name: a.known_bug for name, a in found.items() if a.disallowed} == {
        "lost-write": "",
        "torn-txn": "",
    }


@pytest.mark.parametrize(("visible", "gone"), [((1,), (0,)), ((0,), (1,))])
def test_a_late_end_takes_no_record_out_of_the_log(
    tmp_path: Path, visible: tuple[int, ...], gone: tuple[int, ...]
) -> None:
    """Neither a record that is missing at read_committed, nor any other of that transaction."""
    for slow_s, events in ((4, ()), (1, tuple(late_request("end_txn", NAMES["txn_id"][0])))):
        built = late_end(first=Outcome.FAIL, slow_s=slow_s, visible=visible, gone=gone)
        found = labels_of(tmp_path / str(slow_s), built, *events)
        assert found == {"lost-write": "", "torn-txn": ""}


def test_the_transaction_before_was_slow_and_its_ending_was_not(tmp_path: Path) -> None:
    built = late_end(first=Outcome.FAIL, slow_s=4, visible=(1,))
    (record,) = built.ops[0].mops
    assert isinstance(record, Send)
    record.ns = (10 * S, 14 * S)
    assert labels_of(tmp_path / "run", built) == {"lost-write": "", "torn-txn": ""}


@pytest.mark.parametrize(("acked_s", "bug"), [(21, "KAFKA-17754"), (20.5, "KAFKA-17754"), (20.2, "")])
def test_what_was_added_later_alone_keeps_its_own_ending(tmp_path: Path, acked_s: float, bug: str) -> None:
    """The record of y was acknowledged when that of x, which is lost, was not even sent: the request that
    ended the transaction in x would have ended it in y as well."""
    built = late_end(first=Outcome.FAIL, slow_s=4, visible=(1,))
    built.ops[1].mops = [
        Send(tp=0, value=value_of(1, 1), offset=5, ns=(round(20.5 * S), 21 * S)),
        Send(tp=1, value=value_of(1, 2), offset=5, ns=(20 * S, round(acked_s * S))),
    ]
    run = write_run(tmp_path / "run", built.tables())
    has_decided(run, "Abort")
    found = check_run(run).anomalies
    assert [found[name].known_bug for name in ("lost-write", "torn-txn")] == [bug, bug]


def late_request(api: str, named: str, *, caught_s: float = 11, comes_s: float = 21) -> list[RequestSeen]:
    """It waited, came, and was answered without an error."""
    return [
        taken("caught", caught_s, named=named, api=api),
        taken("delivered", comes_s, api=api),
        taken("answered", comes_s, error=0, api=api),
    ]


def labels_of(
    folder: Path, built: Built, *events: Event, producers: list[dict[str, int]] | None = None
) -> dict[str, str]:
    """Of each class that is not allowed."""
    tables = built.tables()
    tables["producers"] = pa.Table.from_pylist(producers or [], schema=TABLES["producers"])
    run = write_run(folder, tables, events=(STARTED, *events, RECOVERED))
    verdict = check_run(run)
    return {name: a.known_bug for name, a in verdict.anomalies.items() if a.disallowed}


def taken(what: str, second: float, **more: Any) -> RequestSeen:
    """What happened to an EndTxn that a rule of the wire took."""
    given: dict[str, Any] = {
        "rule": 0,
        "node": 1,
        "connection": 1,
        "api": "end_txn",
        "version": 1,
        "correlation_id": 5,
    }
    return RequestSeen(seen=Seen(ns=round(second * S), what=what, client_id="", **given | more))


@pytest.mark.parametrize(
    ("named", "comes_s", "error", "bug"),
    [
        (NAMES["txn_id"][0], 21, 0, "KAFKA-17754"),
        (NAMES["txn_id"][0], 15, 0, ""),  # no transaction was under way
        (NAMES["txn_id"][0], 21, 47, ""),  # INVALID_PRODUCER_EPOCH
        (NAMES["txn_id"][1], 21, 0, ""),  # of another producer
    ],
)
def test_a_request_that_a_rule_let_go_within_the_next_transaction_is_evidence(
    tmp_path: Path, named: str, comes_s: int, error: int, bug: str
) -> None:
    """Also where the client's connection was reset, so that it asked again at once."""
    seen = [
        taken("caught", 11, named=named),
        taken("delivered", comes_s),
        taken("answered", comes_s, error=error),
    ]
    tables = late_end(first=Outcome.OK, slow_s=1, visible=(0,)).tables()
    tables["producers"] = pa.Table.from_pylist([], schema=TABLES["producers"])
    run = write_run(tmp_path / "run", tables, events=(STARTED, *seen, RECOVERED))
    bad = [a for a in check_run(run).anomalies.values() if a.disallowed]
    assert [a.known_bug for a in bad] == [bug]


@pytest.mark.parametrize(("comes_s", "bug"), [(21, "KAFKA-17754"), (22, "KAFKA-17754"), (23, "")])
def test_a_request_that_came_when_the_transaction_had_ended_did_not_end_it(
    tmp_path: Path, comes_s: int, bug: str
) -> None:
    built = late_end(first=Outcome.OK, slow_s=1, visible=(0, 1))
    events = late_request("end_txn", NAMES["txn_id"][0], comes_s=comes_s)
    assert labels_of(tmp_path / "run", built, *events) == {"aborted-read": bug}


@pytest.mark.parametrize(("sent_s", "bug"), [(21, "KAFKA-17754"), (21.001, "")])
def test_what_a_late_end_ended_had_been_sent_when_it_was_answered(
    tmp_path: Path, sent_s: float, bug: str
) -> None:
    """It came and was answered at 21 s."""
    built = moved(late_end(first=Outcome.OK, slow_s=1, visible=(0,)), (sent_s, 21.5), (21.2, 21.5))
    assert labels_of(tmp_path / "run", built, *late_request("end_txn", NAMES["txn_id"][0])) == {
        "aborted-read": bug
    }


@pytest.mark.parametrize(("outcome", "bug"), [(Outcome.INFO, "KAFKA-17754"), (Outcome.FAIL, "")])
def test_a_late_end_hands_over_no_record(tmp_path: Path, outcome: Outcome, bug: str) -> None:
    """The record that is read was never handed over, or nobody knows."""
    built = late_end(first=Outcome.OK, slow_s=1, visible=(0,))
    built.ops[1].mops[0] = Send(tp=0, value=value_of(1, 1), outcome=outcome, ns=(20 * S, 22 * S))
    assert labels_of(tmp_path / "run", built, *late_request("end_txn", NAMES["txn_id"][0])) == {
        "aborted-read": bug
    }


def test_a_transaction_in_doubt_may_have_asked_for_an_abort(tmp_path: Path) -> None:
    built = late_end(first=Outcome.INFO, slow_s=1, visible=(1,))
    found = labels_of(tmp_path / "run", built, *late_request("end_txn", NAMES["txn_id"][0]))
    assert found == {"lost-write": "KAFKA-17754", "torn-txn": "KAFKA-17754"}


@pytest.mark.parametrize(("visible", "bug"), [((1,), "KAFKA-17754"), ((), "")])
def test_a_late_end_explains_no_loss_where_the_transaction_ended_as_it_should(
    tmp_path: Path, visible: tuple[int, ...], bug: str
) -> None:
    """A consumer got the record of y; that the final reads lack it has another cause than that of x."""
    built = late_end(first=Outcome.FAIL, slow_s=1, visible=visible)
    poll = Op(process=4, f="poll", invoke=23 * S, complete=24 * S)
    poll.mops = [Read(tp=1, offset=5, value=value_of(1, 2))]
    built.ops.append(poll)
    found = labels_of(tmp_path / "run", built, *late_request("end_txn", NAMES["txn_id"][0]))
    assert found == {"lost-write": bug, "torn-txn": "KAFKA-17754"}


def moved(built: Built, *sent: tuple[float, float]) -> Built:
    """The records of the second transaction were sent and acknowledged at these seconds."""
    for mop, (begin, end) in zip(built.ops[1].mops, sent, strict=True):
        assert isinstance(mop, Send)
        mop.ns = round(begin * S), round(end * S)
    return built


def ended_late(folder: Path, *, held: bool) -> Run:
    """A run in which a late abort may have ended the next transaction. held: by a rule on record; else
    its client was only slow."""
    built = late_end(first=Outcome.FAIL, slow_s=1 if held else 4, visible=(1,))
    tables = moved(built, (20, 20.5), (21.2, 21.5)).tables()
    tables["producers"] = pa.Table.from_pylist([], schema=TABLES["producers"])
    events = late_request("end_txn", NAMES["txn_id"][0]) if held else []
    return write_run(folder, tables, events=(STARTED, *events, RECOVERED))


def committed_before(built: Built) -> Built:
    """The first transaction was committed, and its record is visible."""
    built.ops[0].outcome = Outcome.OK
    for op in built.ops:
        if op.f == "final" and built.processes[op.process].isolation == Isolation.READ_COMMITTED:
            op.mops.insert(0, Read(tp=0, offset=0, value=value_of(1, 0)))
    return built


def after_abort(*visible: int) -> Built:
    """A commit after an abort that was quick: of its records in x and y those in `visible` can be read."""
    return late_end(first=Outcome.FAIL, slow_s=1, visible=visible)


def in_order(ordered: bool) -> Built:
    """A commit after an abort: the record of y, and one of two in x, can be read; that is the later one."""
    built = moved(after_abort(1), (20, 21.5), (20, 21.5))
    value, place = value_of(1, 9), 6 if ordered else 4
    built.ops[1].mops.append(Send(tp=0, value=value, offset=place, ns=(20 * S, round(21.5 * S))))
    for op in built.ops:
        if op.f == "final":
            op.mops.append(Read(tp=0, offset=place, value=value))
            op.mops.sort(key=lambda mop: (mop.tp, mop.offset) if isinstance(mop, Read) else (0, 0))
    return built


@pytest.mark.parametrize(
    ("built", "bug"),
    [
        (moved(after_abort(1), (20, 20.5), (21.2, 21.5)), "KAFKA-17754"),
        (moved(after_abort(1), (21.2, 21.5), (21.2, 21.5)), ""),  # it had sent nothing
        (moved(after_abort(1), (20, 20.5), (20, 20.5)), ""),  # y was in it, too
        (moved(after_abort(), (20, 20.5), (21.2, 21.5)), ""),
        (moved(after_abort(), (20, 20.5), (20, 20.5)), ""),  # the commit of what is aborted is refused
        (moved(after_abort(1), (20, 21.5), (20, 21.5)), "KAFKA-17754"),  # which came first is not known
        (in_order(True), "KAFKA-17754"),
        (in_order(False), ""),  # what came after the marker is hidden, and what came before it is not
        (moved(late_end(first=Outcome.OK, slow_s=1, visible=(0, 1)), (20, 20.5), (20, 20.5)), "KAFKA-17754"),
        (moved(late_end(first=Outcome.OK, slow_s=1, visible=(0, 1)), (20, 20.5), (21.2, 21.5)), ""),
    ],
)
def test_a_late_end_decides_what_was_there_when_it_came(tmp_path: Path, built: Built, bug: str) -> None:
    found = labels_of(tmp_path / "run", built, *late_request("end_txn", NAMES["txn_id"][0]))
    assert found
    assert set(found.values()) == {bug}


@pytest.mark.parametrize("visible", [0, 1])
def test_a_late_end_that_asked_for_the_same_explains_nothing(tmp_path: Path, visible: int) -> None:
    built = moved(late_end(first=Outcome.OK, slow_s=1, visible=(visible,)), (20, 20.5), (21.2, 21.5))
    built.ops[1].outcome = Outcome.OK
    late = late_request("end_txn", NAMES["txn_id"][0])
    assert labels_of(tmp_path / "run", built, *late) == {"lost-write": "", "torn-txn": ""}


def test_its_own_ending_that_came_late_is_no_late_end(tmp_path: Path) -> None:
    """The ending of the second transaction, which is in doubt, waited; it is torn."""
    built = moved(late_end(first=Outcome.OK, slow_s=1, visible=(0,)), (20, 20.3), (20.6, 20.8))
    built.ops[1].outcome = Outcome.INFO
    late = late_request("end_txn", NAMES["txn_id"][0], caught_s=20.5, comes_s=20.5)
    found = labels_of(tmp_path / "run", built, *late)
    assert ("torn-txn" in found, set(found.values())) == (True, {""})


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("decided", "bug"),
    [
        ((21, "PrepareAbort", ("x-0",)), "KAFKA-17754"),
        ((21, "PrepareCommit", ("x-0",)), ""),
        ((21, "PrepareAbort", ("y-0",)), ""),  # of another partition
        ((19, "PrepareAbort", ("x-0",)), ""),  # of the transaction before
        ((25, "PrepareAbort", ("x-0",)), ""),  # when it was committed
        (None, ""),
    ],
)
@pytest.mark.parametrize("held", [False, True])
def test_the_log_has_the_decision_that_the_late_request_caused(
    tmp_path: Path, decided: tuple[float, str, tuple[str, ...]] | None, bug: str, held: bool
) -> None:
    run = ended_late(tmp_path / "run", held=held)
    written = [record(9, "CompleteAbort"), record(20.1, "Ongoing", "x-0")]
    if decided is not None:
        at_s, state, names = decided
        written.append(record(at_s, state, *names))
    written.append(record(21.8, "PrepareCommit", "y-0"))
    write_evidence(run, log(*written))
    found = check_run(run).anomalies
    clients = {name: found[name].known_bug for name in ("lost-write", "torn-txn")}
    assert clients == {"lost-write": bug, "torn-txn": bug}


@pytest.mark.parametrize(("held", "bug"), [(False, ""), (True, "KAFKA-17754")])
@pytest.mark.parametrize("whole", [False, True])
def test_slowness_alone_explains_nothing_where_the_log_was_read_and_does_not_tell(
    tmp_path: Path, held: bool, bug: str, whole: bool
) -> None:
    """It has nothing of this id, or it is not known as a whole."""
    run = ended_late(tmp_path / "run", held=held)
    own = (
        replace(record(20.1, "Ongoing", "x-0"), transactional_id="another") if whole else record(9, "Ongoing")
    )
    write_evidence(run, log(own, whole=whole))
    found = check_run(run).anomalies
    assert {name: found[name].known_bug for name in ("lost-write", "torn-txn")} == {
        "lost-write": bug,
        "torn-txn": bug,
    }


@pytest.mark.sampled(5)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    ("before", "bug"),
    [
        ((2000, 0), "KAFKA-17754"),
        ((1999, 0), ""),  # of another producer: it was refused
        ((2000, -1), ""),  # of another epoch
        (None, "KAFKA-17754"),  # not on record
    ],
)
def test_a_late_end_has_the_identity_of_what_it_ends(
    tmp_path: Path, before: tuple[int, int] | None, bug: str, held: bool
) -> None:
    run = ended_late(tmp_path / "run", held=held)
    earlier = [record(9, "CompleteAbort")]
    if before:
        began = record(10.1, "Ongoing", "x-0", started_ms=BEGAN_MS + 10_100)
        earlier.append(replace(began, producer_id=before[0], producer_epoch=before[1]))
    now = {"started_ms": BEGAN_MS + 20_100}
    own = [record(20.1, "Ongoing", "x-0", **now), record(21, "PrepareAbort", "x-0", **now)]
    write_evidence(run, log(*earlier, *own))
    found = check_run(run).anomalies
    clients = {name: found[name].known_bug for name in ("lost-write", "torn-txn")}
    assert clients == {"lost-write": bug, "torn-txn": bug}


@pytest.mark.parametrize("what", ["answered", "lost"])
def test_a_late_request_whose_answer_is_not_known_proves_nothing(tmp_path: Path, what: str) -> None:
    built = after_abort(1)
    caught, delivered, _ = late_request("end_txn", NAMES["txn_id"][0])
    for events in ([caught, delivered], [caught, delivered, taken(what, 21)]):
        found = labels_of(tmp_path / str(len(events)), built, *events)
        assert found == {"lost-write": "", "torn-txn": ""}


@pytest.mark.parametrize(("comes_s", "read_s", "bug"), [(20.5, 21, "KAFKA-17754"), (21.5, 21, "")])
def test_what_was_read_too_early_is_explained_by_what_came_before(
    tmp_path: Path, comes_s: float, read_s: float, bug: str
) -> None:
    """The second transaction reads its own record; a late commit had ended it before, or did so later."""
    built = late_end(first=Outcome.OK, slow_s=1, visible=(0,))
    own = Read(tp=0, offset=5, value=value_of(1, 1), ns=(round(read_s * S) - 1, round(read_s * S)))
    built.ops[1].mops.append(own)
    moved_ = [mop for mop in built.ops[1].mops if isinstance(mop, Send)]
    moved_[0].ns, moved_[1].ns = (20 * S, round(20.3 * S)), (round(21.7 * S), round(21.9 * S))
    late = late_request("end_txn", NAMES["txn_id"][0], comes_s=comes_s)
    assert labels_of(tmp_path / "run", built, *late)["precommitted-read"] == bug


@pytest.mark.parametrize(("acknowledged", "bug"), [(False, "KAFKA-17754"), (True, "")])
def test_a_record_that_came_after_the_late_commit_was_refused(
    tmp_path: Path, acknowledged: bool, bug: str
) -> None:
    """In doubt, since the coordinator refuses its own ending: what was there is committed. A record of y is
    not in the log; where a broker acknowledged it, it was."""
    built = moved(late_end(first=Outcome.OK, slow_s=1, visible=(0,), gone=(1,)), (20, 20.5), (21.2, 21.5))
    built.ops[1].outcome = Outcome.INFO
    if not acknowledged:
        built.ops[1].mops[1] = Send(tp=1, value=value_of(1, 2), outcome=Outcome.INFO, ns=(21 * S, 22 * S))
    found = labels_of(tmp_path / "run", built, *late_request("end_txn", NAMES["txn_id"][0]))
    assert ("torn-txn" in found, set(found.values())) == (True, {bug})


@pytest.mark.parametrize(
    ("named", "caught_s", "comes_s", "error", "bug"),
    [
        ("producer 7/0, x-0", 11, 21, 0, "KAFKA-19446"),
        ("producer 7/0, x-0", 11, 25, 0, "KAFKA-19446"),  # before its own markers were written
        ("producer 7/0, x-0", 11, 15, 0, ""),  # no transaction was under way
        ("producer 7/0, x-0", 21, 21, 0, ""),  # its own marker
        ("producer 7/0, x-0", 11, 21, 47, ""),  # INVALID_PRODUCER_EPOCH
        ("producer 8/0, x-0", 11, 21, 0, ""),  # of another producer
        ("producer 7/1, x-0", 11, 21, 0, ""),  # of another epoch
        ("producer 7/0, y-0", 11, 21, 0, ""),  # for another partition
    ],
)
def test_a_marker_that_a_rule_let_go_within_the_next_transaction_is_evidence(
    tmp_path: Path, named: str, caught_s: int, comes_s: int, error: int, bug: str
) -> None:
    """The first transaction aborts; the second one commits, and its record in x is lost."""
    marker = {"api": "write_txn_markers"}
    seen = [
        taken("caught", caught_s, named=named, **marker),
        taken("delivered", comes_s, **marker),
        taken("answered", comes_s, error=error, **marker),
    ]
    tables = late_end(first=Outcome.FAIL, slow_s=1, visible=(1,)).tables()
    tables["producers"] = pa.Table.from_pylist(epochs((1, 2)), schema=TABLES["producers"])
    run = write_run(tmp_path / "run", tables, events=(STARTED, *seen, RECOVERED))
    bad = {name: a for name, a in check_run(run).anomalies.items() if a.disallowed}
    assert set(bad) == {"lost-write", "torn-txn"}
    assert {a.known_bug for a in bad.values()} == {bug}


MARKED_LATE = tuple(late_request("write_txn_markers", "producer 7/0, x-0"))


@pytest.mark.parametrize(
    ("built", "bug"),
    [
        (moved(after_abort(1), (20, 20.5), (20, 20.5)), "KAFKA-19446"),
        (moved(after_abort(1), (21.2, 21.5), (20, 20.5)), ""),  # x had no record of it when the marker came
        (moved(after_abort(0), (20, 20.5), (20, 20.5)), ""),  # it is lost in y
        (moved(late_end(first=Outcome.FAIL, slow_s=1, visible=(1,), gone=(0,)), (20, 20.5), (20, 20.5)), ""),
        (moved(late_end(first=Outcome.FAIL, slow_s=1, visible=(1,), gone=(1,)), (20, 20.5), (20, 20.5)), ""),
        (committed_before(moved(after_abort(1), (20, 20.5), (20, 20.5))), ""),  # it was no abort that came
    ],
)
def test_a_late_marker_decides_what_was_there_when_it_came(tmp_path: Path, built: Built, bug: str) -> None:
    found = labels_of(tmp_path / "run", built, *MARKED_LATE, producers=epochs((1, 2)))
    assert ("lost-write" in found, set(found.values())) == (True, {bug})


@pytest.mark.parametrize(
    ("second", "ns", "bug"),
    [
        ("visible", (21.2, 21.5), "KAFKA-19446"),  # sent after the marker, it has the transaction's own end
        ("hidden", (20.5, 20.8), "KAFKA-19446"),
        ("visible", (20.5, 20.8), ""),  # the marker that hid the first one would have hidden it, too
        ("hidden", (21.2, 21.5), ""),
        ("gone", (20.5, 20.8), ""),
    ],
)
def test_a_late_marker_decides_all_records_before_it_and_none_behind(
    tmp_path: Path, second: str, ns: tuple[float, float], bug: str
) -> None:
    built = moved(after_abort(1), (20, 20.5), (20, 20.5))
    value = value_of(1, 9)
    built.ops[1].mops.append(Send(tp=0, value=value, offset=6, ns=(round(ns[0] * S), round(ns[1] * S))))
    for op in built.ops:
        level = built.processes[op.process].isolation if op.f == "final" else None
        if (second == "visible" and level is not None) or (
            second == "hidden" and level == Isolation.READ_UNCOMMITTED
        ):
            last = max((at for at, mop in enumerate(op.mops) if mop.tp == 0), default=-1)
            op.mops.insert(last + 1, Read(tp=0, offset=6, value=value))
    found = labels_of(tmp_path / "run", built, *MARKED_LATE, producers=epochs((1, 2)))
    assert found == {"lost-write": bug, "torn-txn": bug}


@pytest.mark.parametrize(
    ("first", "comes_s", "sent_s", "bug"),
    [
        (Outcome.OK, 20.5, 20, "KAFKA-19446"),
        (Outcome.OK, 21.5, 20, ""),
        (Outcome.FAIL, 20.5, 20, ""),  # a marker that aborts shows nothing
        (Outcome.OK, 20.5, 20.7, ""),  # the record was sent after it came
    ],
)
def test_a_late_marker_came_before_what_was_read_too_early(
    tmp_path: Path, first: Outcome, comes_s: float, sent_s: float, bug: str
) -> None:
    visible = (0,) if first == Outcome.OK else (0, 1)  # what the second one committed
    built = moved(late_end(first=first, slow_s=1, visible=visible), (sent_s, 20.9), (20, 20.3))
    built.ops[1].mops.append(Read(tp=0, offset=5, value=value_of(1, 1), ns=(21 * S - 1, 21 * S)))
    late = late_request("write_txn_markers", "producer 7/0, x-0", comes_s=comes_s)
    assert labels_of(tmp_path / "run", built, *late, producers=epochs((1, 2)))["precommitted-read"] == bug


def with_another(built: Built, *, offset: int, ns: tuple[int, int]) -> int:
    """The second transaction, which commits, has another record in partition 0: the value of that."""
    value = value_of(1, 9)
    built.ops[1].outcome = Outcome.OK
    built.ops[1].mops.append(Send(tp=0, value=value, offset=offset, ns=ns))
    for op in built.ops:
        if op.f == "final":
            own = [mop for mop in op.mops if isinstance(mop, Read) and mop.offset != 5]
            both = [(0, 5, value_of(1, 1)), (0, offset, value), (1, 5, value_of(1, 2))]
            op.mops = [*own, *(Read(tp=tp, offset=place, value=one) for tp, place, one in both)]
    return value


@pytest.mark.parametrize(("sent_s", "bug"), [(20.4, "KAFKA-19446"), (20.6, "")])
def test_the_record_itself_was_sent_before_the_late_marker_was_written(
    tmp_path: Path, sent_s: float, bug: str
) -> None:
    """Another one of its transaction was: the marker that came at 20.5 s ended that one."""
    built = moved(late_end(first=Outcome.OK, slow_s=1, visible=(0,)), (20, 20.2), (20, 20.3))
    value = with_another(built, offset=7, ns=(round(sent_s * S), round(20.8 * S)))
    built.ops[1].mops.append(Read(tp=0, offset=7, value=value, ns=(21 * S - 1, 21 * S)))
    late = late_request("write_txn_markers", "producer 7/0, x-0", comes_s=20.5)
    assert labels_of(tmp_path / "run", built, *late, producers=epochs((1, 2))) == {"precommitted-read": bug}


@pytest.mark.parametrize("twin", [False, True])
def test_another_process_has_fenced_the_end_of_its_predecessor(tmp_path: Path, twin: bool) -> None:
    """Also where a twin, another slot with the same transactional id, had a transaction in between."""
    built = late_end(first=Outcome.FAIL, slow_s=4, visible=(1,))
    built.processes[2] = Process(txn_id=0)
    built.ops[1].process = 2
    if twin:
        built.processes[3] = Process(txn_id=0, slot=1)
        between = Op(process=3, f="txn", invoke=16 * S, complete=17 * S, txn=True)
        between.mops = [Send(tp=0, value=value_of(3, 0), offset=2)]
        built.ops.append(between)
        for op in built.ops:
            if op.f == "final":
                op.mops.append(Read(tp=0, offset=2, value=value_of(3, 0)))
                op.mops.sort(key=lambda mop: (mop.tp, mop.offset) if isinstance(mop, Read) else (0, 0))
    verdict = judged(tmp_path / "run", built)
    bugs = {name: a.known_bug for name, a in verdict.anomalies.items() if a.disallowed}
    assert bugs == {"lost-write": "", "torn-txn": ""}


def test_a_predecessor_that_ended_the_same_way_explains_nothing(tmp_path: Path) -> None:
    built = late_end(first=Outcome.OK, slow_s=4, visible=(0,))
    built.ops[1].outcome = Outcome.OK
    verdict = judged(tmp_path / "run", built)
    assert {a.known_bug for a in verdict.anomalies.values() if a.disallowed} == {""}


@pytest.mark.parametrize(
    ("failed", "bug"),
    [(True, "KAFKA-17754"), (False, "")],  # else it was aborted on purpose: no commit was under way
)
def test_a_commit_that_failed_and_was_followed_by_an_abort_may_end_the_next_transaction(
    tmp_path: Path, failed: bool, bug: str
) -> None:
    built = late_end(first=Outcome.OK, slow_s=4, visible=(0,))
    first = built.ops[0]
    first.outcome, first.deliberate = Outcome.FAIL, not failed
    tables = finals_without(built, value_of(1, 0)).tables()
    if failed:
        ops = tables["ops"].to_pylist()
        ops[0]["error"] = 0
        tables["ops"] = pa.Table.from_pylist(ops, schema=TABLES["ops"])
    run = write_run(tmp_path / "run", tables)
    has_decided(run, "Commit")
    aborted = check_run(run).anomalies["aborted-read"]
    assert (aborted.disallowed, aborted.known_bug) == (1, bug)


@pytest.mark.parametrize(("clients", "bug"), [("", "KAFKA-17754"), ("command", "")])
def test_when_a_program_asks_again_is_not_known(tmp_path: Path, clients: str, bug: str) -> None:
    tables = late_end(first=Outcome.FAIL, slow_s=4, visible=(1,)).tables()
    run = write_run(tmp_path / "run", tables, settings={"clients": clients})
    has_decided(run, "Abort")
    found = check_run(run).anomalies
    assert [found[name].known_bug for name in ("lost-write", "torn-txn")] == [bug, bug]


def finals_without(built: Built, value: int) -> Built:
    """The final reads do not show this value."""
    for op in built.ops:
        op.mops = [mop for mop in op.mops if not (isinstance(mop, Read) and mop.value == value)]
    return built


def fresh(
    *sent: tuple[int, int | None],
    earlier: bool = False,
    idempotent: bool = True,
    told: dict[int, int] | None = None,
) -> Built:
    """Process 1 creates x and sends it these records at once, pipelined: (n, offset in the log or None).
    All are acknowledged; those that are lost were so implicitly, without an offset, but those `told`."""
    built = Built(tps=["x"])
    built.processes[1] = Process(idempotent=idempotent)
    built.processes[2] = Process()
    create = Op(process=1, f="assign", invoke=8 * S, complete=9 * S)
    op = Op(process=1, f="send", invoke=10 * S, complete=14 * S)
    op.mops = [
        Send(
            tp=0,
            value=value_of(1, n),
            offset=(told or {}).get(n, -1) if at is None else at,
            outcome=Outcome.OK,
        )
        for n, at in sent
    ]
    built.ops = [create, op]
    shown = [(at, value_of(1, n)) for n, at in sent if at is not None]
    if earlier:
        other = Op(process=2, f="send", invoke=1 * S, complete=2 * S)
        other.mops = [Send(tp=0, value=value_of(2, 0), offset=0)]
        built.ops.append(other)
        shown.insert(0, (0, value_of(2, 0)))
    return final_reads(built, {0: shown}, end=20)


@pytest.mark.parametrize(
    ("built", "bug"),
    [
        (fresh((0, None), (1, 1)), "KAFKA-15591"),
        (fresh((0, None), (1, None), (2, None), (3, 0), (4, 1)), "KAFKA-15591"),
        (fresh((0, None), (1, 1), earlier=True), ""),  # the partition had been written to
        (fresh((0, None), (1, None)), ""),  # nothing of the producer is there
        (fresh((0, 0), (1, None), (2, 1)), ""),  # the hole is not at the beginning
        (fresh((0, None), (1, 1), idempotent=False), ""),
        (fresh((0, None), (1, 1), told={0: 0}), ""),  # a broker had appended it, and lost it
        (fresh((0, 0), *((n, None) for n in range(1, 80)), (80, 1)), ""),
    ],
)
def test_the_first_records_of_a_fresh_partition(tmp_path: Path, built: Built, bug: str) -> None:
    verdict = judged(tmp_path / "run", built)
    lost = verdict.anomalies["lost-write"]
    assert (lost.known_bug, lost.allowed, verdict.exit_code) == (bug, False, 1)


@pytest.mark.parametrize(("outcome", "offset", "bug"), [(OK, -1, True), (OK, 0, False), (INFO, -1, False)])
def test_without_an_acknowledgement_none_was_inferred(
    tmp_path: Path, outcome: int, offset: int, bug: bool
) -> None:
    """Also of a transaction in doubt that took effect elsewhere, where a recording has no final reads."""
    history = load(write_run(tmp_path / "run", fresh((0, None), (1, 1)).tables()))
    sent = Shown(0, What.SEND, 0, value_of(1, 0), offset, process=1, outcome=outcome)
    lost = LostWrite(
        key=(0, sent.value), process=1, records=(sent,), log_end=2, fresh=True, first=True, withheld=False
    )
    run = LabelledRun(history, evidence.Evidence({}))
    assert KNOWN_BUGS["KAFKA-15591"].match(Suspicion(run, lost, FetchedRecords())) is bug


@pytest.mark.parametrize(
    ("settings", "bug"),
    [
        ({"clients": "command"}, ""),  # it need not know any offset
        ({"kafka": "2.4.1"}, ""),
        ({"kafka": "2.5.1"}, "KAFKA-15591"),
        ({"sut": "external"}, ""),
    ],
)
def test_the_first_record_is_lost_so_by_librdkafka_and_brokers_that_do_it(
    tmp_path: Path, settings: dict[str, Any], bug: str
) -> None:
    run = write_run(tmp_path / "run", fresh((0, None), (1, 1)).tables(), settings=settings)
    assert check_run(run).anomalies["lost-write"].known_bug == bug


@pytest.mark.parametrize(("polled", "bug"), [(False, "KAFKA-15591"), (True, "")])
def test_a_record_that_a_consumer_got_was_in_the_log(tmp_path: Path, polled: bool, bug: str) -> None:
    built = fresh((0, None), (1, 1))
    built.processes[4] = Process(slot=4, acks=-2)
    poll = Op(process=4, f="poll", invoke=20 * S, complete=21 * S)
    poll.mops = [Read(tp=0, offset=0, value=value_of(1, 0))] if polled else []
    built.ops.append(poll)
    assert labels_of(tmp_path / "run", built)["lost-write"] == bug


def test_with_one_request_in_flight_no_second_batch_can_overtake_the_first(tmp_path: Path) -> None:
    built = fresh((0, None), (1, 1))
    built.processes[1].in_flight = 1
    lost = judged(tmp_path / "run", built).anomalies["lost-write"]
    assert (lost.known_bug, lost.allowed) == ("", False)


def test_losses_and_duplicates_of_one_burst_have_each_its_own_bug(tmp_path: Path) -> None:
    """Refused out of order in one partition, the producer bumps its epoch and doubles records of another."""
    built = fresh((0, None), (1, 1))
    built.tps.append("y")
    burst = Op(process=1, f="send", invoke=10 * S, complete=14 * S)
    burst.mops = [Send(tp=1, value=value_of(1, 9), offset=1)]
    built.ops.append(burst)
    doubled = [(0, value_of(1, 9)), (1, value_of(1, 9))]
    for op in built.ops:
        if op.f == "final":
            op.mops += [Read(tp=1, offset=offset, value=value) for offset, value in doubled]
            level = built.processes[op.process].isolation
            built.bounds.append(Bound(tp=1, isolation=level, end=20, read_to=20))
    verdict = judged(tmp_path / "run", built, epochs((1, 2), (2, 12)))
    bugs = {name: a.known_bug for name, a in verdict.anomalies.items() if a.disallowed}
    assert bugs == {"lost-write": "KAFKA-15591", "duplicate": "librdkafka-4953"}
    alone = judged(tmp_path / "alone", built, epochs((1, 2)))
    bugs = {name: a.known_bug for name, a in alone.anomalies.items() if a.disallowed}
    assert bugs == {"lost-write": "KAFKA-15591", "duplicate": ""}


def hanging(
    folder: Path,
    settings: dict[str, Any],
    *rows: OpenTransaction,
    acknowledged: Send | None = None,
    outcome: Outcome = Outcome.FAIL,
    txn: bool = True,
    events: Sequence[Event] = (STARTED, RECOVERED),
) -> Verdict:
    """A log that ends at 20, and whose last stable offset is 5: there stands a record of a transaction that
    was aborted, which no broker acknowledged."""
    late = value_of(2, 0)
    built = final_reads(Built(tps=["x"]), {0: [(0, value_of(1, 0))]}, {0: [(5, late)]}, end=20)
    send = Op(process=1, f="send", invoke=1 * S, complete=2 * S)
    send.mops = [Send(tp=0, value=value_of(1, 0), offset=0)]
    built.processes[2] = Process(txn_id=0)
    gave_up = Op(process=2, f="txn", invoke=10 * S, complete=14 * S, txn=txn, outcome=outcome)
    gave_up.mops = [acknowledged or Send(tp=0, value=late, outcome=Outcome.INFO)]
    built.ops += [send, gave_up]
    for bound in built.bounds:
        if bound.isolation == Isolation.READ_COMMITTED:
            bound.end = bound.read_to = 5
    opened = TransactionsOpen(ns=3 * S, rows=rows)
    began, *more = events
    run = write_run(folder, built.tables(), settings=settings, events=(began, opened, *more))
    return check_run(run)


def open_txn(
    transactional_id: str = "", start: int = 5, producer_id: int = 7, coordinator: int = 2
) -> OpenTransaction:
    return OpenTransaction(
        topic="x",
        partition=0,
        producer_id=producer_id,
        producer_epoch=1,
        start=start,
        coordinator=coordinator,
        transactional_id=transactional_id,
    )


UNVERIFIED = {"broker_settings": {"transaction.partition.verification.enable": "false"}}
VERIFIED = {"broker_settings": {"transaction.partition.verification.enable": "true"}}


@pytest.mark.parametrize(
    ("settings", "rows", "bug"),
    [
        (UNVERIFIED, [open_txn()], "KAFKA-14402"),
        ({"kafka": "3.5.2"}, [open_txn()], "KAFKA-14402"),
        ({"kafka": "3.5.2"}, [open_txn(), open_txn("txn-1", 9, 8)], "KAFKA-14402"),
        ({}, [open_txn()], ""),  # verified by default
        (VERIFIED, [open_txn()], ""),
        ({"broker_settings": {VERIFICATION: "TRUE"}}, [open_txn()], ""),
        ({"broker_settings": {VERIFICATION: "False"}}, [open_txn()], "KAFKA-14402"),
        ({"kafka": "3.5.2", "upgrade": "4.4.0"}, [open_txn()], "KAFKA-14402"),  # some brokers do not verify
        ({"kafka": "3.6.0", "upgrade": "4.4.0"}, [open_txn()], ""),
        ({"kafka": "3.6.0"}, [open_txn()], ""),
        ({"kafka": "3.10.0"}, [open_txn()], ""),
        ({"sut": "external"}, [open_txn()], ""),  # of any version
        (UNVERIFIED, [open_txn("txn-1")], ""),  # its coordinator knows of it, and does not end it
        (UNVERIFIED, [open_txn("txn-1"), open_txn("", 9, 8)], ""),  # another one holds the LSO
        (UNVERIFIED, [open_txn("", 4)], ""),  # that one has ended since
        (UNVERIFIED, [open_txn(coordinator=-1)], ""),  # its coordinator did not answer
        (UNVERIFIED, [], ""),
    ],
)
def test_a_transaction_that_no_coordinator_claims(
    tmp_path: Path, settings: dict[str, Any], rows: list[OpenTransaction], bug: str
) -> None:
    verdict = hanging(tmp_path / "run", settings, *rows)
    assert (verdict.anomalies["stuck-lso"].known_bug, verdict.exit_code) == (bug, 1)
    there = {row.producer_id for row in rows if row.start >= 5}
    assert ("hanging-txn" in verdict.anomalies) is bool(there)
    if len(there) == 1:
        assert verdict.anomalies["hanging-txn"].known_bug == bug


@pytest.mark.parametrize(
    ("version", "upgraded_s", "bug"),
    [("3.5.2", 30, "KAFKA-14402"), ("3.5.2", 5, ""), ("3.6.0", 30, "")],  # the transaction begins at 10 s
)
def test_all_brokers_verify_once_they_are_upgraded(
    tmp_path: Path, version: str, upgraded_s: float, bug: str
) -> None:
    settings, events = upgrade_of(version, upgraded_s)
    verdict = hanging(tmp_path / "run", settings, open_txn(), events=events)
    assert verdict.anomalies["stuck-lso"].known_bug == bug


@pytest.mark.parametrize(
    ("outcome", "record", "bug"),
    [
        (Outcome.FAIL, Send(tp=0, value=value_of(2, 0), outcome=Outcome.INFO), "KAFKA-14402"),
        (Outcome.INFO, Send(tp=0, value=value_of(2, 0), outcome=Outcome.INFO), "KAFKA-14402"),
        (Outcome.FAIL, Send(tp=0, value=value_of(2, 0), offset=5), ""),  # a broker acknowledged it in time
        (Outcome.OK, Send(tp=0, value=value_of(2, 0), offset=5), ""),
        (Outcome.FAIL, Send(tp=0, value=value_of(2, 7), outcome=Outcome.INFO), ""),  # another record is open
    ],
)
def test_a_late_record_was_never_acknowledged(
    tmp_path: Path, outcome: Outcome, record: Send, bug: str
) -> None:
    found = hanging(tmp_path / "run", UNVERIFIED, open_txn(), acknowledged=record, outcome=outcome).anomalies
    assert (found["stuck-lso"].known_bug, found["hanging-txn"].known_bug) == (bug, bug)


@pytest.mark.parametrize(("txn", "bug"), [(True, "KAFKA-14402"), (False, "")])
def test_a_record_of_no_transaction_did_not_come_late_into_one(tmp_path: Path, txn: bool, bug: str) -> None:
    found = hanging(tmp_path / "run", UNVERIFIED, open_txn(), outcome=Outcome.INFO, txn=txn).anomalies
    assert (found["stuck-lso"].known_bug, found["hanging-txn"].known_bug) == (bug, bug)


@pytest.mark.parametrize(
    ("markers", "bug"),
    [
        ([(4, 7, 14_000)], "KAFKA-14402"),
        ([], ""),  # it never got one
        ([(4, 8, 14_000)], ""),  # of another producer
        ([(4, 7, 9_000)], ""),  # of the transaction before: the record was made later
        ([(4, 7, 14_000), (6, 7, 15_000)], ""),  # another one ended it
    ],
)
def test_a_late_record_stands_behind_the_marker_of_its_transaction(
    tmp_path: Path, markers: list[tuple[int, int, int]], bug: str
) -> None:
    """markers: offset, producer id and time."""
    hanging(tmp_path / "run", UNVERIFIED, open_txn())
    found = with_log(Run(tmp_path / "run"), markers).anomalies
    assert (found["stuck-lso"].known_bug, found["hanging-txn"].known_bug) == (bug, bug)


@pytest.mark.parametrize(
    ("version", "listed", "markers", "bug"),
    [
        ("2.7.2", [], [(4, 7, 14_000)], "KAFKA-14402"),
        ("2.8.2", [open_txn(coordinator=-1)], [(4, 7, 14_000)], "KAFKA-14402"),  # leaders tell what is open
        ("2.7.2", [], [(4, 7, 9_000)], ""),  # it may wait for its end
        ("2.7.2", [], [], ""),
        ("2.7.2", [], [(4, 8, 14_000)], ""),
        ("2.7.2", [], None, ""),  # no log is on record
        ("3.0.0", [], [(4, 7, 14_000)], ""),  # coordinators can tell, and did not
        ("3.0.0", [open_txn(coordinator=-1)], [(4, 7, 14_000)], ""),
    ],
)
def test_where_brokers_cannot_tell_what_is_open_their_log_does(
    tmp_path: Path,
    version: str,
    listed: list[OpenTransaction],
    markers: list[tuple[int, int, int]] | None,
    bug: str,
) -> None:
    verdict = hanging(tmp_path / "run", {"kafka": version}, *listed)
    if markers is not None:
        verdict = with_log(Run(tmp_path / "run"), markers)
    names = ["stuck-lso", *["hanging-txn"][: len(listed)]]
    assert {name: verdict.anomalies[name].known_bug for name in names} == dict.fromkeys(names, bug)


@pytest.mark.parametrize(
    ("settings", "listed", "bug"),
    [
        ({"sut": "simulated", "era": "2.4"}, [open_txn()], "KAFKA-14402"),
        ({"sut": "simulated", "era": "2.4"}, [open_txn("t-0")], ""),
        ({"sut": "model", "era": "2.0"}, [open_txn()], "KAFKA-14402"),
        ({"sut": "model", "era": "2.0"}, [open_txn("t-0")], ""),
        ({"sut": "model", "era": "2.0"}, [open_txn("t-0", start=9)], ""),  # another one is open there
    ],
)
def test_what_a_modelled_coordinator_of_any_era_claims_it_has_to_end(
    tmp_path: Path, settings: dict[str, Any], listed: list[OpenTransaction], bug: str
) -> None:
    hanging(tmp_path / "run", settings, *listed)
    found = with_log(Run(tmp_path / "run"), [(4, 7, 14_000)]).anomalies
    assert (found["stuck-lso"].known_bug, found["hanging-txn"].known_bug) == (bug, bug)


def with_log(run: Run, markers: Sequence[tuple[int, int, int]]) -> Verdict:
    """The verdict where the open record, and these markers before and behind it, are on a broker's disk."""
    tp = TopicPartition("x", 0)
    batches = [batch(tp, 1, 5, producer_id=7, producer_epoch=1, base_timestamp=11_000, transactional=True)]
    control = []
    for offset, producer_id, ms in markers:
        known = {"producer_id": producer_id, "producer_epoch": 1}
        batches.append(batch(tp, 1, offset, **known, base_timestamp=ms, transactional=True, control=True))
        control.append(at(tp, 1, offset=offset, timestamp=ms, name="ABORT", **known))
    batches.sort(key=lambda row: int(row["base"]))
    rows = {"partitions": [whole(tp, 1)], "batches": batches, "control": control}
    evidence.write(run.evidence, logs(rows, [1]))
    return check_run(run)
