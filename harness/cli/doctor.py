"""The prerequisites of a run: `doctor` checks them; `setup` prepares Java, the Docker engine and the images;
`try_cluster` shows what the hooks of an external cluster do.

Installing packages needs root on Debian.
"""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from core.errors import ClusterError, ExitCode
from core.systems import KAFKA_VERSION
from core.terminal import say, show
from harness.containers import engine
from harness.processes.cache import cache_folder
from history.run_folder import RESULTS

if TYPE_CHECKING:
    from docker import DockerClient

MIN_PYTHON = (3, 11)
MIN_JAVA = 17
MIN_DISK_GB = 5
MIN_MEMORY_GB = 4
POSTGRESQL = Path("/usr/lib/postgresql")
"""Where Debian has the programs of its servers, a folder of each version."""


class Status(StrEnum):
    """What a finding means for the user."""

    THERE = "there"
    LATER = "the first run makes it"
    OPTIONAL = "not needed to run"
    LEFT = "the next run removes it"
    ALONE = "left alone"
    MISSING = "missing"


class Prerequisite(NamedTuple):
    """One line of the doctor's table. `advice` says what to do, if anything."""

    subject: str
    status: Status
    found: str
    advice: str = ""


def doctor() -> int:
    """Print all prerequisites; 0 if this machine has those that a run needs, else 70."""
    from rich.console import Console
    from rich.table import Table

    lines = list(examine())
    colours = {Status.THERE: "green", Status.MISSING: "red bold"}
    table = Table("subject", "status", "found", "what to do")
    for one in lines:
        colour = colours.get(one.status, "yellow")
        table.add_row(one.subject, f"[{colour}]{one.status}[/]", one.found, one.advice)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    missing = [one.subject for one in lines if one.status is Status.MISSING]
    console.print(
        f"missing: {', '.join(missing)}" if missing else "this machine has everything that a run needs"
    )
    return ExitCode.HARNESS if missing else ExitCode.VALID


def try_cluster() -> int:
    """Print what trying the cluster that is named shows, line by line; 0 if all is well, else 70."""
    from harness.external.trial import trial

    bad = 0
    with closing(trial()) as lines:  # an interrupt of this loop heals, too
        for line in lines:
            bad += not line.well
            show(f"{'well' if line.well else 'BAD '}  {line.subject}: {line.found}")
    return ExitCode.HARNESS if bad else ExitCode.VALID


def setup(kafka_version: str = KAFKA_VERSION, upgrade: str = "", *, tests: bool = False) -> None:
    """Prepare engine, images and Spark's class archive, unless they are ready; remove what killed runs left.

    upgrade: the version that nodes are to change to, "" = none. tests: what only tests need, too: Chromium,
    PostgreSQL.

    Raises: ClusterError, SparkError: what is missing and what to do.
    """
    from checkers.engine.spark import prepare
    from harness.containers.claims import remove_left
    from harness.kafka.images import ensure_image, ensure_pair
    from harness.kafka.jars import java

    can_install = os.geteuid() == 0 and Path("/etc/debian_version").exists()
    try:
        java()
    except ClusterError:
        if not can_install:
            raise
        engine.install_packages(["openjdk-17-jre-headless"])
    needs = {"chromium": _chromium(), "postgresql": postgresql()} if tests else {}
    if lacks := [package for package, found in needs.items() if found is None]:
        if not can_install:
            raise ClusterError(f"tests need what is missing; install it (apt: {' '.join(lacks)})")
        engine.install_packages(lacks)
    client = engine.ensure()
    try:
        remove_left(client)
        tag = ensure_pair(client, kafka_version, upgrade) if upgrade else ensure_image(client, kafka_version)
        version = client.version()["Version"]
    finally:
        client.close()
    prepare()
    say(f"ready: Docker engine {version}, image {tag}")


def examine() -> Iterator[Prerequisite]:
    """All prerequisites. One that cannot be checked is a line of the table, not an error."""
    python = ".".join(map(str, MIN_PYTHON))
    yield _judged("Python", sys.version_info >= MIN_PYTHON, platform.python_version(), f"{python} or later")
    yield _java()
    yield from _packages()
    yield _cache()
    yield from _docker()
    yield _ports()
    yield _links()
    yield _proxies()
    free = shutil.disk_usage(RESULTS if RESULTS.exists() else Path()).free / 1e9
    yield _judged("disk", free >= MIN_DISK_GB, f"{free:.0f} GB free", f"{MIN_DISK_GB} GB or more")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    need = f"{MIN_MEMORY_GB} GB or more for 3 brokers"
    yield _judged("memory", total >= MIN_MEMORY_GB, f"{total:.0f} GB", need)
    for subject, found in {"Chromium": _chromium(), "PostgreSQL": postgresql()}.items():
        advice = "" if found else "only make test needs it"
        status = Status.THERE if found else Status.OPTIONAL
        yield Prerequisite(subject, status, str(found or "none"), advice)


def _judged(
    subject: str, there: bool, found: str, advice: str = "", otherwise: Status = Status.MISSING
) -> Prerequisite:
    return Prerequisite(subject, Status.THERE if there else otherwise, found, advice)


def _java() -> Prerequisite:
    from harness.kafka.jars import java

    try:
        done = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    except (ClusterError, OSError) as error:
        return Prerequisite("Java", Status.MISSING, "none", str(error))
    words = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if words is None:
        return Prerequisite("Java", Status.MISSING, "does not start", f"install a JRE {MIN_JAVA}")
    major = int(words[2] or 0) if words[1] == "1" else int(words[1])
    need = f"{MIN_JAVA} or later: Spark, fetching Kafka's jars"
    return _judged("Java", major >= MIN_JAVA, str(major), need)


def _packages() -> Iterator[Prerequisite]:
    for name in ("kafka-inquest", "confluent-kafka", "pyspark", "pyarrow", "docker"):
        try:
            yield Prerequisite(name, Status.THERE, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Prerequisite(name, Status.MISSING, "none", "make setup")


def _cache() -> Prerequisite:
    try:
        return Prerequisite("cache folder", Status.THERE, str(cache_folder()))
    except ClusterError as error:
        return Prerequisite("cache folder", Status.MISSING, "none", str(error))


def _docker() -> Iterator[Prerequisite]:
    from harness.containers.images import base_tag, exists
    from harness.kafka.images import image_tag
    from harness.kafka.jars import cached_versions

    try:
        client = engine.connect()
    except ClusterError as error:
        can = engine.startable()
        status = Status.LATER if can else Status.MISSING
        advice = "installed and started by a run (root on Debian)" if can else str(error)
        yield Prerequisite("Docker engine", status, "none answers", advice)
    else:
        try:
            version = client.version()
            yield Prerequisite(
                "Docker engine", Status.THERE, f"{version['Version']} (API {version['ApiVersion']})"
            )
            for tag in (base_tag(), image_tag(KAFKA_VERSION)):
                yield _judged("image", exists(client, tag), tag, otherwise=Status.LATER)
            yield from _runs(client)
        except ClusterError as error:
            yield Prerequisite("Docker engine", Status.MISSING, "fails", str(error))
        finally:
            client.close()
    try:
        versions = cached_versions()
    except ClusterError:
        versions = []
    cached = ", ".join(versions) or "none cached"
    yield _judged("Kafka's jars", KAFKA_VERSION in versions, cached, otherwise=Status.LATER)


def _runs(client: "DockerClient") -> Iterator[Prerequisite]:
    """What runs have in the engine that no process of this machine makes."""
    from harness.containers.claims import State, runs

    for run, state in runs(client).items():
        if state is State.LEFT:
            yield Prerequisite("left by a run", Status.LEFT, run, "its harness was killed")
        elif state is State.UNKNOWN:
            advice = "another machine may be making it; if none is: docker rm -fv, docker network rm"
            yield Prerequisite("left by a run", Status.ALONE, run, advice)


def _ports() -> Prerequisite:
    from harness.brokers.addresses import candidates, given_to_clients, ports_of

    best = ports_of(candidates()[0])
    found = f"from {best.start} on"
    if given_to_clients().isdisjoint(best):
        return Prerequisite("ports", Status.THERE, found)
    advice = (
        "within ip_local_port_range a client may take the port of a broker that is down: "
        f"sysctl -w net.ipv4.ip_local_reserved_ports={best.start}-{best.start + 9999}"
    )
    return Prerequisite("ports", Status.OPTIONAL, found, advice)


def _links() -> Prerequisite:
    programs = [name for name in ("nsenter", "iptables-restore") if shutil.which(name) is None]
    if os.geteuid() != 0 or programs:
        why = f"no {' or '.join(programs)}" if programs else "not root"
        return Prerequisite("cutting links", Status.THERE, "by sidecar containers", f"slower: {why}")
    return Prerequisite("cutting links", Status.THERE, "from the host (nsenter, iptables-restore)")


def _proxies() -> Prerequisite:
    from harness.brokers import toxiproxy

    try:
        program = toxiproxy.found()
    except ClusterError:  # no cache folder, which has a line of its own
        program = None
    if program:
        return Prerequisite("toxiproxy", Status.THERE, program)
    if shutil.which("go"):
        return Prerequisite("toxiproxy", Status.LATER, "none", "built with Go; only nemesis links needs it")
    advice = f"only nemesis links needs it: put {toxiproxy.PROGRAM} on the PATH, or install Go"
    return Prerequisite("toxiproxy", Status.OPTIONAL, "none", advice)


def _chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def postgresql() -> Path | None:
    """The folder of its programs: Debian keeps them off the PATH. None = there is no server."""
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    versions = POSTGRESQL.glob("*/bin/initdb")
    newest = max(versions, key=lambda initdb: float(initdb.parts[-3]), default=None)
    return newest.parent if newest else None
