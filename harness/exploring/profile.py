"""From a seed to a run: which workload under which nemesis, on which cluster.

Deterministic: the same seed is the same config. Workloads and nemeses go round, so that any 14 neighbouring
seeds have every workload twice, and the rest is drawn. Runs are short and their load is modest: ten
simulated seconds of faults cost about a second of one processor or less.

Not here: running them (`trial`).
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import nemesis as nemeses
from harness.config import ConfigError, RunConfig, run_config
from harness.planning import names_of
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.scheduler import Scheduler
from model.eras import ERAS
from model.mutants import MUTANTS
from workloads import WORKLOADS

MODERN: Final = RunConfig.model_fields["era"].default
BASE: Final[Mapping[str, Any]] = {
    "sut": "simulated", "duration_s": 10, "rate": 20, "partitions": 3, "producers": 3, "consumers": 2,
    "batch_max": 6, "verb_deadline_s": 5, "transaction_timeout_s": 4, "fault_s": 2.5, "calm_s": 1.5,
    "recovery_deadline_s": 60,
}  # fmt: skip
"""Settings of every run, times in seconds."""

NEMESES: Final = (
    "none", "random", "partition", "kill", "pause", "partition,kill", "client", "restart", "elections",
    "partition:isolate@leader", "kill:all", "pause:long@leader", "partition:clients", "kill:majority",
    "client:crash-in-transaction,kill", "random", "partition:ring", "pause,client:crash",
    "kill:one@txn-coordinator", "partition:one-way@controller", "restart:graceful", "elections,pause",
    "kill:one@group-coordinator", "partition:bridge", "client:pause", "partition,pause", "random",
    "kill,client:crash", "partition:isolate@txn-coordinator",
    "pause:short@leader,partition:clients-responses", "partition:halves", "restart:rolling",
    "kill:one@controller", "partition:isolate@group-coordinator", "links", "links,kill",
)  # fmt: skip
"""Taken in turn; where the workload or the modelled cluster cannot have one, another one is drawn."""
STRIDE: Final = 5
"""So many nemeses further with each round of the workloads: no pair comes twice before most came once."""

FAULTS_S: Final = (1.5, 2.5, 4.5)
"""Mean lengths of faults: well within the session of a broker, about as long, and longer."""
LEGACY_SHARE: Final = 0.25
ROLL_S: Final = 12
"""For each broker that is restarted in turn: as long as `nemesis.restart` reserves, and some more."""
WIDE_SHARE: Final = 0.2
ISOLATED_SHARE: Final = 0.25


def clean(seed: int, era: str = MODERN) -> RunConfig:
    """The config of a seed without planted bugs."""
    rng = random.Random(f"explore/{seed}")
    names = tuple(WORKLOADS)
    workload = names[seed % len(names)]
    turn = seed // len(names)
    settings: dict[str, Any] = {
        "workload": workload,
        "preset": _preset(workload, rng),
        "brokers": 5 if rng.random() < WIDE_SHARE else 3,
        "controllers": 3 if rng.random() < ISOLATED_SHARE and not ERAS[era].zookeeper else 0,
        "consumers": rng.choice((2, 3)),
        "fault_s": rng.choice(FAULTS_S),
        "era": era,
    }
    first = NEMESES[((seed % len(names)) * STRIDE + turn) % len(NEMESES)]
    return _possible(settings, (first, *rng.sample(NEMESES, len(NEMESES))), seed)


def hunting(name: str, number: int, first: int = 0, era: str = MODERN) -> RunConfig:
    """The config of a mutant's run with this number (from 0): its workloads and nemeses go round.

    era: unless the mutant needs one of its own. Raises: KeyError, ConfigError.
    """
    hunt = MUTANTS[name].hunt
    if hunt is None:
        raise ConfigError(f"mutant {name} shows in no run")
    turn, at = divmod(number, len(hunt.workloads))
    settings = {"era": era, "workload": hunt.workloads[at], **hunt.settings, "mutant": name}
    start = turn % len(hunt.nemeses)
    return _possible(settings, (*hunt.nemeses[start:], *hunt.nemeses[:start]), first + number)


def hunted() -> list[str]:
    """The mutants that some run shows."""
    return [name for name, mutant in MUTANTS.items() if mutant.hunt is not None]


def without_mutant(config: RunConfig) -> RunConfig:
    """The same run without its planted bug."""
    return config.model_copy(update={"mutant": ""})


def _preset(workload: str, rng: random.Random) -> str:
    if workload == "copier":
        return "exactly-once"
    plain = workload in ("queue", "groups", "send-modes", "fresh-topic")
    return "safe-legacy" if rng.random() < LEGACY_SHARE and plain else "safe"


def _possible(settings: Mapping[str, Any], around: Sequence[str], seed: int) -> RunConfig:
    """With the first nemesis that the workload and the simulated cluster can have."""
    refused: list[str] = []
    for nemesis in around:
        config = run_config({**BASE, **settings, "nemesis": nemesis, "seed": seed})
        if nemesis == "restart:rolling" and "duration_s" not in settings:
            config = config.model_copy(update={"duration_s": ROLL_S * config.brokers})
        why = _refused(config)
        if not why:
            return config
        refused.append(why)
    raise ConfigError(refused[0])


def _refused(config: RunConfig) -> str:
    """Why the simulated cluster cannot have this run, "" = it can."""
    workload = WORKLOADS[config.workload]
    try:
        steps = nemeses.plan(config.nemesis, config, names_of(workload, config))
    except ConfigError as error:
        return str(error)
    lacking = nemeses.missing(steps, SimulatedCluster(config, Scheduler()))
    return f"nemesis {config.nemesis}: needs {', '.join(lacking)}" if lacking else ""
