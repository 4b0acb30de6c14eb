"""Names of a workload on a cluster that is not the harness's own: each begins with the run's prefix.

A module of this room knows nothing of it: it names topics, groups and transactional ids as on a cluster of
its own, and what it says passes here. Without a prefix everything passes as it is.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from msgspec.structs import replace as replaced

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Planned, Slot
from core.op import DATABASE, Assign, Copy, CreateTopic, Mop, Send, Subscribe, TopicPartition


def prefixed_topics(made: Callable[[RunConfig], dict[str, int]], config: RunConfig) -> dict[str, int]:
    """The workload's topics."""
    return {config.prefix + topic: partitions for topic, partitions in made(config).items()}


def prefixed_groups(
    made: Callable[[RunConfig], dict[str, dict[str, str]]], config: RunConfig
) -> dict[str, dict[str, str]]:
    """The settings of the workload's share groups."""
    return {config.prefix + group: settings for group, settings in made(config).items()}


def prefixed_plans(
    made: Callable[[RunConfig], tuple[SessionSpec, ...]], config: RunConfig
) -> tuple[SessionSpec, ...]:
    """The workload's sessions."""
    if not config.prefix:
        return made(config)
    return tuple(_named(spec, lambda name: config.prefix + name) for spec in made(config))


def prefixed_ops(
    made: Callable[[RunConfig, SessionSpec, Slot], Iterator[Planned]],
    config: RunConfig,
    spec: SessionSpec,
    slot: Slot,
) -> Iterator[Planned]:
    """The workload's schedule of one process. spec, slot: with the prefix, as the run has them."""
    if not (prefix := config.prefix):
        return made(config, spec, slot)
    bare = [TopicPartition(tp.topic.removeprefix(prefix), tp.partition) for tp in slot.tps]
    inner = _named(spec, lambda name: name.removeprefix(prefix))
    return _prefixed(made(config, inner, replace(slot, tps=tuple(bare))), prefix)


def _named(spec: SessionSpec, name: Callable[[str], str]) -> SessionSpec:
    """A session whose group and transactional id have other names."""
    return replace(
        spec,
        transactional_id=None if spec.transactional_id is None else name(spec.transactional_id),
        group=None if spec.group is None else name(spec.group),
    )


def _prefixed(schedule: Iterator[Planned], prefix: str) -> Iterator[Planned]:
    @lru_cache
    def tp(bare: TopicPartition) -> TopicPartition:
        return TopicPartition(prefix + bare.topic, bare.partition)

    def named(mop: Mop) -> Mop:
        match mop:
            case Send():
                return Send(tp(mop.tp), mop.value)
            case Assign():
                return Assign(tuple(map(tp, mop.tps)))
            case Subscribe():
                return Subscribe(tuple(prefix + topic for topic in mop.topics))
            case Copy() | CreateTopic() if mop.topic != DATABASE:
                return replaced(mop, topic=prefix + mop.topic)
            case _:
                return mop

    for planned in schedule:
        op = replaced(planned.op, mops=tuple(map(named, planned.op.mops)))
        yield replace(planned, op=op)
