"""The file of the cluster that the user named, for this process and its children.

`--cluster` puts it into a variable of the environment, as files of extensions are named (`core.extensions`).
A run folder names neither a cluster nor a command, so that no recording of a stranger's reaches one or runs
one here.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from core.errors import ConfigError
from core.extensions import CLUSTER, OWNED
from core.presets import NamedSettings
from harness.clients.application import effects
from harness.clients.application import named as application
from harness.containers import engine
from harness.external.file import ClusterFile, Secured, read, secured
from harness.external.means import means
from harness.external.nodes import Means
from harness.external.survey import Survey, survey


def name(path: Path, *, owned: bool) -> None:
    """Name the file, and whether the cluster may have topics and groups of others. Raises: ConfigError."""
    os.environ[CLUSTER] = str(path.resolve())
    os.environ[OWNED] = "1" if owned else ""
    load()


def owned() -> bool:
    """Whether the cluster may have topics and groups of others."""
    return bool(os.environ.get(OWNED))


def load() -> ClusterFile:
    """The file. Raises: ConfigError, where none is named, or it cannot be used."""
    given = os.environ.get(CLUSTER, "")
    if not given:
        raise ConfigError(
            f"sut=external: name the cluster with --cluster, or in {CLUSTER}; no recording brings one"
        )
    return read(Path(given))


class Reached(NamedTuple):
    """A cluster that answers. brokers: their numbers. nodes: by what means hooks reach all nodes: by the
    file's names, else by the host that a broker advertises."""

    file: ClusterFile
    client: Secured
    found: Survey
    brokers: tuple[int, ...]
    nodes: Means


def reach() -> Reached:
    """The cluster that the file names. Raises: ConfigError, ClusterError."""
    file = load()
    its, nodes = secured(file), means(file)
    wanted = set(nodes.names) - set(nodes.controllers)
    found = survey(file, its.security, wanted)
    brokers = _brokers(wanted or set(found.brokers), found)
    hosts = {node: address.host for node, address in found.brokers.items()}
    return Reached(file, its, found, brokers, msgspec.structs.replace(nodes, names={**hosts, **nodes.names}))


def has_one_clock(file: ClusterFile) -> bool:
    """Whether all nodes are known to go by the clock of this machine: they are its containers."""
    return bool(file.cluster.docker) and engine.of_this_machine()


def settings() -> NamedSettings:
    """What the file and the cluster say of a run's config. Raises: ConfigError, ClusterError."""
    app = application_section()
    return of_cluster() | ({} if app is None else {**application.SETTINGS, "app": app})


def of_cluster() -> NamedSettings:
    """Of the cluster: its section, how many nodes there are, and what brokers are set to. Raises:
    ConfigError, ClusterError."""
    reached = reach()
    its, brokers, controllers = reached.file.cluster, reached.brokers, reached.nodes.controllers
    section = {
        "prefix": its.prefix,
        "profile": its.profile,
        "nodes": (*brokers, *controllers),
        "one_clock": has_one_clock(reached.file),
        "watched": bool(its.docker),
        "zookeeper": reached.found.zookeeper,
    }
    copies = 1 if its.profile == "object-store" else min(3, len(brokers))
    return {
        "sut": "external",
        "external": section,
        "brokers": len(brokers),
        "controllers": len(controllers),
        "broker_settings": dict(reached.found.settings),
        **_fewer(copies),
    }


def application_section() -> NamedSettings | None:
    """The setting `app` of a run of the file's application, whose commands are named now; None = it names no
    application. Raises: ConfigError."""
    app = load().app
    if app is None:
        return None
    application.PROGRAM.name(app.command)
    if app.effects:
        effects.COMMAND.name(app.effects)
    return app.section.model_dump()


def _brokers(wanted: set[int], found: Survey) -> tuple[int, ...]:
    """Numbers of the brokers. Raises: ConfigError, where the file names others than the cluster has."""
    if wanted != set(found.brokers):
        listed = [", ".join(map(str, sorted(some))) for some in (wanted, found.brokers)]
        raise ConfigError(
            f"--cluster: the file names the brokers {listed[0]}, and the cluster has {listed[1]}"
        )
    return tuple(sorted(wanted))


def _fewer(copies: int) -> Mapping[str, int]:
    """A cluster that is smaller than a run usually is."""
    if copies >= 3:
        return {}
    return {"replication_factor": copies, "min_insync_replicas": min(2, copies)}
