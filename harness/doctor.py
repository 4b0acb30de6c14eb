"""What this machine has and lacks for a run, and making ready what can be made ready.

`doctor` only looks. `setup` acts: Java and the Docker engine (as root on Debian), images.

Not here: how engine and images are made (`harness.cluster.engine`, `harness.cluster.images`).
"""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from harness.cluster import ClusterError, engine
from harness.config import KAFKA_VERSION
from harness.store import RESULTS

HARNESS_FAULT = 70
MIN_PYTHON = (3, 11)
MIN_JAVA = 17
MIN_DISK_GB = 5
MIN_MEMORY_GB = 4


class Status(StrEnum):
    """What a finding means for the user."""

    THERE = "there"
    LATER = "made at the first run"
    OPTIONAL = "not needed to run"
    MISSING = "missing"


class Finding(NamedTuple):
    """One line of the doctor's table. `advice` says what to do, or why nothing is to be done."""

    subject: str
    status: Status
    found: str
    advice: str = ""


def doctor() -> int:
    """Print what is there and what is missing; 0 if a run can be made, else 70."""
    from rich.console import Console
    from rich.table import Table

    findings = list(examine())
    colours = {Status.THERE: "green", Status.MISSING: "red bold"}
    table = Table("subject", "status", "found", "what to do")
    for one in findings:
        colour = colours.get(one.status, "yellow")
        table.add_row(one.subject, f"[{colour}]{one.status}[/]", one.found, one.advice)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    missing = [one.subject for one in findings if one.status is Status.MISSING]
    console.print(f"missing: {', '.join(missing)}" if missing else "all that a run needs is there")
    return HARNESS_FAULT if missing else 0


def setup(kafka_version: str = KAFKA_VERSION, *, browser: bool = False) -> None:
    """Make engine, images and Spark's class archive ready; at once where they are.

    browser: Chromium too, for the tests of the report. Raises: ClusterError, with what to do.
    """
    from checkers.spark import SparkError, prepare
    from harness.cluster.images import ensure_image
    from harness.cluster.jars import java

    can_install = os.geteuid() == 0 and Path("/etc/debian_version").exists()
    try:
        java()
    except ClusterError:
        if not can_install:
            raise
        engine.install_packages(["openjdk-17-jre-headless"])
    if browser and _chromium() is None:
        if not can_install:
            raise ClusterError("no Chromium for the browser tests; install it (apt: chromium)")
        engine.install_packages(["chromium"])
    client = engine.ensure()
    try:
        tag = ensure_image(client, kafka_version)
        version = client.version()["Version"]
    finally:
        client.close()
    try:
        prepare()
    except SparkError as error:
        raise ClusterError(str(error)) from None
    engine.say(f"ready: Docker engine {version}, image {tag}")


def examine() -> Iterator[Finding]:
    """All findings. Each check stands alone: one that fails is a finding, not an error."""
    yield _python()
    yield _java()
    yield from _packages()
    yield from _docker()
    yield _links()
    yield _proxies()
    yield _disk()
    yield _memory()
    yield _browser()


def _python() -> Finding:
    wanted = ".".join(map(str, MIN_PYTHON))
    status = Status.THERE if sys.version_info >= MIN_PYTHON else Status.MISSING
    return Finding("Python", status, platform.python_version(), f"{wanted} or later")


def _java() -> Finding:
    from harness.cluster.jars import java

    try:
        done = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    except (ClusterError, OSError) as error:
        return Finding("Java", Status.MISSING, "none", str(error))
    words = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if words is None:
        return Finding("Java", Status.MISSING, "does not start", f"install a JRE {MIN_JAVA}")
    major = int(words[2] or 0) if words[1] == "1" else int(words[1])
    status = Status.THERE if major >= MIN_JAVA else Status.MISSING
    return Finding("Java", status, str(major), f"{MIN_JAVA} or later: Spark, fetching Kafka's jars")


def _packages() -> Iterator[Finding]:
    for name in ("kafka-inquest", "confluent-kafka", "pyspark", "pyarrow", "docker"):
        try:
            yield Finding(name, Status.THERE, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, Status.MISSING, "none", "make setup")


def _docker() -> Iterator[Finding]:
    from harness.cluster.images import base_tag, exists, image_tag
    from harness.cluster.jars import cached_versions

    try:
        client = engine.connect()
    except ClusterError as error:
        can = engine.startable()
        status = Status.LATER if can else Status.MISSING
        advice = "installed and started by a run (root on Debian)" if can else str(error)
        yield Finding("Docker engine", status, "none answers", advice)
        client = None
    if client is not None:
        try:
            version = client.version()
            yield Finding(
                "Docker engine", Status.THERE, f"{version['Version']} (API {version['ApiVersion']})"
            )
            for tag in (base_tag(), image_tag(KAFKA_VERSION)):
                there = exists(client, tag)
                yield Finding("image", Status.THERE if there else Status.LATER, tag)
        finally:
            client.close()
    versions = cached_versions()
    status = Status.THERE if KAFKA_VERSION in versions else Status.LATER
    yield Finding("Kafka's jars", status, ", ".join(versions) or "none cached")


def _links() -> Finding:
    programs = [name for name in ("nsenter", "iptables-restore") if shutil.which(name) is None]
    if os.geteuid() != 0 or programs:
        why = f"no {' or '.join(programs)}" if programs else "not root"
        return Finding("cutting links", Status.THERE, "by sidecar containers", f"slower: {why}")
    return Finding("cutting links", Status.THERE, "from the host (nsenter, iptables-restore)")


def _proxies() -> Finding:
    from harness.cluster import proxies

    if program := proxies.found():
        return Finding("toxiproxy", Status.THERE, program)
    if shutil.which("go"):
        return Finding(
            "toxiproxy", Status.LATER, "none", "built with Go; only nemesis links needs it"
        )
    advice = f"only nemesis links needs it: put {proxies.PROGRAM} on the PATH, or install Go"
    return Finding("toxiproxy", Status.OPTIONAL, "none", advice)


def _disk() -> Finding:
    place = RESULTS if RESULTS.exists() else Path()
    free = shutil.disk_usage(place).free / 1e9
    status = Status.THERE if free >= MIN_DISK_GB else Status.MISSING
    return Finding("disk", status, f"{free:.0f} GB free", f"{MIN_DISK_GB} GB or more")


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    status = Status.THERE if total >= MIN_MEMORY_GB else Status.MISSING
    return Finding("memory", status, f"{total:.0f} GB", f"{MIN_MEMORY_GB} GB or more for 3 brokers")


def _browser() -> Finding:
    found = _chromium()
    if found is None:
        return Finding("Chromium", Status.OPTIONAL, "none", "only make test needs it")
    return Finding("Chromium", Status.THERE, found)


def _chromium() -> str | None:
    find: Callable[[str], str | None] = shutil.which
    return next(filter(None, map(find, ("chromium", "chromium-browser", "google-chrome"))), None)
