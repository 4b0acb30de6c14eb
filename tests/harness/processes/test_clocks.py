"""Clocks that went apart are noticed, and those that merely drift are not."""

import pytest

from harness.processes.clocks import ClockReading, Clocks, read

S = 1_000_000_000


@pytest.mark.parametrize(
    ("wall_s", "boot_s", "jump"),
    [
        (0.5, 0.5, None),
        (0.504, 0.5, None),  # a daemon keeps the time
        (0.496, 0.5, None),
        (0.49, 0.5, (-0.01, 0.0)),
        (1.2, 0.5, (0.7, 0.0)),
        (-9.5, 0.5, (-10.0, 0.0)),
        (3600.5, 3600.5, (3600.0, 3600.0)),  # it slept
        (0.5, 0.7, (0.0, 0.2)),
    ],
)
def test_a_jump_of_the_clocks(wall_s: float, boot_s: float, jump: tuple[float, float] | None) -> None:
    begin = ClockReading(10 * S, 1_000 * S, 20 * S)
    after = ClockReading(begin.monotonic + S // 2, begin.wall + int(wall_s * S), begin.boot + int(boot_s * S))
    readings = [begin, after, after]
    clocks = Clocks(lambda: readings.pop(0))
    found = clocks.jump()
    assert (found and (found.wall_s, found.suspended_s)) == jump
    if found:
        assert (found.before_ns, found.ns) == (begin.monotonic, after.monotonic)
    assert clocks.jump() is None  # each jump is named once


def test_the_clocks_of_this_machine_do_not_jump() -> None:
    clocks = Clocks(read)
    assert [jump for _ in range(1000) if (jump := clocks.jump())] == []
