"""The acceptor of the group coordinator's log: silent on what one writes, and one near miss for each rule."""

import pytest

from core.java_hash import java_hash
from model.accepting.offsets_log import (
    CLASSIC,
    CurrentMember,
    Generation,
    GenerationMember,
    GroupEpoch,
    GroupMember,
    GroupRecord,
    OffsetsLog,
    TargetEpoch,
    TargetMember,
    Tombstone,
)

A, B, R = ("q", 0), ("q", 1), ("r", 0)


def generation(number: int, *members: str, leader: str = "m1", static: bool = False) -> Generation:
    """m1 has A, m2 has B."""
    owned = {"m1": (A,), "m2": (B,)}
    return Generation(
        "g", number, leader, tuple(GenerationMember(m, owned.get(m, ()), static) for m in members)
    )


def current(
    member: str, epoch: int, *owned: tuple[str, int], kind: str = "consumer", stable: bool = False
) -> CurrentMember:
    return CurrentMember(kind, "g", member, epoch, owned, stable)


def stable(member: str, epoch: int, *owned: tuple[str, int]) -> CurrentMember:
    return current(member, epoch, *owned, stable=True)


def wants(
    member: str, *topics: str, static: bool = False, kind: str = "consumer", regex: str = ""
) -> GroupMember:
    return GroupMember(kind, "g", member, frozenset(topics), static, regex)


def target(member: str, *partitions: tuple[str, int]) -> TargetMember:
    return TargetMember("consumer", "g", member, partitions)


JOINED: list[GroupRecord] = [
    wants("m1", "q"),
    GroupEpoch("consumer", "g", 1),
    TargetMember("consumer", "g", "m1", (A, B)),
    TargetEpoch("consumer", "g", 1),
    stable("m1", 1, A, B),
    wants("m2", "q"),
    GroupEpoch("consumer", "g", 2),
    TargetMember("consumer", "g", "m2", (B,)),
    TargetMember("consumer", "g", "m1", (A,)),
    TargetEpoch("consumer", "g", 2),
    current("m2", 2),
    current("m1", 1, A, B),
]
"""A group of KIP-848: a second member has come, and the first one has not given up B."""
SETTLED: list[GroupRecord] = [*JOINED, stable("m1", 2, A), stable("m2", 2, B)]
LEFT: list[GroupRecord] = [
    Tombstone(CurrentMember, "consumer", "g", "m1"),
    Tombstone(TargetMember, "consumer", "g", "m1"),
    Tombstone(GroupMember, "consumer", "g", "m1"),
    GroupEpoch("consumer", "g", 3),
]

BY_EXPRESSION: list[GroupRecord] = [
    GroupEpoch("consumer", "g", 1),
    wants("m1", regex="q.*"),
    GroupEpoch("consumer", "g", 2),
    target("m1", A, B),
    TargetEpoch("consumer", "g", 2),
    stable("m1", 2, A, B),
]
TWO_BY_EXPRESSION: list[GroupRecord] = [
    wants("m1", regex="q.*"),
    wants("m2", regex="q.*"),
    GroupEpoch("consumer", "g", 2),
    target("m1", A),
    target("m2", B),
    TargetEpoch("consumer", "g", 2),
    stable("m1", 2, A),
    stable("m2", 2, B),
]
OTHER_EXPRESSION: list[GroupRecord] = [wants("m1", regex="r.*"), current("m1", 2, A, B)]
"""A member brings another expression. No topic is known of it yet: the member gives up what it has."""


def refused(records: list[GroupRecord], *, whole: bool = True) -> list[tuple[str, int]]:
    log = OffsetsLog(whole=whole)
    found = [refusal for offset, record in enumerate(records) for refusal in log.accept(offset, record)]
    return [(refusal.rule, refusal.offset) for refusal in found]


@pytest.mark.parametrize(
    "records",
    [
        [generation(0, leader=""), generation(1, "m1"), generation(3, "m1", "m2"), generation(4, leader="")],
        [generation(2, "m1", "m2"), generation(2, "m2", "m1")],
        [generation(2, "m1", static=True), generation(2, "m9", leader="m9", static=True)],
        [generation(2, "m1"), Tombstone(Generation, CLASSIC, "g"), generation(0, leader="")],
        [generation(2, "m1"), Tombstone(Generation, CLASSIC, "g"), *JOINED],
        [*JOINED, current("m1", 2, A), current("m2", 2, B)],
        [*JOINED, *LEFT, current("m2", 2, B)],
        [*JOINED, current("m1", -2, A)],
        [*JOINED, Tombstone(GroupEpoch, "consumer", "g"), generation(1, "m1")],
        [GroupMember("share", "g", "m1"), GroupMember("share", "g", "m2"), GroupEpoch("share", "g", 1)]
        + [current(m, 1, A, kind="share") for m in ("m1", "m2")],
        SETTLED,
        [*SETTLED, wants("m1", "q", "r"), GroupEpoch("consumer", "g", 3), stable("m1", 2)],
        [*SETTLED, wants("m1", "q"), stable("m1", 2, A)],
        [*SETTLED, *LEFT[:3], wants("m3", "q", static=True), target("m3", A), current("m3", 0, A)],
        [*SETTLED, wants("m3", "q"), Tombstone(GroupMember, "consumer", "g", "m3"), stable("m1", 2, A)],
        [wants("m1", "q", kind="share"), current("m1", 0, kind="share")],
        # Their group has another epoch, for which nothing is computed yet; they are of another epoch.
        [*SETTLED, GroupEpoch("consumer", "g", 3), stable("m1", 2)],
        [
            *SETTLED,
            GroupEpoch("consumer", "g", 3),
            target("m2"),
            TargetEpoch("consumer", "g", 3),
            SETTLED[-1],
        ],
        [*SETTLED, TargetEpoch("consumer", "g", 2)],
        [*JOINED, stable("m1", 2, A), current("m2", 2)],
        [*BY_EXPRESSION, *OTHER_EXPRESSION, stable("m1", 2)],
        [*BY_EXPRESSION, *OTHER_EXPRESSION, stable("m1", 2), TargetEpoch("consumer", "g", 2)],
        [*BY_EXPRESSION, *OTHER_EXPRESSION, stable("m1", 2), GroupEpoch("consumer", "g", 3), stable("m1", 2)],
        [
            *BY_EXPRESSION[:3],
            target("m1", A, B, R),
            *BY_EXPRESSION[4:5],
            wants("m1", regex="r.*"),
            stable("m1", 2, R),
            wants("m1", regex="s.*"),
            stable("m1", 2),
        ],
    ],
)
def test_what_a_coordinator_writes_is_accepted(records: list[GroupRecord]) -> None:
    assert refused(records) == []


MISSES: dict[str, tuple[list[GroupRecord], list[tuple[str, int]]]] = {
    "a generation falls": ([generation(2, "m1"), generation(1, "m1")], [("generations-rise", 1)]),
    "a generation of other members": (
        [generation(2, "m1"), generation(2, "m1", "m2")],
        [("generations-rise", 1)],
    ),
    "a stranger leads": ([generation(2, "m1", leader="m9")], [("generation-has-leader", 0)]),
    "a generation assigns a partition twice": (
        [Generation("g", 1, "a", (GenerationMember("a", (A, B)), GenerationMember("b", (B,))))],
        [("one-owner", 0)],
    ),
    "a target assigns a partition twice": (
        [*JOINED[:7], TargetMember("consumer", "g", "m2", (B,)), TargetEpoch("consumer", "g", 2)],
        [("one-owner", 8)],
    ),
    "who has not given up": ([*JOINED, current("m2", 2, B)], [("one-owner", 12)]),
    "the group's epoch stays": ([*JOINED, GroupEpoch("consumer", "g", 2)], [("group-epochs-rise", 12)]),
    "a member is ahead of its group": ([*JOINED, current("m1", 3, A)], [("member-epochs-bounded", 12)]),
    "an assignment is ahead": ([*JOINED, TargetEpoch("consumer", "g", 3)], [("member-epochs-bounded", 12)]),
    "a member's epoch falls": ([*JOINED, current("m2", 1)], [("member-epochs-bounded", 12)]),
    "an assignment for a stranger": (
        [*JOINED, TargetMember("consumer", "g", "m9"), current("m9", 2)],
        [("members-known", 12), ("members-known", 13)],
    ),
    "an assignment for one who left": ([*JOINED, *LEFT, current("m1", 2)], [("members-known", 16)]),
    "a new member leaves the epoch": (
        [*SETTLED, wants("m3", "q"), current("m3", 2)],
        [("subscription-raises-epoch", 15)],
    ),
    "a member that wants another topic leaves the epoch": (
        [*SETTLED, wants("m1", "q", "r"), stable("m1", 2, A), stable("m1", 2, A)],
        [("subscription-raises-epoch", 15)],
    ),
    "a static member that wants another topic leaves the epoch": (
        [*SETTLED, wants("m3", "q", static=True), wants("m3", "r", static=True), target("m3")],
        [("subscription-raises-epoch", 16)],
    ),
    "targets for those who want other topics, in the old epoch": (
        [*SETTLED, wants("m1", "r"), TargetEpoch("consumer", "g", 2)],
        [("subscription-raises-epoch", 15)],
    ),
    "a member lacks some of its target": ([*JOINED, stable("m1", 2)], [("targets-followed", 12)]),
    "a member has something else than its target": (
        [*JOINED, stable("m1", 2, A), stable("m2", 2, ("q", 2))],
        [("targets-followed", 13)],
    ),
    "targets change behind their members": (
        [*SETTLED, target("m2", A), target("m1", B), TargetEpoch("consumer", "g", 2)],
        [("targets-followed", 16), ("targets-followed", 16)],
    ),
    "a member with an expression lacks some of its target": (
        [*BY_EXPRESSION, wants("m1", regex="q.*"), stable("m1", 2)],
        [("targets-followed", 7)],
    ),
    "a member with another expression has something else than its target": (
        [*BY_EXPRESSION, *OTHER_EXPRESSION, stable("m1", 2, A, ("q", 2))],
        [("targets-followed", 8)],
    ),
    "a member by names lacks some of its target, another one has another expression": (
        [*BY_EXPRESSION[:2], *JOINED[0:1], *JOINED[5:], wants("m9", regex="r.*"), stable("m1", 2)],
        [("targets-followed", 11)],
    ),
    "a member with an expression lacks some of its target, another one has another expression": (
        [*TWO_BY_EXPRESSION, wants("m1", regex="r.*"), stable("m1", 2), stable("m2", 2)],
        [("targets-followed", 10)],
    ),
    "a member with an expression lacks some of its target, a new one has another expression": (
        [*TWO_BY_EXPRESSION, wants("m3", regex="r.*"), stable("m2", 2)],
        [("targets-followed", 9)],
    ),
    "a member with another expression lacks a part of a topic": (
        [*BY_EXPRESSION, *OTHER_EXPRESSION, stable("m1", 2, A)],
        [("targets-followed", 8)],
    ),
    "a member with another expression lacks some of the next epoch's target": (
        [
            *BY_EXPRESSION,
            *OTHER_EXPRESSION,
            stable("m1", 2),
            GroupEpoch("consumer", "g", 3),
            TargetEpoch("consumer", "g", 3),
            stable("m1", 3),
        ],
        [("targets-followed", 11)],
    ),
    "a classic generation of a consumer group": ([*JOINED, generation(3, "m1")], [("one-group-type", 12)]),
    "a consumer group's epoch of a classic one": (
        [generation(3, "m1"), GroupEpoch("consumer", "g", 4)],
        [("one-group-type", 1)],
    ),
    "a share group's epoch of a consumer group": (
        [*JOINED, GroupEpoch("share", "g", 3)],
        [("one-group-type", 12)],
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_is_refused_where_it_stands(name: str) -> None:
    records, found = MISSES[name]
    assert refused(records) == found


def test_where_records_are_gone_members_may_be_unknown() -> None:
    assert refused(JOINED[2:5], whole=False) == []
    assert refused(JOINED[2:5]) == [("members-known", 0), ("members-known", 2)]


def test_where_records_are_gone_so_may_be_epochs_and_targets() -> None:
    later: list[GroupRecord] = [wants("m3", "q"), current("m3", 2)]
    assert refused([*SETTLED, *later], whole=False) == []
    epochs: list[GroupRecord] = [GroupEpoch("consumer", "g", 2), TargetEpoch("consumer", "g", 2)]
    assert refused([*epochs, stable("m1", 2, A)], whole=False) == []
    assert refused([target("m1", B), *epochs, stable("m1", 2, A)], whole=False) == [("targets-followed", 3)]


def test_a_group_is_in_the_partition_of_its_hash() -> None:
    log = OffsetsLog(number=java_hash("g") % 5, count=5)
    assert [*log.placed(7, "g")] == []
    (refusal,) = OffsetsLog(number=(java_hash("g") + 1) % 5, count=5).placed(7, "g")
    assert (refusal.rule, refusal.offset) == ("group-place", 7)
    assert [*OffsetsLog(number=9).placed(7, "g")] == []  # how many partitions there are is unknown
