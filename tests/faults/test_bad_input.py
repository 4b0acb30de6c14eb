"""Bad input: one clear error that says what would be right, exit 64, nothing started or left."""

from pathlib import Path

import pytest

from core.systems import SYSTEMS
from tests.faults.command import arguments, inquest, until, workers_of
from tests.harness.cli.bad_input import command
from tests.memory.system import MEMORY

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nemesis", "earthquake"], ["earthquake", "partition", "kill"]),
        (["--nemesis", "partition:sideways"], ["sideways", "isolate", "halves"]),
        (["--nemesis", "kill@moon"], ["moon", "leader", "controller"]),
        (["--workload", "juggling"], ["juggling", "queue", "transactions"]),
        (["--preset", "reckless"], ["reckless", "safe", "acks1"]),
        (["--sut", "abacus"], ["abacus", "kafka"]),
        (["--kafka", "four"], ["kafka", "four"]),
        (["--duration", "-5"], ["duration_s", "-5"]),
        (["--brokers", "0"], ["brokers", "0"]),
        (["--brokers", "2"], ["replication_factor 3", "2"]),
        (["--set", "min_insync_replicas=7"], ["min_insync_replicas 7"]),
        (["--set", "colour=blue"], ["colour"]),
        (["--set", "colour"], ["name=value", "colour"]),
        (["--set", "isolation=serializable"], ["isolation", "read_committed"]),
        (["--set", "acks=2"], ["acks"]),
        (["--set", "commit=after"], ["commit", "after", "copier", "queue"]),
        (["--preset", "at-most-once", "--workload", "groups"], ["commit", "before", "groups"]),
        (["--rate", "fast"], ["--rate", "number"]),
        (["--bogus"], ["bogus"]),
    ],
)
def test_settings_that_make_no_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: list[str]
) -> None:
    monkeypatch.setitem(SYSTEMS, "memory", MEMORY)
    results = tmp_path / "results"
    ended = command(*arguments(results, *words))
    assert ended.code == 64, ended
    assert ended.out == ""
    assert ended.err.startswith("inquest: ")
    assert all(word in ended.err for word in said), ended.err
    assert "Traceback" not in ended.err
    assert not results.exists()


def test_a_results_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = inquest(*arguments(tmp_path / "file" / "results"))
    assert ended.code == 64
    assert str(tmp_path / "file") in ended.err
    assert "Traceback" not in ended.err


def test_a_cluster_that_never_comes_up(tmp_path: Path) -> None:
    start = 'broker_settings={"memory.start":"fail"}'
    ended = inquest(*arguments(tmp_path, "--set", start))
    assert ended.code == 70
    assert "never came up" in ended.err
    assert "ERROR bad setting" in ended.err
    assert "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not json", ["h.json"]),
        ('[{"name": "a", "history": 5}]', ["a", "history"]),
        ('[{"name": "a", "kind": "probe", "history": [{"type": "ok", "f": "dance"}]}]', ["dance"]),
    ],
)
def test_a_history_file_with_wrong_types(tmp_path: Path, content: str, said: list[str]) -> None:
    file = tmp_path / "h.json"
    file.write_text(content)
    ended = command("check", "--history", str(file), "--json")
    assert ended.code == 64, ended
    assert all(word in ended.err for word in said), ended.err
    assert "Traceback" not in ended.err


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    for words in (["check", str(tmp_path)], ["check", str(tmp_path / "none")], ["check"]):
        ended = command(*words)
        assert ended.code == 64
        assert ended.err.startswith("inquest: ")


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
