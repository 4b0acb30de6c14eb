"""The nemesis `client`: loading clients die in mid-work, or stand still."""

import random
from collections.abc import Callable

from core.errors import ClusterError
from core.generator import source
from core.load_clients import Clients, ClientSlot, CrashPoint
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Healing,
    HealingStage,
    Hold,
    Nemesis,
    NoTarget,
    PlannedFault,
    WorkloadNames,
)

TARGETS = {
    "random": "any loading client, drawn",
    "transactional": "a client with a transactional id, drawn",
    "member": "a member of a consumer group, drawn",
}
"""Every target and what it means."""

POINTS = {
    "crash": CrashPoint.ANYWHERE,
    "crash-in-transaction": CrashPoint.IN_TRANSACTION,
    "crash-before-commit": CrashPoint.BEFORE_COMMIT,
    "crash-after-commit": CrashPoint.AFTER_COMMIT,
}
"""Kinds that kill, and where."""

WORDS = {
    CrashPoint.ANYWHERE: "",
    CrashPoint.IN_TRANSACTION: " after it sent records of a transaction, before that ended",
    CrashPoint.BEFORE_COMMIT: " right before it would have committed the offsets of what it had polled",
    CrashPoint.AFTER_COMMIT: " after it committed offsets, before the op continued",
}
LATER = ", or 2 s later wherever it was"
UNSEEN = ", and instances of an application crash anywhere (client:crash@member)"


def _fits(kind: str, target: str, client: ClientSlot) -> bool:
    """Whether the kind can happen to this client, and the target may mean it."""
    of_kind = {
        "crash-in-transaction": bool(client.transactional_id),
        "crash-before-commit": bool(client.group),
        "crash-after-commit": bool(client.group) and not client.transactional_id,
    }.get(kind, True)
    of_target = {"transactional": bool(client.transactional_id), "member": bool(client.group)}.get(
        target, True
    )
    seen = POINTS.get(kind, CrashPoint.ANYWHERE) is CrashPoint.ANYWHERE or not client.instance
    return of_kind and of_target and seen


def _lacks(kind: str, target: str, names: WorkloadNames) -> str:
    """What the workload lacks for this ever to be found; "" where it lacks nothing."""
    if any(_fits(kind, target, client) for client in names.clients):
        return ""
    what = {"transactional": "client with a transactional id", "member": "member of a consumer group"}.get(
        target, "client"
    )
    where = {
        "crash-in-transaction": " that has transactions",
        "crash-before-commit": " that commits offsets",
        "crash-after-commit": " that commits offsets outside of a transaction",
    }.get(kind, "")
    unseen = any(client.instance for client in names.clients) and bool(where)
    return what + where + UNSEEN * unseen


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    found = [client for client in view.clients if _fits(step.kind, step.target, client)]
    if not found:
        names = WorkloadNames(clients=view.clients)
        raise NoTarget(f"{step.target}: there is no {_lacks(step.kind, step.target, names)}")
    client = source(step.seed, "aim").choice(sorted(found, key=lambda one: one.slot))
    name = _described(client)
    if step.kind == "pause":
        text = f"{name} is paused (SIGSTOP), for {step.hold_s:g} s as planned"
        return AimedFault(step=step, slots=(client.slot,), text=text)
    point = POINTS[step.kind]
    text = f"{name} was killed (SIGKILL){WORDS[point]}"
    if point is not CrashPoint.ANYWHERE:
        text += LATER
    return AimedFault(step=step, slots=(client.slot,), text=text, point=point)


def _described(client: ClientSlot) -> str:
    """`client 3 (tx-1, group g)`."""
    held = [client.transactional_id, client.group and f"group {client.group}"]
    parts = ", ".join(filter(None, held))
    return f"client {client.slot} ({parts})" if parts else f"client {client.slot}"


DOWN_S = 0.1
"""How long a client is down that is started again: its next process begins after its fault, also in virtual
time, and so the fault accounts for the end of the one before."""
Chosen = Callable[[list[ClientSlot]], list[ClientSlot]]
"""Which of some clients a fault wants."""


def startable(view: ClusterView, rng: random.Random, wanted: Chosen) -> int:
    """The slot of a client that can be killed and started again: no other fault holds it.

    Raises: NoTarget.
    """
    free = [client for client in view.clients if client.slot not in view.clients_held]
    if not (found := wanted(free)):
        others = (
            "other faults hold all clients" if wanted(list(view.clients)) else "the workload has no client"
        )
        raise NoTarget(f"{others} that could be started again")
    return rng.choice(found).slot


async def start_again(env: Environment, hit: AimedFault) -> None:
    """Kill the clients of a fault, and start them. Raises: NoTarget, where another fault holds one down, and
    will start it again."""
    try:
        await env.clients.crash(hit.slots, CrashPoint.ANYWHERE)
    except ClusterError as error:
        raise NoTarget(f"{hit.text}: client {hit.slots[0]} was not started again: {error}") from error
    await env.clock.sleep(DOWN_S)
    await env.clients.restart(hit.slots)


async def _apply(env: Environment, hit: AimedFault) -> None:
    env.clients_held.update(hit.slots)
    if hit.step.kind == "pause":
        await env.clients.pause(hit.slots)
    else:
        await env.clients.crash(hit.slots, hit.point)


async def _undo(env: Environment, hit: AimedFault) -> None:
    if hit.step.kind == "pause":
        await env.clients.resume(hit.slots)
    else:
        await env.clients.restart(hit.slots)
    env.clients_held.difference_update(hit.slots)


def _slots(env: Environment) -> list[int]:
    return [client.slot for client in env.clients.slots]


HEALED = (
    Healing(
        at=HealingStage.STILL,
        needs=Clients,
        what="resume",
        of="client",
        everyone=_slots,
        act=lambda env: env.clients.resume,
    ),
    Healing(
        at=HealingStage.CLIENTS,
        needs=Clients,
        what="restart",
        of="client",
        everyone=_slots,
        act=lambda env: env.clients.restart,
    ),
)
CLIENT = Nemesis(
    name="client",
    healings=HEALED,
    doc="""\
Loading clients die in the middle of their work, or stand still for longer than a transaction may take.

Applications crash and stall more often than brokers. A client that was killed is started again after
1 to 2 s, as a new process with the same transactional id and group.

What Kafka does: a transaction that its producer left open holds back consumers at read_committed,
until a successor with the same transactional id begins (it fences the old one and aborts), or the
transaction timeout expires and the coordinator aborts. A group notices a dead member when its session
expires, and gives its partitions to others, which continue from the committed offsets. A producer that
wakes up after its transaction was aborted is fenced.

What it tends to show: half transactions that become visible, hanging transactions that never end,
zombies whose records count; records processed twice where offsets are committed after the work, and
not at all where they are committed before it. With transactions that hold both, neither is allowed.

Where an application of the user's is in its work, the harness does not see: its instances crash anywhere.""",
    colour="#AA4499",
    needs=(Clients,),
    kinds={
        "crash": FaultKind(doc="SIGKILL, wherever it is", hold=Hold.BRIEF, weight=2),
        "crash-in-transaction": FaultKind(
            doc="SIGKILL after records of a transaction were sent, before it ends",
            hold=Hold.BRIEF,
            weight=2,
            apply_s=1.0,
            reaches=("open-transaction",),
        ),
        "crash-before-commit": FaultKind(
            doc="SIGKILL right before the offsets of what was polled (and copied) are committed",
            hold=Hold.BRIEF,
            apply_s=1.0,
        ),
        "crash-after-commit": FaultKind(
            doc="SIGKILL after offsets were committed (not in a transaction), before the op continues",
            hold=Hold.BRIEF,
            apply_s=1.0,
        ),
        "pause": FaultKind(
            doc="SIGSTOP, for 2 s longer than the timeout of transactions",
            hold=Hold.TRANSACTION,
            reaches=("in-flight", "open-transaction", "rebalanced", "fenced"),
        ),
    },
    targets=TARGETS,
    effect=Effect(_aim, _apply, _undo),
    lacks=_lacks,
)
