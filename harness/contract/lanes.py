"""Lanes: messages between nodes that wait for steps, each kind on its way between two nodes.

A lane is one rule of the proxies between nodes (`harness.brokers.peer_proxies`), which holds every request of
a kind, and then its answer: the followers' fetches, their leaders' answers, AlterPartition, fetches of the
metadata log, heartbeats. What the proxies have seen tells what waits.
"""

from collections.abc import Iterator
from typing import Final

from core.wire import Seen, holding
from harness.brokers.peer_proxies import Between
from harness.processes.waiting import NotYet, until

POLL_S: Final = 0.05
MESSAGE_S: Final = 60.0
"""A message that a step speaks of has come by then, also on a busy machine."""
CAUGHT, DELIVERED, ANSWERED = "caught", "delivered", "answered"


class Lane:
    """See the module. node: which has the proxy. client_id: of the node that sends. answers: they are held,
    too."""

    def __init__(
        self, between: Between, number: int, api: str, node: int, client_id: str, *, answers: bool
    ) -> None:
        """The rule is in force then. Raises: ClusterError."""
        self.number = number
        self._what = f"{api} of {client_id} to node {node}"
        self._between = between
        self._let: set[int] = set()
        """Requests whose answers were let go, by when they came."""
        self._lost: set[int] = set()
        """Those that lay on it, or whose answers did, when that was lost."""
        self.open = True
        between.add(holding(number, api, node, client_id, answers=answers))

    def requests(self) -> list[Seen]:
        """Requests that wait, the oldest first."""
        return [one for _, one in self._newest() if one.what == CAUGHT]

    def arrived(self) -> list[Seen]:
        """Requests that have reached the node and are not answered yet."""
        return [one for _, one in self._newest() if one.what == DELIVERED]

    def answers(self) -> list[Seen]:
        """Answers that wait, the oldest first."""
        return [one for ns, one in self._newest() if one.what == ANSWERED and ns not in self._let]

    def took_ns(self, answer: Seen) -> int:
        """How long the node took for an answer, from when it had the request."""
        request = answer.node, answer.connection, answer.correlation_id
        had = [
            one.ns
            for one in self._between.seen(self.number)
            if one.what == DELIVERED
            and (one.node, one.connection, one.correlation_id) == request
            and one.ns <= answer.ns
        ]
        return answer.ns - had[-1]

    def reached_ns(self) -> int:
        """When the newest of its requests reached the node; -1: none has."""
        return max((one.ns for one in self._between.seen(self.number) if one.what == DELIVERED), default=-1)

    def let_request(self, within_s: float = MESSAGE_S) -> Seen:
        """The request that waits, or comes soon, reaches the node.

        Raises: NotYet, where none comes; ClusterError."""
        (*_, request) = until(within_s, POLL_S, lambda: self._some(self.requests(), "no request"))
        self._between.release(self.number)

        def gone() -> None:
            if request in self.requests():
                raise NotYet(f"{self._what} is not let go")

        until(MESSAGE_S, POLL_S, gone)
        return request

    def let_answer(self, within_s: float = MESSAGE_S) -> Seen:
        """The answer that waits, or comes soon, reaches who asked.

        Raises: NotYet, where none comes; ClusterError."""
        answers = self.await_answer(within_s)
        self._let |= {ns for ns, one in self._newest() if one in answers}
        self._between.release(self.number)
        return answers[-1]

    def await_answer(self, within_s: float = MESSAGE_S) -> list[Seen]:
        """Answers that wait, as soon as there is one. Raises: NotYet."""
        return until(within_s, POLL_S, lambda: self._some(self.answers(), "no answer"))

    def await_request(self, within_s: float = MESSAGE_S) -> None:
        """Returns as soon as a request waits. Raises: NotYet."""
        until(within_s, POLL_S, lambda: self._some(self.requests(), "no request"))

    def lose(self) -> None:
        """What lies on it never arrives: its connections break. Raises: ClusterError."""
        self._lost |= {ns for ns, _ in self._newest()}
        self._between.lose(self.number)

    def close(self) -> None:
        """Nothing is held on it any more; what is arrives. Raises: ClusterError."""
        if self.open:
            self.open = False
            self._between.lift([self.number])

    def _some(self, found: list[Seen], what: str) -> list[Seen]:
        if not found:
            raise NotYet(f"{what}: {self._what}")
        return found

    def _newest(self) -> Iterator[tuple[int, Seen]]:
        """When each request that was not lost came, and the newest thing that happened to it. (A node that
        was started again has a proxy that numbers its connections from 1 on.)"""
        came: dict[tuple[int, int, int], int] = {}
        newest: dict[int, Seen] = {}
        for one in self._between.seen(self.number):
            request = one.node, one.connection, one.correlation_id
            if one.what == CAUGHT:
                came[request] = one.ns
            newest[came.get(request, one.ns)] = one
        yield from ((ns, one) for ns, one in newest.items() if ns not in self._lost)
