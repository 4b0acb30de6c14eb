"""The last lines of a run: one word for its result, the first witness, and commands that can be pasted."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import ExitCode
from harness.cli.last_lines import last_lines, pasted
from harness.report import wording
from history.run_folder import Run
from history.verdict import Anomaly, Example, Fault, FaultHits, ResultWord, Verdict

CLEAN = Verdict(
    run="r",
    valid=True,
    exit_code=0,
    seed=1,
    summary="no forbidden anomaly",
    config={},
    anomalies={},
    checks={},
    unknown=[],
    expect={},
    recovered=True,
    recovery_s=1.0,
    interrupted=False,
    faults=[],
    stats={"records acknowledged": 10.0},
    repro="inquest run --seed 1",
    engine="this process",
)


def anomaly(disallowed: int = 1, bug: str = "", *sentences: str) -> Anomaly:
    examples = [Example(sentence=text, allowed=not disallowed, why="") for text in sentences]
    url = f"https://issues.example/{bug}" if bug else ""
    texts = {"title": "", "literature": "", "meaning": "", "why": "", "known_bug": bug, "known_bug_url": url}
    return Anomaly(count=1, disallowed=disallowed, allowed=not disallowed, examples=examples, **texts)


def verdict(**changes: Any) -> Verdict:
    return msgspec.structs.replace(CLEAN, **changes)


def fault(nothing: bool | None) -> Fault:
    fields = dict.fromkeys(FaultHits.__struct_fields__, 0) | {"nothing": nothing, "controller": False}
    hits = msgspec.convert(fields, FaultHits)
    return Fault(fault=0, name="kill:one", text="", nodes=[], begin_s=1.0, end_s=2.0, colour="", hits=hits)


BAD = {"anomalies": {"lost-write": anomaly()}, "valid": False}
KNOWN = {"anomalies": {"lost-write": anomaly(1, "KAFKA-1")}, "valid": False}


@pytest.mark.parametrize(
    ("changes", "result", "code"),
    [
        ({}, ResultWord.VALID, 0),
        ({"expect": {"lost-write": True}}, ResultWord.CONTROL_FIRED, 0),
        ({"expect": {"lost-write": False}}, ResultWord.CONTROL_SILENT, 4),
        ({"valid": "unknown"}, ResultWord.UNKNOWN, 2),
        ({"recovered": False, "valid": False}, ResultWord.NOT_RECOVERED, 3),
        (BAD, ResultWord.ANOMALY, 1),
        (BAD | {"recovered": False}, ResultWord.ANOMALY, 1),
        (KNOWN, ResultWord.KNOWN_BUGS, 1),
        (
            {"anomalies": {"lost-write": anomaly(1, "KAFKA-1"), "duplicate": anomaly()}, "valid": False},
            ResultWord.ANOMALY,
            1,
        ),
        (KNOWN | {"unknown": ["durability: not whole"]}, ResultWord.ANOMALY, 1),
        (
            {
                "anomalies": KNOWN["anomalies"] | {"not-recovered": anomaly()},  # type: ignore[operator]
                "valid": False,
                "recovered": False,
            },
            ResultWord.ANOMALY,
            1,
        ),
        ({"anomalies": {"lost-write": anomaly(0, "")}}, ResultWord.VALID, 0),
        ({"faults": [fault(True)]}, ResultWord.NOT_EXERCISED, 0),
        ({"faults": [fault(True), fault(False)]}, ResultWord.VALID, 0),
        ({"faults": [fault(None)]}, ResultWord.VALID, 0),
        ({"stats": {"records acknowledged": 0.0, "records read": 0.0}}, ResultWord.NOT_EXERCISED, 0),
        ({"stats": {"records acknowledged": 0.0, "records read": 1.0}}, ResultWord.VALID, 0),
    ],
)
def test_one_word_for_each_result(changes: dict[str, Any], result: ResultWord, code: int) -> None:
    found = verdict(**changes)
    assert (found.result, found.result.code) == (result, ExitCode(code))
    first = next(last_lines(found, Run(Path("r")), "none"))
    assert first == f"{result.upper()}: {CLEAN.summary}"


@pytest.mark.parametrize(
    ("wanted", "reached", "why"),
    [
        (["leader-moved"], [], "no leader moved under these faults"),
        (["leader-moved"], ["leader-moved"], "the faults did not cause what it waits for"),
        (["fenced"], [], "the faults did not cause what it waits for"),
        (["leader-moved"], None, "the faults did not cause what it waits for"),
    ],
)
def test_a_control_that_did_not_fire_says_what_to_try(
    wanted: list[str], reached: list[str] | None, why: str
) -> None:
    found = verdict(
        expect={"lost-write": False},
        faults=[msgspec.structs.replace(fault(False), wanted=wanted)],
        reached=reached,
        config={"duration_s": 30.0},
        repro="inquest run --preset acks1 --seed 1 --duration 30",
    )
    *_, last = last_lines(found, Run(Path("r")), "none")
    command, _, reason = last.partition("    # more time: ")
    assert (command, reason) == (f"next: {pasted('inquest run --preset acks1 --duration 90')}", why)


def test_the_first_witness_is_of_the_most_severe_class_that_is_no_known_bug(tmp_path: Path) -> None:
    found = verdict(
        valid=False,
        faults=[fault(False)],
        anomalies={
            "duplicate": anomaly(0, "", "permitted"),
            "corrupt-record": anomaly(1, "KAFKA-1", "known"),
            "lost-write": anomaly(1, "", "gone"),
            "poll-skip": anomaly(1, "", "skipped"),
        },
    )
    worst = wording.worst(found)
    assert worst is not None
    assert worst[0] == "lost-write"
    lines = list(last_lines(found, Run(tmp_path / "a run"), "none"))
    assert lines[1] == "first lost-write: gone"
    assert f"shrink --anomaly lost-write '{tmp_path}/a run'" in lines[-1]


def test_a_run_that_was_shrunk_has_nothing_left_to_shrink(tmp_path: Path) -> None:
    found, run = verdict(**BAD, faults=[fault(False)]), Run(tmp_path)
    assert list(last_lines(found, run, "none"))[-1].startswith("next: inquest recording shrink")
    run.shrunk.write_text("{}")
    assert list(last_lines(found, run, "none"))[-1].startswith("repeat: ")


def test_known_bugs_come_with_their_pages_and_nothing_to_shrink() -> None:
    lines = list(last_lines(verdict(**KNOWN, faults=[fault(False)]), Run(Path("r")), "none"))
    assert lines[-1] == "known: KAFKA-1 (https://issues.example/KAFKA-1)"
    two = {"duplicate": msgspec.structs.replace(anomaly(1, "KAFKA-1, KAFKA-2"), known_bug_url="")}
    lines = list(last_lines(verdict(valid=False, anomalies=KNOWN["anomalies"] | two), Run(Path("r")), "none"))  # type: ignore[operator]
    assert lines[-1] == "known: KAFKA-1 (https://issues.example/KAFKA-1), KAFKA-2"


def test_a_valid_run_has_five_lines() -> None:
    lines = [line.partition(":")[0] for line in last_lines(CLEAN, Run(Path("r")), "none")]
    assert lines == ["VALID", "faults", "broker logs", "report", "repeat"]


def test_a_command_is_printed_as_this_shell_finds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / ".venv/bin/inquest"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/usr/bin")
    assert pasted("inquest run --seed 1") == ".venv/bin/inquest run --seed 1"
    monkeypatch.setenv("PATH", str(program.parent))
    assert pasted("inquest run --seed 1") == "inquest run --seed 1"


@pytest.mark.parametrize(
    ("nothings", "line", "result"),
    [
        ([True], "reached: nothing", ResultWord.NOT_EXERCISED),
        (
            [False],
            "reached: no fact, but a fault hit something: a record waited for a second or more",
            ResultWord.VALID,
        ),
        (
            [True, False, False],
            "reached: no fact, but 2 faults hit something, the first: a record waited for a second or more",
            ResultWord.VALID,
        ),
    ],
)
def test_what_makes_a_run_without_facts_an_exercised_one_is_said(
    nothings: list[bool], line: str, result: ResultWord
) -> None:
    made = verdict(faults=[fault(nothing) for nothing in nothings], reached=[])
    assert made.result is result
    assert line in list(last_lines(made, Run(Path("r")), "none"))
