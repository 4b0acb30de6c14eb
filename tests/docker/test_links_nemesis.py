"""Nemeses of several steps, bad links, and requests between brokers, on a real cluster behind proxies.

The cluster has unclean elections on and min.insync.replicas 1, so that `unclean` means something.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from core.cluster import Roles
from core.config import run_config
from core.internal_topics import TRANSACTION_TOPIC
from core.load_clients import ClientSlot, CrashPoint
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from core.wire import Action, WireRule
from harness.containers.cluster import ContainerCluster
from harness.kafka.system import kafka_cluster
from nemesis.execute import heal, inject
from nemesis.families.wire import WITHIN
from nemesis.types import AimedFault, Environment, PlannedFault, WorkloadNames
from tests.docker.conftest import roles_when, whole
from tests.harness.brokers.expected_node import answers, one_way
from tests.waiting import until

pytestmark = pytest.mark.sampled(6, whole_file=True)

TOPIC = "behind-proxies"
TPS = tuple(TopicPartition(TOPIC, number) for number in range(3))
NAMES = WorkloadNames(data=TPS)
RECOVERY_S = 5.0


class NoClients:
    slots: tuple[ClientSlot, ...] = ()

    async def grow(self, tps: Sequence[TopicPartition]) -> None: ...
    async def rest(self, within_s: float) -> tuple[int, ...]:
        return ()

    async def work(self, remade: int) -> None: ...

    def acked_ns(self, slot: int) -> int:
        return 0

    async def crash(self, slots: Sequence[int], point: CrashPoint) -> None: ...
    async def restart(self, slots: Sequence[int]) -> None: ...
    async def pause(self, slots: Sequence[int]) -> None: ...
    async def resume(self, slots: Sequence[int]) -> None: ...


class RealClock:
    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCluster]:
    folder = tmp_path_factory.mktemp("docker") / f"docker-links-{time.time_ns()}"
    config = run_config({"seed": 1, "unclean_leader_election": True, "min_insync_replicas": 1})
    cluster = kafka_cluster(config, folder)
    try:
        run_blocking(cluster.use_proxies())
        run_blocking(cluster.use_wire_within())
        run_blocking(cluster.start())
        run_blocking(cluster.create_topic(TOPIC, len(TPS), 3, {}))
        yield cluster
    finally:
        run_blocking(cluster.stop())


@pytest.fixture
def stage(behind: ContainerCluster) -> Iterator[Environment]:
    whole(behind, TOPIC)
    yield Environment(
        cluster=behind,
        clients=NoClients(),
        clock=RealClock(),
        stopping=lambda: False,
        healing_clock=RealClock(),
    )
    run_blocking(behind.mend(behind.cuts * 2))
    run_blocking(behind.cure(behind.brokers))
    run_blocking(behind.lift())
    run_blocking(behind.revive(behind.nodes))
    whole(behind, TOPIC)


def test_proxies_lead_to_the_node_that_clients_mean_to_reach(behind: ContainerCluster) -> None:
    """KIP-1242: Kafka's brokers say whom a client reached."""
    whole(behind, TOPIC)
    assert answers(behind.endpoint()) == one_way(3)


def hit(stage: Environment, name: str, seed: int = 0, fault: int = 0) -> AimedFault:
    head, _, target = name.partition("@")
    family, _, kind = head.partition(":")
    step = PlannedFault(
        fault=fault, name=name, family=family, kind=kind, target=target, at_s=1, hold_s=6, seed=seed
    )
    return run_blocking(inject(stage, step, run_blocking(stage.cluster.roles()), NAMES))


class Client:
    """One producer; sends one record at a time to each partition in turn."""

    def __init__(self, cluster: ContainerCluster, **settings: str) -> None:
        servers = cluster.endpoint().args["bootstrap.servers"]
        common = {"socket.timeout.ms": "3000", "linger.ms": "0", "acks": "1", "log_level": "0"}
        self.producer = Producer({"bootstrap.servers": servers, **common, **settings})
        self.acked: dict[int, list[bytes]] = {tp.partition: [] for tp in TPS}

    def send(self, partition: int, value: bytes) -> None:
        self.producer.produce(TOPIC, value, partition=partition, on_delivery=self._told)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        value, partition = message.value(), message.partition()
        if error is None and value is not None and partition is not None:
            self.acked[partition].append(value)

    def round_trip(self, seconds: float, size: int = 20) -> float | None:
        """How long it takes until one record in each partition is acknowledged; None = longer."""
        before = self.total
        begin = time.monotonic()
        for tp in TPS:
            self.send(tp.partition, b"x" * size)
        while self.total < before + len(TPS):
            if time.monotonic() - begin > seconds:
                return None
            self.producer.poll(0.01)
        return time.monotonic() - begin

    @property
    def total(self) -> int:
        return sum(map(len, self.acked.values()))


@contextmanager
def loaded(client: Client) -> Iterator[None]:
    """Meanwhile the client sends to all partitions."""
    stop = threading.Event()

    def load() -> None:
        number = 0
        while not stop.is_set():
            for tp in TPS:
                client.send(tp.partition, b"v%d" % number)
                number += 1
            client.producer.poll(0.02)

    writer = threading.Thread(target=load)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(
    ("kind", "seed", "size", "seconds"),
    [
        ("latency", 0, 20, (0.15, 3.0)),
        ("bandwidth", 0, 40_000, (1.2, 30.0)),
        ("slicer", 0, 20_000, (0.3, 30.0)),
        ("timeout", 0, 20, None),
        ("timeout", 1, 20, None),
        ("timeout", 2, 20, None),
        ("timeout", 15, 20, None),
        ("reset", 0, 20, None),
        ("limit", 0, 20, None),
    ],
)
def test_bad_links_are_felt_and_healed(
    behind: ContainerCluster,
    stage: Environment,
    kind: str,
    seed: int,
    size: int,
    seconds: tuple[float, float] | None,
) -> None:
    client = Client(behind)
    assert client.round_trip(10) is not None
    usual = min(client.round_trip(10, size) or 10 for _ in range(5))
    injected = hit(stage, f"links:{kind}@all", seed)
    if seconds is None:
        while client.round_trip(1) is not None:  # `limit` lets some answers through
            assert client.total < 300
        assert client.round_trip(3) is None
    else:
        low, high = seconds
        assert usual < low
        taken = client.round_trip(high, size)
        assert taken is not None
        assert taken > low
    begin = time.monotonic()
    run_blocking(heal(stage, injected))
    until(lambda: client.round_trip(0.5) is not None, f"work goes on after {kind}", RECOVERY_S)
    print(f"{kind} {injected.text}: recovered in {time.monotonic() - begin:.2f} s")
    assert min(client.round_trip(10, size) or 10 for _ in range(5)) < max(0.15, 2 * usual)


def test_the_harness_sees_the_cluster_whole_while_all_links_of_clients_are_bad(
    behind: ContainerCluster, stage: Environment
) -> None:
    hit(stage, "links:timeout@all")
    assert whole(behind, TOPIC).answering == behind.brokers


def test_one_broker_with_bad_links_leaves_the_others_alone(
    behind: ContainerCluster, stage: Environment
) -> None:
    roles_when(behind, _all_preferred, 60, "no leader is about to move")
    client = Client(behind)
    assert client.round_trip(10) is not None
    injected = hit(stage, "links:reset@leader")
    led = run_blocking(behind.roles()).leaders
    before = {partition: len(values) for partition, values in client.acked.items()}
    client.round_trip(3)
    then = run_blocking(behind.roles()).leaders
    cut_off = {tp.partition: led[tp] in injected.nodes for tp in TPS if then[tp] == led[tp]}
    assert set(cut_off.values()) == {True, False}
    for partition, cut in cut_off.items():
        assert (len(client.acked[partition]) > before[partition]) != cut
    run_blocking(heal(stage, injected))


def test_a_replica_that_misses_records_becomes_leader(
    behind: ContainerCluster, stage: Environment, tmp_path: Path
) -> None:
    client = Client(behind)
    with loaded(client):
        begin = time.monotonic()
        injected = hit(stage, "unclean:lagging@leader")
        print(f"{injected.text}: made in {time.monotonic() - begin:.1f} s")
        (victim,) = injected.nodes
        roles_when(
            behind,
            lambda r: all(r.leaders[tp] not in (-1, victim) for tp in TPS),
            15,
            "another replica leads every partition",
        )
    client.producer.flush(10)
    run_blocking(heal(stage, injected))
    whole(behind, TOPIC)
    lost = {tp.partition: set(client.acked[tp.partition]) - read(behind, tp) for tp in TPS}
    print("acknowledged and lost:", {partition: len(values) for partition, values in lost.items()})
    assert any(lost.values())


def read(cluster: ContainerCluster, tp: TopicPartition) -> set[bytes]:
    """Values of a whole partition; the client itself follows a leader that moves after a failover."""
    servers = cluster.endpoint().args["bootstrap.servers"]
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "nobody",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
        }
    )
    try:
        consumer.assign([KafkaPartition(tp.topic, tp.partition, 0)])
        found: set[bytes] = set()
        deadline = time.monotonic() + 30
        while True:
            assert time.monotonic() < deadline, "the log cannot be read to its end"
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    found.add(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
    finally:
        consumer.close()


def _done(cluster: ContainerCluster) -> set[str]:
    return {one.what for one in run_blocking(cluster.seen(1))}


def _all_preferred(roles: Roles) -> bool:
    return roles.agreed and all(leader == roles.replicas[tp][0] for tp, leader in roles.leaders.items())


def test_markers_wait_on_their_way_to_other_brokers_and_arrive_when_they_are_released(
    behind: ContainerCluster, stage: Environment
) -> None:
    """The broker that coordinates writes its own markers past the proxies; no other partition's last stable
    offset moves before the fault is healed."""
    tid = "held-markers"
    servers = behind.endpoint().args["bootstrap.servers"]
    producer = Producer({"bootstrap.servers": servers, "transactional.id": tid, "log_level": "0"})
    producer.init_transactions(20)
    roles = roles_when(behind, _all_preferred, 60, "no leader is about to move")
    coordinator = roles.coordinator(TRANSACTION_TOPIC, tid)
    away = {tp for tp in TPS if roles.leaders[tp] != coordinator}
    assert away
    rule = WireRule(number=1, api="write_txn_markers", action=Action.HOLD, times=0, between=True)
    run_blocking(behind.rule([rule]))
    producer.begin_transaction()
    for tp in TPS:
        producer.produce(TOPIC, b"x", partition=tp.partition)
    producer.commit_transaction(20)

    def unstable() -> set[TopicPartition]:
        levels = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
        uncommitted, committed = [run_blocking(behind.offsets(TPS, level)) for level in levels]
        return {tp for tp in TPS if tp not in committed or uncommitted.get(tp) != committed[tp]}

    def caught() -> set[str]:
        seen = run_blocking(behind.seen(1))
        assert {one.node for one in seen} <= {roles.leaders[tp] for tp in away}
        return {name for one in seen if one.what == "caught" for name in one.named.split(", ")}

    until(lambda: caught() >= set(map(str, away)) and unstable() == away, f"{away} wait for markers", 20)
    run_blocking(behind.lift([1]))
    until(lambda: not unstable(), "all markers are written", 20)
    until(lambda: _done(behind) >= {"caught", "delivered", "answered"}, "the leaders answer", 20)


def test_leaders_are_shuffled_at_once(behind: ContainerCluster, stage: Environment) -> None:
    before = roles_when(behind, _all_preferred, 60, "no leader is about to move").leaders
    begin = time.monotonic()
    injected = hit(stage, "elections:shuffle")
    print(f"shuffled in {time.monotonic() - begin:.2f} s")
    wished = dict(zip(injected.tps, injected.leaders, strict=True))
    assert set(wished) == set(TPS)
    roles_when(behind, lambda r: all(r.leaders[tp] == node for tp, node in wished.items()), 10, "as wished")
    assert all(before[tp] != node for tp, node in wished.items())


def test_a_rolling_restart_takes_every_broker_and_leaves_all_in_sync(
    behind: ContainerCluster, stage: Environment
) -> None:
    begin = time.monotonic()
    injected = hit(stage, "restart:rolling")
    print(f"rolled over {injected.nodes} in {time.monotonic() - begin:.1f} s")
    roles = run_blocking(behind.roles())
    assert roles.answering == behind.brokers
    assert all(set(roles.isr[tp]) == set(behind.brokers) for tp in TPS)
    run_blocking(heal(stage, injected))


def test_a_graceful_restart_hands_over_before_it_ends(behind: ContainerCluster, stage: Environment) -> None:
    injected = hit(stage, "restart:graceful@leader")
    (node,) = injected.nodes
    roles_when(behind, lambda r: all(r.leaders[tp] not in (-1, node) for tp in TPS), 2, "handed over")
    run_blocking(heal(stage, injected))


@pytest.mark.parametrize("kind", WITHIN)
def test_what_keeps_the_cluster_together_is_taken_on_its_way(
    behind: ContainerCluster, stage: Environment, kind: str
) -> None:
    with loaded(Client(behind)):  # a follower lags where there is something to fetch
        done = hit(stage, f"wire:{kind}", fault=100 + WITHIN.index(kind))
    (rule, *_) = done.rules
    caught = [one for one in run_blocking(behind.seen(rule.number)) if one.what == "caught"]
    assert caught
    assert {one.api for one in caught} == {rule.api}
    assert {one.node for one in caught} == {*rule.nodes}
    assert f" to node {caught[0].node} " in done.text
    run_blocking(heal(stage, done))
    whole(behind, TOPIC)
