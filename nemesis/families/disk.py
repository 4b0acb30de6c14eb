"""The nemesis `disk`: a broker cannot write any more, and stops for it; or one of its two disks is gone."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from core.capabilities import DirectoryFailable, DiskFailable, DiskFillable
from core.config import RunConfig
from core.first_few import first_few
from core.generator import source
from core.systems import KafkaSection
from nemesis.families.process import REVIVED, revive
from nemesis.targets import LISTED, TARGETS, described, find
from nemesis.types import (
    Act,
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Healing,
    HealingStage,
    Nemesis,
    NoEffect,
    PlannedFault,
)

STOPPED_S = 20.0
"""How long a broker has to stop once its writes fail: one that leads something is asked to write all the
time."""
OFFLINE_S = 10.0
"""How long a broker has to take a log directory offline: it writes a checkpoint there every second."""
DONE = {
    "write-errors": "could write no file any more, and stopped",
    "full": "had no space left on its disk, and stopped",
    "one-dir": "lost a log directory",
}
"""What happened to the target, by kind."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    found = find(step.target, source(step.seed, "aim"), view, answering=True, brokers=True)
    text = f"{described(found.node, view, found.role)} {DONE[step.kind]}"
    return AimedFault(step=step, nodes=(found.node,), text=text)


async def _apply(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoEffect; ClusterError, where the broker continues as if nothing had happened."""
    if hit.step.kind == "one-dir":
        return await _lose_directory(env, hit)
    env.hold_down(hit)
    if hit.step.kind == "full":
        assert isinstance(env.cluster, DiskFillable)
        await env.cluster.fill_disks(hit.nodes, STOPPED_S)
    else:
        assert isinstance(env.cluster, DiskFailable)
        await env.cluster.fail_writes(hit.nodes, STOPPED_S)
    return hit


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Start it, once it can write again: a limit of its process has ended with it."""
    if hit.step.kind == "one-dir":
        await _mend(env, hit.nodes)
        await _start(env, hit.nodes)
        return
    if hit.step.kind == "full":
        assert isinstance(env.cluster, DiskFillable)
        await env.cluster.kill(hit.nodes)
        await env.cluster.free_disks(hit.nodes)
    await revive(env, hit)


# ---- a full disk


def _unbounded(config: RunConfig) -> str:
    """Why no disk could be full, and what to set."""
    if config.has(KafkaSection) and not config.section(KafkaSection).disk_mb:
        return "the brokers have the disk of the engine: set disk_mb, to 128 or more"
    return ""


def _full(env: Environment) -> Sequence[int]:
    return env.cluster.full_disks() if isinstance(env.cluster, DiskFillable) else ()


def _free_all(env: Environment) -> Act:
    assert isinstance(env.cluster, DiskFillable)
    return env.cluster.free_disks


FREED = Healing(
    at=HealingStage.LINKS,
    needs=DiskFillable,
    what="free the disk of",
    of="node",
    everyone=_full,
    act=_free_all,
)


# ---- one of two log directories


def _undivided(config: RunConfig) -> str:
    """Why no broker has a log directory to lose, and what to set."""
    if config.has(KafkaSection) and config.section(KafkaSection).log_dirs == 1:
        return "each broker has one log directory only: set log_dirs to 2"
    return ""


async def _lose_directory(env: Environment, hit: AimedFault) -> AimedFault:
    """Raises: NoEffect, where no replica was in the directory; ClusterError."""
    assert isinstance(env.cluster, DirectoryFailable)
    (node,) = hit.nodes
    gone = await env.cluster.fail_directory(node, OFFLINE_S)
    if not gone:
        raise NoEffect(f"{hit.text}, in which it had no replica")
    shown = first_few(gone, LISTED)
    return replace(hit, text=f"{hit.text} with its replicas of {shown}, and continued with the other one")


async def _mend(env: Environment, nodes: Sequence[int]) -> None:
    """End brokers that lost a directory, in order, and give it back to them."""
    assert isinstance(env.cluster, DirectoryFailable)
    if failed := [node for node in nodes if node in env.cluster.failed_directories()]:
        env.ended.update(failed)
        await env.cluster.shut_down(failed)
        await env.cluster.mend_directories(failed)


async def _start(env: Environment, nodes: Sequence[int]) -> None:
    """Start brokers, but for ones that another fault holds down."""
    assert isinstance(env.cluster, DirectoryFailable)
    held = env.held_down()
    await env.cluster.revive([node for node in nodes if node not in held])


def _failed(env: Environment) -> Sequence[int]:
    return env.cluster.failed_directories() if isinstance(env.cluster, DirectoryFailable) else ()


MENDED = Healing(
    at=HealingStage.LINKS,
    needs=DirectoryFailable,
    what="mend the log directory of",
    of="node",
    everyone=_failed,
    act=lambda env: partial(_mend, env),
)
DISK = Nemesis(
    name="disk",
    healings=(MENDED, FREED, REVIVED),
    doc="""\
A broker cannot write any more, and stops for it; or one of its two log directories is gone.

So does a disk that fails, or a file system that is mounted read-only: each write to a file fails with an
error. What the broker had written before is there when it starts again, once the disk is whole.

What Kafka does: the first append that fails marks the log directory as failed (`LogDirFailureChannel`). A
broker without any directory left ends at once, by `Exit.halt`, without a clean shutdown; one that is a
controller, too, also ends where it cannot write the metadata log. The append is answered with
KAFKA_STORAGE_ERROR, or not at all. After the start it recovers its logs, as after a kill.

What it tends to show: records acknowledged with acks=1 that only the failed broker had; records that were
answered with an error and are there all the same, which a client without idempotence sends again. Nothing
acknowledged may be lost with acks=all and min.insync.replicas above 1.

`full` needs brokers with disks of a size (`--set disk_mb=128`): the log directory is in memory then (tmpfs),
and another file there takes what is left. The broker ends as with write errors, though an append may have
written a part of itself. Healing removes that file, and starts the broker.

    inquest run --set disk_mb=128 --nemesis disk:full@leader

`one-dir` needs brokers with two log directories (`--set log_dirs=2`), from Kafka 3.7 on, with ZooKeeper from
1.0: the second one is gone, as when one of several disks fails. The broker takes it offline and continues
with the other one (KIP-112, KIP-858): its replicas there leave the in-sync replicas, and others lead in their
place, while it leads, follows and coordinates the rest. Healing shuts it down, gives the directory back, and
starts it: the replicas there are as old as the fault, and catch up. The metadata log is in the first one.

    inquest run --set log_dirs=2 --nemesis disk:one-dir@leader

What it tends to show: leaders and coordinators that live on for half of their partitions; a replica that
comes back with records that the others do not have, and is not cut; a replica that begins empty on the disk
that is left. None of that is allowed. Writes with acks=all to the partitions whose follower was there wait
for `replica.lag.time.max.ms` ([the report](findings/offline-directory.md)): 1 s in a run, 30 s by
default.""",
    colour="#884422",
    kinds={
        "write-errors": FaultKind(
            doc="every write to a file fails", brokers_only=True, apply_s=3.0, needs=(DiskFailable,)
        ),
        "full": FaultKind(
            doc="no space is left on the disk with the broker's logs",
            brokers_only=True,
            apply_s=3.0,
            needs=(DiskFillable,),
            refuses=_unbounded,
        ),
        "one-dir": FaultKind(
            doc="the second of a broker's two log directories is gone; healing gives it back, by a restart",
            brokers=2,
            brokers_only=True,
            apply_s=3.0,
            needs=(DirectoryFailable,),
            refuses=_undivided,
            reaches=("isr-shrank",),
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    in_random=False,
)
