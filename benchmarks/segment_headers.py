"""How fast headers of batches are read, for batches of several sizes: `python -m benchmarks.segment_headers`.

Processor seconds of one core, the file in the page cache; with checksums and the Arrow table, as evidence
needs them, and for the walk over the headers alone.
"""

import struct
import tempfile
import time
from pathlib import Path

import numpy as np
from crc32c import crc32c

from harness.evidence import segments
from harness.protocol.batches import HEADER, MAGIC, PREFIX

FILE_BYTES = 200_000_000
SIZES = (75, 140, 300, 1000, 16_000)
ROUNDS = 3


def batches(size: int, count: int) -> bytes:
    """A segment of `count` batches of `size` bytes, with rising offsets and right checksums."""
    body = struct.pack(">hiqqqhii", 0, 0, 0, 0, 7, 0, 0, 1) + bytes(size - HEADER.size)
    head = struct.pack(">qiibI", 0, size - PREFIX, 0, MAGIC, crc32c(body))
    one = np.frombuffer(head + body, np.uint8)
    all_of_them = np.tile(one, (count, 1))
    all_of_them[:, :8] = np.arange(count, dtype=">i8")[:, None].view(np.uint8)
    return all_of_them.tobytes()


def measure(path: Path) -> tuple[float, float]:
    """Seconds for a whole read, and for the headers alone; the best of ROUNDS."""
    whole, headers = [], []
    for _ in range(ROUNDS):
        begin = time.process_time()
        segment = segments.read(path)
        segment.table()
        whole.append(time.process_time() - begin)
        assert segment.damage is None
        begin = time.process_time()
        positions, _ = segments.walk_lengths(segment.data)
        segments.gather(segment.data, positions)
        headers.append(time.process_time() - begin)
    return min(whole), min(headers)


def main() -> None:
    """Print one line a size of batches."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{0:020}.log")
        for size in SIZES:
            path.write_bytes(batches(size, FILE_BYTES // size))
            whole, headers = measure(path)
            rate = FILE_BYTES / 1e6
            print(f"{size:6} B a batch: {rate / whole:6.0f} MB/s, headers alone {rate / headers:6.0f} MB/s")


if __name__ == "__main__":
    main()
