"""Coordinators of transactions.

The state of a transaction is in a log, `__transaction_state`; who leads a partition of it
coordinates the transactional ids that belong there."""

from model.protocol.coordinator_messages import WriteTxnMarkers
from model.protocol.messages import Fetch
from model.settings import Settings
from scenarios.drivers.cluster import TV1
from scenarios.drivers.raw_producer import RawProducerStage
from scenarios.framework import BETWEEN_BROKERS, SEVERAL_BROKERS, Steps, scenario

FAILOVER = "producer | led by | coordinator | log p0 | log p1 | read_committed p0"


def _three() -> RawProducerStage:
    return RawProducerStage(Settings(era=TV1), ((1, 2), (2, 1)), (1, 2, 3))


@scenario(
    "The coordinator of a transactional id",
    source="Kafka: `TransactionStateManager.partitionFor`",
    stage=_three,
    columns="t = coordinator of t | u = coordinator of u | f = coordinator of f | log of t | log of u",
    not_played=SEVERAL_BROKERS,
)
def find_coordinator(s: RawProducerStage) -> Steps:
    """FindCoordinator: the leader of the partition `hash(id) mod n` of `__transaction_state`,
    the hash being the absolute value of Java's `String.hashCode`."""
    yield """Three coordinators: the leaders of the three partitions of __transaction_state (50 in Kafka).
        | 116 → 2 → broker 3 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | – | –"""
    s.init("A", "t").init("B", "u")
    yield """A transactional id belongs to the partition of its hash. Its coordinator logs it there.
        | 116 → 2 → broker 3 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | Empty | Empty"""
    s.crash(3).wait(4000)
    yield """Broker 3 dies. The next leader of partition 2 reads the log and coordinates t from now on.
        | 116 → 2 → broker 1 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | Empty | Empty"""
    s.init("A", "t")
    yield """FindCoordinator for t names that broker.
        | 116 → 2 → broker 1 | 117 → 0 → broker 1 | 102 → 0 → broker 1 | Empty Empty | Empty"""


@scenario(
    "The coordinator dies before the decision",
    source="KIP-98",
    stage=_three,
    columns=FAILOVER,
    not_played=SEVERAL_BROKERS,
)
def coordinator_before_decision(s: RawProducerStage) -> Steps:
    """An open transaction survives its coordinator."""
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b")
    yield "A transaction is open. | ok | 3 | Ongoing 2002/0 | a | b | –"
    s.crash(3).wait(4000)
    yield """Its coordinator dies. The next one finds it open: the producer may continue.
        | ok | 1 | Ongoing 2002/0 | a | b | –"""
    s.write("A", 0, "a2").end("A", commit=True)
    yield "It does. | ok | 1 | CompleteCommit 2002/0 | a a2 [commit] | b [commit] | a a2"


@scenario(
    "The coordinator dies between the two phases",
    source="KIP-98",
    stage=_three,
    columns=FAILOVER,
    not_played=BETWEEN_BROKERS,
)
def coordinator_after_decision(s: RawProducerStage) -> Steps:
    """The next coordinator finishes what is prepared."""
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b")
    s.hold(WriteTxnMarkers).hold(WriteTxnMarkers).end("A", commit=True)
    yield """The producer has the answer: its transaction is committed. No marker is written yet.
        | ok | 3 | PrepareCommit 2002/0 | a | b | –"""
    s.crash(3).lose().let().wait(4000)
    yield """The coordinator dies. The next one finds PrepareCommit in the log and writes the markers.
        | ok | 1 | CompleteCommit 2002/0 | a [commit] | b [commit] | a"""


@scenario(
    "A decision counts once it is replicated",
    source="KIP-98",
    stage=_three,
    columns=FAILOVER,
    not_played=BETWEEN_BROKERS,
)
def decision_replicated(s: RawProducerStage) -> Steps:
    """The answer to a producer survives any coordinator."""
    s.init("A").add("A", 0, 1).write("A", 0, "a").write("A", 1, "b").wait(600)
    s.hold(Fetch, of=1, times=2).hold(Fetch, of=2, times=2).wait(600)
    s.end("A", commit=True)
    yield """EndTxn: PrepareCommit is in the log of broker 3, but not replicated. The producer waits.
        | waits | 3 | Ongoing 2002/0 | a | b | –"""
    s.crash(3).let().lose().wait(4000)
    yield """Broker 3 dies with it. For the next coordinator the transaction is open; the producer knows
        nothing, and asks again.
        | unknown | 1 | Ongoing 2002/0 | a | b | –"""
    s.end("A", commit=True)
    yield """Nothing had been promised, and nothing is torn.
        | ok | 1 | CompleteCommit 2002/0 | a [commit] | b [commit] | a"""


@scenario(
    "A marker of an old coordinator",
    source="KIP-98; Kafka: `ProducerAppendInfo.checkCoordinatorEpoch`",
    stage=_three,
    columns=FAILOVER,
    not_played=BETWEEN_BROKERS,
)
def old_coordinator(s: RawProducerStage) -> Steps:
    """Markers carry the epoch of their coordinator, which is the leader epoch of its partition.
    Logs remember the highest one of each producer."""
    s.init("A").add("A", 0).write("A", 0, "a").hold(WriteTxnMarkers).end("A", commit=True)
    yield """The marker is delayed on its way from broker 3 to broker 1.
        | ok | 3 | PrepareCommit 2002/0 | a | – | –"""
    held, s.held = s.held, []
    s.crash(3).wait(4000)
    yield """Broker 3 dies. The next coordinator writes the marker, with a higher coordinator epoch.
        | ok | 1 | CompleteCommit 2002/0 | a [commit] | – | a"""
    s.add("A", 0).write("A", 0, "a2")
    yield "The next transaction begins. | ok | 1 | Ongoing 2002/0 | a [commit] a2 | – | a"
    s.held = held
    s.release()
    yield """The delayed marker arrives. The producer's epoch fits, the coordinator's does not: refused.
        | ok | 1 | Ongoing 2002/0 | a [commit] a2 | – | a"""
    s.end("A", commit=False)
    yield """The transaction ends as its producer says.
        | ok | 1 | CompleteAbort 2002/0 | a [commit] a2 [abort] | – | a"""
