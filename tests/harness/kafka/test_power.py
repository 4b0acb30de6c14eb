"""What a power loss leaves of a node's logs: files of a real node, cut where nothing was flushed."""

import io
import random
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.config import RunConfig, run_config
from core.errors import ClusterError, LogsKept
from harness.containers.nodes import NodeContainer
from harness.evidence import segments
from harness.kafka import power
from harness.kafka.power import RECOVERY_POINTS, cuts, lose_unflushed
from tests.harness.kafka.test_evidence import Ended, Sdk
from tests.histories.broker_files import NODE

CONFIG = RunConfig(seed=0)
NOW_MS = 2**62
"""Long after the files were written."""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A copy of the data directory of a real node."""
    return Path(shutil.copytree(NODE, tmp_path / "node"))


def begins(log: Path) -> list[int]:
    """Where each batch of a file begins, and where the last one ends."""
    segment = segments.read(log)
    return [*segment.positions.tolist(), len(segment.data)]


def flushed(node: Path, *entries: str) -> None:
    text = "".join(f"{entry}\n" for entry in entries)
    (node / RECOVERY_POINTS).write_text(f"0\n{len(entries)}\n{text}")


def test_a_log_ends_at_a_batch_inside_one_or_where_it_was_flushed(node: Path) -> None:
    flushed(node)
    ways = Counter[str]()
    for seed in range(40):
        for one in cuts(node, random.Random(seed), CONFIG, NOW_MS):
            assert one.path.parent.name != "__cluster_metadata-0"
            places = begins(one.path)
            assert 0 <= one.size < places[-1]
            assert one.batches == sum(place > one.size for place in places[1:])
            ways["begin" if not one.size else "batch" if one.size in places else "inside"] += 1
    assert min(ways[way] for way in ("begin", "batch", "inside")) >= 10


def test_a_cut_inside_of_the_last_batch_takes_it_also_where_the_file_is_longer(node: Path) -> None:
    """A broker may allocate a file before it writes there, or die while it writes a batch."""
    flushed(node)
    longer = {path: begins(path)[-1] for path in node.glob("*/*.log")}
    for path in longer:
        with path.open("ab") as file:
            file.write(bytes(4096))
    inside = 0
    for seed in range(40):
        for one in cuts(node, random.Random(seed), CONFIG, NOW_MS):
            assert one.size < longer[one.path]
            inside += one.batches == 1 and one.size > 0
    assert inside


@pytest.mark.parametrize("failing", ["copied", "cut"])
def test_it_is_known_whether_a_loss_that_failed_may_have_cut_logs(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*args: object) -> None:
        raise ClusterError("the engine failed")

    flushed(node)
    monkeypatch.setattr(power, "copy_directories", lambda _, into, *more: shutil.copytree(node, into))
    monkeypatch.setattr(power, "copies", lambda folder, _: [folder])
    monkeypatch.setattr(power, "copy_directories" if failing == "copied" else "put_files", fail)
    with pytest.raises(ClusterError, match="the engine failed") as raised:
        lose_unflushed([Ended(1)], None, tmp_path / "copies", CONFIG)
    assert isinstance(raised.value, LogsKept) == (failing == "copied")


def test_the_same_seed_cuts_the_same(node: Path) -> None:
    flushed(node)
    assert cuts(node, random.Random(5), CONFIG, NOW_MS) == cuts(node, random.Random(5), CONFIG, NOW_MS)


def test_what_was_flushed_stays(node: Path) -> None:
    logs = [path for path in node.glob("*/*.log") if path.parent.name != "__cluster_metadata-0"]
    longest = max(logs, key=lambda path: len(begins(path)))
    segment = segments.read(longest)
    middle = len(segment.positions) // 2
    topic, _, partition = longest.parent.name.rpartition("-")
    flushed(node, f"{topic} {partition} {segment.headers['base'][middle]}")
    for seed in range(20):
        sizes = {one.path: one.size for one in cuts(node, random.Random(seed), CONFIG, NOW_MS)}
        assert sizes[longest] >= segment.positions[middle]
    everything = [
        " ".join([*path.parent.name.rsplit("-", 1), str(segments.read(path).headers["base"].max() + 99)])
        for path in logs
        if len(begins(path)) > 1
    ]
    flushed(node, *everything)
    assert cuts(node, random.Random(1), CONFIG, NOW_MS) == []


def test_without_readable_recovery_points_nothing_is_cut(node: Path) -> None:
    (node / RECOVERY_POINTS).write_text("no checkpoint\n")
    with pytest.raises(ClusterError, match="no recovery points"):
        cuts(node, random.Random(1), CONFIG, NOW_MS)


def log_of(node: Path, *, internal: bool) -> Path:
    """The log of a data topic, or of an internal one, that has the most batches."""
    logs = [path for path in node.glob("*/*.log") if path.parent.name != "__cluster_metadata-0"]
    logs = [path for path in logs if path.parent.name.startswith("__") is internal]
    return max(logs, key=lambda path: len(begins(path)))


@pytest.mark.parametrize(
    ("settings", "data", "internal"),
    [
        ({}, True, True),
        ({"topic_settings": {"flush.messages": "1"}}, False, True),
        ({"broker_settings": {"log.flush.interval.messages": "1"}}, False, False),
        ({"broker_settings": {"log.flush.interval.messages": "1"},
          "topic_settings": {"flush.messages": "9999"}}, True, False),
    ],
)  # fmt: skip
def test_nothing_is_cut_where_each_record_is_flushed(
    node: Path, settings: dict[str, Any], data: bool, internal: bool
) -> None:
    flushed(node)
    hit = {one.path for one in cuts(node, None, RunConfig(seed=0, **settings), NOW_MS)}
    assert (log_of(node, internal=False) in hit, log_of(node, internal=True) in hit) == (data, internal)


def test_fewer_records_than_a_log_collects_before_it_is_flushed_are_cut(node: Path) -> None:
    flushed(node)
    longest = log_of(node, internal=False)
    headers = segments.read(longest).headers
    end = int(headers["base"][-1] + headers["last_delta"][-1]) + 1
    for records in (2, 5, end - 1, end + 5):
        config = RunConfig(seed=0, topic_settings={"flush.messages": str(records)})
        sizes = {one.path: one.size for one in cuts(node, None, config, NOW_MS)}
        places = begins(longest)
        kept = headers["base"][places.index(sizes[longest])] if longest in sizes else end
        assert kept >= end - (records - 1)
        assert kept == min((int(base) for base in headers["base"] if base > end - records), default=end)


def test_what_a_flusher_has_taken_stays(node: Path) -> None:
    flushed(node)
    longest = log_of(node, internal=False)
    segment = segments.read(longest)
    times = segment.headers["max_timestamp"]
    brokers = {"log.flush.scheduler.interval.ms": "500", "log.flush.interval.ms": "2000"}
    config = RunConfig(seed=0, broker_settings=brokers)
    assert cuts(node, None, config, NOW_MS) == []
    middle = len(times) // 2
    preset = run_config({"seed": 0, "preset": "flush-timed"})
    for late_ms, kept in ((1000, False), (1001, True)):
        cut = {one.path for one in cuts(node, None, preset, int(times[-1]) + late_ms)}
        assert (longest not in cut) is kept
    sizes = {one.path: one.size for one in cuts(node, None, config, int(times[middle]) + 2001)}
    assert sizes.get(longest, segment.positions[-1]) > segment.positions[middle]
    sizes = {one.path: one.size for one in cuts(node, None, config, int(times.min()) + 2000)}
    assert sizes[longest] == 0


class Disk(Sdk):
    """A container that keeps what is put into it."""

    def __init__(self, data: Path, broken: str = "") -> None:
        super().__init__(137, broken)
        self.data = data
        self.put: dict[str, bytes] = {}

    def put_archive(self, path: str, packed: bytes) -> bool:
        assert path == "/data"
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                self.put[member.name] = file.read()
        return True


def ended(number: int, disk: Disk) -> NodeContainer:
    made = Ended(number)
    made.sdk = disk
    return made


def test_each_node_loses_its_own_and_what_is_left_is_the_begin(tmp_path: Path, node: Path) -> None:
    flushed(node)
    disks = {1: Disk(node), 2: Disk(node)}
    lost = lose_unflushed([ended(n, disk) for n, disk in disks.items()], 3, tmp_path / "copies", CONFIG)
    assert lost > 0
    assert not (tmp_path / "copies").exists()
    for disk in disks.values():
        assert disk.put
        for path, content in disk.put.items():
            whole = (node / path).read_bytes()
            assert len(content) < max(1, len(whole))
            assert whole.startswith(content)
        indexes = {path for path in disk.put if path.endswith(".txnindex")}
        assert indexes
        assert not any(disk.put[path] for path in indexes)
    assert disks[1].put != disks[2].put


def test_without_a_seed_all_that_was_not_flushed_is_gone(tmp_path: Path, node: Path) -> None:
    flushed(node)
    disk = Disk(node)
    lost = lose_unflushed([ended(1, disk)], None, tmp_path / "copies", CONFIG)
    assert lost == sum(len(begins(node / path)) - 1 for path in disk.put if path.endswith(".log"))
    assert set(disk.put.values()) == {b""}


def test_where_one_node_cannot_be_read_none_is_cut(tmp_path: Path, node: Path) -> None:
    flushed(node)
    whole, broken = Disk(node), Disk(node, "engine")
    with pytest.raises(ClusterError, match="the container is gone"):
        lose_unflushed([ended(1, whole), ended(2, broken)], 3, tmp_path / "copies", CONFIG)
    assert whole.put == {}
