"""How long a high watermark may stand still below the end of its log."""

from core.config import RunConfig
from core.flushing import number

LAG = "replica.lag.time.max.ms"
LAG_MS = 3000
"""Of brokers whose settings are not on record: the longest of those that the harness starts."""
MARGIN_MS = 2000
"""For the controller's answer to the leader, and what the leader hears of it."""


def still_s(config: RunConfig) -> float:
    """How long after its acknowledgement with acks 0 or 1 a record may lie above a high watermark that does
    not move.

    No consumer gets it until then. The leader takes a follower that fetches nothing out of the in-sync
    replicas after LAG, looks for such ones twice in that time, and then needs no answer of it.
    """
    return (1.5 * number(config.broker_settings, LAG, LAG_MS) + MARGIN_MS) / 1000
