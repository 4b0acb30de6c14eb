"""How a container ended, as the engine and the container's own log tell it."""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from core.cluster import NodeEnd
from core.errors import EndsMissed
from harness.brokers.node_ends import described, signal_of
from harness.containers import engine

if TYPE_CHECKING:
    from docker import DockerClient

ENDED: Final = ("exited", "dead")
"""States of a container that has run and does not run any more, in the engine's words."""
CREATED: Final = "created"
"""State of one that has never run."""
RESTARTING: Final = "restarting"
"""State of one that has ended, and that the engine will start again."""
TAIL: Final = 10_000
"""Lines of its log that are looked through."""


def end_of(
    client: "DockerClient", container: str, node: int, *, own_program: bool = False, started: str = ""
) -> NodeEnd:
    """The last end of a node. container: its name or id. The log that counts begins with the last start:
    what a node wrote before, with a disk that was full on purpose, says nothing of this end. started: when it
    had begun to run, where something else may have started it since; then container is its whole id.

    Raises: ClusterError; EndsMissed, as `end_before`.
    """
    with engine.explained(f"the end of node {node} could not be looked at"):
        state = client.api.inspect_container(container)["State"]
        if started not in ("", state["StartedAt"]):
            return end_before(client, container, node, started, state["StartedAt"])
        since = moment(state["StartedAt"])
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


def end_before(client: "DockerClient", container: str, node: int, started: str, again: str) -> NodeEnd:
    """The end of a node that runs again, since something else started it. container: its whole id. started,
    again: when it began to run before that end, and the last time, as the engine writes it.

    Raises: EndsMissed, where the engine does not know how it ended; ClusterError.
    """
    since, until = moment(started), moment(again)
    filters = {"container": container, "event": ["die", "oom"]}
    with engine.explained(f"the end of node {node} could not be looked at"):
        # parts of a second are the engine's to understand; whole ones would wait for the end of this one
        told = client.api.events(since, until, filters, decode=True)  # type: ignore[call-overload]
        found = sorted(told, key=lambda one: int(one["timeNano"]))
        died = next((one for one in found if one["Action"] == "die"), None)
        if died is None:
            raise EndsMissed(f"node {node} was started again, and the engine does not know how it ended")
        log = client.api.logs(container, tail=TAIL, since=since, until=until).decode(errors="replace")
    code = int(died["Actor"]["Attributes"]["exitCode"])
    oom = any(one["Action"] == "oom" and one["timeNano"] <= died["timeNano"] for one in found)
    return described(node, exit_code=code, signal=signal_of(code), log=log, oom_killed=oom)


def moment(text: str) -> float:
    """A time as the engine writes it, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
