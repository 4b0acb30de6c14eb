"""Nemeses: faults that are planned from a seed, aimed at roles, injected and always healed.

    steps = plan("partition:one-way@controller,kill", config)
    injected = await inject(cluster, steps[0], await cluster.roles(), names)
    await heal(cluster, injected)

fault      what a fault is, from its plan to its healing
targets    from `leader`, `controller`, … to a node
partition  the nemesis `partition`: grudges and cuts
process    the nemeses `kill` and `pause`
registry   all of them by name: NEMESES
times      lengths of faults and pauses
schedule   from a name to the steps of a run

Only this module acts on the cluster, and it holds no state: what is in force is known to the caller
(`Injected`) and to the cluster; `heal_all` needs neither.

Not here: waiting until a step is due, recording what was done (the interpreter's).
"""

from collections.abc import Awaitable, Callable, Sequence

from harness.cluster import Cluster, Killable, Partitionable, Pausable, Roles
from nemesis.fault import Injected, Names, Nemesis, NoTarget, Scene, Step
from nemesis.partition import every_cut
from nemesis.registry import NEMESES
from nemesis.schedule import plan

__all__ = [
    "NEMESES",
    "Injected",
    "Names",
    "Nemesis",
    "NoTarget",
    "Step",
    "heal",
    "heal_all",
    "inject",
    "missing",
    "needs",
    "plan",
]


def needs(steps: Sequence[Step]) -> tuple[type, ...]:
    """The capability protocols that a cluster must have for these steps, each once."""
    families = {step.family for step in steps}
    found = [
        need for name, nemesis in NEMESES.items() if name in families for need in nemesis.needs
    ]
    return tuple(dict.fromkeys(found))


def missing(steps: Sequence[Step], cluster: object) -> list[str]:
    """Names of the needed capabilities that the cluster lacks; empty where it has all."""
    return [need.__name__ for need in needs(steps) if not isinstance(cluster, need)]


async def inject(cluster: Cluster, step: Step, roles: Roles, names: Names) -> Injected:
    """Find the step's target among `roles` and make the fault.

    Raises: NoTarget, before anything was done; whatever the cluster raises, after what may have been
    done by then was taken back (a note on the exception says so where that failed too).
    """
    nemesis = NEMESES[step.family]
    assert nemesis.effect is not None, f"{step.name} is no step of a plan"
    hit = nemesis.effect.aim(step, Scene(nodes=cluster.nodes, roles=roles, names=names))
    try:
        await nemesis.effect.apply(cluster, hit)
    except Exception as error:
        try:
            await nemesis.effect.undo(cluster, hit)
        except Exception as again:  # noqa: BLE001 (the first error is the one to report)
            error.add_note(f"taking back what had been done of {step.name} failed: {again}")
        raise
    return Injected(step=step, nodes=hit.nodes, text=hit.text, colour=nemesis.colour, undo=hit)


async def heal(cluster: Cluster, injected: Injected) -> None:
    """Take a fault back: the exact inverse of what `inject` did; no-op where that is undone."""
    effect = NEMESES[injected.step.family].effect
    assert effect is not None
    await effect.undo(cluster, injected.undo)


async def heal_all(cluster: Cluster) -> None:
    """Whatever was injected, by whom ever: resume all nodes, mend all links, revive all nodes.

    In this order: a node that was paused and killed is revived last, and comes back to whole links.
    What fails for all nodes at once is tried for each alone, and nothing that fails keeps the rest
    from being tried.

    Raises: ExceptionGroup of all that failed for single nodes, after everything was tried; its
    message names each.
    """
    failed: list[Exception] = []
    told: list[str] = []

    async def attempt(what: str, act: Callable[[Sequence[int]], Awaitable[None]]) -> None:
        try:
            await act(cluster.nodes)
            return
        except Exception:  # noqa: BLE001 (tried for each node below; what fails there is raised)
            pass
        for node in cluster.nodes:
            try:
                await act([node])
            except Exception as error:  # noqa: BLE001 (collected and raised at the end)
                failed.append(error)
                told.append(f"{what} node {node}: {error}")

    if isinstance(cluster, Pausable):
        await attempt("resume", cluster.resume)
    if isinstance(cluster, Partitionable):
        mend, whole = cluster.mend, every_cut(cluster.nodes)
        await attempt(
            "mend the links of",
            lambda nodes: mend([cut for cut in whole if cut.node in nodes]),
        )
    if isinstance(cluster, Killable):
        await attempt("revive", cluster.revive)
    if failed:
        raise ExceptionGroup("; ".join(told), failed)
