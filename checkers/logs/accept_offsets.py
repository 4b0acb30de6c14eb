"""The log of the group coordinator (`__consumer_offsets`), record by record, against what it may write.

Of each partition the log is judged that a clean leader has at the end of the run; whether the replicas agree
with it is a question of the audit.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import pyarrow.compute as pc

from checkers.engine.findings import Found, PartitionResult
from checkers.logs.elections import partition_count
from checkers.logs.replicas import COMPRESSED, ReplicaLog, last_take, newest, replicas
from checkers.logs.rule import Rule, checks_of, refused
from core.consumer_protocol import assigned
from core.internal_topics import GROUP_TOPIC
from core.op import TopicPartition
from history.evidence import Evidence
from model.accepting import offsets_log as log
from model.protocol.messages import Partition

FORGETS: Final = "log.cleaner.delete.retention.ms"
"""After this time the log need not have the end of each member and group."""

STABLE: Final = 0
"""State of a member of a consumer group (MemberState)."""

RULES: Final = {
    "generations-rise": Rule(
        "The generation of a classic group does not fall, and one generation has one set of dynamic members.",
        "ClassicGroup.initNextGeneration",
        forgets=FORGETS,
    ),
    "generation-has-leader": Rule(
        "The leader of a generation is one of its members.", "ClassicGroup", forgets=FORGETS
    ),
    "group-epochs-rise": Rule(
        "The epoch of a group of KIP-848 rises with every record of it.",
        "KIP-848; GroupMetadataManager",
        forgets=FORGETS,
    ),
    "member-epochs-bounded": Rule(
        "Epochs of members and of assignments do not exceed the group's, and a member's does not fall.",
        "KIP-848; CurrentAssignmentBuilder",
        forgets=FORGETS,
    ),
    "members-known": Rule(
        "A member of a group of KIP-848 that has an assignment has a member record, too.",
        "KIP-848; GroupMetadataManager",
        forgets=FORGETS,
    ),
    "one-owner": Rule(
        "A partition belongs to one member of a generation, and of a consumer group (KIP-848) until that one "
        "has given it up.",
        "ConsumerPartitionAssignor; ConsumerGroup.addPartitionEpochs",
        forgets=FORGETS,
    ),
    "subscription-raises-epoch": Rule(
        "Where a member of a consumer group (KIP-848) wants other topics, the group gets a new epoch before "
        "anything is assigned.",
        "KIP-848; GroupMetadataManager.consumerGroupHeartbeat; KAFKA-19899 for regular expressions",
        forgets=FORGETS,
    ),
    "targets-followed": Rule(
        "A stable member of a consumer group (KIP-848) has what its target says, where the epochs of the "
        "member, of the targets and of the group are the same. A member that subscribes by a regular "
        "expression may lack whole topics from when it brings another one until the group's next epoch.",
        "KIP-848; CurrentAssignmentBuilder.updateCurrentAssignment",
        forgets=FORGETS,
    ),
    "one-group-type": Rule(
        "A group is of one protocol at a time.", "KIP-848; GroupMetadataManager", forgets=FORGETS
    ),
    "group-place": Rule(
        "Groups and their offsets are written to the partition that the hash of the group names.",
        "GroupMetadataManager.partitionFor",
    ),
}


class _Row(NamedTuple):
    """The columns that are looked at, by the names of `history.evidence_tables.GROUP_LOG`."""

    take: int
    node: int
    offset: int
    name: str
    group: str | None
    member: str | None
    epoch: int | None
    body: str | None
    opaque: bytes | None


def kernel(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    """The rules of this module, for a partition of `__consumer_offsets`; nothing for other partitions."""
    if tp.topic != GROUP_TOPIC:
        return
    copies = replicas(evidence, tp)
    one = newest(last_take(copies) or copies)
    if one is None:
        return
    table = evidence.of("group_log", tp)
    rows = map(_Row._make, zip(*(table[name].to_pylist() for name in _Row._fields), strict=True))
    mine = sorted((row for row in rows if (row.take, row.node) == (one.take, one.node)), key=_offset)
    whole = _whole(one)
    if not whole and mine:
        for rule in ("members-known", "subscription-raises-epoch"):
            result.leave_open(rule, tp, "compaction has taken records away")
    acceptor = log.OffsetsLog(whole=whole, number=tp.partition, count=partition_count(evidence, GROUP_TOPIC))
    if not acceptor.count:
        result.leave_open("group-place", tp, "the evidence does not say how many partitions the log has")
    for offset, group in _groups(evidence, tp, one):
        for refusal in acceptor.placed(offset, group):
            result.refuse(refused(refusal, tp, one.take, one.node))
    holes = _holes(one)
    for row in mine:
        lost = row.opaque is not None
        if lost:
            _unknown(result, tp, f"no definition reads the record at offset {row.offset}")
        while holes and holes[0] <= row.offset:
            _unknown(result, tp, f"batches are missing, damaged or compressed before offset {holes.pop(0)}")
            lost = True
        if lost:
            acceptor = replace(acceptor, whole=False, generations={}, _groups={})
        if row.opaque is not None:
            continue
        record = _record(row)
        for refusal in acceptor.accept(row.offset, record) if record is not None else ():
            result.refuse(refused(refusal, tp, one.take, one.node))
    result.asked += acceptor.asked
    for at in one.unread[-1:]:
        _unknown(result, tp, f"{COMPRESSED} before offset {at}")


CHECKS: Final = checks_of(RULES, ring=1, log_kernel=kernel)


def _groups(evidence: Evidence, tp: TopicPartition, one: ReplicaLog) -> list[tuple[int, str]]:
    """The groups of a log, each with the offset of its first record, of whatever kind."""
    first: dict[str, int] = {}
    for name in ("offset_log", "group_log"):
        rows = evidence.of(name, tp)
        mine = pc.and_(pc.equal(rows["take"], one.take), pc.equal(rows["node"], one.node))
        found = rows.filter(pc.and_(mine, pc.is_valid(rows["group"]))).group_by("group")
        for row in found.aggregate([("offset", "min")]).to_pylist():
            first[row["group"]] = min(row["offset_min"], first.get(row["group"], row["offset_min"]))
    return sorted((offset, group) for group, offset in first.items())


def _offset(row: _Row) -> int:
    return row.offset


def _unknown(result: Found, tp: TopicPartition, why: str) -> None:
    """Of all rules."""
    for rule in RULES:
        result.leave_open(rule, tp, why)


def _holes(one: ReplicaLog) -> list[int]:
    """Offsets before which batches are gone that no compaction took, or cannot be read."""
    base = one.whole["base"][1:]
    return sorted({*map(int, base[one.gaps[1:] & (base > one.compacted)]), *one.unread})


def _whole(one: ReplicaLog) -> bool:
    """It begins at offset 0, and has every record."""
    if not one.count:
        return one.start <= 0
    base, last, records = (one.whole[name] for name in ("base", "last", "records"))
    dense = bool((base[1:] == last[:-1] + 1).all() and (last - base + 1 == records).all())
    return dense and base[0] == 0


# ---- rows -> records


def _record(row: _Row) -> log.GroupRecord | None:
    """What a row says; None = nothing that is judged."""
    group, member = row.group or "", row.member or ""
    body: dict[str, object] | None = json.loads(row.body) if row.body else None
    if row.name == "GroupMetadata":
        return log.Tombstone(log.Generation, log.CLASSIC, group) if body is None else _generation(group, body)
    prefix, of_group, what = row.name.partition("Group")
    kind = prefix.lower()
    if not of_group or what not in _KINDS:
        return None
    if body is None:
        return log.Tombstone(_KINDS[what], kind, group, member)
    match what:
        case "Metadata":
            return log.GroupEpoch(kind, group, _number(body, "epoch"))
        case "MemberMetadata":
            names = body.get("subscribedTopicNames")
            topics = frozenset(map(str, names)) if isinstance(names, list) else frozenset[str]()
            static, regex = body.get("instanceId") is not None, str(body.get("subscribedTopicRegex") or "")
            return log.GroupMember(kind, group, member, topics, static, regex)
        case "TargetAssignmentMetadata":
            return log.TargetEpoch(kind, group, _number(body, "assignmentEpoch"))
        case "TargetAssignmentMember":
            return log.TargetMember(kind, group, member, _partitions(body, "topicPartitions"))
    owned = _partitions(body, "assignedPartitions") + _partitions(body, "partitionsPendingRevocation")
    stable = body.get("state") == STABLE
    return log.CurrentMember(kind, group, member, _number(body, "memberEpoch"), owned, stable)


_KINDS: Final[Mapping[str, type]] = {
    "Metadata": log.GroupEpoch,
    "MemberMetadata": log.GroupMember,
    "TargetAssignmentMetadata": log.TargetEpoch,
    "TargetAssignmentMember": log.TargetMember,
    "CurrentMemberAssignment": log.CurrentMember,
}
"""Ends of the names of records of a group of KIP-848, and what they are here."""


def _number(body: Mapping[str, object], name: str) -> int:
    found = body[name]
    assert isinstance(found, int)
    return found


def _list(body: Mapping[str, object], name: str) -> Sequence[Mapping[str, object]]:
    found = body.get(name)
    return found if isinstance(found, list) else []


def _partitions(body: Mapping[str, object], name: str) -> tuple[Partition, ...]:
    """By topic id. Tasks of a streams group have no topics: none."""
    found: list[Partition] = []
    for one in _list(body, name):
        numbers = one.get("partitions")
        if "topicId" in one and isinstance(numbers, list):
            found += [(str(one["topicId"]), number) for number in numbers]
    return tuple(found)


def _generation(group: str, body: Mapping[str, object]) -> log.Generation:
    clients = body.get("protocolType") == "consumer"
    members = tuple(
        log.GenerationMember(
            str(one["memberId"]),
            _assigned(str(one["assignment"])) if clients else None,
            one.get("groupInstanceId") is not None,
        )
        for one in _list(body, "members")
    )
    return log.Generation(group, _number(body, "generation"), str(body.get("leader") or ""), members)


def _assigned(text: str) -> tuple[Partition, ...] | None:
    """The partitions of a ConsumerProtocolAssignment; None where these are other bytes."""
    try:
        return assigned(base64.b64decode(text, validate=True))
    except ValueError:
        return None
