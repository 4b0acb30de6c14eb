"""The KRaft controller of the model: who may go when, and what elections answer."""

from itertools import pairwise

import pytest
from msgspec import structs

from model.eras import ERAS
from model.errors import KafkaError
from model.kraft.quorum_controller import QuorumController
from model.metadata.image import MetadataImage
from model.protocol.controller_messages import (
    AlterPartition,
    AlterPartitionResponse,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    BrokerRegistration,
    BrokerRegistrationResponse,
)
from model.protocol.messages import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    CreateTopics,
    ElectLeaders,
    ElectLeadersResponse,
    PartitionState,
)
from model.settings import Settings
from tests.model.one_broker import OneBroker

LED = ("led", 0)
REPLICAS = (1, 2, 3)


class World:
    """Three brokers, which send heartbeats when they are told to."""

    def __init__(self, *topics: tuple[tuple[int, ...], ...], era: str = "4.4") -> None:
        self.controller = QuorumController(Settings(era=ERAS[era]), MetadataImage())
        for broker in REPLICAS:
            self.controller.decide(BrokerRegistration(broker, 1), 0)
        self.beat(*REPLICAS)
        for replicas in topics:
            self.controller.decide(CreateTopics("led", 1, 3, replicas), 0)
        self.beat(*REPLICAS)

    def beat(self, *brokers: int, go: bool = False, behind: int = 0) -> BrokerHeartbeatResponse:
        """Of brokers that have all metadata but for the last ones; the last answer."""
        image = self.controller.image
        for broker in brokers:
            epoch = image.brokers[broker].epoch
            request = BrokerHeartbeat(broker, epoch, image.offset - behind, go)
            answer = self.controller.decide(request, 0).answer
        assert isinstance(answer, BrokerHeartbeatResponse)
        return answer

    def expire(self, broker: int) -> None:
        """Its session ends, that of no other one."""
        session = self.controller.settings.session_ms
        self.controller.sessions[broker] = -session - 1
        self.controller.tick(0)

    def state(self) -> PartitionState:
        return self.controller.image.partitions[LED]

    def elect(self, *, unclean: bool = False) -> KafkaError:
        answer = self.controller.decide(ElectLeaders([LED], unclean), 0).answer
        assert isinstance(answer, ElectLeadersResponse)
        return answer.parts[LED]


def test_a_leader_goes_when_all_others_know_who_leads_now() -> None:
    world = World((REPLICAS,))
    assert not world.beat(1, go=True).may_end
    assert (world.state().leader, world.state().isr) == (2, (2, 3))
    assert world.controller.image.alive() == {1, 2, 3}
    assert not world.beat(1, go=True).may_end  # nobody else said yet that it knows
    world.beat(2)
    world.beat(3, behind=1)
    assert not world.beat(1, go=True).may_end
    world.beat(3)
    assert world.beat(1, go=True) == BrokerHeartbeatResponse(KafkaError.NONE, fenced=True, may_end=True)
    assert world.controller.image.alive() == {2, 3}


def test_who_leads_nothing_goes_at_once_and_is_fenced() -> None:
    world = World((REPLICAS,))
    assert world.beat(3, go=True, behind=2).may_end
    assert world.controller.image.alive() == {1, 2}
    assert (world.state().leader, world.state().isr) == (1, (1, 2))
    assert world.beat(3, go=True).may_end  # the answer was lost


def test_nobody_waits_for_a_broker_that_is_fenced() -> None:
    world = World((REPLICAS,))
    world.beat(1, go=True)
    world.beat(2)
    world.controller.sessions[3] = -world.controller.settings.session_ms - 1
    world.controller.tick(0)
    world.beat(2)
    assert world.beat(1, go=True).may_end


def test_a_new_controller_lets_nobody_go_before_it_heard_of_all() -> None:
    world = World((REPLICAS,))
    world.beat(1, go=True)
    world.controller = QuorumController(world.controller.settings, world.controller.image)
    assert not world.beat(1, go=True).may_end
    world.beat(2, 3)
    assert world.beat(1, go=True).may_end


def test_what_a_preferred_election_answers() -> None:
    world = World((REPLICAS,))
    assert world.elect() is KafkaError.ELECTION_NOT_NEEDED
    world.beat(1, go=True)
    assert world.elect() is KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
    assert world.state().leader == 2
    world.controller.image.partitions[LED] = structs.replace(world.state(), replicas=(3, 2, 1))
    assert world.elect() is KafkaError.NONE
    assert world.state().leader == 3
    answer = world.controller.decide(ElectLeaders([("no", 0)]), 0).answer
    assert isinstance(answer, ElectLeadersResponse)
    assert answer.parts == {("no", 0): KafkaError.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    world = World((REPLICAS,))
    assert world.elect(unclean=True) is KafkaError.ELECTION_NOT_NEEDED
    nobody = structs.replace(world.state(), leader=-1, isr=(1,))
    for broker in REPLICAS:
        world.controller.image.brokers[broker].fenced = True
    world.controller.image.partitions[LED] = nobody
    assert world.elect(unclean=True) is KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE
    world.controller.image.brokers[3].fenced = False
    assert world.elect() is KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
    assert world.elect(unclean=True) is KafkaError.NONE
    assert world.state().leader == 3


def test_who_is_about_to_go_does_not_join_again() -> None:
    """KIP-841: its leader may not know yet that it goes."""
    world = World((REPLICAS,))
    world.beat(1, go=True)
    image, state = world.controller.image, world.state()
    assert 1 in image.alive()
    epochs = tuple(image.brokers[n].epoch for n in REPLICAS)
    wanted = {LED: (state.leader_epoch, state.partition_epoch, REPLICAS, epochs)}
    answer = world.controller.decide(AlterPartition(2, epochs[1], wanted), 0).answer
    assert isinstance(answer, AlterPartitionResponse)
    assert answer.parts[LED] == (KafkaError.INELIGIBLE_REPLICA, None)
    assert world.state() == state


def test_a_reassignment_ends_once_the_new_replicas_are_in_sync() -> None:
    """Also one that only adds replicas (KIP-455)."""
    world = World(((1, 2),))
    world.controller.decide(AlterPartitionReassignments({LED: REPLICAS}), 0)
    state = world.state()
    assert (state.replicas, state.adding, state.removing, state.isr) == (REPLICAS, (3,), (), (1, 2))
    epochs = tuple(world.controller.image.brokers[n].epoch for n in REPLICAS)
    wanted = {LED: (state.leader_epoch, state.partition_epoch, REPLICAS, epochs)}
    world.controller.decide(AlterPartition(1, epochs[0], wanted), 0)
    state = world.state()
    assert (state.replicas, state.adding, state.removing, state.isr) == (REPLICAS, (), (), REPLICAS)


def test_a_cancelled_reassignment_takes_back_what_it_added() -> None:
    """Refused where only what was added is in sync, and where nothing is left to cancel."""
    world = World(((1, 2),))

    def cancelled() -> KafkaError:
        answer = world.controller.decide(AlterPartitionReassignments({LED: None}), 0).answer
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        return answer.parts[LED]

    assert cancelled() is KafkaError.NO_REASSIGNMENT_IN_PROGRESS
    world.controller.decide(AlterPartitionReassignments({LED: (3, 2)}), 0)
    state = world.state()
    assert (state.replicas, state.adding, state.removing) == ((3, 2, 1), (3,), (1,))
    assert cancelled() is KafkaError.NONE
    after = world.state()
    assert (after.replicas, after.adding, after.removing) == ((2, 1), (), ())
    assert (after.isr, after.leader) == (state.isr, state.leader)
    assert after.leader_epoch == state.leader_epoch + 1, "the removed replica is fenced"


def test_a_reassignment_that_replaces_another_one_leaves_what_it_does_not_say() -> None:
    """It adds to none of the replicas, or removes none: those of the reassignment before stay
    (ReplicationControlManager.changePartitionReassignment)."""

    def moved(world: World, *replicas: int) -> tuple[tuple[int, ...], ...]:
        world.controller.decide(AlterPartitionReassignments({LED: replicas}), 0)
        state = world.state()
        return state.replicas, state.adding, state.removing

    world = World(((1, 2),))
    assert moved(world, 3) == ((3, 1, 2), (3,), (1, 2))
    assert moved(world, 3, 2) == ((3, 2, 1), (3,), (1,))  # nothing new is added
    world.controller.decide(AlterPartitionReassignments({LED: None}), 0)
    assert (world.state().replicas, world.state().adding, world.state().removing) == ((2, 1), (), ())

    world = World(((1, 2),))
    assert moved(world, 3) == ((3, 1, 2), (3,), (1, 2))
    assert moved(world, 1, 2, 3) == ((1, 2, 3), (3,), (1, 2))  # it still ends on 3 alone
    state, brokers = world.state(), world.controller.image.brokers
    epochs = tuple(brokers[n].epoch for n in REPLICAS)
    joins = {LED: (state.leader_epoch, state.partition_epoch, REPLICAS, epochs)}
    world.controller.decide(AlterPartition(1, epochs[0], joins), 0)
    assert (world.state().replicas, world.state().isr, world.state().leader) == ((3,), (3,), 3)


def test_removed_replicas_stand_behind_the_others_in_their_order() -> None:
    world = World(((3, 1),))
    world.controller.decide(AlterPartitionReassignments({LED: (2,)}), 0)
    state = world.state()
    assert (state.replicas, state.adding, state.removing) == ((2, 1, 3), (2,), (1, 3))


def test_another_process_of_a_broker_that_is_about_to_go_waits_for_its_session() -> None:
    """ClusterControlManager.registerBroker: as that of a broker that serves."""
    world = World((REPLICAS,))
    session = world.controller.settings.session_ms

    def registered(at: int) -> KafkaError:
        answer = world.controller.decide(BrokerRegistration(1, 77), at).answer
        assert isinstance(answer, BrokerRegistrationResponse)
        return answer.error

    assert not world.beat(1, go=True).may_end
    assert world.controller.image.brokers[1].leaving
    assert registered(session) is KafkaError.DUPLICATE_BROKER_REGISTRATION
    assert registered(session + 1) is KafkaError.NONE
    world = World((REPLICAS,))
    assert world.beat(3, go=True).may_end
    answer = world.controller.decide(BrokerRegistration(3, 77), 0).answer
    assert answer.error is KafkaError.NONE


@pytest.mark.parametrize("era", ["3.3", "3.6", "3.9", "4.0", "4.4"])
def test_a_registration_changes_partitions_with_eligible_replicas_only(era: str) -> None:
    world = World((REPLICAS,), era=era)
    for broker in (3, 2, 1):
        world.expire(broker)
    before = world.state()
    assert (before.leader, before.elr) == (-1, REPLICAS[:2] if era == "4.4" else ())
    world.controller.decide(BrokerRegistration(1, 77), 0)
    after = world.state()
    if era == "4.4":
        assert after == structs.replace(before, elr=(2,), partition_epoch=before.partition_epoch + 1)
    else:
        assert after == before


def test_a_partition_on_brokers_that_are_all_away_is_not_created() -> None:
    """ReplicationControlManager.createTopic."""
    world = World((REPLICAS,))
    world.expire(3)

    def created(*replicas: tuple[int, ...]) -> KafkaError:
        return world.controller.decide(CreateTopics("new", 1, 1, replicas), 0).answer.error

    before = world.controller.image.offset
    assert created((1,), (3,)) is KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert world.controller.image.offset == before
    assert created((3, 1)) is KafkaError.NONE
    state = world.controller.image.partitions["new", 0]
    assert (state.leader, state.isr) == (1, (1,))


def test_a_broker_gets_no_new_replica_while_it_is_on_its_way_out_and_one_when_it_is_gone() -> None:
    """BrokerHeartbeatManager.UsableBrokerIterator."""
    world = World((REPLICAS,))

    def created() -> KafkaError:
        return world.controller.decide(CreateTopics("new", 1, 3), 0).answer.error

    assert not world.beat(1, go=True).may_end
    assert created() is KafkaError.INVALID_REPLICATION_FACTOR
    world.beat(2, 3)
    assert world.beat(1, go=True).may_end
    assert created() is KafkaError.NONE
    state = world.controller.image.partitions["new", 0]
    assert set(state.replicas) == {1, 2, 3}
    assert set(state.isr) == {2, 3}


def test_a_broker_sends_heartbeats_at_their_distance() -> None:
    world = OneBroker()
    sent: list[int] = []

    def note(request: object) -> bool:
        if isinstance(request, BrokerHeartbeat):
            sent.append(world.now)
        return False

    world.hold = note
    world.run(10 * world.settings.heartbeat_ms)
    assert 5 <= len(sent) <= 11
    assert all(b - a >= world.settings.heartbeat_ms for a, b in pairwise(sent))


def test_a_registration_that_nobody_answered_is_sent_again() -> None:
    world = OneBroker()
    world.hold = lambda request: isinstance(request, BrokerRegistration) and not world.held
    world.restart()
    epoch = world.broker.node.broker_epoch
    assert epoch >= 0
    (lost,) = world.held
    world.broker.answered(world.now, lost, None)
    assert world.broker.node.broker_epoch == epoch
