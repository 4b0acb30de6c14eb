"""Files that real brokers wrote (`brokers/<version>`), and what DumpLogSegments printed of them."""

import gzip
from pathlib import Path

GOLDEN = Path(__file__).parent / "brokers"
DUMP = "DumpLogSegments.txt.gz"
NODE = GOLDEN / "4.3.1"


def dump(version: str) -> str:
    """The output of DumpLogSegments for a version's files."""
    return gzip.decompress((GOLDEN / version / DUMP).read_bytes()).decode()
