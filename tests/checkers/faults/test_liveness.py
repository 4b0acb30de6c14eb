"""Liveness: what a run of known sends, phases and faults is told to have cost (docs/checks.md)."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from checkers.checks.recovery import CHECK, NAME, ServedTimes
from checkers.engine import pipeline
from checkers.engine.findings import NEVER
from core.op import Outcome, Phase, value_of
from history.events import Event, FaultFailed, PhaseStarted
from history.verdict import Liveness, Stall
from tests.histories.built import Built, Op, Process, Send
from tests.histories.fault_events import begun, both
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run

S = 1_000_000_000
MS = 1_000_000

Sent = tuple[int, float, float | None]
"""Partition, seconds of sending and of acknowledgement (None: in doubt)."""


def history(sent: Sequence[Sent], outcome: Outcome = Outcome.INFO) -> Built:
    """One op a record; those that are not acknowledged have this outcome."""
    built = Built(tps=["x", "y"], processes={1: Process()})
    for n, (tp, begin, end) in enumerate(sent):
        done = begin + 0.001 if end is None else end
        op = Op(process=1, f="send", invoke=int(begin * S), complete=int(done * S))
        op.outcome = Outcome.OK if end is not None else outcome
        op.mops = [Send(tp=tp, value=value_of(1, n), offset=n if end is not None else -1)]
        built.ops.append(op)
    return built


def steady(tp: int, begin: float, end: float) -> list[Sent]:
    """A record every 40 ms, acknowledged 10 ms later."""
    return [(tp, at, at + 0.01) for at in np.arange(begin, end, 0.04)]


def fault(number: int, begin: float, end: float | None = None) -> list[Event]:
    return both(begun("kill", begin, begin + 0.001, number=number, nodes=(1,)), end)


PHASES = [
    PhaseStarted(ns=n * 10 * S, phase=phase)
    for n, phase in enumerate((Phase.WARMUP, Phase.FAULTS, Phase.HEAL, Phase.QUIESCE))
]
"""Faults from 10 s to 20 s, load to 30 s."""


def told(folder: Path, sent: Sequence[Sent], *events: Event, phases: bool = True) -> Liveness:
    run = write_run(
        folder, history(sent).tables(), events=(STARTED, *(PHASES if phases else ()), *events, RECOVERED)
    )
    return check_run(run).liveness


def progress(sent: Sequence[Sent], outcome: Outcome = Outcome.INFO) -> ServedTimes:
    tables = history(sent, outcome).tables()
    tally = pipeline.check_tables(tables, {NAME: CHECK}, recorded=True)
    ((_, found),) = tally.parts_of(NAME, ServedTimes)
    return found


def test_a_history_without_one_clock_has_no_times_of_service() -> None:
    tally = pipeline.check_tables(history(steady(0, 0, 1)).tables(), {NAME: CHECK}, recorded=False)
    assert tally.parts_of(NAME, ServedTimes) == []


def test_a_load_that_is_always_served_has_no_stall(tmp_path: Path) -> None:
    served = told(tmp_path / "run", [*steady(0, 0, 30), *steady(1, 0, 30)], *fault(0, 12, 14))
    assert (served.stalls, served.available) == ([], 1.0)
    (cost,) = served.faults
    assert (cost.fault, cost.stalled_s, cost.partition, cost.partition_stalled_s) == (0, 0, "", 0)
    assert cost.recovered_s == pytest.approx(0.03, abs=0.03)


@pytest.mark.sampled(2)
def test_a_partition_that_nobody_writes_to_does_not_stall(tmp_path: Path) -> None:
    sent = [*steady(0, 0, 30), *steady(1, 0, 11), (1, 29.0, 29.01)]
    served = told(tmp_path / "run", sent, *fault(0, 12, 14))
    assert served.stalls == []
    assert served.faults[0].recovered_s == pytest.approx(0.03, abs=0.03)  # y was not in use then
    soon = told(tmp_path / "soon", [*sent, (1, 14.9, 15.3)], *fault(0, 12, 14))
    assert soon.faults[0].recovered_s == pytest.approx(1.3)
    waits = told(tmp_path / "waits", [*sent, (1, 13.0, 17.0)], *fault(0, 12, 14))
    assert waits.faults[0].recovered_s == pytest.approx(15.01)  # of a record sent after healing


@pytest.mark.sampled(2)
def test_of_many_stalls_the_longest_are_kept_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [*steady(0, 0, 30), (1, 11, 12.5), (1, 13, 15), (1, 15.5, 19)]
    every = told(tmp_path / "all", sent)
    lasted = [round(stall.end_s - stall.begin_s, 1) for stall in every.stalls]
    assert (lasted, every.stall_count) == ([3.5, 2.0, 1.5], 3)
    monkeypatch.setattr("checkers.faults.liveness.STALLS_KEPT", 2)
    longest = told(tmp_path / "longest", sent)
    assert (longest.stalls, longest.stall_count) == (every.stalls[:2], 3)


def test_a_partition_that_makes_a_record_wait_stalls_and_the_run_does_not(tmp_path: Path) -> None:
    sent = [*steady(0, 0, 30), *steady(1, 0, 12), (1, 12.5, 16.5), *steady(1, 16.5, 30)]
    served = told(tmp_path / "run", sent, *fault(0, 12, 14), *fault(1, 18, 19))
    (stall,) = served.stalls
    assert stall == Stall(partition="y-0", begin_s=12.5, end_s=16.5, faults=[0])
    first, second = served.faults
    assert (first.stalled_s, first.partition, second.partition) == (0, "y-0", "")
    assert first.partition_stalled_s == pytest.approx(4, abs=0.01)
    assert first.recovered_s == pytest.approx(2.5, abs=0.06)
    assert served.available == 1.0


def test_a_run_in_which_nothing_is_acknowledged_is_not_available(tmp_path: Path) -> None:
    sent = [
        *steady(0, 0, 12),
        *steady(1, 0, 12),
        (0, 12.0, None),
        (1, 12.1, 15.5),
        *steady(0, 15.5, 30),
        *steady(1, 15.5, 30),
    ]
    served = told(tmp_path / "run", sent, *fault(0, 11.9, 14))
    whole = [stall for stall in served.stalls if not stall.partition]
    (stall,) = whole
    assert stall.begin_s == pytest.approx(12.0, abs=0.1)
    assert stall.end_s == pytest.approx(15.5, abs=0.1)
    assert {stall.partition for stall in served.stalls} == {"", "x-0", "y-0"}
    assert served.available == pytest.approx(0.75, abs=0.02)  # the last one was at 11.97 s
    assert served.under_faults == served.faults[0].served == pytest.approx(1.05 / 2.1, abs=0.03)
    assert served.faults[0].stalled_s == pytest.approx(3.5, abs=0.2)
    assert served.faults[0].recovered_s == pytest.approx(1.5, abs=0.1)


def test_a_fault_that_is_not_recovered_from_before_the_next_one_says_so(tmp_path: Path) -> None:
    sent = [*steady(0, 0, 12), (0, 12.0, None), (0, 14.5, 18.0), *steady(0, 18.0, 30)]
    served = told(tmp_path / "run", sent, *fault(0, 12, 14), *fault(1, 16, 17))
    assert [cost.recovered_s is None for cost in served.faults] == [True, False]
    assert served.faults[0].stalled_s == pytest.approx(4.0, abs=0.1)  # up to the next fault
    never = told(tmp_path / "never", sent, *fault(0, 12))
    assert never.faults[0].recovered_s is None
    assert never.faults[0].stalled_s == pytest.approx(6.0, abs=0.1)


def test_a_record_that_is_in_doubt_at_the_end_waits_to_the_end_of_the_load(tmp_path: Path) -> None:
    served = told(tmp_path / "run", [*steady(0, 0, 15), (0, 16.0, None)])
    assert [(s.partition, s.begin_s, s.end_s) for s in served.stalls if s.partition] == [("x-0", 16.0, 30.0)]
    assert served.available == pytest.approx(0.6, abs=0.02)
    assert served.under_faults is None


@pytest.mark.parametrize(
    ("topics", "until"),
    [
        (["x~1", "x"], 20.0),  # its record waited for the topic that is left
        (["x~1", "x~2"], 20.0),  # … or for another one that was deleted, too
        (["x~9", "x~10"], 20.0),
        (["x~2", "x~1"], 30.0),  # an earlier one follows none
        (["x", "x~1"], 30.0),
        (["x~1", "y"], 30.0),
        (["x~1", "xx"], 30.0),
    ],
)
@pytest.mark.parametrize("failed", [False, True])
def test_a_record_to_a_deleted_topic_waits_until_clients_work_on_a_later_one(
    tmp_path: Path, topics: list[str], until: float, failed: bool
) -> None:
    """Whether a fault that failed remade topics, no event says. A later fault, on a cluster that has no
    record to wait for, made none wait."""
    remade = msgspec.structs.replace(fault(0, 19)[0], name="recreate-topics:all", nodes=())
    why = FaultFailed(begin_ns=3 * S, ns=4 * S, fault=2, name="recreate-topics:all", why="x")
    built = history([(0, 16.0, None), (1, 20.0, 20.01)])
    built.tps = topics
    events = (STARTED, *PHASES, *([why] if failed else ()), remade, *fault(1, 24, 26), RECOVERED)
    found = check_run(write_run(tmp_path, built.tables(), events=events))
    stalls = [(s.partition, s.end_s) for s in found.liveness.stalls if s.partition]
    assert stalls == [(f"{topics[0]}-0", until)]
    hits = found.faults[1].hits
    assert hits is not None
    assert hits.nothing is (until == 20.0)


def test_clients_that_cannot_hand_over_any_record_are_not_served(tmp_path: Path) -> None:
    """No record waits, so nothing stalls; and yet nothing is served."""
    served = told(
        tmp_path / "run", [*steady(0, 0, 13), *steady(0, 18, 30)], *fault(0, 13, 17), *fault(1, 16, 19)
    )
    assert served.stalls == []
    assert served.available == pytest.approx(0.6, abs=0.01)
    assert [cost.served for cost in served.faults] == pytest.approx([0.25, 1 / 3], abs=0.02)
    assert served.under_faults == pytest.approx(2 / 6, abs=0.02)


def test_before_and_after_the_load_nothing_counts(tmp_path: Path) -> None:
    sent = [(0, 2.0, 7.0), *steady(0, 9, 29), (0, 32.0, 38.0)]
    assert told(tmp_path / "run", sent).stalls == []


def test_without_phases_or_sends_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert told(tmp_path / "a", steady(0, 0, 3), phases=False) == Liveness()
    assert told(tmp_path / "b", []) == Liveness()


def test_a_record_that_was_never_handed_over_does_not_wait() -> None:
    sent = [(0, 1.0, 1.01), (0, 2.0, None), (0, 6.0, 6.01)]
    assert progress(sent, Outcome.FAIL).waits.tolist() == [[], []]
    assert progress(sent).waits.tolist() == [[2 * S], [int(6.01 * S)]]


def test_an_old_record_makes_every_gap_a_wait() -> None:
    """The first record is acknowledged last: it waits all the time."""
    found = progress([(0, 1.0, 9.0), (0, 2.0, 2.01), (0, 5.0, 5.01)])
    assert found.waits.tolist() == [
        [1 * S, int(2.01 * S), int(5.01 * S)],
        [int(2.01 * S), int(5.01 * S), 9 * S],
    ]
    assert found.acked.tolist() == [40, 100, 180]
    assert found.sent.tolist() == [[20, 40, 100], [9 * S, int(2.01 * S), int(5.01 * S)]]


def test_the_first_record_waits_where_nothing_was_acknowledged_before_it() -> None:
    assert progress([(0, 1.0, 3.0)]).waits.tolist() == [[1 * S], [3 * S]]
    assert progress([(0, 1.0, 1.01)]).waits.tolist() == [[], []]


def test_what_is_never_acknowledged_waits_for_ever() -> None:
    found = progress([(0, 1.0, None)])
    assert found.waits.tolist() == [[1 * S], [NEVER]]
    assert found.sent.tolist() == [[20], [NEVER]]


@pytest.mark.parametrize("seed", range(20))
def test_waits_are_what_a_plain_loop_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sent: list[Sent] = []
    for _ in range(int(rng.integers(1, 40))):
        begin = round(float(rng.uniform(1, 20)), 3)
        lasts = float(rng.choice([0.01, 0.08, 0.3, 3.0]))
        sent.append((0, begin, round(begin + lasts, 3) if rng.random() < 0.8 else None))
    rows = history(sent).tables()["sends"].to_pylist()
    acks = sorted({row["ack_ns"] for row in rows if row["ack_ns"] >= 0})
    expected = []
    for a, b in zip([-1, *acks], [*acks, NEVER], strict=True):
        since = [
            max(a, row["invoke_ns"])
            for row in rows
            if (row["ack_ns"] >= b and row["invoke_ns"] < b)
            or (row["ack_ns"] < 0 and a <= row["invoke_ns"] < b)
        ]
        if since and b - min(since) >= 100 * MS:
            expected.append([min(since), b])
    assert progress(sent).waits.T.tolist() == expected
