"""Run folders on stores: the same files, the same answers, clear errors."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ConfigError, HistoryError, StorageError, UsageError
from harness import report
from history import storage
from history.reader import load
from history.run_folder import write_atomically
from history.storage import location
from tests.histories.folders import check_run, scribble, write_run
from tests.histories.planted import random_history
from tests.stores import BUCKET, s3_server


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server():
        yield f"s3://{BUCKET}"


NAMES = map(str, itertools.count())


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest, s3: str) -> str:
    return s3 if request.param == "s3" else f"memory://{next(NAMES)}"


def files(folder: Path) -> dict[str, bytes]:
    there = storage.remote(folder)
    if there is None:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
    return {
        path.removeprefix(there.path).lstrip("/"): there.fs.cat_file(path)
        for path in there.fs.find(there.path)
    }


def test_paths_stay_paths_and_urls_of_files_are_paths(tmp_path: Path) -> None:
    assert location(str(tmp_path)) == location(f"file://{tmp_path}") == tmp_path
    assert location("results/latest") == Path("results/latest")
    assert storage.shared(Path("a")) == str(Path.cwd() / "a")


def test_s3a_means_s3() -> None:
    assert str(location("s3a://bucket/run/")) == str(location("s3://bucket/run")) == "s3://bucket/run"


@pytest.mark.parametrize("url", ["nosuch://bucket/run", "s3://", "s3:///"])
def test_a_url_that_names_no_store_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match=url.partition(":")[0]):
        location(url)


@pytest.mark.sampled(6)
def test_a_history_on_a_store_is_the_same_to_the_byte(store: str, tmp_path: Path) -> None:
    tables = random_history(3)[0].tables()
    there = write_run(location(f"{store}/same"), tables)
    here = write_run(tmp_path / "same", tables)
    assert files(there.folder) == files(here.folder)
    assert load(there).tables == load(here).tables


@pytest.mark.sampled(35)
def test_a_check_on_a_store_writes_verdict_findings_and_report_there(store: str, tmp_path: Path) -> None:
    tables = random_history(7)[0].tables()
    there, here = write_run(location(f"{store}/run"), tables), write_run(tmp_path / "run", tables)
    remote, local = check_run(there), check_run(here)
    assert remote.anomalies == local.anomalies
    assert any(one.examples for one in remote.anomalies.values())
    assert there.anomalies.read_bytes() == here.anomalies.read_bytes()
    assert report.build(there).exists()
    assert there.verdict.exists()
    assert there.junit.exists()


@pytest.mark.sampled(10)
def test_sealing_again_replaces_the_history_and_leaves_nothing_beside_it(store: str) -> None:
    for seed in (1, 2):
        run = write_run(location(f"{store}/again"), random_history(seed)[0].tables())
    names = {path.partition("/")[0] for path in files(run.folder)}
    assert names == {"config.json", "events.jsonl", "history"}
    load(run)


@pytest.mark.sampled(13)
def test_a_history_that_was_cut_off_while_it_was_written_does_not_count(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = location(f"{store}/cut")
    run = write_run(folder, random_history(1)[0].tables())

    def failing(path: Path, content: bytes) -> None:
        raise OSError("planted")

    with monkeypatch.context() as patch:
        patch.setattr("history.seal.write_atomically", failing)
        with pytest.raises(OSError, match="planted"):
            write_run(folder, random_history(2)[0].tables())
    with pytest.raises(HistoryError, match=r"names\.json"):
        load(run)


@pytest.mark.sampled(6)
def test_a_damaged_file_on_a_store_is_named(store: str) -> None:
    run = write_run(location(f"{store}/damaged"), random_history(1)[0].tables())
    damaged = next(iter(run.table("reads").glob("*.parquet")))
    scribble(damaged)
    with pytest.raises(HistoryError, match=damaged.name):
        check_run(run)


@pytest.mark.sampled(22)
def test_a_store_that_refuses_is_one_sentence(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from s3fs import S3FileSystem

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    S3FileSystem.clear_instance_cache()
    folder = location(f"{s3}/unreachable")
    with pytest.raises(StorageError, match="store cannot be used"), storage.reaching(folder):
        storage.is_there(folder / "config.json")
    S3FileSystem.clear_instance_cache()


def test_without_credentials_is_one_sentence(
    s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from s3fs import S3FileSystem

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    S3FileSystem.clear_instance_cache()
    folder = location(f"{s3}/refused")
    with pytest.raises(StorageError, match="credentials"), storage.reaching(folder):
        storage.is_there(folder / "config.json")
    S3FileSystem.clear_instance_cache()


def test_errors_of_this_machines_files_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), storage.reaching(tmp_path):
        storage.read_bytes(tmp_path / "none")
    with pytest.raises(ConfigError), storage.reaching(location("memory://x")):
        raise ConfigError("it is not about the store")


def test_whole_files_appear_on_a_store(store: str) -> None:
    path = location(f"{store}/whole") / "verdict.json"
    write_atomically(path, "1")
    write_atomically(path, "2")
    assert path.read_text() == "2"
