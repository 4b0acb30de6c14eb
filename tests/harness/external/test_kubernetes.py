"""The shorthand `kubernetes`: which pods are nodes, what its hooks do to them, what is refused and how.

The pods are processes of this machine; `kubectl` is a program that knows the options that the shorthand uses.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.capabilities import Killable, Pausable, Restartable, Revivable
from core.errors import ClusterError, ConfigError, Unanswered
from harness.external import hooks, kubernetes_pods
from harness.external.file import ClusterFile
from harness.external.hooks import HookRunner
from harness.external.means import commands, means
from harness.external.nodes import Means
from tests.harness.external.kubelet import Cluster, pod
from tests.processes import alive, state
from tests.waiting import until

pytestmark = pytest.mark.slow
STRIMZI = "kafka/strimzi.io/cluster=mine"
Made = Callable[..., Cluster]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Makes a cluster whose `kubectl` is the one on PATH, and ends it."""
    kubernetes_pods.means_of_pods.cache_clear()
    programs: list[subprocess.Popen[bytes]] = []
    clusters: list[Cluster] = []

    def start(_: str) -> int:
        programs.append(subprocess.Popen(["sleep", "600"]))
        return programs[-1].pid

    def make(*pods: dict[str, Any], one: bool = False, **said: Any) -> Cluster:
        clusters.append(
            Cluster(tmp_path, list(pods) or [pod(f"kafka-{n}") for n in range(2)], start, one=one)
        )
        clusters[-1].say(**said)
        monkeypatch.setenv("PATH", clusters[-1].path)
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.stop()
    for program in programs:
        program.kill()
        program.wait()
    kubernetes_pods.means_of_pods.cache_clear()


def file(kubernetes: object = "kafka/app=kafka", deadline_s: float = 20, **more: Any) -> ClusterFile:
    given = {"bootstrap": "here:1", "kubernetes": kubernetes, **more}
    return ClusterFile.model_validate({"cluster": given, "hooks": {"deadline_s": deadline_s}})


def runner(given: ClusterFile | None = None) -> HookRunner:
    its = given or file()
    return HookRunner(its, means(its))


def strimzi(name: str, role: str = "", owner: str = "StrimziPodSet") -> dict[str, Any]:
    labels = {f"strimzi.io/{one}-role": str(one in role).lower() for one in ("broker", "controller") if role}
    return pod(name, owner, labels={"strimzi.io/cluster": "mine", **labels})


# ---- which pods are nodes


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("kafka/app=kafka", {0: "kafka-0", 1: "kafka-1"}),
        ({"namespace": "kafka", "label": "app=kafka", "offset": 1}, {1: "kafka-0", 2: "kafka-1"}),
        ({"namespace": "kafka", "pods": {7: "kafka-0", 3: "kafka-1"}}, {3: "kafka-1", 7: "kafka-0"}),
        ({"namespace": "kafka", "pods": {7: "kafka-1"}}, {7: "kafka-1"}),
    ],
)
def test_numbers_come_from_names_or_from_the_file(given: object, names: dict[int, str], made: Made) -> None:
    made()
    assert means(file(given)).names == names


def test_of_strimzis_pods_those_that_it_starts_again_are_nodes(made: Made) -> None:
    made(
        strimzi("mine-brokers-10", "broker,controller"),
        strimzi("mine-controllers-3", "controller"),
        strimzi("mine-entity-operator-5c9c-x2", owner="ReplicaSet"),
        pod("other-0"),
    )
    its = means(file(STRIMZI))
    assert (its.names, its.controllers) == ({3: "mine-controllers-3", 10: "mine-brokers-10"}, (3,))
    assert "pods 3 = mine-controllers-3, 10 = mine-brokers-10; namespace kafka, context kind-here" in its.text


@pytest.mark.parametrize(
    ("containers", "given", "container"),
    [(("broker",), "", "broker"), (("exporter", "kafka"), "", "kafka"), (("a", "b"), "b", "b")],
)
def test_the_container_of_a_pod_with_several(
    containers: tuple[str, ...], given: str, container: str, made: Made
) -> None:
    made(pod("kafka-0", containers=containers))
    its = means(file({"namespace": "kafka", "label": "app=kafka", "container": given}))
    assert its.around["INQUEST_CONTAINER"] == container


@pytest.mark.sampled(6)
def test_the_context_is_the_one_when_the_run_begins(made: Made) -> None:
    cluster = made()
    hooked = runner()
    cluster.say(context="another")
    hooked.on_nodes("shut_down", (0, 1))
    contexts = [word for words in cluster.calls() for word in words if word.startswith("--context=")]
    assert set(contexts) == {"--context=kind-here"}
    assert len(contexts) == len(cluster.calls()) - 1  # all but the question for the current one


@pytest.mark.sampled(5)
def test_without_a_context_kubectl_takes_its_own(made: Made) -> None:
    cluster = made(context="")
    runner().on_nodes("shut_down", (0,))
    assert not any("context=" in word for words in cluster.calls() for word in words)


BAD: dict[str, tuple[object, str]] = {
    "another label": ("kafka/app=kafak", "no pod has the label app=kafak in namespace kafka"),
    "no such namespace": ("kafak/app=kafka", "there is no namespace kafak"),
    "no such pod": ({"namespace": "kafka", "pods": {1: "kafka-7"}}, "namespace kafka has no pod kafka-7"),
    "a pod of no namespace": ({"namespace": "x", "pods": {1: "kafka-7"}}, "there is no namespace x"),
    "numbers below 0": (
        {"namespace": "kafka", "label": "app=kafka", "offset": -1},
        "pod kafka-0: its name gives no number of a node",
    ),
    "another container": (
        {"namespace": "kafka", "label": "app=kafka", "container": "broker"},
        "pod kafka-0 has no container broker, but kafka",
    ),
    "pods that nothing starts again": ("kafka/app=web", "belongs to a StatefulSet or a StrimziPodSet"),
    "two pods of one number": ("kafka/app=two", "pods a-0 and b-0 are both node 0: a narrower label"),
    "a name without a number": ("kafka/app=db", "pod db: its name gives no number of a node: name all"),
    "several containers": ("kafka/app=many", "pod many-0 has the containers a, b: name one, container"),
    "a controller that is no pod": ("kafka/app=kafka", "controllers: node 9 has no pod; pods 0 = kafka-0"),
}


@pytest.mark.parametrize("name", BAD)
def test_words_of_the_file_that_mean_no_pods_are_one_line(name: str, made: Made) -> None:
    made(
        *(pod(f"kafka-{n}") for n in range(2)),
        pod("web-1", owner="ReplicaSet", labels={"app": "web"}),
        *(pod(f"{name}-0", labels={"app": "two"}) for name in "ab"),
        pod("db", labels={"app": "db"}),
        pod("many-0", containers=("a", "b"), labels={"app": "many"}),
    )
    given, why = BAD[name]
    more: dict[str, Any] = {"controllers": [9]} if name == "a controller that is no pod" else {}
    with pytest.raises(ConfigError, match=why) as error:
        means(file(given, **more))
    assert "\n" not in str(error.value)


FORBIDDEN = 'Error from server (Forbidden): pods is forbidden: User "me" cannot list resource "pods"'


def test_what_kubectl_refuses_is_repeated(made: Made) -> None:
    made(refuses={"get": f"E1127 a line of its log\n{FORBIDDEN}"})
    with pytest.raises(ClusterError) as error:
        means(file())
    assert str(error.value) == f"--cluster: kubernetes: kubectl: {FORBIDDEN}"


@pytest.mark.parametrize("text", ["NAME  READY\nkafka-0  1/1", "[]", "7"])
def test_what_kubectl_wrote_has_to_be_json(text: str, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made()
    monkeypatch.setattr(kubernetes_pods, "_output", lambda *words: text if "get" in words else "kind-here")
    with pytest.raises(ClusterError) as error:
        means(file())
    assert str(error.value) == f"--cluster: kubernetes: kubectl wrote no JSON, but {text!r}"


@pytest.mark.parametrize("verb", ["config", "get", "exec"])
def test_a_kubectl_that_hangs_is_ended(verb: str, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made(hangs=[verb])
    monkeypatch.setattr(kubernetes_pods, "ASK_S", 2.0)
    with pytest.raises(Unanswered, match=r"^--cluster: kubernetes: kubectl did not end within 2 s$"):
        means(file())


def test_without_kubectl_there_are_no_pods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kubernetes_pods.means_of_pods.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"^--cluster: kubernetes: there is no program kubectl on PATH$"):
        means(file())


def test_a_pod_that_does_not_run_is_named(made: Made) -> None:
    cluster = made()
    first = cluster.pid("kafka-1")
    os.kill(first, signal.SIGKILL)
    until(lambda: cluster.pid("kafka-1") != first, "it is started again", 60)
    os.kill(cluster.pid("kafka-1"), signal.SIGKILL)
    until(lambda: "waiting" in cluster.status("kafka-1")["state"], "it waits", 60)
    with pytest.raises(ClusterError, match="pod kafka-1 does not run: CrashLoopBackOff"):
        means(file())


# ---- what hooks do


@pytest.mark.sampled(6)
def test_kill_is_in_force_when_it_returns_and_the_pod_stays(made: Made) -> None:
    cluster = made()
    pids, uid = [cluster.pid(f"kafka-{n}") for n in range(2)], cluster.uid("kafka-0")
    runner().on_nodes("kill", (0,))
    assert [alive(pid) for pid in pids] == [False, True]
    runner().on_nodes("revive", (0, 1))
    assert alive(cluster.pid("kafka-0"))
    assert cluster.uid("kafka-0") == uid
    assert cluster.status("kafka-0")["restartCount"] == 1
    assert cluster.pid("kafka-1") == pids[1]


@pytest.mark.sampled(18)
def test_a_node_that_waits_before_its_next_start_is_revived_in_a_new_pod(made: Made) -> None:
    cluster, hooked = made(), runner()
    uid = cluster.uid("kafka-0")
    for hit in ((0, 1), (0,)):
        hooked.on_nodes("kill", hit)
        hooked.on_nodes("revive", (0, 1))
        assert all(alive(cluster.pid(f"kafka-{n}")) for n in range(2))
    assert cluster.uid("kafka-0") not in ("", uid)
    deleted = [words for words in cluster.calls() if "delete" in words]
    assert [words[3] for words in deleted] == ["pod"]
    assert not any("--force" in words or "--grace-period=0" in words for words in cluster.calls())


@pytest.mark.sampled(6)
def test_shut_down_ends_in_order_and_something_else_starts_it_again(made: Made) -> None:
    cluster, hooked = made(), runner()
    pid, uid = cluster.pid("kafka-0"), cluster.uid("kafka-0")
    hooked.on_nodes("shut_down", (0,))
    assert not alive(pid)
    hooked.on_nodes("revive", (0,))
    assert cluster.uid("kafka-0") != uid
    assert alive(cluster.pid("kafka-0"))


@pytest.mark.sampled(8)
def test_pause_and_resume_do_so_once_and_twice(made: Made) -> None:
    cluster, hooked = made(), runner()
    pid = cluster.pid("kafka-0")
    for hook, letter in [("pause", "T"), ("pause", "T"), ("resume", "S"), ("resume", "S")]:
        hooked.on_nodes(hook, (0,))
        assert state(pid) == letter
    assert state(cluster.pid("kafka-1")) == "S"


@pytest.mark.sampled(8)
def test_where_kubectl_does_not_answer_nothing_was_killed_or_resumed(made: Made) -> None:
    cluster, hooked = made(), runner()
    hooked.on_nodes("pause", (0,))
    hooked.on_nodes("revive", (0,))  # it asks after the pause, so that the next question is answered
    cluster.say(refuses={"exec": FORBIDDEN}, breaks=["get"])
    with pytest.raises(ClusterError, match=r"hook kill of node 0: .*unexpected EOF"):
        hooked.on_nodes("kill", (0,))
    cluster.say(refuses={"get": FORBIDDEN}, breaks=[])
    with pytest.raises(ClusterError, match=r"hook resume of node 0: .*Forbidden"):
        hooked.on_nodes("resume", (0,))
    assert state(cluster.pid("kafka-0")) == "T"


@pytest.mark.sampled(11)
def test_all_is_healed_at_once(made: Made) -> None:
    cluster, hooked = made(), runner()
    hooked.on_nodes("pause", (0,))
    hooked.on_nodes("kill", (1,))
    assert hooked.heal((0, 1)) == []
    assert [state(cluster.pid(f"kafka-{n}")) for n in range(2)] == ["S", "S"]


@pytest.mark.sampled(8)
def test_process_1_takes_no_signal_so_that_the_hooks_do_not_exist(made: Made) -> None:
    cluster, given = made(one=True), file()
    its = means(given)
    why = "pod kafka-0: its program is process 1 of its container, which no signal from inside stops"
    assert its.lacks == dict.fromkeys(("kill", "pause", "resume"), why)
    assert hooks.capabilities(commands(given, its.lacks)) == {Restartable, Revivable}
    hooked = HookRunner(given, its)
    hooked.on_nodes("shut_down", (0, 1))
    assert hooked.heal((0, 1)) == []
    assert alive(cluster.pid("kafka-0"))


@pytest.mark.sampled(5)
def test_its_absence_is_seen_by_the_hook_as_well(made: Made) -> None:
    """A hook that ends well has done what it says: here the signal would be lost without an error."""
    made(one=True)
    given = file()
    hooked = HookRunner(given, Means(names={0: "kafka-0"}, around=means(given).around))
    with pytest.raises(ClusterError, match="hook pause of node 0: exit code 3: its program is process 1"):
        hooked.on_node("pause", 0)
    with pytest.raises(ClusterError, match="hook kill of node 0: exit code 1: its program is process 1"):
        hooked.on_node("kill", 0)


@pytest.mark.sampled(2)
def test_where_no_signal_is_refused_all_hooks_exist(made: Made) -> None:
    made()
    given = file()
    assert means(given).lacks == {}
    assert hooks.capabilities(commands(given, ())) == {Killable, Pausable, Restartable, Revivable}


def test_who_may_not_run_programs_in_pods_may_shut_them_down(made: Made) -> None:
    made(refuses={"exec": 'Error from server (Forbidden): pods "kafka-0" is forbidden'})
    lacks = means(file()).lacks
    assert lacks["pause"] == 'pod kafka-0: Error from server (Forbidden): pods "kafka-0" is forbidden'


@pytest.mark.sampled(8)
def test_a_revival_that_does_not_come_says_what_it_saw(made: Made) -> None:
    cluster = made()
    given = file(deadline_s=3)
    hooked = runner(given)
    cluster.stop()  # nothing starts anything again
    text = (cluster.folder / "state.json").read_text().replace('"running": {"startedAt"', '"waiting": {"x"')
    (cluster.folder / "state.json").write_text(text)
    with pytest.raises(Unanswered, match=r"hook revive of node 0 did not end within 3 s: pod kafka-0: //$"):
        hooked.on_node("revive", 0)


# ---- what nodes left


def collected(made: Made, tmp_path: Path, *, starts: int) -> Path:
    cluster = made()
    partition = cluster.folder / "kafka-1" / "data" / "kafka-log1" / "q-0"
    partition.mkdir(parents=True)
    for name in ("0.log", "0.index"):
        (partition / name).write_text(name)
    hooked = runner(file(log_dirs="/data/kafka-log{node}"))
    for _ in range(starts):
        hooked.on_node("kill", 1)
        hooked.on_node("revive", 1)
    target = tmp_path / "target"
    (target / "data").mkdir(parents=True)
    hooked.on_node("collect", 1, INQUEST_TARGET=str(target))
    return target


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("starts", "log"), [(0, "log of start 0\n"), (1, "log of start 0\nlog of start 1\n")]
)
def test_collect_brings_logs_and_the_disk_of_this_node(
    starts: int, log: str, made: Made, tmp_path: Path
) -> None:
    target = collected(made, tmp_path, starts=starts)
    assert (target / "server.log").read_text() == log
    assert sorted(str(one.relative_to(target)) for one in target.rglob("*") if one.is_file()) == [
        "data/q-0/0.log", "server.log",
    ]  # fmt: skip


@pytest.mark.sampled(6)
def test_several_log_directories_are_copied_into_folders_of_their_own(made: Made, tmp_path: Path) -> None:
    cluster = made()
    for folder in ("one", "two"):
        (cluster.folder / "kafka-0" / folder / f"{folder}-0").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    runner(file(log_dirs="/one,/two")).on_node("collect", 0, INQUEST_TARGET=str(tmp_path))
    assert sorted(path.name for path in (tmp_path / "data").glob("*/*")) == ["one-0", "two-0"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("log_dirs", ["/nowhere", "/data", "/data,/data"])
def test_a_copy_of_a_disk_that_breaks_off_is_none(log_dirs: str, made: Made, tmp_path: Path) -> None:
    """tar takes an archive that ends between two files for a whole one."""
    cluster = made()
    (cluster.folder / "kafka-0" / "data").mkdir()
    hooked = runner(file(log_dirs=log_dirs))
    cluster.say(breaks=["exec"])
    (tmp_path / "data").mkdir()
    with pytest.raises(ClusterError, match="hook collect of node 0: exit code"):
        hooked.on_node("collect", 0, INQUEST_TARGET=str(tmp_path))
