"""When followers had everything that their leader had, by the fetches that reached it.

What Kafka's leader keeps of each follower (`Replica.updateFetchStateOrThrow`), seen from outside: never later
than the leader has it, so that who leaves the in-sync set before its lag has run out from here on leaves too
early.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

NEVER: Final = -1


@dataclass(slots=True)
class _Follower:
    """caught_up_ns: when it last had everything. fetch_ns, fetch_end: when its newest fetch reached the
    leader, and the end of the leader's log then."""

    caught_up_ns: int
    fetch_ns: int = NEVER
    fetch_end: int = 0


class CaughtUp:
    """See the module. Times are those of one clock."""

    def __init__(self) -> None:
        self._led: dict[int, tuple[int, frozenset[int]]] = {}
        """Leader -> when its epoch began, with whom in sync."""
        self._followers: dict[tuple[int, int], _Follower] = {}

    def led(self, leader: int, ns: int, in_sync: Collection[int]) -> None:
        """A leader begins an epoch, not before this time: who is in sync then counts as caught up."""
        self._led[leader] = ns, frozenset(in_sync)
        self._followers = {key: one for key, one in self._followers.items() if key[0] != leader}

    def fetched(self, leader: int, follower: int, ns: int, offset: int, end: int) -> None:
        """A fetch from an offset reached the leader, whose log had this end."""
        one = self._followers.setdefault((leader, follower), _Follower(self.since(leader, follower)))
        if offset >= end:
            one.caught_up_ns = max(one.caught_up_ns, ns)
        elif offset >= one.fetch_end:
            one.caught_up_ns = max(one.caught_up_ns, one.fetch_ns)
        one.fetch_ns, one.fetch_end = ns, end

    def since(self, leader: int, follower: int) -> int:
        """When a follower last had everything; `NEVER`: not in the leader's epoch."""
        if (one := self._followers.get((leader, follower))) is not None:
            return one.caught_up_ns
        began_ns, in_sync = self._led[leader]
        return began_ns if follower in in_sync else NEVER
