"""The ways in which applications send: waiting, pipelining, forgetting, giving up early.

Each producer keeps to one mode, in turn: `synchronous` (one record, wait for it), `asynchronous` (1 to
`batch_max` records pipelined, wait for all), `forgetting` (it ignores the acknowledgements: its
records are in doubt until a consumer reads them), `impatient` (gives a record 1.5 s and one retry). Acks and
idempotence come from the configuration. Consumers assign all partitions by hand.

Finds: what `queue` finds of sends; above all duplicates and changes of order after sends that were given
up (librdkafka bumps the producer epoch then).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from core.client_settings import SessionSpec, overlay
from core.config import RunConfig
from core.generator import Pace, Planned, Slot, batches, first_contact
from core.op import Op
from workloads.specs import consumer, one_topic, producer, reading

TOPIC = "send-modes"
MODES = ("synchronous", "asynchronous", "forgetting", "impatient")
IMPATIENT = {"producer.message.timeout.ms": "1500", "producer.message.send.max.retries": "1"}

topics = partial(one_topic, TOPIC)


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first (at least one of each mode), then consumers."""
    count = _producers(config)
    producers = [producer(config, slot) for slot in range(count)]
    for slot, spec in enumerate(producers):
        if _mode(slot) == "impatient":
            producers[slot] = replace(spec, settings=overlay(IMPATIENT, spec.settings))
    return (*producers, *(consumer(config, count + n) for n in range(config.consumers)))


def _producers(config: RunConfig) -> int:
    return max(config.producers, len(MODES))


def _mode(slot: int) -> str:
    return MODES[slot % len(MODES)]


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    if spec.acks is None:
        yield from reading(slot)
        return
    mode = _mode(slot.slot)
    # A process that ignores acknowledgements would leave no sign that it ever reached a broker.
    if spec.idempotent or mode == "forgetting":
        yield first_contact(slot.tps, slot.values, txn=False)
    pace = Pace(slot.rng, config.rate / _producers(config))
    most = 1 if mode == "synchronous" else config.batch_max
    for planned in batches(slot, slot.tps, pace, most):
        op = Op(f=f"send-{mode}", mops=planned.op.mops, forget=mode == "forgetting")
        yield replace(planned, op=op)
