"""Looks at a simulated cluster while a run goes on: the events that `harness.sampling` writes of a real one.

Not here: the cluster that is looked at (`cluster`), final bounds (`harness.simulate`).
"""

from collections.abc import Callable

from harness import events as ev
from harness.op import Isolation
from harness.sampling import ENDS_S, ROLES_S, ends_of, seen_of
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.scheduler import Future


async def look(
    cluster: SimulatedCluster, write: Callable[[ev.Event], None], over: Future[None]
) -> None:
    """Write who leads what when it changed, and the ends of the logs, until `over` is set."""
    scheduler = cluster.scheduler
    before: tuple[object, ...] = ()
    ends_due = scheduler.now
    while not over.done:
        roles = await cluster.roles()
        seen = seen_of(roles)
        now = (seen.leaders, seen.isr, seen.controller, seen.answering, seen.agreed)
        if now != before:
            before = now
            write(seen)
        if scheduler.now >= ends_due:
            ends_due += int(ENDS_S * 1e6)
            tps = sorted(tp for tp in roles.leaders if not tp.topic.startswith("__"))
            lso = await cluster.offsets(tps, Isolation.READ_COMMITTED)
            hw = await cluster.offsets(tps, Isolation.READ_UNCOMMITTED)
            write(ev.EndsSeen(ns=scheduler.ns, hw=ends_of(hw), lso=ends_of(lso)))
        await scheduler.sleep(int(ROLES_S * 1e6))
