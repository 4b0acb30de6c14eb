"""One broker whose client listener asks for TLS and a password: admin calls and clients get in alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from core.client_settings import SessionSpec
from core.cluster import Address, Security, SecurityProtocol
from core.config import run_config
from core.errors import ClusterError
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from core.session import Acked, Record
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import AdminError, Brokers
from harness.brokers.endpoint import endpoint
from harness.clients.librdkafka.session import connect
from harness.containers.cluster import ContainerCluster
from harness.kafka.system import kafka_cluster
from tests.docker.conftest import keep_logs

pytestmark = pytest.mark.sampled(6, whole_file=True)

USER, PASSWORD = "alice", "open sesame"


def escaped(pem: bytes) -> str:
    """As a value of a properties file."""
    return pem.decode().replace("\n", "\\n")


def secured(authority: trustme.CA) -> dict[str, str]:
    """Broker settings: SASL_SSL with PLAIN on the client listener."""
    made = authority.issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = b"".join(part.bytes() for part in made.cert_chain_pems)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    client = "listener.name.client."
    return {
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "CLIENT:SASL_SSL,HARNESS:PLAINTEXT",
        f"{client}ssl.keystore.type": "PEM",
        f"{client}ssl.keystore.certificate.chain": escaped(chain),
        f"{client}ssl.keystore.key": escaped(key),
        f"{client}sasl.enabled.mechanisms": "PLAIN",
        f"{client}plain.sasl.jaas.config": f'{login} user_{USER}="{PASSWORD}";',
    }


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def cluster(
    authority: trustme.CA, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[ContainerCluster]:
    small = {"brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
    config = run_config({"seed": 1, "broker_settings": secured(authority)} | small)
    made = kafka_cluster(config, tmp_path / "security")
    try:
        run_blocking(made.start())
        yield made
    finally:
        keep_logs(made, request, tmp_path)
        run_blocking(made.stop())


def test_admin_calls_and_clients_authenticate_over_tls(
    cluster: ContainerCluster, authority: trustme.CA, tmp_path: Path
) -> None:
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)

    def security(password: str) -> Security:
        settings = {
            "ssl.ca.location": str(trusted),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": password,
        }
        return Security(protocol=SecurityProtocol.SASL_SSL, settings=settings)

    host, _, port = cluster.endpoint().args["bootstrap.servers"].partition(":")
    listener = Address(host, int(port))
    brokers = Brokers({1: listener}, security(PASSWORD), cluster=cluster.admin.cluster)
    broker_views.create_topic(brokers, "secret", 1, 1, {}, 30)
    roles = broker_views.roles(brokers, protocol.quorum_leader)
    assert (roles.agreed, roles.controller) == (True, 1)

    wrong = Brokers({1: listener}, security("guess"))
    with pytest.raises(AdminError, match="SASL_AUTHENTICATION_FAILED"), wrong.connect(1, 5):
        pass
    with pytest.raises(ClusterError, match="Kafka refused: SASL PLAIN"):
        broker_views.create_topic(wrong, "other", 1, 1, {}, 30)
    assert broker_views.ask_all(Brokers({1: listener}), protocol.view) == {}  # plaintext gets no answer

    reached = endpoint([listener], security(PASSWORD), cluster.admin.cluster)
    session = connect(reached.args, SessionSpec(slot=0, process=0, acks=-1, deadline_s=10))
    try:
        record = Record(TopicPartition("secret", 0), 1, b"value")
        (delivery,) = run_blocking(session.send([record]))
        assert isinstance(delivery, Acked)
    finally:
        run_blocking(session.close())
    ends = broker_views.offsets(brokers, roles, [record.tp], Isolation.READ_COMMITTED)
    assert ends == {record.tp: (0, 1)}
