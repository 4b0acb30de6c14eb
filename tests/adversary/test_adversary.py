"""The checker says what the naive judge says, of random runs; what changes nothing changes no verdict.

`python -m tests.adversary` runs many more, and prints differences as small histories.
"""

from dataclasses import replace
from random import Random

import pytest

from core.op import End, Outcome, Phase, process_of
from tests.adversary.applications import WRONGS
from tests.adversary.campaign import campaign
from tests.adversary.compare import broken
from tests.adversary.faults import BUGS
from tests.adversary.judge import CHECKS, judge
from tests.adversary.metamorphic import changed, rename
from tests.adversary.removals import FAULTS, SHARES
from tests.adversary.rows import Recorded, answer
from tests.adversary.runs import recorded

CHUNK = 150


@pytest.mark.sampled(48)
@pytest.mark.parametrize("chunk", range(12))
def test_checker_and_judge_agree_on_recorded_runs(chunk: int) -> None:
    result = campaign(chunk * CHUNK, CHUNK, portable=False, shown=2)
    assert result.shown == []
    assert result.wrong == {}


@pytest.mark.sampled(30)
@pytest.mark.parametrize("chunk", range(12))
def test_checker_and_judge_agree_on_portable_histories(chunk: int) -> None:
    result = campaign(chunk * CHUNK, CHUNK, portable=True, shown=2)
    assert result.shown == []
    assert result.wrong == {}


@pytest.mark.sampled(48)
def test_the_runs_show_every_class_verdict_and_bug() -> None:
    made = [recorded(seed) for seed in range(900)]
    said = [judge(each) for each in made]
    found = {str(key[0]) for each in said for key in each.findings}
    assert {name for classes in CHECKS.values() for name in classes} - found == {"unseen"}
    assert {each.valid for each in said} == {True, False, "unknown"}
    assert {each.code for each in said} == {0, 1, 2, 3, 4, 130}
    planted = {name for each in made for name in each.planted}
    assert {*BUGS, *WRONGS, *(bug for bugs in FAULTS.values() for bug in bugs)} - planted == set()
    assert {name for each in made for name in each.more} == {*SHARES, "application"}


@pytest.mark.parametrize(
    ("seed", "bug", "name"),
    [
        (6357, "share-two", "share-two-holders"),
        (6734, "share-two", "share-two-holders"),
        (200, "share-same-count", "share-count"),
        (918, "share-same-count", "share-count"),
    ],
)
def test_a_run_that_shows_two_holders_or_a_count_that_stands_has_to_be_found(
    seed: int, bug: str, name: str
) -> None:
    made = recorded(seed)
    said = answer(made)
    assert broken(made, said) == []
    without = {key: some for key, some in said.findings.items() if key[0] != name}
    less = replace(
        said, findings=without, forbidden={one: many for one, many in said.forbidden.items() if one != name}
    )
    assert broken(made, less) == [f"the bug {bug} struck, and none of {name} is found"]


def cut_without_a_send() -> Recorded:
    """A run with a record that was read, and whose sender lacks the line that says that it was sent."""
    for seed in range(100):
        made = recorded(seed)
        shown = {(row["tp"], row["value"]) for row in made.tables["reads"] if row["phase"] == Phase.FINAL}
        for send in made.tables["sends"]:
            whole = send["op_sends"] == 1 and send["outcome"] == Outcome.OK and not send["txn"]
            if whole and (send["tp"], send["value"]) in shown:
                ends = [
                    row | {"end": End.CRASHED} if row["process"] == send["process"] else row
                    for row in made.tables["processes"]
                ]
                left = [row for row in made.tables["sends"] if row is not send]
                tables = {**made.tables, "sends": left, "processes": ends}
                return replace(made, tables=tables, quiet=False)
    raise AssertionError("no such run")


def test_what_is_renamed_are_processes_with_their_values() -> None:
    made = cut_without_a_send()
    said = answer(made)
    assert said.statuses["integrity"] == "unknown"  # it may have been sent by a process that is cut
    assert changed(made, "rename", said) == []
    numbers = {row["process"] for row in made.tables["processes"]}
    after = rename(made, Random(0))
    assert {row["process"] for row in after.tables["processes"]} != numbers
    assert all(process_of(row["value"]) == row["process"] for row in after.tables["sends"])


def test_a_key_that_a_renamed_run_lacks_is_a_difference() -> None:
    made = next(one for seed in range(100) if answer(one := recorded(seed)).forbidden)
    said = answer(made)
    named = [key for key in said.findings if any(process_of(int(part)) for part in key[1:])]
    less = {key: some for key, some in said.findings.items() if key not in named[:1]}
    assert named
    assert [one.split(":")[1] for one in changed(made, "rename", replace(said, findings=less))] == [
        " finding appeared"
    ]
