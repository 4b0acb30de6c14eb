"""Nemeses: faults that are planned from a seed, aimed at roles, injected and always healed.

    steps = plan("partition:one-way@controller,kill", config)
    injected = await inject(stage, steps[0], await stage.cluster.roles(), names)
    await heal(stage, injected)

fault      what a fault is, from its plan to its healing
targets    from `leader`, `controller`, … to a node
partition  the nemesis `partition`: grudges and cuts
process    the nemeses `kill` and `pause`
power      the nemesis `power`: nodes lose what was not flushed
restart    the nemesis `restart`: shut down in order, one or one after the other
unclean    the nemesis `unclean`: a replica that misses records becomes leader
elections  the nemesis `elections`: leaders move on a healthy cluster
links      the nemesis `links`: bad links between clients and brokers
client     the nemesis `client`: clients die or stand still
registry   all of them by name: NEMESES
times      lengths of faults and pauses
draw       what a name leaves out
schedule   from a name to the steps of a run
wait       waiting inside an effect

Only this module and the effects it calls act on the stage, and they hold no state: what is in force
is known to the caller (`Injected`), to the stage (who holds nodes down), to the cluster and to the
clients; `heal_all` needs none of them.

Not here: waiting until a step is due, recording what was done (the interpreter's).
"""

from collections.abc import Awaitable, Callable, Sequence

from harness.cluster import Clients, Killable, Linked, Partitionable, Pausable, Restartable, Roles
from nemesis.fault import Injected, Names, Nemesis, NoEffect, NoTarget, Scene, Stage, Step
from nemesis.partition import every_cut
from nemesis.registry import NEMESES
from nemesis.schedule import plan

__all__ = [
    "NEMESES",
    "Injected",
    "Names",
    "Nemesis",
    "NoEffect",
    "NoTarget",
    "Stage",
    "Step",
    "heal",
    "heal_all",
    "inject",
    "missing",
    "needs",
    "plan",
]

Act = Callable[[Sequence[int]], Awaitable[None]]


def needs(steps: Sequence[Step]) -> tuple[type, ...]:
    """The capability protocols that these steps need, each once; `Clients` may be among them."""
    families = {step.family for step in steps}
    found = [
        need for name, nemesis in NEMESES.items() if name in families for need in nemesis.needs
    ]
    return tuple(dict.fromkeys(found))


def missing(steps: Sequence[Step], cluster: object) -> list[str]:
    """Names of the needed capabilities that the cluster lacks; empty where it has all.

    `Clients` is not the cluster's to have: every stage has it.
    """
    wanted = (need for need in needs(steps) if need is not Clients)
    return [need.__name__ for need in wanted if not isinstance(cluster, need)]


async def inject(stage: Stage, step: Step, roles: Roles, names: Names) -> Injected:
    """Find the step's target among `roles` and make the fault.

    Raises: NoTarget, before anything was done; NoEffect, or whatever the cluster or the clients
    raise, after what may have been done by then was taken back (a note on the exception says so
    where that failed too).
    """
    nemesis = NEMESES[step.family]
    assert nemesis.effect is not None, f"{step.name} is no step of a plan"
    scene = Scene(
        nodes=tuple(stage.cluster.nodes),
        brokers=tuple(stage.cluster.brokers),
        clients=tuple(stage.clients.slots),
        roles=roles,
        names=names,
        down=tuple(sorted({node for other in stage.down for node in other.nodes})),
    )
    hit = nemesis.effect.aim(step, scene)
    try:
        await nemesis.effect.apply(stage, hit)
    except Exception as error:
        try:
            await nemesis.effect.undo(stage, hit)
        except Exception as again:  # noqa: BLE001 (the first error is the one to report)
            error.add_note(f"taking back what had been done of {step.name} failed: {again}")
        raise
    return Injected(
        step=step, nodes=hit.nodes, slots=hit.slots, text=hit.text, colour=nemesis.colour, undo=hit
    )


async def heal(stage: Stage, injected: Injected) -> None:
    """Take a fault back: the exact inverse of what `inject` did; no-op where that is undone."""
    effect = NEMESES[injected.step.family].effect
    assert effect is not None
    await effect.undo(stage, injected.undo)


async def heal_all(stage: Stage) -> None:
    """Whatever was injected, by whom ever: resume all nodes and clients, mend and cure all links,
    revive all nodes, restart all clients that are down.

    In this order: what stands still may hold up a proxy that is to be cured; a node that was paused
    and killed is revived when its links are whole, and clients come back to a whole cluster. What
    fails for all at once is tried for each alone, and nothing that fails keeps the rest from being
    tried.

    Raises: ExceptionGroup of all that failed for single nodes and clients, after everything was
    tried; its message names each.
    """
    cluster, clients = stage.cluster, stage.clients
    stage.down.clear()
    failed: list[Exception] = []
    told: list[str] = []

    async def attempt(what: str, of: str, everyone: Sequence[int], act: Act) -> None:
        if not everyone:
            return
        try:
            await act(everyone)
            return
        except Exception:  # noqa: BLE001 (tried for each below; what fails there is raised)
            pass
        for one in everyone:
            try:
                await act([one])
            except Exception as error:  # noqa: BLE001 (collected and raised at the end)
                failed.append(error)
                told.append(f"{what} {of} {one}: {error}")

    slots = [client.slot for client in clients.slots]
    if isinstance(cluster, Pausable):
        await attempt("resume", "node", cluster.nodes, cluster.resume)
    await attempt("resume", "client", slots, clients.resume)
    if isinstance(cluster, Partitionable):
        mend, whole = cluster.mend, every_cut(cluster.nodes)
        await attempt(
            "mend the links of",
            "node",
            cluster.nodes,
            lambda nodes: mend([cut for cut in whole if cut.node in nodes]),
        )
    if isinstance(cluster, Linked):
        await attempt("cure the links of", "node", cluster.brokers, cluster.cure)
    if isinstance(cluster, Killable | Restartable):
        await attempt("revive", "node", cluster.nodes, cluster.revive)
    await attempt("restart", "client", slots, clients.restart)
    if failed:
        raise ExceptionGroup("; ".join(told), failed)
