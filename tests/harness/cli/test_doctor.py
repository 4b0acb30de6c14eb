from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import ClusterError
from harness.brokers import addresses, toxiproxy
from harness.cli import doctor
from harness.cli.doctor import Prerequisite, Status
from harness.containers import claims, engine
from harness.containers.claims import State
from harness.kafka import jars
from harness.processes.cache import cache_folder, locked


def test_every_check_gives_findings_on_this_machine() -> None:
    subjects = {one.subject for one in doctor.examine()}
    assert {"Python", "Java", "Docker engine", "Kafka's jars", "disk", "memory"} <= subjects


def test_what_is_missing_is_named_with_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def examine() -> Iterator[Prerequisite]:
        yield Prerequisite("Python", Status.THERE, "3.11")
        yield Prerequisite("image", Status.LATER, "none")
        yield Prerequisite("Java", Status.MISSING, "none", "install a JRE 17")

    monkeypatch.setattr(doctor, "examine", examine)
    assert doctor.doctor() == 70
    printed = capsys.readouterr().out
    assert "install a JRE 17" in printed
    assert "missing: Java\n" in printed


def test_what_a_run_makes_itself_is_not_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = [Prerequisite("image", Status.LATER, "none"), Prerequisite("x", Status.OPTIONAL, "none")]
    monkeypatch.setattr(doctor, "examine", lambda: iter(findings))
    assert doctor.doctor() == 0
    assert "this machine has everything that a run needs" in capsys.readouterr().out


def test_no_java_and_no_engine_are_missing_where_nothing_can_be_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nobody.sock")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    missing = {one.subject for one in doctor.examine() if one.status is Status.MISSING}
    assert {"Java", "Docker engine"} <= missing


def test_toxiproxy_is_never_missing_but_said_where_to_come_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))

    def found() -> Prerequisite:
        (one,) = [one for one in doctor.examine() if one.subject == "toxiproxy"]
        return one

    assert found().status is Status.OPTIONAL
    assert "toxiproxy-server" in found().advice
    (tmp_path / "go").touch(0o755)
    assert found().status is Status.LATER
    (tmp_path / "toxiproxy-server").touch(0o755)
    assert found() == Prerequisite("toxiproxy", Status.THERE, str(tmp_path / "toxiproxy-server"))


@pytest.mark.parametrize("there", [False, True])
def test_a_cache_folder_that_cannot_be_written_is_a_line_of_the_table(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for a user without a home. Root may write everywhere: it is asked of the system."""
    root = tmp_path / "cache"
    if there:
        (root / "inquest").mkdir(parents=True)
        monkeypatch.setattr("os.access", lambda *_: False)
    else:
        root.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(root))
    assert doctor.doctor() == 70
    printed = capsys.readouterr().out
    for subject in ("Python", "Docker engine", "Kafka's jars", "toxiproxy", "memory"):
        assert f"\u2502 {subject} " in printed
    (one,) = [one for one in doctor.examine() if one.subject == "cache folder"]
    why = "Permission denied" if there else "Not a directory"
    assert one.status is Status.MISSING
    assert one.advice == (
        f"the cache folder {root}/inquest cannot be written ({why}); "
        "set XDG_CACHE_HOME to a folder that this user can write"
    )
    for use in (cache_folder, toxiproxy.ensure, jars.cached_versions, lambda: locked("x").__enter__()):
        with pytest.raises(ClusterError, match="set XDG_CACHE_HOME to"):
            use()


class Engine:
    """A client of an engine that has everything. It is its own `images`."""

    def __init__(self) -> None:
        self.images = self

    def get(self, _tag: str) -> None:
        """An image."""

    def version(self) -> dict[str, str]:
        return {"Version": "20", "ApiVersion": "1.41"}

    def close(self) -> None:
        """Nothing."""


def test_what_runs_left_is_named_and_what_they_still_use_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"alive": State.UNDER_WAY, "dead": State.LEFT, "abroad": State.UNKNOWN}
    monkeypatch.setattr(engine, "connect", Engine)
    monkeypatch.setattr(claims, "runs", lambda _: there)
    found = [one for one in doctor.examine() if one.subject == "left by a run"]
    assert [(one.found, one.status) for one in found] == [("dead", Status.LEFT), ("abroad", Status.ALONE)]
    assert "docker rm" in found[1].advice


def test_an_engine_that_cannot_say_what_runs_left_is_a_line_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Any) -> dict[str, State]:
        raise ClusterError("what runs left could not be listed: no")

    monkeypatch.setattr(engine, "connect", Engine)
    monkeypatch.setattr(claims, "runs", fail)
    lines = list(doctor.examine())
    assert (
        Prerequisite("Docker engine", Status.MISSING, "fails", "what runs left could not be listed: no")
        in lines
    )
    assert [one.subject for one in lines[-2:]] == ["Chromium", "PostgreSQL"]


@pytest.mark.parametrize(
    ("given", "status", "advice"),
    [
        (range(32_768, 61_000), Status.THERE, ""),
        (range(1024, 65_536), Status.OPTIONAL, "sysctl -w net.ipv4.ip_local_reserved_ports=20000-29999"),
    ],
)
def test_ports_that_clients_may_take_are_told_with_what_to_do(
    given: range, status: Status, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "given_to_clients", lambda: set(given))
    (one,) = [one for one in doctor.examine() if one.subject == "ports"]
    assert one.status is status
    assert one.advice.endswith(advice)
    assert bool(one.advice) is bool(advice)


@pytest.mark.parametrize(
    ("on_path", "versions", "found"),
    [
        ("bin/initdb", ("15",), "bin"),
        ("", ("9.6", "15", "14"), "debian/15/bin"),
        ("", ("15 without a server",), ""),
        ("", (), ""),
    ],
)
def test_programs_of_a_server_are_on_the_path_or_where_debian_has_the_newest(
    on_path: str, versions: tuple[str, ...], found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for version in versions:
        (tmp_path / "debian" / version.partition(" ")[0] / "bin").mkdir(parents=True)
        if " " not in version:
            (tmp_path / "debian" / version / "bin/initdb").touch()
    (tmp_path / "bin").mkdir()
    if on_path:
        (tmp_path / on_path).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(doctor, "POSTGRESQL", tmp_path / "debian")
    assert doctor.postgresql() == (tmp_path / found if found else None)
