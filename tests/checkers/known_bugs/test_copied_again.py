"""KAFKA-20734 and eos-duplicate: a later marker committed an aborted copy, and the group copied again."""

from pathlib import Path

import pytest

from checkers.logs.coordinator_log import CoordinatorLog
from core.op import Outcome, value_of
from tests.checkers.known_bugs.test_markers_left_out import S, line
from tests.checkers.known_bugs.test_uncommitted_state import EARLIER, log, record, write_evidence
from tests.histories.built import Built, Op, Process, Send, final_reads
from tests.histories.folders import check_run, write_run

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
OUTPUTS = ("x-0", "y-0")
BEGUN = record(10.5, "Ongoing", *OUTPUTS)
ABORTED = log(EARLIER, BEGUN, record(15, "PrepareAbort", *OUTPUTS), record(15.2, "CompleteAbort"))
ABORTED_LATE = log(EARLIER, BEGUN, record(26, "PrepareAbort", *OUTPUTS), record(26.2, "CompleteAbort"))
COMMITTED = log(EARLIER, BEGUN, record(15, "PrepareCommit", *OUTPUTS), record(15.2, "CompleteCommit"))


def copied(
    *outcomes: Outcome, twice_by_one: bool = False, gone: bool = False, beside: bool | None = None
) -> Built:
    """Copies of the record at offset 0 of `in` into x, one by each transaction of an id; the first one from
    10 s to 14 s, and each next one begins 20 s later. All are visible, but for the first one where it is
    `gone`. beside: the first one has a record in y, too, and whether that is visible.
    twice_by_one: the first one copies it twice."""
    built = Built(tps=["x", "y", "in"])
    built.processes[1] = Process(txn_id=0, group=0, slot=1)
    shown: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: [(0, value_of(9, 1))]}
    hidden: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    built.ops = [Op(process=9, f="txn", invoke=S, complete=2 * S)]
    built.ops[0].mops = [Send(tp=2, value=value_of(9, 1), offset=0)]
    for number, outcome in enumerate(outcomes):
        began = (10 + 20 * number) * S
        op = Op(process=1, f="txn", invoke=began, complete=began + 4 * S, txn=True, outcome=outcome)
        for again in range(1 + (twice_by_one and not number)):
            value, offset = value_of(1, 10 * number + again), 3 * number + again
            op.mops.append(Send(tp=0, value=value, offset=offset, source=(2, 0), ns=(began, began + S)))
            if number or not gone:
                shown[0].append((offset, value))
        if not number and beside is not None:
            value = value_of(1, 5)
            op.mops.append(Send(tp=1, value=value, offset=0, ns=(began, began + S)))
            (shown if beside else hidden)[1].append((0, value))
        built.ops.append(op)
    return final_reads(built, shown, hidden, end=20)


def slowly(built: Built) -> Built:
    """Its client begins the next transaction, and no broker answers: the coordinator has not yet decided."""
    op = Op(process=1, f="txn", invoke=20 * S, complete=24 * S, txn=True, outcome=INFO)
    op.mops = [Send(tp=0, value=value_of(1, 90), outcome=INFO, ns=(20 * S, 24 * S))]
    built.ops.insert(2, op)
    return built


def label(folder: Path, built: Built, logged: CoordinatorLog | None, *lines: str) -> str | None:
    """The label of the input that was copied twice; None = no such finding."""
    run = write_run(folder, built.tables())
    server = run.cluster / "2" / "server.log"
    server.parent.mkdir(parents=True)
    server.write_text("2026-01-01T00:00:00.000Z INFO something else\n" + "".join(lines))
    if logged is not None:
        write_evidence(run, logged)
    found = check_run(run).anomalies.get("eos-duplicate")
    return found.known_bug if found else None


LEFT_OUT = line(15.1, "x-0")


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("built", "logged", "lines", "expected"),
    [
        (copied(INFO, OK), ABORTED, [LEFT_OUT], "KAFKA-20734"),
        (copied(INFO, OK, beside=False), ABORTED, [LEFT_OUT], "KAFKA-20734"),
        (copied(INFO, INFO), ABORTED, [LEFT_OUT], "KAFKA-20734"),  # the second one committed, or not
        (slowly(copied(INFO, OK)), ABORTED_LATE, [line(26.1, "x-0")], "KAFKA-20734"),
        # the first one was committed: its offsets, too, and the group got the input again
        (copied(INFO, OK), COMMITTED, [LEFT_OUT], ""),
        (copied(INFO, OK, beside=True), ABORTED, [LEFT_OUT], ""),
        (copied(OK, OK), ABORTED, [LEFT_OUT], ""),
        # how it was decided is not known
        (copied(INFO, OK), None, [LEFT_OUT], ""),
        (copied(INFO, OK), log(EARLIER, BEGUN), [LEFT_OUT], ""),
        (copied(INFO, OK), log(record(5, "PrepareAbort"), EARLIER, BEGUN), [LEFT_OUT], ""),
        (copied(INFO, OK), log(*COMMITTED.records, record(34, "PrepareAbort")), [LEFT_OUT], ""),
        (copied(INFO, OK), log(*ABORTED.records, whole=False), [LEFT_OUT], ""),
        # no marker was left out of it
        (copied(INFO, OK), ABORTED, [], ""),
        (copied(INFO, OK), ABORTED, [line(15.1, "y-0")], ""),
        (copied(INFO, OK), ABORTED, [line(9, "x-0")], ""),
        (copied(INFO, OK), ABORTED, [line(55, "x-0")], ""),
        (copied(INFO, OK), ABORTED, [line(15.1, "x-0", transactional_id="another")], ""),
        # two of three are committed
        (copied(INFO, OK, OK), ABORTED, [LEFT_OUT], ""),
        # a transaction that copies an input twice
        (copied(INFO, twice_by_one=True), ABORTED, [LEFT_OUT], ""),
        (copied(INFO, OK, gone=True), ABORTED, [LEFT_OUT], None),
    ],
)
def test_all_copies_but_one_are_aborted_ones_without_a_marker(
    tmp_path: Path, built: Built, logged: CoordinatorLog | None, lines: list[str], expected: str | None
) -> None:
    assert label(tmp_path / "run", built, logged, *lines) == expected
