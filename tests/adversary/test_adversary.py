"""The checker says what the naive judge says, of random runs; what changes nothing changes no verdict.

`python -m tests.adversary` runs many more, and prints differences as small histories.
"""

import pytest

from tests.adversary.campaign import campaign
from tests.adversary.faults import BUGS
from tests.adversary.judge import CHECKS, judge
from tests.adversary.removals import FAULTS, SHARES
from tests.adversary.runs import recorded

CHUNK = 150


@pytest.mark.sampled(6)
@pytest.mark.parametrize("chunk", range(12))
def test_checker_and_judge_agree_on_recorded_runs(chunk: int) -> None:
    result = campaign(chunk * CHUNK, CHUNK, portable=False, shown=2)
    assert result.shown == []
    assert result.wrong == {}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("chunk", range(12))
def test_checker_and_judge_agree_on_portable_histories(chunk: int) -> None:
    result = campaign(chunk * CHUNK, CHUNK, portable=True, shown=2)
    assert result.shown == []
    assert result.wrong == {}


def test_the_runs_show_every_class_verdict_and_bug() -> None:
    made = [recorded(seed) for seed in range(900)]
    said = [judge(each) for each in made]
    found = {str(key[0]) for each in said for key in each.findings}
    assert {name for classes in CHECKS.values() for name in classes} - found == {"unseen"}
    assert {each.valid for each in said} == {True, False, "unknown"}
    assert {each.code for each in said} == {0, 1, 2, 3, 4, 130}
    planted = {name for each in made for name in each.planted}
    assert {*BUGS, *(bug for bugs in FAULTS.values() for bug in bugs)} - planted == set()
    assert {name for each in made for name in each.more} == {*SHARES}
