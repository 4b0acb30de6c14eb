"""Half-open links in simulated runs: who is connected notices nothing, and a new client waits."""

import pytest

from core.capabilities import Cut, Direction
from core.config import run_config
from harness.explore.trial import checked, forbidden
from harness.modelled.virtual.run import simulate
from history.events import FaultFailed, FaultStarted
from model.protocol.coordinator_messages import Heartbeat
from tests.harness.modelled.virtual.one_node import OneNode

SHUT = Cut(node=1, direction=Direction.IN, opening=True)
FIRST, SECOND, THIRD = (Heartbeat("g", number, "m") for number in (1, 2, 3))


def test_established_connections_live_and_new_ones_wait() -> None:
    bench = OneNode()
    old = bench.connect()
    bench.ask(old, FIRST)
    bench.until(100)
    bench.network.cut([SHUT])
    new = bench.connect()
    bench.ask(old, SECOND)
    bench.ask(new, THIRD)
    bench.until(1000)
    assert bench.texts()[0] == [FIRST, SECOND]
    assert bench.network.stopped[1] == 1
    bench.network.mend([SHUT])
    bench.until(5000)
    assert bench.texts() == ([FIRST, SECOND, THIRD], [FIRST, SECOND, THIRD])


def test_what_a_client_gave_up_before_it_was_connected_never_arrives() -> None:
    bench = OneNode()
    bench.network.cut([SHUT])
    new = bench.connect()
    bench.ask(new, FIRST)
    bench.until(100)
    bench.network.close(new)
    bench.network.mend([SHUT])
    bench.until(5000)
    assert bench.texts() == ([], [])


@pytest.mark.sampled(42)
def test_a_run_under_half_open_links_is_clean() -> None:
    config = run_config(
        {
            "sut": "simulated",
            "workload": "transactions",
            "nemesis": "half-open",
            "seed": 3,
            "duration_s": 20,
            "rate": 40,
            "partitions": 3,
        }
    )
    done = simulate(config)
    assert any(isinstance(event, FaultStarted) for event in done.events)
    assert not any(isinstance(event, FaultFailed) for event in done.events)
    assert forbidden(done, checked(done)) == {}
