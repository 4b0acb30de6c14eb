"""Which faults a run beside a test has, how long the test waits for the first one, what the config keeps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.verdict.repeat import repro
from core.config import RunConfig, recorded_config
from core.errors import ClusterError, ConfigError
from harness.compose import create_folder, plan
from harness.guided import main
from harness.guided.cluster import HIT_S, GuidedCluster
from harness.guided.words import Break, Command, Start, Told
from harness.run.planning import RunPlan, planned, recorded_steps
from harness.systems import backend_of
from history.run_folder import Run


def config(**settings: Any) -> RunConfig:
    return main._config(Start(settings={"sut": "kafka", "seed": 5, **settings}, results="."))


def made(**settings: Any) -> RunPlan:
    """As the run of a test begins."""
    of = config(**settings)
    return plan(of, () if of.nemesis == main.LATER else None)


def drawn(nemesis: str, seed: int, **settings: Any) -> object:
    """The faults of `inquest run` with these settings."""
    of = config(**settings).model_copy(update={"nemesis": nemesis, "seed": seed})
    return planned(of, backend_of(of).capabilities(of)).steps


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("nemesis", ["kill", "wire", "links"])
def test_a_seed_draws_the_same_faults_wherever_the_nemesis_is_named(nemesis: str, seed: int) -> None:
    named = made(nemesis=nemesis)
    assert main._planned(named, Break("", seed)) == drawn(nemesis, seed)
    assert main._planned(named, Break(nemesis, seed)) == drawn(nemesis, seed)
    assert main._planned(named, Break("", None)) == drawn(nemesis, 5)
    if nemesis == "kill":
        assert main._planned(made(), Break(nemesis, seed)) == drawn(nemesis, seed)
        assert main._planned(made(), Break(nemesis, None)) == drawn(nemesis, 0)


def test_another_nemesis_than_the_cluster_was_made_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="was made for 'wire'"):
        main._planned(made(nemesis="wire"), Break("kill", 7))
    with pytest.raises(ConfigError, match="needs proxies before the brokers"):
        main._planned(made(), Break("wire", 7))


@pytest.mark.parametrize(
    ("nemesis", "settings", "seconds"),
    [
        ("restart:rolling", {"brokers": 7}, (70, 73)),
        ("restart:rolling", {}, (30, 33)),
        ("kill:one", {}, (0.5, 3)),
        ("none", {}, (0, 0)),
    ],
)
def test_when_the_first_fault_is_to_be_in_force(
    nemesis: str, settings: dict[str, Any], seconds: tuple[float, float]
) -> None:
    run = made(**settings)
    first_s = main.first_in_force_s(run.config, main._planned(run, Break(nemesis, 1)))
    assert seconds[0] <= first_s <= seconds[1]


class Answers:
    """In place of the process of a run: each wait is noted, and makes the next answer true."""

    def __init__(self, answers: list[Told], hear: Callable[[Told], None]) -> None:
        self.answers, self._hear = answers, hear
        self.waited: list[float] = []

    def tell(self, command: Command) -> None:
        """Nothing: the answers are known."""

    def trouble(self) -> str:
        """None."""
        return ""

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """As `Child.until`."""
        self.waited.append(seconds)
        if self.answers:
            self._hear(self.answers.pop(0))
        return condition()


def cluster(*answers: Told) -> tuple[GuidedCluster, Answers]:
    one = object.__new__(GuidedCluster)
    one._told = Told()
    child = Answers(list(answers), one._hear)
    one._child = child  # type: ignore[assignment]
    return one, child


def test_the_first_fault_has_its_planned_time_and_more() -> None:
    one, child = cluster(Told(first_s=71.5), Told(hit=True))
    with one.faults("restart:rolling"):
        assert child.waited == [HIT_S, 71.5 + HIT_S]
    late, child = cluster(Told(first_s=71.5))
    with pytest.raises(ClusterError, match="force: not within 131"), late.faults("kill"):
        pytest.fail("it began")
    none, child = cluster(Told(hit=True))
    with none.faults("none"):
        assert child.waited == [HIT_S, HIT_S]
    refused, _ = cluster(Told(refused="no such nemesis"))
    with pytest.raises(ConfigError, match="no such nemesis"), refused.faults("spider"):
        pytest.fail("it began")


@pytest.mark.parametrize("seconds", [12.3, 0.2])
def test_a_run_is_repeated_by_its_schedule(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of the same seed for the time that the test took has other faults at other times."""
    monkeypatch.setattr(main.CommandDesk, "_listen", lambda _: None)
    said: list[Told] = []
    monkeypatch.setattr(main, "tell", said.append)
    begun = made(nemesis="wire", workload="transactions")
    run = create_folder(begun.config, tmp_path)
    desk = main.CommandDesk(begun, Run(run.folder))
    monkeypatch.setattr(main, "_bootstrap", lambda _: "here:1")
    desk._break = Break("", 7)
    steps = desk.faults(begun, None)  # type: ignore[arg-type]
    assert steps == drawn("wire", 7, workload="transactions")
    assert steps is not None
    assert said[-1].first_s > 0
    desk._shorten(seconds)
    kept = recorded_config(run.config)
    assert (kept.nemesis, kept.duration_s) == (main.LATER, max(1.0, seconds))
    assert repro(kept, run) == f"inquest recording replay {run.folder}"
    assert recorded_steps(run) == tuple(step for step in steps if step.at_s < seconds)
    assert json.loads(run.config.read_text())["workload"] == "transactions"
