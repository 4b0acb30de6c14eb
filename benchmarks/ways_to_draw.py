"""Ways to draw the runs of an exploration, which `benchmarks.drawn_runs` compares.

alone     as `explore` does: no seed takes account of others (`harness.explore.profile.clean`)
dealt     workloads and nemeses are shared out: none comes again before the others have come. Each run has
          some settings (DIMENSIONS) of its own
rare      as dealt, but most runs are an earlier one with some other settings. The rarer the features are that
          a run reached, the more often it is taken (AFLFast, CCS 2016, does so with paths)
yields    as dealt, but names and values count by the rarity of what runs with them reached (a bandit)

The same first seed and the same features are the same draws. Nothing here knows of planted bugs.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from core.config import RunConfig, run_config
from core.errors import ConfigError
from core.generator import source
from harness.explore.profile import BASE, NEMESES, clean, drawn
from harness.run.planning import planned
from workloads.registry import modelled

DIMENSIONS: Final[Mapping[str, Sequence[Any]]] = {
    "brokers": (3, 5),
    "controllers": (0, 3),
    "partitions": (1, 3, 6),
    "replication_factor": (2, 3),
    "min_insync_replicas": (1, 2),
    "producers": (3, 6, 10),
    "consumers": (1, 2, 3, 5),
    "rate": (20, 60, 150),
    "batch_max": (2, 6, 20),
    "abort_share": (0.15, 0.4),
    "fault_s": (1.2, 2.5, 4.5, 8),
    "calm_s": (0.3, 1.5),
    "duration_s": (10, 15),
    "verb_deadline_s": (2, 5, 10),
    "transaction_timeout_s": (1, 4, 10),
}
CHANGED: Final = 4
"""Settings that a run draws; the others stay."""
INITIAL: Final = 10
"""Runs before the first that comes from an earlier one: every workload once."""
RARE_SHARE: Final = 0.6
PRIOR: Final = 2
"""Runs of the mean yield that each value is taken to have had."""

Value = tuple[str, Any]
"""A setting, and what it is."""
Worth = Callable[[Value], float]


@dataclass(slots=True)
class Reached:
    """The runs so far, and the features that they reached."""

    configs: list[RunConfig] = field(default_factory=list)
    runs_of: dict[str, list[int]] = field(default_factory=dict)

    def add(self, config: RunConfig, features: Iterable[str]) -> None:
        """One more run."""
        for name in sorted(features):
            self.runs_of.setdefault(name, []).append(len(self.configs))
        self.configs.append(config)

    def rare(self, rng: random.Random) -> RunConfig:
        """A feature, whichever it is, and then one of the runs that reached it."""
        return self.configs[rng.choice(self.runs_of[rng.choice(list(self.runs_of))])]

    def worth(self) -> Worth:
        """What a run with a value yields: each feature is shared by the runs that reached it."""
        yielded = [0.0] * len(self.configs)
        for runs in self.runs_of.values():
            for run in runs:
                yielded[run] += 1 / len(runs)
        mean = sum(yielded) / len(yielded) if yielded else 1.0
        total, runs_with = defaultdict[Value, float](float), Counter[Value]()
        for config, its in zip(self.configs, yielded, strict=True):
            for value in values(config):
                total[value] += its
                runs_with[value] += 1
        return lambda value: (total[value] + PRIOR * mean) / (runs_with[value] + PRIOR)


class Draws:
    """Runs by one of the ways, the first seed first."""

    def __init__(self, way: str, first: int) -> None:
        self._way = way
        self._seed = first
        self._had = Counter[str]()
        self._reached = Reached()

    def draw(self) -> RunConfig:
        """The next run."""
        seed, number = self._seed, len(self._reached.configs)
        if self._way == "alone":
            return clean(seed)
        rng = source(seed, "draw")
        if self._way == "rare" and number >= INITIAL and rng.random() < RARE_SHARE:
            parent = self._reached.rare(rng)
            return changed(parent, (parent.nemesis,), seed, rng)
        worth = self._reached.worth() if self._way == "yields" else lambda _: 1.0
        workloads = self._due("workload", drawn(seed, modelled()), worth)
        nemeses = self._due("nemesis", drawn(seed, NEMESES), worth)
        others = (one for one in map(clean, count(seed)) if one.duration_s == BASE["duration_s"])
        like = next(one for one in others if one.workload == workloads[0])
        return changed(like, nemeses, seed, rng, worth)

    def learn(self, config: RunConfig, features: Iterable[str]) -> None:
        """The run that was drawn is done."""
        self._had.update((config.workload, config.nemesis))
        self._reached.add(config, features)
        self._seed += 1

    def _due(self, kind: str, names: Sequence[str], worth: Worth) -> list[str]:
        """Those first that fewest runs had, for what they are worth."""
        return sorted(names, key=lambda name: -worth((kind, name)) / (1 + self._had[name]))


def changed(
    config: RunConfig, nemeses: Sequence[str], seed: int, rng: random.Random, worth: Worth = lambda _: 1.0
) -> RunConfig:
    """The run with another seed, some other settings, and the first of the nemeses that it can have."""
    settings = {name: getattr(config, name) for name in ("workload", "preset", *DIMENSIONS)}
    for name in rng.sample(sorted(DIMENSIONS), CHANGED):
        known = DIMENSIONS[name]
        settings[name] = rng.choices(known, [worth((name, one)) for one in known])[0]
    for nemesis in (*nemeses, *rng.sample(NEMESES, len(NEMESES))):
        made = run_config({**BASE, **settings, "nemesis": nemesis, "seed": seed})
        try:
            planned(made)
        except ConfigError:
            continue
        return made
    raise ConfigError(f"no nemesis fits {settings}")


def values(config: RunConfig) -> list[Value]:
    """The values of a run that draws decide on."""
    return [(name, getattr(config, name)) for name in ("workload", "nemesis", *DIMENSIONS)]


WAYS: Final = ("alone", "dealt", "rare", "yields")
