"""The reaper of a run on an external cluster: it heals and clears up after a harness that was killed.

`python -m harness.external.reaper <order>` reads the cluster's file, then waits as `harness.processes.reaper`
says. Where the harness was killed, the reaper waits for hooks that are under way: one that shuts a node down
takes it away seconds after. Then it runs all hooks that heal, on all nodes, moves replicas of internal topics
back, and deletes what the run's prefix begins. It claims the cluster for that, as a run does: beside another
run it does nothing. What stays it names, on stderr and in the run's folder. Secrets come to it as to the
harness: by the environment.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from core.cluster import Address
from core.errors import ClusterError
from core.terminal import say
from harness.brokers.admin.connection import Brokers
from harness.containers import claims
from harness.external import belongings, named, placements
from harness.external.file import secured
from harness.external.hooks import HookRunner
from harness.external.nodes import Means
from harness.processes.guard import ended
from harness.processes.reaper import Reaper, heard, start_program
from harness.processes.waiting import NotYet, not_yet, until

LOG: Final = "reaper.log"
CLAIM_S: Final = 120.0
"""A harness that has its reaper act gives its claim up at once; a run that is refused, within a minute."""
TIMES: Final = 2
"""A node may end after it was healed: the engine carries out what a hook had asked it for."""


class ReaperOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a reaper has to know. nodes: by what means hooks reach all of them. brokers: where each listens,
    host and port. ids: transactional ids of the run. log: file that it writes into, "" = none."""

    nodes: Means
    brokers: Mapping[int, tuple[str, int]]
    cluster: str
    prefix: str
    ids: tuple[str, ...] = ()
    log: str = ""


def order_of(
    nodes: Means, brokers: Brokers, prefix: str, *, ids: Sequence[str] = (), log: str = ""
) -> ReaperOrder:
    """The order of a run."""
    listeners = {node: (its.host, its.port) for node, its in brokers.addresses.items()}
    its = brokers.cluster
    return ReaperOrder(nodes=nodes, brokers=listeners, cluster=its, prefix=prefix, ids=tuple(ids), log=log)


def start_reaper(order: ReaperOrder) -> Reaper:
    """It watches until this process ends or dismisses it. Raises: OSError."""
    return start_program(f"{__package__}.reaper", msgspec.json.encode(order).decode())


def main(arguments: list[str]) -> int:
    """Wait for the end of stdin, then act unless dismissed."""
    order = msgspec.json.decode(arguments[0], type=ReaperOrder)
    file = named.load()
    its = secured(file)
    ports = {node: port for node, (_, port) in order.brokers.items()}
    hooks = HookRunner(file, order.nodes, its.without_secrets, ports)
    listeners = {node: Address(*where) for node, where in order.brokers.items()}
    brokers = Brokers(listeners, its.security, cluster=order.cluster)
    if (last := heard()) is None:
        return 0
    try:
        claim = until(CLAIM_S, belongings.PAUSE_S, lambda: _claim(brokers))
    except NotYet as error:
        _note(order, [f"nothing was healed or deleted: {error}; `inquest doctor --cluster FILE` does both"])
        return 1
    nodes = tuple(order.nodes.names)
    failed = healed(
        hooks, nodes, lambda: must_have_ended(last.running), lambda: belongings.all_listed(brokers)
    )
    _note(order, failed or ["all nodes are healed"])
    moved = placements.put_back(brokers, placements.decoded(last.notes))
    left = belongings.remove(brokers, order.prefix)
    claim.release()
    gone = [f"no topic and no group is left of {order.prefix}"]
    _note(order, [*moved, *(left or gone), *belongings.staying(order.ids)])
    return 1 if failed or moved or left else 0


@not_yet(ClusterError)
def _claim(brokers: Brokers) -> claims.Claim:
    """Raises: NotYet, where another process has claimed the cluster."""
    return belongings.claim(brokers)


def healed(
    hooks: HookRunner, nodes: Sequence[int], over: Callable[[], object], listed: Callable[[], object]
) -> list[str]:
    """Heal these nodes, and once more where not all brokers answer after that; what could not be healed, in
    sentences. over: raises NotYet where hooks of the harness still run. listed: where a broker does not
    answer."""
    failed, running = [], _missing(hooks.deadline_s, over)
    for _ in range(TIMES):
        failed = hooks.heal(nodes)
        if not (silent := _missing(belongings.BACK_S, listed)):
            return running + failed
    return [*running, *failed, *(f"not all brokers answer: {why}" for why in silent)]


def _missing(within_s: float, look: Callable[[], object]) -> list[str]:
    """Wait for something; why it is not there, in a sentence, none = it is."""
    try:
        until(within_s, belongings.PAUSE_S, look)
    except NotYet as error:
        return [str(error)]
    return []


def must_have_ended(running: Sequence[int]) -> None:
    """Raises: NotYet, where one of these processes runs."""
    for pid in running:
        with suppress(ProcessLookupError, PermissionError):  # another user's: the number is given again
            os.kill(pid, 0)
            if ended(pid):  # and nothing has waited for it
                continue
            raise NotYet(f"a hook of the harness still runs, process {pid}: what it does later stays")


def _note(order: ReaperOrder, lines: list[str]) -> None:
    for line in lines:
        say(f"reaper: {line}")
    if order.log:
        with suppress(OSError), Path(order.log).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
