"""The cluster in memory: a `Cluster` with all capabilities of the simulated one; it serves sessions."""

import inspect
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import msgspec

from core.client_settings import SessionSpec
from core.cluster import Endpoint, NodeEnd
from core.config import RunConfig
from core.errors import ClusterError
from core.op import AssignmentKind, TopicPartition
from core.session import Acked, AssignmentEvent
from core.systems import SimulatedSection
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.session import SimSession
from model.mutants.registry import PLANTED
from tests.memory.real_time import RealTime

OF_MESSAGES = ("lose", "duplicate", "misplace")
BUG_EVERY = 40
"""A planted bug of messages strikes at every so-manyth offset of a partition."""


def _strikes(offset: int) -> bool:
    return offset % BUG_EVERY == BUG_EVERY - 1


class MemoryCluster:
    """`broker_settings`: `memory.bug` (see the package), `memory.start` (fail, slow), `memory.revive`
    (never, fail), `memory.ends` (never: no log is listed), `memory.trouble` (what `trouble` says),
    `memory.groups` (mute: from the first kill on they assign nothing to anybody)."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self.config = config
        self.bug = config.broker_settings.get("memory.bug", "")
        assert self.bug in ("", *OF_MESSAGES, *PLANTED), f"no bug {self.bug}"
        section = SimulatedSection(mutant="" if self.bug in OF_MESSAGES else self.bug)
        known = {n: v for n, v in config.broker_settings.items() if not n.startswith("memory.")}
        changed = {"sut": "simulated", "simulated": section, "broker_settings": known}
        self.time = RealTime()
        self.simulated = SimulatedCluster(config.model_copy(update=changed), self.time.scheduler)
        self.mute = False
        self._ends: list[NodeEnd] = []
        self._folder = tempfile.mkdtemp(prefix="inquest-memory-")
        self._path = os.path.join(self._folder, "socket")
        self._listener: Listener | None = None
        self._stopped = threading.Event()

    @property
    def nodes(self) -> tuple[int, ...]:
        return self.simulated.nodes

    @property
    def brokers(self) -> tuple[int, ...]:
        return self.simulated.brokers

    def setting(self, name: str) -> str:
        return self.config.broker_settings.get(f"memory.{name}", "")

    async def start(self) -> None:
        if self.setting("start") == "fail":
            raise ClusterError("broker 1 never came up; end of its log:\n  ERROR bad setting")
        if self.setting("start") == "slow":
            self._stopped.wait(60)
        self.time.begin(self.simulated.start())
        self._listener = Listener(self._path, "AF_UNIX")
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: Listener) -> None:
        while not self._stopped.is_set():
            try:
                connection = listener.accept()
            except OSError:
                return
            threading.Thread(target=Served(self, connection).serve, daemon=True).start()

    def endpoint(self) -> Endpoint:
        return Endpoint(factory="tests.memory.session:connect", args={"path": self._path})

    async def trouble(self) -> str:
        return self.setting("trouble")

    async def ended(self) -> Sequence[NodeEnd]:
        ends, self._ends = self._ends, []
        return ends

    def die(self, end: NodeEnd) -> None:
        """A node ends, and nobody had asked for it."""
        self.time.call(self.simulated.kill([end.node]))
        self._ends.append(end)

    async def offsets(self, *of: Any) -> dict[TopicPartition, tuple[int, int]]:
        return {} if self.setting("ends") == "never" else self.time.call(self.simulated.offsets(*of))

    async def kill(self, nodes: Sequence[int]) -> None:
        self.mute |= self.setting("groups") == "mute"
        self.time.call(self.simulated.kill(nodes))

    async def revive(self, nodes: Sequence[int]) -> None:
        if self.setting("revive") == "fail":
            raise ClusterError(f"nodes {list(nodes)} could not be started: port is already allocated")
        if self.setting("revive") != "never":
            self.time.call(self.simulated.revive(nodes))

    async def collect(self, into: Path) -> None:
        for node in self.nodes:
            (into / str(node)).mkdir(parents=True, exist_ok=True)
            (into / str(node) / "server.log").write_text("in memory\n")

    async def take_evidence(self, into: Path) -> list[str]:
        return []

    async def stop(self) -> None:
        self._stopped.set()
        self.time.end()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        Path(self._path).unlink(missing_ok=True)
        if os.path.isdir(self._folder):
            os.rmdir(self._folder)


def _in_real_time(name: str) -> Callable[..., Any]:
    async def verb(cluster: MemoryCluster, *args: Any, **options: Any) -> Any:
        return cluster.time.call(getattr(cluster.simulated, name)(*args, **options))

    return verb


SERVED: Any = MemoryCluster
"""Its type, as the verbs are added to it below."""
for _name, _ in inspect.getmembers(SimulatedCluster, inspect.iscoroutinefunction):
    if not hasattr(MemoryCluster, _name):
        setattr(MemoryCluster, _name, _in_real_time(_name))


class Served:
    """One client: requests (verb, arguments, options), replies (result, None) or (None, error)."""

    def __init__(self, cluster: MemoryCluster, connection: Connection) -> None:
        self._cluster = cluster
        self._time = cluster.time
        self._connection = connection
        self._group = False

    def serve(self) -> None:
        """Until the client goes: one that does so without `close` is dead at once."""
        spec: SessionSpec = self._connection.recv()
        self._group = spec.group is not None
        session = self._time.do(lambda: self._cluster.simulated.connect(spec))
        try:
            while True:
                verb, args, options = self._connection.recv()
                try:
                    self._connection.send((self._answer(session, verb, args, options), None))
                except Exception as error:  # noqa: BLE001 - the client raises it
                    self._connection.send((None, error))
        except (EOFError, OSError):
            session.dead = True

    def _answer(self, session: SimSession, verb: str, args: Any, options: Any) -> Any:
        bug = self._cluster.bug
        if verb == "poll" and self._cluster.mute and self._group:
            time.sleep(args[1] / 1000)
            return []
        if verb == "send" and bug == "duplicate":
            args = ([one for record in args[0] for one in (record, record)], *args[1:])
        found = getattr(session, verb)
        if inspect.iscoroutinefunction(found):
            result = self._time.call(found(*args, **options))
        else:
            result = self._time.do(lambda: found(*args, **options) if callable(found) else found)
        match verb, bug:
            case "send", "duplicate":
                return result[::2]
            case "send", "misplace":
                return [_misplaced(one) for one in result]
            case "poll", "lose":
                return [one for one in result if not _strikes(one.offset)]
            case "events", _ if self._cluster.mute:
                return [one for one in result if not _assigned(one)]
        return result


def _misplaced(delivery: Any) -> Any:
    if isinstance(delivery, Acked) and _strikes(delivery.offset):
        return msgspec.structs.replace(delivery, offset=delivery.offset - 1)
    return delivery


def _assigned(event: object) -> bool:
    return isinstance(event, AssignmentEvent) and event.kind is AssignmentKind.ASSIGNED
