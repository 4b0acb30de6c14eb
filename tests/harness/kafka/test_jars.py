import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.errors import ClusterError, ConfigError
from harness.kafka import jars


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("INQUEST_MAVEN", raising=False)


def test_a_version_that_no_deployment_has_is_refused_before_any_download() -> None:
    with pytest.raises(ConfigError, match=r"0\.9\.0\.1: KRaft needs Kafka 3\.3 .* Kafka 0\.10\.2 or"):
        jars.jars("0.9.0.1")


def test_cached_jars_are_used_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no Java: nothing could be fetched
    folder = tmp_path / "cache" / "inquest" / "kafka" / "4.3.1"
    folder.mkdir(parents=True)
    assert jars.jars("4.3.1") == folder
    assert jars.cached_versions() == ["4.3.1"]


def test_without_java_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ClusterError, match="install a JRE 17"):
        jars.jars("4.3.1")
    assert jars.cached_versions() == []
    assert "fetching" not in "".join(capsys.readouterr())


NOT_FOUND = "\t\t:: org.apache.kafka#kafka_2.13;9.9.9: not found\n"


def test_an_unknown_version_is_told_from_an_unreached_repository() -> None:
    assert jars._why("9.9.9", NOT_FOUND).startswith("there is no Kafka 9.9.9 on Maven Central")
    unreached = "Server access error at url https://…: UnknownHostException\n" + NOT_FOUND
    assert "could not be fetched" in jars._why("9.9.9", unreached)
    assert "UnknownHostException" in jars._why("9.9.9", unreached)


def settings_xml(home: Path, mirror_of: str) -> None:
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror>'
        f"<id>m</id><mirrorOf>{mirror_of}</mirrorOf><url>https://mirror.test/maven</url>"
        "</mirror></mirrors></settings>"
    )


@pytest.mark.parametrize("mirror_of", ["central", "*", "other,central"])
def test_the_mirror_of_mavens_own_settings_is_used(tmp_path: Path, mirror_of: str) -> None:
    settings_xml(tmp_path, mirror_of)
    assert jars._mirror() == "https://mirror.test/maven"


def test_mirrors_of_other_repositories_are_not(tmp_path: Path) -> None:
    settings_xml(tmp_path, "other")
    assert jars._mirror() is None


def test_a_mirror_given_by_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_xml(tmp_path, "central")
    monkeypatch.setenv("INQUEST_MAVEN", "https://given.test")
    assert jars._mirror() == "https://given.test"


def test_proxies_of_the_environment_are_told_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    assert jars._proxies() == ["-Dhttps.proxyHost=proxy.test", "-Dhttps.proxyPort=3128"]
    monkeypatch.delenv("https_proxy")
    assert jars._proxies() == []


def test_jars_that_are_not_the_released_ones_are_refused(tmp_path: Path) -> None:
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka_2.13-4.3.1.jar").write_bytes(b"a stranger's")
    assert "are not the released ones" in jars._strange("4.3.1", libs)
    assert jars._strange("4.2.0", libs) == ""  # its digest is not known


JAR = "kafka_2.13-4.3.1.jar"


def of_a_repository(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
    """What Ivy does: it takes a jar from its cache, else from the repository, which is a folder here."""
    cache = Path(command[command.index("-cache") + 1], JAR)
    libs = Path(command[command.index("-retrieve") + 1]).parent
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(os.environ["INQUEST_MAVEN"], JAR), cache)
    libs.mkdir(parents=True)
    shutil.copy(cache, libs)
    return subprocess.CompletedProcess(command, 0, "", "")


def test_jars_that_were_thrown_away_are_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged mirror, then the right one: nothing of the first is used."""
    monkeypatch.setattr(subprocess, "run", of_a_repository)
    monkeypatch.setattr(jars, "java", lambda: "java")
    for name in ("right", "damaged"):
        (tmp_path / name).mkdir()
        (tmp_path / name / JAR).write_text(name)
    monkeypatch.setattr(jars, "DIGESTS", {"4.3.1": jars.digest(tmp_path / "right")})
    monkeypatch.setenv("INQUEST_MAVEN", str(tmp_path / "damaged"))
    with pytest.raises(ClusterError, match="they were thrown away"):
        jars.jars("4.3.1")
    monkeypatch.setenv("INQUEST_MAVEN", str(tmp_path / "right"))
    assert (jars.jars("4.3.1") / JAR).read_text() == "right"


def test_a_fetch_that_was_killed_leaves_nothing_that_counts_and_the_next_one_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "cache" / "inquest" / "kafka" / ".resolving-abc"
    (left / "libs").mkdir(parents=True)
    (left / "libs" / JAR).write_text("half")
    (left.parent / "4.4.0").mkdir()
    assert jars.cached_versions() == ["4.4.0"]
    monkeypatch.setenv("PATH", "")  # no Java: nothing can be fetched
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ClusterError, match="no Java"):
        jars.jars("4.3.1")
    assert [path.name for path in left.parent.iterdir()] == ["4.4.0"]


def test_the_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"1")
    first = jars.digest(tmp_path)
    (tmp_path / "notes.txt").write_bytes(b"2")
    assert jars.digest(tmp_path) == first
    (tmp_path / "a.jar").rename(tmp_path / "b.jar")
    second = jars.digest(tmp_path)
    (tmp_path / "b.jar").write_bytes(b"3")
    assert len({first, second, jars.digest(tmp_path)}) == 3
