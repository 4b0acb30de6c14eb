"""The label `uncommitted-state`: it needs a log that went back, and what the log lacks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.logs.coordinator_log import CoordinatorLog, CoordinatorRecord
from core.internal_topics import TRANSACTION_TOPIC
from core.op import Outcome, TopicPartition, value_of
from history import evidence
from history.broker_logs import broker_logs
from history.run_folder import Run
from history.verdict import Verdict
from tests.checkers.known_bugs.test_markers_left_out import ID, S, beside, hanging, line, passed, torn
from tests.checkers.logs.made import at, batch, tables, whole
from tests.histories.built import Built, Op, Process, Send, final_reads
from tests.histories.folders import NAMES, check_run, write_run

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BEGAN_MS = int(BEGAN.timestamp() * 1000)
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


def wall(at_s: float) -> str:
    return (BEGAN + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def leads(at_s: float, node: int, epoch: int, start: int, high: int, isr: str, partition: int = 3) -> str:
    return (
        f"{wall(at_s)} INFO state.change.logger - [Broker id={node}] Leader __transaction_state-{partition}"
        f" with topic id Some(ot0Xz) starts at leader epoch {epoch} from offset {start} with partition"
        f" epoch 1, high watermark {high}, ISR [{isr}], adding replicas [] and removing replicas [] ."
        " Previous leader Some(1) and previous leader epoch was 0.\n"
    )


def sent(commit: bool, updated_s: float, *partitions: str, transactional_id: str = ID) -> str:
    result, state = ("COMMIT", "PREPARE_COMMIT") if commit else ("ABORT", "PREPARE_ABORT")
    updated = BEGAN_MS + int(updated_s * 1000)
    return (
        f"{wall(12)} INFO kafka.coordinator.transaction.TransactionStateManager - [Transaction State Manager"
        " 2]: Sending txn markers for TransactionalIdCoordinatorEpochAndTransitMetadata("
        f"{transactional_id},4,{result},TransactionMetadata(transactionalId={transactional_id},"
        " producerId=2000, prevProducerId=2000, nextProducerId=-1, producerEpoch=0, lastProducerEpoch=-1,"
        f" txnTimeoutMs=40000, state={state}, pendingState=Optional[COMPLETE_ABORT],"
        f" topicPartitions=[{', '.join(partitions)}], txnStartTimestamp=1, txnLastUpdateTimestamp={updated}),"
        "TxnTransitMetadata[producerId=2000, txnLastUpdateTimestamp=7]) after loading partition 3\n"
    )


B = leads(10.8, 2, 1, 78, 77, "2,3")
C = leads(13, 3, 2, 77, 77, "3")
"""While the transaction is open, broker 2 loads one record that is not committed, and lets the client write;
broker 3 has not got it."""


def record(
    at_s: float, state: str, *partitions: str, offset: int = 0, **changes: object
) -> CoordinatorRecord:
    made = CoordinatorRecord(
        partition=3,
        offset=offset,
        ms=BEGAN_MS + int(at_s * 1000),
        leader_epoch=-1,
        transactional_id=ID,
        state=state,
        producer_id=2000,
        producer_epoch=0,
        partitions=partitions,
        updated_ms=BEGAN_MS + int(at_s * 1000),
    )
    return replace(made, **changes)


def log(*records: CoordinatorRecord, whole: bool = True) -> CoordinatorLog:
    numbered = tuple(replace(one, offset=offset) for offset, one in enumerate(records))
    return CoordinatorLog(records=numbered, whole=frozenset({3} if whole else set()))


EARLIER = record(5, "CompleteCommit")
LACKS_Z = log(EARLIER, record(10.5, "Ongoing", "x-0", "y-0"), record(13.5, "PrepareCommit", "x-0", "y-0"))
LACKS_X = log(EARLIER, record(10.5, "Ongoing", "y-0", "z-0"), record(13.5, "PrepareCommit", "y-0", "z-0"))
LACKS_ALL = log(EARLIER)
ABORTS = ("x-0", "y-0", "z-0")
COMMITTED = log(EARLIER, record(10.5, "Ongoing", *ABORTS), record(13.5, "PrepareCommit", *ABORTS))


def write_evidence(run: Run, logged: CoordinatorLog, elected: Sequence[dict[str, object]] = ()) -> None:
    """What a broker has on disk whose coordinators wrote this down; a partition that is not whole lacks its
    last record. elected: states of partition 3 of the log, in the metadata log."""
    rows: dict[str, list[dict[str, object]]] = {"partitions": [], "batches": [], "transaction_log": []}
    topic: list[dict[str, object]] = [{"name": "TopicRecord", "topic": TRANSACTION_TOPIC, "topic_id": "log"}]
    rows["metadata"] = [
        {"take": 0, "node": 1, "snapshot": -1, "offset": offset, "topic_id": "log", "partition": 3, **row}
        for offset, row in enumerate([*topic, *elected] if elected else [])
    ]
    for number in sorted({one.partition for one in logged.records}):
        tp = TopicPartition(TRANSACTION_TOPIC, number)
        mine = [one for one in logged.records if one.partition == number]
        rows["partitions"].append(whole(tp, 1))
        rows["batches"] += [batch(tp, 1, base) for base in range(len(mine) + (number not in logged.whole))]
        rows["transaction_log"] += [
            at(
                tp,
                1,
                offset=one.offset,
                timestamp=one.ms,
                transactional_id=one.transactional_id,
                state=one.state,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                timeout_ms=one.timeout_ms,
                partitions=[{"topic": name[:-2], "partition": int(name[-1])} for name in one.partitions],
                start_ms=one.started_ms,
                last_update_ms=one.updated_ms,
            )
            for one in mine
        ]
    evidence.write(run.evidence, tables(rows, [1]))


def judged(folder: Path, built: Built, logged: CoordinatorLog, *lines: str) -> Verdict:
    run = write_run(folder, built.tables())
    server = run.cluster / "2" / "server.log"
    server.parent.mkdir(parents=True)
    server.write_text("".join(lines))
    write_evidence(run, logged)
    return check_run(run)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("built", "logged", "lines", "labelled"),
    [
        # the log does not name z, or nothing of the transaction
        (torn(OK, {0, 1}), LACKS_Z, [B, C], True),
        (torn(OK, {0}), LACKS_ALL, [B, C], True),
        (passed(torn(OK, {0, 1}), 2), LACKS_Z, [B, C], True),  # a group never got it, and copied it not
        (torn(FAIL, {2}), LACKS_Z, [B, C], True),
        (torn(FAIL, {0, 1, 2}), LACKS_ALL, [B, C], True),
        (torn(INFO, {2}), LACKS_Z, [B, C], True),
        # a decision was acted upon that the log lacks
        (torn(OK, {1}), COMMITTED, [B, C, sent(False, 11, *ABORTS)], True),
        (
            torn(FAIL, {0}),
            log(EARLIER, record(10.5, "Ongoing", *ABORTS)),
            [B, C, sent(True, 11, *ABORTS)],
            True,
        ),
        (torn(OK, {1}), COMMITTED, [B, C, sent(False, 10, *ABORTS)], True),  # when it began
        (torn(OK, {1}), COMMITTED, [B, C, sent(False, 59, *ABORTS)], True),  # when the next one began
        # near misses: the log
        (torn(OK, {0, 1}), COMMITTED, [B, C], False),
        (torn(OK, {0}), LACKS_Z, [B, C], False),  # y is named, and not visible
        (torn(OK, {0, 1}), log(*LACKS_Z.records, whole=False), [B, C], False),
        (torn(OK, {0, 1}), log(replace(EARLIER, transactional_id="another")), [B, C], False),
        (torn(OK, {0, 1}), CoordinatorLog(), [B, C], False),
        # near misses: the coordinators
        (torn(OK, {0, 1}), LACKS_Z, [], False),
        (torn(OK, {0, 1}), LACKS_Z, [B], False),
        (torn(OK, {0, 1}), LACKS_Z, [B, leads(13, 3, 2, 78, 77, "3")], False),  # it had that record
        (torn(OK, {0, 1}), LACKS_Z, [leads(10.8, 2, 1, 78, 78, "2,3"), C], False),  # committed, and lost
        (torn(OK, {0, 1}), LACKS_Z, [leads(10.8, 2, 1, 78, 77, "1,2"), C], False),  # not in sync: unclean
        (torn(OK, {0, 1}), LACKS_Z, [leads(3, 2, 1, 78, 77, "2,3"), leads(6, 3, 2, 77, 77, "3")], False),
        # the client wrote to z before there was one that had loaded anything
        (torn(OK, {0, 1}), LACKS_Z, [leads(11.0, 2, 1, 78, 77, "2,3"), C], True),
        (torn(OK, {0, 1}), LACKS_Z, [leads(11.01, 2, 1, 78, 77, "2,3"), C], False),
        # broker 1 had loaded it before, and broker 2 kept it
        (
            torn(OK, {0, 1}),
            LACKS_Z,
            [leads(10.8, 1, 0, 78, 77, "1,2,3"), leads(12, 2, 1, 78, 77, "2,3"), C],
            True,
        ),
        (
            torn(OK, {0, 1}),
            LACKS_Z,
            [leads(10.8, 1, 0, 77, 77, "1,2,3"), leads(12, 2, 1, 78, 77, "2,3"), C],
            False,
        ),
        (torn(OK, {0, 1}), LACKS_Z, [leads(70, 2, 1, 78, 77, "2,3"), leads(75, 3, 2, 77, 77, "3")], False),
        (
            torn(OK, {0, 1}),
            LACKS_Z,
            [B.replace("state-3", "state-4"), C.replace("state-3", "state-4")],
            False,
        ),
        # near misses: the decision
        (torn(OK, {1}), COMMITTED, [B, C, sent(True, 13.5, *ABORTS)], False),  # it is in the log
        (
            torn(OK, {1}),
            log(EARLIER, record(10.5, "Ongoing", *ABORTS), record(13, "PrepareAbort", *ABORTS)),
            [B, C, sent(False, 13, *ABORTS)],
            False,
        ),
        (torn(OK, {1}), COMMITTED, [B, C, sent(False, 9.999, *ABORTS)], False),  # of the one before
        (torn(OK, {1}), COMMITTED, [B, C, sent(False, 59.001, *ABORTS)], False),  # of the next one
        (torn(OK, {1}), COMMITTED, [B, C, sent(False, 11, "y-0")], False),
        (torn(OK, {1}), COMMITTED, [B, C, sent(False, 11, *ABORTS, transactional_id="txn-9")], False),
        (torn(OK, {1}), COMMITTED, [sent(False, 11, *ABORTS)], False),
        (torn(OK, {1}), COMMITTED, [B, C, sent(True, 11, *ABORTS)], False),  # no abort was sent
        (
            beside(torn(OK, {0, 1})),  # of z only the second record is visible, and no abort was sent
            log(EARLIER, record(10.5, "Ongoing", *ABORTS)),
            [B, C, sent(True, 11, *ABORTS)],
            False,
        ),
        # near misses: the records
        (torn(OK, {0, 1}, gone={2}), LACKS_Z, [B, C], False),
        (torn(OK, {0, 1}, gone={0}), LACKS_Z, [B, C], False),
        (torn(OK, {1}, gone={2}), COMMITTED, [B, C, sent(False, 11, *ABORTS)], False),
        (beside(torn(OK, {0, 1})), LACKS_Z, [B, C], False),  # one marker decides both records of z
        (beside(torn(OK, {0, 1}), visible=False), LACKS_Z, [B, C], True),
        # what came after the marker that was sent too early has the transaction's own end
        (beside(torn(OK, {0, 1})), COMMITTED, [B, C, sent(False, 11, *ABORTS)], True),
        (beside(torn(OK, {0, 1, 2}), visible=False), COMMITTED, [B, C, sent(False, 11, *ABORTS)], False),
    ],
)
def test_the_label_needs_the_log_that_went_back_and_what_it_lacks(
    tmp_path: Path, built: Built, logged: CoordinatorLog, lines: list[str], labelled: bool
) -> None:
    verdict = judged(tmp_path / "run", built, logged, *lines)
    found = {name: each.known_bug for name, each in verdict.anomalies.items() if each.disallowed}
    assert found
    assert verdict.exit_code == 1
    assert set(found.values()) == ({"uncommitted-state"} if labelled else {""})


LATE = [leads(15.8, 2, 1, 78, 77, "2,3"), leads(18, 3, 2, 77, 77, "3"), sent(True, 13.9, *ABORTS)]
ABORTED_LATER = log(EARLIER, record(10.5, "Ongoing", *ABORTS), record(19, "PrepareAbort", *ABORTS))


def tried(built: Built, *, acked: bool = False, outcome: Outcome = FAIL) -> Built:
    """Another process of the id tries a transaction at 15 s, before that."""
    built.processes[2] = Process(txn_id=0)
    op = Op(process=2, f="txn", invoke=15 * S, complete=15 * S + 1, txn=True, outcome=outcome)
    op.mops = [Send(tp=0, value=value_of(2, 0), offset=1 if acked else -1)]
    built.ops.insert(1, op)
    return built


@pytest.mark.parametrize(
    ("built", "labelled"),
    [
        (torn(INFO, {0}), True),
        (tried(torn(INFO, {0})), True),  # no broker heard of it: the one before is still open
        (tried(torn(INFO, {0}), acked=True), False),  # brokers had ended the one before
        (tried(torn(INFO, {0}), outcome=INFO), False),  # they may have
    ],
    ids=["none", "unheard", "heard", "in-doubt"],
)
def test_a_transaction_that_never_began_ends_none(tmp_path: Path, built: Built, *, labelled: bool) -> None:
    verdict = judged(tmp_path / "run", built, ABORTED_LATER, *LATE)
    torn_one = verdict.anomalies["torn-txn"]
    assert torn_one.known_bug == ("uncommitted-state" if labelled else "")


ALONE = {
    "name": "PartitionRecord",
    "leader": 2,
    "isr": [2],
    "replicas": [1, 2, 3],
    "partition_leader_epoch": 1,
}
NEXT = {"name": "PartitionChangeRecord", "leader": 3, "isr": [3]}


@pytest.mark.parametrize(
    ("elected", "labelled"),
    [
        ([ALONE | {"elr": [3]}, NEXT], True),  # it was eligible
        ([ALONE | {"elr": [1]}, NEXT], False),  # an unclean election
        ([ALONE | {"elr": [3]}, NEXT | {"leader": 1, "isr": [1]}], False),  # of another node
        ([], False),
    ],
)
def test_the_successor_was_in_sync_or_eligible(
    tmp_path: Path, elected: list[dict[str, object]], labelled: bool
) -> None:
    """Broker 2 is in sync alone when it leads."""
    run = write_run(tmp_path / "run", torn(OK, {0, 1}).tables())
    (run.cluster / "2").mkdir(parents=True)
    (run.cluster / "2" / "server.log").write_text(leads(10.8, 2, 1, 78, 77, "2") + C)
    write_evidence(run, LACKS_Z, elected)
    found = check_run(run).anomalies
    label = "uncommitted-state" if labelled else ""
    assert {each.known_bug for name, each in found.items() if name in ("lost-write", "torn-txn")} == {label}


def test_another_partition_of_the_log_that_is_whole_says_nothing(tmp_path: Path) -> None:
    """Of the two partitions the one of this id was not read as a whole."""
    other = replace(EARLIER, partition=4, transactional_id="another")
    logged = CoordinatorLog(records=(*LACKS_Z.records, other), whole=frozenset({4}))
    found = judged(tmp_path / "run", torn(OK, {0, 1}), logged, B, C).anomalies
    assert {each.known_bug for each in found.values() if each.disallowed} == {""}


@pytest.mark.parametrize(
    ("logged", "claimed", "coordinator", "labelled"),
    [
        (LACKS_X, "", 2, True),
        (LACKS_X, ID, 2, False),  # its coordinator will still end it
        (LACKS_X, "", -1, False),
        (COMMITTED, "", 2, False),
    ],
)
def test_a_partition_that_the_log_does_not_name_stays_open(
    tmp_path: Path, logged: CoordinatorLog, claimed: str, coordinator: int, labelled: bool
) -> None:
    run = hanging(tmp_path / "run", claimed, coordinator)
    (run.cluster / "2" / "server.log").write_text(B + C)
    write_evidence(run, logged)
    found = check_run(run).anomalies
    label = "uncommitted-state" if labelled else ""
    assert {found[name].known_bug for name in ("stuck-lso", "hanging-txn")} == {label}


def test_markers_left_out_explain_first(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "run", torn(OK, {0, 1}), LACKS_Z, B, C, line(12, "z-0"))
    found = {each.known_bug for each in verdict.anomalies.values() if each.disallowed}
    assert found == {"KAFKA-20734"}


def test_what_brokers_say_of_coordinators(tmp_path: Path) -> None:
    server = tmp_path / "cluster" / "2" / "server.log"
    server.parent.mkdir(parents=True)
    server.write_text(B + sent(True, 11, "x-0", "y-0") + sent(False, 11))
    logs = broker_logs(Run(tmp_path))
    (elected,) = logs.elected
    assert (elected.node, elected.partition, elected.epoch, elected.start) == (2, 3, 1, 78)
    assert (elected.high_watermark, elected.isr) == (77, frozenset({2, 3}))
    first, second = logs.sent
    assert (first.transactional_id, first.producer_id, first.producer_epoch) == (ID, 2000, 0)
    assert (first.commit, first.updated_ms, first.partitions) == (
        True,
        BEGAN_MS + 11_000,
        frozenset({"x-0", "y-0"}),
    )
    assert (second.commit, second.partitions) == (False, frozenset())


def several(ids: int) -> tuple[Built, CoordinatorLog]:
    """As many transactions of different ids as these, each with a record in x, y and z. The log does not name
    z, and what is there is hidden."""
    built, records = Built(tps=["x", "y", "z"]), []
    shown: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    hidden: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for number, name in enumerate(NAMES["txn_id"][:ids], 1):
        built.processes[number] = Process(txn_id=number - 1, slot=number)
        op = Op(process=number, f="txn", invoke=10 * S, complete=14 * S, txn=True)
        for tp in range(3):
            op.mops.append(Send(tp=tp, value=value_of(number, tp), offset=number - 1, ns=(10 * S, 11 * S)))
            (hidden if tp == 2 else shown)[tp].append((number - 1, value_of(number, tp)))
        built.ops += [op, Op(process=number, f="txn", invoke=59 * S, complete=60 * S, txn=True)]
        own: dict[str, object] = {"transactional_id": name, "producer_id": 2000 + number}
        records += [replace(one, **own) for one in LACKS_Z.records]
    return final_reads(built, shown, hidden, end=20), log(*sorted(records, key=lambda one: one.ms))


@pytest.mark.parametrize(
    ("lost", "ids", "bug"), [(2, 2, "uncommitted-state"), (3, 2, "uncommitted-state"), (1, 2, ""), (2, 3, "")]
)
def test_each_id_whose_state_was_lost_had_a_record_among_the_lost_ones(
    tmp_path: Path, lost: int, ids: int, bug: str
) -> None:
    built, logged = several(ids)
    loaded = leads(10.8, 2, 1, 77 + lost, 77, "2,3")
    found = judged(tmp_path / "run", built, logged, loaded, C).anomalies
    named = {name: (each.disallowed, each.known_bug) for name, each in found.items() if each.disallowed}
    assert named == {"lost-write": (ids, bug), "torn-txn": (ids, bug)}


def test_losses_at_different_times_explain_their_own_transactions(tmp_path: Path) -> None:
    """One record was lost while the transactions were open; others before they began explain nothing."""
    built, logged = several(2)
    before = leads(2, 2, 1, 90, 70, "2,3"), leads(3, 3, 2, 75, 70, "3")
    then = leads(10.8, 2, 3, 78, 77, "2,3"), leads(13, 3, 4, 77, 77, "3")
    found = judged(tmp_path / "run", built, logged, *before, *then).anomalies
    assert {each.known_bug for each in found.values() if each.disallowed} == {""}
