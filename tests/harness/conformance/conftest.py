"""What tests of applications share."""

from collections.abc import Iterator

import pytest

from tests.harness.conformance.postgresql import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server. A test that kills it starts it again."""
    made = Server()
    try:
        yield made
    finally:
        made.end()
