"""The program that the user named for the load clients, and what a client has to be able to do.

A run folder names kinds of clients, and no command (`harness.processes.user_program`).
"""

from collections.abc import Iterator
from typing import Final

from core.client_settings import SessionSpec
from core.extensions import CLIENT
from core.op import Isolation
from harness.clients.command.protocol import Can
from harness.processes.user_program import UserProgram

PROGRAM: Final = UserProgram(variable=CLIENT, option="--client", needed_by="clients=command")


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
