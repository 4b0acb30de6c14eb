"""The nemesis `delete-records`: records are deleted while clients write and read them."""

from dataclasses import replace

from core.capabilities import Deletable
from core.config import RunConfig
from core.generator import source
from core.op import Isolation, TopicPartition
from nemesis.targets import LISTED, TARGETS, described, find
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Hold,
    Nemesis,
    NoEffect,
    NoTarget,
    PlannedFault,
)


def _refuses(config: RunConfig) -> str:
    return "Kafka deletes no records of compacted topics: leave cleanup.policy" if config.compacted else ""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    def led_by(node: int) -> tuple[TopicPartition, ...]:
        return tuple(tp for tp in sorted(view.names.data) if view.roles.leaders.get(tp, -1) == node)

    rng = source(step.seed, "aim")
    found = find(step.target, rng, view, answering=True, brokers=True, hits=led_by)
    who, led = described(found.node, view, found.role), led_by(found.node)
    if not led:
        raise NoTarget(f"{step.target}: {who} leads no partition of the workload")
    return AimedFault(step=step, nodes=(found.node,), text=who, tps=led)


async def _apply(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoTarget, where there is nothing to delete; NoEffect, where no leader has deleted in time."""
    assert isinstance(env.cluster, Deletable)
    listed = await env.cluster.offsets(hit.tps, Isolation.READ_UNCOMMITTED)
    ends = {tp: _end(hit.step.kind, *listed[tp]) for tp in hit.tps if tp in listed}
    ends = {tp: end for tp, end in ends.items() if end > listed[tp][0]}
    if not ends:
        raise NoTarget(f"{hit.text} leads no partition that is known to have committed records")
    env.deleted.update(ends)
    done = await env.cluster.delete_records(ends)
    if not done:
        raise NoEffect(f"{hit.text} has not said that it deleted records")
    told = [f"of {tp} below offset {ends[tp]}" for tp in done]
    more = f" and of {len(told) - LISTED} more partitions" if len(told) > LISTED else ""
    return replace(hit, text=f"{hit.text} deleted the records {', '.join(told[:LISTED])}{more}")


def _end(kind: str, start: int, high_watermark: int) -> int:
    return high_watermark if kind == "all" else start + (high_watermark - start + 1) // 2


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Nothing brings deleted records back on purpose."""


DELETE_RECORDS = Nemesis(
    name="delete-records",
    doc="""\
The beginnings of logs are deleted (DeleteRecords, KIP-107), while clients write and read.

Operators do that to make room, or since a law asks for it; Kafka Streams does it with what it has read. The
partitions of the workload that the target leads lose their records up to the high watermark, or half of
them. Beside `client:pause`, a group stands behind that.

What Kafka does: the leader's log begins at the offset that was asked for; followers learn that with their
next fetch, and the request is answered when those on live brokers have deleted, too. A consumer that stands
before the new beginning gets OFFSET_OUT_OF_RANGE, and begins where `auto.offset.reset` says: earliest, here.
A broker writes the new beginning to disk once a minute (`log.flush.start.offset.checkpoint.interval.ms`):
one that is killed before forgets it, and where all replicas do, records that were deleted are there again.

What it permits: the loss of records below the offset that was asked for, of that partition, that were sent
before; and that a consumer passes records below it which came back. What it tends to show: a log that
begins later than it was asked to, or loses its beginning again and again; producers that are forgotten with
their records (KAFKA-7190); transactions whose first records are gone.""",
    colour="#DDCC77",
    needs=(Deletable,),
    refuses=_refuses,
    kinds={
        "half": FaultKind(
            doc="the older half of each log", hold=Hold.BRIEF, brokers_only=True, reaches=("records-deleted",)
        ),
        "all": FaultKind(
            doc="each log up to its high watermark",
            hold=Hold.BRIEF,
            weight=2,
            brokers_only=True,
            reaches=("records-deleted",),
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    in_random=False,
)
