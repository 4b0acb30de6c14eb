"""The settings that a client works with: computed once, recorded in its journal, read by every other part.

Users name settings as librdkafka does (`client_settings`); the prefix `producer.` or `consumer.` limits one
to that client. `properties_of_producer` and `properties_of_consumer` lay the user's settings over the
defaults of the system's client; `effective` gives the same settings as types. The real client takes the
properties, the modelled client the types, the journal's header and the sealed history the types too: a
rule about what Kafka allows asks the history and never reads a property again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from core.errors import ConfigError
from core.op import Isolation

Value = str | int | float | bool
Properties = dict[str, Value]
"""Settings of one client by librdkafka's own names (no aliases, no prefixes)."""

PRODUCER: Final = "producer."
CONSUMER: Final = "consumer."
SHARE_CONSUMER: Final = "share consumer"
"""No prefix: the settings of a member of a share group are those of a consumer."""

RETRIES: Final = "message.send.max.retries"
IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
LINGER: Final = "linger.ms"
BATCH: Final = "batch.num.messages"
MESSAGE_TIMEOUT: Final = "message.timeout.ms"
REQUEST_TIMEOUT: Final = "request.timeout.ms"
SOCKET_TIMEOUT: Final = "socket.timeout.ms"
AUTO_COMMIT: Final = "auto.commit.interval.ms"
SESSION_TIMEOUT: Final = "session.timeout.ms"
GROUP_PROTOCOL: Final = "group.protocol"
PROTOCOLS: Final = ("classic", "consumer")
"""Values of `group.protocol`; consumer: that of KIP-848."""
SET_BY_BROKERS: Final = frozenset({SESSION_TIMEOUT, "heartbeat.interval.ms"})
"""Of members of a group of KIP-848 (`group.protocol` consumer): librdkafka refuses them there."""

ALIASES: Final[Mapping[str, str]] = {
    "retries": RETRIES,
    "max.in.flight": IN_FLIGHT,
    "queue.buffering.max.ms": LINGER,
    "delivery.timeout.ms": MESSAGE_TIMEOUT,
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "metadata.broker.list": "bootstrap.servers",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
}
"""Other names of librdkafka for the same setting (its CONFIGURATION.md)."""

DECIDED: Final[Mapping[str, str]] = {
    "acks": "the setting `acks`",
    "enable.idempotence": "the setting `idempotent`",
    "isolation.level": "the setting `isolation`",
    "transaction.timeout.ms": "the setting `transaction_timeout_s`",
    "transactional.id": "the workload",
    "group.id": "the workload",
    "enable.auto.commit": "the workload",
    "enable.partition.eof": "the harness",
    "bootstrap.servers": "the cluster (of your own: --cluster FILE, docs/external.md)",
}
"""Settings of clients that something else decides, so that a user's value would have no effect."""

LEAST: Final[Mapping[str, float]] = {
    RETRIES: 0,
    IN_FLIGHT: 1,
    LINGER: 0,
    BATCH: 1,
    MESSAGE_TIMEOUT: 0,
    REQUEST_TIMEOUT: 1,
    SOCKET_TIMEOUT: 10,
    AUTO_COMMIT: 0,
    SESSION_TIMEOUT: 1,
}
"""The smallest value of each number that `effective` reads."""

INT_MAX: Final = 2**31 - 1
IDEMPOTENT_IN_FLIGHT: Final = 5
"""An idempotent producer has at most this many requests under way (KAFKA-5494)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """Settings of one session. A session produces iff `acks` is set, consumes iff `isolation` is.

    acks: 0, 1, -1 (all), or None for no producer.
    group: consumer group; needed for subscribe and for committing offsets.
    share: it is a share group (KIP-932), whose own setting the isolation level is.
    settings: further client settings by librdkafka's names; `producer.` or `consumer.` as a prefix
        limits one to that client.
    """

    slot: int
    process: int
    acks: int | None = None
    idempotent: bool = False
    transactional_id: str | None = None
    transaction_timeout_s: float = 10.0
    isolation: Isolation = Isolation.NONE
    group: str | None = None
    share: bool = False
    auto_commit: bool = False
    report_end: bool = False
    """Emit `EndReached` events (final reads)."""
    deadline_s: float = 10.0
    settings: Mapping[str, str] = field(default_factory=dict)


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer works with. Times in milliseconds; message_timeout_ms 0 = for ever.

    retries: how often a batch may be sent again. in_flight: requests under way to one broker.
    batch_records: most records of one batch. request_timeout_ms: how long the broker may wait for
    in-sync replicas. socket_timeout_ms: how long the client waits for an answer.
    """

    acks: int
    idempotent: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    retries: int
    in_flight: int
    linger_ms: float
    batch_records: int
    message_timeout_ms: int
    request_timeout_ms: int
    socket_timeout_ms: int


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer works with. Times in milliseconds."""

    isolation: Isolation
    group: str | None
    auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    session_timeout_ms: int
    socket_timeout_ms: int


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings of one session's clients; None: the session has no such client."""

    producer: ProducerConfig | None = None
    consumer: ConsumerConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLibrary:
    """Defaults of the client that a system under test is used with.

    common, producer, consumer: what the harness gives every client unless the user says otherwise.
    unset: what the client itself takes for a setting that it is not given.
    honoured: names of the settings that users may give; None: any. Nothing outside of this list reaches a
    client: a setting can load a library, name another cluster, or keep back what was delivered.
    trial: makes the clients of a session without a cluster. Raises: ConfigError, where they refuse a setting.
    within_transaction: the client refuses records and requests that may outlive their transaction, as
    librdkafka does; Java's producer takes any time-outs.
    """

    name: str
    unset: Mapping[str, Value]
    common: Mapping[str, Value] = field(default_factory=dict)
    producer: Mapping[str, Value] = field(default_factory=dict)
    consumer: Mapping[str, Value] = field(default_factory=dict)
    honoured: frozenset[str] | None = None
    trial: Callable[["SessionSpec"], None] | None = None
    within_transaction: bool = False


def check(specs: Iterable[SessionSpec], library: ClientLibrary) -> None:
    """Refuse settings that are without effect, and numbers that are none.

    Raises: ConfigError, naming the setting.
    """
    for spec in specs:
        for given in spec.settings:
            name = _bare(given)
            if name in DECIDED:
                raise ConfigError(f"client setting {given}: {DECIDED[name]} decides it")
            if library.honoured is not None and name not in library.honoured:
                known = ", ".join(sorted(library.honoured))
                raise ConfigError(f"client setting {given}: with {library.name} a run can set only {known}")
        made = effective(spec, library).producer
        if made is not None and made.idempotent:
            _check_idempotent(made)
        if library.trial is not None:
            library.trial(spec)


def _check_idempotent(made: ProducerConfig) -> None:
    """As librdkafka refuses them (rd_kafka_conf_finalize)."""
    if made.retries < 1:
        raise ConfigError("client setting retries: an idempotent producer needs at least 1")
    if made.in_flight > IDEMPOTENT_IN_FLIGHT:
        raise ConfigError(
            f"client setting max.in.flight: an idempotent producer takes {IDEMPOTENT_IN_FLIGHT} at most"
        )


def overlay(settings: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """`settings` with those of `over`, which win under every name that means the same setting."""
    won = {(client, _bare(name)) for name in over for client in _clients(name)}
    kept = {
        name: value
        for name, value in settings.items()
        if not any((client, _bare(name)) in won for client in _clients(name))
    }
    return {**kept, **over}


def effective(spec: SessionSpec, library: ClientLibrary) -> ClientSettings:
    """What the clients of a session work with. Raises: ConfigError, where a number is none."""
    return ClientSettings(
        producer=None if spec.acks is None else _producer(spec, library),
        consumer=None if spec.isolation is Isolation.NONE else _consumer(spec, library),
    )


def properties_of_producer(spec: SessionSpec, library: ClientLibrary) -> Properties:
    """Settings of the producer of a session, without what it needs to reach a cluster."""
    deadline_ms = int(spec.deadline_s * 1000)
    made: Properties = {**library.common, **library.producer, MESSAGE_TIMEOUT: deadline_ms}
    if spec.transactional_id is not None:
        timeout_ms = int(spec.transaction_timeout_s * 1000)
        made["transactional.id"] = spec.transactional_id
        made["transaction.timeout.ms"] = timeout_ms
        if library.within_transaction:
            made[MESSAGE_TIMEOUT] = min(deadline_ms, timeout_ms - 100)
            socket_ms = _whole({**library.unset, **made}, SOCKET_TIMEOUT)
            made[SOCKET_TIMEOUT] = min(socket_ms, timeout_ms - 100)
    made.update(_given(spec, PRODUCER))
    made["acks"] = -1 if spec.acks is None else spec.acks
    made["enable.idempotence"] = spec.idempotent or spec.transactional_id is not None
    return made


def properties_of_consumer(spec: SessionSpec, library: ClientLibrary) -> Properties:
    """Settings of the consumer of a session, without what it needs to reach a cluster."""
    committed = spec.isolation is Isolation.READ_COMMITTED
    given = _given(spec, CONSUMER)
    own = dict(library.consumer)
    if given.get(GROUP_PROTOCOL) == PROTOCOLS[1]:
        own = {name: value for name, value in own.items() if name not in SET_BY_BROKERS}
    return {
        **library.common,
        **own,
        **given,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        # librdkafka wants a group of every consumer; this one is never joined nor committed to.
        "group.id": spec.group or f"inquest-no-group-{spec.process}",
        "enable.auto.commit": spec.auto_commit,
        "enable.partition.eof": spec.report_end,
    }


def properties_of_share_consumer(spec: SessionSpec, library: ClientLibrary) -> Properties:
    """Settings of the member of a share group. Most of what a consumer has, the group or its brokers set."""
    assert spec.group is not None
    return {
        **library.common,
        **_given(spec, CONSUMER),
        "group.id": spec.group,
        "share.acknowledgement.mode": "explicit",
    }


def properties_of_admin(spec: SessionSpec, library: ClientLibrary) -> Properties:
    """Settings of the admin client of a session: the user's settings that have no prefix."""
    general = {
        _bare(name): value
        for name, value in spec.settings.items()
        if not name.startswith((PRODUCER, CONSUMER))
    }
    return {**library.common, **general}


def _producer(spec: SessionSpec, library: ClientLibrary) -> ProducerConfig:
    given = properties_of_producer(spec, library)
    idempotent = bool(given["enable.idempotence"])
    adjusted = {RETRIES: INT_MAX} if idempotent else {}
    made = {**library.unset, **adjusted, **given}
    in_flight = _whole(made, IN_FLIGHT)
    if idempotent and IN_FLIGHT not in given:
        in_flight = min(in_flight, IDEMPOTENT_IN_FLIGHT)
    assert spec.acks is not None
    return ProducerConfig(
        acks=spec.acks,
        idempotent=idempotent,
        transactional_id=spec.transactional_id,
        transaction_timeout_ms=int(spec.transaction_timeout_s * 1000),
        retries=_whole(made, RETRIES),
        in_flight=in_flight,
        linger_ms=_number(made, LINGER),
        batch_records=_whole(made, BATCH),
        message_timeout_ms=_whole(made, MESSAGE_TIMEOUT),
        request_timeout_ms=_whole(made, REQUEST_TIMEOUT),
        socket_timeout_ms=_whole(made, SOCKET_TIMEOUT),
    )


def _consumer(spec: SessionSpec, library: ClientLibrary) -> ConsumerConfig:
    made = {**library.unset, **properties_of_consumer(spec, library)}
    group_protocol(spec)
    return ConsumerConfig(
        isolation=spec.isolation,
        group=spec.group,
        auto_commit=spec.auto_commit,
        auto_commit_interval_ms=_whole(made, AUTO_COMMIT),
        auto_offset_reset=str(made["auto.offset.reset"]),
        session_timeout_ms=_whole(made, SESSION_TIMEOUT),
        socket_timeout_ms=_whole(made, SOCKET_TIMEOUT),
    )


def group_protocol(spec: SessionSpec) -> str:
    """Which of PROTOCOLS the members of groups speak; one that is not set is the classic one.

    Raises: ConfigError, also for settings that brokers decide in the newer protocol.
    """
    given = _given(spec, CONSUMER)
    protocol = given.get(GROUP_PROTOCOL, PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        raise ConfigError(f"client setting {GROUP_PROTOCOL}: {' or '.join(PROTOCOLS)}, not {protocol!r}")
    if protocol == PROTOCOLS[1] and (own := sorted(SET_BY_BROKERS & given.keys())):
        raise ConfigError(f"client setting {own[0]}: with {GROUP_PROTOCOL}=consumer brokers decide it")
    return protocol


def _number(made: Mapping[str, Value], name: str) -> float:
    try:
        number = float(made[name])
    except ValueError:
        raise ConfigError(f"client setting {name}: a number, not {made[name]!r}") from None
    if not LEAST[name] <= number <= INT_MAX:
        raise ConfigError(f"client setting {name}: from {LEAST[name]:g} to {INT_MAX}, not {made[name]}")
    return number


def _whole(made: Mapping[str, Value], name: str) -> int:
    number = _number(made, name)
    if number != int(number):
        raise ConfigError(f"client setting {name}: a whole number, not {made[name]}")
    return int(number)


def _clients(name: str) -> tuple[str, ...]:
    """The clients that a setting is meant for."""
    return next(((p,) for p in (PRODUCER, CONSUMER) if name.startswith(p)), (PRODUCER, CONSUMER))


def _bare(name: str) -> str:
    """librdkafka's own name of a setting: no prefix, no alias."""
    bare = name.removeprefix(PRODUCER).removeprefix(CONSUMER)
    return ALIASES.get(bare, bare)


def _given(spec: SessionSpec, client: str) -> dict[str, str]:
    """The user's settings for one client; one with a prefix wins over one without."""
    mine = sorted(
        ((name, value) for name, value in spec.settings.items() if client in _clients(name)),
        key=lambda pair: pair[0].startswith(client),
    )
    return {_bare(name): value for name, value in mine}
