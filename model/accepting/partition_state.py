"""A state of a partition, and the one that follows it: what holds for whatever cause it was changed."""

from enum import StrEnum

from model.protocol.messages import PartitionState


class ElectionKind(StrEnum):
    """How a partition came to its leader: who leads on, or none; a replica that was in sync or eligible;
    the last known leader, as no other replica is left (KIP-966); any other replica."""

    NONE = "none"
    CLEAN = "clean"
    LAST_KNOWN = "last known"
    UNCLEAN = "unclean"


def unsound(state: PartitionState) -> str:
    """Why no controller makes such a state; "" where one may (KIP-497, KIP-966)."""
    if not set(state.isr) <= set(state.replicas):
        return "not all in sync are replicas"
    if state.leader >= 0 and state.leader not in state.isr:
        return "the leader is not in sync"
    if set(state.elr) & set(state.isr):
        return "who is eligible is in sync"
    return ""


def strangers(state: PartitionState) -> set[int]:
    """Eligible leader replicas that are not among the replicas (KIP-966: each is)."""
    return set(state.elr) - set(state.replicas)


def epoch_rises(old: PartitionState, new: PartitionState) -> bool:
    """The leader epoch rises with every change of the leader, and never falls (KIP-101)."""
    return new.leader_epoch >= old.leader_epoch + (new.leader != old.leader)


def election(old: PartitionState, new: PartitionState) -> ElectionKind:
    """How the leader of `new` was found, as far as the two states tell."""
    if new.leader in (old.leader, -1):
        return ElectionKind.NONE
    if new.leader in (*old.isr, *old.elr):
        return ElectionKind.CLEAN
    if not old.isr and not new.elr and new.leader in old.last_elr:
        return ElectionKind.LAST_KNOWN
    return ElectionKind.CLEAN if _joins_at_the_end(old, new) else ElectionKind.UNCLEAN


def _joins_at_the_end(old: PartitionState, new: PartitionState) -> bool:
    """Whether the new leader came into sync by the word of the old one, and so ended the reassignment that
    removes the old one: one record has both (PartitionChangeBuilder.completeReassignmentIfNeeded). Where it
    is taken back, the old one is a replica that it added."""
    ends = (old.adding or old.removing) and not (new.adding or new.removing)
    joins = new.leader in old.replicas and new.leader in new.isr
    return bool(
        ends
        and joins
        and old.leader in old.removing
        and old.leader not in new.replicas
        and set(old.isr) & set(new.replicas) <= set(new.isr)
    )


def alike(one: PartitionState, other: PartitionState) -> bool:
    """Whether they say the same."""
    return not distance(one, other)


def distance(one: PartitionState, other: PartitionState) -> int:
    """In how many respects two states differ; sets have no order."""
    (mine, my_sets), (theirs, their_sets) = _parts(one), _parts(other)
    whole = (one.replicas != other.replicas, mine != theirs)
    return sum(whole) + sum(a != b for a, b in zip(my_sets, their_sets, strict=True))


def _parts(state: PartitionState) -> tuple[tuple[int, ...], list[set[int]]]:
    """Leader and epochs; the sets."""
    sets = (state.isr, state.elr, state.last_elr, state.adding, state.removing)
    return (state.leader, state.leader_epoch, state.partition_epoch), [set(nodes) for nodes in sets]


def described(state: PartitionState) -> str:
    """In words."""
    parts = [
        f"leader {state.leader if state.leader >= 0 else 'none'} in epoch {state.leader_epoch}",
        f"partition epoch {state.partition_epoch}",
        f"replicas {_nodes(state.replicas)}",
        f"in sync {_nodes(state.isr)}",
    ]
    sets = {
        "eligible": state.elr,
        "last known": state.last_elr,
        "adding": state.adding,
        "removing": state.removing,
    }
    return ", ".join(parts + [f"{name} {_nodes(nodes)}" for name, nodes in sets.items() if nodes])


def _nodes(nodes: tuple[int, ...]) -> str:
    return " ".join(map(str, nodes)) or "none"
