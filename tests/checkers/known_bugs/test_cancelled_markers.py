"""KAFKA-19446 without a rule of the wire: a coordinator's log says that it gave up the request.

Two transactions of one id, from 10 s and from 20 s on. The first one commits in x; the request with its
marker is made at 10.6 s and cancelled at 11 s, and the marker that was sent again stands there from 11.5 s
on. The second one has a record in x and in y, and aborts; the marker of the first one comes again into x at
21 s.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from checkers.known_bugs.cancelled_markers import late_markers
from checkers.known_bugs.registry import labels
from checkers.logs import decisions
from core.internal_topics import TRANSACTION_TOPIC as LOG_TOPIC
from core.op import Isolation, Outcome, TopicPartition, value_of
from history import evidence
from history.broker_logs import CancelledMarkersLine, broker_logs
from history.reader import load
from history.run_folder import Run
from history.tables import TABLES
from tests.checkers.known_bugs.test_log_findings import Logs
from tests.checkers.known_bugs.test_markers_left_out import ID
from tests.checkers.known_bugs.test_registry import late_end, with_another
from tests.checkers.logs.made import at, of_all, tables
from tests.checkers.logs.test_decisions import BEGAN_MS, LOG, PRODUCER
from tests.histories.built import Built, Read, Send
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run

S: Final = 1_000_000_000
X, Y = TopicPartition("x", 0), TopicPartition("y", 0)
COORDINATOR, LEADER = 2, 3
BUG: Final = "KAFKA-19446"


def line(
    at_s: float = 11, *, age_ms: int = 400, node: int = COORDINATOR, to: int = LEADER, api: str = ""
) -> str:
    """As Kafka 4.3 writes it."""
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)
    wall = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return (
        f"{wall} INFO org.apache.kafka.clients.NetworkClient - [TransactionCoordinator id={node}] Cancelled"
        f" in-flight {api or 'WRITE_TXN_MARKERS'} request with correlation id 97 due to node {to} being"
        f" disconnected (elapsed time since creation: {age_ms}ms, elapsed time since send: {age_ms - 24}ms,"
        " throttle time: 0ms, request timeout: 2000ms)\n"
    )


class Split(Logs):
    """x is led by `LEADER`, the log by `COORDINATOR`, and y by node 1."""

    def __init__(self) -> None:
        super().__init__()
        self.made["partitions"] = [at(tp, 1, take=1, start=0, files=1, bytes=9) for tp in (LOG, X, Y)]
        self.ends = {LOG: 0, X: 0, Y: 0}
        self.metadata(["x", "y", LOG_TOPIC])
        leads = {"x": LEADER, "y": 1, LOG_TOPIC: COORDINATOR}
        for row in self.made["metadata"]:
            if row["name"] == "PartitionRecord":
                row |= {"leader": leads[row["topic_id"]], "partition_leader_epoch": 4}

    def marker(self, tp: TopicPartition, ms: int, name: str, epoch: int = 0, coordinator: int = 4) -> int:
        offset = super().marker(tp, ms, name, epoch, coordinator)
        self.made["control"][-1]["leader_epoch"] = 4
        return offset


def marked_late(
    *,
    first: str = "Commit",
    marked: Sequence[int] = (11_500,),
    completed: int = 11_600,
    late: Sequence[int] = (21_000,),
    epoch: int = 0,
    began: int = 20_050,
    third: bool = False,
    second: str = "Abort",
    own: int = 0,
) -> Split:
    """Times in ms. marked: the marker of the first transaction in x. late: it comes again. epoch: of that
    one. third: another transaction commits between the two. second, own: end and
    epoch of the second one."""
    logs = Split()
    logs.coordinator("Ongoing", 10_050, X, start_ms=10_050)
    logs.records(X, 10_100)
    logs.coordinator(f"Prepare{first}", 10_500, X, start_ms=10_050)
    for ms in marked:
        logs.marker(X, ms, first.upper())
    logs.coordinator(f"Complete{first}", completed, start_ms=10_050)
    if third:
        logs.transaction(15_000, X)
    logs.coordinator("Ongoing", began, X, Y, start_ms=began, epoch=own)
    for tp in (X, Y):
        logs.ends[tp] = 5
        logs.records(tp, began + 100, own)
    for ms in late:
        logs.marker(X, ms, "COMMIT", epoch)
    logs.coordinator(f"Prepare{second}", 21_200, X, Y, start_ms=began, epoch=own)
    for tp in (X, Y):
        logs.marker(tp, 21_300, second.upper(), own)
    logs.coordinator(f"Complete{second}", 21_400, start_ms=began, epoch=own)
    return logs


def second_version() -> Split:
    """With transaction protocol 2: decisions and markers have the epoch of the next transaction."""
    logs = marked_late(epoch=1, own=1)
    for row in [*logs.made["transaction_log"], *logs.made["control"]]:
        first, state = row["timestamp"] < BEGAN_MS + 20_000, row.get("state", "")
        late = "state" not in row and row["timestamp"] == BEGAN_MS + 21_000
        row["producer_epoch"] = (0 if first else 1) + (state != "Ongoing" and not late)
        if state:
            row["client_transaction_version"] = 2
    return logs


def recorded(
    folder: Path, built: Built, logs: Split, lines: Sequence[str], *, settings: dict[str, Any] | None = None
) -> Run:
    known = {"process": 1, "producer_id": PRODUCER, "producer_epoch": 0, "epoch_cnt": 1, "ns": 1}
    made = built.tables() | {"producers": pa.Table.from_pylist([known], TABLES["producers"])}
    run = write_run(folder, made, settings=settings, events=(STARTED, RECOVERED))
    (run.cluster / "2").mkdir(parents=True)
    (run.cluster / "2" / "server.log").write_text("".join(lines))
    evidence.write(run.evidence, tables(logs.made))
    return run


def read_aborted(*visible: int) -> Built:
    """Of the second transaction, which aborts, the records in these partitions can be read."""
    return late_end(first=Outcome.OK, slow_s=1, visible=visible)


CASES = [
    (marked_late(), [line()], BUG),
    (marked_late(), [line(10.9, age_ms=400)], BUG),  # made when the decision was there
    (marked_late(marked=(10_500,)), [line()], BUG),  # another one had come in the millisecond of the decision
    (marked_late(), [line(11.5), line(api="FETCH")], BUG),
    (marked_late(third=True), [line()], BUG),  # not into the very next one
    (marked_late(), [], ""),
    (marked_late(), [line(api="FETCH")], ""),
    (marked_late(), [line(to=1)], ""),  # another broker leads x
    (marked_late(), [line(node=1)], ""),  # another one coordinates the id
    (marked_late(), [line(age_ms=501)], ""),  # made before the decision
    (marked_late(), [line(11.601, age_ms=900)], ""),  # when its markers had been answered for
    (marked_late(), [line(20.5)], ""),  # cancelled while the second transaction was under way
    (marked_late(), [line(21.5)], ""),  # after the marker
    (marked_late(began=11_550), [line()], ""),  # this one was under way before the first was completed
    (marked_late(first="Abort"), [line()], ""),  # a marker that aborts would have come
    (marked_late(epoch=1), [line()], ""),
    (marked_late(marked=()), [line()], ""),  # it was not sent again
    (marked_late(late=(21_000, 21_001)), [line()], ""),  # a request holds it once
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("logs", "lines", "bug"), CASES)
def test_the_marker_came_by_a_request_that_its_coordinator_had_given_up(
    tmp_path: Path, logs: Split, lines: list[str], bug: str
) -> None:
    run = recorded(tmp_path / "run", read_aborted(0), logs, lines)
    history, kept = load(run), evidence.Evidence.load(run.evidence)
    found = [one for one in of_all(decisions.CHECKS, kept).in_logs if one.log == X and one.ms >= 20_000]
    wanted = {one.check for one in found}
    assert wanted & {"marker-decided", "decisions-agree"}
    named = dict(zip((one.check for one in found), labels(history, kept, found), strict=True))
    assert {named[rule] for rule in wanted & {"marker-decided", "decisions-agree"}} == {bug}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("logs", "lines", "bug"), CASES)
def test_what_was_aborted_is_read_where_a_request_that_was_given_up_came(
    tmp_path: Path, logs: Split, lines: list[str], bug: str
) -> None:
    found = check_run(recorded(tmp_path / "run", read_aborted(0), logs, lines)).anomalies["aborted-read"]
    assert (found.disallowed, found.known_bug) == (1, bug)


def after_its_completion() -> Split:
    logs = marked_late(late=())
    logs.marker(X, 21_450, "COMMIT")
    return logs


def begins_later() -> Split:
    """The beginning of the coordinators' log is gone: a decision may be missing."""
    logs = marked_late()
    logs.made["partitions"][0]["start"] = 1
    return logs


@pytest.mark.parametrize(
    ("logs", "bug"),
    [
        (marked_late(), BUG),
        (marked_late(own=1), ""),  # the broker refuses the older epoch
        (after_its_completion(), ""),
        (begins_later(), ""),
    ],
)
def test_what_a_broker_would_not_do_is_not_explained(tmp_path: Path, logs: Split, bug: str) -> None:
    found = check_run(recorded(tmp_path / "run", read_aborted(0), logs, [line()])).anomalies["aborted-read"]
    assert found.known_bug == bug


@pytest.mark.parametrize(("kafka", "bug"), [("4.1.2", BUG), ("4.2.0", "")])
def test_since_kip_1228_a_marker_is_newer_than_what_it_ends(tmp_path: Path, kafka: str, bug: str) -> None:
    run = recorded(tmp_path / "run", read_aborted(0), second_version(), [line()], settings={"kafka": kafka})
    assert check_run(run).anomalies["aborted-read"].known_bug == bug
    history, kept = load(run), evidence.Evidence.load(run.evidence)
    (found,) = (one for one in of_all(decisions.CHECKS, kept).in_logs if one.check == "marker-decided")
    assert labels(history, kept, [found]) == [bug]


def test_the_marker_came_into_another_transaction(tmp_path: Path) -> None:
    """As clients have it, the one whose record is read began later."""
    built = read_aborted(0)
    built.ops[1].invoke = round(20.07 * S)
    found = check_run(recorded(tmp_path / "run", built, marked_late(), [line()])).anomalies["aborted-read"]
    assert found.known_bug == ""


@pytest.mark.parametrize("offset", [5, 7])
def test_a_commit_that_came_early_hides_nothing(tmp_path: Path, offset: int) -> None:
    """The second transaction commits, too; its record in x, before or behind the marker, is hidden."""
    built = read_aborted(0, 1)
    built.ops[1].outcome = Outcome.OK
    for op in built.ops:
        if built.processes[op.process].isolation == Isolation.READ_COMMITTED and op.f == "final":
            op.mops = [mop for mop in op.mops if not (isinstance(mop, Read) and mop.value == value_of(1, 1))]
        for mop in op.mops:
            if isinstance(mop, Send | Read) and (mop.tp, mop.value) == (0, value_of(1, 1)):
                mop.offset = offset
    found = check_run(recorded(tmp_path / "run", built, marked_late(second="Commit"), [line()])).anomalies
    assert (bool(found["lost-write"].disallowed), found["lost-write"].known_bug) == (True, "")


@pytest.mark.parametrize("visible", [(1,), (0, 1)])
def test_another_partition_has_its_own_end(tmp_path: Path, visible: tuple[int, ...]) -> None:
    """What was aborted is read in y."""
    found = check_run(recorded(tmp_path / "run", read_aborted(*visible), marked_late(), [line()]))
    assert found.anomalies["aborted-read"].known_bug == ""


@pytest.mark.parametrize(
    ("offset", "visible", "bug"), [(7, False, BUG), (7, True, ""), (4, True, BUG), (4, False, "")]
)
def test_the_marker_decides_what_stands_before_it_and_nothing_behind(
    tmp_path: Path, offset: int, visible: bool, bug: str
) -> None:
    """The second transaction has one more record in x; the marker is at offset 6."""
    built = read_aborted(0)
    value = value_of(1, 9)
    built.ops[1].mops.append(Send(tp=0, value=value, offset=offset))
    for op in built.ops:
        if op.f == "final" and (
            visible or built.processes[op.process].isolation == Isolation.READ_UNCOMMITTED
        ):
            op.mops.append(Read(tp=0, offset=offset, value=value))
            op.mops.sort(key=lambda mop: (mop.tp, mop.offset) if isinstance(mop, Read) else (0, 0))
    found = check_run(recorded(tmp_path / "run", built, marked_late(), [line()])).anomalies["aborted-read"]
    assert found.known_bug == bug


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("logs", "offset", "read_s", "bug"),
    [
        (marked_late(), 5, 21.05, BUG),
        (marked_late(), 5, 20.9, ""),  # before the marker came
        (marked_late(), 7, 21.05, ""),  # it stands behind the marker
        (marked_late(second="Commit"), 5, 21.05, BUG),
        (marked_late(second="Commit", late=(21_250,)), 5, 21.28, ""),  # after its decision: it is its own
    ],
)
def test_what_was_read_too_early_was_read_after_the_marker_came(
    tmp_path: Path, logs: Split, offset: int, read_s: float, bug: str
) -> None:
    """The second transaction reads its own record."""
    committed = ("y", "COMMIT") in {(row["topic"], row["name"]) for row in logs.made["control"]}
    built = read_aborted(*((0, 1) if committed else (0,)))
    if committed:
        built.ops[1].outcome = Outcome.OK
    (mine, *_) = built.ops[1].mops
    assert isinstance(mine, Send)
    mine.ns = (20 * S, round(20.3 * S))
    read = Read(tp=0, offset=5, value=value_of(1, 1), ns=(round(read_s * S) - 1, round(read_s * S)))
    built.ops[1].mops.append(read)
    for op in built.ops:
        for mop in op.mops:
            if isinstance(mop, Send | Read) and (mop.tp, mop.value) == (0, value_of(1, 1)):
                mop.offset = offset
    found = check_run(recorded(tmp_path / "run", built, logs, [line()])).anomalies
    assert found["precommitted-read"].known_bug == bug


@pytest.mark.parametrize(("offset", "bug"), [(5, BUG), (7, "")])
def test_the_record_itself_stands_before_the_marker(tmp_path: Path, offset: int, bug: str) -> None:
    """The marker at 6 ended the one at 5, and not the one behind it."""
    built = read_aborted(0)
    (mine, other) = built.ops[1].mops
    assert isinstance(mine, Send)
    assert isinstance(other, Send)
    mine.ns, other.ns = (20 * S, round(20.2 * S)), (20 * S, round(20.3 * S))
    value = with_another(built, offset=7, ns=(round(21.01 * S), round(21.02 * S)))
    shown = mine.value if offset == 5 else value
    read = Read(tp=0, offset=offset, value=shown, ns=(round(21.1 * S) - 1, round(21.1 * S)))
    built.ops[1].mops.append(read)
    found = check_run(recorded(tmp_path / "run", built, marked_late(second="Commit"), [line()])).anomalies
    assert found["precommitted-read"].known_bug == bug


def test_an_id_without_a_transaction_has_no_late_markers() -> None:
    kept = evidence.Evidence(tables(marked_late().made))
    cancelled = [
        CancelledMarkersLine(node=2, to=3, made_ms=BEGAN_MS + 10_600, cancelled_ms=BEGAN_MS + 11_000)
    ]
    assert len(late_markers(kept, cancelled, ID)) == 1
    assert late_markers(kept, cancelled, "another") == []


def test_the_transaction_that_it_came_into_may_never_have_been_decided() -> None:
    """Its client was gone, and the run ended before its time-out."""
    made = marked_late().made
    made["transaction_log"] = [row for row in made["transaction_log"] if row["timestamp"] < BEGAN_MS + 21_200]
    made["control"] = [row for row in made["control"] if row["timestamp"] < BEGAN_MS + 21_200]
    cancelled = [
        CancelledMarkersLine(node=2, to=3, made_ms=BEGAN_MS + 10_600, cancelled_ms=BEGAN_MS + 11_000)
    ]
    assert len(late_markers(evidence.Evidence(tables(made)), cancelled, ID)) == 1


def test_the_line_is_read_as_it_is_meant(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (run.cluster / "1").mkdir(parents=True)
    fetcher = line().replace("[TransactionCoordinator id=2]", "[ReplicaFetcher replicaId=2, leaderId=3]")
    (run.cluster / "1" / "server.log").write_text(line(11.376, age_ms=2029) + fetcher + line(api="FETCH"))
    (one,) = broker_logs(run).cancelled
    wanted: dict[str, Any] = {"made_ms": BEGAN_MS + 9_347, "cancelled_ms": BEGAN_MS + 11_376}
    assert one == CancelledMarkersLine(node=2, to=3, **wanted)
