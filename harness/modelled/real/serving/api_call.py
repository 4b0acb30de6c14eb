"""Requests of clients as a broker serves them: what an API is made of, and the responses that it builds.

A response is built from plain values: `respond(topics=[{"name": …, "partitions": […]}])`, for all versions
of an API: see `harness.protocol.encoding`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from core.cluster import Address
from harness.modelled.real.node import Node
from model.errors import KafkaError
from model.protocol.requests import AnyRequest


class Call(msgspec.Struct, frozen=True):
    """A request that waits for its response. node: of the broker. addresses: what this listener tells clients
    of brokers. respond: called once, with the values of the response; or `silent`, where the client expects
    none. client_id: of the request's header."""

    node: Node
    addresses: Mapping[int, Address]
    request: Any
    version: int
    client_id: str
    respond: Callable[..., None]
    silent: Callable[[], None]

    def ask(self, request: AnyRequest, answered: Callable[[Any], None]) -> None:
        """Let the broker handle a request of the model."""
        self.node.submit(request, answered)

    def ask_all(self, requests: Sequence[AnyRequest], answered: Callable[[list[Any]], None]) -> None:
        """Let the broker handle several, and continue with all answers, in the order of the requests."""
        answers: list[Any] = [None] * len(requests)
        left = len(requests)

        def one(at: int, answer: Any) -> None:
            nonlocal left
            answers[at] = answer
            left -= 1
            if not left:
                answered(answers)

        if not requests:
            answered([])
        for at, request in enumerate(requests):
            self.ask(request, lambda answer, at=at: one(at, answer))  # type: ignore[misc]


class Api(NamedTuple):
    """One of Kafka's APIs. first, last: versions that are served. serve: responds to a call, now or later."""

    first: int
    last: int
    serve: Callable[[Call], None]


def error_of(answer: Any) -> KafkaError:
    """The error of a whole answer."""
    found: KafkaError = getattr(answer, "error", KafkaError.NONE)
    return found
