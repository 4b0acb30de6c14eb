"""Runs beside a test, on brokers of the model: what the test does, what it is told, and what is left."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from core.client_settings import Properties
from core.config import Application
from core.errors import ClusterError, ConfigError
from harness.clients.application import named as applications
from harness.external import named
from harness.guided import main
from harness.guided.cluster import Anomaly, GuidedCluster, NotRecovered, NotValid, Unknown, Unmet, cluster
from harness.guided.words import Start
from tests.processes import alive
from tests.waiting import until

EFFECTS: dict[str, Any] = {"input": "orders", "output": "", "effects": True}
SMALL: dict[str, Any] = {
    "partitions": 2,
    "producers": 1,
    "home_producers": 0,
    "consumers": 1,
    "rate": 20,
    "fault_s": 1,
    "calm_s": 0.5,
}
ABORTS_COMMIT = {
    "workload": "transactions",
    "mutant": "abort-answers-commit",
    "abort_share": 0.9,
    "rate": 100,
}
HOLDER = """
import sys
from inquest import cluster
with cluster("model", results=sys.argv[1], brokers=1, replication_factor=1, min_insync_replicas=1) as made:
    print(made.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuidedCluster]:
    with cluster("model", results=str(tmp_path_factory.mktemp("results")), **SMALL) as one:
        yield one


def listening(bootstrap: str) -> int:
    """How many of these addresses accept a connection."""
    count = 0
    for host, _, port in (at.rpartition(":") for at in bootstrap.split(",")):
        with suppress(ConnectionRefusedError), socket.create_connection((host, int(port)), 10):
            count += 1
    return count


@pytest.mark.slow
@pytest.mark.sampled(48)
def test_a_test_has_its_cluster_its_faults_and_its_verdict(made: GuidedCluster) -> None:
    where: Properties = {"bootstrap.servers": made.bootstrap, "log_level": 0}
    admin = AdminClient(where)
    for done in admin.create_topics([NewTopic("orders", 2, 3)]).values():
        done.result()
    with pytest.raises(ConfigError, match="unknown nemesis 'spider'"), made.faults("spider"):
        pytest.fail("it began")
    with pytest.raises(ConfigError, match=r"'wire' needs proxies before the brokers"), made.faults("wire"):
        pytest.fail("it began")
    written: list[int | None] = []
    producer = Producer({**where, "enable.idempotence": True})
    with made.faults("kill:one@leader", seed=1):
        events = (made.folder / "events.jsonl").read_text()
        assert '"name":"kill:one@leader"' in events  # it is in force
        for number in range(50):
            producer.produce(
                "orders", str(number), on_delivery=lambda _, message: written.append(message.offset())
            )
    assert '"event":"recovery"' in (made.folder / "events.jsonl").read_text()
    assert producer.flush(30) == 0
    assert len(written) == 50
    assert listening(made.bootstrap) == 3
    with pytest.raises(ConfigError, match="has had its faults"), made.faults("kill"):
        pytest.fail("it began")
    said = made.judge().splitlines()
    assert said[0].startswith("VALID: no forbidden anomaly")
    assert said[-1] == f"repeat: inquest recording replay {made.folder}"
    assert f"report: {made.folder / 'report.html'}" in said
    config = json.loads((made.folder / "config.json").read_text())
    assert 1 <= config["duration_s"] < 60  # that a replay is as long
    assert not alive(made.pid)
    assert listening(made.bootstrap) == 0


@pytest.mark.slow
@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("kind", "settings", "begins"),
    [
        (Anomaly, ABORTS_COMMIT, "ANOMALY: found "),
        (NotRecovered, {"recovery_deadline_s": 1}, "DID NOT RECOVER: found not-recovered (1)"),
        (Unknown, {}, "UNKNOWN: no forbidden anomaly found, but "),
        (
            Unmet,
            {"require": "reached:fenced"},
            "REQUIREMENT NOT MET: no forbidden anomaly found, but the run does not meet reached:fenced (",
        ),
    ],
)
def test_verdicts_that_are_not_valid_are_told_apart(
    tmp_path: Path, kind: type[NotValid], settings: dict[str, Any], begins: str
) -> None:
    with cluster("model", results=str(tmp_path), **{**SMALL, **settings}) as made:
        with made.faults("kill:all" if kind is NotRecovered else "none"):
            if kind is Unknown:
                os.kill(made.pid, signal.SIGKILL)
                until(lambda: not alive(made.pid), "it lives on")
        with pytest.raises(AssertionError) as raised:
            made.judge()
    assert type(raised.value) is kind
    assert str(raised.value).startswith(begins)
    assert f"report: {made.folder / 'report.html'}" in str(raised.value)
    assert (made.folder / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.sampled(5)
def test_a_test_may_require_more_and_less_than_that_faults_take_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "reached:fenced,exercised"
    with cluster("model", results=str(tmp_path), require=words, **SMALL) as made:
        with made.faults("none"):
            pass
        with pytest.raises(ConfigError, match="unknown fact 'fence'"):
            made.judge("reached:fence")
        with pytest.raises(Unmet, match=r"does not meet reached:fenced \(reached: nothing\)") as raised:
            made.judge()  # what the settings say
        assert "; exercised: met (there was no fault)\n" in str(raised.value)
        with pytest.raises(Unmet, match=r"does not meet reached:in-flight \(reached: nothing\)") as raised:
            made.judge("reached:in-flight")
        assert "fenced" not in str(raised.value)
        assert made.judge(require="").startswith("VALID")
        killed = subprocess.CompletedProcess((), -signal.SIGKILL, "", "")
        monkeypatch.setattr("harness.guided.cluster.subprocess.run", lambda *_, **__: killed)
        with pytest.raises(ClusterError, match="inquest check ended with code -9"):
            made.judge()


@pytest.mark.parametrize(
    ("asked", "app", "nemesis"),
    [
        ({}, EFFECTS, main.LATER),
        ({"app": {"shape": "filter"}}, EFFECTS | {"shape": "filter"}, main.LATER),
        ({"nemesis": "kill"}, EFFECTS, "kill"),
    ],
)
def test_what_a_test_says_lies_over_the_application_of_a_file(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], app: dict[str, Any], nemesis: str
) -> None:
    of_file = {"sut": "external", **applications.SETTINGS, "app": EFFECTS}
    monkeypatch.setattr(named, "settings", lambda: dict(of_file))
    made = main._config(Start(settings={"sut": "external", **asked}, results="."))
    assert (made.app, made.nemesis, made.workload) == (Application(**app), nemesis, "application")


@pytest.mark.sampled(18)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sut": "model", "brokers": 2}, "replication_factor 3 needs as many brokers, there are 2"),
        (
            {"sut": "simulated"},
            "sut=simulated has no address that a test could use: give external or kafka or model",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_started(
    tmp_path: Path, settings: dict[str, Any], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=why), cluster(results=str(tmp_path), **settings):
        pytest.fail("it began")
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_ends_with_the_program_that_holds_it(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as holder:
        assert holder.stdout is not None
        run = int(holder.stdout.readline())
        assert alive(run)
        holder.send_signal(number)
        holder.wait()
    until(lambda: not alive(run), "the run lives on")
    (folder,) = [path for path in tmp_path.iterdir() if not path.is_symlink()]
    assert '"event":"interrupted"' in (folder / "events.jsonl").read_text()


def test_a_file_beside_another_system_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"file='a.toml' is a cluster of sut=external, and sut='model'"),
        cluster("model", file="a.toml", results=str(tmp_path)),
    ):
        pass


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"sut": "model", "owned": True}, r"owned says something of a cluster that you have: give its file"),
        ({"sut": "model", "results": ""}, r"results is empty: give a folder"),
    ],
)
def test_what_would_have_no_effect_or_another_one_is_refused(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why), cluster(**asked):
        pytest.fail("it began")
