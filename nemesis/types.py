"""What a fault is, from its plan to its healing: the types that all nemeses share.

    PlannedFault (family, kind, symbolic target, when)
      -> aim with the roles of the moment -> AimedFault (which nodes, which cuts)
      -> apply to the environment -> undo

A nemesis is a value (`Nemesis`) that bundles all of that with its documentation and its colour.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from core.capabilities import Cut, Toxic
from core.cluster import Cluster, Roles
from core.config import RunConfig
from core.load_clients import Clients, ClientSlot, CrashPoint
from core.op import TopicPartition
from core.runtime import Clock
from core.wire import WireRule

POLL_S = 0.25
"""Distance between two looks of `Environment.until`."""


class NoTarget(Exception):
    """There is nothing to hit now (no leader known, no node answers, no request comes), and nothing was done.
    The message says what. A later try may find it."""


class NoEffect(Exception):
    """What was done did not bring the fault about; it was taken back. The message says why."""


class PlannedFault(msgspec.Struct, frozen=True, kw_only=True):
    """One planned fault; all steps of a run are written to `schedule.jsonl` before the first.

    fault: dense id from 0, by start. name: `family:kind@target` with nothing left to be drawn (no
    `@target` where the kind takes none). at_s: start, in seconds after the phase of faults began.
    hold_s: how long it stays in force. seed: of the choices that need to know roles.
    """

    fault: int
    name: str
    family: str
    kind: str
    target: str
    at_s: float
    hold_s: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadNames:
    """What the workload uses, so that targets can be found: its partitions (internal topics are
    not among them), its transactional ids, its groups, those of them that are share groups, its loading
    clients."""

    data: tuple[TopicPartition, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    share_groups: tuple[str, ...] = ()
    clients: tuple[ClientSlot, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What aiming a step can see: the nodes of the cluster, which of them are brokers, who does what
    now, the names in use, the loading clients, the nodes that faults in force hold down, the slots of clients
    that they crashed or paused, the partitions whose replicas a fault has moved, the nodes that have the
    later of two versions. behind: what nodes
    that are not brokers are, in words."""

    nodes: tuple[int, ...]
    brokers: tuple[int, ...]
    roles: Roles
    names: WorkloadNames
    clients: tuple[ClientSlot, ...] = ()
    down: tuple[int, ...] = ()
    clients_held: tuple[int, ...] = ()
    moved: tuple[TopicPartition, ...] = ()
    upgraded: tuple[int, ...] = ()
    behind: str = "controllers"

    @property
    def controllers(self) -> tuple[int, ...]:
        """The isolated controllers, or the nodes of ZooKeeper: nodes that are not brokers."""
        return tuple(node for node in self.nodes if node not in self.brokers)


@dataclass(slots=True)
class Remaking:
    """How far the deletion of topics and the creation of new ones in their place is. doomed, unmade: numbers
    of partitions of topics whose deletion may have been asked for; which are gone, and no node is known to
    lead new ones. made: there are new ones, and no client knows of it. times: how often clients were let to
    new topics."""

    doomed: dict[str, int] = field(default_factory=dict)
    unmade: dict[str, int] = field(default_factory=dict)
    made: bool = False
    times: int = 0

    @property
    def begun(self) -> bool:
        """It has not come to its end."""
        return bool(self.doomed or self.unmade or self.made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What effects act on; one for a run. `clock.sleep` returns early when the run is being stopped,
    and then `stopping` is true: an effect of several stages ends there, and leaves the rest to healing.

    healing_clock: of healing, whose waits no end of the faults cuts short.
    down: the hits that hold their nodes down. A node that several hold is started when none does. ended: the
    nodes that effects have ended, paused or not, since that was last looked at. clients_held: slots of
    clients that a fault crashed or paused. mixed: nodes that have the later version until a fault is healed.
    cutting: faults whose cuts may be in force. moved: the replicas that partitions had before a fault moved
    them, until they are known to be back. throttled: partitions whose replication is throttled. deleted:
    below which offsets records may have been deleted since that was put on record. config: of the run.
    """

    cluster: Cluster
    clients: Clients
    clock: Clock
    stopping: Callable[[], bool]
    healing_clock: Clock
    down: "list[AimedFault]" = field(default_factory=list)
    ended: set[int] = field(default_factory=set)
    clients_held: set[int] = field(default_factory=set)
    cutting: list[PlannedFault] = field(default_factory=list)
    mixed: set[int] = field(default_factory=set)
    moved: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    throttled: set[TopicPartition] = field(default_factory=set)
    deleted: dict[TopicPartition, int] = field(default_factory=dict)
    remaking: Remaking = field(default_factory=Remaking)
    config: RunConfig = field(default_factory=lambda: RunConfig(seed=0))

    def hold_down(self, hit: "AimedFault", *nodes: int) -> None:
        """An effect is about to end the nodes of a hit (or these of them), and holds them down."""
        if hit not in self.down:
            self.down.append(hit)
        self.ended.update(nodes or hit.nodes)

    def held_down(self, *, other_than: "AimedFault | None" = None) -> set[int]:
        """The nodes that hits hold down. other_than: a hit that does not count."""
        return {node for hit in self.down if hit != other_than for node in hit.nodes}

    def to_heal(self) -> "Environment":
        """The same, but for the waits of what takes faults back: no end of the faults cuts them short."""
        return replace(self, clock=self.healing_clock, stopping=lambda: False)

    async def until(self, missing: Callable[[], Awaitable[str]], limit_s: float) -> str:
        """Wait until `missing` returns "" (nothing is missing any more). Returns "", or what was missing
        when the limit was reached or the run began to stop. `missing` is called at least once."""
        limit_ns = self.clock.now_ns() + round(limit_s * 1e9)
        while why := await missing():
            if self.stopping() or self.clock.now_ns() >= limit_ns:
                return why
            await self.clock.sleep(POLL_S)
        return ""


Act = Callable[[Sequence[int]], Awaitable[None]]


class HealingStage(IntEnum):
    """When something is healed: what stands still may hold up a proxy that is to be cured; a node that was
    paused and killed is revived when its links are whole; settings and replicas are put back by nodes that
    run, and clients come back to a whole cluster."""

    STILL = 0
    LINKS = 1
    NODES = 2
    METADATA = 3
    CLIENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """How everything of one sort is healed, whether this run injected it or not."""

    at: HealingStage
    needs: type
    """The capability that heals; `Clients` = the load clients do."""
    what: str
    """The verb, and what of the thing: "mend the links of"."""
    of: str
    """The thing: node, client, rule."""
    everyone: Callable[[Environment], Sequence[int]]
    """Numbers of all things."""
    act: Callable[[Environment], Act]
    """Heals things, by their numbers; no-op for whole ones."""


class ReplicaMove(NamedTuple):
    """The replicas that a partition has, and those that it is to have; the preferred leader first."""

    tp: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AimedFault:
    """A step with its target found: who is hit, and all that doing and undoing it needs.

    text: one sentence with the roles of those that it hits. tps: the partitions it concerns. leaders: the
    node that each of `tps` is to be led by. moves: the replicas that go elsewhere.
    """

    step: PlannedFault
    text: str
    nodes: tuple[int, ...] = ()
    cuts: tuple[Cut, ...] = ()
    slots: tuple[int, ...] = ()
    tps: tuple[TopicPartition, ...] = ()
    leaders: tuple[int, ...] = ()
    moves: tuple[ReplicaMove, ...] = ()
    toxics: tuple[Toxic, ...] = ()
    rules: tuple[WireRule, ...] = ()
    point: CrashPoint = CrashPoint.ANYWHERE


class Hold(StrEnum):
    """How long a kind of fault stays in force."""

    MEAN = "mean"
    """About `RunConfig.fault_s`."""
    SHORT = "short"
    """About half the session timeout of a broker, always less than all of it."""
    LONG = "long"
    """About `RunConfig.fault_s`, always more than the session timeout."""
    BRIEF = "brief"
    """1 to 2 s: what it does is done at once, so that several happen in a run."""
    TRANSACTION = "transaction"
    """2 s longer than the timeout of transactions."""
    VERB = "verb"
    """2 s longer than a client waits for anything (`RunConfig.verb_deadline_s`): what waits is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind of a family of faults.

    doc: what is done, one phrase. targeted: it takes a target (else it hits the whole cluster).
    weight: how often it is drawn among its family; 0 = only by name, or as what another kind
        stands for. brokers: fewest with which it does anything. drawn_from: fewest brokers with
        which it is drawn, where that is more. refuses: why a run with this config cannot have it, and
        what to set; "" = it can. stands_for: kinds to draw from in its place. brokers_only: it
        does nothing to an isolated controller. apply_s, apply_each_s: about how long putting it in
        force takes, in all and for each broker, one after the other. Meanwhile no other fault
        begins or ends, so what goes from broker to broker is only drawn where its family is alone.
        every_node: it goes to isolated controllers, too. needs: capability protocols beside those of its
        family. once: each time that it is named, a run has it once. reaches: it is there to reach one
        of these facts (docs/checks.md, "Reached"); none = whatever it hits.
    """

    doc: str
    targeted: bool = True
    hold: Hold = Hold.MEAN
    weight: int = 1
    brokers: int = 1
    drawn_from: int = 1
    refuses: Callable[[RunConfig], str] = lambda _: ""
    stands_for: tuple[str, ...] = ()
    brokers_only: bool = False
    apply_s: float = 0.0
    apply_each_s: float = 0.0
    every_node: bool = False
    needs: tuple[type, ...] = ()
    once: bool = False
    reaches: tuple[str, ...] = ()


class Effect(NamedTuple):
    """How a family acts: `aim` is pure and raises NoTarget; `apply` raises NoTarget, NoEffect, or what the
    cluster and the clients raise, and returns the fault again where only the effect shows which node it
    hits; `undo` takes back what `apply` left in force, also where that failed half-way."""

    aim: Callable[[PlannedFault, ClusterView], AimedFault]
    apply: Callable[[Environment, AimedFault], Awaitable[AimedFault | None]]
    undo: Callable[[Environment, AimedFault], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nemesis:
    """A family of faults, or (without `effect`) a name for a schedule of others.

    doc: user documentation. kinds, targets: name -> what it is. needs: capability protocols of
    `core.capabilities`. colour: of its bands in the report, `#rrggbb`. refuses: why a run with this
    config cannot have it, and what to set; "" = it can. lacks: what a workload lacks for a kind at a
    target ever to be found, "" = nothing; None = by the target alone (`targets.unnamed`).
    in_random: `random` draws from it. healings: of all that a fault of the family may have left.
    """

    name: str
    doc: str
    colour: str
    needs: tuple[type, ...] = ()
    kinds: Mapping[str, FaultKind] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    effect: Effect | None = None
    refuses: Callable[[RunConfig], str] = lambda _: ""
    lacks: Callable[[str, str, WorkloadNames], str] | None = None
    in_random: bool = True
    healings: tuple[Healing, ...] = ()
