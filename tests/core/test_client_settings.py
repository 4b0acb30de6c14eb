"""The settings that clients work with: names, precedence, defaults, and what is refused."""

from dataclasses import replace

import pytest

from core.client_settings import (
    INT_MAX,
    ClientLibrary,
    ProducerConfig,
    SessionSpec,
    check,
    effective,
    group_protocol,
    overlay,
    properties_of_consumer,
    properties_of_producer,
)
from core.errors import ConfigError
from core.op import Isolation
from harness.clients.librdkafka.session import connect
from harness.clients.librdkafka.settings import LIBRDKAFKA
from harness.modelled.virtual.client_runtime import MODELLED
from workloads.send_modes import IMPATIENT

PLAIN = SessionSpec(slot=0, process=1, acks=-1)
READER = SessionSpec(slot=0, process=1, isolation=Isolation.READ_COMMITTED, group="g")


def producer(
    spec: SessionSpec = PLAIN, library: ClientLibrary = LIBRDKAFKA, /, **settings: str
) -> ProducerConfig:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    made = effective(replace(spec, settings=named), library).producer
    assert made is not None
    return made


@pytest.mark.parametrize("name", ["retries", "message__send__max__retries"])
@pytest.mark.parametrize("prefix", ["", "producer__"])
@pytest.mark.parametrize("library", [LIBRDKAFKA, MODELLED])
def test_all_names_of_a_setting_mean_the_same(name: str, prefix: str, library: ClientLibrary) -> None:
    assert producer(PLAIN, library, **{prefix + name: "0"}).retries == 0
    assert producer(PLAIN, library).retries > 0


def test_a_setting_of_consumers_is_none_of_producers() -> None:
    assert producer(**{"consumer__socket__timeout__ms": "77"}).socket_timeout_ms == 2000
    reader = replace(READER, settings={"consumer.socket.timeout.ms": "77"})
    made = effective(reader, LIBRDKAFKA)
    assert made.producer is None
    assert made.consumer is not None
    assert made.consumer.socket_timeout_ms == 77


def test_brokers_set_the_session_of_a_group_of_kip_848() -> None:
    spec = replace(READER, settings={"consumer.group.protocol": "consumer"})
    made = properties_of_consumer(spec, LIBRDKAFKA)
    assert not {"session.timeout.ms", "heartbeat.interval.ms"} & made.keys()
    assert "session.timeout.ms" in properties_of_consumer(READER, LIBRDKAFKA)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_setting_with_a_prefix_wins_in_any_order(turn: int) -> None:
    pairs = [("producer.linger.ms", "7"), ("linger.ms", "9")][::turn]
    made = effective(replace(PLAIN, settings=dict(pairs)), LIBRDKAFKA).producer
    assert made is not None
    assert made.linger_ms == 7


def test_what_a_user_sets_under_another_name_wins_over_the_workload() -> None:
    assert overlay(IMPATIENT, {"retries": "0"}) == {"producer.message.timeout.ms": "1500", "retries": "0"}
    assert overlay(IMPATIENT, {"consumer.retries": "0"}) == {**IMPATIENT, "consumer.retries": "0"}


def test_librdkafka_limits_an_idempotent_producer_that_is_not_told_otherwise() -> None:
    assert producer().in_flight == 1_000_000
    idempotent = producer(replace(PLAIN, idempotent=True))
    assert (idempotent.in_flight, idempotent.retries) == (5, INT_MAX)
    assert "max.in.flight.requests.per.connection" not in properties_of_producer(
        replace(PLAIN, idempotent=True), LIBRDKAFKA
    )


def test_only_with_librdkafka_do_records_and_requests_not_outlive_their_transaction() -> None:
    spec = replace(PLAIN, idempotent=True, transactional_id="t", transaction_timeout_s=2.0, deadline_s=30.0)
    made = producer(spec)
    assert (made.message_timeout_ms, made.socket_timeout_ms) == (1900, 1900)
    assert made.transaction_timeout_ms == 2000
    java_like = effective(spec, MODELLED).producer
    assert java_like is not None
    assert (java_like.message_timeout_ms, java_like.socket_timeout_ms) == (30_000, 2000)


@pytest.mark.parametrize(
    ("library", "spec", "settings", "said"),
    [
        (LIBRDKAFKA, PLAIN, {"acks": "1"}, "acks: the setting `acks` decides it"),
        (LIBRDKAFKA, PLAIN, {"producer.request.required.acks": "1"}, "`acks` decides"),
        (MODELLED, READER, {"consumer.isolation.level": "x"}, "`isolation` decides"),
        (MODELLED, PLAIN, {"compression.type": "lz4"}, "compression.type: with the simulated client"),
        (MODELLED, PLAIN, {"linger.ms": "soon"}, "linger.ms: a number, not 'soon'"),
        (LIBRDKAFKA, PLAIN, {"retries": "-1"}, "message.send.max.retries: from 0 to"),
        (LIBRDKAFKA, PLAIN, {"retries": "1.5"}, "a whole number"),
        (LIBRDKAFKA, PLAIN, {"retries": "nan"}, "from 0 to"),
        (MODELLED, replace(PLAIN, idempotent=True), {"retries": "0"}, "needs at least 1"),
        (LIBRDKAFKA, replace(PLAIN, idempotent=True), {"max.in.flight": "6"}, "takes 5 at most"),
    ],
)
def test_settings_without_effect_or_sense_are_refused(
    library: ClientLibrary, spec: SessionSpec, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check([spec, replace(spec, settings=settings)], library)


@pytest.mark.parametrize(
    "settings",
    [
        {"compression.type": "lz4"},
        {"producer.batch.size": "16384", "message.max.bytes": "2000000"},
        {"consumer.group.protocol": "consumer", "consumer.max.partition.fetch.bytes": "1000"},
        {"consumer.partition.assignment.strategy": "cooperative-sticky"},
    ],
)
def test_sizes_times_and_protocols_are_the_users(settings: dict[str, str]) -> None:
    check([replace(PLAIN, settings=settings), replace(READER, settings=settings)], LIBRDKAFKA)


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "ssl.engine.location",
        "ssl.ca.location",
        "sasl.kerberos.kinit.cmd",
        "sasl.password",
        "security.protocol",
        "test.mock.num.brokers",
        "test.mock.broker.rtt",
        "delivery.report.only.error",
        "dr_cb",
        "on_delivery",
        "stats_cb",
        "error_cb",
        "logger",
        "log_level",
        "debug",
        "statistics.interval.ms",
        "enable.auto.offset.store",
        "enable.gapless.guarantee",
        "group.instance.id",
        "queuing.strategy",
        "opaque",
        "linger.mss",
    ],
)
@pytest.mark.parametrize("prefix", ["", "producer.", "consumer."])
def test_what_runs_code_or_forges_the_history_is_refused(name: str, prefix: str) -> None:
    spec = replace(PLAIN, settings={prefix + name: "x"})
    with pytest.raises(ConfigError, match=f"client setting {prefix}{name}: "):
        check([spec], LIBRDKAFKA)


@pytest.mark.parametrize(
    ("spec", "settings", "said"),
    [
        (PLAIN, {"compression.type": "banana"}, 'Invalid value "banana"'),
        (READER, {"auto.offset.reset": "never"}, 'Invalid value "never"'),
        (READER, {"max.poll.interval.ms": "1"}, "must be >= `session.timeout.ms`"),
    ],
)
def test_what_librdkafka_refuses_is_refused_before_a_cluster_is_started(
    spec: SessionSpec, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check([replace(spec, settings=settings)], LIBRDKAFKA)


@pytest.mark.parametrize("wrong", [{"delivery.report.only.error": "true"}, {"throttle_cb": "x"}])
def test_a_type_or_value_error_of_a_constructor_is_one_of_the_configuration(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="client settings: "):
        connect({"bootstrap.servers": "127.0.0.1:1", **wrong}, PLAIN)


def test_the_protocol_of_groups_is_one_of_two() -> None:
    def of(**settings: str) -> str:
        spec = replace(READER, settings=settings)
        check([spec], MODELLED)
        return group_protocol(spec)

    assert (of(), of(**{"consumer.group.protocol": "consumer"})) == ("classic", "consumer")
    with pytest.raises(ConfigError, match="classic or consumer"):
        of(**{"group.protocol": "newer"})
    with pytest.raises(ConfigError, match="brokers decide"):
        of(**{"group.protocol": "consumer", "session.timeout.ms": "9000"})
