"""Settings of topics, brokers and groups, and the levels of features.

All are the cluster's, and none changes: to set what is set already is granted; all else is refused.
"""

from collections.abc import Mapping
from typing import Final

from core import dead_letters
from harness.modelled.real.node import Node
from harness.modelled.real.serving.api_call import Api, Call
from harness.modelled.shared.group_settings import share_settings
from harness.protocol.encoding import Values
from model.eras import Era
from model.errors import KafkaError
from model.replication.node import settings_of
from model.settings import Settings

INVALID_CONFIG: Final = 40
"""An error of Kafka that the model does not have."""
TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
"""Types of resources."""
SET: Final = 0
"""An operation of IncrementalAlterConfigs."""
STATIC: Final = 4
"""STATIC_BROKER_CONFIG: the source of a setting."""
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"


def settings_of_topics(settings: Settings) -> dict[str, str]:
    """What topics are set to. Where share groups have a dead-letter queue, any topic may be it."""
    known = {
        "min.insync.replicas": str(settings.min_isr),
        "unclean.leader.election.enable": str(settings.unclean).lower(),
        "cleanup.policy": "delete",
    }
    return {**dead_letters.QUEUE, **known} if settings.share_letters else known


def features(era: Era) -> dict[str, object]:
    """The levels of features, as ApiVersions tells them: of transactions the one that clients speak; of share
    groups what the era has."""
    levels = {TRANSACTION_VERSION: (2, era.client_transaction_version if _newer(era) else 0)}
    if era.share_groups:
        level = dead_letters.FEATURE_LEVEL if era.share_dead_letters else 1
        levels[SHARE_VERSION] = level, level
    return {
        "supported_features": [
            {"name": name, "min_version": 0, "max_version": most} for name, (most, _) in levels.items()
        ],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, (_, level) in levels.items()
            if level
        ],
    }


def _newer(era: Era) -> bool:
    return era.client_transaction_version >= 2


def _describe(call: Call) -> None:
    """The settings that the model has. Of a broker, its roles."""
    found = []
    for one in call.request.resources:
        name, kind = str(one.resource_name), int(one.resource_type)
        known, wanted = _known(call.node, kind, name), one.configuration_keys
        configs = [
            {"name": key, "value": value, "read_only": True, "is_sensitive": False, "config_source": STATIC}
            for key, value in (known or {}).items()
            if not wanted or key in wanted
        ]
        error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION if known is None else KafkaError.NONE
        found.append({"error_code": error, "resource_type": kind, "resource_name": name, "configs": configs})
    call.respond(results=found)


def _known(node: Node, kind: int, name: str) -> Mapping[str, str] | None:
    """What a resource is set to, None = there is no such topic."""
    if kind == TOPIC:
        topics = node.broker.node.image.topics
        return settings_of_topics(settings_of(node.settings, name)) if name in topics else None
    if kind == GROUP:
        return share_settings(node.settings) if node.settings.era.share_groups else {}
    roles = "broker,controller" if node.given.me in node.given.voters else "broker"
    return {"process.roles": roles} if kind == BROKER else {}


def _alter(call: Call) -> None:
    found: list[Values] = []
    for one in call.request.resources:
        name, kind = str(one.resource_name), int(one.resource_type)
        known = _known(call.node, kind, name) or {}
        strange = [
            f"{each.name}={each.value}"
            for each in one.configs
            if each.config_operation != SET or known.get(str(each.name)) != each.value
        ]
        found.append(
            {
                "error_code": INVALID_CONFIG if strange else KafkaError.NONE,
                "error_message": f"the model cannot set {', '.join(strange)}" if strange else None,
                "resource_type": kind,
                "resource_name": name,
            }
        )
    call.respond(responses=found)


OF_SETTINGS: Final[Mapping[str, Api]] = {
    "describe_configs": Api(1, 4, _describe),
    "incremental_alter_configs": Api(0, 1, _alter),
}
"""By name."""
