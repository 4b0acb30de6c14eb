"""How a container ended, as the engine and the container's own log tell it."""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from core.cluster import NodeEnd
from harness.brokers.node_ends import described, signal_of
from harness.containers import engine

if TYPE_CHECKING:
    from docker import DockerClient

ENDED: Final = ("exited", "dead")
"""States of a container that has run and does not run any more, in the engine's words."""
TAIL: Final = 10_000
"""Lines of its log that are looked through."""


def end_of(client: "DockerClient", container: str, node: int, *, own_program: bool = False) -> NodeEnd:
    """The last end of a node. container: its name or id. The log that counts begins with the last start:
    what a node wrote before, with a disk that was full on purpose, says nothing of this end.

    Raises: ClusterError.
    """
    with engine.explained(f"the end of node {node} could not be looked at"):
        state = client.api.inspect_container(container)["State"]
        since = datetime.fromisoformat(state["StartedAt"]).timestamp()
        log = client.api.logs(container, tail=TAIL, since=since).decode(errors="replace")
    code = int(state["ExitCode"])
    return described(
        node,
        exit_code=code,
        signal=signal_of(code),
        log=log,
        oom_killed=bool(state.get("OOMKilled")),
        own_program=own_program,
    )
