"""Waiting until containers that were started are one Kafka cluster; says why they are not.

Not here: starting them (`containers`, `kafka`).
"""

import time
from collections.abc import Mapping, Sequence

from harness.cluster import ClusterError, survey
from harness.cluster.containers import Containers

POLL_S = 0.2


def wait_until_ready(
    made: Containers, nodes: Sequence[int], ports: Mapping[int, int], deadline_s: float
) -> None:
    """Return when every broker sees all brokers and the metadata quorum has a leader.

    nodes: all that were started. ports: by broker. Raises: ClusterError, where one has ended or the
    deadline passed, with the end of its log.
    """
    deadline = time.monotonic() + deadline_s
    everyone = frozenset(ports)
    blind: list[int] = []
    while time.monotonic() < deadline:
        for node in nodes:
            _must_run(made, node)
        views = survey.views(ports)
        blind = [n for n in ports if n not in views or views[n].brokers != everyone]
        if not blind and survey.roles(ports).controller >= 0:
            return
        time.sleep(POLL_S)
    if not blind:
        raise ClusterError(f"the controllers elected no leader within {deadline_s:.0f} s")
    raise ClusterError(
        f"node {blind[0]} did not see all {len(everyone)} brokers within {deadline_s:.0f} s "
        f"(nor did {len(blind) - 1} others); the end of its log:\n{made.log_tail(blind[0])}"
    )


def _must_run(made: Containers, node: int) -> None:
    state = made.state(node)
    if not state["Running"]:
        raise ClusterError(
            f"node {node} ended with exit code {state['ExitCode']} while starting; "
            f"the end of its log:\n{made.log_tail(node)}"
        )
