"""Which brokers hold the replicas of a new topic's partitions with ZooKeeper (KIP-36; AdminUtils).

assign((1, 2, 3), partitions=2, replication=2)  ->  ((1, 2), (2, 3))
"""

from collections.abc import Mapping, Sequence


def assign(
    brokers: Sequence[int],
    *,
    partitions: int,
    replication: int,
    start: int = 0,
    shift: int = 0,
    racks: Mapping[int, str] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition, the preferred leader first.

    Partition i leads on broker i mod n (from `start` on); its replica j is on broker (i + j) mod n. After
    each round over all brokers the followers are moved by one more place (`shift` is where that begins), so
    that two brokers do not share all their partitions. With `racks` (rack by broker) the brokers are taken
    rack by rack in turn, and no rack gets a second replica before all have one.

    Raises: ValueError, where there are too few brokers.
    """
    order = _by_rack(brokers, racks) if racks else sorted(brokers)
    n = len(order)
    if not 0 < replication <= n:
        raise ValueError(f"replication {replication} on {n} brokers")
    made = []
    for partition in range(partitions):
        if partition > 0 and partition % n == 0:
            shift += 1
        first = (partition + start) % n
        if racks:
            made.append(_spread(order, first, replication, shift, racks))
            continue
        # Without a shift the follower j is on (i + 1 + j) mod n (AdminUtils.replicaIndex).
        rest = [order[(first + 1 + (shift + j) % (n - 1)) % n] for j in range(replication - 1)]
        made.append((order[first], *rest))
    return tuple(made)


def _by_rack(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """Brokers such that neighbours are in different racks as long as possible."""
    left = {rack: sorted(b for b in brokers if racks[b] == rack) for rack in sorted(set(racks.values()))}
    order: list[int] = []
    while any(left.values()):
        order += [members.pop(0) for members in left.values() if members]
    return order


def _spread(
    order: Sequence[int], first: int, replication: int, shift: int, racks: Mapping[int, str]
) -> tuple[int, ...]:
    """The first broker, then others from its place on: new racks first, then new brokers."""
    n = len(order)
    replicas = [order[first]]
    walk = [order[(first + 1 + (shift + j) % max(1, n - 1)) % n] for j in range(n - 1)]
    count = len({racks[b] for b in order})
    while len(replicas) < replication:
        used = [racks[b] for b in replicas]
        round_ = len(used) // count
        free = [b for b in walk if b not in replicas]
        fresh = [b for b in free if used.count(racks[b]) <= round_ and racks[b] not in used[round_ * count :]]
        replicas.append((fresh or free)[0])
    return tuple(replicas)
