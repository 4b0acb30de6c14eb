"""Schedules in a file: what they mean, and how they are refused."""

import msgspec
import pytest

from core.config import RunConfig, run_config
from core.errors import ConfigError
from nemesis.schedule import plan
from nemesis.types import PlannedFault
from nemesis.written import written

PARTITION = b'{"name": "partition:isolate@leader", "at_s": 2, "hold_s": 6}'


def config(**settings: object) -> RunConfig:
    return run_config({"seed": 7, "nemesis": "schedule", "duration_s": 60, **settings})


def lines(steps: tuple[PlannedFault, ...]) -> bytes:
    return b"\n".join(map(msgspec.json.encode, steps))


def test_lines_become_faults_in_the_order_of_their_begin() -> None:
    kill = b'{"name": "kill:one@controller", "at_s": 1, "hold_s": 3, "seed": 11}'
    late, early = written(b"# by hand\n\n" + PARTITION + b"\n" + kill, config())[::-1]
    assert (early.fault, early.name, early.at_s, early.hold_s) == (0, "kill:one@controller", 1.0, 3.0)
    assert (early.family, early.kind, early.target, early.seed) == ("kill", "one", "controller", 11)
    assert (late.fault, late.name, late.at_s, late.hold_s) == (1, "partition:isolate@leader", 2.0, 6.0)


@pytest.mark.parametrize("nemesis", ["partition,kill", "random", "pause:long@leader", "none"])
@pytest.mark.parametrize("seed", range(5))
def test_what_a_run_planned_means_the_same_again(nemesis: str, seed: int) -> None:
    planned = plan(nemesis, config(seed=seed, nemesis=nemesis))
    assert written(lines(planned), config(seed=100 + seed)) == planned


def test_the_seed_draws_what_a_name_leaves_out() -> None:
    text = b'{"name": "partition", "at_s": 2, "hold_s": 6}'
    drawn = {written(text, config(seed=seed))[0].name for seed in range(30)}
    assert len(drawn) > 5
    assert all(name.startswith("partition:") for name in drawn)
    assert written(text, config(seed=3)) == written(text, config(seed=3))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "line 1: .*truncated"),
        (PARTITION + b"\n[]", "line 2: Expected `object`"),
        (b"\xff\xfe", "line 1: "),
        (b'{"name": "kill", "at_s": 1}', "line 1: .*`hold_s`"),
        (b'{"name": "kill", "at_s": 1, "hold": 1, "hold_s": 2}', "line 1: .*unknown field `hold`"),
        (b'{"name": "kill", "at_s": -1, "hold_s": 1}', r"line 1: .*>= 0.* `\$.at_s`"),
        (b'{"name": "kill", "at_s": 1, "hold_s": 0}', r"line 1: .*>= 0\.001.* `\$.hold_s`"),
        (b'{"name": "kill", "at_s": 1, "hold_s": 0.0004}', r"line 1: .*>= 0\.001.* `\$.hold_s`"),
        (b'{"name": "kil", "at_s": 1, "hold_s": 1}', "line 1: .*unknown nemesis 'kil'"),
        (b'{"name": "kill:one@moon", "at_s": 1, "hold_s": 1}', "line 1: .*no target 'moon'"),
        (b'{"name": "random", "at_s": 1, "hold_s": 1}', "line 1: 'random' is not one fault"),
        (b'{"name": "schedule", "at_s": 1, "hold_s": 1}', "line 1: 'schedule' is not one fault"),
        (b'{"name": "kill,pause", "at_s": 1, "hold_s": 1}', "line 1: 'kill,pause' is not one fault"),
        (b'{"name": "kill:one@leader", "at_s": 58, "hold_s": 3}', "line 1: .*give --duration 62"),
        (
            PARTITION + b'\n{"name": "partition:one-way@leader", "at_s": 7.9, "hold_s": 1}',
            "partition:one-way-(in|out)@leader begins at 7.9 s, .* in force until 8 s",
        ),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_with_its_line(text: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        written(text, config())


def test_a_length_by_hand_may_be_shorter_than_any_that_is_drawn() -> None:
    """Also where the whole phase of faults is; a kind that is drawn has to fit."""
    short = b'{"name": "pause:long@leader", "at_s": 0.5, "hold_s": 1}'
    (step,) = written(short, config(duration_s=3))
    assert (step.kind, step.hold_s) == ("long", 1.0)
    drawn = b'{"name": "pause", "at_s": 0.5, "hold_s": 1}'
    kinds = {written(drawn, config(duration_s=3, seed=seed))[0].kind for seed in range(20)}
    assert kinds == {"short"}


def test_families_may_overlap_and_one_follows_its_own() -> None:
    pause = b'{"name": "pause:long@leader", "at_s": 3, "hold_s": 6}'
    again = b'{"name": "partition:one-way@leader", "at_s": 8.2, "hold_s": 1}'
    assert len(written(b"\n".join([PARTITION, pause, again]), config())) == 3


def test_the_nemesis_of_a_file_plans_nothing_itself() -> None:
    with pytest.raises(ConfigError, match="--schedule FILE"):
        plan("schedule", config())
    with pytest.raises(ConfigError, match="schedule cannot be mixed"):
        plan("schedule,kill", config())
