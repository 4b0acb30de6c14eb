"""Three brokers that somebody else started by hand, as the cluster that a user has: plain containers of
`docker run`, with Kafka's own timings. One listener for clients is plain, the other asks for a client's
certificate and for SCRAM over TLS.
"""

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization

from core.cluster import Address
from core.errors import ExitCode
from core.programs import environment, program
from core.systems import KAFKA_VERSION
from harness.brokers.addresses import LOOPBACK, cluster_id
from harness.brokers.admin.connection import Brokers
from harness.containers import engine
from harness.external import belongings
from harness.external.docker_ends import DockerEnds
from harness.external.reaper import LOG
from harness.kafka.images import ensure_image
from history.run_folder import Run
from tests.waiting import until

USER, PASSWORD = "inquest", secrets.token_urlsafe(12)
KEY_PASSWORD = secrets.token_urlsafe(12)
NODES = (1, 2, 3)
READY_S = 120.0
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
SHORT = ("--duration", "15", "--engine", "process", "--seed", "1")


@dataclass(frozen=True, slots=True)
class Theirs:
    """names: of the containers. plain, secured: ports of listeners, by node. folder: with certificates."""

    names: dict[int, str]
    plain: dict[int, int]
    secured: dict[int, int]
    folder: Path

    def bootstrap(self, ports: dict[int, int]) -> str:
        return ",".join(f"{LOOPBACK}:{port}" for port in ports.values())

    def file(self, more: str = "", *, secured: bool = False) -> Path:
        path = self.folder / "cluster.toml"
        bootstrap = self.bootstrap(self.secured if secured else self.plain)
        path.write_text(f'[cluster]\nbootstrap = "{bootstrap}"\n{more}')
        return path

    def belongings(self) -> belongings.Belongings:
        listeners = {node: Address(LOOPBACK, port) for node, port in self.plain.items()}
        return belongings.all_listed(Brokers(listeners))


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def free_ports() -> dict[int, int]:
    with ExitStack() as probes:
        found = {node: probes.enter_context(socket.socket()) for node in NODES}
        for probe in found.values():
            probe.bind((LOOPBACK, 0))
        return {node: int(probe.getsockname()[1]) for node, probe in found.items()}


def escaped(pem: bytes) -> str:
    return pem.decode().replace("\n", "\\n")


def key_of(made: trustme.LeafCert, password: str = "") -> bytes:
    hidden = (
        serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    )
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)


def properties(node: int, names: dict[int, str], plain: int, secured: int, authority: trustme.CA) -> str:
    made = authority.issue_cert(LOOPBACK)
    its = "listener.name.secured."
    lines = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{other}@{name}:9093" for other, name in names.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"BROKER://:9092,CONTROLLER://:9093,PLAIN://:{plain},SECURED://:{secured}",
        "advertised.listeners": f"BROKER://{names[node]}:9092,PLAIN://{LOOPBACK}:{plain},"
        f"SECURED://{LOOPBACK}:{secured}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,"
        "SECURED:SASL_SSL",
        "inter.broker.listener.name": "BROKER",
        "log.dirs": "/data",
        "offsets.topic.replication.factor": 3,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        f"{its}ssl.keystore.type": "PEM",
        f"{its}ssl.keystore.certificate.chain": escaped(b"".join(p.bytes() for p in made.cert_chain_pems)),
        f"{its}ssl.keystore.key": escaped(key_of(made)),
        f"{its}ssl.truststore.type": "PEM",
        f"{its}ssl.truststore.certificates": escaped(authority.cert_pem.bytes()),
        f"{its}ssl.client.auth": "required",
        f"{its}sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{its}scram-sha-512.sasl.jaas.config": f"{LOGIN} required;",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    folder = tmp_path_factory.mktemp("theirs")
    client = engine.ensure()
    image = ensure_image(client, KAFKA_VERSION)
    client.close()
    mark = f"byhand-{os.getpid()}"
    names = {node: f"{mark}-{node}" for node in NODES}
    made = Theirs(names, free_ports(), free_ports(), folder)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    leaf = authority.issue_cert("client.example.net")
    (folder / "client.pem").write_bytes(b"".join(part.bytes() for part in leaf.cert_chain_pems))
    (folder / "client.key").write_bytes(key_of(leaf, KEY_PASSWORD))
    try:
        # Fixed addresses: containers that start together may swap theirs, and a broker takes another one's
        # answers for those of the node that had the address before.
        subnet = f"10.215.{os.getpid() % 250}"
        docker("network", "create", "--subnet", f"{subnet}.0/24", mark)
        for node, name in names.items():
            ports = (made.plain[node], made.secured[node])
            (folder / f"{node}.properties").write_text(properties(node, names, *ports, authority))
            published = [word for port in ports for word in ("-p", f"{LOOPBACK}:{port}:{port}")]
            mount = f"{folder}/{node}.properties:/etc/kafka/node.properties:ro"
            around = ("--ip", f"{subnet}.{10 + node}", "-e", f"CLUSTER_ID={cluster_id(mark)}", "-v", mount)
            docker(
                "run", "-d", "--name", name, "--hostname", name, "--network", mark, *published, *around, image
            )
        until(lambda: answers(made), "all brokers answer", READY_S)
        credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = AdminClient({"bootstrap.servers": made.bootstrap(made.plain), "log_level": 0})
        upsertion = UserScramCredentialUpsertion(USER, credentials, PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(30)
        del admin
        yield made
    finally:
        for name in names.values():
            subprocess.run(["docker", "rm", "-fv", name], capture_output=True, check=False)
        subprocess.run(["docker", "network", "rm", mark], capture_output=True, check=False)


def answers(theirs: Theirs) -> bool:
    try:
        return bool(theirs.belongings().topics) or True
    except Exception:  # noqa: BLE001 (brokers that start refuse connections in many ways)
        return False


def command(file: Path, results: Path, *words: str) -> list[str]:
    options = ("--results", str(results))
    return program("harness.cli.main", "run", "--cluster", str(file), *options, *words)


def inquest(command: list[str], **around: str) -> tuple[int, str]:
    env = {**environment(), **around}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=400)
    return done.returncode, done.stdout + done.stderr


def only_run(results: Path) -> Run:
    (folder,) = [path for path in results.iterdir() if not path.is_symlink()]
    return Run(folder)


def shorthand(theirs: Theirs) -> str:
    named = ", ".join(f'{node} = "{name}"' for node, name in theirs.names.items())
    return f'docker = {{ {named} }}\nlog_dirs = "/data"\n'


def containers_are_killed_paused_and_cut_off_and_their_logs_judged(theirs: Theirs, tmp_path: Path) -> None:
    file = theirs.file(shorthand(theirs))
    assert len(file.read_text().splitlines()) <= 12
    words = ("--workload", "queue", "--nemesis", "kill:one,pause,partition:isolate", *SHORT)
    code, said = inquest(command(file, tmp_path, *words))
    assert code == ExitCode.VALID, said
    assert " rules applied to 3 nodes" in said
    assert "left on the cluster" not in said
    assert theirs.belongings().under("inquest-").text() == ""
    logs = [only_run(tmp_path).cluster / str(node) / "server.log" for node in NODES]
    assert all("Kafka Server started" in log.read_text() for log in logs)


def clients_and_harness_authenticate_and_no_file_has_a_secret(theirs: Theirs, tmp_path: Path) -> None:
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": "$THEIR_PASSWORD",
        "ssl.ca.location": theirs.folder / "ca.pem",
        "ssl.certificate.location": theirs.folder / "client.pem",
        "ssl.key.location": theirs.folder / "client.key",
        "ssl.key.password": "$THEIR_KEY_PASSWORD",
    }
    lines = "".join(f'{name} = "{value}"\n' for name, value in client.items())
    loud = "[hooks]\npause = 'echo $THEIR_PASSWORD; exit 1'\nresume = 'true'\n"
    file = theirs.file(f"[client]\n{lines}{loud}", secured=True)
    words = ("--workload", "copier", "--nemesis", "client,elections,pause", *SHORT)
    secret = {"THEIR_PASSWORD": PASSWORD, "THEIR_KEY_PASSWORD": KEY_PASSWORD}
    code, said = inquest(command(file, tmp_path, *words), **secret)
    assert code == ExitCode.VALID, said
    assert "(hidden)" in only_run(tmp_path).events.read_text()  # a hook that failed wrote it
    written = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(written) > 20
    for path in written:
        data = path.read_bytes()
        assert PASSWORD.encode() not in data, path
        assert KEY_PASSWORD.encode() not in data, path
    assert PASSWORD not in said
    code, said = inquest(command(file, tmp_path, *words), **secret | {"THEIR_PASSWORD": "guess"})
    assert (code, said.count("\n")) == (ExitCode.HARNESS, 1), said
    assert "SASL_AUTHENTICATION_FAILED" in said


@pytest.mark.sampled(16)
def test_a_container_that_ends_unasked_is_seen(theirs: Theirs) -> None:
    ends = DockerEnds(theirs.names)
    try:
        assert list(ends.take()) == []
        ends.asked([1])
        docker("kill", theirs.names[1], theirs.names[2])
        (end,) = ends.take()
        assert (end.node, end.signal, end.outside) == (2, signal.SIGKILL, "something sent it SIGKILL")
        assert list(ends.take()) == []
    finally:
        docker("start", *theirs.names.values())
        ends.close()
    until(lambda: answers(theirs), "all brokers answer", READY_S)


def a_killed_harness_leaves_the_cluster_whole_and_empty(theirs: Theirs, tmp_path: Path) -> None:
    file = theirs.file(shorthand(theirs))
    words = ("--workload", "queue", "--nemesis", "kill:all", "--duration", "60")
    with subprocess.Popen(
        command(file, tmp_path, *words), env=environment(), stderr=subprocess.DEVNULL
    ) as harness:
        until(lambda: running(theirs) == 0, "all brokers are killed", 120)
        begin = time.monotonic()
        harness.send_signal(signal.SIGKILL)
    until(lambda: running(theirs) == 3, "all brokers run", 20)
    assert time.monotonic() - begin < 20
    log = only_run(tmp_path).cluster / LOG
    until(
        lambda: log.exists() and "no topic and no group is left" in log.read_text(),
        "the prefix is empty",
        120,
    )
    assert theirs.belongings().under("inquest-").text() == ""


def running(theirs: Theirs) -> int:
    states = docker("inspect", "-f", "{{.State.Running}}", *theirs.names.values())
    return states.split().count("true")


RUNS = (
    containers_are_killed_paused_and_cut_off_and_their_logs_judged,
    clients_and_harness_authenticate_and_no_file_has_a_secret,
    a_killed_harness_leaves_the_cluster_whole_and_empty,
)


@pytest.mark.sampled(29)
@pytest.mark.parametrize("shows", RUNS)
def test_a_run_on_their_cluster(
    theirs: Theirs, tmp_path: Path, shows: Callable[[Theirs, Path], None]
) -> None:
    shows(theirs, tmp_path)
