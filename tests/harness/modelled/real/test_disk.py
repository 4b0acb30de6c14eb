"""A node finds on its disk what its broker called durable."""

from pathlib import Path

import pytest
from msgspec import structs

from harness.modelled.real.encoded.disk import Disk, load
from harness.modelled.real.encoded.records import batch_of
from model.log.unified_log import COMMIT, RecordBatch, UnifiedLog
from model.settings import Settings
from tests.harness.modelled.real.test_packing import wire_batch

TP = ("t", 0)
SETTINGS = Settings()


def appended(log: UnifiedLog, epoch: int, sequence: int) -> None:
    log.append(structs.replace(batch_of(wire_batch()), sequence=sequence), epoch)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk(tmp_path / "disk", SETTINGS)
    made.durable.logs[TP] = UnifiedLog(SETTINGS.era)
    return made


def again(tmp_path: Path) -> UnifiedLog:
    return load(tmp_path / "disk", SETTINGS, 0).logs[TP]


def test_a_log_comes_back_with_its_producers_and_epochs(disk: Disk, tmp_path: Path) -> None:
    log = disk.durable.logs[TP]
    log.epochs.lead(3, 0)
    appended(log, 3, 0)
    disk.save()
    appended(log, 3, 1)
    log.flush()
    log.append(RecordBatch(-1, -1, (), 7, 3, control=COMMIT, coordinator_epoch=1), 3)
    log.epochs.lead(4, log.end)
    disk.save()
    back = again(tmp_path)
    assert back.batches == log.batches
    assert (back.end, back.start, back.flushed, list(back.epochs)) == (3, 0, 2, [(3, 0), (4, 3)])
    assert back.producers == log.producers
    assert back.completed == log.completed


def test_what_was_cut_back_is_gone_and_what_followed_is_there(disk: Disk, tmp_path: Path) -> None:
    log = disk.durable.logs[TP]
    for sequence in range(3):
        appended(log, 0, sequence)
    disk.save()
    log.truncate(1)
    appended(log, 2, 1)
    disk.save()
    assert [(b.base, b.epoch) for b in again(tmp_path).batches] == [(0, 0), (1, 2)]


def test_a_log_that_begins_later_and_one_that_was_deleted(disk: Disk, tmp_path: Path) -> None:
    log = disk.durable.logs[TP]
    appended(log, 0, 0)
    appended(log, 0, 1)
    log.delete_before(1)
    other = disk.durable.logs["t", 1] = UnifiedLog(SETTINGS.era)
    appended(other, 0, 0)
    disk.save()
    del disk.durable.logs["t", 1]
    disk.save()
    durable = load(tmp_path / "disk", SETTINGS, 0)
    assert list(durable.logs) == [TP]
    assert (durable.logs[TP].start, durable.logs[TP].end) == (1, 2)


def test_state_of_the_quorum_and_checkpoint(disk: Disk, tmp_path: Path) -> None:
    durable = disk.durable
    durable.quorum_epoch, durable.voted = 5, 2
    durable.entries += [(4, None), (4, None), (4, None)]
    durable.checkpoint[TP] = 1
    disk.save()
    durable.entries[1:] = [(5, None)]
    durable.clean_epoch = 9
    disk.save()
    back = load(tmp_path / "disk", SETTINGS, 0)
    assert (back.quorum_epoch, back.voted, back.entries) == (5, 2, [(4, None), (5, None)])
    assert (back.clean_epoch, back.checkpoint) == (9, {TP: 1})


def test_a_record_that_a_kill_cut_off_is_left_out_and_overwritten(disk: Disk, tmp_path: Path) -> None:
    appended(disk.durable.logs[TP], 0, 0)
    disk.save()
    whole = (tmp_path / "disk").stat().st_size
    appended(disk.durable.logs[TP], 0, 1)
    disk.save()
    disk.close()
    with (tmp_path / "disk").open("r+b") as file:
        file.truncate(whole + 9)
    second = Disk(tmp_path / "disk", SETTINGS)
    assert second.durable.logs[TP].end == 1
    appended(second.durable.logs[TP], 0, 1)
    second.save()
    assert again(tmp_path).end == 2


def test_of_changes_that_were_written_together_a_kill_leaves_all_or_none(disk: Disk, tmp_path: Path) -> None:
    other = disk.durable.logs["t", 1] = UnifiedLog(SETTINGS.era)
    disk.save()
    appended(disk.durable.logs[TP], 0, 0)
    appended(other, 0, 0)
    disk.save()
    size = (tmp_path / "disk").stat().st_size
    assert {tp: log.end for tp, log in load(tmp_path / "disk", SETTINGS, 0).logs.items()} == {
        TP: 1,
        ("t", 1): 1,
    }
    with (tmp_path / "disk").open("r+b") as file:
        file.truncate(size - 1)
    assert {tp: log.end for tp, log in load(tmp_path / "disk", SETTINGS, 0).logs.items()} == {
        TP: 0,
        ("t", 1): 0,
    }


def test_nothing_is_written_where_nothing_changed(disk: Disk, tmp_path: Path) -> None:
    disk.save()
    before = (tmp_path / "disk").stat().st_size
    disk.save()
    assert (tmp_path / "disk").stat().st_size == before


def test_times_move_to_another_clock(disk: Disk, tmp_path: Path) -> None:
    disk.durable.logs[TP].append(structs.replace(batch_of(wire_batch()), appended_ms=5), 0)
    disk.save()
    assert load(tmp_path / "disk", SETTINGS, 100).logs[TP].batches[0].appended_ms == 105
