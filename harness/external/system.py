"""A cluster that the harness did not start, as a system under test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.capabilities import Electable, Growable, Reassignable, Wired
from core.config import RunConfig
from core.systems import ExternalSection
from harness.external import hooks, named
from harness.external.cluster import ExternalCluster
from harness.external.file import secured
from harness.external.means import commands, means
from harness.run.backend import Backend


def capabilities(config: RunConfig) -> frozenset[type]:
    """What admin calls do; what the file's hooks give; the wire, where it is not encrypted. Raises:
    ConfigError."""
    file = named.load()
    encrypted = secured(file).security.protocol.encrypted
    by_admin = {Electable, Growable, Reassignable} | ({Wired} if not encrypted else set())
    return frozenset(by_admin) | hooks.capabilities(commands(file, means(file).lacks))


def cluster(config: RunConfig, run_dir: Path) -> ExternalCluster:
    """The cluster that the file names; nothing is created. Raises: ClusterError, ConfigError."""
    return ExternalCluster(config, run_dir, capabilities(config))


def refusal(config: RunConfig) -> str:
    """Which setting it cannot honour, "" = it honours all. Raises: ConfigError, for a file that is none."""
    file, its = named.load(), config.section(ExternalSection)
    if (its.prefix, its.profile) != (file.cluster.prefix, file.cluster.profile):
        return "external: the cluster's file has another prefix or profile; start the run with --cluster FILE"
    if len(its.nodes) != config.brokers + config.controllers:
        return f"external: the cluster has {len(its.nodes)} nodes; start the run with --cluster FILE"
    if config.capture:
        return "capture: the harness has no place on the network of a cluster that it did not start"
    return ""


def lacking(names: Sequence[str]) -> str:
    """What gives the capabilities of these names, and why the shorthand does not. Raises: ConfigError,
    ClusterError."""
    pairs = [pair for one, pair in hooks.PAIRS.items() if one.__name__ in names]
    if not pairs:
        return ""
    refused = means(named.load()).lacks
    whys = dict.fromkeys(refused[hook] for pair in pairs for hook in pair if hook in refused)
    return "; ".join([f"the cluster's file lacks the hooks {', '.join(map(' and '.join, pairs))}", *whys])


EXTERNAL: Final = Backend(cluster=cluster, capabilities=capabilities, refusal=refusal, lacking=lacking)
