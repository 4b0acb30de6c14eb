"""Whose runs are in the engine: which ones a process still makes, and which ones were left.

A process *claims* its run, by a socket in the abstract namespace, whose name is made of the run's. Such a
socket is the machine's, not a user's, and goes with its process, however that ends. All containers and
networks of the run say where the claim can be looked for (`PLACE_LABEL`): another machine, or a container
with a network of its own, cannot see it, and does not judge what it cannot see.

A run whose claim is gone has been *left*, where its harness and its reaper were killed together (a cancelled
job, a control group that ran out of memory). Each start of a run and `setup` remove what was left.
"""

import hashlib
import socket
from collections.abc import Iterable
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.errors import ClusterError
from core.terminal import say
from harness.containers import engine
from harness.containers.engine import PLACE_LABEL, RUN_LABEL, explained

if TYPE_CHECKING:
    from docker import DockerClient

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
NETWORK: Final = Path("/proc/self/ns/net")
MACHINE: Final = Path("/etc/machine-id")


class State(StrEnum):
    """What is known of a run that has something in the engine."""

    UNDER_WAY = "under way"
    LEFT = "left"
    UNKNOWN = "unknown"


class Claim:
    """A run that this process makes, from `claim` until `release` or its end."""

    def __init__(self, held: socket.socket) -> None:
        self._held = held

    def release(self) -> None:
        """Give it up; idempotent."""
        self._held.close()


def claim(run: str) -> Claim:
    """Claim a run. Raises: ClusterError, where a process has claimed one of this name."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(_name(run))
    except OSError as error:
        held.close()
        raise ClusterError(f"a run of the name {run} is under way on this machine ({error})") from error
    return Claim(held)


def claimed(run: str) -> bool:
    """Whether a process of this machine, in this network namespace, has claimed the run."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(_name(run))
        except ConnectionRefusedError:
            return False
    return True


def _name(run: str) -> str:
    return f"\0inquest/{hashlib.sha256(run.encode()).hexdigest()}"


def place() -> str:
    """Where this process's claims can be seen: machine, boot, network namespace; "" = unknown."""
    try:
        boot, network = BOOT.read_text().strip(), NETWORK.stat().st_ino
    except OSError:
        return ""
    try:
        machine = hashlib.sha256(MACHINE.read_bytes()).hexdigest()[:16]
    except OSError:
        machine = ""
    return f"{machine}/{boot}/{network}"


def labels(run: str) -> dict[str, str]:
    """What every container, network and volume of a run carries."""
    return {RUN_LABEL: run, PLACE_LABEL: place()}


def state(run: str, where: str) -> State:
    """What is known here of a run. where: the place that its containers name."""
    here = place()
    if not where or not here:
        return State.UNKNOWN
    (machine, boot, _), (its_machine, its_boot, _) = here.split("/"), where.split("/")
    if where == here:
        return State.UNDER_WAY if claimed(run) else State.LEFT
    if machine and machine == its_machine and boot != its_boot:
        return State.LEFT  # no process of an earlier boot lives
    return State.UNKNOWN


def runs(client: "DockerClient") -> dict[str, State]:
    """Every run that has something in the engine. Raises: ClusterError."""
    filters = {"label": RUN_LABEL}
    with explained("what runs left could not be listed"):
        things = [
            *client.api.containers(all=True, filters=filters),
            *client.api.networks(filters=filters),
            *engine.volumes(client, filters),
        ]
    places: dict[str, set[str]] = {}
    for one in things:
        its = one["Labels"]
        places.setdefault(its[RUN_LABEL], set()).add(its.get(PLACE_LABEL, ""))
    return {run: _agreed(state(run, where) for where in its) for run, its in sorted(places.items())}


def _agreed(states: Iterable[State]) -> State:
    """What all of them say."""
    (first, *others) = states
    return first if all(one is first for one in others) else State.UNKNOWN


def remove_left(client: "DockerClient") -> None:
    """Remove what runs left; says so. Raises: ClusterError, where the engine does not list them."""
    for run, its in runs(client).items():
        if its is State.LEFT:
            failed = engine.clear(run)
            say(f"removed what {run} left, whose harness was killed" if not failed else f"left by {run}:")
            for line in failed:
                say(f"not removed: {line}")
