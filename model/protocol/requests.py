"""What all requests and responses have, and the table by which a node finds who handles a request."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from model.errors import KafkaError, Refused


class Response(msgspec.Struct, frozen=True):
    """What a request is answered with."""


class ErrorResponse(Response, frozen=True):
    """A response with an error code, where it is not of a subclass: nothing but that."""

    error: KafkaError


R = TypeVar("R", bound=Response, covariant=True)


class Request(msgspec.Struct, Generic[R], frozen=True):
    """What a node or a client asks another node. R: how it is answered."""


AnyRequest = Request[Response]


class ControllerRequest(Request[R], frozen=True):
    """What the active controller of a KRaft cluster decides."""


class AdminRequest(ControllerRequest[R], frozen=True):
    """What an administrator may ask any broker."""


Q = TypeVar("Q", bound=AnyRequest)
Answer = Callable[[Response], None]
"""Answers a request."""
Answered = Callable[[Any], None]
"""Gets the answer to a request that was sent, of the class that the request names; None = none came."""
Refusal = Callable[[KafkaError], Response]
"""Makes the response to a request that is refused."""
Handler = Callable[[Q, Answer], None]


class Handlers:
    """Kind of request -> its handler. `on` pairs them, so that a type checker compares the two."""

    def __init__(self) -> None:
        self._by_kind: dict[type, Handler[Any]] = {}

    def on(self, kind: type[Q], handler: Handler[Q], refusal: Refusal = ErrorResponse) -> None:
        """This handler gets the requests of this kind, and answers them now or later; where it raises
        `Refused`, its refusal is the answer."""
        assert kind not in self._by_kind, f"two handlers for {kind.__name__}"

        def handle(request: Q, answer: Answer) -> None:
            try:
                handler(request, answer)
            except Refused as refused:
                answer(refusal(refused.error))

        self._by_kind[kind] = handle

    def at_once(
        self, kind: type[Q], function: Callable[[Q], Response], refusal: Refusal = ErrorResponse
    ) -> None:
        """As `on`, of requests that are answered at once, with what `function` returns."""
        self.on(kind, lambda request, answer: answer(function(request)), refusal)

    def handle(self, request: AnyRequest, answer: Answer) -> None:
        """Pass a request to its handler."""
        handler = self._by_kind.get(type(request))
        if handler is None:
            raise AssertionError(f"unknown request {request!r}")
        handler(request, answer)
