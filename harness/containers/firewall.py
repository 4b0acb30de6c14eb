"""Cut links between nodes: cuts become firewall rules inside a node's network namespace.

Rules are pure text for `iptables-restore`, always a complete filter table: a change on a node is
atomic, and the empty table cuts nothing. DROP is stateless and hits connections that exist. Rules
vanish with the container's namespace, so they are applied again after a restart.

The text is applied from the host (`nsenter`, 10 ms) where this process is root on the engine's own
machine, else by a short-lived container that shares the node's namespace (200 ms).
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.capabilities import Cut, Direction, Listener
from harness.containers.engine import explained
from harness.processes.commands import output
from harness.processes.waiting import on_each

if TYPE_CHECKING:
    from docker.models.containers import Container

DEADLINE_S = 20.0
SAVE = ("iptables-save", "-c", "-t", "filter")


def rules(cuts: Iterable[Cut], addresses: Mapping[int, str], ports: Mapping[Listener, int]) -> str:
    """The filter table of one node with these cuts, as `iptables-restore` reads it.

    addresses: of all nodes. Raises: ValueError for a cut that would drop nothing.
    """
    lines: dict[str, None] = {}
    for cut in cuts:
        lines.update(dict.fromkeys(_lines(cut, addresses, ports)))
    chains = [":INPUT ACCEPT [0:0]", ":FORWARD ACCEPT [0:0]", ":OUTPUT ACCEPT [0:0]"]
    return "\n".join(["*filter", *chains, *lines, "COMMIT", ""])


def _lines(cut: Cut, addresses: Mapping[int, str], ports: Mapping[Listener, int]) -> list[str]:
    chain, side = ("INPUT", "-s") if cut.direction is Direction.IN else ("OUTPUT", "-d")
    if cut.peer is None:
        if cut.listener not in (None, Listener.CLIENT):
            raise ValueError(f"{cut}: clients use the client listener only")
        if cut.opening and cut.direction is Direction.OUT:
            raise ValueError(f"{cut}: a node opens no connections to clients")
        # Requests come in to the port, responses go out from it.
        port = "--dport" if cut.direction is Direction.IN else "--sport"
        return [f"-A {chain} -p tcp {port} {ports[Listener.CLIENT]}{' --syn' * cut.opening} -j DROP"]
    if cut.listener is Listener.CLIENT:
        raise ValueError(f"{cut}: nodes do not use each other's client listener")
    if cut.peer == cut.node or cut.peer not in addresses:
        raise ValueError(f"{cut}: the peer is not another node of this cluster")
    match = f"-A {chain} {side} {addresses[cut.peer]}"
    if cut.opening:
        to = f" --dport {ports[cut.listener]}" if cut.listener else ""
        return [f"{match} -p tcp{to} --syn -j DROP"]
    if cut.listener is None:
        return [f"{match} -j DROP"]
    # The peer's connections to this node's listener, and this node's connections to the peer's.
    return [f"{match} -p tcp {end} {ports[cut.listener]} -j DROP" for end in ("--dport", "--sport")]


class Links:
    """The cuts in force on all nodes of one cluster.

    A cut that two faults made is in force until both have mended it.
    """

    def __init__(
        self, addresses: Mapping[int, str], ports: Mapping[Listener, int], apply: Callable[[int, str], None]
    ) -> None:
        """apply: put a table (`rules`) in force on a node; no-op where the node is down."""
        self._addresses = addresses
        self._ports = ports
        self._apply = apply
        self._held: Counter[Cut] = Counter()

    @property
    def in_force(self) -> tuple[Cut, ...]:
        """The cuts in force, each once, oldest first."""
        return tuple(self._held)

    def cut(self, cuts: Sequence[Cut]) -> None:
        """Add cuts.

        Raises: ValueError (nothing was changed); ClusterError, where a node's table could not be set: all of
        them are to be mended.
        """
        rules(cuts, self._addresses, self._ports)  # refuse nonsense before anything is cut
        self._held.update(cuts)
        self._refresh({cut.node for cut in cuts})

    def mend(self, cuts: Sequence[Cut]) -> None:
        """Remove cuts; ones that are not in force are ignored.

        Raises: ClusterError, where a node's table could not be set: its links may still be cut.
        """
        for cut in cuts:
            if self._held[cut] > 1:
                self._held[cut] -= 1
            else:
                del self._held[cut]
        self._refresh({cut.node for cut in cuts})

    def reapply(self, node: int) -> None:
        """Set the table of a node that was restarted; nothing to do where nothing is cut."""
        if any(cut.node == node for cut in self._held):
            self._refresh({node})

    def _refresh(self, nodes: set[int]) -> None:
        tables = {
            node: rules((c for c in self._held if c.node == node), self._addresses, self._ports)
            for node in nodes
        }
        on_each(lambda node: self._apply(node, tables[node]), sorted(tables))


def host_can_enter(sandbox: str) -> bool:
    """Whether this process can set rules in the namespace file `sandbox` (of a container)."""
    return (
        os.geteuid() == 0
        and bool(sandbox)
        and Path(sandbox).exists()
        and all(shutil.which(program) for program in ("nsenter", "iptables-restore"))
    )


def restore_from_host(sandbox: str, table: str) -> None:
    """Set the filter table of the namespace file `sandbox`.

    Raises: ClusterError.
    """
    _entered(sandbox, ["iptables-restore", "-w"], table)


def saved_from_host(sandbox: str) -> str:
    """The filter table of the namespace file `sandbox`, with counters. Raises: ClusterError."""
    return _entered(sandbox, SAVE)


def _entered(sandbox: str, command: Sequence[str], given: str = "") -> str:
    entered = ["nsenter", f"--net={sandbox}", *command]
    return output(entered, DEADLINE_S, f"{command[0]} by nsenter", given=given)


def restore_from_sidecar(node: "Container", image: str, table: str, labels: Mapping[str, str]) -> None:
    """Set the filter table of a running container by a second one that shares its network.

    image: one that has iptables. Raises: ClusterError.
    """
    shell = ["/bin/sh", "-c", 'printf %s "$TABLE" | iptables-restore -w']
    _beside(node, image, shell, labels, {"TABLE": table})


def saved_from_sidecar(node: "Container", image: str, labels: Mapping[str, str]) -> str:
    """The filter table of a running container, with counters. Raises: ClusterError."""
    return _beside(node, image, SAVE, labels, {})


def _beside(
    node: "Container",
    image: str,
    command: Sequence[str],
    labels: Mapping[str, str],
    environment: Mapping[str, str],
) -> str:
    assert node.client is not None
    with explained("no sidecar container reached the links"):
        out: bytes = node.client.containers.run(
            image,
            entrypoint=list(command),
            environment=dict(environment),
            network_mode=f"container:{node.id}",
            cap_add=["NET_ADMIN"],
            labels=dict(labels),
            remove=True,
        )
    return out.decode()


def openings(saved: str) -> int:
    """How many packets that open a connection a table has dropped. saved: by `iptables-save -c`."""
    found = re.findall(r"^\[(\d+):\d+\] -A .*--tcp-flags \S+ SYN .*-j DROP$", saved, re.MULTILINE)
    return sum(map(int, found))
