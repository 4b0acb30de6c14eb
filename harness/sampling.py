"""Looks at the cluster while a run goes on: who leads what, and where the logs end.

Each has a thread of its own. A look is bounded and may take seconds on a broken cluster; looks of one
kind never overlap, and what a look brings after `stop` was called is thrown away: the cluster may have
been stopping.

Not here: what the interpreter waits for (`harness.interpreter`), final bounds (`harness.bounds`).
"""

import threading
import time
from collections.abc import Iterable, Mapping
from itertools import count

from harness.cluster import Cluster, Roles
from harness.events import EndsSeen, RolesSeen
from harness.op import Isolation, TopicPartition
from harness.recorder import Recorder
from harness.session import drive

ROLES_S = 0.5
"""Distance between looks at who leads what."""
ENDS_S = 2.0
"""Distance between looks at the ends of the logs; one that takes longer costs the next."""


class Sampler:
    """`roles` is the newest look at who leads what; `tps` are the data partitions: the workload's, and
    the ones of all other topics that were ever seen, but for internal ones (`__…`)."""

    def __init__(self, cluster: Cluster, recorder: Recorder, tps: Iterable[TopicPartition]) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._tps = set(tps)
        self.roles = Roles(ns=0)

    @property
    def tps(self) -> tuple[TopicPartition, ...]:
        """The data partitions, sorted."""
        with self._lock:
            return tuple(sorted(self._tps))

    def start(self) -> None:
        """Begin to look."""
        for look in (self._look_at_roles, self._look_at_ends):
            threading.Thread(target=look, name=look.__name__, daemon=True).start()

    def stop(self) -> None:
        """No further looks; idempotent."""
        self._stop.set()

    def take(self, roles: Roles) -> None:
        """Learn from a look that was made elsewhere."""
        with self._lock:
            self._tps.update(tp for tp in roles.leaders if not tp.topic.startswith("__"))

    def _look_at_roles(self) -> None:
        before: tuple[object, ...] = ()
        while not self._stop.is_set():
            roles = drive(self._cluster.roles())
            if self._stop.is_set():
                return
            self.take(roles)
            self.roles = roles
            seen = seen_of(roles)
            now = (seen.leaders, seen.isr, seen.controller, seen.answering, seen.agreed)
            if now != before:
                before = now
                self._recorder.write(seen)
            self._stop.wait(ROLES_S)

    def _look_at_ends(self) -> None:
        begin = time.monotonic()
        for number in count():
            due = begin + ENDS_S * number
            late = time.monotonic() - due
            if late >= ENDS_S:
                continue
            if self._stop.wait(max(0.0, -late)):
                return
            tps = self.tps
            ns = time.monotonic_ns()
            # In this order, so that a log that grows meanwhile does not seem to hold an LSO above HW.
            lso = drive(self._cluster.offsets(tps, Isolation.READ_COMMITTED))
            hw = drive(self._cluster.offsets(tps, Isolation.READ_UNCOMMITTED))
            if self._stop.is_set():
                return
            self._recorder.write(EndsSeen(ns=ns, hw=ends_of(hw), lso=ends_of(lso)))


def seen_of(roles: Roles) -> RolesSeen:
    """A look as an event."""
    return RolesSeen(
        ns=roles.ns,
        leaders={str(tp): node for tp, node in sorted(roles.leaders.items())},
        isr={str(tp): nodes for tp, nodes in sorted(roles.isr.items())},
        controller=roles.controller,
        answering=roles.answering,
        agreed=roles.agreed,
    )


def ends_of(offsets: Mapping[TopicPartition, tuple[int, int]]) -> dict[str, int]:
    """The listed ends, as `EndsSeen` has them."""
    return {str(tp): end for tp, (_, end) in sorted(offsets.items())}
