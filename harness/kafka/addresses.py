"""Addresses of one cluster: ports on the host's loopback and a private subnet.

A *block* is a number that a process holds by a file lock: a range of host ports and a subnet that no
other run of this user takes meanwhile, even while a node is down and its ports are free. All host
ports lie below 32768, so the kernel never gives them to a client socket.
"""

import fcntl
import ipaddress
import os
import socket

from core.errors import ClusterError
from harness.kafka.containers.cache import cache_folder

BLOCKS = 200
BLOCK_PORTS = 50
FIRST_PORT = 20_000
SUBNETS = ipaddress.ip_network("10.213.0.0/16")
_FIRST_HOST = 10


class Plan:
    """Ports and addresses by node number (1 to 9).

    Clients dial `advertised`. `behind` is where the client listener is published when a proxy stands
    in front of it. Where two do, the first leads to `between`, where the second listens. `harness` leads to a
    listener that neither proxies nor cuts of client traffic touch. `nodes` is where nodes that are processes
    of this machine listen for each other. `toxiproxy` is the port of the proxy server's own API.
    """

    def __init__(self, block: int, lock: int) -> None:
        self.block = block
        self._lock: int | None = lock
        self._base = FIRST_PORT + block * BLOCK_PORTS

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
        """Subnets to try, best first: the block's own, then those of the other blocks."""
        all_of_them = list(SUBNETS.subnets(new_prefix=24))[:BLOCKS]
        return [str(net) for net in all_of_them[self.block :] + all_of_them[: self.block]]

    def release(self) -> None:
        """Give the block back; idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def address(subnet: str, node: int) -> str:
    """The static address of a node in the run's subnet."""
    return str(ipaddress.ip_network(subnet)[_FIRST_HOST + node])


def reserve(start: int = 0) -> Plan:
    """The first free block from `start` on, held until `release` or the end of the process.

    Raises: ClusterError, where all are taken.
    """
    folder = cache_folder() / "blocks"
    folder.mkdir(exist_ok=True)
    for step in range(BLOCKS):
        block = (start + step) % BLOCKS
        lock = os.open(folder / str(block), os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        plan = Plan(block, lock)
        if _all_free(plan):
            return plan
        plan.release()
    raise ClusterError(
        f"all {BLOCKS} port blocks from {FIRST_PORT} on are in use; "
        "end other runs, or remove what they left (docker ps --filter label=inquest.run)"
    )


def _all_free(plan: Plan) -> bool:
    kinds = (plan.advertised, plan.behind, plan.harness, plan.nodes, plan.between)
    ports = [port(node) for port in kinds for node in range(1, 10)]
    return all(_is_free(port) for port in (*ports, plan.toxiproxy))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
