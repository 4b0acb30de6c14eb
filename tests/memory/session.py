"""A session of the cluster in memory, in the process of a worker: each verb is a message to the cluster."""

from collections.abc import Awaitable, Callable
from multiprocessing.connection import Client as Connect
from typing import Any, cast

from core.client_settings import SessionSpec
from core.session import Session


def connect(args: dict[str, str], spec: SessionSpec) -> Session:
    """The factory named by the endpoint."""
    return cast("Session", RemoteSession(args["path"], spec))


class RemoteSession:
    """See `core.session.Session`."""

    def __init__(self, path: str, spec: SessionSpec) -> None:
        self._connection = Connect(path, "AF_UNIX")
        self._connection.send(spec)
        self._left = False
        self.client = self._ask("client")

    def _ask(self, name: str, *args: Any, **options: Any) -> Any:
        self._connection.send((name, args, options))
        result, error = self._connection.recv()
        if error is not None:
            raise error
        return result

    @property
    def fatal(self) -> str | None:
        """The error after which it does nothing more."""
        return cast("str | None", self._ask("fatal"))

    def events(self) -> Any:
        """What happened since the last call."""
        return self._ask("events")

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            return self._ask(verb, *args, **options)

        return call

    async def close(self) -> None:
        """It leaves, in order. What happened in that is told by `events` yet."""
        if not self._left:
            self._left = True
            self._ask("close")
