"""Addresses of one cluster: ports on the host's loopback, a private subnet and ports in it; and its id.

A *block* is a range of host ports and a subnet. A process takes one by a socket that it binds to the block's
first port and keeps: so no other run of this machine, of any user and in any results folder, has the block
meanwhile, even while a node is down and its ports are free. The kernel takes the socket back when the
process ends, however it ends.

Blocks whose ports the kernel gives to client sockets (`ip_local_port_range`) are the last to be taken: such a
socket may have the port of a node that is down when the node is to start again.
"""

import base64
import hashlib
import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from core.capabilities import Listener
from core.config import RunConfig
from core.errors import ClusterError

LOOPBACK: Final = "127.0.0.1"
PORTS: Final[Mapping[Listener, int]] = {
    Listener.BROKER: 9092,
    Listener.CONTROLLER: 9093,
    Listener.CLIENT: 9094,
}
HARNESS_PORT: Final = 9095
"""The harness's own listener: cuts of client traffic and proxies do not touch it."""
BEHIND: Final[Mapping[Listener, int]] = {Listener.BROKER: 9096, Listener.CONTROLLER: 9097}
"""Ports of listeners that other nodes reach through a proxy, which has the usual port."""
BLOCKS: Final = 200
"""From each first port on."""
BLOCK_PORTS: Final = 50
FIRST_PORTS: Final = (20_000, 10_000, 30_000, 40_000, 50_000)
"""The best first; multiples of `BLOCKS * BLOCK_PORTS`."""
SUBNETS: Final = tuple(ipaddress.ip_network("10.213.0.0/16").subnets(new_prefix=27))
"""One for each block, and more that belong to none."""
_FIRST_HOST: Final = 10
KERNEL: Final = Path("/proc/sys/net/ipv4")
USUAL_RANGE: Final = (32_768, 60_999)
"""`ip_local_port_range` where it cannot be read."""


class Plan:
    """Ports and addresses by node number (1 to 9).

    Clients dial `advertised`. `behind` is where the client listener is published when a proxy stands
    in front of it. Where two do, the first leads to `between`, where the second listens. `harness` leads to a
    listener that neither proxies nor cuts of client traffic touch. `nodes` is where nodes that are processes
    of this machine listen for each other. `toxiproxy` is the port of the proxy server's own API.
    """

    def __init__(self, block: int, held: socket.socket) -> None:
        self.block = block
        self._held = held
        self._base = first_port(block)

    def advertised(self, node: int) -> int:
        """Host port that clients dial."""
        return self._base + node

    def behind(self, node: int) -> int:
        """Host port of the client listener while a proxy has the advertised one."""
        return self._base + 10 + node

    def between(self, node: int) -> int:
        """Host port of the second proxy while another one has the advertised port."""
        return self._base + 40 + node

    def harness(self, node: int) -> int:
        """Host port of the harness's own listener."""
        return self._base + 20 + node

    def nodes(self, node: int) -> int:
        """Host port where a node that is a process of this machine listens for others."""
        return self._base + 30 + node

    @property
    def toxiproxy(self) -> int:
        """Host port of toxiproxy's own API."""
        return self._base + 30

    def subnets(self) -> list[str]:
        """Subnets to try, best first: the block's own, then those of none. (Engines do not know
        each other's networks: a subnet of another block may be in use on another one.)"""
        blocks = len(FIRST_PORTS) * BLOCKS
        spare = SUBNETS[blocks:]
        at = self.block % len(spare)
        return [str(net) for net in (SUBNETS[self.block], *spare[at:], *spare[:at])]

    @property
    def held(self) -> bool:
        """Whether the block is this process's."""
        return self._held.fileno() >= 0

    def release(self) -> None:
        """Give the block back; idempotent."""
        self._held.close()


def first_port(block: int) -> int:
    """The port that a block is held by; all its others follow."""
    return FIRST_PORTS[block // BLOCKS] + block % BLOCKS * BLOCK_PORTS


def address(subnet: str, node: int) -> str:
    """The static address of a node in the run's subnet."""
    return str(ipaddress.ip_network(subnet)[_FIRST_HOST + node])


def reserve(start: int = 0) -> Plan:
    """The first free block from `start` on, held until `release` or the end of the process.

    Raises: ClusterError, where all are taken.
    """
    for block in candidates(start):
        held = socket.socket()
        try:
            held.bind((LOOPBACK, first_port(block)))
        except OSError:  # taken
            held.close()
            continue
        plan = Plan(block, held)
        if _all_free(plan):
            return plan
        plan.release()
    raise ClusterError(
        f"all {len(FIRST_PORTS) * BLOCKS} port blocks from {min(FIRST_PORTS)} on are in use; "
        "end other runs, or remove what they left (docker ps --filter label=inquest.run)"
    )


def candidates(start: int = 0) -> list[int]:
    """All blocks in the order in which they are tried: those first that no client socket gets a port of."""
    every = [
        first * BLOCKS + (start + step) % BLOCKS
        for first in range(len(FIRST_PORTS))
        for step in range(BLOCKS)
    ]
    given = given_to_clients()
    return sorted(every, key=lambda block: any(port in given for port in ports_of(block)))


def ports_of(block: int) -> range:
    """All ports of a block."""
    return range(first_port(block), first_port(block) + BLOCK_PORTS)


def given_to_clients() -> set[int]:
    """The ports that the kernel gives to client sockets."""
    low, high = _numbers("ip_local_port_range") or USUAL_RANGE
    return set(range(low, high + 1)) - set(_reserved())


def _reserved() -> Iterator[int]:
    """Ports that the kernel gives to no socket that does not ask for them: `20000-29999,40000`."""
    try:
        text = (KERNEL / "ip_local_reserved_ports").read_text()
    except OSError:
        return
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", text):
        yield from range(int(low), int(high or low) + 1)


def _numbers(name: str) -> tuple[int, int] | None:
    try:
        low, high = map(int, (KERNEL / name).read_text().split())
    except (OSError, ValueError):
        return None
    return low, high


def _all_free(plan: Plan) -> bool:
    kinds = (plan.advertised, plan.behind, plan.harness, plan.nodes, plan.between)
    ports = [port(node) for port in kinds for node in range(1, 10)]
    return all(_is_free(port) for port in (*ports, plan.toxiproxy))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def cluster_id(run: str) -> str:
    """A cluster id (16 bytes, base64url) made from the run's name.

    Its first bit is 0, so it never begins with `-`, which Kafka's tools would take for an option.
    """
    digest = hashlib.sha256(run.encode()).digest()
    raw = bytes([digest[0] & 0x7F]) + digest[1:16]
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def host(config: RunConfig, node: int) -> str:
    """Name of a node inside the cluster (each node's hosts file knows all of them)."""
    return f"{'broker' if node <= config.brokers else 'controller'}-{node}"


def host_names(config: RunConfig) -> dict[int, str]:
    """`host` of brokers and isolated controllers."""
    return {node: host(config, node) for node in range(1, config.brokers + config.controllers + 1)}
