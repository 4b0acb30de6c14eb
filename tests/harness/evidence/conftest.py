"""Files that real brokers wrote (`golden/<version>`), and what DumpLogSegments printed of them."""

import gzip
import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
DUMP = "DumpLogSegments.txt.gz"
NODE = GOLDEN / "4.3.1"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A copy of the data directory of a node of Kafka 4.3.1, which ended cleanly."""
    return Path(shutil.copytree(NODE, tmp_path / "node", ignore=shutil.ignore_patterns(DUMP)))


def dump(version: str) -> str:
    """The output of DumpLogSegments for a version's files."""
    return gzip.decompress((GOLDEN / version / DUMP).read_bytes()).decode()
