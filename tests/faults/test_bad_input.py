"""Input that a run finds bad once it has begun: one clear error, and nothing is left.

Not here: what a command refuses before (`tests.harness.cli.test_bad_commands` and its neighbours).
"""

from pathlib import Path

import pytest

from tests.faults.command import arguments, inquest, workers_of
from tests.waiting import until

pytestmark = pytest.mark.faults


@pytest.mark.sampled(8)
def test_a_cluster_that_never_comes_up(tmp_path: Path) -> None:
    start = 'broker_settings={"memory.start":"fail"}'
    ended = inquest(*arguments(tmp_path, "--set", start))
    assert ended.code == 70
    assert "never came up" in ended.err
    assert "ERROR bad setting" in ended.err
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(8)
def test_a_setting_that_the_client_refuses_ends_the_run_with_one_line(tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused = 'client_settings={"producer.linger.mss":"1"}'
    words = arguments(results, "--sut", "refusing", "--set", refused)
    ended = inquest(*words, module="tests.faults.refusing")
    assert ended.code == 64, ended
    assert "linger.mss" in ended.err
    assert "Traceback" not in ended.err
    assert [line for line in ended.err.splitlines() if line.startswith("inquest: ")] == [
        'inquest: client settings: No such configuration property: "linger.mss"'
    ]
    assert list(results.iterdir()) == []
    until(lambda: not workers_of(results), "the end of all workers")
