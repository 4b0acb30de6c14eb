"""Which settings of real brokers a run may have: sizes, times and counts.

The configuration of a recorded run may come from another person (`inquest recording replay`, the
repeats of a soak). So this is a list of what is allowed. Left out is all that names a class (authorizers,
reporters, providers), a file, a listener or another host, the roles and numbers of nodes, and security.
"""

import re
from collections.abc import Mapping
from typing import Final

from core.config import RunConfig
from harness.kafka import jars

FAMILIES: Final = (
    "auto.leader.rebalance.enable",
    "background.threads",
    "broker.heartbeat.",
    "broker.session.",
    "compression.",
    "connections.max.",
    "controlled.shutdown.",
    "controller.quorum.append.",
    "controller.quorum.election.",
    "controller.quorum.fetch.",
    "controller.quorum.request.",
    "controller.quorum.retry.",
    "controller.socket.",
    "default.replication.factor",
    "delete.",
    "fetch.",
    "group.",
    "initial.broker.",
    "leader.imbalance.",
    "log.cleaner.",
    "log.cleanup.",
    "log.flush.",
    "log.index.",
    "log.initial.",
    "log.message.",
    "log.preallocate",
    "log.retention.",
    "log.roll.",
    "log.segment.",
    "max.",
    "message.max.",
    "metadata.log.max.",
    "metadata.log.segment.",
    "metadata.max.",
    "min.insync.replicas",
    "num.",
    "offset.metadata.",
    "offsets.",
    "producer.",
    "quota.window.",
    "queued.",
    "replica.fetch.",
    "replica.high.",
    "replica.lag.",
    "replica.socket.",
    "request.",
    "share.",
    "socket.",
    "transaction.",
    "transactional.id.",
    "unclean.leader.election.enable",
    "unstable.",
)
"""Beginnings of names; one that does not end in a dot is a whole name."""
CLASSES: Final = re.compile(r"assignor|class|plugin|persister|listener|\.dirs?$|\.callback")
"""Parts of names whose values are classes, folders or listeners."""
_FORGETS = "groups may then lose offsets that were acknowledged, and no check knows of it"
_CHECKPOINTS = "rules about logs go by Kafka's own interval of that checkpoint"
UNJUDGED: Final[Mapping[str, str]] = {
    "log.cleanup.policy": "checks read it of the topics: set topic_settings.cleanup.policy",
    "log.preallocate": "files of the size of a segment are too large to be copied, and no log is judged then",
    "offsets.commit.required.acks": _FORGETS,
    "offsets.retention.minutes": _FORGETS,
    "log.flush.offset.checkpoint.interval.ms": _CHECKPOINTS,
    "log.flush.start.offset.checkpoint.interval.ms": _CHECKPOINTS,
    "replica.high.watermark.checkpoint.interval.ms": _CHECKPOINTS,
}
"""Settings that change what brokers promise, or what is on their disks, where no check would know it; and why
a run may not have them."""
VALUE: Final = re.compile(r"[A-Za-z0-9 _.,:;+=-]*")
"""No backslash: at the end of a line it would join the next one to it."""


def refusal(config: RunConfig) -> str:
    """Which setting of a run real brokers may not have, or why there are none of their version; "" = fine."""
    for name, value in config.broker_settings.items():
        if not _allowed(name):
            return f"broker_settings: a run may not set {name}; it may set {', '.join(FAMILIES)}"
        if name in UNJUDGED:
            return f"broker_settings: a run may not set {name}: {UNJUDGED[name]}"
        if VALUE.fullmatch(value) is None:
            return f"broker_settings: {name}: a number or words, not {value!r}"
    return jars.refusal(config)


def _allowed(name: str) -> bool:
    within = any(name.startswith(one) if one.endswith(".") else name == one for one in FAMILIES)
    return within and CLASSES.search(name) is None and re.fullmatch(r"[a-z0-9.]+", name) is not None
