"""The metadata quorum: a replicated log of metadata records (KIP-595), one state machine a node.

Voters elect a leader by majority; all other voters and the observers (brokers) fetch from it;
a record is committed once a majority of the voters has it. A leader that has not been fetched from by a
majority for a while resigns (KAFKA-15489), a follower that cannot fetch becomes a candidate, once a majority
says that it would vote for it (KIP-996).

The driver passes the time in, keeps the one timer (`due`), and carries what `out` holds: (node, request).
`draw(low, high)` is the driver's random source, for election time-outs.
"""

from collections.abc import Callable, Sequence
from typing import Final

from model.protocol.controller_messages import (
    BeginQuorumEpoch,
    QuorumFetch,
    QuorumFetchResponse,
    Vote,
    VoteResponse,
)
from model.settings import Settings

FOLLOWER: Final = "follower"
PROSPECTIVE: Final = "prospective"
"""It asks who would vote for it."""
CANDIDATE: Final = "candidate"
LEADER: Final = "leader"
RETRY_MS: Final = 100
MOST: Final = 200
"""Records of one answer."""
WAIT_MS: Final = 500
"""How long a leader holds a fetch that has nothing to bring."""


class KafkaRaftClient:
    """One node of the quorum. `voter`: else an observer.

    epoch, voted, entries survive a crash; the rest begins again with `start`.
    entries: (epoch, record) each; a leader begins its epoch with a record of its own (None).
    """

    def __init__(
        self, me: int, voters: Sequence[int], settings: Settings, draw: Callable[[int, int], int]
    ) -> None:
        self.me = me
        self.voters = tuple(voters)
        self.voter = me in voters
        self.settings = settings
        self.draw = draw
        self.epoch = 0
        self.voted = -1
        self.entries: list[tuple[int, object]] = []
        self.role = FOLLOWER
        self.leader = -1
        self.high_watermark = 0
        self.due = 0
        """When `tick` has something to do."""
        self.out: list[tuple[int, Vote | BeginQuorumEpoch | QuorumFetch]] = []
        self._votes: set[int] = set()
        self._refusals: set[int] = set()
        self._followed = False
        """Whether a fetch from the leader of this epoch succeeded (FollowerState.hasFetchedFromLeader)."""
        self._announced = 0
        """Time of its newest announcement, as a leader."""
        self._ends: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._fetching = -1
        self._turn = 0

    # ---- life

    def start(self, now: int) -> None:
        """The node comes up."""
        self.role, self.leader, self.high_watermark = FOLLOWER, -1, 0
        self._votes, self._refusals, self._followed = set(), set(), False
        self._ends, self._heard, self._fetching = {}, {}, -1
        self._wait(now)
        self.fetch(now)

    @property
    def end(self) -> int:
        """End of this node's copy of the log."""
        return len(self.entries)

    @property
    def last_epoch(self) -> int:
        """Epoch of its newest record."""
        return self.entries[-1][0] if self.entries else 0

    def tick(self, now: int) -> None:
        """The time `due` has come."""
        if now < self.due:
            return
        if self.role == LEADER:
            limit = now - self.settings.quorum_fetch_timeout_ms * 3 // 2
            heard = sum(self._heard.get(v, -1) >= limit for v in self.voters if v != self.me)
            alone = 2 * (heard + 1) <= len(self.voters) and self.settings.era.resigns_alone
            if alone and "controller-decides-alone" not in self.settings.bugs:
                self._follow(self.epoch, -1, now)
                return
            self.due = now + RETRY_MS
            if now - self._announced >= self.settings.quorum_fetch_timeout_ms // 2:
                self._announce(now)
        elif self.role == PROSPECTIVE and self.leader >= 0:
            self._follow(self.epoch, self.leader, now)
        elif self.voter and self.settings.era.pre_vote:
            self._ask(now)
        elif self.voter:
            self._stand(now)
        else:
            self._wait(now)
            self.leader = -1
            self._fetching = -1
            self.fetch(now)

    def append(self, records: Sequence[object]) -> int:
        """As leader: append; the offset that must be committed for all of them to be."""
        assert self.role == LEADER
        self.entries += [(self.epoch, record) for record in records]
        self._commit()
        return self.end

    # ---- elections

    def _ask(self, now: int) -> None:
        """Find out who would vote for this node. It forgets no leader that it knows of."""
        self.role = PROSPECTIVE
        self._campaign(now, pre=True)

    def _stand(self, now: int) -> None:
        """Become a candidate of the next epoch."""
        self.role, self.leader = CANDIDATE, -1
        self.epoch += 1
        self.voted = self.me
        self._campaign(now, pre=False)

    def _campaign(self, now: int, *, pre: bool) -> None:
        self._votes, self._refusals, self._followed = {self.me}, set(), False
        self._wait(now)
        request = Vote(self.epoch, self.me, self.last_epoch, self.end, pre)
        self.out += [(node, request) for node in self.voters if node != self.me]
        self._elected(now)

    def vote(self, request: Vote, now: int) -> VoteResponse:
        """A candidate asks for this node's vote."""
        if request.epoch < self.epoch:
            return VoteResponse(False, self.epoch, self.leader)
        if request.epoch > self.epoch:
            self._follow(request.epoch, -1, now)
        newer = (request.last_epoch, request.end) >= (self.last_epoch, self.end)
        newer |= "vote-ignores-log" in self.settings.bugs
        if request.pre:
            return VoteResponse(newer and not self._hears_of_a_leader(), self.epoch, self.leader)
        waits = self.role in (FOLLOWER, PROSPECTIVE)
        free = waits and self.voted in (-1, request.candidate) and self.leader < 0
        if "votes-twice" in self.settings.bugs:
            free = waits
        granted = newer and free
        if granted:
            self.voted = request.candidate
            self._wait(now)
        if granted and self.role == PROSPECTIVE:
            self._ask(now)  # from the begin (QuorumState.prospectiveAddVotedState)
        return VoteResponse(granted, self.epoch, self.leader)

    def _hears_of_a_leader(self) -> bool:
        """Whether it leads, or fetches from who does: then it helps no other node to an election."""
        return self.role == LEADER or (self.role == FOLLOWER and self._followed)

    def voted_by(self, node: int, answer: VoteResponse, now: int) -> None:
        """A voter answered."""
        if answer.epoch > self.epoch:
            self._follow(answer.epoch, answer.leader, now)
        elif answer.epoch < self.epoch or self.role not in (PROSPECTIVE, CANDIDATE):
            return
        elif answer.leader not in (-1, self.me) and self.leader < 0:
            self._follow(self.epoch, answer.leader, now)
        elif answer.granted:
            self._votes.add(node)
            self._elected(now)
        else:
            self._refusals.add(node)
            if self.role == PROSPECTIVE and 2 * len(self._refusals) >= len(self.voters):
                self._follow(self.epoch, self.leader, now)
                self._wait(now)

    def _elected(self, now: int) -> None:
        if 2 * len(self._votes) <= len(self.voters):
            return
        if self.role == PROSPECTIVE:
            self._stand(now)
            return
        self.role, self.leader = LEADER, self.me
        self._ends = {}
        self._heard = dict.fromkeys(self.voters, now)
        self.due = now + RETRY_MS
        self.entries.append((self.epoch, None))
        self._commit()
        self._announce(now)

    def _announce(self, now: int) -> None:
        """Tell of itself the voters that have not fetched in this epoch (nonAcknowledgingVoters)."""
        self._announced = now
        told = BeginQuorumEpoch(self.epoch, self.me)
        self.out += [(v, told) for v in self.voters if v != self.me and v not in self._ends]

    def begin(self, request: BeginQuorumEpoch, now: int) -> None:
        """A leader tells of itself."""
        newer = request.epoch > self.epoch
        if newer or (request.epoch == self.epoch and self.leader < 0):
            self._follow(request.epoch, request.leader, now)

    def _follow(self, epoch: int, leader: int, now: int) -> None:
        # A voter that waits to stand for election keeps waiting (QuorumState.transitionToUnattached): else a
        # candidate whose log is too short would put off all who could be elected.
        waits = self.role in (PROSPECTIVE, CANDIDATE) or (self.role == FOLLOWER and self.leader < 0)
        if epoch > self.epoch:
            self.voted = -1
        self.role, self.epoch, self.leader = FOLLOWER, epoch, leader
        self._fetching, self._followed = -1, False
        if leader >= 0 or not waits:
            self._wait(now)
        self.fetch(now)

    def _wait(self, now: int) -> None:
        base = self.settings.quorum_fetch_timeout_ms
        self.due = now + base + self.draw(0, self.settings.quorum_election_ms)

    # ---- following

    def fetch(self, now: int) -> None:
        """Ask the leader (where it is not known: any voter in turn) for more."""
        if self.role != FOLLOWER or self._fetching >= 0:
            return
        target = self.leader
        if target < 0:
            others = [v for v in self.voters if v != self.me]
            if not others:
                return
            target = others[self._turn % len(others)]
            self._turn += 1
        self._fetching = target
        self.out.append((target, QuorumFetch(self.me, self.epoch, self.end, self.last_epoch)))

    def fetched(self, node: int, answer: QuorumFetchResponse | None, now: int) -> bool:
        """The answer to a fetch, None = none came. Whether to `fetch` again after a pause."""
        if node != self._fetching or self.role != FOLLOWER:
            return False
        self._fetching = -1
        if answer is None:
            self.leader = -1
            return True
        if answer.epoch > self.epoch:
            self._follow(answer.epoch, answer.leader, now)
            return False
        if answer.epoch < self.epoch:
            return True
        if answer.leader == self.me:
            return True  # it speaks of what this node was before it fell back
        if answer.leader >= 0 and self.leader != answer.leader:
            self.leader = answer.leader
            self.fetch(now)
            return False
        if answer.leader != node:
            return True
        self._wait(now)
        self._followed = True
        self._take(answer)
        self.fetch(now)
        return False

    def _take(self, answer: QuorumFetchResponse) -> None:
        if answer.base != self.end:
            return  # an answer to a question before this one
        if answer.cut >= 0:
            # What is left after the cut was not compared yet: it says nothing of what is committed.
            del self.entries[answer.cut :]
            return
        self.entries += answer.entries
        self.high_watermark = max(self.high_watermark, min(answer.high_watermark, self.end))

    # ---- leading

    def serve(self, request: QuorumFetch, now: int) -> QuorumFetchResponse | None:
        """Answer a fetch; None = nothing to bring yet: ask again when something happened."""
        if request.epoch > self.epoch and self.voter:
            self._follow(request.epoch, -1, now)
        if self.role != LEADER:
            return QuorumFetchResponse(self.epoch, self.leader)
        if request.epoch < self.epoch and request.end > 0 and request.epoch != self.epoch:
            # It learns the epoch first; its log is compared with the next fetch.
            return QuorumFetchResponse(self.epoch, self.me)
        cut = self._diverges(request.end, request.last_epoch)
        if cut >= 0:
            return QuorumFetchResponse(self.epoch, self.me, request.end, self.high_watermark, (), cut)
        before = self.high_watermark
        if request.replica in self.voters:
            self._heard[request.replica] = now
            self._ends[request.replica] = request.end
            self._commit()
        if request.end >= self.end and before == self.high_watermark:
            return None
        return self.held(request)

    def held(self, request: QuorumFetch) -> QuorumFetchResponse:
        """The answer to a fetch that waited long enough."""
        if self.role != LEADER:
            return QuorumFetchResponse(self.epoch, self.leader)
        entries = tuple(self.entries[request.end : request.end + MOST])
        return QuorumFetchResponse(self.epoch, self.me, request.end, self.high_watermark, entries)

    def _diverges(self, end: int, last_epoch: int) -> int:
        """Where a follower that ends at (end, last_epoch) has to cut back to, -1 = nowhere."""
        if end == 0:
            return -1
        if end <= self.end and self.entries[end - 1][0] == last_epoch:
            return -1
        at = min(end, self.end)
        while at and self.entries[at - 1][0] > last_epoch:
            at -= 1
        return at if at < end else end - 1

    def _commit(self) -> None:
        """A record is committed once a majority has it and one of the leader's own epoch (Raft, 5.4.2)."""
        ends = sorted([self.end, *(self._ends.get(v, 0) for v in self.voters if v != self.me)])
        at = ends[(len(ends) - 1) // 2]
        if "controller-decides-alone" in self.settings.bugs:
            at = self.end
        own = at > 0 and self.entries[at - 1][0] == self.epoch
        if at > self.high_watermark and own:
            self.high_watermark = at
