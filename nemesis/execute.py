"""Executing a plan: inject a fault, heal it, heal everything.

Only this module and the effects it calls act on the environment, and they hold no state. Who holds a fault in
force: the caller (what `inject` returns), the environment (which faults hold nodes down), the cluster and the
clients; `heal_all` needs none of them.
"""

from collections.abc import Collection, Sequence

from core.capabilities import Upgradable, capabilities_of
from core.cluster import Roles
from core.errors import Unanswered
from core.load_clients import Clients
from nemesis.registry import NEMESES
from nemesis.targets import has_zookeeper
from nemesis.types import (
    Act,
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    Healing,
    PlannedFault,
    WorkloadNames,
)


def needs(steps: Sequence[PlannedFault]) -> tuple[type, ...]:
    """The capability protocols that these steps need, each once; `Clients` may be among them."""
    wanted = {(step.family, step.kind) for step in steps}
    found = [
        need
        for name, nemesis in NEMESES.items()
        for kind, its in nemesis.kinds.items()
        if (name, kind) in wanted
        for need in (*nemesis.needs, *its.needs)
    ]
    return tuple(dict.fromkeys(found))


def missing(steps: Sequence[PlannedFault], capabilities: Collection[type]) -> list[str]:
    """Names of the needed capabilities that are not among these, a cluster's; empty where it has all.

    `Clients` is not the cluster's to have: every env has it.
    """
    return [need.__name__ for need in needs(steps) if need is not Clients and need not in capabilities]


async def inject(env: Environment, step: PlannedFault, roles: Roles, names: WorkloadNames) -> AimedFault:
    """Find the step's target among `roles` and make the fault. Raises: as `aim` and `make`."""
    return await make(env, aim(env, step, roles, names))


def aim(env: Environment, step: PlannedFault, roles: Roles, names: WorkloadNames) -> AimedFault:
    """Find the step's target among `roles`. Raises: NoTarget."""
    view = ClusterView(
        nodes=tuple(env.cluster.nodes),
        brokers=tuple(env.cluster.brokers),
        clients=tuple(env.clients.slots),
        roles=roles,
        names=names,
        down=tuple(sorted(env.held_down())),
        clients_held=tuple(sorted(env.clients_held)),
        moved=tuple(sorted(env.moved)),
        upgraded=env.cluster.upgraded() if isinstance(env.cluster, Upgradable) else (),
        behind="nodes of ZooKeeper" if has_zookeeper(env.config) else "controllers",
    )
    return _effect(step).aim(step, view)


async def make(env: Environment, hit: AimedFault) -> AimedFault:
    """Make a fault.

    Raises: NoTarget, where nothing was hit; NoEffect, or whatever the cluster or the clients
    raise, after what may have been done by then was taken back (a note on the exception says so
    where that failed too).
    """
    effect = _effect(hit.step)
    try:
        return await effect.apply(env, hit) or hit
    except Exception as error:
        try:
            await effect.undo(env.to_heal(), hit)
        except Exception as again:  # noqa: BLE001 (the first error is the one to report)
            error.add_note(f"taking back what had been done of {hit.step.name} failed: {again}")
        raise


async def heal(env: Environment, hit: AimedFault) -> None:
    """Take a fault back: the exact inverse of what `inject` did; no-op where that is undone."""
    await _effect(hit.step).undo(env.to_heal(), hit)


def _effect(step: PlannedFault) -> Effect:
    effect = NEMESES[step.family].effect
    assert effect is not None, f"{step.name} is not a step of a plan"
    return effect


async def heal_all(env: Environment) -> None:
    """Undo every fault, injected by this run or not: the healings of all families, in the order of their
    stages, as far as the cluster has the capabilities.

    What fails for all at once is tried for each alone, and nothing that fails keeps the rest from being
    tried; but once what runs the cluster has not answered a call in time (`Unanswered`), only clients are
    still healed: each further call could take as long.

    Raises: ExceptionGroup of all that failed for single nodes and clients, after everything was
    tried; its message names each.
    """
    env = env.to_heal()
    env.down.clear()
    env.clients_held.clear()
    env.cutting.clear()
    failed: list[Exception] = []
    told: list[str] = []
    silent = False

    async def attempt(what: str, of: str, everyone: Sequence[int], act: Act) -> None:
        nonlocal silent
        if not everyone or (silent and of != "client"):
            return
        try:
            await act(everyone)
            return
        except Unanswered as error:
            silent = True
            failed.append(error)
            told.append(f"{what} all: {error}, and nothing more of the cluster was tried")
            return
        except Exception:  # noqa: BLE001 (tried for each below; what fails there is raised)
            pass
        for one in everyone:
            try:
                await act([one])
            except Exception as error:  # noqa: BLE001 (collected and raised at the end)
                failed.append(error)
                told.append(f"{what} {of} {one}: {error}")

    has = capabilities_of(env.cluster) | {Clients}
    for healing in _healings():
        if healing.needs in has:
            await attempt(healing.what, healing.of, healing.everyone(env), healing.act(env))
    if failed:
        raise ExceptionGroup("; ".join(told), failed)


def _healings() -> list[Healing]:
    """Those of all families, each once."""
    every = dict.fromkeys(one for nemesis in NEMESES.values() for one in nemesis.healings)
    return sorted(every, key=lambda one: one.at)
