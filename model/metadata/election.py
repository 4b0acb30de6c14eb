"""Choosing a partition's leader and its next state (KRaft's PartitionChangeBuilder; KIP-966).

    change(state, alive={2, 3}, …)  ->  the state after broker 1, its leader, is gone

Pure functions over `PartitionState`. The leader epoch rises with every change of the leader, the
partition epoch with every change at all.
"""

from collections.abc import Collection

from msgspec.structs import replace

from model.protocol.messages import PartitionState
from model.settings import Settings


def change(
    state: PartitionState,
    settings: Settings,
    electable: Collection[int],
    *,
    isr: Collection[int] | None = None,
    preferred: bool = False,
    unclean: bool = False,
    replicas: tuple[int, ...] | None = None,
    adding: tuple[int, ...] | None = None,
    removing: tuple[int, ...] | None = None,
    dirty: int = -1,
    first: int = 0,
) -> PartitionState:
    """The state that follows, or the same one where nothing changes.

    isr: the wanted in-sync set (None: as it is); members that are not electable have been left out by the
        caller where that is meant. preferred: give the leadership back to the first replica, if it is in
        sync. unclean: choose any live replica if no in-sync one is left. dirty: a broker that came back
        after an unclean shutdown: it may have lost the end of its log, and with KIP-966 leaves both sets.
    replicas, adding, removing: as a reassignment wants them (None: as they are).
    first: replicas of the topic's first partition, which bound the minimum of all of them (0: this one's).
    """
    target = replace(
        state,
        replicas=state.replicas if replicas is None else replicas,
        isr=tuple(sorted(state.isr if isr is None else isr)),
        adding=state.adding if adding is None else adding,
        removing=state.removing if removing is None else removing,
    )
    target = _reassigned(target, settings)
    order, wanted = target.replicas, target.isr
    elr, last = _eligible(state, wanted, settings, dirty, first or len(state.replicas))
    if "removed-stays-eligible" not in settings.bugs:
        elr = tuple(n for n in elr if n in order)
    shrunk = settings.era.epoch_by_shrink and not set(state.isr) <= set(wanted)
    if not wanted and not settings.era.eligible_replicas:
        wanted = tuple(sorted(state.isr))  # the last member stays: no other replica may lead
    leader, clean = _leader(state, order, wanted, elr, electable, settings, preferred, unclean)
    if leader >= 0 and leader not in wanted:
        wanted = (leader,)
        elr = tuple(n for n in elr if n != leader) if clean else ()
    if leader >= 0:
        last = ()
    # The new epoch fences a replica that was removed, also where the leader stays.
    rises = leader != state.leader or shrunk or not set(state.replicas) <= set(order)
    made = replace(
        target, isr=wanted, leader=leader, elr=elr, last_elr=last, leader_epoch=state.leader_epoch + rises
    )
    if "epoch-not-bumped" in settings.bugs:
        made = replace(made, leader_epoch=state.leader_epoch)
    if made == state:
        return state
    made = replace(made, partition_epoch=state.partition_epoch + 1)
    return _damaged(made, state, settings, electable)


def _damaged(
    made: PartitionState, before: PartitionState, settings: Settings, electable: Collection[int]
) -> PartitionState:
    """With planted bugs that only the metadata log shows."""
    if "leader-epoch-skips" in settings.bugs and made.leader_epoch > before.leader_epoch:
        made = replace(made, leader_epoch=made.leader_epoch + 1)
    if "partition-epoch-skips" in settings.bugs:
        made = replace(made, partition_epoch=made.partition_epoch + 1)
    if "eligible-and-in-sync" in settings.bugs:
        made = replace(made, elr=made.isr)
    if "stranger-in-sync" in settings.bugs:
        strangers = sorted(set(electable) - set(made.replicas))
        made = replace(made, isr=tuple(sorted({*made.isr, *strangers[:1]})))
    return made


def _reassigned(state: PartitionState, settings: Settings) -> PartitionState:
    """A reassignment ends once the new replicas are in sync: the old ones go (KIP-455;
    PartitionReassignmentReplicas.maybeCompleteReassignment)."""
    if not state.adding and not state.removing:
        return state
    replicas = tuple(n for n in state.replicas if n not in state.removing)
    isr = tuple(n for n in state.isr if n not in state.removing)
    needed = replicas if settings.era.whole_reassignment else state.adding
    if not replicas or not isr or not set(needed) <= set(isr):
        return state
    return replace(state, replicas=replicas, isr=isr, adding=(), removing=())


def _eligible(
    state: PartitionState, isr: tuple[int, ...], settings: Settings, dirty: int, first: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """KIP-966: who left the in-sync set while it was (or fell) below the minimum may still lead: it has
    everything that was committed. first: as many replicas bound the minimum
    (ReplicationControlManager.getTopicEffectiveMinIsr)."""
    if not settings.era.eligible_replicas:
        return (), ()
    if len(isr) >= settings.effective_min_isr(first):
        return (), ()
    elr = {*state.elr, *state.isr} - {*isr, dirty}
    # The last leader is remembered: it may lead again where no other replica is left
    # (PartitionChangeBuilder.maybeUpdateLastKnownLeader).
    last = (state.leader,) if not isr and state.leader >= 0 else state.last_elr
    return tuple(sorted(elr)), last


def _leader(
    state: PartitionState,
    order: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    electable: Collection[int],
    settings: Settings,
    preferred: bool,
    unclean: bool,
) -> tuple[int, bool]:
    """The leader (-1: none), and whether it has everything that was committed."""
    in_sync = [n for n in order if n in isr and n in electable]
    if "elects-any-replica" in settings.bugs and state.leader not in electable:
        in_sync = [n for n in order if n in electable] or in_sync
    if state.leader in in_sync and not (preferred and order[0] in in_sync):
        return state.leader, True
    if in_sync:
        return in_sync[0], True
    eligible = [n for n in order if n in elr and n in electable]
    if eligible and not isr:
        return eligible[0], True
    if not isr and not elr and settings.era.eligible_replicas:
        known = [n for n in order if n in state.last_elr and n in electable]
        if known:
            return known[0], False
    if unclean or (settings.unclean and settings.era.unclean_by_setting and not preferred):
        rest = [n for n in order if n in electable]
        if rest:
            return rest[0], False
    return -1, True
