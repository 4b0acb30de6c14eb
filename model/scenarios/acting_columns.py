"""Columns of scenarios on `acting.Acting`.

Not here: columns of other stages.
"""

from collections.abc import Callable

from model.coordinator_messages import OffsetFetch
from model.java_hash import java_hash
from model.messages import Produce
from model.node import GROUP_TOPIC
from model.scenarios.acting import GROUP, Acting
from model.scenarios.scene import data

Column = Callable[[Acting], object]


def told(record: str) -> Column:
    """What the producer of a record was told."""
    return lambda s: s.told.get(record)


def requests(name: str) -> Column:
    """Produce requests of a producer, in brackets each, in the order in which they were sent."""

    def show(s: Acting) -> object:
        batches = [
            batch
            for who, _, request in s.sent
            if who == name and isinstance(request, Produce)
            for batch in request.batches.values()
        ]
        return [f"({' '.join(map(str, batch.records))})" for batch in batches]

    return show


def identity(name: str) -> Column:
    """Producer id and epoch."""

    def show(s: Acting) -> object:
        machine = s.producers.get(name)
        return f"{machine.producer_id}/{machine.producer_epoch}" if machine else None

    return show


def leader_known(name: str) -> Column:
    """Who leads partition 0, as a producer knows."""

    def show(s: Acting) -> object:
        node, epoch = s.producers[name].cluster.leaders.get(data(0), (-1, -1))
        return f"{node}, epoch {epoch}" if node >= 0 else None

    return show


def got(name: str) -> Column:
    """What a consumer has handed out, and its application has not processed."""
    return lambda s: s.readers[name].got if name in s.readers else None


def position(name: str) -> Column:
    """Position of a consumer in partition 0."""

    def show(s: Acting) -> object:
        reader = s.readers.get(name)
        return reader.position if reader is not None and reader.position >= 0 else None

    return show


def outcome(name: str) -> Column:
    """What the newest commit of a consumer was told."""

    def show(s: Acting) -> object:
        reader = s.readers.get(name)
        if reader is None or not reader.outcome:
            return None
        return reader.member.commits.get(reader.outcome, "waits") or "ok"

    return show


def ended(name: str) -> Column:
    """How the end of a producer's transaction goes."""

    def show(s: Acting) -> object:
        goal = s.goals.get(name)
        return (goal.error or "ok" if goal.done else "waits") if goal is not None else None

    return show


def done(s: Acting) -> object:
    """What applications have processed."""
    return s.done


def offset(s: Acting) -> object:
    """Committed offset of the group in partition 0."""
    to = s.leader((GROUP_TOPIC, java_hash(GROUP) % s.settings.offsets_partitions))
    answer = s.ask(OffsetFetch(GROUP, (data(0),)), to=to)
    found = answer.offsets.get(data(0), -1)
    return answer.error if answer.error else found if found >= 0 else None
