"""Golden histories: kernels and oracle find exactly what each case says.

Our own cases (tests/histories/*.txt, notation in tests/histories/notation.py), and the probe cases with
what another checker made of them (tests/histories/probe.json).
"""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.engine.findings import What
from checkers.recordings.portable_tables import PortableTables, cases
from core.keys import EACH
from core.op import Isolation, Phase
from history.tables import TABLES
from tests.checkers.found import check_tables, findings
from tests.checkers.undecided import undecided
from tests.histories.built import Bound, Commit, Delivery, Foreign, Mop, Op, Read, Said, Send
from tests.histories.notation import Story, stories
from tests.oracle import anomalies
from tests.oracle.words import Key

HISTORIES = Path(__file__).parents[1] / "histories"
STORIES = [story for path in sorted(HISTORIES.glob("*.txt")) for story in stories(path.read_text())]
PROBES = {case["name"]: case for case in json.loads((HISTORIES / "probe.json").read_text())}
CASES = list(cases(HISTORIES / "probe.json"))


def by_kernels(story: Story) -> tuple[set[Key], set[str]]:
    """What the kernels find, and which classes they leave open."""
    tally = check_tables(
        story.tables(), portable=story.portable, events=story.events(), config=story.config, cap=2**31
    )
    assert not tally.crashed, tally.crashed
    found = {finding.canonical for finding in tally.findings if finding.name != "not-recovered"}
    return found, undecided(tally)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_oracle_finds_what_the_case_says(story: Story) -> None:
    tables = story.tables()
    portable, config = story.portable, story.config
    found = anomalies.findings(tables, portable=portable, events=story.events(), config=config)
    assert found == story.findings()
    assert anomalies.undecided(tables, portable=portable, config=config) == story.unknown


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_kernels_find_what_the_case_says(story: Story) -> None:
    found, unknown = by_kernels(story)
    assert found == story.findings()
    assert unknown == story.unknown


@pytest.mark.parametrize(
    "story", [story for story in STORIES if story.variants()], ids=lambda story: story.name
)
def test_kernels_and_oracle_tell_the_variants_that_the_case_says(story: Story) -> None:
    tables, said = story.tables(), story.variants()
    portable, events, config = story.portable, story.events(), story.config
    tally = check_tables(tables, portable=portable, events=events, config=config, cap=2**31)
    kernel = {f.canonical: f.variant for f in tally.findings if f.canonical in said}
    assert kernel == said
    may = anomalies.variants(tables, portable=portable, events=events, config=config)
    variants = {key: {variant for variant, _ in may[key]} for key in said}
    assert variants == {key: {variant} for key, variant in said.items()}


def test_a_key_that_came_back_is_shown_with_the_record_that_was_deleted() -> None:
    """Of key 1, the final reads return record 1, which its tombstone, 129, had deleted. A poll that ended
    after them had still got record 257."""
    sends = "p0 send x:1@0\np0 send x:257@1\np0 send x:129@2\np0 send x:2@3\np0 send x:3@4"
    reads = "p1 final x[1@0,2@3,3@4]\np9 poll x[257@1]\nend x rc 5"
    (story,) = stories(f"== case\ncompact 2\n{sends}\n{reads}")
    tally = check_tables(story.tables(), portable=story.portable, config=story.config)
    (found,) = (one for one in tally.findings if one.name == "resurrected-key")
    assert [(shown.what, shown.offset) for shown in found.records] == [(What.SEND, 2), (What.READ, 0)]


@pytest.mark.parametrize(("given_ns", "process", "op"), [((1, 5), 2, 1), ((5, 1), 1, 2)])
def test_a_hanging_transaction_is_the_last_one_of_the_last_process_with_its_id(
    given_ns: tuple[int, int], process: int, op: int
) -> None:
    """Processes 1 and 2 have both had the producer id 7; 1 sends in two transactions."""
    sends = "p1 txn x:1@0\np2? txn x:2@2\np1? txn x:3@3"
    (story,) = stories(f"== case\n{sends}\nend x rc 2\nend x ru 4\nopen x 7 2\np9 final x[1@0]")
    own = [
        {"process": n, "producer_id": 7, "producer_epoch": 0, "epoch_cnt": 1, "ns": ns}
        for n, ns in enumerate(given_ns, 1)
    ]
    tables = story.tables() | {"producers": pa.Table.from_pylist(own, schema=TABLES["producers"])}
    tally = check_tables(tables, portable=False, events=story.events(), config=story.config)
    (found,) = (one for one in tally.findings if one.name == "hanging-txn")
    assert (found.process, found.ops) == (process, (op,))


OF_EVENTS = ("node-died", *anomalies.LETTERS)
"""Classes that no row shows: their cases are made of events (`test_incidents`, `test_dead_letters`)."""


@pytest.mark.parametrize("kind", ["hit", "near miss", "indeterminate"])
@pytest.mark.parametrize("name", [name for name in anomalies.CLASSES if name not in OF_EVENTS])
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


OFFSETS = {
    "phantom-read": (2,),
    "corrupt-record": (2,),
    "misdirected-record": (2,),
    "inconsistent-offsets": (2,),
    "offset-reuse": (2,),
    "offset-commit-regression": (4,),
    "phantom-commit": (4,),
    "eos-duplicate": (4,),
    "nonmonotonic-copy": (4,),
    **dict.fromkeys(("eos-loss", "eos-uncommitted"), (3,)),
    "group-skip": (3,),
    **dict.fromkeys(anomalies.SHARED, (3,)),
}
"""Where keys hold offsets."""
VALUES = {
    "lost-write": (2,),
    "resurrected-key": (2,),
    "unseen": (2,),
    "duplicate": (2,),
    "aborted-read": (2,),
    "precommitted-read": (2,),
    "phantom-read": (3,),
    "offset-realtime-inversion": (2,),
    "nonmonotonic-send": (2, 3),
    "int-nonmonotonic-send": (2, 3),
    "int-send-skip": (2, 3),
    "zombie-write": (2,),
}
"""Where keys hold values; of G1c-realtime and zombie-write if they are of one partition."""


def _mapped(key: Key, where: tuple[int, ...], change: Callable[[int], int]) -> Key:
    changed = (change(int(x)) if n in where and int(x) >= 0 else x for n, x in enumerate(key))
    return tuple(changed)


def _with_gaps(story: Story) -> set[Key]:
    """Every offset three times as high; what has to be found then."""
    for op in story.built.ops:
        for mop in op.mops:
            if isinstance(mop, Send | Read | Commit | Foreign | Delivery | Said) and mop.offset > 0:
                mop.offset *= 3
            if isinstance(mop, Send):
                mop.source = (mop.source[0], 3 * mop.source[1] if mop.source[1] > 0 else mop.source[1])
    for bound in story.built.bounds:
        bound.start, bound.end, bound.read_to = (
            n * 3 if n > 0 else n for n in (bound.start, bound.end, bound.read_to)
        )
    story.starts = [(tp, start * 3) for tp, start in story.starts]
    story.open = [(tp, pid, start * 3) for tp, pid, start in story.open]
    return {_mapped(key, OFFSETS.get(str(key[0]), ()), lambda n: n * 3) for key in story.findings()}


def _renamed(story: Story) -> set[Key]:
    """Every value another one, in reversed order, but of the same key; what has to be found then."""
    expected = set()

    def other(value: int) -> int:
        return (
            (8 << 32) - value // EACH * EACH + value % EACH if story.config.compacted else (7 << 32) - value
        )

    for key in story.findings():
        direct = key[0] == "G1c-realtime" and int(key[1]) >= 0
        where = (2,) if direct else VALUES.get(str(key[0]), ())
        if key[0] == "zombie-write" and int(key[1]) < 0:
            where = ()
        expected.add(_mapped(key, where, other))
    for op in story.built.ops:
        for mop in op.mops:
            if isinstance(mop, Send | Read | Delivery):
                mop.value = other(mop.value)
    return expected


def _with_company(story: Story) -> set[Key]:
    """An unrelated process and partition beside it; what has to be found then."""
    tp, process = len(story.built.tps), 500
    story.built.tps.append("elsewhere")
    last = max((op.complete or 0 for op in story.built.ops), default=0)
    done: list[tuple[str, Mop]] = [
        ("send", Send(tp=tp, value=1, offset=0)),
        ("final", Read(tp=tp, offset=0, value=1)),
    ]
    for n, (f, mop) in enumerate(done):
        op = Op(process=process + n, f=f, invoke=last + 2 * n + 1, complete=last + 2 * n + 2)
        op.phase = Phase.FINAL if f == "final" else Phase.FAULTS
        op.mops.append(mop)
        story.built.ops.append(op)
    level = Isolation.READ_COMMITTED
    if story.built.bounds:
        story.built.bounds.append(Bound(tp=tp, isolation=level, end=1, read_to=1))
    return story.findings()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("vary", [_with_gaps, _renamed, _with_company])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_what_does_not_matter_changes_nothing(story: Story, vary: Callable[[Story], set[Key]]) -> None:
    varied = copy.deepcopy(story)
    expected = vary(varied)
    tables = varied.tables()
    found = anomalies.findings(tables, portable=varied.portable, events=varied.events(), config=varied.config)
    assert found == expected
    assert by_kernels(varied)[0] == expected


def _keys(case: PortableTables, name: str, finding: dict[str, Any]) -> set[Key]:
    """A finding of a probe case as our canonical keys, by the meaning of its fields."""
    tp = {row["topic"]: row["tp"] for row in case.tables["tps"].to_pylist()}
    op = {each.index: number for number, each in enumerate(case.ops)}
    at = tp[finding["key"]] if "key" in finding else -1
    sends = {
        case.values[row["value"]]: row["value"] for row in case.tables["sends"].to_pylist() if row["tp"] == at
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
            (pos,) = {row["pos"] for row in rows if case.values[row["value"]] == later} - {rows[0]["pos"]}
            return {(name, at, number, pos)}
        case "G1c" | "G0":
            members = {op[each["op"]] for each in finding["cycle"]}
            return {(name, -1, min(members), len(members))}
    raise AssertionError(name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_probe_cases_finding_by_finding(case: PortableTables) -> None:
    """What the other checker found right, we find; what it did not, only where its case says so."""
    golden = PROBES[case.name]
    improvement = golden["improvement"] or {}
    expected: set[Key] = set()
    for name, found in (golden["expected"] or {}).items():
        wrong = name in improvement.get("must_not_report", ())
        if wrong or name.endswith("-cycle-exists") or "W04" in improvement.get("weakness", ()):
            continue
        for each in found if isinstance(found, list) else [found]:
            expected |= _keys(case, name, each)
    ours = anomalies.findings(case.tables)
    assert findings(case.tables) == ours
    assert expected <= ours
    allowed = {*improvement.get("must_report", ()), *improvement.get("may_report", ())}
    allowed |= set(golden["by_config"]["assign+ww"]["error_types"] or ())
    allowed |= set(golden["by_config"]["assign-ww"]["error_types"] or ())
    named = {"aborted-read": "G1a", "G1c-ww": "G1c"}
    assert {named.get(str(key[0]), key[0]) for key in ours - expected} <= allowed
