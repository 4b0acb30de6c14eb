"""From a run folder to the verdict: what broken brokers and clients would leave is found by the command
`inquest check`, and its clean twin is silent.

The folders are made of simulated histories with copiers, groups and twins, damaged or not. Not here:
bugs of the cluster in memory (`test_planted_bugs`).
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from core.cluster import OpenTransaction
from core.op import Isolation
from history.events import Event, TransactionsOpen
from history.run_folder import Run
from tests.faults.command import verdict
from tests.harness.cli.bad_input import command
from tests.histories import planted, planted_groups
from tests.histories.built import Built
from tests.histories.folders import RECOVERED, STARTED, write_run
from tests.histories.planted_groups import Damage
from tests.histories.random_history import simulate
from tests.oracle import anomalies

pytestmark = pytest.mark.faults

SEEDS = 200
"""Histories among which one has to be that shows the damage."""
SETTINGS = {"workload": "copier"}


def events(built: Built) -> Sequence[Event]:
    """A look at open transactions that found one at the last stable offset of each partition."""
    rows = tuple(
        OpenTransaction(
            topic=built.tps[bound.tp], partition=0, producer_id=7, producer_epoch=0, start=bound.end
        )
        for bound in built.bounds
        if bound.isolation == Isolation.READ_COMMITTED
    )
    return STARTED, RECOVERED, TransactionsOpen(ns=1, rows=rows)


def damaged(name: str, damage: Damage) -> tuple[int, Built]:
    """The first history that can be decided as it is and shows a finding of this class once it is damaged,
    and its seed."""
    for seed in range(SEEDS):
        built = simulate(seed, portable=False)
        if anomalies.undecided(built.tables()):
            continue
        damage(Random(seed), built)
        found = anomalies.findings(built.tables(), events=events(built))
        if name in {key[0] for key in found}:
            return seed, built
    raise AssertionError(f"{damage.__name__} leaves no {name} in {SEEDS} histories")


def checked(folder: Path, built: Built) -> tuple[int, set[str]]:
    """Exit code of `inquest check`, and the classes that it found and does not allow."""
    run: Run = write_run(folder, built.tables(), settings=SETTINGS, events=events(built))
    ended = command("check", str(folder), "--engine", "process")
    assert run.verdict.exists(), ended
    listed = verdict(run)["anomalies"]
    return ended.code, {name for name, found in listed.items() if not found["allowed"]}


def withhold_by_hand(rng: Random, built: Built) -> None:
    """Withhold a record where nobody commits by itself: a client that does may lose what dies with it."""
    for settings in built.processes.values():
        settings.auto_commit = False
    planted_groups.withhold(rng, built)


@pytest.mark.sampled(13)
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("eos-duplicate", planted_groups.copy_again),
        ("eos-loss", planted_groups.forget_copy),
        ("group-duplicate", planted_groups.give_again),
        ("group-skip", withhold_by_hand),
        ("zombie-write", planted_groups.share_id),
        ("hanging-txn", planted.stick_lso),
    ],
)
def test_planted_damage_and_its_clean_twin(tmp_path: Path, name: str, damage: Damage) -> None:
    seed, built = damaged(name, damage)
    code, found = checked(tmp_path / "damaged", built)
    assert code == 1
    assert name in found
    assert checked(tmp_path / "clean", simulate(seed, portable=False)) == (0, set())
