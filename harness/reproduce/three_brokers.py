"""Three brokers on ZooKeeper, and how their replicas come to differ: schedules about the truncation of logs.

A leads a partition and B follows; C has no copy of it, and is the witness. Proxies between brokers hold B's
fetches. At the end of a schedule both brokers are frozen for a moment, and their logs are read from their
disks.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.op import TopicPartition
from core.runtime import run_blocking
from harness.evidence import checkpoints
from harness.evidence.damage import Damages
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import PAUSE_S, STEP_S, NotReached, Say, StagedCluster
from harness.reproduce.library_producer import PlainProducer
from harness.reproduce.sendings import Sent, sent_by

PATIENT: Final = {
    "auto.leader.rebalance.enable": "false",  # leaders move when the schedule says so
    "replica.lag.time.max.ms": "30000",  # so long B stays in sync without a fetch
    "replica.fetch.wait.max.ms": "3000",  # B hears so late that its last record is committed
    "replica.socket.timeout.ms": "4000",
    "request.timeout.ms": "30000",
}
"""Settings of brokers, for a follower that is in sync and does not know that its last record is committed."""
QUICK: Final = {**PATIENT, "replica.lag.time.max.ms": "3000"}
"""For a follower that falls out of the in-sync set."""
WATERMARKS: Final = "replication-offset-checkpoint"
HEARD_S: Final = 4.5
"""Longer than a fetch waits, and then a checkpoint: a broker that is frozen again sooner gets to neither."""
BEFORE, AFTER = 20, 25
"""Records that A takes alone, and that B takes after it, which are more: A can follow."""


class ThreeBrokers(StagedCluster):
    """a, b, c: numbers of the brokers in the present run."""

    def __init__(self, kafka: str, folder: Path, say: Say, settings: Mapping[str, str]) -> None:
        """As `StagedCluster`. settings: of brokers."""
        config = {"kafka": kafka, "metadata": "zookeeper", "broker_settings": {**settings}}
        super().__init__(config, folder, say, wire=True, between=True)

    def assign(self, *, controller_follows: bool) -> None:
        """Assign the roles. controller_follows: B is the controller; else C is. Raises: ClusterError."""
        now = run_blocking(self.cluster.roles()).controller
        first, second = (node for node in self.cluster.brokers if node != now)
        self.a = first
        self.b, self.c = (now, second) if controller_follows else (second, now)
        self.witness = self.c
        self.say(f"A = broker {self.a}, B = broker {self.b}, C = broker {self.c}; {now} is controller")

    def in_sync(self, tp: TopicPartition) -> tuple[int, ...]:
        """The in-sync replicas that most brokers name, rising. Raises: NotYet, where they name no leader."""
        roles = run_blocking(self.cluster.roles())
        if roles.leaders.get(tp, -1) < 0 or tp not in roles.isr:
            raise NotYet(f"{tp} has no leader")
        return roles.isr[tp]

    def watermark(self, node: int, tp: TopicPartition) -> int:
        """The high watermark of a replica that a broker which has ended or is frozen has on its disk.

        Raises: ClusterError.
        """
        with self.copied(node) as folder:
            found = checkpoints.offsets(folder / WATERMARKS, Damages())
        return found.get((tp.topic, tp.partition), 0)

    @contextmanager
    def frozen(self, *nodes: int) -> Iterator[None]:
        """Inside the block these brokers do nothing. Raises: ClusterError."""
        run_blocking(self.cluster.pause(nodes))
        try:
            yield
        finally:
            run_blocking(self.cluster.resume(nodes))

    def logs(self, tp: TopicPartition) -> dict[int, dict[int, str]]:
        """The logs of A and of B, both frozen."""
        with self.frozen(self.a, self.b):
            return {node: self.values_on_disk(node, tp) for node in (self.a, self.b)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedReplicas:
    """What each replica of a partition has once both are in sync: values by node and offset."""

    tp: TopicPartition
    logs: Mapping[int, Mapping[int, str]]

    @property
    def differences(self) -> list[str]:
        """Offsets at which they have not the same, in words."""
        (one, first), (other, second) = self.logs.items()
        return [
            f"offset {offset}: broker {one} has {first.get(offset)!r}, broker {other} {second.get(offset)!r}"
            for offset in sorted({*first, *second})
            if first.get(offset) != second.get(offset)
        ]


def _truncated(stage: ThreeBrokers, name: str) -> tuple[TopicPartition, PlainProducer]:
    """B has a record, and does not know that it is committed. It dies, and the controller with it; it
    returns, and gets no answer to a Fetch. Then A dies, and B, which is still in sync, leads: a clean
    election."""
    stage.assign(controller_follows=True)
    (tp,) = stage.create(name, [(stage.a, stage.b)], {"min.insync.replicas": "1"})
    # It does not send again before B, whose last fetch may wait, asks for the new partition.
    producer = PlainProducer(stage, {"acks": -1, "socket.timeout.ms": 20000})
    producer.write(tp, "one")

    def known() -> None:
        with stage.frozen(stage.b):
            if stage.watermark(stage.b, tp) != 1:
                raise NotYet("B does not know that the first record is committed")

    until(STEP_S, HEARD_S, known)
    producer.write(tp, "two")
    stage.kill(stage.b)
    if (kept := stage.watermark(stage.b, tp)) != 1:
        raise NotReached(f"the high watermark on B's disk is {kept}: it was killed too late")

    def deposed() -> None:
        if run_blocking(stage.cluster.roles()).controller in (stage.b, -1):
            raise NotYet("no other controller is elected")

    until(STEP_S, PAUSE_S, deposed)
    with stage.held(stage.a) as number:
        run_blocking(stage.cluster.revive([stage.b]))
        stage.fetches(number, stage.b, stage.a)
        if (found := stage.in_sync(tp)) != tuple(sorted((stage.a, stage.b))):
            raise NotReached(f"in sync are {found}")
        stage.say("B is back, is in sync, and follows A without an answer")
        stage.kill(stage.a)
        stage.leads(stage.b, tp)
    stage.say("A is killed; B is elected, which is in sync")
    producer.write(tp, "three")
    return tp, producer


def truncation_loss(stage: ThreeBrokers, name: str, good: bool) -> Sent:
    """See `_truncated`. Both sides are the same schedule."""
    tp, producer = _truncated(stage, name)
    producer.write(tp, "four")
    return sent_by(producer)


def truncation_divergence(stage: ThreeBrokers, name: str, good: bool) -> PerformedReplicas:
    """See `_truncated`; A returns, and follows B. Both sides are the same schedule."""
    tp, producer = _truncated(stage, name)
    stage.restore()
    producer.write(tp, "four")
    return PerformedReplicas(tp=tp, logs=stage.logs(tp))


def unknown_epoch(stage: ThreeBrokers, name: str, good: bool) -> PerformedReplicas:
    """A takes records that B never gets, alone in sync, and dies. B, which has no record of A's epoch, is
    elected though it is not in sync. A returns, and asks B where its epoch ends. Both sides are the same
    schedule."""
    stage.assign(controller_follows=False)
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    (tp,) = stage.create(name, [(stage.a, stage.b)], settings)
    each = {"acks": 1, "batch.num.messages": 1}  # A can follow in the middle of what B takes
    producer = PlainProducer(stage, each, says=False)
    with stage.held(stage.a) as number:
        stage.fetches(number, stage.b, stage.a)
        producer.send(tp, *(f"a{one}" for one in range(BEFORE)))
        producer.wait()

        def alone() -> None:
            if (found := stage.in_sync(tp)) != (stage.a,):
                raise NotYet(f"in sync are {found}, and not A alone")

        until(STEP_S, PAUSE_S, alone)
        stage.kill(stage.a)
        stage.leads(stage.b, tp)
    stage.say(f"A took {BEFORE} records alone and is killed; B leads, by an unclean election")
    producer.send(tp, *(f"b{one}" for one in range(AFTER)))
    producer.wait()
    stage.restore()
    PlainProducer(stage, {"acks": -1}).write(tp, "last")
    return PerformedReplicas(tp=tp, logs=stage.logs(tp))
