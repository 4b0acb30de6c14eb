"""What recording costs: a worker of the harness beside a bare confluent-kafka program.

    python -m benchmarks.throughput [--seconds 4] [--repetitions 5] [--shape queue:20 …]
        [--bootstrap HOST:PORT,…] [--target 0.8]
    python -m benchmarks.throughput --client COMMAND --record-size 4000 --target 0.7 …

Both are one process with one producer, send the same ops (same sizes, partitions, settings; each op
awaited before the next) and run as fast as they can, in turns, on one cluster. The bare program knows
its ops beforehand, sends one constant payload and keeps nothing but a count. The worker is
`python -m harness.clients.worker_main` itself: it draws its ops, encodes each record, and journals
every invocation and every result.

With --client the worker of the harness takes the place of the bare program, and a worker whose client is that
program (JSON lines, docs/client-protocol.md) is compared with it; CPU time is without the program's.

A shape is WORKLOAD:MOST_RECORDS_AN_OP. Printed for each: records acknowledged per second and CPU time
(all threads) a record, the medians over the repetitions, and the median ratio with its extremes. The
exit status is 1 if a ratio is below the target. Without --bootstrap a cluster of three is started.
"""

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from core.client_settings import properties_of_producer
from core.cluster import Endpoint
from core.config import RunConfig
from core.generator import Slot, source
from core.op import Phase, Send, TopicPartition
from core.runtime import run_blocking
from harness.clients.command import named
from harness.clients.librdkafka.settings import LIBRDKAFKA
from harness.clients.registry import clients_of
from harness.clients.worker_protocol import ClientProgress, Enter, WorkerLine
from harness.kafka.system import kafka_cluster
from history.run_folder import Run
from workloads.registry import WORKLOADS

SHAPES: Final = ("queue:20", "queue:100", "transactions:20")
WARM_UP_S: Final = 1.5
KNOWN_OPS: Final = 5000
"""Ops that the bare program knows; it starts over after them."""
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured stretch of one process."""

    records_per_s: float
    cpu_us: float
    """CPU time a record, in microseconds."""


@dataclass(frozen=True, slots=True)
class BareOp:
    """What the bare program does: records by (topic, partition), then perhaps an end."""

    tps: tuple[TopicPartition, ...]
    txn: bool
    abort: bool


def config_of(shape: str, record_size: int) -> RunConfig:
    """One producer, no consumers, no pause between ops."""
    workload, _, most = shape.partition(":")
    return RunConfig(
        workload=workload,
        seed=1,
        rate=0,
        producers=1,
        home_producers=0,
        consumers=0,
        batch_max=int(most),
        record_size=record_size,
    )


def known_ops(config: RunConfig) -> list[BareOp]:
    """The first ops that the worker will draw, without what they are made with."""
    workload = WORKLOADS[config.workload]
    (spec,) = workload.plans(config)
    slot = Slot(slot=0, process=0, tps=workload.tps(config), rng=source(config.seed, 0, 0))
    planned = itertools.islice(workload.ops(config, spec, slot), KNOWN_OPS)
    return [
        BareOp(tuple(m.tp for m in p.op.mops if isinstance(m, Send)), p.op.txn, p.op.abort) for p in planned
    ]


def bare(config: RunConfig, args: dict[str, str]) -> None:
    """The bare program; prints how many records were acknowledged, until stdin ends."""
    (spec,) = WORKLOADS[config.workload].plans(config)
    ops = known_ops(config)
    producer = Producer({**args, **properties_of_producer(spec, LIBRDKAFKA)})
    payload = random.Random(1).randbytes(config.record_size)
    missing = acknowledged = 0

    def report(error: KafkaError | None, _: Message) -> None:
        nonlocal missing, acknowledged
        missing -= 1
        acknowledged += error is None

    if spec.transactional_id is not None:
        producer.init_transactions()
    os.set_blocking(0, False)
    told = time.monotonic()
    for op in itertools.cycle(ops):
        if op.txn:
            producer.begin_transaction()
        missing = len(op.tps)
        for topic, partition in op.tps:
            producer.produce(topic, payload, partition=partition, on_delivery=report)
        while missing:
            producer.poll(0.1)
        if op.txn:
            producer.abort_transaction() if op.abort else producer.commit_transaction()
        if time.monotonic() - told > 0.25:
            told = time.monotonic()
            os.write(1, msgspec.json.encode(WorkerLine(progress=ClientProgress(acked=acknowledged))) + b"\n")
            if ended(0):
                return


def ended(handle: int) -> bool:
    """Whether a non-blocking pipe was closed at its other end."""
    try:
        return os.read(handle, 1) == b""
    except BlockingIOError:
        return False


@contextmanager
def bare_process(config: RunConfig, endpoint: Endpoint) -> Iterator[subprocess.Popen[bytes]]:
    """The bare program, running."""
    known = msgspec.json.encode({"config": config.model_dump(mode="json"), "args": endpoint.args})
    command = [sys.executable, "-m", "benchmarks.throughput", "--bare", known.decode()]
    with running(command) as process:
        yield process


@contextmanager
def worker_process(config: RunConfig, endpoint: Endpoint) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the harness, running in a run folder of its own."""
    with tempfile.TemporaryDirectory(prefix="inquest-throughput-") as folder:
        run = Run(Path(folder))
        run.journal.mkdir()
        run.config.write_text(config.model_dump_json())
        with running([sys.executable, "-m", "harness.clients.worker_main", folder, "0"]) as process:
            assert process.stdin is not None
            factory = clients_of(config, "librdkafka").factory
            for command in (msgspec.structs.replace(endpoint, factory=factory), Enter(Phase.FAULTS)):
                process.stdin.write(msgspec.json.encode(command) + b"\n")
            process.stdin.flush()
            yield process


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process with pipes and a group of its own, which ends with it; killed at the end."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def measure(process: subprocess.Popen[bytes], seconds: float) -> Sample:
    """Follow what a process tells, after its warm-up."""
    begin: tuple[float, int, float] | None = None
    warm_until: float | None = None
    assert process.stdout is not None
    for line in process.stdout:
        now = time.monotonic()
        progress = msgspec.json.decode(line, type=WorkerLine).progress
        if progress.info:
            raise SystemExit("an op was indefinite: the cluster is not healthy, nothing is measured")
        if progress.acked and warm_until is None:
            warm_until = now + WARM_UP_S
        if warm_until is None or now < warm_until:
            continue
        here = (now, progress.acked, cpu_s(process.pid))
        if begin is None:
            begin = here
        elif now - begin[0] >= seconds:
            count = here[1] - begin[1]
            return Sample(count / (here[0] - begin[0]), (here[2] - begin[2]) / count * 1e6)
    raise SystemExit("the process ended before it was measured")


def cpu_s(pid: int) -> float:
    """CPU seconds that a process used, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


Start = Callable[[RunConfig, Endpoint], AbstractContextManager[subprocess.Popen[bytes]]]


def program_process(config: RunConfig, endpoint: Endpoint) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker whose client is the program that was named."""
    return worker_process(config.model_copy(update={"clients": "command"}), endpoint)


def compare(
    sides: tuple[Start, Start], config: RunConfig, endpoint: Endpoint, seconds: float, repetitions: int
) -> tuple[list[Sample], list[Sample]]:
    """Samples of both sides, taken in turns, first and second by turns."""
    samples: tuple[list[Sample], list[Sample]] = ([], [])
    for repetition in range(repetitions):
        for which in (0, 1) if repetition % 2 == 0 else (1, 0):
            with sides[which](config, endpoint) as process:
                samples[which].append(measure(process, seconds))
    return samples


def row(shape: str, samples: tuple[list[Sample], list[Sample]]) -> tuple[float, str]:
    """The median ratio, and the line of the table."""
    ratios = [w.records_per_s / b.records_per_s for b, w in zip(*samples, strict=True)]
    rates = [statistics.median(s.records_per_s for s in half) for half in samples]
    cpu = [statistics.median(s.cpu_us for s in half) for half in samples]
    ratio = statistics.median(ratios)
    return ratio, (
        f"{shape:16} {rates[0]:11.0f} {rates[1]:11.0f} {cpu[0]:10.1f} {cpu[1]:10.1f}"
        f"   {ratio:.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    )


@contextmanager
def cluster(bootstrap: str | None, shapes: list[RunConfig]) -> Iterator[Endpoint]:
    """A cluster with the topics of all shapes; one that exists must have them already."""
    if bootstrap is not None:
        yield Endpoint(args={"bootstrap.servers": bootstrap})
        return
    with tempfile.TemporaryDirectory() as folder:
        made = kafka_cluster(shapes[0], Path(folder) / f"throughput-{os.getpid()}")
        try:
            run_blocking(made.start())
            wanted: dict[str, int] = {}
            for config in shapes:
                wanted |= WORKLOADS[config.workload].topics(config)
            for topic, partitions in wanted.items():
                run_blocking(made.create_topic(topic, partitions, 3, {}))
            yield made.endpoint()
        finally:
            run_blocking(made.stop())


def main() -> int:
    """Entry point; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--shape", action="append", help="WORKLOAD:MOST_RECORDS_AN_OP")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measured stretch")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--record-size", type=int, default=100)
    parser.add_argument("--bootstrap", help="a cluster that exists")
    parser.add_argument("--target", type=float, default=0.8, help="least ratio to be content with")
    parser.add_argument("--client", help="a program that speaks JSON lines")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare is not None:
        known = msgspec.json.decode(options.bare)
        bare(RunConfig(**known["config"]), known["args"])
        return 0
    sides: tuple[Start, Start] = (bare_process, worker_process)
    if options.client is not None:
        named.PROGRAM.name(options.client)
        sides = (worker_process, program_process)
    configs = {s: config_of(s, options.record_size) for s in options.shape or SHAPES}
    ratios = []
    with cluster(options.bootstrap, list(configs.values())) as endpoint:
        names = ("worker", "program") if options.client else ("bare", "worker")
        heads = [f"{name} r/s" for name in names] + [f"{name} µs" for name in names]
        print(f"{'shape':16} {heads[0]:>11} {heads[1]:>11} {heads[2]:>10} {heads[3]:>10}   ratio", flush=True)
        for shape, config in configs.items():
            samples = compare(sides, config, endpoint, options.seconds, options.repetitions)
            ratio, line = row(shape, samples)
            ratios.append(ratio)
            print(line, flush=True)
    missed = sum(ratio < options.target for ratio in ratios)
    print(f"target {options.target:.2f}: " + (f"missed by {missed} shapes" if missed else "met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
