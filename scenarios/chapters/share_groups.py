"""Share groups.

The members of a share group are not given partitions, but records: each acquires some, and says of each how
that ended (KIP-932). States are shown by offset, from the start of the share partition to its end: "A:1" is
acquired by A and delivered once, "free:1" available and delivered once, "acc" acknowledged, "arch"
archived; "…" behind a state: it is not stored yet. "0-2×1": offsets 0 to 2, with delivery count 1. In the
log of the share coordinator a snapshot stands in brackets; "1/0:2" is of leader epoch 1, with start 0 and
the state of offset 2."""

from model.eras import ERAS
from model.protocol.messages import Fetch
from model.protocol.share_messages import WriteShareGroupState
from model.settings import Settings
from scenarios.drivers.cluster import lone
from scenarios.drivers.raw_share_member import RawShareStage
from scenarios.framework import Steps, scenario

LOCK_MS = 2000
NO_MEMBERS = "the clients of the comparison have no share groups"
STATES = "A learns | B learns | start | states | stored"


def copies(era: str = "4.3", lock_ms: int = LOCK_MS) -> RawShareStage:
    """Three brokers, which have every partition of the story; broker 3 is the share coordinator."""
    settings = Settings(era=ERAS[era], share_lock_ms=lock_ms)
    return RawShareStage(settings, ((1, 2, 3), (1,)), (3, 2, 1))


def alone(era: str = "4.3", deliveries: int = 5) -> RawShareStage:
    """One broker."""
    return RawShareStage(lone(era=ERAS[era], share_lock_ms=LOCK_MS, share_deliveries=deliveries))


@scenario(
    "Acquired, accepted, released, rejected",
    source="KIP-932; Kafka: `SharePartition`",
    stage=alone,
    columns=STATES,
    not_played=NO_MEMBERS,
)
def acquire_and_acknowledge(s: RawShareStage) -> Steps:
    """Records of one partition go to several members; each record is with one of them at a time."""
    s.produce("m0", "m1", "m2", to=1).produce("m3", "m4", to=1)
    s.fetches("A", most=3)
    yield "A fetches, and acquires a batch. | 0-2×1 | – | 0 | A:1 A:1 A:1 | –"
    s.fetches("B")
    yield "B acquires what is left. | 0-2×1 | 3-4×1 | 0 | A:1 A:1 A:1 B:1 B:1 | –"
    s.says("A", "accept", 1)
    yield """A accepts the second record. That is stored before it is answered; the start stays, since the
        first one has not ended.
        | ok | 3-4×1 | 0 | A:1 acc A:1 B:1 B:1 | 1=acc"""
    s.says("A", "release", 0)
    yield "A cannot process the first one now. | ok | 3-4×1 | 0 | free:1 acc A:1 B:1 B:1 | 0=free:1 1=acc"
    s.says("A", "reject", 2)
    yield "The third one it never can. | ok | 3-4×1 | 0 | free:1 acc arch B:1 B:1 | 0=free:1 1=acc 2=arch"
    s.fetches("B")
    yield """B is given the released record: it is delivered for the second time.
        | ok | 0×2 | 0 | B:2 acc arch B:1 B:1 | 0=free:1 1=acc 2=arch"""
    s.says("B", "accept", 0)
    yield """B accepts it: the start moves over all that has ended. What is stored learns of the new start
        with the next change.
        | ok | ok | 3 | B:1 B:1 | 0=acc 1=acc 2=arch"""
    s.says("B", "accept", 3, 4)
    yield "The rest. | ok | ok | 5 | – | 3-4=acc"


@scenario(
    "A lock ends",
    source="KIP-932; Kafka: `SharePartition.releaseAcquisitionLockOnTimeout`",
    stage=alone,
    columns=STATES,
    not_played=NO_MEMBERS,
)
def lock_ends(s: RawShareStage) -> Steps:
    """A member may hold a record for share.record.lock.duration.ms, here 2 s."""
    s.produce("m0", "m1", to=1).fetches("A")
    yield "A acquires two records. | 0-1×1 | – | 0 | A:1 A:1 | –"
    s.wait(1900).fetches("B")
    yield "As long as A may hold them, B waits. | 0-1×1 | waits | 0 | A:1 A:1 | –"
    s.wait(100)
    yield "The lock has ended: B is given them. | 0-1×1 | 0-1×2 | 0 | B:2 B:2 | 0-1=free:1"
    s.says("A", "accept", 0)
    yield """A is late: B holds the record.
        | INVALID_RECORD_STATE | 0-1×2 | 0 | B:2 B:2 | 0-1=free:1"""
    s.says("B", "accept", 0, 1)
    yield "B accepts both. | INVALID_RECORD_STATE | ok | 2 | – | 0-1=acc"
    s.says("A", "accept", 1)
    yield """Below the start every acknowledgement is answered ok, and changes nothing: an answer to a late
        one does not say who ended the record.
        | ok | ok | 2 | – | 0-1=acc"""


@scenario(
    "A lock is renewed",
    source="KIP-1222; KAFKA-19843; Kafka: `SharePartition.acknowledge`",
    stage=alone,
    columns=STATES,
    not_played=NO_MEMBERS,
)
def lock_renewed(s: RawShareStage) -> Steps:
    """A member that needs a record for longer says so before its lock ends, here after 2 s."""
    s.produce("m0", "m1", to=1).fetches("A").wait(1500)
    yield "A works on two records. | 0-1×1 | – | 0 | A:1 A:1 | –"
    s.says("A", "renew", 0)
    yield "The first one takes longer. Nothing is stored of that. | ok | – | 0 | A:1 A:1 | –"
    s.wait(500).fetches("B")
    yield """The lock of the other one has ended: B is given that one alone.
        | ok | 1×2 | 0 | A:1 B:2 | 1=free:1"""
    s.says("A", "renew", 1)
    yield """A is late with it, and renews nothing.
        | INVALID_RECORD_STATE | 1×2 | 0 | A:1 B:2 | 1=free:1"""
    s.wait(1400).says("A", "accept", 0)
    yield """The renewed lock lasts for 2 s from the renewal on: A accepts the record, delivered once.
        | ok | 1×2 | 1 | B:2 | 0=acc 1=free:1"""
    s.says("B", "renew", 1).wait(1900).says("B", "renew", 1).wait(1900).fetches("A")
    yield "B renews again and again. | waits | ok | 1 | B:2 | 0=acc 1=free:1"
    s.wait(100)
    yield "It stops: the lock ends. | 1×3 | ok | 1 | A:3 | 1=free:2"


@scenario(
    "A lock is renewed, before 4.2",
    source="KIP-1222; Kafka: `KafkaApis.validateAcknowledgementBatches`",
    stage=lambda: alone("4.1"),
    columns=STATES,
    not_played=NO_MEMBERS,
)
def lock_not_renewed(s: RawShareStage) -> Steps:
    """Brokers did not know of renewals."""
    s.produce("m0", to=1).fetches("A").wait(1500).says("A", "renew", 0)
    yield "A asks for more time. | INVALID_REQUEST | – | 0 | A:1 | –"
    s.fetches("B").wait(500)
    yield "Its lock ends as it would have. | INVALID_REQUEST | 0×2 | 0 | B:2 | 0=free:1"


@scenario(
    "The limit of deliveries",
    source="KIP-932; group.share.delivery.count.limit",
    stage=lambda: alone(deliveries=2),
    columns=STATES,
    not_played=NO_MEMBERS,
)
def delivery_limit(s: RawShareStage) -> Steps:
    """A record that no member can process does not come for ever. The limit is 2 here."""
    s.produce("m0", to=1).produce("m1", to=1).fetches("A", most=1).says("A", "release", 0)
    yield "Delivered once, and released. | ok | – | 0 | free:1 | 0=free:1"
    s.fetches("A", most=1)
    yield "Delivered twice. | 0×2 | – | 0 | A:2 | 0=free:1"
    s.says("A", "release", 0)
    yield "It was delivered as often as it may be: archived. | ok | – | 1 | – | 0=arch"
    s.fetches("A")
    yield "The next record is given to a member. | 1×1 | – | 1 | A:1 | 0=arch"


def _member_ends(s: RawShareStage, freed: str, again: str) -> Steps:
    s.produce("m0", to=1).fetches("A")
    yield "A acquires a record. | 0×1 | – | 0 | A:1 | –"
    s.hangs_up("A")
    yield freed
    s.fetches("B").wait(100)
    yield again


@scenario("A member dies", source="KIP-932; KAFKA-19972", stage=alone, columns=STATES, not_played=NO_MEMBERS)
def member_dies(s: RawShareStage) -> Steps:
    """The end of a connection gives back what its member held; the delivery counts."""
    yield from _member_ends(
        s,
        """A dies; its connection breaks. The leader does not wait for the end of the lock. It has no other
            session of the group: so its memory of it goes.
            | 0×1 | – | – | – | 0=free:1""",
        "It reads what is stored. B is given it, for the second time. | 0×1 | 0×2 | 0 | B:2 | 0=free:1",
    )


@scenario(
    "A member dies, in 4.1",
    source="KAFKA-19972",
    stage=lambda: alone("4.1", deliveries=1),
    columns=STATES,
    not_played=NO_MEMBERS,
)
def member_dies_uncounted(s: RawShareStage) -> Steps:
    """The delivery is taken back with the lock: a record on which every member dies is delivered for ever,
    whatever the limit. It is one delivery here."""
    yield from _member_ends(
        s,
        "A dies; its connection breaks. | 0×1 | – | – | – | 0=free:0",
        "B is given it, for the first time again. | 0×1 | 0×1 | 0 | B:1 | 0=free:0",
    )


@scenario(
    "Aborted and open transactions",
    source="KIP-932; Kafka: `SharePartition.maybeFilterAbortedTransactionalAcquiredRecords`",
    stage=alone,
    columns="log | LSO | A learns | start | states",
    not_played=NO_MEMBERS,
)
def share_read_committed(s: RawShareStage) -> Steps:
    """At read_committed the leader itself looks for aborted transactions: members learn nothing of them."""
    s.init("W").write("W", 0, "a0").wait(200)
    s.fetches("A")
    yield "A transaction is open: nothing is given out from there on. | a0 | 0 | waits | 0 | –"
    s.end("W", commit=False).wait(200)
    yield """It is aborted: its record is archived. The marker is acquired as a record would be; there is
        none, and the member has to say so.
        | a0 [abort] | 2 | 1×1 | 0 | arch A:1"""
    s.says("A", "gap", 1)
    yield "It does: everything has ended. | a0 [abort] | 2 | ok | 2 | –"


TWO = "leader | A learns | states | stored start | stored | log = state log"


@scenario(
    "The leader changes",
    source="KIP-932; Kafka: `ShareCoordinatorShard`, `SharePartition.maybeInitialize`",
    stage=copies,
    columns=TWO,
    not_played=NO_MEMBERS,
)
def share_leader_changes(s: RawShareStage) -> Steps:
    """A new leader reads what is stored. Locks are not."""
    s.produce("m0", "m1", "m2", to=1).wait(600).fetches("A").wait(200)
    s.says("A", "accept", 1).wait(600)
    yield """A holds three records, and has accepted the second.
        | 1 | ok | A:1 acc A:1 | 0 | 1=acc | [0/-1] 0/0:1"""
    s.says("A", "release", 2).wait(600)
    yield """The third it releases: its count is stored.
        | 1 | ok | A:1 acc free:1 | 0 | 1=acc 2=free:1 | [0/-1] 0/0:1 0/0:2"""
    s.crash(1).wait(4000).fetches("A").wait(600)
    yield """Broker 1 dies. Broker 2 reads the state with its own leader epoch, which is stored first. The
        first record was given out, and nothing was stored of that: its count begins again at 1. The
        accepted one stays accepted.
        | 2 | 0×1 2×2 | A:1 acc A:2 | 0 | 1=acc 2=free:1 | [0/-1] 0/0:1 0/0:2 1/0"""


@scenario(
    "A leader of an older epoch",
    source="KIP-932; Kafka: `ShareCoordinatorShard.maybeGetWriteStateError`",
    stage=copies,
    columns="leader | A learns | B learns | at 1 = states at 1 | at 2 = states at 2 | stored",
    not_played=NO_MEMBERS,
)
def share_leader_fenced(s: RawShareStage) -> Steps:
    """Who does not know yet that it leads no more, can have nothing stored."""
    s.produce("m0", "m1", to=1).wait(600).fetches("A").wait(200)
    yield "A holds two records. | 1 | 0-1×1 | – | A:1 A:1 | – | –"
    s.hold(WriteShareGroupState, of=1).says("A", "accept", 0).pause(1).wait(4000)
    yield """A accepts the first; then broker 1 stands still, with the write under way.
        | 2 | waits | – | acc… A:1 | – | –"""
    s.fetches("B").wait(600)
    yield "Broker 2 leads, and gives both to B. | 2 | waits | 0-1×1 | acc… A:1 | B:1 B:1 | –"
    s.release(WriteShareGroupState).wait(200)
    yield """The write arrives: it is of an older leader epoch, and refused.
        | 2 | waits | 0-1×1 | acc… A:1 | B:1 B:1 | –"""
    s.resume(1).wait(600)
    yield """Broker 1 continues, and hears of it. A knows that nothing is certain.
        | 2 | NOT_LEADER_OR_FOLLOWER | 0-1×1 | – | B:1 B:1 | –"""
    s.says("A", "accept", 1)
    yield """A accepts the second one there: broker 1 has no share partition any more.
        | 2 | UNKNOWN_TOPIC_OR_PARTITION | 0-1×1 | – | B:1 B:1 | –"""


@scenario(
    "Stored before it is answered",
    source="Kafka: `SharePartition.rollbackOrProcessStateUpdates`",
    stage=lambda: copies(lock_ms=60_000),
    columns="A learns | start | states | stored",
    not_played=NO_MEMBERS,
)
def share_stored_first(s: RawShareStage) -> Steps:
    """A change counts once all in-sync replicas of the share coordinator's log have it."""
    s.produce("m0", to=1).wait(600).fetches("A").wait(600)
    yield "A holds a record. | 0×1 | 0 | A:1 | –"
    s.hold(Fetch, to=3, times=1000).says("A", "accept", 0).wait(600)
    yield """A accepts it. The share coordinator, broker 3, has written that; its followers do not fetch, so
        it is not committed. Until it is the record is neither A's nor done.
        | waits | 0 | acc… | 0=acc"""
    s.let().lose(Fetch).wait(2000)
    yield "They fetch again: it is stored, and answered. | ok | 1 | – | 0=acc"


def _late_write(s: RawShareStage, late: str, again: str) -> Steps:
    s.produce("m0", to=1).produce("m1", to=1).produce("m2", to=1).wait(600).fetches("A").wait(200)
    s.hold(WriteShareGroupState, of=1).says("A", "accept", 0).give_up().wait(1000)
    yield """A accepts the first of three records. The connection to the share coordinator breaks with that
        on its way; the leader sends it again.
        | 1 | ok | 1 | A:1 A:1 | 0 | 0=acc"""
    s.says("A", "accept", 1).wait(600).says("A", "accept", 2).wait(600)
    yield "A accepts the others. | 1 | ok | 3 | – | 2 | 2=acc"
    s.release(WriteShareGroupState).wait(600)
    yield late
    s.crash(1).wait(4000).fetches("B").wait(600)
    yield again


LATE = "leader | A learns | start | states | stored start | stored"


@scenario(
    "A write that comes late sets the start back",
    source="apache/kafka#23074",
    stage=copies,
    columns=LATE,
    not_played=NO_MEMBERS,
)
def share_start_falls(s: RawShareStage) -> Steps:
    """Up to 4.3 the share coordinator takes the start offset of any write that no newer leader has fenced.
    What is stored of records below the start is forgotten: so they begin again, accepted ones too."""
    yield from _late_write(
        s,
        "The first write arrives after all. | 1 | ok | 3 | – | 0 | 0=acc 2=acc",
        "Broker 1 dies. Broker 2 delivers again what was accepted. | 2 | ok | 1 | B:1 acc | 0 | 0=acc 2=acc",
    )


@scenario(
    "The same where the start only rises",
    source="apache/kafka#23074",
    stage=lambda: copies("4.4"),
    columns=LATE,
    not_played=NO_MEMBERS,
)
def share_start_rises(s: RawShareStage) -> Steps:
    """From 4.4 on the higher start counts."""
    yield from _late_write(
        s,
        "The first write arrives after all. | 1 | ok | 3 | – | 2 | 2=acc",
        "Broker 1 dies. What is behind the start is given out. | 2 | ok | 3 | – | 2 | 2=acc",
    )
