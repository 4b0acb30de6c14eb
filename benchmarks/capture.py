"""What a capture loses, and what it costs, while producers write 20 MB/s.

    python -m benchmarks.capture [MB/s] [seconds]

One real cluster of three brokers, replication factor 3, acks=all, records of 1 KB; the capture sees each byte
three times or more. Prints: bytes a second that were acknowledged, packets that were seen and that the kernel
dropped, gaps, and the processor time of the capture.
"""

import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from core.config import run_config
from core.runtime import run_blocking
from harness.kafka.system import kafka_cluster
from history.evidence import Evidence

TOPIC = "load"
RECORD = b"x" * 1000
PARTITIONS = 6


def produce(servers: str, rate: float, seconds: float) -> tuple[int, float]:
    """Bytes that were acknowledged, and in what time. rate: bytes a second."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True})
    acknowledged = 0

    def done(error: object, message: object) -> None:
        nonlocal acknowledged
        acknowledged += 0 if error else len(RECORD)

    began, sent = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        while sent < rate * now:
            try:
                producer.produce(TOPIC, RECORD, partition=sent // len(RECORD) % PARTITIONS, on_delivery=done)
            except BufferError:
                break
            sent += len(RECORD)
        producer.poll(0.002)
    producer.flush(30)
    return acknowledged, time.monotonic() - began


def processor_seconds(pid: int) -> float:
    """Of a process, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    """See the module."""
    rate = float(sys.argv[1]) * 1e6 if len(sys.argv) > 1 else 20e6
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    with tempfile.TemporaryDirectory() as folder:
        cluster = kafka_cluster(
            run_config({"seed": 1, "capture": True}), Path(folder) / f"load-{time.time_ns()}"
        )
        try:
            run_blocking(cluster.start())
            run_blocking(cluster.create_topic(TOPIC, PARTITIONS, 3, {}))
            capture = cluster.capture
            before = processor_seconds(capture.pid)
            acknowledged, took = produce(cluster.endpoint().args["bootstrap.servers"], rate, seconds)
            used = processor_seconds(capture.pid) - before
            missing = run_blocking(cluster.take_evidence(Path(folder) / "evidence"))
        finally:
            run_blocking(cluster.stop())
        found = Evidence.load(Path(folder) / "evidence")
        size = sum(path.stat().st_size for path in (Path(folder) / "evidence").glob("frame*.parquet"))
    print(f"acknowledged {acknowledged / took / 1e6:.1f} MB/s for {took:.1f} s")
    print(f"packets {capture.packets}, dropped {capture.lost}, gaps {found.table('gaps').num_rows}")
    print(
        f"frames {found.table('frames').num_rows}, parts {found.table('frame_parts').num_rows}, {size} bytes"
    )
    print(f"processor time of the capture: {used:.1f} s; missing: {missing or 'nothing'}")


if __name__ == "__main__":
    main()
