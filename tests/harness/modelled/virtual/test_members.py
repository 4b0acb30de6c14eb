"""Members of groups in simulated runs: what is on record of their assignments."""

from typing import Any

import pytest

from core.config import run_config
from core.op import AssignmentKind, CommitKind
from harness.explore.profile import BASE
from harness.explore.trial import judged
from harness.modelled.virtual.client_runtime import Sender
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.run import Simulated, simulate
from harness.modelled.virtual.scheduler import Scheduler
from history import journal as j
from model.errors import KafkaError
from model.protocol.coordinator_messages import FindCoordinator, JoinGroup, JoinGroupResponse, SyncGroup
from model.replication.node import Ask
from tests.histories import stored

REVOKED, LOST = AssignmentKind.REVOKED, AssignmentKind.LOST

# The config "groups": several groups under a nemesis. Members poll now and then, and learn of their
# assignments between polls.


@pytest.mark.sampled(5)
def test_an_assignment_is_older_than_the_question_for_committed_offsets() -> None:
    """A commit that is complete before an assignment has to count for it (docs/checks.md, group-duplicate).
    So its time is when the member was told, not when the application polled."""
    config = stored.config("groups")
    assert config.workload == "groups"
    asked = 0
    for _, lines in simulate(config, invariants=False).journals:
        told = -1
        for line in lines:
            if isinstance(line, j.AssignmentChanged) and line.kind is AssignmentKind.ASSIGNED:
                told = line.ns
            if isinstance(line, j.OffsetsCommitted) and line.kind is CommitKind.FETCHED:
                asked += 1
                assert 0 <= told <= line.begin_ns
    assert asked >= 5


class Group:
    """A group "g" of a simulated cluster, and requests to its coordinator."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.cluster = SimulatedCluster(stored.config("groups"), self.scheduler)
        self.scheduler.run(self.scheduler.spawn(self.cluster.start()))
        self.node = 1
        while (found := self.ask(FindCoordinator("g", True))).error is not KafkaError.NONE:
            self.wait(100)
        self.node = found.node

    def send(self, sender: Sender, request: Any) -> list[Any]:
        """What it is answered stands in the list, None = it was given up."""
        answers: list[Any] = []
        sender(Ask(self.node, "ask", request), answers.append)
        return answers

    def ask(self, request: Any) -> Any:
        answers = self.send(self.cluster.sender(), request)
        while not answers:
            self.wait(10)
        return answers[0]

    def wait(self, milliseconds: int) -> None:
        self.scheduler.run(self.scheduler.sleep(milliseconds * 1000))

    def join(self, member: str = "") -> JoinGroup:
        return JoinGroup("g", member, 6000, 6000, ("t",))


def test_who_joins_waits_for_the_members_of_a_rebalance() -> None:
    """For longer than for other answers: until the rebalance timeout is over, and a bit more."""
    group = Group()
    first = group.ask(group.join())
    while first.error is not KafkaError.NONE:  # the coordinator is loading
        group.wait(100)
        first = group.ask(group.join())
    assert group.ask(SyncGroup("g", 1, first.member, {})).error is KafkaError.NONE
    newcomer = group.cluster.sender()
    answers = group.send(newcomer, group.join())
    group.wait(4000)
    assert answers == [], "the first member has not joined again, and nobody has given up"
    group.wait(3000)
    (answer,) = answers
    assert isinstance(answer, JoinGroupResponse)
    assert (answer.error, answer.generation) == (KafkaError.NONE, 2)


def test_who_joins_gives_up_some_time_after_the_rebalance_timeout() -> None:
    group = Group()
    group.scheduler.run(group.scheduler.spawn(group.cluster.pause([group.node])))
    answers = group.send(group.cluster.sender(), group.join())
    group.wait(8900)
    assert answers == []
    group.wait(200)
    assert answers == [None]


def _given_more(done: Simulated) -> int:
    """How often a member was assigned partitions while it kept others. No partition is assigned twice."""
    kept = 0
    for _, lines in done.journals:
        held: set[tuple[str, int]] = set()
        for line in lines:
            if isinstance(line, j.AssignmentChanged) and line.kind is AssignmentKind.ASSIGNED:
                assert not held & {*line.tps}
                kept += bool(held)
                held |= {*line.tps}
            elif isinstance(line, j.AssignmentChanged) and line.kind in (REVOKED, LOST):
                held -= {*line.tps}
    return kept


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("workload", "preset"), [("groups", "safe"), ("copier", "exactly-once")])
def test_members_of_the_newer_protocol_keep_what_they_promise(workload: str, preset: str) -> None:
    """KIP-848: partitions move one by one, also under a nemesis; no rule about clients or logs is broken.

    Runs follow each other until one has moved a partition to a member that kept others.
    """
    newer = {"consumer.group.protocol": "consumer"}
    settings = {"workload": workload, "preset": preset, "nemesis": "client:crash@member,kill:one@leader"}
    for seed in range(3, 23):
        config = {**BASE, **settings, "partitions": 12, "seed": seed, "client_settings": newer}
        done = simulate(run_config(config))
        assert judged(done, logs=True).failures == []
        if _given_more(done):
            return
    pytest.fail("no member was given a partition while it kept others")
