"""Labels of findings in brokers' logs: of the same transaction, at the same time, by what the bug can do.

Each history is judged by the rules about logs themselves; the near misses leave nearly the same marks.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.engine.findings import LogFinding
from checkers.known_bugs.kafka_14402 import VERIFICATION
from checkers.known_bugs.registry import KNOWN_BUGS
from checkers.known_bugs.registry import labels as labels_of
from checkers.logs import answers, decisions
from core.op import Outcome, TopicPartition
from history import evidence
from history.events import Event
from history.evidence_tables import PRODUCE, WRITE_TXN_MARKERS
from history.reader import History, load
from history.tables import TABLES
from tests.checkers.known_bugs.test_markers_left_out import ID, line
from tests.checkers.known_bugs.test_registry import late_request
from tests.checkers.known_bugs.test_uncommitted_state import leads
from tests.checkers.logs.made import at, of_all, tables
from tests.checkers.logs.test_decisions import BEGAN_MS, LOG, P0, P1, PRODUCER, Cluster, Made, offsets
from tests.histories.built import Built, Op, Process, Send
from tests.histories.folders import RECOVERED, STARTED, write_run

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
MS = 1_000_000
T1, T2, T3 = 1_000, 20_000, 40_000
"""When the transactions of the one client begin, in ms; each takes 400 ms."""


class Logs(Cluster):
    """Times in ms since the run began."""

    def _batch(self, tp: TopicPartition, ms: int, columns: dict[str, Any]) -> int:
        return super()._batch(tp, BEGAN_MS + ms, columns)

    def coordinator(self, state: str, ms: int, *tps: TopicPartition, epoch: int = 0, **row: Any) -> None:
        if "start_ms" in row:
            row["start_ms"] += BEGAN_MS
        super().coordinator(state, ms, *tps, epoch=epoch, **row)
        self.made["transaction_log"][-1] |= {"transactional_id": ID, "timestamp": BEGAN_MS + ms}

    def marker(self, tp: TopicPartition, ms: int, name: str, epoch: int = 0, coordinator: int = 4) -> int:
        offset = super().marker(tp, ms, name, epoch, coordinator)
        self.made["control"][-1]["timestamp"] = BEGAN_MS + ms
        return offset


def recorded(
    folder: Path,
    logs: Cluster,
    *outcomes: Outcome,
    lines: tuple[str, ...] = (),
    events: tuple[Event, ...] = (),
    settings: dict[str, Any] | None = None,
    acked_ms: int = 0,
) -> tuple[History, evidence.Evidence]:
    """A run. outcomes: of the client's transactions, those of T1, T2 and T3. lines: of a broker's log.
    acked_ms: when the record of T2 was acknowledged, 0 = when it ended, -1 = never."""
    built = Built(tps=["q"], processes={0: Process(txn_id=0)})
    for number, (begin, outcome) in enumerate(zip((T1, T2, T3), outcomes, strict=False)):
        op = Op(process=0, f="txn", invoke=(begin - 100) * MS, complete=(begin + 300) * MS, txn=True)
        op.outcome, op.mops = outcome, [Send(tp=0, value=number)]
        if begin == T2 and acked_ms > 0:
            op.mops = [Send(tp=0, value=number, offset=7, ns=(op.invoke, acked_ms * MS))]
        elif begin == T2 and acked_ms < 0:
            op.mops = [Send(tp=0, value=number, outcome=INFO)]
        built.ops.append(op)
    known = {"process": 0, "producer_id": PRODUCER, "producer_epoch": 0, "epoch_cnt": 1, "ns": 1}
    made = built.tables() | {"producers": pa.Table.from_pylist([known], TABLES["producers"])}
    run = write_run(folder, made, settings=settings, events=(STARTED, *events, RECOVERED))
    (run.cluster / "1").mkdir(parents=True)
    (run.cluster / "1" / "server.log").write_text("".join(lines))
    evidence.write(run.evidence, tables(logs.made))
    return load(run), evidence.Evidence.load(run.evidence)


def labels(folder: Path, logs: Cluster, *outcomes: Outcome, **more: Any) -> dict[str, str]:
    """Rule -> labels of what it found in a run (`recorded`)."""
    history, kept = recorded(folder, logs, *outcomes, **more)
    found = [*of_all(decisions.CHECKS, kept).in_logs, *of_all(answers.CHECKS, kept, history).in_logs]
    named = labels_of(history, kept, found)
    assert all(bug in ("", *KNOWN_BUGS) for bug in named)
    by_rule: dict[str, set[str]] = defaultdict(set)
    for one, bug in zip(found, named, strict=True):
        by_rule[one.check].add(bug)
    return {rule: "/".join(sorted(bugs)) for rule, bugs in by_rule.items()}


def left_out() -> Logs:
    """The marker of T2 in q-1 was left out; T3 aborts, and its marker ends the record of T2 there."""
    logs = Logs()
    logs.transaction(T1, P0, P1)
    logs.coordinator("Ongoing", T2, P0, P1, start_ms=T2)
    for tp in (P0, P1):
        logs.records(tp, T2 + 1)
    logs.coordinator("PrepareCommit", T2 + 20, P0, P1, start_ms=T2)
    logs.marker(P0, T2 + 30, "COMMIT")
    logs.coordinator("CompleteCommit", T2 + 40, start_ms=T2)
    logs.transaction(T3, P0, P1, commit=False)
    return logs


LEFT_OUT = {"partitions-marked", "decisions-agree"}


@pytest.mark.parametrize(
    ("lines", "bug"),
    [
        ((line(20.03, "q-1"),), "KAFKA-20734"),
        ((line(20.03, "q-0", "q-1"),), "KAFKA-20734"),
        ((), ""),
        ((line(1.003, "q-1"),), ""),  # of T1
        ((line(20.01, "q-1"),), ""),  # before the decision
        ((line(20.05, "q-1"),), ""),  # after its coordinator had completed it
        ((line(40.003, "q-1"),), ""),  # of T3
        ((line(20.03, "q-0"),), ""),
        ((line(20.03, "q-1", transactional_id="another"),), ""),
        # a coordinator that lost its state leaves out no marker
        ((leads(20.01, 2, 1, 78, 77, "2,3", 0), leads(20.02, 3, 2, 77, 77, "3", 0)), ""),
    ],
)
def test_a_marker_was_left_out_of_this_transaction_in_this_partition(
    tmp_path: Path, lines: tuple[str, ...], bug: str
) -> None:
    found = labels(tmp_path / "run", left_out(), OK, OK, FAIL, lines=lines)
    assert found == dict.fromkeys(LEFT_OUT, bug)


def test_a_marker_that_was_left_out_explains_no_marker_without_a_decision(tmp_path: Path) -> None:
    logs = left_out()
    logs.marker(P1, T3 + 50, "COMMIT", epoch=3)
    found = labels(tmp_path / "run", logs, OK, OK, FAIL, lines=(line(20.03, "q-1"), line(40.05, "q-1")))
    assert found == {**dict.fromkeys(LEFT_OUT, "KAFKA-20734"), "marker-decided": ""}


# ---- state that is not committed

B, C = leads(20.001, 2, 1, 78, 77, "2,3", 0), leads(20.008, 3, 2, 77, 77, "3", 0)
"""While T2 is open, coordinator epoch 1 loads what the one of epoch 2 has not got."""
EARLIER = leads(0.2, 2, 1, 78, 77, "2,3", 0), leads(0.9, 3, 2, 77, 77, "3", 0)
LATER = leads(45, 2, 1, 78, 77, "2,3", 0), leads(46, 3, 2, 77, 77, "3", 0)


def aborted_early(coordinator: int = 1) -> Logs:
    """A coordinator aborts T2 in q-1 by a decision that the log lacks; T2 commits."""
    logs = Logs()
    logs.transaction(T1, P0, P1)
    logs.coordinator("Ongoing", T2, P0, P1, start_ms=T2)
    for tp in (P0, P1):
        logs.records(tp, T2 + 1)
    logs.marker(P1, T2 + 5, "ABORT", coordinator=coordinator)
    logs.coordinator("PrepareCommit", T2 + 20, P0, P1, start_ms=T2)
    for tp in (P0, P1):
        logs.marker(tp, T2 + 30, "COMMIT")
    logs.coordinator("CompleteCommit", T2 + 40, start_ms=T2)
    logs.transaction(T3, P0, P1)
    return logs


@pytest.mark.parametrize(
    ("logs", "lines", "bug"),
    [
        (aborted_early(), (B, C), "uncommitted-state"),
        (aborted_early(), (), ""),
        (aborted_early(), EARLIER, ""),  # B14: before any transaction
        (aborted_early(), LATER, ""),
        (aborted_early(coordinator=4), (B, C), ""),  # another one wrote that marker
        (aborted_early(), (B.replace("state-0", "state-3"), C.replace("state-0", "state-3")), ""),
    ],
)
def test_the_coordinator_that_lost_its_state_wrote_the_marker(
    tmp_path: Path, logs: Logs, lines: tuple[str, ...], bug: str
) -> None:
    found = labels(tmp_path / "run", logs, OK, OK, OK, lines=lines)
    assert found == {"marker-decided": bug, "decisions-agree": bug}


@pytest.mark.parametrize(
    ("lines", "coordinator", "bug"),
    [
        ((B, C), 1, "uncommitted-state"),
        ((B, C), 4, ""),  # another one wrote that marker
        (LATER, 1, "uncommitted-state"),  # no client says when the transaction was under way
        ((), 1, ""),
        ((B.replace("state-0", "state-3"), C.replace("state-0", "state-3")), 1, ""),
    ],
)
def test_the_marker_of_an_application_says_which_coordinator_wrote_it(
    tmp_path: Path, lines: tuple[str, ...], coordinator: int, bug: str
) -> None:
    """The clients of the run have no transaction; one that the log knows was aborted in one partition."""
    found = labels(tmp_path / "run", aborted_early(coordinator), lines=lines)
    assert found["marker-decided"] == bug


TWO = (
    leads(20.001, 2, 1, 80, 77, "2,3", 0),
    leads(20.004, 3, 2, 79, 77, "1,3", 0),
    leads(20.008, 1, 3, 77, 77, "1", 0),
)
"""Coordinator epochs 1 and 2 both load what the next one has not got."""


@pytest.mark.parametrize(
    ("lines", "node", "epoch", "bug"),
    [
        ((B, C), 2, 1, "uncommitted-state"),
        ((B, C), 2, 4, ""),  # it leads again, by then
        (TWO, 2, 1, "uncommitted-state"),
        (TWO, 3, 2, "uncommitted-state"),
        (TWO, 1, 3, ""),  # it lost nothing
        (LATER, 2, 1, ""),
    ],
)
def test_a_coordinator_that_lost_its_state_sent_the_markers(
    tmp_path: Path, lines: tuple[str, ...], node: int, epoch: int, bug: str
) -> None:
    """A message has markers of T2 that no decision explains."""
    logs = aborted_early()
    row: dict[str, Any] = {"number": 0, "ms": BEGAN_MS + T2 + 5}
    row |= {"client": node, "server": 1, "answer": False}
    row |= {"api": WRITE_TXN_MARKERS, "producer_id": PRODUCER, "producer_epoch": 0}
    row["coordinator_epoch"] = epoch
    history, _ = recorded(tmp_path / "run", logs, OK, OK, OK, lines=lines)
    kept = evidence.Evidence(tables({**logs.made, "frames": [row], "frame_parts": [row]}))
    finding = LogFinding(
        check="markers-logged",
        name="lost-decision",
        log=P1,
        offset=-1,
        take=-1,
        nodes=(node,),
        text="told",
        producer_id=PRODUCER,
        producer_epoch=0,
        ms=BEGAN_MS + T2 + 5,
    )
    assert labels_of(history, kept, [finding]) == [bug]


def test_a_loss_that_a_log_shows_has_no_label_of_a_loss_that_clients_saw(tmp_path: Path) -> None:
    """It names no op, which those labels begin with."""
    history, kept = recorded(tmp_path / "run", aborted_early(), OK, OK, OK)
    finding = LogFinding(
        check="acknowledged-held", name="lost-write", log=P0, offset=0, take=1, nodes=(1,), text="told"
    )
    assert labels_of(history, kept, [finding]) == [""]


def unnamed() -> Logs:
    """T2 has a record in q-1, and the log does not name that partition; T3 aborts it there."""
    logs = Logs()
    logs.transaction(T1, P0, P1)
    logs.coordinator("Ongoing", T2, P0, start_ms=T2)
    for tp in (P0, P1):
        logs.records(tp, T2 + 1)
    logs.coordinator("PrepareCommit", T2 + 20, P0, start_ms=T2)
    logs.marker(P0, T2 + 30, "COMMIT")
    logs.coordinator("CompleteCommit", T2 + 40, start_ms=T2)
    logs.transaction(T3, P0, P1, commit=False)
    return logs


@pytest.mark.parametrize(
    ("lines", "bug"),
    [((B, C), "uncommitted-state"), ((), ""), (EARLIER, ""), (LATER, ""), ((line(20.03, "q-1"),), "")],
)
def test_the_log_lacks_a_partition_of_the_transaction(
    tmp_path: Path, lines: tuple[str, ...], bug: str
) -> None:
    found = labels(tmp_path / "run", unnamed(), OK, OK, FAIL, lines=lines)
    assert found == {"partitions-named": bug, "decisions-agree": bug}


@pytest.mark.parametrize(
    ("acked_ms", "bug"), [(T2 + 2, "uncommitted-state"), (T2 - 50, ""), (-1, "uncommitted-state")]
)
def test_a_partition_was_written_when_a_coordinator_had_loaded_it(
    tmp_path: Path, acked_ms: int, bug: str
) -> None:
    """The log does not name q-0. acked_ms: when the client knew of its record there, -1 = never."""
    logs = unnamed()
    for row in logs.made["transaction_log"]:
        if BEGAN_MS + T2 <= row["timestamp"] < BEGAN_MS + T3 and row["partitions"]:
            row["partitions"] = [{"topic": "q", "partition": 1}]
    logs.marker(P1, T2 + 30, "COMMIT")
    found = labels(tmp_path / "run", logs, OK, OK, FAIL, lines=(B, C), acked_ms=acked_ms)
    assert found["partitions-named"] == bug


@pytest.mark.parametrize(("lines", "bug"), [((B, C), "uncommitted-state"), (EARLIER, ""), (LATER, "")])
def test_the_log_lacks_a_decision_that_a_client_got(tmp_path: Path, lines: tuple[str, ...], bug: str) -> None:
    logs = Logs()
    logs.transaction(T1, P0, P1)
    logs.transaction(T2, P0, P1, commit=False)
    assert labels(tmp_path / "run", logs, OK, OK, lines=lines) == {"answers-decided": bug}


def test_a_decision_that_the_log_has_was_not_lost(tmp_path: Path) -> None:
    """The client saw an abort, and the log has the commit."""
    logs = Logs()
    logs.transaction(T1, P0, P1)
    logs.transaction(T2, P0, P1)
    assert labels(tmp_path / "run", logs, OK, FAIL, lines=(B, C)) == {"answers-decided": ""}


# ---- KAFKA-19446


def marked_late() -> Logs:
    """The COMMIT marker of T1 in q-1 comes again while T2 is open, which aborts."""
    logs = Logs()
    logs.transaction(T1, P0, P1)
    logs.coordinator("Ongoing", T2, P0, P1, start_ms=T2)
    for tp in (P0, P1):
        logs.records(tp, T2 + 1)
    logs.marker(P1, T2 + 10, "COMMIT")
    logs.coordinator("PrepareAbort", T2 + 20, P0, P1, start_ms=T2)
    for tp in (P0, P1):
        logs.marker(tp, T2 + 30, "ABORT")
    logs.coordinator("CompleteAbort", T2 + 40, start_ms=T2)
    return logs


def later_epoch(logs: Logs, *, version: int = 1) -> Logs:
    """The transactions from T2 on have the epoch after that of T1. version: of the clients' protocol; with 2
    each has its own epoch, and its decision and markers have the next one: so has that of T1 that is late."""
    second = version == 2
    for table in ("transaction_log", "control", "batches"):
        for row in logs.made[table]:
            ms = row["base_timestamp" if table == "batches" else "timestamp"] - BEGAN_MS
            if row.get("producer_id") != PRODUCER:
                continue
            row["producer_epoch"] = int(ms >= T2)
            if table == "transaction_log":
                row["client_transaction_version"] = version
            state = row.get("state", "Ongoing" if table == "batches" and not row.get("control") else "")
            if second and state != "Ongoing" and ms != T2 + 10:
                row["producer_epoch"] += 1
    return logs


@pytest.mark.parametrize(
    ("outcomes", "late", "bug"),
    [
        ((OK, FAIL), {}, "KAFKA-19446"),
        ((OK, INFO), {}, "KAFKA-19446"),
        ((OK, INFO), {"caught_s": 20.005}, ""),  # a marker of T2, which may have asked for a commit
        ((INFO, FAIL), {}, "KAFKA-19446"),  # the transaction before may have asked for a commit
        ((FAIL, FAIL), {}, ""),  # it asked for an abort
        ((OK, FAIL), {"comes_s": 20.05}, ""),  # when it came, that marker stood there
        ((OK, FAIL), {"comes_s": 19.95}, ""),
        ((OK, FAIL), {"comes_s": 1.25}, ""),  # within its own transaction
        ((OK, FAIL), {"caught_s": 20.005}, ""),  # a marker of T2
        ((OK, FAIL), {"named": f"producer {PRODUCER}/0, q-0"}, ""),
        ((OK, FAIL), {"named": f"producer {PRODUCER + 1}/0, q-1"}, ""),
        ((OK, FAIL), {"named": f"producer {PRODUCER}/1, q-1"}, ""),
    ],
)
def test_the_marker_was_written_when_a_late_one_came(
    tmp_path: Path, outcomes: tuple[Outcome, ...], late: dict[str, Any], bug: str
) -> None:
    given: dict[str, Any] = {"named": f"producer {PRODUCER}/0, q-1", "caught_s": 1.2, "comes_s": 20.01} | late
    events = tuple(late_request("write_txn_markers", **given))
    found = labels(tmp_path / "run", marked_late(), *outcomes, events=events)
    assert {name: found[name] for name in ("marker-decided", "decisions-agree")} == {
        "marker-decided": bug,
        "decisions-agree": bug,
    }


@pytest.mark.parametrize(
    ("version", "named", "kafka", "bug"),
    [
        (1, 1, "4.3.1", "KAFKA-19446"),
        (1, 0, "4.3.1", ""),  # T2 has a later epoch
        (2, 1, "4.3.1", ""),  # a leader refuses it since KIP-1228
        (2, 1, "4.2.0", ""),
        (2, 1, "4.1.2", "KAFKA-19446"),
    ],
)
def test_a_late_marker_of_an_epoch_that_its_broker_takes(
    tmp_path: Path, version: int, named: int, kafka: str, bug: str
) -> None:
    logs = later_epoch(marked_late(), version=version)
    late = late_request("write_txn_markers", f"producer {PRODUCER}/{named}, q-1", caught_s=1.2, comes_s=20.01)
    found = labels(tmp_path / "run", logs, OK, FAIL, events=tuple(late), settings={"kafka": kafka})
    assert found["decisions-agree"] == bug


# ---- KAFKA-17754


def ended_late(*, sent_ms: int = 0) -> Logs:
    """The EndTxn of T1, a commit, comes while T2 has a record in q-0; T2 goes on in q-1, and aborts. sent_ms:
    when it sent one more record to q-0, which stands there before (0) or after the marker."""
    logs = Logs()
    logs.transaction(T1, P0)
    logs.coordinator("Ongoing", T2, P0, start_ms=T2)
    logs.records(P0, T2 + 1)
    logs.coordinator("PrepareCommit", T2 + 10, P0, start_ms=T2)
    if not sent_ms:
        logs.records(P0, T2 + 11)
    logs.marker(P0, T2 + 12, "COMMIT")
    logs.coordinator("CompleteCommit", T2 + 14, start_ms=T2)
    if sent_ms:
        logs.records(P0, sent_ms)
    logs.coordinator("Ongoing", T2 + 20, P1, start_ms=T2 + 20)
    logs.records(P1, T2 + 21)
    logs.coordinator("PrepareAbort", T2 + 30, P1, start_ms=T2 + 20)
    logs.marker(P1, T2 + 31, "ABORT")
    logs.coordinator("CompleteAbort", T2 + 35, start_ms=T2 + 20)
    logs.transaction(T3, P0, commit=False)
    return logs


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("first", "late", "bug"),
    [
        (OK, {}, "KAFKA-17754"),
        (INFO, {}, "KAFKA-17754"),  # it may have asked for a commit
        (FAIL, {}, ""),  # it asked for an abort
        (OK, {"comes_s": 20.05}, ""),  # after the decision
        (OK, {"comes_s": 20.002}, ""),  # and answered before it
        (OK, {"comes_s": 1.25}, ""),
        (OK, {"comes_s": 40.05}, ""),
        (OK, {"caught_s": 20.005}, ""),
        (OK, {"named": "another"}, ""),
    ],
)
@pytest.mark.parametrize("sent_ms", [0, T2 + 16])
def test_what_was_decided_when_a_late_end_came(
    tmp_path: Path, first: Outcome, late: dict[str, Any], bug: str, sent_ms: int
) -> None:
    given: dict[str, Any] = {"named": ID, "caught_s": 1.2, "comes_s": 20.01} | late
    events = tuple(late_request("end_txn", **given))
    found = labels(tmp_path / "run", ended_late(sent_ms=sent_ms), first, FAIL, FAIL, events=events)
    wanted = {"answers-decided", "partitions-named", *([] if sent_ms else ["marker-decided"])}
    assert {name: found[name] for name in wanted} == dict.fromkeys(wanted, bug)


@pytest.mark.parametrize("version", [1, 2])
def test_a_late_end_of_an_older_epoch_would_be_refused(tmp_path: Path, version: int) -> None:
    logs = later_epoch(ended_late(sent_ms=T2 + 16), version=version)
    events = tuple(late_request("end_txn", ID, caught_s=1.2, comes_s=20.01))
    found = labels(tmp_path / "run", logs, OK, FAIL, FAIL, events=events)
    assert found["partitions-named"] == ""


@pytest.mark.sampled(2)
def test_another_decision_that_the_client_contradicts_has_another_cause(tmp_path: Path) -> None:
    """The rest of T2 is committed, too, which its client aborted."""
    logs = ended_late(sent_ms=T2 + 16)
    for row in logs.made["transaction_log"]:
        if row["timestamp"] in (BEGAN_MS + T2 + 30, BEGAN_MS + T2 + 35):
            row["state"] = row["state"].replace("Abort", "Commit")
    events = tuple(late_request("end_txn", ID, caught_s=1.2, comes_s=20.01))
    found = labels(tmp_path / "run", logs, OK, FAIL, FAIL, events=events)
    assert found["answers-decided"] == "/KAFKA-17754"


@pytest.mark.parametrize(
    ("ms", "name", "bug"),
    [
        (T2 + 13, "COMMIT", "KAFKA-17754"),
        (T2 + 13, "ABORT", ""),  # the decision is a commit
        (T2 + 50, "COMMIT", ""),  # its coordinator had completed it
        (T2 + 5, "COMMIT", ""),  # before it was decided
    ],
)
def test_a_marker_by_the_decision_of_a_late_end(tmp_path: Path, ms: int, name: str, bug: str) -> None:
    logs = ended_late(sent_ms=T2 + 16)
    logs.marker(P0, ms, name, epoch=3)
    events = tuple(late_request("end_txn", ID, caught_s=1.2, comes_s=20.01))
    assert labels(tmp_path / "run", logs, OK, FAIL, FAIL, events=events)["marker-decided"] == bug


# ---- KAFKA-14402

UNVERIFIED = {"broker_settings": {VERIFICATION: "false"}}


def open_records(
    *,
    made_ms: int,
    marked: bool = True,
    stamped: bool = False,
    group: bool = False,
    end: str = "Abort",
    kept: bool = False,
) -> Logs:
    """T2 ends; a record of it stands behind its marker in q-1, and was made at this time. group: it is an
    offset of a group, in the groups' topic instead. kept: T2 has one before the marker, too."""
    logs = Logs()
    tp = offsets(logs) if group else P1
    logs.transaction(T1, tp)
    logs.coordinator("Ongoing", T2, P0, tp, start_ms=T2)
    logs.records(P0, T2 + 1)
    if kept:
        logs.records(tp, T2 + 5)
    logs.coordinator(f"Prepare{end}", T2 + 20, P0, tp, start_ms=T2)
    logs.marker(P0, T2 + 30, end.upper())
    if marked:
        logs.marker(tp, T2 + 30, end.upper())
    logs.coordinator(f"Complete{end}", T2 + 40, start_ms=T2)
    logs.records(tp, made_ms, stamped=stamped)
    return logs


@pytest.mark.parametrize(
    ("logs", "settings", "bug"),
    [
        (open_records(made_ms=T2 + 2), UNVERIFIED, "KAFKA-14402"),
        (open_records(made_ms=T2 + 2), {"kafka": "3.5.2"}, "KAFKA-14402"),
        (open_records(made_ms=T2 + 2), None, ""),
        (open_records(made_ms=T2 + 50), UNVERIFIED, ""),  # it was made after the marker: by no transaction
        (open_records(made_ms=T2 + 2, marked=False), UNVERIFIED, ""),  # the marker was left out
        (open_records(made_ms=T2 + 2, stamped=True), UNVERIFIED, ""),  # its time is not when it was made
    ],
)
def test_a_record_behind_a_marker_that_is_younger(
    tmp_path: Path, logs: Logs, settings: dict[str, Any] | None, bug: str
) -> None:
    found = labels(tmp_path / "run", logs, OK, FAIL, settings=settings)
    assert found
    assert set(found.values()) == {bug}


@pytest.mark.parametrize(
    ("settings", "bug"), [(UNVERIFIED, "KAFKA-14402"), (UNVERIFIED | {"clients": "command"}, "")]
)
def test_the_time_of_its_input_does_not_say_that_a_record_came_late(
    tmp_path: Path, settings: dict[str, Any], bug: str
) -> None:
    """The marker of T2 was left out, and its record is said to be made before T1 was decided: then it came
    late to T1. A program of the user's may have given it the time of its input."""
    logs = open_records(made_ms=T1 - 500, marked=False)
    history, kept = recorded(tmp_path / "run", logs, OK, FAIL, settings=settings)
    found = of_all(decisions.CHECKS, kept, history).in_logs
    named = dict(zip((one.text for one in found), labels_of(history, kept, found), strict=True))
    assert {one.check for one in found} == {"partitions-marked"}
    assert bug in named.values()
    assert {text for text, label in named.items() if label} == {text for text in named if "KAFKA" in text}
    assert any("it has no records there" in text for text in named) == bool(bug)
    assert any("no marker ends the records of producer" in text for text in named) != bool(bug)


HELD: dict[str, Any] = {"caught_s": 20.02, "comes_s": 20.05}
"""A rule of the wire held the commit of offsets back; it came 20 ms after the marker."""


@pytest.mark.parametrize(
    ("kafka", "outcome", "held", "bug"),
    [
        ("3.6.2", FAIL, None, "KAFKA-14402"),
        ("3.6.2", INFO, None, "KAFKA-14402"),
        ("3.7.0", FAIL, None, ""),  # since then the coordinator of groups asks, too
        ("3.6.2", OK, None, ""),  # who has the answer ends the transaction afterwards
        ("3.6.2", OK, HELD, "KAFKA-14402"),  # the client had asked again
        ("3.6.2", OK, HELD | {"named": "another"}, ""),
        ("3.6.2", OK, HELD | {"caught_s": 20.04}, ""),  # it was sent behind the marker
        ("3.6.2", OK, HELD | {"comes_s": 20.06}, ""),  # the record was there before
        ("3.6.2", OK, HELD | {"comes_s": 20.04}, ""),
    ],
)
def test_a_late_commit_of_offsets_is_as_young_as_it_came(
    tmp_path: Path, kafka: str, outcome: Outcome, held: dict[str, Any] | None, bug: str
) -> None:
    """A coordinator of groups stamps it when it comes."""
    logs = open_records(made_ms=T2 + 50, group=True, end="Commit" if outcome is OK else "Abort")
    late = late_request("txn_offset_commit", **({"named": f"{ID}, group-0, q-0"} | held)) if held else ()
    more: dict[str, Any] = {"settings": {"kafka": kafka}, "events": tuple(late)}
    found = labels(tmp_path / "run", logs, OK, outcome, **more)
    assert found
    assert set(found.values()) == {bug}


@pytest.mark.parametrize(
    ("first", "other", "bug"),
    [
        (T2, {}, "KAFKA-14402"),
        (T1, {}, ""),  # the transaction before had committed it
        (T2, {"committed": 8}, ""),
        (T2, {"group": "another"}, ""),
        (T2, {"committed_partition": 1}, ""),
        (T2, {"producer_id": PRODUCER + 1}, ""),
        (None, {}, ""),
    ],
)
def test_offsets_that_the_log_has_before_the_marker_too_came_late(
    tmp_path: Path, first: int | None, other: dict[str, Any], bug: str
) -> None:
    """The client asked again on another connection, and committed; then its first request came. first: in
    which transaction the log has them. other: what differs there."""
    logs = open_records(made_ms=T2 + 50, group=True, end="Commit", kept=True)
    tp = TopicPartition("__consumer_offsets", 1)
    places = [
        row["base"] for row in logs.made["batches"] if row["topic"] == tp.topic and not row.get("control")
    ]
    known = {"producer_id": PRODUCER, "producer_epoch": 0, "transactional": True, "group": "group-0"}
    known |= {"committed_topic": "q", "committed_partition": 0, "committed": 9, "take": 1, "timestamp": 0}
    rows: list[tuple[int, dict[str, Any]]] = [(places[-1], {})]
    if first is not None:
        rows.append((places[0 if first == T1 else 1], other))
    logs.made["offset_log"] = [at(tp, 1, offset=offset, **(known | more)) for offset, more in rows]
    found = labels(tmp_path / "run", logs, OK, OK, settings={"kafka": "3.6.2"})
    assert found
    assert set(found.values()) == {bug}


def test_a_commit_of_offsets_without_a_marker_before_it_did_not_come_late(tmp_path: Path) -> None:
    logs = open_records(made_ms=T2 + 50, group=True, marked=False)
    found = labels(tmp_path / "run", logs, OK, FAIL, settings={"kafka": "3.6.2"})
    assert found
    assert set(found.values()) == {""}


# ---- early acts


@pytest.mark.parametrize(
    ("sent", "bug"),
    [
        ({}, "uncommitted-state"),
        ({"rule": "ends-committed", "ms": T2 + 40}, "uncommitted-state"),  # and sent them a moment later
        ({"coordinator_epoch": 4}, ""),  # it had appended the decision itself
        ({"client": 3}, ""),  # another node sent them
        ({"ms": T1 + 30}, ""),  # of the transaction before
        ({"ms": T3 + 30}, ""),  # of the next one
        ({"producer_id": PRODUCER + 1}, ""),
        ({"producer_epoch": 1}, ""),
        ({"answer": True}, ""),
        ({"api": PRODUCE}, ""),
    ],
)
def test_a_coordinator_acted_upon_what_a_leader_before_it_had_appended(
    tmp_path: Path, sent: dict[str, Any], bug: str
) -> None:
    """sent: what differs from markers that node 2 sent as coordinator of epoch 5."""
    cluster = Logs()
    for begin in (T1, T2, T3):
        cluster.transaction(begin, P0)
    (decision,) = (
        row
        for row in cluster.made["transaction_log"]
        if row["state"] == "PrepareCommit" and row["timestamp"] == BEGAN_MS + T2 + 2
    )
    row: dict[str, Any] = {
        "rule": "markers-committed",
        "number": 0,
        "ms": T2 + 30,
        "client": 2,
        "server": 1,
        "answer": False,
    }
    row |= {"api": WRITE_TXN_MARKERS, "producer_id": PRODUCER, "producer_epoch": 0, "coordinator_epoch": 5}
    row |= sent
    made: Made = {**cluster.made, "frames": [row | {"ms": BEGAN_MS + row["ms"]}], "frame_parts": [row]}
    finding = LogFinding(
        check=row["rule"],
        name="early-act",
        log=LOG,
        offset=decision["offset"],
        take=-1,
        nodes=(2,),
        text="told",
        producer_id=PRODUCER,
        producer_epoch=0,
        transactional_id=ID,
        ms=BEGAN_MS + T2 + 30,
    )
    history = load(write_run(tmp_path / "run", Built(tps=["q"]).tables()))
    assert labels_of(history, evidence.Evidence(tables(made)), [finding]) == [bug]
