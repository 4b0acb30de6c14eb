"""A broker's id is its own: a second process that says it is the same broker is not let in."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.config import run_config
from core.runtime import run_blocking
from harness.kafka.nodes import PROPERTIES
from harness.kafka.system import kafka_cluster
from tests.docker.conftest import TOPIC, whole
from tests.docker.test_faults import container

if TYPE_CHECKING:
    from docker.models.containers import Container

TWIN = "/tmp/twin.properties"
PORT = re.compile(r"(?<=:)\d+")
LISTENERS = ("listeners=", "advertised.listeners=")
PROGRAM = f"""
cat > {TWIN}
set -f
java='java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m -cp /opt/kafka/libs/*'
if grep -q ^process.roles {TWIN}; then $java kafka.tools.StorageTool format -t "$CLUSTER_ID" -c {TWIN}; fi
timeout 90 $java -Dorg.slf4j.simpleLogger.defaultLogLevel=info kafka.Kafka {TWIN} 2>&1
echo "exit code $?"
"""


def twin_of(settings: str, broker: int) -> str:
    """The settings of a node, with the id of another broker, and ports and a directory of its own."""
    lines = []
    for line in settings.splitlines():
        name, _, value = line.partition("=")
        if line.startswith(LISTENERS):
            lines.append(f"{name}={PORT.sub(lambda port: str(int(port[0]) + 5000), value)}")
        elif name in ("node.id", "broker.id"):
            lines.append(f"{name}={broker}")
        elif name != "log.dirs":
            lines.append(line)
    return "\n".join([*lines, "log.dirs=/tmp/twin", "initial.broker.registration.timeout.ms=5000", ""])


def said_by(node: "Container", *command: str) -> str:
    """What a command in the node's container prints."""
    _, output = node.exec_run([*command])
    assert isinstance(output, bytes)
    return output.decode()


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"controllers": 1}, "DUPLICATE_BROKER_REGISTRATION"),
        ({"kafka": "2.8.2"}, "NodeExists"),
    ],
)  # fmt: skip
def test_a_second_process_with_the_id_of_a_broker_ends(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    """The first one remains, with its replicas in sync."""
    cluster = kafka_cluster(run_config({"seed": 1, **settings}), tmp_path / f"twin-{time.time_ns()}")
    try:
        run_blocking(cluster.start())
        run_blocking(cluster.create_topic(TOPIC, 3, 3, {}))
        whole(cluster)
        own = container(cluster, 2)
        twin = twin_of(said_by(own, "cat", PROPERTIES), 3)
        text = said_by(own, "sh", "-c", f"cat <<'END' | (\n{twin}END\n{PROGRAM})")
        assert said in text
        assert re.search(r"exit code (?!0|124)\d+", text)
        assert 3 in whole(cluster).answering
    finally:
        run_blocking(cluster.stop())
