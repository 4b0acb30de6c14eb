"""A leader asks the controller for more in-sync replicas, and hears of them in another order."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from core.op import TopicPartition
from core.runtime import run_blocking
from core.wire import fetcher_id, reader_id
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import PAUSE_S, NotReached, PerformedWait
from harness.reproduce.late_requests import seen
from harness.reproduce.library_producer import PATIENT, PlainProducer
from harness.reproduce.sendings import Sent, sent_by
from harness.reproduce.stage import FiveBrokers

SOON: Final = {"replica.lag.time.max.ms": "3000"}
"""A setting of brokers: so long a leader waits for a follower that is no longer caught up, in sync or not
(Kafka: 30 s)."""
LAGS_S: Final = 3.5
"""A replica that has not fetched for so long is not caught up."""
ACKNOWLEDGED_S: Final = 8.0
"""A leader that waits for no more replicas acknowledges a record in less."""


def pending_expansion(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """D leads alone; E comes into sync, then C. The controller answers that E is in sync, and D asks for C;
    the network holds that request. On the bad side D reads the metadata record of E after that, on the good
    side before. C fetches no more, and a record is written; then the controller gets the request, and C, the
    preferred leader, leads. No node fails."""
    d, e, c = stage.d, stage.e, stage.c
    (tp,) = stage.create(name, [(c, d, e)])
    producer = PlainProducer(stage, {"acks": -1, **PATIENT})
    producer.write(tp, "zero")
    for node in (c, e):
        run_blocking(stage.cluster.shut_down([node]))
    stage.leads(d, tp)
    stage.in_sync_are({d}, tp)
    controller = max(stage.cluster.nodes)
    with ExitStack() as late, ExitStack() as asked:
        with stage.held(d, client_id=fetcher_id(c)) as of_c:
            with stage.held(d, client_id=fetcher_id(e)) as of_e:
                run_blocking(stage.cluster.revive([e, c]))
                stage.awake(e, c)
                seen(stage, of_e, "caught")
                seen(stage, of_c, "caught")
                if not good:
                    seen(stage, late.enter_context(stage.held(controller, client_id=reader_id(d))), "caught")
                    stage.say(f"broker {d} reads no metadata")
            stage.in_sync_are({d, e}, tp, witness=stage.a)
            if good:
                _applied(stage, f"{name}-before")
            asks = asked.enter_context(stage.held(controller, "alter_partition"))
        seen(stage, asks, "caught")
        stage.say(f"broker {d} asks for broker {c}, and the network holds it")
        with stage.held(d, client_id=fetcher_id(c)) as again:
            seen(stage, again, "caught")
            late.close()
            _applied(stage, f"{name}-after")
            time.sleep(LAGS_S)  # D looks at its high watermark when a follower's log has grown
            producer.send(tp, "one")
            _acknowledged(stage, producer, tp, "one")
            _elected_at_once(stage, tp, asked)
            stage.leads(c, tp, c)  # else it may still fetch from D, which may not know of it
    producer.write(tp, "two")
    return sent_by(producer)


def refused_expansion(stage: FiveBrokers, name: str, good: bool) -> PerformedWait:
    """D leads, E follows. C was away and returns: D asks for it, and the network holds the request. On the
    bad side C is killed, a record is written, and the controller gets the request when it has fenced C: it
    refuses. On the good side C lives, and the controller grants it. Nothing else is written."""
    d, e, c = stage.d, stage.e, stage.c
    (tp,) = stage.create(name, [(d, e, c)])
    producer = PlainProducer(stage, {"enable.idempotence": True, **PATIENT})
    producer.write(tp, "zero")
    run_blocking(stage.cluster.shut_down([c]))
    stage.in_sync_are({d, e}, tp)
    with stage.held(max(stage.cluster.nodes), "alter_partition", client_id=str(d)) as asks:
        run_blocking(stage.cluster.revive([c]))
        stage.awake(c)
        seen(stage, asks, "caught")
        stage.say(f"broker {d} asks for broker {c}, and the network holds it")
        if not good:
            stage.kill(c)
        producer.send(tp, "one")
        if not good:
            stage.gone(c)  # a session's time: E has the record, and D knows that
            producer.poll()
            if (tp, "one") in producer.acknowledged:
                raise NotReached(f"broker {d} had not asked for broker {c} of {tp}")
    stage.say(f"the controller {'grants' if good else 'refuses'} it: brokers {d} and {e} have the record")
    began = time.monotonic()
    producer.wait()
    who = f"both members of the in-sync set of {tp} had a record, and its leader no request; the producer"
    return PerformedWait(who=who, waited_s=time.monotonic() - began)


def _elected_at_once(stage: FiveBrokers, tp: TopicPartition, asked: ExitStack) -> None:
    """Let the controller get what waits, and have the preferred leader elected as soon as it is in sync: D
    takes it off again within `replica.lag.time.max.ms`. Raises: ClusterError."""
    with ThreadPoolExecutor(1) as pool:
        elected = pool.submit(lambda: run_blocking(stage.cluster.elect_preferred([tp])))
        asked.close()
        elected.result()


def _applied(stage: FiveBrokers, topic: str) -> None:
    """Wait until D has applied all metadata up to now: it leads a partition that is made now."""
    (tp,) = stage.create(topic, [(stage.d,)], {"min.insync.replicas": "1"})
    PlainProducer(stage, {"acks": 1}, says=False).write(tp, "there")


def _acknowledged(stage: FiveBrokers, producer: PlainProducer, tp: TopicPartition, value: str) -> None:
    """Give the leader time to acknowledge a record; it may not."""

    def acknowledged() -> None:
        producer.poll()
        if (tp, value) not in producer.acknowledged:
            raise NotYet("it is not acknowledged")

    try:
        until(ACKNOWLEDGED_S, PAUSE_S, acknowledged)
    except NotYet:
        stage.say(f"{value!r} is not acknowledged: broker {stage.d} waits")
