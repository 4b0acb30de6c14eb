"""Simulated runs repeat to the byte, and shrink to what their finding needs."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from core.config import RunConfig, run_config
from core.errors import ClusterError
from harness.explore.profile import without_mutant
from harness.explore.shrink import ShrinkCase, Shrinker, findings, numbered
from harness.modelled.virtual.run_folder import differences, record
from harness.run.planning import names_of, planned, recorded_steps
from history import jsonl
from history.run_folder import Run
from nemesis.schedule import plan
from nemesis.types import PlannedFault, WorkloadNames
from nemesis.written import written

SMALL = {
    "sut": "simulated", "workload": "queue", "rate": 10, "partitions": 1, "producers": 1,
    "home_producers": 0, "consumers": 1, "batch_max": 2, "verb_deadline_s": 5, "transaction_timeout_s": 4,
}  # fmt: skip


def config(**settings: object) -> RunConfig:
    return run_config({**SMALL, "nemesis": "none", "duration_s": 5, "seed": 1, **settings})


def kill(at_s: float, *, target: str = "leader", kind: str = "one", hold_s: float = 2.0) -> PlannedFault:
    name = f"kill:{kind}@{target}"
    return PlannedFault(
        fault=0, name=name, family="kill", kind=kind, target=target, at_s=at_s, hold_s=hold_s, seed=7
    )


def recorded(tmp_path: Path, made: RunConfig) -> Run:
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    record(made, planned(made).steps, run)
    return run


def test_a_recorded_run_is_made_again_to_the_byte(tmp_path: Path) -> None:
    made = config(nemesis="kill", duration_s=8)
    run = recorded(tmp_path, made)
    assert recorded_steps(run)
    found, lines = differences(run, made, recorded_steps(run))
    assert found == []
    assert lines == sum(len(p.read_bytes().splitlines()) for p in run.journal.iterdir())


def test_another_run_is_not_taken_for_the_same(tmp_path: Path) -> None:
    made = config()
    run = recorded(tmp_path, made)
    journal = run.journal / "0.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"ns":', b'"ns":1'), *lines[4:]]))
    (run.journal / "1.jsonl").unlink()
    (run.journal / "99.jsonl").write_bytes(b"")
    found, _ = differences(run, made, recorded_steps(run))
    assert found == [
        "journal 1.jsonl is missing",
        "journal 99.jsonl is not of this run",
        "journal 0.jsonl is another one from line 4 on",
    ]


@pytest.mark.parametrize("error", [KeyError("x"), ClusterError("the simulated cluster does not come up")])
def test_a_simulation_that_fails_shows_nothing_and_ends_no_search(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("harness.explore.shrink.simulate", broken)
    case = ShrinkCase(config(), (kill(2.0),))
    shrinker = Shrinker("lost-write", 60.0, lambda _: None, clock=lambda: 0.0)
    assert shrinker.shrink(case) == case
    assert (shrinker.stopped_by, shrinker.whole) == (None, True)


def test_what_a_known_weakness_explains_is_no_finding_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    torn, lost = SimpleNamespace(name="torn-txn"), SimpleNamespace(name="lost-write")
    made = {
        "simulate": SimpleNamespace(weak=[], journals=[]),
        "checked": SimpleNamespace(findings=[]),
        "forbidden": [torn, lost],
        "explained_by": [torn],
    }
    for name, answer in made.items():
        monkeypatch.setattr(f"harness.explore.shrink.{name}", lambda *_, answer=answer, **__: answer)
    case = ShrinkCase(config(), ())
    assert findings(case) == ["lost-write"]
    assert set(findings(case, known=True)) == {"torn-txn", "lost-write"}


class Needs(Shrinker):
    """Fails where the steps at these times are all there; no simulation."""

    needed: frozenset[str] = frozenset()

    def fails(self, case: ShrinkCase) -> bool:
        self.tries += 1
        return self.needed <= {step.name for step in case.steps}


def twenty() -> tuple[PlannedFault, ...]:
    steps = (kill(n * 2.0, target=f"n{n}", hold_s=1.0) for n in range(20))
    return numbered(list(steps))


@pytest.mark.parametrize("needed", [{3, 17}, {0, 19}, {4, 5}, {11}, set()])
def test_only_the_faults_that_are_needed_are_left(needed: set[int]) -> None:
    shrinker = Needs("lost-write", 60.0, lambda _: None, clock=lambda: 0.0)
    shrinker.needed = frozenset(f"kill:one@n{n}" for n in needed)
    left = shrinker.shrink(ShrinkCase(config(duration_s=60), twenty()))
    assert {step.name for step in left.steps} == shrinker.needed
    assert [step.fault for step in left.steps] == list(range(len(needed)))
    assert [step.at_s for step in left.steps] == sorted(step.at_s for step in left.steps)
    assert left.config.duration_s <= 6


def test_what_was_reached_stays_when_the_time_is_over() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    shrinker = Needs("lost-write", 8.0, lambda _: None, clock=clock)
    shrinker.needed = frozenset({"kill:one@n3", "kill:one@n17"})
    case = ShrinkCase(config(duration_s=60), twenty())
    left = shrinker.shrink(case)
    assert shrinker.needed <= {step.name for step in left.steps}
    assert len(left.steps) < 20
    told = shrinker.summary("run", case, left)
    assert not told.whole
    assert msgspec.json.decode(msgspec.json.encode(told), type=type(told)).steps == told.steps


@pytest.mark.sampled(48)
@pytest.mark.slow
def test_a_planted_bug_among_twenty_faults() -> None:
    """Whoever has most of a log leads, or so it claims: a kill or two are enough, and 20 are planned."""
    for seed in range(20):
        made = config(mutant="hw-is-leader-end", rate=8, duration_s=60, seed=seed)
        mixed = made.model_copy(update={"nemesis": "kill,pause", "fault_s": 2.0, "calm_s": 1.0})
        case = ShrinkCase(made, numbered(plan(mixed.nemesis, mixed, names(made))[:20]))
        if "lost-write" in findings(case):
            break
    assert len(case.steps) == 20
    shrinker = Shrinker("lost-write", 90.0, lambda _: None)
    left = shrinker.shrink(case)
    assert 1 <= len(left.steps) <= 3
    assert "lost-write" in findings(left)
    clean = without_mutant(left.config)
    assert findings(ShrinkCase(clean, left.steps)) == []


def names(made: RunConfig) -> WorkloadNames:
    return names_of(made)


@pytest.mark.parametrize("nemesis", ["kill,pause", "restart:rolling,kill", "partition,restart:graceful"])
def test_every_smaller_schedule_can_be_written_by_hand(nemesis: str) -> None:
    """`run --schedule` takes what the shrinker leaves: no fault of a family begins while another is in force,
    and each ends before the run does."""
    made = run_config({"seed": 3, "duration_s": 300, "nemesis": nemesis, "brokers": 5})
    steps = numbered(plan(nemesis, made, names(made)))
    needed = {steps[2].seed, steps[3].seed, steps[-1].seed}
    cases: list[ShrinkCase] = []

    def shows(case: ShrinkCase, _: str) -> bool:
        cases.append(case)
        return needed <= {step.seed for step in case.steps}

    left = Shrinker("lost-write", 60.0, lambda _: None, shows=shows, clock=lambda: 0.0).shrink(
        ShrinkCase(made, steps)
    )
    assert len(left.steps) == 3
    assert left.config.duration_s < made.duration_s / 2
    for case in cases:
        by_hand = case.config.model_copy(update={"nemesis": "schedule"})
        assert written(jsonl.encode(case.steps), by_hand, names(made)) == case.steps
