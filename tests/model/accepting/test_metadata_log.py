"""The acceptor of the metadata log: silent on what a controller writes, and one near miss for each rule."""

import pytest
from msgspec.structs import replace

from model.accepting.metadata_log import MetadataLog
from model.accepting.metadata_records import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Config,
    ElrCleared,
    FeatureLevel,
    LogImage,
    MetadataLogRecord,
    MetadataTransaction,
    PartitionChanged,
    PartitionCreated,
    ProducerIds,
    TopicCreated,
    TopicRemoved,
)
from model.accepting.partition_state import ElectionKind, election
from model.protocol.messages import PartitionState

TP = ("q", 3)
STATE = PartitionState((1, 2, 3), (1, 2, 3), 1)
BEGIN: list[MetadataLogRecord] = [
    FeatureLevel("metadata.version", 30),
    FeatureLevel("eligible.leader.replicas.version", 1),
    Config("", "min.insync.replicas", "2"),
    BrokerRegistered(1, 3),
    BrokerRegistered(2, 4),
    BrokerRegistered(3, 5),
    BrokerChanged(1, 3, fenced=False),
    BrokerChanged(2, 4, fenced=False),
    BrokerChanged(3, 5, fenced=False),
    TopicCreated("q", "id-of-q"),
    Config("q", "unclean.leader.election.enable", "false"),
    PartitionCreated(TP, STATE),
    ProducerIds(1000),
]
FENCED: list[MetadataLogRecord] = [PartitionChanged(TP, 2, isr=(2, 3)), BrokerChanged(1, 3, fenced=True)]
"""Broker 1, the leader, is fenced."""
LEADERLESS: list[MetadataLogRecord] = [
    *FENCED,
    PartitionChanged(TP, 3, isr=(3,), elr=(2,)),
    BrokerChanged(2, 4, fenced=True),
    PartitionChanged(TP, -1, isr=(), elr=(2, 3), last_elr=(3,)),
    BrokerChanged(3, 5, fenced=True),
]
"""All are fenced, 3 last."""


def refused(*records: MetadataLogRecord, begin: list[MetadataLogRecord] = BEGIN) -> list[tuple[str, int]]:
    """Rules, and offsets counted from the first of these records."""
    whole = [*begin, *records]
    found = MetadataLog().accept(list(enumerate(whole)))
    return [(refusal.rule, refusal.offset - len(begin)) for refusal in found]


def test_a_beginning_is_accepted() -> None:
    assert refused() == []


@pytest.mark.parametrize(
    "records",
    [
        FENCED,
        [BrokerChanged(1, 3, leaving=True), PartitionChanged(TP, 2, isr=(2, 3))],
        [PartitionChanged(TP, 2, isr=(2, 3)), BrokerUnregistered(1)],
        [PartitionChanged(TP, isr=(1, 2))],
        [PartitionChanged(TP, isr=(1, 2)), PartitionChanged(TP, isr=(1, 2, 3))],
        [PartitionChanged(TP, isr=(1,), elr=(2, 3))],
        [PartitionChanged(TP, other=True)],
        [*FENCED, BrokerChanged(1, 3, fenced=False), PartitionChanged(TP, isr=(1, 2, 3))],
        [
            *FENCED,
            BrokerChanged(1, 3, fenced=False),
            PartitionChanged(TP, isr=(1, 2, 3)),
            PartitionChanged(TP, 1),
        ],
        LEADERLESS,
        [
            *LEADERLESS,
            BrokerChanged(2, 4, fenced=False),
            PartitionChanged(TP, 2, isr=(2,), elr=(3,), last_elr=()),
        ],
        [
            *LEADERLESS,
            PartitionChanged(TP, elr=(2,)),
            BrokerRegistered(3, 20),
            PartitionChanged(TP, elr=()),
            BrokerRegistered(2, 22),
            BrokerChanged(3, 20, fenced=False),
            PartitionChanged(TP, 3, isr=(3,), last_elr=()),
        ],
        [TopicRemoved("q"), TopicCreated("q", "other-id"), PartitionCreated(TP, STATE)],
        [PartitionChanged(TP, isr=(1,), elr=(2, 3)), ElrCleared("q"), PartitionChanged(TP, isr=(1, 2))],
        [
            MetadataTransaction(begins=True),
            TopicCreated("r", "r"),
            MetadataTransaction(aborted=True),
            TopicCreated("r", "r"),
        ],
        [BrokerRegistered(1, 3, fenced=False), *FENCED],
        [ProducerIds(2000)],
    ],
)
def test_what_a_controller_writes_is_accepted(records: list[MetadataLogRecord]) -> None:
    assert refused(*records) == []


FOURTH: list[MetadataLogRecord] = [BrokerRegistered(4, 13), BrokerChanged(4, 13, fenced=False)]
MOVING: list[MetadataLogRecord] = [
    *FOURTH,
    PartitionChanged(TP, replicas=(4, 2, 1, 3), adding=(4,), removing=(1, 3)),
]
"""From 1, 2, 3 to 4, 2."""
MOVED = PartitionChanged(TP, 4, isr=(4, 2), replicas=(4, 2), adding=(), removing=())


def test_a_reassignment_is_accepted() -> None:
    """The leader that goes hands over with the change that ends it."""
    assert refused(*MOVING, MOVED) == []
    assert refused(*MOVING, PartitionChanged(TP, isr=(1, 2, 3, 4))) == [("change-has-cause", 3)]
    early = PartitionChanged(TP, isr=(1, 4, 3))  # 2 is missing; before 3.8 it would end (KAFKA-15665)
    assert refused(*MOVING, early) == []


REMOVING: list[MetadataLogRecord] = [
    PartitionChanged(TP, isr=(1, 3)),
    PartitionChanged(TP, replicas=(2, 3, 1), removing=(1,)),
]
"""The leader, 1, is to be removed, and 2 is out of sync."""


def test_who_comes_into_sync_as_a_reassignment_ends_may_lead() -> None:
    assert refused(*REMOVING, PartitionChanged(TP, 2, isr=(2, 3), replicas=(2, 3), removing=())) == []


@pytest.mark.parametrize(
    "ended",
    [
        PartitionChanged(TP, 2, isr=(2,), replicas=(2, 3), removing=()),
        PartitionChanged(TP, 2, isr=(1, 2, 3)),
        PartitionChanged(TP, 2, isr=(2, 3, 1), replicas=(2, 3, 1), removing=()),
    ],
    ids=["one in sync is left out", "it goes on", "the leader before stays a replica"],
)
def test_who_was_not_in_sync_does_not_lead_else(ended: PartitionChanged) -> None:
    assert ("unclean-election", 2) in refused(*REMOVING, ended)


def test_who_leads_where_a_reassignment_takes_all_in_sync_back_was_not_in_sync() -> None:
    """Those in sync are those that were added: the first of the others leads, if the topic permits it
    (PartitionReassignmentRevert)."""
    added = PartitionState((4, 2, 1, 3), (4,), 4, adding=(4,), removing=(1, 3))
    assert election(added, PartitionState((1, 2, 3), (1,), 1, 1)) is ElectionKind.UNCLEAN


ADDED_ALONE: list[MetadataLogRecord] = [
    Config("q", "unclean.leader.election.enable", "true"),
    *FOURTH,
    PartitionChanged(TP, replicas=(4, 2, 1, 3), adding=(4,), removing=(1, 3)),
    PartitionChanged(TP, isr=(1, 3, 4)),
    PartitionChanged(TP, 4, isr=(3, 4)),
    BrokerChanged(1, 3, fenced=True),
    PartitionChanged(TP, isr=(4,), elr=(3,)),
    BrokerChanged(3, 5, fenced=True),
]
"""Only 4, which is added, is in sync; of the others 2 is alive."""
ONE_FOR_TWO: list[MetadataLogRecord] = [BrokerChanged(1, 3, fenced=False), BrokerChanged(2, 4, fenced=True)]


@pytest.mark.parametrize(
    ("before", "leader", "isr", "elr"),
    [
        ([], 2, (2,), (3,)),  # the first of the others
        (ONE_FOR_TWO, 1, (1,), ()),  # it is down: an unclean election
        ([BrokerChanged(2, 4, fenced=True)], -1, (2,), (3,)),  # none is alive
    ],
)
def test_an_unclean_reassignment_that_is_taken_back_is_accepted(
    before: list[MetadataLogRecord], leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    back = PartitionChanged(TP, leader, isr=isr, elr=elr, replicas=(2, 1, 3), adding=(), removing=())
    at = len(ADDED_ALONE) + len(before)
    assert refused(*ADDED_ALONE, *before, back) == []
    stays = back._replace(elr=(*elr, 4))  # what was added and is taken back
    unclean = elr == ()  # such an election empties the set
    found = [("eligible-are-replicas", at), *[("change-has-cause", at)] * unclean]
    assert refused(*ADDED_ALONE, *before, stays) == found
    for other in (back._replace(elr=(1, 5)), back._replace(isr=(3,)), back._replace(leader=3, isr=(3,))):
        assert ("change-has-cause", at) in refused(*ADDED_ALONE, *before, other)
    forbidden = Config("q", "unclean.leader.election.enable", "false")
    found = refused(*ADDED_ALONE, *before, forbidden, back)
    assert (("unclean-election", at + 1) in found) == (leader >= 0)


def test_a_reassignment_that_is_taken_back_is_accepted() -> None:
    back = PartitionChanged(TP, 1, replicas=(2, 1, 3), adding=(), removing=())
    assert refused(*MOVING, back) == []
    assert refused(*MOVING, back._replace(leader=-2)) == [("change-has-cause", 3)]  # 4 has to be fenced


TWO = ("q", 0)
THREE = PartitionCreated(TWO, STATE)
"""The topic's first partition keeps three replicas."""
LOWERED = PartitionChanged(TP, 1, isr=(1,), replicas=(1,))


def test_who_is_taken_off_is_not_eligible() -> None:
    """The minimum is two, of all partitions of the topic, as long as the first one has two replicas."""
    stays = LOWERED._replace(elr=(2, 3))
    assert refused(THREE, LOWERED) == []
    assert refused(THREE, stays) == [("eligible-are-replicas", 1)]
    raised = PartitionChanged(TP, replicas=(1, 2), adding=(2,))
    assert refused(THREE, stays, raised) == [("eligible-are-replicas", 1)]  # once
    gone: list[MetadataLogRecord] = [
        PartitionChanged(TP, 2, isr=(2,), elr=(1, 3)),
        PartitionChanged(TWO, 2, isr=(2, 3)),
        BrokerChanged(1, 3, fenced=True),
    ]
    assert refused(THREE, stays, raised, *gone) == [("eligible-are-replicas", 1)]
    assert ("unclean-election", 3) in refused(THREE, LOWERED, raised, *gone)


def test_all_changes_of_a_request_are_of_the_state_before_it() -> None:
    """The first partition has three replicas until all records of the request are made."""
    both: list[MetadataLogRecord] = [
        PartitionChanged(TWO, 1, isr=(1,), replicas=(1,), elr=(2, 3)),
        PartitionChanged(TP, 1, isr=(1,), replicas=(1,), elr=(2, 3)),
    ]
    assert refused(THREE, *both) == [("eligible-are-replicas", 1), ("eligible-are-replicas", 2)]
    raised: list[MetadataLogRecord] = [
        PartitionChanged(tp, replicas=(1, 2), adding=(2,), elr=()) for tp in (TWO, TP)
    ]  # with one replica the minimum is one: none stays eligible
    assert refused(THREE, *both, ProducerIds(2000), *raised)[2:] == []
    apart: list[MetadataLogRecord] = [raised[0], ProducerIds(3000), raised[1]]
    assert refused(THREE, *both, ProducerIds(2000), *apart)[2:] == [("change-has-cause", 6)]


def on_disks(*disks: str) -> list[MetadataLogRecord]:
    """Each broker has two directories (1a and 1b, …); the partition's replicas are in these."""
    made: list[MetadataLogRecord] = []
    for one in BEGIN:
        if isinstance(one, BrokerRegistered):
            one = one._replace(directories=(f"{one.broker}a", f"{one.broker}b"))
        elif isinstance(one, PartitionCreated):
            one = one._replace(directories=disks)
        made.append(one)
    return made


THIRD_FENCED: list[MetadataLogRecord] = [PartitionChanged(TP, isr=(1, 2)), BrokerChanged(3, 5, fenced=True)]
SECOND_OFFLINE: list[MetadataLogRecord] = [
    *THIRD_FENCED,
    PartitionChanged(TP, isr=(1,), elr=(2,)),
    BrokerChanged(2, 4, directories=("2a",)),
]
"""Broker 2 runs on, without its directory 2b; 1 alone is in sync."""


def test_a_replica_in_a_failed_directory_is_not_elected() -> None:
    """ReplicationControlManager.LeaderAcceptor (3.7)."""
    gone = BrokerChanged(1, 3, fenced=True)
    waits = PartitionChanged(TP, -1, isr=(), elr=(1, 2), last_elr=(1,))
    takes = PartitionChanged(TP, 2, isr=(2,), elr=(1,))
    failed, other, lost = on_disks("1a", "2b", "3a"), on_disks("1a", "2a", "3a"), on_disks("1a", LOST, "3a")
    for begin in (failed, lost):
        assert refused(*SECOND_OFFLINE, waits, gone, begin=begin) == []
        assert refused(*SECOND_OFFLINE, takes, gone, begin=begin) == [("change-has-cause", 4)]
    unknown = on_disks("1a", UNASSIGNED, "3a"), on_disks("1a", MIGRATING, "3a"), on_disks(), BEGIN
    for begin in (other, *unknown):
        assert refused(*SECOND_OFFLINE, takes, gone, begin=begin) == []
        assert refused(*SECOND_OFFLINE, waits, gone, begin=begin) == [("change-has-cause", 4)]
    back: list[MetadataLogRecord] = [
        BrokerRegistered(2, len(BEGIN) + 6, directories=("2a", "2b")),
        BrokerChanged(2, len(BEGIN) + 6, fenced=False),
    ]
    again = PartitionChanged(TP, 2, isr=(2,), elr=(1,), last_elr=())
    assert refused(*SECOND_OFFLINE, waits, gone, *back, again, begin=failed) == []
    mended = [back[0]._replace(directories=("2a",)), back[1]]  # type: ignore[call-arg]
    assert refused(*SECOND_OFFLINE, waits, gone, *mended, again, begin=failed) == [("change-has-cause", 8)]


def test_where_the_last_in_sync_has_a_failed_directory_an_unclean_election_takes_another() -> None:
    begin = [FeatureLevel("other", 1) if one == BEGIN[1] else one for one in on_disks("1a", "2b", "3a")]
    records: list[MetadataLogRecord] = [
        *THIRD_FENCED,
        PartitionChanged(TP, 2, isr=(2,)),
        BrokerChanged(1, 3, fenced=True),
        PartitionChanged(TP, -1),
        BrokerChanged(2, 4, directories=("2a",)),
        Config("q", "unclean.leader.election.enable", "true"),
        BrokerChanged(1, 3, fenced=False),
    ]
    assert refused(*records, PartitionChanged(TP, 1, isr=(1,)), begin=begin) == []
    assert refused(*records, PartitionChanged(TP, 2), begin=begin) == [("change-has-cause", 8)]


def test_a_replica_that_is_assigned_to_a_failed_directory_is_taken_out() -> None:
    """No record about the broker stands beside it (handleAssignReplicasToDirs)."""
    out = PartitionChanged(TP, 2, isr=(2, 3))
    begin = on_disks("1a", "2a", "3a")
    for disk, found in (("1c", []), ("1b", [("change-has-cause", 1)])):
        moved = PartitionChanged(TP, other=True, directories=(disk, "2a", "3a"))
        assert refused(moved, out, begin=begin) == found
    third = PartitionChanged(TP, other=True, directories=("1a", "2a", "3c"))
    assert refused(third, PartitionChanged(TP, isr=(1, 2)), begin=begin) == []
    assert refused(third, out, begin=begin) == [("change-has-cause", 1)]


def test_directories_are_of_replicas_by_their_place() -> None:
    image = LogImage()
    for record in on_disks("1a", "2b", "3a"):
        image.apply(record)
    image.apply(BrokerChanged(2, 4, directories=("2a",)))
    assert image.electable(TP) == {1, 3}
    image.apply(PartitionChanged(TP, replicas=(2, 1, 3), directories=("2a", "1a", "3a")))
    assert image.electable(TP) == {1, 2, 3}
    image.apply(BrokerChanged(2, 4, fenced=True))
    assert image.electable(TP) == {1, 3}
    image.apply(TopicRemoved("q"))
    assert not image.directories


MISSES: dict[str, tuple[list[MetadataLogRecord], list[tuple[str, int]]]] = {
    "nobody takes the leader away": ([PartitionChanged(TP, 2, isr=(2, 3))], [("change-has-cause", 0)]),
    "another broker than the leader is fenced": (
        [PartitionChanged(TP, 2, isr=(2, 3)), BrokerChanged(3, 5, fenced=True)],
        [("change-has-cause", 0)],
    ),
    "not the first in sync leads": (
        [PartitionChanged(TP, 3, isr=(2, 3)), BrokerChanged(1, 3, fenced=True)],
        [("change-has-cause", 0)],
    ),
    "the epoch rises for nothing": ([PartitionChanged(TP, 1, isr=(1, 2))], [("change-has-cause", 0)]),
    "who is fenced joins": ([*FENCED, PartitionChanged(TP, isr=(1, 2, 3))], [("change-has-cause", 2)]),
    "the leader loses its place in the set": (
        [PartitionChanged(TP, isr=(2, 3))],
        [("in-sync-set", 0), ("change-has-cause", 0)],
    ),
    "a stranger is in sync": (
        [BrokerRegistered(4, 13), BrokerChanged(4, 13, fenced=False), PartitionChanged(TP, isr=(1, 2, 4))],
        [("in-sync-set", 2)],
    ),
    "eligible and in sync": (
        [PartitionChanged(TP, isr=(1,), elr=(1, 2, 3))],
        [("in-sync-set", 0), ("change-has-cause", 0)],
    ),
    "eligible above the minimum": ([PartitionChanged(TP, isr=(1, 2), elr=(3,))], [("change-has-cause", 0)]),
    "no eligible below the minimum": ([PartitionChanged(TP, isr=(1,))], [("change-has-cause", 0)]),
    "neither in sync nor eligible": (
        [
            *LEADERLESS,
            BrokerChanged(1, 3, fenced=False),
            PartitionChanged(TP, 1, isr=(1,), elr=(), last_elr=()),
        ],
        [("unclean-election", 7)],
    ),
    "a fenced broker leads on": (
        [BrokerChanged(1, 3, fenced=True), ProducerIds(2000)],
        [("fenced-leads-nothing", 0)],
    ),
    "a new leader in the old epoch": (
        [PartitionChanged(TP, 2, isr=(2, 3), leader_epoch=0), BrokerChanged(1, 3, fenced=True)],
        [("leader-epoch-rises", 0), ("change-has-cause", 0)],
    ),
    "a partition epoch is left out": (
        [PartitionChanged(TP, isr=(1, 2), partition_epoch=2)],
        [("partition-epoch-rises", 0), ("change-has-cause", 0)],
    ),
    "a new leader in the old epoch, as a whole": (
        [PartitionCreated(TP, replace(STATE, leader=2, partition_epoch=1))],
        [("leader-epoch-rises", 0)],
    ),
    "a partition is created again": (
        [PartitionCreated(TP, replace(STATE, partition_epoch=1))],
        [("topics-known", 0)],
    ),
    "a partition without a topic": ([PartitionCreated(("r", 0), STATE)], [("topics-known", 0)]),
    "a partition begins with a broker that is not active": (
        [*FENCED, TopicCreated("r", "r"), PartitionCreated(("r", 0), STATE)],
        [("change-has-cause", 3)],
    ),
    "an id is used twice": ([TopicCreated("r", "id-of-q")], [("topics-known", 0)]),
    "a name is used twice": ([TopicCreated("q", "r")], [("topics-known", 0)]),
    "a partition changes that is not there": ([PartitionChanged(("q", 9), 1)], [("topics-known", 0)]),
    "an older broker epoch": ([BrokerRegistered(2, 3)], [("broker-epochs-rise", 0)]),
    "a broker epoch to come": ([BrokerRegistered(2, 99)], [("broker-epochs-rise", 0)]),
    "a change under an older broker epoch": (
        [BrokerRegistered(2, 13), BrokerChanged(2, 4, fenced=False)],
        [("broker-epochs-rise", 1)],
    ),
    "ids are given twice": ([ProducerIds(1999)], [("producer-id-blocks", 0)]),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_is_refused_where_it_stands(name: str) -> None:
    records, found = MISSES[name]
    assert refused(*records) == found


def test_an_unclean_election_is_allowed_where_the_setting_says_so() -> None:
    records = [
        *LEADERLESS,
        BrokerChanged(1, 3, fenced=False),
        PartitionChanged(TP, 1, isr=(1,), elr=(), last_elr=()),
    ]
    assert refused(Config("q", "unclean.leader.election.enable", "true"), *records) == []
    log = MetadataLog()
    removed = Config("q", "unclean.leader.election.enable", None)
    assert list(log.accept(list(enumerate([*BEGIN, removed, *records])))) == []
    assert [(offset, rule) for offset, rule, _ in log.unknown] == [(21, "unclean-election")]


@pytest.mark.parametrize(("elects", "found"), [(False, [(21, "unclean-election")]), (True, [])])
def test_where_the_log_does_not_say_the_brokers_do(*, elects: bool, found: list[tuple[int, str]]) -> None:
    records = [
        *BEGIN,
        Config("q", "unclean.leader.election.enable", None),
        *LEADERLESS,
        BrokerChanged(1, 3, fenced=False),
        PartitionChanged(TP, 1, isr=(1,), elr=(), last_elr=()),
    ]
    log = MetadataLog(elects=elects)
    assert [(one.offset, one.rule) for one in log.accept(list(enumerate(records)))] == found
    assert log.unknown == []


def test_what_the_log_says_of_a_topic_counts_more_than_what_the_brokers_have() -> None:
    records = [*BEGIN, *LEADERLESS, BrokerChanged(1, 3, fenced=False)]
    unclean = PartitionChanged(TP, 1, isr=(1,), elr=(), last_elr=())
    (found,) = MetadataLog(elects=True).accept(list(enumerate([*records, unclean])))
    assert found.rule == "unclean-election"


def test_where_the_log_says_nothing_of_unclean_elections_it_may_be_either() -> None:
    begin = [one for one in BEGIN if not (isinstance(one, Config) and one.topic)]
    again = BrokerChanged(1, 3, fenced=False)
    assert (
        refused(*LEADERLESS, again, PartitionChanged(TP, elr=(3,)), BrokerRegistered(2, 20), begin=begin)
        == []
    )


def test_without_eligible_replicas_the_last_in_sync_stays() -> None:
    begin = [FeatureLevel("metadata.version", 21), *BEGIN[2:]]
    records = [
        *FENCED,
        PartitionChanged(TP, 3, isr=(3,)),
        BrokerChanged(2, 4, fenced=True),
        PartitionChanged(TP, -1),
        BrokerChanged(3, 5, fenced=True),
    ]
    shifted = [
        one._replace(epoch=one.epoch - 1) if isinstance(one, BrokerRegistered | BrokerChanged) else one
        for one in begin
    ]
    late = [one._replace(epoch=one.epoch - 1) if isinstance(one, BrokerChanged) else one for one in records]
    assert refused(*late, begin=shifted) == []
    assert refused(
        *late, BrokerChanged(1, 2, fenced=False), PartitionChanged(TP, 1, isr=(1,)), begin=shifted
    ) == [("unclean-election", 7)]


ALONE: list[MetadataLogRecord] = [PartitionChanged(TP, isr=(1,))]
"""Broker 1, the leader, is alone in sync; 2 and 3 are active."""
WAITS: list[MetadataLogRecord] = [PartitionChanged(TP, -1), BrokerChanged(1, 3, fenced=True)]
"""It is fenced, and the partition waits for it."""
LED_BY_2: list[MetadataLogRecord] = [PartitionChanged(TP, 2, isr=(2,)), BrokerChanged(1, 3, fenced=True)]
"""It is fenced, and a replica that misses records leads."""


@pytest.mark.parametrize(
    ("level", "setting", "after", "found"),
    [
        # Up to 3.8 KRaft's controller does not look at the setting (KAFKA-12670) ...
        (20, "true", WAITS, []),
        (8, "true", WAITS, []),
        # ... and one of 3.9 or later may run with an earlier metadata version, in an upgrade.
        (20, "true", LED_BY_2, []),
        (21, "true", LED_BY_2, []),
        (21, "true", WAITS, [("change-has-cause", 1)]),
        (20, "false", WAITS, []),
        (20, "false", LED_BY_2, [("unclean-election", 1)]),
    ],
)
def test_a_controller_before_3_9_may_leave_unclean_elections_to_an_operator(
    level: int, setting: str, after: list[MetadataLogRecord], found: list[tuple[str, int]]
) -> None:
    begin = [
        FeatureLevel("metadata.version", level),
        FeatureLevel("x", 0),
        *BEGIN[2:],
        Config("q", "unclean.leader.election.enable", setting),
    ]
    shrunk = [PartitionChanged(TP, 1, isr=(1,))] if level < 12 else ALONE  # the epoch rises
    assert refused(*shrunk, *after, begin=begin) == found


def test_before_3_6_a_smaller_set_raises_the_epoch() -> None:
    old: list[MetadataLogRecord] = [FeatureLevel("metadata.version", 11), FeatureLevel("x", 0), *BEGIN[2:]]
    assert refused(PartitionChanged(TP, 1, isr=(1, 2)), begin=old) == []
    assert refused(PartitionChanged(TP, isr=(1, 2)), begin=old) == [("change-has-cause", 0)]


def test_a_snapshot_is_the_image_of_its_offset() -> None:
    image = LogImage()
    for record in [*BEGIN, *FENCED]:
        image.apply(record)
    end = len(BEGIN) + len(FENCED)
    whole = list(enumerate([*BEGIN, *FENCED, ProducerIds(2000)]))
    log = MetadataLog(snapshots={end: image})
    assert list(log.accept(whole)) == []
    assert log.asked["snapshot-is-image"] == 1
    image.partitions[TP] = replace(image.partitions[TP], leader=3)
    found = list(MetadataLog(snapshots={end: image}).accept(whole))
    assert [(one.rule, one.offset) for one in found] == [("snapshot-is-image", end)]


MINIMUM = "min.insync.replicas"
SETTINGS: list[MetadataLogRecord] = [
    Config("", MINIMUM, "1"),
    Config(TP[0], MINIMUM, "2"),
    Config("other", MINIMUM, "2"),
    TopicCreated("other", "id-of-other"),
    TopicRemoved("other"),
]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ([], ""),
        # Kafka keeps a setting that is as new as the topic (ConfigurationsDelta).
        ([Config("other", MINIMUM, "2")], ""),
        ([Config(TP[0], MINIMUM, None)], f"configs, {(TP[0], MINIMUM)}: the snapshot has None"),
        ([Config(TP[0], MINIMUM, "3")], f"configs, {(TP[0], MINIMUM)}: the snapshot has 3"),
        ([Config("", MINIMUM, None)], f"configs, {('', MINIMUM)}: the snapshot has None"),
        ([TopicCreated("other", "id-of-other")], "topics, other: the snapshot has id-of-other"),
    ],
)
def test_a_topic_that_is_removed_takes_its_settings_with_it(
    change: list[MetadataLogRecord], why: str
) -> None:
    """No record takes them away (ConfigurationsDelta.replay)."""
    image = LogImage()
    for record in [*BEGIN, *SETTINGS[:2], *change]:
        image.apply(record)
    log = MetadataLog(snapshots={len(BEGIN) + len(SETTINGS): image})
    found = [one.why for one in log.accept(list(enumerate([*BEGIN, *SETTINGS, ProducerIds(2000)])))]
    assert log.asked["snapshot-is-image"] == 1
    assert [one[: len(why)] for one in found] == ([why] if why else [])
    assert log.image.setting("other", MINIMUM) == "1"


@pytest.mark.parametrize("eligible", [True, False])
def test_who_is_back_from_a_death_is_not_eligible(*, eligible: bool) -> None:
    begin = BEGIN if eligible else [BEGIN[0], FeatureLevel("other", 1), *BEGIN[2:]]
    at = len(begin) + len(LEADERLESS)

    def judged(*records: MetadataLogRecord) -> list[tuple[str, int]]:
        log = MetadataLog(unclean=frozenset([at + len(records) - 2]))
        found = log.accept(list(enumerate([*begin, *LEADERLESS, *records])))
        assert list(log.unknown) == []
        return [(one.rule, one.offset - at) for one in found if one.rule == "unclean-not-eligible"]

    back: list[MetadataLogRecord] = [BrokerRegistered(3, at), ProducerIds(2000)]
    assert judged(*back) == ([("unclean-not-eligible", 0)] if eligible else [])
    assert judged(PartitionChanged(TP, elr=(2,)), *back) == []


def test_a_log_without_its_begin_is_judged_by_what_it_says() -> None:
    tail = list(enumerate([*BEGIN[6:], *FENCED, ProducerIds(1500)], 6))[5:]
    log = MetadataLog(whole=False)
    assert [refusal.rule for refusal in log.accept(tail)] == ["producer-id-blocks"]
    assert log.asked["change-has-cause"] == 0


def test_a_feature_of_level_0_is_none() -> None:
    image = LogImage()
    image.apply(FeatureLevel("transaction.version", 2))
    image.apply(FeatureLevel("transaction.version", 0))
    assert not [*image.unlike(LogImage())]
