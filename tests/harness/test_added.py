"""A system, a deployment of Kafka and a kind of load clients are each added by one entry and one module.

Each is an empty one, in a copy of the repository, and says in one sentence that it was asked.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import ExitCode
from tests.test_rooms import ROOMS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
IGNORED = shutil.ignore_patterns("__pycache__")
RUN = ("run", "--workload", "queue", "--duration", "5", "--engine", "process", "--seed", "1")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for room in (*ROOMS, "docker"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=IGNORED)
    return tmp_path


def add(copy: Path, module: str, code: str, registry: str, end: str, entry: str) -> None:
    """One module, and one entry at the end of a registry."""
    assert not (copy / module).exists()
    (copy / module).write_text(code)
    insert(copy / registry, end, entry)


def insert(file: Path, place: str, text: str) -> None:
    before = file.read_text()
    assert before.count(place) == 1
    file.write_text(before.replace(place, text + place))


def python(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(copy)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def inquest(copy: Path, *words: str) -> tuple[int, str]:
    """Exit code, and everything that was written."""
    done = python(copy, "-m", "harness.cli.main", *words)
    return done.returncode, done.stdout + done.stderr


SYSTEM = """
from core.capabilities import Pausable
from core.errors import ClusterError
from core.systems import EmptySection
from harness.run.backend import Backend


def cluster(config, folder):
    raise ClusterError(f"no cluster in {config.section(EmptySection).place}")


def capabilities(config):
    return {Pausable} if config.section(EmptySection).place == "here" else ()


EMPTY = Backend(cluster=cluster, capabilities=capabilities)
"""
SYSTEM_ENTRY = """\
    "empty": System(
        doc="a system without any node",
        section=EmptySection,
        short={"place": "place"},
        title=lambda its: f"nothing in {its.place}",
        backend=".empty:EMPTY",
    ),
"""
SECTION = """\
class EmptySection(Section):
    place: str = "nowhere"


"""


@pytest.mark.sampled(48)
def test_two_files_add_a_system(copy: Path) -> None:
    registry, end = "core/systems.py", '}\n"""Every system by the value of `sut`."""'
    add(copy, "harness/empty.py", SYSTEM, registry, end, SYSTEM_ENTRY)
    insert(copy / registry, "@dataclass(frozen=True, slots=True, kw_only=True)\nclass System:", SECTION)

    assert "  empty                        a system without any node" in inquest(copy, "list", "systems")[1]
    chosen = (*RUN, "--sut", "empty", "--set", "place=here")
    code, said = inquest(copy, *chosen, "--nemesis", "none")
    assert "preset safe · nothing in here · 3 brokers" in said
    assert (code, said.splitlines()[-1]) == (ExitCode.HARNESS, "inquest: no cluster in here")
    code, said = inquest(copy, *RUN, "--set", "place=here")
    assert code == ExitCode.USAGE
    assert "place=here is a setting of sut=empty, and this run has sut=kafka" in said


@pytest.mark.sampled(8)
def test_an_added_system_has_the_capabilities_of_its_configuration(copy: Path) -> None:
    registry, end = "core/systems.py", '}\n"""Every system by the value of `sut`."""'
    add(copy, "harness/empty.py", SYSTEM, registry, end, SYSTEM_ENTRY)
    insert(copy / registry, "@dataclass(frozen=True, slots=True, kw_only=True)\nclass System:", SECTION)

    there = (*RUN, "--sut", "empty", "--nemesis", "pause")
    code, said = inquest(copy, *there)
    assert (code, said) == (ExitCode.USAGE, "inquest: nemesis 'pause' needs a system that is Pausable\n")
    code, said = inquest(copy, *there, "--set", "place=here")
    assert (code, said.splitlines()[-1]) == (ExitCode.HARNESS, "inquest: no cluster in here")


CLIENTS = """
from dataclasses import replace

from core.errors import ConfigError
from harness.clients.librdkafka.settings import LIBRDKAFKA

NOTHING = replace(LIBRDKAFKA, name="nothing", honoured=None, trial=None)


def connect(args, spec):
    raise ConfigError(f"slot {spec.slot} has nothing for {min(args)}")
"""
CLIENTS_ENTRY = """\
    "nothing": ClientKind(doc="no clients", library=".nothing:NOTHING", session=".nothing:connect"),
"""


@pytest.mark.sampled(8)
def test_two_files_add_a_kind_of_load_clients(copy: Path) -> None:
    registry, end = "harness/clients/registry.py", '}\n"""Every kind by name:'
    add(copy, "harness/clients/nothing.py", CLIENTS, registry, end, CLIENTS_ENTRY)

    assert "  nothing                      no clients" in inquest(copy, "list", "clients")[1]
    chosen = (*RUN, "--nemesis", "none", "--set", "clients=nothing")
    code, said = inquest(copy, *chosen, "--sut", "model")
    assert code == ExitCode.USAGE, said
    assert "has nothing for bootstrap.servers" in said
    code, said = inquest(copy, *chosen, "--sut", "simulated")
    assert (code, said) == (ExitCode.USAGE, "inquest: clients: the system simulated has its own, within it\n")


DEPLOYMENT = """
from core.systems import KafkaSection


class Ancient:
    names = {1: "one", 2: "two", 3: "three"}
    older = True

    def __init__(self, config, folder):
        self.version = config.section(KafkaSection).version

    def controller(self, connection):
        raise AssertionError("nothing is asked")
"""
DEPLOYMENT_ENTRY = """
    "ancient": KafkaDeployment(
        doc="brokers of another age",
        lines=("0.7.0", "0.8.2"),
        oldest="we have",
        newest="it ended",
        recipe="kafka",
        controllers=False,
        ensemble=False,
        upgrades=False,
        nodes=".kafka.ancient:Ancient",
    ),"""
ASKED = """
import json, sys
from pathlib import Path
from core.config import run_config
from harness.compose import plan
from harness.kafka.system import kafka_cluster

asked = {"seed": 1, "nemesis": "none", "idempotent": False, "kafka": json.loads(sys.argv[2])}
config = run_config(asked)
plan(config)
nodes = kafka_cluster(config, Path(sys.argv[1])).deployment
print(json.dumps([type(nodes).__name__, nodes.version, json.loads(config.model_dump_json())["kafka"]]))
"""


@pytest.mark.sampled(8)
def test_two_files_add_a_deployment_of_kafka(copy: Path) -> None:
    registry, end = "core/systems.py", '\n}\n"""How Kafka can be deployed, the usual way first."""'
    add(copy, "harness/kafka/ancient.py", DEPLOYMENT, registry, end, DEPLOYMENT_ENTRY)

    assert "  ancient                      brokers of another age" in inquest(copy, "list", "deployments")[1]
    section = {"metadata": "ancient", "version": "0.8.2.1"}
    done = python(copy, "-c", ASKED, str(copy / "some-run"), json.dumps(section))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["Ancient", "0.8.2.1", section]
    code, said = inquest(copy, *RUN, "--kafka", "0.8.2.1", "--set", "metadata=kraft")
    assert code == ExitCode.USAGE
    assert "KRaft needs Kafka 3.3 or later" in said
    code, said = inquest(copy, *RUN, "--set", "metadata=newest")
    assert code == ExitCode.USAGE
    assert "known deployments: kraft, zookeeper, ancient" in said
