"""Columns of scenarios on `producing.Producing`.

Not here: columns of other stages.
"""

from collections.abc import Callable

from model.log import NO_EPOCH
from model.node import GROUP_TOPIC
from model.scenarios.producing import Producing
from model.scenarios.scene import TOPIC, Scene, data

Column = Callable[[Producing], object]


def told(key: str) -> Column:
    """What a record's producer was told, or a producer otherwise."""
    return lambda s: s.told.get(key)


def log(number: int, node: int = -1, *, topic: str = TOPIC) -> Callable[[Scene], object]:
    """Records, and markers in brackets."""

    def show(s: Scene) -> object:
        replica = s.replica((topic, number), node)
        if replica is None:
            return "down"
        return [
            f"[{batch.control}]" if batch.control else " ".join(map(str, batch.records))
            for batch in replica.log.batches
        ]

    return show


def known(number: int, name: str) -> Column:
    """What the leader's log knows of a producer: its epoch, and first sequences of its newest batches."""

    def show(s: Producing) -> object:
        replica = s.replica(data(number))
        state = replica.log.producers.get(s.writers[name].producer_id) if replica else None
        if state is None or state.epoch == NO_EPOCH:
            return None
        return f"{state.epoch}: {' '.join(str(b.first_sequence) for b in state.batches) or '–'}"

    return show


def identity(name: str) -> Column:
    """Producer id and epoch that a producer has."""

    def show(s: Producing) -> object:
        writer = s.writers.get(name)
        return f"{writer.producer_id}/{writer.epoch}" if writer and writer.epoch >= 0 else None

    return show


def hw(number: int) -> Callable[[Scene], object]:
    """High watermark."""
    return lambda s: replica.high_watermark if (replica := s.replica(data(number))) else None


def lso(number: int) -> Column:
    """Last stable offset."""

    def show(s: Producing) -> object:
        replica = s.replica(data(number))
        return replica.log.stable(replica.high_watermark) if replica else None

    return show


def aborted(number: int) -> Column:
    """The aborted index: (producer id, first offset, offset of the marker)."""

    def show(s: Producing) -> object:
        replica = s.replica(data(number))
        if replica is None:
            return None
        return [f"({a.producer_id}, {a.first}, {a.last})" for a in replica.log.aborted]

    return show


def committed(number: int, *, begin: int = 0) -> Column:
    """What a reader at read_committed gets."""
    return lambda s: s.read(number, committed=True, begin=begin)


def uncommitted(number: int) -> Column:
    """What a reader at read_uncommitted gets."""
    return lambda s: s.read(number, committed=False)


def state(key: str = "t") -> Column:
    """State, producer id and epoch at the coordinator."""

    def show(s: Producing) -> object:
        transaction = s.transaction(key)
        if transaction is None:
            return None
        record = transaction.record
        return f"{record.state.value} {record.producer_id}/{record.epoch}"

    return show


def logged(key: str = "t") -> Column:
    """States in the transaction log."""
    return lambda s: [r.state.value for r in s.logged(key)]


def members(key: str = "t") -> Column:
    """Partitions of the transaction."""

    def show(s: Producing) -> object:
        transaction = s.transaction(key)
        if transaction is None:
            return None
        partitions = transaction.record.partitions
        return ["offsets" if topic == GROUP_TOPIC else f"{topic}{n}" for topic, n in partitions]

    return show


def position(s: Producing) -> object:
    """Committed offset of the group, as a member is told it."""
    return s.position()
