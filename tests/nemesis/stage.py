"""A stage for nemeses that only records what is done on it: a cluster, clients and a clock.

It is as strict as a real one where nemeses rely on it: a dead node cannot be paused, and dies thawed;
a leader whose followers cannot fetch is alone in sync after a while; a started broker needs a while to
be in sync. Time passes only when somebody sleeps.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from core.capabilities import Cut, Listener, Toxic
from core.cluster import Endpoint, NodeEnd, OpenTransaction, Roles
from core.errors import ClusterError
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.load_clients import ClientSlot, CrashPoint
from core.op import Isolation, TopicPartition
from core.wire import Seen, WireRule
from nemesis.types import Environment, WorkloadNames

DATA = tuple(TopicPartition("q", number) for number in range(4))
INTERNAL = tuple(TopicPartition(topic, n) for topic in (TRANSACTION_TOPIC, GROUP_TOPIC) for n in range(5))
CLIENTS = (
    ClientSlot(slot=0, produces=True),
    ClientSlot(slot=1, transactional_id="tx-0", produces=True),
    ClientSlot(slot=2, transactional_id="tx-1", produces=True, group="g"),
    ClientSlot(slot=3, group="g"),
)
NAMES = WorkloadNames(data=DATA, transactional_ids=("tx-0", "tx-1"), groups=("g",), clients=CLIENTS)
LAG_S = 3.0
"""How long followers that cannot fetch stay in sync."""
ALWAYS = 2**62
"""A client gets records acknowledged all the time, if nothing else is said."""
HIGH_WATERMARK = 101
START_S = 6.0
"""How long a started broker is not in sync."""

Broken = Sequence[tuple[str, int]]
"""(verb, node or slot) pairs that fail."""


class FakeClock:
    """Time that passes by sleeping; `then` is called after each sleep."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.then: Callable[[], None] = lambda: None

    def now_ns(self) -> int:
        return round(self.now_s * 1e9)

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.then()


class WokenClock:
    """The clock of a stage: once the run is being stopped, sleeping takes no time."""

    def __init__(self, clock: FakeClock, stopping: Callable[[], bool]) -> None:
        self._clock = clock
        self._stopping = stopping

    def now_ns(self) -> int:
        return self._clock.now_ns()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(0.0 if self._stopping() else seconds)


class Recorder:
    """Remembers calls, and fails where it was told to."""

    def __init__(self, broken: Broken = ()) -> None:
        self.broken = set(broken)
        self.calls: list[tuple[str, tuple[int, ...]]] = []

    def works(self, verb: str, ids: Sequence[int]) -> list[int]:
        """For whom the verb works; `told` raises at the end, as a real cluster does."""
        self.calls.append((verb, tuple(ids)))
        return [one for one in ids if (verb, one) not in self.broken]

    def told(self, verb: str, ids: Sequence[int]) -> None:
        if failed := [one for one in ids if (verb, one) in self.broken]:
            raise ClusterError(f"{verb} of {failed[0]} failed")


class Recording(Recorder):
    """A cluster with all capabilities that holds what is in force."""

    def __init__(
        self,
        brokers: int = 5,
        broken: Broken = (),
        *,
        controllers: int = 0,
        replication: int = 4,
        clock: FakeClock | None = None,
    ) -> None:
        super().__init__(broken)
        self.brokers = tuple(range(1, brokers + 1))
        self.nodes = tuple(range(1, brokers + controllers + 1))
        self.clock = clock or FakeClock()
        self.dead: set[int] = set()
        self.frozen: set[int] = set()
        self.cuts: set[Cut] = set()
        self.toxics: dict[int, tuple[Toxic, ...]] = {}
        self.rules: dict[int, WireRule] = {}
        self.full: set[int] = set()
        """Nodes without space on their disks."""
        self.halved: set[int] = set()
        """Nodes whose second log directory is gone."""
        self.second = DATA[1:3]
        """Replicas in the second log directory of each node."""
        self.stubborn: set[int] = set()
        """Nodes that do not end in order, and are killed."""
        self.voteless: set[int] = set()
        """Nodes that were removed from the quorum's voters."""
        self.unflushed = 7
        """Batches that a node loses with its power."""
        self.unled = False
        """Nobody leads partitions that a topic got."""
        self.still_there: set[str] = set()
        """Topics whose deletion waits: no broker tells of them, and none is made under their names."""
        self.silent = False
        """No request comes that a rule could take, and no connection that a cut could stop."""
        self.since: dict[int, float] = {}
        """When a broker was started, or cut off from its followers."""
        self.order = {
            tp: (self.brokers[tp.partition % brokers :] + self.brokers[: tp.partition % brokers])[
                :replication
            ]
            for tp in DATA
        }
        self.usual = dict(self.order)
        self.led: dict[TopicPartition, int] = {}
        self.middle: dict[TopicPartition, tuple[int, ...]] = {}
        """The replicas that partitions had before a reassignment that lasts."""
        self.quick = False
        """A reassignment ends at once: none can be cancelled."""
        self.lag_s = LAG_S
        self.later: set[int] = set()
        """Nodes that have the later version."""
        self.lagging: tuple[int, ...] = ()
        self.features = {"metadata.version": (25, 31), "transaction.version": (1, 2)}
        self.raised = False
        self.starts: dict[TopicPartition, int] = {}
        """Where logs begin; those of which nothing was deleted begin at 0."""
        self.slow: dict[TopicPartition, tuple[int, float]] = {}
        """Partitions that are throttled: for which follower, and since when."""

    @property
    def alive(self) -> tuple[int, ...]:
        return tuple(node for node in self.brokers if node not in self.dead | self.frozen)

    @property
    def starting(self) -> bool:
        """A broker was started, or cut off, too little ago to be in sync."""
        return any(self.clock.now_s - since < START_S for since in self.since.values())

    @property
    def state(self) -> tuple[set[int], set[int], set[Cut], dict[int, tuple[Toxic, ...]]]:
        return set(self.dead), set(self.frozen), set(self.cuts), dict(self.toxics)

    @property
    def whole(self) -> bool:
        return self.state == (set(), set(), set(), {}) and not (
            self.rules or self.moved or self.slow or self.halved or self.full or self.voteless
        )

    @property
    def moved(self) -> set[TopicPartition]:
        """Partitions on other brokers than at the begin."""
        usual = dict.fromkeys(INTERNAL, self.brokers[:3]) | self.usual
        return {tp for tp, nodes in self.order.items() if set(nodes) != set(usual.get(tp, nodes))}

    # -- capabilities

    async def kill(self, nodes: Sequence[int]) -> None:
        done = self.works("kill", nodes)
        self.frozen.difference_update(done)
        self.dead.update(done)
        self.told("kill", nodes)

    each_flushed = False

    def flushes_each(self) -> bool:
        return self.each_flushed

    async def lose_power(self, nodes: Sequence[int], seed: int | None = None) -> int:
        done = self.works("lose_power", nodes)
        self.frozen.difference_update(done)
        self.dead.update(done)
        self.told("lose_power", nodes)
        return self.unflushed * len(done)

    async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
        self.dead.update(self.works("shut_down", nodes))
        self.told("shut_down", nodes)
        return [node for node in nodes if node in self.stubborn]

    def upgraded(self) -> tuple[int, ...]:
        return tuple(sorted(self.later))

    def features_raised(self) -> bool:
        return self.raised

    async def install(self, nodes: Sequence[int], *, later: bool) -> None:
        if set(nodes) - self.dead:
            raise ClusterError("a node that runs cannot change its version")
        if self.raised and not later:
            raise ClusterError("the features were raised")
        done = self.works("install", nodes)
        (self.later.update if later else self.later.difference_update)(done)
        self.told("install", nodes)

    async def lagging_voters(self) -> tuple[int, ...]:
        return self.lagging

    async def raise_features(self) -> Mapping[str, tuple[int, int]]:
        self.raised = True
        self.works("raise_features", [])
        return self.features

    async def revive(self, nodes: Sequence[int]) -> None:
        if self.full & set(nodes):
            raise ClusterError("a node does not start without space on its disk")
        done = self.works("revive", nodes)
        self.since |= {node: self.clock.now_s for node in done if node in self.dead}
        self.dead.difference_update(done)
        self.told("revive", nodes)

    async def pause(self, nodes: Sequence[int]) -> None:
        done = self.works("pause", nodes)
        if self.dead & set(done):
            raise ClusterError("a dead node cannot be paused")
        self.frozen.update(done)
        self.told("pause", nodes)

    async def resume(self, nodes: Sequence[int]) -> None:
        self.frozen.difference_update(self.works("resume", nodes))
        self.told("resume", nodes)

    async def cut(self, cuts: Sequence[Cut]) -> None:
        nodes = sorted({cut.node for cut in cuts})
        done = self.works("cut", nodes)
        self.since |= dict.fromkeys(done, self.clock.now_s)
        self.cuts.update(cut for cut in cuts if cut.node in done)
        self.told("cut", nodes)

    async def mend(self, cuts: Sequence[Cut]) -> None:
        nodes = sorted({cut.node for cut in cuts})
        done = self.works("mend", nodes)
        self.cuts.difference_update(cut for cut in cuts if cut.node in done)
        self.told("mend", nodes)

    async def stopped(self, nodes: Sequence[int]) -> int:
        return 0 if self.silent else sum(cut.opening and cut.node in nodes for cut in self.cuts)

    async def use_proxies(self) -> None: ...

    async def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        for node in self.works("poison", nodes):
            self.toxics[node] = self.toxics.get(node, ()) + tuple(toxics)
        self.told("poison", nodes)

    async def cure(self, nodes: Sequence[int]) -> None:
        for node in self.works("cure", nodes):
            self.toxics.pop(node, None)
        self.told("cure", nodes)

    async def use_wire(self) -> None: ...

    async def use_wire_between(self) -> None: ...

    async def use_wire_within(self) -> None: ...

    async def rule(self, rules: Sequence[WireRule]) -> None:
        numbers = self.works("rule", [rule.number for rule in rules])
        self.rules |= {rule.number: rule for rule in rules if rule.number in numbers}
        self.told("rule", [rule.number for rule in rules])

    async def seen(self, number: int | None = None) -> tuple[Seen, ...]:
        if number not in self.rules or self.silent:
            return ()
        return (
            Seen(
                ns=self.clock.now_ns(),
                rule=number,
                what="caught",
                node=2,
                connection=1,
                api=self.rules[number].api,
                version=1,
                correlation_id=1,
                client_id="client",
                named="tx-0",
            ),
        )

    async def lift(self, numbers: Sequence[int] = ()) -> None:
        for number in self.works("lift", numbers or tuple(self.rules)):
            self.rules.pop(number, None)
        self.told("lift", numbers)

    async def fail_writes(self, nodes: Sequence[int], within_s: float) -> None:
        done = self.works("fail_writes", nodes)
        self.dead.update(done)
        self.frozen.difference_update(done)
        self.told("fail_writes", nodes)

    async def fill_disks(self, nodes: Sequence[int], within_s: float) -> None:
        done = self.works("fill_disks", nodes)
        self.full.update(nodes)
        self.dead.update(done)
        self.frozen.difference_update(done)
        self.told("fill_disks", nodes)

    def full_disks(self) -> tuple[int, ...]:
        return tuple(sorted(self.full))

    async def free_disks(self, nodes: Sequence[int]) -> None:
        self.full.difference_update(self.works("free_disks", nodes))
        self.told("free_disks", nodes)

    async def fail_directory(self, node: int, within_s: float) -> tuple[TopicPartition, ...]:
        self.halved.update(self.works("fail_directory", [node]))
        self.told("fail_directory", [node])
        return self.second

    def failed_directories(self) -> tuple[int, ...]:
        return tuple(sorted(self.halved))

    async def mend_directories(self, nodes: Sequence[int]) -> None:
        done = self.works("mend_directories", nodes)
        if set(done) & self.halved - self.dead:
            raise ClusterError("a node that runs would not see its directory again")
        self.halved.difference_update(done)
        self.told("mend_directories", nodes)

    async def remove_voter(self, node: int, within_s: float) -> None:
        self.voteless.update(self.works("remove_voter", [node]))
        self.told("remove_voter", [node])

    def removed_voters(self) -> tuple[int, ...]:
        return tuple(sorted(self.voteless))

    async def add_voters(self, nodes: Sequence[int], within_s: float) -> None:
        done = self.works("add_voters", nodes)
        if set(done) & self.dead:
            raise ClusterError("a node that is down does not catch up")
        self.voteless.difference_update(done)
        self.told("add_voters", nodes)

    async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
        done = self.works("elect", [tp.partition for tp in tps])
        for tp in tps:
            if tp.partition in done and self.order[tp][0] in self.alive:
                self.led[tp] = self.order[tp][0]
        self.told("elect", [tp.partition for tp in tps])

    async def reorder(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        done = self.works("reorder", [tp.partition for tp in replicas])
        self.order |= {tp: tuple(ns) for tp, ns in replicas.items() if tp.partition in done}
        self.told("reorder", [tp.partition for tp in replicas])

    async def replicas(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        internal = {tp: self.brokers[:3] for tp in INTERNAL if tp not in self.order}
        return self.order | internal if self.alive else {}

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], within_s: float) -> None:
        done = self.works("reassign", [tp.partition for tp in replicas])
        for tp, nodes in replicas.items():
            if tp.partition in done:
                before = self.order.get(tp, self.brokers[:3])
                if not self.quick and set(nodes) != set(before):
                    self.middle.setdefault(tp, before)
                self.order[tp] = tuple(nodes)
        self.told("reassign", [tp.partition for tp in replicas])

    async def cancel_reassignments(
        self, tps: Sequence[TopicPartition], within_s: float
    ) -> tuple[TopicPartition, ...]:
        done = self.works("cancel", [tp.partition for tp in tps])
        had = {tp: self.middle.pop(tp) for tp in tps if tp.partition in done and tp in self.middle}
        self.order |= had
        self.told("cancel", [tp.partition for tp in tps])
        return tuple(had)

    async def add_partitions(self, counts: Mapping[str, int], within_s: float) -> None:
        for topic, count in counts.items():
            for number in range(count if self.works("add_partitions", [count]) else 0):
                self.order.setdefault(TopicPartition(topic, number), self.brokers[:3])
        self.told("add_partitions", list(counts.values()))

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        done = self.works("delete", [tp.partition for tp in offsets])
        self.starts |= {tp: offset for tp, offset in offsets.items() if tp.partition in done}
        return {tp: self.starts[tp] for tp in offsets if tp.partition in done}

    async def delete_topics(self, topics: Sequence[str], within_s: float) -> None:
        if self.works("delete_topics", [len(topics)]):
            self.order = {tp: nodes for tp, nodes in self.order.items() if tp.topic not in topics}
        self.told("delete_topics", [len(topics)])

    async def make_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str], within_s: float
    ) -> None:
        if self.works("make_topic", [partitions]):
            left = () if topic in self.still_there else range(partitions)
            made = [TopicPartition(topic, number) for number in left]
            new = [tp for tp in made if tp not in self.order]
            self.order |= {tp: self.usual.get(tp, self.brokers[:replication]) for tp in new}
        self.told("make_topic", [partitions])

    async def throttle(self, node: int, tps: Sequence[TopicPartition], rate: int) -> None:
        done = self.works("throttle", [node])
        self.slow = {tp: (node, self.clock.now_s) for tp in tps if node in done}
        self.told("throttle", [node])

    async def unthrottle(self, tps: Sequence[TopicPartition]) -> None:
        done = self.works("unthrottle", [tp.partition for tp in tps])
        self.slow = {tp: one for tp, one in self.slow.items() if tp not in tps or tp.partition not in done}
        self.told("unthrottle", [tp.partition for tp in tps])

    # -- what they see

    async def roles(self) -> Roles:
        alive = self.alive
        leaders = {tp: self._leader(tp) for tp in sorted({*self.order} - {*INTERNAL})}
        isr = {tp: self._isr(tp, leader) for tp, leader in leaders.items()}
        held = self.brokers[:3]
        for tp in INTERNAL:
            leaders[tp] = self.led[tp] if self.led.get(tp) in alive else alive[0] if alive else -1
            isr[tp] = tuple(node for node in held if node in alive and node != self._slow(tp))
        replicas = self.order | {tp: held for tp in isr if tp not in self.order}
        voters = [node for node in self.nodes if node not in self.brokers] or self.brokers
        up = [node for node in voters if node not in self.dead | self.frozen]
        controller = up[-1] if up else -1
        return Roles(
            ns=self.clock.now_ns(),
            leaders=leaders,
            isr=isr,
            replicas=replicas,
            controller=controller,
            answering=alive,
            agreed=alive == self.brokers,
        )

    def _leader(self, tp: TopicPartition) -> int:
        alive = [node for node in self.alive if node in self.order[tp]]
        if self.unled and tp not in DATA:
            return -1
        if self.led.get(tp) in alive:
            return self.led[tp]
        usual = sorted(self.order[tp])[tp.partition % len(self.order[tp])]
        preferred = [node for node in self.order[tp] if node in alive]
        return usual if usual in alive else preferred[0] if alive else -1

    def _isr(self, tp: TopicPartition, leader: int) -> tuple[int, ...]:
        now = self.clock.now_s
        unfed = {
            cut.peer for cut in self.cuts if cut.node == leader and cut.listener in (None, Listener.BROKER)
        }
        if now - self.since.get(leader, now) < self.lag_s:
            unfed = set()
        unfed.add(self._slow(tp))
        return tuple(
            node
            for node in self.order[tp]
            if node == leader
            or (
                node in self.alive
                and node not in unfed
                and (node not in self.since or now - self.since[node] >= START_S)
            )
        )

    def _slow(self, tp: TopicPartition) -> int:
        """A throttled follower is in sync until it has a new leader, and for some time then; 0 = none is
        slow."""
        slow, since = self.slow.get(tp, (0, 0.0))
        return slow if tp in self.led and self.clock.now_s - since >= self.lag_s else 0

    # -- not used by nemeses

    async def start(self) -> None: ...
    async def create_topic(self, *args: object) -> None: ...
    def endpoint(self) -> Endpoint:
        raise NotImplementedError

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        return {tp: (self.starts.get(tp, 0), HIGH_WATERMARK) for tp in tps}

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        raise NotImplementedError

    async def trouble(self) -> str:
        raise NotImplementedError

    async def ended(self) -> Sequence[NodeEnd]:
        raise NotImplementedError

    async def collect(self, into: Path) -> None: ...
    async def take_evidence(self, into: Path) -> list[str]:
        return []

    async def stop(self) -> None: ...


class RecordingClients(Recorder):
    """Clients that hold what is in force."""

    def __init__(self, slots: tuple[ClientSlot, ...] = CLIENTS, broken: Broken = ()) -> None:
        super().__init__(broken)
        self.slots = slots
        self.down: set[int] = set()
        self.paused: set[int] = set()
        self.points: list[CrashPoint] = []
        self.grown: list[TopicPartition] = []
        self.resting, self.remade = False, 0
        self.busy: tuple[int, ...] = ()
        self.looks: Callable[[], list[TopicPartition]] = list
        self.rested: list[tuple[str, list[TopicPartition]]] = []
        self.acked: dict[int, int] = {}

    @property
    def whole(self) -> bool:
        return not self.down and not self.paused

    def acked_ns(self, slot: int) -> int:
        return self.acked.get(slot, ALWAYS)

    async def crash(self, slots: Sequence[int], point: CrashPoint) -> None:
        self.points.append(point)
        if self.down & set(slots):
            raise ClusterError("it is not running")
        self.down.update(self.works("crash", slots))
        self.told("crash", slots)

    async def restart(self, slots: Sequence[int]) -> None:
        self.down.difference_update(self.works("restart", slots))
        self.told("restart", slots)

    async def pause(self, slots: Sequence[int]) -> None:
        self.paused.update(self.works("pause", slots))
        self.told("pause", slots)

    async def grow(self, tps: Sequence[TopicPartition]) -> None:
        self.grown += tps

    async def rest(self, within_s: float) -> tuple[int, ...]:
        self.resting = True
        self.rested.append(("rest", self.looks()))
        return self.busy

    async def work(self, remade: int) -> None:
        self.resting, self.remade = False, remade
        self.rested.append(("work", self.looks()))

    async def resume(self, slots: Sequence[int]) -> None:
        self.paused.difference_update(self.works("resume", slots))
        self.told("resume", slots)


def stage_of(
    cluster: Recording, clients: RecordingClients | None = None, stopping: Callable[[], bool] = lambda: False
) -> Environment:
    """A stage with this cluster, its clock, and these clients (default: four of all sorts)."""
    return Environment(
        cluster=cluster,
        clients=clients or RecordingClients(),
        clock=WokenClock(cluster.clock, stopping),
        stopping=stopping,
        healing_clock=cluster.clock,
    )
