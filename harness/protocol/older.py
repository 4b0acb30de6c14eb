"""Schemas of requests and responses that kio has no more, since Kafka 4.0 dropped them.

Source: Kafka's message definitions, as its release 2.8 has them.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from kio.schema.create_topics.v2.request import CreateTopicsRequest as CreateTopicsRequestV2
from kio.schema.create_topics.v2.response import CreatableTopicResult
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16
from kio.static.protocol import RequestPayload, ResponsePayload


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest(CreateTopicsRequestV2):
    """Version 1: as version 2."""

    __version__: ClassVar[i16] = i16(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    """Version 1: without the time of a throttle."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[i16] = i16(19)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topics: tuple[CreatableTopicResult, ...]


REQUESTS: Final[dict[tuple[int, int], type[RequestPayload]]] = {(19, 1): CreateTopicsRequest}
"""By API key and version."""
RESPONSES: Final[dict[tuple[int, int], type[ResponsePayload]]] = {(19, 1): CreateTopicsResponse}
