"""Where new partitions are: what the placer may have made, and what it cannot have made."""

from collections.abc import Mapping
from typing import Any

import pytest

from core.config import run_config
from harness.explore.profile import BASE
from harness.explore.trial import checked
from harness.modelled.shared.metadata_log import _Translation
from harness.modelled.virtual.run import simulate
from model.kraft import quorum_controller
from model.metadata.striped_replica_placer import UsableBroker, place, usable

RACKS = {1: "a", 2: "a", 3: "b"}


def judged(**settings: Any) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Refusals, and how often rules were asked."""
    given = {**BASE, "nemesis": "none", "seed": 1, "duration_s": 2, **settings}
    tally = checked(simulate(run_config(given)), logs=True)
    assert not tally.crashed
    return tally.refused, tally.asked


def in_racks(monkeypatch: pytest.MonkeyPatch, racks: Mapping[int, str]) -> None:
    """Brokers say that they are in racks, which the model's controller does not know."""
    plain = _Translation._registration
    with_rack = staticmethod(lambda broker, *other: plain(broker, *other) | {"rack": racks[broker]})
    monkeypatch.setattr(_Translation, "_registration", with_rack)


@pytest.mark.sampled(2)
def test_the_models_own_placement_is_accepted() -> None:
    refused, asked = judged(partitions=6)
    assert not refused
    assert asked["placed-in-stripes"] >= 3
    assert asked["placed-over-racks"] >= 6


@pytest.mark.parametrize("start", [1, 2])
def test_every_start_is_accepted(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    def drawn(brokers: Any, **how: Any) -> Any:
        return place(brokers, **how | {"draw": lambda n: start % n})

    monkeypatch.setattr(quorum_controller, "place", drawn)
    assert not judged()[0]


@pytest.mark.sampled(2)
def test_partitions_that_are_all_on_the_same_brokers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(_: Any, *, partitions: int, replication: int, **__: Any) -> Any:
        return ((1, 2, 3)[:replication],) * partitions

    monkeypatch.setattr(quorum_controller, "place", same)
    refused, _ = judged()
    assert refused["placed-in-stripes"]
    assert not refused["placed-over-racks"]


def test_two_replicas_in_one_rack_are_refused_where_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    in_racks(monkeypatch, RACKS)
    settings: dict[str, Any] = {"replication_factor": 2, "min_insync_replicas": 1}
    assert judged(**settings)[0]["placed-over-racks"]


def test_replicas_over_racks_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    in_racks(monkeypatch, RACKS)

    def over_racks(brokers: Any, **how: Any) -> Any:
        return place([one._replace(rack=RACKS[one.broker]) for one in brokers], **how)

    monkeypatch.setattr(quorum_controller, "place", over_racks)
    assert not judged(replication_factor=2, min_insync_replicas=1)[0]


def test_the_placer_makes_the_stripes_that_kafka_documents() -> None:
    """The example of StripedReplicaPlacer: three racks with three brokers each."""
    brokers = [UsableBroker(10 * rack + n, "ABC"[rack]) for rack in range(3) for n in range(3)]
    assert place(brokers, partitions=3, replication=3) == ((0, 10, 20), (11, 21, 1), (22, 2, 12))


def test_fenced_brokers_come_last_and_lead_nothing() -> None:
    brokers = [UsableBroker(1), UsableBroker(2, fenced=True), UsableBroker(3)]
    assert place(brokers, partitions=2, replication=3) == ((1, 3, 2), (3, 1, 2))
    for number, fenced in ((4, ()), (0, ()), (1, (1, 2, 3))):
        with pytest.raises(ValueError, match="not fenced"):
            place([UsableBroker(n, fenced=n in fenced) for n in (1, 2, 3)], partitions=1, replication=number)


def test_brokers_are_shuffled_after_as_many_partitions_as_there_are_brokers() -> None:
    made = place(usable(1, 2, 3), partitions=6, replication=1, shuffle=lambda some: some.reverse())
    assert made[:3] == ((1,), (2,), (3,))
    assert sorted(made[3:]) == [(1,), (2,), (3,)]
    assert made[3:] != made[:3]
