"""Settings of brokers that a run may have, and those that a stranger's configuration cannot bring in."""

import pytest

from core.config import run_config
from core.errors import ConfigError
from harness.compose import plan

SMALL = {"seed": 1, "nemesis": "none", "duration_s": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replica.lag.time.max.ms", "30000"),
        ("metadata.log.max.snapshot.interval.ms", "5000"),
        ("leader.imbalance.check.interval.seconds", "300"),
        ("unclean.leader.election.enable", "true"),
        ("transaction.partition.verification.enable", "false"),
        ("log.flush.interval.messages", "1"),
        ("log.message.timestamp.type", "LogAppendTime"),
        ("producer.id.expiration.ms", "5000"),
        ("offsets.retention.check.interval.ms", "5000"),
        ("log.cleaner.backoff.ms", "5000"),
        ("group.coordinator.rebalance.protocols", "classic,consumer"),
        ("num.io.threads", "banana"),  # the broker's to refuse
    ],
)
def test_sizes_times_and_counts_are_the_users(name: str, value: str) -> None:
    plan(run_config({**SMALL, "broker_settings": {name: value}}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.dirs", "/"),
        ("log.dir", "/"),
        ("metadata.log.dir", "/"),
        ("listeners", "CLIENT://0.0.0.0:1"),
        ("advertised.listeners", "CLIENT://elsewhere:9092"),
        ("listener.security.protocol.map", "CLIENT:SASL_SSL"),
        ("listener.name.client.plain.sasl.jaas.config", "x"),
        ("sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required"),
        ("ssl.keystore.location", "/etc/passwd"),
        ("authorizer.class.name", "a.B"),
        ("metric.reporters", "a.B"),
        ("config.providers", "file"),
        ("replica.selector.class", "a.B"),
        ("group.consumer.assignors", "a.B"),
        ("remote.log.storage.manager.class.path", "/x.jar"),
        ("node.id", "2"),
        ("process.roles", "broker"),
        ("controller.quorum.voters", "1@elsewhere:9093"),
        ("controller.quorum.bootstrap.servers", "elsewhere:9093"),
        ("a.b", "c"),
        ("num.io.threads", "${file:/etc/passwd:x}"),
        ("num.io.threads", "3\\"),
        ("num.IO.threads", "3"),
    ],
)
def test_classes_files_hosts_and_roles_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match="broker_settings: "):
        plan(run_config({**SMALL, "broker_settings": {name: value}}))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("log.cleanup.policy", "compact", "set topic_settings.cleanup.policy"),
        ("log.preallocate", "true", "too large to be copied"),
        ("offsets.commit.required.acks", "1", "lose offsets"),
        ("offsets.retention.minutes", "1", "lose offsets"),
        ("replica.high.watermark.checkpoint.interval.ms", "60000", "interval of that checkpoint"),
        ("log.flush.offset.checkpoint.interval.ms", "600000", "interval of that checkpoint"),
        ("log.flush.start.offset.checkpoint.interval.ms", "600000", "interval of that checkpoint"),
    ],
)
def test_what_changes_a_promise_unknown_to_the_checks_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: .*{why}"):
        plan(run_config({**SMALL, "broker_settings": {name: value}}))


@pytest.mark.parametrize("section", ["broker_settings", "topic_settings", "client_settings"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.io.threads", "3\nauthorizer.class.name=a.B"),
        ("num.io.threads", "3\rx=y"),
        ("num.io.threads", "3\x1b[2J"),
        ("num.io.threads\nx", "3"),
        ("num.io.threads=3\x85x", "3"),
        ("", "3"),
        ("#x", "3"),
        ("a b", "3"),
    ],
)
def test_no_setting_makes_two_lines(section: str, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=section):
        run_config({**SMALL, section: {name: value}})
