"""Masters of Spark: what their names say, and whether they answer."""

import os
import re
import socket
from typing import TYPE_CHECKING, Final

from core.errors import SparkError
from core.programs import SUBMITTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT: Final = "Spark Connect"
ANSWER_S: Final = 10.0
"""How long the master of a standalone cluster may take to accept a connection."""


def is_local(master: str | None) -> bool:
    """Whether this master runs tasks on this process's machine, by its name. None: the default."""
    return SUBMITTED not in os.environ if master is None else bool(re.match(r"local(\[|$)", master))


def master_of(session: "SparkSession") -> str:
    """Where a session runs its tasks. A server of Spark Connect has a master of its own, which may be local:
    to the server."""
    if not hasattr(session, "sparkContext"):
        return CONNECT
    return session.sparkContext.master or ""


def reach(master: str) -> None:
    """Raises: SparkError, where no master of a standalone cluster accepts a connection.

    Spark itself tries for a minute, and then ends the JVM.
    """
    found = re.fullmatch(r"spark://(?P<hosts>.+)", master)
    why: Exception | None = None
    for place in found["hosts"].split(",") if found else ():
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            why = error
    if found:
        raise SparkError(f"{master}: no Spark master answers ({why})")
