"""Exploring: clean seeds are clean, outcomes are told right, whoever makes the runs."""

import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from typer.testing import CliRunner

import harness.exploring.tasks as tasks
import harness.exploring.trial as trials
from harness.cli import app
from harness.config import ConfigError, RunConfig
from harness.explore import Wish, explore, named
from harness.exploring.hunt import Hunt
from harness.exploring.outcome import Clean, Found, Outcome, Run
from harness.exploring.profile import clean, hunted, hunting
from harness.exploring.tasks import Batch, Done, in_process, run
from harness.exploring.trial import Trial, trial
from model.mutants import MUTANTS
from workloads import WORKLOADS

SEEDS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_seed_without_planted_bugs_is_clean(seed: int) -> None:
    assert trial(clean(seed)).failures == []


def test_a_candidate_that_nobody_may_elect_holds_no_topic_up() -> None:
    # It misses metadata and stood again and again: two brokers had not heard of new topics when all was over.
    assert trial(clean(6863)).failures == []


def test_seeds_are_spread_over_what_there_is() -> None:
    configs = [clean(seed) for seed in range(300)]
    assert {one.workload for one in configs} == set(WORKLOADS)
    pairs = Counter((one.workload, one.nemesis) for one in configs)
    assert len(pairs) > 120
    assert len({one.nemesis for one in configs}) > 20
    assert {one.brokers for one in configs} == {3, 5}
    assert {one.controllers for one in configs} == {0, 3}
    assert {one.preset for one in configs} == {"safe", "safe-legacy", "exactly-once"}


def test_a_seed_is_always_the_same_run() -> None:
    assert clean(11) == clean(11)
    assert trial(clean(11)) == trial(clean(11))
    assert clean(11, "4.0").era == "4.0"


def test_a_mutant_keeps_the_era_that_it_needs() -> None:
    assert hunting("verification-skipped", 0, era="3.6").era == "4.2-tv1"
    assert hunting("keep-tail", 0, era="3.6").era == "3.6"


# ---- what fails a run


def test_a_run_that_breaks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("no legal transition")

    monkeypatch.setattr(trials, "simulate", broken)
    (why,) = trial(clean(0)).failures
    assert why.startswith("crashed: ")
    assert "no legal transition" in why


def test_everything_that_is_wrong_fails_a_run() -> None:
    one = Trial(
        seed=1, config={}, anomalies={"lost-write": 2}, unknown=("x",), broken=("markers",),
        unfinished=("q-0 has no leader",), crashed="c",
    )  # fmt: skip
    assert one.failures == [
        "lost-write (2)", "unknown: x", "broken: markers", "unfinished: q-0 has no leader", "crashed: c",
    ]  # fmt: skip
    assert Trial(seed=1, config={}).failures == []


# ---- rounds


def fake(finds: dict[str, int]) -> tuple[list[Batch], tasks.Runner]:
    """A runner that finds each mutant with the run of this number; what it was given."""
    given: list[Batch] = []

    def runner(batches: Sequence[Batch]) -> list[Done]:
        given.extend(batches)
        return [done(batch) for batch in batches]

    def done(batch: Batch) -> Done:
        number = finds.get(batch.mutant, -1)
        if batch.begin <= number < batch.begin + batch.count:
            runs = number - batch.begin + 1
            last = Trial(seed=number, config={"seed": number}, anomalies={"duplicate": 1})
            return Done(batch=batch, trials=(last,), runs=runs, simulated_s=runs, found="duplicate")
        return Done(batch=batch, runs=batch.count, simulated_s=batch.count)

    return given, runner


def hunt(runner: tasks.Runner, seeds: int, width: int, *mutants: str) -> Outcome:
    return Hunt(
        seeds=seeds, first=0, mutants=mutants, era="4.2", runner=runner, width=width,
        say=lambda _: None,
    ).explore()  # fmt: skip


@pytest.mark.parametrize("width", [1, 3, 100])
@pytest.mark.parametrize("number", [0, 1, 7, 40, 99])
def test_a_find_does_not_depend_on_how_many_runs_are_made_at_a_time(
    number: int, width: int
) -> None:
    _, runner = fake({"keep-tail": number})
    found = hunt(runner, 100, width, "keep-tail", "votes-twice").mutants
    assert found["keep-tail"].seeds_to_detection == number + 1
    assert found["keep-tail"].simulated_s == number + 1
    assert found["keep-tail"].anomaly == "duplicate"
    assert (found["votes-twice"].found, found["votes-twice"].seeds) == (False, 100)
    assert found["votes-twice"].seeds_to_detection is None


def test_who_is_found_is_not_looked_for_again() -> None:
    given, runner = fake({"keep-tail": 1})
    hunt(runner, 100, 8, "keep-tail")
    assert {batch.begin for batch in given if batch.mutant} == {0}


def test_every_seed_is_run_once() -> None:
    given, runner = fake({})
    outcome = hunt(runner, 37, 2)
    seeds = [b.begin + n for b in given for n in range(b.count)]
    assert sorted(seeds) == list(range(37))
    assert outcome.clean.seeds == 37


def finds(*seeds: int, mutant: bool) -> Callable[..., Trial]:
    """In place of `trial`: these seeds show a duplicate; mutant: only with a planted bug."""

    def made(config: RunConfig, *, invariants: bool = True) -> Trial:
        shows = config.seed in seeds and (not mutant or bool(config.mutant))
        bad = {"duplicate": 1} if shows else {}
        return Trial(seed=config.seed, config={}, anomalies=bad, simulated_s=2)

    return made


def test_a_batch_keeps_what_tells_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "trial", finds(3, mutant=False))
    done = run(Batch(begin=1, count=4, era="4.2"))
    assert ([one.seed for one in done.trials], done.runs, done.simulated_s) == ([3], 4, 8)
    monkeypatch.setattr(tasks, "trial", finds(3, mutant=True))
    done = run(Batch(mutant="repeats-not-recognised", begin=0, count=9, era="4.2"))
    assert (done.found, done.runs, done.simulated_s) == ("duplicate", 4, 8)
    done = run(Batch(mutant="commit-writes-abort", begin=0, count=9, era="4.2"))
    assert (done.found, done.runs, done.trials) == ("", 9, ())


def test_what_a_run_shows_without_the_planted_bug_too_is_no_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "trial", finds(2, mutant=False))
    done = run(Batch(mutant="repeats-not-recognised", begin=0, count=4, era="4.2"))
    assert (done.found, done.runs) == ("", 4)


@pytest.mark.parametrize(
    "twin", [Trial(seed=2, config={}, crashed="x"), Trial(seed=2, config={}, unknown=("x",))]
)
def test_a_find_whose_twin_says_nothing_is_none(
    twin: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(config: RunConfig, *, invariants: bool = True) -> Trial:
        return finds(2, mutant=True)(config) if config.mutant else twin

    monkeypatch.setattr(tasks, "trial", made)
    done = run(Batch(mutant="repeats-not-recognised", begin=0, count=4, era="4.2"))
    assert (done.found, done.runs) == ("", 4)


def test_all_names_the_mutants_that_no_run_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "trial", finds(mutant=True))
    outcome = explore(Wish(seeds=1, mutants="all", without_spark=True), say=lambda _: None)
    assert set(outcome.mutants) == set(MUTANTS)
    unseen = [name for name, one in outcome.mutants.items() if not one.hunted]
    assert unseen == [name for name in MUTANTS if name not in hunted()]
    assert outcome.as_json()["mutants"][unseen[0]]["found"] is False


# ---- telling


def test_the_exit_code_says_whether_all_is_as_it_should_be() -> None:
    failed = Run(seed=1, why="lost-write (1)", config={})
    assert Outcome(clean=Clean(seeds=3), mutants={"x": Found(found=True)}).code == 0
    assert Outcome(clean=Clean(seeds=3), mutants={"x": Found()}).code == 1
    assert Outcome(clean=Clean(seeds=3), mutants={"x": Found(hunted=False)}).code == 0
    assert Outcome(clean=Clean(seeds=3, failures=[failed]), mutants={}).code == 1


def test_json_of_the_command() -> None:
    mutants = "commit-writes-abort,abort-answers-commit"
    result = CliRunner().invoke(
        app, ["explore", "--seeds", "2", "--without-spark", "--json", "--mutants", mutants]
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["clean"] == {"seeds": 2, "failures": []}
    assert list(told["mutants"]) == mutants.split(",")
    one = told["mutants"]["abort-answers-commit"]
    assert (one["found"], one["class"], one["seeds_to_detection"]) == (True, "aborted-read", 1)
    assert one["simulated_s"] > 10
    assert one["run"]["config"]["mutant"] == "abort-answers-commit"


def test_json_of_what_is_not_as_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(config: object, *, invariants: bool = True) -> Trial:
        return Trial(seed=7, config={"seed": 7}, unknown=("nothing was sent or read",))

    monkeypatch.setattr(tasks, "trial", fails)
    options = [
        "--seeds",
        "1",
        "--first",
        "7",
        "--without-spark",
        "--json",
        "--mutants",
        "keep-tail",
    ]
    result = CliRunner().invoke(app, ["explore", *options])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    why = "unknown: nothing was sent or read"
    assert told["clean"] == {
        "seeds": 1, "failures": [{"seed": 7, "why": why, "config": {"seed": 7}}],
    }  # fmt: skip
    one = told["mutants"]["keep-tail"]
    assert (one["found"], one["class"], one["seeds_to_detection"]) == (False, None, None)


def test_the_table_names_who_was_found_and_who_was_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def finds(config: object, *, invariants: bool = True) -> Trial:
        bad = {"duplicate": 1} if getattr(config, "mutant", "") == "bump-in-flight" else {}
        return Trial(seed=0, config={}, anomalies=bad, simulated_s=10)

    monkeypatch.setattr(tasks, "trial", finds)
    options = ["--seeds", "2", "--without-spark", "--mutants", "bump-in-flight,keep-tail"]
    result = CliRunner().invoke(app, ["explore", *options])
    assert result.exit_code == 1
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["bump-in-flight", "client", "retries", "duplicate", "1", "10", "10.00"] in lines
    assert ["keep-tail", "truncation", "not", "found", "2", "20"] in lines
    assert "1 of 2 mutants found (50 %)" in result.stdout
    assert "2 seeds without planted bugs (20 simulated seconds): all clean" in result.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--mutants", "nope"], "unknown mutant 'nope'; known: all, none, ack-before-replication"),
        (["--mutants", "generation-not-bumped"], "mutant generation-not-bumped shows in no run"),
        (["--era", "nope"], "unknown era 'nope'; known: 0.10"),
        (["--seeds", "0"], "seeds must be at least 1"),
    ],
)
def test_wrong_wishes_are_usage_errors(options: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["explore", "--without-spark", *options])
    assert result.exit_code == 64
    assert told in result.stderr


def test_ctrl_c_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "trial", interrupted)
    result = CliRunner().invoke(app, ["explore", "--seeds", "1", "--without-spark"])
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("inquest: interrupted")


def test_names_of_mutants() -> None:
    assert named("none") == []
    assert named("all") == hunted()
    assert named("keep-tail, truncate-to-hw,keep-tail") == ["keep-tail", "truncate-to-hw"]
    with pytest.raises(ConfigError):
        named("keep-tail,")


@pytest.mark.spark
def test_spark_makes_the_same_runs() -> None:
    mutants = "repeats-not-recognised,abort-answers-commit"
    here = explore(Wish(seeds=2, mutants=mutants, without_spark=True), say=lambda _: None)
    there = explore(Wish(seeds=2, mutants=mutants, master="local[2]"), say=lambda _: None)
    assert there.as_json() == here.as_json()
    assert here.clean.seeds == 2


def test_batches_in_this_process_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "trial", lambda config: Trial(seed=config.seed, config={}))
    batches = [Batch(begin=n, count=1, era="4.2") for n in (5, 1, 3)]
    assert [done.batch.begin for done in in_process(batches)] == [5, 1, 3]
