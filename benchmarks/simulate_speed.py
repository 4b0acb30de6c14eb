"""How fast the simulator is: events and simulated seconds in one CPU second.

    python -m benchmarks.simulate_speed [--repeat 3] [--profile queue …] [--seeds 8] [--json]

Profiles: each workload at 5 ops/s under `partition,kill` for 30 simulated seconds of faults (the goals are
about these), and `explore`: the first seeds of `inquest model explore`. Each runs with the safety invariants
and without. Every figure is the best of the repetitions, which take turns: a busy machine makes CPU seconds
longer too, and the best is the one that was disturbed least. Measured are `simulate` and the release of what
it made: neither the checks nor the start of Python.

Goals: 60,000 events and 50 simulated seconds in one CPU second at 5 ops/s, with the invariants.
"""

import argparse
import itertools
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from core.config import RunConfig, run_config
from harness.explore.profile import BASE, clean
from harness.modelled.virtual.run import seldom_collecting, simulate
from workloads.registry import WORKLOADS

EXPLORE: Final = "explore"
SLOW: Final[Mapping[str, object]] = {"rate": 5, "duration_s": 30, "nemesis": "partition,kill", "seed": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One profile. events: calls that the scheduler made. cpu_s: of the fastest repetition."""

    profile: str
    invariants: bool
    events: int
    simulated_s: float
    cpu_s: float

    @property
    def row(self) -> str:
        """A line of the table."""
        return (
            f"{self.profile:16} {'yes' if self.invariants else 'no':10} {self.events:9,} "
            f"{self.simulated_s:11.1f} {self.cpu_s:7.2f} {self.events / self.cpu_s:10,.0f} "
            f"{self.simulated_s / self.cpu_s:9.1f}"
        )


HEAD: Final = (
    f"{'profile':16} {'invariants':10} {'events':>9} {'simulated s':>11} {'CPU s':>7} {'events/s':>10} "
    f"{'x time':>9}"
)


def configs(profile: str, seeds: int) -> list[RunConfig]:
    """The runs of a profile."""
    if profile == EXPLORE:
        return [clean(seed) for seed in range(seeds)]
    preset = "exactly-once" if profile == "copier" else "safe"
    return [run_config({**BASE, **SLOW, "workload": profile, "preset": preset})]


def once(profile: str, runs: Sequence[RunConfig], *, invariants: bool) -> Speed:
    """Make the runs of a profile."""
    events, simulated_s, begin = 0, 0.0, time.process_time()
    for config in runs:
        with seldom_collecting():  # as `inquest model explore` does
            done = simulate(config, invariants=invariants)
            events, simulated_s = events + done.calls, simulated_s + done.simulated_s
            del done
    cpu_s = time.process_time() - begin
    return Speed(profile=profile, invariants=invariants, events=events, simulated_s=simulated_s, cpu_s=cpu_s)


def measured(profiles: Sequence[str], seeds: int, repeat: int) -> list[Speed]:
    """The best of each profile, with and without invariants."""
    best: dict[tuple[str, bool], Speed] = {}
    for _, profile, invariants in itertools.product(range(repeat), profiles, (True, False)):
        one = once(profile, configs(profile, seeds), invariants=invariants)
        key = (profile, invariants)
        best[key] = min(best.get(key, one), one, key=lambda speed: speed.cpu_s)
    return [best[profile, invariants] for profile in profiles for invariants in (True, False)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--profile", action="append", choices=[*WORKLOADS, EXPLORE])
    parser.add_argument("--seeds", type=int, default=8, help="of the profile `explore`")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measured(given.profile or [*WORKLOADS, EXPLORE], given.seeds, given.repeat)
    if given.json:
        print(json.dumps([asdict(one) for one in found]))
        return
    print(f"load average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(HEAD)
    for one in found:
        print(one.row)


if __name__ == "__main__":
    main()
