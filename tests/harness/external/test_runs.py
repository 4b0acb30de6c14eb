"""Runs on a cluster that the harness did not start: the model's brokers, started by this test."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.config import Application, recorded_config, run_config
from core.errors import ExitCode
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.op import TopicPartition
from core.programs import environment
from core.runtime import run_blocking
from core.systems import ExternalSection
from harness.brokers.admin import elections
from harness.external import belongings
from harness.external.file import read
from harness.external.reaper import LOG
from harness.external.survey import SESSION
from harness.modelled.real.cluster import ModelCluster
from history.events import FaultStarted, decode
from history.run_folder import Run
from tests.harness.external.conftest import FileMaker, command, inquest
from tests.processes import state
from tests.waiting import until

pytestmark = pytest.mark.slow
SHORT = ("--duration", "4", "--rate", "60", "--set", "fault_s=1", "--set", "calm_s=0.5", "--owned")
PAUSES = "[hooks]\npause = 'kill -s STOP \"$INQUEST_NAME\"'\nresume = 'kill -s CONT \"$INQUEST_NAME\"'\n"


def held_up(folder: Path) -> str:
    """`PAUSES`, but the first pause waits for the file `go`, after it has made the file `begun`."""
    go = (
        f"for _ in $(seq 3000); do [ ! -e {folder}/go ] || break; sleep 0.02; done"  # ends where a test fails
    )
    late = f"touch {folder}/begun; {go}; touch {folder}/done"
    return PAUSES.replace("kill -s STOP", f"{late}; kill -s STOP")


def topic_of_another(model: ModelCluster, file: Path) -> str:
    """A topic that another run has made by now, whose harness found nothing of the prefix."""
    topic = f"{read(file).cluster.prefix}another-queue"
    run_blocking(model.create_topic(topic, 1, 3, {}))
    return topic


TOPICS = {"copier": ("copier-in", "copier-out"), "transactions": ("transactions",)}


def only_run(file: Path) -> Run:
    (folder,) = [path for path in (file.parent / "results").iterdir() if not path.is_symlink()]
    return Run(folder)


def topics(model: ModelCluster) -> tuple[str, ...]:
    return belongings.listed(model.admin).topics


def events(run: Run) -> list[object]:
    return list(decode(run.events.read_bytes()))


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("kind", "code", "said"), [("at-most-once", ExitCode.ANOMALY, "eos-loss"), ("right", ExitCode.VALID, "")]
)
def test_a_file_brings_its_application(kind: str, code: ExitCode, said: str, cluster_file: FileMaker) -> None:
    app = f"{sys.executable} examples/applications/copier.py {kind} 0.12"
    file = cluster_file(f'[app]\ncommand = "{app}"\nin = "orders"\n')
    words = ("--duration", "30", "--rate", "3", "--nemesis", "client:crash@member")
    calm = ("--set", "fault_s=2", "--set", "calm_s=8")  # a group needs 6 s to miss a member
    ended, output = inquest(file, *SHORT, *words, *calm)
    assert ended == code, output
    assert said in output
    assert recorded_config(only_run(file).config).app == Application(input="orders")


@pytest.mark.sampled(11)
@pytest.mark.parametrize(
    ("workload", "nemesis"), [("copier", "client,elections"), ("transactions", "wire:fetch")]
)
def test_without_hooks_clients_leaders_and_requests_are_hit(
    workload: str, nemesis: str, model: ModelCluster, cluster_file: FileMaker
) -> None:
    file = cluster_file()
    before = topics(model)
    code, said = inquest(file, "--workload", workload, "--nemesis", nemesis, *SHORT)
    assert code == ExitCode.VALID, said
    run = only_run(file)
    config = recorded_config(run.config)
    assert (config.sut, config.brokers, config.broker_settings[SESSION]) == ("external", 3, "9000")
    assert any(isinstance(event, FaultStarted) for event in events(run))
    assert f"INQUEST_CLUSTER={file}" in said
    assert "broker_settings" not in said
    assert config.prefix != config.section(ExternalSection).prefix  # names are of this run alone
    made = set(topics(model)) - set(before)
    assert made == {config.prefix + topic for topic in TOPICS[workload]}
    assert f"left on the cluster: topics {', '.join(sorted(made))}" in said  # the model deletes none
    assert not belongings.listed(model.admin).under(config.prefix).groups or workload == "copier"


@pytest.mark.sampled(30)
@pytest.mark.parametrize(
    ("nemesis", "why"),
    [
        ("kill", "needs a system that is Killable; the cluster's file lacks the hooks kill and revive"),
        ("pause", "lacks the hooks pause and resume"),
        ("restart", "lacks the hooks shut_down and revive"),
        ("partition", "lacks the hooks cut and mend"),
        ("kill,pause", "lacks the hooks kill and revive, pause and resume"),
        ("links", "needs a system that is Linked"),
    ],
)
def test_a_nemesis_whose_hooks_are_not_there_is_refused(
    nemesis: str, why: str, model: ModelCluster, cluster_file: FileMaker
) -> None:
    file = cluster_file()
    before = topics(model)
    code, said = inquest(file, "--nemesis", nemesis, "--duration", "30")
    assert (code, said.count("\n")) == (ExitCode.USAGE, 1), said
    assert why in said
    assert topics(model) == before
    assert not (file.parent / "results").exists()


@pytest.mark.sampled(35)
def test_a_cluster_with_topics_of_others_is_refused(model: ModelCluster, cluster_file: FileMaker) -> None:
    theirs = f"orders-{os.getpid()}"
    run_blocking(model.create_topic(theirs, 1, 3, {}))
    file = cluster_file()
    code, said = inquest(file, "--nemesis", "none", "--duration", "1")
    assert code == ExitCode.USAGE
    assert "which others may use: --owned, if it is yours to break" in said
    assert list((file.parent / "results").iterdir()) == []


@pytest.mark.sampled(8)
def test_what_another_run_has_is_not_touched(model: ModelCluster, cluster_file: FileMaker) -> None:
    prefix = f"taken-{os.getpid()}-"
    run_blocking(model.create_topic(f"{prefix}queue", 1, 3, {}))
    code, said = inquest(cluster_file(prefix=prefix), "--nemesis", "none", *SHORT)
    assert code == ExitCode.USAGE
    assert f"the cluster has topics {prefix}queue: a run is under way" in said


@pytest.mark.sampled(48)
@pytest.mark.parametrize("hooked", ["heals", "cannot heal"])
def test_a_killed_harness_leaves_no_fault_in_force(
    hooked: str, model: ModelCluster, cluster_file: FileMaker
) -> None:
    """And what it created is named: the model deletes no topics."""
    pids = dict(zip(model.nodes, model.pids, strict=True))
    nodes = ", ".join(f'{node} = "{pid}"' for node, pid in pids.items())
    heal = "" if hooked == "heals" else "heal_all = 'echo it is broken; exit 1'\n"
    file = cluster_file(f"nodes = {{ {nodes} }}\n{PAUSES}{heal}")
    words = ("--nemesis", "pause:long", "--duration", "40", "--owned")
    with subprocess.Popen(command(file, *words), env=environment(), stderr=subprocess.DEVNULL) as harness:
        until(lambda: "T" in map(state, pids.values()), "one stands still")
        begin = time.monotonic()
        harness.send_signal(signal.SIGKILL)
    until(lambda: "T" not in map(state, pids.values()), "all go on")
    assert time.monotonic() - begin < 20
    log = only_run(file).cluster / LOG
    healed = {"heals": "all nodes are healed\n", "cannot heal": "hook heal_all: exit code 1: it is broken\n"}
    until(lambda: log.exists() and log.read_text().startswith(healed[hooked]), "the reaper heals")
    until(lambda: "left on the cluster: topics inquest-" in log.read_text(), "the reaper says what is left")


@pytest.mark.sampled(19)
def test_a_harness_that_is_killed_in_a_hook_leaves_no_fault_in_force(
    model: ModelCluster, cluster_file: FileMaker, tmp_path: Path
) -> None:
    """The hook outlives it, and breaks the node after its death."""
    pids = dict(zip(model.nodes, model.pids, strict=True))
    nodes = ", ".join(f'{node} = "{pid}"' for node, pid in pids.items())
    hooks = held_up(tmp_path).replace(
        "kill -s CONT", f'echo "$INQUEST_PORT" >>{tmp_path}/$INQUEST_NODE; kill -s CONT'
    )
    file = cluster_file(f"nodes = {{ {nodes} }}\n{hooks}")
    words = ("--nemesis", "pause:long", "--duration", "40", "--owned")
    with subprocess.Popen(command(file, *words), env=environment(), stderr=subprocess.DEVNULL) as harness:
        until(lambda: (tmp_path / "begun").exists(), "a hook is under way")
        theirs = topic_of_another(model, file)
        harness.send_signal(signal.SIGKILL)
    log = only_run(file).cluster / LOG
    with pytest.raises(AssertionError, match="the reaper acts"):
        until(log.exists, "the reaper acts", 1)  # it waits for the hook
    (tmp_path / "go").touch()
    until(lambda: log.exists() and "left on the cluster" in log.read_text(), "the reaper clears up")
    assert log.read_text().startswith("all nodes are healed\n")
    assert theirs not in log.read_text()
    assert (tmp_path / "done").exists()
    assert "T" not in map(state, pids.values())
    dialled = [{*(tmp_path / str(node)).read_text().splitlines()} for node in model.nodes]
    listeners = model.endpoint().args["bootstrap.servers"].split(",")
    assert dialled == [{where.rpartition(":")[2]} for where in listeners]


@pytest.mark.sampled(19)
def test_a_killed_harness_leaves_internal_topics_where_they_were(
    model: ModelCluster, cluster_file: FileMaker
) -> None:
    file, longer = cluster_file(), ("--set", "fault_s=20", "--owned")
    words = ("--workload", "transactions", "--nemesis", "reassign:shrink", "--duration", "40", *longer)
    with subprocess.Popen(command(file, *words), env=environment(), stderr=subprocess.DEVNULL) as harness:
        until(lambda: shrunk(model), "a partition of an internal topic has fewer replicas")
        harness.send_signal(signal.SIGKILL)
    log = only_run(file).cluster / LOG
    until(lambda: log.exists() and "left on the cluster" in log.read_text(), "the reaper clears up")
    assert "may have others" not in log.read_text()
    assert not shrunk(model)


def shrunk(model: ModelCluster) -> list[TopicPartition]:
    """Partitions of the coordinators' topics that lack a replica."""
    replicas = elections.replicas(model.admin)
    return [
        tp
        for tp, nodes in replicas.items()
        if tp.topic in (TRANSACTION_TOPIC, GROUP_TOPIC) and len(nodes) < 3
    ]


@pytest.mark.sampled(14)
def test_paused_brokers_continue_and_the_run_is_judged(model: ModelCluster, cluster_file: FileMaker) -> None:
    nodes = ", ".join(f'{n} = "{pid}"' for n, pid in zip(model.nodes, model.pids, strict=True))
    file = cluster_file(f"nodes = {{ {nodes} }}\n{PAUSES}")
    code, said = inquest(file, "--workload", "queue", "--nemesis", "pause:short", *SHORT)
    assert code == ExitCode.VALID, said
    hit = [event for event in events(only_run(file)) if isinstance(event, FaultStarted)]
    assert {event.name.partition(":")[0] for event in hit} == {"pause"}


@pytest.mark.sampled(14)
def test_ctrl_c_heals_and_judges(model: ModelCluster, cluster_file: FileMaker, tmp_path: Path) -> None:
    pids = dict(zip(model.nodes, model.pids, strict=True))
    nodes = ", ".join(f'{node} = "{pid}"' for node, pid in pids.items())
    file = cluster_file(f"nodes = {{ {nodes} }}\n{held_up(tmp_path)}")
    words = ("--workload", "transactions", "--nemesis", "pause:long", "--duration", "40", "--owned")
    with subprocess.Popen(
        command(file, *words), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as harness:
        until(lambda: (tmp_path / "begun").exists(), "a hook is under way")
        theirs = topic_of_another(model, file)
        (tmp_path / "go").touch()
        until(lambda: "T" in map(state, pids.values()), "one stands still")
        harness.send_signal(signal.SIGINT)
        said, _ = harness.communicate(timeout=200)
    assert harness.returncode == ExitCode.INTERRUPTED, said
    assert "T" not in map(state, pids.values())
    prefix = recorded_config(only_run(file).config).prefix
    assert f"left on the cluster: topics {prefix}transactions" in said  # the model deletes none
    assert theirs not in said
    assert f"(transactional.id.expiration.ms): {prefix}" in said


@pytest.mark.sampled(8)
def test_a_second_run_on_the_cluster_is_refused(model: ModelCluster, cluster_file: FileMaker) -> None:
    claim = belongings.claim(model.admin)
    try:
        code, said = inquest(cluster_file(), "--nemesis", "none", *SHORT)
    finally:
        claim.release()
    assert code == ExitCode.HARNESS
    assert f"a run of the name cluster {model.admin.cluster} is under way on this machine" in said


@pytest.mark.sampled(48)
def test_a_planted_bug_of_the_cluster_is_found(tmp_path: Path) -> None:
    """Its clean twin is judged above: the same workload, on brokers without it."""
    config = run_config({"sut": "model", "seed": 1, "mutant": "lso-ignores-open"})
    buggy = ModelCluster(config, tmp_path / f"buggy-{os.getpid()}")
    file = tmp_path / "cluster.toml"
    try:
        run_blocking(buggy.start())
        file.write_text(f'[cluster]\nbootstrap = "{buggy.endpoint().args["bootstrap.servers"]}"\n')
        share = ("--set", "abort_share=0.3")
        code, said = inquest(file, "--workload", "transactions", "--nemesis", "elections", *SHORT, *share)
    finally:
        run_blocking(buggy.stop())
    assert code == ExitCode.ANOMALY, said
    assert "aborted-read" in said.splitlines()[0]
