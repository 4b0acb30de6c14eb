"""Waiting inside an effect: for a condition, with a limit, and no longer than the run goes on.

Not here: how long faults are in force (`times`).
"""

from collections.abc import Awaitable, Callable

from nemesis.fault import Stage

POLL_S = 0.25


async def until(stage: Stage, missing: Callable[[], Awaitable[str]], limit_s: float) -> str:
    """Wait until nothing is missing; "", or what still was when the limit was reached or the run
    began to stop. It is asked for once in any case."""
    limit_ns = stage.clock.now_ns() + round(limit_s * 1e9)
    while why := await missing():
        if stage.stopping() or stage.clock.now_ns() >= limit_ns:
            return why
        await stage.clock.sleep(POLL_S)
    return ""
