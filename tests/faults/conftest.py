"""No command outlives its test: a failed test would leave one to the tests after it."""

from collections.abc import Iterator

import pytest

from tests.faults import command


@pytest.fixture(autouse=True)
def _commands_end() -> Iterator[None]:
    yield
    while command.STARTED:
        command.STARTED.pop().end()
