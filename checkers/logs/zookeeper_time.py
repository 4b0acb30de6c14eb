"""How much time has passed for those who use ZooKeeper: while it is down, none can act and no session ends.

Its log does not say when it was down. Time counts in full where the run says that no fault hit its nodes, and
where one leader of an ensemble wrote before and after. Elsewhere no more than STILL_MS count between two
changes: ZooKeeper may have been down for the rest, or its clock was set.

A controller waits for answers of brokers for `controller.socket.timeout.ms`, which a run may set: a broker
that is paused gives none, and an answer may get lost (`late_ms`, `held_up_ms`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from typing import Final

from checkers.logs.zookeeper_log import ZooKeeperLog
from core.config import recorded_config
from core.flushing import number
from core.systems import KafkaSection, is_since
from history.events import NO_TARGET, ClockJumped, EndsUnseen, Event, FaultFailed, FaultStarted, NodeEnded
from history.reader import History

STILL_MS: Final = 5_000
LONGEST_SESSION_MS: Final = 10_000
"""A broker whose session lasts was heard of within that time (`harness.kafka.zookeeper.refused_session`)."""
EPOCH_BITS: Final = 32
"""A zxid has the leader's epoch above these, 0 = ZooKeeper is one node that elects none."""


class ZooKeeperTime:
    """Moments are times of the log, in ms. events: of the run, none = it is unknown what was done to it."""

    def __init__(self, log: ZooKeeperLog, events: Sequence[Event] = ()) -> None:
        self._ms = list(accumulate((ms for _, ms, _ in log.changes), max))
        jumped = any(isinstance(event, ClockJumped) for event in events)
        whole = bool(events) and not _may_have_been_down(log.nodes, events)
        leaders = [zxid >> EPOCH_BITS for zxid, *_ in log.changes]
        self._limits = [
            FULL if not jumped and (whole or 0 < one == other) else STILL_MS
            for one, other in pairwise(leaders)
        ]
        gaps = [after - before for before, after in pairwise(self._ms)]
        counted = (min(gap, most) for gap, most in zip(gaps, self._limits, strict=True))
        self._counted = list(accumulate(counted, initial=0))

    def passed(self, since: int, until: int) -> int:
        """How much time counts between two moments of the log."""
        return self._at(until) - self._at(since)

    def after(self, since: int, passed: int) -> int | None:
        """The moment at which that time has passed, None = the log ends before."""
        wanted = self._at(since) + passed
        row = bisect_left(self._counted, wanted)
        if row == len(self._counted):
            return None
        return self._ms[row] if not row else self._ms[row - 1] + wanted - self._counted[row - 1]

    def _at(self, moment: int) -> int:
        row = bisect_right(self._ms, moment) - 1
        if row < 0:
            return 0
        most = self._limits[row] if row < len(self._limits) else STILL_MS
        return self._counted[row] + min(moment - self._ms[row], most)


FULL: Final = 1 << 62


# ---- for how long a controller may wait

ANSWERED: Final = "controller.socket.timeout.ms"
ANSWERED_MS: Final = 1_000
"""As the harness sets it (`docker/kafka/broker.properties`): rules take it into account as it is."""
HELD_UP_NO_MORE: Final = "2.1.1"
"""From here on a controller that removes a broker gives up what it has asked it for (KAFKA-7576)."""


def late_ms(history: History | None) -> int:
    """How much longer than in usual runs a controller waits for an answer that it does not get."""
    if history is None:
        return 0
    settings = recorded_config(history.run.config).broker_settings
    return max(0, number(settings, ANSWERED, ANSWERED_MS) - ANSWERED_MS)


def held_up_ms(history: History | None) -> int:
    """How much longer than in usual runs a controller does nothing at all: it removes brokers that are gone
    one after the other, and waited for each."""
    if history is None:
        return 0
    config = recorded_config(history.run.config)
    if not config.has(KafkaSection) or is_since(config.section(KafkaSection).version, HELD_UP_NO_MORE):
        return 0
    return (config.brokers - 1) * late_ms(history)


def _may_have_been_down(nodes: Collection[int], events: Sequence[Event]) -> bool:
    """Whether some node of ZooKeeper ended or stood still, as far as the run does not say otherwise."""
    for event in events:
        match event:
            case FaultStarted(nodes=hit) if not set(nodes).isdisjoint(hit):
                return True
            case FaultFailed(why=why) if not why.startswith(NO_TARGET):
                return True
            case NodeEnded(end=end) if end.node in nodes:
                return True
            case EndsUnseen():
                return True
    return False
