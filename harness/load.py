"""The life of one process, whatever runs it: ops when they are due, and the final reads.

A worker process drives these coroutines without suspending, the simulator in virtual time.

Not here: executing an op (`harness.client`), opening sessions and journals, replacing processes.
"""

from collections.abc import Callable, Iterable, Mapping

from harness.client import Client
from harness.generator import Planned
from harness.op import Assign, End, Op, Outcome, Poll, TopicPartition
from harness.session import Clock

BEHIND_NS = 1_000_000_000
"""A client that is later than this does not try to catch up."""


async def live(
    client: Client, ops: Iterable[Planned], clock: Clock, stopping: Callable[[], bool]
) -> End:
    """Invoke the ops when they are due, until they end, the load stops, or one calls for a new process.

    Ops are due at fixed distances, so that waiting for one answer does not lower the rate.
    """
    planned_ns = clock.now_ns()
    for planned in ops:
        planned_ns += int(planned.wait_s * 1e9)
        now = clock.now_ns()
        planned_ns = max(planned_ns, now - BEHIND_NS)
        await clock.sleep((planned_ns - now) / 1e9)
        if stopping():
            break
        done = await client.invoke(planned.op)
        if done.replace or (planned.first and done.outcome is not Outcome.OK):
            return End.REPLACED
    return End.CLOSED


async def read_final(
    client: Client, ends: Mapping[TopicPartition, int], clock: Clock, deadline_s: float
) -> None:
    """Read every partition from its beginning up to the listed end, or until the deadline."""
    deadline = clock.now_ns() + int(deadline_s * 1e9)
    done = await client.invoke(Op(f="assign", mops=(Assign(tuple(ends)),)))
    while (
        not done.replace
        and clock.now_ns() < deadline
        and any(client.ends.get(tp, -1) < end for tp, end in ends.items())
    ):
        done = await client.invoke(Op(f="poll", mops=(Poll(5000, 200),)))
