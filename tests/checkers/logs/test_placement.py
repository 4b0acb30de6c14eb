"""Where new partitions are: what the placer may have made, and what it cannot have made."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import LogGround
from checkers.engine.pipeline import kinds_of
from checkers.logs import placement
from core.config import run_config
from harness.explore.profile import BASE
from harness.explore.trial import checked
from harness.modelled.shared.metadata_log import _Translation
from harness.modelled.virtual.evidence import evidence as evidence_of
from harness.modelled.virtual.run import simulate
from history.evidence import Evidence
from model.coordinator import coordinator_runtime
from model.kraft import quorum_controller
from model.metadata.striped_replica_placer import UsableBroker, place, usable
from model.protocol.messages import CreateTopics
from tests.checkers.logs.made import tables
from tests.checkers.logs.test_accept_znodes import change
from tests.checkers.verdict.test_judged_run import history
from tests.histories.folders import write_run

Replicas = list[tuple[int, ...]]
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


# ---- with ZooKeeper


GROWS: Replicas = [(1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2)]
"""On three brokers: each is first in turn, and the second is one further away in each round."""


def in_turn(replicas: Replicas, topic: str = "t") -> tuple[dict[str, int], int]:
    """What placed-in-turn refuses of a topic that three brokers have, and how often it was asked."""
    brokers = [
        change(n + 1, n, "create", f"/brokers/ids/{n}", {}, owner=n) | {"ms": 1000 * n} for n in (1, 2, 3)
    ]
    placed = {"partitions": {str(number): list(nodes) for number, nodes in enumerate(replicas)}}
    made = change(50, 1, "create", f"/brokers/topics/{topic}", placed, ms=50_000)
    evidence = Evidence(tables({"znodes": [change(1, 1, "create", "/brokers"), *brokers, made]}))
    tally = Tally(ground=LogGround(kinds_of(placement.CHECKS)))
    own = {"tps": pa.table({"topic": ["t"]})}
    run = WholeRun(tables=own, known=None, events=(), ask=None, evidence=evidence)  # type: ignore[arg-type]
    placement.join(run, tally)
    return dict(+tally.refused), tally.asked["placed-in-turn"]


@pytest.mark.parametrize(
    ("replicas", "refusals"),
    [
        (GROWS, 0),
        ([GROWS[0]] * 6, 1),  # the same brokers each time
        (GROWS[:3] * 2, 1),  # the shift does not grow
        ([*GROWS[:5], (1, 2)], 1),  # one is out of turn
        ([tuple(4 - node for node in nodes) for nodes in GROWS], 0),  # the brokers in another order
        (GROWS[:3], 0),
    ],
)
def test_a_topic_of_the_zookeeper_era_is_placed_in_turn(replicas: Replicas, refusals: int) -> None:
    assert in_turn(replicas) == ({"placed-in-turn": 1} if refusals else {}, len(replicas))


# ---- Kafka's own topics


def own_topics(folder: Path, evidence: Evidence, **settings: Any) -> tuple[dict[str, int], int]:
    """What internal-replicas-as-set refuses in a run with these settings, and how often it was asked."""
    tally = Tally(ground=LogGround(kinds_of(placement.CHECKS)))
    recorded = write_run(folder, history().tables(), settings=settings)
    run = WholeRun(
        tables={"tps": pa.table({"topic": ["t"]})},
        known=None,  # type: ignore[arg-type]
        events=(),
        ask=None,  # type: ignore[arg-type]
        evidence=evidence,
        history=SimpleNamespace(run=recorded),  # type: ignore[arg-type]
    )
    placement.join(run, tally)
    name = "internal-replicas-as-set"
    return {name: tally.refused[name]} if tally.refused[name] else {}, tally.asked[name]


@pytest.mark.parametrize(("brokers", "replicas"), [(3, 3), (4, 3), (1, 1), (3, 1), (3, 2)])
def test_the_models_own_topics_have_the_replicas_of_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brokers: int, replicas: int
) -> None:
    def made(topic: str, count: int, replication: int) -> CreateTopics:
        assert replication == min(3, brokers)
        return CreateTopics(topic, count, replicas)

    monkeypatch.setattr(coordinator_runtime, "CreateTopics", made)
    few = {"brokers": brokers, "replication_factor": min(brokers, 3), "min_insync_replicas": 1}
    given = {**BASE, "workload": "transactions", "nemesis": "none", "seed": 1, "duration_s": 2, **few}
    found = evidence_of(simulate(run_config(given)).cluster)
    refused, asked = own_topics(tmp_path, found, **given)
    assert asked >= 3
    assert refused == ({} if replicas == min(3, brokers) else {"internal-replicas-as-set": asked})


OWN: Replicas = [(1, 2, 3), (2, 3, 1)]


def by_znodes(*created: tuple[str, Replicas]) -> Evidence:
    """Topics, each with the replicas of its partitions, one after the other."""
    placed = [
        {"partitions": {str(number): list(nodes) for number, nodes in enumerate(replicas)}}
        for _, replicas in created
    ]
    topics = [topic for topic, _ in created]
    made = [
        change(50 + at, 1, "create", f"/brokers/topics/{topic}", placed[at], ms=50_000)
        for at, topic in enumerate(topics)
    ]
    return Evidence(tables({"znodes": [change(1, 1, "create", "/brokers"), *made]}))


@pytest.mark.parametrize(
    ("topic", "replicas", "settings", "refused", "asked"),
    [
        ("__transaction_state", OWN, {}, 0, 2),
        ("__transaction_state", [(1,), (2,)], {}, 2, 2),
        ("__transaction_state", [(1, 2, 3), (2,)], {}, 1, 2),
        ("__consumer_offsets", [(1,), (2,)], {}, 2, 2),
        ("__consumer_offsets", [(1,), (2,)], {"kafka": "0.11.0.3"}, 2, 2),
        ("__consumer_offsets", [(1,), (2,)], {"kafka": "0.10.2.2", "idempotent": False}, 0, 0),
        ("__share_group_state", [(1,), (2,)], {}, 2, 2),
        ("t", [(1,), (2,)], {}, 0, 0),
        # the setting of a user
        (
            "__transaction_state",
            [(1,), (2,)],
            {"broker_settings": {"transaction.state.log.replication.factor": "1"}},
            0,
            2,
        ),
        (
            "__transaction_state",
            OWN,
            {"broker_settings": {"transaction.state.log.replication.factor": "1"}},
            2,
            2,
        ),
        (
            "__transaction_state",
            [(1,), (2,)],
            {"broker_settings": {"offsets.topic.replication.factor": "1"}},
            2,
            2,
        ),
        # more than there are brokers: no such topic can be made
        (
            "__consumer_offsets",
            OWN,
            {"broker_settings": {"offsets.topic.replication.factor": "4"}},
            0,
            0,
        ),
        ("__share_group_state", [(1,), (2,)], {"brokers": 2, "replication_factor": 2}, 0, 0),
        ("__consumer_offsets", [(1,), (2,)], {"sut": "external"}, 0, 0),
    ],
)  # fmt: skip
def test_a_topic_of_kafkas_own_has_the_replicas_of_the_setting(
    tmp_path: Path, topic: str, replicas: Replicas, settings: dict[str, Any], refused: int, asked: int
) -> None:
    told = {"internal-replicas-as-set": refused} if refused else {}
    assert own_topics(tmp_path, by_znodes((topic, replicas)), **settings) == (told, asked)


def test_what_is_made_of_the_name_later_is_an_administrators(tmp_path: Path) -> None:
    found = by_znodes(("__consumer_offsets", OWN), ("__consumer_offsets", [(1,), (2,)]))
    assert own_topics(tmp_path, found) == ({}, 2)


def test_a_topic_of_others_may_have_replicas_that_a_client_chose() -> None:
    assert in_turn([GROWS[0]] * 6, topic="other") == ({}, 0)
