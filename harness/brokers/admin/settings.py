"""Settings of topics, brokers and groups: DescribeConfigs, IncrementalAlterConfigs (KIP-339).

Synchronous; safe from any thread.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.describe_configs.v2.response import DescribeConfigsResponse
from kio.schema.incremental_alter_configs.v0.response import IncrementalAlterConfigsResponse

from harness.brokers.admin.connection import BrokerConnection, check

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
"""Types of what has settings."""
SET, DELETE = 0, 1

Wanted = Mapping[str, str | None]
"""Values of settings; None = as by default."""


def alter(kind: int, wanted: Mapping[str, Wanted], connection: BrokerConnection) -> None:
    """Alter settings. kind: TOPIC, BROKER or GROUP. wanted: by name of topic, broker or group.

    Raises: AdminError.
    """
    resources = [
        {"resource_type": kind, "resource_name": name, "configs": [*map(_operation, its.items())]}
        for name, its in wanted.items()
    ]
    for one in connection.call(IncrementalAlterConfigsResponse, resources=resources).responses:
        check(f"settings of {one.resource_name}", one.error_code, one.error_message)


def described(
    kind: int, wanted: Mapping[str, Iterable[str]], connection: BrokerConnection
) -> dict[str, dict[str, str | None]]:
    """Values of settings, as one broker knows them. kind: as in `alter`. wanted: names of settings, by name
    of topic, broker or group. Raises: AdminError.
    """
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [*keys]}
        for name, keys in wanted.items()
    ]
    found = {}
    for one in connection.call(DescribeConfigsResponse, resources=resources).results:
        check("DescribeConfigs", one.error_code, one.error_message)
        found[one.resource_name] = {each.name: each.value for each in one.configs}
    return found


def _operation(setting: tuple[str, str | None]) -> Mapping[str, object]:
    name, value = setting
    return {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
