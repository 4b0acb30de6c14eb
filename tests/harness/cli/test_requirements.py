"""What is required of a run: words that say something and words that do not, bounds, what is not known."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from checkers.verdict.requirements import QUANTITIES, refuse, required
from core.config import run_config
from core.errors import ConfigError
from harness.report import build
from history.run_folder import Run
from history.verdict import FaultLiveness, Liveness, ResultWord
from tests.harness.cli.bad_input import command, refused
from tests.harness.cli.test_last_lines import fault, verdict

COST = FaultLiveness(
    fault=0, stalled_s=1, partition="x-0", partition_stalled_s=1, recovered_s=3.0, back_s=3.0, served=0.5
)


def cost(recovered: float | None, back: float | None = None, number: int = 0) -> FaultLiveness:
    return msgspec.structs.replace(COST, fault=number, recovered_s=recovered, back_s=back)


def lived(*faults: FaultLiveness, **more: Any) -> dict[str, Any]:
    return {"liveness": Liveness(faults=list(faults), **more), "faults": [fault(False)]}


IDLE = {"faults": [fault(True)]}
UNMEASURED = msgspec.structs.replace(fault(False), hits=None)
"""Whether it hit anything is not known."""
CASES = [
    ("recovery<=3s", lived(cost(3.0)), True),
    ("recovery<=2.9s", lived(cost(3.0)), False),
    ("recovery<=10s", lived(cost(None, 9.0)), True),  # the next fault began meanwhile
    ("recovery<=10s", lived(cost(None, 11.0)), False),
    ("recovery<=10s", lived(cost(3.0), cost(None, None, 1)), False),  # not known of the second
    ("recovery<=10s", {}, False),
    ("served>=75%", lived(under_faults=0.75), True),
    ("served>=75%", lived(under_faults=0.7499), False),
    ("served>=0%", {}, False),
    ("available>=99.5%", lived(available=0.995), True),
    ("available>=99.5%", lived(available=0.99), False),
    ("in-doubt<=5%", {"stats": {"ops": 100.0, "info": 5.0}}, True),
    ("in-doubt<=5%", {"stats": {"ops": 100.0, "info": 6.0}}, False),
    ("in-doubt<=5%", {"stats": {}}, False),
    ("reached:fenced", {"reached": ["fenced"]}, True),
    ("reached:fenced", {"reached": ["in-flight"]}, False),
    ("reached:fenced", {"reached": None}, False),
    ("exercised", lived(), True),
    ("exercised", IDLE, False),
    ("exercised", {}, True),  # no fault was planned
    ("exercised", {"faults": [UNMEASURED]}, False),
    ("exercised", {"faults": [UNMEASURED, fault(False)]}, True),
]


@pytest.mark.parametrize(("words", "changes", "met"), CASES)
def test_a_requirement_is_met_at_its_bound_and_not_where_it_is_not_known(
    words: str, changes: dict[str, Any], met: bool
) -> None:
    (one,) = required(words, verdict(**changes))
    assert (one.text, one.met) == (words, met)
    assert one.why


@pytest.mark.parametrize(
    ("words", "changes", "why"),
    [
        ("served>=100%", lived(under_faults=0.9997), "of the time under faults 99.97 %"),
        ("served>=99%", lived(under_faults=0.98996), "of the time under faults 98.996 %"),
        ("served>=99%", lived(under_faults=0.99004), "of the time under faults 99.0 %"),
        ("recovery<=10s", lived(cost(10.04)), "fault 0 (kill:one) took 10.04 s, the only one"),
        ("recovery<=10s", lived(cost(9.96)), "fault 0 (kill:one) took 10.0 s, the only one"),
        ("recovery<=10s", lived(cost(10.0)), "fault 0 (kill:one) took 10.0 s, the only one"),
        ("recovery<=11s", lived(cost(10.04)), "fault 0 (kill:one) took 10.0 s, the only one"),
    ],
)
def test_a_number_is_rounded_to_its_own_side_of_the_bound(
    words: str, changes: dict[str, Any], why: str
) -> None:
    (one,) = required(words, verdict(**changes))
    assert one.why == why


def test_every_quantity_has_a_case_that_meets_it_and_one_that_does_not() -> None:
    assert {(words.partition("=")[0][:-1], met) for words, _, met in CASES} >= {
        (name, met) for name in QUANTITIES for met in (True, False)
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("recovry<=10s", "unknown quantity 'recovry'; did you mean 'recovery'?"),
        ("recovery>=10s", "write recovery<=10s"),
        ("recovery<=10", "write recovery<=10s"),
        ("served>=75s", "write served>=75%"),
        ("recovery<=-1s", "is none of recovery<=Ns"),
        ("fast", "'fast' is none of recovery<=Ns, served>=N%"),
        ("recovery<=10s,", "'' is none of"),
        ("served>=100.5%", "'served>=100.5%': a share is at most 100 %"),  # after a whole run it is not met
        ("in-doubt<=175%", "a share is at most 100 %"),
        ("reached:fence", "unknown fact 'fence'; did you mean 'fenced'?"),
        ("reached:", "unknown fact ''"),
    ],
)
def test_what_says_nothing_is_named_before_anything_is_started(tmp_path: Path, words: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        refuse(words)
    assert said in str(raised.value)
    start: list[str | Path] = ["run", "--sut", "simulated", "--results", tmp_path, "--require", words]
    refused(start, said=["require: "])
    refused(["soak", "--results", tmp_path, "--require", words], said=["require: "])
    assert not list(tmp_path.iterdir())


RUN = ("run", "--sut", "simulated", "--seed", "1", "--duration", "5", "--brokers", "3")
"""Of a few seconds; in its only fault all brokers die."""


@pytest.mark.sampled(11)
def test_a_run_says_what_was_required_in_its_first_line_and_in_every_file(tmp_path: Path) -> None:
    words = "recovery<=100s,served>=100%,reached:fenced"
    ended = command(*RUN, "--nemesis", "kill:all", "--results", tmp_path, "--require", words)
    lines = ended.out.splitlines()
    assert ended.code == 5
    first = "REQUIREMENT NOT MET: no forbidden anomaly found, but the run does not meet served>=100% ("
    assert lines[0].startswith(first)
    assert any(line.startswith("required: recovery<=100s: met (") for line in lines)
    run = Run(tmp_path / "latest")
    told = msgspec.json.decode(run.verdict.read_bytes())["requirements"]
    assert [(one["text"], one["met"]) for one in told] == [
        ("recovery<=100s", True),
        ("served>=100%", False),
        ("reached:fenced", False),
    ]
    junit = (run.folder / "junit.xml").read_text()
    assert 'classname="inquest.requirement"' in junit
    assert junit.count("<failure") == 2
    assert "required: served&gt;=100%" in build(run).read_text()
    assert f"--require '{words}'" in lines[-1]
    again = command("check", run.folder, "--engine", "process", "--require", "recovery<=100s")
    assert (again.code, again.out.splitlines()[0].partition(":")[0]) == (0, "VALID")
    assert command("check", run.folder, "--engine", "process", "--require", "").code == 0
    assert command("check", run.folder, "--engine", "process").code == 5


def test_a_requirement_counts_after_everything_else() -> None:
    lacks = {"requirements": required("reached:fenced", verdict())}
    assert verdict(**lacks).result is ResultWord.UNMET
    assert verdict(**lacks, valid="unknown").result is ResultWord.UNKNOWN
    assert verdict(**lacks, expect={"lost-write": False}).result is ResultWord.CONTROL_SILENT
    assert verdict(**lacks, expect={"lost-write": True}).result is ResultWord.UNMET
    assert run_config({"seed": 1}).require == ""
