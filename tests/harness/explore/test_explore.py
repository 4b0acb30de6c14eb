"""Exploring: clean seeds are clean, outcomes are told right, whoever makes the runs."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice, product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from checkers.api import check_tables
from checkers.engine.check import Tally
from checkers.engine.findings import Kind
from core.config import RunConfig
from core.errors import ConfigError, ExitCode
from core.systems import SimulatedSection
from harness.cli.main import app
from harness.explore import exploration, profile
from harness.explore import trial as trials
from harness.explore.exploration import Made, SeedRun, explore, make, named
from harness.explore.profile import clean, drawn, hunted, hunting
from harness.explore.result import Exploration, MutantResult
from harness.explore.trial import Trial, trial
from history.evidence import Evidence
from model.eras import ERAS
from model.mutants.registry import MUTANTS
from nemesis.registry import FAMILIES
from tests.histories import stored
from workloads import registry
from workloads.registry import WORKLOADS, modelled

SEEDS = 60
SEEDS_OF_PAIRS = 5000
WAIT_S = 60.0


@pytest.mark.sampled(14)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_seed_without_planted_bugs_is_clean(seed: int) -> None:
    assert trial(clean(seed)).failures == []


@pytest.mark.sampled(5)
def test_a_candidate_that_misses_metadata_does_not_hold_up_topics() -> None:
    # It stood for election again and again: at the end two brokers had not heard of the new topics.
    assert trial(stored.config("candidate-without-metadata")).failures == []


def test_a_new_workload_takes_seeds_over_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [clean(seed) for seed in range(60)]
    reordered = dict(reversed(WORKLOADS.items()))
    monkeypatch.setattr(registry, "WORKLOADS", reordered)
    assert [clean(seed) for seed in range(60)] == before
    monkeypatch.setitem(reordered, "new", WORKLOADS["queue"])
    after = [clean(seed) for seed in range(60)]
    assert 1 <= sum(one.workload == "new" for one in after) <= 20
    assert [one for one in after if one.workload != "new"] == [
        old for old, new in zip(before, after, strict=True) if new.workload != "new"
    ]


@pytest.mark.sampled(5)
def test_a_new_nemesis_takes_seeds_over_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [clean(seed) for seed in range(120)]
    monkeypatch.setattr(profile, "NEMESES", ("kill:one@random", *reversed(profile.NEMESES)))
    after = [clean(seed) for seed in range(120)]
    assert 1 <= sum(one.nemesis == "kill:one@random" for one in after) <= 20
    assert [one for one in after if one.nemesis != "kill:one@random"] == [
        old for old, new in zip(before, after, strict=True) if new.nemesis != "kill:one@random"
    ]


def test_seeds_have_every_family_that_the_simulated_cluster_can_have() -> None:
    def can_have(family: str) -> bool:
        settings = {"workload": "transactions", "brokers": 4}
        with contextlib.suppress(ConfigError):
            return bool(profile._possible(settings, [family], 1))
        return False

    possible = {one.name for one in FAMILIES if can_have(one.name)}
    drawn_families = {name.partition(":")[0] for names in profile.NEMESES for name in names.split(",")}
    assert drawn_families - {"none", "random"} == possible
    assert {one.name for one in FAMILIES} - possible == {"disk", "quorum", "upgrade"}


@pytest.mark.sampled(5)
def test_a_seed_has_what_its_nemesis_needs_and_no_known_bug_that_it_makes_certain() -> None:
    made = [clean(seed) for seed in range(1200)]
    unclean = [one for one in made if one.nemesis == "unclean"]
    assert unclean
    assert all(one.unclean_leader_election for one in unclean)
    assert not any(one.unclean_leader_election for one in made if one.nemesis != "unclean")
    away = {one.workload for one in made if one.nemesis == "recreate-topics:away@leader"}
    assert {"queue", "transactions"} <= away
    assert not away & {"groups", "copier"}


@pytest.mark.sampled(26)
def test_seeds_have_every_pair_and_prefer_random_faults() -> None:
    pairs: Counter[tuple[str, str]] = Counter()
    for seed in range(SEEDS_OF_PAIRS):
        workload = drawn(seed, modelled())[0]
        pairs[workload, drawn(seed, profile.NEMESES, workload)[0]] += 1
    expected = SEEDS_OF_PAIRS / len(modelled()) / (len(profile.NEMESES) + 2)
    assert set(pairs) == set(product(modelled(), profile.NEMESES))
    random = sum(count for (_, nemesis), count in pairs.items() if nemesis == "random")
    assert 2.5 <= random / len(modelled()) / expected <= 3.5


@pytest.mark.sampled(10)
def test_some_share_groups_come_to_the_limit_of_deliveries() -> None:
    presets = {(one.workload == "share", one.preset) for one in map(clean, range(300))}
    assert {preset for share, preset in presets if share} == {"share", "share-limit"}
    assert "share-limit" not in {preset for share, preset in presets if not share}


@pytest.mark.sampled(10)
def test_some_share_groups_have_a_dead_letter_queue_where_brokers_have_such() -> None:
    runs = [clean(seed, "4.4") for seed in range(400)]
    shared = [one.dead_letters for one in runs if one.workload == "share"]
    assert 0.2 < sum(shared) / len(shared) < 0.5
    assert not any(one.dead_letters for one in runs if one.workload != "share")
    assert not any(clean(one.seed, "4.3").dead_letters for one in runs if one.dead_letters)


@pytest.mark.sampled(10)
def test_a_seed_is_always_the_same_run() -> None:
    assert clean(11) == clean(11)
    assert trial(clean(11)) == trial(clean(11))
    assert clean(11, "4.0").short()["era"] == "4.0"


def test_a_mutant_keeps_the_era_that_it_needs() -> None:
    assert hunting("verification-skipped", 0, era="3.6").short()["era"] == "4.2-tv1"
    assert hunting("keep-tail", 0, era="3.6").short()["era"] == "3.6"


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


# ---- runs and their order


def shows_at(finds: dict[str, int]) -> Callable[[SeedRun], Trial]:
    """Runs of which the one with this number shows the mutant, and each later one too."""

    def made(attempt: SeedRun) -> Trial:
        shows = "duplicate" if attempt.number >= finds.get(attempt.mutant, 10**6) else ""
        return Trial(seed=attempt.number, config={}, shows=shows, simulated_s=1)

    return made


@pytest.mark.parametrize("number", [0, 1, 7, 40, 99])
@pytest.mark.parametrize("late", [1, 2, 5])
def test_the_first_run_that_shows_a_mutant_counts(number: int, late: int) -> None:
    """late: runs that are under way at a time; the newest of them ends first."""
    work, made = shows_at({"keep-tail": number}), Made(100, ["keep-tail", "votes-twice"])
    left, given = made.left(), 0
    while some := list(islice(left, late)):
        for attempt in reversed(some):
            made.take(attempt, work(attempt))
        given += len(some)
    found = made.result()
    assert len(found.clean) == 100
    assert 100 + number + 1 + 100 <= given <= 100 + number + 1 + 100 + late
    assert len(found.mutants["keep-tail"].trials) == number + 1
    assert found.mutants["keep-tail"].simulated_s == number + 1
    assert found.mutants["keep-tail"].anomaly == "duplicate"
    assert (found.mutants["votes-twice"].anomaly, len(found.mutants["votes-twice"].trials)) == ("", 100)
    told = found.as_json()["mutants"]
    assert told["keep-tail"]["seeds_to_detection"] == number + 1
    assert told["votes-twice"]["seeds_to_detection"] is None


def test_every_seed_runs_once_and_the_result_has_them_in_order() -> None:
    made = Made(37, [])
    given = list(made.left())
    assert given == [("", number) for number in range(37)]
    for attempt in reversed(given):
        made.take(attempt, Trial(seed=attempt.number, config={}))
    assert [one.seed for one in made.result().clean] == list(range(37))


def finds(*seeds: int, mutant: bool) -> Callable[..., Trial]:
    """In place of `trial`: these seeds show a duplicate; mutant: only with a planted bug."""

    def made(config: RunConfig, **asked: bool) -> Trial:
        shows = config.seed in seeds and (not mutant or bool(config.short()["mutant"]))
        bad = {"duplicate": 1} if shows else {}
        return Trial(seed=config.seed, config={}, anomalies=bad, simulated_s=2)

    return made


def hunted_until(mutant: str, seeds: int) -> list[Trial]:
    """The runs of a mutant."""
    return explore(seeds=seeds, mutants=mutant, processes=1, say=lambda _: None).mutants[mutant].trials


def test_the_runs_of_a_mutant_end_with_the_one_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "trial", finds(3, mutant=False))
    done = explore(seeds=4, first=1, processes=1, say=lambda _: None).clean
    assert [bool(one.failures) for one in done] == [False, False, True, False]
    monkeypatch.setattr(exploration, "trial", finds(3, mutant=True))
    assert [one.shows for one in hunted_until("repeats-not-recognised", 9)] == ["", "", "", "duplicate"]
    assert [one.shows for one in hunted_until("commit-writes-abort", 9)] == [""] * 9


def test_what_a_run_shows_without_the_planted_bug_too_is_no_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "trial", finds(2, mutant=False))
    assert [one.shows for one in hunted_until("repeats-not-recognised", 4)] == [""] * 4


@pytest.mark.parametrize(
    "twin",
    [
        Trial(seed=2, config={}, crashed="x"),
        Trial(seed=2, config={}, unknown=("x",)),
        Trial(seed=2, config={}, harness="x"),
    ],
)
def test_a_find_whose_twin_says_nothing_is_none(twin: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(config: RunConfig, **asked: bool) -> Trial:
        return finds(2, mutant=True)(config) if config.short()["mutant"] else twin

    monkeypatch.setattr(exploration, "trial", made)
    assert [one.shows for one in hunted_until("repeats-not-recognised", 4)] == [""] * 4


def shows_of(
    monkeypatch: pytest.MonkeyPatch, planted: list[str], twin: list[str], explained: list[str]
) -> str:
    """What one run of a planted bug shows. explained: classes that a look for known weaknesses explains."""

    def made(config: RunConfig, *, invariants: bool = True) -> Trial:
        found = set(planted if config.short()["mutant"] else twin) - set(explained if invariants else [])
        return Trial(seed=config.seed, config={}, anomalies=dict.fromkeys(found, 1))

    monkeypatch.setattr(exploration, "trial", made)
    return exploration.hunt_once("producer-id-reused", 0).shows


@pytest.mark.parametrize(
    ("planted", "twin", "explained", "shows"),
    [
        (["lost-write", "duplicate"], [], [], "lost-write"),
        (["lost-write", "duplicate"], ["lost-write"], [], "duplicate"),
        (["lost-write", "duplicate"], ["lost-write", "duplicate"], [], ""),
        (["lost-write", "duplicate"], [], ["lost-write"], "duplicate"),
        (["lost-write"], [], ["lost-write"], ""),
    ],
)
def test_what_shows_a_planted_bug_is_in_its_run_alone_and_comes_from_no_known_weakness(
    planted: list[str], twin: list[str], explained: list[str], shows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MUTANTS["producer-id-reused"].anomalies[:2] == ("lost-write", "duplicate")
    assert shows_of(monkeypatch, planted, twin, explained) == shows


def test_all_names_the_mutants_that_no_run_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "trial", finds(mutant=True))
    outcome = explore(seeds=1, mutants="all", processes=1, say=lambda _: None)
    assert set(outcome.mutants) == set(MUTANTS)
    unseen = [name for name, one in outcome.mutants.items() if not one.hunted]
    assert unseen == [name for name in MUTANTS if name not in hunted()]
    assert outcome.as_json()["mutants"][unseen[0]]["found"] is False


OLD = [era for era in ERAS if ERAS[era].zookeeper]


@pytest.mark.parametrize("era", ERAS)
def test_an_era_is_refused_what_no_run_of_it_shows_before_any_run(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clusters on ZooKeeper have no reassignment."""
    made: list[RunConfig] = []

    def noted(config: RunConfig, **_: bool) -> Trial:
        made.append(config)
        return Trial(seed=config.seed, config={})

    monkeypatch.setattr(exploration, "trial", noted)
    name = "removed-stays-eligible"
    if era in OLD:
        with pytest.raises(ConfigError, match=f"mutant {name}: era {era} has no run .*needs Reassignable"):
            explore(seeds=1, mutants=name, era=era, processes=1, say=lambda _: None)
        assert (name in named("all", era)) is False
        assert made == []
    else:
        assert name in named("all", era)
        assert len(hunted_until(name, 1)) == 1


@pytest.mark.sampled(5)
def test_all_leaves_out_what_no_run_of_the_era_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "trial", finds(mutant=True))
    outcome = explore(seeds=1, mutants="all", era=OLD[0], processes=1, say=lambda _: None)
    assert outcome.undone == []
    unseen = {name for name, one in outcome.mutants.items() if not one.hunted}
    of_quorums = {"removed-stays-eligible", "deleted-topic-keeps-logs", "deleted-topic-keeps-offsets"}
    assert unseen == {*MUTANTS} - {*hunted()} | of_quorums


def test_a_run_whose_settings_cannot_be_made_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(seed: int, era: str) -> RunConfig:
        raise ValueError("no such seed")

    monkeypatch.setattr(exploration, "clean", refuses)
    outcome = explore(seeds=2, first=5, processes=1, say=lambda _: None)
    assert [(one.seed, one.config) for one in outcome.clean] == [(5, {}), (6, {})]
    assert all("no such seed" in one.harness for one in outcome.clean)


# ---- telling


def test_the_exit_code_says_whether_all_is_as_it_should_be() -> None:
    fine, failed = Trial(seed=1, config={}), Trial(seed=1, config={}, anomalies={"lost-write": 1})
    shows = Trial(seed=1, config={}, shows="lost-write")
    assert Exploration(clean=[fine], mutants={"x": MutantResult(trials=[shows])}).code == 0
    assert Exploration(clean=[fine], mutants={"x": MutantResult()}).code == 1
    assert Exploration(clean=[fine], mutants={"x": MutantResult(hunted=False)}).code == 0
    assert Exploration(clean=[fine, failed], mutants={}).code == 1


def test_a_known_weakness_is_counted_and_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    met = Trial(seed=3, config={}, weak={"KAFKA-20734": 2}, explained={"lost-write": 1})
    outcome = Exploration(clean=[Trial(seed=2, config={}), met], mutants={})
    assert outcome.code == 0
    known = outcome.as_json()["clean"]["known"]
    assert known == {"KAFKA-20734": [{"seed": 3, "config": {}, "explained": {"lost-write": 1}}]}
    outcome.show()
    assert "known weakness KAFKA-20734: in 1 seeds: 3" in capsys.readouterr().out


@pytest.mark.sampled(48)
@pytest.mark.slow
def test_json_of_the_command() -> None:
    mutants = "commit-writes-abort,abort-answers-commit"
    result = CliRunner().invoke(
        app, ["model", "explore", "--seeds", "2", "--processes", "1", "--json", "--mutants", mutants]
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert not told["interrupted"]
    assert told["clean"] == {"seeds": 2, "failures": [], "known": {}}
    assert list(told["mutants"]) == mutants.split(",")
    one = told["mutants"]["abort-answers-commit"]
    assert (one["found"], one["class"], one["seeds_to_detection"]) == (True, "aborted-read", 1)
    assert one["simulated_s"] > 10
    assert one["run"]["config"]["simulated"]["mutant"] == "abort-answers-commit"


def test_json_of_what_is_not_as_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(config: object, **asked: bool) -> Trial:
        return Trial(seed=7, config={"seed": 7}, unknown=("nothing was sent or read",))

    monkeypatch.setattr(exploration, "trial", fails)
    options = ["--seeds", "1", "--first", "7", "--processes", "1", "--json", "--mutants", "keep-tail"]
    result = CliRunner().invoke(app, ["model", "explore", *options])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    why = "unknown: nothing was sent or read"
    assert told["clean"] == {
        "seeds": 1, "failures": [{"seed": 7, "why": why, "config": {"seed": 7}}], "known": {},
    }  # fmt: skip
    one = told["mutants"]["keep-tail"]
    assert (one["found"], one["class"], one["seeds_to_detection"]) == (False, None, None)


def test_the_table_names_who_was_found_and_who_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def finds(config: RunConfig, **asked: bool) -> Trial:
        planted = config.section(SimulatedSection).mutant
        bad = {"duplicate": 1} if planted == "bump-in-flight" else {}
        return Trial(seed=0, config={}, anomalies=bad, simulated_s=10)

    monkeypatch.setattr(exploration, "trial", finds)
    options = ["--seeds", "2", "--processes", "1", "--mutants", "bump-in-flight,keep-tail"]
    result = CliRunner().invoke(app, ["model", "explore", *options])
    assert result.exit_code == 1
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["bump-in-flight", "client", "retries", "duplicate", "1", "10", "10.00"] in lines
    assert ["keep-tail", "truncation", "not", "found", "2", "20"] in lines
    assert "1 of 2 mutants found (50 %)" in result.stdout
    assert "2 seeds without planted bugs (20 simulated seconds): all clean" in result.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--mutants", "nope"],
            "unknown mutant 'nope'; did you mean 'none'? all of them: inquest list mutants",
        ),
        (["--mutants", "generation-not-bumped"], "mutant generation-not-bumped shows in no run"),
        (["--era", "nope"], "unknown era 'nope'; known: 0.10"),
        (["--seeds", "0"], "seeds must be at least 1"),
    ],
)
def test_wrong_wishes_are_usage_errors(options: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["model", "explore", "--processes", "1", *options])
    assert isinstance(result.exception, ConfigError)  # `harness.cli.main` makes it exit code 64
    assert told in str(result.exception)


def interrupted_at(seed: int) -> Callable[..., Trial]:
    """In place of `trial`: Ctrl-C comes with this seed. Earlier odd ones show a duplicate."""

    def made(config: RunConfig, **asked: bool) -> Trial:
        if config.seed == seed:
            raise KeyboardInterrupt
        return finds(*range(1, seed, 2), mutant=False)(config)

    return made


def test_ctrl_c_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "trial", interrupted_at(5))
    options = ["model", "explore", "--seeds", "9", "--processes", "1", "--mutants", "keep-tail"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "5 seeds without planted bugs (10 simulated seconds): 2 failed" in result.stdout
    assert "  seed 3: duplicate (1)" in result.stdout
    assert "interrupted: 5 of 9 seeds without planted bugs were run" in result.stdout
    assert "no run yet" in result.stdout
    told = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert told["interrupted"]
    assert [one["seed"] for one in told["clean"]["failures"]] == [1, 3]


def test_ctrl_c_in_a_hunt_keeps_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(config: RunConfig, **asked: bool) -> Trial:
        if config.seed == 4 and config.short()["mutant"] == "votes-twice":
            raise KeyboardInterrupt
        return finds(2, mutant=True)(config)

    mutants = "repeats-not-recognised,votes-twice"
    monkeypatch.setattr(exploration, "trial", made)
    found = explore(seeds=5, first=2, mutants=mutants, processes=1, say=lambda _: None)
    assert (found.code, len(found.clean)) == (ExitCode.INTERRUPTED, 5)
    assert found.mutants["repeats-not-recognised"].anomaly == "duplicate"
    assert len(found.mutants["votes-twice"].trials) == 2
    monkeypatch.setattr(exploration, "trial", finds(2, mutant=True))
    whole = explore(seeds=5, first=2, mutants=mutants, processes=1, say=lambda _: None)
    assert (whole.interrupted, whole.code) == (False, ExitCode.ANOMALY)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_processes_and_prints_what_was_found(number: signal.Signals) -> None:
    """Also one that reaches all of them, as Ctrl-C does."""
    command = [
        sys.executable,
        "-m",
        "harness.cli.main",
        "model",
        "explore",
        "--processes",
        "2",
        "--seeds",
        "100000",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as started:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        deadline = time.monotonic() + WAIT_S
        while len(made := children.read_text().split()) < 2:
            assert time.monotonic() < deadline, "no processes"
            assert started.poll() is None
            time.sleep(0.05)
        os.killpg(started.pid, number)
        told, _ = started.communicate(timeout=WAIT_S)
        assert started.returncode == ExitCode.INTERRUPTED
    assert re.search(r"interrupted: \d+ of 100000 seeds", told)
    assert not [pid for pid in made if Path(f"/proc/{pid}").exists()]


def test_names_of_mutants() -> None:
    assert named("none") == []
    assert named("all") == hunted()
    assert named("keep-tail, truncate-to-hw,keep-tail") == ["keep-tail", "truncate-to-hw"]
    with pytest.raises(ConfigError):
        named("keep-tail,")


@pytest.mark.sampled(11)
@pytest.mark.slow
def test_processes_make_the_same_runs() -> None:
    mutants = "repeats-not-recognised,abort-answers-commit"
    here = explore(seeds=2, mutants=mutants, processes=1, say=lambda _: None)
    there = explore(seeds=2, mutants=mutants, processes=3, say=lambda _: None)
    assert json.dumps(there.as_json()) == json.dumps(here.as_json())
    assert len(here.clean) == 2


def one_fails(seed: int, how: Callable[[], None]) -> Callable[..., Trial]:
    """In place of `trial`: the harness fails at this seed."""

    def made(config: RunConfig, **asked: bool) -> Trial:
        if config.seed == seed:
            how()
        return finds(2, mutant=True)(config)

    return made


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raising() -> None:
    raise MemoryError("no room")


@pytest.mark.parametrize(("how", "why"), [(killed, "signal SIGKILL"), (raising, "MemoryError: no room")])
def test_a_failure_of_the_harness_is_no_pass_and_no_finding(
    how: Callable[[], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploration, "trial", one_fails(5, how))
    options = ["model", "explore", "--seeds", "9", "--processes", "2"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == ExitCode.HARNESS
    assert "9 seeds without planted bugs (16 simulated seconds): 1 failed" in result.stdout
    assert "  seed 5: a failure of the harness: " in result.stdout
    assert why in result.stdout
    told = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert [(one["mutant"], one["seed"]) for one in told["harness"]] == [("", 5)]
    assert [one["seed"] for one in told["clean"]["failures"]] == [5]


@pytest.mark.spark
@pytest.mark.sampled(48)
def test_spark_makes_the_same_runs() -> None:
    mutants = "repeats-not-recognised,abort-answers-commit"
    here = explore(seeds=2, mutants=mutants, processes=1, say=lambda _: None)
    there = explore(seeds=2, mutants=mutants, master="local[2]", say=lambda _: None)
    assert there.as_json() == here.as_json()
    assert len(here.clean) == 2


@pytest.mark.sampled(16)
def test_the_rules_about_logs_are_asked_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*of: Any, evidence: Evidence | None, **more: Any) -> Tally:
        tally = check_tables(*of, evidence=evidence, **more)
        if evidence is not None:
            assert tally.asked["replicas-equal"]
            tally.counts[Kind("replica-divergence", check="replicas-equal")] = 2
            tally.crashed["log-matching"] = "why"
        return tally

    monkeypatch.setattr("harness.explore.trial.check_tables", refusing)
    asked = make(SeedRun("", 1), logs=True)
    assert asked.refused == {"replicas-equal": 2}
    assert asked.failures == [
        "brokers' logs: replicas-equal (2)",
        "a failure of the harness: the check of log-matching crashed: why",
    ]
    silent = make(SeedRun("", 1))
    assert (silent.refused, silent.failures) == ({}, [])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("more", "code"), [({}, ExitCode.HARNESS), ({"anomalies": {"lost-write": 1}}, ExitCode.ANOMALY)]
)
def test_a_check_that_crashes_is_a_failure_of_the_harness_and_hides_no_anomaly(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], code: ExitCode
) -> None:
    def crashing(*of: Any, **more: Any) -> Tally:
        tally = check_tables(*of, **more)
        tally.crashed["recovery"] = "why"
        return tally

    monkeypatch.setattr("harness.explore.trial.check_tables", crashing)
    one = make(SeedRun("", 1))
    assert (one.unknown, one.harness) == ((), "the check of recovery crashed: why")
    assert Exploration(clean=[msgspec.structs.replace(one, **more)], mutants={}).code == code
