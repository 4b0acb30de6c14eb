"""Three brokers of the model as the cluster that a user has: they were started by somebody else."""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.config import run_config
from core.extensions import CLUSTER, OWNED
from core.programs import environment, program
from core.runtime import run_blocking
from harness.brokers.admin import broker_views
from harness.brokers.admin.protocol import view
from harness.modelled.real.cluster import ModelCluster
from harness.processes.waiting import NotYet, until

_numbers = itertools.count(1)
FileMaker = Callable[..., Path]


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelCluster]:
    made = ModelCluster(
        run_config({"sut": "model", "seed": 1}), tmp_path_factory.mktemp(f"theirs-{os.getpid()}")
    )
    try:
        run_blocking(made.start())
        yield made
    finally:
        run_blocking(made.stop())


@pytest.fixture
def model(started: ModelCluster) -> ModelCluster:
    """All brokers are there: a fault of the test before may have fenced one."""
    until(60, 0.2, lambda: joined(started))
    return started


def joined(model: ModelCluster) -> None:
    views = broker_views.ask_all(model.admin, view)
    if [views[node].brokers for node in sorted(views)] != [frozenset(model.brokers)] * len(model.brokers):
        raise NotYet("a broker is away")


@pytest.fixture
def cluster_file(model: ModelCluster, tmp_path: Path) -> FileMaker:
    """Writes a file; the model deletes no topics, so that each has a prefix of its own."""

    def write(more: str = "", *, prefix: str = "") -> Path:
        bootstrap = model.endpoint().args["bootstrap.servers"]
        path = tmp_path / "cluster.toml"
        name = prefix or f"inquest-{os.getpid()}-{next(_numbers)}-"
        path.write_text(f'[cluster]\nbootstrap = "{bootstrap}"\nprefix = "{name}"\n{more}')
        return path

    return write


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLUSTER, "")
    monkeypatch.setenv(OWNED, "")


def command(file: Path, *words: str) -> list[str]:
    results = str(file.parent / "results")
    options = ("--engine", "process", "--seed", "1", "--results", results)
    return program("harness.cli.main", "run", "--cluster", str(file), *options, *words)


def inquest(file: Path, *words: str) -> tuple[int, str]:
    """Exit code of a run, and everything that was written."""
    done = subprocess.run(
        command(file, *words), env=environment(), capture_output=True, text=True, check=False, timeout=240
    )
    return done.returncode, done.stdout + done.stderr
