"""From the command line to the verdict: each planted bug is found, its clean twin is silent."""

from pathlib import Path

import pytest

from tests.faults.command import arguments, inquest, the_run, verdict

pytestmark = pytest.mark.faults


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("workload", "bug", "expected"),
    [
        ("queue", "", set()),
        ("transactions", "", set()),
        ("queue", "lose", {"lost-write"}),
        ("queue", "duplicate", {"duplicate"}),
        ("queue", "misplace", {"inconsistent-offsets"}),
        ("transactions", "lose", {"lost-write", "torn-txn"}),
        ("transactions", "aborted-not-filtered", {"aborted-read"}),
        ("copier", "", set()),
        ("copier", "offset-of-next-batch", {"eos-loss"}),
        ("fencing", "", set()),
        ("groups", "", set()),
    ],
)
def test_a_planted_bug(tmp_path: Path, workload: str, bug: str, expected: set[str]) -> None:
    faults = ["--nemesis", "random"]
    if bug == "offset-of-next-batch":  # it strikes where a member asks for the offsets that its group has
        faults = ["--nemesis", "client:crash@member", "--duration", "4"]
    words = ["--workload", workload, *faults, "--set", "abort_share=0.3"]
    bugs = ["--set", f'broker_settings={{"memory.bug":"{bug}"}}'] if bug else []
    ended = inquest(*arguments(tmp_path, *words, *bugs))
    assert ended.code == (1 if bug else 0), ended
    run = the_run(tmp_path)
    assert run is not None
    anomalies = verdict(run)["anomalies"]
    forbidden = {name for name, found in anomalies.items() if not found["allowed"]}
    assert expected <= forbidden
    if not bug:
        assert forbidden == set()


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("preset", "bug", "code"),
    [
        ("no-idempotence", "duplicate", 0),
        ("no-idempotence", "", 4),
        ("acks1", "lose", 1),  # under a leader that never changed acks=1 permits no loss
    ],
)
def test_a_control_has_to_find_what_it_expects(tmp_path: Path, preset: str, bug: str, code: int) -> None:
    bugs = ["--set", f'broker_settings={{"memory.bug":"{bug}"}}']
    ended = inquest(*arguments(tmp_path, "--preset", preset, *bugs))
    assert ended.code == code, ended


@pytest.mark.sampled(11)
def test_a_planted_bug_that_strikes_only_where_a_superseded_client_still_writes(tmp_path: Path) -> None:
    """Whether a batch of a twin is under way when the other one takes its id is a matter of milliseconds, so
    each run has another seed, until the bug has struck."""
    bug = ["--set", 'broker_settings={"memory.bug":"old-epoch-appended"}', "--nemesis", "random"]
    for seed in range(11, 21):
        results = tmp_path / str(seed)
        words = ["--workload", "fencing", "--set", "abort_share=0.3", "--duration", "4", "--seed", str(seed)]
        ended = inquest(*arguments(results, *words, *bug))
        assert ended.code in (0, 1, 2, 4), ended
        run = the_run(results)
        assert run is not None
        if {"zombie-write", "torn-txn"} & verdict(run)["anomalies"].keys():
            assert ended.code == 1
            return
    pytest.fail("the bug was found in none of ten runs")
