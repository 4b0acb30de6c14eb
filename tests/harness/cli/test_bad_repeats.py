"""Run folders of other people that are to be made again: `replay` and `shrink` end with one line and 64, and
nothing of the folder has run or was followed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.api import check
from core.config import run_config
from harness.compose import record
from harness.run.progress import silent
from harness.soak.runs import reduce
from history.run_folder import Run
from tests.harness.cli.bad_input import command, no_traceback, refused

Damage = Callable[[Run], None]
SMALL = {"sut": "simulated", "seed": 5, "duration_s": 12, "rate": 10, "nemesis": "kill", "producers": 1}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = record(run_config(SMALL), results=tmp_path_factory.mktemp("recorded"), display=silent()).run
    assert made.schedule.read_bytes()
    return made


@pytest.fixture
def run(recorded: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A copy, in a current folder of its own."""
    monkeypatch.chdir(tmp_path)

    def started(*_: object, **__: object) -> None:
        raise AssertionError("taken")

    monkeypatch.setattr("harness.systems.record", started)
    return Run(shutil.copytree(recorded.folder, tmp_path / "run"))


def config(**settings: Any) -> Damage:
    """Other settings in `config.json`; None = without it."""

    def damage(run: Run) -> None:
        given = json.loads(run.config.read_bytes()) | settings
        run.config.write_text(json.dumps({name: value for name, value in given.items() if value is not None}))

    return damage


def on_kafka(**settings: Any) -> Damage:
    """The same, of a run on real brokers."""
    return config(sut="kafka", kafka={"version": "4.3.1"}, simulated=None, **settings)


def text(name: str, content: str | bytes) -> Damage:
    """A file of other content."""

    def damage(run: Run) -> None:
        data = content.encode() if isinstance(content, str) else content
        (run.folder / name).write_bytes(data)

    return damage


def replaced(name: str, by: Callable[[Path], object]) -> Damage:
    """Something else in the place of a file."""

    def damage(run: Run) -> None:
        (run.folder / name).unlink()
        by(run.folder / name)

    return damage


def step(**fields: Any) -> Damage:
    """Other fields of the first fault."""

    def damage(run: Run) -> None:
        first, *others = run.schedule.read_text().splitlines()
        run.schedule.write_text("\n".join([json.dumps(json.loads(first) | fields), *others]) + "\n")

    return damage


def doubled(run: Run) -> None:
    run.schedule.write_text(run.schedule.read_text() * 2)


def to_null(path: Path) -> None:
    path.symlink_to("/dev/zero")


def to_itself(path: Path) -> None:
    path.symlink_to(path)


CONFIG: dict[str, tuple[Damage, str]] = {
    "missing": (lambda run: run.config.unlink(), "No such file"),
    "empty": (text("config.json", ""), "config.json"),
    "no JSON": (text("config.json", "seed = 1"), "config.json"),
    "half": (text("config.json", '{"seed": 1, '), "config.json"),
    "bytes": (text("config.json", b"\xff\xfe\x00"), "config.json"),
    "a list": (text("config.json", "[]"), "config.json"),
    "a number": (text("config.json", "7"), "config.json"),
    "deep": (text("config.json", '{"seed":' + "[" * 1_000_000), "config.json"),
    "a pipe": (replaced("config.json", os.mkfifo), "not a file"),
    "a folder": (replaced("config.json", Path.mkdir), "not a file"),
    "a link to a device": (replaced("config.json", to_null), "not a file"),
    "a link to itself": (replaced("config.json", to_itself), "config.json"),
    "no seed": (config(seed=None), "seed"),
    "unknown setting": (config(colour="blue"), "colour"),
    "unknown workload": (config(workload="juggling"), "juggling"),
    "workload with an escape": (config(workload="\x1b[2J"), "unknown workload"),
    "unknown system": (config(sut="abacus", simulated=None), "abacus"),
    "an import": (config(sut="imported", simulated=None), "imported"),
    "unknown era": (config(simulated={"era": "9.9"}), "9.9"),
    "unknown mutant": (config(simulated={"era": "4.3", "mutant": "spider"}), "spider"),
    "text for a number": (config(brokers="many"), "brokers"),
    "negative duration": (config(duration_s=-1), "duration_s"),
    "a million partitions": (config(partitions=1_000_000), "partitions"),
    "unknown anomaly": (config(expect=["nope"]), "nope"),
    "two lines in a setting": (config(broker_settings={"a": "b\nc"}), "broker_settings"),
    "a setting of no modelled client": (config(client_settings={"compression.type": "lz4"}), "compression"),
    "a plugin": (on_kafka(client_settings={"plugin.library.paths": "/tmp/x.so"}), "plugin.library.paths"),
    "an engine": (on_kafka(client_settings={"ssl.engine.location": "/tmp/x.so"}), "ssl.engine.location"),
    "a command": (on_kafka(client_settings={"sasl.kerberos.kinit.cmd": "id"}), "sasl.kerberos.kinit.cmd"),
    "a mock cluster": (on_kafka(client_settings={"test.mock.num.brokers": "3"}), "test.mock.num.brokers"),
    "a place of keys": (on_kafka(client_settings={"ssl.key.location": "/root/x"}), "ssl.key.location"),
    "listeners": (on_kafka(broker_settings={"advertised.listeners": "CLIENT://x:1"}), "advertised.listeners"),
    "a class": (on_kafka(broker_settings={"metric.reporters": "a.B"}), "metric.reporters"),
    "a login": (on_kafka(broker_settings={"sasl.jaas.config": "a.B required;"}), "sasl.jaas.config"),
    "lines of server.properties": (
        on_kafka(broker_settings={"num.io.threads": "1\nmetric.reporters=a.B"}),
        "num.io.threads",
    ),
    "a version with a path": (
        config(sut="kafka", kafka={"version": "../../x"}, simulated=None),
        "three numbers",
    ),
}
SCHEDULE: dict[str, tuple[Damage, str]] = {
    "missing": (lambda run: run.schedule.unlink(), "No such file"),
    "no JSON": (text("schedule.jsonl", "kill\n"), "line 1"),
    "half a line": (text("schedule.jsonl", '{"fault": 0, "name"'), "line 1"),
    "bytes": (text("schedule.jsonl", b"\xff\xfe\n"), "line 1"),
    "deep": (text("schedule.jsonl", '{"fault":' + "[" * 1_000_000), "line 1"),
    "an empty line": (text("schedule.jsonl", "\n\n"), "line 1"),
    "a pipe": (replaced("schedule.jsonl", os.mkfifo), "not a file"),
    "a link to a device": (replaced("schedule.jsonl", to_null), "not a file"),
    "unknown family": (step(name="earthquake", family="earthquake", kind="", target=""), "earthquake"),
    "unknown kind": (step(name="kill:two", family="kill", kind="two", target=""), "two"),
    "unknown target": (step(name="kill:one@moon", family="kill", kind="one", target="moon"), "moon"),
    "another family than its name": (step(family="pause"), "line 1"),
    "another kind than its name": (step(kind="none"), "line 1"),
    "no fault": (step(name="none", family="none", kind="", target=""), "line 1"),
    "random": (step(name="random", family="random", kind="", target=""), "line 1"),
    "two faults": (step(name="kill:one@leader,pause:short@leader"), "line 1"),
    "before the start": (step(at_s=-1), "line 1"),
    "an endless time": (step(at_s=1e308 * 10), "line 1"),
    "no length": (step(hold_s=0), "line 1"),
    "text for a time": (step(at_s="soon"), "line 1"),
    "a number twice": (doubled, "number of a fault"),
}
OPTIONS: dict[str, tuple[list[str], str]] = {
    "replay nothing": (["recording", "replay"], "run"),
    "replay what is missing": (["recording", "replay", "none"], "none"),
    "replay a file": (["recording", "replay", "run/config.json"], "config.json"),
    "replay no time": (["recording", "replay", "run", "--runs", "0"], "--runs"),
    "replay on no master": (["recording", "replay", "run", "--master", "nope://x"], "nope://x"),
    "shrink nothing": (["recording", "shrink"], "run"),
    "shrink what is missing": (["recording", "shrink", "none"], "none"),
    "shrink for ever": (["recording", "shrink", "run", "--budget", "ever"], "--budget"),
    "shrink in no time": (["recording", "shrink", "run", "--budget", "0s"], "--budget"),
    "shrink to nothing": (["recording", "shrink", "run", "--needed", "0"], "--needed"),
    "shrink to more than all": (["recording", "shrink", "run", "--needed", "5", "--runs", "2"], "--needed 5"),
    "shrink to more than the usual": (
        ["recording", "shrink", "run", "--needed", "4"],
        "no more than 3 repeats",
    ),
    "shrink to an unknown anomaly": (["recording", "shrink", "run", "--anomaly", "nope"], "nope"),
    "shrink on no master": (["recording", "shrink", "run", "--master", "local[x]"], "local[x]"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "words", [["recording", "replay"], ["recording", "shrink"]], ids=["replay", "shrink"]
)
@pytest.mark.parametrize(("damage", "said"), CONFIG.values(), ids=CONFIG)
def test_a_configuration_of_a_stranger(run: Run, words: list[str], damage: Damage, said: str) -> None:
    damage(run)
    refused([*words, "run"], said=[said])


@pytest.mark.parametrize(
    "words", [["recording", "replay"], ["recording", "shrink"]], ids=["replay", "shrink"]
)
@pytest.mark.parametrize(("damage", "said"), SCHEDULE.values(), ids=SCHEDULE)
def test_a_schedule_of_a_stranger(run: Run, words: list[str], damage: Damage, said: str) -> None:
    damage(run)
    refused([*words, "run"], said=[said])


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(("words", "said"), OPTIONS.values(), ids=OPTIONS)
def test_options(words: list[str], said: str) -> None:
    refused(words, said=[said])


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("run")
def test_a_folder_that_nobody_damaged_is_repeated() -> None:
    ended = command("recording", "replay", "run")
    no_traceback(ended)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("identical: ")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "words", [["check", "run"], ["recording", "replay", "run"], ["recording", "shrink", "run"]]
)
def test_a_run_that_a_soak_reduced_says_how_it_is_made_again(run: Run, words: list[str]) -> None:
    result = check(run, engine="process")
    result.write(run)
    reduce(run.folder)
    assert {path.name for path in run.folder.iterdir()} == {"config.json", "verdict.json"}
    refused(words, said=[f"as a soak keeps them of a run that passed; repeat it: {result.verdict.repro}"])
    run.verdict.write_text("{")
    assert "repeat it" not in command(*words).err
