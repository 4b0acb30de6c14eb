"""Names of run folders, and what `latest` leads to."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.config import RunConfig, run_config
from core.errors import ClusterError, ConfigError
from harness import compose
from harness.brokers.addresses import cluster_id
from harness.compose import as_latest, create_folder, point_latest
from harness.run.progress import Display
from history.run_folder import Run

CONFIG = run_config({"seed": 1, "sut": "simulated", "duration_s": 1})


@pytest.fixture
def display() -> Iterator[Display]:
    made = Display()
    yield made
    made.close()


def latest(results: Path) -> str:
    return os.readlink(results / "latest") if (results / "latest").is_symlink() else ""


def test_runs_of_one_second_workload_nemesis_and_seed_have_names_of_their_own(tmp_path: Path) -> None:
    made = [create_folder(CONFIG, tmp_path / f"results-{one % 2}") for one in range(20)]
    assert len({run.name for run in made}) == 20
    assert len({cluster_id(run.name) for run in made}) == 20


def test_latest_leads_to_a_run_from_its_begin(tmp_path: Path, display: Display) -> None:
    first = create_folder(CONFIG, tmp_path)
    with as_latest(first, display.say):
        assert latest(tmp_path) == first.name
    assert latest(tmp_path) == first.name
    second = create_folder(CONFIG, tmp_path)
    with pytest.raises(ClusterError), as_latest(second, display.say):
        raise ClusterError("the engine has ended")
    assert latest(tmp_path) == second.name  # its folder holds what was recorded
    assert not list(tmp_path.glob(".latest*"))


def record(config: RunConfig, results: Path, display: Display, then: Any, patch: pytest.MonkeyPatch) -> None:
    """A run in which `then` happens."""
    patch.setattr("harness.systems.record", lambda made, run, *_, **__: then(run))
    compose.record(config, results=results, display=display)


def test_a_run_that_left_no_folder_leaves_no_latest_to_an_earlier_one(
    tmp_path: Path, display: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(CONFIG, tmp_path, display, lambda _: False, monkeypatch)
    earlier = latest(tmp_path)
    assert earlier

    def fail(run: Run) -> bool:
        assert latest(tmp_path) == run.name != earlier
        for path in (run.config, run.journal, run.cluster, run.folder):
            path.rmdir() if path.is_dir() else path.unlink()
        raise ClusterError("no engine")

    with pytest.raises(ClusterError, match="no engine"):
        record(CONFIG, tmp_path, display, fail, monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == [earlier]


def test_a_run_that_failed_while_another_one_began_leaves_latest_to_that_one(
    tmp_path: Path, display: Display
) -> None:
    first, second = create_folder(CONFIG, tmp_path), create_folder(CONFIG, tmp_path)

    def fail() -> None:
        with as_latest(first, display.say):
            point_latest(second)
            first.folder.rename(tmp_path / "gone")
            raise ClusterError("no engine")

    with pytest.raises(ClusterError):
        fail()
    assert latest(tmp_path) == second.name


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_latest_that_is_no_link_stays_and_a_line_says_so(
    kind: str,
    tmp_path: Path,
    display: Display,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As artifacts are unpacked that follow links."""
    there = tmp_path / "latest"
    if kind == "folder":
        there.mkdir()
        (there / "verdict.json").write_text("{}")
    else:
        there.write_text("mine")
    record(CONFIG, tmp_path, display, lambda _: False, monkeypatch)
    assert not there.is_symlink()
    assert (there / "verdict.json").exists() if kind == "folder" else there.read_text() == "mine"
    printed = capsys.readouterr()
    (line,) = [one for one in (printed.out + printed.err).splitlines() if "latest" in one]
    assert f"{there} is not a link, and stays as it is; this run is {tmp_path}/2" in line
    assert not list(tmp_path.glob(".latest*"))


def test_a_link_that_leads_nowhere_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to("gone")
    run = create_folder(CONFIG, tmp_path)
    assert point_latest(run) == ""
    assert latest(tmp_path) == run.name


def test_where_no_link_can_be_made_a_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create_folder(CONFIG, tmp_path)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert "latest does not lead to this run (Operation not permitted); it is " in point_latest(run)


def test_a_results_folder_that_cannot_be_written_is_an_error_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"the results folder .* cannot be written"):
        create_folder(CONFIG, tmp_path / "file")


def test_a_program_gets_no_records_with_keys() -> None:
    config = run_config({"seed": 1, "preset": "compacted", "clients": "command"})
    with pytest.raises(ConfigError, match="have keys, the protocol none"):
        compose.plan(config)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"preset": "share", "version": "4.0.0"}, "Kafka 4.0.0 has no share groups; 4.1 and later have"),
        (
            {"preset": "share", "sut": "simulated", "era": "4.0"},
            "era 4.0 has no share groups; 4.1 and later have",
        ),
        (
            {"preset": "dead-letters", "sut": "model", "era": "4.3-tv1"},
            "dead_letters: era 4.3-tv1 has no dead-letter queues; 4.4 and later have",
        ),
        ({"preset": "share", "clients": "command"}, "protocol of clients=command has no share groups"),
        ({"preset": "share", "renew_share": 0.1}, "librdkafka renews no locks"),
        (
            {"preset": "share", "sut": "simulated", "era": "4.1", "renew_share": 0.1},
            "era 4.1 renews no locks; 4.2 and later do",
        ),
        (
            {"preset": "dead-letters", "sut": "simulated", "era": "4.3"},
            "dead_letters: era 4.3 has no dead-letter queues; 4.4 and later have",
        ),
        ({"workload": "share"}, "it needs broker_settings.group.share.* take preset share, which has it"),
        (
            {"preset": "share", "client_settings": {"consumer.fetch.error.backoff.ms": "5"}},
            "not supported for share|not applicable for share|share consumer",
        ),
    ],
)
def test_a_share_group_is_refused_where_none_can_be(settings: dict[str, Any], why: str) -> None:
    given = {"kafka": settings.pop("version")} if "version" in settings else {}
    with pytest.raises(ConfigError, match=why):
        compose.plan(run_config({"seed": 1, **settings, **given}))


@pytest.mark.parametrize("version", ["4.1.2", "4.3.1", "4.4.0"])
def test_versions_with_share_groups_are_accepted(version: str) -> None:
    made = compose.plan(run_config({"seed": 1, "preset": "share", "kafka": version, "nemesis": "none"}))
    assert [*made.workload.share_groups(made.config)] == ["share-group"]


@pytest.mark.parametrize("era", ["4.2-tv1", "4.3-tv1", "4.4-tv1"])
def test_eras_with_share_groups_are_accepted_behind_the_protocol(era: str) -> None:
    assert compose.plan(run_config({"seed": 1, "preset": "share", "sut": "model", "era": era}))
