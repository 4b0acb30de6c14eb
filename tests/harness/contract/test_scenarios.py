"""Scenarios on two stages, with the model in the place of the real broker too: with a planted bug the tables
differ, without one they are the same."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from core.consumer_protocol import assigned, assignment, subscribed, subscription
from harness.contract import cells, scenarios, stage
from harness.contract.cells import Aliases
from harness.contract.scenarios import (
    PLAYED,
    SCENARIOS,
    ScenarioComparison,
    applies,
    play,
    play_all,
    stage_of,
)
from harness.contract.stage import NotOnKafka, renamed
from harness.contract.versions import version_of
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import (
    DescribedTransaction,
    DescribeTransactionsResponse,
    JoinGroupResponse,
    TxnOffsetCommit,
    WriteTxnMarkers,
)
from model.protocol.messages import Produce
from scenarios.drivers.cluster import ClusterStage
from scenarios.drivers.partition import PartitionStage
from scenarios.framework import BETWEEN_BROKERS, SEVERAL_BROKERS

BUGS = {
    "sequences": "sequence-not-checked",
    "five-batches": "repeats-not-recognised",
    "new-process": "producer-id-repeated",
    "producer-epochs": "old-epoch-appended",
    "zombie-producer": "zombie-not-fenced",
    "unfinished-predecessor": "init-leaves-open",
    "isolation": "commit-writes-abort",
    "consume-transform-produce": "unstable-offsets-answered",
    "verification": "verification-skipped",
    "offsets-without-members": "generation-not-checked",
    "late-end-refused": "end-txn-ignores-epoch",
    "out-of-range": "deletes-one-too-many",
    "unknown-producer-taken": "producers-deleted-with-records",
    "join-group": "partitions-given-twice",
    "leave-group": "generation-not-bumped",
    "overtaken-rebalance": "generation-not-bumped",
    "given-up-first": "partition-given-before-release",
}
"""Scenario -> a planted bug that it shows."""
TODAY = "4.3.1"
EARLIER = {"stale-commit": "4.0.0", "fenced-for-a-session": "4.0.0"}
"""Scenario -> the version of Kafka whose brokers it tells of, where it is not today's."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.contract.scenarios.LOOKS", 0)


def model(bug: str = "") -> scenarios.Real:
    """The model in the place of the real brokers."""
    bugs = frozenset({bug} if bug else ())
    return lambda stage: stage.again(replace(stage.settings, bugs=bugs))


def test_cells_that_still_change_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "LOOKS", 2)
    monkeypatch.setattr(scenarios, "PAUSE_S", 0.0)
    late = iter("aabbccdeee")
    assert scenarios._settled(lambda: (next(late),), ("d",)) == ("d",)
    assert scenarios._settled(lambda: (next(late),), ("f",)) == ("e",)
    assert not [*late]


@cache
def those_of(kafka: str) -> tuple[str, ...]:
    return tuple(name for name in PLAYED if applies(SCENARIOS[name], version_of(kafka)))


def of_brokers(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, bool]:
    """How many brokers a scenario has, and whether it holds what they send each other."""
    held: list[bool] = []
    hold = ClusterStage.hold

    def noted(s: ClusterStage, kind: type, **which: Any) -> ClusterStage:
        held.append(kind is WriteTxnMarkers or isinstance(which.get("of"), int))
        return hold(s, kind, **which)

    monkeypatch.setattr(ClusterStage, "hold", noted)
    stage = SCENARIOS[name].stage()
    brokers = sum(node.is_broker for node in stage.nodes.values())
    for _ in SCENARIOS[name].steps(stage):
        pass
    return brokers, any(held)


OF_BROKERS = {BETWEEN_BROKERS, SEVERAL_BROKERS}
OF_REPLICAS = tuple(name for name in PLAYED if type(SCENARIOS[name].stage()) is PartitionStage)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in PLAYED if name not in OF_REPLICAS),
        *(n for n, one in SCENARIOS.items() if one.not_played in OF_BROKERS),
    ],
)
def test_what_is_not_played_for_its_brokers_could_not_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, held = of_brokers(name, monkeypatch)
    reason = SCENARIOS[name].not_played
    assert held is (reason == BETWEEN_BROKERS)
    assert brokers == 1 or reason
    assert brokers > 1 or reason != SEVERAL_BROKERS


def test_a_stage_that_no_real_broker_can_play_says_why() -> None:
    kinds = {type(one.stage()) for one in SCENARIOS.values() if not one.not_played}
    assert kinds == {*stage.REAL, PartitionStage}
    assert not any(kind.not_played for kind in stage.REAL)


@pytest.mark.sampled(11)
@pytest.mark.parametrize(("kafka", "least"), [("4.3.1", 85), ("3.9.1", 72)])
def test_so_many_scenarios_tell_of_brokers_of_these_versions(kafka: str, least: int) -> None:
    assert len(those_of(kafka)) >= least


@pytest.mark.sampled(8)
def test_each_scenario_that_is_played_tells_of_todays_brokers() -> None:
    assert set(those_of(TODAY)) == set(PLAYED) - EARLIER.keys()
    assert all(name in those_of(kafka) for name, kafka in EARLIER.items())


@pytest.mark.parametrize("name", PLAYED)
def test_the_questions_show_what_the_tables_show(name: str) -> None:
    """Where a table shows what no client can ask for, only a part is compared."""
    scenario = SCENARIOS[name]
    s = stage_of(scenario, version_of(EARLIER.get(name, TODAY)))
    whole = [n for n, one in enumerate(scenario.columns.values()) if one not in cells.PARTLY]
    for step in scenario.steps(s):
        stated = [" ".join(text.split()) for text in step.split("|")][1:]
        asked = cells.row(scenario, type(s), s)
        seen = [n for n in whole if asked[n] != cells.HIDDEN]
        assert seen
        assert [asked[n] for n in seen] == [stated[n] for n in seen]


@pytest.mark.sampled(6)
def test_a_broker_shows_what_it_shows_itself() -> None:
    said: list[str] = []
    comparison = ScenarioComparison()
    some = those_of(TODAY)[::4]
    play_all(some, version_of(TODAY), lambda _: model(), said.append, comparison)
    assert comparison.differences == []
    assert comparison.played == list(some)
    assert comparison.cells > comparison.steps > 0
    assert said == []


@pytest.mark.parametrize(("name", "bug"), BUGS.items())
def test_a_planted_bug_is_a_difference(name: str, bug: str) -> None:
    difference = play(SCENARIOS[name], version_of("4.3.1"), model(bug), ScenarioComparison())
    assert difference is not None
    assert difference.scenario == name
    assert difference.real != difference.modelled
    assert name in difference.text


def test_a_step_that_does_not_come_to_its_end_is_a_difference() -> None:
    def never(stage: ClusterStage) -> ClusterStage:
        s = stage.again(stage.settings)

        def until(*_: object) -> ClusterStage:
            raise AssertionError("it does not come to that")

        s.until = until  # type: ignore[assignment, method-assign]
        return s

    difference = play(SCENARIOS["isolation"], version_of("4.3.1"), never, ScenarioComparison())
    assert difference is not None
    assert difference.real == {"step": "it does not come to that"}


def test_producer_ids_are_compared_by_the_order_of_their_appearance() -> None:
    ours, theirs = Aliases(), Aliases()
    assert ours.row(("Ongoing 2/0", "(2, 0, 4)", "a1 b1")) == theirs.row(
        ("Ongoing 1007/0", "(1007, 0, 4)", "a1 b1")
    )
    assert ours.row(("Empty 3/0",)) == theirs.row(("Empty 7/0",))
    assert ours.row(("Empty 3/0",)) != theirs.row(("Empty 1007/0",))
    assert ours.row(("Empty 3/0",)) != theirs.row(("Empty 7/1",))


def test_names_of_a_scenario_are_renamed_and_nothing_else() -> None:
    def change(name: str) -> str:
        return name if name.startswith("__") else f"x-{name}"

    batch = RecordBatch(-1, -1, ("p",), 2, 0, 0)
    assert renamed(Produce(-1, {("p", 0): batch}, "t"), change) == Produce(-1, {("x-p", 0): batch}, "x-t")
    commit = TxnOffsetCommit("t", "g", 2, 0, {("in", 0): 3}, 1, "member")
    assert renamed(commit, change) == TxnOffsetCommit("x-t", "x-g", 2, 0, {("x-in", 0): 3}, 1, "member")
    one = DescribedTransaction(KafkaError.NONE, "Ongoing", 2, 0, 1, (("__consumer_offsets", 1), ("p", 0)))
    other = one._replace(partitions=(("__consumer_offsets", 1), ("x-p", 0)))
    assert renamed(DescribeTransactionsResponse({"t": one}), change) == DescribeTransactionsResponse(
        {"x-t": other}
    )
    joined = JoinGroupResponse(KafkaError.NONE, 1, "m", "m", {"m": ("p",)})
    assert renamed(joined, change).members == {"m": ("x-p",)}


def test_subscriptions_and_assignments_are_read_as_they_were_written() -> None:
    tps = (("p", 0), ("p", 2), ("q", 1))
    assert assigned(assignment(tps)) == tps
    assert assigned(b"") == ()
    assert subscribed(subscription(("p", "q"))) == ("p", "q")


def test_messages_between_real_brokers_cannot_be_held() -> None:
    s = stage.RealProducers.__new__(stage.RealProducers)
    with pytest.raises(NotOnKafka):
        s.hold(WriteTxnMarkers)
    with pytest.raises(NotOnKafka):
        s.hold(Produce, of=2)
