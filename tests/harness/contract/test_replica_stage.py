"""Scenarios about replicas on the stage of real brokers, with the model's brokers behind its lanes: without a
planted bug the tables are the same, with one they differ."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from core.wire import Seen, WireRule
from harness.contract import lanes, replica_stage, replicas, scenarios
from harness.contract.lanes import Lane
from harness.contract.replica_stage import LeaderBroker, ReplicaStage, broker_settings
from harness.contract.scenarios import SCENARIOS, ScenarioComparison, play
from harness.contract.stage import NotOnKafka
from harness.contract.versions import version_of
from harness.processes.waiting import NotYet
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import FetchedPartition, FetchResponse, Produce, ProduceResponse
from model.settings import Settings
from scenarios.drivers.cluster import ClusterStage
from scenarios.drivers.partition import TP, PartitionStage
from scenarios.framework import UNTRIED
from tests.harness.contract.modelled_replicas import ModelledReplicas

OF_REPLICAS = tuple(
    name
    for name, one in SCENARIOS.items()
    if one.not_played in ("", UNTRIED) and type(one.stage()) is PartitionStage
)
KAFKA = version_of("4.4.0")
BUGS = {
    "fetch-after-produce": "ack-before-replication",
    "second-fetch-round": "hw-is-leader-end",
    "clean-election": "elects-any-replica",
    "partition-epoch": "alter-unversioned",
    "isr-shrink-failure": "hw-ignores-proposed",
    "remote-leo": "hw-by-majority",
    "last-offset": "truncate-too-far",
    "returning-leader-lost": "keep-tail",
    "min-isr": "min-isr-ignored",
}
"""Scenario -> a planted bug that it shows."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model does at once what it does; a message that is not there does not come."""
    monkeypatch.setattr(scenarios, "PAUSE_S", 0.01)
    monkeypatch.setattr(replica_stage, "KEPT_S", 0.0)
    for module in (lanes, replica_stage):
        monkeypatch.setattr(module, "POLL_S", 0.005)
        monkeypatch.setattr(module, "MESSAGE_S", 5.0)


class Places:
    """Makes stages; ends what waits in them."""

    def __init__(self) -> None:
        self.made: list[ModelledReplicas] = []

    def real(self, bug: str = "") -> scenarios.Real:
        def made(stage: ClusterStage) -> ClusterStage:
            assert isinstance(stage, PartitionStage)
            place = ModelledReplicas(stage, bug)
            self.made.append(place)
            return ReplicaStage(place, stage.replicas, stage.settings, spare=stage.spare)

        return made


@pytest.fixture
def places() -> Iterator[Places]:
    every = Places()
    yield every
    for place in every.made:
        place.closed = True


@pytest.mark.parametrize("name", OF_REPLICAS)
def test_each_message_that_a_step_speaks_of_lies_on_a_lane(name: str, places: Places) -> None:
    comparison = ScenarioComparison()
    difference = play(SCENARIOS[name], KAFKA, places.real(), comparison)
    assert difference is None, difference.text
    assert comparison.cells >= comparison.steps > 1


@pytest.mark.parametrize(("name", "bug"), BUGS.items())
def test_a_planted_bug_is_a_difference(
    name: str, bug: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "LOOKS", 3)
    monkeypatch.setattr(replica_stage, "MESSAGE_S", 0.5)
    monkeypatch.setattr(lanes, "MESSAGE_S", 0.5)
    difference = play(SCENARIOS[name], KAFKA, places.real(bug), ScenarioComparison())
    assert difference is not None
    assert difference.real != difference.modelled


def stage(places: Places, name: str) -> ReplicaStage:
    made = places.real()(scenarios.stage_of(SCENARIOS[name], KAFKA))
    assert isinstance(made, ReplicaStage)
    return made


def test_what_no_operator_can_do_is_refused(places: Places) -> None:
    s = stage(places, "fetch-after-produce")
    with pytest.raises(NotOnKafka):
        s.lose_power(1)
    with pytest.raises(NotOnKafka):
        s.restart(2, noticed=False)


def test_a_fetch_that_came_back_empty_in_real_time_is_repeated(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the story no time has passed: the answer brings what is there. Where time of the story passed, or
    none in reality, the empty answer is the answer."""
    s = stage(places, "fetch-after-produce")
    (place,) = places.made

    def end_after(wait_ms: int, record: str, wait: Callable[[int], object]) -> int:
        monkeypatch.setattr(replica_stage, "FETCH_WAIT_MS", wait_ms)
        s.rounds(2)
        wait(500)
        s.produce(record, to=1).answer(2)
        return s._ended(s._seen(2))[0]

    assert end_after(1_000_000, "m0", place.wait) == 0
    assert end_after(0, "m1", s.wait) == 1
    assert end_after(0, "m2", place.wait) == 3


def test_times_of_brokers_are_those_of_the_story_and_a_held_message_breaks_nothing() -> None:
    found = {key: int(value) for key, value in broker_settings(Settings()).items() if value.isdigit()}
    lag, wait = found["replica.lag.time.max.ms"], found["replica.fetch.wait.max.ms"]
    assert found["broker.session.timeout.ms"] < lag == 30_000
    assert 5_000 < wait < found["broker.session.timeout.ms"]  # a step may wait 500 ms of the story
    patience = {found[key] for key in found if key.endswith(("socket.timeout.ms", "request.timeout.ms"))}
    assert min(patience) > 4 * lag
    assert int(broker_settings(Settings(replica_lag_ms=1000))["replica.lag.time.max.ms"]) == 10_000 > wait


class OneCommit:
    """A leader that answers its second producer first, of two whose records were committed together."""

    def __init__(self) -> None:
        self.end = 0
        self.answered = threading.Event()

    def ask(self, request: Any, _node: int) -> Any:
        if not isinstance(request, Produce):
            batches = (RecordBatch(0, 0, ("m",) * self.end),) if self.end else ()
            return FetchResponse({TP: FetchedPartition(KafkaError.NONE, batches)})
        self.end += 1
        base = self.end - 1
        if base == 0:
            self.answered.wait(5.0)
        self.answered.set()
        return ProduceResponse({TP: (KafkaError.NONE, base)})


def test_producers_of_one_commit_are_answered_in_the_order_of_their_records() -> None:
    broker = LeaderBroker(cast("Any", OneCommit()), 1)
    for correlation in (1, 2):
        broker.receive(0, correlation, correlation, Produce(-1, {TP: RecordBatch(-1, -1, ("m",))}))
    broker.answer_up_to(2)
    assert [reply.correlation for reply in broker.take_out()] == [1, 2]


# ---- lanes


class Told:
    """Proxies that tell what a test says."""

    def __init__(self) -> None:
        self.rules: list[WireRule] = []
        self.events: list[Seen] = []
        self.did: list[str] = []

    def add(self, rule: WireRule) -> None:
        self.rules.append(rule)

    def seen(self, number: int) -> list[Seen]:
        return [one for one in self.events if one.rule == number]

    def say(self, what: str, request: int, connection: int = 1, error: int | None = None) -> None:
        self.events.append(
            Seen(
                ns=len(self.events),
                rule=7,
                what=what,
                node=1,
                connection=connection,
                api="fetch",
                version=17,
                correlation_id=request,
                client_id="broker-2-fetcher-0",
                error=error,
            )
        )

    def release(self, number: int) -> None:
        self.did.append("release")
        waiting = [one for one in self.events if one.what == "caught"][-1]
        self.say("delivered", waiting.correlation_id, waiting.connection)

    def lose(self, number: int) -> None:
        self.did.append("lose")

    def lift(self, numbers: list[int]) -> None:
        self.did.append("lift")


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def lane(told: Told) -> Lane:
    between: Any = told
    return Lane(between, 7, "fetch", 1, "broker-2-fetcher-0", answers=True)


def test_a_lane_is_a_rule_for_every_request_of_one_sender(lane: Lane, told: Told) -> None:
    (rule,) = told.rules
    assert (rule.times, rule.answers, rule.between, rule.nodes) == (0, True, True, (1,))
    lane.close()
    lane.close()
    assert told.did == ["lift"]


def test_a_message_is_let_go_once(lane: Lane, told: Told) -> None:
    with pytest.raises(NotYet, match="no request"):
        lane.let_request(0.0)
    told.say("caught", 1)
    lane.let_request()
    assert [one.correlation_id for one in lane.arrived()] == [1]
    with pytest.raises(NotYet, match="no answer"):
        lane.let_answer(0.0)
    told.say("answered", 1, error=6)
    told.events.append(told.events[-1])
    assert lane.let_answer().error == 6
    with pytest.raises(NotYet, match="no answer"):
        lane.await_answer(0.0)


def test_what_was_lost_waits_no_more_whatever_comes_of_it(lane: Lane, told: Told) -> None:
    told.say("caught", 1)
    told.say("delivered", 1)
    told.say("caught", 9, connection=2)
    lane.lose()
    told.say("answered", 1)
    assert not [*lane.requests(), *lane.arrived(), *lane.answers()]
    told.say("caught", 1, connection=1)  # of a node's next proxy
    assert [one.ns for one in lane.requests()] == [4]


# ---- what requests show


def test_a_log_ends_after_its_last_record() -> None:
    batches = (RecordBatch(0, 0, ("a",)), RecordBatch(1, 2, ("b", "c")))
    seen = replicas.seen_log(FetchedPartition(KafkaError.NONE, batches))
    assert seen is not None
    assert seen.end == 3
    assert list(seen.records()) == [(0, 0, "a"), (1, 2, "b"), (2, 2, "c")]
    empty = replicas.seen_log(FetchedPartition(KafkaError.NONE, start=4))
    assert empty is not None
    assert empty.end == 4
    assert replicas.seen_log(FetchedPartition(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)) is None
