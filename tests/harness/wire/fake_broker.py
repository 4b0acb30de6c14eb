"""A broker that answers every request, in order, and remembers what it received."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v2.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16, i32Timedelta

from harness.protocol.frames import RequestHeader, Splitter, request_header
from tests.harness.protocol.kio_frames import encode_response


class FakeBroker:
    """requests: their headers, in the order of their arrival. port: where it listens. answers: while it is
    clear, requests arrive and their answers wait."""

    def __init__(self) -> None:
        self.requests: list[RequestHeader] = []
        self.changed = threading.Condition()
        self.answers = threading.Event()
        self.answers.set()
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                broker.serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        """One connection, to its end."""
        splitter = Splitter()
        while True:
            try:
                data = connection.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            for frame in splitter.feed(data):
                header = request_header(frame)
                with self.changed:
                    self.requests.append(header)
                    self.changed.notify_all()
                self.answers.wait()
                connection.sendall(encode_response(self.answer(), header.correlation_id))

    def answer(self) -> Any:
        """The answer to everything."""
        return InitProducerIdResponse(
            throttle_time=i32Timedelta.parse(timedelta(0)),
            error_code=ErrorCode.none,
            producer_id=ProducerId(5),
            producer_epoch=i16(0),
        )

    def received(self, number: int, seconds: float = 10) -> bool:
        """Whether a request of this correlation id arrives in time."""
        with self.changed:
            return self.changed.wait_for(
                lambda: any(header.correlation_id == number for header in self.requests), seconds
            )


@contextmanager
def fake_broker() -> Iterator[FakeBroker]:
    """A running broker."""
    broker = FakeBroker()
    try:
        yield broker
    finally:
        broker.server.shutdown()
        broker.server.server_close()
