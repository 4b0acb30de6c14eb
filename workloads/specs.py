"""Session settings that workloads share: a producer, a transactional producer, a consumer."""

from core.client_settings import SessionSpec
from core.config import RunConfig


def producer(config: RunConfig, slot: int) -> SessionSpec:
    """A producer without transactions, with the acks and idempotence of the config."""
    return SessionSpec(
        slot=slot,
        process=-1,
        acks=config.acks,
        idempotent=config.idempotent,
        deadline_s=config.verb_deadline_s,
        settings=config.client_settings,
    )


def transactional(config: RunConfig, slot: int, transactional_id: str) -> SessionSpec:
    """A transactional producer: always idempotent, with acks=all."""
    return SessionSpec(
        slot=slot,
        process=-1,
        acks=-1,
        idempotent=True,
        transactional_id=transactional_id,
        transaction_timeout_s=config.transaction_timeout_s,
        deadline_s=config.verb_deadline_s,
        settings=config.client_settings,
    )


def consumer(
    config: RunConfig, slot: int, *, group: str | None = None, auto_commit: bool = False
) -> SessionSpec:
    """A consumer at the isolation level of the config."""
    return SessionSpec(
        slot=slot,
        process=-1,
        isolation=config.isolation,
        group=group,
        auto_commit=auto_commit,
        deadline_s=config.verb_deadline_s,
        settings=config.client_settings,
    )
