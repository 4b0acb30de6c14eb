"""Partitions that are checked in ranges of offsets: the same findings as of whole partitions.

`INQUEST_SEEDS=1000 pytest tests/checkers/test_ranges.py` compares a thousand histories.
"""

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkers.api import check_history
from checkers.checks import CHECKS
from checkers.engine import pipeline, ranges
from checkers.engine.check import Tally
from checkers.engine.pipeline import check_tables
from checkers.windows import Excuse
from core.op import Isolation, Phase, value_of
from history import seal
from history.events import FaultStarted
from history.reader import load
from tests.histories.built import Bound, Built, Op, Process, Read, Send
from tests.histories.folders import STARTED, write_run
from tests.histories.planted import random_history
from tests.histories.planted_groups import random_events

SEEDS = int(os.environ.get("INQUEST_SEEDS", "4"))
FEW = 5
"""Rows of a range here; of a row group, fewer."""


def told(tally: Tally) -> dict[str, Any]:
    assert not tally.crashed, tally.crashed
    return {
        "findings": Counter((each.canonical, each.kind) for each in tally.findings),
        "counts": tally.counts,
        "doubts": sorted(map(str, tally.doubts)),
        "unread": tally.unread,
        "rows": (tally.rows, tally.acknowledged),
    }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_ranges_find_what_whole_partitions_show(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal, "ROW_GROUP", FEW - 2)
    built, recorded, _ = random_history(seed)
    if not recorded:
        return  # portable histories are in memory, and never cut
    history = load(write_run(tmp_path / "run", built.tables(), events=random_events(seed, built)))
    whole = told(check_history(history))
    assert whole == told(check_tables(built.tables(), CHECKS, recorded=True, events=history.events))
    monkeypatch.setattr(ranges, "RANGE_ROWS", FEW)
    assert told(check_history(history)) == whole


@pytest.mark.parametrize("seed", range(SEEDS))
def test_ranges_know_what_was_flushed_by_the_number_of_records(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records but one are lost, and power went when some of those behind each were acknowledged."""
    rng, built = Random(f"flushed/{seed}"), Built(tps=["x"])
    for offset in range(40):  # in order, so that no range needs rows of others
        op = Op(process=1, f="send", invoke=2 * offset, complete=2 * offset + 1)
        op.mops = [Send(tp=0, value=value_of(1, offset), offset=offset)]
        built.ops.append(op)
    for level in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        built.processes[80 + level] = Process(isolation=level, acks=-2, slot=80 + level)
        op = Op(process=80 + level, f="final", invoke=200, complete=201, phase=Phase.FINAL)
        op.mops = [Read(tp=0, offset=0, value=value_of(1, 0))]
        built.ops.append(op)
        built.bounds.append(Bound(tp=0, isolation=level, end=1, read_to=40))
    number = rng.choice((2, 3, FEW + 1, 3 * FEW))
    settings = {"topic_settings": {"flush.messages": str(number)}}
    loss = FaultStarted(
        begin_ns=(at := rng.randint(34, 70)),
        ns=at,
        fault=0,
        name="power:all",
        nodes=(1, 2, 3),
        text="…",
        colour="",
    )
    monkeypatch.setattr(seal, "ROW_GROUP", FEW - 2)
    history = load(write_run(tmp_path / "run", built.tables(), settings=settings, events=[STARTED, loss]))
    whole = told(check_history(history))
    excuses = {kind.excuse for _, kind in whole["findings"] if kind.name == "lost-write"}
    assert excuses == {Excuse.POWER, Excuse.NONE}
    monkeypatch.setattr(ranges, "RANGE_ROWS", FEW)
    assert told(check_history(history)) == whole


def test_the_compared_histories_have_many_ranges_guests_and_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "RANGE_ROWS", FEW)
    history = load(write_run(tmp_path / "run", random_history(1)[0].tables()))
    asked: Counter[str] = Counter()

    def counted(tasks: Any, kernels: Any, known: Any) -> pipeline.Checked:
        asked.update(type(task).__name__ for task in tasks)
        return pipeline.in_process(tasks, kernels, known)

    assert sum(check_history(history, counted).counts.values()) > 5
    assert asked["UnitTask"] == 0
    assert asked["RangeTask"] >= asked["ScoutTask"] > 10
    assert asked["GuestTask"] > 0
