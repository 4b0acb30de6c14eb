"""Presets about how applications send and commit, simulated: what each shows, and what not."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from core.config import run_config
from core.op import CommitKind, Outcome
from core.presets import GIVEN_UP, PRESETS
from harness.explore.profile import BASE
from harness.explore.trial import checked, counted, findings
from harness.modelled.virtual.run import simulate
from history.journal_rows import rows_of
from tests.harness.modelled.virtual.test_labels import recorded
from tests.histories.folders import check_run


def shown(preset: str, **settings: Any) -> tuple[dict[str, int], dict[str, pa.Table]]:
    """The classes that a run finds, none of them forbidden, and its tables."""
    usual = {name: value for name, value in BASE.items() if name not in PRESETS[preset]}
    done = simulate(run_config({**usual, "preset": preset, "seed": 0, **settings}))
    tally = checked(done)
    assert not tally.crashed
    assert not tally.doubts
    assert not findings(done, tally)
    return counted(tally.findings), rows_of(done.journals).tables()


def met(preset: str, folder: Path, **settings: Any) -> dict[str, bool]:
    """What such a run requires, and whether it meets it."""
    usual = {name: value for name, value in BASE.items() if name not in PRESETS[preset]}
    verdict = check_run(recorded(run_config({**usual, "preset": preset, "seed": 0, **settings}), folder))
    return {one.text: one.met for one in verdict.requirements}


def outcomes(tables: dict[str, pa.Table]) -> Counter[int]:
    """How many ops that send ended how."""
    return Counter(row["outcome"] for row in tables["ops"].to_pylist() if row["n_sends"])


@pytest.mark.sampled(6)
def test_a_client_that_commits_by_itself_copies_again() -> None:
    found, _ = shown("auto-commit")
    assert set(found) == {"eos-duplicate"}


@pytest.mark.sampled(8)
def test_acks_all_of_one_replica_is_lost_with_its_power_and_of_three_is_not() -> None:
    found, _ = shown("one-replica")
    assert found["lost-write"] > 0
    found, _ = shown("one-replica", replication_factor=3, min_insync_replicas=2, expect=())
    assert "lost-write" not in found


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("preset", "cured"),
    [
        ("no-retries", {"client_settings": {}}),
        ("retries-too-short", {"client_settings": {}, "verb_deadline_s": 30}),
    ],
)
def test_sends_fail_where_a_longer_retry_brings_them_through(
    preset: str, cured: dict[str, Any], tmp_path: Path
) -> None:
    rolling = {"duration_s": 36} if preset == "no-retries" else {}
    found, tables = shown(preset, **rolling)
    assert found == {}
    failed = outcomes(tables)
    assert failed[Outcome.INFO] + failed[Outcome.FAIL] > 4
    assert met(preset, tmp_path / "short", **rolling) == {GIVEN_UP: True}
    _, tables = shown(preset, **rolling, **cured)
    assert set(outcomes(tables)) == {Outcome.OK}
    both = {"require": f"{GIVEN_UP},in-doubt<=0%"}
    assert met(preset, tmp_path / "long", **rolling, **cured, **both) == {
        GIVEN_UP: False,
        "in-doubt<=0%": True,
    }


def test_a_send_that_is_tried_for_long_is_not_given_up(tmp_path: Path) -> None:
    assert met("retries-long", tmp_path / "long") == {"in-doubt<=0%": True}
    short = {"client_settings": {"producer.message.timeout.ms": "1000"}}
    assert met("retries-long", tmp_path / "short", **short) == {"in-doubt<=0%": False}


@pytest.mark.sampled(10)
def test_transactions_span_many_partitions() -> None:
    found, tables = shown("wide")
    assert "torn-txn" not in found
    committed = {
        row["op"] for row in tables["ops"].to_pylist() if row["txn"] and row["outcome"] == Outcome.OK
    }
    spread: dict[int, set[int]] = {}
    for row in tables["sends"].to_pylist():
        spread.setdefault(row["op"], set()).add(row["tp"])
    assert max(len(spread[op]) for op in committed) == 60


@pytest.mark.sampled(8)
def test_a_copier_that_reads_on_after_an_abort_never_copies_what_it_had_read() -> None:
    found, _ = shown("no-rewind")
    assert found["eos-loss"] > 0
    found, _ = shown("no-rewind", commit="transaction", expect=())
    assert "eos-loss" not in found


@pytest.mark.sampled(13)
@pytest.mark.parametrize(
    ("preset", "classes"),
    [("commit-beside", {"eos-loss"}), ("auto-commit-beside", {"eos-loss", "eos-duplicate"})],
)
def test_offsets_committed_beside_a_transaction_pass_what_it_aborts(preset: str, classes: set[str]) -> None:
    found, tables = shown(preset)
    assert {name for name in found if name.startswith("eos-")} == classes == set(PRESETS[preset]["expect"])
    kinds = {row["kind"] for row in tables["commits"].to_pylist()} - {CommitKind.FETCHED}
    assert kinds == {CommitKind.AUTO if preset == "auto-commit-beside" else CommitKind.SYNC}
    copied = {row["op"] for row in tables["sends"].to_pylist() if row["src_tp"] >= 0}
    assert {row["txn"] for row in tables["ops"].to_pylist() if row["op"] in copied} == {1}
    found, _ = shown(preset, commit="transaction", expect=())
    assert not [name for name in found if name.startswith("eos-")]
