"""Looks at the cluster during a run, in real and in virtual time."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from core.cluster import Cluster, NodeEnd, Roles
from core.op import Isolation, TopicPartition
from harness.run.cluster_monitor import ClusterMonitor
from history import events as ev
from tests.harness.run.worlds import RealTime, VirtualTime

Time = RealTime | VirtualTime
DATA = TopicPartition("t", 0)
FRESH = TopicPartition("fresh", 0)
INTERNAL = TopicPartition("__consumer_offsets", 0)


class FakeCluster:
    """Two data partitions, one of which was made during the run. `takes_s`: how long the first listing of
    ends takes, unless `answers` is set before."""

    def __init__(self, time_: Time, takes_s: float = 0.0) -> None:
        self.runtime = time_.runtime
        self.takes_s = takes_s
        self.answers = False
        self.asked: list[tuple[float, Isolation]] = []
        self.listed = 0
        self.dead: list[NodeEnd] = []
        self.epoch = 0

    async def roles(self) -> Roles:
        tps = (DATA, FRESH, INTERNAL)
        return Roles(
            ns=self.runtime.now_ns(),
            leaders=dict.fromkeys(tps, 1),
            leader_epochs={DATA: self.epoch},
            isr=dict.fromkeys(tps, (1,)),
            answering=(1,),
            agreed=True,
        )

    async def ended(self) -> Sequence[NodeEnd]:
        told, self.dead = self.dead, []
        return told

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        self.asked.append((self.runtime.now_ns() / 1e9, isolation))
        takes_s, self.takes_s = self.takes_s, 0.0
        if takes_s:
            await self.runtime.until(lambda: self.answers, takes_s)
        self.listed += 1
        low = {FRESH: 3} if isolation is Isolation.READ_COMMITTED else {}
        return {tp: (0, low.get(tp, 5)) for tp in tps}

    def starts(self) -> list[float]:
        return [at for at, level in self.asked if level is Isolation.READ_COMMITTED]


def monitored(
    time_: Time, cluster: FakeCluster, ends_s: float, enough: Callable[[ClusterMonitor], bool]
) -> tuple[ClusterMonitor, list[ev.Event]]:
    """Look until it is enough, and then for a while no more."""
    events: list[ev.Event] = []
    monitor = ClusterMonitor(cast("Cluster", cluster), time_.runtime, events.append, {DATA}, ends_s=ends_s)
    assert list(monitor.tps) == [DATA]
    monitor.start()
    try:
        assert time_.wait(time_.runtime.until(lambda: enough(monitor), 60))
    finally:
        monitor.stop()
    return monitor, events


def of(events: list[ev.Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_topics_made_during_the_run_are_data_and_internal_ones_are_not(time_: Time) -> None:
    cluster = FakeCluster(time_)
    monitor, events = monitored(time_, cluster, 0.05, lambda _: cluster.listed >= 4)
    assert list(monitor.tps) == [FRESH, DATA]
    last = of(events, ev.EndsSeen)[-1]
    assert (last.hw, last.lso) == ({"fresh-0": 5, "t-0": 5}, {"fresh-0": 3, "t-0": 5})
    (seen,) = of(events, ev.RolesSeen)  # it never changed
    assert seen.leaders["__consumer_offsets-0"] == 1
    levels = [isolation for _, isolation in cluster.asked]
    assert levels[:2] == [Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED]


def test_a_look_that_takes_long_costs_the_next_ones(time_: Time) -> None:
    cluster = FakeCluster(time_, takes_s=1.3)
    monitored(time_, cluster, 0.5, lambda _: len(cluster.starts()) >= 4)
    starts = cluster.starts()
    assert starts[1] - starts[0] >= 1.2  # looks never overlap
    assert starts[3] - starts[1] >= 0.3  # and those that were missed are not made up for


def test_what_a_look_brings_after_the_end_is_discarded(time_: Time) -> None:
    cluster = FakeCluster(time_, takes_s=600)
    _, events = monitored(time_, cluster, 0.1, lambda _: bool(cluster.asked))
    cluster.answers = True
    assert time_.wait(time_.runtime.until(lambda: cluster.listed >= 2, 60))
    time_.wait(time_.runtime.until(lambda: False, 0.1))
    assert of(events, ev.EndsSeen) == []


def test_a_look_between_two_counts(time_: Time) -> None:
    monitor = ClusterMonitor(cast("Cluster", FakeCluster(time_)), time_.runtime, lambda _: None, {DATA})
    time_.wait(monitor.look())
    assert list(monitor.tps) == [FRESH, DATA]
    assert monitor.roles.answering == (1,)


@pytest.mark.parametrize("ends_s", [0.05])
def test_nothing_is_looked_at_once_it_was_stopped(time_: Time, ends_s: float) -> None:
    cluster = FakeCluster(time_)
    monitored(time_, cluster, ends_s, lambda _: cluster.listed >= 2)
    time_.wait(time_.runtime.until(lambda: False, 0.2))
    count = len(cluster.asked)
    time_.wait(time_.runtime.until(lambda: False, 0.3))
    assert len(cluster.asked) == count


def test_nodes_that_ended_are_on_record_at_once(time_: Time) -> None:
    cluster = FakeCluster(time_)
    cluster.dead = [NodeEnd(node=2, exit_code=137, signal=9)]
    monitor, events = monitored(time_, cluster, 1000, lambda monitor: bool(monitor.ended))
    (seen,) = [event for event in events if isinstance(event, ev.NodeEnded)]
    assert seen.end == NodeEnd(node=2, exit_code=137, signal=9)
    assert monitor.ended == [seen.end]


@pytest.mark.parametrize("epochs", [False, True])
def test_leader_epochs_are_on_record_where_they_are_asked_for(time_: Time, epochs: bool) -> None:
    """The leader leads again in a newer epoch."""
    cluster, events = FakeCluster(time_), list[ev.Event]()
    monitor = ClusterMonitor(
        cast("Cluster", cluster), time_.runtime, events.append, {DATA}, epochs=epochs, ends_s=600
    )
    monitor.start()
    try:
        time_.wait(time_.runtime.until(lambda: bool(of(events, ev.RolesSeen)), 60))
        cluster.epoch = 3
        time_.wait(time_.runtime.until(lambda: len(of(events, ev.RolesSeen)) > 1, 60 if epochs else 1.2))
    finally:
        monitor.stop()
    told = [seen.epochs for seen in of(events, ev.RolesSeen)]
    assert told == ([{str(DATA): 0}, {str(DATA): 3}] if epochs else [{}])
