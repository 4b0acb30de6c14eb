"""The messages of a simulated run as the tables of evidence that a capture on a network makes.

A message is seen when it is sent. What a node tells itself is not, as on a network.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import pyarrow as pa

from core.capabilities import Listener
from harness.modelled.shared.base_time import BASE_NS
from harness.modelled.virtual.network import CLIENTS, Message
from harness.protocol.payloads import API_KEYS
from history.evidence_tables import CLIENT, PER_RUN, Cell, Row, frame_part, order, table
from model.protocol.coordinator_messages import EndTxn, WriteTxnMarkers
from model.protocol.messages import Fetch, PartitionState, Produce, ProduceResponse
from model.protocol.requests import ErrorResponse
from model.protocol.zookeeper_messages import ControlRequest

PORTS: Final = {Listener.BROKER: 9092, Listener.CONTROLLER: 9093, Listener.CLIENT: 9094}
NO_API: Final = -2
"""In the place of the key of an API that Kafka has under another name, or not."""
_MOST: Final = 1 << 31


def frames(messages: Iterable[Message]) -> dict[str, pa.Table]:
    """The tables of `history.evidence_tables.PER_RUN`. messages: in the order in which they were sent."""
    rows: list[Row] = []
    parts: list[Row] = []
    orders: list[Row] = []
    for message in messages:
        connection, asked = message.connection, message.request or message
        if connection.client == connection.server:
            continue
        number, answer = len(rows), asked is not message
        client = CLIENT if connection.client == CLIENTS else connection.client
        place = connection.number, client, 0, connection.server, PORTS[connection.listener]
        said = answer, _key(type(asked.content).__name__), 0, asked.number % _MOST, 0
        ns = BASE_NS + message.sent * 1000
        rows.append((number, ns, ns // 1_000_000, *place, *said))
        if isinstance(asked.content, ControlRequest):
            orders += _ordered(number, asked.content, message.content if answer else None)
        elif answer and type(asked.content) is EndTxn:
            parts.append(frame_part(number, (None, None), -1, error=message.content.error.value))
        elif (read := _READERS.get(type(message.content))) is not None:
            parts += (
                frame_part(number, (topic, None), partition, **found)
                for (topic, partition), found in read(message.content)
            )
    found = {"frames": rows, "frame_parts": parts, "orders": orders, "gaps": []}
    return {name: table(schema, found[name]) for name, schema in PER_RUN.items()}


def _ordered(number: int, asked: ControlRequest, answer: ErrorResponse | None) -> Iterator[Row]:
    """Of a controller's request, or of its answer; answers of the model name no partitions."""
    if answer is not None:
        yield order(number, error=answer.error.value)
        return
    yield order(number, controller=asked.controller, controller_epoch=asked.controller_epoch)
    named: Any = getattr(asked, "partitions", ())
    for topic, partition in named:
        yield order(number, partition, topic=topic)
    states: Mapping[Any, PartitionState] = getattr(asked, "parts", {})
    for (topic, partition), one in states.items():
        said: dict[str, Cell] = {"leader": one.leader, "leader_epoch": one.leader_epoch, "isr": one.isr}
        yield order(number, partition, topic=topic, **said)


@cache
def _key(name: str) -> int:
    return API_KEYS.get(re.sub("(?!^)(?=[A-Z])", "_", name).lower(), NO_API)


Parts = Iterator[tuple[tuple[str | None, int], dict[str, Cell]]]
"""Topic and number of a partition, and what is said of it."""


def _produced(request: Produce) -> Parts:
    for tp, batch in request.batches.items():
        yield (
            tp,
            {
                "producer_id": batch.producer_id,
                "producer_epoch": batch.producer_epoch,
                "sequence": batch.sequence,
                "records": batch.size,
                "acks": request.acks,
            },
        )


def _ended(request: EndTxn) -> Parts:
    producer: dict[str, Cell] = {"producer_id": request.producer_id, "producer_epoch": request.producer_epoch}
    yield (None, -1), {**producer, "commit": request.commit}


def _answered(response: ProduceResponse) -> Parts:
    for tp, (error, offset) in response.results.items():
        yield tp, {"error": error.value, "offset": offset}


def _fetched(request: Fetch) -> Parts:
    if request.replica >= 0:
        for tp, part in request.parts.items():
            yield tp, {"offset": part.offset, "leader_epoch": part.leader_epoch}


def _marked(request: WriteTxnMarkers) -> Parts:
    for marker in request.markers:
        for tp in marker.partitions:
            yield (
                tp,
                {
                    "producer_id": marker.producer_id,
                    "producer_epoch": marker.producer_epoch,
                    "commit": marker.commit,
                    "coordinator_epoch": marker.coordinator_epoch,
                },
            )


_READERS: Final[dict[type, Callable[[Any], Parts]]] = {
    Produce: _produced,
    ProduceResponse: _answered,
    Fetch: _fetched,
    EndTxn: _ended,
    WriteTxnMarkers: _marked,
}
