"""A broker's client of ZooKeeper: one session, requests in order, events of watches.

A request that is not answered is sent again on the next connection, for as long as the session lasts: it may
have been done already (KafkaZkClient.retryRequestsUntilConnected), so the caller has to expect
NODE_EXISTS and BAD_VERSION of its own doing. That a session has ended the client learns from the ensemble
only: while it is cut off it keeps believing in it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from model.protocol.requests import Response, ZkRequest
from model.protocol.zookeeper_messages import (
    WatchedEvent,
    ZkCloseSession,
    ZkConnect,
    ZkConnectResponse,
    ZkOp,
    ZkOps,
    ZkPoll,
    ZkResponse,
    ZkResult,
)
from model.replication.node import NodeState

CHANNEL: Final = "zookeeper"
WATCH: Final = "watch"
BACKOFF_MS: Final = 100

Then = Callable[[Sequence[ZkResult] | None], None]
"""What to do with the results; None = the session has ended; what was done is unknown."""


class KafkaZkClient:
    """See the module. ensemble: its node. opened(): a session began. expired(): the session ended.
    notified(path): a watch fired. `session` -1 = none."""

    def __init__(
        self,
        node: NodeState,
        ensemble: int,
        *,
        opened: Callable[[], None],
        expired: Callable[[], None],
        notified: Callable[[str], None],
    ) -> None:
        self.node = node
        self.ensemble = ensemble
        self.session = -1
        self.closed = False
        self._opened = opened
        self._expired = expired
        self._notified = notified
        self._queue: list[tuple[Sequence[ZkOp], Then]] = []
        self._asked: int | None = None
        """Session of the request under way, None = none is."""
        self._polled: int | None = None
        self._attempt = 0
        self._seen = 0
        self._again_at = 0
        self._poll_at = 0

    def send(self, ops: Sequence[ZkOp], then: Then) -> None:
        """Run ops; `then` gets the results. Without a session it gets None at once."""
        if self.session < 0 or self.closed:
            then(None)
            return
        self._queue.append((ops, then))
        self.pump()

    def close(self) -> None:
        """End the session in an orderly way; `session` is -1 when that is known to be done."""
        self.closed = True
        self.pump()

    def pump(self) -> None:
        """Send the next request, and the next poll."""
        node = self.node
        if self._asked is None and node.now >= self._again_at:
            request: ZkRequest | None = None
            if self.session < 0:
                request = None if self.closed else ZkConnect(node.settings.session_ms)
            elif self._queue:
                request = ZkOps(self.session, self._attempt, self._queue[0][0], self._seen)
            elif self.closed:
                request = ZkCloseSession(self.session)
            if request is not None:
                self._asked = self.session
                node.ask(self.ensemble, CHANNEL, request)
        polls = self.session >= 0 and self._polled is None and not self.closed
        if polls and node.now >= self._poll_at:
            self._polled = self.session
            node.ask(self.ensemble, WATCH, ZkPoll(self.session, self._seen))

    def answered(self, channel: str, answer: Response | None) -> bool:
        """The answer to an `Ask`, None = none came; whether the question was of this client."""
        if channel == CHANNEL:
            session, self._asked = self._asked, None
            if answer is None:
                self._attempt += 1
                self._again_at = self.node.now + BACKOFF_MS
            elif session == self.session:
                assert isinstance(answer, ZkConnectResponse | ZkResponse)
                self._take(answer)
        elif channel == WATCH:
            session, self._polled = self._polled, None
            if answer is None:
                self._poll_at = self.node.now + BACKOFF_MS
            elif session == self.session and isinstance(answer, ZkResponse):
                self._hear(answer)
        else:
            return False
        self.pump()
        return True

    def _take(self, answer: ZkResponse | ZkConnectResponse) -> None:
        if isinstance(answer, ZkConnectResponse):
            self.session, self._attempt, self._seen = answer.session, 0, 0
            self._opened()
        elif answer.expired or answer.moved:
            self._hear(answer)
        elif self._queue:
            _, then = self._queue.pop(0)
            self._hear(answer)
            then(answer.results)
        else:
            self.session = -1  # it was closed

    def _hear(self, answer: ZkResponse) -> None:
        """Events come before anything else."""
        if answer.expired:
            self._end()
        for event in answer.events:
            self._event(event)

    def _event(self, event: WatchedEvent) -> None:
        if event.number > self._seen:
            self._seen = event.number
            self._notified(event.path)

    def _end(self) -> None:
        self.session = -1
        queue, self._queue = self._queue, []
        self._expired()
        for _, then in queue:
            then(None)
