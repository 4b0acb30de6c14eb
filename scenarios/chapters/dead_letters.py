"""Dead letters.

A share group may have a dead-letter queue (KIP-1191, Kafka 4.4): what it gives up, its leaders write to a
topic. States are those of the chapter on share groups; "letter": the letter of a record is being written. A
letter is "0=m0:1": of offset 0, with a copy of m0, delivered once; "–" in the place of the copy: headers
only."""

from dataclasses import replace

from model.eras import ERAS
from model.protocol.messages import Produce
from model.protocol.share_messages import WriteShareGroupState
from model.settings import Settings
from scenarios.chapters.share_groups import NO_MEMBERS
from scenarios.drivers.cluster import lone
from scenarios.drivers.raw_share_member import RawShareStage
from scenarios.framework import Steps, scenario

QUEUE = "dlq"


def alone(deliveries: int = 5) -> RawShareStage:
    """One broker."""
    its = {"share_lock_ms": 2000, "share_deliveries": deliveries, "share_letters": QUEUE}
    return RawShareStage(lone(era=ERAS["4.4"], **its))


def copies() -> RawShareStage:
    """Three brokers, which have every partition of the story. Broker 3 is the share coordinator, and leads
    the queue. A record is delivered once."""
    settings = Settings(era=ERAS["4.4"], share_lock_ms=6000, share_deliveries=1, share_letters=QUEUE)
    return RawShareStage(settings, ((1, 2, 3), (1,)), (3, 2, 1))


def with_bug(stage: RawShareStage, bug: str) -> RawShareStage:
    """The same with a bug of Kafka 4.4.0."""
    return stage.again(replace(stage.settings, bugs=frozenset({bug})))


@scenario(
    "A rejected record goes to the queue",
    source="KIP-1191; Kafka: `SharePartition.rollbackOrProcessStateUpdates`, `initiateDLQAndArchive`",
    stage=alone,
    columns="A learns | start | states | stored | letters",
    not_played=NO_MEMBERS,
)
def dead_letter(s: RawShareStage) -> Steps:
    """It is stored first that the record is being archived, then its letter is written, and then it is stored
    that it is archived."""
    s.produce("m0", "m1", to=1).fetches("A")
    yield "A acquires two records. | 0-1×1 | 0 | A:1 A:1 | – | –"
    s.hold(WriteShareGroupState).says("A", "reject", 0)
    yield "A rejects the first. The leader has that stored. | waits | 0 | letter… A:1 | – | –"
    s.hold(Produce).release(WriteShareGroupState)
    yield """It is stored, and A is answered. The letter is on its way: the start does not pass the record.
        | ok | 0 | letter A:1 | 0=letter | –"""
    s.release(Produce)
    yield """The queue has the letter on all in-sync replicas. The record is archived.
        | ok | 1 | A:1 | 0=arch | 0=m0:1"""
    s.says("A", "accept", 1)
    yield "What is accepted gets no letter. | ok | 2 | – | 1=acc | 0=m0:1"


@scenario(
    "At the limit of deliveries",
    source="KIP-1191; Kafka: `SharePartition.releaseAcquisitionLockOnTimeout`",
    stage=lambda: alone(2),
    columns="A learns | start | states | stored | letters",
    not_played=NO_MEMBERS,
)
def dead_letter_at_the_limit(s: RawShareStage) -> Steps:
    """The limit is 2 here."""
    s.produce("m0", to=1).fetches("A").says("A", "release", 0)
    yield "Delivered once, and released: no letter. | ok | 0 | free:1 | 0=free:1 | –"
    s.fetches("A")
    yield "Delivered twice. | 0×2 | 0 | A:2 | 0=free:1 | –"
    s.wait(2000)
    yield "Its lock ends: it does not come again. | 0×2 | 1 | – | 0=arch | 0=m0:2"


@scenario(
    "The leader changes while a letter is on its way",
    source="KIP-1191; Kafka: `SharePartition.maybeResumeDlqArchiving`",
    stage=copies,
    columns="leader | A learns | states | stored | letters",
    not_played=NO_MEMBERS,
)
def dead_letter_resumed(s: RawShareStage) -> Steps:
    """A new leader reads that the record is being archived. Whether the letter was written it cannot know:
    the record gets another one."""
    s.produce("m0", to=1).wait(600).fetches("A").wait(200)
    s.hold(Produce, answer=True).says("A", "reject", 0).wait(600)
    yield """A rejects the record. The letter is written; the leader does not hear of that.
        | 1 | ok | letter | 0=letter | 0=m0:1"""
    s.crash(1).wait(4000)
    yield "Broker 1 dies. | 2 | ok | – | 0=letter | 0=m0:1"
    s.fetches("B").wait(600)
    yield "Broker 2 reads the state, and writes the letter again. | 2 | ok | – | 0=arch | 0=m0:1 0=m0:1"


def _lock_at_former_leader(s: RawShareStage, last: str) -> Steps:
    s.produce("m0", to=1).wait(600).fetches("A").wait(200)
    yield "A holds the record. | 1 | 0×1 | – | A:1 | – | –"
    s.pause(1).wait(4000).fetches("B").wait(200).says("B", "accept", 0).wait(600)
    yield """Broker 1 stands still. Broker 2 leads; nothing is stored of what A holds. It gives the record to
        B, which accepts it.
        | 2 | 0×1 | ok | A:1 | 0=acc | –"""
    s.resume(1).wait(600)
    yield "Broker 1 continues, and hears that it leads no more. | 2 | 0×1 | ok | – | 0=acc | –"
    s.wait(2000)
    yield last


@scenario(
    "A lock ends with its leader",
    source="KIP-932; KIP-1191",
    stage=copies,
    columns="leader | A learns | B learns | states at 1 | stored | letters",
    not_played=NO_MEMBERS,
)
def lock_ends_with_leader(s: RawShareStage) -> Steps:
    """The limit is one delivery here."""
    yield from _lock_at_former_leader(
        s, "Nothing happens when A's lock would end. | 2 | 0×1 | ok | – | 0=acc | –"
    )


@scenario(
    "The letter of a former leader, in 4.4.0",
    source="Kafka 4.4.0: `SharePartition.markFenced`, `releaseAcquisitionLockOnTimeout`",
    stage=lambda: with_bug(copies(), "letters-by-former-leader"),
    columns="leader | A learns | B learns | states at 1 | stored | letters",
    not_played=NO_MEMBERS,
)
def letter_of_former_leader(s: RawShareStage) -> Steps:
    """A broker that leads no more ends no timers: where a lock ends, it writes the letter, although it can
    have nothing stored. It has no copy: it reads as a leader does."""
    yield from _lock_at_former_leader(
        s,
        "A's lock ends there: the queue has a letter of a record that was accepted."
        " | 2 | 0×1 | ok | – | 0=acc | 0=–:1",
    )


def _marker_ends(s: RawShareStage, last: str) -> Steps:
    s.init("W").write("W", 0, "a0").end("W", commit=True).wait(200).fetches("A")
    yield """A record and the marker of its transaction: A acquires both offsets.
        | a0 [commit] | 0-1×1 | 0 | A:1 A:1 | – | –"""
    s.says("A", "accept", 0)
    yield """A accepts the record. That there is none at offset 1 it does not say.
        | a0 [commit] | ok | 1 | A:1 | 0=acc | –"""
    s.wait(2000)
    yield last


@scenario(
    "A transaction's marker at the limit",
    source="KIP-932; KIP-1191",
    stage=lambda: alone(1),
    columns="log | A learns | start | states | stored | letters",
    not_played=NO_MEMBERS,
)
def marker_at_the_limit(s: RawShareStage) -> Steps:
    """The limit is one delivery here. A marker is archived, and gets no letter."""
    yield from _marker_ends(s, "Its lock ends. | a0 [commit] | ok | 2 | – | 1=arch | –")


@scenario(
    "The letter of a marker, in 4.4.0",
    source="Kafka 4.4.0: `SharePartition.initiateDLQAndArchive`",
    stage=lambda: with_bug(alone(1), "letters-of-markers"),
    columns="log | A learns | start | states | stored | letters",
    not_played=NO_MEMBERS,
)
def letter_of_marker(s: RawShareStage) -> Steps:
    """What is at an offset a leader does not look at."""
    yield from _marker_ends(
        s, "Its lock ends: it gets a letter, of no record. | a0 [commit] | ok | 2 | – | 1=arch | 1=–:1"
    )
