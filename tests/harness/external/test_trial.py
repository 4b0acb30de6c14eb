"""`inquest doctor --cluster FILE` on the model's brokers: hooks that work, and ones that only say so."""

import os
import subprocess
from pathlib import Path

import pytest

from core.errors import ExitCode
from core.programs import environment, program
from core.runtime import run_blocking
from harness.modelled.real.cluster import ModelCluster
from harness.processes.guard import stopped
from tests.harness.external.conftest import FileMaker

pytestmark = pytest.mark.slow
PAUSE, RESUME = "pause = 'kill -s STOP \"$INQUEST_NAME\"'\n", "resume = 'kill -s CONT \"$INQUEST_NAME\"'\n"


def nodes(model: ModelCluster) -> str:
    named = ", ".join(f'{node} = "{pid}"' for node, pid in zip(model.nodes, model.pids, strict=True))
    return f"nodes = {{ {named} }}\n"


def doctor(file: Path, *words: str) -> tuple[int, list[str]]:
    command = program("harness.cli.main", "doctor", "--cluster", str(file), *words)
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=240
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.mark.sampled(35)
def test_hooks_that_work_are_well(model: ModelCluster, cluster_file: FileMaker, tmp_path: Path) -> None:
    collect = 'collect = \'echo log >"$INQUEST_TARGET/server.log"; mkdir "$INQUEST_TARGET/data/orders-0"\'\n'
    heal = f"heal_all = 'touch {tmp_path}/healed'\n"
    file = cluster_file(f"{nodes(model)}[hooks]\n{PAUSE}{RESUME}{collect}{heal}")
    code, said = doctor(file, "--owned")
    assert code == ExitCode.VALID, said
    assert said[0].startswith("well  cluster: ")
    assert said[2:5] == [
        f"well  pause, resume: node {node}: it did not answer, and answers again" for node in model.nodes
    ]
    assert said[5] == "well  collect: node 1: its log, and 1 folders of its disk"
    assert said[-1] == "well  healing: all hooks that heal, on all nodes at once"
    assert (tmp_path / "healed").exists()


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        ("pause = 'true'\nresume = 'true'\n", "after the hook pause the broker still answers"),
        ("pause = 'echo cannot; exit 1'\nresume = 'true'\n", "hook pause of node 1: exit code 1: cannot"),
        (
            f"{PAUSE}resume = 'exit 4'\nheal_all = 'kill -s CONT $INQUEST_NAMES'\n",
            "hook resume of node 1: exit",
        ),
    ],
)
def test_hooks_that_only_say_so_are_not(
    hooks: str, why: str, model: ModelCluster, cluster_file: FileMaker
) -> None:
    code, said = doctor(cluster_file(f"{nodes(model)}[hooks]\ndeadline_s = 5\n{hooks}"), "--owned")
    assert code == ExitCode.HARNESS
    (line,) = [line for line in said if "pause, resume: node 1" in line]
    assert line.startswith("BAD ")
    assert why in line
    assert not any(stopped(pid) for pid in model.pids)


@pytest.mark.sampled(40)
def test_a_cut_from_other_nodes_is_tried(model: ModelCluster, cluster_file: FileMaker) -> None:
    """A broker that stands still hears nothing of any other; the hook of node 1 cuts off clients alone."""
    cut = "cut = 'case $INQUEST_NODE:$INQUEST_CUTS in 1:*clients|[23]:*) kill -s STOP $INQUEST_NAME;; esac'\n"
    mend = "mend = 'kill -s CONT $INQUEST_NAME'\n"
    code, said = doctor(cluster_file(f"{nodes(model)}[hooks]\n{cut}{mend}"), "--owned")
    assert code == ExitCode.HARNESS
    clients = "it did not answer, and answers again"
    assert said[2:5] == [f"well  cut, mend: node {node}: {clients}" for node in model.nodes]
    peers = "brokers lost sight of each other, and see each other again"
    what = "cut from other nodes, mend: node"
    assert said[5:8] == [
        f"BAD   {what} 1: after the hook cut all brokers still see each other",
        *(f"well  {what} {node}: {peers}" for node in model.nodes[1:]),
    ]
    assert said[-1] == "well  healing: all hooks that heal, on all nodes at once"


@pytest.mark.sampled(22)
def test_a_cluster_of_others_is_not_broken(model: ModelCluster, cluster_file: FileMaker) -> None:
    run_blocking(model.create_topic(f"orders-{os.getpid()}-too", 1, 3, {}))
    code, said = doctor(cluster_file(f"{nodes(model)}[hooks]\n{PAUSE}{RESUME}"))
    assert code == ExitCode.USAGE
    assert "--owned, if it is yours to break" in said[-1]
    assert not any("pause" in line for line in said)


@pytest.mark.sampled(10)
def test_what_cannot_be_deleted_is_named(model: ModelCluster, cluster_file: FileMaker) -> None:
    prefix = f"stays-{os.getpid()}-"
    run_blocking(model.create_topic(f"{prefix}queue", 1, 3, {}))  # the model deletes no topics
    code, said = doctor(cluster_file(prefix=prefix), "--owned")
    assert code == ExitCode.HARNESS
    assert said[-1] == f"BAD   prefix: left on the cluster: topics {prefix}queue"
