"""Scenarios about replicas on the stage of real brokers, with the model's brokers behind its lanes: without a
planted bug the tables are the same, with one they differ."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from kio.schema.fetch.v12.request import FetchRequest

from core.op import TopicPartition
from core.wire import Seen, WireRule
from harness.contract import lanes, leader_broker, replica_settings, replica_stage, replicas, scenarios
from harness.contract.caught_up import NEVER, CaughtUp
from harness.contract.lanes import Lane
from harness.contract.leader_broker import LeaderBroker
from harness.contract.replica_settings import broker_settings
from harness.contract.replica_stage import ReplicaStage
from harness.contract.scenarios import SCENARIOS, ScenarioComparison, play
from harness.contract.stage import NotOnKafka
from harness.contract.versions import version_of
from harness.processes.waiting import NotYet
from harness.protocol.encoding import request_frame
from harness.protocol.payloads import decode_request
from model.eras import Era
from model.errors import KafkaError
from model.log.leader_epoch_file_cache import LeaderEpochFileCache
from model.log.unified_log import RecordBatch
from model.protocol.messages import Fetch, FetchedPartition, FetchResponse, Produce, ProduceResponse
from model.protocol.requests import Answer
from model.replication.replica_manager import DelayedFetch, ReplicaManager
from model.settings import Settings
from scenarios.drivers.cluster import ClusterStage
from scenarios.drivers.partition import TP, PartitionStage
from tests.harness.contract.modelled_replicas import ModelledReplicas

OF_REPLICAS = tuple(
    name for name, one in SCENARIOS.items() if not one.not_played and type(one.stage()) is PartitionStage
)
KAFKA = version_of("4.4.0")
BUGS = {
    "fetch-after-produce": "ack-before-replication",
    "second-fetch-round": "hw-is-leader-end",
    "clean-election": "elects-any-replica",
    "partition-epoch": "alter-unversioned",
    "isr-shrink-failure": "hw-ignores-proposed",
    "remote-leo": "hw-by-majority",
    "alone-in-sync": "hw-by-majority",
    "leads-again": "remote-ends-kept",
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
    monkeypatch.setattr(replica_stage, "MOVED_S", 0.0)
    for module in (lanes, leader_broker, replica_stage):
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
    for module in (leader_broker, replica_stage):
        monkeypatch.setattr(module, "MESSAGE_S", 0.5)
    monkeypatch.setattr(lanes, "MESSAGE_S", 0.5)
    difference = play(SCENARIOS[name], KAFKA, places.real(bug), ScenarioComparison())
    assert difference is not None
    assert difference.real != difference.modelled


def test_a_controller_that_balances_no_leaders_is_a_difference(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last step differs, which waits."""
    monkeypatch.setattr(scenarios, "LOOKS", 3)

    def unbalanced(stage: ClusterStage) -> ClusterStage:
        assert isinstance(stage, PartitionStage)
        place = ModelledReplicas(stage.again(replace(stage.settings, preferred_check_ms=0)))
        places.made.append(place)
        return ReplicaStage(place, stage.replicas, stage.settings, spare=stage.spare)

    difference = play(SCENARIOS["preferred-leader"], KAFKA, unbalanced, ScenarioComparison())
    assert difference is not None
    assert difference.real == {"leader": "2", "leader epoch": "3"}
    assert difference.modelled == {"leader": "1", "leader epoch": "4"}


WAITS = ("kept-for-ever", "not-kept", "kept-too-short", "kept-too-long")


def wait_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders with one of these bugs keep fetches otherwise than Kafka does."""
    fetch, unpark = ReplicaManager.fetch, ReplicaManager._unpark
    waits = {"not-kept": 0, "kept-too-short": 200, "kept-too-long": 5000}

    def fetched(self: ReplicaManager, request: Fetch, answer: Answer) -> None:
        for bug in self.node.settings.bugs & waits.keys() if request.max_wait_ms else ():
            request = msgspec.structs.replace(request, max_wait_ms=waits[bug])
        fetch(self, request, answer)

    def looked_at(self: ReplicaManager, parked: DelayedFetch, *, late: bool = False) -> bool:
        sleeps = "kept-for-ever" in self.node.settings.bugs and not late
        return not sleeps and unpark(self, parked, late=late)

    monkeypatch.setattr(ReplicaManager, "fetch", fetched)
    monkeypatch.setattr(ReplicaManager, "_unpark", looked_at)


@pytest.mark.parametrize("bug", ["", *WAITS])
def test_how_long_a_leader_keeps_a_fetch_is_compared(
    bug: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_otherwise(monkeypatch)
    monkeypatch.setattr(scenarios, "LOOKS", 3)
    for module in (lanes, leader_broker, replica_stage):
        monkeypatch.setattr(module, "MESSAGE_S", 0.5)
    played = ("fetch-in-purgatory", "second-fetch-round")
    found = [play(SCENARIOS[name], KAFKA, places.real(bug), ScenarioComparison()) for name in played]
    assert any(found) is bool(bug)
    assert all("fetch of 2" in one.real for one in found if one is not None and "step" not in one.real)


@pytest.mark.parametrize("lag_ms", [1500, 3000])
@pytest.mark.parametrize("name", ["isr-shrink-failure", "remote-leo", "caught-up-outside-isr"])
def test_a_leader_that_takes_a_follower_out_before_its_lag_ran_out_is_a_difference(
    name: str, lag_ms: int, places: Places
) -> None:
    """In the last one broker 3 has fetched nothing at all."""

    def impatient(stage: ClusterStage) -> ClusterStage:
        assert isinstance(stage, PartitionStage)
        place = ModelledReplicas(stage.again(replace(stage.settings, replica_lag_ms=lag_ms)))
        places.made.append(place)
        return ReplicaStage(place, stage.replicas, stage.settings)

    difference = play(SCENARIOS[name], KAFKA, impatient, ScenarioComparison())
    assert (difference is None) is (lag_ms == 3000)
    assert difference is None or "takes 3 out of the ISR" in difference.real["step"]


def test_a_leader_that_keeps_a_follower_that_falls_behind_is_a_difference(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_stage, "PACE", 0)
    for module in (leader_broker, replica_stage):
        monkeypatch.setattr(module, "MESSAGE_S", 0.5)
    real = places.real("lag-by-last-fetch")
    difference = play(SCENARIOS["isr-shrink-slow"], KAFKA, real, ScenarioComparison())
    assert difference is not None
    assert difference.real == {"step": "no request: alter_partition of 1 to node 9"}


@pytest.mark.parametrize("patient", [True, False])
def test_a_leader_that_handles_the_controllers_answer_late_is_waited_for(
    patient: bool, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that asks before that gets less, and asks once."""
    release = ModelledReplicas.release

    def late(self: ModelledReplicas, number: int) -> None:
        if self.rules[number].api == "alter_partition" and any(one.answering for one in self._of(number)):
            threading.Timer(0.2, release, (self, number)).start()
        else:
            release(self, number)

    monkeypatch.setattr(ModelledReplicas, "release", late)
    monkeypatch.setattr(replica_stage, "MOVED_S", 5.0 if patient else 0.0)
    monkeypatch.setattr(scenarios, "LOOKS", 30)
    difference = play(SCENARIOS["consumer-and-truncation"], KAFKA, places.real(), ScenarioComparison())
    assert (difference is None) is patient
    assert difference is None or difference.real == {"consumer": "m0"}


def test_a_follower_has_everything_as_its_leader_counts_it() -> None:
    known = CaughtUp()
    known.led(1, 5, (1, 2))
    assert (known.since(1, 2), known.since(1, 3)) == (5, NEVER)
    known.fetched(1, 2, 10, 0, 4)
    known.fetched(1, 2, 20, 3, 8)
    assert known.since(1, 2) == 5  # each time not what there was at its fetch before
    known.fetched(1, 2, 30, 8, 12)
    assert known.since(1, 2) == 20  # then it had what there was
    known.fetched(1, 2, 40, 12, 12)
    assert known.since(1, 2) == 40
    known.led(1, 50, (1, 2, 3))
    assert known.since(1, 2) == 50
    known.led(3, 60, (2, 3))
    known.fetched(3, 2, 70, 1, 1)
    assert known.since(1, 2) == 50


def test_a_fetch_whose_time_ran_out_in_reality_alone_is_no_difference(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = stage(places, "fetch-in-purgatory")
    (place,) = places.made
    s.fetch(2)
    assert s.asked(2) == "kept"
    place.wait(600)
    assert s.asked(2) == "kept"  # it was answered, with nothing, as no time passed in the story
    s.produce("m0", to=1)
    assert s.asked(2) == "answered"
    s.answer(2)
    assert s.asked(2) is None


def test_epochs_are_read_off_where_each_of_them_ends() -> None:
    def begins(cache: list[tuple[int, int]], end: int, newest: int, start: int = 0) -> object:
        epochs = LeaderEpochFileCache(Era())
        epochs.extend(cache)

        def told(epoch: int) -> tuple[int, int] | None:
            known, ends = epochs.end_of(epoch, end)
            return (known, ends) if known >= 0 else None

        return replicas.epoch_begins(start, newest, told)

    for cache, end in (
        ([], 0),
        ([(0, 0)], 0),
        ([(0, 0)], 7),
        ([(0, 0), (1, 1)], 1),
        ([(0, 0), (1, 20), (2, 80), (3, 120)], 130),
        ([(0, 0), (3, 2)], 3),
        ([(2, 0)], 0),
        ([(2, 0), (5, 4)], 4),
    ):
        assert begins(cache, end, 6) == cache
        assert begins(cache, end, max([0, *(epoch for epoch, _ in cache)])) == cache
    assert begins([(1, 3), (2, 5)], 6, 2, start=3) == [(1, 3), (2, 5)]


class OneReplica:
    """Connection to a broker whose replica has epochs 0 and 2, which begin at 0 and 5, and ends at 9."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def call(self, response: type[Any], /, **values: Any) -> Any:
        frame = request_frame(FetchRequest, values, 1, "inquest")
        request: Any = decode_request(frame, FetchRequest)
        self.asked.append(request)
        (topic,) = request.topics
        (part,) = topic.partitions
        ends = {0: (0, 5), 1: (0, 5), 2: (2, 9)}
        found = ends.get(part.last_fetched_epoch)
        one = SimpleNamespace(error_code=0 if found else 1)
        if found:
            one.diverging_epoch = SimpleNamespace(epoch=found[0], end_offset=found[1])
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[one])])


def test_any_replica_tells_where_an_epoch_ends_to_a_fetch_from_behind_it() -> None:
    connection: Any = OneReplica()
    told = partial(replicas.epoch_end, connection, TopicPartition("t", 3))
    assert replicas.epoch_begins(0, 4, told) == [(0, 0), (2, 5)]
    assert [one.topics[0].partitions[0].last_fetched_epoch for one in connection.asked] == [0, 1, 2, 3]
    first = connection.asked[0]
    assert (first.replica_id, first.topics[0].topic) == (replicas.FUTURE, "t")
    part = first.topics[0].partitions[0]
    assert (part.partition, part.current_leader_epoch, part.fetch_offset) == (3, -1, replicas.BEYOND)


@pytest.mark.parametrize("noted", [True, False])
def test_when_a_leader_notes_its_epoch_is_compared(noted: bool, places: Places) -> None:
    real = places.real()

    def otherwise(stage: ClusterStage) -> ClusterStage:
        era = replace(stage.settings.era, epoch_when_led=noted)
        return real(stage.again(replace(stage.settings, era=era)))

    difference = play(SCENARIOS["epoch-when-led"], KAFKA, otherwise, ScenarioComparison())
    assert (difference is None) is noted
    assert difference is None or difference.real == {"epochs 2": "(0, 0)"}


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
        monkeypatch.setattr(replica_settings, "FETCH_WAIT_MS", wait_ms)
        s.rounds(2)
        wait(500)
        s.produce(record, to=1).answer(2)
        return s._ended(s._seen(2))[0]

    assert end_after(1_000_000, "m0", place.wait) == 0
    assert end_after(0, "m1", s.wait) == 1
    assert end_after(0, "m2", place.wait) == 3


class Passing:
    """A lane that notes what is let go. error: of its answers."""

    def __init__(self, error: int) -> None:
        self.error = error
        self.did: list[str] = []

    def let_answer(self) -> Any:
        self.did.append("answer")
        return SimpleNamespace(error=self.error)

    def let_request(self) -> None:
        self.did.append("request")

    def await_request(self) -> None: ...


AS_OF_A_DELAYED = ["answer", "request", "answer"]
"""The answer, and the fetch after it that takes the partition out of the session."""


@pytest.mark.parametrize("again", [True, False])
def test_a_delayed_follower_takes_its_partition_out_of_the_session(again: bool, places: Places) -> None:
    """After an error; also where it cuts its log back after that, as long as it has got no records."""
    s: Any = stage(places, "fetch-in-purgatory")
    s.place.delays_again = again

    def taken(before: int, after: int, error: int = 0) -> list[str]:
        ends, lane = iter([before, after]), Passing(error)
        s._seen, s._ended = (lambda n: n), (lambda _: (next(ends), 0))
        s._take_answer(2, lane)
        return lane.did

    assert taken(9, 5) == ["answer"]
    assert taken(9, 9, KafkaError.OFFSET_OUT_OF_RANGE) == ["answer"]
    assert taken(9, 9, KafkaError.UNKNOWN_LEADER_EPOCH) == AS_OF_A_DELAYED
    assert taken(9, 5) == (AS_OF_A_DELAYED if again else ["answer"])
    assert taken(5, 7) == taken(7, 6) == ["answer"]
    s._renewed.add(2)
    assert taken(6, 6, KafkaError.FENCED_LEADER_EPOCH) == ["answer"]


def test_times_of_brokers_are_those_of_the_story_and_a_held_message_breaks_nothing() -> None:
    found = {key: int(value) for key, value in broker_settings(Settings()).items() if value.isdigit()}
    lag, wait = found["replica.lag.time.max.ms"], found["replica.fetch.wait.max.ms"]
    assert found["broker.session.timeout.ms"] < lag == 30_000
    assert 5_000 < wait < found["broker.session.timeout.ms"]  # a step may wait 500 ms of the story
    patience = {found[key] for key in found if key.endswith(("socket.timeout.ms", "request.timeout.ms"))}
    assert min(patience) > 4 * lag
    assert found["replica.fetch.max.bytes"] == 2**20
    assert broker_settings(Settings(fetch_records=1))["replica.fetch.max.bytes"] == "1"
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
