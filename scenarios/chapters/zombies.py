"""Fencing of producers, and timeouts.

A transactional id has one producer at a time. No coordinator can distinguish a dead one from
a slow one; so
the client that asks last gets a higher epoch, and everything with a lower one is refused: by the
coordinator, and by every partition that has seen the higher one."""

from model.protocol.coordinator_messages import InitProducerId
from scenarios.drivers.cluster import TV1, lone
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import Steps, scenario


def _one(**settings: int) -> RawProducerStage:
    return RawProducerStage(lone(era=TV1, **settings))


@scenario(
    "A zombie producer",
    source="KIP-98",
    stage=_one,
    columns="A | B | A learns | B learns | coordinator | log | read_committed",
)
def zombie_producer(s: RawProducerStage) -> Steps:
    """Two instances with one transactional id."""
    s.init("A").add("A", 0).write("A", 0, "a").end("A", commit=True)
    yield "Instance A of an application works. | 2/0 | – | ok | – | CompleteCommit 2/0 | a [commit] | a"
    s.init("B")
    yield """A stands still, and an operator starts instance B with the same transactional id. It gets the
        next epoch.
        | 2/0 | 2/1 | ok | ok | Empty 2/1 | a [commit] | a"""
    s.add("A", 0)
    yield """A continues. Its coordinator knows a higher epoch.
        | 2/0 | 2/1 | PRODUCER_FENCED | ok | Empty 2/1 | a [commit] | a"""
    s.add("B", 0).write("B", 0, "b").end("B", commit=True)
    yield """B is not disturbed.
        | 2/0 | 2/1 | PRODUCER_FENCED | ok | CompleteCommit 2/1 | a [commit] b [commit] | a b"""


@scenario(
    "The transaction of a predecessor",
    source="KIP-98; Kafka: `TransactionCoordinator.prepareInitProducerIdTransit`",
    stage=_one,
    columns="B learns | a2 | coordinator | log | LSO | read_committed",
)
def unfinished_predecessor(s: RawProducerStage) -> Steps:
    """InitProducerId finds a transaction open."""
    s.init("A").add("A", 0).write("A", 0, "a1")
    yield "A has a transaction open when it dies, or seems to. | – | – | Ongoing 2/0 | a1 | 0 | –"
    s.init("B", again=False)
    yield """B takes over. The coordinator aborts A's transaction under a higher epoch; B is to ask again.
        | CONCURRENT_TRANSACTIONS | – | CompleteAbort 2/1 | a1 [abort] | 2 | –"""
    s.init("B")
    yield "Then B gets an epoch of its own. | ok | – | Empty 2/2 | a1 [abort] | 2 | –"
    s.write("A", 0, "a2")
    yield """A was only slow. The abort marker had brought epoch 1 to the partition: no late record of A's
        gets in, though B has written nothing there.
        | ok | INVALID_PRODUCER_EPOCH | Empty 2/2 | a1 [abort] | 2 | –"""


@scenario(
    "The time of a transaction, and its limits",
    source="KIP-98; KAFKA-6119 (the higher epoch); KAFKA-19367",
    stage=_one,
    columns="A learns | coordinator | log | LSO | read_committed",
)
def transaction_timeout(s: RawProducerStage) -> Steps:
    """A transaction that is not ended in its `transaction.timeout.ms` is aborted."""
    s.init("A", timeout=0)
    yield "No time at all is refused. | INVALID_TRANSACTION_TIMEOUT | – | – | 0 | –"
    s.init("A", timeout=900_001)
    yield """So is more than transaction.max.timeout.ms, 15 minutes.
        | INVALID_TRANSACTION_TIMEOUT | – | – | 0 | –"""
    s.init("A", timeout=2000).add("A", 0).write("A", 0, "a").wait(1500)
    yield "With 2 s A begins. After 1.5 s it may still commit. | ok | Ongoing 2/0 | a | 0 | –"
    s.wait(2000)
    yield """Its time has run out, which the coordinator looks for every second (10 s in Kafka). It aborts,
        with a higher epoch, so that readers need not wait for A any longer.
        | ok | CompleteAbort 2/1 | a [abort] | 2 | –"""
    s.end("A", commit=True)
    yield "A comes too late. | PRODUCER_FENCED | CompleteAbort 2/1 | a [abort] | 2 | –"
    s.init("A", bump=True)
    yield """It asks for the next epoch of its own. The coordinator knows which one it had, and gives it that
        of the abort. (With transaction version 1 in the cluster it must begin again, like any other client.)
        | ok | Empty 2/1 | a [abort] | 2 | –"""


@scenario(
    "A producer asks for the next epoch of its own",
    source="KIP-360",
    stage=_one,
    columns="A | B | A learns | B learns | coordinator",
)
def own_epoch(s: RawProducerStage) -> Steps:
    """InitProducerId with the identity that the producer has: who is the newest may number
    again, who is not is fenced."""
    s.init("A")
    yield "A producer has epoch 0. | 2/0 | – | ok | – | Empty 2/0"
    s.hold(InitProducerId, answer=True).init("A", bump=True, again=False).lose()
    yield """A record of an aborted transaction may or may not have arrived; to number again it asks for the
        next epoch. The answer is lost.
        | 2/0 | – | unknown | – | Empty 2/1"""
    s.init("A", bump=True)
    yield "It asks again, with the epoch before: it is given the same one. | 2/1 | – | ok | – | Empty 2/1"
    s.init("B")
    yield "Another instance takes the id over. | 2/1 | 2/2 | ok | ok | Empty 2/2"
    s.init("A", bump=True)
    yield "A, which has neither, is fenced. | 2/1 | 2/2 | PRODUCER_FENCED | ok | Empty 2/2"


@scenario(
    "The epochs of a producer id are used up",
    source="KIP-98; Kafka: `TransactionMetadata.isProducerEpochExhausted`",
    stage=lambda: _one(producer_epoch_max=3),
    columns="A learns | coordinator | transaction log",
    not_played="a producer id has 32767 epochs, and no setting makes it fewer",
)
def epochs_used_up(s: RawProducerStage) -> Steps:
    """An epoch is a short: 32767 are enough for long, not for ever. (Here: 3.)"""
    s.init("A").init("A").init("A")
    yield "The last epoch but one. | ok | Empty 2/2 | Empty Empty Empty"
    s.init("A")
    yield """The last one is kept for fencing. The transactional id gets another producer id.
        | ok | Empty 3/0 | Empty Empty Empty Empty"""


@scenario(
    "Transactional ids expire",
    source="KIP-98; Kafka: `transactional.id.expiration.ms`",
    stage=lambda: _one(transactional_id_expiration_ms=5000),
    columns="coordinator | A learns | B learns",
)
def expired_id(s: RawProducerStage) -> Steps:
    """Coordinators forget unused ids."""
    s.init("A").add("A", 0).write("A", 0, "a").end("A", commit=True)
    yield "A transactional id that has worked. | CompleteCommit 2/0 | ok | –"
    s.wait(6000)
    yield """It was not used for transactional.id.expiration.ms (7 days in Kafka, here 5 s): the log gets a
        tombstone.
        | – | ok | –"""
    s.add("A", 0)
    yield "The producer that still has it is not known any more. | – | INVALID_PRODUCER_ID_MAPPING | –"
    s.init("B")
    yield "A successor begins with another producer id. | Empty 3/0 | INVALID_PRODUCER_ID_MAPPING | ok"


@scenario(
    "A transactional id with an open transaction does not expire",
    source="Kafka: `TransactionStateManager.shouldExpire`",
    stage=lambda: _one(transactional_id_expiration_ms=5000),
    columns="coordinator | LSO",
)
def open_id(s: RawProducerStage) -> Steps:
    """Only ids without a transaction are looked at."""
    s.init("A", timeout=900_000).add("A", 0).write("A", 0, "a").wait(6000)
    yield "While a transaction is open the id does not expire, however old it is. | Ongoing 2/0 | 0"
    s.end("A", commit=True)
    yield "It ends. | CompleteCommit 2/0 | 2"
    s.wait(6000)
    yield "From then on the time counts. | – | 2"
