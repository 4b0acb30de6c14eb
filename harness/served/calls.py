"""Requests of clients as a broker serves them: what an API is made of, and the responses that it builds.

A response is built from plain values: `respond(topics=[{"name": …, "partitions": […]}])`. Each value goes
into the field of that name in the schema of the request's version; fields that a version does not have are
left out, and those that are not given are empty, 0 ms, or -1. So one function serves all versions of an API.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from core.cluster import Address
from harness.served.node import Node
from model.errors import KafkaError
from model.protocol.messages import Partition
from model.protocol.requests import AnyRequest

Values = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
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


def milliseconds(duration: timedelta) -> int:
    """A duration of a request."""
    return round(duration.total_seconds() * 1000)


def by_topic(items: Iterable[tuple[Partition, T]]) -> dict[str, list[T]]:
    """Values of partitions by topic."""
    found: dict[str, list[T]] = {}
    for (topic, _), value in items:
        found.setdefault(topic, []).append(value)
    return found


def places(topics: Any, numbers: str) -> list[Partition]:
    """The partitions that topics of a request name. numbers: the field that has them."""
    return [(str(topic.name), int(number)) for topic in topics for number in getattr(topic, numbers)]


def error_of(answer: Any) -> KafkaError:
    """The error of a whole answer."""
    found: KafkaError = getattr(answer, "error", KafkaError.NONE)
    return found


def build(kind: type, values: Values) -> Any:
    """A value of a schema, from plain values."""
    return _builder(kind)(values)


@cache
def _builder(kind: type) -> Callable[[Values], Any]:
    """What makes values of a schema."""
    hints = get_type_hints(kind)
    parts: list[tuple[str, Callable[[Any], Any] | None, Any]] = []
    for field in fields(kind):
        hint = hints[field.name]
        parts.append((field.name, _converter(hint), _default(field, hint)))

    def make(values: Values) -> Any:
        made = {}
        for name, convert, default in parts:
            if name in values:
                made[name] = values[name] if convert is None else convert(values[name])
            elif default is not MISSING:
                made[name] = default
        return kind(**made)

    return make


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        if is_dataclass(element):
            assert isinstance(element, type)
            each = _builder(element)
            return lambda values: tuple(map(each, values))
        return tuple
    options = get_args(hint) or (hint,)
    if any(get_origin(one) is tuple for one in options):
        (nested,) = (one for one in options if get_origin(one) is tuple)
        convert = _converter(nested)
        assert convert is not None
        return lambda values: None if values is None else convert(values)
    if ErrorCode in options:
        return lambda value: ErrorCode(int(value))
    return None


def _default(field: Any, hint: Any) -> Any:
    if field.default is not MISSING:
        return MISSING
    if get_origin(hint) is tuple:
        return ()
    if hint is ErrorCode:
        return ErrorCode.none
    options: Final = get_args(hint) or (hint,)
    if type(None) in options:
        return None
    if hint is i32Timedelta:
        return timedelta(0)
    if hint is bool:
        return False
    return "" if _is_text(hint) else -1


def _is_text(hint: Any) -> bool:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint is str or (isinstance(hint, type) and issubclass(hint, str))
