"""Settings of the brokers and of the topic on which scenarios about replicas are played: the model's, at
a pace that real brokers keep."""

from typing import Final

from model.settings import Settings

PACE: Final = 10
"""Real time for each time of the story; see `harness.contract.stage.PACE`."""
FETCH_WAIT_MS: Final = 8000
"""So long a leader keeps a fetch: longer than a step takes, shorter than a step may wait."""
USUAL_MS: Final = Settings().fetch_wait_ms
SESSION_MS: Final = 9000
"""Longer than a busy machine holds up a heartbeat, shorter than any replica may lag."""
FETCH_BYTES: Final = 2**20
"""Of a follower's fetch, Kafka's default; with one byte it brings one batch."""
CHECKPOINT_MS: Final = 100
"""Of the story: in reality twice the distance of checkpoints of high watermarks."""


def fetch_wait_ms(settings: Settings) -> int:
    """So long a leader keeps a fetch: `FETCH_WAIT_MS`; the story's time, where that is longer than usual."""
    return FETCH_WAIT_MS if settings.fetch_wait_ms <= USUAL_MS else settings.fetch_wait_ms * PACE


def broker_settings(settings: Settings) -> dict[str, str]:
    """Settings of brokers, whose times are those of the story at its pace; a message that waits for a step
    breaks no connection."""
    never = "600000"
    return {
        "replica.lag.time.max.ms": str(settings.replica_lag_ms * PACE),
        "replica.fetch.wait.max.ms": str(fetch_wait_ms(settings)),
        "replica.fetch.backoff.ms": str(settings.fetch_backoff_ms * PACE),
        "replica.fetch.max.bytes": str(FETCH_BYTES if settings.fetch_records > 1 else 1),
        "replica.socket.timeout.ms": never,
        "controller.socket.timeout.ms": never,
        "controller.quorum.fetch.timeout.ms": never,
        "controller.quorum.request.timeout.ms": never,
        "request.timeout.ms": never,
        "initial.broker.registration.timeout.ms": "300000",
        "broker.session.timeout.ms": str(SESSION_MS),
        "broker.heartbeat.interval.ms": "1000",
        "replica.high.watermark.checkpoint.interval.ms": "500",
        "auto.leader.rebalance.enable": str(bool(settings.preferred_check_ms)).lower(),
        "leader.imbalance.check.interval.seconds": str(max(settings.preferred_check_ms * PACE // 1000, 1)),
        # else the controller writes a record every 500 ms, for every broker to fetch
        "metadata.max.idle.interval.ms": "0",
    }


def topic_settings(settings: Settings) -> dict[str, str]:
    """Those that a scenario may change, of its topic."""
    return {
        "min.insync.replicas": str(settings.min_isr),
        "unclean.leader.election.enable": str(settings.unclean).lower(),
        "flush.messages": str(settings.flush_every or 2**63 - 1),
    }
