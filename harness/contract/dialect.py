"""What a client speaks, and what translations of requests have in common.

Versions of requests say which transaction version the sender speaks: with 2 leaders add partitions to
transactions themselves, and EndTxn brings the next epoch (KIP-890). Producer ids and member ids are renamed
(`IdPairs`): brokers hand out whatever they have.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar, cast
from uuid import UUID

from harness.protocol.encoding import Values
from harness.protocol.payloads import Message
from model.errors import KafkaError
from model.protocol.requests import ErrorResponse, Response

N = TypeVar("N", int, str)

MADE_UP: Final = 900_000_000
"""Producer ids from here on were given out by no broker."""
NOT_ATTEMPTED: Final = 55
"""OPERATION_NOT_ATTEMPTED: another partition of the request is why it was refused."""
DIFFERING: Final = -1000
"""Stands for errors that differ; no code of Kafka's."""

VERSIONS: Final[Mapping[str, tuple[int, int]]] = {
    "produce": (10, 12),
    "init_producer_id": (4, 5),
    "add_offsets_to_txn": (3, 4),
    "end_txn": (3, 5),
    "txn_offset_commit": (3, 5),
}
"""Versions by which a client speaks transaction version 1 (those of librdkafka, which knows no
TRANSACTION_ABORTABLE) and 2. The versions of all other APIs are the same for both."""


@dataclass(slots=True)
class IdPairs:
    """Producer ids and member ids of the model and of the real broker, one for one. Ids that no broker
    gave out are the same on both sides. topics: ids of the real broker's topics by name."""

    real: dict[int | str, int | str] = field(default_factory=dict)
    modelled: dict[int | str, int | str] = field(default_factory=dict)
    topics: dict[str, UUID] = field(default_factory=dict)

    def pair(self, modelled: N, real: N) -> None:
        """Both brokers gave out an id in answer to one request."""
        if modelled not in self.real and real not in self.modelled:
            self.real[modelled], self.modelled[real] = real, modelled

    def to_real(self, name: N) -> N:
        """An id of the model at the real broker."""
        return cast("N", self.real.get(name, name))

    def to_model(self, producer_id: int) -> int:
        """A producer id of the real broker in the model; negative where the model has none for it."""
        if producer_id < 0 or producer_id >= MADE_UP:
            return producer_id
        return cast("int", self.modelled.get(producer_id, -2 - producer_id))

    def member(self, name: str) -> str:
        """A member id of the real broker in the model; the same where the model has none for it."""
        return cast("str", self.modelled.get(name, name))

    def topic(self, number: UUID) -> str:
        """The name of a topic of the real broker; its id where no name is known for it."""
        return next((name for name, known in self.topics.items() if known == number), str(number))


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a client speaks. transaction_version: 1 or 2. marker_version: of WriteTxnMarkers, 2 tells the
    transaction version (KIP-1228, 4.2)."""

    transaction_version: int
    marker_version: int

    def version(self, api: str, usual: int) -> int:
        """The version of an API's requests. usual: where the dialect does not decide it."""
        if api == "write_txn_markers":
            return self.marker_version
        return VERSIONS[api][self.transaction_version - 1] if api in VERSIONS else usual


class Translation(NamedTuple):
    """How requests of one kind are asked of a broker."""

    api: str
    version: int
    """Where the dialect does not decide it."""
    values: Callable[[Message, IdPairs], Values]
    """The model's request -> the values of Kafka's, of all its versions."""
    decode: Callable[[Message, IdPairs], Response]
    """Kafka's response -> the model's."""


class ForeignError(int):
    """What a broker answered and the model never does: a code that it does not know, or codes that differ by
    partition. It has a name, as the model's errors have, and equals none of them."""

    name: str

    def __new__(cls, code: int, name: str) -> "ForeignError":
        """code: none of the model's."""
        made = super().__new__(cls, code)
        made.name = name
        return made

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


def error_of(code: int) -> KafkaError:
    """The model's error, or a `ForeignError`."""
    try:
        return KafkaError(code)
    except ValueError:
        return cast("KafkaError", ForeignError(code, f"error {code}"))


def common_error(codes: Iterable[int]) -> KafkaError:
    """The error of a request that Kafka answers by partition and the model as a whole: that of all partitions
    which were attempted; a `ForeignError` where they differ."""
    found = sorted({int(code) for code in codes})
    attempted = [code for code in found if code != NOT_ATTEMPTED] or found
    if len(attempted) > 1:
        names = " and ".join(error_of(code).name for code in attempted)
        return cast("KafkaError", ForeignError(DIFFERING, names))
    return error_of(attempted[0] if attempted else 0)


def first_error(codes: Iterable[int]) -> KafkaError:
    """The first error of a request that the model answers as a whole though partitions may differ."""
    return error_of(next((int(code) for code in codes if code), 0))


def error_alone(answer: Message, names: IdPairs) -> Response:
    """The response that has nothing but its error."""
    return ErrorResponse(error_of(answer.error_code))
