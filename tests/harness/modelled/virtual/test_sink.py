"""Simulated runs whose consumers write to a database: the control, its cures, and cures that do not work."""

from collections.abc import Sequence
from typing import Any

import pytest

from core.config import RunConfig, run_config
from core.keys import key_of
from core.presets import PRESETS
from harness.clients import database
from harness.clients.database import Database, DatabaseRow
from harness.explore.profile import BASE
from harness.explore.trial import checked, counted, findings
from harness.modelled.virtual.run import simulate
from history.journal_rows import rows_of

CURES = [name for name in PRESETS if name.startswith("sink-") and name != "sink-plain"]


def config(preset: str, **settings: Any) -> RunConfig:
    return run_config({**BASE, "preset": preset, "seed": 1, **settings})


def found(config: RunConfig) -> tuple[dict[str, int], dict[str, int]]:
    """All classes with findings, and those that are forbidden."""
    done = simulate(config)
    tally = checked(done, logs=True)
    assert not tally.crashed
    return counted(tally.findings), counted(findings(done, tally))


@pytest.mark.sampled(6)
def test_rows_without_a_cure_are_there_twice_and_that_is_allowed() -> None:
    assert found(config("sink-plain")) == ({"eos-duplicate": 1}, {})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("preset", CURES)
def test_a_cure_keeps_each_row_once(preset: str) -> None:
    nemesis = PRESETS["sink-plain"]["nemesis"]
    assert found(config(preset, nemesis=nemesis)) == ({}, {})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("preset", CURES)
def test_a_cure_that_does_not_work_is_found_by_its_duplicates(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "NEW", {})
    nemesis = PRESETS["sink-plain"]["nemesis"]
    _, forbidden = found(config(preset, nemesis=nemesis))
    assert forbidden == {"eos-duplicate": 1}


@pytest.mark.sampled(27)
def test_a_version_is_no_place_of_a_record_where_a_loss_of_power_took_others_from_there() -> None:
    """The power goes off, and records of other keys come to stand at offsets of which the database has
    rows."""
    every, forbidden = found(config("sink-optimistic-lock", nemesis="power:all"))
    assert every["eos-duplicate"] > 0
    assert forbidden == {}


@pytest.mark.sampled(10)
def test_a_row_that_the_database_says_it_has_refused_and_has_not_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = Database.write

    def forgetful(self: Database, rows: Sequence[DatabaseRow]) -> list[int]:
        return [*write(self, rows[1:])[::-1], database.REFUSED][::-1]

    monkeypatch.setattr(Database, "write", forgetful)
    _, forbidden = found(config("sink-unique-id"))
    assert forbidden["eos-loss"] > 0


@pytest.mark.sampled(10)
def test_a_row_that_is_gone_from_the_database_is_a_lost_write(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Database.read
    monkeypatch.setattr(Database, "read", lambda self, tp: tuple(some[1:] for some in read(self, tp)))
    _, forbidden = found(config("sink-unique-id"))
    assert forbidden["lost-write"] > 0


@pytest.mark.sampled(5)
def test_rows_of_a_key_stand_in_the_order_of_its_records_where_the_offset_is_the_version() -> None:
    done = simulate(config("sink-optimistic-lock", nemesis="client:crash-before-commit@member,partition"))
    sends = rows_of(done.journals).tables()["sends"].to_pylist()
    sent = {(row["tp"], row["place"]): row["value"] for row in sends}
    stored = sorted((row["tp"], row["place"], row) for row in sends if row["src_tp"] >= 0 <= row["place"])
    last: dict[tuple[int, int], int] = {}
    assert stored
    for _, _, row in stored:
        key = row["src_tp"], key_of(sent[row["src_tp"], row["src_offset"]])
        assert last.get(key, -1) < row["src_offset"]
        last[key] = row["src_offset"]
