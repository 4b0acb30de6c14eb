"""The harness itself is killed, interrupted, starved; its recordings are cut off and damaged."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from core.op import Phase
from history.run_folder import Run
from tests.faults.command import Inquest, arguments, in_force, inquest, reached, the_run, verdict, workers_of
from tests.harness.cli.bad_input import command
from tests.waiting import until

pytestmark = pytest.mark.faults


def run_of(results: Path) -> Run:
    run = the_run(results)
    assert run is not None
    return run


@pytest.mark.sampled(10)
def test_a_worker_killed_by_sigkill_costs_one_open_op(tmp_path: Path) -> None:
    started = Inquest(*arguments(tmp_path))
    until(lambda: reached(tmp_path, Phase.FAULTS), "the phase of faults")
    os.kill(sorted(workers_of(tmp_path))[0], signal.SIGKILL)
    ended = started.wait()
    assert ended.code == 0, ended
    assert "SIGKILL" in ended.err
    assert '"worker-lost"' in run_of(tmp_path).events.read_text()
    assert verdict(run_of(tmp_path))["valid"] is True


@pytest.mark.sampled(37)
def test_the_harness_killed_by_sigkill_leaves_a_recording_that_can_be_checked(tmp_path: Path) -> None:
    started = Inquest(*arguments(tmp_path, "--duration", "60"))
    run = until(lambda: reached(tmp_path, Phase.FAULTS), "the phase of faults")
    os.kill(started.process.pid, signal.SIGKILL)
    assert started.wait().code == -signal.SIGKILL
    until(lambda: not workers_of(tmp_path), "the end of all workers")
    ended = command("check", str(run.folder), "--engine", "process")
    assert ended.code == 2, ended
    assert verdict(run)["valid"] == "unknown"
    assert run.report.exists()


HELD = {Phase.RECOVER: {"memory.revive": "never"}, Phase.QUIESCE: {"memory.ends": "never"}}
"""What keeps a run in a phase, so that the signal cannot come after it."""


@pytest.mark.sampled(48)
@pytest.mark.parametrize("phase", [Phase.WARMUP, Phase.FAULTS, Phase.RECOVER, Phase.QUIESCE])
def test_ctrl_c_seals_and_checks_what_there_is(tmp_path: Path, phase: Phase) -> None:
    held = json.dumps(HELD.get(phase, {}))
    words = ["--duration", "2" if phase > Phase.FAULTS else "60", "--set", f"broker_settings={held}"]
    started = Inquest(*arguments(tmp_path, "--nemesis", "kill:all,partition", *words))
    run = until(lambda: reached(tmp_path, phase), phase.name)
    os.kill(started.process.pid, signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err
    found = verdict(run)
    assert found["interrupted"] is True
    assert found["valid"] == "unknown"
    assert run.report.exists()
    assert not workers_of(tmp_path)


@pytest.mark.sampled(10)
def test_ctrl_c_in_the_final_reads_is_never_a_plain_success(tmp_path: Path) -> None:
    started = Inquest(*arguments(tmp_path))
    run = until(lambda: reached(tmp_path, Phase.FINAL), "the final reads")
    os.kill(started.process.pid, signal.SIGINT)
    assert started.wait().code == 130
    assert not workers_of(tmp_path)
    assert command("check", str(run.folder), "--engine", "process").code in (0, 2)


@pytest.mark.sampled(32)
def test_ctrl_c_before_anything_was_recorded(tmp_path: Path) -> None:
    start = 'broker_settings={"memory.start":"slow"}'
    started = Inquest(*arguments(tmp_path, "--set", start))
    until(lambda: reached(tmp_path, Phase.SETUP), "set-up")
    os.kill(started.process.pid, signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130
    assert "no run was recorded" in ended.err
    assert list(tmp_path.iterdir()) == []
    until(lambda: not workers_of(tmp_path), "the end of all workers")


@pytest.mark.sampled(10)
def test_a_second_ctrl_c_kills_the_workers(tmp_path: Path) -> None:
    # The brokers stay away: each client waits for an answer until its deadline, or its end.
    settings = ["verb_deadline_s=300", 'broker_settings={"memory.revive":"never"}']
    words = [word for setting in settings for word in ("--set", setting)]
    started = Inquest(*arguments(tmp_path, "--duration", "60", "--nemesis", "kill:all", *words))
    until(lambda: in_force(tmp_path), "a fault in force")
    os.kill(started.process.pid, signal.SIGINT)
    until(lambda: reached(tmp_path, Phase.QUIESCE), "quiescence")
    os.kill(started.process.pid, signal.SIGINT)
    assert started.wait().code == 130
    assert not workers_of(tmp_path)
    assert run_of(tmp_path).verdict.exists()


@pytest.mark.sampled(10)
def test_a_disk_that_fills_up_while_recording(tmp_path: Path) -> None:
    words = ["--duration", "60", "--rate", "0", "--set", "batch_max=100"]
    ended = inquest(*arguments(tmp_path, *words), file_limit=2_500_000)  # a report needs 2.2 MB
    assert ended.code == 2, ended
    assert "could not be written" in ended.err
    assert "Traceback" not in ended.err
    found = verdict(run_of(tmp_path))
    assert found["valid"] == "unknown"
    assert any("could not be written" in why for why in found["unknown"])


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("workload", "settings", "code", "said"),
    [
        ("queue", {"memory.revive": "never"}, 3, "not recovered: brokers ["),
        ("queue", {"memory.revive": "never", "memory.trouble": "the engine is gone"}, 2, "is gone"),
        # Nothing of Kafka failed there: it was never given its node back.
        ("queue", {"memory.revive": "fail"}, 2, "port is already allocated"),
        # Everything answers, every client works on, and nobody is given anything.
        ("copier", {"memory.groups": "mute"}, 3, "groups ['copiers'] were given nothing since"),
        ("copier", {}, 0, "recovered in"),
    ],
)  # fmt: skip
def test_a_system_that_does_not_recover_is_told_from_one_that_the_harness_could_not_heal(
    tmp_path: Path, workload: str, settings: dict[str, str], code: int, said: str
) -> None:
    words = ["--workload", workload, "--nemesis", "kill:one", "--set", "abort_share=0"]
    words += ["--set", f"recovery_deadline_s={30 if code == 0 else 5}"]
    ended = inquest(*arguments(tmp_path, *words, "--set", f"broker_settings={json.dumps(settings)}"))
    assert ended.code == code, ended
    assert said in ended.err
    found = verdict(run_of(tmp_path))
    assert said in found["summary"] or code != 2  # the cause, not what follows from it
    assert found["valid"] == {0: True, 2: "unknown", 3: False}[code]
    assert found["recovered"] == {0: True, 2: None, 3: False}[code]
    forbidden = {name for name, one in found["anomalies"].items() if not one["allowed"]}
    assert forbidden == ({"not-recovered"} if code == 3 else set())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One good run, to be copied and damaged."""
    results = tmp_path_factory.mktemp("recorded")
    ended = inquest(*arguments(results))
    assert ended.code == 0, ended
    return run_of(results)


def copy(recorded: Run, tmp_path: Path) -> Run:
    shutil.copytree(recorded.folder, tmp_path / "run")
    return Run(tmp_path / "run")


@pytest.mark.sampled(8)
def test_checking_and_reporting_again_says_the_same(recorded: Run, tmp_path: Path) -> None:
    run = copy(recorded, tmp_path)
    before = verdict(run)
    run.verdict.unlink()
    run.report.unlink()
    assert command("check", str(run.folder), "--engine", "process").code == 0
    after = verdict(run)
    for found in (before, after):
        for check in found["checks"].values():
            del check["seconds"]
        found["stats"] = {k: v for k, v in found["stats"].items() if "seconds" not in k}
        found["run"] = ""
    assert after == before
    run.report.unlink()
    assert command("report", str(run.folder)).code == 0
    assert run.report.exists()


@pytest.mark.sampled(48)
def test_a_truncated_journal_is_sealed_as_far_as_it_goes(recorded: Run, tmp_path: Path) -> None:
    run = copy(recorded, tmp_path)
    shutil.rmtree(run.history)
    journal = run.journal / "0.jsonl"
    journal.write_bytes(journal.read_bytes()[:-7])
    ended = command("check", str(run.folder), "--engine", "process")
    assert ended.code == 2
    assert "the recording is not whole: the journal of" in ended.out, ended
