"""A share group: members acquire records and acknowledge each one (KIP-932).

Producers fill one topic, every other one in transactions; `abort_share` of these are aborted on purpose. The
members of one share group (at least four) accept most records, release some, which come again, and reject
some; of `renew_share` they renew the locks, and acknowledge them later. They acknowledge at once, in two
steps, after the lock of a record has ended, or never: a member leaves now and then with what it holds, and
comes back as a new process. The group reads at `isolation`.

With `dead_letters` the group has a dead-letter queue (KIP-1191), which is read once all members have ended.

Share groups have Kafka 4.1 and later, with dead letters 4.4, and brokers of the model in these eras
(`sut=model`, which needs no Docker, and `sut=simulated`).

Finds: records delivered again after they were accepted or rejected; records that two members hold at one
time; records that the group passed over; aborted records delivered at read_committed; delivery counts that do
not rise, or rise above the limit; dead letters that are missing, double, wrong, or of records that were not
given up. With Kafka 4.1 it finds less: half of librdkafka's members are given nothing there (KAFKA-19846).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.dead_letters import COPIED
from core.dead_letters import TOPIC as TOPIC_OF_LETTERS
from core.generator import Pace, Planned, Slot, first_contact
from core.op import Acknowledge, Acquire, Isolation, Op, Subscribe
from workloads.specs import consumer, count_of, fillers, filling, one_topic, reach, transactional

SETTINGS = ("home_producers", "renew_share", "dead_letters")
PRESET = "share"
TOPIC = "share"
GROUP = "share-group"
DEAD_LETTERS = "dlq.share"
"""Its dead-letter queue; Kafka's default prefix of such names."""
MEMBERS_MIN = 4
LOCK_MS = 2000
"""How long a member may hold a record (`share.record.lock.duration.ms`)."""
LATE_S = (0.5, 4.0)
"""After what time a late member acknowledges, drawn uniformly."""
LIFE = (20, 120)
"""Rounds after which a member leaves and comes back as a new process, drawn uniformly."""
ACCEPT, RELEASE = 0.8, 0.12
LATE, HALF = 0.04, 0.15
"""Shares of rounds that acknowledge late, and in two steps."""
TXN_RECORDS = 10
"""Most records of a transaction."""

topics = partial(one_topic, TOPIC)


def share_groups(config: RunConfig) -> dict[str, dict[str, str]]:
    """The settings of its group, by Kafka's names."""
    committed = config.isolation is Isolation.READ_COMMITTED
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed" if committed else "read_uncommitted",
        "share.record.lock.duration.ms": f"{LOCK_MS}",
    }
    if config.dead_letters:
        settings |= {TOPIC_OF_LETTERS: DEAD_LETTERS, COPIED: "true"}
    return {GROUP: settings}


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first, every other one with a transactional id, then members."""
    producers = [
        transactional(config, plan.slot, f"share-{plan.slot}") if plan.slot % 2 else plan
        for plan in fillers(config)
    ]
    members = range(max(config.consumers, MEMBERS_MIN))
    first = len(producers)
    shares = [replace(consumer(config, first + number, group=GROUP), share=True) for number in members]
    return (*producers, *shares)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    if spec.share:
        return _sharing(config, slot)
    return _transactions(config, slot) if spec.transactional_id else filling(config, spec, slot, slot.tps)


def _transactions(config: RunConfig, slot: Slot) -> Iterator[Planned]:
    tps = reach(config, slot.slot, slot.tps)
    yield first_contact(tps, slot.values, txn=True)
    pace = Pace(slot.rng, config.rate / count_of(config))
    while True:
        count = slot.rng.randint(1, min(TXN_RECORDS, config.batch_max))
        mops = tuple(slot.values.send(slot.rng.choice(tps)) for _ in range(count))
        abort = slot.rng.random() < config.abort_share
        yield Planned(pace.wait_s(), Op(f="txn", mops=mops, txn=True, abort=abort))


def _sharing(config: RunConfig, slot: Slot) -> Iterator[Planned]:
    rng = slot.rng
    yield Planned(0.0, Op(f="subscribe", mops=(Subscribe((TOPIC,)),)))
    for _ in range(rng.randint(*LIFE)):
        yield Planned(0.0, Op(f="acquire", mops=(Acquire(),)))
        drawn = rng.random()
        wait_s = rng.uniform(*LATE_S) if drawn < LATE else 0.0
        if drawn > 1 - HALF:
            yield Planned(0.0, Op(f="acknowledge", mops=(_acknowledge(config, slot, share=0.5),)))
        yield Planned(wait_s, Op(f="acknowledge", mops=(_acknowledge(config, slot),)))
    yield Planned(0.0, Op(f="acquire", mops=(Acquire(),)))  # it leaves with these


def _acknowledge(config: RunConfig, slot: Slot, share: float = 1.0) -> Acknowledge:
    seed, renew = slot.rng.getrandbits(48), config.renew_share
    return Acknowledge(seed=seed, accept=ACCEPT, release=RELEASE, share=share, renew=renew)
