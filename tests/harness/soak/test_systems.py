"""What a session compares: the systems that options name, the same runs on each, programs by options only."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from core.config import Application
from core.errors import ConfigError, UsageError
from core.extensions import APP, CLIENT, CLUSTER
from harness.external import named as external
from harness.nights.session_log import Attempt, RunBegun, Tested
from harness.processes.interrupts import Interrupts
from harness.soak import runs
from harness.soak.matrix import Matrix, canary_run, check, check_run, config_of, parse
from harness.soak.scheduler import choose
from harness.soak.systems import Named, SystemUnderSoak, compared, in_force
from tests.harness.nights.made_sessions import outcome, task
from tests.harness.soak.fakes import TEXT
from tests.harness.soak.test_scheduler import AT, session

TWO = (SystemUnderSoak(settings={"kafka": "4.3.1"}), SystemUnderSoak(settings={"kafka": "4.4.0"}))
MATRIX = parse(TEXT + '[[topologies]]\nbrokers = 3\n[[topologies]]\nbrokers = 5\nkafka = "4.1.2"\n', "m.toml")
JAVA = {CLIENT: f"{sys.executable} examples/clients/confluent_client.py"}


def test_options_name_systems_and_each_comes_with_each_of_the_clients() -> None:
    systems, named = compared("3.9.2,4.4.0", f"librdkafka, java={JAVA[CLIENT]}", "", owned=False)
    assert [(one.settings, one.client) for one in systems] == [
        ({"kafka": "3.9.2", "clients": "librdkafka"}, ""),
        ({"kafka": "3.9.2", "clients": "command"}, "java"),
        ({"kafka": "4.4.0", "clients": "librdkafka"}, ""),
        ({"kafka": "4.4.0", "clients": "command"}, "java"),
    ]
    assert named.variables("java", "") == JAVA
    assert CLIENT not in os.environ
    assert compared("", "", "", owned=False) == ((SystemUnderSoak(),), Named())
    (modelled, _), _ = compared("0.10,4.3", "", "", owned=False, sut="simulated")
    assert modelled.settings == {"era": "0.10"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("4.4.0,4.4.0", "", ""), "--versions '4.4.0,4.4.0': an entry is empty, or is there twice"),
        (("4.4.0,", "", ""), "an entry is empty"),
        (("", "java", ""), "--clients 'java': NAME=COMMAND, or one of librdkafka"),
        (("", "java=no-such-program", ""), "no-such-program: no such program"),
        (("", "java=", ""), "--clients 'java=': NAME=COMMAND, or one of librdkafka"),
        (("", "=python3", ""), "--clients '=python3': NAME=COMMAND, or one of librdkafka"),
        (("", "librdkafka=python3", ""), "'librdkafka' is a kind of clients, and no name of a program"),
        (("", "java=python3,java=python3 -V", ""), "--clients: 'java' names two programs"),
        (("", "", "missing.toml"), r"missing.toml: No such file"),
        (("", "", "a/east.toml,b/east.toml"), "--clusters: 'east' names two files"),
    ],
)
def test_what_cannot_be_compared_is_said(words: tuple[str, str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compared(*words, owned=False)


def performed(matrix: Matrix) -> list[Any]:
    """All runs of a session."""
    under_way = session(matrix=matrix, budget_s=3600.0)
    while (choice := choose(under_way, [], matrix)) is not None:
        begun = RunBegun(at=AT, spent_s=0.0, number=choice.number, task=choice.task, command=[])
        under_way.attempts.append(Attempt(begun=begun, outcome=outcome()))
        under_way.spent_s += 60.0
    return [attempt.begun.task for attempt in under_way.attempts]


def drawn(matrix: Matrix) -> list[Any]:
    return [task for task in performed(matrix) if task.why == "matrix"]


def explicit_runs(matrix: Matrix) -> list[Any]:
    return [task for task in performed(matrix) if task.why == "explicit"]


def test_all_systems_perform_a_run_before_the_next_one_is_drawn() -> None:
    made = drawn(MATRIX.comparing(TWO))
    assert len(made) > 8
    for first, second in zip(made[::2], made[1::2], strict=False):
        assert [one.settings["kafka"] for one in (first, second)] == ["4.3.1", "4.4.0"]
        both = [(t.workload, t.nemesis, t.preset, t.seed, t.settings["brokers"]) for t in (first, second)]
        assert both[0] == both[1]
    assert len({one.seed for one in made[::2]}) == len(made[::2])


def test_explicit_runs_are_left_out_and_the_canary_is_on_the_first_system() -> None:
    text = TEXT + '[[runs]]\nworkload = "queue"\nnemesis = "kill"\npreset = "safe"\n'
    alone = parse(text, "m.toml")
    matrix = alone.comparing(TWO)
    written = parse(f'{text}[[systems]]\nsettings = {{ kafka = "4.3.1" }}\n', "m.toml")
    assert [len(explicit_runs(one)) for one in (alone, matrix, written)] == [1, 0, 0]
    assert canary_run(matrix, "acks1", 1).settings["kafka"] == "4.3.1"
    with pytest.raises(ConfigError, match=r"9.9.9"):
        check(matrix.comparing((*TWO, SystemUnderSoak(settings={"kafka": "9.9.9"}))), Named())


@pytest.mark.sampled(2)
def test_a_run_finds_the_program_of_its_name_and_no_recording_brings_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = task(client="java", settings={"clients": "command"})
    with pytest.raises(ConfigError, match="'java': name it with --clients; no recording brings it"):
        check_run(again, Named())
    named = Named(clients={"java": JAVA}, clusters={"east": {CLUSTER: "/x/east.toml"}})
    check_run(again, named)
    assert named.variables("java", "east") == {**JAVA, CLUSTER: "/x/east.toml"}
    given: list[Any] = []

    def ended(*words: Any) -> tuple[int, bool]:
        given.append(words[-1])
        return 70, False

    monkeypatch.setattr(runs, "run", ended)
    performer = runs.Performer(results=tmp_path, named=named, interrupts=Interrupts())
    performer.perform(session(), RunBegun(at=AT, spent_s=0.0, number=1, task=again, command=["inquest"]))
    assert given == [JAVA]


def test_a_run_on_a_cluster_finds_the_application_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the command line names one, which is then that of all clusters."""
    cluster = '[cluster]\nbootstrap = "127.0.0.1:9092"\nprefix = "x-"\n'
    (tmp_path / "east.toml").write_text(cluster + '[app]\ncommand = "true east"\nin = "orders"\n')
    (tmp_path / "west.toml").write_text(cluster)
    monkeypatch.setattr(external, "of_cluster", lambda: {"sut": "external"})
    monkeypatch.setenv(APP, "true mine")
    files = f"{tmp_path}/east.toml,{tmp_path}/west.toml"
    (east, west), named = compared("", "", files, owned=False)
    assert (named.variables("", "east")[APP], APP in named.variables("", "west")) == ("true east", False)
    assert os.environ[APP] == "true mine"
    matrix = parse(TEXT.replace('"queue"', '"application"'), "m.toml")
    combination = matrix.combinations()[0]
    tasks = [matrix.planned("matrix", combination, 1, system=one) for one in (east, west)]
    assert [config_of(one).app for one in tasks] == [Application(input="orders"), Application()]
    (east, _), named = compared("", "", files, owned=False, app=True)
    assert not east.application
    assert APP not in named.variables("", "east")


def test_a_result_is_of_the_program_and_the_cluster_that_were_named() -> None:
    came = outcome(tested=Tested(system="external", version="", client="command"))
    assert came.on(task()) == came
    on = came.on(task(client="java", cluster="east")).tested
    assert on == Tested(system="external", version="east", client="java")
    assert task(client="java").key != task().key != task(cluster="east").key


def test_variables_are_in_force_for_a_block_alone() -> None:
    os.environ.pop("INQUEST_TEST", None)
    with in_force({"INQUEST_TEST": "1"}):
        with in_force({"INQUEST_TEST": "2"}):
            assert os.environ["INQUEST_TEST"] == "2"
        assert os.environ["INQUEST_TEST"] == "1"
    assert "INQUEST_TEST" not in os.environ
