"""What all nights come to is the same however they are shared out, and whoever reads them; what faults did to
each version."""

import random
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.engines import chosen
from core.errors import InquestError
from harness.judging.process import JudgeProcess, indexed
from harness.nights import page, totals
from harness.nights.session_log import PlannedRun, RunResult
from history.run_folder import Run
from history.tasks import Here
from history.verdict import Fault, FaultLiveness, Liveness
from tests.harness.nights.made_sessions import LOST, by_hand, canary, many, outcome, task, write

NIGHT = "20260301T220000Z"


def lived(results: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = totals.totals(results, Here()).lived
    return {(row["system"], row["version"], row["fault"]): row for row in rows}


def fault(number: int, name: str = "kill:one@leader") -> Fault:
    return Fault(fault=number, name=name, text="", nodes=[1], begin_s=1.0, end_s=2.0, colour="")


def cost(
    number: int,
    served: float | None,
    recovered_s: float | None,
    stalled_s: float,
    back_s: float | None = None,
) -> FaultLiveness:
    return FaultLiveness(
        fault=number, stalled_s=stalled_s, partition="", partition_stalled_s=stalled_s,
        recovered_s=recovered_s, served=served, back_s=back_s,
    )  # fmt: skip


def run_under(
    results: Path, seed: int, faults: list[Fault], costs: list[FaultLiveness], version: str = "4.3.1"
) -> str:
    """The folder of a run that had these faults."""
    config = {"sut": "kafka", "kafka": {"version": version}}
    return by_hand(results, f"20260301T2201{seed:02}Z-queue-kill-{seed}", config=config, faults=faults,
                   liveness=Liveness(faults=costs)).name  # fmt: skip


@pytest.mark.sampled(14)
def test_what_a_fault_did_to_each_version(tmp_path: Path) -> None:
    first = run_under(tmp_path, 1, [fault(0), fault(1, "kill:one@controller")],
                      [cost(0, 0.5, 4.0, 3.0, 4.0), cost(1, 0.9, None, 9.0, 15.0)])  # fmt: skip
    second = run_under(tmp_path, 2, [fault(0), fault(1)],
                       [cost(0, None, 2.0, 1.0), cost(1, None, None, 1.0)])  # fmt: skip
    other = run_under(tmp_path, 3, [fault(0)], [], "3.9.1")
    quiet = run_under(tmp_path, 4, [], [])
    write(tmp_path, NIGHT, [
        (task(seed=1), outcome("anomaly", LOST, folder=first)), (task(seed=2), outcome(folder=second)),
        (task(seed=3), outcome(folder=other)), (task(seed=4), outcome(folder=quiet)),
    ])  # fmt: skip
    found = lived(tmp_path)
    assert set(found) == {
        ("kafka", "4.3.1", "kill:one"), ("kafka", "3.9.1", "kill:one"), ("kafka", "4.3.1", "none"),
    }  # fmt: skip
    killed = found["kafka", "4.3.1", "kill:one"]
    assert (killed["runs"], killed["failing"], killed["times"], killed["recovered"]) == (2, 1, 4, 3)
    assert (killed["served"], killed["recovered_s"], killed["stalled_s"]) == pytest.approx((0.7, 7.0, 9.0))
    unknown = found["kafka", "3.9.1", "kill:one"]
    assert not page.known(unknown["served"])
    assert not page.known(unknown["stalled_s"])
    shown = page.render(tmp_path)
    assert '<a href="#faults">' in shown
    assert shown.count('<th scope="row" class="nowrap">kill:one</th>') == 2
    assert '<td class="n">1/2</td><td class="n">4</td>' in shown
    assert '<td class="n">7.0 <span class="muted">3/4</span></td>' in shown
    assert '<td class="n">0/1</td><td class="n">1</td>' in shown


def test_of_faults_only_fair_runs_of_sessions_count(tmp_path: Path) -> None:
    folders = [run_under(tmp_path, seed, [fault(0)], [cost(0, 0.5, 1.0, 1.0)]) for seed in range(1, 6)]
    Run(tmp_path / folders[3]).verdict.write_text("{")
    runs: list[tuple[PlannedRun, RunResult]] = [
        (task(seed=1), outcome(folder=folders[0])),
        (task(seed=2, why="repeat"), outcome(folder=folders[1])),
        (task(seed=3), outcome("interrupted", judged=True, folder=folders[2])),
        (task(seed=4), outcome(folder=folders[3])),  # its verdict is damaged
        (task(seed=6), outcome(folder="gone")),
    ]
    write(tmp_path, NIGHT, runs)  # the fifth folder is of a run that a person made
    (row,) = lived(tmp_path).values()
    assert (row["runs"], row["times"]) == (1, 1)


@pytest.mark.sampled(5)
def test_without_verdicts_there_is_no_table_of_faults(tmp_path: Path) -> None:
    write(tmp_path, NIGHT, [(canary(), outcome())])
    assert "faults-title" not in page.render(tmp_path)


def a_year(results: Path) -> None:
    """Sessions with findings of all kinds, verdicts with faults, and runs made by hand."""
    many(results, sessions=5, runs=12)
    chance = random.Random(2)
    for seed in range(1, 9):
        costs = [cost(n, chance.random(), chance.choice([None, 2.0]), 1.0) for n in range(2)]
        version = chance.choice(["4.0.2", "4.3.1"])
        run_under(results, seed, [fault(0), fault(1, "pause:long")], costs, version)
    folders = sorted(path.name for path in results.glob("20260301T2201*"))
    runs: list[tuple[PlannedRun, RunResult]] = [
        (task(seed=seed), outcome(folder=name)) for seed, name in enumerate(folders)
    ]
    write(results, "20260401T220000Z", runs)
    for number in range(4):
        by_hand(results, f"20260501T1015{number:02}Z-queue-kill-42")


@pytest.mark.sampled(8)
def test_the_page_is_the_same_however_nights_are_shared_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_year(tmp_path)
    whole = page.render(tmp_path)
    monkeypatch.setattr(totals, "LOG_BYTES", 1)
    monkeypatch.setattr(totals, "BY_HAND", 1)
    assert page.render(tmp_path) == whole


@pytest.mark.sampled(10)
@pytest.mark.spark
def test_spark_makes_the_page_that_this_process_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_year(tmp_path)
    whole = page.render(tmp_path)
    monkeypatch.setattr(totals, "LOG_BYTES", 10_000)
    with chosen(tmp_path, master="local[1]") as engine:
        assert page.render(tmp_path, engine.workers) == whole
        assert engine.workers.done > 2
        assert engine.title.startswith("Spark ")


@pytest.mark.sampled(10)
@pytest.mark.spark
def test_a_judge_makes_the_index_and_says_why_it_cannot(tmp_path: Path) -> None:
    results = tmp_path / "results"
    a_year(results)
    with JudgeProcess("local[1]") as judge:
        assert indexed(results, judge.socket)
        assert (results / page.NAME).read_text() == page.render(results)
        (results / page.NAME).unlink()
        (results / page.NAME).mkdir()
        with pytest.raises(InquestError, match="IsADirectoryError"):
            indexed(results, judge.socket)
        (results / page.NAME).rmdir()
        assert indexed(results, judge.socket), "the judge lives on"
    assert not indexed(results, judge.socket), "nobody is there any more"
