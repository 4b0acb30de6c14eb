"""Golden histories: kernels and oracle find exactly what each case says.

Our own cases (tests/histories/golden.txt, notation in tests/notation.py), and the probe cases with
what another checker made of them (tests/histories/probe.json).
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from checkers import findings, portable, reference
from checkers.pipeline import check_tables
from tests.notation import Story, stories

HISTORIES = Path(__file__).parents[1] / "histories"
STORIES = list(stories((HISTORIES / "golden.txt").read_text()))
PROBES = {case["name"]: case for case in json.loads((HISTORIES / "probe.json").read_text())}
CASES = list(portable.cases(HISTORIES / "probe.json"))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_oracle_finds_what_the_case_says(story: Story) -> None:
    tables = story.built.tables()
    found = reference.findings(tables, portable=story.portable)
    assert found == story.findings()
    assert reference.undecided(tables, portable=story.portable) == story.unknown


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_kernels_find_what_the_case_says(story: Story) -> None:
    tables = story.built.tables()
    assert findings(tables, portable=story.portable) == story.findings()
    tally = check_tables(tables, portable=story.portable)
    unknown = {"lost-write": tally.undecided > 0, "torn-txn": tally.torn_undecided > 0}
    assert {name for name, is_unknown in unknown.items() if is_unknown} == story.unknown


@pytest.mark.parametrize("kind", ["hit", "near miss", "indeterminate"])
@pytest.mark.parametrize("name", reference.CLASSES)
def test_each_class_has_a_case_of_each_kind_that_is_one(name: str, kind: str) -> None:
    about = [story for story in STORIES if story.name.startswith(f"{name}: {kind}: ")]
    assert about
    for story in about:
        assert (name in {key[0] for key in story.findings()}) == (kind == "hit"), story.name


def test_names_of_cases_are_well_formed_and_unique() -> None:
    names = [story.name for story in STORIES]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch(r"[\w-]+: (hit|near miss|indeterminate): .+", name), name


def _keys(case: portable.Case, name: str, finding: dict[str, Any]) -> set[tuple[str | int, ...]]:
    """A finding of a probe case as our canonical keys, by the meaning of its fields."""
    tp = {row["topic"]: row["tp"] for row in case.tables["tps"].to_pylist()}
    op = {each.index: number for number, each in enumerate(case.ops)}
    at = tp[finding["key"]] if "key" in finding else -1
    sends = {
        case.values[row["value"]]: row["value"]
        for row in case.tables["sends"].to_pylist()
        if row["tp"] == at
    }
    match name:
        case "lost-write" | "duplicate":
            return {(name, at, sends[finding["value"]])}
        case "unseen":
            return {
                (name, tp[key], row["value"])
                for key, values in finding["messages"].items()
                for row in case.tables["sends"].to_pylist()
                if row["tp"] == tp[key] and case.values[row["value"]] in values
            }
        case "G1a":
            return {("aborted-read", at, sends[finding["value"]], op[finding["reader"]["op"]])}
        case "precommitted-read":
            return {(name, at, sends[finding["value"]], op[finding["op"]["op"]])}
        case "inconsistent-offsets":
            return {(name, at, finding["offset"])}
        case "poll-skip" | "nonmonotonic-poll":
            return {(name, at, op[finding["ops"][1]["op"]])}
        case "nonmonotonic-send" | "int-nonmonotonic-send" | "int-send-skip":
            before, after = finding["values"]
            return {(name, at, sends[before], sends[after])}
        case "int-poll-skip" | "int-nonmonotonic-poll":
            number = op[finding["op"]["op"]]
            later = finding["values"][1]
            rows = [row for row in case.tables["reads"].to_pylist() if row["op"] == number]
            (pos,) = {row["pos"] for row in rows if case.values[row["value"]] == later} - {
                rows[0]["pos"]
            }
            return {(name, at, number, pos)}
        case "G1c" | "G0":
            members = {op[each["op"]] for each in finding["cycle"]}
            return {(name, -1, min(members), len(members))}
    raise AssertionError(name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_probe_cases_finding_by_finding(case: portable.Case) -> None:
    """What the other checker found right, we find; what it did not, only where its case says so."""
    golden = PROBES[case.name]
    improvement = golden["improvement"] or {}
    expected: set[tuple[str | int, ...]] = set()
    for name, found in (golden["expected"] or {}).items():
        wrong = name in improvement.get("must_not_report", ())
        if wrong or name.endswith("-cycle-exists") or "W04" in improvement.get("weakness", ()):
            continue
        for each in found if isinstance(found, list) else [found]:
            expected |= _keys(case, name, each)
    ours = reference.findings(case.tables)
    assert findings(case.tables) == ours
    assert expected <= ours
    allowed = {*improvement.get("must_report", ()), *improvement.get("may_report", ())}
    allowed |= set(golden["by_config"]["assign+ww"]["error_types"] or ())
    allowed |= set(golden["by_config"]["assign-ww"]["error_types"] or ())
    named = {"aborted-read": "G1a", "G1c-ww": "G1c"}
    assert {named.get(str(key[0]), key[0]) for key in ours - expected} <= allowed
