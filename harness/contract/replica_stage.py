"""`PartitionStage` on Kafka: one partition on a few real brokers, whose messages wait for steps.

Each message that a step of the model's stage lets go has a lane here (`lanes`): a follower's fetch and its
answer, a leader's AlterPartition and its answer, a broker's fetch of the metadata log; and heartbeats, where
a step isolates a broker. The last broker of the cluster has no replica: it is the witness of what the
controller decided.

Time passes really, and `PACE` times slower than the story's; none passes in the story while a step does its
work. So a fetch that a leader keeps may come back empty though no time has passed: the follower asks again.
A leader has to ask for an in-sync set without a follower that lags, and not before its lag has run out.
"""

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Self, cast

from core.wire import fetcher_id, reader_id
from harness.brokers.admin.connection import AdminError
from harness.contract import replicas
from harness.contract.caught_up import CaughtUp
from harness.contract.dialect import error_of
from harness.contract.lanes import MESSAGE_S, POLL_S, Lane
from harness.contract.leader_broker import LeaderBroker
from harness.contract.replica_place import ReplicaPlace
from harness.contract.replica_settings import (
    CHECKPOINT_MS,
    FETCH_WAIT_MS,
    PACE,
    fetch_wait_ms,
    topic_settings,
)
from harness.contract.replicas import Known, SeenReplica
from harness.contract.stage import READY_S, RESTART_S, NotOnKafka
from harness.processes.waiting import NotYet, not_yet, until
from model.broker import Broker
from model.errors import KafkaError
from model.protocol.messages import Partition, PartitionState
from model.replication.replica import Replica
from model.settings import Settings
from scenarios.drivers.partition import ALTER_ANSWERED, ANSWERED, ASKS, EXPIRED, KEPT, TP, PartitionStage

TICK_MS: Final = 50
"""Of clocks: a time that has run out for a broker may not quite have for the harness."""
LATE_MS: Final = 10_000
"""A broker that answers a fetch so long after its time did not see that this had run out."""
MOVED_S: Final = 5.0
"""A leader has handled the controller's answer by then: its high watermark has moved, or does not."""
KEPT_S: Final = 0.5
"""A leader with nothing to bring has answered by then, or keeps the fetch."""


class ReplicaStage(PartitionStage):
    """See the module."""

    def __init__(
        self, place: ReplicaPlace, replicas: Sequence[int], settings: Settings, *, spare: Sequence[int] = ()
    ) -> None:
        """Raises: AdminError, ClusterError, NotYet."""
        self.place = place
        self._fetching: dict[tuple[int, int], Lane] = {}
        self._altering: dict[int, Lane] = {}
        self._telling: dict[int, Lane] = {}
        self._beating: dict[int, Lane] = {}
        self._asked: dict[int, tuple[float, int]] = {}
        """Follower -> when its newest fetch reached its leader: by a clock, and in the story."""
        self._renewed: set[int] = set()
        """Followers that learned the next epoch of their leader while a fetch of theirs was under way: its
        answer says nothing to them."""
        self._delayed: set[int] = set()
        """Followers that met an error in this epoch, and have got no records since."""
        self._caught_up = CaughtUp()
        self._shrunk = False
        """The newest AlterPartition took a follower out of the in-sync set."""
        super().__init__(replicas, settings, spare=spare)

    def _begin(self, partitions: Sequence[Sequence[int]], coordinators: Sequence[int]) -> None:
        place, brokers = self.place, self._brokers
        place.begin()
        for n in place.brokers:
            until(RESTART_S, POLL_S, partial(self._must_know_alive, n, place.brokers))
        for f in brokers:
            for n in brokers:
                if f != n:
                    self._fetching[f, n] = place.lane("fetch", fetcher_id(f), to=n, answers=True)
            self._altering[f] = place.lane("alter_partition", str(f), answers=True)
        self._caught_up.led(partitions[0][0], place.clock_ns(), partitions[0])
        place.create(partitions[0], topic_settings(self.settings))
        for n in brokers:
            until(READY_S, POLL_S, partial(self._must_know_as_witness, n))
            self.nodes[n] = cast("Broker", LeaderBroker(place, n))
            self._hold_metadata(n)
        for f in partitions[0][1:]:
            self._fetching[f, partitions[0][0]].await_request()

    def _hold_metadata(self, n: int) -> None:
        """From now on its fetches of the metadata log wait."""
        self._telling[n] = self.place.lane("fetch", reader_id(n), answers=False)
        self._telling[n].await_request()

    # ---- what brokers know

    @not_yet(AdminError)
    def _knows(self, n: int) -> Known | None:
        return self.place.known(n)

    def _followed(self, n: int) -> int:
        """Whom a broker takes for the leader."""
        known = self._knows(n)
        return known.leader if known is not None else -1

    @not_yet(AdminError)
    def _alive(self, n: int) -> frozenset[int]:
        return self.place.alive(n)

    def _must_know_alive(self, n: int, alive: Collection[int]) -> None:
        if missing := frozenset(alive) - self._alive(n):
            raise NotYet(f"broker {n} takes {sorted(missing)} for fenced")

    def _must_know_fenced(self, n: int) -> None:
        if n in self._alive(self.place.witness):
            raise NotYet(f"the session of broker {n} does not end")

    def _must_know_as_witness(self, n: int) -> None:
        if (known := self._knows(n)) is None or known != self._knows(self.place.witness):
            raise NotYet(f"broker {n} does not know what the controller decided, but {known}")

    def _await_witness(self) -> None:
        """Returns when the witness has all of the metadata log."""
        until(READY_S, POLL_S, not_yet(AdminError)(self.place.must_be_current))

    # ---- state

    @property
    def state(self) -> PartitionState:
        """As the witness describes it. Raises: AdminError, NotYet."""
        return self.place.state()

    @property
    def unfenced(self) -> set[int]:
        """See `PartitionStage`. By the word of the witness. Raises: NotYet."""
        return set(self._alive(self.place.witness)) - {self.place.witness}

    @property
    def running(self) -> set[int]:
        """See `PartitionStage`."""
        return set(self.nodes)

    def leader(self, tp: Partition) -> int:
        """See `ClusterStage`."""
        return self.state.leader

    def replica(self, tp: Partition, n: int = -1) -> Replica | None:
        """What requests show of it: a `SeenReplica`. Raises: AdminError."""
        n = n if n >= 0 else self.leader(tp)
        return cast("Replica | None", self._seen(n) if n in self.nodes else None)

    def epochs(self, n: int) -> Sequence[tuple[int, int]] | None:
        """See `PartitionStage`. Raises: AdminError."""
        seen = self._seen(n) if n in self.nodes else None
        if seen is None:
            return None
        # to the epoch after the newest that the broker knows: its log has none from there on
        newest = max(seen.state.leader_epoch, *(batch.epoch for batch in seen.log.batches), 0) + 1
        return replicas.epoch_begins(seen.log.start, newest, partial(self.place.epoch_end, n))

    def _seen(self, n: int) -> SeenReplica | None:
        part = self.place.ask(replicas.of_replica(TP), n).parts[TP]
        log, known = replicas.seen_log(part), self._knows(n)
        if log is None or known is None:
            return None
        state = PartitionState(known.replicas, known.isr, known.leader, known.leader_epoch)
        return SeenReplica(n, log, part.high_watermark, state)

    # ---- followers and their leader

    def _lane(self, follower: int, at: int = -1) -> Lane:
        """Between a follower and its leader, or the one of before."""
        at = at if at >= 0 else self._followed(follower)
        if (follower, at) not in self._fetching:
            raise NotYet(f"broker {follower} follows none of these brokers, but {at}")
        return self._fetching[follower, at]

    def fetch(self, follower: int, *, at: int = -1) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        lane = self._lane(follower, at)
        lane.let_request()
        self._asked[follower] = time.monotonic(), self.now
        if at < 0:
            self._note_fetch(follower, lane)
        return self

    def _note_fetch(self, follower: int, lane: Lane) -> None:
        """A fetch that shows its leader what the follower has: of the same epoch, where their logs agree."""
        mine = self._seen(follower)
        if mine is None or mine.state.leader not in self.nodes:
            return
        leader = mine.state.leader
        theirs = self._seen(leader)
        if theirs is None or theirs.state.leader_epoch != mine.state.leader_epoch:
            return
        own, every = list(mine.log.records()), list(theirs.log.records())
        if every[: len(own)] == own:
            self._caught_up.fetched(leader, follower, lane.reached_ns(), mine.log.end, theirs.log.end)

    def answer(self, follower: int) -> Self:
        """See `PartitionStage`; and the follower has done what it says when this returns. Raises: NotYet."""
        lane = self._lane(follower)
        before = self._ended(self._seen(follower))
        lane.await_answer(MESSAGE_S)
        self._take_answer(follower, lane)
        asked_s, asked = self._asked.get(follower, (0.0, 0))
        expired = time.monotonic() - asked_s >= fetch_wait_ms(self.settings) / 1000
        in_the_story = self.now - asked >= self.settings.fetch_wait_ms
        same = self._ended(self._seen(follower))[0] == before[0]
        if expired and not in_the_story and same and self._brings(follower):
            self.fetch(follower)
            self._take_answer(follower, lane)
        return self

    def asked(self, follower: int) -> str | None:
        """See `PartitionStage`. A fetch whose time ran out in reality and not in the story is as in the
        story: it says nothing. Raises: AdminError, NotYet."""
        lane = self._fetching.get((follower, self._followed(follower)))
        if lane is None or not (lane.arrived() or lane.answers()):
            return None
        late = self.now - self._asked.get(follower, (0.0, self.now))[1] >= self.settings.fetch_wait_ms
        try:
            (*_, answer) = lane.await_answer(MESSAGE_S if late else KEPT_S)
        except NotYet:
            return KEPT
        took_ms = lane.took_ns(answer) / 1e6
        if took_ms < FETCH_WAIT_MS - TICK_MS:
            return ANSWERED
        if took_ms > FETCH_WAIT_MS + LATE_MS:
            return f"answered after {took_ms / 1000:.0f} s"
        if late:
            return EXPIRED
        return ANSWERED if self._brings(follower) else KEPT

    def sends(self, follower: int) -> bool:
        """See `PartitionStage`. Raises: NotYet."""
        lane = self._fetching.get((follower, self._followed(follower)))
        return lane is not None and bool(lane.requests())

    def cut(self, follower: int, *, at: int = -1) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        self._lane(follower, at).lose()
        self._delayed.add(follower)
        return self

    def _take_answer(self, follower: int, lane: Lane) -> None:
        """The answer that waits arrives; where it is not an error, the follower asks again at once. After an
        error it delays the partition, and sends a fetch that takes it out of the session with the leader
        (KIP-227). The story has no such message."""
        watched = follower in self._delayed
        before = self._ended(self._seen(follower))[0] if watched else 0
        error, renewed = lane.let_answer().error, follower in self._renewed
        self._renewed.discard(follower)
        if not error:
            lane.await_request()
            end = self._ended(self._seen(follower))[0] if watched else 0
            if end > before:
                self._delayed.discard(follower)
            delayed = end < before and self.place.delays_again
        else:
            delayed = error != KafkaError.OFFSET_OUT_OF_RANGE and not renewed
        if delayed:
            self._delayed.add(follower)
            lane.let_request()
            lane.let_answer()

    @staticmethod
    def _ended(seen: SeenReplica | None) -> tuple[int, int]:
        return (seen.log.end, seen.high_watermark) if seen is not None else (-1, -1)

    def _brings(self, follower: int) -> bool:
        """Whether the follower's leader has something else than the follower has."""
        mine = self._seen(follower)
        if mine is None or mine.state.leader not in self.nodes:
            return False
        leader = self._seen(mine.state.leader)
        return leader is not None and list(leader.log.records()) != list(mine.log.records())

    def rounds(self, *followers: int, most: int = 20) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        for follower in followers:
            for _ in range(most):
                if not self._round(follower):
                    break
        return self

    def _round(self, follower: int) -> bool:
        """The follower asks and is answered; false where its leader keeps the fetch, or there is none."""
        known = self._knows(follower)
        if known is None or follower not in known.replicas or known.leader not in {*self.nodes} - {follower}:
            return False
        lane = self._lane(follower)
        if not lane.answers():
            if not lane.arrived():
                self.fetch(follower)
            try:
                lane.await_answer(MESSAGE_S if self._brings(follower) else KEPT_S)
            except NotYet:
                return False
        self._take_answer(follower, lane)
        return True

    def settle(self) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        for _ in range(5):
            self.rounds(*self.running)
            found = {n: self._seen(n) for n in self.running}
            ends = {n: self._ended(seen) for n, seen in found.items() if seen is not None}
            late = [n for n, end in ends.items() if end != ends.get(self.state.leader, end)]
            if not late:
                self.place.wait(CHECKPOINT_MS)
                self.now += 5000
                return self
            self.place.wait(self.settings.fetch_wait_ms)
            for follower in late:
                lane = self._lane(follower)
                if lane.arrived() or lane.answers():
                    lane.await_answer()
        raise NotYet(f"replicas do not come to the same: {ends}")

    # ---- the controller

    def alter(self, leader: int) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        lane, before = self._altering[leader], self.state.isr
        request = lane.let_request(self.settings.replica_lag_ms * PACE * 1.5 / 1000 + MESSAGE_S)
        (*_, answer) = lane.await_answer()
        self.decision = error_of(answer.error or 0)
        self._await_witness()
        after = self.state
        out = {*before} - {*after.isr}
        self._shrunk = bool(out)
        for follower in sorted(out & {*after.replicas}):  # others end with a reassignment
            self._must_have_lagged(leader, follower, request.ns)
        return self

    def _must_have_lagged(self, leader: int, follower: int, ns: int) -> None:
        """Raises: NotYet, where a leader asked at this time to take out a follower whose lag is too short."""
        lag_ms = (ns - self._caught_up.since(leader, follower)) / 1e6
        allowed_ms = self.settings.replica_lag_ms * PACE
        if lag_ms < allowed_ms - TICK_MS:
            early = f"{lag_ms / 1000:.1f} s after that had everything, not {allowed_ms / 1000:.0f} s"
            raise NotYet(f"broker {leader} takes {follower} out of the ISR {early}")

    def altered(self, leader: int) -> Self:
        """See `PartitionStage`. Where followers are out, the high watermark may move: a consumer that asks
        after this, and asks once, has to find it there. Raises: NotYet."""
        before = self._ended(self._seen(leader))
        self._altering[leader].let_answer()

        def moved() -> None:
            if self._ended(self._seen(leader)) == before:
                raise NotYet("the high watermark stays")

        if self._shrunk:
            with suppress(NotYet):
                until(MOVED_S, POLL_S, moved)
        return self

    def altering(self, leader: int) -> str | None:
        """See `PartitionStage`."""
        lane = self._altering[leader]
        return ASKS if lane.requests() else ALTER_ANSWERED if lane.answers() else None

    def tell(self, *brokers: int) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        self._await_witness()
        for n in brokers:
            before, ns = self._knows(n), self.place.clock_ns()
            until(READY_S, POLL_S, partial(self._tell_one, n))
            self._follow(n, before, self._knows(n), ns)
        return self

    def _follow(self, n: int, before: Known | None, after: Known | None, ns: int) -> None:
        """A broker learned, after this time, whom it follows now, or that it leads."""
        if before is None or after is None or before.leader_epoch != after.leader_epoch:
            self._delayed.discard(n)
        if before is not None and after is not None and before.leader != after.leader:
            lane = self._fetching.get((n, before.leader))
            if lane is not None:
                lane.lose()  # with the fetcher, which ended
            self._renewed.discard(n)
        elif before is not None and after is not None and before.leader_epoch != after.leader_epoch:
            lane = self._fetching.get((n, after.leader))
            if lane is not None and (lane.requests() or lane.arrived() or lane.answers()):
                self._renewed.add(n)
        epoch = (before.leader, before.leader_epoch) if before is not None else ()
        if after is not None and after.leader == n and epoch != (n, after.leader_epoch):
            self._caught_up.led(n, ns, after.isr)

    def _tell_one(self, n: int) -> None:
        """One answer to a broker's fetch of the metadata log. Raises: NotYet, where more is to come."""
        self._telling[n].let_request()
        self._telling[n].await_request()
        until(KEPT_S, POLL_S, partial(self._must_know_as_witness, n))

    def isolate(self, *brokers: int) -> Self:
        """See `PartitionStage`."""
        for n in brokers:
            if n not in self._beating:
                self._beating[n] = self.place.lane("broker_heartbeat", str(n), answers=False)
        return self

    def heal(self, *brokers: int) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        healed = brokers or tuple(self._beating)
        self._beat(*healed)
        until(RESTART_S, POLL_S, partial(self._must_know_alive, self.place.witness, healed))
        self.now += 500
        return self.tell(*(brokers or self.running))

    def _beat(self, *brokers: int) -> None:
        for n in brokers:
            if (lane := self._beating.pop(n, None)) is not None:
                lane.close()

    def fence(self, *brokers: int) -> Self:
        """See `PartitionStage`. Raises: NotYet."""
        self.isolate(*(n for n in brokers if n in self.nodes))
        for n in brokers:
            until(RESTART_S, POLL_S, partial(self._must_know_fenced, n))
        self._await_witness()
        return self

    def elect(self, *, unclean: bool = False) -> Self:
        """See `PartitionStage`. Raises: AdminError."""
        self.place.elect(unclean=unclean)
        self._await_witness()
        return self

    def reassign(self, *replicas: int) -> Self:
        """See `PartitionStage`. Raises: ClusterError."""
        self.place.reassign(replicas)
        self._await_witness()
        return self

    # ---- processes and time

    def crash(self, *nodes: int) -> Self:
        """See `PartitionStage`. Raises: ClusterError."""
        for n in nodes:
            self._acknowledge(n)
            self.place.kill(n)
            for (follower, _), lane in self._fetching.items():
                if follower == n:
                    lane.lose()
            self._altering[n].lose()
            self._telling[n].lose()
            self._beat(n)
            del self.nodes[n]
            self._break(n)
        return self.flow()

    def _acknowledge(self, n: int) -> None:
        """What a broker has to answer producers has been said before it dies."""
        seen, broker = self._seen(n), cast("object", self.nodes[n])
        if seen is not None and isinstance(broker, LeaderBroker):
            broker.answer_up_to(seen.high_watermark)
        self.flow()

    def lose_power(self, *brokers: int) -> Self:
        """Raises: NotOnKafka."""
        raise NotOnKafka("what a real broker has not flushed is not known")

    def restart(self, *nodes: int, noticed: bool = True) -> Self:
        """See `PartitionStage`. Raises: ClusterError, NotYet, NotOnKafka."""
        if not noticed:
            raise NotOnKafka("a real broker registers again only when its old session has ended")
        for n in nodes:
            self._telling[n].close()
            ns = self.place.clock_ns()
            self.place.revive(n)
            until(RESTART_S, POLL_S, partial(self._must_know_alive, self.place.witness, [n]))
            self._await_witness()
            until(READY_S, POLL_S, partial(self._must_know_as_witness, n))
            self.nodes[n] = cast("Broker", LeaderBroker(self.place, n))
            self._follow(n, None, self._knows(n), ns)
            self._hold_metadata(n)
        return self

    def wait(self, milliseconds: int) -> Self:
        """See `PartitionStage`."""
        self.place.wait(milliseconds)
        self.now += milliseconds
        return self.flow()

    def flush(self, *brokers: int) -> Self:
        """What is flushed no request tells: nothing depends on it here."""
        return self
