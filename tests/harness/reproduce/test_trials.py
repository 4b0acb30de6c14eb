"""What a run of a schedule showed, by what the brokers say at its end."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core.errors import ClusterError, ExitCode
from core.op import TopicPartition
from harness.reproduce import trials
from harness.reproduce.producer import RawProducer
from harness.reproduce.schedules import REPRODUCTIONS, NotReached, Performed, Reproduction
from harness.reproduce.stage import Stage
from harness.reproduce.trials import Outcome, Trial

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def stage(read: set[tuple[TopicPartition, int]], stable: dict[TopicPartition, int]) -> Stage:
    """Brokers that give a reader these records, with these last stable offsets."""
    return cast(
        Stage,
        SimpleNamespace(
            log=P0,
            d=1,
            leader=lambda tp, witness: 2,
            committed=lambda tps: read,
            stable=stable.__getitem__,
            restore=lambda: None,
        ),
    )


def performed(state: str, acknowledged: bool = True) -> Performed:
    producer = SimpleNamespace(
        acknowledged={(P0, 0): "zero", (P1, 0): "one"}, described=lambda node: state, transactional_id="t-0"
    )
    return Performed(producer=cast(RawProducer, producer), tps=[P0, P1], acknowledged=acknowledged)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WATCH_S", "COMPLETE_S", "PAUSE_S"):
        monkeypatch.setattr(trials, name, 0.01)


def test_a_run_whose_records_are_all_read_is_clean() -> None:
    trial = trials.judge(stage({(P0, 0), (P1, 0)}, {P0: 2, P1: 2}), performed("CompleteCommit"))
    assert trial.outcome is Outcome.CLEAN


def test_a_record_behind_the_last_stable_offset_of_a_completed_transaction_is_hidden() -> None:
    trial = trials.judge(stage({(P0, 0)}, {P0: 2, P1: 0}), performed("CompleteCommit"))
    assert trial.outcome is Outcome.SHOWN
    assert "'one' at t-1, offset 0, last stable offset 0, is hidden" in trial.text
    assert "has completed" in trial.text


def test_a_record_that_readers_have_passed_is_lost_whatever_the_coordinator_says() -> None:
    trial = trials.judge(stage({(P1, 0)}, {P0: 2, P1: 2}), performed("PrepareCommit 0"))
    assert trial.outcome is Outcome.SHOWN
    assert "'zero' at t-0, offset 0, last stable offset 2, is lost" in trial.text


def test_a_hidden_record_of_an_open_transaction_is_watched_until_its_time_is_up() -> None:
    trial = trials.judge(stage({(P0, 0)}, {P0: 2, P1: 0}), performed("PrepareCommit 1"))
    assert trial.outcome is Outcome.SHOWN
    assert "the coordinator says PrepareCommit 1" in trial.text


def test_a_refused_commit_promises_nothing() -> None:
    trial = trials.judge(stage(set(), {P0: 2, P1: 2}), performed("Empty", acknowledged=False))
    assert trial.outcome is Outcome.CLEAN


def reproduction(error: Exception) -> Reproduction:
    def play(stage: Stage, name: str, good: bool) -> Performed:
        raise error

    return Reproduction(title="", bad="", good="", versions=("", ""), play=play)


@pytest.mark.parametrize("error", [NotReached("C loaded Empty"), ClusterError("no leader")])
def test_a_schedule_that_goes_another_way_shows_nothing(error: Exception) -> None:
    trial, _ = trials.perform(stage(set(), {}), reproduction(error), "run-1", good=False)
    assert trial == Trial(outcome=Outcome.UNREACHED, text=str(error))


@pytest.mark.parametrize(
    ("outcomes", "good", "code"),
    [
        ([Outcome.SHOWN, Outcome.SHOWN], False, ExitCode.VALID),
        ([Outcome.CLEAN, Outcome.CLEAN], True, ExitCode.VALID),
        ([Outcome.SHOWN, Outcome.CLEAN], False, ExitCode.SILENT),
        ([Outcome.SHOWN, Outcome.UNREACHED], True, ExitCode.ANOMALY),
        ([Outcome.SHOWN, Outcome.UNREACHED], False, ExitCode.UNKNOWN),
        ([Outcome.UNREACHED], True, ExitCode.UNKNOWN),
    ],
)
def test_the_exit_code_says_whether_each_run_showed_its_side(
    outcomes: list[Outcome], good: bool, code: ExitCode
) -> None:
    done = [Trial(outcome=outcome, text="") for outcome in outcomes]
    assert trials.exit_code(done, good) is code


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("INFO Couldn't find leader endpoint for partitions Set(t-1) for t-0, skipped", Outcome.SHOWN),
        (
            "INFO Couldn't find leader endpoint for partitions Set(t-1) for another, skipped",
            Outcome.UNREACHED,
        ),
        ("INFO nothing of interest about t-0", Outcome.UNREACHED),
    ],
)
def test_a_bug_that_brokers_log_is_shown_only_with_its_line(
    tmp_path: Path, line: str, outcome: Outcome
) -> None:
    log = tmp_path / "cluster" / "1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"something\n{line}\n")
    shown = Trial(outcome=Outcome.SHOWN, text="hidden")
    assert trials.confirmed(shown, "t-0", REPRODUCTIONS["kafka-20734"].log, tmp_path).outcome is outcome
    assert trials.confirmed(shown, "t-0", "", tmp_path) == shown
