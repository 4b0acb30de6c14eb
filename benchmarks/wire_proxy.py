"""What the proxy of the wire costs: the same work beside it and through it, in turns, on one real cluster.

    python -m benchmarks.wire_proxy [--rounds 7] [--messages 100000] [--connections 24]

Printed for each way: batched messages of 100 bytes a second, by all producers together; transactions of one
message a second; milliseconds to one acknowledged message, median and 99th percentile; then the ratios of
turns that follow each other, and the processor time of the proxy. Goals: 0.85 of the batched messages, 1 ms
more at the median.
"""

import argparse
import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from core.config import run_config
from core.runtime import run_blocking
from harness.kafka.system import kafka_cluster

TOPIC = "measured"
PARTITIONS = 6
CALL_S = 60.0
TRANSACTIONS = 50
LATENCIES = 200
VALUE = b"x" * 100


def batched(servers: str, messages: int, connections: int) -> float:
    """Messages a second. Each producer has a connection to each broker."""
    producers = [
        Producer({"bootstrap.servers": servers, "linger.ms": 5, "acks": "all", "log_level": 2})
        for _ in range(max(1, connections // 3))
    ]
    for one in producers:
        one.produce(TOPIC, VALUE)
        one.flush(CALL_S)
    begin = time.monotonic()
    for number in range(messages):
        one = producers[number % len(producers)]
        while True:
            try:
                one.produce(TOPIC, VALUE)
                break
            except BufferError:
                one.poll(0.01)
        if number % 1000 == 0:
            one.poll(0)
    for one in producers:
        one.flush(CALL_S)
    return messages / (time.monotonic() - begin)


def transactions(servers: str, count: int) -> float:
    """Transactions of one message a second."""
    name = f"measured-{time.monotonic_ns()}"
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 0, "log_level": 2}
    )
    producer.init_transactions(CALL_S)
    begin = time.monotonic()
    for number in range(count):
        producer.begin_transaction()
        producer.produce(TOPIC, VALUE, partition=number % PARTITIONS)
        producer.commit_transaction(CALL_S)
    return count / (time.monotonic() - begin)


def latencies(servers: str, count: int) -> list[float]:
    """Milliseconds to each of some messages that wait for each other."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": "all", "log_level": 2})
    found = []
    for number in range(count + 20):
        begin = time.monotonic()
        producer.produce(TOPIC, VALUE, partition=0)
        producer.flush(CALL_S)
        if number >= 20:
            found.append((time.monotonic() - begin) * 1000)
    return sorted(found)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(ways: dict[str, str], proxy: int, rounds: int, messages: int, connections: int) -> None:
    """Print a line for each way, the ratios, and what the proxy (a process) needed."""
    rates: dict[str, list[float]] = defaultdict(list)
    ended: dict[str, list[float]] = defaultdict(list)
    waits: dict[str, list[float]] = defaultdict(list)
    medians: dict[str, list[float]] = defaultdict(list)
    needed: dict[str, float] = defaultdict(float)
    for _ in range(rounds):
        for name, servers in ways.items():
            begin = cpu_s(proxy)
            rates[name].append(batched(servers, messages, connections))
            needed["batched message"] += (cpu_s(proxy) - begin) / messages
            ended[name].append(transactions(servers, TRANSACTIONS))
            begin = cpu_s(proxy)
            found = latencies(servers, LATENCIES)
            needed["single message"] += (cpu_s(proxy) - begin) / LATENCIES
            waits[name] += found
            medians[name].append(median(found))
    for name in ways:
        wait = sorted(waits[name])
        print(
            f"{name:8} {median(rates[name]):9.0f} messages/s  {median(ended[name]):6.1f} transactions/s  "
            f"{median(wait):6.2f} ms median  {wait[len(wait) * 99 // 100]:6.2f} ms 99 %"
        )
    direct, proxied = ways
    ratios = sorted(one / other for one, other in zip(rates[proxied], rates[direct], strict=True))
    added = sorted(one - other for one, other in zip(medians[proxied], medians[direct], strict=True))
    print(
        f"batched {median(ratios):.2f} of direct ({ratios[0]:.2f} to {ratios[-1]:.2f}), "
        f"{median(added):+.2f} ms at the median ({added[0]:+.2f} to {added[-1]:+.2f})"
    )
    told = ", ".join(f"{1e6 * seconds / rounds:.1f} µs a {what}" for what, seconds in needed.items())
    print(f"processor time of the proxy: {told}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=24)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = kafka_cluster(run_config({"seed": 1, "brokers": 3}), Path(folder))
        run_blocking(cluster.use_wire())
        try:
            run_blocking(cluster.start())
            run_blocking(cluster.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"}))
            ways = {
                "direct": ",".join(map(str, cluster.admin.addresses.values())),
                "proxied": cluster.endpoint().args["bootstrap.servers"],
            }
            measured(ways, cluster.wire.pid, given.rounds, given.messages, given.connections)
        finally:
            run_blocking(cluster.stop())


if __name__ == "__main__":
    main()
