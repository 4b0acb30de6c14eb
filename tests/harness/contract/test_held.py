"""Random requests while messages between brokers are held, with the model's brokers in the place of real
ones: with a planted bug the two differ and the example is made small, without one they are the same."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from harness.contract import campaign, examples, held, lanes, leader_broker, replica_stage
from harness.contract.campaign import CampaignResult
from harness.contract.commands import RandomCommand
from harness.contract.differences import Known
from harness.contract.examples import CommandSequence, Played
from harness.contract.held import HeldCampaign, HeldModel, HeldUpError, drawn, play, settings_of
from harness.contract.held_commands import REPLICAS, STEPS, WEIGHTS, Writers
from harness.contract.replica_stage import ReplicaStage
from harness.contract.scenarios import Real
from harness.contract.versions import version_of
from harness.processes.waiting import NotYet
from scenarios.drivers.cluster import ClusterStage
from scenarios.drivers.partition import TP, PartitionStage
from tests.harness.contract.modelled_replicas import ModelledReplicas

KAFKA = version_of("4.4.0")
EXAMPLES = 60
BUGS = {
    "hw-is-leader-end": "HW",
    "hw-by-majority": "HW",
    "ack-before-replication": "Produce",
    "min-isr-ignored": "HW",
    "keep-tail": "log",
    "truncate-too-far": "log",
    "alter-unversioned": "ISR",
    "isr-expands-early": "",
    "followers-forget-sequences": "",
    "old-epoch-appended": "",
}
"""Planted bug -> how the heading of what shows it begins, where that is always the same."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model does at once what it does; a message that is not there does not come."""
    monkeypatch.setattr(replica_stage, "KEPT_S", 0.0)
    monkeypatch.setattr(replica_stage, "MOVED_S", 0.0)
    monkeypatch.setattr(held, "ROUNDS", 20)
    for module in (lanes, leader_broker, replica_stage):
        monkeypatch.setattr(module, "POLL_S", 0.002)
        monkeypatch.setattr(module, "MESSAGE_S", 2.0)


def model(*bugs: str) -> HeldModel:
    return HeldModel(REPLICAS, settings_of(KAFKA.era_of(2), bugs))


def example(seed: int, number: int) -> CommandSequence:
    return CommandSequence(2, drawn(seed, number, model()))


def played(example: CommandSequence, *bugs: str) -> Played:
    return play(example, model(), model(*bugs), 1)


class OnLanes:
    """Makes stages of real brokers with the model's in their place; ends what waits in them."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug
        self.made: list[ModelledReplicas] = []

    def __call__(self, name: str) -> Real:
        def made(stage: ClusterStage) -> ClusterStage:
            assert isinstance(stage, PartitionStage)
            place: Any = ModelledReplicas(stage, self.bug)
            self.made.append(place)
            return ReplicaStage(place, stage.replicas, stage.settings)

        return made

    def end(self) -> None:
        for place in self.made:
            place.closed = True


@pytest.fixture
def clean() -> Iterator[OnLanes]:
    every = OnLanes()
    yield every
    every.end()


@pytest.fixture
def planted() -> Iterator[OnLanes]:
    every = OnLanes("truncate-too-far")
    yield every
    every.end()


def test_an_example_is_always_the_same() -> None:
    assert example(3, 5) == example(3, 5)
    assert len({example(3, 5), example(3, 6), example(4, 5)}) == 3


def test_brokers_agree_with_themselves_and_go_through_everything() -> None:
    brought, kinds = Counter[tuple[str, str]](), set[str]()
    for number in range(EXAMPLES // 2):
        commands = example(7, number)
        kinds |= {command.kind for command in commands.commands}
        result = played(commands)
        assert result.difference is None, result.difference.text
        brought += result.answers
    assert kinds == set(WEIGHTS)
    assert {name for kind, name in brought if kind == "step"} == set(STEPS)
    errors = {error for kind, error in brought if kind == "Produce"}
    assert errors >= {
        "NONE",
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
    }
    assert {error for kind, error in brought if kind == "ListOffsets"} >= {"NONE", "OFFSET_NOT_AVAILABLE"}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_differs(bug: str) -> None:
    found = (played(example(1, number), bug).difference for number in range(EXAMPLES))
    difference = next((one for one in found if one is not None), None)
    assert difference is not None
    assert difference.kind[0].startswith(BUGS[bug])


def test_examples_pass_the_messages_of_real_stages(clean: OnLanes) -> None:
    said: list[str] = []
    outcome = CampaignResult()
    HeldCampaign(clean, KAFKA, "x", 1, (), said.append).run(150, outcome, (2,))
    assert outcome.failures == []
    assert outcome.requests >= 150
    assert len(clean.made) == outcome.examples > 1
    assert {"fetch", "answer", "tell"} <= {name for kind, name in outcome.answers if kind == "step"}


def test_a_planted_bug_of_real_stages_is_found_and_made_small(
    planted: OnLanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.contract.campaign.ENOUGH", 1)
    outcome = CampaignResult()
    campaign = HeldCampaign(planted, KAFKA, "x", 1, (), lambda _: None)
    campaign.run(10_000, outcome, (2,))
    (failure,) = outcome.failures
    assert failure.difference.kind[0].startswith("log")
    assert len(failure.example.commands) <= 8
    assert campaign.play(failure.example).difference == failure.difference
    assert "Kafka cell: " in failure.text


def test_a_listed_bug_explains_a_difference(planted: OnLanes) -> None:
    listed = (Known(bug="truncate-too-far", reason="r", source="s"),)
    outcome = CampaignResult()
    HeldCampaign(planted, KAFKA, "x", 1, listed, lambda _: None).run(300, outcome, (2,))
    assert outcome.failures == []
    assert outcome.explained["truncate-too-far"] > 0


def commands(*texts: str) -> CommandSequence:
    """Each a kind and a broker, or a write to the leader."""
    parts = [text.split() for text in texts]
    made = (
        RandomCommand(kind, who[0]) if who else RandomCommand(kind, "L", number=-1) for kind, *who in parts
    )
    return CommandSequence(2, tuple(made))


def test_a_command_that_is_not_possible_does_nothing() -> None:
    none = commands("answer 2", "alter 1", "altered 1", "tell 2", "heal 1", "fetch 1", "elect 1", "cut 1")
    result = played(none)
    assert (result.difference, result.requests, dict(result.answers)) == (None, 0, {})


def test_what_is_not_possible_is_left_out_of_an_example() -> None:
    for number in range(5):
        commands = example(2, number).commands
        done = play(CommandSequence(2, commands), model(), model(), 1)
        steps = sum(times for (kind, _), times in done.answers.items() if kind == "step")
        assert done.requests + steps == len(commands)


def stage_after(*texts: str) -> HeldModel:
    left = model()
    assert play(commands(*texts), left, model(), 1).difference is None
    return left


def test_a_batch_that_its_log_has_already_does_not_wait_for_followers() -> None:
    """No request would show when the real leader has taken it. A producer that learned nothing of its first
    copy sends it again with the same sequence number."""
    stage, writers = model(), Writers()
    write = RandomCommand("write", "L", other="A", number=-1)
    replica = stage.replica(TP, 1)
    assert replica is not None
    first = writers.request(write, replica.log)
    assert first.acks == -1
    stage.deliver("", first, 1, lambda _: None)
    assert writers.request(write, replica.log).acks == 1


def test_a_leader_that_does_not_take_a_write_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    real = model()

    def deliver(*_: object) -> None:
        raise NotYet("the leader neither appends nor answers")

    monkeypatch.setattr(real, "deliver", deliver)
    found = play(commands("write"), model(), real, 1).difference
    assert found is not None
    assert "neither appends nor answers" in found.text


def test_an_answer_that_is_cut_off_is_asked_for_again() -> None:
    before = ("fetch 2", "write", "cut 2")
    assert stage_after(*before).sends(2)
    replica = stage_after(*before, "fetch 2", "answer 2").replica(TP, 2)
    assert replica is not None
    assert replica.log.end == 1


NEXT_LEADER = ("write", "fetch 2", "answer 2", "fetch 2", "fence 1", "tell 2", "tell 3", "write")


def test_the_first_fetch_in_an_epoch_shows_the_leader_what_its_follower_has() -> None:
    """Broker 1 has the record of the epoch before, as the leader has: its fetch brings the next one."""
    left = stage_after(*NEXT_LEADER, "tell 1", "fetch 1", "answer 1")
    replica, leader = left.replica(TP, 1), left.replica(TP, 2)
    assert replica is not None
    assert leader is not None
    assert (replica.log.end, leader.remotes[1].end) == (2, 1)


def test_where_logs_differ_the_answer_to_the_first_fetch_cuts_the_followers_log_back() -> None:
    more = (*NEXT_LEADER[:4], "write", *NEXT_LEADER[4:])
    left = stage_after(*more, "tell 1", "fetch 1")
    replica, leader = left.replica(TP, 1), left.replica(TP, 2)
    assert replica is not None
    assert leader is not None
    assert (replica.log.end, leader.remotes[1].end) == (2, -1)
    left.answer(1)
    assert replica.log.end == 1
    assert left.sends(1)


def test_looks_are_repeated_until_a_broker_has_done_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first looks after a write show nothing of it."""
    show, late = held.cells, Counter[int]()

    def shown(s: PartitionStage) -> dict[str, str]:
        late[id(s)] += 1
        return show(s) | ({"log 1": "–"} if s is real and late[id(s)] < 3 else {})

    monkeypatch.setattr(held, "cells", shown)
    real = model()
    assert play(commands("write"), model(), real, 5).difference is None
    late.clear()
    real = model()
    assert play(commands("write"), model(), real, 1).difference is not None
    assert examples.ROUNDS > 10


@pytest.mark.parametrize(("texts", "left_out"), [(("write",), True), (("fence 2",), False)])
def test_an_example_in_which_a_session_ran_out_is_left_out(texts: tuple[str, ...], left_out: bool) -> None:
    """Unless a command asked the controller for a decision: then it is compared."""
    real, said = model(), list[str]()
    real.isolate(1).fence(1)
    found = HeldCampaign(lambda _: lambda _: real, KAFKA, "x", 1, (), said.append).play(commands(*texts))
    assert found.left_out is bool(said) is left_out
    assert (found.difference is None) is left_out
    outcome = CampaignResult()
    outcome.add(found)
    assert (outcome.examples, "0 examples (1 left out)" in outcome.text) == (not left_out, left_out)


def test_an_example_is_made_smaller_for_a_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A play with held messages takes a minute, and each try is one."""
    monkeypatch.setattr(campaign, "SHRINK_S", -1.0)
    difference = played(example(1, 1), "hw-is-leader-end").difference
    assert difference is not None
    plays: list[int] = []

    def differs(*_: object) -> Played:
        plays.append(1)
        return Played(difference=difference)

    monkeypatch.setattr(held, "play", differs)
    outcome = CampaignResult()
    with_one = HeldCampaign(lambda _: lambda _: model(), KAFKA, "x", 1, (), lambda _: None)
    monkeypatch.setattr(campaign, "ENOUGH", 1)
    with_one.run(50, outcome, (2,))
    assert len(outcome.failures) == len(plays) == 1


def test_a_machine_that_holds_up_each_example_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would compare nothing, for ever."""

    def held_up(*_: object) -> Played:
        raise HeldUpError

    monkeypatch.setattr(held, "play", held_up)
    said, outcome = list[str](), CampaignResult()
    with pytest.raises(NotYet, match="compared nothing"):
        HeldCampaign(lambda _: lambda _: model(), KAFKA, "x", 1, (), said.append).run(50, outcome, (2,))
    assert said.count("a broker was held up: this example is left out") == held.MOST_LEFT_OUT
