"""The Docker engine: find it, start one where that is possible, remove what a run left in it.

Everything that a run creates in the engine carries the label `inquest.run=<run name>`: `stop`, the
reaper and a person need nothing else to remove it. No two runs have the same name (`claims`).
"""

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ClusterError, Unanswered
from core.terminal import say
from harness.processes.cache import locked
from harness.processes.waiting import NotYet, not_yet, on_each, until

if TYPE_CHECKING:
    from docker import DockerClient

RUN_LABEL = "inquest.run"
NODE_LABEL = "inquest.node"
PLACE_LABEL = "inquest.place"
"""Where the claim of a run can be looked for (`claims.place`)."""
DEFAULT_SOCKET = "unix:///var/run/docker.sock"
LOCK = Path("/run/inquest-engine.lock")
"""Held by who installs or starts the engine. All of them are root, whatever their caches."""
ENGINE_LOG = Path("/var/log/inquest-dockerd.log")
ENGINE_PID = Path("/var/run/docker.pid")
PID_FILES = {ENGINE_PID: "dockerd", Path("/var/run/docker/containerd/containerd.pid"): "containerd"}
START_DEADLINE_S = 60.0
POLL_S = 0.2
CALL_DEADLINE_S = 60.0
PING_S = 5


def sdk_errors() -> tuple[type[Exception], ...]:
    """What calls of the SDK raise where the engine refuses, or does not answer in time: errors of
    sockets, requests (which are OSErrors) and urllib3 come through it as they are."""
    from docker.errors import DockerException
    from urllib3.exceptions import HTTPError

    return DockerException, HTTPError, OSError


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise the engine's errors, and its absence, as ClusterError that begins with `what`."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        raise ClusterError(f"{what}: {error.explanation or error}") from error
    except sdk_errors() as error:
        kind = Unanswered if isinstance(error, _too_late()) else ClusterError
        raise kind(f"{what}: the Docker engine does not answer ({error})") from error


def _too_late() -> tuple[type[Exception], ...]:
    """What calls of the SDK raise where the engine took a call and did not answer it in time."""
    from requests import Timeout
    from urllib3.exceptions import TimeoutError as Late

    return Timeout, Late, TimeoutError


def connect(timeout_s: float = CALL_DEADLINE_S) -> "DockerClient":
    """A client of the engine that answers now; each of its calls may take `timeout_s`.

    Which engine that is, testcontainers decides (DOCKER_HOST, its own properties, Docker's context).
    Raises: ClusterError, which says why none answers.
    """
    import docker

    where = chosen() or DEFAULT_SOCKET
    client = None
    try:
        if where.startswith("unix://"):
            _knock(where.removeprefix("unix://"))
        around = {**os.environ, "DOCKER_HOST": where}
        client = docker.from_env(timeout=min(PING_S, int(timeout_s)), max_pool_size=32, environment=around)
        client.ping()
        client.api.timeout = int(timeout_s)
    except sdk_errors() as error:
        if client is not None:
            client.close()
        raise ClusterError(_why_silent(where, error)) from error
    return client


def chosen() -> str | None:
    """Address of the engine that the user chose; None = the one of this machine."""
    from testcontainers.core.docker_client import get_docker_host

    return get_docker_host()


def of_this_machine() -> bool:
    """Whether containers of the engine run on this machine, by its kernel, and so have its clock. A socket
    here may lead to an engine in a virtual machine, or on another host; one that does not answer says
    nothing."""
    if not (chosen() or DEFAULT_SOCKET).startswith("unix://"):
        return False
    try:
        with closing(connect()) as client, explained("the engine's machine is unknown"):
            told = client.info()
    except ClusterError:
        return False
    return (told.get("Name"), told.get("KernelVersion")) == (platform.node(), platform.release())


def _knock(path: str) -> None:
    """Connect and hang up: the SDK leaves a socket open where this fails. Raises: OSError."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)
        probe.connect(path)


def ensure() -> "DockerClient":
    """A client of an engine; as root on Debian it is installed and started where none answers.

    Raises: ClusterError, with what is missing and what to do.
    """
    try:
        return connect()
    except ClusterError:
        if not startable():
            raise
    with locked(LOCK):
        try:
            return connect()  # another process was faster
        except ClusterError:
            _install()
            return _start()


def startable() -> bool:
    """Whether `ensure` may start an engine here: root on Debian, no other engine asked for."""
    return not chosen() and os.geteuid() == 0 and Path("/etc/debian_version").exists()


def died() -> bool:
    """Whether this machine's engine ended without being stopped: one that is stopped removes its pid file."""
    return ENGINE_PID.exists() and not _alive(ENGINE_PID, PID_FILES[ENGINE_PID])


def clear(run: str) -> list[str]:
    """Remove all containers (running or paused too), networks and volumes of a run, also where the engine
    died and can be started again: its containers may have survived. An engine that a person stopped stays
    down: its containers ended with it, and the next run removes them. Returns what could not be removed, as
    sentences; never raises."""
    try:
        try:
            return _remove_run(run)
        except ClusterError:
            if not (startable() and died()):
                raise
            ensure().close()
            return _remove_run(run)
    except ClusterError as error:
        return [str(error)]


def leftovers(run: str) -> list[str]:
    """Names of the containers, networks and volumes of a run that are still there.

    Raises: ClusterError where the engine does not answer.
    """
    filters = {"label": f"{RUN_LABEL}={run}"}
    with closing(connect()) as client, explained(f"what is left of {run} could not be listed"):
        containers = client.api.containers(all=True, filters=filters)
        others = [*client.api.networks(filters=filters), *volumes(client, filters)]
        return [one["Names"][0].lstrip("/") for one in containers] + [str(one["Name"]) for one in others]


def volumes(client: "DockerClient", filters: dict[str, str]) -> list[dict[str, object]]:
    """What the engine says of volumes. Raises: what the SDK does."""
    return list(client.api.volumes(filters=filters)["Volumes"] or ())


def _remove_run(run: str) -> list[str]:
    """What could not be removed. Raises: ClusterError where the engine does not answer."""
    filters = {"label": f"{RUN_LABEL}={run}"}
    failed: list[str] = []

    @contextmanager
    def noting(what: str) -> Iterator[None]:
        try:
            with explained(what):
                yield
        except ClusterError as error:
            if not any(
                gone in str(error) for gone in ("already in progress", "No such container", "no such volume")
            ):
                failed.append(str(error))

    def remove_container(one: dict[str, str]) -> None:
        with noting(f"container {one['Id'][:12]}"):
            client.api.remove_container(one["Id"], force=True, v=True)

    with closing(connect()) as client, noting(f"what is left of {run}"):
        on_each(remove_container, client.api.containers(all=True, filters=filters))
        for network in client.api.networks(filters=filters):
            with noting(f"network {network['Name']}"):
                client.api.remove_network(network["Id"])
        for volume in volumes(client, filters):
            with noting(f"volume {volume['Name']}"):
                client.api.remove_volume(volume["Name"])
    return failed


def _why_silent(where: str, error: Exception) -> str:
    if "Permission denied" in str(error):
        return (
            f"the Docker engine at {where} refuses this user; "
            "run as root, or add the user to the group docker and log in again"
        )
    return (
        f"no Docker engine answers at {where}; install and start one "
        "(Debian: apt-get install docker.io), or set DOCKER_HOST"
    )


def _install() -> None:
    packages = [
        package
        for package, program in (("docker.io", "dockerd"), ("iptables", "iptables"))
        if shutil.which(program) is None
    ]
    if packages:
        install_packages(packages)


def install_packages(packages: list[str]) -> None:
    """Install Debian packages as root, saying so.

    Raises: ClusterError, with the tail of apt's output.
    """
    say(f"installing {' '.join(packages)} (apt-get)")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    for command in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0 and command is install:
            return
    raise ClusterError(
        f"apt-get could not install {' '.join(packages)}; install them by hand. Its last lines:\n"
        + "\n".join((done.stdout + done.stderr).splitlines()[-15:])
    )


def _forget_dead_daemons() -> None:
    """Remove pid files that name another process or a zombie: dockerd would refuse to start."""
    for file, name in PID_FILES.items():
        if not _alive(file, name):
            file.unlink(missing_ok=True)


def _alive(file: Path, name: str) -> bool:
    """Whether the process that a pid file names is a program of this name."""
    try:
        pid = int(file.read_text())
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith(name)
    except (OSError, ValueError):
        return False


def _start() -> "DockerClient":
    """Start the daemon detached, so that it outlives this process, and wait until it answers."""
    if Path("/run/systemd/system").exists():
        say("starting the Docker engine (systemctl start docker)")
        command = ["systemctl", "start", "docker"]
    else:
        say(f"starting the Docker engine (dockerd, log in {ENGINE_LOG})")
        _forget_dead_daemons()
        # setsid --fork: a session of its own, and no child of ours.
        command = ["setsid", "--fork", "dockerd"]
    with ENGINE_LOG.open("ab") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    try:
        return until(START_DEADLINE_S, POLL_S, not_yet(ClusterError)(connect))
    except NotYet:
        tail = ENGINE_LOG.read_text(errors="replace").splitlines()[-15:]
        raise ClusterError(
            f"the Docker engine did not answer {START_DEADLINE_S:.0f} s after its start; "
            f"the end of {ENGINE_LOG}:\n" + "\n".join(tail)
        ) from None
