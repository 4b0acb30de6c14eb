"""Scenarios: who may continue with a transactional id, and for how long."""

from model.eras import ERAS
from model.protocol.coordinator_messages import InitProducerId
from model.scenarios.drivers.cluster import lone
from model.scenarios.drivers.raw_producer import (
    RawProducerStage,
    committed,
    identity,
    log,
    logged,
    lso,
    state,
    told,
)
from model.scenarios.framework import Chapter, Scenario, Steps

TV1 = ERAS["4.2-tv1"]


def _fenced(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0).write("A", 0, "a").end("A", commit=True)
    yield ("Instance A of an application works.", "2/0 | – | ok | – | CompleteCommit 2/0 | a [commit] | a")
    s.init("B")
    yield (
        "A stands still, and an operator starts instance B with the same transactional id. It gets the next "
        "epoch.",
        "2/0 | 2/1 | ok | ok | Empty 2/1 | a [commit] | a",
    )
    s.add("A", 0)
    yield (
        "A continues. Its coordinator knows a higher epoch.",
        "2/0 | 2/1 | PRODUCER_FENCED | ok | Empty 2/1 | a [commit] | a",
    )
    s.add("B", 0).write("B", 0, "b").end("B", commit=True)
    yield (
        "B is not disturbed.",
        "2/0 | 2/1 | PRODUCER_FENCED | ok | CompleteCommit 2/1 | a [commit] b [commit] | a b",
    )


def _recovered(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0).write("A", 0, "a1")
    yield "A has a transaction open when it dies, or seems to.", "– | – | Ongoing 2/0 | a1 | 0 | –"
    s.init("B", again=False)
    yield (
        "B takes over. The coordinator aborts A's transaction under a higher epoch; B is to ask again.",
        "CONCURRENT_TRANSACTIONS | – | CompleteAbort 2/1 | a1 [abort] | 2 | –",
    )
    s.init("B")
    yield "Then B gets an epoch of its own.", "ok | – | Empty 2/2 | a1 [abort] | 2 | –"
    s.write("A", 0, "a2")
    yield (
        "A was only slow. The abort marker had brought epoch 1 to the partition: no late record of A's "
        "gets in, though B has written nothing there.",
        "ok | INVALID_PRODUCER_EPOCH | Empty 2/2 | a1 [abort] | 2 | –",
    )


def _timeout(s: RawProducerStage) -> Steps:
    s.init("A", timeout=0)
    yield "No time at all is refused.", "INVALID_TRANSACTION_TIMEOUT | – | – | 0 | –"
    s.init("A", timeout=900_001)
    yield (
        "So is more than transaction.max.timeout.ms, 15 minutes.",
        "INVALID_TRANSACTION_TIMEOUT | – | – | 0 | –",
    )
    s.init("A", timeout=2000).add("A", 0).write("A", 0, "a").wait(1500)
    yield "With 2 s A begins. After 1.5 s it may still commit.", "ok | Ongoing 2/0 | a | 0 | –"
    s.wait(2000)
    yield (
        "Its time has run out, which the coordinator looks for every second (10 s in Kafka). It "
        "aborts, with a higher epoch, so that readers need not wait for A any longer.",
        "ok | CompleteAbort 2/1 | a [abort] | 2 | –",
    )
    s.end("A", commit=True)
    yield "A comes too late.", "PRODUCER_FENCED | CompleteAbort 2/1 | a [abort] | 2 | –"
    s.init("A", bump=True)
    yield (
        "It cannot ask for the next epoch of its own either: it must begin again, like any other client.",
        "PRODUCER_FENCED | CompleteAbort 2/1 | a [abort] | 2 | –",
    )


def _bumped(s: RawProducerStage) -> Steps:
    s.init("A")
    yield "A producer has epoch 0.", "2/0 | – | ok | – | Empty 2/0"
    s.hold(InitProducerId, answer=True).init("A", bump=True, again=False).lose()
    yield (
        "A record of an aborted transaction may or may not have arrived; to number again it asks for the "
        "next epoch. The answer is lost.",
        "2/0 | – | unknown | – | Empty 2/1",
    )
    s.init("A", bump=True)
    yield ("It asks again, with the epoch before: it is given the same one.", "2/1 | – | ok | – | Empty 2/1")
    s.init("B")
    yield "Another instance takes the id over.", "2/1 | 2/2 | ok | ok | Empty 2/2"
    s.init("A", bump=True)
    yield "A, which has neither, is fenced.", "2/1 | 2/2 | PRODUCER_FENCED | ok | Empty 2/2"


def _exhausted(s: RawProducerStage) -> Steps:
    s.init("A").init("A").init("A")
    yield "The last epoch but one.", "ok | Empty 2/2 | Empty Empty Empty"
    s.init("A")
    yield (
        "The last one is kept for fencing. The transactional id gets another producer id.",
        "ok | Empty 3/0 | Empty Empty Empty Empty",
    )


def _expired(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0).write("A", 0, "a").end("A", commit=True)
    yield "A transactional id that has worked.", "CompleteCommit 2/0 | ok | –"
    s.wait(6000)
    yield (
        "It was not used for transactional.id.expiration.ms (7 days in Kafka, here 5 s): the log gets a "
        "tombstone.",
        "– | ok | –",
    )
    s.add("A", 0)
    yield ("The producer that still has it is not known any more.", "– | INVALID_PRODUCER_ID_MAPPING | –")
    s.init("B")
    yield ("A successor begins with another producer id.", ("Empty 3/0 | INVALID_PRODUCER_ID_MAPPING | ok"))


def _open_stays(s: RawProducerStage) -> Steps:
    s.init("A", timeout=900_000).add("A", 0).write("A", 0, "a").wait(6000)
    yield ("While a transaction is open the id does not expire, however old it is.", "Ongoing 2/0 | 0")
    s.end("A", commit=True)
    yield "It ends.", "CompleteCommit 2/0 | 2"
    s.wait(6000)
    yield "From then on the time counts.", "– | 2"


FENCED = {
    "A": identity("A"),
    "B": identity("B"),
    "A learns": told("A"),
    "B learns": told("B"),
    "coordinator": state(),
    "log": log(0),
    "read_committed": committed(0),
}


def _one(**settings: int) -> RawProducerStage:
    return RawProducerStage(lone(era=TV1, **settings))


ZOMBIES = Chapter(
    title="Fencing of producers, and timeouts",
    about="""A transactional id has one producer at a time. No coordinator can distinguish a dead one from
    a slow one; so
the client that asks last gets a higher epoch, and everything with a lower one is refused: by the
coordinator, and by every partition that has seen the higher one.""",
    scenarios=(
        Scenario(
            name="zombie-producer",
            title="A zombie producer",
            about="Two instances with one transactional id.",
            source="KIP-98",
            stage=_one,
            columns=FENCED,
            steps=_fenced,
        ),
        Scenario(
            name="unfinished-predecessor",
            title="The transaction of a predecessor",
            about="InitProducerId finds a transaction open.",
            source="KIP-98; Kafka: `TransactionCoordinator.prepareInitProducerIdTransit`",
            stage=_one,
            columns={
                "B learns": told("B"),
                "a2": told("a2"),
                "coordinator": state(),
                "log": log(0),
                "LSO": lso(0),
                "read_committed": committed(0),
            },
            steps=_recovered,
        ),
        Scenario(
            name="transaction-timeout",
            title="The time of a transaction, and its limits",
            about="A transaction that is not ended in its `transaction.timeout.ms` is aborted.",
            source="KIP-98; KAFKA-6119 (the higher epoch)",
            stage=_one,
            columns={
                "A learns": told("A"),
                "coordinator": state(),
                "log": log(0),
                "LSO": lso(0),
                "read_committed": committed(0),
            },
            steps=_timeout,
        ),
        Scenario(
            name="own-epoch",
            title="A producer asks for the next epoch of its own",
            about="""InitProducerId with the identity that the producer has: who is the newest may number
again, who is not is fenced.""",
            source="KIP-360",
            stage=_one,
            columns={
                "A": identity("A"),
                "B": identity("B"),
                "A learns": told("A"),
                "B learns": told("B"),
                "coordinator": state(),
            },
            steps=_bumped,
        ),
        Scenario(
            name="epochs-used-up",
            title="The epochs of a producer id are used up",
            about="An epoch is a short: 32767 are enough for long, not for ever. (Here: 3.)",
            source="KIP-98; Kafka: `TransactionMetadata.isProducerEpochExhausted`",
            stage=lambda: _one(producer_epoch_max=3),
            columns={"A learns": told("A"), "coordinator": state(), "transaction log": logged()},
            steps=_exhausted,
        ),
        Scenario(
            name="expired-id",
            title="Transactional ids expire",
            about="Coordinators forget unused ids.",
            source="KIP-98; Kafka: `transactional.id.expiration.ms`",
            stage=lambda: _one(transactional_id_expiration_ms=5000),
            columns={"coordinator": state(), "A learns": told("A"), "B learns": told("B")},
            steps=_expired,
        ),
        Scenario(
            name="open-id",
            title="A transactional id with an open transaction does not expire",
            about="Only ids without a transaction are looked at.",
            source="Kafka: `TransactionStateManager.shouldExpire`",
            stage=lambda: _one(transactional_id_expiration_ms=5000),
            columns={"coordinator": state(), "LSO": lso(0)},
            steps=_open_stays,
        ),
    ),
)
"""See the module."""
