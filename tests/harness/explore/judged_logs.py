"""What the rules about logs find in simulated runs, without any client: in sound ones, and with planted bugs.

judged(config)              # evidence of one run, judged
found(config)               # the rules that its planted bug breaks, and not its sound twin
first_found(mutant, numbers)    # the same, in the first of these runs that shows the bug
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from pydantic import ValidationError

from checkers.api import check_evidence
from checkers.engine.check import Tally
from core.config import RunConfig, run_config
from core.errors import ConfigError
from harness.explore.profile import BASE, hunting, without_mutant
from harness.modelled.virtual.evidence import evidence
from harness.modelled.virtual.run import simulate
from harness.run.planning import planned
from model.mutants.log_damage import LOG_DAMAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rules say of one run. weak: known weaknesses of Kafka that did harm in it, by name, where that
    was looked at."""

    tally: Tally
    weak: Counter[str] = field(default_factory=Counter)

    @property
    def broken(self) -> dict[str, int]:
        """Rules that refuse something, and how often; -1: the rule crashed."""
        return dict(sorted((self.tally.refused | dict.fromkeys(self.tally.crashed, -1)).items()))


def judged(config: RunConfig, *, weaknesses: bool = False) -> Verdict:
    """Simulate, and apply all rules about logs to what disks have. weaknesses: look for the known ones."""
    done = simulate(config, invariants=weaknesses)
    tally = check_evidence(evidence(done.cluster))
    return Verdict(tally=tally, weak=Counter(one.name for one in done.weak))


def found(config: RunConfig) -> dict[str, int]:
    """Rules that refuse something in a run with a planted bug, and nothing in the run without it."""
    broken = judged(config).broken
    if not broken:
        return {}
    twin = judged(without_mutant(config)).broken
    return {rule: count for rule, count in broken.items() if rule not in twin and count > 0}


TELLING: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"workload": "groups"},
    {"simulated": {"era": "4.2-tv1"}},
)
"""Changes of the runs that show a planted bug to clients, one after the other until logs show it, too: none;
groups commit offsets, which say what was committed; clients of transaction version 1, as librdkafka is, whose
epochs do not change with each transaction."""


def first_found(mutant: str, numbers: Iterable[int]) -> tuple[int, dict[str, int]]:
    """How many runs it took, and the rules; no rule where none of the runs shows it."""
    tried = 0
    for change, number in product(TELLING, list(numbers)):
        config = _changed(hunting(mutant, number), change)
        if config is None:
            continue
        tried += 1
        if rules := found(config):
            return tried, rules
    return tried, {}


def _changed(config: RunConfig, change: Mapping[str, Any]) -> RunConfig | None:
    """With other settings; None = such a run is not possible."""
    given: dict[str, Any] = config.model_dump()
    era: dict[str, Any] = change.get("simulated", {})
    try:
        made = RunConfig.model_validate(given | dict(change) | {"simulated": given["simulated"] | era})
        planned(made)
    except (ConfigError, ValidationError):
        return None
    return made


def damaging(name: str) -> RunConfig:
    """The config of a run with one of `LOG_DAMAGE`. Raises: KeyError."""
    damage = LOG_DAMAGE[name]
    where = {
        "workload": damage.workload,
        "nemesis": damage.nemesis,
        "brokers": damage.brokers,
        "seed": damage.seed,
    }
    return run_config({**BASE, **where, "preset": "safe", "duration_s": 8, **damage.settings, "mutant": name})
