"""A program of yours between two topics: it reads records, and writes what it makes of them.

Producers fill the input topic: most as in `queue`, one in transactions, and it aborts some. The
instances of the program (as many as `consumers`) are members of one group; they are started by the harness,
and faults kill, pause and restart them as clients: `inquest run --app COMMAND --in TOPIC --out TOPIC`, or
`--effects COMMAND` in the place of `--out` (docs/applications.md).

What the program did is judged by what it left: its output and its group's committed offsets.

Finds: input records with two outputs (eos-duplicate), or with none although the group committed an offset
behind them (eos-loss); outputs whose input is not committed once the program has ended (eos-uncommitted);
outputs of one key in the other order than their inputs (nonmonotonic-copy); output that no committed input
has (phantom-read).
"""

from collections.abc import Iterator
from dataclasses import replace

from core.client_settings import SessionSpec
from core.config import Application, RunConfig
from core.generator import Pace, Planned, Slot, first_contact
from core.op import Op
from workloads.specs import count_of, fillers, filling, producer, transactional

SETTINGS = ("app", "commit", "home_producers")
FEED_ID = "app-feed"
INSTANCES_MIN = 1


def application(config: RunConfig) -> Application:
    """The application of a run."""
    return config.app or Application()


def topics(config: RunConfig) -> dict[str, int]:
    """Input and, where it is a topic, output, with as many partitions each."""
    app = application(config)
    return dict.fromkeys(filter(None, (app.input, app.output)), config.partitions)


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first, the very first with transactions, then the instances."""
    _, *others = fillers(config)
    slots = range(count_of(config), count_of(config) + max(config.consumers, INSTANCES_MIN))
    feeder = transactional(config, 0, FEED_ID)
    return (feeder, *others, *(_instance(config, slot) for slot in slots))


def _instance(config: RunConfig, slot: int) -> SessionSpec:
    """What is known of an instance: it reads, it produces, and it is a member of the group."""
    its = replace(producer(config, slot), acks=-1, idempotent=False, settings={})
    return replace(its, isolation=config.isolation, group=application(config).group)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process; an instance has none, it does what its program does."""
    inputs = slot.of(application(config).input)
    if spec.group:
        return iter(())
    return _transactions(config, slot) if spec.transactional_id else filling(config, spec, slot, inputs)


def _transactions(config: RunConfig, slot: Slot) -> Iterator[Planned]:
    inputs = slot.of(application(config).input)
    yield first_contact(inputs, slot.values, txn=True)
    pace = Pace(slot.rng, config.rate / count_of(config))
    while True:
        count = slot.rng.randint(1, config.batch_max)
        mops = tuple(slot.values.send(slot.rng.choice(inputs)) for _ in range(count))
        abort = slot.rng.random() < config.abort_share
        yield Planned(pace.wait_s(), Op(f="txn", mops=mops, txn=True, abort=abort))
