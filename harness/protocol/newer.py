"""Schemas of requests and responses that are newer than kio, in the form of its classes.

Source: Kafka's message definitions, as its release 4.4.0 has them.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest as ApiVersionsRequestV4
from kio.schema.api_versions.v4.response import ApiVersionsResponse as ApiVersionsResponseV4
from kio.schema.types import BrokerId
from kio.static.primitive import i16
from kio.static.protocol import RequestPayload, ResponsePayload


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest(ApiVersionsRequestV4):
    """Version 5: a client names the cluster and the node that it means to reach, or neither (KIP-1242)."""

    __version__: ClassVar[i16] = i16(5)
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    node_id: BrokerId = field(metadata={"kafka_type": "int32"}, default=BrokerId(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse(ApiVersionsResponseV4):
    """Version 5: with the fields of version 4."""

    __version__: ClassVar[i16] = i16(5)


REQUESTS: Final[dict[tuple[int, int], type[RequestPayload]]] = {(18, 5): ApiVersionsRequest}
"""By API key and version."""
RESPONSES: Final[dict[tuple[int, int], type[ResponsePayload]]] = {(18, 5): ApiVersionsResponse}
