"""When a run is warm, and when a cluster has recovered: what is still missing, in words."""

from collections.abc import Collection, Mapping, Sequence

from core.cluster import Roles
from core.internal_topics import internal
from core.load_clients import ClientSlot
from core.op import TopicPartition
from harness.clients.worker_protocol import ClientProgress


def cold(slots: Sequence[ClientSlot], working: Mapping[int, ClientProgress]) -> str:
    """What is missing until every client has worked once, and every group was given records; "" = nothing.

    working: the progress of each client that is not lost, by slot.
    """
    slow = [slot for slot, progress in working.items() if not progress.ok_invoked_ns]
    if slow:
        return f"clients {slow} have not completed an op yet"
    idle = idle_groups(slots, working, since_ns=1)
    return f"groups {idle} {_lack(slots, idle, 'have not been given a record')} yet" if idle else ""


def unrecovered(
    roles: Roles,
    data: Collection[TopicPartition],
    replication_factor: int,
    slots: Sequence[ClientSlot],
    working: Mapping[int, ClientProgress],
    since_ns: int,
    lagged: Collection[TopicPartition] = (),
) -> str:
    """What is still missing after healing ended at `since_ns`, "" = nothing.

    Recovered means: all brokers answer and name the same leaders, every partition has one and all of its
    replicas in sync, every client has completed an op that it invoked since, and a member of every group,
    every consumer without a group and every member of a share group were given records by such an op.
    Internal topics count as data do: a coordinator's partition that stays without its followers serves, and
    loses what it says with one node.
    lagged: those that were so before any fault, in a cluster of others.
    """
    if why := unserved(roles, data, replication_factor, since_ns, lagged):
        return why
    stuck = _stuck(working, since_ns)
    if stuck:
        return f"clients {stuck} have completed nothing since"
    idle = idle_groups(slots, working, since_ns)
    if idle:
        return f"groups {idle} {_lack(slots, idle, 'were given nothing')} since"
    hungry = idle_readers(slots, working, since_ns)
    return f"clients {hungry} were given nothing since, although they poll" if hungry else ""


def _lack(slots: Sequence[ClientSlot], groups: Sequence[str], others: str) -> str:
    """What these groups did not get, in words: of an application only the commits are seen. others: of any
    other groups."""
    seen = all(slot.instance for slot in slots if slot.group in groups)
    return "have committed no offset" if seen else others


def lagging(roles: Roles) -> frozenset[TopicPartition]:
    """Internal partitions whose replicas are not all in sync."""
    every = roles.replicas.items()
    return frozenset(tp for tp, its in every if internal(tp.topic) and len(roles.isr.get(tp, ())) < len(its))


def unserved(
    roles: Roles,
    data: Collection[TopicPartition],
    replication_factor: int,
    since_ns: int,
    lagged: Collection[TopicPartition] = (),
) -> str:
    """What the cluster itself lacks, whatever its clients do, "" = nothing. lagged: see `unrecovered`."""
    if roles.ns < since_ns or not roles.agreed:
        return f"brokers {list(roles.answering)} answer, and do not all agree on the leaders"
    for tp, leader in sorted(roles.leaders.items()):
        if leader < 0:
            return f"{tp} has no leader"
        isr, replicas = roles.isr.get(tp, ()), roles.replicas.get(tp, ())
        if tp not in lagged and len(isr) < max(replication_factor if tp in data else 0, len(replicas)):
            return f"{tp} has in-sync replicas {list(isr)} only"
    return ""


def stalled(
    slots: Sequence[ClientSlot], working: Mapping[int, ClientProgress], since_ns: int
) -> tuple[int, ...]:
    """The clients that stand still although the cluster serves: each has completed nothing since, or is given
    nothing although it polls, and one like it worked. None where one of them has none like it at work, or a
    whole group stands still: then the cluster may be to blame.
    """
    there = {slot.slot: slot for slot in slots if slot.slot in working}
    still = {*_stuck(working, since_ns), *idle_readers(slots, working, since_ns)}
    at_work = {_like(there[slot]) for slot in working if slot in there and slot not in still}
    alone = any(slot not in there or _like(there[slot]) not in at_work for slot in still)
    return () if alone or idle_groups(slots, working, since_ns) else tuple(sorted(still))


def _like(slot: ClientSlot) -> tuple[bool, bool, bool, str]:
    """What a client does; clients that do the same are alike."""
    return bool(slot.transactional_id), slot.produces, slot.fed, slot.group


def _stuck(working: Mapping[int, ClientProgress], since_ns: int) -> list[int]:
    return [slot for slot, progress in working.items() if progress.ok_invoked_ns < since_ns]


def idle_readers(
    slots: Sequence[ClientSlot], working: Mapping[int, ClientProgress], since_ns: int
) -> list[int]:
    """Consumers without a group, and members of share groups, that no op that they invoked since gave a
    record, while producers work."""
    there = [slot for slot in slots if slot.slot in working]
    if not any(slot.produces for slot in there):
        return []
    return [slot.slot for slot in there if slot.fed and working[slot.slot].worked_ns < since_ns]


def idle_groups(
    slots: Sequence[ClientSlot], working: Mapping[int, ClientProgress], since_ns: int
) -> list[str]:
    """Groups none of whose members was given a record by an op that it invoked at or after `since_ns`.

    A member of a group that works may be given nothing, where the group has more members than partitions; all
    together may not, as long as a producer feeds them. Where every producer is itself a member of a group,
    that cannot be decided, and no group is called idle.
    """
    there = [slot for slot in slots if slot.slot in working]
    if not any(slot.produces and not slot.group for slot in there):
        return []
    newest: dict[str, int] = {}
    for slot in there:
        worked = working[slot.slot].worked_ns
        newest[slot.group] = max(worked, newest.get(slot.group, 0))
    return sorted(group for group, worked in newest.items() if group and worked < since_ns)
