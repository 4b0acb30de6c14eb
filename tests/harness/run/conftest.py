"""Each test with a `world` or a `time_` runs in virtual time, and on one day of three in real time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.systems import SYSTEMS
from tests.harness.run.worlds import (
    TIMES,
    WORLDS,
    RealTime,
    RealWorld,
    VirtualTime,
    VirtualWorld,
    register_memory,
)

REAL = pytest.param("real", marks=pytest.mark.sampled(8))
"""Real time takes seconds for what virtual time does in milliseconds."""


@pytest.fixture(params=["virtual", REAL])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealWorld | VirtualWorld]:
    before = dict(SYSTEMS)
    register_memory()
    yield WORLDS[request.param](tmp_path)
    SYSTEMS.clear()
    SYSTEMS.update(before)


@pytest.fixture(params=["virtual", REAL])
def time_(request: pytest.FixtureRequest) -> RealTime | VirtualTime:
    return TIMES[request.param]()
