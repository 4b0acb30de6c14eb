"""Kafka's own clients with a broker of the model. They need Kafka's jars and Java, and no container."""

import subprocess
from collections.abc import Iterator, Sequence

import pytest

from core.cluster import ServedCluster
from core.config import run_config
from core.runtime import run_blocking
from core.systems import KAFKA_VERSION
from harness.kafka.jars import jars
from harness.modelled.real.cluster import ModelCluster

pytestmark = pytest.mark.sampled(6, whole_file=True)

CALL_S = 120.0
LINES = [f"line {number}" for number in range(20)]
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModelCluster]:
    """One broker of an era: its clients speak transaction version 2, or 1."""
    one = {"brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
    config = run_config({"sut": "model", "seed": 1, "era": request.param, **one})
    made = ModelCluster(config, tmp_path_factory.mktemp("java"))
    try:
        run_blocking(made.start())
        run_blocking(made.create_topic("plain", 1, 1, {}))
        run_blocking(made.create_topic("transactional", 1, 1, {}))
        yield made
    finally:
        run_blocking(made.stop())


def java(cluster: ServedCluster, tool: str, words: Sequence[str], given: Sequence[str] = ()) -> str:
    """What a tool of Kafka prints."""
    servers = cluster.endpoint().args["bootstrap.servers"]
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = ["java", *flags, quiet, "-cp", f"{jars(KAFKA_VERSION)}/*", f"{TOOLS}.{tool}"]
    done = subprocess.run(
        [*command, "--bootstrap-server", servers, *words],
        input="".join(f"{line}\n" for line in given),
        capture_output=True,
        text=True,
        check=False,
        timeout=CALL_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def consumed(cluster: ServedCluster, topic: str, count: int, *words: str) -> list[str]:
    """What the console consumer reads from the begin, at read_committed."""
    given = ("--topic", topic, "--from-beginning", "--isolation-level", "read_committed")
    until = ("--max-messages", str(count), "--timeout-ms", "30000")
    return java(cluster, "consumer.ConsoleConsumer", [*given, *until, *words]).splitlines()


@pytest.mark.parametrize("cluster", ["4.3"], indirect=True)
def test_the_console_consumer_reads_what_the_console_producer_sent_and_tools_list_its_group(
    cluster: ModelCluster,
) -> None:
    java(cluster, "ConsoleProducer", ["--topic", "plain"], LINES)
    assert consumed(cluster, "plain", len(LINES), "--group", "readers") == LINES
    assert "readers" in java(cluster, "consumer.group.ConsumerGroupCommand", ["--list"]).split()


@pytest.mark.parametrize("cluster", ["4.3", "4.3-tv1"], indirect=True)
def test_transactions_of_a_java_producer_are_read_committed(cluster: ModelCluster) -> None:
    sent = ["--topic", "transactional", "--num-records", "500", "--record-size", "20", "--throughput", "1000"]
    java(
        cluster, "ProducerPerformance", [*sent, "--transactional-id", "t", "--transaction-duration-ms", "20"]
    )
    assert len(consumed(cluster, "transactional", 500)) == 500


@pytest.mark.parametrize("cluster", ["4.3"], indirect=True)
def test_a_tool_describes_topics(cluster: ModelCluster) -> None:
    described = java(cluster, "TopicCommand", ["--describe", "--topic", "plain"])
    assert "min.insync.replicas=1" in described
