"""A leader asks the controller for more in-sync replicas, and hears of them in another order."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from core.op import TopicPartition
from core.runtime import run_blocking
from core.wire import Action, WireRule
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import PAUSE_S, STEP_S
from harness.reproduce.library_producer import PlainProducer
from harness.reproduce.sendings import Sent, sent_by
from harness.reproduce.stage import FiveBrokers

SOON: Final = {"replica.lag.time.max.ms": "3000"}
"""A setting of brokers: so long a leader waits for a follower that is no longer caught up, in sync or not
(Kafka: 30 s)."""
ACKNOWLEDGED_S: Final = 8.0
"""A leader that waits for no more replicas acknowledges a record in less."""


def pending_expansion(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """D leads alone; E comes into sync, then C. The controller answers that E is in sync, and D asks for C;
    the network holds that request. On the bad side D reads the metadata record of E after that, on the good
    side before. C fetches no more, and a record is written; then the controller gets the request, and C, the
    preferred leader, leads. No node fails."""
    d, e, c = stage.d, stage.e, stage.c
    (tp,) = stage.create(name, [(c, d, e)])
    producer = PlainProducer(stage, {"acks": -1})
    producer.write(tp, "zero")
    for node in (c, e):
        run_blocking(stage.cluster.shut_down([node]))
    stage.leads(d, tp)
    stage.in_sync_are({d}, tp)
    controller = max(stage.cluster.nodes)
    with _held(stage, "fetch", d, _fetcher(c)) as of_c:
        with _held(stage, "fetch", d, _fetcher(e)) as of_e:
            run_blocking(stage.cluster.revive([e, c]))
            stage.awake(e, c)
            _waits(stage, of_e, f"a Fetch of broker {e} waits")
            _waits(stage, of_c, f"a Fetch of broker {c} waits")
            late = None if good else _hold(stage, "fetch", controller, f"raft-client-{d}")
            if late is not None:
                _waits(stage, late, f"broker {d} reads no metadata")
        stage.in_sync_are({d, e}, tp, witness=stage.a)
        if good:
            _applied(stage, f"{name}-before")
        asks = _hold(stage, "alter_partition", controller)
    _waits(stage, asks, f"broker {d} asks for broker {c}, and the network holds it")
    with _held(stage, "fetch", d, _fetcher(c)) as again:
        _waits(stage, again, f"broker {c} fetches no more")
        if late is not None:
            run_blocking(stage.cluster.lift([late]))
        _applied(stage, f"{name}-after")
        producer.send(tp, "one")
        _acknowledged(stage, producer, tp, "one")
        run_blocking(stage.cluster.lift([asks]))
        stage.in_sync_are({c, d, e}, tp, witness=stage.a)
        run_blocking(stage.cluster.elect_preferred([tp]))
        stage.leads(c, tp, stage.a)
    producer.write(tp, "two")
    return sent_by(producer)


def _fetcher(node: int) -> str:
    """What a follower calls itself; all of the schedules' brokers have one thread that fetches."""
    return f"broker-{node}-fetcher-0"


def _hold(stage: FiveBrokers, api: str, node: int, client: str = "") -> int:
    """Hold each such request of a client (empty: of any) before a node; the number of the rule."""
    number = stage.cluster.wire.number()
    rule = WireRule(
        number=number, api=api, action=Action.HOLD, nodes=(node,), client_id=client, times=0, between=True
    )
    run_blocking(stage.cluster.rule([rule]))
    return number


@contextmanager
def _held(stage: FiveBrokers, api: str, node: int, client: str) -> Iterator[int]:
    """The same inside the block."""
    number = _hold(stage, api, node, client)
    try:
        yield number
    finally:
        run_blocking(stage.cluster.lift([number]))


def _waits(stage: FiveBrokers, number: int, what: str) -> None:
    """Wait until a rule holds a request. Raises: NotYet."""

    def caught() -> None:
        if not run_blocking(stage.cluster.seen(number)):
            raise NotYet(f"not so: {what}")

    until(STEP_S, PAUSE_S, caught)
    stage.say(what)


def _applied(stage: FiveBrokers, topic: str) -> None:
    """Wait until D has applied all metadata up to now: it leads a partition that is made now."""
    (tp,) = stage.create(topic, [(stage.d,)], {"min.insync.replicas": "1"})
    PlainProducer(stage, {"acks": 1}, says=False).write(tp, "there")


def _acknowledged(stage: FiveBrokers, producer: PlainProducer, tp: TopicPartition, value: str) -> None:
    """Give the leader time to acknowledge a record; it may not."""

    def told() -> None:
        producer.poll()
        if (tp, value) not in producer.acknowledged:
            raise NotYet("it is not acknowledged")

    try:
        until(ACKNOWLEDGED_S, PAUSE_S, told)
    except NotYet:
        stage.say(f"{value!r} is not acknowledged: broker {stage.d} waits")
