"""Masters of Spark: what their names say, and whether they answer."""

import os
import re
import socket
from typing import TYPE_CHECKING, Final

from core.errors import SparkError, UsageError
from core.programs import SUBMITTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = re.compile(
    r"local|local\[(\*|[0-9]{1,4})(,[0-9]{1,4})?\]|local-cluster\[[0-9]+,[0-9]+,[0-9]+\]"
    r"|spark://[^\s,/:]+:[0-9]{1,5}(,[^\s,/:]+:[0-9]{1,5})*|yarn|k8s://\S+|sc://\S+"
)
"""What Spark takes for a master."""
CONNECT: Final = "Spark Connect"
CONNECT_PORT: Final = 15002
"""Where a URL names none."""
ANSWER_S: Final = 10.0
"""How long a master or server may take to accept a connection."""


def refuse_unknown(master: str) -> None:
    """Raises: UsageError, for what no Spark takes."""
    if MASTER.fullmatch(master) is None:
        raise UsageError(f"--master {master!r}: local[4], spark://host:7077, yarn, k8s://… or sc://host")


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
    """Raises: SparkError, where no master of a standalone cluster, or no server of Spark Connect, accepts a
    connection.

    Spark itself tries for a minute, and then ends the JVM; the client of Spark Connect for ten.
    """
    found = re.fullmatch(r"(?P<kind>spark|sc)://(?P<hosts>[^/]+)(/.*)?", master)
    why: Exception | None = None
    for place in found["hosts"].split(",") if found else ():
        host, port = re.fullmatch(r"(.*?)(?::([0-9]+))?", place).groups()  # type: ignore[union-attr]
        try:
            socket.create_connection((host.strip("[]"), int(port or CONNECT_PORT)), ANSWER_S).close()
            return
        except (OSError, OverflowError) as error:
            why = error
    if found:
        what = "server of Spark Connect" if found["kind"] == "sc" else "Spark master"
        raise SparkError(f"{master}: no {what} answers ({why})")
