"""Scenarios: where the coordinator of a transactional id is, and what survives it."""

from core.java_hash import java_hash
from model.coordinator.transaction_metadata import PREPARE_COMMIT, TransactionRecord
from model.eras import ERAS
from model.protocol.coordinator_messages import WriteTxnMarkers
from model.protocol.messages import Fetch
from model.replication.node import TRANSACTION_TOPIC
from model.scenarios.drivers.raw_producer import Column, RawProducerStage, committed, log, logged, state, told
from model.scenarios.framework import Chapter, Scenario, Steps
from model.settings import Settings


def _find(s: RawProducerStage) -> Steps:
    yield (
        "Three coordinators: the leaders of the three partitions of __transaction_state (50 in Kafka).",
        "116 → 2 → broker 3 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | – | –",
    )
    s.init("A", "t").init("B", "u")
    yield (
        "A transactional id belongs to the partition of its hash. Its coordinator logs it there.",
        "116 → 2 → broker 3 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | Empty | Empty",
    )
    s.crash(3).wait(4000)
    yield (
        "Broker 3 dies. The next leader of partition 2 reads the log and coordinates t from now on.",
        "116 → 2 → broker 1 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | Empty | Empty",
    )
    s.init("A", "t")
    yield (
        "FindCoordinator for t names that broker.",
        ("116 → 2 → broker 1 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | Empty Empty | Empty"),
    )


def _two_phases(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b")
    s.hold(WriteTxnMarkers).hold(WriteTxnMarkers).end("A", commit=True)
    yield (
        "The producer has the answer: its transaction is committed. No marker is written yet.",
        "ok | 3 | PrepareCommit 2002/0 | a | b | –",
    )
    s.crash(3).lose().let().wait(4000)
    yield (
        "The coordinator dies. The next one finds PrepareCommit in the log and writes the markers.",
        "ok | 1 | CompleteCommit 2002/0 | a [commit] | b [commit] | a",
    )


def _before_the_decision(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b")
    yield "A transaction is open.", "ok | 3 | Ongoing 2002/0 | a | b | –"
    s.crash(3).wait(4000)
    yield (
        "Its coordinator dies. The next one finds it open: the producer may continue.",
        "ok | 1 | Ongoing 2002/0 | a | b | –",
    )
    s.write("A", 0, "a2").end("A", commit=True)
    yield "It does.", ("ok | 1 | CompleteCommit 2002/0 | a a2 [commit] | b [commit] | a a2")


def _undecided(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b").wait(600)
    s.hold(Fetch, of=1, times=2).hold(Fetch, of=2, times=2).wait(600)
    s.end("A", commit=True)
    yield (
        "EndTxn: PrepareCommit is in the log of broker 3, but not replicated. The producer waits.",
        "waits | 3 | Ongoing 2002/0 | a | b | –",
    )
    s.crash(3).let().lose().wait(4000)
    yield (
        "Broker 3 dies with it. For the next coordinator the transaction is open; the producer knows "
        "nothing, and asks again.",
        "unknown | 1 | Ongoing 2002/0 | a | b | –",
    )
    s.end("A", commit=True)
    yield (
        "Nothing had been promised, and nothing is torn.",
        ("ok | 1 | CompleteCommit 2002/0 | a [commit] | b [commit] | a"),
    )


def _acted_upon(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b").wait(600)
    s.hold(Fetch, of=2, to=3).wait(600).end("A", commit=True)
    yield (
        "EndTxn: PrepareCommit is in the logs of brokers 3 and 1, not yet in that of broker 2. The producer "
        "waits.",
        "waits | 3 | 1 3 | Ongoing 2002/0 | a | b | – | –",
    )
    s.hold(Fetch, of=2, to=1, times=2).hold(WriteTxnMarkers, to=5).crash(3).lose(Fetch).wait(4000)
    yield (
        "Broker 3 dies, and the producer's process too. Broker 1 reads PrepareCommit in its log and sends "
        "the markers; the one for p1 is delayed.",
        "unknown | 1 | 1 | PrepareCommit 2002/0 | a [commit] | b | a | –",
    )
    s.crash(1).let().lose().wait(4000)
    yield (
        "Broker 1 dies before broker 2, which is in sync all the time, has fetched the record. For broker 2 "
        "the transaction is open.",
        "unknown | 2 | – | Ongoing 2002/0 | a [commit] | b | a | –",
    )
    s.restart(3).wait(12_000)
    yield (
        "Broker 3 comes back and cuts its log to that of broker 2. The transaction's time has run out: it is "
        "aborted. Half of it is read.",
        "unknown | 2 | – | CompleteAbort 2002/1 | a [commit] [abort] | b [abort] | a | –",
    )


def _old_coordinator(s: RawProducerStage) -> Steps:
    s.init("A").add("A", 0).write("A", 0, "a").hold(WriteTxnMarkers).end("A", commit=True)
    yield (
        "The marker is delayed on its way from broker 3 to broker 1.",
        ("ok | 3 | PrepareCommit 2002/0 | a | – | –"),
    )
    held, s.held = s.held, []
    s.crash(3).wait(4000)
    yield (
        "Broker 3 dies. The next coordinator writes the marker, with a higher coordinator epoch.",
        ("ok | 1 | CompleteCommit 2002/0 | a [commit] | – | a"),
    )
    s.add("A", 0).write("A", 0, "a2")
    yield "The next transaction begins.", "ok | 1 | Ongoing 2002/0 | a [commit] a2 | – | a"
    s.held = held
    s.release()
    yield (
        "The delayed marker arrives. The producer's epoch fits, the coordinator's does not: refused.",
        "ok | 1 | Ongoing 2002/0 | a [commit] a2 | – | a",
    )
    s.end("A", commit=False)
    yield (
        "The transaction ends as its producer says.",
        ("ok | 1 | CompleteAbort 2002/0 | a [commit] a2 [abort] | – | a"),
    )


def found(key: str) -> Column:
    """Column: hash of a key, its partition, who coordinates it."""

    def show(s: RawProducerStage) -> object:
        number = s.number(key)
        return f"{java_hash(key)} → {number} → broker {s.coordinator(key)}"

    return show


def prepared(s: RawProducerStage) -> object:
    """Column: brokers whose log has PrepareCommit of t."""
    tp = (TRANSACTION_TOPIC, s.number("t"))
    replicas = {n: replica for n in s.nodes if (replica := s.replica(tp, n)) is not None}
    return {
        n
        for n, replica in replicas.items()
        for _, _, record in replica.log.records()
        if isinstance(record, TransactionRecord) and record.state is PREPARE_COMMIT
    }


FAILOVER = {
    "producer": told("A"),
    "led by": lambda s: s.coordinator("t"),
    "coordinator": state(),
    "log p0": log(0),
    "log p1": log(1),
    "read_committed p0": committed(0),
}


ACTED_UPON = {
    "producer": told("A"),
    "led by": lambda s: s.coordinator("t"),
    "PrepareCommit at": prepared,
    "coordinator": state(),
    "log p0": log(0),
    "log p1": log(1),
    "read_committed p0": committed(0),
    "p1": committed(1),
}


def _three() -> RawProducerStage:
    return RawProducerStage(Settings(era=ERAS["4.2-tv1"]), ((1, 2), (2, 1)), (1, 2, 3))


COORDINATORS = Chapter(
    title="Coordinators of transactions",
    about="""The state of a transaction is in a log, `__transaction_state`; who leads a partition of it
coordinates the transactional ids that belong there.""",
    scenarios=(
        Scenario(
            name="find-coordinator",
            title="The coordinator of a transactional id",
            about="""FindCoordinator: the leader of the partition `hash(id) mod n` of `__transaction_state`,
the hash being the absolute value of Java's `String.hashCode`.""",
            source="Kafka: `TransactionStateManager.partitionFor`",
            stage=_three,
            columns={
                "t": found("t"),
                "u": found("u"),
                "f": found("f"),
                "log of t": logged(),
                "log of u": logged("u"),
            },
            steps=_find,
        ),
        Scenario(
            name="coordinator-before-decision",
            title="The coordinator dies before the decision",
            about="An open transaction survives its coordinator.",
            source="KIP-98",
            stage=_three,
            columns=FAILOVER,
            steps=_before_the_decision,
        ),
        Scenario(
            name="coordinator-after-decision",
            title="The coordinator dies between the two phases",
            about="The next coordinator finishes what is prepared.",
            source="KIP-98",
            stage=_three,
            columns=FAILOVER,
            steps=_two_phases,
        ),
        Scenario(
            name="decision-replicated",
            title="A decision counts once it is replicated",
            about="The answer to a producer survives any coordinator.",
            source="KIP-98",
            stage=_three,
            columns=FAILOVER,
            steps=_undecided,
        ),
        Scenario(
            name="decision-acted-upon",
            title="A decision that is not replicated is acted upon",
            about="""A new coordinator reads its log to the end, beyond what is committed, and sends markers
for what it finds prepared. If it dies before that is replicated, another member of the in-sync set decides
again, and may decide otherwise: the transaction is torn. It takes a follower that does not get to fetch for a
moment, two deaths of coordinators before it has left the in-sync set, and a producer that does not ask for
the same end again. Kafka does so with acks=all, min.insync.replicas=2 and clean elections (3.3.2, 3.9.1,
4.0.2 and 4.3.1 were tried); a test does it to real brokers (tests/docker/test_decisions.py).""",
            source="Kafka: `TransactionStateManager.loadTransactionMetadata`",
            stage=lambda: RawProducerStage(Settings(era=ERAS["4.2-tv1"]), ((4, 5), (5, 4)), (1, 2, 3)),
            columns=ACTED_UPON,
            steps=_acted_upon,
        ),
        Scenario(
            name="old-coordinator",
            title="A marker of an old coordinator",
            about="""Markers carry the epoch of their coordinator, which is the leader epoch of its partition.
Logs remember the highest one of each producer.""",
            source="KIP-98; Kafka: `ProducerAppendInfo.checkCoordinatorEpoch`",
            stage=_three,
            columns=FAILOVER,
            steps=_old_coordinator,
        ),
    ),
)
"""See the module."""
