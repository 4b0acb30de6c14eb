"""The nemesis `disk`: a broker cannot write any more, and stops for it."""

from core.cluster import DiskFailable
from core.generator import source
from nemesis.families.process import REVIVED, revive
from nemesis.targets import TARGETS, described, find
from nemesis.types import AimedFault, ClusterView, Effect, Environment, FaultKind, Nemesis, PlannedFault

STOPPED_S = 20.0
"""How long a broker has to stop once its writes fail: one that leads something is asked to write all the
time."""


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    found = find(step.target, source(step.seed, "aim"), view, answering=True, brokers=True)
    text = f"{described(found.node, view, found.role)} could write no file any more, and stopped"
    return AimedFault(step=step, nodes=(found.node,), text=text)


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: ClusterError, where the broker continues all the same."""
    assert isinstance(env.cluster, DiskFailable)
    env.down.append(hit)
    await env.cluster.fail_writes(hit.nodes, STOPPED_S)


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Start it; what kept its process from writing has ended with it."""
    assert isinstance(env.cluster, DiskFailable)
    await env.cluster.kill(hit.nodes)
    await revive(env, hit)


DISK = Nemesis(
    name="disk",
    healings=(REVIVED,),
    doc="""\
A broker cannot write any more, and stops for it.

So does a disk that fails, or a file system that is mounted read-only: each write to a file fails with an
error. What the broker had written before is there when it starts again, once the disk is whole.

What Kafka does: the first append that fails marks the log directory as failed (`LogDirFailureChannel`). A
broker without any directory left ends at once, by `Exit.halt`, without a clean shutdown; one that is a
controller, too, also ends where it cannot write the metadata log. The append is answered with
KAFKA_STORAGE_ERROR, or not at all. After the start it recovers its logs, as after a kill.

What it tends to show: records acknowledged with acks=1 that only the failed broker had; records that were
answered with an error and are there all the same, which a client without idempotence sends again. Nothing
acknowledged may be lost with acks=all and min.insync.replicas above 1.""",
    colour="#884422",
    needs=(DiskFailable,),
    kinds={"write-errors": FaultKind(doc="every write to a file fails", brokers_only=True, apply_s=3.0)},
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    in_random=False,
)
