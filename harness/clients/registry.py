"""The kinds of load clients: one visible dict.

To add a kind: an entry here and its module, with a `ClientLibrary` and what opens a session.
"""

import pkgutil
from dataclasses import dataclass
from importlib.util import resolve_name
from typing import Final

from core.client_settings import ClientLibrary
from core.config import RunConfig
from core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKind:
    """One kind of load clients. A path is `module:name`, imported when it is needed; `.module` begins in this
    package."""

    doc: str
    """One line for people."""
    library: str
    """Path of its `ClientLibrary`: its defaults, and which settings it honours."""
    session: str = ""
    """Path of what opens a session, see `core.cluster.Endpoint.factory`; "" = its system has them within."""

    def client_library(self) -> ClientLibrary:
        """Its defaults, and which settings it honours."""
        found: ClientLibrary = pkgutil.resolve_name(resolve_name(self.library, __package__))
        return found

    @property
    def factory(self) -> str:
        """`session`, as worker processes import it."""
        return resolve_name(self.session, __package__)


CLIENTS: Final[dict[str, ClientKind]] = {
    "librdkafka": ClientKind(
        doc="librdkafka by confluent-kafka",
        library=".librdkafka.settings:LIBRDKAFKA",
        session=".librdkafka.session:connect",
    ),
    "command": ClientKind(
        doc="a program of yours that speaks JSON lines (--client, docs/client-protocol.md)",
        library=".command.settings:COMMAND",
        session=".command.session:connect",
    ),
    "modelled": ClientKind(
        doc="the clients of the reference model, in virtual time",
        library="..modelled.virtual.client_runtime:MODELLED",
    ),
}
"""Every kind by name: of a system (`core.systems.System.clients`) or of a run (`RunConfig.clients`)."""


def clients_of(config: RunConfig, usual: str) -> ClientKind:
    """The kind that a config asks for. usual: that of its system. Raises: ConfigError."""
    name = config.clients or usual
    if name not in CLIENTS:
        raise ConfigError(f"unknown clients {name!r}; known: {', '.join(CLIENTS)}")
    return CLIENTS[name]
