"""The process around a ZooKeeper ensemble: requests in, answers out, as for a broker.

The ensemble is one process that does not fail partly: it loses no change when it dies and comes back, and all
sessions get their whole time-out again then.
"""

from model.protocol.requests import AnyRequest, Response
from model.protocol.zookeeper_messages import (
    ZkCloseSession,
    ZkConnect,
    ZkConnectResponse,
    ZkOps,
    ZkPoll,
    ZkResponse,
)
from model.replication.node import Ask, Reply
from model.zookeeper.zookeeper import ZooKeeper


class Ensemble:
    """See the module. `zookeeper`: what outlives the process. `may_end`: see `shut_down`."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self.zookeeper = zookeeper
        self.now = 0
        self.may_end = False
        self._out: list[Reply | Ask] = []
        self._held: dict[int, tuple[int, int, int]] = {}
        """By session: connection and correlation of a `ZkPoll`, and until when it is held."""
        self._attempts: dict[int, int] = {}

    # ---- events

    def start(self, now: int) -> None:
        """The process comes up."""
        self.now = now
        self.zookeeper.restarted(now)

    def receive(self, now: int, connection: int, correlation: int, request: AnyRequest) -> None:
        """A request of a client."""
        self.now = now
        if isinstance(request, ZkPoll):
            self._poll(connection, correlation, request)
        else:
            answer: Response = ZkResponse()
            if isinstance(request, ZkConnect):
                answer = ZkConnectResponse(self.zookeeper.connect(now, request.timeout_ms))
            elif isinstance(request, ZkOps):
                answer = self._run(request)
            elif isinstance(request, ZkCloseSession):
                self.zookeeper.close(request.session)
            else:
                raise AssertionError(f"unknown request {request!r}")
            self._reply(connection, correlation, answer)
        self._release()

    def answered(self, now: int, ask: Ask, answer: Response | None) -> None:
        """It sends no requests."""
        raise AssertionError(f"an answer to nothing: {answer!r}")

    def tick(self, now: int) -> None:
        """100 ms passed."""
        self.now = now
        self.zookeeper.tick(now)
        self._release()

    def shut_down(self, now: int) -> None:
        """It has nothing to hand over."""
        self.may_end = True

    def take_out(self) -> list[Reply | Ask]:
        """What it wants done since the last call."""
        out, self._out = self._out, []
        return out

    # ---- requests

    def _run(self, request: ZkOps) -> ZkResponse:
        session = request.session
        if request.attempt < self._attempts.get(session, 0):
            return ZkResponse(moved=True)
        self._attempts[session] = request.attempt
        self.zookeeper.heard(self.now, session, request.seen)
        results = self.zookeeper.run(self.now, session, request.ops)
        if results is None:
            return ZkResponse(expired=True)
        return ZkResponse(results, tuple(self.zookeeper.sessions[session].events))

    def _poll(self, connection: int, correlation: int, request: ZkPoll) -> None:
        session = request.session
        before = self._held.pop(session, None)
        if before is not None:
            self._reply(before[0], before[1], ZkResponse())
        known = self.zookeeper.sessions.get(session)
        if known is None:
            self._reply(connection, correlation, ZkResponse(expired=True))
            return
        self.zookeeper.heard(self.now, session, request.seen)
        self._held[session] = (connection, correlation, self.now + known.timeout_ms // 3)

    def _release(self) -> None:
        """Answer polls that have something to bring now, or waited long."""
        for session, (connection, correlation, until) in list(self._held.items()):
            known = self.zookeeper.sessions.get(session)
            if known is None or known.events or until <= self.now:
                del self._held[session]
                events = tuple(known.events) if known is not None else ()
                self._reply(connection, correlation, ZkResponse((), events, expired=known is None))

    def _reply(self, connection: int, correlation: int, answer: Response) -> None:
        if connection >= 0:
            self._out.append(Reply(connection, correlation, answer))
