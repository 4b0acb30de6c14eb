"""What members of consumer groups have in common, whichever protocol they speak: commits, and what they say
to their coordinator.

What the application has to see it sees in its polls: it waits in `news` until the application takes it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from model.client.client_metadata import ClientMetadata, KafkaClient
from model.errors import NO_ERROR, KafkaError
from model.protocol.coordinator_messages import OffsetCommit
from model.protocol.messages import Partition
from model.protocol.requests import ErrorResponse, Request

E = TypeVar("E", bound=ErrorResponse)
REVOKED: Final = "revoked"
LOST: Final = "lost"
ASSIGNED: Final = "assigned"
COMMITTED: Final = "committed"
NO_EPOCHS: Final[Mapping[Partition, int]] = {}


class GroupEvent(NamedTuple):
    """What happened to these partitions of the member. `generation`: in the protocol of KIP-848 the member
    epoch. `offsets`: committed ones (COMMITTED), -1 = none; at_ms: when they were asked for; of ASSIGNED,
    when the assignment arrived."""

    kind: str
    partitions: tuple[Partition, ...]
    generation: int
    offsets: Mapping[Partition, int] = {}
    at_ms: int = -1


class GroupMember(KafkaClient, ABC):
    """See the module. `commits`: outcome by number of a commit: error name, "" = done. `generation`: as in
    `GroupEvent`; `newer`: what it commits is of a member epoch."""

    newer = False

    def __init__(self, group: str, topics: Sequence[str], cluster: ClientMetadata, *, stable: bool) -> None:
        super().__init__(cluster)
        self.group = group
        self.topics = tuple(topics)
        self.stable = stable
        self.member = ""
        self.generation = -1
        self.partitions: tuple[Partition, ...] = ()
        self.news: list[GroupEvent] = []
        self.commits: dict[int, str] = {}
        self._state = "out"
        self._pause = 0
        self._beat_at = 0
        self._commit_number = 0
        self._wanted: list[Callable[[int], None]] = []
        """What is to be said to the coordinator, once it is known."""

    # ---- what the application does

    @abstractmethod
    def take_news(self) -> list[GroupEvent]:
        """What happened since the last call; a revocation is accepted with it."""

    def commit(self, offsets: Mapping[Partition, int], epochs: Mapping[Partition, int] = NO_EPOCHS) -> int:
        """Commit offsets, and the leader epochs of the last records before them, with the present
        generation; the number under which `commits` will tell."""
        self._commit_number += 1
        number = self._commit_number
        request = OffsetCommit(
            self.group, self.generation, self.member, dict(offsets), epochs, newer=self.newer
        )

        def done(error: KafkaError, now: int) -> None:
            self.commits[number] = "" if error is NO_ERROR else error.name

        self._wanted.append(lambda node: self._say(node, f"commit {number}", request, done))
        return number

    @abstractmethod
    def leave(self) -> None:
        """Leave the group, without waiting for the answer."""

    # ---- time and answers

    @abstractmethod
    def pump(self, now: int) -> None:
        """Send what is to be sent."""

    def _coordinator(self, now: int) -> int:
        """The coordinator, -1 where it is not known, or has to be left alone; what waits for it is sent."""
        node, asks = self.cluster.coordinator(self.group, True, now)
        self.out += asks
        if node < 0 or now < self._pause:
            return -1
        wanted, self._wanted = self._wanted, []
        for say in wanted:
            say(node)
        return node

    def _say(
        self,
        node: int,
        channel: str,
        request: Request[E],
        failed: Callable[[KafkaError, int], None],
        done: Callable[[E, int], None] | None = None,
    ) -> None:
        """Ask the coordinator. failed: gets every error, and NONE where there is no `done`."""

        def then(answer: "E | None", now: int) -> None:
            error = KafkaError.REQUEST_TIMED_OUT if answer is None else answer.error
            if self._state == "left":
                return
            if answer is not None and error is NO_ERROR and done is not None:
                done(answer, now)
            else:
                failed(error, now)

        self._ask(node, channel, request, then)
