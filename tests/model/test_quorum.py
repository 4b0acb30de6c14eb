"""The metadata quorum: elections, its log, and the planted bugs of both. Messages are carried by hand."""

from typing import Any

import pytest

from model.kraft.kafka_raft_client import CANDIDATE, FOLLOWER, LEADER, KafkaRaftClient
from model.protocol.controller_messages import (
    BeginQuorumEpoch,
    QuorumFetch,
    QuorumFetchResponse,
    Vote,
    VoteResponse,
)
from model.settings import Settings

VOTERS = (1, 2, 3)


def voter(me: int, *entries: tuple[int, Any], bugs: tuple[str, ...] = (), wait: int = 0) -> KafkaRaftClient:
    """A node that has just started at 0; wait: what it draws, in ms, beside the fetch time-out (2000)."""
    node = KafkaRaftClient(me, VOTERS, Settings(bugs=frozenset(bugs)), lambda low, high: wait)
    node.entries = list(entries)
    node.epoch = entries[-1][0] if entries else 0
    node.start(0)
    node.out.clear()
    return node


def sent(node: KafkaRaftClient, kind: type) -> list[tuple[int, Any]]:
    """What it wants sent, of this kind."""
    out, node.out = node.out, []
    return [(to, request) for to, request in out if isinstance(request, kind)]


def elect(node: KafkaRaftClient, *others: KafkaRaftClient, now: int) -> None:
    """It stands for election, and these answer."""
    node.tick(now)
    votes = dict(sent(node, Vote))
    for other in others:
        node.voted_by(other.me, other.vote(votes[other.me], now), now)


def test_a_majority_elects_a_leader_that_tells_everybody() -> None:
    one, two = voter(1), voter(2, wait=500)
    elect(one, two, now=2000)
    assert (one.role, one.epoch, one.leader) == (LEADER, 1, 1)
    assert sent(one, BeginQuorumEpoch) == [(2, BeginQuorumEpoch(1, 1)), (3, BeginQuorumEpoch(1, 1))]
    two.begin(BeginQuorumEpoch(1, 1), 2001)
    assert (two.role, two.leader, two.due) == (FOLLOWER, 1, 2001 + 2500)


def test_one_vote_of_three_elects_nobody() -> None:
    one = voter(1)
    elect(one, now=2000)
    assert (one.role, one.epoch, one.due) == (CANDIDATE, 1, 4000)
    one.tick(4000)
    assert (one.role, one.epoch) == (CANDIDATE, 2)


def test_a_record_is_committed_when_a_majority_has_it() -> None:
    one, two = voter(1), voter(2)
    elect(one, two, now=2000)
    one.append(["a"])
    assert (one.end, one.high_watermark) == (2, 0)
    two.begin(BeginQuorumEpoch(1, 1), 2001)
    first = sent(two, QuorumFetch)[-1][1]
    given = one.serve(first, 2002)
    assert given is not None
    two.fetched(1, given, 2003)
    assert (two.entries, one.high_watermark) == ([(1, None), (1, "a")], 0)
    second = sent(two, QuorumFetch)[-1][1]
    told = one.serve(second, 2004)
    assert told is not None
    assert (one.high_watermark, told.high_watermark) == (2, 2)


@pytest.mark.parametrize(("bugs", "granted"), [((), False), (("votes-twice",), True)])
def test_a_voter_has_one_vote_in_an_epoch(bugs: tuple[str, ...], granted: bool) -> None:
    three = voter(3, bugs=bugs)
    assert three.vote(Vote(1, 1, 0, 0), 10).granted
    assert three.vote(Vote(1, 1, 0, 0), 20).granted
    assert three.vote(Vote(1, 2, 0, 0), 30).granted is granted
    assert three.vote(Vote(2, 2, 0, 0), 40).granted


@pytest.mark.parametrize(("bugs", "granted"), [((), False), (("vote-ignores-log",), True)])
@pytest.mark.parametrize("log", [(1, 1), (0, 0), (1, 0)])
def test_who_misses_records_is_not_elected(
    bugs: tuple[str, ...], granted: bool, log: tuple[int, int]
) -> None:
    three = voter(3, (1, None), (1, "a"), bugs=bugs)
    assert three.vote(Vote(2, 1, *log), 10).granted is granted
    assert three.epoch == 2


def test_whom_nobody_may_elect_puts_nobody_off() -> None:
    """Who waits to stand for election goes on waiting when a candidate of a later epoch is refused
    (QuorumState.transitionToUnattached)."""
    three = voter(3, (1, None), (1, "a"), wait=700)
    assert three.due == 2700
    for epoch, now in ((2, 2000), (3, 2600)):
        assert not three.vote(Vote(epoch, 1, 1, 1), now).granted
        assert (three.epoch, three.due) == (epoch, 2700)
    three.tick(2700)
    assert (three.role, three.epoch) == (CANDIDATE, 4)
    three.voted_by(1, VoteResponse(False, 5, -1), 2800)
    assert (three.role, three.epoch, three.due) == (FOLLOWER, 5, 2700 + 2700)


def test_who_votes_waits_again() -> None:
    three = voter(3, wait=700)
    assert three.vote(Vote(1, 1, 0, 0), 2600).granted
    assert three.due == 2600 + 2700


@pytest.mark.parametrize(("bugs", "role"), [((), FOLLOWER), (("controller-decides-alone",), LEADER)])
def test_a_leader_that_no_majority_asks_resigns(bugs: tuple[str, ...], role: str) -> None:
    one = voter(1, bugs=bugs)
    elect(one, voter(2), now=2000)
    one.tick(4999)
    assert one.role == LEADER
    one.tick(5100)
    assert one.role == role


def test_a_follower_cuts_back_to_what_the_leader_has() -> None:
    one = voter(1, (1, None), (1, "a"))
    two = voter(2, (1, None), (1, "a"))
    elect(one, two, now=2000)
    two.entries.append((1, "nobody else has this"))
    answer = one.serve(QuorumFetch(2, 2, two.end, two.last_epoch), 2001)
    assert answer == QuorumFetchResponse(2, 1, 3, 0, (), 2)
    two.begin(BeginQuorumEpoch(2, 1), 2002)
    sent(two, QuorumFetch)
    two.fetched(1, answer, 2003)
    assert two.entries == [(1, None), (1, "a")]
