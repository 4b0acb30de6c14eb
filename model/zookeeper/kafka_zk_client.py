"""A broker's client of ZooKeeper: one session, requests in order, events of watches.

A request that is not answered is sent again on the next connection, for as long as the session lasts: it may
have been done already (KafkaZkClient.retryRequestsUntilConnected), so the caller has to expect
NODE_EXISTS and BAD_VERSION of its own doing. That a session has ended the client learns from the ensemble
only: while it is cut off it keeps believing in it.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from model.protocol.requests import Request
from model.protocol.zookeeper_messages import (
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

BACKOFF_MS: Final = 100

T = TypeVar("T")
Steps = Generator[list[ZkOp], Sequence[ZkResult], T]
"""Something under way: it yields ops of ZooKeeper and continues with their results."""


class SessionExpired(Exception):
    """The session has ended; what was done is unknown."""


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
        self._asked = False
        self._polled = False
        self._attempt = 0
        self._seen = 0
        self._again_at = 0
        self._poll_at = 0

    def run(self, steps: Steps[None]) -> None:
        """Run steps to their end. Raises, in the steps: SessionExpired."""
        with suppress(StopIteration):
            self.send(next(steps), partial(self._continue, steps))

    def _continue(self, steps: Steps[None], results: Sequence[ZkResult] | None) -> None:
        with suppress(StopIteration, SessionExpired):
            ops = steps.throw(SessionExpired) if results is None else steps.send(results)
            self.send(ops, partial(self._continue, steps))

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
        if not self._asked and node.now >= self._again_at:
            request: Request[ZkConnectResponse | ZkResponse] | None = None
            if self.session < 0:
                request = None if self.closed else ZkConnect(node.settings.session_ms)
            elif self._queue:
                request = ZkOps(self.session, self._attempt, self._queue[0][0], self._seen)
            elif self.closed:
                request = ZkCloseSession(self.session)
            if request is not None:
                self._asked = True
                node.ask(self.ensemble, "zookeeper", request, partial(self._answered, self.session))
        polls = self.session >= 0 and not self._polled and not self.closed
        if polls and node.now >= self._poll_at:
            self._polled = True
            poll = ZkPoll(self.session, self._seen)
            node.ask(self.ensemble, "watch", poll, partial(self._told, self.session))

    def _answered(self, session: int, answer: ZkConnectResponse | ZkResponse | None) -> None:
        self._asked = False
        if answer is None:
            self._attempt += 1
            self._again_at = self.node.now + BACKOFF_MS
        elif session == self.session:
            self._take(answer)
        self.pump()

    def _told(self, session: int, answer: ZkResponse | None) -> None:
        self._polled = False
        if answer is None:
            self._poll_at = self.node.now + BACKOFF_MS
        elif session == self.session:
            self._hear(answer)
        self.pump()

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
            if event.number > self._seen:
                self._seen = event.number
                self._notified(event.path)

    def _end(self) -> None:
        self.session = -1
        queue, self._queue = self._queue, []
        self._expired()
        for _, then in queue:
            then(None)
