"""The command that the user named for the load clients, for this process and its children.

`--client` puts it into a variable of the environment, as files of extensions are named (`core.extensions`): a
run folder names kinds of clients, and no command, so that no recording of a stranger's starts a program here.
"""

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from core.client_settings import SessionSpec
from core.errors import ConfigError
from core.extensions import CLIENT
from core.op import Isolation
from core.programs import BASE
from harness.clients.command.protocol import Can


def name(command: str) -> None:
    """Name the command. Raises: ConfigError, where it cannot be started."""
    os.environ[CLIENT] = command
    words()


def words() -> list[str]:
    """The command. Raises: ConfigError, where none is named, or it cannot be started."""
    given = os.environ.get(CLIENT, "")
    try:
        found = shlex.split(given)
    except ValueError as error:
        raise ConfigError(f"--client {given!r}: {error}") from None
    if not found:
        raise ConfigError(
            f"clients=command: name the program with --client, or in {CLIENT}; no recording brings one"
        )
    if shutil.which(found[0]) is None:
        why = "cannot be executed" if Path(found[0]).exists() else "no such program"
        raise ConfigError(f"--client {found[0]}: {why}")
    return found


def environment() -> dict[str, str]:
    """The environment of the program: the user's, without the folder of this code, whose packages have names
    that its own may have."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [part for part in path if part and part != str(BASE)]
    others = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {**others, **({"PYTHONPATH": os.pathsep.join(kept)} if kept else {})}


def needs(spec: SessionSpec) -> Iterator[Can]:
    """What the client of a session has to be able to do."""
    if spec.acks is not None:
        yield Can.PRODUCE
    if spec.acks:
        yield Can.OFFSETS
    if spec.idempotent:
        yield Can.IDEMPOTENCE
    if spec.transactional_id is not None:
        yield Can.TRANSACTIONS
    if spec.isolation is not Isolation.NONE:
        yield Can.CONSUME
    if spec.isolation is Isolation.READ_COMMITTED:
        yield Can.READ_COMMITTED
    if spec.group is not None:
        yield Can.GROUPS
