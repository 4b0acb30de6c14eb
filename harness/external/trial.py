"""`inquest doctor --cluster FILE`: is the cluster one that a run can use, and does each hook do what it says?

Each node is broken by each hook, seen to be broken, healed, and seen to be back, one after the other. A node
that is ended, stands still or drops what clients send answers no question; one that was healed does. Brokers
that drop what the others send are fenced by the controller, or see that it has fenced the others.
"""

import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from core.capabilities import Cut, Direction
from core.errors import ClusterError, ConfigError
from core.terminal import say
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import AdminError, BrokerConnection, Brokers
from harness.brokers.admin.protocol import view
from harness.brokers.admin.settings import BROKER, described
from harness.external import belongings, named
from harness.external.disks import DATA
from harness.external.hooks import PAIRS, HookRunner
from harness.external.means import commands, judges_disks
from harness.external.nodes import Means
from harness.external.reaper import order_of, start_reaper
from harness.external.survey import ROLES, SESSION, unjudged
from harness.processes.reaper import Reaper
from harness.processes.waiting import NotYet, on_each, until

ASK_S: Final = 2.0
BROKEN_S: Final = 10.0
BACK_S: Final = 90.0
"""A broker that is started reads its logs first."""
POLL_S: Final = 0.5


class TrialLine(NamedTuple):
    """One line: what was tried, what came out, and whether that is as it has to be."""

    subject: str
    well: bool
    found: str


def trial() -> Generator[TrialLine]:
    """Try the cluster that is named. What the prefix begins is deleted first. Where the trial is closed or
    interrupted, the nodes are healed; what could not be is said on the terminal.

    Raises: ConfigError, ClusterError, where it cannot be used at all.
    """
    reached = named.reach()
    found = reached.found
    brokers = Brokers(found.brokers, reached.client.security, cluster=found.cluster)
    numbers = ", ".join(map(str, reached.brokers))
    session = f"session timeout {int(found.settings[SESSION]) / 1000:g} s"
    yield TrialLine("cluster", True, f"{found.cluster or 'without an id'}: brokers {numbers}; {session}")
    hooks = commands(reached.file, reached.nodes.lacks)
    if why := unjudged(found.settings, disks=judges_disks(reached.file, hooks)):
        yield TrialLine("settings", False, why)
    claim = belongings.claim(brokers)
    try:
        yield from _on_cluster(reached, brokers)
    finally:
        claim.release()


def _on_cluster(reached: named.Reached, brokers: Brokers) -> Iterator[TrialLine]:
    file, nodes, prefix = reached.file, reached.nodes, reached.file.cluster.prefix
    if left := belongings.remove(brokers, prefix):
        yield TrialLine("prefix", False, "; ".join(left))
        return
    if why := belongings.refusal(brokers, prefix, belongings.BACK_S, owned=named.owned()):
        raise ConfigError(why)
    yield TrialLine("prefix", True, f"nothing is left of {prefix}")
    if nodes.text:
        yield TrialLine("nodes", True, nodes.text)
    for hook, why in nodes.lacks.items():
        if hook not in file.hooks.commands:
            yield TrialLine(f"hook {hook}", True, f"there is none: {why}")
    if not commands(file, nodes.lacks):
        yield TrialLine("hooks", True, "none: client, elections, reassign, add-partitions and wire need none")
        return
    names = nodes.names
    ports = {node: where.port for node, where in reached.found.brokers.items()}
    hooks = HookRunner(file, nodes, reached.client.without_secrets, ports)
    reaper = start_reaper(order_of(nodes, brokers, prefix))
    hooks.during = reaper.during
    try:
        yield from _hooks(hooks, brokers, names)
        if file.cluster.profile == "kafka" and hooks.has("cut") and hooks.has("mend"):
            session_s = int(reached.found.settings[SESSION]) / 1000
            cut_off = brokers.nodes if _names_controllers(nodes, brokers) else ()
            yield from (_cut_off(hooks, brokers, node, names, session_s) for node in cut_off)
    except BaseException:
        _given_up(hooks, tuple(names), reaper)
        raise
    failed = hooks.heal(tuple(names))
    reaper.dismiss()
    yield TrialLine("healing", not failed, "; ".join(failed) or "all hooks that heal, on all nodes at once")


def _given_up(hooks: HookRunner, nodes: Sequence[int], reaper: Reaper) -> None:
    """Heal the nodes of a trial that ends early. What stays broken is named, and the reaper tries again."""
    try:
        failed = hooks.heal(nodes)
    except KeyboardInterrupt:
        failed = ["the hooks that heal were interrupted"]
    for why in failed:
        say(f"{why}; the reaper tries again in the background")
    if failed:
        reaper.act()
    else:
        reaper.dismiss()


def _hooks(hooks: HookRunner, brokers: Brokers, names: Mapping[int, str]) -> Iterator[TrialLine]:
    for breaks, heals in PAIRS.values():
        for node in names if hooks.has(breaks) and hooks.has(heals) else ():
            subject = f"{breaks}, {heals}: node {node}"
            try:
                yield TrialLine(subject, True, _tried(hooks, brokers, breaks, heals, node))
            except ClusterError as error:
                yield TrialLine(subject, False, str(error))
    for node in names if hooks.has("collect") else ():
        yield _collected(hooks, node)


def _tried(hooks: HookRunner, brokers: Brokers, breaks: str, heals: str, node: int) -> str:
    """Break a node and heal it; what was seen. Raises: ClusterError."""
    with _healed(hooks, heals, node):
        if node not in brokers.nodes:
            _run(hooks, breaks, node)
        elif heals == "revive":
            _end(hooks, brokers, breaks, node)
        else:
            _run(hooks, breaks, node)
            until(BROKEN_S, POLL_S, lambda: _must_answer(brokers, node, after=breaks, whether=False))
    if node not in brokers.nodes:
        return "both ended well; a controller is not asked"
    until(BACK_S, POLL_S, lambda: _must_answer(brokers, node, after=heals, whether=True))
    return "it did not answer, and answers again"


@contextmanager
def _healed(hooks: HookRunner, heals: str, node: int) -> Iterator[None]:
    """Heal the node after the block, not after an interrupt: the hook that breaks it may then still run. Who
    ends the trial waits for that one. Raises: ClusterError."""
    try:
        yield
    except ClusterError:
        _run(hooks, heals, node)
        raise
    _run(hooks, heals, node)


def _names_controllers(nodes: Means, brokers: Brokers) -> bool:
    """Whether a broker that is cut off from all nodes that the file names is fenced: its controllers are
    among them, and most of these are left. With ZooKeeper, or controllers that the file does not name, its
    session lasts."""
    if nodes.controllers:
        return True
    try:
        with brokers.connect(brokers.nodes[0], ASK_S) as connection:
            known = described(BROKER, {str(brokers.nodes[0]): (ROLES,)}, connection)
    except AdminError:
        return False
    return len(brokers.nodes) > 2 and "controller" in (known[str(brokers.nodes[0])].get(ROLES) or "")


def _cut_off(
    hooks: HookRunner, brokers: Brokers, node: int, names: Iterable[int], session_s: float
) -> TrialLine:
    """Cut a broker off from the other nodes, and mend it; what was seen."""
    subject = f"cut from other nodes, mend: node {node}"
    peers = [other for other in names if other != node]
    cuts = [Cut(node=node, direction=way, peer=other) for other in peers for way in Direction]
    try:
        with _healed(hooks, "mend", node):
            on_each(lambda one: hooks.links(one, cuts), (node,))  # in a thread: as `_run`
            until(session_s + BROKEN_S, POLL_S, lambda: _must_be_whole(brokers, whether=False))
        until(session_s + BACK_S, POLL_S, lambda: _must_be_whole(brokers, whether=True))
    except ClusterError as error:
        return TrialLine(subject, False, str(error))
    return TrialLine(subject, True, "brokers lost sight of each other, and see each other again")


def _must_be_whole(brokers: Brokers, *, whether: bool) -> None:
    """Raises: NotYet, where all brokers see all others that must not, or do not that must."""
    views, every = broker_views.ask_all(brokers, view), frozenset(brokers.nodes)
    seen = all(one.brokers == every for one in views.values())
    if seen and not whether:  # that one does not answer is another matter
        raise NotYet("after the hook cut all brokers still see each other")
    if whether and not (seen and len(views) == len(every)):
        raise NotYet("after the hook mend not all brokers see each other")


def _end(hooks: HookRunner, brokers: Brokers, breaks: str, node: int) -> None:
    """End a node; a connection from before has to be of no use then. One that something else starts again at
    once may answer new ones by now. Raises: ClusterError."""
    try:
        with brokers.connect(node, hooks.deadline_s + BROKEN_S) as connection:
            _run(hooks, breaks, node)
            until(BROKEN_S, POLL_S, lambda: _must_be_dead(connection, breaks))
    except AdminError as error:
        raise ClusterError(f"before the hook {breaks} the broker does not answer: {error}") from None


def _must_be_dead(connection: BrokerConnection, after: str) -> None:
    """Raises: NotYet, where the broker still answers."""
    try:
        connection.cluster()
    except AdminError:
        return
    raise NotYet(f"after the hook {after} the broker still answers")


def _run(hooks: HookRunner, hook: str, node: int) -> None:
    """Run a hook in a thread, which an interrupt does not reach: healing waits for a hook that still runs."""
    on_each(lambda one: _run_here(hooks, hook, one), (node,))


def _run_here(hooks: HookRunner, hook: str, node: int) -> None:
    match hook:
        case "cut":
            hooks.links(node, [Cut(node=node, direction=Direction.IN)])
        case "mend":
            hooks.links(node, [])
        case _:
            hooks.on_node(hook, node)


def _must_answer(brokers: Brokers, node: int, *, after: str, whether: bool) -> None:
    """Raises: NotYet, where a broker answers that must not, or does not answer that must."""
    try:
        with brokers.connect(node, ASK_S) as connection:
            connection.cluster()
    except AdminError as error:
        if whether:
            raise NotYet(f"after the hook {after} the broker does not answer: {error}") from None
    else:
        if not whether:
            raise NotYet(f"after the hook {after} the broker still answers")


def _collected(hooks: HookRunner, node: int) -> TrialLine:
    subject = f"collect: node {node}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / DATA).mkdir()
        try:
            hooks.on_node("collect", node, INQUEST_TARGET=folder)
        except ClusterError as error:
            return TrialLine(subject, False, str(error))
        partitions = sum(path.is_dir() for path in (Path(folder) / DATA).iterdir())
        log = "its log" if (Path(folder) / "server.log").exists() else "no server.log"
    return TrialLine(subject, True, f"{log}, and {partitions} folders of its disk")
