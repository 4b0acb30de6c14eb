"""The label `deleted-topic-offsets`: it needs a deletion that the group's coordinator did not hear of, and
the offset that stayed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.internal_topics import GROUP_TOPIC
from core.op import AssignmentKind, CommitKind, TopicPartition, value_of
from history import evidence
from history.broker_logs import broker_logs
from history.run_folder import Run
from history.verdict import Verdict
from tests.checkers.logs.made import Rows, at, batch, tables, whole
from tests.histories.built import Assign, Built, Commit, Op, Process, Read, Send, final_reads
from tests.histories.folders import check_run, write_run

S = 1_000_000_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BEGAN_MS = int(BEGAN.timestamp() * 1000)
LOG = TopicPartition(GROUP_TOPIC, 3)
GROUP = "group-0"
LABEL = "deleted-topic-offsets"


def ms(at_s: float) -> int:
    return BEGAN_MS + round(at_s * 1000)


def wall(at_s: float) -> str:
    return (BEGAN + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def by_topics(at_s: float, partition: int, id_: str = "old", name: str = "x") -> str:
    """As Kafka says it since 4.3."""
    return (
        f"{wall(at_s)} INFO org.apache.kafka.coordinator.group.GroupCoordinatorShard - [GroupCoordinator id=2"
        f" topic=__consumer_offsets partition={partition}] Generated 0 tombstone records in 0 milliseconds"
        f" while deleting offsets for topics [DeletedTopic[id=other, name=o], DeletedTopic[id={id_},"
        f" name={name}]].\n"
    )


def by_partitions(at_s: float, partition: int, name: str = "x") -> str:
    """As Kafka says it from 4.0 to 4.2."""
    return (
        f"{wall(at_s)} INFO org.apache.kafka.coordinator.group.GroupCoordinatorShard - [GroupCoordinator id=2"
        f" topic=__consumer_offsets partition={partition}] Generated 0 tombstone records in 0 milliseconds"
        f" while deleting offsets for partitions [o-0, {name}-0].\n"
    )


def by_broker(at_s: float, name: str = "x") -> str:
    """As Kafka says it before 4.0."""
    return (
        f"{wall(at_s)} INFO kafka.coordinator.group.GroupCoordinator - [GroupCoordinator 2]: Removed 0"
        f" offsets associated with deleted partitions: o-0, {name}-0.\n"
    )


def loaded(at_s: float, partition: int = 3) -> str:
    """As Kafka says it before 4.0."""
    return (
        f"{wall(at_s)} INFO kafka.coordinator.group.GroupMetadataManager - [GroupMetadataManager brokerId=1]"
        f" Finished loading offsets and group metadata from __consumer_offsets-{partition} in 5 milliseconds"
        " for epoch 1, of which 1 milliseconds was spent in the scheduler.\n"
    )


def while_loading(at_s: float, id_: str = "old", why: str = "The coordinator is loading") -> str:
    """As Kafka says it since 4.3."""
    return (
        f"{wall(at_s)} ERROR org.apache.kafka.coordinator.group.GroupCoordinatorService - [GroupCoordinator"
        f" id=1] Could not delete offsets for deleted topics [DeletedTopic[id={id_}, name=x]] due to: {why}"
        " and hence can't process requests..\n"
    )


STARTS = f"{wall(1)} INFO something else\n"


@dataclass(frozen=True)
class Left:
    """What the brokers left. deleted: when topics x were, with their ids. leaders: of the group's partition
    of the log, each with its time. stored: what its offset was, and when, -1 = a tombstone. lost: likewise,
    in the log that broker 1 had when it died. lines: of each broker's log."""

    deleted: Sequence[tuple[float, str]] = ((20, "old"),)
    leaders: Sequence[tuple[float, int]] = ((2, 1), (23, 2))
    stored: Sequence[tuple[float, int]] = ((15, 5), (18, 7))
    lines: Mapping[int, str] = field(default_factory=lambda: {1: STARTS, 2: by_topics(20.1, 4)})
    group: str = GROUP
    topic: str = "x"
    lost: Sequence[tuple[float, int]] = ()

    def rows(self) -> Rows:
        """The tables of evidence."""
        told: list[tuple[float, dict[str, object]]] = [
            (1, {"name": "TopicRecord", "topic": GROUP_TOPIC, "topic_id": "log"}),
            (1, {"name": "TopicRecord", "topic": self.topic, "topic_id": "old"}),
            (1, {"name": "TopicRecord", "topic": self.topic, "topic_id": "older"}),
        ]
        for at_s, id_ in self.deleted:
            told.append((at_s, {"name": "RemoveTopicRecord", "topic_id": id_}))
        for epoch, (at_s, leader) in enumerate(self.leaders):
            name = "PartitionChangeRecord" if epoch else "PartitionRecord"
            state: dict[str, object] = {"name": name, "topic_id": "log", "partition": 3, "leader": leader}
            state |= {"partition_leader_epoch": epoch, "partition_epoch": epoch, "isr": [1, 2]}
            told.append((at_s, state | ({} if epoch else {"replicas": [1, 2]})))
        told.sort(key=lambda one: one[0])
        found = {"group": self.group, "committed_topic": "x", "committed_partition": 0}
        return {
            "metadata": [
                {"take": 0, "node": 1, "snapshot": -1, "offset": offset, "timestamp": ms(at_s), **row}
                for offset, (at_s, row) in enumerate(told)
            ],
            "partitions": [whole(LOG, 1)],
            "batches": [batch(LOG, 1, base) for base, _ in enumerate(self.stored)],
            "offset_log": [
                at(LOG, 1, offset=n, timestamp=ms(at_s), committed=None if offset < 0 else offset, **found)
                | ({"take": 1} if n >= len(self.stored) else {})
                for n, (at_s, offset) in enumerate([*self.stored, *self.lost])
            ],
        }


AWAY = Left()
"""Broker 1 coordinates the group, and does not say that it heard of the deletion; broker 2 did, and
coordinates the group afterwards."""
LATER: Sequence[tuple[float, int]] = (*AWAY.stored, (40, 10))


def sent(count: int) -> Built:
    """The new topic has so many records, sent from 26 s on; a member of the group began at 30 s."""
    built = Built(tps=["x"])
    for at_, op_s in enumerate(range(26, 26 + count)):
        op = Op(process=1, f="send", invoke=op_s * S, complete=op_s * S + S // 2)
        op.mops = [Send(tp=0, value=value_of(1, at_), offset=at_)]
        built.ops.append(op)
    built.processes[4] = Process(slot=4, group=0, acks=-2)
    op = Op(process=4, f="poll", invoke=39 * S, complete=39 * S + 1)
    op.mops = [Assign(tp=0, kind=AssignmentKind.ASSIGNED, generation=1)]
    built.ops.append(op)
    return final_reads(built, {0: [(at_, value_of(1, at_)) for at_ in range(count)]}, end=count)


def phantom(offset: int = 7) -> Built:
    """The member was given an offset, and the log ends at 3."""
    built = sent(3)
    op = Op(process=4, f="poll", invoke=39 * S + 2, complete=40 * S)
    op.mops = [Commit(tp=0, offset=offset, kind=CommitKind.FETCHED)]
    built.ops.append(op)
    return built


def skip(given: Sequence[int] = (7, 8, 9)) -> Built:
    """The member was given these records of ten, and committed 10."""
    built = sent(10)
    poll = Op(process=4, f="poll", invoke=39 * S + 2, complete=40 * S)
    poll.mops = [Read(tp=0, offset=at_, value=value_of(1, at_)) for at_ in given]
    commit = Op(process=4, f="poll", invoke=40 * S, complete=41 * S)
    commit.mops = [Commit(tp=0, offset=10, generation=1)]
    built.ops += [poll, commit]
    return built


def copied(given: Sequence[int] = (7, 8, 9)) -> Built:
    """The member of `skip` is a copier, and copied what it was given from offset 7 on."""
    built = skip(given)
    built.tps.append("y")
    built.processes[4] = Process(slot=4, group=0)
    poll = next(op for op in built.ops if op.process == 4 and any(isinstance(mop, Read) for mop in op.mops))
    made = [(place, value_of(4, place), at_) for place, at_ in enumerate(at_ for at_ in given if at_ >= 7)]
    poll.mops += [Send(tp=1, value=value, offset=place, source=(0, at_)) for place, value, at_ in made]
    return final_reads(built, {1: [(place, value) for place, value, _ in made]}, end=len(made), at_s=92)


def judged(folder: Path, built: Built, left: Left) -> Verdict:
    run = write_run(folder, built.tables())
    for node, lines in left.lines.items():
        server = run.cluster / str(node) / "server.log"
        server.parent.mkdir(parents=True)
        server.write_text(lines)
    evidence.write(run.evidence, tables(left.rows(), [1]))
    return check_run(run)


SEEN = [
    AWAY,
    replace(AWAY, lines={1: STARTS, 2: by_partitions(20.1, 4)}),
    replace(AWAY, lines={1: STARTS, 2: by_broker(20.1)}),
    replace(AWAY, leaders=((2, 1), (19, -1), (23, 2)), lines={2: by_topics(20.1, 4)}),  # nobody led
    # broker 1 heard of the deletion before, and of others
    replace(AWAY, lines={1: by_topics(3, 3, "older"), 2: by_topics(20.1, 4)}),
    replace(AWAY, lines={1: by_topics(20.1, 3, name="y"), 2: by_topics(20.1, 4)}),
    # it coordinated, and was loading
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: while_loading(20.1)}),
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: by_topics(20.1, 4) + while_loading(20.1)}),
    # before Kafka 4.0 such a coordinator says the same as others; which partitions it has loaded is told
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: by_broker(20.1), 2: by_broker(20.1)}),
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: loaded(18) + by_broker(20.1) + loaded(20.2)}),
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: loaded(20, 4) + by_broker(20.1)}),
    # it removed the offset, and no other replica had its tombstone
    replace(AWAY, lines={1: loaded(2.5) + by_broker(20.1)}, lost=((20.1, -1),)),
    # a topic of this name was deleted before
    replace(AWAY, deleted=((3, "older"), (20, "old")), lines={1: by_partitions(3.1, 3), 2: by_broker(20.1)}),
]
UNSEEN = [
    replace(AWAY, deleted=()),
    replace(AWAY, topic="y"),
    replace(AWAY, deleted=((60, "old"),), leaders=((2, 1), (61, 2))),  # only afterwards
    # nobody else began to coordinate the group between the deletion and the finding
    replace(AWAY, leaders=((2, 1),)),
    replace(AWAY, leaders=((2, 1), (19, 2))),
    replace(AWAY, leaders=((2, 1), (60, 2))),
    replace(AWAY, leaders=((2, 1), (23, -1))),
    # the coordinator heard of it
    replace(AWAY, lines={1: by_topics(20.1, 3), 2: by_topics(20.1, 4)}),
    replace(AWAY, lines={1: by_partitions(20.1, 3), 2: by_partitions(20.1, 4)}),
    replace(AWAY, lines={1: loaded(2.5) + by_broker(20.1), 2: by_broker(20.1)}),
    replace(AWAY, leaders=((2, 1), (19, 1), (23, 2)), lines={1: loaded(2.5) + by_broker(20.1)}),
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: loaded(20) + by_broker(20.1)}),
    # its tombstone is of a deletion before, or was lost while it led on
    replace(AWAY, lines={1: loaded(2.5) + by_broker(20.1)}, lost=((19, -1),)),
    replace(AWAY, lines={1: loaded(2.5) + by_broker(20.1)}, lost=((20.1, 9),)),
    replace(AWAY, lines={1: loaded(2.5) + by_broker(20.1)}, lost=((20.1, -1),), leaders=((2, 1), (60, 2))),
    # another broker was loading, or at another time, or the coordinator had loaded
    replace(AWAY, leaders=((2, 1), (19, 2)), lines={1: while_loading(20.1), 2: by_topics(20.1, 4)}),
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: while_loading(20.1, "another")}),
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: by_topics(20.1, 3) + while_loading(20.1)}),
    replace(AWAY, leaders=((2, 2), (19, 1)), lines={1: while_loading(20.1, why="… timed out after 5000ms")}),
    # nothing says that brokers wrote such lines, or what the coordinator wrote
    replace(AWAY, lines={1: STARTS, 2: STARTS}),
    replace(AWAY, lines={1: STARTS, 2: by_topics(20.1, 4, "another")}),
    replace(AWAY, lines={1: STARTS, 2: by_partitions(19, 4)}),
    replace(AWAY, lines={2: by_topics(20.1, 4)}),
    # the offset was removed, or committed afterwards
    replace(AWAY, stored=((18, 7), (20.2, -1))),
    replace(AWAY, stored=((15, 7), (18, -1))),
    replace(AWAY, stored=((15, 5), (21, 7))),
    replace(AWAY, stored=()),
    replace(AWAY, group="group-1"),
]


def test_lines_of_every_version_are_read_as_they_are_meant(tmp_path: Path) -> None:
    of_share_groups = by_topics(9, 3).replace(
        "tombstone records in 0 milliseconds while deleting offsets",
        "records in 0 milliseconds while cleaning share group state",
    )
    run = Run(tmp_path)
    (run.cluster / "2").mkdir(parents=True)
    server = run.cluster / "2" / "server.log"
    server.write_text(
        by_topics(1, 4) + by_partitions(2, 5) + by_broker(3) + of_share_groups + while_loading(4)
    )
    found = broker_logs(run)
    assert found.nodes == {2}
    assert [(one.partition, one.topics) for one in found.deleted] == [
        (4, {"o": "other", "x": "old"}),
        (5, {"o": "", "x": ""}),
        (-1, {"o": "", "x": ""}),
        (-1, {"x": "old"}),
    ]
    assert [one.loading for one in found.deleted] == [False, False, False, True]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("left", SEEN)
def test_an_offset_that_outlives_its_topic_is_labelled(tmp_path: Path, left: Left) -> None:
    found = judged(tmp_path / "given", phantom(), left).anomalies["phantom-commit"]
    assert (found.allowed, found.known_bug) == (False, LABEL)
    found = judged(tmp_path / "passed", skip(), replace(left, stored=LATER)).anomalies["group-skip"]
    assert (found.allowed, found.count, found.known_bug) == (False, 7, LABEL)
    found = judged(tmp_path / "copied", copied(), replace(left, stored=LATER)).anomalies["eos-loss"]
    assert (found.allowed, found.count, found.known_bug) == (False, 7, LABEL)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("left", UNSEEN)
def test_what_another_bug_leaves_is_not_labelled(tmp_path: Path, left: Left) -> None:
    found = judged(tmp_path / "given", phantom(), left).anomalies["phantom-commit"]
    assert (found.count, found.known_bug) == (1, "")
    later = replace(left, stored=[*left.stored, (40, 10)])
    found = judged(tmp_path / "passed", skip(), later).anomalies["group-skip"]
    assert (found.count, found.known_bug) == (7, "")


def given_first(built: Built, *offsets: int, at_s: int = 37) -> Built:
    """Another member was given these records before, and ended without a commit."""
    built.processes[5] = Process(slot=5, group=0, acks=-2)
    op = Op(process=5, f="poll", invoke=at_s * S, complete=(at_s + 1) * S)
    op.mops = [Assign(tp=0, kind=AssignmentKind.ASSIGNED, generation=0)]
    op.mops += [Read(tp=0, offset=at_, value=value_of(1, at_)) for at_ in offsets]
    built.ops.append(op)
    return built


@pytest.mark.parametrize(
    ("built", "skipped", "label"),
    [
        (given_first(skip((4, 5, 6, 7, 8, 9)), 0, 1, 2), 1, ""),  # none had committed 4
        (skip((4, 5, 6, 7, 8, 9)), 4, ""),
        (given_first(skip(), 7, 8), 7, LABEL),
        (given_first(skip((4, 5, 6, 7, 8, 9)), 7, 8), 4, LABEL),  # it began there, and went back later
    ],
)
def test_a_group_that_was_given_a_lower_record_first_did_not_begin_there(
    tmp_path: Path, built: Built, skipped: int, label: str
) -> None:
    found = judged(tmp_path, built, replace(AWAY, stored=LATER)).anomalies["group-skip"]
    assert (found.count, found.known_bug) == (skipped, label)


def test_an_input_that_the_group_was_given_and_did_not_copy_has_another_cause(tmp_path: Path) -> None:
    """The group began at the offset that stayed; then the copier was given 4, 5 and 6, and copied none."""
    built = given_first(copied((4, 5, 6, 7, 8, 9)), 7)
    verdict = judged(tmp_path, built, replace(AWAY, stored=LATER))
    assert (verdict.anomalies["group-skip"].count, verdict.anomalies["group-skip"].known_bug) == (4, LABEL)
    found = verdict.anomalies["eos-loss"]
    assert (found.count, found.known_bug) == (7, "")
    labels = {one.offsets[0]: one.known_bug for one in found.examples}
    assert labels == dict.fromkeys(range(4), LABEL) | dict.fromkeys(range(4, 7), "")


@pytest.mark.parametrize("offset", [5, 6, 8])
def test_the_group_is_given_just_the_offset_that_stayed(tmp_path: Path, offset: int) -> None:
    found = judged(tmp_path, phantom(offset), AWAY).anomalies["phantom-commit"]
    assert (found.count, found.known_bug) == (1, "")


def test_a_record_behind_the_offset_that_stayed_has_another_cause(tmp_path: Path) -> None:
    left = replace(AWAY, stored=LATER)
    found = judged(tmp_path, skip((0, 1, 2, 3, 4, 5, 6, 7, 9)), left).anomalies["group-skip"]
    assert (found.count, found.known_bug) == (1, "")


def test_a_group_that_committed_a_lower_offset_since_did_not_begin_there(tmp_path: Path) -> None:
    left = replace(AWAY, stored=(*AWAY.stored, (39, 2), (40, 10)))
    found = judged(tmp_path, skip(), left).anomalies["group-skip"]
    assert (found.count, found.known_bug) == (7, "")
