from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import doctor
from harness.cli.doctor import Prerequisite, Status


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
