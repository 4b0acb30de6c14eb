"""The transaction coordinator: states, fencing, two phases, what late requests do, what survives a crash."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.java_hash import java_hash
from model.coordinator.coordinators import Coordinators
from model.coordinator.transaction_metadata import BEFORE, PREPARED, TransactionMetadata, TransactionRecord
from model.coordinator.transaction_metadata import TransactionState as S
from model.eras import ERAS, Era
from model.errors import KafkaError, Refused
from model.protocol.controller_messages import AllocateProducerIds
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    ProducerIdResponse,
    TxnMarker,
    TxnOffsetCommit,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)
from model.protocol.messages import PartitionState
from model.replication.node import Ask, MarkersCancelled, MarkersLeftOut
from tests.model.one_broker import ME, OneBroker, produce

TV1 = ERAS["4.2-tv1"]
NONE = KafkaError.NONE
P0, P1 = ("data", 0), ("data", 1)


def coordinating(world: OneBroker) -> Coordinators:
    return world.broker.coordinators


def of_markers(request: object) -> bool:
    return isinstance(request, WriteTxnMarkers)


def of_leaders(request: object) -> bool:
    return isinstance(request, AddPartitionsToTxn)


def log_of(world: OneBroker, tid: str = "t") -> tuple[str, int]:
    return (TRANSACTION_TOPIC, java_hash(tid) % 3)


def named(**settings: Any) -> tuple[OneBroker, Any]:
    """A broker, and a producer with the transactional id t."""
    world = OneBroker(**settings)
    return world, world.init()


def adding(**settings: Any) -> tuple[OneBroker, Any]:
    """The producer's transaction has P0."""
    world, producer = named(**settings)
    assert world.add(producer, 0) is NONE
    return world, producer


def writing(**settings: Any) -> tuple[OneBroker, Any]:
    """The producer has written a to P0."""
    world, producer = named(**settings)
    assert world.write(producer, 0, 0, "a") is NONE
    return world, producer


def ending(**settings: Any) -> tuple[OneBroker, Any]:
    """The producer commits it, and the marker is held."""
    world, producer = writing(**settings)
    world.hold = of_markers
    assert world.end(producer, commit=True).error is NONE
    return world, producer


def asking(world: OneBroker, producer: Any, record: str = "late") -> tuple[int, Ask]:
    """The producer writes to P0, and the leader's question whether it may is held: the number of its request,
    and the question."""
    world.hold = of_leaders
    number = world.send(produce(producer, 0, 0, record))
    world.hold = lambda _: False
    (question,) = world.held
    return number, question


def allowed(world: OneBroker, question: Ask) -> None:
    """The answer to it arrives: yes."""
    world.broker.answered(world.now, question, AddPartitionsToTxnResponse(NONE, {P0: NONE}))
    world.run(100)


# ---- where the coordinator is


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("Hello", 69609650),
        ("open-1795304318643577181", 1559715582),  # hashCode -1559715582; seen on Kafka: 2 of 5
        ("polygenelubricants", 0),  # hashCode -2^31, whose absolute value is no int
        ("\U0001f600", 1772899),
    ],
)
def test_ids_are_spread_by_javas_hash(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_a_coordinator_is_found_and_whoever_is_not_it_says_so() -> None:
    world = OneBroker()
    assert world.ask(FindCoordinator("t", False)).node == ME
    assert world.init().error is NONE
    world.become(log_of(world), leader=2)
    assert world.ask(InitProducerId("t", 10_000)).error is KafkaError.NOT_COORDINATOR
    image = world.broker.node.image
    image.partitions[log_of(world)] = PartitionState((1,), (1,), -1)
    answer = world.ask(FindCoordinator("t", False))
    assert (answer.error, answer.node) == (KafkaError.COORDINATOR_NOT_AVAILABLE, -1)


# ---- states


def of_state(state: S, version: int = 1) -> TransactionMetadata:
    record = TransactionRecord(
        "t", 7, 1000, epoch=5, last_epoch=4, state=state, partitions=(P0,), version=version
    )
    return TransactionMetadata(record, 32767)


def after(transaction: TransactionMetadata, to: S, version: int) -> TransactionRecord:
    match to:
        case S.EMPTY:
            return transaction.prepare_increment(1000, None, 0)
        case S.ONGOING:
            return transaction.prepare_add((P1,), 0, version)
        case S.PREPARE_COMMIT | S.PREPARE_ABORT:
            return transaction.prepare_end(to is S.PREPARE_COMMIT, 0, version)
        case S.COMPLETE_COMMIT | S.COMPLETE_ABORT:
            return transaction.prepare_complete(0)
        case S.DEAD:
            return transaction.prepare_dead()
    transaction.prepare_fence()
    return transaction.record


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("to", list(S))
@pytest.mark.parametrize("state", list(S))
def test_a_state_follows_only_those_that_it_may_follow(state: S, to: S, version: int) -> None:
    transaction = of_state(state, version)
    legal = state in BEFORE[to]
    if to is S.PREPARE_ABORT and version == 2:
        legal |= state in (S.EMPTY, S.COMPLETE_ABORT, S.COMPLETE_COMMIT)
    if to is S.COMPLETE_ABORT and state is S.PREPARE_COMMIT:
        legal = True  # the same step, which goes to CompleteCommit
    if to is S.COMPLETE_COMMIT:
        legal = state in PREPARED
    if to is S.COMPLETE_ABORT:
        legal = state in PREPARED
    if not legal:
        with pytest.raises(AssertionError, match=f"t: {state} → .* is not a legal transition"):
            after(transaction, to, version)
        return
    record = after(transaction, to, version)
    if to not in (S.PREPARE_EPOCH_FENCE, S.DEAD):
        transaction.complete(record)
        assert transaction.state is record.state
        assert transaction.pending is None


def test_no_change_begins_while_another_is_pending_and_none_ends_that_did_not_begin() -> None:
    transaction = of_state(S.ONGOING)
    record = transaction.prepare_end(True, 0, 1)
    with pytest.raises(AssertionError, match="Ongoing → Ongoing while → PrepareCommit is pending"):
        transaction.prepare_add((P1,), 0, 1)
    other = of_state(S.ONGOING)
    with pytest.raises(AssertionError, match="Ongoing → PrepareCommit, but → None is pending"):
        other.complete(record)


END_V1 = {
    (S.ONGOING, True): None,
    (S.ONGOING, False): None,
    (S.COMPLETE_COMMIT, True): NONE,
    (S.COMPLETE_COMMIT, False): KafkaError.INVALID_TXN_STATE,
    (S.COMPLETE_ABORT, True): KafkaError.INVALID_TXN_STATE,
    (S.COMPLETE_ABORT, False): NONE,
    (S.PREPARE_COMMIT, True): KafkaError.CONCURRENT_TRANSACTIONS,
    (S.PREPARE_COMMIT, False): KafkaError.INVALID_TXN_STATE,
    (S.PREPARE_ABORT, True): KafkaError.INVALID_TXN_STATE,
    (S.PREPARE_ABORT, False): KafkaError.CONCURRENT_TRANSACTIONS,
    (S.EMPTY, True): KafkaError.INVALID_TXN_STATE,
    (S.EMPTY, False): KafkaError.INVALID_TXN_STATE,
}


@pytest.mark.parametrize(("state", "commit"), END_V1)
def test_what_an_end_is_answered_in_transaction_version_1(state: S, commit: bool) -> None:
    assert of_state(state).end_v1(5, commit) is END_V1[state, commit]
    assert of_state(state).end_v1(4, commit) is KafkaError.PRODUCER_FENCED
    assert of_state(state).end_v1(6, commit) is KafkaError.PRODUCER_FENCED
    busy = of_state(state)
    busy.pending = S.DEAD
    assert busy.end_v1(5, commit) is KafkaError.CONCURRENT_TRANSACTIONS


FENCED, INVALID = KafkaError.PRODUCER_FENCED, KafkaError.INVALID_TXN_STATE
# The table in TransactionCoordinator: (state, commit) -> with the epoch before, with the present one.
END_V2 = {
    (S.EMPTY, False): (FENCED, None),
    (S.EMPTY, True): (FENCED, INVALID),
    (S.COMPLETE_ABORT, False): (NONE, None),
    (S.COMPLETE_ABORT, True): (INVALID, INVALID),
    (S.COMPLETE_COMMIT, False): (INVALID, None),
    (S.COMPLETE_COMMIT, True): (NONE, INVALID),
    (S.ONGOING, True): (FENCED, None),
    (S.ONGOING, False): (FENCED, None),
    (S.PREPARE_COMMIT, True): (KafkaError.CONCURRENT_TRANSACTIONS, FENCED),
    (S.PREPARE_COMMIT, False): (INVALID, FENCED),
    (S.PREPARE_ABORT, False): (KafkaError.CONCURRENT_TRANSACTIONS, FENCED),
    (S.PREPARE_ABORT, True): (INVALID, FENCED),
}


@pytest.mark.parametrize(("state", "commit"), END_V2)
def test_what_an_end_is_answered_in_transaction_version_2(state: S, commit: bool) -> None:
    before, present = END_V2[state, commit]
    assert of_state(state, 2).end_v2(7, 4, commit) is before
    assert of_state(state, 2).end_v2(7, 5, commit) is present
    assert of_state(state, 2).end_v2(7, 6, commit) is FENCED


# ---- InitProducerId


def test_each_init_fences_the_one_before() -> None:
    world = OneBroker(era=TV1)
    first = world.init()
    assert (first.error, first.producer_epoch) == (NONE, 0)
    assert world.add(first, 0) is NONE
    assert world.write(first, 0, 0, "lost") is NONE
    # The transaction of the predecessor is aborted first; meanwhile the successor has to wait.
    concurrent = world.ask(InitProducerId("t", 10_000))
    assert concurrent.error is KafkaError.CONCURRENT_TRANSACTIONS
    second = world.init()
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 2)
    assert world.controls(0) == [("abort", 1)]
    assert world.read(0) == []
    # The zombie can do nothing.
    assert world.add(first, 0) is KafkaError.PRODUCER_FENCED
    assert world.end(first, commit=True).error is KafkaError.PRODUCER_FENCED
    assert world.write(first, 0, 1, "zombie") is KafkaError.INVALID_PRODUCER_EPOCH


def test_ids_come_in_blocks_and_none_twice() -> None:
    world = OneBroker()
    early = world.ask(InitProducerId(None, 0))
    ids = [world.ask(InitProducerId(None, 0)).producer_id for _ in range(3)]
    # The first asked for a block, which was there at once: nobody had to wait longer than that.
    assert early.error is KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    world.restart()
    world.ask(InitProducerId(None, 0))
    ids += [world.ask(InitProducerId(None, 0)).producer_id for _ in range(3)]
    assert len(set(ids)) == 6
    assert ids[3] == ids[0] + 1000  # what was left of the block is lost with the broker


@pytest.mark.parametrize("timeout", [0, -1, 900_001])
def test_timeouts_have_a_limit(timeout: int) -> None:
    answer = OneBroker().ask(InitProducerId("t", timeout))
    assert answer.error is KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_a_client_that_has_an_epoch_may_have_the_next_one_unless_it_is_fenced() -> None:
    world = OneBroker(era=TV1)
    first = world.init()
    bumped = world.init("t", first.producer_id, 0)
    assert (bumped.error, bumped.producer_epoch) == (NONE, 1)
    again = world.init("t", first.producer_id, 0)  # its answer was lost
    assert (again.error, again.producer_epoch) == (NONE, 1)
    other = world.init()
    assert other.producer_epoch == 2
    assert world.init("t", first.producer_id, 1).error is KafkaError.PRODUCER_FENCED
    assert world.init("t", first.producer_id + 5, 0).error is KafkaError.PRODUCER_FENCED


def test_an_id_that_is_not_the_newest_is_fenced_whatever_its_epoch() -> None:
    world = OneBroker(era=TV1)
    first = world.init()
    assert world.init("t", first.producer_id + 5, 0).error is KafkaError.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("era", "answer"), [("3.9", (KafkaError.PRODUCER_FENCED, -1)), ("4.3-tv1", (NONE, 1)), ("4.3", (NONE, 1))]
)
def test_whether_a_producer_that_was_fenced_by_a_timeout_gets_the_next_epoch(
    era: str, answer: tuple[KafkaError, int]
) -> None:
    # KAFKA-19367: from transaction version 2 on the coordinator knows which epoch it had.
    world = OneBroker(era=ERAS[era])
    producer = world.init(ms=1000)
    assert world.add(producer, 0) is NONE
    world.run(3000)
    assert world.transaction().state is S.COMPLETE_ABORT
    again = world.init("t", producer.producer_id, 0)
    assert (again.error, again.producer_epoch) == answer
    assert world.init().producer_epoch == 2  # its successor fences it in any case
    assert world.init("t", producer.producer_id, 0).error is KafkaError.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("era", "meanwhile", "kept"),
    [
        ("3.9", KafkaError.PRODUCER_FENCED, 1),
        ("4.0", KafkaError.CONCURRENT_TRANSACTIONS, 0),
        ("4.3-tv1", KafkaError.CONCURRENT_TRANSACTIONS, 0),
    ],
)
def test_a_fence_that_the_log_does_not_take(era: str, meanwhile: KafkaError, kept: int) -> None:
    # KAFKA-9666: its epoch counts before it is written, and stays; not so in version 2 (KAFKA-19367).
    world = OneBroker(era=ERAS[era])
    producer = world.init(ms=5000)
    assert world.add(producer, 0) is NONE
    world.lag(log_of(world))
    number = world.send(InitProducerId("t", 5000))
    assert world.end(producer, commit=True).error is meanwhile
    world.until(lambda: number in world.replies)
    assert world.replies.pop(number).error is KafkaError.COORDINATOR_NOT_AVAILABLE
    assert (world.transaction().state, world.transaction().record.epoch) == (S.ONGOING, kept)
    world.send(InitProducerId("t", 5000))
    world.catch_up(log_of(world))
    assert (world.transaction().state, world.transaction().record.epoch) == (S.PREPARE_ABORT, 1)
    world.catch_up(log_of(world))
    assert world.transaction().state is S.COMPLETE_ABORT
    assert not world.transaction().fence_failed


def test_an_end_waits_for_what_is_pending_before_its_producer_is_looked_at() -> None:
    # KAFKA-18660, in transaction version 2: the producer may have the id that is pending.
    for era, answer in (("4.3", KafkaError.CONCURRENT_TRANSACTIONS), ("4.3-tv1", KafkaError.PRODUCER_FENCED)):
        world = OneBroker(era=ERAS[era])
        producer = world.init()
        assert world.add(producer, 0) is NONE
        world.lag(log_of(world))
        world.send(EndTxn("t", producer.producer_id, producer.producer_epoch, True))
        stranger = msgspec.structs.replace(producer, producer_epoch=5)
        assert world.end(stranger, commit=True).error is answer


def test_one_init_at_a_time() -> None:
    world = OneBroker()
    world.init()
    world.lag(log_of(world))
    first = world.send(InitProducerId("t", 10_000))
    answer = world.ask(InitProducerId("t", 10_000))
    assert answer.error is KafkaError.CONCURRENT_TRANSACTIONS
    world.catch_up(log_of(world))
    assert world.replies[first].producer_epoch == 1


def test_a_client_that_was_not_told_its_new_id_gets_it_when_it_asks_again() -> None:
    world = OneBroker(era=TV1, producer_epoch_max=3)
    old = [world.init() for _ in range(3)][-1]
    new = world.init("t", old.producer_id, 2)
    assert (new.producer_id > old.producer_id, new.producer_epoch) == (True, 0)
    assert world.init("t", old.producer_id, 0).error is KafkaError.PRODUCER_FENCED
    assert world.init("t", old.producer_id, 2) == new


def test_brokers_ask_for_one_block_of_ids_at_a_time() -> None:
    world = OneBroker()
    world.hold = lambda request: isinstance(request, AllocateProducerIds)
    for _ in range(3):
        world.ask(InitProducerId(None, 0))
    assert len(world.held) == 1
    world.give_up()
    world.held = []
    world.ask(InitProducerId(None, 0))
    assert len(world.held) == 1


def test_in_version_2_the_end_that_uses_up_the_epochs_brings_a_new_id() -> None:
    world, producer = named(producer_epoch_max=3)
    seen = []
    for n in range(4):
        assert world.add(producer, 0) is NONE
        assert world.write(producer, 0, 0, f"r{n}") is NONE
        before = producer
        producer = world.end(producer, commit=True)
        seen.append((producer.producer_id, producer.producer_epoch))
        again = world.end(before, commit=True)
        assert (again.error, again.producer_epoch) == (NONE, producer.producer_epoch)
    first = seen[0][0]
    assert seen == [(first, 1), (first, 2), (first + 1, 0), (first + 1, 1)]
    assert world.read(0) == ["r0", "r1", "r2", "r3"]


# ---- the errors of AddPartitions and EndTxn


def test_who_is_not_known_or_not_the_newest_is_refused() -> None:
    world = OneBroker(era=TV1)
    nobody = ProducerIdResponse(NONE, 99, 0)
    assert world.add(nobody, 0) is KafkaError.INVALID_PRODUCER_ID_MAPPING
    assert world.end(nobody, commit=True).error is KafkaError.INVALID_PRODUCER_ID_MAPPING
    producer = world.init()
    assert world.add(nobody, 0) is KafkaError.INVALID_PRODUCER_ID_MAPPING
    assert world.end(nobody, commit=True).error is KafkaError.INVALID_PRODUCER_ID_MAPPING
    newer = msgspec.structs.replace(producer, producer_epoch=1)
    assert world.add(newer, 0) is KafkaError.PRODUCER_FENCED
    assert world.end(producer, commit=True).error is KafkaError.INVALID_TXN_STATE  # nothing began


def test_a_partition_that_is_in_the_transaction_is_not_logged_again() -> None:
    world, producer = named(era=TV1)
    world.add(producer, 0, 1)
    end = world.replica(log_of(world)).log.end
    assert world.add(producer, 1) is NONE
    assert world.replica(log_of(world)).log.end == end
    assert world.add(producer, 2) is NONE
    assert world.replica(log_of(world)).log.end == end + 1


def test_a_partition_that_the_coordinator_has_not_heard_of_is_not_added() -> None:
    # Its marker would be left out, as if the partition were deleted.
    world, producer = named(era=TV1)
    partitions = world.broker.node.image.partitions
    hidden = partitions.pop(P1)
    before = world.transaction().record
    for request in ((1,), (0, 1)):
        assert world.add(producer, *request) is KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    nobody = ProducerIdResponse(NONE, 99, 0)  # it does not come to that
    assert world.add(nobody, 1) is KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert (world.transaction().record, world.transaction().pending) == (before, None)
    offsets = (GROUP_TOPIC, java_hash("g") % 3)
    partitions.pop(offsets)  # a group's offsets are not looked up
    identity = (producer.producer_id, producer.producer_epoch)
    assert world.ask(AddOffsetsToTxn("t", *identity, "g")).error is NONE
    partitions[P1] = hidden
    assert world.add(producer, 0, 1) is NONE
    assert world.transaction().record.partitions == (offsets, P0, P1)


@pytest.mark.parametrize("era", ["4.2-tv1", "4.2"])
def test_a_leader_that_asks_for_such_a_partition_has_its_producer_send_again(era: str) -> None:
    world, producer = named(era=ERAS[era])
    if era == "4.2-tv1":
        world.add(producer, 0)
    partitions = world.broker.node.image.partitions
    hidden = partitions.pop(P0)
    before = world.transaction().record
    assert world.write(producer, 0, 0, "a") is KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert world.transaction().record == before
    partitions[P0] = hidden
    assert world.write(producer, 0, 0, "a") is NONE
    assert world.end(producer, commit=True).error is NONE
    assert world.read(0) == ["a"]


def test_while_a_transaction_ends_the_next_one_waits() -> None:
    world, producer = adding(era=TV1)
    world.hold = of_markers
    assert world.end(producer, commit=True).error is NONE
    assert world.transaction().state is S.PREPARE_COMMIT
    assert world.add(producer, 0) is KafkaError.CONCURRENT_TRANSACTIONS
    assert world.end(producer, commit=True).error is KafkaError.CONCURRENT_TRANSACTIONS
    waiting = world.ask(InitProducerId("t", 10_000))
    assert waiting.error is KafkaError.CONCURRENT_TRANSACTIONS
    world.release()
    assert world.transaction().state is S.COMPLETE_COMMIT
    assert world.end(producer, commit=True).error is NONE  # sent again: it is done
    assert world.end(producer, commit=False).error is KafkaError.INVALID_TXN_STATE
    assert world.add(producer, 0) is NONE


def test_the_next_id_has_to_wait_until_the_transaction_that_brought_it_is_over() -> None:
    # KAFKA-18660: until then the coordinator does not know the client by it.
    def promised(era: Era) -> tuple[OneBroker, ProducerIdResponse]:
        world = OneBroker(era=era, producer_epoch_max=2)
        last = world.end(world.init(), commit=False)
        world.write(last, 0, 0, "a")
        world.hold = of_markers
        given: ProducerIdResponse = world.end(last, commit=True)
        assert (given.producer_id > last.producer_id, given.producer_epoch) == (True, 0)
        return world, given

    world, producer = promised(ERAS["4.0"])
    assert world.add(producer, 1) is KafkaError.CONCURRENT_TRANSACTIONS
    assert world.write(producer, 1, 0, "b") is KafkaError.CONCURRENT_TRANSACTIONS
    world.release()
    assert world.write(producer, 1, 0, "b") is NONE
    assert world.end(producer, commit=True).error is NONE
    assert (world.read(0), world.read(1)) == (["a"], ["b"])
    world, producer = promised(replace(ERAS["4.0"], pending_first=False))
    assert world.add(producer, 1) is KafkaError.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    ("era", "meanwhile"),
    [("3.6", KafkaError.PRODUCER_FENCED), ("4.2-tv1", KafkaError.CONCURRENT_TRANSACTIONS)],
)
def test_a_zombie_is_fenced_when_no_change_is_pending_at_the_latest(era: str, meanwhile: KafkaError) -> None:
    world = OneBroker(era=ERAS[era])
    zombie = world.init()
    producer = world.init()
    assert world.add(zombie, 0) is KafkaError.PRODUCER_FENCED
    world.add(producer, 0)
    world.hold = of_markers
    world.end(producer, commit=True)
    assert world.add(zombie, 0) is meanwhile
    world.release()
    assert world.add(zombie, 0) is KafkaError.PRODUCER_FENCED


# ---- two phases


def test_an_end_is_answered_once_it_is_replicated_and_only_then_markers_are_written() -> None:
    world, producer = writing()
    world.lag(log_of(world))
    number = world.send(EndTxn("t", producer.producer_id, producer.producer_epoch, True))
    assert number not in world.replies
    assert world.controls(0) == []
    world.catch_up(log_of(world))
    assert world.replies.pop(number).error is NONE
    assert world.controls(0) == [("commit", 1)]
    assert world.transaction().state is S.PREPARE_COMMIT  # the complete record is on its way
    world.catch_up(log_of(world))
    assert world.transaction().state is S.COMPLETE_COMMIT


def test_a_change_that_cannot_be_logged_is_taken_back() -> None:
    world, producer = writing()
    replica = world.replica(log_of(world))
    isr = replica.state.isr
    replica.state = structs.replace(replica.state, isr=())
    assert world.end(producer, commit=True).error is KafkaError.COORDINATOR_NOT_AVAILABLE
    assert world.transaction().state is S.ONGOING
    replica.state = structs.replace(replica.state, isr=isr)
    assert world.end(producer, commit=True).error is NONE
    assert world.read(0) == ["a"]


def test_a_complete_record_that_cannot_be_logged_is_tried_again() -> None:
    world, _ = ending()
    replica = world.replica(log_of(world))
    isr = replica.state.isr
    replica.state = structs.replace(replica.state, isr=())
    world.release()
    world.run(300)
    assert world.transaction().state is S.PREPARE_COMMIT
    replica.state = structs.replace(replica.state, isr=isr)
    world.run(100)
    assert world.transaction().state is S.COMPLETE_COMMIT


def test_markers_are_sent_until_all_are_written() -> None:
    world, producer = writing()
    world.write(producer, 1, 0, "b")
    world.hold = of_markers
    world.end(producer, commit=True)
    world.give_up()
    world.hold = lambda _: False
    world.replica(P1).state = structs.replace(world.replica(P1).state, isr=())
    world.run(100)
    assert (world.controls(0), world.controls(1)) == ([("commit", 1)], [])
    assert world.transaction().state is S.PREPARE_COMMIT
    world.replica(P1).state = structs.replace(world.replica(P1).state, isr=(ME,))
    world.run(100)
    assert (world.controls(0), world.controls(1)) == ([("commit", 1)], [("commit", 1)])
    assert world.transaction().state is S.COMPLETE_COMMIT
    assert (world.read(0), world.read(1)) == (["a"], ["b"])


@pytest.mark.parametrize("waited_ms", [100, 2000])
def test_a_request_with_markers_that_is_given_up_is_logged(waited_ms: int) -> None:
    """One that fails before its time was never in flight: the broker was down."""
    world, producer = writing()
    world.hold = of_markers
    made = world.now
    world.end(producer, commit=True)
    world.hold = lambda request: of_markers(request) and not world.held
    world.run(waited_ms)
    world.give_up()
    told = [one for one in world.broker.node.server_log if isinstance(one, MarkersCancelled)]
    assert [(one.node, one.to, one.made) for one in told] == ([(ME, ME, made)] if waited_ms == 2000 else [])
    assert all(one.ms - one.made >= one.timeout for one in told)
    world.run(100)
    assert world.transaction().state is S.COMPLETE_COMMIT


def test_each_broker_gets_one_request_at_a_time_and_each_marker_goes_to_one_broker() -> None:
    world = OneBroker()
    one, two = world.init("one"), world.init("two")
    world.write(one, 0, 0, "a", tid="one")
    world.write(two, 1, 0, "b", tid="two")
    world.hold = of_markers
    world.end(one, commit=True, tid="one")
    world.end(two, commit=True, tid="two")
    image = world.broker.node.image
    state = image.partitions[P0]
    image.partitions[P0] = structs.replace(state, leader=2)
    world.run(300)
    assert len(world.held) == 1  # while it is under way, nobody else is asked
    image.partitions[P0] = state
    world.release()
    assert (world.read(0), world.read(1)) == (["a"], ["b"])


def test_a_request_with_several_markers_is_answered_when_all_are_replicated() -> None:
    world = OneBroker()
    world.lag(P1)
    markers = (TxnMarker(1, 0, 0, True, (P0,), 2), TxnMarker(2, 0, 0, True, (P1,), 2))
    number = world.send(WriteTxnMarkers(markers))
    assert number not in world.replies
    world.catch_up(P1)
    assert world.replies[number].results == {(1, P0): NONE, (2, P1): NONE}


def test_who_is_fenced_writes_no_more_markers() -> None:
    world, producer = ending()
    (ask,) = world.held
    answer = WriteTxnMarkersResponse({(producer.producer_id, P0): KafkaError.TRANSACTION_COORDINATOR_FENCED})
    world.broker.answered(world.now, ask, answer)
    world.run(500)
    assert len(world.held) == 1


def test_a_coordinator_that_lost_its_partition_writes_no_more_markers() -> None:
    world, _ = ending()
    world.become(log_of(world), leader=2)
    world.give_up()
    world.run(300)
    assert len(world.held) == 1
    world.next_epoch(log_of(world))  # it leads again
    world.hold = lambda _: False
    world.run(100)
    assert world.read(0) == ["a"]


def test_an_answer_to_an_older_coordinator_does_not_concern_the_newer_one() -> None:
    world, producer = ending()
    (ask,) = world.held
    world.next_epoch(log_of(world))
    world.run(100)
    world.hold = lambda _: False
    answer = WriteTxnMarkersResponse({(producer.producer_id, P0): KafkaError.TRANSACTION_COORDINATOR_FENCED})
    world.broker.answered(world.now, ask, answer)
    world.run(100)
    assert world.read(0) == ["a"]
    assert world.transaction().state is S.COMPLETE_COMMIT


def test_partitions_that_are_gone_need_no_marker() -> None:
    world, producer = writing()
    del world.broker.node.image.partitions[P0]
    assert world.end(producer, commit=True).error is NONE
    assert world.transaction().state is S.COMPLETE_COMMIT


# ---- timeouts, expiry


@pytest.mark.parametrize("era", ["4.2-tv1", "4.2"])
def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(era: str) -> None:
    world = OneBroker(era=ERAS[era])
    producer = world.init(ms=3000)
    world.add(producer, 0)
    world.write(producer, 0, 0, "a")
    world.run(2900)
    assert world.transaction().state is S.ONGOING
    world.run(1300)  # its time and the distance between two scans
    assert world.transaction().state is S.COMPLETE_ABORT
    assert world.controls(0) == [("abort", 1)]  # the epoch rises once, also in version 2 (KAFKA-19367)
    assert world.write(producer, 0, 1, "b") is KafkaError.INVALID_PRODUCER_EPOCH
    if era == "4.2-tv1":
        assert world.end(producer, commit=True).error is KafkaError.PRODUCER_FENCED
    else:
        # The table of version 2 takes the epoch for that of a repeated end (KAFKA-20785).
        assert world.end(producer, commit=True).error is KafkaError.INVALID_TXN_STATE
    assert world.init().producer_epoch == 2


def test_a_client_of_version_1_ends_by_it_and_the_coordinator_of_a_newer_cluster_by_its_own() -> None:
    world = OneBroker(era=TV1)
    producer = world.init(ms=3000)
    world.add(producer, 0)
    world.write(producer, 0, 0, "a")
    world.end(producer, commit=True)
    assert world.transaction().record.version == 1
    world.add(producer, 0)
    world.write(producer, 0, 1, "b")
    world.run(5000)  # its time is over
    assert world.transaction().record.version == 2
    markers = [batch.transaction_version for batch in world.replica(P0).log.batches if batch.control]
    assert markers == [1, 2]
    exhausted = OneBroker(era=TV1, producer_epoch_max=2)
    first = exhausted.init(ms=1000)
    last = exhausted.init(ms=1000)
    exhausted.add(last, 0)
    exhausted.run(3000)
    record = exhausted.transaction().record
    assert (record.producer_id > first.producer_id, record.epoch) == (True, 0)  # version 2: the next id


def test_a_fence_that_uses_up_the_epochs_brings_a_new_id_too() -> None:
    # KAFKA-20090
    world = OneBroker(producer_epoch_max=2)
    first = world.init(ms=1000)
    second = world.end(first, commit=False)
    assert second.producer_epoch == 1
    world.write(second, 0, 0, "a")
    world.run(3000)
    record = world.transaction().record
    assert (record.producer_id > second.producer_id, record.epoch) == (True, 0)
    assert world.controls(0) == [("abort", 2)]


def test_an_id_that_is_not_used_is_forgotten_and_a_successor_begins_anew() -> None:
    world = OneBroker(transactional_id_expiration_ms=5000)
    first = world.init()
    world.run(6500)
    assert world.end(first, commit=False).error is KafkaError.INVALID_PRODUCER_ID_MAPPING
    world.restart()
    assert world.end(first, commit=False).error is KafkaError.INVALID_PRODUCER_ID_MAPPING
    second = world.init()
    assert (second.producer_id > first.producer_id, second.producer_epoch) == (True, 0)


# ---- a new coordinator


def test_an_open_transaction_survives_its_coordinator() -> None:
    world = OneBroker()
    producer = world.init(ms=60_000)
    world.write(producer, 0, 0, "a")
    before = world.part(group=False).epochs[log_of(world)[1]]
    world.restart()
    assert world.part(group=False).epochs[log_of(world)[1]] > before
    assert world.transaction().state is S.ONGOING
    assert world.end(producer, commit=True).error is NONE
    assert world.read(0) == ["a"]


def test_what_was_prepared_is_finished_by_the_next_coordinator() -> None:
    world, _ = ending()
    world.hold = lambda _: False
    world.restart()
    assert world.transaction().state is S.COMPLETE_COMMIT
    assert world.read(0) == ["a"]
    marker = world.replica(P0).log.batches[-1]
    assert marker.coordinator_epoch == world.part(group=False).epochs[log_of(world)[1]]


def test_the_next_coordinator_fences_who_asks_again_for_an_epoch_that_was_given() -> None:
    # KAFKA-20357: the log does not say which epoch the client had before.
    world = OneBroker(era=TV1)
    first = world.init()
    bumped = world.init("t", first.producer_id, 0)
    assert world.init("t", first.producer_id, 0) == bumped
    world.restart()
    again = world.init("t", first.producer_id, 0)  # its answer was lost with the coordinator
    assert again.error is KafkaError.PRODUCER_FENCED
    assert world.init("t", first.producer_id, 1).producer_epoch == 2


def test_the_next_coordinator_does_not_know_a_client_by_the_id_that_it_had() -> None:
    # KAFKA-20310
    world = OneBroker(era=TV1, producer_epoch_max=3)
    old = [world.init() for _ in range(3)][-1]
    assert world.init("t", old.producer_id, 2).producer_id > old.producer_id
    world.restart()
    assert world.init("t", old.producer_id, 2).error is KafkaError.PRODUCER_FENCED
    for era, known in (("4.2", False), ("4.3", True)):
        world = OneBroker(era=ERAS[era], producer_epoch_max=2)
        old = world.end(world.init(), commit=False)
        new = world.end(old, commit=False)
        assert (new.producer_id > old.producer_id, new.producer_epoch) == (True, 0)
        assert world.end(old, commit=False) == new
        world.restart()
        again = world.end(old, commit=False)
        unknown = ProducerIdResponse(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        assert again == (new if known else unknown), era


def test_the_next_coordinator_does_not_know_the_id_that_a_client_was_promised() -> None:
    # KAFKA-20310: the end that used up the epochs was answered with the next id.
    def restarted(era: str) -> tuple[OneBroker, ProducerIdResponse, ProducerIdResponse]:
        world = OneBroker(era=ERAS[era], producer_epoch_max=2)
        last = world.end(world.init(), commit=False)
        world.write(last, 0, 0, "a")
        world.hold = of_markers
        promised = world.end(last, commit=True)
        assert (promised.producer_id > last.producer_id, promised.producer_epoch) == (True, 0)
        world.hold = lambda _: False
        world.restart()
        return world, last, promised

    world, _, promised = restarted("4.3")
    assert world.add(promised, 0) is NONE
    world, last, promised = restarted("4.2")
    record = world.transaction().record
    assert (record.state, record.producer_id, record.epoch) == (S.COMPLETE_COMMIT, last.producer_id, 2)
    assert world.read(0) == ["a"]
    assert world.add(promised, 0) is KafkaError.INVALID_PRODUCER_ID_MAPPING
    successor = world.init()
    assert (successor.producer_id > promised.producer_id, successor.producer_epoch) == (True, 0)


def test_a_log_is_loaded_to_its_end_whether_that_is_committed_or_not() -> None:
    world = OneBroker()
    world.init()
    tp = log_of(world)
    world.lag(tp)
    world.send(InitProducerId("t", 10_000))  # appended, not replicated
    world.next_epoch(tp)
    answer = world.ask(InitProducerId("t", 10_000))
    assert answer.error is KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    world.run(100)
    number = world.send(InitProducerId("t", 10_000))
    world.catch_up(tp)
    # The record of the one that was never answered was loaded.
    assert world.replies[number].producer_epoch == 2


def undecided() -> tuple[OneBroker, ProducerIdResponse, int]:
    """PrepareCommit is in the log and not replicated: world, producer, number of its request."""
    world, producer = writing()
    world.lag(log_of(world))
    number = world.send(EndTxn("t", producer.producer_id, producer.producer_epoch, True))
    assert number not in world.replies
    assert world.controls(0) == []
    return world, producer, number


def test_what_a_decision_that_is_not_committed_says_is_done() -> None:
    """Kafka's next coordinator writes markers for what it has read, whoever else has it."""
    world, producer, _ = undecided()
    tp = log_of(world)
    world.next_epoch(tp)
    world.run(100)
    assert world.replica(tp).high_watermark < world.replica(tp).log.end
    assert world.controls(0) == [("commit", producer.producer_epoch + 1)]


def test_a_change_that_its_coordinator_lost_is_answered_by_nobody_else() -> None:
    world, _, number = undecided()
    world.become(log_of(world), leader=2, leader_epoch=9)
    assert world.replies[number].error is KafkaError.NOT_COORDINATOR
    assert world.controls(0) == []


def test_markers_of_an_older_coordinator_are_refused() -> None:
    world, producer = writing()
    world.end(producer, commit=True)
    known = world.replica(P0).log.producers[producer.producer_id]
    marker = TxnMarker(producer.producer_id, 5, known.coordinator_epoch - 1, False, (P0,), 2)
    results = world.ask(WriteTxnMarkers((marker,))).results
    assert list(results.values()) == [KafkaError.TRANSACTION_COORDINATOR_FENCED]
    older = marker._replace(producer_epoch=0, coordinator_epoch=known.coordinator_epoch)
    results = world.ask(WriteTxnMarkers((older,))).results
    assert list(results.values()) == [KafkaError.INVALID_PRODUCER_EPOCH]
    elsewhere = marker._replace(partitions=(("data", 77),))
    results = world.ask(WriteTxnMarkers((elsewhere,))).results
    assert list(results.values()) == [KafkaError.UNKNOWN_TOPIC_OR_PARTITION]


# ---- late requests


def test_late_end_of_version_2_is_refused() -> None:
    world, producer = named()
    world.write(producer, 0, 0, "one")
    late = EndTxn("t", producer.producer_id, producer.producer_epoch, True)
    producer = world.end(producer, commit=True)
    world.write(producer, 0, 0, "two")
    assert world.ask(late).error is KafkaError.PRODUCER_FENCED
    assert world.write(producer, 1, 0, "two") is NONE
    assert world.end(producer, commit=False).error is NONE
    assert (world.read(0), world.read(1)) == (["one"], [])


@pytest.mark.parametrize(("era", "accepted"), [("2.4", True), ("3.6", False), ("4.2", False)])
def test_late_record_after_an_abort_hangs_unless_the_leader_asks(era: str, accepted: bool) -> None:
    world, producer = adding(era=ERAS[era])
    world.write(producer, 0, 0, "a")
    late = produce(producer, 0, 1, "late")
    assert world.end(producer, commit=False).error is NONE
    error = world.written(world.send(late))
    other = world.init("other")
    world.add(other, 0, tid="other")
    assert world.write(other, 0, 0, "b", tid="other") is NONE
    assert world.end(other, commit=True, tid="other").error is NONE
    world.run(60_000)
    if accepted:
        assert error is NONE
        assert world.read(0) == []  # the last stable offset stands still for good
        assert world.transaction().state is S.COMPLETE_ABORT
    else:
        refused = KafkaError.INVALID_PRODUCER_EPOCH if era == "4.2" else INVALID
        assert error is refused
        assert world.read(0) == ["b"]


@pytest.mark.parametrize(
    ("era", "error"),
    [
        ("3.9", KafkaError.INVALID_TXN_STATE),
        ("4.0", KafkaError.INVALID_PRODUCER_EPOCH),
        ("4.3-tv1", KafkaError.INVALID_PRODUCER_EPOCH),
    ],
)
def test_an_old_epoch_is_seen_before_the_answer_that_was_taken_away(era: str, error: KafkaError) -> None:
    # KAFKA-19690: the marker of a fence came between.
    world, producer = adding(era=ERAS[era])
    number, question = asking(world, producer)
    assert world.init().producer_epoch == 2
    assert world.controls(0) == [("abort", 1)]
    allowed(world, question)
    assert world.written(number) is error


def test_what_is_in_the_log_already_needs_no_verification() -> None:
    world, producer = adding(era=TV1)
    assert world.write(producer, 0, 0, "a") is NONE
    assert world.end(producer, commit=True).error is NONE
    world.add(producer, 0)
    number, question = asking(world, producer, "a")  # again
    assert world.end(producer, commit=True).error is NONE
    allowed(world, question)
    assert world.replies.pop(number).results == {P0: (NONE, 0)}
    assert world.read(0) == ["a"]


def test_a_marker_does_not_take_the_answer_of_the_next_transaction_away() -> None:
    # KAFKA-18575: the client has the next epoch from the end, and is faster than the marker.
    world, producer = named()
    world.write(producer, 0, 0, "one")
    world.hold = lambda request: of_markers(request) or of_leaders(request)
    after = world.end(producer, commit=True)
    number = world.send(produce(after, 0, 0, "two"))
    marker, question = world.held
    assert (of_markers(marker.request), of_leaders(question.request)) == (True, True)
    world.held = [marker]
    world.release()
    assert world.controls(0) == [("commit", after.producer_epoch)]
    assert world.transaction().state is S.COMPLETE_COMMIT
    world.held = [question]
    world.release()
    assert world.written(number) is NONE
    assert world.end(after, commit=True).error is NONE
    assert world.read(0) == ["one", "two"]


def test_a_marker_takes_the_answer_of_its_own_transaction_away_in_version_2_too() -> None:
    world, producer = adding()
    world.hold = of_leaders
    world.send(produce(producer, 0, 0, "late"))
    guards = world.broker.replica_manager.verification.guards
    assert [guard.producer_epoch for guard in guards.values()] == [producer.producer_epoch]
    assert world.end(producer, commit=False).error is NONE
    assert world.controls(0) == [("abort", producer.producer_epoch + 1)]
    assert not guards


def test_an_answer_from_before_a_change_of_the_leader_counts_no_more() -> None:
    world, producer = named()
    world.hold = of_leaders
    number = world.send(produce(producer, 0, 0, "a"))
    world.next_epoch(P0)
    world.release()
    assert world.written(number) is KafkaError.INVALID_TXN_STATE


def test_who_does_not_name_its_transaction_does_not_write_under_the_guard_of_others() -> None:
    world, producer = named()
    world.hold = of_leaders
    world.send(produce(producer, 0, 0, "a"))
    unnamed = msgspec.structs.replace(produce(producer, 0, 0, "a"), transactional_id=None)
    assert world.written(world.send(unnamed)) is KafkaError.INVALID_TXN_STATE


def test_batches_that_wait_for_the_coordinator_stay_in_their_order() -> None:
    world, producer = named()
    world.hold = of_leaders
    numbers = [world.send(produce(producer, 0, n, f"r{n}")) for n in range(3)]
    assert len(world.held) == 1  # one question for all
    assert not world.replies
    world.release()
    assert [world.written(n) for n in numbers] == [NONE] * 3
    assert world.read(0, committed=False) == ["r0", "r1", "r2"]
    assert world.transaction().record.partitions == (P0,)


def test_a_higher_sequence_does_not_overtake_one_that_is_being_verified() -> None:
    world, producer = named()
    world.hold = of_leaders
    first = world.send(produce(producer, 0, 0, "a"))
    second = world.send(produce(producer, 0, 1, "b"))
    world.give_up()  # the coordinator does not answer: the first has to be sent again
    world.hold = lambda _: False
    world.run(100)
    assert world.written(first) is KafkaError.NOT_ENOUGH_REPLICAS
    world.release()
    assert world.written(second) is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.write(producer, 0, 0, "a") is NONE
    assert world.write(producer, 0, 1, "b") is NONE


@pytest.mark.parametrize(
    ("era", "refused"), [("4.0", False), ("4.1", True), ("4.2", True), ("4.2-tv1", False)]
)
def test_a_producer_that_the_log_does_not_know_begins_at_sequence_0(era: str, refused: bool) -> None:
    # KAFKA-18202: what came before is lost, which nobody would notice.
    world, producer = adding(era=ERAS[era])
    error = world.write(producer, 0, 3, "d")
    assert error is (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER if refused else NONE)
    assert world.read(0, committed=False) == ([] if refused else ["d"])
    offsets = TxnOffsetCommit("t", "g", producer.producer_id, producer.producer_epoch, {P1: 1})
    world.ask(AddOffsetsToTxn("t", producer.producer_id, producer.producer_epoch, "g"))
    assert world.ask(offsets).error is NONE  # they have no sequence
    if refused:
        assert world.write(producer, 0, 0, "a", "b", "c") is NONE
        assert world.write(producer, 0, 3, "d") is NONE


def test_what_a_leader_is_told_becomes_what_a_producer_understands() -> None:
    world, producer = named(era=TV1)
    assert world.write(producer, 0, 0, "a") is KafkaError.INVALID_TXN_STATE  # never added
    assert world.write(ProducerIdResponse(NONE, 99, 0), 0, 0, "a") is (KafkaError.INVALID_PRODUCER_ID_MAPPING)
    fenced = msgspec.structs.replace(producer, producer_epoch=-1)
    assert world.write(fenced, 0, 0, "a") is KafkaError.INVALID_PRODUCER_EPOCH
    world.add(producer, 0)
    world.hold = of_markers
    world.end(producer, commit=True)
    assert world.write(producer, 0, 0, "a") is KafkaError.NOT_ENOUGH_REPLICAS  # to send again
    world.release()
    image = world.broker.node.image
    tp = log_of(world)
    image.partitions[tp] = structs.replace(image.partitions[tp], leader=-1)
    assert world.write(producer, 0, 0, "a") is KafkaError.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(("era", "ended"), [("4.0", True), ("4.2", False)])
def test_a_late_marker_does_not_end_the_next_transaction(era: str, ended: bool) -> None:
    # KAFKA-19446: the coordinator gave the first copy up and sent the marker again.
    world, producer = named(era=ERAS[era])
    world.write(producer, 0, 0, "one")
    world.hold = of_markers
    producer = world.end(producer, commit=True)
    world.give_up()
    world.hold = lambda _: False
    world.run(100)
    assert world.write(producer, 0, 0, "two") is NONE
    world.late()
    assert (world.read(0) == ["one", "two"]) is ended  # "two" is not committed
    assert world.end(producer, commit=False).error is NONE
    assert (world.read(0) == ["one"]) is not ended


def test_a_marker_that_is_written_already_is_accepted_again() -> None:
    # KAFKA-19999: else a transaction whose marker's answer was lost never ends.
    world, producer = writing()
    world.end(producer, commit=True)
    batch = world.replica(P0).log.batches[-1]
    marker = TxnMarker(batch.producer_id, batch.producer_epoch, batch.coordinator_epoch, True, (P0,), 2)
    assert list(world.ask(WriteTxnMarkers((marker,))).results.values()) == [NONE]
    assert world.read(0) == ["a"]


def test_refusals_change_nothing() -> None:
    world, producer = named()
    before = world.transaction().record
    with pytest.raises(Refused):
        coordinating(world).transactions.log.find("u")
    world.end(msgspec.structs.replace(producer, producer_epoch=7), commit=True)
    world.add(msgspec.structs.replace(producer, producer_epoch=7), 0)
    assert world.transaction().record == before
    assert world.transaction().pending is None


@pytest.mark.parametrize(("era", "waits"), [("4.2", True), ("4.3", False)])
def test_a_partition_without_a_leader_gets_its_marker_later_or_never(era: str, waits: bool) -> None:
    world, producer = writing(era=ERAS[era])
    world.write(producer, 1, 0, "b")
    image, server_log = world.broker.node.image, world.broker.node.server_log
    led = image.partitions[P1]
    image.partitions[P1] = structs.replace(led, leader=-1)
    assert world.end(producer, commit=True).error is NONE
    world.run(200)
    assert world.transaction().state is (S.PREPARE_COMMIT if waits else S.COMPLETE_COMMIT)
    image.partitions[P1] = led
    world.run(200)
    assert world.transaction().state is S.COMPLETE_COMMIT
    assert (world.read(0), world.read(1)) == (["a"], ["b"] if waits else [])
    lines = [line for line in server_log if isinstance(line, MarkersLeftOut)]
    left_out = [(line.producer_id, line.producer_epoch, line.partitions) for line in lines]
    assert left_out == ([] if waits else [(producer.producer_id, 1, (P1,))])
    if not waits:
        assert server_log is world.durable.server_log  # it survives the process


@pytest.mark.parametrize("era", ["4.2", "4.3"])
def test_the_marker_of_a_deleted_partition_is_left_out(era: str) -> None:
    world, producer = writing(era=ERAS[era])
    del world.broker.node.image.partitions[P0]
    assert world.end(producer, commit=True).error is NONE
    world.run(200)
    assert world.transaction().state is S.COMPLETE_COMMIT
    lines = [line for line in world.broker.node.server_log if isinstance(line, MarkersLeftOut)]
    assert [line.partitions for line in lines] == [(P0,)]


def test_a_coordinator_that_acts_when_it_may_is_loading_until_its_log_is_committed() -> None:
    world = OneBroker(era=replace(ERAS["4.3"], acts_when_committed=True))
    world.init()
    tp = log_of(world)
    world.lag(tp)
    world.send(InitProducerId("t", 10_000))  # appended, not replicated
    world.next_epoch(tp)
    world.run(1000)
    assert world.ask(InitProducerId("t", 10_000)).error is KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    world.catch_up(tp)
    world.run(100)
    number = world.send(InitProducerId("t", 10_000))
    world.catch_up(tp)
    assert world.replies[number].producer_epoch == 2
