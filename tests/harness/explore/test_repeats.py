"""Repeats on real brokers: how many are made, which folders stay, what a failure or an interrupt leaves."""

import os
from pathlib import Path

import msgspec
import pytest

from core.config import RunConfig, run_config
from core.errors import ClusterError
from core.systems import KafkaSection
from harness.compose import create_folder, plan, point_latest
from harness.explore import repeats
from harness.explore.repeats import Repeats, same_finding
from harness.explore.shrink import ShrinkCase, Shrinker, numbered
from harness.run.planning import names_of
from history.run_folder import Run
from history.verdict import Verdict
from nemesis.types import PlannedFault
from nemesis.written import written
from tests.harness.explore.made_repeats import INTERRUPTED, UNKNOWN, Answer, MadeRuns, shown

LOST = "lost-write"
DOWN = ClusterError("no broker answered")


def config(**settings: object) -> RunConfig:
    return run_config({"seed": 1, "duration_s": 60, "nemesis": "schedule", **settings})


def faults(made: RunConfig, count: int) -> tuple[PlannedFault, ...]:
    lines = [f'{{"name": "kill:one@leader", "at_s": {2 + 4 * n}, "hold_s": 1}}' for n in range(count)]
    return written("\n".join(lines).encode(), made, names_of(made))


def two() -> ShrinkCase:
    return ShrinkCase(config(), faults(config(), 2))


@pytest.fixture
def repeat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> "Repeated":
    return Repeated(monkeypatch, tmp_path / "results")


class Repeated:
    """Makes `Repeats` whose runs are made up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
        self.results = results
        self.lines: list[str] = []
        self.made = MadeRuns([])
        monkeypatch.setattr(repeats, "record", lambda *args, **given: self.made.record(*args, **given))

    def __call__(self, *answers: Answer, runs: int = 3, needed: int = 1) -> Repeats:
        self.made.answers = list(answers)
        return Repeats(LOST, runs, needed, self.results, judge=self.made.judge, say=self.lines.append)

    @property
    def folders(self) -> list[Path]:
        return sorted(self.results.glob("2*"))


@pytest.mark.parametrize(
    ("needed", "answers", "fails", "left"),
    [
        (1, ["", LOST, LOST], True, 1),
        (1, ["", "", ""], False, 0),
        (1, ["", "dirty-read", ""], False, 0),
        (2, ["", "", LOST], False, 1),
        (2, [LOST, "", LOST], True, 0),
        (3, [LOST, LOST, LOST], True, 0),
        (3, ["", LOST, LOST], False, 2),
    ],
)
def test_a_case_fails_where_enough_of_its_repeats_show_the_class(
    needed: int, answers: list[str], fails: bool, left: int, repeat: Repeated
) -> None:
    repeated = repeat(*answers, needed=needed)
    assert repeated.fails(two(), LOST) is fails
    assert len(repeat.made.answers) == left
    assert repeat.folders == ([repeated.kept.folder] if repeated.kept else [])
    assert (repeated.kept is not None) is fails
    made = len(answers) - left
    assert repeated.rate == ((answers[:made].count(LOST), made) if fails else (0, 0))


def test_the_run_that_stays_is_one_of_the_newest_case_that_fails(repeat: Repeated) -> None:
    repeated = repeat(LOST, LOST, "", LOST, "", "", "", needed=2)
    case = two()
    assert repeated.fails(case, LOST)
    first = repeated.kept
    assert not repeated.fails(ShrinkCase(case.config, case.steps[:1]), LOST), "one of three"
    assert repeated.kept is first
    assert repeat.folders == [first.folder] if first else False
    repeat.made.answers = ["", LOST, ""]
    repeated.measure(case)
    assert repeated.rate == (1, 3)
    assert repeated.kept is not None
    assert repeated.kept is not first
    assert repeat.folders == [repeated.kept.folder]


def test_latest_leads_where_it_led(repeat: Repeated) -> None:
    original = create_folder(config(), repeat.results)
    assert point_latest(original) == ""
    assert repeat("", LOST, "").fails(two(), LOST)
    assert os.readlink(repeat.results / "latest") == original.name
    assert not repeat("", "", "").fails(two(), LOST)
    assert Run(repeat.results / "latest").name == original.name


def test_a_repeat_whose_cluster_failed_is_unknown(repeat: Repeated) -> None:
    repeated = repeat(DOWN, UNKNOWN, LOST)
    assert repeated.fails(two(), LOST)
    assert (repeated.unknown, repeated.rate) == (2, (1, 3))
    assert repeat.lines == ["a repeat failed and counts as unknown: no broker answered"]


@pytest.mark.parametrize(
    ("needed", "answers", "fails"),
    [
        (1, ["", UNKNOWN, ""], None),
        (1, ["", "", ""], False),
        (2, [UNKNOWN, "", LOST], None),
        (2, [DOWN, "", ""], None),
        (2, ["", UNKNOWN], None),
        (3, [UNKNOWN], None),
        (3, [""], False),
        (2, [LOST, UNKNOWN, LOST], True),
    ],
)
def test_unknown_repeats_leave_a_case_undecided_where_they_could_have_made_enough(
    needed: int, answers: list[Answer], fails: bool | None, repeat: Repeated
) -> None:
    assert repeat(*answers, needed=needed).fails(two(), LOST) is fails


def test_a_smaller_run_that_is_undecided_is_tried_again_and_counted_until_it_is_known() -> None:
    case, answers = two(), [None, False, None]
    shrinker = Shrinker(LOST, 60.0, lambda _: None, shows=lambda *_: answers.pop(0), clock=lambda: 0.0)
    assert not shrinker.fails(case)
    told = shrinker.summary("run", case, case)
    assert (told.undecided, told.whole) == (1, True)
    assert "; 1 smaller run is undecided" in told.text
    assert not shrinker.fails(case)
    assert shrinker.summary("run", case, case).undecided == 0
    assert not shrinker.fails(case), "it is known"
    assert answers == [None]


def test_a_repeat_that_cannot_be_judged_is_removed(repeat: Repeated) -> None:
    def fails(_: Run) -> Verdict:
        raise OSError(28, "No space left on device")

    repeated = repeat(LOST)
    repeated.judge = fails
    with pytest.raises(OSError, match="No space"):
        repeated.fails(two(), LOST)
    assert repeat.folders == []


@pytest.mark.parametrize(
    ("original", "now", "same"),
    [
        ("", "", True),
        ("", "KAFKA-17754", False),
        ("KAFKA-17754", "KAFKA-17754", True),
        ("KAFKA-17754, KAFKA-9144", "KAFKA-9144", True),
        ("KAFKA-17754", "KAFKA-9144", False),
        ("KAFKA-17754", "", False),
    ],
)
def test_a_known_bug_is_not_the_open_finding_of_its_class(original: str, now: str, same: bool) -> None:
    verdict = shown(LOST)
    labelled = msgspec.structs.replace(verdict.anomalies[LOST], known_bug=now)
    verdict = msgspec.structs.replace(verdict, anomalies={LOST: labelled})
    assert same_finding(verdict, LOST, original) is same
    assert not same_finding(verdict, "duplicate", "")


def test_clusters_that_fail_in_a_row_end_the_repeats(repeat: Repeated) -> None:
    repeated = repeat(DOWN, DOWN, "", DOWN, DOWN, DOWN, runs=9)
    with pytest.raises(ClusterError):
        repeated.fails(two(), LOST)
    assert repeat.made.answers == []
    assert repeated.unknown == 4


@pytest.mark.parametrize("answer", [INTERRUPTED, KeyboardInterrupt()])
def test_an_interrupted_repeat_is_removed(answer: Answer, repeat: Repeated) -> None:
    repeated = repeat(LOST, answer, needed=2)
    with pytest.raises(KeyboardInterrupt):
        repeated.fails(two(), LOST)
    assert repeat.folders == []


@pytest.mark.parametrize("answer", [INTERRUPTED, KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_ends_the_search_leaves_the_smallest_so_far(answer: Answer, repeat: Repeated) -> None:
    made = config()
    case = ShrinkCase(made, faults(made, 4))
    repeated = repeat(LOST, LOST, answer)
    assert repeated.fails(case, LOST)
    shrinker = Shrinker(LOST, 60.0, lambda _: None, shows=repeated.fails, clock=lambda: 0.0)
    smallest = shrinker.shrink(case)
    assert len(smallest.steps) == 2
    assert isinstance(shrinker.stopped_by, OSError if isinstance(answer, OSError) else KeyboardInterrupt)
    assert repeated.kept is not None
    assert repeat.made.steps_of(repeated.kept) == 2
    assert repeat.folders == [repeated.kept.folder]
    told = shrinker.summary("run", case, smallest, rate=repeated.rate)
    assert (told.whole, told.tries, told.steps, told.rate) == (False, 2, (4, 2), (1, 1))


def upgraded(*names: str) -> ShrinkCase:
    made = config(sut="kafka", kafka={"version": "4.1.2", "upgrade": "4.4.0"}, duration_s=300)
    lines = [f'{{"name": "{name}", "at_s": {2 + 60 * n}, "hold_s": 1}}' for n, name in enumerate(names)]
    return ShrinkCase(made, numbered(written("\n".join(lines).encode(), made, names_of(made))))


def test_a_version_is_left_out_with_the_faults_that_change_to_it(repeat: Repeated) -> None:
    case = upgraded("upgrade:one", "kill:one@leader")
    repeated = repeat()
    repeat.made.later = lambda steps: LOST if any(s.family == "kill" for s in steps) else ""
    said: list[str] = []
    shrinker = Shrinker(LOST, 60.0, said.append, shows=repeated.fails, clock=lambda: 0.0)
    smallest = shrinker.shrink(case)
    assert [step.name for step in smallest.steps] == ["kill:one@leader"]
    assert shrinker.stopped_by is None
    assert smallest.config.section(KafkaSection).upgrade == ""
    summary = shrinker.summary("run", case, smallest)
    assert summary.settings["upgrade"] == ("4.4.0", "")
    assert "kafka" not in summary.settings
    assert ", upgrade 4.4.0 → none" in summary.text
    assert said[0].endswith(": 1 fault, 300 s, upgrade none")
    assert all(plan(made, steps).steps == steps for made, steps in repeat.made.cases), "a run can have each"


def test_an_upgrade_that_the_finding_needs_stays(repeat: Repeated) -> None:
    case = upgraded("upgrade:one", "kill:one@leader")
    repeated = repeat()
    repeat.made.later = lambda steps: LOST if any(s.family == "upgrade" for s in steps) else ""
    smallest = Shrinker(LOST, 60.0, lambda _: None, shows=repeated.fails, clock=lambda: 0.0).shrink(case)
    assert [step.family for step in smallest.steps] == ["upgrade"]
    assert plan(smallest.config, smallest.steps).config.kafka.upgrade == "4.4.0"  # type: ignore[attr-defined]


def test_a_case_that_no_run_can_have_does_not_fail(repeat: Repeated) -> None:
    upgrade = upgraded("upgrade:one", "kill:one@leader")
    assert not repeat(LOST).fails(ShrinkCase(upgrade.config, ()), LOST)
    assert repeat.made.answers == [LOST], "nothing was made"


def test_a_search_that_came_to_its_end_is_whole_whatever_the_time_is_afterwards(repeat: Repeated) -> None:
    now = [0.0]
    case = two()
    repeated = repeat()
    shrinker = Shrinker(LOST, 60.0, lambda _: None, shows=repeated.fails, clock=lambda: now[0])
    smallest = shrinker.shrink(case)
    now[0] = 61.0
    assert shrinker.summary("run", case, smallest).whole
    late = Shrinker(LOST, 60.0, lambda _: None, shows=repeated.fails, clock=lambda: now[0])
    now[0] = 121.0
    assert not late.summary("run", case, late.shrink(case)).whole
