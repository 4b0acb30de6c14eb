"""Where new partitions are: what the placer may have made, and what it cannot have made."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from checkers import internal_topics
from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import LogGround
from checkers.engine.pipeline import kinds_of
from checkers.logs import placement
from core.config import run_config
from harness.explore.profile import BASE
from harness.explore.trial import checked
from harness.kafka import broker_config
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


SHUTS_DOWN, FENCED = {"body": '{"inControlledShutdown": 1}'}, {"fenced": 1}


@pytest.mark.parametrize(
    ("brokers", "changes", "replicas", "rules"),
    [
        (3, [SHUTS_DOWN, FENCED], (1, 2, 3), set()),  # as one that was fenced at once it gets replicas
        (3, [FENCED], (1, 2, 3), set()),
        (3, [SHUTS_DOWN, FENCED], (3, 1, 2), {"placed-in-stripes", "placed-over-racks"}),  # and leads nothing
        (4, [SHUTS_DOWN, FENCED], (1, 2, 3), {"placed-in-stripes"}),  # nor does it where others are
        (4, [SHUTS_DOWN, FENCED], (1, 2, 4), set()),
        (4, [SHUTS_DOWN], (1, 2, 4), set()),
        (4, [SHUTS_DOWN], (3, 4, 1), set()),  # a new controller does not know yet that it shuts down
        (4, [SHUTS_DOWN], (3, 1, 4), {"placed-in-stripes"}),
        (3, [SHUTS_DOWN], (1, 3, 2), {"placed-in-stripes"}),
    ],
)
def test_a_broker_that_shut_down_in_order_gets_replicas_where_kafka_gives_it_some(
    brokers: int, changes: list[dict[str, Any]], replicas: tuple[int, ...], rules: set[str]
) -> None:
    all_ = range(1, brokers + 1)
    rows = [{"name": "RegisterBrokerRecord", "broker": n, "broker_epoch": n, "fenced": 1} for n in all_]
    change_of = {"name": "BrokerRegistrationChangeRecord"}
    rows += [change_of | {"broker": n, "broker_epoch": n, "fenced": -1} for n in all_]
    rows += [change_of | {"broker": 3, "broker_epoch": 3} | one for one in changes]
    rows.append({"name": "TopicRecord", "topic": "t", "topic_id": "id"})
    rows.append({"name": "PartitionRecord", "topic_id": "id", "partition": 0, "replicas": replicas})
    metadata = [{"take": 0, "node": 1, "snapshot": -1, "offset": at, **row} for at, row in enumerate(rows)]
    tally = Tally(ground=LogGround(kinds_of(placement.CHECKS)))
    evidence, own = Evidence(tables({"metadata": metadata})), {"tps": pa.table({"topic": ["t"]})}
    run = WholeRun(tables=own, known=None, events=(), ask=None, evidence=evidence)  # type: ignore[arg-type]
    placement.join(run, tally)
    assert set(+tally.refused) == rules
    assert tally.asked["placed-in-stripes"] == 1


# ---- with ZooKeeper


GROWS: Replicas = [(1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2)]
"""On three brokers: each is first in turn, and the second is one further away in each round."""


def in_turn(replicas: Replicas, topic: str = "t", gone: int = 0) -> tuple[dict[str, int], int]:
    """What placed-in-turn refuses of a topic that three brokers have, and how often it was asked. gone: a
    broker that went 40 s before, 0 = none did."""
    brokers = [
        change(n + 1, n, "create", f"/brokers/ids/{n}", {}, owner=n) | {"ms": 1000 * n} for n in (1, 2, 3)
    ]
    if gone:
        brokers.append(change(9, gone, "delete", f"/brokers/ids/{gone}", None) | {"ms": 10_000})
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


def test_a_broker_that_is_cut_off_may_not_have_heard_for_long_which_brokers_live() -> None:
    """It takes office, and places a topic before it says to all, and to itself, who lives."""
    assert in_turn(GROWS, gone=3) == ({}, 6)
    assert in_turn([*GROWS[:5], (1, 2)], gone=3) == ({"placed-in-turn": 1}, 6)


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


def models_own_topics(folder: Path, **settings: Any) -> tuple[int, int]:
    """How often the rule refuses a run with transactions and groups, and how often it was asked."""
    given = {**BASE, "workload": "copier", "nemesis": "none", "seed": 1, "duration_s": 2, **settings}
    found = evidence_of(simulate(run_config(given)).cluster)
    refused, asked = own_topics(folder, found, **given)
    return refused.get("internal-replicas-as-set", 0), asked


OWN_SETTINGS = 3
"""What the topics of such a run are set to, but replicas: how many partitions each has, and a minimum."""


@pytest.mark.parametrize(("brokers", "replicas"), [(3, 3), (4, 3), (1, 1), (3, 1), (3, 2)])
def test_the_models_own_topics_have_the_replicas_of_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brokers: int, replicas: int
) -> None:
    def made(topic: str, count: int, replication: int) -> CreateTopics:
        assert replication == min(3, brokers)
        return CreateTopics(topic, count, replicas)

    monkeypatch.setattr(coordinator_runtime, "CreateTopics", made)
    few = {"brokers": brokers, "replication_factor": min(brokers, 3), "min_insync_replicas": 1}
    refused, asked = models_own_topics(tmp_path, **few)
    assert asked == 6 + OWN_SETTINGS
    assert refused == (0 if replicas == min(3, brokers) else asked - OWN_SETTINGS)


@pytest.mark.parametrize("more", [0, 1, -1])
def test_the_models_own_topics_have_the_partitions_of_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    def made(topic: str, count: int, replication: int) -> CreateTopics:
        assert count == {"__transaction_state": 4, "__consumer_offsets": 3}[topic]
        return CreateTopics(topic, count + more, replication)

    monkeypatch.setattr(coordinator_runtime, "CreateTopics", made)
    four = {"broker_settings": {"transaction.state.log.num.partitions": "4"}}
    refused, asked = models_own_topics(tmp_path, **four)
    assert asked == 7 + 2 * more + OWN_SETTINGS
    assert refused == 2 * abs(more)


@pytest.mark.parametrize(("own", "refusals"), [("2", 0), ("1", 1), (None, 1)])
def test_the_models_transaction_log_has_the_minimum_of_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, refusals: int
) -> None:
    plain = _Translation._configs

    def other(self: _Translation, topic: str) -> Any:
        for name, fields in plain(self, topic):
            if fields["name"] != "min.insync.replicas" or topic != "__transaction_state":
                yield name, fields
            elif own is not None:
                yield name, fields | {"value": own}

    monkeypatch.setattr(_Translation, "_configs", other)
    assert models_own_topics(tmp_path) == (refusals, 6 + OWN_SETTINGS)


OWN: Replicas = [(1, 2, 3), (2, 3, 1)]
TWO = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}
"""As many partitions as these topics have."""
TRANSACTIONS, OFFSETS, SHARES = "__transaction_state", "__consumer_offsets", "__share_group_state"


def by_znodes(*created: tuple[str, Replicas], settings: Mapping[str, Any] | None = None) -> Evidence:
    """Topics, each with the replicas of its partitions, one after the other. settings: of all of them."""
    rows = [change(1, 1, "create", "/brokers")]
    said = {"config": {"min.insync.replicas": "2"} if settings is None else settings}
    for at, (topic, replicas) in enumerate(created):
        placed = {"partitions": {str(number): list(nodes) for number, nodes in enumerate(replicas)}}
        if at:
            rows.append(change(47 + 10 * at, 1, "delete", f"/config/topics/{topic}", None))
            rows.append(change(48 + 10 * at, 1, "delete", f"/brokers/topics/{topic}", None))
        rows.append(change(49 + 10 * at, 1, "create", f"/config/topics/{topic}", said))
        rows.append(change(50 + 10 * at, 1, "create", f"/brokers/topics/{topic}", placed))
    return Evidence(tables({"znodes": rows}))


@pytest.mark.parametrize(
    ("topic", "replicas", "settings", "refused", "asked"),
    [
        (TRANSACTIONS, OWN, {}, 0, 4),
        (TRANSACTIONS, [(1,), (2,)], {}, 2, 4),
        (TRANSACTIONS, [(1, 2, 3), (2,)], {}, 1, 4),
        (OFFSETS, [(1,), (2,)], {}, 2, 3),
        (SHARES, [(1,), (2,)], {}, 2, 3),
        ("t", [(1,), (2,)], {}, 0, 0),
        # the setting of a user
        (TRANSACTIONS, [(1,), (2,)], {"transaction.state.log.replication.factor": "1"}, 0, 4),
        (TRANSACTIONS, OWN, {"transaction.state.log.replication.factor": "1"}, 2, 4),
        (TRANSACTIONS, [(1,), (2,)], {"offsets.topic.replication.factor": "1"}, 2, 4),
        # more than there are brokers: no such topic can be made; or not a number that the rule reads
        (OFFSETS, OWN, {"offsets.topic.replication.factor": "4"}, 0, 1),
        (OFFSETS, OWN, {"offsets.topic.replication.factor": "+2"}, 0, 1),
    ],
)
def test_a_topic_of_kafkas_own_has_the_replicas_of_the_setting(
    tmp_path: Path, topic: str, replicas: Replicas, settings: dict[str, str], refused: int, asked: int
) -> None:
    told = {"internal-replicas-as-set": refused} if refused else {}
    found = own_topics(tmp_path, by_znodes((topic, replicas)), broker_settings=TWO | settings)
    assert found == (told, asked)


@pytest.mark.parametrize(
    ("topic", "settings", "asked"),
    [
        (SHARES, {"brokers": 2, "replication_factor": 2, "broker_settings": TWO}, 1),
        (OFFSETS, {"sut": "external", "broker_settings": TWO}, 0),
        # Kafka may create it with fewer replicas, before 0.11 (KIP-115)
        (OFFSETS, {"kafka": "0.10.2.2", "idempotent": False, "broker_settings": TWO}, 1),
    ],
)
def test_replicas_that_no_setting_says_are_accepted(
    tmp_path: Path, topic: str, settings: dict[str, Any], asked: int
) -> None:
    assert own_topics(tmp_path, by_znodes((topic, [(1,), (2,)])), **settings) == ({}, asked)


def test_since_kip_115_a_topic_has_all_its_replicas(tmp_path: Path) -> None:
    found = own_topics(tmp_path, by_znodes((OFFSETS, [(1,), (2,)])), kafka="0.11.0.3", broker_settings=TWO)
    assert found == ({"internal-replicas-as-set": 2}, 3)


@pytest.mark.parametrize(
    ("topic", "partitions", "settings", "refused"),
    [
        # what the harness gives to brokers, and what Kafka has by default
        (TRANSACTIONS, 5, {}, 0),
        (TRANSACTIONS, 50, {}, 1),
        (OFFSETS, 5, {}, 0),
        (OFFSETS, 4, {}, 1),
        (SHARES, 50, {}, 0),
        (SHARES, 5, {}, 1),
        # the setting of a user
        (TRANSACTIONS, 2, {"transaction.state.log.num.partitions": "50"}, 1),
        (TRANSACTIONS, 50, {"transaction.state.log.num.partitions": "50"}, 0),
        (TRANSACTIONS, 5, {"offsets.topic.num.partitions": "50"}, 0),
        (OFFSETS, 50, {"offsets.topic.num.partitions": "50"}, 0),
        (OFFSETS, 5, {"offsets.topic.num.partitions": "50"}, 1),
        (SHARES, 3, {"share.coordinator.state.topic.num.partitions": "3"}, 0),
        (OFFSETS, 7, {"offsets.topic.num.partitions": "+7"}, 0),  # not read
    ],
)
def test_a_topic_of_kafkas_own_has_the_partitions_of_the_setting(
    tmp_path: Path, topic: str, partitions: int, settings: dict[str, str], refused: int
) -> None:
    found = by_znodes((topic, [(1, 2, 3)] * partitions))
    told = {"internal-replicas-as-set": 1} if refused else {}
    assert own_topics(tmp_path, found, broker_settings=settings)[0] == told


@pytest.mark.parametrize(
    ("topic", "minimum", "settings", "refused", "asked"),
    [
        (TRANSACTIONS, {"min.insync.replicas": "2"}, {}, 0, 4),
        (TRANSACTIONS, {"min.insync.replicas": "1"}, {}, 1, 4),
        (TRANSACTIONS, {"cleanup.policy": "compact"}, {}, 1, 4),
        # a znode without settings may be one that was not read
        (TRANSACTIONS, {}, {}, 0, 3),
        # the setting of a user, also one that is more than the replicas
        (TRANSACTIONS, {"min.insync.replicas": "1"}, {"transaction.state.log.min.isr": "1"}, 0, 4),
        (TRANSACTIONS, {"min.insync.replicas": "2"}, {"transaction.state.log.min.isr": "3"}, 1, 4),
        (TRANSACTIONS, {"min.insync.replicas": "4"}, {"transaction.state.log.min.isr": "4"}, 0, 4),
        (TRANSACTIONS, {"min.insync.replicas": "1"}, {"transaction.state.log.min.isr": "+1"}, 0, 3),
        # other topics have that of the brokers
        (TRANSACTIONS, {"min.insync.replicas": "2"}, {"min.insync.replicas": "1"}, 0, 4),
        (OFFSETS, {"min.insync.replicas": "1"}, {}, 0, 3),
    ],
)
def test_the_transaction_log_has_the_minimum_of_the_setting(
    tmp_path: Path, topic: str, minimum: Mapping[str, str], settings: dict[str, str], refused: int, asked: int
) -> None:
    told = {"internal-replicas-as-set": 1} if refused else {}
    found = own_topics(tmp_path, by_znodes((topic, OWN), settings=minimum), broker_settings=TWO | settings)
    assert found == (told, asked)


def test_a_minimum_that_an_administrator_sets_later_is_not_looked_at(tmp_path: Path) -> None:
    found = by_znodes((TRANSACTIONS, OWN))
    later = change(60, 1, "set", f"/config/topics/{TRANSACTIONS}", {"config": {"min.insync.replicas": "1"}})
    with_later = Evidence(tables({"znodes": [*found.table("znodes").to_pylist(), later]}))
    assert own_topics(tmp_path, with_later, broker_settings=TWO) == ({}, 4)


def test_partitions_that_are_added_later_are_not_counted(tmp_path: Path) -> None:
    found = by_znodes((OFFSETS, OWN))
    more = {"partitions": {str(number): [1, 2, 3] for number in range(7)}}
    later = change(60, 1, "set", f"/brokers/topics/{OFFSETS}", more)
    with_later = Evidence(tables({"znodes": [*found.table("znodes").to_pylist(), later]}))
    assert own_topics(tmp_path, with_later, broker_settings=TWO) == ({}, 3)


def test_what_is_made_of_the_name_later_is_an_administrators(tmp_path: Path) -> None:
    found = by_znodes((OFFSETS, OWN), (OFFSETS, [(1,)]))
    assert own_topics(tmp_path, found, broker_settings=TWO) == ({}, 3)
    # and took away what the first one was set to
    found = by_znodes((TRANSACTIONS, OWN), (TRANSACTIONS, [(1,)]), settings={"min.insync.replicas": "1"})
    assert own_topics(tmp_path, found, broker_settings=TWO) == ({}, 3)


def test_the_harness_gives_brokers_the_partitions_that_the_rule_takes_for_given() -> None:
    given = broker_config.settings(run_config({"seed": 1}), {})
    for topic, name in internal_topics.PARTITIONS.items():
        assert given.get(name, "50") == str(internal_topics.partitions_set(run_config({"seed": 1}), topic))


def test_a_topic_of_others_may_have_replicas_that_a_client_chose() -> None:
    assert in_turn([GROWS[0]] * 6, topic="other") == ({}, 0)
