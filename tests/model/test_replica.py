"""Replicas of the model, where Kafka's rules are finer than the scenarios show."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from core.internal_topics import TRANSACTION_TOPIC
from model.eras import ERAS, Era
from model.errors import KafkaError, Refused
from model.log.unified_log import RecordBatch, UnifiedLog
from model.metadata.election import change
from model.metadata.image import BrokerRegistrationChangeRecord, MetadataRecord, RegisterBrokerRecord
from model.protocol.controller_messages import AlterPartition
from model.protocol.messages import (
    Fetch,
    FetchPartition,
    ListOffsets,
    OffsetForLeaderEpoch,
    Partition,
    PartitionState,
)
from model.replication.alter_partition_manager import AlterPartitionManager
from model.replication.node import Ask, NodeState, ignore, settings_of
from model.replication.replica import Replica
from model.replication.replica_manager import ReplicaManager
from model.settings import Settings
from scenarios.drivers.partition import TP, PartitionStage

LED = PartitionState((1, 2, 3), (1, 2, 3), 1, 0, 0)
Acked = list[dict[Partition, tuple[KafkaError, int]]]


def leader(era: Era = ERAS["4.2"], state: PartitionState = LED, **settings: int) -> Replica:
    made = Replica(1, Settings(era=era, **settings))  # type: ignore[arg-type]
    made.become(state, 0)
    return made


def batch(base: int, epoch: int) -> RecordBatch:
    return RecordBatch(base, epoch, (f"{epoch}:{base}",))


# ---- who joins


def test_who_comes_back_joins_by_a_fetch_and_not_by_what_it_had_before() -> None:
    s = PartitionStage()
    s.produce("a", to=1).rounds(2, 3).rounds(2, 3)
    s.crash(3).fence(3).tell(1, 2)
    s.restart(3).tell(1).wait(1000)
    one = s.replica(TP, 1)
    assert one is not None
    assert one.remotes[3].end == one.high_watermark == 1  # of the process before
    assert one.grown_isr(2) is None is one.proposed
    assert set(one.isr) == {1, 2}
    s.fetch(3).answer(3).fetch(3).alter(1).altered(1)
    assert set(one.isr) == {1, 2, 3}


def test_a_process_that_is_gone_does_not_join_by_its_successors_registration() -> None:
    """KIP-903: it fetched, died with its power and came back before the leader asked for it."""
    s = PartitionStage()
    s.produce("a", to=1).rounds(2, 3).rounds(2, 3)
    s.crash(3).fence(3).restart(3).tell(1, 2).fetch(3).answer(3).fetch(3)
    s.lose_power(3).fence(3).restart(3).tell(1)
    s.alter(1)
    assert s.decision is KafkaError.INELIGIBLE_REPLICA
    assert s.state.isr == (1, 2)


def test_a_fetch_of_a_process_that_is_gone_shows_nothing() -> None:
    node = NodeState(1, Settings())
    s = PartitionStage()
    node.image = s.nodes[1].node.image
    epoch = node.image.brokers[2].epoch
    node.replicas[TP] = leader(state=structs.replace(LED, isr=(1, 3)))
    node.replicas[TP].append(batch(0, 0), 1)
    seen: list[int] = []
    serving = ReplicaManager(node, lambda _tp, follower: seen.append(follower))
    for of, known in ((epoch - 1, -1), (epoch, 1)):
        fetch = Fetch(2, {TP: FetchPartition(1, 0)}, max_wait_ms=0, broker_epoch=of)
        serving.fetch(fetch, ignore)
        assert node.replicas[TP].remotes[2].end == known
    assert seen == [2]


@pytest.mark.parametrize(("era", "joins"), [("0.11", True), ("2.0", False), ("4.2", False)])
def test_who_joins_has_reached_the_begin_of_the_epoch(era: str, joins: bool) -> None:
    """KAFKA-7128: a new leader's high watermark may be behind what is committed."""
    one = leader(ERAS[era], structs.replace(LED, leader=2))
    one.take([batch(0, 0)], 0)
    one.become(structs.replace(LED, isr=(1, 2), leader_epoch=1, partition_epoch=1), 10)
    assert (one.high_watermark, one.epoch_begin) == (0, 1)
    one.fetched_by(3, 0, 20)
    assert (one.grown_isr(3) is not None) is joins


def unfenced(broker: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker, fenced=False, leaving=False)


def asked_after(fetched: int, *changes: MetadataRecord) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What a leader that was told these changes asks for when broker 3 has fetched with this epoch.

    The leader has epoch 1; it knows 2 by a fetch with epoch 2, 3 is not in sync.
    """
    node = NodeState(1, Settings(), broker_epoch=1)
    began: list[MetadataRecord | None] = [None, *(RegisterBrokerRecord(n, 1) for n in (1, 2, 3))]
    for change_ in (*began, *(unfenced(n) for n in (1, 2, 3)), *changes):
        node.image.apply(change_)
    replica = node.replicas[TP] = leader(state=structs.replace(LED, isr=(1, 2)))
    altering = AlterPartitionManager(node, ReplicaManager(node, lambda _tp, _follower: None), lambda: 9)
    replica.fetched_by(2, 0, 10, 2)
    replica.fetched_by(3, 0, 10, fetched)
    altering.fetched(TP, 3)
    requests = [ask.request for ask in node.out if isinstance(ask, Ask)]
    return [request.parts[TP][2:] for request in requests if isinstance(request, AlterPartition)]


@pytest.mark.parametrize(
    ("fetched", "changes", "asked"),
    [
        (3, (), [((1, 2, 3), (1, 2, 3))]),
        (-1, (), [((1, 2, 3), (1, 2, -1))]),  # a follower from before KIP-903
        # As it fetched, not as it is registered now (7).
        (3, (RegisterBrokerRecord(2, 2), unfenced(2)), [((1, 2, 3), (1, 2, 3))]),
        (4, (), []),  # the metadata of that process are still to come
        (3, (RegisterBrokerRecord(3, 2), unfenced(3)), []),  # that process is gone
        (3, (BrokerRegistrationChangeRecord(3, True, False),), []),
        (3, (BrokerRegistrationChangeRecord(3, False, True),), []),
    ],
)
def test_a_leader_asks_for_who_is_eligible_with_the_epochs_of_the_fetches(
    fetched: int, changes: tuple[MetadataRecord, ...], asked: list[object]
) -> None:
    assert asked_after(fetched, *changes) == asked


# ---- what is committed


@pytest.mark.parametrize(("era", "high"), [("3.6", 1), ("4.0", 0), ("4.2", 0)])
def test_nothing_is_committed_below_the_minimum(era: str, high: int) -> None:
    one = leader(ERAS[era], structs.replace(LED, isr=(1,)))
    one.append(batch(0, 0), 1)
    one.advance(0)
    assert one.high_watermark == high


ALONE = structs.replace(LED, replicas=(1,), isr=(1,))


@pytest.mark.parametrize("era", ["2.4", "3.6"])
def test_a_minimum_above_the_number_of_replicas_refused_everything(era: str) -> None:
    with pytest.raises(Refused, match="NOT_ENOUGH_REPLICAS"):
        leader(ERAS[era], ALONE).append(batch(0, 0), -1)


@pytest.mark.parametrize("era", ["3.9", "4.0", "4.3"])
def test_the_minimum_is_at_most_the_number_of_replicas(era: str) -> None:
    node = NodeState(1, Settings(era=ERAS[era]))
    node.replicas[TP] = leader(ERAS[era], ALONE)
    serving, told = ReplicaManager(node, lambda _tp, _follower: None), Acked()
    serving.append({TP: batch(0, 0)}, -1, 30_000, told.append)
    assert told == [{TP: (KafkaError.NONE, 0)}]
    assert node.replicas[TP].high_watermark == 1


@pytest.mark.parametrize(("replicas", "eligible"), [((1, 2), ()), ((1, 2, 3), (3,))])
def test_no_replica_is_eligible_once_as_many_are_in_sync_as_there_are(
    replicas: tuple[int, ...], eligible: tuple[int, ...]
) -> None:
    state = structs.replace(LED, replicas=replicas, isr=(1,), elr=(3,))
    assert change(state, Settings(min_isr=3), {1, 2, 3}, isr=(1, 2)).elr == eligible


def waiting(era: str, isr: tuple[int, ...]) -> tuple[NodeState, ReplicaManager, Acked]:
    """A leader and an append with acks=all that waits."""
    node = NodeState(1, Settings(era=ERAS[era]))
    node.replicas[TP] = leader(ERAS[era], structs.replace(LED, isr=isr))
    serving, told = ReplicaManager(node, lambda _tp, _follower: None), Acked()
    serving.append({TP: batch(0, 0)}, -1, 30_000, told.append)
    assert told == []
    return node, serving, told


@pytest.mark.parametrize("era", ["2.4", "3.6", "4.2"])
def test_a_new_epoch_of_the_same_leader_fails_nothing_that_waits(era: str) -> None:
    """The controller of the ZooKeeper era gives one when a follower dies."""
    node, serving, told = waiting(era, (1, 2, 3))
    replica = node.replicas[TP]
    replica.become(structs.replace(LED, isr=(1, 2), leader_epoch=1, partition_epoch=1), 10)
    serving.moved(TP)
    assert told == []
    replica.fetched_by(2, 1, 20)
    serving.moved(TP)
    assert told == [{TP: (KafkaError.NONE, 0)}]


def test_who_leads_no_more_cannot_say_what_becomes_of_it() -> None:
    node, serving, told = waiting("4.2", (1, 2, 3))
    node.replicas[TP].become(structs.replace(LED, leader=2, leader_epoch=1, partition_epoch=1), 10)
    serving.moved(TP)
    assert told == [{TP: (KafkaError.NOT_LEADER_OR_FOLLOWER, -1)}]


@pytest.mark.parametrize(("era", "error"), [("2.4", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"), ("3.6", "NONE")])
def test_members_to_be_count_for_the_minimum(era: str, error: str) -> None:
    """The in-sync set of the answer is the maximal one (KIP-497)."""
    node, serving, told = waiting(era, (1, 2))
    replica = node.replicas[TP]
    replica.become(structs.replace(LED, isr=(1,), partition_epoch=1), 10)
    replica.proposed = (1, 2)
    replica.fetched_by(2, 1, 20)
    serving.moved(TP)
    assert [done[TP][0].name for done in told] == [error]


# ---- who answers for a partition


@pytest.mark.parametrize(
    ("leads", "current", "answer"),
    [
        (1, -1, (KafkaError.NONE, 2, 3)),
        (1, 2, (KafkaError.NONE, 2, 3)),
        (1, 1, (KafkaError.FENCED_LEADER_EPOCH, -1, -1)),
        (1, 3, (KafkaError.UNKNOWN_LEADER_EPOCH, -1, -1)),
        (2, 2, (KafkaError.NOT_LEADER_OR_FOLLOWER, -1, -1)),
    ],
)
def test_where_an_epoch_ends_is_told_by_its_leader_to_who_knows_it(
    leads: int, current: int, answer: tuple[KafkaError, int, int]
) -> None:
    node = NodeState(1, Settings())
    replica = node.replicas[TP] = Replica(1, node.settings)
    for n, epoch in enumerate((0, 2, 2)):
        replica.log.copy(batch(n, epoch))
    replica.become(structs.replace(LED, leader=leads, leader_epoch=2), 0)
    serving = ReplicaManager(node, lambda _tp, _follower: None)
    assert serving.epoch_ends(OffsetForLeaderEpoch(2, {TP: (current, 2)})).parts == {TP: answer}


@pytest.mark.parametrize(
    ("leads", "earliest", "committed", "answer"),
    [
        (1, True, True, (KafkaError.NONE, 0)),
        (1, True, False, (KafkaError.NONE, 0)),
        (1, False, False, (KafkaError.NONE, 2)),
        (2, False, False, (KafkaError.NOT_LEADER_OR_FOLLOWER, -1)),
        (2, True, False, (KafkaError.NOT_LEADER_OR_FOLLOWER, -1)),
    ],
)
def test_the_ends_of_a_log_are_told_by_its_leader(
    leads: int, earliest: bool, committed: bool, answer: tuple[KafkaError, int]
) -> None:
    node = NodeState(1, Settings())
    replica = node.replicas[TP] = leader()
    for n in range(3):
        replica.append(batch(n, 0), 0)
    for follower in (2, 3):
        replica.fetched_by(follower, 2, 0)
    replica.become(structs.replace(LED, leader=leads, leader_epoch=int(leads != 1), partition_epoch=1), 0)
    serving = ReplicaManager(node, lambda _tp, _follower: None)
    asked = ListOffsets([TP, ("none", 0)], earliest=earliest, committed=committed)
    assert serving.list_offsets(asked).parts == {
        TP: answer,
        ("none", 0): (KafkaError.UNKNOWN_TOPIC_OR_PARTITION, -1),
    }


@pytest.mark.parametrize(
    ("era", "earliest", "error"),
    [
        ("2.0", False, "NONE"),
        ("2.4", False, "OFFSET_NOT_AVAILABLE"),
        ("4.2", False, "OFFSET_NOT_AVAILABLE"),
        ("4.2", True, "NONE"),
    ],
)
@pytest.mark.parametrize("committed", [False, True])
def test_a_leader_behind_the_begin_of_its_epoch_does_not_tell_the_end(
    era: str, earliest: bool, error: str, committed: bool
) -> None:
    node = NodeState(1, Settings(era=ERAS[era]))
    replica = node.replicas[TP] = Replica(1, node.settings)
    replica.log.copy(batch(0, 0))
    replica.become(structs.replace(LED, leader_epoch=1), 0)
    serving = ReplicaManager(node, lambda _tp, _follower: None)
    asked = ListOffsets([TP], earliest=earliest, committed=committed)
    assert serving.list_offsets(asked).parts[TP][0].name == error
    for follower in (2, 3):
        replica.fetched_by(follower, 1, 0)
    assert serving.list_offsets(asked).parts == {TP: (KafkaError.NONE, 0 if earliest else 1)}


def test_appends_and_fetches_whose_time_has_run_out_are_answered_and_forgotten() -> None:
    node, serving, told = waiting("4.2", (1, 2, 3))
    node.now = 29_999
    serving.tick()
    assert told == []
    node.now = 30_000
    serving.tick()
    assert [done[TP][0] for done in told] == [KafkaError.REQUEST_TIMED_OUT]
    assert serving.appends[TP] == []
    node.now = 60_000
    serving.tick()
    assert len(told) == 1


# ---- older news


def test_older_metadata_do_not_undo_what_the_controller_answered() -> None:
    one = leader()
    one.become(structs.replace(LED, isr=(1, 2), partition_epoch=2), 10)
    one.become(structs.replace(LED, isr=(1,), partition_epoch=1), 20)
    assert (one.state.isr, one.state.partition_epoch) == ((1, 2), 2)


# ---- the cache of epochs


def _truncated(log: UnifiedLog) -> None:
    log.truncate(log.end)


def _copied(log: UnifiedLog) -> None:
    log.copy(batch(1, 2))


@pytest.mark.parametrize(
    ("era", "does", "left"),
    [
        ("4.2", _truncated, [(0, 0)]),
        ("2.4", _truncated, [(0, 0), (1, 1)]),
        ("4.2", _copied, [(0, 0), (2, 1)]),
        ("2.4", _copied, [(0, 0), (2, 1)]),
        ("2.0", _copied, [(0, 0), (1, 1), (2, 1)]),
    ],
)
def test_an_epoch_of_which_nothing_is_left_is_forgotten(
    era: str, does: Callable[[UnifiedLog], None], left: list[tuple[int, int]]
) -> None:
    """Else a follower that leads again cuts others back to where it began (KAFKA-10706)."""
    log = UnifiedLog(ERAS[era])
    log.copy(batch(0, 0))
    log.epochs.lead(1, log.end)
    does(log)
    assert log.epochs == left


# ---- elections


def test_the_last_leader_leads_again_where_nobody_is_eligible() -> None:
    """Both that are eligible lose power; the one that led comes back first (KIP-966)."""
    settings = Settings()
    state = structs.replace(LED, isr=(1,), elr=(2,))
    state = change(state, settings, {3}, isr=())
    assert (state.leader, state.elr, state.last_elr) == (-1, (1, 2), (1,))
    state = change(state, settings, {3}, dirty=1)
    state = change(state, settings, {3}, dirty=2)
    assert (state.elr, state.last_elr) == ((), (1,))
    assert change(state, settings, {2, 3}).leader == -1
    led = change(state, settings, {1, 2, 3})
    assert (led.leader, led.isr, led.last_elr) == (1, (1,), ())


MOVING = structs.replace(LED, replicas=(4, 1, 2, 3), adding=(4,), removing=(3,))


@pytest.mark.parametrize(
    ("era", "isr", "ends"),
    [
        ("4.3", (1, 2, 3, 4), True),
        ("4.3", (1, 2, 4), True),
        ("4.3", (1, 2, 3), False),
        ("4.3", (1, 4), False),  # KAFKA-15665
        ("3.9", (1, 4), False),
        ("3.6", (1, 4), True),
        ("3.6", (1, 2), False),
    ],
)
def test_a_reassignment_ends_and_the_leader_epoch_rises_with_it(
    era: str, isr: tuple[int, ...], ends: bool
) -> None:
    state = structs.replace(MOVING, isr=(1, 2, 3), leader=1)
    made = change(state, Settings(era=ERAS[era], min_isr=1), {1, 2, 3, 4}, isr=isr)
    assert (made.leader, made.leader_epoch, made.partition_epoch) == (1, int(ends), int(made != state))
    if ends:
        assert (made.replicas, made.adding, made.removing) == ((4, 1, 2), (), ())
        assert made.isr == tuple(sorted(set(isr) - {3}))
    else:
        assert (made.replicas, made.adding, made.removing) == (state.replicas, (4,), (3,))


@pytest.mark.parametrize(
    ("era", "isr", "epoch"),
    [("3.3", (1, 2), 1), ("3.3", (1, 2, 3), 0), ("3.6", (1, 2), 0), ("4.3", (1, 2), 0)],
)
def test_a_smaller_in_sync_set_is_a_new_leader_epoch_before_metadata_version_3_6(
    era: str, isr: tuple[int, ...], epoch: int
) -> None:
    made = change(structs.replace(LED, isr=(1, 2, 3)), Settings(era=ERAS[era]), {1, 2, 3}, isr=isr)
    assert (made.isr, made.leader, made.leader_epoch) == (isr, 1, epoch)
    grown = change(made, Settings(era=ERAS[era]), {1, 2, 3}, isr=(1, 2, 3))
    assert grown.leader_epoch == epoch


@pytest.mark.parametrize(
    ("era", "asked", "led"),
    [
        ("2.4", "", 2),
        ("3.3", "", -1),
        ("3.6", "", -1),
        ("3.6", "unclean", 2),
        ("3.9", "", 2),
        ("4.3", "", 2),
        ("4.3", "preferred", -1),
    ],
)
def test_an_unclean_election_by_the_setting(era: str, asked: str, led: int) -> None:
    settings = Settings(era=ERAS[era], unclean=True, min_isr=1)
    state = structs.replace(LED, isr=(1,))
    made = change(state, settings, {2, 3}, preferred=asked == "preferred", unclean=asked == "unclean")
    assert made.leader == led
    assert change(state, replace(settings, unclean=False), {2, 3}).leader == -1


def test_who_is_eligible_does_not_lead_beside_a_member_of_the_in_sync_set() -> None:
    """PartitionChangeBuilder.isValidNewLeader: only where that set is empty."""
    state = structs.replace(LED, isr=(1,), elr=(2,))
    assert change(state, Settings(), {2, 3}).leader == -1
    assert change(state, Settings(), {2, 3}, isr=()).leader == 2


def test_a_reassignment_does_not_end_without_a_replica_in_sync() -> None:
    state = structs.replace(LED, isr=(3,), leader=3, removing=(3,))
    assert change(state, Settings(era=ERAS["3.6"]), {1, 2, 3}) is state


def test_decisions_have_a_minimum_of_their_own_and_no_unclean_elections() -> None:
    settings = Settings(min_isr=1, unclean=True)
    assert settings_of(settings, "queue") is settings
    decisions = settings_of(settings, TRANSACTION_TOPIC)
    assert decisions == replace(settings, min_isr=2, unclean=False)
    assert settings_of(replace(settings, internal_replication=1), TRANSACTION_TOPIC).min_isr == 1


def test_an_unclean_election_is_not_held_for_decisions() -> None:
    s = PartitionStage(settings=Settings(min_isr=1, unclean=True))
    log = (TRANSACTION_TOPIC, 0)
    s.quorum_controller.image.partitions[log] = s.state
    s.crash(2, 3).fence(2, 3)
    s.crash(1).fence(1)
    s.restart(2)
    assert s.state.leader == 2
    assert s.quorum_controller.image.partitions[log].leader == -1
    assert s.nodes[2].node.replicas[log].settings.min_isr == 2


def test_an_answer_to_a_fetch_bears_the_high_watermark_of_before() -> None:
    """The leader reads before it counts what the fetch shows; where it keeps the fetch, when it answers."""
    s = PartitionStage((1, 2)).produce("m0", to=1).fetch(2).answer(2).produce("m1", to=1).fetch(2)
    leader, follower = s.replica(TP, 1), s.replica(TP, 2)
    assert leader is not None
    assert follower is not None
    assert leader.high_watermark == 1
    s.answer(2)
    assert (follower.log.end, follower.high_watermark) == (2, 0)
    s.fetch(2).produce("m2", to=1).answer(2)
    assert (follower.log.end, follower.high_watermark) == (3, 2)


def test_a_leader_asks_for_one_set_at_a_time_also_when_it_leads_again() -> None:
    """The request of its epoch before is under way until it is answered, with an error."""
    s = PartitionStage().produce("m0", to=1).settle()
    s.isolate(3).fence(3).tell(1, 2, 3).heal(3).tell(1, 2).rounds(3)
    assert s.altering(1) == "asks"
    s.isolate(1).fence(1).tell(1, 2, 3).heal(1).tell(2, 3).rounds(1)
    s.alter(2).altered(2).elect().tell(1, 2, 3).rounds(3)
    assert (s.state.leader, s.state.leader_epoch, s.state.isr) == (1, 2, (1, 2))
    s.alter(1)  # the only one
    refused = s.decision
    s.altered(1).produce("m1", to=1, acks=1).rounds(3).alter(1)
    assert (refused, s.decision) == (KafkaError.FENCED_LEADER_EPOCH, KafkaError.NONE)
    assert s.state.isr == (1, 2, 3)
