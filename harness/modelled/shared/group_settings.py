"""Settings of groups of a modelled cluster. Nodes import this, and have no config of a run."""

from core import dead_letters
from model.settings import Settings


def share_settings(settings: Settings) -> dict[str, str]:
    """What all share groups of a modelled cluster are set to, by Kafka's names."""
    queue = {dead_letters.TOPIC: settings.share_letters, dead_letters.COPIED: "true"}
    return {
        **(queue if settings.share_letters else {}),
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed" if settings.share_committed else "read_uncommitted",
        "share.record.lock.duration.ms": f"{settings.share_lock_ms}",
    }
