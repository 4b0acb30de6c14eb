"""Replication that is throttled: who waits, and for how long (KIP-73)."""

import pytest

from model.log.unified_log import RecordBatch
from model.protocol.messages import Produce
from model.replication.replication_quota import RECORD_BYTES, WINDOW_MS, WINDOWS, ReplicationQuota
from model.settings import Settings
from scenarios.drivers.cluster import ClusterStage, data

TP = data(0)
BATCH = RecordBatch(0, 0, ("a", "b"))


def test_a_rate_is_that_of_the_last_windows() -> None:
    quota = ReplicationQuota()
    quota.limit([TP], 2 * RECORD_BYTES)
    quota.record(("other", 0), [BATCH] * 100, 0)
    assert not quota.throttles(TP, 0)
    quota.record(TP, [BATCH], 0)
    assert not quota.throttles(TP, 0)
    quota.record(TP, [BATCH], 10)
    assert quota.throttles(TP, 20)
    assert not quota.throttles(("other", 0), 20)
    assert not quota.throttles(TP, 2 * WINDOW_MS), "four records in two seconds"
    quota.record(TP, [BATCH] * 1000, 2 * WINDOW_MS)
    assert quota.throttles(TP, (WINDOWS + 1) * WINDOW_MS)
    assert not quota.throttles(TP, (WINDOWS + 2) * WINDOW_MS), "the window has left"


@pytest.mark.parametrize("throttled", [True, False])
def test_a_leader_does_not_serve_who_is_not_in_sync(throttled: bool) -> None:
    """Nor who is, of what it may take: it only counts."""
    s = ClusterStage(Settings(), ((1, 2, 3),), (3, 2, 1))
    manager = s.nodes[1].replica_manager
    manager.quota.limit([TP] if throttled else [], 1)
    s.crash(3)
    s.until(lambda: s.replica(TP, 1).state.isr == (1, 2))  # type: ignore[union-attr]
    for _ in range(3):
        s.deliver("", Produce(1, {TP: BATCH}), 1, lambda _: None)
    s.until(lambda: s.replica(TP, 2).log.end == 6)  # type: ignore[union-attr]
    s.restart(3)
    s.wait(2 * WINDOW_MS)
    assert s.replica(TP, 3).log.end == (0 if throttled else 6)  # type: ignore[union-attr]
    manager.quota.limit([], 1)
    s.until(lambda: s.replica(TP, 1).state.isr == (1, 2, 3))  # type: ignore[union-attr]
