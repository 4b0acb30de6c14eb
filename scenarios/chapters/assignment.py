"""Assignment.

Which brokers hold the replicas of a partition is decided when a topic is created, and is
changed by a reassignment only. The first replica of each list is the preferred leader."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from model.metadata.replica_placer import assign
from model.metadata.striped_replica_placer import UsableBroker, place
from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import Steps, look, scenario

SPREAD = "replicas | leaderships of brokers 0 to 4"

RACKS: Mapping[int, str] = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}


@dataclass(slots=True)
class Topic:
    """A new topic on some brokers, looked at partition by partition."""

    not_played: ClassVar[str] = "it is about the assignment of replicas to brokers"

    brokers: Sequence[int]
    racks: Mapping[int, str] | None = None
    fenced: Sequence[int] = ()
    replicas: tuple[int, ...] = ()
    led: dict[int, int] = field(default_factory=dict)

    def show(self, partition: int, *, start: int = 0, shift: int = 0) -> None:
        """The replicas of one partition, three of each."""
        made = assign(
            self.brokers, partitions=partition + 1, replication=3, start=start, shift=shift, racks=self.racks
        )
        self._shown(made)

    def stripe(self, partition: int) -> None:
        """The same in a KRaft cluster, whose placer draws 0 here."""
        racks = self.racks or {}
        usable = [UsableBroker(n, racks.get(n, ""), n in self.fenced) for n in self.brokers]
        self._shown(place(usable, partitions=partition + 1, replication=3))

    def _shown(self, made: Sequence[tuple[int, ...]]) -> None:
        self.replicas = made[-1]
        self.led = {n: sum(r[0] == n for r in made) for n in self.brokers}

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(TOPIC_COLUMNS, self, column)


TOPIC_COLUMNS: Mapping[str, Callable[[Topic, str], object]] = {
    "replicas": lambda t, _: t.replicas,
    "leaderships of brokers 0 to 4": lambda t, _: t.led.values(),
    "leaderships of brokers 0 to 3": lambda t, _: t.led.values(),
    "racks": lambda t, _: [RACKS[n] for n in t.replicas],
}


@scenario(
    "Partition i on broker i mod n",
    source="Kafka: `AdminUtils.assignReplicasToBrokers`, with ZooKeeper",
    stage=lambda: Topic(range(5)),
    columns=SPREAD,
)
def assignment_rule(t: Topic) -> Steps:
    """Five brokers, three replicas. Leaders go round; so do followers, from the next
    broker on. With each round the followers move one place further, so that not always the same two brokers
    share partitions."""
    steps = (
        "Partition 0: its leader on broker 0 mod 5, replica j on broker j mod 5. | 0 1 2 | 1 0 0 0 0",
        "Partition 1: leader on 1 mod 5, replica j on (1 + j) mod 5. | 1 2 3 | 1 1 0 0 0",
        "Partition 2. | 2 3 4 | 1 1 1 0 0",
        "Partition 3: (3 + 2) mod 5 = 0. | 3 4 0 | 1 1 1 1 0",
        "Partition 4. | 4 0 1 | 1 1 1 1 1",
        """Partition 5: 5 mod 5 = 0. In the second round the followers are moved by one more place.
        | 0 2 3 | 2 1 1 1 1""",
        "Partition 6. | 1 3 4 | 2 2 1 1 1",
    )
    for number, step in enumerate(steps):
        t.show(number)
        yield step


@scenario(
    "Random start and shift",
    source="Kafka: `AdminUtils.assignReplicasToBrokers`",
    stage=lambda: Topic(range(5)),
    columns=SPREAD,
)
def assignment_random(t: Topic) -> Steps:
    """Topics of few partitions would all begin on broker 0: so the begin is drawn at
    random, and the distance of the followers too."""
    t.show(0, start=2, shift=2)
    yield """Start 2, shift 2. Partition 0: leader on 2, the followers begin two places later than on 3.
        | 2 0 1 | 0 0 1 0 0"""
    t.show(1, start=2, shift=2)
    yield "Partition 1. | 3 1 2 | 0 0 1 1 0"
    t.show(0, start=4, shift=3)
    yield "Another topic, start 4, shift 3. Partition 0. | 4 3 0 | 0 0 0 0 1"


@scenario(
    "Rack awareness",
    source="KIP-36: `AdminUtils`, with ZooKeeper",
    stage=lambda: Topic(range(6), RACKS),
    columns="replicas | racks",
)
def assignment_racks(t: Topic) -> Steps:
    """Brokers 0 and 1 are in rack a, 2 and 3 in b, 4 and 5 in c. No rack gets a second
    replica of a partition before all racks have one."""
    steps = (
        "Partition 0. The brokers are taken rack by rack: 0 2 4 1 3 5. | 0 2 4 | a b c",
        "Partition 1. | 2 4 1 | b c a",
        "Partition 2. | 4 1 3 | c a b",
        "Partition 3. | 1 3 5 | a b c",
    )
    for number, step in enumerate(steps):
        t.show(number)
        yield step
    t.show(6)
    yield """Partition 6, second round: the shift would put its third replica on broker 1, in rack a again; it
        continues to broker 3.
        | 0 4 3 | a c b"""


@scenario(
    "Stripes over brokers",
    source="Kafka: `StripedReplicaPlacer`, with KRaft",
    stage=lambda: Topic(range(4), fenced=(2,)),
    columns="replicas | leaderships of brokers 0 to 3",
)
def assignment_striped(t: Topic) -> Steps:
    """In a KRaft cluster each partition begins one broker further on, without a shift. Broker 2 is fenced:
    it leads nothing new, and gets replicas only where no other broker is left."""
    steps = (
        "Partition 0: brokers in turn. | 0 1 3 | 1 0 0 0",
        "Partition 1. | 1 3 0 | 1 1 0 0",
        "Partition 2. | 3 0 1 | 1 1 0 1",
        """Partition 3: there are as many partitions as unfenced brokers, so Kafka shuffles them here (the
        shuffle of this table changes nothing). | 0 1 3 | 2 1 0 1""",
    )
    for number, step in enumerate(steps):
        t.stripe(number)
        yield step


@scenario(
    "Stripes over racks",
    source="KIP-36; Kafka: `StripedReplicaPlacer`, with KRaft",
    stage=lambda: Topic(range(6), RACKS),
    columns="replicas | racks",
)
def assignment_striped_racks(t: Topic) -> Steps:
    """Each partition begins one rack further on, and in each rack one broker further on, so that leaders and
    followers change in every rack."""
    steps = (
        "Partition 0: racks in turn, the first broker of each. | 0 2 4 | a b c",
        "Partition 1: from rack b on, the second broker of each. | 3 5 1 | b c a",
        "Partition 2: from rack c on. | 4 0 2 | c a b",
        "Partition 3. | 1 3 5 | a b c",
    )
    for number, step in enumerate(steps):
        t.stripe(number)
        yield step


@scenario(
    "Reassignment",
    source="KIP-455",
    stage=lambda: PartitionStage((1, 2), without("eligible_replicas"), spare=(3, 4)),
    columns="AR | adding | removing | ISR | leader | log 1 | log 3 | log 4",
)
def reassignment(s: PartitionStage) -> Steps:
    """A partition moves by growing first: the new replicas are added, and once all of
    them are in sync the old ones go. It is never on fewer brokers than before."""
    s.produce("m0", to=1).settle()
    yield "The partition is on brokers 1 and 2. | 1 2 | – | – | 1 2 | 1 | m0 | – | –"
    s.reassign(3, 4).tell(1, 2, 3, 4)
    yield """It is to move to 3 and 4. They become replicas next to the old ones.
        | 3 4 1 2 | 3 4 | 1 2 | 1 2 | 1 | m0 | – | –"""
    s.rounds(3).alter(1).altered(1).tell(1, 2, 3, 4)
    yield "Broker 3 has everything and is let in. | 3 4 1 2 | 3 4 | 1 2 | 1 2 3 | 1 | m0 | m0 | –"
    s.rounds(4).alter(1)
    yield """So is broker 4: the move has ended. Broker 3 leads; who holds old replicas does not know yet.
        | 3 4 | – | – | 3 4 | 3 | m0 | m0 | m0"""
    s.tell(1, 2, 3, 4)
    yield "They delete them. | 3 4 | – | – | 3 4 | 3 | – | m0 | m0"


@scenario(
    "A reassignment that replaces another one",
    source="Kafka: `ReplicationControlManager.changePartitionReassignment`",
    stage=lambda: PartitionStage((1, 2), without("eligible_replicas"), spare=(3,)),
    columns="AR | adding | removing | ISR | leader",
)
def reassignment_replaced(s: PartitionStage) -> Steps:
    """A request that adds no replica leaves those that the one before adds, and one that removes none leaves
    those that it removes. So who asks for all replicas while two of them are to go does not keep these."""
    s.produce("m0", to=1).settle()
    yield "The partition is on brokers 1 and 2. | 1 2 | – | – | 1 2 | 1"
    s.reassign(3).tell(1, 2, 3)
    yield "It is to move to 3. | 3 1 2 | 3 | 1 2 | 1 2 | 1"
    s.reassign(1, 2, 3).tell(1, 2, 3)
    yield """It is to be on all three: it adds none, and removes none of those here. 1 and 2 are still to go.
        | 1 2 3 | 3 | 1 2 | 1 2 | 1"""
    s.rounds(3).alter(1)
    yield "Broker 3 has everything and is let in: the move has ended, on 3 alone. | 3 | – | – | 3 | 3"


@scenario(
    "A reassignment under the same leader",
    source="KIP-455; Kafka: `PartitionChangeBuilder`, `Partition.handleAlterPartitionUpdate`, KAFKA-15021",
    stage=lambda: PartitionStage((1, 2), spare=(3,)),
    columns="AR | ISR | leader | leader epoch | partition epoch | fetch = consumer",
)
def reassignment_same_leader(s: PartitionStage) -> Steps:
    """The leader epoch rises when a replica is removed, though the leader stays: fetches of
    the removed replica are then of an old epoch."""
    s.produce("m0", to=1).settle().reassign(1, 3).tell(1, 2, 3)
    yield "Broker 3 is to take the place of broker 2. | 1 3 2 | 1 2 | 1 | 0 | 1 | –"
    s.rounds(3).consume(1, at=1, epoch=0)
    yield "Broker 3 has everything and asks for its place. | 1 3 2 | 1 2 | 1 | 0 | 1 | nothing"
    s.alter(1).altered(1).consume(1, at=1, epoch=0)
    yield """It is in sync, and broker 2 goes in the same change. That began another leader epoch, which the
        leader learns from the metadata, not from the answer to its request.
        | 1 3 | 1 3 | 1 | 1 | 2 | nothing"""
    s.tell(1).consume(1, at=1, epoch=0)
    yield "Then who fetches with epoch 0 is refused. | 1 3 | 1 3 | 1 | 1 | 2 | FENCED_LEADER_EPOCH"
