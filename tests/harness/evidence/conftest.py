"""A copy of files that a real broker wrote."""

import shutil
from pathlib import Path

import pytest

from tests.histories.broker_files import DUMP, NODE


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A copy of the data directory of a node of Kafka 4.3.1, which ended cleanly."""
    return Path(shutil.copytree(NODE, tmp_path / "node", ignore=shutil.ignore_patterns(DUMP)))
