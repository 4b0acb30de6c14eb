"""Power loss in simulated runs: what one node loses is elsewhere; what all lose at once is gone."""

import pytest
from msgspec.structs import replace

from checkers.engine.check import Tally
from core.config import RunConfig, run_config
from harness.explore.trial import checked, forbidden
from harness.modelled.virtual.run import simulate
from history.events import FaultStarted


def config(nemesis: str, seed: int, **settings: object) -> RunConfig:
    given = {
        "sut": "simulated",
        "workload": "queue",
        "nemesis": nemesis,
        "seed": seed,
        "duration_s": 8,
        "rate": 20,
        "partitions": 3,
        "producers": 2,
        "home_producers": 0,
        "consumers": 1,
        "fault_s": 2.5,
        "calm_s": 1.5,
    }
    return run_config(given | settings)


def lost(tally: Tally) -> int:
    return sum(finding.name == "lost-write" for finding in tally.findings)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_node_without_power_loses_nothing_that_was_acknowledged(seed: int) -> None:
    done = simulate(config("power:one@leader", seed))
    assert any(isinstance(event, FaultStarted) for event in done.events)
    assert lost(checked(done)) == 0


@pytest.mark.sampled(5)
def test_all_nodes_without_power_lose_what_was_not_flushed_and_may() -> None:
    done = simulate(config("power:all", 1))
    tally = checked(done)
    assert lost(tally) > 0
    assert forbidden(done, tally) == {}
    few = [replace(one, nodes=one.nodes[:1]) if isinstance(one, FaultStarted) else one for one in done.events]
    done.events[:] = few
    tally = checked(done)
    assert forbidden(done, tally)["lost-write"] == lost(tally)


def test_a_killed_process_is_no_power_loss() -> None:
    assert lost(checked(simulate(config("kill:all", 1)))) == 0
