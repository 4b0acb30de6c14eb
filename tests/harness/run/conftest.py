"""Each test with a `world` or a `time_` runs in real and in virtual time."""

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


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealWorld | VirtualWorld]:
    before = dict(SYSTEMS)
    register_memory()
    yield WORLDS[request.param](tmp_path)
    SYSTEMS.clear()
    SYSTEMS.update(before)


@pytest.fixture(params=TIMES)
def time_(request: pytest.FixtureRequest) -> RealTime | VirtualTime:
    return TIMES[request.param]()
