"""Requests of clients as a broker serves them: what an API is made of, and the responses that it builds.

A response is built from plain values: `respond(topics=[{"name": …, "partitions": […]}])`, for all versions
of an API: see `harness.protocol.encoding`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from core.cluster import Address
from harness.modelled.real.node import OTHERS, Node
from harness.protocol.payloads import Message
from model.errors import KafkaError
from model.protocol.requests import Request, Response

R = TypeVar("R", bound=Response)


class Call(msgspec.Struct, frozen=True):
    """A request that waits for its response. node: of the broker. addresses: what this listener tells clients
    of brokers. respond: called once, with the values of the response; or `silent`, where the client expects
    none. client_id: of the request's header. connection: the number of the client's, see `Node.connected`."""

    node: Node
    addresses: Mapping[int, Address]
    request: Message
    version: int
    client_id: str
    respond: Callable[..., None]
    silent: Callable[[], None]
    connection: int = OTHERS

    def ask(self, request: Request[R], answered: Callable[[R], None]) -> None:
        """Let the broker handle a request of the model."""
        self.node.submit(request, answered, self.connection)

    def ask_all(self, requests: Sequence[Request[R]], answered: Callable[[list[R]], None]) -> None:
        """Let the broker handle several, and continue with all answers, in the order of the requests."""
        answers: dict[int, R] = {}

        def one(at: int, answer: R) -> None:
            answers[at] = answer
            if len(answers) == len(requests):
                answered([answers[number] for number in range(len(requests))])

        if not requests:
            answered([])
        for at, request in enumerate(requests):
            self.ask(request, lambda answer, at=at: one(at, answer))  # type: ignore[misc]


class Api(NamedTuple):
    """One of Kafka's APIs. first, last: versions that are served. serve: responds to a call, now or later."""

    first: int
    last: int
    serve: Callable[[Call], None]


def error_of(answer: object) -> KafkaError:
    """The error of a whole answer."""
    found: KafkaError = getattr(answer, "error", KafkaError.NONE)
    return found
