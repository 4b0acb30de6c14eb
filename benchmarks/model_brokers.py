"""What the model's brokers carry behind Kafka's protocol, with librdkafka.

    python -m benchmarks.model_brokers [--brokers 1] [--records 300000] [--transactions 500]

One producer sends records of 100 bytes in batches, then transactions of one record each, one after the other;
each partition has as many replicas as there are brokers. Printed: records and transactions per second, CPU
time of all brokers for each, and how long the end of a transaction takes. On a machine that does other work
only the CPU times say something."""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from core.config import run_config
from core.runtime import run_blocking
from harness.modelled.real.cluster import ModelCluster

TICKS: Final = os.sysconf("SC_CLK_TCK")
PARTITIONS: Final = 3
WAIT_S: Final = 60.0
VALUE: Final = bytes(100)


def cpu_s(cluster: ModelCluster) -> float:
    """CPU time of all nodes so far."""
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in cluster.pids)
    return sum(int(its[11]) + int(its[12]) for its in stats) / TICKS


def batched(cluster: ModelCluster, records: int) -> None:
    """Idempotent, acks=all, as fast as it goes."""
    made = Producer({**cluster.endpoint().args, "enable.idempotence": True, "linger.ms": 20})
    made.produce("batched", VALUE, partition=0)
    made.flush(WAIT_S)
    cpu, began = cpu_s(cluster), time.perf_counter()
    for number in range(records):
        while True:
            try:
                made.produce("batched", VALUE, partition=number % PARTITIONS)
                break
            except BufferError:
                made.poll(0.01)
    left = made.flush(WAIT_S)
    took, cpu = time.perf_counter() - began, cpu_s(cluster) - cpu
    assert not left, f"{left} records were not acknowledged"
    print(f"batched: {records / took:,.0f} records/s; {cpu / records * 1e6:.2f} µs of CPU a record")


def one_by_one(cluster: ModelCluster, transactions: int) -> None:
    """Transactions of one record."""
    made = Producer({**cluster.endpoint().args, "transactional.id": "bench", "linger.ms": 0})
    made.init_transactions(WAIT_S)
    whole, ends = [], []
    cpu, began = cpu_s(cluster), time.perf_counter()
    for number in range(transactions):
        begin = time.perf_counter()
        made.begin_transaction()
        made.produce("single", VALUE, partition=number % PARTITIONS)
        made.flush(WAIT_S)
        end = time.perf_counter()
        made.commit_transaction(WAIT_S)
        ends.append(time.perf_counter() - end)
        whole.append(time.perf_counter() - begin)
    took, cpu = time.perf_counter() - began, cpu_s(cluster) - cpu
    late = sorted(ends)[-max(1, transactions // 100)]
    print(
        f"transactions: {transactions / took:,.0f} a second; {cpu / transactions * 1e3:.2f} ms of CPU each; "
        f"whole p50 {statistics.median(whole) * 1e3:.1f} ms; "
        f"end p50 {statistics.median(ends) * 1e3:.1f} ms, p99 {late * 1e3:.1f} ms"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--transactions", type=int, default=500)
    given = parser.parse_args()
    copies = {"brokers": given.brokers, "replication_factor": given.brokers, "min_insync_replicas": 1}
    with tempfile.TemporaryDirectory() as folder:
        cluster = ModelCluster(run_config({"sut": "model", "seed": 1, **copies}), Path(folder) / "run")
        try:
            run_blocking(cluster.start())
            for topic in ("batched", "single"):
                run_blocking(cluster.create_topic(topic, PARTITIONS, given.brokers, {}))
            print(f"{given.brokers} broker(s), load of the machine {os.getloadavg()[0]:.0f}")
            batched(cluster, given.records)
            one_by_one(cluster, given.transactions)
        finally:
            run_blocking(cluster.stop())


if __name__ == "__main__":
    main()
