"""Doctor and runs on pods whose programs are the model's brokers; `kubectl` is the one of the tests."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import ExitCode
from core.programs import environment
from core.runtime import run_blocking
from harness.external.reaper import LOG
from harness.modelled.real.cluster import ModelCluster
from tests.harness.external.conftest import FileMaker, command, inquest
from tests.harness.external.kubelet import Cluster, pod
from tests.harness.external.test_runs import only_run
from tests.harness.external.test_trial import doctor
from tests.processes import state
from tests.waiting import until

pytestmark = pytest.mark.slow
PODS = 'kubernetes = "kafka/app=kafka"\n'
WHY = "pod kafka-1: its program is process 1 of its container, which no signal from inside stops"
Made = Callable[..., Cluster]


@pytest.fixture
def pods(model: ModelCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Makes pods of the model's brokers."""
    clusters: list[Cluster] = []

    def start(name: str) -> int:
        ended = clusters[-1].pid(name)  # its first thread may end before the others do
        until(lambda: ended not in model.pids, f"all threads of {ended} end", 30)
        before = set(model.pids)
        run_blocking(model.revive([int(name.removeprefix("kafka-"))]))
        (pid,) = set(model.pids) - before
        return pid

    def make(*, one: bool = False) -> Cluster:
        first = {f"kafka-{node}": pid for node, pid in zip(model.nodes, model.pids, strict=True)}
        clusters.append(Cluster(tmp_path, [pod(name) for name in first], start, first, one=one))
        monkeypatch.setenv("PATH", clusters[-1].path)
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.stop()


@pytest.mark.sampled(19)
def test_doctor_ends_and_stops_pods_and_sees_them_back(
    model: ModelCluster, cluster_file: FileMaker, pods: Made
) -> None:
    cluster = pods()
    before = [cluster.uid(f"kafka-{node}") for node in model.nodes]
    code, said = doctor(cluster_file(PODS), "--owned")
    assert code == ExitCode.VALID, said
    listed = ", ".join(f"{node} = kafka-{node}" for node in model.nodes)
    assert said[2] == f"well  nodes: pods {listed}; namespace kafka, context kind-here, container kafka"
    assert said[3:-4] == [
        f"well  {breaks}, {heals}: node {node}: it did not answer, and answers again"
        for breaks, heals in (("kill", "revive"), ("shut_down", "revive"), ("pause", "resume"))
        for node in model.nodes
    ]
    assert said[-2:] == [
        f"well  collect: node {model.nodes[-1]}: its log, and 0 folders of its disk",
        "well  healing: all hooks that heal, on all nodes at once",
    ]
    assert not set(before) & {cluster.uid(f"kafka-{node}") for node in model.nodes}


@pytest.mark.sampled(10)
def test_doctor_says_which_hooks_do_not_exist(cluster_file: FileMaker, pods: Made) -> None:
    pods(one=True)
    code, said = doctor(cluster_file(f"{PODS}[hooks]\nshut_down = 'exit 5'\n"), "--owned")
    assert code == ExitCode.HARNESS
    assert said[3:6] == [f"well  hook {hook}: there is none: {WHY}" for hook in ("kill", "pause", "resume")]
    assert not any("kill, revive" in line or "pause, resume" in line for line in said)


@pytest.mark.sampled(32)
@pytest.mark.parametrize(
    ("nemesis", "lacks"),
    [
        ("kill", f"kill and revive; {WHY}"),
        ("pause", f"pause and resume; {WHY}"),
        ("partition", "cut and mend\n"),
    ],
)
def test_a_run_whose_hooks_do_not_exist_is_refused_and_why(
    nemesis: str, lacks: str, cluster_file: FileMaker, pods: Made
) -> None:
    pods(one=True)
    code, said = inquest(cluster_file(PODS), "--nemesis", nemesis, "--duration", "30")
    assert (code, said.count("\n")) == (ExitCode.USAGE, 1), said
    assert f"the cluster's file lacks the hooks {lacks}" in said


@pytest.mark.sampled(8)
def test_other_pods_than_brokers_are_one_line(cluster_file: FileMaker, pods: Made) -> None:
    pods()
    some = 'kubernetes = { namespace = "kafka", pods = { 1 = "kafka-1", 2 = "kafka-2" } }\n'
    code, said = inquest(cluster_file(some), "--nemesis", "kill")
    assert (code, said.count("\n")) == (ExitCode.USAGE, 1), said
    assert "the file names the brokers 1, 2, and the cluster has 1, 2, 3" in said


@pytest.mark.sampled(14)
def test_a_killed_harness_leaves_no_pod_stopped(
    model: ModelCluster, cluster_file: FileMaker, pods: Made
) -> None:
    """The reaper acts on the pods of the context that was current when the run began."""
    cluster = pods()
    pids = [cluster.pid(f"kafka-{node}") for node in model.nodes]
    file = cluster_file(PODS)
    words = ("--nemesis", "pause:long", "--duration", "40", "--owned")
    with subprocess.Popen(command(file, *words), env=environment(), stderr=subprocess.DEVNULL) as harness:
        until(lambda: "T" in map(state, pids), "one stands still")
        cluster.say(context="another")
        harness.send_signal(signal.SIGKILL)
    until(lambda: "T" not in map(state, pids), "all go on")
    log = only_run(file).cluster / LOG
    # It has claimed the cluster until then.
    until(lambda: log.exists() and "left on the cluster" in log.read_text(), "the reaper clears up")
    assert log.read_text().startswith("all nodes are healed\n")
    assert not any("--context=another" in words for words in cluster.calls())
