"""From a seed to a run: which workload under which nemesis, on which cluster.

The same seed is the same config. It depends on the names of workloads and nemeses, not on their order or
number: a new workload changes only the seeds that now have it. Runs are short and their load is modest: ten
simulated seconds of faults take about a second of one processor or less.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.config import RunConfig, run_config
from core.errors import ConfigError
from core.generator import source
from core.presets import NamedSettings
from core.systems import SimulatedSection
from harness.modelled.virtual.cluster import capabilities
from harness.run.planning import planned
from model.eras import ERAS
from model.mutants.registry import MUTANTS
from nemesis import execute
from workloads.registry import modelled

MODERN: Final = SimulatedSection().era
BASE: Final[Mapping[str, object]] = {
    "sut": "simulated",
    "duration_s": 10,
    "rate": 20,
    "partitions": 3,
    "producers": 3,
    "home_producers": 0,
    "consumers": 2,
    "batch_max": 6,
    "verb_deadline_s": 5,
    "transaction_timeout_s": 4,
    "fault_s": 2.5,
    "calm_s": 1.5,
    "faults_begin": "planned",
    "recovery_deadline_s": 60,
}
"""Settings of every run, times in seconds."""

NEMESES: Final = (
    "none", "random", "partition", "kill", "pause", "partition,kill", "client", "restart", "elections",
    "partition:isolate@leader", "kill:all", "pause:long@leader", "partition:clients", "kill:majority",
    "client:crash-in-transaction,kill", "partition:ring", "pause,client:crash",
    "kill:one@txn-coordinator", "partition:one-way@controller", "restart:graceful", "elections,pause",
    "kill:one@group-coordinator", "partition:bridge", "client:pause", "partition,pause",
    "kill,client:crash", "partition:isolate@txn-coordinator",
    "pause:short@leader,partition:clients-responses", "partition:halves", "restart:rolling",
    "kill:one@controller", "partition:isolate@group-coordinator", "links", "links,kill",
    "power:one@leader", "power:all", "failover", "unclean", "reassign", "add-partitions,kill",
    "reassign:move@leader,kill:one@leader", "slow-follower", "slow-follower,kill:one@leader", "wire",
    "half-open", "delete-records", "delete-records:half,kill:one@leader", "recreate-topics:all",
    "recreate-topics:away@leader",
)  # fmt: skip
"""The nemeses of clean seeds."""
WEIGHTS: Final[Mapping[str, int]] = {"random": 3}
"""How often a name is drawn; every other one once."""
NEEDED: Final[Mapping[str, Mapping[str, object]]] = {
    "unclean": {"unclean_leader_election": True, "duration_s": 20}
}
"""Settings without which no run has a nemesis."""

FAULTS_S: Final = (1.5, 2.5, 4.5)
"""Mean lengths of faults: well within the session of a broker, about as long, and longer."""
LEGACY_SHARE: Final = 0.25
ROLL_S: Final = 12
"""Seconds for each broker that is restarted in turn: a little more than `nemesis.families.restart`
reserves."""
IN_GROUPS: Final = ("groups", "copier")
NEWER_SHARE: Final = 0.5
"""How many runs of these workloads have groups of KIP-848."""
WEAK: Final[Mapping[str, Sequence[str]]] = {"recreate-topics:away@leader": IN_GROUPS}
"""By nemesis: workloads that show a known bug of Kafka under it, here `deleted-topic-offsets`: who
coordinates a group next keeps its offsets of the topic."""
RENEWING_SHARE: Final = 0.5
"""How many runs of share groups have members that renew locks."""
LIMITED_SHARE: Final = 0.3
"""How many runs of share groups have records that come to the limit of deliveries."""
LETTERED_SHARE: Final = 0.35
"""How many of them have a dead-letter queue, where brokers have such."""
WIDE_SHARE: Final = 0.2
ISOLATED_SHARE: Final = 0.25


def clean(seed: int, era: str = MODERN) -> RunConfig:
    """The config of a seed without planted bugs."""
    workload = drawn(seed, modelled(share_groups=ERAS[era].share_groups))[0]
    rng = source(seed, "explore", workload)
    settings: NamedSettings = {
        "workload": workload,
        "preset": _preset(workload, rng),
        "brokers": 5 if rng.random() < WIDE_SHARE else 3,
        "controllers": 3 if rng.random() < ISOLATED_SHARE and not ERAS[era].zookeeper else 0,
        "consumers": rng.choice((2, 3)),
        "fault_s": rng.choice(FAULTS_S),
        "era": era,
    }
    newer = source(seed, "explore", "group.protocol").random() < NEWER_SHARE
    if newer and workload in IN_GROUPS and ERAS[era].consumer_groups:
        settings["client_settings"] = {"consumer.group.protocol": "consumer"}
    renews = source(seed, "explore", "renew_share").random() < RENEWING_SHARE
    if renews and workload == "share" and ERAS[era].share_locks_renewed:
        settings["renew_share"] = 0.5
    limited = source(seed, "explore", "share-limit").random() < LIMITED_SHARE
    if limited and workload == "share":
        settings["preset"] = "share-limit"
    lettered = source(seed, "explore", "dead-letters").random() < LETTERED_SHARE
    if lettered and workload == "share" and ERAS[era].share_dead_letters:
        settings["dead_letters"] = True
    nemeses = [name for name in drawn(seed, NEMESES, workload) if workload not in WEAK.get(name, ())]
    return _possible(settings, nemeses, seed)


def drawn(seed: int, names: Iterable[str], *path: str) -> list[str]:
    """The names in the order in which this seed prefers them; the first are as frequent as their weights.

    Each name draws its own number (rendezvous hashing: Thaler and Ravishankar, 1998). So a new name takes
    some seeds over from others, and every other seed stays as it is.
    """
    score = {
        name: source(seed, "explore", *path, name).random() ** (1 / WEIGHTS.get(name, 1)) for name in names
    }
    return sorted(score, key=lambda name: score[name], reverse=True)


def hunting(name: str, number: int, first: int = 0, era: str = MODERN) -> RunConfig:
    """The config of one run of a mutant. number: of the run, from 0; workloads and nemeses take turns.

    era: used unless the mutant needs another one. Raises: KeyError, ConfigError.
    """
    hunt = MUTANTS[name].hunt
    if hunt is None:
        raise ConfigError(f"mutant {name} shows in no run")
    turn, at = divmod(number, len(hunt.workloads))
    settings = {"era": era, "workload": hunt.workloads[at], **hunt.settings, "mutant": name}
    start = turn % len(hunt.nemeses)
    return _possible(settings, (*hunt.nemeses[start:], *hunt.nemeses[:start]), first + number)


def hunted() -> list[str]:
    """The mutants that a run can show."""
    return [name for name, mutant in MUTANTS.items() if mutant.hunt is not None]


def without_mutant(config: RunConfig) -> RunConfig:
    """The same run without its planted bug."""
    sound = config.section(SimulatedSection).model_copy(update={"mutant": ""})
    return config.model_copy(update={"simulated": sound})


def _preset(workload: str, rng: random.Random) -> str:
    if workload == "copier":
        return "exactly-once"
    if workload in ("compacted", "share"):
        return workload
    if workload == "sink":
        return rng.choice(("sink-unique-id", "sink-offset-in-transaction", "sink-optimistic-lock"))
    plain = workload in ("queue", "groups", "send-modes", "fresh-topic")
    return "safe-legacy" if rng.random() < LEGACY_SHARE and plain else "safe"


def _possible(settings: Mapping[str, object], around: Sequence[str], seed: int) -> RunConfig:
    """With the first nemesis that the workload and the simulated cluster can have."""
    refused: list[str] = []
    for nemesis in around:
        config = run_config({**BASE, **NEEDED.get(nemesis, {}), **settings, "nemesis": nemesis, "seed": seed})
        if nemesis == "restart:rolling" and "duration_s" not in settings:
            config = config.model_copy(update={"duration_s": ROLL_S * config.brokers})
        why = _refused(config)
        if not why:
            return config
        refused.append(why)
    raise ConfigError(refused[0])


def _refused(config: RunConfig) -> str:
    """Why the simulated cluster cannot have this run, "" = it can."""
    try:
        steps = planned(config, capabilities(config)).steps
    except ConfigError as error:
        return str(error)
    lacking = execute.missing(steps, capabilities(config))
    return f"nemesis {config.nemesis}: needs {', '.join(lacking)}" if lacking else ""
