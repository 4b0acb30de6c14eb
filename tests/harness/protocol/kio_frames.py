"""Frames as kio writes them: what `harness.protocol.encoding` is compared with."""

import io

from kio.serial import entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

from harness.protocol.frames import frame


def encode_request(request: RequestPayload, correlation_id: int, client_id: str) -> bytes:
    """The frame of a request."""
    header = request.__header_schema__(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    content = io.BytesIO()
    entity_writer(type(header))(content, header)
    entity_writer(type(request))(content, request)
    return frame(content.getvalue())


def encode_response(response: ResponsePayload, correlation_id: int) -> bytes:
    """The frame of a response."""
    header = response.__header_schema__(correlation_id=i32(correlation_id))
    content = io.BytesIO()
    entity_writer(type(header))(content, header)
    entity_writer(type(response))(content, response)
    return frame(content.getvalue())
