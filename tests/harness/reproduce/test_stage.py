"""How the stage of the schedules takes a partition from its coordinator."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import cast

import pytest

from core.op import TopicPartition
from harness.reproduce.stage import Deaths, FiveBrokers


@pytest.mark.parametrize(
    ("deaths", "wanted"),
    [
        (Deaths.KILL, ["kill 1"]),
        (Deaths.SHUTDOWN, ["shut_down [1]"]),
        (Deaths.ELECTION, ["reorder (2, 1, 3)", "elect_preferred"]),
    ],
)
def test_only_an_election_leaves_every_broker_running(deaths: Deaths, wanted: list[str]) -> None:
    done: list[str] = []

    def noted(said: str) -> Callable[[object], Awaitable[None]]:
        async def act(given: object) -> None:
            done.append(said.format(given))

        return act

    cluster = SimpleNamespace(shut_down=noted("shut_down {}"), elect_preferred=noted("elect_preferred"))
    stage = SimpleNamespace(
        cluster=cluster,
        deaths=deaths,
        a=1,
        b=2,
        c=3,
        log=TopicPartition("log", 0),
        kill=lambda node: done.append(f"kill {node}"),
        reorder=lambda tp, nodes: done.append(f"reorder {nodes}"),
        leads=lambda node, tp: done.append(f"broker {node} leads"),
    )
    FiveBrokers.hand_over(cast(FiveBrokers, stage), 1, 2)
    assert done == [*wanted, "broker 2 leads"]
