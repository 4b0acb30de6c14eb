"""Looks at the cluster during a run: which node leads what, where the logs end, which nodes ended unasked;
and at the clocks of the machine.

Three tasks. A look is bounded and may take seconds on a broken cluster; looks of one kind never overlap. One
that returns after `stop` is discarded: the cluster may have been stopping.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace

from core.cluster import Cluster, NodeEnd, Roles
from core.errors import ClusterError, EndsMissed
from core.internal_topics import internal
from core.op import Isolation, TopicPartition
from core.runtime import Clock, ClockJump, Runtime, Signal
from history.events import ClockJumped, EndsSeen, EndsUnseen, Event, NodeEnded, RolesSeen

ROLES_S = 0.5
"""Distance between looks at the leaders, and at the nodes."""
ENDS_S = 2.0
"""Distance between looks at the ends of the logs; one that takes longer costs the next."""


@dataclass(slots=True)
class ClusterMonitor:
    """write: takes events, from any thread. data: the data partitions known so far. topics: of the run;
    None = all that there are. epochs: whether leader epochs are written down, too. apart: topics without data
    of the workload's."""

    cluster: Cluster
    runtime: Runtime
    write: Callable[[Event], None]
    data: set[TopicPartition]
    topics: frozenset[str] | None = None
    ends_s: float = ENDS_S
    epochs: bool = False
    apart: frozenset[str] = frozenset()
    roles: Roles = field(default_factory=lambda: Roles(ns=0))
    """The newest look at the leaders."""
    ended: list[NodeEnd] = field(default_factory=list)
    """Nodes that ended unasked, in the order in which that was seen."""
    blind: str = ""
    """Why the last look at the nodes saw nothing, "" = it did."""
    jumped: list[ClockJump] = field(default_factory=list)
    _stop: Signal = field(init=False)
    _clock: Clock = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._stop = self.runtime.signal()
        self._clock = self.runtime.clock(self._stop)

    @property
    def tps(self) -> tuple[TopicPartition, ...]:
        """The data partitions, sorted: the workload's, and those of every other topic that was ever seen
        except internal ones (`__…`) and those apart."""
        with self._lock:
            return tuple(sorted(self.data))

    def start(self) -> None:
        """Begin to look."""
        self.runtime.spawn("roles", self._look_at_roles())
        self.runtime.spawn("nodes", self._look_at_nodes())
        self.runtime.spawn("ends", self._look_at_ends())

    def stop(self) -> None:
        """No further looks; idempotent."""
        self._stop.set()

    async def look_at_nodes(self) -> None:
        """See now which nodes have ended, and whether clocks jumped."""
        ends: Sequence[NodeEnd] = ()
        why, self.blind = "", ""
        try:
            ends = await self.cluster.ended()
        except EndsMissed as error:
            why = str(error)
        except ClusterError as error:
            self.blind = str(error)
        if self._stop.is_set():
            return
        if why:
            self.write(EndsUnseen(ns=self.runtime.now_ns(), why=why))
        for end in ends:
            self.write(NodeEnded(ns=self.runtime.now_ns(), end=end))
            self.ended.append(end)
        if (jump := self.runtime.clock_jump()) is not None:
            self.write(ClockJumped(**jump._asdict()))
            self.jumped.append(jump)

    async def _look_at_nodes(self) -> None:
        while not self._stop.is_set():
            await self.look_at_nodes()
            await self._clock.sleep(ROLES_S)

    async def look(self) -> None:
        """Look at the leaders now."""
        self._take(await self._roles())

    async def _roles(self) -> Roles:
        roles = await self.cluster.roles()
        topics = self.topics
        return roles if topics is None else roles.about(lambda name: name in topics or internal(name))

    def _take(self, roles: Roles) -> None:
        with self._lock:
            seen = (tp for tp in roles.leaders if not internal(tp.topic))
            self.data.update(tp for tp in seen if tp.topic not in self.apart)
        self.roles = roles

    async def _look_at_roles(self) -> None:
        before: RolesSeen | None = None
        while not self._stop.is_set():
            roles = await self._roles()
            if self._stop.is_set():
                return
            self._take(roles)
            seen = _seen(roles, epochs=self.epochs)
            if before is None or replace(seen, ns=before.ns) != before:
                before = seen
                self.write(seen)
            await self._clock.sleep(ROLES_S)

    async def _look_at_ends(self) -> None:
        begin = self._clock.now_ns()
        for number in count():
            due = self.ends_s * number - (self._clock.now_ns() - begin) / 1e9
            if due <= -self.ends_s:
                continue
            await self._clock.sleep(due)
            if self._stop.is_set():
                return
            tps = self.tps
            ns = self._clock.now_ns()
            # In this order, so that a log that grows meanwhile does not seem to hold an LSO above HW.
            lso = await self.cluster.offsets(tps, Isolation.READ_COMMITTED)
            hw = await self.cluster.offsets(tps, Isolation.READ_UNCOMMITTED)
            if self._stop.is_set():
                return
            self.write(EndsSeen(ns=ns, hw=_ends(hw), lso=_ends(lso)))


def _seen(roles: Roles, *, epochs: bool) -> RolesSeen:
    """A look as an event."""
    return RolesSeen(
        ns=roles.ns,
        leaders={str(tp): node for tp, node in sorted(roles.leaders.items())},
        isr={str(tp): nodes for tp, nodes in sorted(roles.isr.items())},
        controller=roles.controller,
        answering=roles.answering,
        agreed=roles.agreed,
        epochs={str(tp): epoch for tp, epoch in sorted(roles.leader_epochs.items())} if epochs else {},
    )


def _ends(offsets: Mapping[TopicPartition, tuple[int, int]]) -> dict[str, int]:
    """The listed ends, as `EndsSeen` has them."""
    return {str(tp): end for tp, (_, end) in sorted(offsets.items())}
