"""The nemesis `quorum`: voters of the metadata quorum are removed, and added again."""

from collections.abc import Sequence
from functools import partial

from core.capabilities import VotersChangeable
from core.config import RunConfig
from core.errors import ClusterError
from core.generator import source
from core.systems import KafkaSection
from nemesis.targets import TARGETS, described, find
from nemesis.types import (
    AimedFault,
    ClusterView,
    Effect,
    Environment,
    FaultKind,
    Healing,
    HealingStage,
    Nemesis,
    NoTarget,
    PlannedFault,
)

DECIDED_S = 10.0
"""How long the quorum may take to decide on a voter: a new leader may have to be elected first."""
BACK_S = 5.0
"""How long healing waits for a voter that is added again. One that is down has to return and catch up."""
RETURN_S = 30.0
"""How long healing all waits for nodes that were just started."""
FEWEST = 3
"""With as many voters, those that are left when one is removed are still a quorum of more than one."""


def _refuses(config: RunConfig) -> str:
    """Why no voter could be removed, and what to set."""
    if config.has(KafkaSection) and config.section(KafkaSection).quorum == "static":
        return "the voters stand in the settings of nodes: set quorum to dynamic"
    voters = config.controllers or config.brokers
    return "" if voters >= FEWEST else f"number of voters: {voters}; {FEWEST} are needed"


def _aim(step: PlannedFault, view: ClusterView) -> AimedFault:
    voters = view.controllers or view.brokers
    found = find(step.target, source(step.seed, "aim"), view, answering=True, hits=voters.__contains__)
    text = f"{described(found.node, view, found.role)} was removed from the voters of the metadata quorum"
    return AimedFault(step=step, nodes=(found.node,), text=text)


async def _apply(env: Environment, hit: AimedFault) -> None:
    """Raises: NoTarget, where another voter is away; ClusterError."""
    assert isinstance(env.cluster, VotersChangeable)
    if away := sorted(set(env.cluster.removed_voters()) - set(hit.nodes)):
        raise NoTarget(f"node {away[0]} is away: of the voters that are left none can be spared")
    await env.cluster.remove_voter(hit.nodes[0], DECIDED_S)


async def _undo(env: Environment, hit: AimedFault) -> None:
    """Raises: ClusterError, where another fault holds the voter down: it cannot catch up, stays away, and is
    added when all is healed."""
    away = env.cluster.removed_voters() if isinstance(env.cluster, VotersChangeable) else ()
    if held := sorted(env.held_down() & set(hit.nodes) & set(away)):
        raise ClusterError(f"another fault holds node {held[0]} down: it stays away until all is healed")
    await _add(env, hit.nodes, BACK_S)


async def _add(env: Environment, nodes: Sequence[int], within_s: float = RETURN_S) -> None:
    assert isinstance(env.cluster, VotersChangeable)
    away = [node for node in nodes if node in env.cluster.removed_voters()]
    await env.cluster.add_voters(away, within_s)


def _away(env: Environment) -> Sequence[int]:
    return env.cluster.removed_voters() if isinstance(env.cluster, VotersChangeable) else ()


ADDED = Healing(
    at=HealingStage.METADATA,
    needs=VotersChangeable,
    what="add to the quorum's voters",
    of="node",
    everyone=_away,
    act=lambda env: partial(_add, env),
)

QUORUM = Nemesis(
    name="quorum",
    healings=(ADDED,),
    doc="""\
Voters of the metadata quorum are removed, and added again.

An operator who replaces a controller does that (`kafka-metadata-quorum remove-controller`, `add-controller`).
It needs `--set quorum=dynamic`, from Kafka 3.9 on (KIP-853): nodes are formatted so that the metadata log
says who votes. The process of a removed voter runs on, as an observer; a broker in it serves its clients.

    inquest run --set quorum=dynamic --nemesis quorum@controller,kill

What Kafka does: RemoveRaftVoter and AddRaftVoter are decided by the quorum itself, one change at a time, as
records of its log (VotersRecord). A leader that removes itself leads until the others have that record, and
then resigns; the next one is elected among them. A node is added once it has caught up. While one of three is
away, the death of another one stops all elections.

What it tends to show: two leaders of the quorum, where nodes count with different voters; metadata that only
a removed voter had; a node that votes although it was removed. None of that is allowed.""",
    colour="#5D3A9B",
    needs=(VotersChangeable,),
    kinds={
        "remove": FaultKind(
            doc="the target votes no more; healing adds it again",
            apply_s=1.0,
            reaches=("voter-removed", "controller-moved"),
        )
    },
    targets={name: TARGETS[name] for name in ("random", "controller")},
    effect=Effect(_aim, _apply, _undo),
    refuses=_refuses,
    in_random=False,
)
