"""librdkafka settings of a session: what each `SessionSpec` asks for, and time-outs that suit faults.

librdkafka's defaults wait a minute for an answer and ten seconds before a reconnect; under faults
that last seconds such a client would see one fault per run. The user's settings win over the ones
here, except where the spec itself says otherwise (acks, isolation, ids).

Not here: what the session does with them (`producer`, `consumer`).
"""

from collections.abc import Mapping
from typing import Any, Final

from harness.op import Isolation
from harness.session import SessionSpec

COMMON: Final[Mapping[str, Any]] = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 1000,
    "socket.timeout.ms": 3000,
    "topic.metadata.refresh.interval.ms": 5000,
    "topic.metadata.propagation.max.ms": 5000,
}
PRODUCER: Final[Mapping[str, Any]] = {
    "linger.ms": 1,
    "statistics.interval.ms": 1000,
}
CONSUMER: Final[Mapping[str, Any]] = {
    "auto.commit.interval.ms": 1000,
    "auto.offset.reset": "earliest",
    "fetch.error.backoff.ms": 100,
    "fetch.wait.max.ms": 100,
    "heartbeat.interval.ms": 1000,
    "session.timeout.ms": 6000,
}


def producer_settings(args: Mapping[str, str], spec: SessionSpec) -> dict[str, Any]:
    """Settings of the producer of a session at the cluster that `args` reaches."""
    deadline_ms = int(spec.deadline_s * 1000)
    settings: dict[str, Any] = {**COMMON, **PRODUCER, "message.timeout.ms": deadline_ms}
    if spec.transactional_id is not None:
        timeout_ms = int(spec.transaction_timeout_s * 1000)
        settings["transactional.id"] = spec.transactional_id
        settings["transaction.timeout.ms"] = timeout_ms
        # librdkafka refuses a client whose records or requests may outlive the transaction.
        settings["message.timeout.ms"] = min(deadline_ms, timeout_ms - 100)
        settings["socket.timeout.ms"] = min(settings["socket.timeout.ms"], timeout_ms - 100)
    settings.update(_reaching(args))
    settings.update(_own(spec, "producer.", "consumer."))
    settings["acks"] = spec.acks
    settings["enable.idempotence"] = spec.idempotent or spec.transactional_id is not None
    return settings


def consumer_settings(args: Mapping[str, str], spec: SessionSpec) -> dict[str, Any]:
    """Settings of the consumer of a session at the cluster that `args` reaches."""
    settings: dict[str, Any] = {**COMMON, **CONSUMER}
    settings.update(_reaching(args))
    settings.update(_own(spec, "consumer.", "producer."))
    # Warnings tell of offset resets, by no other way (see Sidelight.log).
    settings["log_level"] = 4
    settings["isolation.level"] = (
        "read_committed" if spec.isolation is Isolation.READ_COMMITTED else "read_uncommitted"
    )
    # librdkafka wants a group of every consumer; this one is never joined nor committed to.
    settings["group.id"] = spec.group or f"inquest-no-group-{spec.process}"
    settings["enable.auto.commit"] = spec.auto_commit
    settings["enable.partition.eof"] = spec.report_end
    return settings


def admin_settings(args: Mapping[str, str], spec: SessionSpec) -> dict[str, Any]:
    """Settings of the admin client of a session at the cluster that `args` reaches: the general ones
    among the spec's own."""
    further = {
        name: value
        for name, value in spec.settings.items()
        if not name.startswith(("producer.", "consumer."))
    }
    return {**COMMON, **_reaching(args), **further}


def _reaching(args: Mapping[str, str]) -> dict[str, str]:
    """An endpoint's arguments: `bootstrap`, and further settings by librdkafka's names."""
    further = {name: value for name, value in args.items() if name != "bootstrap"}
    return {"bootstrap.servers": args["bootstrap"], **further}


def _own(spec: SessionSpec, mine: str, other: str) -> dict[str, str]:
    """The spec's further settings for one client, prefixes taken off; prefixed ones win."""
    general = {
        name: value for name, value in spec.settings.items() if not name.startswith((mine, other))
    }
    special = {
        name.removeprefix(mine): value
        for name, value in spec.settings.items()
        if name.startswith(mine)
    }
    return {**general, **special}
