"""Zombie twins: two clients share one transactional id, and take it from each other.

Producers come in pairs with one transactional id. The one that initialises it last fences the other. The
other's next transaction fails; it returns as a new process and fences its twin in turn. Between
these moments both write transactions of 1 to `batch_max` records, some aborted on purpose. Consumers
assign all partitions by hand.

Finds: everything `transactions` finds; writes of a fenced producer that appear after those of its
successor (zombie-write).
"""

from collections.abc import Iterator
from functools import partial

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Pace, Planned, Slot, first_contact
from core.op import Op
from workloads.specs import consumer, one_topic, reading, transactional

TOPIC = "fencing"
REST_S = (0.0, 2.0)
"""Time that a process waits before it takes the id over, drawn uniformly: its twin works meanwhile."""

topics = partial(one_topic, TOPIC)


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers in pairs, at least one, then consumers."""
    twins = _twins(config)
    producers = [transactional(config, slot, f"twin-{slot // 2}") for slot in range(twins)]
    return (*producers, *(consumer(config, twins + n) for n in range(config.consumers)))


def _twins(config: RunConfig) -> int:
    return max(2, config.producers // 2 * 2)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    if spec.transactional_id is None:
        yield from reading(slot)
        return
    first = first_contact(slot.tps, slot.values, txn=True)
    yield Planned(slot.rng.uniform(*REST_S), first.op, first=True)
    pace = Pace(slot.rng, config.rate / _twins(config))
    while True:
        count = slot.rng.randint(1, config.batch_max)
        mops = tuple(slot.values.send(slot.rng.choice(slot.tps)) for _ in range(count))
        abort = slot.rng.random() < config.abort_share
        yield Planned(pace.wait_s(), Op(f="txn", mops=mops, txn=True, abort=abort))
