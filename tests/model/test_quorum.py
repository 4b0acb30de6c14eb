"""The metadata quorum: elections, its log, and the planted bugs of both. Messages are carried by hand."""

from typing import Any

import pytest

from model.eras import ERAS
from model.kraft.kafka_raft_client import CANDIDATE, FOLLOWER, LEADER, PROSPECTIVE, KafkaRaftClient
from model.protocol.controller_messages import (
    BeginQuorumEpoch,
    QuorumFetch,
    QuorumFetchResponse,
    Vote,
    VoteResponse,
)
from model.settings import Settings

VOTERS = (1, 2, 3)


def voter(
    me: int, *entries: tuple[int, Any], bugs: tuple[str, ...] = (), wait: int = 0, era: str = "3.9"
) -> KafkaRaftClient:
    """A node that has just started at 0; wait: what it draws, in ms, beside the fetch time-out (2000). Before
    4.0 it stands for election without asking first."""
    settings = Settings(bugs=frozenset(bugs), era=ERAS[era])
    node = KafkaRaftClient(me, VOTERS, settings, lambda low, high: wait)
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


def test_a_leader_tells_of_itself_until_a_voter_fetches() -> None:
    """Else one that led before, and was cut off, would go on (LeaderState.nonAcknowledgingVoters)."""
    one, two, three = voter(1), voter(2), voter(3, wait=500)
    elect(one, two, now=2000)
    elect(three, two, now=2500)
    assert (one.role, one.epoch, three.role, three.epoch) == (LEADER, 1, CANDIDATE, 1)
    three.tick(three.due)
    three.voted_by(2, two.vote(dict(sent(three, Vote))[2], 5000), 5000)
    assert (three.role, three.epoch) == (LEADER, 2)
    begin = BeginQuorumEpoch(2, 3)
    assert sent(three, BeginQuorumEpoch) == [(1, begin), (2, begin)]
    two.begin(begin, 5000)
    fetched(two, three, 5010)
    three.tick(three.due)
    assert sent(three, BeginQuorumEpoch) == []  # not with each tick
    three.tick(6000)
    assert sent(three, BeginQuorumEpoch) == [(1, begin)]  # 2 fetches
    one.begin(begin, 6000)
    assert (one.role, one.epoch, one.leader) == (FOLLOWER, 2, 3)


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


@pytest.mark.parametrize(
    ("era", "bugs", "role"),
    [
        ("3.9", (), FOLLOWER),
        ("3.9", ("controller-decides-alone",), LEADER),
        ("3.6", (), LEADER),  # before KAFKA-15489
    ],
)
def test_a_leader_that_no_majority_asks_resigns(era: str, bugs: tuple[str, ...], role: str) -> None:
    one = voter(1, bugs=bugs, era=era)
    elect(one, voter(2, era=era), now=2000)
    one.tick(4999)
    assert one.role == LEADER
    one.tick(5100)
    assert one.role == role


def fetched(node: KafkaRaftClient, leader: KafkaRaftClient, now: int) -> None:
    """Its newest fetch is answered."""
    request = sent(node, QuorumFetch)[-1][1]
    node.fetched(leader.me, leader.serve(request, now) or leader.held(request), now)


def led(era: str = "4.0") -> dict[int, KafkaRaftClient]:
    """Node 1 leads in epoch 1 since 2001, and both others fetch from it."""
    nodes = {n: voter(n, wait=100 * n, era=era) for n in VOTERS}
    one = nodes[1]
    one.tick(one.due)
    for _ in range(1 + one.settings.era.pre_vote):
        votes = dict(sent(one, Vote))
        one.voted_by(2, nodes[2].vote(votes[2], 2100), 2100)
    assert (one.role, one.epoch) == (LEADER, 1)
    for to, request in sent(one, BeginQuorumEpoch):
        nodes[to].begin(request, 2101)
        fetched(nodes[to], one, 2102)
    return nodes


def test_a_leader_that_resigned_does_not_follow_itself() -> None:
    """Voters answer what they believe still."""
    nodes = led()
    one = nodes[1]
    one.tick(8000)
    assert (one.role, one.leader) == (FOLLOWER, -1)
    one.tick(one.due)
    assert (one.role, one.epoch) == (PROSPECTIVE, 1)
    for node, request in sent(one, Vote):
        one.voted_by(node, nodes[node].vote(request, 8200), 8200)
    assert one.leader == -1


@pytest.mark.parametrize(("era", "deposed"), [("3.9", True), ("4.0", False), ("4.4", False)])
def test_a_voter_that_was_cut_off_deposes_no_leader(era: str, deposed: bool) -> None:
    """KIP-996. Before, it raises the epoch with each time-out, and comes back with a later one."""
    one, two, three = led(era).values()
    for _ in range(3):
        three.tick(three.due)
        fetched(two, one, three.due)
    assert (three.epoch > 1) == deposed
    votes = sent(three, Vote)[-2:]
    assert [request.pre for _, request in votes] == [not deposed] * 2
    for node in (one, two):
        three.voted_by(node.me, node.vote(dict(votes)[node.me], three.due), three.due)
    assert ([one.role, two.epoch] == [LEADER, 1]) == (not deposed)
    if not deposed:
        assert (three.role, three.epoch, three.leader) == (FOLLOWER, 1, 1)


def test_who_hears_of_no_leader_helps_another_one_to_stand() -> None:
    _, two, three = led().values()
    two.tick(two.due)
    assert (two.role, two.epoch, two.leader) == (PROSPECTIVE, 1, 1)
    asked = dict(sent(two, Vote))
    assert not three.vote(asked[3], two.due).granted  # it fetches from 1
    three.tick(three.due)
    assert three.vote(asked[3], three.due).granted
    assert three.role == PROSPECTIVE
    two.voted_by(3, VoteResponse(True, 1, 1), three.due)
    assert (two.role, two.epoch, two.leader) == (CANDIDATE, 2, -1)
    standing = dict(sent(two, Vote))
    assert standing[3] == Vote(2, 2, 1, 1)
    two.voted_by(3, three.vote(standing[3], three.due), three.due)
    assert (two.role, three.role, three.voted) == (LEADER, FOLLOWER, 2)


def test_a_question_is_granted_to_any_number_and_only_with_a_whole_log() -> None:
    three = voter(3, (1, None), (1, "a"), era="4.0")
    for asker in (1, 2):
        assert three.vote(Vote(1, asker, 1, 2, pre=True), 10).granted
    assert not three.vote(Vote(1, 1, 1, 1, pre=True), 10).granted
    assert (three.voted, three.epoch, three.due) == (-1, 1, 2000)  # nothing was promised
    assert not three.vote(Vote(0, 1, 1, 2, pre=True), 10).granted
    assert three.vote(Vote(2, 1, 1, 2, pre=True), 10).granted
    assert three.epoch == 2


def test_who_is_refused_by_a_majority_waits_and_asks_again_in_its_epoch() -> None:
    one = voter(1, (1, None), era="4.0")
    one.tick(2000)
    assert (one.role, one.epoch) == (PROSPECTIVE, 1)
    one.voted_by(2, VoteResponse(False, 1), 2100)
    assert one.role == PROSPECTIVE  # 3 may still say yes
    one.voted_by(3, VoteResponse(False, 1), 2200)
    assert (one.role, one.epoch, one.due) == (FOLLOWER, 1, 4200)
    one.tick(4200)
    assert (one.role, one.epoch) == (PROSPECTIVE, 1)
    one.tick(6200)  # unanswered
    assert (one.role, one.epoch) == (PROSPECTIVE, 1)
    one.voted_by(3, VoteResponse(True, 1), 6300)
    assert (one.role, one.epoch) == (CANDIDATE, 2)
    one.tick(8300)
    assert (one.role, one.epoch) == (PROSPECTIVE, 2)
    sent(one, Vote)
    assert one.vote(Vote(2, 3, 1, 1), 8400).granted is False  # it voted for itself
    one.voted_by(2, VoteResponse(False, 2, 3), 8400)
    assert (one.role, one.leader) == (FOLLOWER, 3)  # who answered knows the leader


def test_who_asks_votes_for_who_stands_in_its_epoch() -> None:
    one = voter(1, (1, None), era="4.0")
    one.tick(2000)
    sent(one, Vote)
    one.voted_by(3, VoteResponse(True, 1), 2100)
    two = voter(2, (1, None), era="4.0")
    two.tick(2000)
    two.vote(Vote(2, 3, 0, 0, pre=True), 2050)  # it learns of epoch 2
    two.tick(two.due)
    sent(two, Vote)
    assert (two.role, two.epoch) == (PROSPECTIVE, 2)
    assert two.vote(Vote(2, 1, 1, 1), 2400).granted
    assert (two.role, two.voted, [request.pre for _, request in sent(two, Vote)]) == (
        PROSPECTIVE,
        1,
        [True, True],
    )
    assert not two.vote(Vote(2, 3, 1, 1), 2500).granted


def test_a_quorum_of_one_needs_no_answer() -> None:
    alone = KafkaRaftClient(1, (1,), Settings(), lambda low, high: 0)
    alone.start(0)
    alone.tick(2000)
    assert (alone.role, alone.epoch) == (LEADER, 1)


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
