"""From the command line to the verdict: each planted bug is found, its clean twin is silent."""

from pathlib import Path

import pytest

from tests.faults.command import arguments, inquest, the_run, verdict

pytestmark = pytest.mark.faults


@pytest.mark.sampled(5)
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
        ("fencing", "old-epoch-appended", {"zombie-write"}),
        ("groups", "", set()),
    ],
)
def test_a_planted_bug(tmp_path: Path, workload: str, bug: str, expected: set[str]) -> None:
    words = ["--workload", workload, "--nemesis", "random", "--set", "abort_share=0.3"]
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
