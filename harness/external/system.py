"""A cluster that the harness did not start, as a system under test."""

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from core.capabilities import Electable, Growable, Reassignable, Wired
from core.config import RunConfig
from core.extensions import CLUSTER
from core.presets import PRESETS
from core.systems import ExternalSection
from harness.external import hooks, named
from harness.external.cluster import ExternalCluster
from harness.external.file import secured
from harness.external.means import commands, judges_disks, means
from harness.external.survey import unjudged
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
    """Which setting it cannot honour, "" = it honours all. The cluster is asked for its own. Raises:
    ConfigError, for a file that is none; ClusterError, where no broker answers."""
    file, its = named.load(), config.section(ExternalSection)
    if (its.prefix, its.profile) != (file.cluster.prefix, file.cluster.profile):
        return "external: the cluster's file has another prefix or profile; start the run with --cluster FILE"
    if len(its.nodes) != config.brokers + config.controllers:
        return f"external: the cluster has {len(its.nodes)} nodes; start the run with --cluster FILE"
    if config.capture:
        return "capture: the harness has no place on the network of a cluster that it did not start"
    if its.watched and not file.cluster.docker:
        return "external: without `docker` nodes are not watched; start the run with --cluster FILE"
    if its.one_clock and not _has_one_clock(os.environ[CLUSTER]):
        return "external: nodes are not known to have this machine's clock; start the run with --cluster FILE"
    reached = _reached(os.environ[CLUSTER])
    found, hooks = reached.found, commands(file, reached.nodes.lacks)
    if its.zookeeper != found.zookeeper:
        return "external: the cluster has its metadata in another place; start the run with --cluster FILE"
    has = found.settings
    return _settings_of_others(config, has) or unjudged(has, disks=judges_disks(file, hooks))


@functools.cache
def _reached(_: str) -> named.Reached:
    """The cluster of this file, asked once: a soak plans hundreds of runs."""
    return named.reach()


@functools.cache
def _has_one_clock(_: str) -> bool:
    """Whether the nodes of this file have this machine's clock: the engine is asked once."""
    return named.has_one_clock(named.load())


def _settings_of_others(config: RunConfig, has: Mapping[str, str]) -> str:
    """Which setting of brokers a preset or the user has wanted, and the cluster has not ("" = it is as
    wanted). Plans and verdicts read `broker_settings`: they have to be what the brokers said."""
    preset = PRESETS[config.preset].get("broker_settings")
    if isinstance(preset, Mapping) and (wrong := _differing(preset, has)):
        return f"preset {config.preset}: it takes {wrong}; a run changes no setting of a cluster's brokers"
    given = config.broker_settings
    wrong = _differing(given, has)
    if left_out := sorted(has.keys() - given.keys()):
        wrong = wrong or f"{left_out[0]}={has[left_out[0]]}, which brokers have, is left out"
    if wrong:
        there = "start the run with --cluster FILE, and without broker_settings"
        return f"broker_settings: {wrong}; a run changes no setting of a cluster's brokers: {there}"
    return ""


def _differing(wanted: Mapping[str, str], has: Mapping[str, str]) -> str:
    """The first setting that has another value there, "" = none has."""
    for name, value in sorted(wanted.items()):
        if has.get(name) != value:
            return f"{name}={value}, where brokers have {has.get(name, 'not said it')}"
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
